//! A frame as text.

use super::frame;
use super::state::State;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// The text on a screen of this size, without the space at the ends of its lines.
pub fn text(state: &State, width: u16, height: u16) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(_) = terminal.draw(|on| frame::draw(on, state));
    let buffer = terminal.backend().buffer();
    let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
}
