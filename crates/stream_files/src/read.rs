//! Reads whole chunks of a segment, and goes over what is damaged.
//!
//! Nothing is handed out whose checksum is wrong, whose offsets cannot be, or that reaches beyond the segment. Where a header
//! cannot be trusted, reading goes on with the next chunk that the index knows. With a filter, chunks that cannot match cost
//! their headers alone.
//! Invariant: a block ends behind where it began, so that readers get on.

use super::file::chunks_of;
use super::headers::Headers;
use super::index::Index;
use base::Buffer;
use base::id::LogId;
use journal::{Disk, DiskError};
use message::chunk::{Chunk, Filter, HEADER_LEN, Header, Kind, Malformed};
use queue::stream::{Block, BlockChunk, Damage, DamageReason, Place, Read};

/// A chunk with more bytes is first compared with the index, which knows one in each 64 KiB: a damaged length must not
/// cost the memory it names.
const UNQUESTIONED_BYTES_MAX: u64 = 2 << 20;

/// Bytes read at once where only some chunks are wanted.
const AHEAD: usize = 4096;

/// Memory is had in so many steps for each doubling, so that blocks of about the same size can use it one after the other.
const SIZES: usize = 4;

/// Chunks that are passed over in one read.
const PASSED_MAX: u32 = 16 << 10;

/// Reads chunks of a segment, into `memory` if they fit.
pub(super) fn read(disk: &dyn Disk, log: LogId, read: &Read, memory: Buffer) -> Result<Block, DiskError> {
    let mut reading = Reading {
        disk,
        log,
        read,
        index: Index::open(disk, log, read.place.segment, read.indexed),
        position: read.place.position,
        expected: read.offsets.start,
        is_exact: read.is_exact,
        buffer: memory,
        chunks: Vec::new(),
        damages: Vec::new(),
    };
    match &read.filter {
        None => reading.read_all()?,
        Some(filter) => reading.read_matching(filter)?,
    }
    Ok(Block {
        to: reading.position,
        chunks: reading.chunks,
        memory: reading.buffer.seal(),
        damages: reading.damages,
    })
}

struct Reading<'a> {
    disk: &'a dyn Disk,
    log: LogId,
    read: &'a Read,
    index: Index<'a>,
    /// Everything before is read, or passed over.
    position: u64,
    /// The offset that the next chunk has, or one before it.
    expected: u64,
    /// The chunk before is known, and so is the offset of the next.
    is_exact: bool,
    buffer: Buffer,
    chunks: Vec<BlockChunk>,
    damages: Vec<Damage>,
}

impl Reading<'_> {
    /// The chunks in so many bytes, or the one that begins there.
    fn read_all(&mut self) -> Result<(), DiskError> {
        let start = self.position;
        let wanted = u64::from(self.read.bytes).max(HEADER_LEN as u64);
        let wanted = wanted.min(self.read.end.saturating_sub(start)) as usize;
        if self.buffer.capacity() < wanted {
            let step = wanted.next_power_of_two() / (2 * SIZES);
            self.buffer = Buffer::with_capacity(wanted.next_multiple_of(step.max(1)));
        }
        self.fill(0, start, wanted)?;
        while self.position < self.read.end {
            let at = (self.position - start) as usize;
            let left = self.read.end - self.position;
            let Some(bytes) = self.buffer.bytes().get(at..).filter(|bytes| !bytes.is_empty()) else { break };
            let has_progress = self.position > start;
            let header = match bytes.first_chunk() {
                Some(header) => Header::read(header).map_err(DamageReason::Chunk),
                // It goes on behind what was read, or the file ends: the next read tells.
                None if has_progress => break,
                None => Err(DamageReason::Short),
            };
            let header = header.and_then(|header| self.check_len(header, left));
            let header = match header {
                Ok(header) => header,
                Err(reason) => {
                    self.pass_damage(reason);
                    continue;
                }
            };
            let len = header.stored_len() as usize;
            if bytes.len() < len {
                if has_progress {
                    break;
                }
                // A chunk longer than a read is read to its end, into no more memory than it has bytes.
                let begun = std::mem::replace(&mut self.buffer, Buffer::with_capacity(len));
                self.buffer.extend(begun.bytes());
                let there = self.buffer.len();
                self.fill(there, start + there as u64, len - there)?;
                if self.buffer.len() < len {
                    self.pass_damage(DamageReason::Short);
                    break;
                }
            }
            self.take(at, header);
        }
        // A file that ends before the segment does.
        if self.position == start {
            self.pass_damage(DamageReason::Short);
        }
        Ok(())
    }

    /// Those chunks that may match, until there are so many bytes of them.
    fn read_matching(&mut self, filter: &Filter) -> Result<(), DiskError> {
        let Place { segment, .. } = self.read.place;
        let mut headers = Headers::new(self.disk, self.log, segment, self.read.end, AHEAD);
        for _ in 0..PASSED_MAX {
            let left = self.read.end.saturating_sub(self.position);
            if left == 0 || self.buffer.len() >= self.read.bytes as usize {
                break;
            }
            let found = headers.at(self.position)?;
            let found = found.map(|(header, bloom)| (header, filter.may_match(bloom)));
            let found = found.and_then(|(header, matches)| Ok((self.check_len(header, left)?, matches)));
            match found {
                Err(reason) => self.pass_damage(reason),
                Ok((header, false)) => {
                    self.position += header.stored_len();
                    self.is_exact = false;
                }
                Ok((header, true)) => {
                    let (at, len) = (self.buffer.len(), header.stored_len() as usize);
                    if !self.chunks.is_empty() && at + len > self.read.bytes as usize {
                        break;
                    }
                    self.fill(at, self.position, len)?;
                    if self.buffer.len() < at + len {
                        self.buffer.truncate(at);
                        self.pass_damage(DamageReason::Short);
                    } else {
                        self.take(at, header);
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads so many bytes from `position` on behind the first `at` of the buffer; fewer where the file ends.
    fn fill(&mut self, at: usize, position: u64, len: usize) -> Result<(), DiskError> {
        self.buffer.truncate(at);
        let file = chunks_of(self.log, self.read.place.segment);
        let into = &mut self.buffer.stretch(at + len)[at..];
        let read = self.disk.read_at(file, position, into)?;
        self.buffer.truncate(at + read);
        Ok(())
    }

    /// Whether a chunk with this length can be here.
    fn check_len(&self, header: Header, left: u64) -> Result<Header, DamageReason> {
        let len = header.stored_len();
        let is_doubtful = len > UNQUESTIONED_BYTES_MAX
            && self.index.next_after(self.position).is_some_and(|next| next < self.position + len);
        if len > left || u32::try_from(len).is_err() || is_doubtful {
            return Err(DamageReason::Chunk(Malformed::Short));
        }
        Ok(header)
    }

    /// Whether a chunk with these offsets can be here. Checksums do not cover them.
    fn check_offsets(&self, header: &Header) -> Result<(), DamageReason> {
        let found = header.first_offset;
        let can_be = match found == self.expected {
            true => true,
            false => !self.is_exact && found > self.expected && self.index.admits(self.position, header),
        };
        if can_be && header.next_offset() <= self.read.offsets.end {
            Ok(())
        } else {
            Err(DamageReason::Order { expected: self.expected, found })
        }
    }

    /// Takes the chunk at `at` in the buffer, if it is what was written and stands where it belongs.
    fn take(&mut self, at: usize, header: Header) {
        let chunk = Chunk::read(&self.buffer.bytes()[at..]);
        let checked = chunk.and_then(|(chunk, _)| match chunk.header.kind {
            Kind::User => chunk.check(),
            // None is written: who reads would pass over it without a word.
            other => Err(Malformed::UnknownKind(other as u8)),
        });
        let checked = checked.map_err(DamageReason::Chunk).and_then(|()| self.check_offsets(&header));
        match checked {
            Ok(()) => {
                self.chunks.push(BlockChunk {
                    position: self.position,
                    at: at as u32,
                    len: header.stored_len() as u32,
                    first_offset: header.first_offset,
                    records: header.records,
                    bloom_len: header.bloom_len,
                });
                self.expected = header.next_offset();
                self.is_exact = true;
            }
            Err(reason) => {
                self.note(reason);
                self.is_exact = false;
            }
        }
        self.position += header.stored_len();
    }

    /// Goes on where the index knows a chunk: who would trust a damaged length?
    fn pass_damage(&mut self, reason: DamageReason) {
        self.note(reason);
        let next = self.index.next_after(self.position).unwrap_or(self.read.end);
        self.position = next.min(self.read.end);
        self.is_exact = false;
    }

    fn note(&mut self, reason: DamageReason) {
        let place = Place { position: self.position, ..self.read.place };
        self.damages.push(Damage { place, reason });
    }
}
