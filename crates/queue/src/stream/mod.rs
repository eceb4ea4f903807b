//! Streams: messages that stay, in chunks, read from anywhere by anybody.
//!
//! - [`Stream`]: the machine. Records of its log append to it; the chunk they make is closed with their batch, so that the
//!   same log makes the same bytes. Chunks are put behind each other in *segments*, which are files, and whole segments go
//!   when there is too much or it is too old.
//! - [`Common`]: what the streams of a log share.
//! - [`Work`]: what a disk is asked to do, and [`Done`]: what it did. Machines know no disk.
//!
//! A chunk is served from memory while it is young (the *tail*), and from blocks read back later. Where a reader stands is
//! a segment and a position in its file, whether the chunk there is in memory or not.
//! Not here: files, consumers' connections, and what the bytes of a message mean.

mod common;
mod groups;
mod machine;
mod offsets;
mod readers;
mod retired;
mod segments;
mod snapshot;
mod tail;
mod tracking;
mod work;

pub use common::Common;
pub use groups::Group;
pub use machine::{Published, Stream};
pub use offsets::Storing;
pub use readers::{From, NewReader, Next, ReaderId};
pub use segments::Segment;
pub use tracking::FEED;
pub use work::{
    Block, BlockChunk, Damage, DamageReason, Done, IndexEntry, Read, ReadDone, Remove, Seek, SeekDone,
    SeekFor, Sought, Spare, StorePiece, Sync, SyncDone, SyncFailure, Work, WorkError, Write, WriteDone,
};

use base::Memory;
use message::chunk::FILTER_LEN_DEFAULT;

/// Bytes in front of the first chunk of a segment's file.
pub const FILE_HEADER_LEN: u64 = 8;

/// [`Settings::chunk_entries_first`] where nobody says.
pub const CHUNK_ENTRIES_FIRST_DEFAULT: u16 = 128;

/// What a stream is told to be like. Not in its snapshot: it comes from its declaration and its policies. The bytes of
/// chunks depend on `filter_len` and `chunk_entries_first` alone, which only a declaration says: a replay makes them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a chunk's Bloom filter, 16 to 255.
    pub filter_len: u8,
    /// Entries of the first chunk of a batch, from 1; each further one has up to twice as many as the one before, at most 65,535.
    /// Readers give credit by the chunk: what came at once is not a single one, and what goes on coming is not in many.
    pub chunk_entries_first: u16,
    /// A segment with so many bytes is followed by another.
    pub segment_bytes_max: u64,
    /// Bytes of all segments; what is beyond goes, oldest first, but for the last segment.
    pub bytes_max: Option<u64>,
    /// A segment whose last chunk is older goes, but for the last segment, in milliseconds.
    pub age_max_ms: Option<u64>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            filter_len: FILTER_LEN_DEFAULT,
            chunk_entries_first: CHUNK_ENTRIES_FIRST_DEFAULT,
            segment_bytes_max: 500_000_000,
            bytes_max: None,
            age_max_ms: None,
        }
    }
}

/// The bounds of the streams of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a chunk's entries after which another begins; an entry that has more has a chunk of its own.
    pub chunk_bytes_max: usize,
    /// Chunks of a segment.
    pub segment_chunks_max: u32,
    /// Segments of a stream that may be as small as it is told; one that has more goes on to [`Limits::segment_bytes_min`] with each
    /// further one, or it would have as many files as messages.
    pub small_segments_max: usize,
    /// See [`Limits::small_segments_max`].
    pub segment_bytes_min: u64,
    /// The first chunk that begins in each so many bytes of a segment is in the segment's index.
    pub index_bytes: u64,
    /// Memory in bytes that a stream with readers keeps of what is written already.
    pub tail_bytes_max: usize,
    /// Memory in bytes of what all streams keep of what is written already; beyond, none keeps more.
    pub tails_bytes_max: usize,
    /// Memory in bytes that a log keeps of what was read back, and half as much of what was, to be read into again.
    pub loaded_bytes_max: usize,
    /// Bytes of a reader's first read.
    pub read_bytes_min: u32,
    /// Bytes of a read, unless one chunk has more.
    pub read_bytes_max: u32,
    /// Reads and seeks of a stream that are under way, at least 1; readers that need more wait for one to come back.
    pub reads_max: usize,
    /// Chunks in memory that a reader goes over at once because its filter does not want them; then others have a turn.
    pub passed_over_max: u32,
    /// Who reads on is read for in larger and larger pieces, and before it asks.
    pub reads_ahead: bool,
    /// Publishers whose last publishing id is still known when a segment is full.
    pub sequences_kept: usize,
    /// Publishers whose last publishing id is known; the one that was idle for longest is forgotten.
    pub sequences_max: usize,
    /// Consumers whose offsets are known; for one more another is forgotten, of whoever has the most.
    pub offsets_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            chunk_bytes_max: 1 << 20,
            segment_chunks_max: 256_000,
            small_segments_max: 64,
            segment_bytes_min: 1 << 20,
            index_bytes: 64 << 10,
            tail_bytes_max: 1 << 20,
            tails_bytes_max: 16 << 20,
            loaded_bytes_max: 16 << 20,
            read_bytes_min: 64 << 10,
            read_bytes_max: 1 << 20,
            reads_max: 64,
            passed_over_max: 1024,
            reads_ahead: true,
            sequences_kept: 255,
            sequences_max: 4096,
            offsets_max: 65_536,
        }
    }
}

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

/// What a stream wants to happen.
#[derive(Clone, Debug)]
pub enum Effect {
    /// [`Stream::next`] may have something for this reader.
    Ready(ReaderId),
    /// The client is to be told whether its consumer is the active one of its group, and to answer
    /// ([`Stream::answer`]).
    Active {
        /// Whose client.
        reader: ReaderId,
        /// It is to go on, or to stop.
        active: bool,
    },
    /// To be carried out by whoever has a disk; what it brings goes to [`Stream::done`].
    Work(Work),
    /// Something on disk is not what was written; the rest is served.
    Damaged(Damage),
}
