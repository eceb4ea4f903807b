//! Requests of a stream to a disk, as values, and the answers.
//!
//! Writing the same again does no harm: the same bytes go to the same place. So a background write may still be under way
//! while the same chunks are written for a snapshot.

use super::chunk::Place;
use base::{Buffer, Memory};
use message::chunk::Filter;
use std::ops::Range;

/// Something for a disk to do.
#[derive(Clone, Debug)]
pub enum Work {
    /// Write chunks, without making them durable.
    Write(Write),
    /// Write the unwritten chunks, and make all of the stream durable.
    Sync(Sync),
    /// Read chunks.
    Read(Read),
    /// Find a chunk.
    Seek(Seek),
    /// Remove segments.
    Remove(Remove),
}

/// Chunks to be written.
#[derive(Clone, Debug)]
pub struct Write {
    /// By segment, in order.
    pub pieces: Vec<StorePiece>,
    /// The offset behind the last.
    pub to: u64,
}

/// Chunks that lie behind each other in one segment.
#[derive(Clone, Debug)]
pub struct StorePiece {
    /// The segment; its file and its index are made if the first chunk is the segment's first.
    pub segment: u64,
    /// Where the first goes.
    pub position: u64,
    /// Their bytes, in order.
    pub parts: Vec<(Memory, Range<u32>)>,
    /// Entries the index has before.
    pub indexed: u32,
    /// Those that follow.
    pub index: Vec<IndexEntry>,
}

/// An entry of a segment's index: where some chunk begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The chunk's first offset.
    pub first_offset: u64,
    /// Its time, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Where it begins.
    pub position: u64,
}

/// All of a stream to be made durable.
#[derive(Clone, Debug)]
pub struct Sync {
    /// The bytes that are to be written first.
    pub write: Write,
    /// Segments that changed, those that are written first among them.
    pub segments: Vec<u64>,
    /// Which changes these are.
    pub(super) stamp: u64,
    /// The offset behind all of it.
    pub(super) end: u64,
}

/// Chunks to be read.
#[derive(Clone, Debug)]
pub struct Read {
    /// Where the first begins.
    pub place: Place,
    /// How many bytes, if they are whole chunks; at least one chunk.
    pub bytes: u32,
    /// Where the segment ends, as far as it is written.
    pub end: u64,
    /// Offsets that its chunks can have.
    pub offsets: Range<u64>,
    /// The first chunk has the first of them; else that one, or a later one.
    pub is_exact: bool,
    /// Entries its index has at most.
    pub indexed: u32,
    /// Where given, chunks that cannot match are left out, and only their headers are read.
    pub filter: Option<Box<Filter>>,
    /// A buffer that they can be read into.
    pub memory: Spare,
    /// The reader that has this filter; 0: none.
    pub(super) tag: u32,
}

/// Memory that goes with a read. One that is done a second time has none.
#[derive(Debug, Default)]
pub struct Spare(pub Option<Buffer>);

impl Clone for Spare {
    fn clone(&self) -> Spare {
        Spare(None)
    }
}

/// A chunk to be found.
#[derive(Clone, Debug)]
pub struct Seek {
    /// The segment it is in.
    pub segment: u64,
    /// Its known properties.
    pub want: SeekFor,
    /// Where the segment ends, as far as it is written.
    pub end: u64,
    /// Entries its index has at most.
    pub indexed: u32,
    pub(super) ticket: u32,
}

/// Known properties of a chunk that is sought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekFor {
    /// It is the one with this offset.
    Offset(u64),
    /// It is the first that is not older, in milliseconds since 1970.
    Timestamp(i64),
}

/// Segments to be removed, with their indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remove {
    /// Their numbers.
    pub segments: Vec<u64>,
}

/// The outcome of some [`Work`].
#[derive(Clone, Debug)]
pub enum Done {
    /// Of [`Work::Write`].
    Written(WriteDone),
    /// Of [`Work::Sync`].
    Synced(SyncDone),
    /// Of [`Work::Read`].
    Read(ReadDone),
    /// Of [`Work::Seek`].
    Sought(SeekDone),
    /// Of [`Work::Remove`]: with the error of a file that could not be removed; it is found and removed at the next
    /// start.
    Removed(Result<(), WorkError>),
}

impl Done {
    /// The contents of the device are unknown: the node must stop and recover, and no snapshot may be written.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Done::Synced(SyncDone { result: Err(SyncFailure::Sync(_)), .. }))
    }
}

/// Why a disk did not do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkError {
    /// No space: it passes.
    NoSpace,
    /// There is no such file.
    Missing,
    /// Anything else, with the system's error number.
    Io(i32),
}

/// The outcome of writing.
#[derive(Clone, Debug)]
pub struct WriteDone {
    pub(super) to: u64,
    pub(super) segments: Vec<u64>,
    /// Where it failed, the same is to be written again.
    pub result: Result<(), WorkError>,
}

impl Write {
    /// The outcome.
    pub fn done(self, result: Result<(), WorkError>) -> WriteDone {
        WriteDone { to: self.to, segments: self.segments(), result }
    }

    fn segments(&self) -> Vec<u64> {
        self.pieces.iter().map(|piece| piece.segment).collect()
    }
}

/// The outcome of making durable.
#[derive(Clone, Debug)]
pub struct SyncDone {
    pub(super) to: u64,
    pub(super) stamp: u64,
    pub(super) end: u64,
    /// The segments to which something was to be written.
    pub(super) written: Vec<u64>,
    /// Whether it is durable.
    pub result: Result<(), SyncFailure>,
}

/// Why a stream is not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncFailure {
    /// Something could not be written; it can be tried again.
    Write(WorkError),
    /// Something could not be made durable; the contents of the device are known after a restart.
    Sync(WorkError),
}

impl Sync {
    /// The outcome.
    pub fn done(self, result: Result<(), SyncFailure>) -> SyncDone {
        let written = self.write.segments();
        SyncDone { to: self.write.to, stamp: self.stamp, end: self.end, written, result }
    }
}

/// The outcome of a read.
#[derive(Clone, Debug)]
pub struct ReadDone {
    pub(super) place: Place,
    pub(super) tag: u32,
    /// The chunks, or why there are none.
    pub result: Result<Block, WorkError>,
}

impl Read {
    /// The outcome.
    pub fn done(self, result: Result<Block, WorkError>) -> ReadDone {
        ReadDone { place: self.place, tag: self.tag, result }
    }
}

/// Chunks that were read: all of a segment between `place.position` and `to`, but for those that are damaged or were
/// not wanted.
#[derive(Clone, Debug)]
pub struct Block {
    /// Where the bytes behind the block begin; above where the read began.
    pub to: u64,
    /// In order.
    pub chunks: Vec<BlockChunk>,
    /// Holds them.
    pub memory: Memory,
    /// Damage that was found.
    pub damages: Vec<Damage>,
}

impl Block {
    /// Nothing but a damage, up to `to`.
    pub(super) fn damaged(damage: Damage, to: u64) -> Block {
        Block { to, chunks: Vec::new(), memory: Buffer::default().seal(), damages: vec![damage] }
    }
}

/// A chunk of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockChunk {
    /// Where it begins in its segment.
    pub position: u64,
    /// Where it begins in the memory.
    pub at: u32,
    /// Its bytes.
    pub len: u32,
    /// The offset of its first message.
    pub first_offset: u64,
    /// How many offsets it takes.
    pub records: u32,
    /// Bytes of its Bloom filter.
    pub bloom_len: u8,
}

impl BlockChunk {
    /// The offset behind its last.
    pub(super) fn next_offset(&self) -> u64 {
        self.first_offset.saturating_add(self.records.into())
    }
}

/// The outcome of a search.
#[derive(Clone, Debug)]
pub struct SeekDone {
    pub(super) segment: u64,
    pub(super) want: SeekFor,
    pub(super) ticket: u32,
    /// Where it is.
    pub result: Result<Sought, WorkError>,
}

impl Seek {
    /// The outcome.
    pub fn done(self, result: Result<Sought, WorkError>) -> SeekDone {
        SeekDone { segment: self.segment, want: self.want, ticket: self.ticket, result }
    }
}

/// Where a chunk was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sought {
    /// Where it begins; the end of the segment where there is none.
    pub position: u64,
    /// Its first offset, if there is one.
    pub first_offset: Option<u64>,
    /// Damage that was found on the way.
    pub damages: Vec<Damage>,
}

/// Bytes on disk that are not those that were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins.
    pub place: Place,
    /// The reason.
    pub reason: DamageReason,
}

/// The reason why a piece of a segment counts as damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageReason {
    /// It is no chunk, or not the one that was written.
    Chunk(message::chunk::Malformed),
    /// It is a chunk, but another one should be here.
    Order {
        /// The least first offset it should have.
        expected: u64,
        /// The value in its header.
        found: u64,
    },
    /// The file ends before.
    Short,
    /// It cannot be read.
    Disk(WorkError),
}

impl std::fmt::Display for WorkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WorkError::NoSpace => f.write_str("no space left on the device"),
            WorkError::Missing => f.write_str("no such file"),
            WorkError::Io(code) => write!(f, "input/output error (system error {code})"),
        }
    }
}

impl std::fmt::Display for DamageReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DamageReason::Chunk(malformed) => malformed.fmt(f),
            DamageReason::Order { expected, found } => {
                write!(f, "a chunk with offset {found} where {expected} should be")
            }
            DamageReason::Short => f.write_str("the file ends before"),
            DamageReason::Disk(error) => error.fmt(f),
        }
    }
}
