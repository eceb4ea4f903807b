//! Which of a publisher's messages are confirmed, from acknowledgements that come one by one or for all up to a number.

use std::collections::{BTreeSet, VecDeque};

/// The unconfirmed messages of one publisher, numbered in the order they were sent.
#[derive(Debug, Default)]
pub struct Confirms {
    /// Every number below is confirmed.
    low: u64,
    /// The next number to be sent.
    next: u64,
    /// Confirmed ahead of `low`. Small: a broker answers nearly in order.
    ahead: BTreeSet<u64>,
    /// Numbers sent together: (first behind them, when).
    sent: VecDeque<(u64, u64)>,
}

impl Confirms {
    /// `count` more messages went out at `now_ns`.
    #[inline]
    pub fn sent(&mut self, count: u64, now_ns: u64) {
        self.next += count;
        self.sent.push_back((self.next, now_ns));
    }

    /// Messages that are out and not confirmed.
    #[inline]
    pub fn outstanding(&self) -> u64 {
        self.next - self.low - self.ahead.len() as u64
    }

    /// All numbers up to and with `last` are confirmed; returns how many were not before.
    #[inline]
    pub fn up_to(&mut self, last: u64) -> u64 {
        let below = (last + 1).min(self.next);
        if below <= self.low {
            return 0;
        }
        let mut count = below - self.low;
        self.low = below;
        if !self.ahead.is_empty() {
            let rest = self.ahead.split_off(&below);
            count -= self.ahead.len() as u64;
            self.ahead = rest;
            self.absorb();
        }
        count
    }

    /// The numbers from `first` to `last` are confirmed; returns how many were not before.
    #[inline]
    pub fn range(&mut self, first: u64, last: u64) -> u64 {
        if first <= self.low {
            return self.up_to(last);
        }
        // Numbers not sent yet cannot be confirmed; ignoring them bounds the memory that a mad broker can make us hold.
        let last = last.min(self.next.saturating_sub(1));
        let before = self.ahead.len();
        self.ahead.extend(first..=last);
        (self.ahead.len() - before) as u64
    }

    fn absorb(&mut self) {
        while self.ahead.remove(&self.low) {
            self.low += 1;
        }
    }

    /// Calls `each(count, sent_ns)` for the messages that are confirmed without a gap since the last call.
    #[inline]
    pub fn latencies(&mut self, mut each: impl FnMut(u64, u64), told: &mut u64) {
        while let Some(&(behind, sent_ns)) = self.sent.front() {
            let until = behind.min(self.low);
            if until > *told {
                each(until - *told, sent_ns);
                *told = until;
            }
            if behind > self.low {
                return;
            }
            self.sent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Confirms;

    #[test]
    fn singles_and_ranges_in_any_order_count_once() {
        let mut confirms = Confirms::default();
        confirms.sent(10, 1);
        assert_eq!(confirms.outstanding(), 10);
        assert_eq!(confirms.range(3, 3), 1);
        assert_eq!(confirms.range(3, 4), 1);
        assert_eq!(confirms.outstanding(), 8);
        assert_eq!(confirms.up_to(2), 3);
        assert_eq!(confirms.low, 5);
        assert_eq!(confirms.range(7, 100), 3);
        assert_eq!(confirms.up_to(6), 2);
        assert_eq!((confirms.outstanding(), confirms.low), (0, 10));
        assert_eq!(confirms.up_to(50), 0);
    }

    #[test]
    fn latencies_belong_to_the_batch_they_were_sent_in() {
        let mut confirms = Confirms::default();
        let mut told = 0;
        let mut seen = Vec::new();
        confirms.sent(3, 100);
        confirms.sent(2, 200);
        confirms.up_to(0);
        confirms.latencies(|count, at| seen.push((count, at)), &mut told);
        confirms.up_to(3);
        confirms.latencies(|count, at| seen.push((count, at)), &mut told);
        confirms.up_to(4);
        confirms.latencies(|count, at| seen.push((count, at)), &mut told);
        assert_eq!(seen, [(1, 100), (2, 100), (1, 200), (1, 200)]);
    }
}
