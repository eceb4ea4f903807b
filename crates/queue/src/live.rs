//! Live positions of a queue: from the head on, below the next one, those that are not settled.
//!
//! Recorded.
//! Invariants: positions below the head are gone; `settled` holds positions above the head alone, and neither the head nor
//! the next position; each transient position is live.

use crate::ranges::numbers;
use base::RangeSet;
use base::ranges::Range;
use message::record::SeqRange;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Live {
    next_seq: u64,
    head: u64,
    settled: RangeSet,
    /// Gone after a restart.
    transient: RangeSet,
}

impl Live {
    /// Nothing between these is settled yet; `None` where there is no such queue.
    pub(crate) fn of(head: u64, next_seq: u64) -> Option<Live> {
        (head <= next_seq && next_seq < u64::MAX).then(|| Live { head, next_seq, ..Live::default() })
    }

    /// Settled positions above the head and transient ones, as read; false, and nothing is done: they contradict themselves.
    pub(crate) fn fill(&mut self, settled: RangeSet, transient: RangeSet) -> bool {
        let agree = !transient.iter().any(|range| settled.intersects(range));
        if agree {
            (self.settled, self.transient) = (settled, transient);
        }
        agree
    }

    /// The position the next message gets.
    #[inline]
    pub(crate) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Every position below it is gone.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Positions above the head that are gone.
    #[inline]
    pub(crate) fn settled(&self) -> &RangeSet {
        &self.settled
    }

    /// Positions that are gone after a restart.
    pub(crate) fn transient(&self) -> &RangeSet {
        &self.transient
    }

    /// A message arrived: its position.
    #[inline]
    pub(crate) fn push(&mut self, transient: bool) -> u64 {
        let seq = self.next_seq;
        self.next_seq = seq + 1;
        if transient {
            self.transient.insert(Range { first: seq, last: seq });
        }
        seq
    }

    /// Live positions.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.next_seq - self.head - self.settled.count()
    }

    /// How many of `range` are live.
    pub(crate) fn count_within(&self, range: SeqRange) -> u64 {
        self.clip(range).map_or(0, |range| range.len() - self.settled.count_within(range))
    }

    /// It is live.
    #[inline]
    pub(crate) fn contains(&self, seq: u64) -> bool {
        let is_within = self.head <= seq && seq < self.next_seq;
        is_within && (self.settled.is_empty() || !self.settled.contains(seq))
    }

    /// All of `range` is live.
    pub(crate) fn has_all(&self, range: Range) -> bool {
        self.head <= range.first && range.last < self.next_seq && !self.settled.intersects(range)
    }

    /// All live parts, lowest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = Range> + '_ {
        self.parts(Range { first: 0, last: u64::MAX - 1 })
    }

    /// The live parts of `range`, lowest first.
    pub(crate) fn parts(&self, range: Range) -> impl Iterator<Item = Range> + '_ {
        let last = self.next_seq.checked_sub(1).filter(|last| self.head <= *last);
        let within = last.and_then(|last| range.overlap(Range { first: self.head, last }));
        within.into_iter().flat_map(move |within| self.settled.gaps(within))
    }

    /// The part of `range` from the head on, and below the next position.
    #[inline]
    pub(crate) fn clip(&self, range: SeqRange) -> Option<Range> {
        let range = numbers(range)?;
        range.overlap(Range { first: self.head, last: self.next_seq.checked_sub(1)? })
    }

    /// How many from `from` on are live below `seq`.
    pub(crate) fn count_between(&self, from: u64, seq: u64) -> u64 {
        match seq.checked_sub(1).filter(|last| from <= *last) {
            Some(last) => self.parts(Range { first: from, last }).map(Range::len).sum(),
            None => 0,
        }
    }

    /// The first stretch of `range` that is not settled.
    #[inline]
    pub(crate) fn first_part(&self, range: Range) -> Option<Range> {
        let first = self.settled.next_absent(range.first);
        if first > range.last {
            return None;
        }
        let last = self.settled.next_present(first).map_or(range.last, |next| range.last.min(next - 1));
        Some(Range { first, last })
    }

    /// Live positions are settled; all else about them was forgotten before ([`Live::leave`]).
    #[inline]
    pub(crate) fn settle(&mut self, range: Range) {
        if range.first > self.head {
            self.settled.insert(range);
            return;
        }
        self.head = range.last + 1;
        self.move_head();
    }

    /// As [`Live::settle`], of some positions of the block that begins at `block`.
    pub(crate) fn settle_bits(&mut self, block: u64, bits: u64) {
        self.settled.insert_bits(block, bits);
        if block + u64::from(bits.trailing_zeros()) == self.head {
            self.move_head();
        }
    }

    /// The head goes over settled positions.
    #[inline]
    fn move_head(&mut self) {
        while let Some(first) = self.settled.first().filter(|first| first.first <= self.head) {
            self.settled.pop_first(u64::MAX);
            self.head = self.head.max(first.last + 1);
        }
    }

    /// Positions are about to be settled.
    #[inline]
    pub(crate) fn leave(&mut self, part: Range) {
        if !self.transient.is_empty() {
            self.transient.remove(part, |_| {});
        }
    }

    /// Positions that are gone now that the node was restarted: they are to be settled.
    pub(crate) fn take_transient(&mut self) -> RangeSet {
        std::mem::take(&mut self.transient)
    }

    /// Live positions of `range`, one by one.
    pub(crate) fn each_within(&self, range: SeqRange) -> impl Iterator<Item = u64> + '_ {
        let parts = numbers(range).into_iter().flat_map(|range| self.parts(range));
        parts.flat_map(|part| part.first..=part.last)
    }

    /// From the first position that a queue may still have to the last; one, and gone, where it has none.
    pub(crate) fn extent(&self) -> Range {
        Range { first: self.head, last: self.next_seq.saturating_sub(1) }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.settled.heap_bytes() + self.transient.heap_bytes()
    }
}
