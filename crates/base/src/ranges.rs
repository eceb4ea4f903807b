//! A set of numbers kept as sorted disjoint ranges: what is settled above a head, what a consumer holds.
//!
//! Made for sets that grow at the back and shrink at the front: both are O(1), and one lone range needs no heap.
//! A change in the middle of `n` ranges costs O(log n) to find and moves at most [`CHUNK`] ranges, now and then also
//! the list of the `n / CHUNK` chunks. An empty set holds no heap.
//! Not a map, and not for numbers that are scattered without runs: a range costs 16 bytes however short it is.
//!
//! Invariants: ranges are sorted and neither overlap nor touch; where the first is absent there are no others.

use std::collections::VecDeque;

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

/// Ranges in one chunk, 4 KiB: how much a change in the middle may move.
pub const CHUNK: usize = 256;

/// A set of numbers. [`u64::MAX`] cannot be in it, so that what lies behind a range always has a number.
#[derive(Clone, Default)]
pub struct RangeSet {
    /// The first range, where there is one; else `first > last`.
    head: Head,
    /// All further ranges. Kept while the set is not empty, so that a set swinging between one and two ranges
    /// allocates once.
    rest: Option<Box<Rest>>,
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

#[derive(Clone, Default)]
struct Rest {
    numbers: u64,
    ranges: usize,
    /// No chunk is empty.
    chunks: VecDeque<VecDeque<Range>>,
    /// The memory of the chunk that emptied last: a set swinging around one chunk's bound allocates once.
    spare: VecDeque<Range>,
    /// Where the last change was, if there still is something: who goes through a set in several strides (messages of
    /// several priorities, each in order) is near by.
    near: Spot,
}

/// Where a range of `Rest` is.
#[derive(Clone, Copy, Default)]
struct Spot {
    chunk: usize,
    at: usize,
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
        self.rest.as_ref().map_or(0, |rest| {
            let chunks: usize = rest.chunks.iter().map(|chunk| chunk.capacity() * size_of::<Range>()).sum();
            let chunks = chunks + rest.spare.capacity() * size_of::<Range>();
            size_of::<Rest>() + rest.chunks.capacity() * size_of::<VecDeque<Range>>() + chunks
        })
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

    /// The first range that ends at `number` or above.
    #[inline]
    fn next_range(&self, number: u64) -> Option<Range> {
        if number <= self.head.last {
            return self.first();
        }
        let rest = self.rest.as_ref()?;
        rest.get(rest.find(number))
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

    /// Whether every number of `range` is in it.
    #[inline]
    pub fn contains_range(&self, range: Range) -> bool {
        self.next_range(range.first).is_some_and(|next| next.first <= range.first && range.last <= next.last)
    }

    /// How many numbers of `range` are in it; linear in the ranges it meets.
    pub fn count_within(&self, range: Range) -> u64 {
        self.within(range).map(Range::len).sum()
    }

    /// The ranges, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = Range> + '_ {
        let rest = self.rest.iter().flat_map(|rest| rest.chunks.iter().flatten());
        self.first().into_iter().chain(rest.copied())
    }

    /// The parts of it within `range`, lowest first.
    pub fn within(&self, range: Range) -> impl Iterator<Item = Range> + '_ {
        let mut from = range.first;
        std::iter::from_fn(move || {
            let rest = (from <= range.last).then_some(Range { first: from, last: range.last })?;
            let part = self.next_range(from)?.overlap(rest)?;
            from = part.last + 1;
            Some(part)
        })
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
            // The lone range grows at the back: what delivery in order does.
            None if range.first == self.head.last + 1 => {
                self.head.last = range.last;
                range.len()
            }
            Some(rest) if rest.last().is_some_and(|last| last.last < range.first) => {
                rest.push_back(range);
                range.len()
            }
            _ => self.insert_anywhere(range),
        }
    }

    fn insert_anywhere(&mut self, range: Range) -> u64 {
        let before = self.count();
        let mut merged = range;
        if range.last < self.head.first - u64::from(self.head.first > 0) {
            // In front of everything, not touching.
            let old = Range { first: self.head.first, last: self.head.last };
            self.rest.get_or_insert_default().push_front(old);
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

    /// Takes `range` out; tells `taken` what was in it, lowest first, and answers how many numbers that were.
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
                    self.rest.get_or_insert_default().push_front(behind);
                    return count;
                }
            }
        }
        match &mut self.rest {
            Some(rest) if range.last > self.head.last && !self.head.is_none() => {
                count + rest.remove(range, &mut taken)
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

impl Rest {
    #[inline]
    fn last(&self) -> Option<Range> {
        self.chunks.back().and_then(|chunk| chunk.back()).copied()
    }

    #[inline]
    fn get(&self, spot: Spot) -> Option<Range> {
        self.chunks.get(spot.chunk)?.get(spot.at).copied()
    }

    /// The first range that ends at `number` or above; behind all where none does.
    fn find(&self, number: u64) -> Spot {
        let below = |range: &Range| range.last < number;
        // The front is asked for most: by cursors that walk up.
        if self.chunks.front().and_then(|chunk| chunk.front()).is_none_or(|range| !below(range)) {
            return Spot { chunk: 0, at: 0 };
        }
        let chunk = self.chunks.partition_point(|chunk| chunk.back().is_some_and(below));
        let at = self.chunks.get(chunk).map_or(0, |ranges| ranges.partition_point(below));
        Spot { chunk, at }
    }

    /// As [`Rest::find`], looking first where the last change was and at the range behind it.
    fn find_near(&self, number: u64) -> Spot {
        let Spot { chunk, at } = self.near;
        if let Some(ranges) = self.chunks.get(chunk)
            && let Some(range) = ranges.get(at)
        {
            let is_below = |at: usize| ranges.get(at).is_some_and(|range| range.last < number);
            if range.last < number {
                if ranges.get(at + 1).is_some_and(|next| next.last >= number) {
                    return Spot { chunk, at: at + 1 };
                }
            } else if at > 0 && is_below(at - 1) {
                return Spot { chunk, at };
            }
        }
        self.find(number)
    }

    /// Adds a range behind all others; it may touch the last.
    #[inline]
    fn push_back(&mut self, range: Range) {
        self.numbers += range.len();
        if let Some(chunk) = self.chunks.back_mut() {
            if let Some(last) = chunk.back_mut().filter(|last| last.last + 1 == range.first) {
                last.last = range.last;
                return;
            }
            if chunk.len() < CHUNK {
                chunk.push_back(range);
                self.ranges += 1;
                return;
            }
        }
        self.ranges += 1;
        let chunk = self.fresh(range);
        self.chunks.push_back(chunk);
    }

    /// Adds a range before all others, which it does not touch.
    fn push_front(&mut self, range: Range) {
        self.numbers += range.len();
        self.ranges += 1;
        match self.chunks.front_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push_front(range),
            _ => {
                let chunk = self.fresh(range);
                self.chunks.push_front(chunk);
            }
        }
    }

    #[inline]
    fn pop_front(&mut self) -> Option<Range> {
        let chunk = self.chunks.front_mut()?;
        let range = chunk.pop_front()?;
        self.numbers -= range.len();
        self.ranges -= 1;
        if chunk.is_empty() {
            self.spare = self.chunks.pop_front().unwrap_or_default();
        }
        Some(range)
    }

    /// Takes out all ranges in front that overlap or touch `range`, which begins before them all; where `range` ends
    /// when it has become one with them.
    fn absorb(&mut self, range: Range) -> u64 {
        let mut last = range.last;
        while let Some(front) = self.chunks.front().and_then(|chunk| chunk.front()) {
            if front.first > last + 1 {
                break;
            }
            last = last.max(front.last);
            self.pop_front();
        }
        last
    }

    /// Puts `range` anywhere; it may overlap and touch others.
    fn insert(&mut self, range: Range) {
        let mut merged = range;
        // The first that ends right before it or later.
        let spot = self.find_near(merged.first.saturating_sub(1));
        self.near = spot;
        if self.extend_at(spot, range) {
            return;
        }
        loop {
            let spot = self.find_near(merged.first.saturating_sub(1));
            match self.get(spot).filter(|next| next.first <= merged.last + 1) {
                Some(next) => {
                    merged = Range { first: merged.first.min(next.first), last: merged.last.max(next.last) };
                    self.take_at(spot);
                }
                None => return self.put_at(spot, merged),
            }
        }
    }

    /// Makes the range at `spot` longer by `range`, and one with the next where that closes the gap between them. False,
    /// and nothing is done: there is nothing to make longer, or more than these two become one.
    fn extend_at(&mut self, spot: Spot, range: Range) -> bool {
        let Some(ranges) = self.chunks.get_mut(spot.chunk) else { return false };
        // The one behind may be in the next chunk: left to who merges several.
        let Some(behind) = ranges.get(spot.at + 1).copied() else { return false };
        let Some(found) = ranges.get_mut(spot.at).filter(|found| found.first <= range.last + 1) else {
            return false;
        };
        if behind.first <= range.last {
            return false;
        }
        let before = found.len();
        let is_closed = behind.first == range.last + 1;
        let last = if is_closed { behind.last } else { found.last.max(range.last) };
        *found = Range { first: found.first.min(range.first), last };
        self.numbers += found.len() - before;
        if is_closed {
            ranges.remove(spot.at + 1);
            self.numbers -= behind.len();
            self.ranges -= 1;
        }
        true
    }

    /// A chunk of one range.
    fn fresh(&mut self, range: Range) -> VecDeque<Range> {
        let mut chunk = std::mem::take(&mut self.spare);
        chunk.push_back(range);
        chunk
    }

    fn take_at(&mut self, spot: Spot) {
        let chunk = &mut self.chunks[spot.chunk];
        if let Some(range) = chunk.remove(spot.at) {
            self.numbers -= range.len();
            self.ranges -= 1;
        }
        if chunk.is_empty() {
            self.spare = self.chunks.remove(spot.chunk).unwrap_or_default();
        }
    }

    /// Puts a range that touches no other where it belongs.
    fn put_at(&mut self, spot: Spot, range: Range) {
        self.numbers += range.len();
        self.ranges += 1;
        if self.chunks.len() == spot.chunk {
            // Behind everything: in the last chunk while that has room.
            match self.chunks.back_mut() {
                Some(chunk) if chunk.len() < CHUNK => chunk.push_back(range),
                _ => {
                    let chunk = self.fresh(range);
                    self.chunks.push_back(chunk);
                }
            }
            return;
        }
        let chunk = &mut self.chunks[spot.chunk];
        chunk.insert(spot.at, range);
        if chunk.len() > CHUNK {
            let upper = chunk.split_off(CHUNK / 2);
            self.chunks.insert(spot.chunk + 1, upper);
        }
    }

    fn remove(&mut self, range: Range, taken: &mut impl FnMut(Range)) -> u64 {
        let before = self.numbers;
        loop {
            let spot = self.find_near(range.first);
            let Some(found) = self.get(spot) else { break };
            let Some(part) = found.overlap(range) else { break };
            self.near = spot;
            taken(part);
            let front =
                (found.first < part.first).then(|| Range { first: found.first, last: part.first - 1 });
            let back = (part.last < found.last).then(|| Range { first: part.last + 1, last: found.last });
            match (front, back) {
                (None, None) => self.take_at(spot),
                (Some(kept), None) | (None, Some(kept)) => {
                    self.numbers -= part.len();
                    self.chunks[spot.chunk][spot.at] = kept;
                }
                (Some(kept), Some(behind)) => {
                    self.numbers -= found.len() - kept.len();
                    self.chunks[spot.chunk][spot.at] = kept;
                    self.put_at(Spot { chunk: spot.chunk, at: spot.at + 1 }, behind);
                }
            }
            if back.is_some() {
                break;
            }
        }
        before - self.numbers
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
            assert!(!set.is_empty() || set.heap_bytes() == 0);
            for number in 0..top {
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
            assert_eq!(self.set.contains_range(range), absent.is_empty());
            assert_eq!(self.set.count_within(range), present.len() as u64);
            let numbers = |ranges: Vec<Range>| -> Vec<u64> {
                ranges.into_iter().flat_map(|range| range.first..=range.last).collect()
            };
            assert_eq!(numbers(self.set.within(range).collect()), present);
            assert_eq!(numbers(self.set.gaps(range).collect()), absent);
        }
    }

    fn any_range(top: u64) -> impl Strategy<Value = Range> {
        (0..top, 0..8u64).prop_map(move |(first, more)| Range::new(first, (first + more).min(top - 1)))
    }

    proptest! {
        #[test]
        fn behaves_as_a_plain_set(steps in prop::collection::vec((0..3u8, any_range(64)), 0..200)) {
            let mut pair = Pair::default();
            for (verb, range) in steps {
                match verb {
                    0 => pair.insert(range),
                    1 => pair.remove(range),
                    _ => pair.pop_first(range.len()),
                }
                pair.check(70);
                pair.check_range(range);
            }
        }
    }

    /// Many chunks: the directory splits, shrinks and is searched.
    #[test]
    fn behaves_as_a_plain_set_over_many_chunks() {
        let mut dice = Random::new(7);
        for round in 0..20 {
            let mut pair = Pair::default();
            let top = 4 * 6 * CHUNK as u64;
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
                if step % 1500 == 0 {
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

    /// What several priorities do: each goes through the set in order, in steps of its own, on top of the others.
    #[test]
    fn behaves_as_a_plain_set_in_strides() {
        let mut dice = Random::new(11);
        for _ in 0..20 {
            let mut pair = Pair::default();
            let stride = 2 + dice.below(7);
            let top = stride * 2 * CHUNK as u64;
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
    fn a_million_ranges_cost_sixteen_bytes_each() {
        let set: RangeSet = (0..1_000_000).map(|i| Range::new(i * 2, i * 2)).collect();
        assert_eq!((set.count(), set.ranges_count()), (1_000_000, 1_000_000));
        assert!(set.heap_bytes() < 17_000_000, "{}", set.heap_bytes());
    }

    #[test]
    #[should_panic(expected = "ends below the top")]
    fn the_top_number_is_refused() {
        RangeSet::new().insert(Range { first: 3, last: u64::MAX });
    }
}
