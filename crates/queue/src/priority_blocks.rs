//! Levels of messages that take turns: which level each position is of, in blocks of 64 positions, in bits.
//!
//! A block has a bit for each position and for each of these: it is a member, it is fresh, and the eight bits of its level.
//! So a message costs eleven bits, whatever its neighbours are, and positions of a block that are alike are found with
//! a few operations on words, where a range for every message had to be searched for. A block without members costs
//! nothing.
//! Not here: messages that came back, and long stretches of one level ([`crate::levels`]).
//! Invariants: blocks are sorted; the first and the last have members, and about half of them at least; a fresh
//! position is a member.

use base::ranges::Range;
use std::collections::VecDeque;

/// Positions of a block.
pub(crate) const BLOCK: u64 = u64::BITS as u64;

/// Blocks without members that are left alone, however few the others are.
const EMPTY_MIN: usize = 16;

/// Blocks kept in memory when fewer are left.
const KEPT: usize = 32;

/// Where the block of a position begins.
#[inline]
pub(crate) fn block_of(seq: u64) -> u64 {
    seq & !(BLOCK - 1)
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Block {
    first: u64,
    members: u64,
    fresh: u64,
    /// The bits of the levels, lowest first. Of positions that are no members, anything.
    planes: [u64; 8],
}

impl Block {
    /// Positions of this level, members or not.
    #[inline]
    fn alike(&self, level: u8) -> u64 {
        let planes = self.planes.iter().enumerate();
        planes.fold(u64::MAX, |alike, (at, plane)| alike & (plane ^ !every(level >> at)))
    }

    /// The level of one position.
    #[inline]
    fn level(&self, bit: u32) -> u8 {
        let planes = self.planes.iter().enumerate();
        planes.fold(0, |level, (at, plane)| level | ((plane >> bit & 1) as u8) << at)
    }

    /// Its positions from `seq` on.
    #[inline]
    fn from(&self, seq: u64) -> u64 {
        match seq.saturating_sub(self.first) {
            by if by < BLOCK => u64::MAX << by,
            _ => 0,
        }
    }

    /// Its positions that are in `range`, of which there is one.
    #[inline]
    fn span(&self, range: Range) -> u64 {
        Block::bits_within(self.first, range)
    }

    /// The positions of the block that begins at `block` that are in `range`, which does not end before it.
    #[inline]
    pub(crate) fn bits_within(block: u64, range: Range) -> u64 {
        let last = (range.last - block).min(BLOCK - 1);
        match range.first.saturating_sub(block) {
            by if by < BLOCK => u64::MAX << by & u64::MAX >> (BLOCK - 1 - last),
            _ => 0,
        }
    }

    /// The first of `bits`, some of its positions, and those that follow on.
    #[inline]
    fn run(&self, bits: u64) -> Range {
        Block::run_of(self.first, bits)
    }

    /// As [`Block::run`], of the block that begins at `block`.
    #[inline]
    pub(crate) fn run_of(block: u64, bits: u64) -> Range {
        let bit = bits.trailing_zeros();
        let first = block + u64::from(bit);
        Range { first, last: first + u64::from((bits >> bit).trailing_ones()) - 1 }
    }

    /// Tells `each` of `bits`, some of the positions of the block that begins at `block`, as ranges.
    pub(crate) fn runs_of(block: u64, bits: u64, each: &mut impl FnMut(Range)) {
        let mut rest = bits;
        while rest != 0 {
            let run = Block::run_of(block, rest);
            each(run);
            rest &= !Block::bits_within(block, run);
        }
    }

    /// Tells `each` of `bits`, some of its positions: of each level there is, how many.
    fn count(&self, bits: u64, each: &mut impl FnMut(u8, u64)) {
        let mut rest = bits;
        while rest != 0 {
            let level = self.level(rest.trailing_zeros());
            let alike = rest & self.alike(level);
            each(level, u64::from(alike.count_ones()));
            rest &= !alike;
        }
    }
}

/// All bits where the lowest of `bits` is set, else none.
#[inline]
fn every(bits: u8) -> u64 {
    u64::from(bits & 1).wrapping_neg()
}

/// Some of the positions of other levels than the usual one. See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Mixed {
    blocks: VecDeque<Block>,
    /// Blocks without members.
    empty: usize,
    count: u64,
}

/// A block that is full, and all of one level.
pub(crate) struct Full {
    pub(crate) level: u8,
    pub(crate) range: Range,
    /// The ranges of it that are fresh.
    pub(crate) fresh: Vec<Range>,
}

impl Mixed {
    /// Positions it has.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The first block that ends at `seq` or above.
    #[inline]
    fn find(&self, seq: u64) -> usize {
        let Some(front) = self.blocks.front().filter(|front| front.first + (BLOCK - 1) < seq) else {
            return 0;
        };
        // Right where no block is missing, which is nearly always.
        let guess = ((seq - front.first) / BLOCK) as usize;
        match self.blocks.get(guess) {
            Some(block) if block.first <= seq && seq - block.first < BLOCK => guess,
            _ => self.blocks.partition_point(|block| block.first + (BLOCK - 1) < seq),
        }
    }

    /// Puts in, fresh, positions of one block that follow all others.
    pub(crate) fn insert(&mut self, level: u8, range: Range) {
        let first = block_of(range.first);
        self.add(level, first, Block::bits_within(first, range));
        self.count += range.len();
    }

    /// Puts in, fresh, a position that follows all others.
    #[inline]
    pub(crate) fn insert_one(&mut self, level: u8, seq: u64) {
        self.add(level, block_of(seq), 1 << (seq % BLOCK));
        self.count += 1;
    }

    #[inline]
    fn add(&mut self, level: u8, first: u64, bits: u64) {
        if self.blocks.back().is_none_or(|back| back.first != first) {
            self.blocks.push_back(Block { first, ..Block::default() });
        }
        let Some(block) = self.blocks.back_mut() else { return };
        debug_assert!(block.members & bits == 0, "positions come once");
        block.members |= bits;
        block.fresh |= bits;
        // A position has no bits before, and a level mostly few.
        let mut rest = level;
        while rest != 0 {
            block.planes[rest.trailing_zeros() as usize % 8] |= bits;
            rest &= rest - 1;
        }
    }

    /// Takes the last block out if it is full and all of one level.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_full(&mut self) -> Option<Full> {
        let is_full = |block: &mut Block| {
            block.members == u64::MAX && block.planes.iter().all(|plane| matches!(*plane, 0 | u64::MAX))
        };
        let block = self.blocks.pop_back_if(is_full)?;
        self.count -= BLOCK;
        self.tidy();
        let mut fresh = Vec::new();
        Block::runs_of(block.first, block.fresh, &mut |range| fresh.push(range));
        let range = Range { first: block.first, last: block.first + (BLOCK - 1) };
        Some(Full { level: block.level(0), range, fresh })
    }

    /// The first fresh positions of `level` from `from` on that follow on each other, and which block they are in.
    #[inline]
    pub(crate) fn next_fresh(&self, level: u8, from: u64) -> Option<(usize, Range)> {
        self.next_bits(level, from).map(|(at, first, bits)| (at, Block::run_of(first, bits)))
    }

    /// Fresh positions of `level` from `from` on in the first block that has any: which block, where it begins, and the bits.
    #[inline]
    pub(crate) fn next_bits(&self, level: u8, from: u64) -> Option<(usize, u64, u64)> {
        let mut at = self.find(from);
        loop {
            let block = self.blocks.get(at)?;
            let fresh = block.fresh & block.from(from);
            if fresh != 0 {
                let alike = fresh & block.alike(level);
                if alike != 0 {
                    return Some((at, block.first, alike));
                }
            }
            at += 1;
        }
    }

    /// These positions of this block are fresh no more.
    #[inline]
    pub(crate) fn take_bits(&mut self, at: usize, bits: u64) {
        self.blocks[at].fresh &= !bits;
    }

    /// The members in the block that begins at `first`.
    #[inline]
    pub(crate) fn bits(&self, first: u64) -> u64 {
        let block = self.blocks.get(self.find(first));
        block.filter(|block| block.first == first).map_or(0, |block| block.members)
    }

    /// Positions of this block are fresh no more.
    #[inline]
    pub(crate) fn take(&mut self, at: usize, range: Range) {
        let block = &mut self.blocks[at];
        block.fresh &= !block.span(range);
    }

    /// Takes `range` out: how many of it were there from `ahead` on. Tells `fresh` how many that were fresh of each level.
    #[inline]
    pub(crate) fn remove(&mut self, range: Range, ahead: u64, mut fresh: impl FnMut(u8, u64)) -> u64 {
        let mut count = 0;
        let mut at = self.find(range.first);
        while let Some(block) = self.blocks.get(at).filter(|block| block.first <= range.last) {
            let gone = block.span(range);
            count += self.remove_of(at, gone, ahead, &mut fresh);
            at += 1;
        }
        if self.empty > 0 {
            self.tidy();
        }
        count
    }

    /// As [`Mixed::remove`], of some positions of the block that begins at `first`.
    pub(crate) fn remove_bits(
        &mut self,
        first: u64,
        bits: u64,
        ahead: u64,
        mut fresh: impl FnMut(u8, u64),
    ) -> u64 {
        let at = self.find(first);
        if self.blocks.get(at).is_none_or(|block| block.first != first) {
            return 0;
        }
        let count = self.remove_of(at, bits, ahead, &mut fresh);
        if self.empty > 0 {
            self.tidy();
        }
        count
    }

    /// Takes these positions out of this block, as far as they are in it.
    #[inline]
    fn remove_of(&mut self, at: usize, bits: u64, ahead: u64, fresh: &mut impl FnMut(u8, u64)) -> u64 {
        let block = &mut self.blocks[at];
        let gone = block.members & bits;
        if gone == 0 {
            return 0;
        }
        block.members &= !gone;
        self.empty += usize::from(block.members == 0);
        self.count -= u64::from(gone.count_ones());
        let lost = gone & block.fresh;
        if lost != 0 {
            block.fresh &= !lost;
            block.count(lost, fresh);
        }
        u64::from((gone & block.from(ahead)).count_ones())
    }

    /// Nothing of `range` is fresh any more. Tells `fresh` how many of each level were.
    pub(crate) fn withdraw(&mut self, range: Range, mut fresh: impl FnMut(u8, u64)) {
        let at = self.find(range.first);
        for block in self.blocks.range_mut(at..) {
            if block.first > range.last {
                break;
            }
            let lost = block.fresh & block.span(range);
            block.fresh &= !lost;
            block.count(lost, &mut fresh);
        }
    }

    /// Everything is fresh. Tells `fresh` how many of each level are, more than once.
    pub(crate) fn forget(&mut self, mut fresh: impl FnMut(u8, u64)) {
        for block in &mut self.blocks {
            block.fresh = block.members;
            block.count(block.fresh, &mut fresh);
        }
    }

    /// Tells `part` of the members in `range`: ranges of one level each, lowest first.
    pub(crate) fn within(&self, range: Range, mut part: impl FnMut(u8, Range)) {
        for block in self.blocks_within(range) {
            let mut rest = block.members & block.span(range);
            while rest != 0 {
                let level = block.level(rest.trailing_zeros());
                let run = block.run(rest & block.alike(level));
                part(level, run);
                rest &= !block.span(run);
            }
        }
    }

    /// Tells `part` of the fresh positions in `range`, lowest first.
    pub(crate) fn fresh_within(&self, range: Range, mut part: impl FnMut(Range)) {
        for block in self.blocks_within(range) {
            Block::runs_of(block.first, block.fresh & block.span(range), &mut part);
        }
    }

    fn blocks_within(&self, range: Range) -> impl Iterator<Item = &Block> {
        let from = self.blocks.range(self.find(range.first)..);
        from.take_while(move |block| block.first <= range.last)
    }

    /// The first position from `from` on that is in it.
    pub(crate) fn next_present(&self, from: u64) -> Option<u64> {
        self.next_of(from, |block| block.members)
    }

    /// The first position from `from` on that is fresh.
    pub(crate) fn next_ready(&self, from: u64) -> Option<u64> {
        self.next_of(from, |block| block.fresh)
    }

    fn next_of(&self, from: u64, bits: impl Fn(&Block) -> u64) -> Option<u64> {
        let ahead = self.blocks.range(self.find(from)..);
        let mut some = ahead.map(|block| (block.first, bits(block) & block.from(from)));
        some.find(|(_, bits)| *bits != 0).map(|(first, bits)| first + u64::from(bits.trailing_zeros()))
    }

    /// The first position from `from` on that is not in it.
    pub(crate) fn next_absent(&self, from: u64) -> u64 {
        let mut from = from;
        for block in self.blocks.range(self.find(from)..) {
            if from < block.first {
                break;
            }
            let absent = !block.members & block.from(from);
            if absent != 0 {
                return block.first + u64::from(absent.trailing_zeros());
            }
            from = block.first + BLOCK;
        }
        from
    }

    /// Room for so many blocks more and no others.
    pub(crate) fn reserve(&mut self, blocks: usize) {
        self.blocks.reserve_exact(blocks);
    }

    /// Drops blocks without members from both ends, and all of them where they are the most.
    #[inline(never)]
    fn tidy(&mut self) {
        while self.blocks.pop_front_if(|block| block.members == 0).is_some() {
            self.empty -= 1;
        }
        while self.blocks.pop_back_if(|block| block.members == 0).is_some() {
            self.empty -= 1;
        }
        if self.empty > EMPTY_MIN && self.empty > self.blocks.len() / 2 {
            self.blocks.retain(|block| block.members != 0);
            self.empty = 0;
        }
        if self.blocks.capacity() > KEPT && self.blocks.len() < self.blocks.capacity() / 4 {
            self.blocks.shrink_to(KEPT.max(self.blocks.len() * 2));
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
    }
}

/// Blocks that parts of `range` are put into which do not fill a block.
pub(crate) fn blocks_cut(range: Range) -> usize {
    let (first, last) = (block_of(range.first), block_of(range.last));
    let is_cut = |block: u64| range.first > block || range.last < block + (BLOCK - 1);
    usize::from(is_cut(first)) + usize::from(last != first && is_cut(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Random;
    use std::collections::BTreeMap;

    /// Against a plain map: of each position its level, and whether it is fresh.
    #[derive(Default)]
    struct Pair {
        mixed: Mixed,
        plain: BTreeMap<u64, (u8, bool)>,
    }

    impl Pair {
        fn check(&self, top: u64) {
            let Pair { mixed, plain } = self;
            assert_eq!(mixed.count(), plain.len() as u64);
            let (mut members, mut fresh) = (Vec::new(), Vec::new());
            let all = Range { first: 0, last: u64::MAX - 1 };
            mixed.within(all, |level, part| members.extend((part.first..=part.last).map(|seq| (seq, level))));
            mixed.fresh_within(all, |part| fresh.extend(part.first..=part.last));
            assert!(members.iter().copied().eq(plain.iter().map(|(seq, (level, _))| (*seq, *level))));
            let is_fresh = |(seq, (_, is_fresh)): (&u64, &(u8, bool))| is_fresh.then_some(*seq);
            assert!(fresh.iter().copied().eq(plain.iter().filter_map(is_fresh)));
            for from in 0..top {
                let next = plain.range(from..).find(|(_, (_, fresh))| *fresh).map(|(seq, _)| *seq);
                assert_eq!(mixed.next_ready(from), next);
                assert_eq!(mixed.next_present(from), plain.range(from..).next().map(|(seq, _)| *seq));
                assert_eq!(Some(mixed.next_absent(from)), (from..).find(|seq| !plain.contains_key(seq)));
            }
            let blocks = mixed.blocks.len();
            assert!(mixed.empty == mixed.blocks.iter().filter(|block| block.members == 0).count());
            assert!(mixed.empty <= EMPTY_MIN.max(blocks / 2), "{} of {blocks}", mixed.empty);
        }

        fn lose(&mut self, range: Range, is_gone: bool, told: &mut BTreeMap<u8, u64>) {
            for seq in range.first..=range.last {
                let Some((level, is_fresh)) = self.plain.get_mut(&seq) else { continue };
                if std::mem::take(is_fresh) {
                    *told.get_mut(level).unwrap() -= 1;
                }
                if is_gone {
                    self.plain.remove(&seq);
                }
            }
        }
    }

    #[test]
    fn behaves_as_a_plain_map() {
        let mut dice = Random::new(5);
        for levels in [1, 2, 8, 255] {
            let mut pair = Pair::default();
            let mut told: BTreeMap<u8, u64> = (0..=255).map(|level| (level, 0)).collect();
            let mut next = 17;
            for step in 0..3000 {
                let level = dice.below(levels) as u8;
                let first = dice.below(next + 1);
                let range = Range { first, last: first + dice.below(100) };
                match dice.below(10) {
                    0..6 => {
                        next += dice.below(30) * u64::from(dice.below(5) == 0);
                        let last = (next + dice.below(5)).min(next | (BLOCK - 1));
                        pair.mixed.insert(level, Range { first: next, last });
                        (next..=last).for_each(|seq| _ = pair.plain.insert(seq, (level, true)));
                        *told.get_mut(&level).unwrap() += last + 1 - next;
                        next = last + 1;
                    }
                    6 => {
                        let mut now = told.clone();
                        let bound = first + dice.below(100);
                        let expected = pair.plain.range(first..=range.last).filter(|(seq, _)| **seq >= bound);
                        let expected = expected.count() as u64;
                        let ahead = pair.mixed.remove(range, bound, |level, count| {
                            *now.get_mut(&level).unwrap() -= count;
                        });
                        assert_eq!(ahead, expected);
                        pair.lose(range, true, &mut told);
                        assert_eq!(now, told);
                    }
                    7 => {
                        let mut now = told.clone();
                        pair.mixed.withdraw(range, |level, count| *now.get_mut(&level).unwrap() -= count);
                        pair.lose(range, false, &mut told);
                        assert_eq!(now, told);
                    }
                    _ => {
                        let next = pair.mixed.next_fresh(level, first);
                        let is_like = |entry: &(&u64, &(u8, bool))| *entry.1 == (level, true);
                        let expected = pair.plain.range(first..).find(is_like).map(|(seq, _)| *seq);
                        assert_eq!(next.map(|(_, range)| range.first), expected);
                        if let Some((at, range)) = next {
                            pair.mixed.take(at, range);
                            pair.lose(range, false, &mut told);
                        }
                    }
                }
                if step % 100 == 0 {
                    pair.check(next + 70);
                }
            }
            let mut now: BTreeMap<u8, u64> = (0..=255).map(|level| (level, 0)).collect();
            pair.mixed.forget(|level, count| *now.get_mut(&level).unwrap() += count);
            pair.plain.values_mut().for_each(|(_, is_fresh)| *is_fresh = true);
            pair.check(next);
            assert_eq!(now.values().sum::<u64>(), pair.mixed.count());
            pair.mixed.remove(Range { first: 0, last: next }, 0, |_, _| {});
            assert!(pair.mixed.blocks.is_empty() && pair.mixed.blocks.capacity() <= 4 * KEPT);
        }
    }

    #[test]
    fn a_message_costs_eleven_bits() {
        let mut mixed = Mixed::default();
        mixed.reserve(1000);
        (0..64_000).for_each(|seq| mixed.insert(seq as u8 % 8, Range { first: seq, last: seq }));
        assert_eq!(mixed.heap_bytes(), 64_000 * 11 / 8);
    }

    #[test]
    fn only_what_does_not_fill_a_block_is_put_into_one() {
        let check = |first, last, blocks| assert_eq!(blocks_cut(Range { first, last }), blocks);
        check(0, 63, 0);
        check(0, 62, 1);
        check(1, 63, 1);
        check(63, 64, 2);
        check(5, 9, 1);
        check(63, 128, 2);
        check(64, 6399, 0);
    }
}
