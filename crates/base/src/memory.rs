//! The memory messages live in: filled once as a log's open batch, then written to disk and delivered from.
//!
//! A [`Buffer`] is being filled by one owner; [`Buffer::seal`] turns it into a [`Memory`], which nobody changes and
//! many share. Both are aligned to [`BLOCK`] bytes so that O_DIRECT can write them as they are.
//! Not a general allocator: no pieces, no growth in place without a copy.

use std::ops::Deref;
use std::sync::Arc;

/// Alignment and granularity in bytes: the largest logical block size of common devices, and a page.
pub const BLOCK: usize = 4096;

#[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK]);

/// Block-aligned bytes being filled from the front.
#[derive(Default)]
pub struct Buffer {
    blocks: Vec<Block>,
    len: usize,
}

impl Buffer {
    /// An empty buffer that can take `bytes` without moving.
    pub fn with_capacity(bytes: usize) -> Buffer {
        let mut buffer = Buffer::default();
        buffer.reserve(bytes);
        buffer
    }

    /// Bytes filled so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Nothing was filled.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes it can hold without moving.
    pub fn capacity(&self) -> usize {
        self.blocks.len() * BLOCK
    }

    /// Makes room for `more` bytes behind those filled.
    #[inline]
    pub fn reserve(&mut self, more: usize) {
        if self.capacity() - self.len < more {
            self.grow(more);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let blocks = (self.len + more).div_ceil(BLOCK).max(self.blocks.len() * 2);
        self.blocks.resize(blocks, Block([0; BLOCK]));
    }

    /// Appends `bytes`.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let at = self.len;
        self.len = at + bytes.len();
        bytemuck::cast_slice_mut(&mut self.blocks)[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Appends `count` zero bytes and returns them to be filled in.
    #[inline]
    pub fn extend_zeroed(&mut self, count: usize) -> &mut [u8] {
        self.reserve(count);
        let at = self.len;
        self.len = at + count;
        let fresh: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut self.blocks)[at..at + count];
        fresh.fill(0);
        fresh
    }

    /// Makes it `len` bytes long and returns all of them, to be overwritten: bytes that were not filled before hold
    /// zeros or the remains of an earlier use. For reading into, where zeroing first would cost as much again.
    pub fn stretch(&mut self, len: usize) -> &mut [u8] {
        self.reserve(len.saturating_sub(self.len));
        self.len = len;
        self.bytes_mut()
    }

    /// Appends `count` bytes of stale memory, all of which the caller overwrites.
    #[inline]
    pub fn extend_stale(&mut self, count: usize) -> &mut [u8] {
        self.reserve(count);
        let at = self.len;
        self.len = at + count;
        &mut bytemuck::cast_slice_mut(&mut self.blocks)[at..at + count]
    }

    /// Fills with zeros up to the next multiple of `alignment`, a power of two.
    #[inline]
    pub fn pad_to(&mut self, alignment: usize) {
        let padding = self.len.next_multiple_of(alignment) - self.len;
        self.extend_zeroed(padding);
    }

    /// Forgets everything from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The filled bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.blocks)[..self.len]
    }

    /// The filled bytes, to be changed.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.blocks)[..self.len]
    }

    /// Makes it shared and unchangeable.
    pub fn seal(self) -> Memory {
        Memory(Arc::new(self))
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} of {} bytes)", self.len, self.capacity())
    }
}

/// Sealed bytes that many may read. Cloning costs one atomic increment: clone per batch, not per message.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Buffer>);

impl Memory {
    /// The buffer again, empty and ready to be refilled, if nobody else holds it.
    pub fn recycle(self) -> Option<Buffer> {
        let mut buffer = Arc::into_inner(self.0)?;
        buffer.len = 0;
        Some(buffer)
    }

    /// As [`Memory::recycle`], and the memory as it is where somebody else holds it.
    ///
    /// # Errors
    /// The memory.
    pub fn try_recycle(self) -> Result<Buffer, Memory> {
        let mut buffer = Arc::try_unwrap(self.0).map_err(Memory)?;
        buffer.len = 0;
        Ok(buffer)
    }

    /// Bytes of memory this holds, filled or not.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Whether both are the same memory.
    pub fn same(&self, other: &Memory) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for Memory {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Buffer};

    #[test]
    fn keeps_what_was_put_in_while_it_grows() {
        let mut buffer = Buffer::default();
        for i in 0..3000u32 {
            buffer.extend(&i.to_le_bytes());
        }
        buffer.pad_to(64);
        assert_eq!(buffer.len(), 12_032);
        assert_eq!(buffer.bytes().as_ptr() as usize % BLOCK, 0);
        let memory = buffer.seal();
        assert_eq!(memory[4 * 2999..4 * 3000], 2999u32.to_le_bytes());
        assert_eq!(memory[12_000..], [0; 32]);
    }

    #[test]
    fn recycled_only_when_nobody_else_holds_it() {
        let memory = Buffer::with_capacity(10).seal();
        let other = memory.clone();
        let memory = memory.try_recycle().unwrap_err();
        assert!(memory.recycle().is_none());
        let again = other.recycle().unwrap();
        assert_eq!((again.len(), again.capacity()), (0, BLOCK));
    }

    #[test]
    fn stretches_without_moving_what_is_there() {
        let mut buffer = Buffer::default();
        buffer.extend(&[7; 10]);
        assert_eq!(buffer.stretch(5000)[..10], [7; 10]);
        assert_eq!((buffer.stretch(4).len(), buffer.len()), (4, 4));
    }

    #[test]
    fn zeroed_is_zero_even_where_old_bytes_were() {
        let mut buffer = Buffer::default();
        buffer.extend(&[7; 100]);
        buffer.truncate(10);
        buffer.extend_zeroed(20);
        assert_eq!(buffer.bytes()[10..], [0; 20]);
    }
}
