//! One line on the terminal that says how a run goes, renewed every second.

use crate::meter::Meter;
use crate::process::Usage;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The line. Silent where standard error is no terminal.
#[derive(Debug)]
pub struct Progress {
    is_shown: bool,
    label: String,
    last: Option<(Instant, u64, u64)>,
    is_dirty: bool,
}

impl Progress {
    /// A line that is shown if anybody can see it.
    pub fn new() -> Progress {
        let is_shown = std::io::stderr().is_terminal();
        Progress { is_shown, label: String::new(), last: None, is_dirty: false }
    }

    /// Sets the text that the line begins with from now on.
    pub fn label(&mut self, label: String) {
        self.label = label;
        self.last = None;
    }

    /// Shows where the run is, if a second passed since the last time.
    pub fn show(&mut self, meter: &Meter, before: Option<Usage>, now: Option<Usage>) {
        if !self.is_shown {
            return;
        }
        let (published, consumed) = (meter.published.get(), meter.consumed.get());
        let Some((at, published_then, consumed_then)) = self.last else {
            self.last = Some((Instant::now(), published, consumed));
            return;
        };
        let seconds = at.elapsed().as_secs_f64();
        if at.elapsed() < Duration::from_secs(1) {
            return;
        }
        self.last = Some((Instant::now(), published, consumed));
        let mut line = format!(
            "{}: in {:.0}/s, out {:.0}/s, {published} published, {} unconfirmed, {} behind",
            self.label,
            (published - published_then) as f64 / seconds,
            (consumed - consumed_then) as f64 / seconds,
            published.saturating_sub(meter.confirmed.get()),
            published.saturating_sub(consumed),
        );
        if let Some((before, now)) = before.zip(now) {
            let messages = published.max(consumed).max(1);
            let cpu_ns = now.cpu_ns.saturating_sub(before.cpu_ns) as f64;
            line.push_str(&format!(
                ", broker {:.2} us/msg, {} MB",
                cpu_ns / messages as f64 / 1000.0,
                now.rss >> 20
            ));
        }
        self.say(&line);
    }

    /// Shows `line` in place of the one before.
    pub fn say(&mut self, line: &str) {
        if self.is_shown {
            // A terminal that went away is no reason to end a run.
            let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
            let _ = std::io::stderr().flush();
            self.is_dirty = true;
        }
    }

    /// Clears the line.
    pub fn end(&mut self) {
        if self.is_dirty {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
            self.is_dirty = false;
        }
    }
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::new()
    }
}
