//! Sizes of what came before sizes were kept: a limit in bytes that comes to a queue with messages in it.
//!
//! The owner reads the messages, some at a time, and records how large they are; what is recorded counts. Until all is,
//! a queue counts less than it has, never more: what goes for the limit's sake would have gone.
//! Invariant: what lies below `unweighed` and what came after it have their sizes; a record that leaves out what lies
//! between is passed over.

use crate::fifo::Fifo;
use crate::ranges::{numbers, positions};
use base::id::QueueSeq;
use base::ranges::Range;
use message::record::{SeqRange, SizesKept};

impl Fifo {
    /// What is to be weighed, some of which may be gone or have a size already ([`crate::Record::Weigh`]).
    #[inline]
    pub fn to_weigh(&self) -> Option<SeqRange> {
        self.features.as_ref()?.unweighed.map(positions)
    }

    /// The size of everything in it is known.
    pub fn knows_sizes(&self) -> bool {
        self.settings().sizes == SizesKept::All && self.to_weigh().is_none()
    }

    /// The live positions of `range`, in order.
    pub fn live_within(&self, range: SeqRange) -> impl Iterator<Item = QueueSeq> + '_ {
        self.line.live.each_within(range).map(QueueSeq)
    }

    /// Sizes are kept otherwise from now on.
    pub(crate) fn keep_sizes(&mut self, before: SizesKept, now: SizesKept) {
        let there = self.line.live.extent();
        let is_empty = self.total() == 0;
        let features = self.features_mut();
        match (before, now) {
            (SizesKept::All, SizesKept::All) => {}
            (_, SizesKept::All) => features.unweighed = (!is_empty).then_some(there),
            (_, SizesKept::Coming) => features.unweighed = None,
            (_, SizesKept::None) => {
                features.unweighed = None;
                features.sizes.clear();
                features.ready_bytes = 0;
                features.delays.weigh(&features.sizes);
            }
        }
    }

    /// Positions are so large, those of `range` that `sizes` does not name are empty or gone. Passed over where they are not
    /// next to be weighed; sizes that are known stay.
    #[cold]
    pub fn weigh(&mut self, range: SeqRange, sizes: impl Iterator<Item = (QueueSeq, u32)>) {
        let Some(mut features) = self.features.take() else { return };
        let part = features.unweighed.filter(|unweighed| range.first.0 <= unweighed.first);
        if let Some((unweighed, part)) = part.zip(numbers(range)).and_then(|(unweighed, range)| {
            let part = unweighed.overlap(range)?;
            Some((unweighed, part))
        }) {
            let ready = self.ready_within(&features, part);
            let ready_bytes =
                |sizes: &crate::sizes::Sizes| ready.iter().map(|part| sizes.sum(part)).sum::<u64>();
            let before = (ready_bytes(&features.sizes), features.delays.bytes_within(part, &features.sizes));
            let is_theirs = |seq: u64| (part.first..=part.last).contains(&seq);
            for (QueueSeq(seq), bytes) in sizes.filter(|(seq, _)| is_theirs(seq.0) && self.is_live(*seq)) {
                let live = |gap| self.line.live.parts(gap).map(Range::len).sum();
                features.sizes.put(seq, bytes, live);
            }
            features.ready_bytes += ready_bytes(&features.sizes) - before.0;
            let (waiting, back) = features.delays.bytes_within(part, &features.sizes);
            features.delays.grow((waiting - before.1.0, back - before.1.1));
            let rest = Range { first: part.last + 1, last: unweighed.last };
            features.unweighed = (rest.first <= rest.last).then_some(rest);
        }
        self.features = Some(features);
    }
}
