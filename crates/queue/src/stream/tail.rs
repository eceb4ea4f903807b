//! The young end of a stream: chunks in memory, those not yet written among them.
//!
//! Each chunk is finished in a memory of its own. That has 4 KiB at least, so small ones are put together into one when
//! some have gathered; each is copied once. Written chunks stay for readers at the end, within a bound, and go where
//! there are none.
//! Invariants: chunks go on from each to the next, and all that are not written are here.

use super::chunk::{Chunk, Place};
use super::common::Common;
use super::segments::NewChunk;
use super::settings::FILE_HEADER_LEN;
use super::work::{IndexEntry, StorePiece, Write};
use base::{Buffer, Memory};
use std::collections::VecDeque;

/// A chunk with more bytes stays in the memory it was made in.
const SMALL_BYTES_MAX: usize = 2048;

/// Memory of a chunk beside its bytes.
const CHUNK_COST: usize = size_of::<TailChunk>();

/// So many small ones are put together.
const SMALL_COUNT: usize = 16;

/// A chunk of the tail.
#[derive(Debug)]
pub(super) struct TailChunk {
    pub(super) place: Place,
    pub(super) chunk: Chunk,
    pub(super) timestamp_ms: i64,
    /// Entries that its segment's index has with it, if it is in the index.
    indexed: Option<u32>,
    /// Memory that it counts for.
    held: u32,
}

/// A finished chunk and where it belongs.
#[derive(Debug)]
pub(super) struct NewTailChunk {
    pub(super) place: Place,
    pub(super) chunk: Chunk,
    pub(super) timestamp_ms: i64,
    pub(super) indexed: Option<u32>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Tail {
    chunks: VecDeque<TailChunk>,
    /// The first so many are written.
    written: usize,
    written_bytes: usize,
    unwritten_bytes: usize,
    /// The last so many are small and alone.
    alone: usize,
}

impl Tail {
    /// Memory of unwritten chunks, in bytes.
    pub(super) fn unwritten_bytes(&self) -> usize {
        self.unwritten_bytes
    }

    /// Memory of written chunks, in bytes.
    pub(super) fn written_bytes(&self) -> usize {
        self.written_bytes
    }

    pub(super) fn first_place(&self) -> Option<Place> {
        self.chunks.front().map(|first| first.place)
    }

    /// The first chunk at `place` or behind it, if `place` is not before the tail.
    pub(super) fn at(&self, place: Place) -> Option<&TailChunk> {
        // A reader that has read all before wants the last one.
        if let Some(last) = self.chunks.back().filter(|last| last.place == place) {
            return Some(last);
        }
        self.first_place().filter(|first| *first <= place)?;
        let at = self.chunks.partition_point(|chunk| chunk.place < place);
        self.chunks.get(at)
    }

    /// The chunk with this offset.
    pub(super) fn with_offset(&self, offset: u64) -> Option<&TailChunk> {
        let behind = self.chunks.partition_point(|chunk| chunk.chunk.first_offset <= offset);
        let found = self.chunks.get(behind.checked_sub(1)?)?;
        (offset < found.chunk.next_offset()).then_some(found)
    }

    /// The first chunk that is not older, if the one before it is here too.
    pub(super) fn with_timestamp(&self, timestamp_ms: i64) -> Option<&TailChunk> {
        let at = self.chunks.partition_point(|chunk| chunk.timestamp_ms < timestamp_ms);
        self.chunks.get(at).filter(|_| at > 0)
    }

    pub(super) fn push(&mut self, new: NewTailChunk, common: &mut Common) {
        let NewTailChunk { place, chunk, timestamp_ms, indexed } = new;
        let held = chunk.memory.capacity() + CHUNK_COST;
        let is_small = chunk.len as usize <= SMALL_BYTES_MAX;
        self.alone = if is_small { self.alone + 1 } else { 0 };
        self.unwritten_bytes += held;
        self.chunks.push_back(TailChunk { place, chunk, timestamp_ms, indexed, held: held as u32 });
        if self.alone == SMALL_COUNT {
            self.put_together(common);
        }
    }

    /// Gives the last small chunks one memory.
    fn put_together(&mut self, common: &mut Common) {
        let from = self.chunks.len() - self.alone.min(self.chunks.len());
        self.alone = 0;
        let mut buffer = Buffer::with_capacity(
            self.chunks.range(from..).map(|chunk| chunk.chunk.len as usize).sum::<usize>(),
        );
        let starts: Vec<u32> = (self.chunks.range(from..))
            .map(|chunk| {
                let at = buffer.len() as u32;
                buffer.extend(chunk.chunk.bytes());
                at
            })
            .collect();
        let memory = buffer.seal();
        // The first counts for the space that none of them fills.
        let mut slack = memory.capacity() - memory.len();
        let written = self.written;
        for ((index, chunk), at) in self.chunks.iter_mut().enumerate().skip(from).zip(starts) {
            let held = chunk.chunk.len as usize + std::mem::take(&mut slack) + CHUNK_COST;
            let bytes = if index < written { &mut self.written_bytes } else { &mut self.unwritten_bytes };
            *bytes = *bytes - chunk.held as usize + held;
            chunk.held = held as u32;
            let alone = std::mem::replace(&mut chunk.chunk.memory, memory.clone());
            chunk.chunk.at = at;
            common.give_back(alone);
        }
    }

    /// Bytes that are not written, to be written; `None`: nothing.
    pub(super) fn unwritten(&self) -> Option<Write> {
        let mut pieces: Vec<StorePiece> = Vec::new();
        let mut last = None;
        for chunk in self.chunks.range(self.written..) {
            let entry = chunk.indexed.map(|indexed| {
                let Chunk { first_offset, .. } = chunk.chunk;
                let entry = IndexEntry {
                    first_offset,
                    timestamp_ms: chunk.timestamp_ms,
                    position: chunk.place.position,
                };
                (indexed - 1, entry)
            });
            match pieces.last_mut().filter(|piece| piece.segment == chunk.place.segment) {
                Some(piece) => {
                    if let Some((before, entry)) = entry {
                        if piece.index.is_empty() {
                            piece.indexed = before;
                        }
                        piece.index.push(entry);
                    }
                    push_part(&mut piece.parts, &chunk.chunk);
                }
                None => pieces.push(StorePiece {
                    segment: chunk.place.segment,
                    position: chunk.place.position,
                    parts: vec![part_of(&chunk.chunk)],
                    indexed: entry.map_or(0, |(before, _)| before),
                    index: entry.into_iter().map(|(_, entry)| entry).collect(),
                }),
            }
            last = Some(chunk.chunk.next_offset());
        }
        last.map(|to| Write { pieces, to })
    }

    /// The first chunk that is not written.
    pub(super) fn first_unwritten(&self) -> Option<&TailChunk> {
        self.chunks.get(self.written)
    }

    /// How many chunks of this segment are not written, and how many of those its index has.
    pub(super) fn unwritten_in(&self, segment: u64) -> (u32, u32) {
        let chunks = self.chunks.range(self.written..).filter(|chunk| chunk.place.segment == segment);
        chunks.fold((0, 0), |(chunks, indexed), chunk| {
            (chunks + 1, indexed + u32::from(chunk.indexed.is_some()))
        })
    }

    pub(super) fn last(&self) -> Option<&TailChunk> {
        self.chunks.back()
    }

    /// Gives each chunk that is not written another place.
    pub(super) fn move_unwritten(&mut self, mut place: impl FnMut(NewChunk) -> (Place, Option<u32>)) {
        for chunk in self.chunks.range_mut(self.written..) {
            let new = NewChunk {
                next_offset: chunk.chunk.next_offset(),
                timestamp_ms: chunk.timestamp_ms,
                len: chunk.chunk.len.into(),
            };
            (chunk.place, chunk.indexed) = place(new);
        }
    }

    /// Everything below this offset is written.
    pub(super) fn note_written(&mut self, to: u64) {
        while let Some(chunk) = self.chunks.get(self.written) {
            if chunk.chunk.next_offset() > to {
                break;
            }
            self.unwritten_bytes -= chunk.held as usize;
            self.written_bytes += chunk.held as usize;
            self.written += 1;
        }
    }

    /// Lets go of written chunks beyond `bytes_max` of memory.
    pub(super) fn shrink(&mut self, bytes_max: usize, common: &mut Common) {
        while self.written > 0 && self.written_bytes > bytes_max {
            self.pop(common);
        }
        if self.chunks.is_empty() {
            self.chunks = VecDeque::new();
        }
    }

    /// Forgets chunks in segments below this number, written or not.
    pub(super) fn forget_before(&mut self, segment: u64, common: &mut Common) {
        while self.first_place().is_some_and(|first| first.segment < segment) {
            self.pop(common);
        }
    }

    fn pop(&mut self, common: &mut Common) {
        let Some(chunk) = self.chunks.pop_front() else { return };
        if self.written > 0 {
            self.written -= 1;
            self.written_bytes -= chunk.held as usize;
        } else {
            self.unwritten_bytes -= chunk.held as usize;
        }
        self.alone = self.alone.min(self.chunks.len());
        common.give_back(chunk.chunk.memory);
    }

    /// Where the tail begins in this segment, or behind it; `None`: the tail is empty.
    pub(super) fn begins_in(&self, segment: u64, end: u64) -> u64 {
        match self.first_place() {
            Some(first) if first.segment == segment => first.position,
            _ => end,
        }
    }
}

fn part_of(chunk: &Chunk) -> (Memory, std::ops::Range<u32>) {
    (chunk.memory.clone(), chunk.at..chunk.at + chunk.len)
}

/// Appends the chunk's bytes; to those before them in the same memory, where they follow.
fn push_part(parts: &mut Vec<(Memory, std::ops::Range<u32>)>, chunk: &Chunk) {
    if let Some((memory, range)) = parts.last_mut()
        && range.end == chunk.at
        && memory.same(&chunk.memory)
    {
        range.end += chunk.len;
        return;
    }
    parts.push(part_of(chunk));
}

impl StorePiece {
    /// The segment's file is to be made.
    pub fn begins_segment(&self) -> bool {
        self.position == FILE_HEADER_LEN
    }
}
