//! A share of one turn, so that a long task does not hold others up: so many things, or so long, whichever is first.
//!
//! A number alone does not bound time: things differ, and memory that was not touched for long is slow. Time alone makes what
//! is done depend on the machine. The clock is an argument, and is read once for some things: a reading takes about as
//! long as a thing does.

/// Things between two readings of the clock.
const UNTIMED_MAX: usize = 8;

/// See the module. The first thing is always allowed, so that a task that goes on in later turns gets to the end.
pub struct Quantum<'a> {
    left: usize,
    untimed: usize,
    until_ns: u64,
    clock: &'a dyn Fn() -> u64,
}

impl std::fmt::Debug for Quantum<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Quantum").field("left", &self.left).field("until_ns", &self.until_ns).finish()
    }
}

impl<'a> Quantum<'a> {
    /// At most `things`, within `span_ns` from now on: `clock` answers monotonic nanoseconds.
    pub fn new(things: usize, span_ns: u64, clock: &'a dyn Fn() -> u64) -> Quantum<'a> {
        Quantum { left: things.max(1), untimed: 0, until_ns: clock().saturating_add(span_ns), clock }
    }

    /// At most `things`, however long that takes.
    pub fn of(things: usize) -> Quantum<'static> {
        Quantum::new(things, u64::MAX, &|| 0)
    }

    /// Nothing more is to be done in this turn.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// So many things were done.
    #[inline]
    pub fn spend(&mut self, things: usize) {
        self.left = self.left.saturating_sub(things);
        self.untimed += things;
        if self.untimed >= UNTIMED_MAX {
            self.untimed = 0;
            if (self.clock)() >= self.until_ns {
                self.left = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// How many things are done in a turn, each of which takes `each_ns` and counts as `weight`.
    fn check(things: usize, span_ns: u64, each_ns: u64, weight: usize, expected: usize) {
        let now = Cell::new(7);
        let clock = || now.get();
        let mut quantum = Quantum::new(things, span_ns, &clock);
        let mut done = 0;
        while !quantum.is_over() {
            done += 1;
            now.set(now.get() + each_ns);
            quantum.spend(weight);
        }
        assert_eq!(done, expected, "{things} things in {span_ns} ns, each {each_ns}");
    }

    #[test]
    fn it_ends_with_the_things_or_with_the_time() {
        check(20, 1000, 1, 1, 20);
        check(20, 1000, 1, 3, 7);
        check(100, 1000, 10, 1, 100);
        // The clock is read at 16 and at 24 of these, and 20 fill the time.
        check(100, 1000, 50, 1, 24);
        check(100, 1000, 5000, 1, 8);
        check(100, 1000, 5000, 8, 1);
        check(0, 0, 1, 1, 1);
    }

    #[test]
    fn without_a_clock_things_alone_count() {
        let mut quantum = Quantum::of(50);
        let done = std::iter::repeat_with(|| quantum.spend(1)).take(49).count();
        assert_eq!((done, quantum.is_over()), (49, false));
        quantum.spend(1);
        assert!(quantum.is_over());
    }
}
