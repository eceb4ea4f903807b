//! A set of numbers kept as sorted disjoint ranges: the settled ones above a head, those a consumer holds.
//!
//! Made for sets that grow at the back and shrink at the front: both are O(1), and one lone range needs no heap. The
//! part behind the first range is kept in bits where it is scattered (`blocks`): 16 bytes for 64 numbers and at most 48
//! for a range, however long. A change in the middle of `n` of those entries costs O(log n) to find and moves at most
//! [`CHUNK`] of them, now and then also the list of the `n / CHUNK` chunks. An empty set holds no heap.
//! Not a map.
//!
//! Invariants: the first range touches no other number of the set; where it is absent there are no others.

mod blocks;

use blocks::{BLOCK, Blocks};

/// Numbers from `first` to `last`, both included; `first <= last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// The lowest number.
    pub first: u64,
    /// The highest number.
    pub last: u64,
}

impl Range {
    /// The numbers from `first` to `last`. Panics where they run backwards.
    #[inline]
    pub fn new(first: u64, last: u64) -> Range {
        assert!(first <= last, "a range runs forwards");
        Range { first, last }
    }

    /// How many numbers; saturates for the range of all numbers.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a range is never empty")]
    pub fn len(self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }

    /// The part of it that is in `other` too.
    #[inline]
    pub fn overlap(self, other: Range) -> Option<Range> {
        let first = self.first.max(other.first);
        let last = self.last.min(other.last);
        (first <= last).then_some(Range { first, last })
    }
}

/// Entries in one chunk, 4 KiB: how much a change in the middle may move.
pub const CHUNK: usize = 256;

/// A set of numbers. [`u64::MAX`] cannot be in it, so that there always is a number behind a range.
#[derive(Clone, Default)]
pub struct RangeSet {
    /// The first range, where there is one; else `first > last`.
    head: Head,
    /// All further ranges. Kept while the set is not empty, so that a set swinging between one and two ranges
    /// allocates once.
    rest: Option<Box<Blocks>>,
}

#[derive(Clone, Copy)]
struct Head {
    first: u64,
    last: u64,
}

impl Default for Head {
    fn default() -> Head {
        Head { first: 1, last: 0 }
    }
}

impl RangeSet {
    /// The empty set.
    pub const fn new() -> RangeSet {
        RangeSet { head: Head { first: 1, last: 0 }, rest: None }
    }

    /// Whether no number is in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.first > self.head.last
    }

    /// How many numbers are in it.
    #[inline]
    pub fn count(&self) -> u64 {
        let head = (self.head.last + 1).wrapping_sub(self.head.first);
        head + self.rest.as_ref().map_or(0, |rest| rest.numbers)
    }

    /// How many ranges it takes.
    pub fn ranges_count(&self) -> usize {
        usize::from(!self.is_empty()) + self.rest.as_ref().map_or(0, |rest| rest.ranges)
    }

    /// Heap bytes it holds.
    pub fn heap_bytes(&self) -> usize {
        self.rest.as_ref().map_or(0, |rest| size_of::<Blocks>() + rest.heap_bytes())
    }

    /// The lowest range.
    #[inline]
    pub fn first(&self) -> Option<Range> {
        (!self.is_empty()).then_some(Range { first: self.head.first, last: self.head.last })
    }

    /// The highest range.
    #[inline]
    pub fn last(&self) -> Option<Range> {
        self.rest.as_ref().and_then(|rest| rest.last()).or_else(|| self.first())
    }

    /// Whether `number` is in it.
    #[inline]
    pub fn contains(&self, number: u64) -> bool {
        self.next_range(number).is_some_and(|range| range.first <= number)
    }

    /// The first range that ends at `number` or above, perhaps without its part below `number`.
    #[inline]
    fn next_range(&self, number: u64) -> Option<Range> {
        if number <= self.head.last {
            return self.first();
        }
        self.rest.as_ref()?.next(number)
    }

    /// The lowest number at or above `number` that is in it.
    #[inline]
    pub fn next_present(&self, number: u64) -> Option<u64> {
        self.next_range(number).map(|range| range.first.max(number))
    }

    /// The lowest number at or above `number` that is not in it.
    #[inline]
    pub fn next_absent(&self, number: u64) -> u64 {
        match self.next_range(number) {
            Some(range) if range.first <= number => range.last + 1,
            _ => number,
        }
    }

    /// Whether any number of `range` is in it.
    #[inline]
    pub fn intersects(&self, range: Range) -> bool {
        self.next_range(range.first).is_some_and(|next| next.first <= range.last)
    }

    /// How many numbers of `range` are in it; linear in the ranges it meets.
    pub fn count_within(&self, range: Range) -> u64 {
        self.within(range).map(Range::len).sum()
    }

    /// The ranges, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = Range> + '_ {
        self.within(Range { first: 0, last: u64::MAX - 1 })
    }

    /// The parts of it within `range`, lowest first.
    pub fn within(&self, range: Range) -> impl Iterator<Item = Range> + '_ {
        let head = self.first().and_then(|head| head.overlap(range));
        let rest = self.rest.as_ref().filter(|_| range.last > self.head.last);
        let mut at = rest.map(|rest| (rest, rest.find(range.first), range.first));
        let behind = std::iter::from_fn(move || {
            let (rest, spot, from) = at?;
            let found = rest.next_at(spot, from);
            at = found.map(|(found, spot)| (rest, spot, found.last + 1));
            found.and_then(|(found, _)| found.overlap(range))
        });
        head.into_iter().chain(behind)
    }

    /// The parts of `range` that are not in it, lowest first.
    pub fn gaps(&self, range: Range) -> impl Iterator<Item = Range> + '_ {
        let mut from = Some(range.first);
        std::iter::from_fn(move || {
            let first = self.next_absent(from.filter(|from| *from <= range.last)?);
            if first > range.last {
                return None;
            }
            let last = self.next_present(first).map_or(range.last, |next| range.last.min(next - 1));
            from = last.checked_add(1);
            Some(Range { first, last })
        })
    }

    /// Puts `range` in; how many of its numbers are new. Panics on [`u64::MAX`].
    #[inline]
    pub fn insert(&mut self, range: Range) -> u64 {
        assert!(
            range.first <= range.last && range.last < u64::MAX,
            "a range runs forwards and ends below the top"
        );
        if self.is_empty() {
            self.head = Head { first: range.first, last: range.last };
            return range.len();
        }
        match &mut self.rest {
            // The lone range grows at the back: delivery in order.
            None if range.first == self.head.last + 1 => {
                self.head.last = range.last;
                range.len()
            }
            _ => self.insert_anywhere(range),
        }
    }

    #[inline(never)]
    fn insert_anywhere(&mut self, range: Range) -> u64 {
        let before = self.count();
        let mut merged = range;
        if range.last < self.head.first - u64::from(self.head.first > 0) {
            // In front of everything, not touching.
            let old = Range { first: self.head.first, last: self.head.last };
            self.rest.get_or_insert_default().insert(old);
            self.head = Head { first: range.first, last: range.last };
        } else if range.first <= self.head.last + 1 {
            merged.first = merged.first.min(self.head.first);
            merged.last = merged.last.max(self.head.last);
            if let Some(rest) = &mut self.rest {
                merged.last = rest.absorb(merged);
            }
            self.head = Head { first: merged.first, last: merged.last };
        } else {
            self.rest.get_or_insert_default().insert(range);
        }
        self.count() - before
    }

    /// Takes `range` out; tells `taken` the numbers that were in it, lowest first, and answers how many those were.
    #[inline]
    pub fn remove(&mut self, range: Range, mut taken: impl FnMut(Range)) -> u64 {
        let mut count = 0;
        // Within the first range, which is where settling in order happens.
        while let Some(part) = self.first().and_then(|head| head.overlap(range)) {
            let head = self.head;
            taken(part);
            count += part.len();
            match (part.first == head.first, part.last == head.last) {
                (true, true) => self.promote(),
                (true, false) => {
                    self.head.first = part.last + 1;
                    return count;
                }
                (false, true) => {
                    self.head.last = part.first - 1;
                    break;
                }
                (false, false) => {
                    self.head.last = part.first - 1;
                    let behind = Range { first: part.last + 1, last: head.last };
                    self.rest.get_or_insert_default().insert(behind);
                    return count;
                }
            }
        }
        match &mut self.rest {
            Some(rest) if range.last > self.head.last && !self.head.is_none() => {
                let before = rest.numbers;
                rest.remove(range, &mut taken);
                count + before - rest.numbers
            }
            _ => count,
        }
    }

    /// The first range is gone: the next takes its place.
    #[inline]
    fn promote(&mut self) {
        self.head = Head::default();
        if let Some(rest) = &mut self.rest {
            match rest.pop_front() {
                Some(next) => self.head = Head { first: next.first, last: next.last },
                None => self.rest = None,
            }
        }
    }

    /// Puts numbers of one block of 64 in, the lowest bit being `block`, a multiple of 64; how many of them are new. Panics on
    /// [`u64::MAX`].
    #[inline]
    pub fn insert_bits(&mut self, block: u64, bits: u64) -> u64 {
        debug_assert!(block.is_multiple_of(BLOCK), "a block begins at a multiple of 64");
        assert!(block <= u64::MAX - BLOCK || bits >> (BLOCK - 1) == 0, "numbers end below the top");
        let lowest = block + u64::from(bits.trailing_zeros() % u64::BITS);
        if let Some(rest) = &mut self.rest
            && lowest > self.head.last + 1
        {
            let before = rest.numbers;
            rest.insert_bits(block, bits);
            return rest.numbers - before;
        }
        let mut count = 0;
        blocks::each_run(block, bits, |run| count += self.insert(run));
        count
    }

    /// Takes numbers of one block of 64 out, the lowest bit being `block`, a multiple of 64; which of them were in it.
    pub fn remove_bits(&mut self, block: u64, bits: u64) -> u64 {
        let taken = bits & self.bits(block);
        if taken == 0 {
            return 0;
        }
        let of_block = Range { first: block, last: block + (BLOCK - 1) };
        let head = Range { first: self.head.first, last: self.head.last };
        match &mut self.rest {
            Some(rest) if head.last < block => rest.set_bits(block, rest.bits(block) & !taken),
            Some(rest) if head.overlap(of_block) == Some(head) => {
                let left = (blocks::bits_within(block, head) | rest.bits(block)) & !taken;
                if left == 0 {
                    rest.set_bits(block, 0);
                    self.promote();
                } else {
                    let run = blocks::run(block, left);
                    rest.set_bits(block, left & !blocks::bits_within(block, run));
                    // A run that reaches the end of its block may go on behind it.
                    let last = if run.last == of_block.last { rest.absorb(run) } else { run.last };
                    self.head = Head { first: run.first, last };
                }
            }
            _ => blocks::each_run(block, taken, |run| _ = self.remove(run, |_| {})),
        }
        taken
    }

    /// The numbers of the set in the block of 64 that begins at `block`, a multiple of 64.
    #[inline]
    pub fn bits(&self, block: u64) -> u64 {
        debug_assert!(block.is_multiple_of(BLOCK), "a block begins at a multiple of 64");
        let of_block = Range { first: block, last: block + (BLOCK - 1) };
        let head = self.first().filter(|head| head.overlap(of_block).is_some());
        let head = head.map_or(0, |head| blocks::bits_within(block, head));
        head | self
            .rest
            .as_ref()
            .filter(|_| of_block.last > self.head.last)
            .map_or(0, |rest| rest.bits(block))
    }

    /// Takes out the lowest range, or its `count_max` lowest numbers if it is longer. `count_max` is at least 1.
    #[inline]
    pub fn pop_first(&mut self, count_max: u64) -> Option<Range> {
        let first = self.first()?;
        assert!(count_max > 0, "at least one number is asked for");
        if first.len() <= count_max {
            self.promote();
            return Some(first);
        }
        self.head.first += count_max;
        Some(Range { first: first.first, last: self.head.first - 1 })
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        *self = RangeSet::new();
    }
}

impl Head {
    #[inline]
    fn is_none(self) -> bool {
        self.first > self.last
    }
}

impl PartialEq for RangeSet {
    fn eq(&self, other: &RangeSet) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for RangeSet {}

impl std::fmt::Debug for RangeSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter().map(|range| range.first..=range.last)).finish()
    }
}

impl FromIterator<Range> for RangeSet {
    fn from_iter<I: IntoIterator<Item = Range>>(ranges: I) -> RangeSet {
        let mut set = RangeSet::new();
        for range in ranges {
            set.insert(range);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, Range, RangeSet};
    use crate::Random;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Every question and answer of the set against a plain set of its numbers.
    #[derive(Default)]
    struct Pair {
        set: RangeSet,
        plain: BTreeSet<u64>,
    }

    impl Pair {
        fn insert(&mut self, range: Range) {
            let before = self.plain.len();
            self.plain.extend(range.first..=range.last);
            assert_eq!(self.set.insert(range), (self.plain.len() - before) as u64, "{range:?}");
        }

        fn insert_bits(&mut self, block: u64, bits: u64) {
            let before = self.plain.len();
            self.plain.extend((0..64).filter(|bit| bits >> bit & 1 != 0).map(|bit| block + bit));
            assert_eq!(self.set.insert_bits(block, bits), (self.plain.len() - before) as u64);
        }

        fn remove_bits(&mut self, block: u64, bits: u64) {
            let of_block = (0..64).filter(|bit| bits >> bit & 1 != 0);
            let taken = of_block
                .filter(|bit| self.plain.remove(&(block + bit)))
                .fold(0, |taken, bit| taken | 1 << bit);
            assert_eq!(self.set.remove_bits(block, bits), taken);
        }

        fn remove(&mut self, range: Range) {
            let mut taken = Vec::new();
            let count = self.set.remove(range, |part| taken.extend(part.first..=part.last));
            let expected: Vec<u64> = self.plain.range(range.first..=range.last).copied().collect();
            expected.iter().for_each(|number| assert!(self.plain.remove(number)));
            assert_eq!((taken, count), (expected.clone(), expected.len() as u64));
        }

        fn pop_first(&mut self, count_max: u64) {
            let popped = self.set.pop_first(count_max);
            assert_eq!(popped.map(|range| range.first), self.plain.first().copied());
            if let Some(range) = popped {
                assert!(range.len() <= count_max);
                (range.first..=range.last).for_each(|number| assert!(self.plain.remove(&number)));
                assert!(range.len() == count_max || !self.plain.contains(&(range.last + 1)));
            }
        }

        fn check(&self, top: u64) {
            let set = &self.set;
            assert_eq!(set.count(), self.plain.len() as u64);
            assert!(set.iter().flat_map(|range| range.first..=range.last).eq(self.plain.iter().copied()));
            assert!(set.iter().zip(set.iter().skip(1)).all(|(a, b)| a.last + 1 < b.first));
            assert_eq!(set.iter().count(), set.ranges_count());
            assert_eq!((set.first(), set.last()), (set.iter().next(), set.iter().last()));
            assert_eq!(set.is_empty(), self.plain.is_empty());
            for block in (0..top).step_by(64) {
                let of_block = self.plain.range(block..block + 64);
                assert_eq!(set.bits(block), of_block.fold(0, |bits, number| bits | 1 << (number - block)));
            }
            assert!(!set.is_empty() || set.heap_bytes() == 0);
            // Of large sets some numbers; the way to the next absent one is long.
            for number in (0..top).step_by(1 + top as usize / 1000) {
                assert_eq!(set.contains(number), self.plain.contains(&number));
                assert_eq!(set.next_present(number), self.plain.range(number..).next().copied());
                let absent = (number..).find(|number| !self.plain.contains(number));
                assert_eq!(Some(set.next_absent(number)), absent);
            }
        }

        fn check_range(&self, range: Range) {
            let present: Vec<u64> = self.plain.range(range.first..=range.last).copied().collect();
            let absent: Vec<u64> = (range.first..=range.last).filter(|n| !self.plain.contains(n)).collect();
            assert_eq!(self.set.intersects(range), !present.is_empty());
            assert_eq!(self.set.count_within(range), present.len() as u64);
            let numbers = |ranges: Vec<Range>| -> Vec<u64> {
                ranges.into_iter().flat_map(|range| range.first..=range.last).collect()
            };
            assert_eq!(numbers(self.set.within(range).collect()), present);
            assert_eq!(numbers(self.set.gaps(range).collect()), absent);
        }
    }

    fn any_range(top: u64) -> impl Strategy<Value = Range> {
        let more = prop_oneof![4 => 0..8u64, 1 => 50..300u64];
        (0..top, more).prop_map(move |(first, more)| Range::new(first, (first + more).min(top - 1)))
    }

    proptest! {
        #[test]
        fn behaves_as_a_plain_set(steps in prop::collection::vec((0..6u8, any_range(400), any::<u64>()), 0..200)) {
            let mut pair = Pair::default();
            for (verb, range, bits) in steps {
                match verb {
                    0 => pair.insert(range),
                    1 => pair.remove(range),
                    2 => pair.insert_bits(range.first & !63, bits >> (range.first % 64) & range.last.wrapping_mul(bits)),
                    3 => pair.remove_bits(range.first & !63, bits >> (range.first % 64) & range.last.wrapping_mul(bits)),
                    4 => pair.remove_bits(range.first & !63, bits << (range.first % 64)),
                    _ => pair.pop_first(range.len()),
                }
                pair.check(406);
                pair.check_range(range);
            }
        }
    }

    /// Many chunks: the directory splits, shrinks and is searched.
    #[test]
    fn behaves_as_a_plain_set_over_many_chunks() {
        let mut dice = Random::new(7);
        for round in 0..4 {
            let mut pair = Pair::default();
            let top = 4 * 64 * CHUNK as u64;
            for step in 0..6000 {
                let first = dice.below(top);
                let short = Range::new(first, first + dice.below(3));
                let verb = dice.below(100);
                match verb {
                    0..60 => pair.insert(short),
                    60..95 => pair.remove(short),
                    95 => pair.insert(Range::new(first, first + dice.below(900))),
                    96 => pair.remove(Range::new(first, first + dice.below(900))),
                    _ => pair.pop_first(1 + dice.below(4)),
                }
                if step % 3000 == 0 {
                    pair.check(top + 3);
                    pair.check_range(Range::new(top / 4, top / 2));
                }
            }
            pair.check(top + 3);
            if round % 2 == 0 {
                while !pair.set.is_empty() {
                    pair.pop_first(3);
                }
            } else {
                pair.remove(Range::new(0, top * 2));
            }
            pair.check(9);
        }
    }

    /// The pattern of several priorities: each goes through the set in order, in steps of its own, on top of the
    /// others.
    #[test]
    fn behaves_as_a_plain_set_in_strides() {
        let mut dice = Random::new(11);
        for _ in 0..4 {
            let mut pair = Pair::default();
            let stride = 2 + dice.below(7);
            let top = 2 * 64 * CHUNK as u64;
            for insert in [true, false] {
                for phase in (0..stride).rev() {
                    for first in (phase..top).step_by(stride as usize) {
                        let one = Range::new(first, first);
                        match insert || dice.below(50) == 0 {
                            true => pair.insert(one),
                            false => pair.remove(one),
                        }
                    }
                    pair.check(top + 3);
                }
                assert!(!insert || pair.set.ranges_count() == 1);
            }
        }
    }

    #[test]
    fn lone_range_moves_without_heap() {
        let mut set = RangeSet::new();
        for number in 0..10_000 {
            set.insert(Range::new(number, number));
            if number >= 100 {
                assert_eq!(set.pop_first(1), Some(Range::new(number - 100, number - 100)));
            }
            assert_eq!(set.heap_bytes(), 0);
        }
        assert_eq!(set.count(), 100);
    }

    #[test]
    fn a_range_costs_so_many_bytes() {
        let check = |step: u64, len: u64, bytes: usize| {
            let set: RangeSet = (0..100_000).map(|at| Range::new(at * step, at * step + len - 1)).collect();
            assert_eq!((set.count(), set.ranges_count()), (len * 100_000, 100_000));
            let most = bytes * 100_000 * 17 / 16;
            assert!(set.heap_bytes() < most, "{} {len}: {}", step, set.heap_bytes());
        };
        // Alone, one in two, one in eight, long, and as long as none is dearer.
        check(100, 1, 16);
        check(1000, 1, 16);
        check(8, 1, 2);
        check(1024, 512, 16);
        check(1000, 500, 48);
    }

    #[test]
    #[should_panic(expected = "end below the top")]
    fn the_top_number_is_refused_in_bits() {
        RangeSet::new().insert_bits(u64::MAX - 63, 1 << 63);
    }

    #[test]
    #[should_panic(expected = "ends below the top")]
    fn the_top_number_is_refused() {
        RangeSet::new().insert(Range { first: 3, last: u64::MAX });
    }
}
