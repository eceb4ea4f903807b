//! Memory of blocks that were let go, to be read into again once nobody sends from it.
//!
//! Blocks are large, and come and go with every read: taken from the allocator each time they would be zeroed each time, and leave
//! holes in it that cost more memory than the blocks.

use base::{Buffer, Memory};
use std::collections::VecDeque;

/// Memories looked through for one that fits.
const LOOKED_AT_MAX: usize = 64;

/// A memory this many times as large as the need is for somebody else.
const WASTE_MAX: usize = 4;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Retired {
    /// The oldest first.
    memories: VecDeque<Memory>,
    bytes: usize,
}

impl Retired {
    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps one, and lets the oldest go beyond so many bytes of all.
    pub(super) fn add(&mut self, memory: Memory, bytes_max: usize) {
        self.bytes += memory.capacity();
        self.memories.push_back(memory);
        while self.bytes > bytes_max || self.memories.len() > LOOKED_AT_MAX {
            let Some(oldest) = self.memories.pop_front() else { break };
            self.bytes -= oldest.capacity();
        }
    }

    /// One with room for so many bytes, that nobody holds any more; empty. The newest: the processor may still have it in its
    /// caches.
    pub(super) fn take(&mut self, bytes: usize) -> Option<Buffer> {
        for at in (0..self.memories.len()).rev() {
            let capacity = self.memories[at].capacity();
            if !(bytes..=bytes.saturating_mul(WASTE_MAX)).contains(&capacity) {
                continue;
            }
            match self.memories.remove(at)?.try_recycle() {
                Ok(buffer) => {
                    self.bytes -= capacity;
                    return Some(buffer);
                }
                Err(memory) => self.memories.insert(at, memory),
            }
        }
        None
    }

    /// Lets all go.
    pub(super) fn clear(&mut self) {
        *self = Retired::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::memory::BLOCK;

    fn memory(bytes: usize) -> Memory {
        Buffer::with_capacity(bytes).seal()
    }

    #[test]
    fn what_nobody_holds_is_used_again() {
        let mut retired = Retired::default();
        let held = memory(100_000);
        retired.add(held.clone(), usize::MAX);
        retired.add(memory(8192), usize::MAX);
        assert!(retired.take(90_000).is_none(), "somebody sends from it");
        drop(held);
        assert!(retired.take(110_000).is_none(), "none is so large");
        assert!(retired.take(1000).is_none(), "none is so small");
        let buffer = retired.take(90_000).unwrap();
        assert_eq!((buffer.len(), buffer.capacity() >= 90_000, retired.bytes()), (0, true, 8192));
    }

    #[test]
    fn the_newest_is_used_first() {
        let mut retired = Retired::default();
        [3, 1, 2].into_iter().for_each(|blocks| retired.add(memory(blocks * BLOCK), usize::MAX));
        let sizes: Vec<usize> =
            std::iter::from_fn(|| Some(retired.take(BLOCK)?.capacity() / BLOCK)).collect();
        assert_eq!((sizes, retired.bytes()), (vec![2, 1, 3], 0));
    }

    #[test]
    fn what_is_too_much_goes() {
        let mut retired = Retired::default();
        (0..5).for_each(|_| retired.add(memory(8192), 3 * 8192));
        assert_eq!(retired.bytes(), 3 * 8192);
        (0..100).for_each(|_| retired.add(memory(4096), usize::MAX));
        assert_eq!(retired.memories.len(), LOOKED_AT_MAX);
        retired.clear();
        assert_eq!(retired.bytes(), 0);
    }
}
