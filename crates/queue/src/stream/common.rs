//! Parts that the streams of a log share: the number of their next file, buffers to be used again, and blocks read back.
//!
//! Blocks are bounded in memory; those that were not used since they had their turn go first. A reader whose block went
//! asks for it again. Readers at the same place find the same block.

use super::chunk::{Chunk, Place};
use super::limits::Limits;
use super::retired::Retired;
use super::work::{Block, BlockChunk};
use base::{Buffer, Memory};
use std::collections::{BTreeMap, VecDeque};
use std::mem::size_of;

/// Buffers kept to be used again.
const SPARES_MAX: usize = 16;

/// Bytes of the largest buffer that is kept.
const SPARE_BYTES_MAX: usize = 16 << 10;

/// Memory of a block beside its bytes and its chunks.
const BLOCK_COST: usize = 256;

/// Names a block: the number of the reader with a filter that left chunks out, or 0, and where it begins.
type Key = (u32, Place);

/// See the module.
#[derive(Debug)]
pub struct Common {
    pub(super) limits: Limits,
    next_file: u64,
    spares: Vec<Buffer>,
    blocks: BTreeMap<Key, Loaded>,
    /// In the order they get their turn to go.
    turns: VecDeque<Key>,
    loaded_bytes: usize,
    /// Memory of blocks that went.
    retired: Retired,
    /// Memory of chunks that are written and still in the tails of streams.
    tail_bytes: usize,
    tags: u32,
}

#[derive(Debug)]
struct Loaded {
    block: Block,
    bytes: usize,
    is_used: bool,
}

/// Where a block ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) position: u64,
    /// Behind its last chunk.
    pub(super) offset: u64,
    /// Nothing was left out behind that one.
    pub(super) is_exact: bool,
}

/// State of a place that was asked for.
#[derive(Debug)]
pub(super) enum Found {
    /// A chunk, and where it begins: there or later.
    Chunk { position: u64, chunk: Chunk, is_first: bool, ends: Ends },
    /// There is nothing up to this position.
    Nothing(u64),
    /// It is to be read.
    Unknown,
}

impl Common {
    /// For the streams of one log.
    pub fn new(limits: Limits) -> Common {
        Common {
            limits,
            next_file: 1,
            spares: Vec::new(),
            blocks: BTreeMap::new(),
            turns: VecDeque::new(),
            loaded_bytes: 0,
            retired: Retired::default(),
            tail_bytes: 0,
            tags: 0,
        }
    }

    /// The number of the next segment: recorded state of the log.
    pub fn next_file(&self) -> u64 {
        self.next_file
    }

    /// Goes on with the files of a log's snapshot.
    pub fn set_next_file(&mut self, number: u64) {
        self.next_file = number.max(1);
    }

    /// Numbers of files rise.
    pub(super) fn begin_files_behind(&mut self, number: u64) {
        self.next_file = self.next_file.max(number + 1);
    }

    /// The bounds of its streams.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How readers that come from now on are read for: ahead of need or not, and in pieces of so many bytes at most, unless that is
    /// less than the least there is.
    pub fn read_with(&mut self, reads_ahead: bool, read_bytes_max: u32) {
        self.limits.reads_ahead = reads_ahead;
        self.limits.read_bytes_max = read_bytes_max.max(self.limits.read_bytes_min);
    }

    /// Memory in bytes of chunks that are written and still in memory.
    pub fn tail_bytes(&self) -> usize {
        self.tail_bytes
    }

    /// Memory in bytes of blocks that were read back, or are to be read into again.
    pub fn loaded_bytes(&self) -> usize {
        self.loaded_bytes + self.retired.bytes()
    }

    /// Memory to read so many bytes into, if there is some.
    pub(super) fn take_retired(&mut self, bytes: usize) -> Option<Buffer> {
        self.retired.take(bytes)
    }

    /// A number for a new segment.
    pub(super) fn take_file(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file - 1
    }

    /// A number for the filter of a reader; never 0.
    pub(super) fn take_tag(&mut self) -> u32 {
        self.tags = self.tags.checked_add(1).unwrap_or(1);
        self.tags
    }

    /// A stream keeps so much memory of written chunks, where it kept `before`.
    pub(super) fn count_tail(&mut self, before: usize, now: usize) {
        self.tail_bytes = self.tail_bytes - before + now;
    }

    /// Memory in bytes that a stream with readers may keep of written chunks.
    pub(super) fn tail_room(&self) -> usize {
        if self.tail_bytes > self.limits.tails_bytes_max { 0 } else { self.limits.tail_bytes_max }
    }

    /// A buffer to be filled.
    pub(super) fn take_buffer(&mut self) -> Buffer {
        self.spares.pop().unwrap_or_default()
    }

    /// Nobody here needs the memory any more.
    pub(super) fn give_back(&mut self, memory: Memory) {
        if memory.capacity() <= SPARE_BYTES_MAX && self.spares.len() < SPARES_MAX {
            self.spares.extend(memory.recycle());
        }
    }

    /// Keeps a block for those that wait for it, and for a while.
    pub(super) fn keep(&mut self, tag: u32, from: Place, block: Block) {
        let bytes = block.memory.capacity() + size_of_val(&*block.chunks) + size_of::<Loaded>() + BLOCK_COST;
        let key = (tag, from);
        self.forget_all(&[key]);
        self.loaded_bytes += bytes;
        self.blocks.insert(key, Loaded { block, bytes, is_used: true });
        self.turns.push_back(key);
        let mut mercies = self.turns.len();
        while self.loaded_bytes > self.limits.loaded_bytes_max && self.turns.len() > 1 {
            let Some(first) = self.turns.pop_front() else { break };
            let Some(loaded) = self.blocks.get_mut(&first) else { continue };
            let is_spared = first == key || (loaded.is_used && mercies > 0);
            mercies = mercies.saturating_sub(1);
            loaded.is_used = false;
            if is_spared {
                self.turns.push_back(first);
            } else {
                self.forget(first);
            }
        }
    }

    fn forget(&mut self, key: Key) {
        if let Some(loaded) = self.blocks.remove(&key) {
            self.loaded_bytes -= loaded.bytes;
            self.retired.add(loaded.block.memory, self.limits.loaded_bytes_max / 2);
        }
    }

    /// The only reader of a stream has come to `place`: it is done with the block before it in the segment, whose memory takes the
    /// next one while the processor has it in its caches.
    pub(super) fn forget_before(&mut self, tag: u32, place: Place) {
        let segment = Place { position: 0, ..place };
        let mut before = self.blocks.range((tag, segment)..(tag, place)).rev().map(|(key, _)| *key);
        // That which ends beyond the place is the one it stands in.
        let key = before.find(|key| self.blocks[key].block.to <= place.position);
        self.forget_all(key.as_slice());
    }

    /// Nobody reads these segments any more.
    pub(super) fn forget_segments(&mut self, is_one: impl Fn(u64) -> bool) {
        let keys: Vec<Key> = self.blocks.keys().filter(|(_, from)| is_one(from.segment)).copied().collect();
        self.forget_all(&keys);
        if self.blocks.is_empty() {
            self.retired.clear();
        }
    }

    /// The segment's file is gone.
    pub(super) fn forget_segment(&mut self, segment: u64) {
        self.forget_segments(|of| of == segment);
    }

    /// The reader with this filter is gone, or elsewhere.
    pub(super) fn forget_tag(&mut self, tag: u32) {
        let keys: Vec<Key> = self.blocks.range((tag, Place::default())..).map(|(key, _)| *key).collect();
        let keys: Vec<Key> = keys.into_iter().take_while(|(of, _)| *of == tag).collect();
        self.forget_all(&keys);
    }

    fn forget_all(&mut self, keys: &[Key]) {
        let had = self.blocks.len();
        keys.iter().for_each(|key| self.forget(*key));
        if self.blocks.len() < had {
            let blocks = &self.blocks;
            self.turns.retain(|key| blocks.contains_key(key));
        }
    }

    /// The chunk at `place`, or the one that follows it.
    pub(super) fn find(&mut self, tag: u32, place: Place) -> Found {
        match self.find_tagged(0, place) {
            Found::Unknown if tag != 0 => self.find_tagged(tag, place),
            found => found,
        }
    }

    fn find_tagged(&mut self, tag: u32, place: Place) -> Found {
        let Some(((_, from), loaded)) =
            self.blocks.range_mut((tag, Place::default())..=(tag, place)).next_back()
        else {
            return Found::Unknown;
        };
        if from.segment != place.segment || loaded.block.to <= place.position {
            return Found::Unknown;
        }
        loaded.is_used = true;
        let block = &loaded.block;
        let at = block.chunks.partition_point(|chunk| chunk.position < place.position);
        let Some(chunk) = block.chunks.get(at) else { return Found::Nothing(block.to) };
        Found::Chunk {
            position: chunk.position,
            chunk: Chunk {
                memory: block.memory.clone(),
                at: chunk.at,
                len: chunk.len,
                first_offset: chunk.first_offset,
                records: chunk.records,
                bloom_len: chunk.bloom_len,
            },
            is_first: at == 0,
            ends: Ends {
                position: block.to,
                offset: block.chunks.last().map_or(0, BlockChunk::next_offset),
                is_exact: block
                    .chunks
                    .last()
                    .is_some_and(|last| last.position + u64::from(last.len) == block.to),
            },
        }
    }
}
