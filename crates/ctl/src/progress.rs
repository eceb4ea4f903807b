//! How far work has come that takes long, on standard error, where somebody looks at that.
//!
//! Where it is no terminal nothing is said: scripts and logs have the same lines as ever.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// Milliseconds between two looks at the state that is waited for.
const TICK_MS: u64 = 100;

/// A line that is shown while it lives.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Of work of which nobody knows how far it is.
    pub(crate) fn waiting(what: &str) -> Progress {
        Progress::new(ProgressBar::new_spinner(), "{spinner} {msg} {elapsed}", what)
    }

    /// Of work on so many things.
    pub(crate) fn counting(what: &str, count: u64) -> Progress {
        Progress::new(ProgressBar::new(count), "{msg} [{bar:30}] {pos}/{len} {per_sec}, {eta} left", what)
    }

    fn new(bar: ProgressBar, template: &str, what: &str) -> Progress {
        // The templates are those above: one that could not be read would leave the usual bar.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(TICK_MS));
        }
        Progress(bar)
    }

    /// So many are done.
    pub(crate) fn set(&self, done: u64) {
        self.0.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_can_be_read() {
        for progress in [Progress::waiting("x"), Progress::counting("x", 3)] {
            progress.set(2);
            assert_eq!((progress.0.position(), progress.0.message().as_str()), (2, "x"));
        }
        for template in ["{spinner} {msg} {elapsed}", "{msg} [{bar:30}] {pos}/{len} {per_sec}, {eta} left"] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
