//! A time each of some positions, or another number, in runs of positions that have the same.
//!
//! Invariant: no position is in two runs.

use base::ranges::Range;
use std::collections::BTreeMap;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    /// By first position: the time, and how many follow on.
    by_first: BTreeMap<u64, (u64, u32)>,
}

impl Spans {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_first.is_empty()
    }

    /// The time of a position above all others is `at_ms`.
    pub(crate) fn push(&mut self, at_ms: u64, seq: u64) {
        if let Some((&first, (of, count))) = self.by_first.iter_mut().next_back()
            && *of == at_ms
            && *count < u32::MAX
            && span(first, *count).last + 1 == seq
        {
            *count += 1;
            return;
        }
        self.by_first.insert(seq, (at_ms, 1));
    }

    /// From now on the time of all of `range` is `at_ms`.
    pub(crate) fn set(&mut self, at_ms: u64, range: Range) {
        self.cut(range, |_, _| {});
        pieces(range, |first, count| _ = self.by_first.insert(first, (at_ms, count)));
    }

    /// Takes `range` out, and tells of the parts of it that were there, in no order.
    #[inline]
    pub(crate) fn cut(&mut self, range: Range, cut: impl FnMut(u64, Range)) {
        if !self.by_first.is_empty() {
            self.cut_some(range, cut);
        }
    }

    fn cut_some(&mut self, range: Range, mut cut: impl FnMut(u64, Range)) {
        while let Some((&first, &(at_ms, count))) = self.by_first.range(..=range.last).next_back() {
            let span = span(first, count);
            let Some(part) = span.overlap(range) else { break };
            self.by_first.remove(&first);
            if span.first < part.first {
                self.by_first.insert(span.first, (at_ms, (part.first - span.first) as u32));
            }
            if part.last < span.last {
                self.by_first.insert(part.last + 1, (at_ms, (span.last - part.last) as u32));
            }
            cut(at_ms, part);
        }
    }

    /// The parts of it within `range`, lowest first.
    pub(crate) fn within(&self, range: Range) -> impl Iterator<Item = (u64, Range)> + '_ {
        let before = self.by_first.range(..range.first).next_back();
        let from = self.by_first.range(range.first..=range.last);
        let spans = before.into_iter().chain(from);
        spans.filter_map(move |(&first, &(at_ms, count))| Some((at_ms, span(first, count).overlap(range)?)))
    }

    /// All runs, lowest position first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Range)> + '_ {
        self.by_first.iter().map(|(&first, &(at_ms, count))| (at_ms, span(first, count)))
    }

    /// Heap bytes, as far as they can be known.
    pub(crate) fn heap_bytes(&self) -> usize {
        // A node has room for eleven; two thirds are in use.
        self.by_first.len() * 36
    }
}

fn span(first: u64, count: u32) -> Range {
    Range { first, last: first + u64::from(count) - 1 }
}

/// `range` as first positions and counts, each of which fits.
pub(crate) fn pieces(range: Range, mut piece: impl FnMut(u64, u32)) {
    let mut first = range.first;
    while first <= range.last {
        let count = (range.last - first + 1).min(u64::from(u32::MAX)) as u32;
        piece(first, count);
        first += u64::from(count);
    }
}
