//! The headers of a segment's chunks, one after the other, without their data.
//!
//! Reads some bytes ahead, so that small chunks cost no read each. Bytes are not trusted: a chunk that would reach beyond the
//! segment is none.

use super::file::chunks_of;
use base::id::LogId;
use journal::{Disk, DiskError, FileName};
use message::chunk::{HEADER_LEN, Header, Malformed};
use queue::stream::DamageReason;

/// A segment whose headers are read.
pub(super) struct Headers<'a> {
    disk: &'a dyn Disk,
    file: FileName,
    /// Where the segment ends.
    end: u64,
    bytes: Vec<u8>,
    /// Where the bytes that are there begin.
    from: u64,
    read: usize,
}

impl<'a> Headers<'a> {
    /// Those of a segment that ends at `end`, with reads of `ahead` bytes, at least those of a header and a Bloom filter.
    pub(super) fn new(disk: &'a dyn Disk, log: LogId, segment: u64, end: u64, ahead: usize) -> Headers<'a> {
        let bytes = vec![0; ahead.max(HEADER_LEN + usize::from(u8::MAX))];
        Headers { disk, file: chunks_of(log, segment), end, bytes, from: 0, read: 0 }
    }

    /// The header at `position` and the Bloom filter behind it.
    ///
    /// # Errors
    /// The disk's.
    pub(super) fn at(&mut self, position: u64) -> Result<Result<(Header, &[u8]), DamageReason>, DiskError> {
        let left = self.end.saturating_sub(position);
        let needed = left.min((HEADER_LEN + usize::from(u8::MAX)) as u64) as usize;
        let skip = position.checked_sub(self.from).and_then(|skip| usize::try_from(skip).ok());
        let skip = match skip.filter(|skip| skip.saturating_add(needed) <= self.read) {
            Some(skip) => skip,
            None => {
                let wanted = left.min(self.bytes.len() as u64) as usize;
                self.read = self.disk.read_at(self.file, position, &mut self.bytes[..wanted])?;
                self.from = position;
                0
            }
        };
        let bytes = &self.bytes[skip..self.read];
        let Some((header, rest)) = bytes.split_first_chunk() else { return Ok(Err(DamageReason::Short)) };
        Ok(match Header::read(header) {
            Err(malformed) => Err(DamageReason::Chunk(malformed)),
            Ok(header) if header.stored_len() > left => Err(DamageReason::Chunk(Malformed::Short)),
            Ok(header) => match rest.get(..usize::from(header.bloom_len)) {
                Some(bloom) => Ok((header, bloom)),
                None => Err(DamageReason::Short),
            },
        })
    }
}
