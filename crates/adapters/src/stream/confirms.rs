//! Publishing ids of one publisher that wait for their confirm.
//!
//! The broker counts a publisher's messages densely from 1; clients number them as they like, mostly one after the other,
//! so those that wait are kept in runs. 16 bytes for each run: at worst for each message.
//!
//! Of a publisher with a reference, ids that are not above one of before are duplicates. They are told in a frame of their
//! own, before the others that became safe with them, as from RabbitMQ: there are clients that take two equal ids in a
//! frame for an error of the broker. Ids sent over another connection are not known here and told with the others.

use base::RangeSet;
use base::ranges::Range;
use std::collections::VecDeque;

/// Publishing ids that follow on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    len: u32,
    /// They came before, so the stream has passed over them.
    again: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Confirms {
    runs: VecDeque<Run>,
    /// Messages numbered so far.
    numbered: u64,
    /// The highest publishing id so far of a publisher whose duplicates are told apart.
    highest: Option<u64>,
    /// Messages in runs that came again.
    again: u64,
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

    /// Numbers the next message. `has_reference`: the publisher's duplicates are not stored.
    #[inline]
    pub(super) fn push(&mut self, publishing_id: u64, has_reference: bool) {
        self.numbered += 1;
        let mut again = false;
        if has_reference {
            again = self.highest.is_some_and(|highest| publishing_id <= highest);
            self.highest = self.highest.max(Some(publishing_id));
            self.again += u64::from(again);
        }
        if let Some(last) = self.runs.back_mut()
            && last.first.wrapping_add(u64::from(last.len)) == publishing_id
            && last.again == again
            && last.len < u32::MAX
        {
            last.len += 1;
            return;
        }
        self.runs.push_back(Run { first: publishing_id, len: 1, again });
    }

    /// The messages with these numbers are safe.
    #[inline]
    pub(super) fn safe(&mut self, first: u64, last: u64) {
        let (first, last) = (first.max(self.told + 1), last.min(self.numbered));
        if first <= last {
            self.safe.insert(Range { first, last });
        }
    }

    /// The last number that is to be told now: the end of the safe ones that follow on the told ones.
    fn due(&self) -> u64 {
        let due = self.safe.first().filter(|range| range.first == self.told + 1);
        due.map_or(self.told, |due| due.last)
    }

    /// Duplicates among the ids to be told now.
    pub(super) fn duplicates(&self) -> impl Iterator<Item = u64> {
        let mut left = if self.again == 0 { 0 } else { self.due() - self.told };
        let runs = self.runs.iter().map_while(move |run| {
            let len = left.min(u64::from(run.len));
            left -= len;
            (len > 0).then_some((run, len))
        });
        let again = runs.filter(|(run, _)| run.again);
        again.flat_map(|(run, len)| (0..len).map(|at| run.first.wrapping_add(at)))
    }

    /// Takes out the ids to be told now; yields those that are not among [`Confirms::duplicates`].
    pub(super) fn take(&mut self) -> impl Iterator<Item = u64> {
        let upto = self.due();
        if upto > self.told {
            self.safe.remove(Range { first: self.told + 1, last: upto }, |_| ());
        }
        std::iter::from_fn(move || {
            while self.told < upto {
                self.told += 1;
                let run = self.runs.front_mut()?;
                let (id, again) = (run.first, run.again);
                run.first = run.first.wrapping_add(1);
                run.len -= 1;
                self.again -= u64::from(again);
                if run.len == 0 {
                    self.runs.pop_front();
                    if self.runs.is_empty() && self.runs.capacity() > RUNS_KEPT {
                        self.runs = VecDeque::new();
                    }
                }
                if !again {
                    return Some(id);
                }
            }
            None
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
            confirms.push(id, false);
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
        (10..20).for_each(|id| confirms.push(id, false));
        confirms.safe(4, 6);
        assert_eq!(told(&mut confirms), []);
        confirms.safe(1, 3);
        assert_eq!(told(&mut confirms), (10..16).collect::<Vec<_>>());
        // Again, and beyond the numbers given.
        confirms.safe(1, 6);
        confirms.safe(7, 50);
        assert_eq!(told(&mut confirms), (16..20).collect::<Vec<_>>());
        assert_eq!(confirms.waiting(), 0);
    }

    #[test]
    fn ids_may_go_round() {
        let mut confirms = Confirms::default();
        [u64::MAX, 0, 1].into_iter().for_each(|id| confirms.push(id, false));
        confirms.safe(1, 3);
        assert_eq!(told(&mut confirms), [u64::MAX, 0, 1]);
    }

    #[test]
    fn what_comes_again_is_told_before_the_others() {
        let check = |ids: &[u64], duplicates: &[u64], others: &[u64]| {
            let mut confirms = Confirms::default();
            ids.iter().for_each(|id| confirms.push(*id, true));
            assert_eq!(confirms.duplicates().count(), 0, "nothing is safe");
            confirms.safe(1, ids.len() as u64);
            assert_eq!(confirms.duplicates().collect::<Vec<_>>(), duplicates, "{ids:?}");
            assert_eq!(told(&mut confirms), others, "{ids:?}");
            assert_eq!((confirms.waiting(), confirms.again, confirms.runs.len()), (0, 0, 0), "{ids:?}");
        };
        // As RabbitMQ 4.3.6 answers each of them.
        check(&[0, 0, 1, 1], &[0, 1], &[0, 1]);
        check(&[5, 6, 7, 7, 3, 8], &[7, 3], &[5, 6, 7, 8]);
        check(&[30, 29, 31], &[29], &[30, 31]);
        check(&[22, 22, 22], &[22, 22], &[22]);
    }

    #[test]
    fn duplicates_wait_like_the_others() {
        let mut confirms = Confirms::default();
        [4, 5, 4, 5, 4].into_iter().for_each(|id| confirms.push(id, true));
        confirms.safe(1, 3);
        assert_eq!(confirms.duplicates().collect::<Vec<_>>(), [4]);
        assert_eq!(told(&mut confirms), [4, 5]);
        confirms.safe(4, 5);
        assert_eq!(confirms.duplicates().collect::<Vec<_>>(), [5, 4]);
        assert_eq!(told(&mut confirms), []);
        assert_eq!(confirms.waiting(), 0);
    }
}
