//! The part of a set of numbers behind its first range, in blocks of 64 numbers.
//!
//! A block that is neither empty nor full is a word of bits; full blocks that follow on each other are one entry. So
//! numbers that are added in strides, one here and one there, cost a bit each, and a long range costs three entries at
//! most, however long it is.
//!
//! Invariants: entries are sorted and do not overlap; no word is empty or full, and entries of full blocks do not touch, so
//! a range lies in at most three entries; no chunk is empty.

use super::{CHUNK, Range};
use std::collections::VecDeque;

/// Numbers of a block.
pub(super) const BLOCK: u64 = u64::BITS as u64;

/// Set in the key of an entry of full blocks.
const FULL: u64 = 1;

/// Where the block of a number begins.
#[inline]
pub(super) fn block_of(number: u64) -> u64 {
    number & !(BLOCK - 1)
}

/// The bits of the numbers of `range` in the block that begins at `block`, where there are any.
#[inline]
pub(super) fn bits_within(block: u64, range: Range) -> u64 {
    let from = range.first.saturating_sub(block);
    let to = (range.last - block).min(BLOCK - 1);
    u64::MAX << from & u64::MAX >> (BLOCK - 1 - to)
}

/// The first of `bits` and those that follow on, in the block that begins at `block`.
#[inline]
pub(super) fn run(block: u64, bits: u64) -> Range {
    let bit = bits.trailing_zeros();
    let first = block + u64::from(bit);
    Range { first, last: first + u64::from((bits >> bit).trailing_ones()) - 1 }
}

/// Tells `each` of the ranges that `bits` are in the block that begins at `block`, lowest first.
#[inline]
pub(super) fn each_run(block: u64, bits: u64, mut each: impl FnMut(Range)) {
    let mut left = bits;
    while left != 0 {
        let run = run(block, left);
        each(run);
        left &= !bits_within(block, run);
    }
}

/// How many ranges these bits are.
#[inline]
fn runs(bits: u64) -> u64 {
    u64::from((bits & !(bits << 1)).count_ones())
}

#[derive(Clone, Copy)]
struct Entry {
    /// Where its first block begins, and whether its blocks are full.
    key: u64,
    /// Its bits; of full blocks, the last number.
    word: u64,
}

impl Entry {
    fn full(first: u64, last: u64) -> Entry {
        Entry { key: first | FULL, word: last }
    }

    #[inline]
    fn is_full(self) -> bool {
        self.key & FULL != 0
    }

    /// Where its first block begins.
    #[inline]
    fn first(self) -> u64 {
        self.key & !FULL
    }

    /// Where its last block ends.
    #[inline]
    fn end(self) -> u64 {
        if self.is_full() { self.word } else { self.key + (BLOCK - 1) }
    }

    /// The bits of one of its blocks.
    #[inline]
    fn bits(self) -> u64 {
        if self.is_full() { u64::MAX } else { self.word }
    }

    /// Its first numbers from `from` on that follow on each other; `from` is not behind its end.
    #[inline]
    fn next(self, from: u64) -> Option<Range> {
        let from = from.max(self.first());
        if self.is_full() {
            return Some(Range { first: from, last: self.word });
        }
        let bits = self.word & u64::MAX << (from - self.key);
        (bits != 0).then(|| run(self.key, bits))
    }

    #[inline]
    fn has_first(self) -> bool {
        self.bits() & 1 != 0
    }

    #[inline]
    fn has_last(self) -> bool {
        self.bits() >> (BLOCK - 1) != 0
    }

    #[inline]
    fn highest(self) -> u64 {
        if self.is_full() { self.word } else { self.key + (BLOCK - 1) - u64::from(self.word.leading_zeros()) }
    }
}

/// Where an entry is, or would be put.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spot {
    chunk: usize,
    at: usize,
}

/// See the module's head.
#[derive(Clone, Default)]
pub(super) struct Blocks {
    pub(super) numbers: u64,
    pub(super) ranges: usize,
    chunks: VecDeque<VecDeque<Entry>>,
    /// The memory of the chunk that emptied last: a set swinging around one chunk's bound allocates once.
    spare: VecDeque<Entry>,
    /// Where the last change was, if there still is something: a walk through a set in several strides (messages of
    /// several priorities, each in order) is near by.
    near: Spot,
}

impl Blocks {
    pub(super) fn heap_bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<Entry>()).sum();
        let chunks = chunks + self.spare.capacity() * size_of::<Entry>();
        self.chunks.capacity() * size_of::<VecDeque<Entry>>() + chunks
    }

    /// The highest number.
    #[inline]
    pub(super) fn highest(&self) -> Option<u64> {
        Some(self.chunks.back()?.back()?.highest())
    }

    #[inline]
    fn get(&self, spot: Spot) -> Option<Entry> {
        self.chunks.get(spot.chunk)?.get(spot.at).copied()
    }

    /// The spot behind this one, if there is an entry.
    #[inline]
    fn after(&self, spot: Spot) -> Option<(Spot, Entry)> {
        let next = Spot { at: spot.at + 1, ..spot };
        if let Some(entry) = self.get(next) {
            return Some((next, entry));
        }
        let next = Spot { chunk: spot.chunk + 1, at: 0 };
        self.get(next).map(|entry| (next, entry))
    }

    fn before(&self, spot: Spot) -> Option<(Spot, Entry)> {
        let previous = match spot.at.checked_sub(1) {
            Some(at) => Spot { at, ..spot },
            None => {
                let chunk = spot.chunk.checked_sub(1)?;
                Spot { chunk, at: self.chunks[chunk].len() - 1 }
            }
        };
        self.get(previous).map(|entry| (previous, entry))
    }

    /// The first entry that ends at `number` or above; behind all where none does. Looks first where the last change was
    /// and beside it.
    #[inline]
    pub(super) fn find(&self, number: u64) -> Spot {
        let Spot { chunk, at } = self.near;
        if let Some(entries) = self.chunks.get(chunk)
            && let Some(entry) = entries.get(at)
        {
            if entry.end() < number {
                if entries.get(at + 1).is_some_and(|next| next.end() >= number) {
                    return Spot { chunk, at: at + 1 };
                }
            } else if entry.first() <= number || at > 0 && entries[at - 1].end() < number {
                return self.near;
            }
        }
        self.find_anywhere(number)
    }

    fn find_anywhere(&self, number: u64) -> Spot {
        let below = |entry: &Entry| entry.end() < number;
        // The front is asked for most: by cursors that walk up.
        if self.chunks.front().and_then(|chunk| chunk.front()).is_none_or(|entry| !below(entry)) {
            return Spot::default();
        }
        let chunk = self.chunks.partition_point(|chunk| chunk.back().is_some_and(below));
        let at = self.chunks.get(chunk).map_or(0, |entries| entries.partition_point(below));
        Spot { chunk, at }
    }

    /// The first numbers from `from` on that follow on each other, and where the last of them is: a caller that goes on
    /// from there passes by all before.
    #[inline]
    pub(super) fn next_at(&self, spot: Spot, from: u64) -> Option<(Range, Spot)> {
        let (mut spot, mut entry) = (spot, self.get(spot)?);
        let mut found = loop {
            if entry.end() >= from
                && let Some(found) = entry.next(from)
            {
                break found;
            }
            (spot, entry) = self.after(spot)?;
        };
        while found.last == entry.end()
            && let Some((next, behind)) = self.after(spot)
            && behind.first() == found.last + 1
            && behind.has_first()
        {
            (spot, entry) = (next, behind);
            found.last = behind.next(behind.first()).map_or(found.last, |more| more.last);
        }
        Some((found, spot))
    }

    /// The first numbers from `from` on that follow on each other.
    #[inline]
    pub(super) fn next(&self, from: u64) -> Option<Range> {
        self.next_at(self.find(from), from).map(|(found, _)| found)
    }

    /// The last range.
    pub(super) fn last(&self) -> Option<Range> {
        let last = self.highest()?;
        let mut spot = self.find_anywhere(last);
        let mut entry = self.get(spot)?;
        let mut first = last;
        loop {
            let of_entry = first - entry.first();
            let ones = (!entry.bits() << (entry.end() - first).min(BLOCK - 1)).leading_zeros();
            first -= if entry.is_full() { of_entry } else { of_entry.min(u64::from(ones) - 1) };
            match self.before(spot) {
                Some((previous, before)) if before.end() + 1 == first && before.has_last() => {
                    (spot, entry) = (previous, before);
                    first = entry.end();
                }
                _ => return Some(Range { first, last }),
            }
        }
    }

    /// The bits of the block that begins at `block`.
    #[inline]
    pub(super) fn bits(&self, block: u64) -> u64 {
        self.bits_at(self.find(block), block)
    }

    #[inline]
    fn bits_at(&self, spot: Spot, block: u64) -> u64 {
        self.get(spot).filter(|entry| entry.first() <= block).map_or(0, Entry::bits)
    }

    /// Adds these numbers of the block that begins at `block`.
    #[inline]
    pub(super) fn insert_bits(&mut self, block: u64, bits: u64) {
        let spot = self.find(block);
        let old = self.bits_at(spot, block);
        self.put(spot, block, old, old | bits);
    }

    /// Of the block that begins at `block` there are these numbers from here on.
    #[inline]
    pub(super) fn set_bits(&mut self, block: u64, bits: u64) {
        let spot = self.find(block);
        self.put(spot, block, self.bits_at(spot, block), bits);
    }

    /// The block at `block`, which is or would be at `spot` and has the bits `old`, gets the bits `new`.
    #[inline]
    fn put(&mut self, spot: Spot, block: u64, old: u64, new: u64) {
        if old == new {
            return;
        }
        self.near = spot;
        self.numbers = self.numbers - u64::from(old.count_ones()) + u64::from(new.count_ones());
        self.ranges = self.ranges + runs(new) as usize - runs(old) as usize;
        let changed = old ^ new;
        if changed & 1 != 0 && self.is_joined_before(spot, block) {
            self.ranges = self.ranges + (old & 1) as usize - (new & 1) as usize;
        }
        if changed >> (BLOCK - 1) != 0 && self.is_joined_behind(spot, block) {
            let top = BLOCK - 1;
            self.ranges = self.ranges + (old >> top) as usize - (new >> top) as usize;
        }
        if old != 0 && old != u64::MAX && new != 0 && new != u64::MAX {
            self.chunks[spot.chunk][spot.at].word = new;
        } else {
            self.put_other(spot, block, old, new);
        }
    }

    /// The number before the block is in it.
    fn is_joined_before(&self, spot: Spot, block: u64) -> bool {
        match self.get(spot) {
            Some(entry) if entry.first() < block => true,
            _ => self.before(spot).is_some_and(|(_, before)| before.end() + 1 == block && before.has_last()),
        }
    }

    /// The number behind the block is in it.
    fn is_joined_behind(&self, spot: Spot, block: u64) -> bool {
        let behind = match self.get(spot) {
            Some(entry) if entry.first() <= block => {
                if entry.end() > block + (BLOCK - 1) {
                    return true;
                }
                self.after(spot).map(|(_, behind)| behind)
            }
            at => at,
        };
        behind.is_some_and(|behind| behind.first() == block + BLOCK && behind.has_first())
    }

    /// As [`Blocks::put`], where an entry comes, goes or becomes one of another kind; all is counted.
    fn put_other(&mut self, spot: Spot, block: u64, old: u64, new: u64) {
        if old == u64::MAX {
            self.cut(spot, Range { first: block, last: block + (BLOCK - 1) });
        } else if old != 0 {
            self.take(spot);
        }
        match new {
            0 => {}
            u64::MAX => self.join(Range { first: block, last: block + (BLOCK - 1) }),
            _ => {
                let spot = if old == 0 { spot } else { self.find(block) };
                self.insert_at(spot, Entry { key: block, word: new });
            }
        }
    }

    /// Takes whole blocks out of the entry at `spot`, which has them.
    fn cut(&mut self, spot: Spot, blocks: Range) {
        let Some(entry) = self.get(spot) else { return };
        let in_front = entry.first() < blocks.first;
        match (in_front, blocks.last < entry.word) {
            (false, false) => self.take(spot),
            (true, false) => self.chunks[spot.chunk][spot.at].word = blocks.first - 1,
            (in_front, true) => {
                self.chunks[spot.chunk][spot.at].key = (blocks.last + 1) | FULL;
                if in_front {
                    self.insert_at(spot, Entry::full(entry.first(), blocks.first - 1));
                }
            }
        }
    }

    /// Puts full blocks in where there are none, as one entry with those they touch.
    fn join(&mut self, blocks: Range) {
        let spot = self.find(blocks.first);
        let before =
            self.before(spot).filter(|(_, before)| before.is_full() && before.end() + 1 == blocks.first);
        let behind = self.get(spot).filter(|behind| behind.is_full() && behind.first() == blocks.last + 1);
        match (before, behind) {
            (None, None) => self.insert_at(spot, Entry::full(blocks.first, blocks.last)),
            (None, Some(_)) => self.chunks[spot.chunk][spot.at].key = blocks.first | FULL,
            (Some((before, _)), behind) => {
                self.chunks[before.chunk][before.at].word = behind.map_or(blocks.last, |behind| behind.word);
                if behind.is_some() {
                    self.take(spot);
                }
                self.near = before;
            }
        }
    }

    fn take(&mut self, spot: Spot) {
        let chunk = &mut self.chunks[spot.chunk];
        chunk.remove(spot.at);
        if chunk.is_empty() {
            self.spare = self.chunks.remove(spot.chunk).unwrap_or_default();
        }
    }

    /// Puts an entry where it belongs.
    fn insert_at(&mut self, spot: Spot, entry: Entry) {
        if self.chunks.len() == spot.chunk {
            // Behind everything: in the last chunk while that has room.
            match self.chunks.back_mut() {
                Some(chunk) if chunk.len() < CHUNK => chunk.push_back(entry),
                _ => {
                    let mut chunk = std::mem::take(&mut self.spare);
                    chunk.push_back(entry);
                    self.chunks.push_back(chunk);
                }
            }
            let chunk = self.chunks.len() - 1;
            self.near = Spot { chunk, at: self.chunks[chunk].len() - 1 };
            return;
        }
        let chunk = &mut self.chunks[spot.chunk];
        chunk.insert(spot.at, entry);
        if chunk.len() > CHUNK {
            let upper = chunk.split_off(CHUNK / 2);
            self.chunks.insert(spot.chunk + 1, upper);
        }
    }

    /// Puts `range` in; it may overlap and touch others.
    pub(super) fn insert(&mut self, range: Range) {
        let mut from = range.first;
        loop {
            let block = block_of(from);
            let end = block + (BLOCK - 1);
            let whole = if from == block { block_of(range.last + 1) } else { 0 };
            let last = if whole > end + 1 {
                // Two whole blocks at least.
                let blocks = Range { first: block, last: whole - 1 };
                self.remove(blocks, &mut |_| {});
                self.insert_full(blocks);
                blocks.last
            } else {
                let last = range.last.min(end);
                self.insert_bits(block, bits_within(block, Range { first: from, last }));
                last
            };
            if last == range.last {
                return;
            }
            from = last + 1;
        }
    }

    /// Puts whole blocks in of which nothing is there.
    fn insert_full(&mut self, blocks: Range) {
        let spot = self.find(blocks.first);
        let is_joined_before = self.is_joined_before(spot, blocks.first);
        let is_joined_behind =
            self.get(spot).is_some_and(|behind| behind.first() == blocks.last + 1 && behind.has_first());
        self.numbers += blocks.len();
        self.ranges = self.ranges + 1 - usize::from(is_joined_before) - usize::from(is_joined_behind);
        self.join(blocks);
    }

    /// Takes `range` out; tells `taken` the numbers that were in it, lowest first, those that follow on each other as
    /// one.
    pub(super) fn remove(&mut self, range: Range, taken: &mut impl FnMut(Range)) {
        let mut told: Option<Range> = None;
        let mut tell = |part: Range| match &mut told {
            Some(told) if told.last + 1 == part.first => told.last = part.last,
            _ => told.replace(part).into_iter().for_each(&mut *taken),
        };
        let mut from = range.first;
        loop {
            let spot = self.find(from);
            let Some(entry) = self.get(spot).filter(|entry| entry.first() <= range.last) else { break };
            from = from.max(entry.first());
            let block = block_of(from);
            let end = block + (BLOCK - 1);
            let last = if entry.is_full() && from == block && end <= range.last {
                let blocks =
                    Range { first: from, last: entry.word.min(block_of(range.last.saturating_add(1)) - 1) };
                tell(blocks);
                self.remove_full(spot, blocks);
                blocks.last
            } else {
                let old = entry.bits();
                let gone = old & bits_within(block, Range { first: from, last: range.last });
                self.put(spot, block, old, old & !gone);
                each_run(block, gone, &mut tell);
                end
            };
            if last >= range.last {
                break;
            }
            from = last + 1;
        }
        told.into_iter().for_each(taken);
    }

    /// Takes whole blocks out of the entry at `spot`, which has them.
    fn remove_full(&mut self, spot: Spot, blocks: Range) {
        let is_joined_before = self.is_joined_before(spot, blocks.first);
        let is_joined_behind = self.is_joined_behind(spot, block_of(blocks.last));
        self.numbers -= blocks.len();
        self.ranges = self.ranges + usize::from(is_joined_before) + usize::from(is_joined_behind) - 1;
        self.near = spot;
        self.cut(spot, blocks);
    }

    /// Takes out the first range.
    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<Range> {
        let first = self.chunks.front()?.front()?.first();
        let (range, _) = self.next_at(Spot::default(), first)?;
        self.remove(range, &mut |_| {});
        Some(range)
    }

    /// Takes out all ranges in front that overlap or touch `range`, which begins before them all; where `range` ends
    /// when it has become one with them.
    pub(super) fn absorb(&mut self, range: Range) -> u64 {
        let mut last = range.last;
        while let Some((front, _)) =
            self.next_at(Spot::default(), 0).filter(|(front, _)| front.first <= last + 1)
        {
            last = last.max(front.last);
            self.remove(front, &mut |_| {});
        }
        last
    }
}
