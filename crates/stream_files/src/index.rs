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
use std::cell::{OnceCell, RefCell};
use std::io::IoSlice;

const MAGIC: [u8; 8] = *b"LVRTSIDX";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 16;
const ENTRY_LEN: usize = 28;

/// Entries read at once, 256 KiB of them: those of a usual segment. While the device is busy each read waits for it anew, and a search
/// by single entries meets six or seven pages.
const WINDOW: u64 = (256 << 10) / ENTRY_LEN as u64;

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
    /// Which [`WINDOW`] was read last, and what there was of it; the first has the header in front.
    window: RefCell<Option<(u64, Vec<u8>)>>,
}

impl<'a> Index<'a> {
    /// The index of a segment, of which the first `entries` count.
    pub(super) fn open(disk: &'a dyn Disk, log: LogId, segment: u64, entries: u32) -> Index<'a> {
        let name = index_of(log, segment);
        Index { disk, name, entries_max: entries, entries: OnceCell::new(), window: RefCell::default() }
    }

    fn entries(&self) -> u64 {
        *self.entries.get_or_init(|| {
            let mut expected = Vec::with_capacity(HEADER_LEN);
            put_header(&mut expected);
            let is_index = self.in_window(0, 0, HEADER_LEN, |header| header == expected).unwrap_or(false);
            let len = if is_index { self.disk.len(self.name).unwrap_or(0) } else { 0 };
            let whole = len.saturating_sub(HEADER_LEN as u64) / ENTRY_LEN as u64;
            whole.min(self.entries_max.into())
        })
    }

    fn get(&self, at: u64) -> Option<IndexEntry> {
        let (window, at) = (at / WINDOW, (at % WINDOW) as usize);
        let header = if window == 0 { HEADER_LEN } else { 0 };
        self.in_window(window, header + at * ENTRY_LEN, ENTRY_LEN, read_entry).flatten()
    }

    /// The result of `of` on `len` bytes from `at` on in a window, which is read unless it was last. `None`: they are not there, or
    /// the device does not give them.
    fn in_window<T>(&self, number: u64, at: usize, len: usize, of: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let mut window = self.window.borrow_mut();
        if window.as_ref().is_none_or(|(last, _)| *last != number) {
            let left = u64::from(self.entries_max).saturating_sub(number * WINDOW).min(WINDOW);
            let mut bytes = vec![0; left as usize * ENTRY_LEN + if number == 0 { HEADER_LEN } else { 0 }];
            let from = if number == 0 { 0 } else { HEADER_LEN as u64 + number * WINDOW * ENTRY_LEN as u64 };
            let read = self.disk.read_at(self.name, from, &mut bytes).unwrap_or(0);
            bytes.truncate(read);
            *window = Some((number, bytes));
        }
        let (_, bytes) = window.as_ref()?;
        bytes.get(at..at + len).map(of)
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

fn read_entry(bytes: &[u8]) -> Option<IndexEntry> {
    let mut reader = Reader::new(bytes);
    let (first_offset, timestamp_ms) = (reader.u64_le().ok()?, reader.i64_le().ok()?);
    let entry = IndexEntry { first_offset, timestamp_ms, position: reader.u64_le().ok()? };
    (reader.u32_le().ok()? == crc32c(&bytes[..ENTRY_LEN - 4])).then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::{Index, IndexEntry, SeekFor, WINDOW, index_of, put_entry, put_header};
    use crate::file::make;
    use base::id::LogId;
    use journal::Disk;
    use journal::faulty::FaultyDisk;
    use std::io::IoSlice;

    const LOG: LogId = LogId(3);

    /// Chunk `at` has offsets from `10 * at` on.
    fn written(entries: u64) -> FaultyDisk {
        let disk = FaultyDisk::new(1);
        let mut bytes = Vec::new();
        put_header(&mut bytes);
        for at in 0..entries {
            put_entry(&mut bytes, &IndexEntry { first_offset: 10 * at, timestamp_ms: 0, position: 100 * at });
        }
        make(&disk, index_of(LOG, 5)).unwrap();
        disk.write_at(index_of(LOG, 5), 0, &[IoSlice::new(&bytes)]).unwrap();
        disk
    }

    #[test]
    fn is_found_in_whatever_window_it_is() {
        for entries in [1, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW + 7] {
            let disk = written(entries);
            let edges = (0..4).flat_map(|window| [window * WINDOW, window * WINDOW + WINDOW / 2]);
            for at in
                edges.flat_map(|edge| [edge.saturating_sub(1), edge, edge + 1]).filter(|at| *at < entries)
            {
                let index = Index::open(&disk, LOG, 5, entries as u32);
                let found = index.before(SeekFor::Offset(10 * at + 9)).map(|entry| entry.position);
                assert_eq!(found, Some(100 * at), "{at} of {entries}");
                let next = (at + 1 < entries).then_some(100 * (at + 1));
                assert_eq!(index.next_after(100 * at), next, "{at} of {entries}");
            }
        }
    }

    #[test]
    fn what_does_not_count_is_not_there() {
        // More was written than the stream knows of, and less.
        for (written_entries, counted) in
            [(WINDOW + 5, WINDOW - 3), (WINDOW + 5, WINDOW + 2), (WINDOW - 3, WINDOW + 2)]
        {
            let disk = written(written_entries);
            let index = Index::open(&disk, LOG, 5, counted as u32);
            let last = written_entries.min(counted) - 1;
            let found = index.before(SeekFor::Offset(u64::MAX)).map(|entry| entry.first_offset);
            assert_eq!(found, Some(10 * last), "{counted} of {written_entries}");
        }
    }
}
