//! How fast a consumer is shown what it reads: so many messages a second.
//!
//! Messages are due one after the other, each so long after the one before. Time in which the consumer had no room is not made
//! up for, but for a moment: the rate holds at all times, not on average.

/// The delay that is made up for at most, nanoseconds: a turn may come late.
const SLACK_NS: u64 = 100_000_000;

/// Turns of a consumer are this far apart at least, nanoseconds, so that a high rate wakes nobody for each message.
const TURN_NS: u64 = 5_000_000;

/// Messages a second that a pace can be: beyond, it would be none.
pub const RATE_MAX: u32 = 1_000_000;

/// See the module's head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    interval_ns: u64,
    /// When the next message may go, monotonic nanoseconds.
    due_ns: u64,
}

impl Pace {
    /// So many messages a second, the first at once.
    pub(super) fn new(rate: u32) -> Pace {
        Pace { interval_ns: 1_000_000_000 / u64::from(rate.clamp(1, RATE_MAX)), due_ns: 0 }
    }

    /// Messages that may go now.
    pub(super) fn allowed(&mut self, now_ns: u64) -> u32 {
        if now_ns < self.due_ns {
            return 0;
        }
        // A consumer that read nothing for long, or never, begins anew.
        let slack_ns = if self.due_ns == 0 { 0 } else { SLACK_NS };
        self.due_ns = self.due_ns.max(now_ns.saturating_sub(slack_ns));
        u32::try_from((now_ns - self.due_ns) / self.interval_ns + 1).unwrap_or(u32::MAX)
    }

    /// So many went.
    pub(super) fn sent(&mut self, count: u32) {
        self.due_ns = self.due_ns.saturating_add(self.interval_ns.saturating_mul(count.into()));
    }

    /// When it is worth looking again, monotonic nanoseconds.
    pub(super) fn next_turn(&self, now_ns: u64) -> u64 {
        self.due_ns.max(now_ns.saturating_add(TURN_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages that go in `ms` milliseconds, looked at each `step_ms`.
    fn sent(pace: &mut Pace, from_ms: u64, ms: u64, step_ms: u64) -> u32 {
        let mut all = 0;
        for at in (from_ms..from_ms + ms).step_by(step_ms as usize) {
            let count = pace.allowed(at * 1_000_000);
            pace.sent(count);
            all += count;
        }
        all
    }

    #[test]
    fn so_many_go_in_a_second() {
        for rate in [1, 3, 10, 1000, 50_000] {
            for step_ms in [1, 5, 20] {
                let all = sent(&mut Pace::new(rate), 5_000_000, 10_000, step_ms);
                let step = f64::from(rate) * step_ms as f64 / 1000.0;
                let missing = f64::from(rate) * 10.0 - f64::from(all);
                assert!((-1.0..=step + 1.0).contains(&missing), "{rate} by {step_ms}: {all}");
            }
        }
    }

    #[test]
    fn what_was_missed_is_not_made_up_for() {
        let mut pace = Pace::new(1000);
        assert_eq!(pace.allowed(1_000_000_000_000), 1);
        pace.sent(1);
        assert_eq!(pace.allowed(1_000_000_500_000), 0);
        // An hour later.
        assert_eq!(pace.allowed(4_600_000_000_000), 101);
        let mut slow = Pace::new(2);
        assert_eq!(slow.allowed(1_000_000_000_000), 1);
        slow.sent(1);
        assert_eq!(slow.allowed(1_000_400_000_000), 0);
        assert_eq!(slow.next_turn(1_000_400_000_000), 1_000_500_000_000);
        assert_eq!(slow.allowed(1_000_500_000_000), 1);
        assert_eq!(slow.allowed(9_000_000_000_000), 1);
    }
}
