//! A group: the batches that one write and one sync commit together.
//!
//! ```text
//!   0       4     8      16        24       32         40    48      52      56       64
//!   | magic | crc | salt | file id | offset | sequence | len | count | zeros | oldest | count entries of 48 bytes ...
//!
//!   entry:  0     4     8      16             24       32    40        48
//!           | log | crc | base | committed at | offset | len | bulk id |
//! ```
//!
//! The header stands twice, one copy right behind the other, so that rot in one of them costs nothing. It says of
//! itself where it is and names the use of the file it was written for, so nothing else passes for it: not an earlier
//! use of the slot, not a write that went astray, not a message that holds a copy of a journal. The batches follow:
//! copied behind the header where that is cheaper than a block more (*packed*), from their own memory at the next block
//! boundary otherwise; the entries say where. A group is a multiple of [`BLOCK`] long and starts at one.

use crate::file::FileId;
use base::crc::crc32c;
use base::id::{LogId, LogIndex};
use base::memory::BLOCK;
use base::{Reader, Short};

const MAGIC: u32 = u32::from_le_bytes(*b"LVGR");
const FIXED: usize = 64;
const ENTRY: usize = 48;

/// Batches one group can commit.
pub const GROUP_BATCHES_MAX: usize = 1024;

/// Bytes the two copies of the largest header take.
pub(crate) const HEADERS_MAX: usize = 2 * (FIXED + ENTRY * GROUP_BATCHES_MAX);

/// Where a copy of a header may begin: at every so many bytes.
pub(crate) const HEADER_STEP: usize = 16;

/// Bytes of one copy of the header of a group of `count` batches.
pub(crate) fn header_len(count: usize) -> usize {
    FIXED + ENTRY * count
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
    /// Writes both copies into the front of `into`, which is zeroed and has room for them.
    pub fn write(&self, entries: &[Entry], into: &mut [u8]) {
        assert!(entries.len() <= GROUP_BATCHES_MAX, "a group larger than its bound");
        let len = header_len(entries.len());
        let (first, rest) = into.split_at_mut(len);
        first[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        for (at, number) in [self.salt, self.file.0, self.offset, self.sequence, self.len].iter().enumerate()
        {
            first[8 + at * 8..16 + at * 8].copy_from_slice(&number.to_le_bytes());
        }
        first[48..52].copy_from_slice(&(entries.len() as u32).to_le_bytes());
        first[56..64].copy_from_slice(&self.oldest.0.to_le_bytes());
        for (entry, bytes) in entries.iter().zip(first[FIXED..].as_chunks_mut::<ENTRY>().0) {
            entry.write(bytes);
        }
        let crc = crc32c(&first[8..]);
        first[4..8].copy_from_slice(&crc.to_le_bytes());
        rest[..len].copy_from_slice(first);
    }

    /// Reads the group that must stand at `offset` of the use `file` of a file of `file_len` bytes; `bytes` are those
    /// from there on. Takes whichever copy is whole. `None`: no such group is there.
    pub fn find(bytes: &[u8], expected: Expected) -> Option<(GroupHeader, Vec<Entry>)> {
        GroupHeader::read(bytes, expected).or_else(|| {
            let copies = (FIXED..bytes.len().min(HEADERS_MAX)).step_by(HEADER_STEP);
            let mut possible = copies.map(|at| &bytes[at..]).filter(|rest| rest.starts_with(b"LVGR"));
            possible.find_map(|rest| GroupHeader::read(rest, expected))
        })
    }

    /// As [`GroupHeader::find`], but reads only the copy `bytes` begin with.
    pub fn read(bytes: &[u8], expected: Expected) -> Option<(GroupHeader, Vec<Entry>)> {
        let mut reader = Reader::new(bytes);
        let (header, crc, count) = GroupHeader::read_fixed(&mut reader).ok()?;
        let is_here = header.salt == expected.salt
            && header.file == expected.file
            && header.offset == expected.offset
            && count <= GROUP_BATCHES_MAX;
        let covered = bytes.get(8..header_len(count)).filter(|_| is_here)?;
        if crc32c(covered) != crc {
            return None;
        }
        let end = expected.offset.checked_add(header.len)?;
        let is_whole_blocks = header.len > 0 && header.len.is_multiple_of(BLOCK as u64);
        if !is_whole_blocks || end > expected.file_len {
            return None;
        }
        let head = expected.offset + 2 * header_len(count) as u64;
        let entries: Option<Vec<Entry>> = (0..count)
            .map(|_| Entry::read(&mut reader).ok().filter(|entry| entry.lies_within(head, end)))
            .collect();
        Some((header, entries?))
    }

    /// Which file a group would be of if one began here: a cheap first look. Believes the first copy alone.
    pub fn peek_file(bytes: &[u8]) -> Option<FileId> {
        let (header, ..) = GroupHeader::read_fixed(&mut Reader::new(bytes)).ok()?;
        Some(header.file)
    }

    /// The salt of the group that would begin here if one did. The front of a copy of a header that says it lies in one sector.
    pub fn peek_salt(bytes: &[u8]) -> Option<u64> {
        let mut reader = Reader::new(bytes);
        let magic = reader.u32_le().ok()?;
        let _crc = reader.u32_le().ok()?;
        let salt = reader.u64_le().ok()?;
        (magic == MAGIC).then_some(salt)
    }

    fn read_fixed(reader: &mut Reader<'_>) -> Result<(GroupHeader, u32, usize), Short> {
        let (magic, crc) = (reader.u32_le()?, reader.u32_le()?);
        if magic != MAGIC {
            return Err(Short);
        }
        let (salt, file, offset) = (reader.u64_le()?, FileId(reader.u64_le()?), reader.u64_le()?);
        let (sequence, len) = (reader.u64_le()?, reader.u64_le()?);
        let (count, _zeros) = (reader.u32_le()? as usize, reader.u32_le()?);
        let oldest = FileId(reader.u64_le()?);
        Ok((GroupHeader { salt, file, offset, sequence, len, oldest }, crc, count))
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
        })
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

    fn group() -> (GroupHeader, Vec<Entry>, Vec<u8>) {
        let header = GroupHeader {
            salt: 77,
            file: FileId(3),
            offset: 8192,
            sequence: 12,
            len: 4096,
            oldest: FileId(2),
        };
        let entry = |log: u32, offset: u64, bulk: u64| Entry {
            log: LogId(log),
            crc: 5,
            base: LogIndex(800),
            committed_at_ms: 9,
            offset,
            len: 16,
            bulk,
        };
        let entries = vec![entry(1, 8192 + 320, 0), entry(2, 4096, 6)];
        let mut bytes = vec![0; 4096];
        header.write(&entries, &mut bytes);
        (header, entries, bytes)
    }

    #[test]
    fn comes_back_as_written() {
        let (header, entries, bytes) = group();
        assert_eq!(GroupHeader::find(&bytes, EXPECTED), Some((header, entries)));
    }

    #[test]
    fn any_single_bit_may_rot() {
        let (header, entries, mut bytes) = group();
        for bit in 0..2 * header_len(2) * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(GroupHeader::find(&bytes, EXPECTED), Some((header, entries.clone())), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn is_not_taken_for_one_elsewhere() {
        let (_, _, bytes) = group();
        for expected in [
            Expected { salt: 78, ..EXPECTED },
            Expected { file: FileId(4), ..EXPECTED },
            Expected { offset: 4096, ..EXPECTED },
            Expected { file_len: 8192, ..EXPECTED },
        ] {
            assert_eq!(GroupHeader::find(&bytes, expected), None, "{expected:?}");
        }
    }

    #[test]
    fn entries_outside_the_group_are_refused() {
        let (header, entries, _) = group();
        for offset in [8192 + 312, 8192 + 4096 - 8, u64::MAX - 7, 8192 + 321] {
            let mut bytes = vec![0; 4096];
            header.write(&[Entry { offset, ..entries[0] }, entries[1]], &mut bytes);
            assert_eq!(GroupHeader::find(&bytes, EXPECTED), None, "{offset}");
        }
    }
}
