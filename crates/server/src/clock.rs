//! The real clock, read once a turn.

use base::Now;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Counts from when it was made; all clocks of a node are copies of one.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    /// One that begins now.
    pub fn new() -> Clock {
        Clock { started: Instant::now() }
    }

    /// This moment, as turns are measured: monotonic nanoseconds.
    pub fn mono_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// This moment.
    pub fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { mono_ns: self.started.elapsed().as_nanos() as u64, wall_ms: wall.as_millis() as u64 }
    }
}
