//! A segment's index: where some of its chunks begin, so that one is found without reading all before it.
//!
//! ```text
//!   | LVRTSIDX | version: u32 | crc: u32 | entries ...
//!   entry: | first offset: u64 | time: i64 | position: u64 | crc: u32 |
//! ```
//!
//! Little-endian; each checksum is a CRC-32C of what is before it in the header or the entry. An index only helps: a
//! missing one, or a damaged entry, makes searches longer and nothing else.

use super::file::make;
use base::Reader;
use base::crc::crc32c;
use base::id::LogId;
use journal::{Disk, DiskError, FileKind, FileName};
use message::chunk::Header;
use queue::stream::{IndexEntry, SeekFor, StorePiece};
use std::cell::OnceCell;
use std::io::IoSlice;

const MAGIC: [u8; 8] = *b"LVRTSIDX";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 16;
const ENTRY_LEN: usize = 28;

/// The file with a segment's index.
pub(super) fn index_of(log: LogId, segment: u64) -> FileName {
    FileName::of_log(FileKind::StreamIndex, log, segment)
}

/// Writes the entries that come with a piece of a segment.
pub(super) fn write(disk: &dyn Disk, log: LogId, piece: &StorePiece) -> Result<(), DiskError> {
    if piece.index.is_empty() {
        return Ok(());
    }
    let name = index_of(log, piece.segment);
    let mut bytes = Vec::with_capacity(HEADER_LEN + ENTRY_LEN * piece.index.len());
    let mut position = HEADER_LEN as u64 + u64::from(piece.indexed) * ENTRY_LEN as u64;
    if piece.begins_segment() {
        make(disk, name)?;
        position = 0;
        put_header(&mut bytes);
    }
    piece.index.iter().for_each(|entry| put_entry(&mut bytes, entry));
    match disk.write_at(name, position, &[IoSlice::new(&bytes)]) {
        // Lost, and not needed: searches go through the chunks.
        Err(DiskError::NotFound) => Ok(()),
        written => written,
    }
}

fn put_header(out: &mut Vec<u8>) {
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    let crc = crc32c(&out[out.len() - 12..]);
    out.extend(crc.to_le_bytes());
}

fn put_entry(out: &mut Vec<u8>, entry: &IndexEntry) {
    out.extend(entry.first_offset.to_le_bytes());
    out.extend(entry.timestamp_ms.to_le_bytes());
    out.extend(entry.position.to_le_bytes());
    let crc = crc32c(&out[out.len() - 24..]);
    out.extend(crc.to_le_bytes());
}

/// An index to be searched.
pub(super) struct Index<'a> {
    disk: &'a dyn Disk,
    name: FileName,
    /// Entries that it may have.
    entries_max: u32,
    /// How many it has; none where it is no index. Known when it was needed: mostly it is not.
    entries: OnceCell<u64>,
}

impl<'a> Index<'a> {
    /// The index of a segment, of which the first `entries` count.
    pub(super) fn open(disk: &'a dyn Disk, log: LogId, segment: u64, entries: u32) -> Index<'a> {
        Index { disk, name: index_of(log, segment), entries_max: entries, entries: OnceCell::new() }
    }

    fn entries(&self) -> u64 {
        *self.entries.get_or_init(|| {
            let mut expected = Vec::with_capacity(HEADER_LEN);
            put_header(&mut expected);
            let mut header = [0; HEADER_LEN];
            let is_index =
                self.disk.read_at(self.name, 0, &mut header) == Ok(HEADER_LEN) && header[..] == expected;
            let len = if is_index { self.disk.len(self.name).unwrap_or(0) } else { 0 };
            let whole = len.saturating_sub(HEADER_LEN as u64) / ENTRY_LEN as u64;
            whole.min(self.entries_max.into())
        })
    }

    fn get(&self, at: u64) -> Option<IndexEntry> {
        let mut bytes = [0; ENTRY_LEN];
        let position = HEADER_LEN as u64 + at * ENTRY_LEN as u64;
        let read = self.disk.read_at(self.name, position, &mut bytes);
        (read == Ok(ENTRY_LEN)).then(|| read_entry(&bytes)).flatten()
    }

    /// Where to begin looking for a chunk: at one that is not behind it. `None`: at the segment's first.
    pub(super) fn before(&self, want: SeekFor) -> Option<IndexEntry> {
        let is_before = |entry: &IndexEntry| match want {
            SeekFor::Offset(offset) => entry.first_offset <= offset,
            SeekFor::Timestamp(timestamp_ms) => entry.timestamp_ms < timestamp_ms,
        };
        let (at, _) = self.partition(is_before);
        (0..at).rev().find_map(|at| self.get(at)).filter(is_before)
    }

    /// Where the first chunk behind `position` begins that the index knows.
    pub(super) fn next_after(&self, position: u64) -> Option<u64> {
        let (_, found) = self.partition(|entry| entry.position <= position);
        found.map(|entry| entry.position).filter(|found| *found > position)
    }

    /// Whether a chunk with this header can begin at `position`: its offsets are between those of its neighbours in the index.
    pub(super) fn admits(&self, position: u64, header: &Header) -> bool {
        let (at, after) = self.partition(|entry| entry.position <= position);
        let before = at.checked_sub(1).and_then(|at| self.get(at)).filter(|entry| entry.position <= position);
        let is_behind = before.is_none_or(|before| {
            before.first_offset <= header.first_offset
                && (before.position < position || before.first_offset == header.first_offset)
        });
        let is_in_front = after.is_none_or(|after| header.next_offset() <= after.first_offset);
        is_behind && is_in_front
    }

    /// How many entries are before the first that is not, and that one.
    fn partition(&self, is_before: impl Fn(&IndexEntry) -> bool) -> (u64, Option<IndexEntry>) {
        let (mut low, mut high) = (0, self.entries());
        let mut first = None;
        while low < high {
            let middle = low + (high - low) / 2;
            // A damaged entry is as if it were not there.
            match (middle..high).find_map(|at| Some((at, self.get(at)?))) {
                Some((at, entry)) if is_before(&entry) => low = at + 1,
                Some((_, entry)) => {
                    first = Some(entry);
                    high = middle;
                }
                None => high = middle,
            }
        }
        (low, first)
    }
}

fn read_entry(bytes: &[u8; ENTRY_LEN]) -> Option<IndexEntry> {
    let mut reader = Reader::new(bytes);
    let (first_offset, timestamp_ms) = (reader.u64_le().ok()?, reader.i64_le().ok()?);
    let entry = IndexEntry { first_offset, timestamp_ms, position: reader.u64_le().ok()? };
    (reader.u32_le().ok()? == crc32c(&bytes[..24])).then_some(entry)
}
