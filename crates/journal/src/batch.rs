//! A batch: the records one log commits together.
//!
//! While open it is a [`Buffer`] that its shard appends records to; sealed it is [`base::Memory`] that is written to disk as it is
//! and that messages are delivered from. It has no header of its own: what describes it is written beside it, when it
//! is known where it goes (see [`crate::group`]), so the memory can be shared from the moment it is sealed.

use crate::disk::{Disk, DiskError, FileName, read_exact};
use crate::file::FileId;
use crate::span::Span;
use base::crc::crc32c;
use base::id::{LogId, LogIndex};
use base::memory::BLOCK;
use base::{Buffer, Memory};

/// Records of one log, being gathered. Invariant: filled from the buffer's front, whole records only.
#[derive(Debug)]
pub struct Batch {
    log: LogId,
    base: LogIndex,
    buffer: Buffer,
}

impl Batch {
    /// An open batch of `log` whose first record will be at `base`. `buffer` gives its capacity; what is in it is
    /// forgotten.
    pub fn new(log: LogId, base: LogIndex, mut buffer: Buffer) -> Batch {
        buffer.truncate(0);
        Batch { log, base, buffer }
    }

    /// An open batch of `log` that has these records, the first of which is at `base`.
    pub fn holding(log: LogId, base: LogIndex, records: Buffer) -> Batch {
        Batch { log, base, buffer: records }
    }

    /// Where to append whole records, each a multiple of eight bytes.
    #[inline]
    pub fn records(&mut self) -> &mut Buffer {
        &mut self.buffer
    }

    /// The records so far.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// The log it belongs to.
    #[inline]
    pub fn log(&self) -> LogId {
        self.log
    }

    /// Where its first record is.
    #[inline]
    pub fn base(&self) -> LogIndex {
        self.base
    }

    /// Where the next record will be.
    #[inline]
    pub fn next(&self) -> LogIndex {
        LogIndex(self.base.0 + self.buffer.len() as u64)
    }

    /// Bytes of records.
    #[inline]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// No record yet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Closes it, without a mark: sums it up and makes it shareable. The sum is made here, by the shard, so that the thread that
    /// flushes for all shards does not.
    pub fn seal(self, committed_at_ms: u64) -> Sealed {
        let Batch { log, base, mut buffer } = self;
        let len = buffer.len();
        let crc = crc32c(buffer.bytes());
        buffer.pad_to(BLOCK);
        Sealed { memory: buffer.seal(), log, base, len, crc, committed_at_ms, mark: None }
    }
}

/// A note that travels with a batch and means nothing to the journal: kind, term, leader and index, as those have written
/// them that agree on a log between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub [u8; Mark::LEN]);

impl Mark {
    /// Bytes of a mark.
    pub const LEN: usize = 24;
}

/// A batch nobody changes any more. Its memory holds the records from byte 0 on, then zeros to a multiple of
/// [`BLOCK`].
#[derive(Clone, Debug)]
pub struct Sealed {
    /// The memory of its records.
    pub memory: Memory,
    /// The log it belongs to.
    pub log: LogId,
    /// Where its first record is.
    pub base: LogIndex,
    /// Bytes of records.
    pub len: usize,
    /// CRC32C of the records.
    pub crc: u32,
    /// When it was closed for commit, milliseconds since 1970.
    pub committed_at_ms: u64,
    /// Its mark, if it has one. With one, a batch may be without records.
    pub mark: Option<Mark>,
}

impl Sealed {
    /// The records.
    #[inline]
    pub fn records(&self) -> &[u8] {
        &self.memory[..self.len]
    }

    /// Where the log goes on behind it.
    #[inline]
    pub fn next(&self) -> LogIndex {
        LogIndex(self.base.0 + self.len as u64)
    }
}

/// Where a committed batch lies, and all it takes to read it again and to know that it is what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The journal file that committed it: while that lives, the batch can be read.
    pub file: FileId,
    /// The file that holds the records: the journal file itself or a bulk file.
    pub name: FileName,
    /// Where in it the records begin, a multiple of eight.
    pub offset: u64,
    /// Bytes of records.
    pub len: u64,
    /// CRC32C of the records.
    pub crc: u32,
}

impl Place {
    /// Reads the whole batch again, from any thread. `Ok(None)`: the bytes there are not what was written (rot, or the
    /// file was released and reused meanwhile).
    pub fn read(&self, disk: &dyn Disk) -> Result<Option<Memory>, DiskError> {
        self.read_into(disk, Buffer::default())
    }

    /// As [`Place::read`], into a buffer that was used before.
    pub fn read_into(&self, disk: &dyn Disk, mut buffer: Buffer) -> Result<Option<Memory>, DiskError> {
        let Ok(len) = usize::try_from(self.len) else { return Ok(None) };
        buffer.truncate(0);
        read_exact(disk, self.name, self.offset, buffer.stretch(len))?;
        Ok(self.check(buffer))
    }

    /// Which bytes it is.
    pub fn span(&self) -> Span {
        Span { file: self.name, offset: self.offset, len: self.len }
    }

    /// The bytes read at [`Place::span`] as memory; `None`: they are not those that were written.
    pub fn check(&self, read: Buffer) -> Option<Memory> {
        (read.len() as u64 == self.len && crc32c(read.bytes()) == self.crc).then(|| read.seal())
    }
}
