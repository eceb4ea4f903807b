//! The real clock, read once a turn.

use base::Now;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A moment, for measuring how long a thread was held up, and by what.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Monotonic nanoseconds.
    pub mono_ns: u64,
    /// Nanoseconds this thread has had a processor.
    pub cpu_ns: u64,
}

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

    /// This moment, by the clock and by this thread's work.
    pub fn moment(&self) -> Moment {
        let worked = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let cpu_ns = worked.tv_sec as u64 * 1_000_000_000 + worked.tv_nsec as u64;
        Moment { mono_ns: self.mono_ns(), cpu_ns }
    }

    /// This moment.
    pub fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { mono_ns: self.started.elapsed().as_nanos() as u64, wall_ms: wall.as_millis() as u64 }
    }
}
