//! Bytes of a queue's messages, where limits need them.
//!
//! Recorded are the sizes, and the messages that have none yet: those that came before sizes were kept. The owner reads
//! these, some at a time, and records how large they are; recorded sizes count. Until all are known, a queue counts
//! less than it has, never more: messages that go for the limit's sake would have gone.
//! Invariant: messages below `unweighed` and those that came after it have their sizes; a record that leaves out
//! messages between is passed over.

use crate::delays::Delays;
use crate::live::Live;
use crate::ranges::numbers;
use crate::sizes::Sizes;
use base::RangeSet;
use base::id::QueueSeq;
use base::ranges::Range;
use message::record::{SeqRange, SizesKept};

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Weights {
    sizes: Sizes,
    /// Positions without a size, but for those that came while sizes were kept.
    unweighed: Option<Range>,
    /// Volatile: bytes of ready messages.
    ready_bytes: u64,
}

impl Weights {
    pub(crate) fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    pub(crate) fn sizes_mut(&mut self) -> &mut Sizes {
        &mut self.sizes
    }

    pub(crate) fn unweighed(&self) -> Option<Range> {
        self.unweighed
    }

    /// Positions without a size, as read.
    pub(crate) fn set_unweighed(&mut self, unweighed: Option<Range>) {
        self.unweighed = unweighed;
    }

    pub(crate) fn ready_bytes(&self) -> u64 {
        self.ready_bytes
    }

    /// A message arrived that is ready, or delayed.
    pub(crate) fn push(&mut self, seq: u64, bytes: u32, live: &Live, is_ready: bool) {
        let between = live.count_between(self.sizes.end(), seq);
        self.sizes.push(seq, bytes, between);
        if is_ready {
            self.ready_bytes += u64::from(bytes);
        }
    }

    /// Positions are ready.
    pub(crate) fn add_ready(&mut self, range: Range) {
        self.ready_bytes += self.sizes.sum(range);
    }

    /// Positions are ready no more.
    pub(crate) fn take_ready(&mut self, range: Range) {
        if !self.sizes.is_empty() {
            self.ready_bytes -= self.sizes.sum(range);
        }
    }

    /// Positions are gone.
    pub(crate) fn leave(&mut self, part: Range) {
        self.sizes.leave(part);
    }

    /// Everything live is ready but the delayed messages.
    pub(crate) fn forget(&mut self, live: &Live, delays: &mut Delays) {
        let bytes: u64 = live.all().map(|part| self.sizes.sum(part)).sum();
        delays.weigh(&self.sizes);
        self.ready_bytes = bytes - delays.bytes();
    }

    /// Sizes are kept otherwise from now on.
    pub(crate) fn keep(&mut self, before: SizesKept, now: SizesKept, live: &Live, delays: &mut Delays) {
        match (before, now) {
            (SizesKept::All, SizesKept::All) => {}
            (_, SizesKept::All) => self.unweighed = (live.count() > 0).then_some(live.extent()),
            (_, SizesKept::Coming) => self.unweighed = None,
            (_, SizesKept::None) => {
                self.unweighed = None;
                self.sizes.clear();
                self.ready_bytes = 0;
                delays.weigh(&self.sizes);
            }
        }
    }

    /// The part of `range` that is next to be weighed.
    pub(crate) fn next_unweighed(&self, range: SeqRange) -> Option<Range> {
        let unweighed = self.unweighed.filter(|unweighed| range.first.0 <= unweighed.first)?;
        unweighed.overlap(numbers(range)?)
    }

    /// Positions of `part`, which is next to be weighed, are so large; those that are not named are empty or gone. `ready` are
    /// those of them that are ready.
    pub(crate) fn weigh(
        &mut self,
        part: Range,
        sizes: impl Iterator<Item = (QueueSeq, u32)>,
        ready: &RangeSet,
        live: &Live,
        delays: &mut Delays,
    ) {
        let ready_bytes = |sizes: &Sizes| ready.iter().map(|part| sizes.sum(part)).sum::<u64>();
        let before = (ready_bytes(&self.sizes), delays.bytes_within(part, &self.sizes));
        let is_theirs = |seq: u64| (part.first..=part.last).contains(&seq);
        for (QueueSeq(seq), bytes) in sizes.filter(|(seq, _)| is_theirs(seq.0) && live.contains(seq.0)) {
            self.sizes.put(seq, bytes, |gap| live.parts(gap).map(Range::len).sum());
        }
        self.ready_bytes += ready_bytes(&self.sizes) - before.0;
        let (waiting, back) = delays.bytes_within(part, &self.sizes);
        delays.grow((waiting - before.1.0, back - before.1.1));
        let last = self.unweighed.map_or(part.last, |unweighed| unweighed.last);
        let rest = Range { first: part.last + 1, last };
        self.unweighed = (rest.first <= rest.last).then_some(rest);
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.sizes.heap_bytes()
    }
}
