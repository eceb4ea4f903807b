//! Pauses of a thread that uses the device while others wait for a flush.
//!
//! A device serves requests in their order: a flush waits for all that others have asked for. So work that is not
//! urgent is asked for in pieces, and the pauses in between grow with the time a piece takes.

#![allow(clippy::disallowed_methods, reason = "pauses of a thread of the shell, by its clock")]

use std::time::{Duration, Instant};

/// A pause lasts at least so long, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(4);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// A pause lasts so many times as long as the piece before it took, within its bounds.
const PAUSE_FACTOR: u32 = 2;

/// The pauses between pieces: the length of each depends on the piece before it.
#[derive(Debug)]
pub struct Pauses {
    begun: Instant,
}

impl Pauses {
    /// A piece begins.
    pub fn begin() -> Pauses {
        Pauses { begun: Instant::now() }
    }

    /// The piece is over: waits, and begins another.
    pub fn pause(&mut self) {
        std::thread::sleep(pause_after(self.begun.elapsed()));
        self.begun = Instant::now();
    }
}

/// How long to wait behind a piece that took so long.
fn pause_after(took: Duration) -> Duration {
    (took * PAUSE_FACTOR).clamp(PAUSE_MIN, PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_device_has_longer_pauses() {
        let ms = Duration::from_millis;
        for (took, pause) in [(0, 4), (1, 4), (3, 6), (30, 60), (50, 100), (5000, 100)] {
            assert_eq!(pause_after(ms(took)), ms(pause), "{took}");
        }
    }
}
