//! Where the bytes of a queue's messages are: in the log one by one, or moved to segments in runs.
//!
//! Places in the log are kept in blocks of [`BLOCK`] positions, four bytes each beside the block's base; a block goes
//! when the last message in it has left, so a message that stays for ever holds one block and not the whole past.
//! Not a set: which positions are still there is the queue's knowledge, handed in.
//!
//! Invariants: runs, then sealed blocks, then the open one, in order of position and without overlap; `live` of each
//! says how many of its positions have not left, and is not 0 (but for the open block, which is empty then).

use base::RangeSet;
use base::id::{LogIndex, QueueSeq};
use base::ranges::Range;
use std::collections::VecDeque;

/// Positions in one block, 2 KiB.
const BLOCK: usize = 512;

/// How large the open block is at first.
const SMALL: usize = 16;

/// Memory the open block keeps when the last message leaves, in positions.
const KEPT: usize = 32;

/// Positions that were already gone may lie between others in a block: cheaper than a new block.
const GAP: u64 = 8;

/// Messages moved to a segment, in one block of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first position in the block.
    pub first: QueueSeq,
    /// The last position in the block.
    pub last: QueueSeq,
    /// How many messages are stored there; those between that are missing were gone before.
    pub count: u32,
    /// The segment.
    pub segment: u64,
    /// Where the block begins in the segment, bytes.
    pub offset: u64,
    /// How long the block is, bytes.
    pub len: u32,
}

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// In the log.
    Log(LogIndex),
    /// In a block of a segment.
    Segment(&'a Run),
}

/// Where neighbouring positions are.
#[derive(Clone, Copy, Debug)]
pub enum Stretch<'a> {
    /// In the log.
    Log(LogStretch<'a>),
    /// In a block of a segment, both ends included.
    Segment {
        /// The first position.
        first: QueueSeq,
        /// The last position.
        last: QueueSeq,
        /// The block.
        run: &'a Run,
    },
}

/// Neighbouring positions in the log, in order of place.
#[derive(Clone, Copy, Debug)]
pub struct LogStretch<'a> {
    first: QueueSeq,
    base: u64,
    deltas: &'a [u32],
}

impl<'a> LogStretch<'a> {
    /// The first position and its place; none where nothing is left.
    #[inline]
    pub fn first(&self) -> Option<(QueueSeq, LogIndex)> {
        self.deltas.first().map(|delta| (self.first, LogIndex(self.base + u64::from(*delta))))
    }

    /// The positions and their places.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (QueueSeq, LogIndex)> + 'a {
        let LogStretch { first, base, deltas } = *self;
        let place = move |(at, delta): (usize, &u32)| {
            (QueueSeq(first.0 + at as u64), LogIndex(base + u64::from(*delta)))
        };
        deltas.iter().enumerate().map(place)
    }

    /// Those with a place below `bound`, and those behind them.
    #[inline]
    pub fn split_at(&self, bound: LogIndex) -> (LogStretch<'a>, LogStretch<'a>) {
        let LogStretch { first, base, deltas } = *self;
        let is_below = |delta: &u32| base + u64::from(*delta) < bound.0;
        // Nearly always all of them are.
        let count = match deltas.last() {
            Some(last) if !is_below(last) => deltas.partition_point(is_below),
            _ => deltas.len(),
        };
        let (below, behind) = deltas.split_at(count);
        let rest = LogStretch { first: QueueSeq(first.0 + count as u64), base, deltas: behind };
        (LogStretch { first, base, deltas: below }, rest)
    }
}

#[derive(Debug)]
struct MovedRun {
    run: Run,
    live: u64,
}

#[derive(Debug, Default)]
struct Block {
    first: u64,
    base: u64,
    live: u32,
    /// Place of each position from `first` on, counted from `base`.
    deltas: Vec<u32>,
}

impl Block {
    #[inline]
    fn end(&self) -> u64 {
        self.first + self.deltas.len() as u64
    }

    /// The part of its positions that is in `range`, as indexes.
    #[inline]
    fn within(&self, range: Range) -> std::ops::Range<usize> {
        let from = range.first.max(self.first) - self.first;
        let to = (range.last + 1).min(self.end()).max(self.first + from) - self.first;
        from as usize..to as usize
    }

    #[inline]
    fn place(&self, at: usize) -> LogIndex {
        LogIndex(self.base + u64::from(self.deltas[at]))
    }
}

/// The index of one queue.
#[derive(Debug, Default)]
pub struct Places {
    runs: VecDeque<MovedRun>,
    sealed: VecDeque<Block>,
    open: Block,
}

impl Places {
    /// Notes the place of the next position.
    #[inline]
    pub(crate) fn push(&mut self, seq: u64, place: LogIndex) {
        let open = &mut self.open;
        let delta = place.0.wrapping_sub(open.base);
        let len = open.deltas.len();
        if len > 0
            && len < open.deltas.capacity()
            && seq == open.first + len as u64
            && delta <= u64::from(u32::MAX)
        {
            open.deltas.push(delta as u32);
            open.live += 1;
            return;
        }
        self.push_slowly(seq, place);
    }

    #[cold]
    fn push_slowly(&mut self, seq: u64, place: LogIndex) {
        let open = &mut self.open;
        let delta = place.0.wrapping_sub(open.base);
        let gap = seq.wrapping_sub(open.end());
        let len = open.deltas.len() as u64;
        let goes_on = len > 0 && gap <= GAP && len + gap < BLOCK as u64 && delta <= u64::from(u32::MAX);
        if goes_on {
            let needed = open.deltas.len() + gap as usize + 1;
            if needed > open.deltas.capacity() {
                let capacity = if needed <= SMALL * 8 { SMALL * 8 } else { BLOCK };
                open.deltas.reserve_exact(capacity - open.deltas.len());
            }
            open.deltas.resize(open.deltas.len() + gap as usize, delta as u32);
            open.deltas.push(delta as u32);
            open.live += 1;
            return;
        }
        let was_full = len == BLOCK as u64;
        if len > 0 {
            let mut sealed = std::mem::take(open);
            if !was_full {
                sealed.deltas.shrink_to_fit();
            }
            self.sealed.push_back(sealed);
        }
        let open = &mut self.open;
        open.first = seq;
        open.base = place.0;
        open.live = 1;
        if open.deltas.capacity() == 0 {
            open.deltas.reserve_exact(if was_full { BLOCK } else { SMALL });
        }
        open.deltas.push(0);
    }

    /// Forgets `range`, of which all positions were there, and tells the places and runs that are left by that.
    #[inline]
    pub(crate) fn remove(&mut self, range: Range, left: &mut Vec<LogIndex>, runs_left: &mut Vec<Run>) {
        if self.open.deltas.is_empty() || range.first < self.open.first {
            self.remove_early(range, left, runs_left);
        }
        let open = &mut self.open;
        let within = if open.deltas.is_empty() { 0..0 } else { open.within(range) };
        if within.is_empty() {
            return;
        }
        open.live -= within.len() as u32;
        let base = open.base;
        left.extend(open.deltas[within].iter().map(|delta| LogIndex(base + u64::from(*delta))));
        if open.live == 0 {
            open.deltas.clear();
            if open.deltas.capacity() > KEPT {
                open.deltas = Vec::new();
            }
        }
    }

    /// As [`Places::remove`], of some of the 64 positions from `first` on.
    pub(crate) fn remove_bits(
        &mut self,
        first: u64,
        bits: u64,
        left: &mut Vec<LogIndex>,
        runs_left: &mut Vec<Run>,
    ) {
        let lowest = first + u64::from(bits.trailing_zeros());
        let highest = first + 63 - u64::from(bits.leading_zeros());
        let at = self.find_sealed(lowest);
        let is_within = |block: &&mut Block| block.first <= lowest && highest < block.end();
        let Some(block) = self.sealed.get_mut(at).filter(is_within) else {
            return crate::priority_blocks::Block::runs_of(first, bits, &mut |run| {
                self.remove(run, left, runs_left)
            });
        };
        let mut rest = bits;
        while rest != 0 {
            let seq = first + u64::from(rest.trailing_zeros());
            left.push(block.place((seq - block.first) as usize));
            rest &= rest - 1;
        }
        block.live -= bits.count_ones();
        if block.live == 0 {
            self.sealed.remove(at);
            if self.sealed.len() * 4 < self.sealed.capacity() {
                self.sealed.shrink_to(self.sealed.len() * 2);
            }
        }
    }

    /// The part of a removal that is not in the open block.
    fn remove_early(&mut self, range: Range, left: &mut Vec<LogIndex>, runs_left: &mut Vec<Run>) {
        let mut at = self.find_run(range.first);
        while let Some(moved) = self.runs.get_mut(at) {
            let run = Range { first: moved.run.first.0, last: moved.run.last.0 };
            let Some(part) = run.overlap(range) else { break };
            moved.live -= part.len();
            if moved.live == 0 {
                runs_left.push(moved.run);
                self.runs.remove(at);
            } else {
                at += 1;
            }
        }
        if self.runs.is_empty() && self.runs.capacity() > 0 {
            self.runs = VecDeque::new();
        }
        let mut at = self.find_sealed(range.first);
        while let Some(block) = self.sealed.get_mut(at).filter(|block| block.first <= range.last) {
            let within = block.within(range);
            block.live -= within.len() as u32;
            left.extend(block.deltas[within].iter().map(|delta| LogIndex(block.base + u64::from(*delta))));
            if block.live == 0 {
                self.sealed.remove(at);
            } else {
                at += 1;
            }
        }
        if self.sealed.len() * 4 < self.sealed.capacity() {
            self.sealed.shrink_to(self.sealed.len() * 2);
        }
    }

    /// The first run that ends at `seq` or above.
    fn find_run(&self, seq: u64) -> usize {
        match self.runs.front() {
            Some(moved) if moved.run.last.0 < seq => {
                self.runs.partition_point(|moved| moved.run.last.0 < seq)
            }
            _ => 0,
        }
    }

    /// The first sealed block that ends at `seq` or above.
    #[inline]
    fn find_sealed(&self, seq: u64) -> usize {
        let Some(front) = self.sealed.front().filter(|block| block.end() <= seq) else { return 0 };
        // Right where all blocks are full, which is nearly always.
        let guess = (seq - front.first) as usize / BLOCK;
        match self.sealed.get(guess) {
            Some(block) if block.first <= seq && seq < block.end() => guess,
            _ => self.sealed.partition_point(|block| block.end() <= seq),
        }
    }

    /// The place of `seq`, which is there.
    #[inline]
    pub(crate) fn get(&self, seq: u64) -> Option<Place<'_>> {
        self.span(seq).and_then(|span| span.get(seq))
    }

    /// The block or run `seq` is in.
    #[inline]
    fn span(&self, seq: u64) -> Option<Span<'_>> {
        let open = &self.open;
        if !open.deltas.is_empty() && open.first <= seq {
            return (seq < open.end()).then_some(Span::Block(open));
        }
        if let Some(block) = self.sealed.get(self.find_sealed(seq)).filter(|block| block.first <= seq) {
            return Some(Span::Block(block));
        }
        let moved = self.runs.get(self.find_run(seq))?;
        (moved.run.first.0 <= seq).then_some(Span::Run(&moved.run))
    }

    /// Where the positions of `range` are, all of which are there: as few stretches as may be, in order.
    #[inline]
    pub(crate) fn stretches(&self, range: Range) -> impl Iterator<Item = Stretch<'_>> + '_ {
        let mut at = range.first;
        std::iter::from_fn(move || {
            let first = QueueSeq(at);
            let span = if at <= range.last { self.span(at)? } else { return None };
            Some(match span {
                Span::Block(block) => {
                    let within = block.within(Range { first: at, last: range.last });
                    at += within.len() as u64;
                    Stretch::Log(LogStretch { first, base: block.base, deltas: &block.deltas[within] })
                }
                Span::Run(run) => {
                    let last = QueueSeq(run.last.0.min(range.last));
                    at = last.0 + 1;
                    Stretch::Segment { first, last, run }
                }
            })
        })
    }

    /// Positions in the log below `bound` that are not in `gone`.
    pub(crate) fn live_below<'a>(
        &'a self,
        bound: LogIndex,
        head: u64,
        gone: &'a RangeSet,
    ) -> impl Iterator<Item = (QueueSeq, LogIndex)> + 'a {
        let blocks = self.sealed.iter().chain((!self.open.deltas.is_empty()).then_some(&self.open));
        let live = blocks.flat_map(move |block| {
            let range = Range { first: block.first.max(head), last: block.end() - 1 };
            let parts = (range.first <= range.last).then(|| gone.gaps(range)).into_iter().flatten();
            parts.flat_map(move |part| {
                block.within(part).map(move |at| (QueueSeq(block.first + at as u64), block.place(at)))
            })
        });
        live.take_while(move |(_, place)| *place < bound)
    }

    /// Runs that still hold something, lowest first.
    pub(crate) fn runs(&self) -> impl ExactSizeIterator<Item = &Run> {
        self.runs.iter().map(|moved| &moved.run)
    }

    /// Adds a run behind all others, with `live` of its messages left.
    pub(crate) fn push_run(&mut self, run: Run, live: u64) {
        assert!(self.runs.back().is_none_or(|last| last.run.last < run.first), "runs come in order");
        self.runs.push_back(MovedRun { run, live });
    }

    /// Forgets places in the log up to `last`. `gone` and `head` tell the positions that had left, of the block that
    /// `last` is in.
    pub(crate) fn forget_logs(&mut self, last: u64, head: u64, gone: &RangeSet) {
        while self.sealed.front().is_some_and(|block| block.end() <= last + 1) {
            self.sealed.pop_front();
        }
        if self.sealed.is_empty() {
            self.sealed = VecDeque::new();
        }
        let block = self.sealed.front_mut().unwrap_or(&mut self.open);
        if block.deltas.is_empty() || block.first > last {
            return;
        }
        let cut = ((last + 1 - block.first) as usize).min(block.deltas.len());
        let first = block.first.max(head);
        if first <= last.min(block.end() - 1) {
            let range = Range { first, last: last.min(block.end() - 1) };
            block.live -= (range.len() - gone.count_within(range)) as u32;
        }
        block.deltas.drain(..cut);
        block.first += cut as u64;
        if block.live == 0 {
            block.deltas = Vec::new();
            if !self.sealed.is_empty() {
                self.sealed.pop_front();
            }
        }
    }

    /// Heap bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let deltas: usize = self.sealed.iter().map(|block| block.deltas.capacity()).sum();
        (deltas + self.open.deltas.capacity()) * size_of::<u32>()
            + self.sealed.capacity() * size_of::<Block>()
            + self.runs.capacity() * size_of::<MovedRun>()
    }
}

/// A stretch of positions in one place.
#[derive(Clone, Copy)]
enum Span<'a> {
    Block(&'a Block),
    Run(&'a Run),
}

impl<'a> Span<'a> {
    #[inline]
    fn get(self, seq: u64) -> Option<Place<'a>> {
        match self {
            Span::Block(block) => {
                let delta = block.deltas.get(usize::try_from(seq.checked_sub(block.first)?).ok()?)?;
                Some(Place::Log(LogIndex(block.base + u64::from(*delta))))
            }
            Span::Run(run) => (run.first.0 <= seq && seq <= run.last.0).then_some(Place::Segment(run)),
        }
    }
}
