//! Positions of one consumer that were accepted together and do not follow on each other, as those of messages that were
//! handed out by priority: passed on in order, those that do follow on as one.
//!
//! A queue that is told of each position by itself pays for each the command, record and search that it pays once for
//! thousands that follow on. Memory to work in, that connections use one after the other: empty whenever none of them
//! is at work.

use base::Now;
use base::id::PortId;
use broker::{ConsumerRef, QueueCommand, Shard};
use message::record::SeqRange;

/// Ranges gathered at most, 64 KiB: more are passed on in several lots.
const RANGES_MAX: usize = 4096;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Scattered {
    ranges: Vec<SeqRange>,
}

impl Scattered {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many positions.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.ranges.iter().map(|range| range.last.0 - range.first.0 + 1).sum()
    }

    /// Adds positions; false: there is no room for them before the others are passed on.
    #[cold]
    #[inline(never)]
    pub(crate) fn add(&mut self, range: SeqRange) -> bool {
        let has_room = self.ranges.len() < RANGES_MAX;
        if has_room {
            self.ranges.push(range);
        }
        has_room
    }

    /// Nobody is there any more to settle them.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Settles them all, and `last`, which are `at`'s.
    #[cold]
    #[inline(never)]
    pub(crate) fn pass_on(
        &mut self,
        now: Now,
        shard: &mut Shard,
        port: PortId,
        at: ConsumerRef,
        last: SeqRange,
    ) {
        self.ranges.push(last);
        let ConsumerRef { log, queue, handle } = at;
        let command = QueueCommand::Accept { handle, ranges: self.merge() };
        shard.command(now, port, log, queue, command);
    }

    /// Takes them out in order, as few ranges as may be.
    fn merge(&mut self) -> Box<[SeqRange]> {
        // Mostly a few runs that ascend, one for each priority, which a stable sort finds and merges.
        self.ranges.sort_by_key(|range| range.first);
        self.ranges.dedup_by(|next, before| {
            let follows = next.first.0 == before.last.0 + 1;
            if follows {
                before.last = next.last;
            }
            follows
        });
        let merged = self.ranges.as_slice().into();
        self.ranges.clear();
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::QueueSeq;

    fn check(ranges: &[(u64, u64)], expected: &[(u64, u64)]) {
        let mut scattered = Scattered::default();
        for (first, last) in ranges {
            assert!(scattered.add(SeqRange { first: QueueSeq(*first), last: QueueSeq(*last) }));
        }
        let merged = scattered.merge();
        let merged: Vec<_> = merged.iter().map(|range| (range.first.0, range.last.0)).collect();
        assert_eq!(merged, expected, "{ranges:?}");
        assert!(scattered.is_empty());
    }

    #[test]
    fn what_follows_on_is_one() {
        check(&[], &[]);
        check(&[(3, 3)], &[(3, 3)]);
        check(&[(2, 2), (5, 5), (8, 8), (0, 1), (3, 4), (6, 7)], &[(0, 8)]);
        check(&[(7, 9), (1, 2), (4, 5)], &[(1, 2), (4, 5), (7, 9)]);
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let mut scattered = Scattered::default();
        let range = |at: usize| SeqRange { first: QueueSeq(2 * at as u64), last: QueueSeq(2 * at as u64) };
        assert!((0..RANGES_MAX).all(|at| scattered.add(range(at))));
        assert!(!scattered.add(range(RANGES_MAX)));
        assert_eq!(scattered.merge().len(), RANGES_MAX);
        assert!(scattered.add(range(RANGES_MAX)));
    }
}
