//! How far a consumer of AMQP messages has come whose name is remembered: everything up to there it has settled.
//!
//! The offset is stored as consumers of the stream protocol store theirs, under a name in the stream, so that both may
//! take turns. Nobody waits for it: it goes to disk with the next batch, as settling does in queues; messages settled
//! shortly before a crash may come again.

mod storing;

use crate::ShardSettings;
use base::RangeSet;
use base::id::PortId;
use base::ranges::Range;
use message::record::{Outcome, Owner, SeqRange};
use std::sync::Arc;

/// Runs of messages that a consumer may hold or have given back; of more the first count as settled.
const HELD_RUNS_MAX: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(crate) struct Progress {
    name: Arc<[u8]>,
    owner: Owner,
    /// Messages handed out and not settled, or given back: for the next consumer of the name.
    held: RangeSet,
    /// The last that was handed out.
    last: Option<u64>,
    /// The offset that was stored last.
    stored: Option<u64>,
}

impl Progress {
    pub(crate) fn new(name: Box<[u8]>, owner: Owner) -> Progress {
        Progress { name: name.into(), owner, held: RangeSet::default(), last: None, stored: None }
    }

    /// It is handed the message at this offset, and settles it or not.
    #[inline]
    pub(crate) fn hand_out(&mut self, offset: u64, is_settled: bool) {
        self.last = Some(offset);
        if !is_settled {
            self.held.insert(Range { first: offset, last: offset });
        }
    }

    /// It was handed these and will be again.
    pub(crate) fn unsent(&mut self, range: SeqRange) {
        let from = range.first.0;
        self.held.remove(Range { first: from, last: u64::MAX }, |_| ());
        self.last = self.last.min(from.checked_sub(1)).filter(|_| from > 0);
    }

    /// It has done with these, but for those it gives back.
    pub(crate) fn settle(&mut self, range: SeqRange, outcome: Outcome) {
        if !matches!(outcome, Outcome::Released | Outcome::Failed) {
            self.held.remove(Range { first: range.first.0, last: range.last.0 }, |_| ());
        }
        while self.held.ranges_count() > HELD_RUNS_MAX
            && let Some(first) = self.held.first()
        {
            self.held.remove(first, |_| ());
        }
    }

    /// Up to which offset it has settled everything, if it has come further.
    pub(crate) fn take(&mut self) -> Option<Settled> {
        let upto = match self.held.first() {
            Some(held) => held.first.checked_sub(1)?.min(self.last?),
            None => self.last?,
        };
        if self.stored.is_some_and(|stored| stored >= upto) {
            return None;
        }
        self.stored = Some(upto);
        Some(Settled { name: self.name.clone(), owner: self.owner, upto })
    }
}

/// How far a consumer has settled everything.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    name: Arc<[u8]>,
    owner: Owner,
    upto: u64,
}

/// Rules for storing offsets in the streams of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OffsetRules {
    /// Names a stream keeps.
    pub(super) names_max: usize,
    /// Mixed into numbers of connections: these begin anew with each start of the node, and a connection after it must
    /// not pass for one before it.
    start: u32,
}

impl OffsetRules {
    pub(crate) fn of(settings: &ShardSettings) -> OffsetRules {
        let ShardSettings { limits, seed, .. } = settings;
        OffsetRules { names_max: limits.stream_offsets_max, start: (seed ^ seed >> 32) as u32 }
    }

    /// The owner of the offsets that a connection stores, by which the room for offsets is shared.
    pub(super) fn owner(&self, user: u32, port: PortId) -> Owner {
        Owner { user, connection: self.start ^ u32::from(port.shard.0) << 24 ^ port.generation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::QueueSeq;

    fn range(first: u64, last: u64) -> SeqRange {
        SeqRange { first: QueueSeq(first), last: QueueSeq(last) }
    }

    fn taken(progress: &mut Progress) -> Option<u64> {
        progress.take().map(|settled| settled.upto)
    }

    #[test]
    fn what_is_settled_without_a_gap_counts() {
        let mut progress = Progress::new(b"app"[..].into(), Owner::default());
        assert_eq!(taken(&mut progress), None);
        // A filter leaves some out.
        [5, 6, 9, 12].into_iter().for_each(|offset| progress.hand_out(offset, false));
        progress.settle(range(6, 6), Outcome::Accepted);
        assert_eq!(taken(&mut progress), Some(4), "all that came before was left out");
        progress.settle(range(5, 5), Outcome::Rejected);
        assert_eq!(taken(&mut progress), Some(8));
        assert_eq!(taken(&mut progress), None);
        progress.settle(range(12, 12), Outcome::Accepted);
        assert_eq!(taken(&mut progress), None);
        // Messages given back are for the next consumer.
        progress.settle(range(9, 9), Outcome::Released);
        assert_eq!(taken(&mut progress), None);
        progress.settle(range(9, 9), Outcome::Accepted);
        assert_eq!(taken(&mut progress), Some(12));
    }

    #[test]
    fn what_was_not_sent_does_not_count() {
        let mut progress = Progress::new(b"app"[..].into(), Owner::default());
        (0..6).for_each(|offset| progress.hand_out(offset, offset > 2));
        progress.unsent(range(2, 5));
        progress.settle(range(0, 1), Outcome::Accepted);
        assert_eq!(taken(&mut progress), Some(1));
        progress.unsent(range(0, 1));
        assert_eq!(taken(&mut progress), None);
    }

    #[test]
    fn runs_held_are_bounded() {
        let mut progress = Progress::new(b"app"[..].into(), Owner::default());
        let most = HELD_RUNS_MAX as u64 + 3;
        (0..most).for_each(|number| progress.hand_out(number * 2, false));
        progress.settle(range(1, 1), Outcome::Accepted);
        assert_eq!(taken(&mut progress), Some(5));
    }
}
