//! How a queue that is open looks: its properties, its consumers, and the messages at its head.

use super::frame::{STRONG, WEAK, visible};
use super::overview::Opened;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// Columns of the first two cells of a consumer or message of an open queue, at most.
const CELL_COLUMNS: [usize; 2] = [40, 48];

/// The queue that is open, in place of the list.
pub(super) fn draw_opened(
    frame: &mut Frame<'_>,
    opened: Option<&Opened>,
    vhost: &str,
    name: &str,
    area: Rect,
) {
    let mut lines = vec![Line::styled(visible(&format!("{name} in {vhost}")), STRONG)];
    let Some(opened) = opened else {
        lines.push(Line::raw("being asked for ..."));
        frame.render_widget(Paragraph::new(lines), area);
        return;
    };
    let mut facts = Vec::new();
    for [name, value] in &opened.properties {
        facts.extend([Span::styled(format!("{name} "), WEAK), Span::raw(visible(value)), Span::raw("  ")]);
    }
    lines.push(Line::from(facts));
    lines.push(Line::styled(counted(opened.consumer_count, "consumer"), STRONG));
    let wide = [0, 1].map(|at| widest(opened.consumers.iter().map(|row| &row[at]), CELL_COLUMNS[at]));
    for [tag, connection, prefetch, state] in &opened.consumers {
        let (tag, connection) = (cut(tag, wide[0]), cut(connection, wide[1]));
        lines.push(Line::raw(format!(
            "  {tag:<0$}  {connection:<1$}  prefetch {prefetch}  {state}",
            wide[0], wide[1]
        )));
    }
    lines.push(Line::styled(counted(opened.messages.len(), "message") + " at its head", STRONG));
    let wide = [0, 1].map(|at| widest(opened.messages.iter().map(|row| &row[at]), CELL_COLUMNS[at]));
    for [key, bytes, body] in &opened.messages {
        let key = cut(key, wide[0]);
        lines.push(Line::raw(format!("  {key:<0$}  {bytes:>1$} B  {2}", wide[0], wide[1], visible(body))));
    }
    if let Some(why) = &opened.trouble {
        lines.push(Line::styled(format!("  {}", visible(why)), WEAK));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// A number of things, in words.
fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Columns of the widest of some cells, `most` at most.
fn widest<'a>(cells: impl Iterator<Item = &'a String>, most: usize) -> usize {
    cells.map(|cell| cell.chars().count()).max().unwrap_or(0).min(most)
}

/// A name in so many columns.
fn cut(text: &str, columns: usize) -> String {
    visible(text).chars().take(columns).collect()
}
