//! `leveret top`: the activity of a running node, on a terminal.
//!
//! The parts that decide and draw ([`state`], [`frame`]) know no terminal; [`screen`] is the one that does. The node orders
//! and cuts its lists, so that a screen's worth travels however many queues there are; the work of gathering that is
//! bounded by [`state::SHARE`].
#![allow(clippy::disallowed_methods, reason = "a tool is a process of its own: it waits")]

mod frame;
mod once;
mod opened;
mod opened_frame;
mod overview;
mod screen;
pub mod state;

pub use overview::{
    Asked, ConnectionLine, Counted, Gauges, List, Opened, Order, Overview, QueueLine, ROWS_MAX,
};

use crate::client::ask;
use crate::place::Place;
use crate::request::{Refusal, Request};
use crate::{Limits, exit};
use clap::Args;
use state::State;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

/// Columns and lines of a frame that is printed where there is no terminal.
const PAPER: (u16, u16) = (120, 40);

/// The command line.
#[derive(Debug, Args)]
pub struct Top {
    #[command(flatten)]
    place: Place,
    /// Seconds between two looks; a node that takes long is asked less often
    #[arg(long, default_value_t = 1.0)]
    interval: f64,
    /// Prints one frame as text, and ends
    #[arg(long)]
    once: bool,
    /// Begins with connections instead of queues
    #[arg(long)]
    connections: bool,
    /// The column to sort by
    #[arg(long)]
    sort: Option<Order>,
    /// Text in names or virtual hosts of the rows that are shown
    #[arg(long, default_value = "")]
    search: String,
}

/// Runs it. Returns the exit code.
pub fn main(top: &Top) -> u8 {
    match run(top) {
        Ok(text) => {
            // A reader that closes the pipe early is no error.
            let _ = std::io::stdout().write_all(text.as_bytes());
            exit::OK
        }
        Err(refusal) => {
            eprintln!("{}", refusal.message);
            refusal.code
        }
    }
}

fn run(top: &Top) -> Result<String, Refusal> {
    let list = if top.connections { List::Connections } else { List::Queues };
    if let Some(order) = top.sort.filter(|order| !list.orders().contains(order)) {
        return Err(unfit(format!("this list cannot be sorted by {order:?}").to_lowercase()));
    }
    if !(top.interval.is_finite() && top.interval > 0.0) {
        return Err(unfit("an interval is a number of seconds above 0".to_owned()));
    }
    let interval_ms = (top.interval * 1000.0) as u64;
    let mut state = State::new(list, top.sort, &top.search, interval_ms);
    let socket = top.place.socket()?;
    if top.once {
        let (width, height) = ratatui::crossterm::terminal::size()
            .ok()
            .filter(|_| std::io::stdout().is_terminal())
            .unwrap_or(PAPER);
        state.resize(frame::rows_on(height));
        hear(&mut state, &socket)?;
        // Rates are between two looks.
        std::thread::sleep(Duration::from_millis(state.interval_ms));
        hear(&mut state, &socket)?;
        return Ok(once::text(&state, width, height));
    }
    if !std::io::stdout().is_terminal() {
        return Err(unfit("a terminal is needed; --once prints a frame as text".to_owned()));
    }
    // A node that is not there is told before the screen changes.
    hear(&mut state, &socket)?;
    let asking = move |asked: &Asked| look(&socket, asked);
    screen::run(state, asking).map_err(|error| Refusal {
        code: exit::UNAVAILABLE,
        message: format!("the terminal cannot be used: {error}"),
    })?;
    Ok(String::new())
}

fn unfit(message: String) -> Refusal {
    Refusal { code: exit::USAGE, message }
}

fn hear(state: &mut State, socket: &Path) -> Result<(), Refusal> {
    let asked = state.asked();
    let overview = look(socket, &asked)?;
    state.hear(&asked, overview);
    Ok(())
}

fn look(socket: &Path, asked: &Asked) -> Result<Overview, Refusal> {
    let ask = |request: &Request| ask(socket, &Limits::default(), None, request);
    let answer = ask(&Request::Top { asked: asked.clone() })?;
    let mut overview: Overview = serde_json::from_value(answer).map_err(|error| Refusal {
        code: exit::SOFTWARE,
        message: format!("the node answered what cannot be shown: {error}"),
    })?;
    if let Some([vhost, name]) = &asked.opened {
        overview.opened = Some(opened::open(vhost, name, ask)?);
    }
    Ok(overview)
}
