//! Chunks in memory, and places of chunks in segments.

use base::Memory;

/// A place in a stream: where in which segment a chunk begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The segment's number. They count from 1, so that 0 is before all.
    pub segment: u64,
    /// The position in its file.
    pub position: u64,
}

/// A chunk in memory: as it is stored, header, Bloom filter and data, with an empty trailer.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Holds it, perhaps among others.
    pub memory: Memory,
    /// Where in the memory it begins.
    pub at: u32,
    /// Its bytes.
    pub len: u32,
    /// The offset of its first message.
    pub first_offset: u64,
    /// How many offsets it takes.
    pub records: u32,
    /// Bytes of its Bloom filter, behind the header of 48.
    pub bloom_len: u8,
}

impl Chunk {
    /// All of it.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.at as usize..][..self.len as usize]
    }

    /// Its Bloom filter; empty: no entry has a value.
    #[inline]
    pub fn bloom(&self) -> &[u8] {
        &self.bytes()[message::chunk::HEADER_LEN..][..usize::from(self.bloom_len)]
    }

    /// The offset behind its last.
    #[inline]
    pub fn next_offset(&self) -> u64 {
        self.first_offset.saturating_add(self.records.into())
    }
}
