//! Journal files: their numbers, their first block, and what each remembers.
//!
//! ```text
//!   0       8         12    16        24     32       40               48      64
//!   | magic | version | crc | file id | salt | oldest | first sequence | zeros | zeros to 4096, then groups
//! ```
//!
//! A file's name is a *slot* that is used again and again; the file id is given once. The salt is a number that only
//! this data folder can know: bytes of an earlier use of the slot, and bytes a publisher put into a message, do not
//! carry it, so neither is ever taken for a group of this file.

use crate::disk::{FileKind, FileName};
use base::crc::{crc32c, crc32c_append};
use base::id::{LogId, LogIndex};
use base::{Random, Reader, Short};
use std::fmt;

/// One use of a journal file: counts up from 1, never reused. 0 stands before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

impl std::fmt::Display for FileId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The version all files of the journal begin with. Raised when an older reader would misread what we write, records
/// included; 1 had no marks, and an ordering key in its records.
pub const VERSION: u32 = 3;

/// Bytes of the first block that are used.
pub(crate) const FILE_HEADER: usize = 64;

const MAGIC: [u8; 8] = *b"LVRTJRNL";

/// The content of a journal file's first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    /// 0: prepared, never used.
    pub file: FileId,
    pub salt: u64,
    /// Files before this one were not needed any more when this one was begun.
    pub oldest: FileId,
    /// The sequence number of the first group: one more than the last of the file before.
    pub first_sequence: u64,
}

impl FileHeader {
    pub fn write(&self) -> [u8; FILE_HEADER] {
        let mut bytes = [0; FILE_HEADER];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.file.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.salt.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.oldest.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.first_sequence.to_le_bytes());
        let crc = header_crc(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub fn read(bytes: &[u8]) -> Result<FileHeader, HeaderError> {
        let bytes: &[u8; FILE_HEADER] = bytes.first_chunk().ok_or(HeaderError::Damaged)?;
        let mut reader = check_header(bytes, MAGIC)?;
        let mut fields = || -> Result<FileHeader, Short> {
            Ok(FileHeader {
                file: FileId(reader.u64_le()?),
                salt: reader.u64_le()?,
                oldest: FileId(reader.u64_le()?),
                first_sequence: reader.u64_le()?,
            })
        };
        fields().map_err(|Short| HeaderError::Damaged)
    }
}

/// The words for people about a file of another version than [`VERSION`].
pub(crate) struct OtherVersion(pub u32);

impl fmt::Display for OtherVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OtherVersion(version) if *version > VERSION => {
                write!(f, "by a later version of this program (format {version})")
            }
            OtherVersion(version) => write!(
                f,
                "by an earlier version of this program (format {version}), which this one (format {VERSION}) does not read. \
                 Start the version that made it, let its queues be emptied and export its definitions; then start this one \
                 with an empty data folder and import them"
            ),
        }
    }
}

/// Why the first bytes of a file of ours cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// Not what any version of ours writes.
    Damaged,
    /// Whole, but of a version this program does not know.
    Version(u32),
}

/// The sum over a 64-byte header except its own four bytes at 12.
pub(crate) fn header_crc(bytes: &[u8; 64]) -> u32 {
    crc32c_append(crc32c(&bytes[..12]), &bytes[16..])
}

/// Checks the part that the 64-byte headers of all our files share (magic, version, sum) and returns what follows it.
pub(crate) fn check_header(bytes: &[u8; 64], magic: [u8; 8]) -> Result<Reader<'_>, HeaderError> {
    let mut reader = Reader::new(bytes);
    let mut fields = || -> Result<(bool, u32, u32), Short> {
        Ok((reader.take(8)? == magic, reader.u32_le()?, reader.u32_le()?))
    };
    match fields() {
        Ok((true, VERSION, crc)) if crc == header_crc(bytes) => Ok(reader),
        Ok((true, version, crc)) if crc == header_crc(bytes) => Err(HeaderError::Version(version)),
        _ => Err(HeaderError::Damaged),
    }
}

/// The salt of a file in the data folder whose secret this is.
pub(crate) fn salt(secret: u64, file: FileId) -> u64 {
    Random::new(secret ^ file.0.wrapping_mul(0x9E37_79B9_7F4A_7C15)).bits()
}

/// A file with batches that may still be needed.
#[derive(Clone, Debug)]
pub struct LiveFile {
    /// Which.
    pub id: FileId,
    /// Its slot.
    pub slot: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Bytes of it that are written: where the next group goes.
    pub end: u64,
    /// Bytes in bulk files that its groups name.
    pub bulk_bytes: u64,
    /// The bulk files that its groups name.
    pub bulk: Vec<u64>,
    /// The part of each log that it holds, in order of log.
    pub logs: Vec<LogSpan>,
    /// Logs of which it holds batches with marks, in order: promises among them, which count though the records that stood
    /// there are void.
    pub marked: Vec<LogId>,
}

/// The part of a log that a file holds: records from `first` up to but not including `end`, none of them void. Where there are
/// none, `first` and `end` are where a mark stands that is without records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSpan {
    /// The log.
    pub log: LogId,
    /// The first record.
    pub first: LogIndex,
    /// Behind the last record.
    pub end: LogIndex,
}

impl LiveFile {
    pub(crate) fn new(id: FileId, slot: u64, len: u64, end: u64) -> LiveFile {
        LiveFile { id, slot, len, end, bulk_bytes: 0, bulk: Vec::new(), logs: Vec::new(), marked: Vec::new() }
    }

    /// Its name.
    pub fn name(&self) -> FileName {
        FileName::new(FileKind::Journal, self.slot)
    }

    /// The part of `log` that it holds.
    pub(crate) fn span(&self, log: LogId) -> Option<&LogSpan> {
        let at = self.logs.binary_search_by_key(&log, |span| span.log).ok()?;
        Some(&self.logs[at])
    }

    /// Everything of `log` from `base` on is void.
    pub(crate) fn take_back(&mut self, log: LogId, base: LogIndex) {
        let Ok(at) = self.logs.binary_search_by_key(&log, |span| span.log) else { return };
        let span = &mut self.logs[at];
        if span.first < base {
            span.end = span.end.min(base);
        } else {
            self.logs.remove(at);
        }
    }
}
