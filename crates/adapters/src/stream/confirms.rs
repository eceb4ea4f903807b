//! Publishing ids of one publisher that wait for their confirm.
//!
//! The broker counts a publisher's messages densely from 1; clients number them as they like, mostly one after the other,
//! so what waits is kept in runs. 16 bytes for each run: at worst for each message.

use base::RangeSet;
use base::ranges::Range;
use std::collections::VecDeque;

/// Publishing ids that follow on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    len: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Confirms {
    runs: VecDeque<Run>,
    /// Messages numbered so far.
    numbered: u64,
    /// All numbers up to this are told.
    told: u64,
    /// Safe and not told.
    safe: RangeSet,
}

/// Runs that an idle publisher keeps memory for.
const RUNS_KEPT: usize = 16;

impl Confirms {
    /// The number of the next message.
    pub(super) fn next(&self) -> u64 {
        self.numbered + 1
    }

    /// Messages that wait.
    pub(super) fn waiting(&self) -> u64 {
        self.numbered - self.told
    }

    /// Numbers the next message.
    #[inline]
    pub(super) fn push(&mut self, publishing_id: u64) {
        self.numbered += 1;
        if let Some(last) = self.runs.back_mut()
            && last.first.wrapping_add(last.len) == publishing_id
        {
            last.len += 1;
            return;
        }
        self.runs.push_back(Run { first: publishing_id, len: 1 });
    }

    /// The messages with these numbers are safe.
    #[inline]
    pub(super) fn safe(&mut self, first: u64, last: u64) {
        let (first, last) = (first.max(self.told + 1), last.min(self.numbered));
        if first <= last {
            self.safe.insert(Range { first, last });
        }
    }

    /// Takes the publishing ids out that are to be told now: safe ones that follow on what was told.
    pub(super) fn take(&mut self) -> impl Iterator<Item = u64> {
        let due = self.safe.first().filter(|range| range.first == self.told + 1);
        if let Some(due) = due {
            self.safe.remove(due, |_| ());
        }
        let upto = due.map_or(self.told, |due| due.last);
        std::iter::from_fn(move || {
            if self.told == upto {
                return None;
            }
            self.told += 1;
            let run = self.runs.front_mut()?;
            let id = run.first;
            run.first = run.first.wrapping_add(1);
            run.len -= 1;
            if run.len == 0 {
                self.runs.pop_front();
                if self.runs.is_empty() && self.runs.capacity() > RUNS_KEPT {
                    self.runs = VecDeque::new();
                }
            }
            Some(id)
        })
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<Run>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(confirms: &mut Confirms) -> Vec<u64> {
        confirms.take().collect()
    }

    #[test]
    fn ids_come_back_in_the_order_they_were_published() {
        let mut confirms = Confirms::default();
        for id in [7, 8, 9, 3, 4, 100] {
            confirms.push(id);
        }
        assert_eq!((confirms.runs.len(), confirms.waiting(), confirms.next()), (3, 6, 7));
        confirms.safe(1, 2);
        assert_eq!(told(&mut confirms), [7, 8]);
        assert_eq!(told(&mut confirms), []);
        confirms.safe(3, 6);
        assert_eq!(told(&mut confirms), [9, 3, 4, 100]);
        assert_eq!((confirms.waiting(), confirms.runs.len()), (0, 0));
    }

    #[test]
    fn what_comes_early_waits_for_what_is_before_it() {
        let mut confirms = Confirms::default();
        (10..20).for_each(|id| confirms.push(id));
        confirms.safe(4, 6);
        assert_eq!(told(&mut confirms), []);
        confirms.safe(1, 3);
        assert_eq!(told(&mut confirms), (10..16).collect::<Vec<_>>());
        // Again, and beyond what was numbered.
        confirms.safe(1, 6);
        confirms.safe(7, 50);
        assert_eq!(told(&mut confirms), (16..20).collect::<Vec<_>>());
        assert_eq!(confirms.waiting(), 0);
    }

    #[test]
    fn ids_may_go_round() {
        let mut confirms = Confirms::default();
        [u64::MAX, 0, 1].into_iter().for_each(|id| confirms.push(id));
        confirms.safe(1, 3);
        assert_eq!(told(&mut confirms), [u64::MAX, 0, 1]);
    }
}
