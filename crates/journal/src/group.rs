//! A group: the batches that one write and one sync commit together.
//!
//! ```text
//!   0       4     8      16        24       32         40    48      52      56       64
//!   | magic | crc | salt | file id | offset | sequence | len | count | marks | oldest | count entries of 48 bytes, marks of 32 ...
//!
//!   entry:  0     4     8      16             24       32    40        48
//!           | log | crc | base | committed at | offset | len | bulk id |
//!
//!   mark:   0       4       8          32
//!           | entry | zeros | 24 bytes |
//! ```
//!
//! A mark names the entry it belongs to, counted from 0; the numbers rise. So an entry without one costs nothing, and a
//! header stays a multiple of [`HEADER_STEP`] long.
//!
//! The header stands twice, one copy right behind the other, so that rot in one of them costs nothing. It says of
//! itself where it is and names the use of the file it was written for, so nothing else passes for it: not an earlier
//! use of the slot, not a write that went astray, not a message that holds a copy of a journal. The batches follow:
//! copied behind the header where that is cheaper than a block more (*packed*), from their own memory at the next block
//! boundary otherwise; the entries say where. A group is a multiple of [`BLOCK`] long and starts at one.

use crate::batch::Mark;
use crate::file::FileId;
use base::crc::crc32c;
use base::id::{LogId, LogIndex};
use base::memory::BLOCK;
use base::{Reader, Short};
use std::fmt;

const MAGIC: u32 = u32::from_le_bytes(*b"LVGR");
const FIXED: usize = 64;
const ENTRY: usize = 48;
const MARK: usize = 8 + Mark::LEN;

/// Batches one group can commit.
pub const GROUP_BATCHES_MAX: usize = 1024;

/// Bytes the two copies of the largest header take.
pub(crate) const HEADERS_MAX: usize = 2 * (FIXED + (ENTRY + MARK) * GROUP_BATCHES_MAX);

/// Where a copy of a header may begin: at every so many bytes.
pub(crate) const HEADER_STEP: usize = 16;

/// Bytes of one copy of the header of a group of `count` batches, so many of which have marks.
pub(crate) fn header_len(count: usize, marks: usize) -> usize {
    FIXED + ENTRY * count + MARK * marks
}

/// The fault of a group whose checksum is right: no version of this program writes one like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It has more batches than a group may have, or more marks than batches.
    Counts,
    /// It is not whole blocks long.
    Length,
    /// The records of a batch do not lie between its header and its end, or the log would end behind the largest index.
    Records,
    /// A mark is of no batch, or not behind the one before.
    Mark,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::Counts => "wrong counts",
            Malformed::Length => "wrong length",
            Malformed::Records => "records outside",
            Malformed::Mark => "a mark of no batch",
        })
    }
}

/// The reason why no group is read at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoGroup {
    /// None of this file is there, or not all of its header.
    Absent,
    /// Its header is there, and wrong.
    Malformed(Malformed),
}

impl From<Short> for NoGroup {
    fn from(_: Short) -> NoGroup {
        NoGroup::Absent
    }
}

/// One batch of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub log: LogId,
    /// Of the records.
    pub crc: u32,
    pub base: LogIndex,
    pub committed_at_ms: u64,
    /// Where the records are: in the journal file, or in the bulk file.
    pub offset: u64,
    pub len: u64,
    /// The bulk file that holds the records; 0: the journal file does.
    pub bulk: u64,
    pub mark: Option<Mark>,
}

/// The words of a group about itself, apart from its batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupHeader {
    pub salt: u64,
    pub file: FileId,
    /// Where in the file it stands.
    pub offset: u64,
    pub sequence: u64,
    /// Bytes of all of it, a multiple of [`BLOCK`].
    pub len: u64,
    /// Files before this one were not needed any more when it was written.
    pub oldest: FileId,
}

impl GroupHeader {
    /// Writes both copies into the front of `into`, which is zeroed and has room for them. So many of `entries` have `marks`.
    pub fn write(&self, entries: &[Entry], marks: usize, into: &mut [u8]) {
        assert!(entries.len() <= GROUP_BATCHES_MAX, "a group larger than its bound");
        let len = header_len(entries.len(), marks);
        let (first, rest) = into.split_at_mut(len);
        first[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        for (at, number) in [self.salt, self.file.0, self.offset, self.sequence, self.len].iter().enumerate()
        {
            first[8 + at * 8..16 + at * 8].copy_from_slice(&number.to_le_bytes());
        }
        first[48..52].copy_from_slice(&(entries.len() as u32).to_le_bytes());
        first[52..56].copy_from_slice(&(marks as u32).to_le_bytes());
        first[56..64].copy_from_slice(&self.oldest.0.to_le_bytes());
        let (table, marked) = first[FIXED..].split_at_mut(ENTRY * entries.len());
        for (entry, bytes) in entries.iter().zip(table.as_chunks_mut::<ENTRY>().0) {
            entry.write(bytes);
        }
        if marks > 0 {
            write_marks(entries, marked.as_chunks_mut::<MARK>().0);
        }
        let crc = crc32c(&first[8..]);
        first[4..8].copy_from_slice(&crc.to_le_bytes());
        rest[..len].copy_from_slice(first);
    }

    /// Reads the group that must stand at `offset` of the use `file` of a file of `file_len` bytes; `bytes` are those
    /// from there on. Takes whichever copy is whole.
    pub fn find(bytes: &[u8], expected: Expected) -> Result<(GroupHeader, Vec<Entry>), NoGroup> {
        let is_there = |found: &Result<_, NoGroup>| *found != Err(NoGroup::Absent);
        let first = GroupHeader::read(bytes, expected);
        if is_there(&first) {
            return first;
        }
        let copies = (FIXED..bytes.len().min(HEADERS_MAX)).step_by(HEADER_STEP);
        let possible = copies.map(|at| &bytes[at..]).filter(|rest| rest.starts_with(b"LVGR"));
        possible.map(|rest| GroupHeader::read(rest, expected)).find(is_there).unwrap_or(first)
    }

    /// As [`GroupHeader::find`], but reads only the copy `bytes` begin with.
    pub fn read(bytes: &[u8], expected: Expected) -> Result<(GroupHeader, Vec<Entry>), NoGroup> {
        let mut reader = Reader::new(bytes);
        let Fixed { header, crc, count, marks } = GroupHeader::read_fixed(&mut reader)?;
        let is_here =
            header.salt == expected.salt && header.file == expected.file && header.offset == expected.offset;
        let len = header_len(count, marks);
        let covered = bytes.get(8..len).filter(|_| is_here).ok_or(NoGroup::Absent)?;
        if crc32c(covered) != crc {
            return Err(NoGroup::Absent);
        }
        let malformed = |how| Err(NoGroup::Malformed(how));
        if count > GROUP_BATCHES_MAX || marks > count {
            return malformed(Malformed::Counts);
        }
        let is_whole_blocks = header.len > 0 && header.len.is_multiple_of(BLOCK as u64);
        let end = expected.offset.checked_add(header.len).filter(|_| is_whole_blocks);
        let Some(end) = end else { return malformed(Malformed::Length) };
        if end > expected.file_len {
            // Of a file that was cut short.
            return Err(NoGroup::Absent);
        }
        let head = expected.offset + 2 * len as u64;
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let entry = Entry::read(&mut reader)?;
            if !entry.lies_within(head, end) {
                return malformed(Malformed::Records);
            }
            entries.push(entry);
        }
        let mut next = 0;
        for _ in 0..marks {
            let (at, zeros) = (reader.u32_le()? as usize, reader.u32_le()?);
            let mark = *reader.take(Mark::LEN)?.first_chunk().ok_or(Short)?;
            match entries.get_mut(at).filter(|_| at >= next && zeros == 0) {
                Some(entry) => entry.mark = Some(Mark(mark)),
                None => return malformed(Malformed::Mark),
            }
            next = at + 1;
        }
        Ok((header, entries))
    }

    /// Which file a group would be of if one began here: a cheap first look. Believes the first copy alone.
    pub fn peek_file(bytes: &[u8]) -> Option<FileId> {
        GroupHeader::read_fixed(&mut Reader::new(bytes)).ok().map(|fixed| fixed.header.file)
    }

    /// The salt of the group that would begin here if one did. The front of a copy of a header that says it lies in one sector.
    pub fn peek_salt(bytes: &[u8]) -> Option<u64> {
        let mut reader = Reader::new(bytes);
        let magic = reader.u32_le().ok()?;
        let _crc = reader.u32_le().ok()?;
        let salt = reader.u64_le().ok()?;
        (magic == MAGIC).then_some(salt)
    }

    fn read_fixed(reader: &mut Reader<'_>) -> Result<Fixed, Short> {
        let (magic, crc) = (reader.u32_le()?, reader.u32_le()?);
        if magic != MAGIC {
            return Err(Short);
        }
        let (salt, file, offset) = (reader.u64_le()?, FileId(reader.u64_le()?), reader.u64_le()?);
        let (sequence, len) = (reader.u64_le()?, reader.u64_le()?);
        let (count, marks) = (reader.u32_le()? as usize, reader.u32_le()? as usize);
        let oldest = FileId(reader.u64_le()?);
        let header = GroupHeader { salt, file, offset, sequence, len, oldest };
        Ok(Fixed { header, crc, count, marks })
    }
}

/// The first bytes of a header, unchecked.
struct Fixed {
    header: GroupHeader,
    crc: u32,
    count: usize,
    marks: usize,
}

/// Writes the marks of `entries`, one behind the other.
#[cold]
fn write_marks(entries: &[Entry], into: &mut [[u8; MARK]]) {
    let marked = entries.iter().enumerate().filter_map(|(at, entry)| Some((at, entry.mark?)));
    for ((at, Mark(mark)), bytes) in marked.zip(into) {
        bytes[0..4].copy_from_slice(&(at as u32).to_le_bytes());
        bytes[8..].copy_from_slice(&mark);
    }
}

/// Where a group is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub salt: u64,
    pub file: FileId,
    pub offset: u64,
    pub file_len: u64,
}

impl Entry {
    fn write(&self, bytes: &mut [u8; ENTRY]) {
        bytes[0..4].copy_from_slice(&self.log.0.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.crc.to_le_bytes());
        let numbers = [self.base.0, self.committed_at_ms, self.offset, self.len, self.bulk];
        for (number, bytes) in numbers.iter().zip(bytes[8..].as_chunks_mut::<8>().0) {
            *bytes = number.to_le_bytes();
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Entry, Short> {
        Ok(Entry {
            log: LogId(reader.u32_le()?),
            crc: reader.u32_le()?,
            base: LogIndex(reader.u64_le()?),
            committed_at_ms: reader.u64_le()?,
            offset: reader.u64_le()?,
            len: reader.u64_le()?,
            bulk: reader.u64_le()?,
            mark: None,
        })
    }

    /// Where the log goes on behind it.
    pub fn end(&self) -> LogIndex {
        LogIndex(self.base.0 + self.len)
    }

    /// Records in the journal file lie between the group's header and its end; those in a bulk file are looked at when
    /// that is read.
    fn lies_within(&self, head: u64, end: u64) -> bool {
        let fits = self
            .offset
            .checked_add(self.len)
            .is_some_and(|records_end| self.bulk != 0 || (self.offset >= head && records_end <= end));
        fits && self.offset.is_multiple_of(8) && self.base.0.checked_add(self.len).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: Expected = Expected { salt: 77, file: FileId(3), offset: 8192, file_len: 65_536 };
    const MARKED: Option<Mark> = Some(Mark([9; Mark::LEN]));

    fn entry(log: u32, offset: u64, bulk: u64, mark: Option<Mark>) -> Entry {
        let (base, committed_at_ms, len) = (LogIndex(800), 9, 16);
        Entry { log: LogId(log), crc: 5, base, committed_at_ms, offset, len, bulk, mark }
    }

    fn header() -> GroupHeader {
        let (salt, file, offset, sequence) = (77, FileId(3), 8192, 12);
        GroupHeader { salt, file, offset, sequence, len: 4096, oldest: FileId(2) }
    }

    fn written(entries: &[Entry]) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        let marks = entries.iter().filter(|entry| entry.mark.is_some()).count();
        header().write(entries, marks, &mut bytes);
        bytes
    }

    /// Groups with marks of none, some and all of their entries, one of which is nothing else.
    fn groups() -> Vec<(Vec<Entry>, Vec<u8>)> {
        let one = |mark| entry(1, 8192 + 640, 0, mark);
        let bulk = |mark| entry(2, 4096, 6, mark);
        let alone = Entry { len: 0, crc: 0, ..entry(3, 8192 + 4096, 0, Some(Mark([255; Mark::LEN]))) };
        let groups = [
            vec![],
            vec![one(None), bulk(None)],
            vec![one(MARKED), bulk(None)],
            vec![one(None), bulk(MARKED), alone],
            vec![alone],
        ];
        groups.map(|entries| (entries.clone(), written(&entries))).into()
    }

    #[test]
    fn comes_back_as_written() {
        for (entries, bytes) in groups() {
            assert_eq!(GroupHeader::find(&bytes, EXPECTED), Ok((header(), entries)));
        }
    }

    #[test]
    fn an_entry_without_a_mark_costs_nothing() {
        let check = |count, marks, len| assert_eq!(header_len(count, marks), len, "{count} {marks}");
        check(0, 0, 64);
        check(2, 0, 160);
        check(2, 1, 192);
        check(GROUP_BATCHES_MAX, GROUP_BATCHES_MAX, HEADERS_MAX / 2);
    }

    #[test]
    fn any_single_bit_may_rot() {
        for (entries, mut bytes) in groups() {
            let marks = entries.iter().filter(|entry| entry.mark.is_some()).count();
            for bit in 0..2 * header_len(entries.len(), marks) * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                let found = GroupHeader::find(&bytes, EXPECTED);
                assert_eq!(found, Ok((header(), entries.clone())), "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn is_not_taken_for_one_elsewhere() {
        for (_, bytes) in groups() {
            for expected in [
                Expected { salt: 78, ..EXPECTED },
                Expected { file: FileId(4), ..EXPECTED },
                Expected { offset: 4096, ..EXPECTED },
                Expected { file_len: 8192, ..EXPECTED },
            ] {
                assert_eq!(GroupHeader::find(&bytes, expected), Err(NoGroup::Absent), "{expected:?}");
            }
        }
    }

    /// A group of two marked entries is changed and given the sum it should have.
    fn check(change: impl Fn(&mut [u8]), expected: Malformed) {
        let mut bytes = written(&[entry(1, 8192 + 640, 0, MARKED), entry(2, 8192 + 656, 0, MARKED)]);
        change(&mut bytes);
        let number = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
        let crc = crc32c(&bytes[8..header_len(number(48), number(52))]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(GroupHeader::find(&bytes, EXPECTED), Err(NoGroup::Malformed(expected)));
    }

    #[test]
    fn is_refused_by_name_where_it_is_malformed() {
        let put = |at: usize, number: u64| {
            move |bytes: &mut [u8]| bytes[at..at + 8].copy_from_slice(&number.to_le_bytes())
        };
        let (len, counts, entry, marks) = (40, 48, 64, 64 + 2 * 48);
        check(put(len, 0), Malformed::Length);
        check(put(len, 4095), Malformed::Length);
        check(put(len, u64::MAX - 4095), Malformed::Length);
        check(put(counts, 2 | 3 << 32), Malformed::Counts);
        for offset in [8192 + 312, 8192 + 4096 - 8, u64::MAX - 7, 8192 + 641] {
            check(put(entry + 24, offset), Malformed::Records);
        }
        check(put(entry + 8, u64::MAX - 8), Malformed::Records);
        // Of an entry that is not there, twice of one, of one before, and with bytes that should be zeros.
        check(put(marks, 2), Malformed::Mark);
        check(put(marks + 32, 0), Malformed::Mark);
        check(put(marks, 1), Malformed::Mark);
        check(put(marks, 1 << 32), Malformed::Mark);
    }
}
