//! Memory of publishers and consumers: the publishing ids they reached, the offsets they stored.
//!
//! Bounded: of publishers those that were active last are known, as in RabbitMQ's streams 255 when a segment is full and more
//! between. Offsets of messages that are gone are forgotten with them; one beyond the last message is taken, as by RabbitMQ.

use super::limits::Limits;
use super::offsets::{Offsets, Storing};
use message::record::Owner;
use std::collections::BTreeMap;

/// The beginning of the names under which a stream remembers how far it fed a queue. They have room beside the others,
/// stay however much is gone from the stream, and go with the offset `u64::MAX`.
pub const FEED: &[u8] = b"\0queue\0";

/// How far a publisher has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    /// Its last publishing id.
    pub(super) id: u64,
    /// The chunk that has it.
    pub(super) chunk_id: u64,
}

/// See the module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tracked {
    pub(super) sequences: BTreeMap<Box<[u8]>, Sequence>,
    pub(super) offsets: Offsets,
}

impl Tracked {
    /// The last publishing id of the publisher.
    pub(super) fn sequence(&self, reference: &[u8]) -> Option<u64> {
        self.sequences.get(reference).map(|sequence| sequence.id)
    }

    /// The offset that the consumer stored.
    pub(super) fn offset(&self, reference: &[u8]) -> Option<u64> {
        self.offsets.get(reference)
    }

    /// The publisher reached this id in this chunk.
    pub(super) fn reach(&mut self, reference: &[u8], sequence: Sequence, limits: &Limits) {
        if let Some(known) = self.sequences.get_mut(reference) {
            *known = sequence;
            return;
        }
        self.keep_sequences(limits.sequences_max.saturating_sub(1));
        self.sequences.insert(reference.into(), sequence);
    }

    /// Notes an offset, and the fate of another for it.
    pub(super) fn store(
        &mut self,
        reference: &[u8],
        offset: u64,
        owner: Option<Owner>,
        first_offset: u64,
        limits: &Limits,
    ) -> Storing {
        self.offsets.store(reference, offset, owner, (first_offset, limits.offsets_max))
    }

    /// A segment is full: publishers and offsets that RabbitMQ's streams would not carry over go.
    pub(super) fn trim(&mut self, first_offset: u64, limits: &Limits) {
        self.offsets.forget_before(first_offset);
        self.keep_sequences(limits.sequences_kept);
    }

    /// Forgets those that were idle for longest. Where there are many too many at once, it is one pass for all.
    fn keep_sequences(&mut self, count_max: usize) {
        let Some(beyond) = self.sequences.len().checked_sub(count_max).filter(|beyond| *beyond > 0) else {
            return;
        };
        // By name where the chunk is the same, so that every replay forgets the same.
        let mut ages: Vec<(u64, &[u8])> =
            self.sequences.iter().map(|(reference, sequence)| (sequence.chunk_id, &**reference)).collect();
        ages.sort_unstable();
        let forgotten: Vec<Box<[u8]>> =
            ages[..beyond].iter().map(|(_, reference)| (*reference).into()).collect();
        for reference in forgotten {
            self.sequences.remove(&reference);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::offsets::Storing;
    use super::{FEED, Limits, Sequence, Tracked};

    const LIMITS: fn() -> Limits =
        || Limits { sequences_kept: 2, sequences_max: 3, offsets_max: 2, ..Limits::default() };

    #[test]
    fn the_idle_are_forgotten_first() {
        let (limits, mut tracked) = (LIMITS(), Tracked::default());
        for (reference, chunk_id) in [(b"a", 1), (b"b", 2), (b"c", 3), (b"a", 4), (b"d", 5)] {
            tracked.reach(reference, Sequence { id: chunk_id * 10, chunk_id }, &limits);
        }
        let known = |tracked: &Tracked| [b"a", b"b", b"c", b"d"].map(|reference| tracked.sequence(reference));
        assert_eq!(known(&tracked), [Some(40), None, Some(30), Some(50)]);
        tracked.trim(0, &limits);
        assert_eq!(known(&tracked), [Some(40), None, None, Some(50)]);
    }

    #[test]
    fn offsets_have_bounded_room() {
        let (limits, mut tracked) = (LIMITS(), Tracked::default());
        let stored = |tracked: &mut Tracked, reference: &[u8], offset, first| {
            tracked.store(reference, offset, None, first, &limits) == Storing::Stored
        };
        assert!(stored(&mut tracked, b"a", 5, 0));
        assert!(stored(&mut tracked, b"b", 9, 0));
        assert!(!stored(&mut tracked, b"c", 9, 0));
        // A known publisher goes on, also backwards.
        assert!(stored(&mut tracked, b"a", 3, 0));
        assert!(stored(&mut tracked, b"c", 12, 4));
        assert_eq!([b"a", b"b", b"c"].map(|reference| tracked.offset(reference)), [None, Some(9), Some(12)]);
        tracked.trim(10, &limits);
        assert_eq!(tracked.offset(b"b"), None);
    }

    #[test]
    fn how_far_queues_were_fed_stays_until_it_is_taken_back() {
        let (limits, mut tracked) = (LIMITS(), Tracked::default());
        let feeds: Vec<Vec<u8>> = (0..5).map(|queue| [FEED, &[queue]].concat()).collect();
        for feed in &feeds {
            assert_eq!(tracked.store(feed, 3, None, 0, &limits), Storing::Stored);
        }
        tracked.trim(10, &limits);
        assert!(feeds.iter().all(|feed| tracked.offset(feed) == Some(3)));
        assert_eq!(tracked.store(&feeds[1], u64::MAX, None, 0, &limits), Storing::Stored);
        assert_eq!((tracked.offset(&feeds[1]), tracked.offsets.len()), (None, 4));
    }
}
