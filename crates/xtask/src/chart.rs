//! `cargo xtask chart`: the bars of the README, from the table of docs/performance.

/// Document with the table.
const SOURCE: &str = "docs/performance/README.md";

/// The picture.
pub const PICTURE: &str = "docs/pictures/cpu.svg";

/// Begin of the table's head; its columns are load, ours, RabbitMQ's, ratio.
const HEAD: &str = "| load | Leveret, ns |";

/// Pixels: of the whole, of the labels on the left, of a bar, and of a load with its two bars.
const WIDTH: f64 = 760.0;
const LABELS: f64 = 200.0;
const BAR: f64 = 15.0;
const GROUP: f64 = 48.0;
const TOP: f64 = 78.0;
const MARGIN_RIGHT: f64 = 90.0;

/// One load of the table.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    load: String,
    /// Nanoseconds of CPU for a message: ours, then RabbitMQ's.
    ns: [f64; 2],
}

/// The picture, from the documents.
///
/// # Errors
/// The document has no such table.
pub fn draw(files: &[(String, String)]) -> Result<String, String> {
    let text = files.iter().find(|(name, _)| name == SOURCE).map(|(_, text)| text.as_str());
    let rows = rows(text.ok_or_else(|| format!("{SOURCE} is not there"))?);
    if rows.is_empty() {
        return Err(format!("{SOURCE} has no table that begins with {HEAD}"));
    }
    Ok(svg(&rows))
}

/// The picture that is kept, where it is not the one of the table.
pub fn complaints(files: &[(String, String)]) -> Vec<String> {
    let kept = files.iter().find(|(name, _)| name == PICTURE).map(|(_, text)| text);
    match draw(files) {
        Err(why) => vec![why],
        Ok(drawn) if kept == Some(&drawn) => Vec::new(),
        Ok(_) => vec![format!("{PICTURE} is not that of the table: cargo xtask chart")],
    }
}

/// The rows of the table that have two figures.
fn rows(text: &str) -> Vec<Row> {
    let table = text.lines().skip_while(|line| !line.starts_with(HEAD));
    let table = table.skip(2).take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let figure = |at: usize| cells.get(at)?.replace(',', "").parse::<f64>().ok().filter(|ns| *ns > 0.0);
        Some(Row { load: (*cells.first()?).to_owned(), ns: [figure(1)?, figure(2)?] })
    };
    table.filter_map(row).collect()
}

/// Powers of ten around all figures.
fn decades(rows: &[Row]) -> (i32, i32) {
    let logs = rows.iter().flat_map(|row| row.ns).map(f64::log10);
    let (low, high) = logs.fold((f64::MAX, f64::MIN), |(low, high), log| (low.min(log), high.max(log)));
    (low.floor() as i32, high.ceil() as i32)
}

/// A time in the unit that a reader expects.
fn time(ns: f64) -> String {
    match ns {
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e4 => format!("{:.1} µs", ns / 1e3).replace(".0 ", " "),
        _ if ns < 1e6 => format!("{:.0} µs", ns / 1e3),
        _ => format!("{:.0} ms", ns / 1e6),
    }
}

fn svg(rows: &[Row]) -> String {
    let (low, high) = decades(rows);
    let scale = (WIDTH - LABELS - MARGIN_RIGHT) / f64::from((high - low).max(1));
    let place = |ns: f64| LABELS + (ns.log10() - f64::from(low)) * scale;
    let bottom = TOP + GROUP * rows.len() as f64;
    let height = bottom + 28.0;
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-labelledby="title">
<title id="title">CPU time for one message, Leveret and RabbitMQ 4.3.6, on a logarithmic scale</title>
<style>
text {{ font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }}
.head {{ font-size: 15px; font-weight: 600; }}
.axis {{ fill: #59636e; font-size: 12px; }}
.line {{ stroke: #d1d9e0; stroke-width: 1; }}
.ours {{ fill: #1a7f64; }}
.theirs {{ fill: #b8763c; }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #f0f6fc; }}
.axis {{ fill: #9198a1; }}
.line {{ stroke: #3d444d; }}
.ours {{ fill: #3fb995; }}
.theirs {{ fill: #d99a5b; }}
}}
</style>
<text class="head" x="0" y="18">CPU time for one message</text>
<rect class="ours" x="0" y="34" width="12" height="12" rx="2"/><text x="18" y="45">Leveret</text>
<rect class="theirs" x="90" y="34" width="12" height="12" rx="2"/><text x="108" y="45">RabbitMQ 4.3.6</text>
<text class="axis" x="{WIDTH}" y="45" text-anchor="end">logarithmic: each line is ten times the one before</text>
"##
    );
    for power in low..=high {
        let x = LABELS + f64::from(power - low) * scale;
        let label = time(10f64.powi(power));
        svg.push_str(&format!(
            "<line class=\"line\" x1=\"{x:.1}\" y1=\"{}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\n",
            TOP - 14.0
        ));
        svg.push_str(&format!(
            "<text class=\"axis\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>\n",
            bottom + 18.0
        ));
    }
    for (at, row) in rows.iter().enumerate() {
        let y = TOP + GROUP * at as f64;
        svg.push_str(&format!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            LABELS - 10.0,
            y + BAR + 4.0,
            escape(&row.load)
        ));
        for (which, (class, ns)) in ["ours", "theirs"].into_iter().zip(row.ns).enumerate() {
            let y = y + which as f64 * (BAR + 2.0);
            let x = place(ns);
            svg.push_str(&format!(
                "<rect class=\"{class}\" x=\"{LABELS}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\"/>\n",
                x - LABELS
            ));
            svg.push_str(&format!(
                "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
                x + 6.0,
                y + BAR - 3.0,
                time(ns)
            ));
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "x\n| load | Leveret, ns | RabbitMQ 4.3.6, ns | ratio |\n|---|---|---|---|\n\
        | a < b | 50 | 30,246 | 600 |\n| c | | 5 | |\n\n| d | 1 | 2 | 2 |\n";

    #[test]
    fn the_table_is_read() {
        assert_eq!(rows(TABLE), [Row { load: "a < b".to_owned(), ns: [50.0, 30_246.0] }]);
        assert_eq!(decades(&rows(TABLE)), (1, 5));
        assert_eq!(rows("nothing"), []);
    }

    #[test]
    fn times_have_a_unit() {
        let check = |ns: f64, expected: &str| assert_eq!(time(ns), expected);
        check(50.0, "50 ns");
        check(926.0, "926 ns");
        check(1000.0, "1 µs");
        check(9_260.0, "9.3 µs");
        check(30_246.0, "30 µs");
        check(2e6, "2 ms");
    }

    #[test]
    fn a_picture_of_other_figures_is_found() {
        let source = (SOURCE.to_owned(), TABLE.to_owned());
        let drawn = draw(std::slice::from_ref(&source)).expect("has a table");
        assert!(drawn.contains("a &lt; b") && drawn.contains("30 µs"), "{drawn}");
        assert!(complaints(&[source.clone(), (PICTURE.to_owned(), drawn)]).is_empty());
        assert_eq!(complaints(&[source.clone(), (PICTURE.to_owned(), "old".to_owned())]).len(), 1);
        assert_eq!(complaints(&[source]).len(), 1);
        assert_eq!(complaints(&[]).len(), 1);
    }
}
