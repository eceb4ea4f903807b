//! Cells of a terminal's screen, drawn as an SVG: a window on which each run of like cells is one text.
//!
//! Widths of fonts differ, so each run says where it begins and how wide it is, and blocks of bars are rectangles.

use std::fmt::Write;
use vt100::{Color, Screen};

/// Pixels of a cell, of its letters and of the window around the cells.
const COLUMN: f64 = 7.8;
const LINE: f64 = 17.0;
const LETTERS: f64 = 13.0;
const BASE: f64 = 12.5;
const MARGIN: f64 = 14.0;
const BAR: f64 = 30.0;

/// The window's own colours; the first sixteen of a terminal. They are the same on light and on dark pages.
const GROUND: &str = "#161b22";
const INK: &str = "#e6edf3";
const WEAK: &str = "#9198a1";
const PALETTE: [&str; 16] = [
    "#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4", "#6e7681",
    "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff",
];

/// How a cell looks. No colour is that of the window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    ink: Option<String>,
    ground: Option<String>,
    is_bold: bool,
    is_weak: bool,
    is_underlined: bool,
}

/// Cells of a line, side by side, that look alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    column: usize,
    columns: usize,
    text: String,
    look: Look,
}

/// The lines of a screen, without those below the last that shows something.
pub fn lines(screen: &Screen) -> Vec<Vec<Run>> {
    let (lines, columns) = screen.size();
    let mut all: Vec<Vec<Run>> = (0..lines.get()).map(|line| runs(screen, line, columns.get())).collect();
    while all.last().is_some_and(Vec::is_empty) {
        all.pop();
    }
    all
}

fn runs(screen: &Screen, line: u16, columns: u16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(line, column).filter(|cell| !cell.is_wide_continuation()) else {
            continue;
        };
        let text = if cell.has_contents() { cell.contents() } else { " " };
        let (column, columns) = (usize::from(column), if cell.is_wide() { 2 } else { 1 });
        let look = look(cell);
        // Two blanks end a run: the next word begins at its own place, whatever the font.
        let is_gap = text == " " && look.ground.is_none() && !look.is_underlined;
        match runs.last_mut() {
            Some(run) if is_gap && run.text.ends_with(' ') => {}
            Some(run) if run.look == look && run.column + run.columns == column => {
                run.text.push_str(text);
                run.columns += columns;
            }
            _ if is_gap => {}
            _ => runs.push(Run { column, columns, text: text.to_owned(), look }),
        }
    }
    for run in runs.iter_mut().filter(|run| run.look.ground.is_none() && !run.look.is_underlined) {
        run.columns -= run.text.chars().count() - run.text.trim_end().chars().count();
        run.text.truncate(run.text.trim_end().len());
    }
    runs
}

fn look(cell: &vt100::Cell) -> Look {
    let (mut ink, mut ground) = (colour(cell.fgcolor()), colour(cell.bgcolor()));
    if cell.inverse() {
        (ink, ground) = (ground.or(Some(GROUND.to_owned())), ink.or(Some(INK.to_owned())));
    }
    Look {
        ink,
        ground,
        is_bold: cell.bold(),
        is_weak: cell.dim(),
        is_underlined: cell.underline() && cell.contents() != " ",
    }
}

/// A colour of a terminal: its sixteen, the cube of six by six by six, grey, or its own.
fn colour(colour: Color) -> Option<String> {
    let rgb = |red: u8, green: u8, blue: u8| format!("#{red:02x}{green:02x}{blue:02x}");
    match colour {
        Color::Default => None,
        Color::Rgb(red, green, blue) => Some(rgb(red, green, blue)),
        Color::Idx(at @ 0..16) => Some(PALETTE[usize::from(at)].to_owned()),
        Color::Idx(at @ 16..232) => {
            let level = |part: u8| if part == 0 { 0 } else { 55 + 40 * part };
            let at = at - 16;
            Some(rgb(level(at / 36), level(at / 6 % 6), level(at % 6)))
        }
        Color::Idx(at) => {
            let grey = 8 + 10 * (at - 232);
            Some(rgb(grey, grey, grey))
        }
    }
}

/// Eighths of a cell that a block fills from below.
fn eighths(letter: char) -> Option<u32> {
    ('▁'..='█').contains(&letter).then(|| u32::from(letter) - u32::from('▁') + 1)
}

/// The picture of a terminal with so many columns; `title` stands on the window, `about` is for those who cannot see.
pub fn svg(lines: &[Vec<Run>], columns: usize, title: &str, about: &str) -> String {
    let width = columns as f64 * COLUMN + 2.0 * MARGIN;
    let height = BAR + lines.len() as f64 * LINE + MARGIN;
    let (title, about) = (escape(title), escape(about));
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img" aria-labelledby="title desc">
<title id="title">{title}</title>
<desc id="desc">{about}</desc>
<style>
text {{ font: {LETTERS}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: {INK}; white-space: pre; }}
.b {{ font-weight: 600; }}
.w {{ fill: {WEAK}; }}
.u {{ text-decoration: underline; }}
.n {{ font-family: system-ui, -apple-system, "Segoe UI", sans-serif; fill: {WEAK}; }}
</style>
<rect x="0.5" y="0.5" width="{:.0}" height="{:.0}" rx="8" fill="{GROUND}" stroke="#57606a"/>
<g fill="#57606a"><circle cx="18" cy="15" r="5"/><circle cx="35" cy="15" r="5"/><circle cx="52" cy="15" r="5"/></g>
<text class="n" x="{:.0}" y="19" text-anchor="middle">{title}</text>
"##,
        width - 1.0,
        height - 1.0,
        width / 2.0,
    );
    for (at, runs) in lines.iter().enumerate() {
        let top = BAR + at as f64 * LINE;
        runs.iter().for_each(|run| draw(&mut svg, run, top));
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw(svg: &mut String, run: &Run, top: f64) {
    let left = MARGIN + run.column as f64 * COLUMN;
    let width = run.columns as f64 * COLUMN;
    if let Some(ground) = &run.look.ground {
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{LINE}\" fill=\"{ground}\"/>"
        );
    }
    if run.text.chars().any(|letter| eighths(letter).is_some()) {
        return draw_bars(svg, run, top);
    }
    let marks = [(run.look.is_bold, "b"), (run.look.is_weak, "w"), (run.look.is_underlined, "u")];
    let marks: Vec<&str> = marks.iter().filter(|(is_so, _)| *is_so).map(|(_, mark)| *mark).collect();
    let class = if marks.is_empty() { String::new() } else { format!(" class=\"{}\"", marks.join(" ")) };
    let ink = run.look.ink.as_ref().map_or(String::new(), |ink| format!(" style=\"fill:{ink}\""));
    for (at, words) in words(&run.text) {
        // Cells that take two columns are in no run that has gaps: a run's width is then that of its letters.
        let count = if words == run.text { run.columns } else { words.chars().count() };
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" textLength=\"{:.1}\"{class}{ink}>{}</text>",
            left + at as f64 * COLUMN,
            top + BASE,
            count as f64 * COLUMN,
            escape(words)
        );
    }
}

/// Parts of a text between gaps of two blanks and more, which pages do not keep, with the letters in front of each.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let (mut at, mut rest) = (0, text);
    while !rest.is_empty() {
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        (at, rest) = (at + blanks, &rest[blanks..]);
        let end = rest.find("  ").unwrap_or(rest.len());
        let part = rest[..end].trim_end_matches(' ');
        if !part.is_empty() {
            found.push((at, part));
        }
        (at, rest) = (at + rest[..end].chars().count(), &rest[end..]);
    }
    found
}

/// Bars of a run; those of one height, side by side, are one rectangle.
fn draw_bars(svg: &mut String, run: &Run, top: f64) {
    let ink = run.look.ink.as_deref().unwrap_or(if run.look.is_weak { WEAK } else { INK });
    let letters: Vec<char> = run.text.chars().collect();
    let mut at = 0;
    while let Some(letter) = letters.get(at) {
        let count = letters[at..].iter().take_while(|other| *other == letter).count();
        if let Some(eighths) = eighths(*letter) {
            let height = LINE * f64::from(eighths) / 8.0;
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{ink}\" \
                 shape-rendering=\"crispEdges\"/>",
                MARGIN + (run.column + at) as f64 * COLUMN,
                top + LINE - height,
                count as f64 * COLUMN,
            );
        }
        at += count;
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU16;

    fn screen(text: &str) -> Vec<Vec<Run>> {
        let size = |number| NonZeroU16::new(number).expect("not zero");
        let mut terminal = vt100::Parser::new(size(4), size(20), 0);
        terminal.process(text.as_bytes());
        lines(terminal.screen())
    }

    #[test]
    fn escape_text_becomes_runs_of_cells() {
        let check = |text: &str, expected: &[(usize, usize, &str)]| {
            let found = screen(text);
            let found: Vec<(usize, usize, &str)> =
                found.iter().flatten().map(|run| (run.column, run.columns, run.text.as_str())).collect();
            assert_eq!(found, expected, "{text:?}");
        };
        check("", &[]);
        check("one two", &[(0, 7, "one two")]);
        check("one   two ", &[(0, 3, "one"), (6, 3, "two")]);
        check("  a\r\nb", &[(2, 1, "a"), (0, 1, "b")]);
        check("a\x1b[1mb\x1b[0mc", &[(0, 1, "a"), (1, 1, "b"), (2, 1, "c")]);
        check("\x1b[7m a  \x1b[0m", &[(0, 4, " a  ")]);
        check("a\x1b[2J\x1b[2;3Hb", &[(2, 1, "b")]);
        check("▁▁█ x", &[(0, 5, "▁▁█ x")]);
        check("兎a", &[(0, 3, "兎a")]);
    }

    #[test]
    fn cells_become_parts_of_the_picture() {
        let check = |text: &str, expected: &str| {
            let drawn = svg(&screen(text), 20, "a <b>", "c");
            assert!(drawn.contains(expected), "{text:?}: {drawn}");
            assert!(
                drawn.contains("role=\"img\"") && drawn.contains("<title id=\"title\">a &lt;b&gt;</title>")
            );
            assert!(drawn.contains("<desc id=\"desc\">c</desc>") && drawn.ends_with("</svg>\n"));
        };
        check("a<b", "<text x=\"14.0\" y=\"42.5\" textLength=\"23.4\">a&lt;b</text>");
        check("\r\n a", "<text x=\"21.8\" y=\"59.5\" textLength=\"7.8\">a</text>");
        check("\x1b[1;4mx", "class=\"b u\">x<");
        check("\x1b[2mx", "class=\"w\">x<");
        check("\x1b[31mx", "style=\"fill:#ff7b72\">x<");
        check("\x1b[38;5;196mx", "style=\"fill:#ff0000\">x<");
        check("\x1b[38;5;255mx", "style=\"fill:#eeeeee\">x<");
        check("\x1b[38;2;1;2;3mx", "style=\"fill:#010203\">x<");
        check("\x1b[7mx", "width=\"7.8\" height=\"17\" fill=\"#e6edf3\"/>");
        check("\x1b[7mx", "style=\"fill:#161b22\">x<");
        check("\x1b[7m a   b", "x=\"21.8\" y=\"42.5\" textLength=\"7.8\" style=\"fill:#161b22\">a</text>");
        check("\x1b[7m a   b", "x=\"53.0\" y=\"42.5\" textLength=\"7.8\" style=\"fill:#161b22\">b</text>");
        check("▄▄", "y=\"38.5\" width=\"15.6\" height=\"8.5\" fill=\"#e6edf3\"");
    }
}
