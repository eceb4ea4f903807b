//! Messages of another priority than the usual one, by level.
//!
//! Recorded is the level of each live message. The usual level is not in here: its messages are those in no other.
//! Where levels take turns a message costs a few bits ([`Mixed`]); long stretches of one level are ranges. Ranges are
//! also for positions that are ready otherwise than by having arrived: they came back, or were delayed first.
//! Invariants: levels are sorted; a position is a member once, of one level, in bits or in a range; a ready position is
//! a member and ready in one way; when there is no member there is no level.

use crate::priority_blocks::{BLOCK, Mixed, blocks_cut};
use base::RangeSet;
use base::ranges::Range;

/// State of a level beside [`Mixed`].
#[derive(Debug)]
struct Level {
    level: u8,
    /// Whole blocks of live positions of this level alone.
    stretches: RangeSet,
    /// Ready, and out before, and before all others: where priorities are strict.
    returned: RangeSet,
    /// Ready, and out before, and at its place among those of this level.
    in_line: RangeSet,
    /// Ready, and never out while this owner lasts; but for those that are fresh in bits.
    fresh: RangeSet,
    /// How many are fresh in bits.
    mixed: u64,
    /// None of those is below.
    mixed_from: u64,
}

impl Level {
    fn new(level: u8) -> Level {
        let [stretches, returned, in_line, fresh] = [const { RangeSet::new() }; 4];
        Level { level, stretches, returned, in_line, fresh, mixed: 0, mixed_from: 0 }
    }
}

/// All levels but the usual one.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    list: Vec<Level>,
    mixed: Mixed,
    /// Members that are not in `mixed`.
    stretched: u64,
    /// Ready in `mixed`.
    ready_mixed: u64,
    /// Ready in sets of ranges.
    ready_ranges: u64,
}

/// Positions of a level that could be handed out next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    at: usize,
    pub(crate) range: Range,
    how: How,
}

impl Next {
    /// It was out before.
    pub(crate) fn is_returned(&self) -> bool {
        matches!(self.how, How::Returned | How::InLine)
    }
}

/// Positions of a level that are ready in bits of one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scattered {
    at: usize,
    found: usize,
    /// Where the block begins.
    pub(crate) block: u64,
    /// Which of its positions; never none.
    pub(crate) bits: u64,
}

impl Scattered {
    /// The first position.
    pub(crate) fn lowest(&self) -> u64 {
        self.block + u64::from(self.bits.trailing_zeros())
    }
}

/// How something is ready.
#[derive(Clone, Copy, Debug)]
enum How {
    Returned,
    InLine,
    Fresh,
    /// In this block.
    Mixed(usize),
}

impl Levels {
    /// Fresh ones of these levels, lowest first and without overlap.
    pub(crate) fn of(members: &[(u8, Range)]) -> Levels {
        let mut levels = Levels::default();
        levels.mixed.reserve(members.iter().map(|(_, range)| blocks_cut(*range)).sum());
        members.iter().for_each(|(level, range)| levels.insert(*level, *range));
        levels
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.mixed.count() == 0 && self.stretched == 0
    }

    /// Members.
    pub(crate) fn count(&self) -> u64 {
        self.mixed.count() + self.stretched
    }

    /// All members of each level that has any, lowest first.
    pub(crate) fn members(&self) -> Vec<(u8, RangeSet)> {
        let mut all: Vec<_> = self.list.iter().map(|level| (level.level, RangeSet::new())).collect();
        let everything = Range { first: 0, last: u64::MAX - 1 };
        self.each_within(everything, |at, part| _ = all[at].1.insert(part));
        all.retain(|(_, members)| !members.is_empty());
        all
    }

    fn find(&self, level: u8) -> Result<usize, usize> {
        self.list.binary_search_by_key(&level, |level| level.level)
    }

    /// Where `level` is in the list, from now on.
    #[inline]
    fn place(&mut self, level: u8) -> usize {
        self.find(level).unwrap_or_else(|at| {
            self.list.insert(at, Level::new(level));
            at
        })
    }

    /// A fresh message of `level`, which follows all others.
    #[inline]
    pub(crate) fn insert_one(&mut self, level: u8, seq: u64) {
        let at = self.place(level);
        let of = &mut self.list[at];
        if of.mixed == 0 {
            of.mixed_from = seq;
        }
        of.mixed += 1;
        self.ready_mixed += 1;
        self.mixed.insert_one(level, seq);
        if seq % BLOCK == BLOCK - 1 {
            self.stretch();
        }
    }

    /// Fresh messages of `level`, which follow all others.
    pub(crate) fn insert(&mut self, level: u8, range: Range) {
        let at = self.place(level);
        let mut rest = range;
        loop {
            let block_last = rest.first | (BLOCK - 1);
            let of = &mut self.list[at];
            let last = if rest.first.is_multiple_of(BLOCK) && block_last <= rest.last {
                let last = rest.last - (rest.last + 1) % BLOCK;
                let whole = Range { first: rest.first, last };
                self.stretched += of.stretches.insert(whole);
                self.ready_ranges += of.fresh.insert(whole);
                last
            } else {
                let part = Range { first: rest.first, last: rest.last.min(block_last) };
                if of.mixed == 0 {
                    of.mixed_from = part.first;
                }
                of.mixed += part.len();
                self.ready_mixed += part.len();
                self.mixed.insert(level, part);
                if part.last == block_last {
                    self.stretch();
                }
                part.last
            };
            if last == rest.last {
                return;
            }
            rest.first = last + 1;
        }
    }

    /// The last block becomes a range if it can be one.
    fn stretch(&mut self) {
        let Some(full) = self.mixed.take_full() else { return };
        let Ok(at) = self.find(full.level) else { return };
        let level = &mut self.list[at];
        self.stretched += level.stretches.insert(full.range);
        for part in full.fresh {
            level.mixed -= part.len();
            self.ready_mixed -= part.len();
            self.ready_ranges += level.fresh.insert(part);
        }
    }

    /// Messages that could be handed out.
    #[inline]
    pub(crate) fn ready(&self) -> u64 {
        self.ready_mixed + self.ready_ranges
    }

    /// Those of them that were out before.
    pub(crate) fn ready_returned(&self) -> u64 {
        self.list.iter().map(|level| level.returned.count() + level.in_line.count()).sum()
    }

    /// How many of each level are ready and were not out before, of levels that have any, lowest first.
    pub(crate) fn fresh(&self) -> Vec<(u8, u64)> {
        let counts = self.list.iter().map(|level| (level.level, level.mixed + level.fresh.count()));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// The first that is ready of the highest level that `is_asked` for.
    #[inline]
    pub(crate) fn first(&self, is_asked: impl Fn(u8) -> bool) -> Option<Next> {
        if self.ready() == 0 {
            return None;
        }
        // Levels that have nothing are many and quickly passed over.
        let may_have = |level: &Level| level.mixed > 0 || self.ready_ranges > 0;
        let levels = self.list.iter().enumerate().rev();
        let mut asked = levels.filter(|(_, level)| may_have(level) && is_asked(level.level));
        asked.find_map(|(at, level)| self.first_of(at, level))
    }

    #[inline]
    fn first_of(&self, at: usize, level: &Level) -> Option<Next> {
        match level.in_line.first() {
            Some(range) => Some(self.first_beside(at, level, range)),
            None => self.first_fresh(at, level),
        }
    }

    /// The first of the positions that came back and of those that never were out. Most that came back are before all
    /// others; those that were chosen need not be.
    #[cold]
    fn first_beside(&self, at: usize, level: &Level, in_line: Range) -> Next {
        match self.first_fresh(at, level) {
            Some(Next { range: Range { first, last }, how, .. }) if first < in_line.first => {
                Next { at, range: Range { first, last: last.min(in_line.first - 1) }, how }
            }
            _ => Next { at, range: in_line, how: How::InLine },
        }
    }

    #[inline]
    fn first_fresh(&self, at: usize, level: &Level) -> Option<Next> {
        let fresh = level.fresh.first();
        if level.mixed > 0
            && let Some((block, range)) = self.mixed.next_fresh(level.level, level.mixed_from)
            && fresh.is_none_or(|fresh| range.first < fresh.first)
        {
            return Some(Next { at, range, how: How::Mixed(block) });
        }
        fresh.map(|range| Next { at, range, how: How::Fresh })
    }

    /// Something is ready in sets of ranges.
    #[inline]
    pub(crate) fn has_ready_ranges(&self) -> bool {
        self.ready_ranges > 0
    }

    /// Fresh positions of the highest level that `is_asked` for, in the first block that has any, where nothing is ready in
    /// ranges.
    #[inline]
    pub(crate) fn first_scattered(&self, is_asked: impl Fn(u8) -> bool) -> Option<Scattered> {
        if self.ready_mixed == 0 {
            return None;
        }
        let levels = self.list.iter().enumerate().rev();
        let (at, level) = levels.into_iter().find(|(_, level)| level.mixed > 0 && is_asked(level.level))?;
        let (found, block, bits) = self.mixed.next_bits(level.level, level.mixed_from)?;
        Some(Scattered { at, found, block, bits })
    }

    /// Some of these are handed out, those of `bits`: the last of them.
    #[inline]
    pub(crate) fn take_scattered(&mut self, some: Scattered, bits: u64) -> u64 {
        let last = some.block + (BLOCK - 1) - u64::from(bits.leading_zeros());
        let count = u64::from(bits.count_ones());
        self.mixed.take_bits(some.found, bits);
        self.ready_mixed -= count;
        let level = &mut self.list[some.at];
        level.mixed -= count;
        level.mixed_from = last + 1;
        last
    }

    /// Which positions of the block that begins at `block` are of another level than the usual.
    pub(crate) fn bits(&self, block: u64) -> u64 {
        let mixed = self.mixed.bits(block);
        if self.stretched == 0 {
            return mixed;
        }
        self.list.iter().fold(mixed, |bits, level| bits | level.stretches.bits(block))
    }

    /// The first that came back and goes before all others, of the highest level that `is_asked` for.
    #[inline]
    pub(crate) fn first_returned(&self, is_asked: impl Fn(u8) -> bool) -> Option<Next> {
        if self.ready_ranges == 0 {
            return None;
        }
        let mut asked = self.list.iter().enumerate().rev().filter(|(_, level)| is_asked(level.level));
        asked.find_map(|(at, level)| Some(Next { at, range: level.returned.first()?, how: How::Returned }))
    }

    /// A range that begins with `next`, all of which is ready in the same way, is handed out.
    #[inline]
    pub(crate) fn take(&mut self, next: Next, range: Range) {
        let level = &mut self.list[next.at];
        match next.how {
            How::Returned => self.ready_ranges -= level.returned.remove(range, |_| {}),
            How::InLine => self.ready_ranges -= level.in_line.remove(range, |_| {}),
            How::Fresh => self.ready_ranges -= level.fresh.remove(range, |_| {}),
            How::Mixed(block) => {
                self.mixed.take(block, range);
                level.mixed -= range.len();
                level.mixed_from = range.last + 1;
                self.ready_mixed -= range.len();
            }
        }
    }

    /// Tells `part` of the members in `range`, and which level in the list they are of; those of a level in order.
    fn each_within(&self, range: Range, mut part: impl FnMut(usize, Range)) {
        self.mixed.within(range, |level, of_level| {
            if let Ok(at) = self.find(level) {
                part(at, of_level);
            }
        });
        if self.stretched > 0 {
            for (at, level) in self.list.iter().enumerate() {
                level.stretches.within(range).for_each(|of_level| part(at, of_level));
            }
        }
    }

    /// Tells `part` of the parts of `range`, each of one level; `usual`: that of those that are no members.
    pub(crate) fn by_level(&self, range: Range, usual: u8, mut part: impl FnMut(u8, Range)) {
        if !self.is_empty() {
            self.each_within(range, |at, of_level| part(self.list[at].level, of_level));
        }
        self.usual_within(range).for_each(|of_usual| part(usual, of_usual));
    }

    /// The parts of `range` that are of the usual level, lowest first.
    pub(crate) fn usual_within(&self, range: Range) -> impl Iterator<Item = Range> + '_ {
        let mut from = range.first;
        std::iter::from_fn(move || {
            let first = self.next_usual(from);
            if first > range.last {
                return None;
            }
            let last = self.next_member(first).map_or(range.last, |next| range.last.min(next - 1));
            from = last + 1;
            Some(Range { first, last })
        })
    }

    /// The first position from `from` on that is of the usual level.
    #[inline]
    pub(crate) fn next_usual(&self, from: u64) -> u64 {
        let mut at = self.mixed.next_absent(from);
        if self.stretched > 0 {
            while let Some(level) = self.list.iter().find(|level| level.stretches.contains(at)) {
                at = self.mixed.next_absent(level.stretches.next_absent(at));
            }
        }
        at
    }

    /// The first position from `from` on that is of another level.
    #[inline]
    pub(crate) fn next_member(&self, from: u64) -> Option<u64> {
        let mixed = self.mixed.next_present(from);
        if self.stretched == 0 {
            return mixed;
        }
        let stretched = self.list.iter().filter_map(|level| level.stretches.next_present(from));
        stretched.chain(mixed).min()
    }

    /// The first position from `from` on that could be handed out.
    pub(crate) fn next_ready(&self, from: u64) -> Option<u64> {
        let sets = self.list.iter().flat_map(|level| [&level.returned, &level.in_line, &level.fresh]);
        sets.filter_map(|set| set.next_present(from)).chain(self.mixed.next_ready(from)).min()
    }

    /// The first position from `from` on that is ready of the level that is handed out `next`.
    pub(crate) fn next_ready_of(&self, next: Next, from: u64) -> Option<u64> {
        let level = &self.list[next.at];
        let mixed = (level.mixed > 0).then(|| self.mixed.next_fresh(level.level, from.max(level.mixed_from)));
        let ranges = [&level.returned, &level.in_line, &level.fresh];
        let ranges = ranges.into_iter().filter_map(|set| set.next_present(from));
        ranges.chain(mixed.flatten().map(|(_, range)| range.first)).min()
    }

    /// It is ready, and was out.
    pub(crate) fn came_back(&self, seq: u64) -> bool {
        self.list.iter().any(|level| level.returned.contains(seq) || level.in_line.contains(seq))
    }

    /// Positions are ready again; tells `usual` of those of the usual level. Where priorities are strict positions that
    /// came back go before all others, unless older ones of their level were never out.
    pub(crate) fn come_back(&mut self, range: Range, is_strict: bool, usual: impl FnMut(Range)) {
        for (at, part) in self.parts(range) {
            let is_first = is_strict && !self.has_fresh_below(at, part.first);
            let Level { returned, in_line, .. } = &mut self.list[at];
            self.ready_ranges += if is_first { returned.insert(part) } else { in_line.insert(part) };
        }
        self.usual_within(range).for_each(usual);
    }

    /// Positions are ready for the first time; tells `usual` of those of the usual level.
    pub(crate) fn come_of_age(&mut self, range: Range, usual: impl FnMut(Range)) {
        for (at, part) in self.parts(range) {
            self.ready_ranges += self.list[at].fresh.insert(part);
        }
        self.usual_within(range).for_each(usual);
    }

    /// The members in `range`, each part with where its level is in the list.
    fn parts(&self, range: Range) -> Vec<(usize, Range)> {
        let mut parts = Vec::new();
        self.each_within(range, |at, part| parts.push((at, part)));
        parts
    }

    /// Whether a member that is out is behind one of its level that is ready and never was.
    pub(crate) fn is_passed_over(&self, seq: u64) -> bool {
        self.parts(Range { first: seq, last: seq }).iter().any(|(at, _)| self.has_fresh_below(*at, seq))
    }

    fn has_fresh_below(&self, at: usize, seq: u64) -> bool {
        let level = &self.list[at];
        // Positions that were handed out in their turn are below `mixed_from`, and nothing is searched for.
        let mixed = || self.mixed.next_fresh(level.level, level.mixed_from);
        level.fresh.first().is_some_and(|range| range.first < seq)
            || (level.mixed > 0
                && level.mixed_from < seq
                && mixed().is_some_and(|(_, range)| range.first < seq))
    }

    /// Tells `part` of the ready parts of `range`.
    pub(crate) fn ready_within(&self, range: Range, mut part: impl FnMut(Range)) {
        for level in &self.list {
            level.returned.within(range).for_each(&mut part);
            level.in_line.within(range).for_each(&mut part);
            level.fresh.within(range).for_each(&mut part);
        }
        self.mixed.fresh_within(range, part);
    }

    /// Ready positions of `range` are ready no more.
    pub(crate) fn withdraw(&mut self, range: Range) {
        self.withdraw_ranges(range);
        let Levels { mixed, list, ready_mixed, .. } = self;
        mixed.withdraw(range, |level, count| {
            list.iter_mut().filter(|of| of.level == level).for_each(|of| of.mixed -= count);
            *ready_mixed -= count;
        });
    }

    fn withdraw_ranges(&mut self, range: Range) {
        for level in &mut self.list {
            for set in [&mut level.returned, &mut level.in_line, &mut level.fresh] {
                self.ready_ranges -= set.remove(range, |_| {});
            }
        }
    }

    /// Positions are gone: how many of them were members from `ahead` on.
    pub(crate) fn leave(&mut self, range: Range, ahead: u64) -> u64 {
        let Levels { mixed, list, ready_mixed, .. } = self;
        let mut count = mixed.remove(range, ahead, |level, count| {
            list.iter_mut().filter(|of| of.level == level).for_each(|of| of.mixed -= count);
            *ready_mixed -= count;
        });
        // Messages that leave were nearly always handed out.
        if self.ready_ranges > 0 {
            self.withdraw_ranges(range);
        }
        if self.stretched > 0 {
            for level in &mut self.list {
                let gone = |part: Range| {
                    count += part.overlap(Range { first: ahead, last: u64::MAX }).map_or(0, Range::len);
                };
                self.stretched -= level.stretches.remove(range, gone);
            }
        }
        if self.is_empty() {
            self.list.clear();
        }
        count
    }

    /// There are no long stretches of one level, and nothing is ready in ranges.
    pub(crate) fn is_all_mixed(&self) -> bool {
        self.stretched == 0 && self.ready_ranges == 0
    }

    /// As [`Levels::leave`], of positions of one block, where all is mixed.
    pub(crate) fn leave_bits(&mut self, block: u64, bits: u64, ahead: u64) -> u64 {
        let Levels { mixed, list, ready_mixed, .. } = self;
        let count = mixed.remove_bits(block, bits, ahead, |level, count| {
            list.iter_mut().filter(|of| of.level == level).for_each(|of| of.mixed -= count);
            *ready_mixed -= count;
        });
        if self.is_empty() {
            self.list.clear();
        }
        count
    }

    /// Everything is ready, as if it never was out.
    pub(crate) fn forget(&mut self) {
        self.ready_ranges = 0;
        for level in &mut self.list {
            level.returned.clear();
            level.in_line.clear();
            level.fresh = level.stretches.clone();
            self.ready_ranges += level.fresh.count();
            (level.mixed, level.mixed_from) = (0, 0);
        }
        let list = &mut self.list;
        self.mixed.forget(|level, count| {
            list.iter_mut().filter(|of| of.level == level).for_each(|of| of.mixed += count);
        });
        self.ready_mixed = self.mixed.count();
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let sets = |level: &Level| {
            let ready = level.returned.heap_bytes() + level.fresh.heap_bytes();
            level.stretches.heap_bytes() + level.in_line.heap_bytes() + ready
        };
        let lists = self.list.capacity() * size_of::<Level>() + self.list.iter().map(sets).sum::<usize>();
        lists + self.mixed.heap_bytes()
    }
}
