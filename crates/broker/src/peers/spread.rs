//! Changes that are agreed on, on their way from the shard that applies the log to the other shards of the node.
//!
//! They go in waves, as those of a planner that is alone do, and each shard says that it has applied one. Invariant: waves
//! are seen in the order of their numbers.

use crate::catalog::Change;
use base::id::LogIndex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Changes of a wave, after which the next begins: bounds the work of a shard that is sent one.
const CHANGES_MAX: usize = 1000;

/// A wave that is sent, and not applied by all.
#[derive(Debug)]
struct Sent {
    number: u64,
    end: LogIndex,
    unseen: u16,
}

/// A wave to be sent.
#[derive(Debug)]
pub(crate) struct Spreading {
    pub(crate) number: u64,
    pub(crate) end: LogIndex,
    pub(crate) changes: Arc<[Change]>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Spread {
    /// Shards besides this one.
    others: u16,
    /// Of the wave that is gathered.
    number: u64,
    made: Vec<Change>,
    sent: VecDeque<Sent>,
    /// This shard has applied everything before this.
    applied: LogIndex,
    /// All shards have.
    seen: LogIndex,
}

impl Spread {
    pub(crate) fn new(others: u16) -> Spread {
        let (applied, seen) = (LogIndex(0), LogIndex(0));
        Spread { others, number: 1, made: Vec::new(), sent: VecDeque::new(), applied, seen }
    }

    /// All shards begin with everything before `at` applied.
    pub(crate) fn begin_at(&mut self, at: LogIndex) {
        (self.applied, self.seen) = (at, at);
    }

    /// The number of the wave in which the next change goes.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// A change is applied here, which ends at `end` in the log, and goes to the others if `is_for_all`. The wave is returned
    /// which it fills.
    pub(crate) fn add(&mut self, change: Change, end: LogIndex, is_for_all: bool) -> Option<Spreading> {
        self.applied = end;
        if is_for_all && self.others > 0 {
            self.made.push(change);
        }
        if self.made.len() < CHANGES_MAX { None } else { self.close() }
    }

    /// The wave that is gathered, if anything is.
    pub(crate) fn close(&mut self) -> Option<Spreading> {
        let end = self.applied;
        if self.made.is_empty() {
            if self.sent.is_empty() {
                self.seen = end;
            }
            return None;
        }
        let number = self.number;
        self.number += 1;
        self.sent.push_back(Sent { number, end, unseen: self.others });
        Some(Spreading { number, end, changes: std::mem::take(&mut self.made).into() })
    }

    /// One more shard has applied the wave of this number.
    pub(crate) fn seen(&mut self, number: u64) {
        let first = self.sent.front().expect("a wave stays until all have seen it").number;
        self.sent[(number - first) as usize].unseen -= 1;
        while let Some(sent) = self.sent.pop_front_if(|sent| sent.unseen == 0) {
            self.seen = sent.end;
        }
        if self.sent.is_empty() && self.made.is_empty() {
            self.seen = self.applied;
        }
    }

    /// Every shard has applied everything before this.
    pub(crate) fn seen_at(&self) -> LogIndex {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `c`: a change; `r`: one that stays on this shard; `|`: the batch is over; a digit: a shard has applied that wave.
    fn run(others: u16, what: &str) -> (u64, u64) {
        let (mut spread, mut end) = (Spread::new(others), 0);
        for letter in what.chars() {
            match letter {
                'c' | 'r' => {
                    end += 8;
                    let change = Change::QueuesAdded { below: end };
                    assert!(spread.add(change, LogIndex(end), letter == 'c').is_none());
                }
                '|' => _ = spread.close(),
                digit => spread.seen(u64::from(digit.to_digit(10).expect("a wave"))),
            }
        }
        (spread.number(), spread.seen_at().0)
    }

    #[test]
    fn what_all_shards_have_applied() {
        let check = |others, what: &str, expected: (u64, u64)| {
            assert_eq!(run(others, what), expected, "{others} {what}");
        };
        check(0, "cc", (1, 0));
        check(0, "cc|", (1, 16));
        check(2, "cc|", (2, 0));
        check(2, "cc|1", (2, 0));
        check(2, "cc|11", (2, 16));
        check(2, "c|c|11", (3, 8));
        check(2, "c|c|1122", (3, 16));
        // The order in which shards say so is any.
        check(2, "c|c|1212", (3, 16));
        check(2, "r|", (1, 8));
        check(2, "c|r|", (2, 0));
        check(2, "c|r|11", (2, 16));
    }

    #[test]
    fn a_wave_has_so_many_changes() {
        let mut spread = Spread::new(1);
        let change = || Change::QueuesAdded { below: 1 };
        let filled = (1..=CHANGES_MAX as u64).find_map(|at| spread.add(change(), LogIndex(at), true));
        let filled = filled.expect("the last one fills it");
        assert_eq!((filled.number, filled.end.0, filled.changes.len()), (1, 1000, CHANGES_MAX));
        assert!(spread.close().is_none());
    }
}
