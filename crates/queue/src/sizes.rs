//! How large messages are, where their queue keeps that: four bytes each, in blocks of positions.
//!
//! A block goes when the last message in it has left. Positions without a size (they came before sizes were kept) count
//! as empty.
//! Invariant: blocks are in order of position and do not overlap; `live` of each says how many of its positions have not
//! left, and is not 0.

use base::ranges::Range;
use std::collections::VecDeque;

/// Positions in one block, 2 KiB.
const BLOCK: usize = 512;

/// How large a block is at first.
const SMALL: usize = 16;

/// Positions without a size may lie between others in a block: cheaper than a new block.
const GAP: u64 = 8;

#[derive(Debug)]
struct Block {
    first: u64,
    live: u32,
    sizes: Vec<u32>,
}

impl Block {
    fn end(&self) -> u64 {
        self.first + self.sizes.len() as u64
    }

    /// The part of its positions that is in `range`, as indexes.
    fn within(&self, range: Range) -> std::ops::Range<usize> {
        let from = range.first.max(self.first) - self.first;
        let to = (range.last + 1).min(self.end()).max(self.first + from) - self.first;
        from as usize..to as usize
    }
}

/// The sizes of one queue's messages.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    blocks: VecDeque<Block>,
}

impl Sizes {
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Above the last position of all that has a size.
    pub(crate) fn end(&self) -> u64 {
        self.blocks.back().map_or(0, Block::end)
    }

    /// The size of a position above all others; `between` of those from [`Sizes::end`] on are live.
    pub(crate) fn push(&mut self, seq: u64, bytes: u32, between: u64) {
        if let Some(block) = self.blocks.back_mut() {
            let len = block.sizes.len();
            let gap = seq - block.end();
            if gap <= GAP && len as u64 + gap < BLOCK as u64 {
                let needed = len + gap as usize + 1;
                if needed > block.sizes.capacity() {
                    let capacity = if needed <= SMALL * 8 { SMALL * 8 } else { BLOCK };
                    block.sizes.reserve_exact(capacity - len);
                }
                block.sizes.resize(len + gap as usize, 0);
                block.sizes.push(bytes);
                block.live += between as u32 + 1;
                return;
            }
            if len < BLOCK {
                block.sizes.shrink_to_fit();
            }
        }
        let mut sizes = Vec::new();
        sizes.reserve_exact(SMALL);
        sizes.push(bytes);
        self.blocks.push_back(Block { first: seq, live: 1, sizes });
    }

    /// Whether a position has a size, be it 0.
    fn has(&self, at: usize, seq: u64) -> bool {
        self.blocks.get(at).is_some_and(|block| block.first <= seq)
    }

    /// The size of a live position below others, where it has none but 0; `between` tells how many of a range are live.
    pub(crate) fn put(&mut self, seq: u64, bytes: u32, between: impl FnOnce(Range) -> u64) {
        let at = self.blocks.partition_point(|block| block.end() <= seq);
        if self.has(at, seq) {
            let block = &mut self.blocks[at];
            let size = &mut block.sizes[(seq - block.first) as usize];
            if *size == 0 {
                *size = bytes;
            }
            return;
        }
        if let Some(block) = at.checked_sub(1).and_then(|before| self.blocks.get_mut(before))
            && seq - block.end() <= GAP
            && seq - block.first < BLOCK as u64
        {
            let gap = block.end()..seq;
            let live = if gap.is_empty() { 0 } else { between(Range { first: gap.start, last: seq - 1 }) };
            block.live += live as u32 + 1;
            if block.sizes.capacity() == block.sizes.len() {
                block.sizes.reserve_exact(BLOCK - block.sizes.len());
            }
            block.sizes.resize((seq - block.first) as usize, 0);
            block.sizes.push(bytes);
            return;
        }
        // Messages are weighed in order: the block before has all it will have.
        if let Some(before) = at.checked_sub(1).and_then(|before| self.blocks.get_mut(before)) {
            before.sizes.shrink_to_fit();
        }
        self.blocks.insert(at, Block { first: seq, live: 1, sizes: vec![bytes] });
    }

    fn find(&self, seq: u64) -> usize {
        match self.blocks.front() {
            Some(front) if front.end() <= seq => self.blocks.partition_point(|block| block.end() <= seq),
            _ => 0,
        }
    }

    /// Bytes of all of `range`, which is live.
    pub(crate) fn sum(&self, range: Range) -> u64 {
        let blocks = self.blocks.range(self.find(range.first)..);
        let blocks = blocks.take_while(|block| block.first <= range.last);
        blocks.flat_map(|block| &block.sizes[block.within(range)]).map(|size| u64::from(*size)).sum()
    }

    /// The positions of `range` with a number that is not 0, and that number.
    pub(crate) fn each(&self, range: Range) -> impl Iterator<Item = (u64, u32)> + '_ {
        let blocks = self.blocks.range(self.find(range.first)..);
        let blocks = blocks.take_while(move |block| block.first <= range.last);
        let numbers = blocks.flat_map(move |block| {
            let within = block.within(range);
            let first = block.first + within.start as u64;
            (first..).zip(block.sizes[within].iter().copied())
        });
        numbers.filter(|(_, number)| *number != 0)
    }

    /// Positions are gone.
    pub(crate) fn leave(&mut self, range: Range) {
        let mut at = self.find(range.first);
        while let Some(block) = self.blocks.get_mut(at).filter(|block| block.first <= range.last) {
            block.live -= block.within(range).len() as u32;
            if block.live == 0 {
                self.blocks.remove(at);
            } else {
                at += 1;
            }
        }
        if self.blocks.len() * 4 < self.blocks.capacity() {
            self.blocks.shrink_to(self.blocks.len() * 2);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.blocks = VecDeque::new();
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let sizes: usize = self.blocks.iter().map(|block| block.sizes.capacity() * size_of::<u32>()).sum();
        sizes + self.blocks.capacity() * size_of::<Block>()
    }
}
