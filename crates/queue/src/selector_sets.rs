//! Sets of selectors, each kept once, and which of them each message of a queue has.
//!
//! A message costs four bytes and its share of a block of 64; that it matches the same selectors as others costs nothing.
//! Invariant: a set is here as long as a message has it, with how many do.

use crate::priority_blocks::{BLOCK, block_of};
use base::ranges::Range;
use std::collections::BTreeMap;

/// Different selectors of a queue at most.
pub const SELECTORS_MAX: usize = 256;

/// The number of a selector of a queue, which its owner chose: below [`SELECTORS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SelectorId(pub u8);

/// Some selectors of a queue: those that are true of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SelectorSet([u64; SELECTORS_MAX / 64]);

impl SelectorSet {
    /// With this one.
    #[must_use]
    pub fn with(mut self, id: SelectorId) -> SelectorSet {
        self.insert(id);
        self
    }

    /// It is in it from now on.
    #[inline]
    pub fn insert(&mut self, id: SelectorId) {
        self.0[usize::from(id.0) / 64] |= 1 << (id.0 % 64);
    }

    /// It is not in it from now on.
    pub fn remove(&mut self, id: SelectorId) {
        self.0[usize::from(id.0) / 64] &= !(1 << (id.0 % 64));
    }

    /// Whether it is in it.
    #[inline]
    pub fn contains(&self, id: SelectorId) -> bool {
        self.0[usize::from(id.0) / 64] & 1 << (id.0 % 64) != 0
    }

    /// Those that are in both.
    #[must_use]
    pub fn and(mut self, other: &SelectorSet) -> SelectorSet {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
        self
    }

    /// Whether some selector is in both.
    pub fn meets(&self, other: &SelectorSet) -> bool {
        self.0.iter().zip(&other.0).any(|(one, other)| one & other != 0)
    }

    /// Whether none is in it.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; SELECTORS_MAX / 64]
    }

    /// All of them, lowest first.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = SelectorId> + use<> {
        (0u8..).zip(self.0).flat_map(|(word, mut bits)| {
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as u8)?;
                bits &= bits - 1;
                Some(SelectorId(word * 64 + bit))
            })
        })
    }
}

/// A set, and how many messages have it.
#[derive(Debug)]
struct Shared {
    set: SelectorSet,
    messages: u64,
}

/// The sets of the messages of a block.
#[derive(Debug)]
struct Block {
    /// Numbers of sets: one more than the place in the list; 0: the message is in none.
    numbers: [u32; BLOCK as usize],
    /// How many of them are not 0.
    count: u32,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct SelectorSets {
    list: Vec<Shared>,
    free: Vec<u32>,
    by_set: BTreeMap<SelectorSet, u32>,
    /// By where they begin.
    blocks: BTreeMap<u64, Box<Block>>,
}

impl SelectorSets {
    /// Gives a message a set: the one that it had.
    pub(crate) fn put(&mut self, seq: u64, set: SelectorSet) -> Option<SelectorSet> {
        let number = self.enter(set);
        let new = || Box::new(Block { numbers: [0; BLOCK as usize], count: 0 });
        let block = self.blocks.entry(block_of(seq)).or_insert_with(new);
        let before = std::mem::replace(&mut block.numbers[(seq % BLOCK) as usize], number);
        block.count += u32::from(before == 0);
        self.leave_set(before)
    }

    /// Tells `each` of the messages of `range` that have a set, in runs that have the same.
    pub(crate) fn runs(&self, range: Range, mut each: impl FnMut(SelectorSet, Range)) {
        for (&block, of_block) in self.blocks.range(block_of(range.first)..=range.last) {
            let numbers = &of_block.numbers;
            let (mut first, last) = (range.first.max(block), range.last.min(block + (BLOCK - 1)));
            while first <= last {
                let number = numbers[(first - block) as usize];
                let here = (first..=last).take_while(|seq| numbers[(seq - block) as usize] == number);
                let run = Range { first, last: first + here.count() as u64 - 1 };
                if let Some(at) = number.checked_sub(1) {
                    each(self.list[at as usize].set, run);
                }
                first = run.last + 1;
            }
        }
    }

    /// Messages are gone.
    pub(crate) fn leave(&mut self, range: Range) {
        let mut next = block_of(range.first);
        while next <= range.last
            && let Some((&block, _)) = self.blocks.range(next..=range.last).next()
        {
            for seq in range.first.max(block)..=range.last.min(block + (BLOCK - 1)) {
                let of_block = self.blocks.get_mut(&block).expect("it was found");
                let number = std::mem::take(&mut of_block.numbers[(seq % BLOCK) as usize]);
                of_block.count -= u32::from(number != 0);
                self.leave_set(number);
            }
            if self.blocks.get(&block).is_some_and(|of_block| of_block.count == 0) {
                self.blocks.remove(&block);
            }
            next = block + BLOCK;
        }
    }

    /// A selector is in no set any more. Sets that are equal by that stay as many as they were.
    pub(crate) fn forget(&mut self, id: SelectorId) {
        for shared in self.list.iter_mut().filter(|shared| shared.set.contains(id)) {
            self.by_set.remove(&shared.set);
            shared.set.remove(id);
        }
    }

    /// How many messages there are whose set has none of these.
    pub(crate) fn count_without(&self, some: &SelectorSet) -> u64 {
        let others = self.list.iter().filter(|shared| !shared.set.meets(some));
        others.map(|shared| shared.messages).sum()
    }

    fn enter(&mut self, set: SelectorSet) -> u32 {
        if let Some(&number) = self.by_set.get(&set) {
            self.list[number as usize - 1].messages += 1;
            return number;
        }
        let shared = Shared { set, messages: 1 };
        let number = match self.free.pop() {
            Some(number) => {
                self.list[number as usize - 1] = shared;
                number
            }
            None => {
                self.list.push(shared);
                self.list.len() as u32
            }
        };
        self.by_set.insert(set, number);
        number
    }

    fn leave_set(&mut self, number: u32) -> Option<SelectorSet> {
        let at = number.checked_sub(1)? as usize;
        let Shared { set, messages } = &mut self.list[at];
        *messages -= 1;
        if *messages == 0 {
            // An equal one may stand there, of a time when they were not equal.
            if self.by_set.get(set) == Some(&number) {
                self.by_set.remove(set);
            }
            self.free.push(number);
        }
        Some(self.list[at].set)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        // A node has room for eleven; two thirds are in use.
        self.list.capacity() * size_of::<Shared>()
            + self.free.capacity() * size_of::<u32>()
            + self.by_set.len() * size_of::<(SelectorSet, u32)>() * 3 / 2
            + self.blocks.len() * (size_of::<Block>() + size_of::<(u64, Box<Block>)>() * 3 / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl SelectorSets {
        fn get(&self, seq: u64) -> Option<SelectorSet> {
            let mut found = None;
            self.runs(Range { first: seq, last: seq }, |set, _| found = Some(set));
            found
        }
    }

    fn set(ids: &[u8]) -> SelectorSet {
        ids.iter().fold(SelectorSet::default(), |set, id| set.with(SelectorId(*id)))
    }

    #[test]
    fn a_set_knows_its_own() {
        let some = set(&[0, 63, 64, 200, 255]);
        assert_eq!(some.iter().map(|id| id.0).collect::<Vec<_>>(), [0, 63, 64, 200, 255]);
        assert!(some.contains(SelectorId(200)) && !some.contains(SelectorId(201)));
        assert!(some.meets(&set(&[1, 255])) && !some.meets(&set(&[1, 254])) && !some.meets(&set(&[])));
        assert!(set(&[]).is_empty() && !some.is_empty());
    }

    #[test]
    fn equal_sets_are_one_and_go_with_their_last_message() {
        let mut sets = SelectorSets::default();
        for seq in 0..1000 {
            assert_eq!(sets.put(seq, set(&[(seq % 3) as u8])), None);
        }
        assert_eq!((sets.list.len(), sets.count_without(&set(&[0, 1]))), (3, 333));
        assert_eq!(sets.put(5, set(&[7])), Some(set(&[2])));
        assert_eq!((sets.get(5), sets.get(6), sets.get(1000)), (Some(set(&[7])), Some(set(&[0])), None));
        sets.leave(Range { first: 0, last: 998 });
        assert_eq!((sets.get(998), sets.get(999)), (None, Some(set(&[0]))));
        assert_eq!((sets.list.len(), sets.free.len(), sets.blocks.len()), (4, 3, 1));
        sets.leave(Range { first: 10, last: 10_000 });
        assert!(sets.by_set.is_empty() && sets.blocks.is_empty());
    }

    #[test]
    fn a_selector_that_is_forgotten_is_in_no_set() {
        let mut sets = SelectorSets::default();
        let given = [&[1u8, 2][..], &[1], &[2], &[]];
        (0..).zip(given).for_each(|(seq, ids)| _ = sets.put(seq, set(ids)));
        sets.forget(SelectorId(1));
        let left: Vec<_> = (0..4).map(|seq| sets.get(seq).unwrap()).collect();
        assert_eq!(left, [set(&[2]), set(&[]), set(&[2]), set(&[])]);
        assert_eq!((sets.count_without(&set(&[2])), sets.count_without(&set(&[1]))), (2, 4));
        for seq in 0..4 {
            sets.put(seq, set(&[2]));
        }
        assert_eq!(sets.count_without(&set(&[])), 4);
        sets.leave(Range { first: 0, last: 3 });
        assert!(sets.by_set.is_empty() && sets.free.len() == sets.list.len());
    }
}
