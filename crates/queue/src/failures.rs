//! How often messages of a classic queue came back as failed, since this owner began.
//!
//! Volatile: costs no record and is forgotten at a restart, where all counts are 0 again, as in RabbitMQ. Kept as
//! sets by level, so that a million messages that came back together cost as much as one.
//!
//! Invariant: each level's set holds the next one's.

use base::RangeSet;
use base::ranges::Range;

/// Failures that are told apart: a message that failed more often has failed so often.
pub(crate) const FAILURES_MAX: usize = 100;

/// Positions by how often they failed: at least once, at least twice, ...
#[derive(Debug, Default)]
pub(crate) struct Failures {
    levels: Vec<RangeSet>,
}

impl Failures {
    /// All of `range` failed once more.
    pub(crate) fn add(&mut self, range: Range) {
        let mut rising = vec![range];
        for level in 0..FAILURES_MAX {
            if rising.is_empty() {
                return;
            }
            if self.levels.len() == level {
                self.levels.push(RangeSet::new());
            }
            let set = &mut self.levels[level];
            let mut next = Vec::new();
            for part in rising {
                set.remove(part, |held| next.push(held));
                set.insert(part);
            }
            rising = next;
        }
    }

    /// How often the first of `range` failed, and up to where the same holds.
    pub(crate) fn count(&self, range: Range) -> (u32, u64) {
        let mut last = range.last;
        for (count, level) in self.levels.iter().enumerate() {
            match level.next_present(range.first) {
                Some(seq) if seq == range.first => last = last.min(level.next_absent(seq) - 1),
                Some(seq) => return (count as u32, last.min(seq - 1)),
                None => return (count as u32, last),
            }
        }
        (self.levels.len() as u32, last)
    }

    /// These positions are gone. Whether nothing is left.
    pub(crate) fn leave(&mut self, part: Range) -> bool {
        self.levels.iter_mut().for_each(|level| _ = level.remove(part, |_| {}));
        while self.levels.last().is_some_and(RangeSet::is_empty) {
            self.levels.pop();
        }
        self.levels.is_empty()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.levels.capacity() * size_of::<RangeSet>()
            + self.levels.iter().map(RangeSet::heap_bytes).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u64, last: u64) -> Range {
        Range { first, last }
    }

    #[test]
    fn counts_by_runs() {
        let mut failures = Failures::default();
        assert_eq!(failures.count(range(0, 9)), (0, 9));
        failures.add(range(2, 7));
        failures.add(range(4, 5));
        failures.add(range(5, 8));
        for (first, expected) in [
            (0, (0, 1)),
            (2, (1, 3)),
            (3, (1, 3)),
            (4, (2, 4)),
            (5, (3, 5)),
            (6, (2, 7)),
            (8, (1, 8)),
            (9, (0, 9)),
        ] {
            assert_eq!(failures.count(range(first, 9)), expected, "{first}");
        }
        assert!(!failures.leave(range(0, 4)) && !failures.leave(range(6, 9)));
        assert_eq!(failures.count(range(0, 9)), (0, 4));
        assert_eq!(failures.count(range(5, 9)), (3, 5));
        assert!(failures.leave(range(5, 5)));
    }

    #[test]
    fn counts_to_its_bound_and_stays_small() {
        let mut failures = Failures::default();
        (0..2 * FAILURES_MAX).for_each(|_| failures.add(range(0, 1_000_000)));
        assert_eq!(failures.count(range(7, 9)), (FAILURES_MAX as u32, 9));
        assert!(failures.heap_bytes() < 16 << 10, "{} bytes", failures.heap_bytes());
    }
}
