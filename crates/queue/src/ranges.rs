//! Positions of a queue as numbers of a set, and back.

use base::id::QueueSeq;
use base::ranges::Range;
use message::record::SeqRange;

/// The range of a set as the positions of a queue.
#[inline]
pub(crate) fn positions(range: Range) -> SeqRange {
    SeqRange { first: QueueSeq(range.first), last: QueueSeq(range.last) }
}

/// The positions as numbers of a set; `None` where they run backwards or name the one number no position has.
#[inline]
pub(crate) fn numbers(range: SeqRange) -> Option<Range> {
    let Range { first, last } = Range { first: range.first.0, last: range.last.0 };
    (first <= last && last < u64::MAX).then_some(Range { first, last })
}
