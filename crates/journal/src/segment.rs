//! Segments: where records go that outlive their journal file.
//!
//! A segment is a file of *blocks*. A block holds records of one key (a queue), verbatim, with the position of each;
//! it is the unit that is read and checked.
//!
//! ```text
//!   0       8         12    16           24      64
//!   | magic | version | crc | segment id | zeros | blocks, each at a multiple of 8 ...
//!
//!   block:  0       4     8            16       24    32      40     48      52      56            64
//!           | magic | crc | segment id | offset | key | first | last | count | zeros | records len |
//!           count positions of 8 bytes | count offsets of 4 bytes, zeros to 8 | records
//! ```
//!
//! A block is what a queue's index points at ([`BlockPlace`]); a file without its index can still be walked
//! ([`scan`]). Positions rise within a block; an offset counts from the first record.

use crate::disk::{Disk, DiskError, FileKind, FileName, read_exact};
use crate::file::{VERSION, check_header, header_crc};
use crate::span::Span;
use base::crc::crc32c;
use base::id::NodeNo;
use base::{Buffer, Memory, Reader, Short};
use std::io::IoSlice;
use std::ops::{Range, RangeInclusive};

/// How far from where it would be were they evenly spread a position is looked for first.
const NEAR: usize = 8;

const FILE_MAGIC: [u8; 8] = *b"LVRTSEGM";
const FILE_HEADER: usize = 64;
const MAGIC: u32 = u32::from_le_bytes(*b"LVSB");
const HEADER: usize = 64;

/// Bytes of records after which a block is closed. A record that is longer has a block of its own.
pub const BLOCK_BYTES_MAX: usize = 256 << 10;

/// Records after which a block is closed.
pub const BLOCK_RECORDS_MAX: usize = 8192;

/// The numbers that segments of a node have: the upper 16 bits are its own, 0 being no number of any.
pub fn numbers(node: NodeNo) -> RangeInclusive<u64> {
    let first = u64::from(node.0) << 48;
    first + 1..=first + ((1 << 48) - 1)
}

fn name(segment: u64) -> FileName {
    FileName::new(FileKind::Segment, segment)
}

/// Where a block is and what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPlace {
    /// The key of its records.
    pub key: u64,
    /// Position of the first record.
    pub first: u64,
    /// Position of the last record.
    pub last: u64,
    /// Records.
    pub count: u32,
    /// Where in the segment it begins.
    pub offset: u64,
    /// Its bytes.
    pub len: u64,
}

/// A segment that is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentDone {
    /// Which.
    pub id: u64,
    /// Its bytes.
    pub len: u64,
    /// Its blocks, in the order they were pushed.
    pub blocks: Vec<BlockPlace>,
}

/// A segment being written. Nothing in it counts before [`SegmentWriter::finish`] returned.
#[derive(Debug)]
pub struct SegmentWriter {
    id: u64,
    offset: u64,
    key: u64,
    positions: Vec<u64>,
    offsets: Vec<u32>,
    records: Buffer,
    head: Buffer,
    blocks: Vec<BlockPlace>,
}

impl SegmentWriter {
    /// Begins segment `id`, which must not exist.
    pub fn begin(disk: &dyn Disk, id: u64) -> Result<SegmentWriter, DiskError> {
        let mut header = [0; FILE_HEADER];
        header[0..8].copy_from_slice(&FILE_MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[16..24].copy_from_slice(&id.to_le_bytes());
        let crc = header_crc(&header);
        header[12..16].copy_from_slice(&crc.to_le_bytes());
        disk.create(name(id), 0)?;
        disk.write_at(name(id), 0, &[IoSlice::new(&header)])?;
        Ok(SegmentWriter {
            id,
            offset: FILE_HEADER as u64,
            key: 0,
            positions: Vec::new(),
            offsets: Vec::new(),
            records: Buffer::default(),
            head: Buffer::default(),
            blocks: Vec::new(),
        })
    }

    /// Adds a record, whole and a multiple of eight bytes, of `key` at `position`. Records of a key that follow each
    /// other at rising positions share blocks.
    pub fn push(&mut self, disk: &dyn Disk, key: u64, position: u64, record: &[u8]) -> Result<(), DiskError> {
        assert!(record.len().is_multiple_of(8) && !record.is_empty(), "records are multiples of eight bytes");
        let follows = self.key == key && self.positions.last().is_none_or(|last| *last < position);
        let has_room = self.positions.is_empty()
            || (self.records.len() + record.len() <= BLOCK_BYTES_MAX
                && self.positions.len() < BLOCK_RECORDS_MAX);
        if !follows || !has_room {
            self.close_block(disk)?;
        }
        self.key = key;
        self.positions.push(position);
        self.offsets.push(self.records.len() as u32);
        self.records.extend(record);
        Ok(())
    }

    /// Bytes written so far, the open block not counted.
    pub fn len(&self) -> u64 {
        self.offset
    }

    /// No record was pushed.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.positions.is_empty()
    }

    fn close_block(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        let (Some(first), Some(last)) = (self.positions.first(), self.positions.last()) else {
            return Ok(());
        };
        let (first, last, count) = (*first, *last, self.positions.len() as u32);
        self.head.truncate(0);
        self.head.extend_zeroed(8);
        for number in [self.id, self.offset, self.key, first, last] {
            self.head.extend(&number.to_le_bytes());
        }
        self.head.extend(&u64::from(count).to_le_bytes());
        self.head.extend(&(self.records.len() as u64).to_le_bytes());
        for position in &self.positions {
            self.head.extend(&position.to_le_bytes());
        }
        for offset in &self.offsets {
            self.head.extend(&offset.to_le_bytes());
        }
        self.head.pad_to(8);
        let crc = base::crc::crc32c_append(crc32c(&self.head.bytes()[8..]), self.records.bytes());
        self.head.bytes_mut()[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        self.head.bytes_mut()[4..8].copy_from_slice(&crc.to_le_bytes());
        let pieces = [IoSlice::new(self.head.bytes()), IoSlice::new(self.records.bytes())];
        disk.write_at(name(self.id), self.offset, &pieces)?;
        let len = (self.head.len() + self.records.len()) as u64;
        self.blocks.push(BlockPlace { key: self.key, first, last, count, offset: self.offset, len });
        self.offset += len;
        self.positions.clear();
        self.offsets.clear();
        self.records.truncate(0);
        Ok(())
    }

    /// Makes it durable. Only when this has returned may the journal files be released that the records came from.
    pub fn finish(mut self, disk: &dyn Disk) -> Result<SegmentDone, DiskError> {
        self.close_block(disk)?;
        disk.sync(name(self.id))?;
        disk.sync_folder(FileKind::Segment)?;
        Ok(SegmentDone { id: self.id, len: self.offset, blocks: self.blocks })
    }
}

/// A block that was read and found right. Cheap to clone; shares its memory.
#[derive(Clone, Debug)]
pub struct SegmentBlock {
    memory: Memory,
    place: BlockPlace,
    positions: Range<usize>,
    offsets: Range<usize>,
    records: Range<usize>,
}

impl SegmentBlock {
    /// Reads the block at `place` of segment `segment`, from any thread. `Ok(None)`: the bytes there are not what was
    /// written.
    pub fn load(
        disk: &dyn Disk,
        segment: u64,
        place: &BlockPlace,
    ) -> Result<Option<SegmentBlock>, DiskError> {
        let Ok(len) = usize::try_from(place.len) else { return Ok(None) };
        let mut buffer = Buffer::default();
        read_exact(disk, name(segment), place.offset, buffer.stretch(len))?;
        Ok(SegmentBlock::check(buffer, segment, place))
    }

    /// Which bytes the block at `place` of segment `segment` is.
    pub fn span(segment: u64, place: &BlockPlace) -> Span {
        Span { file: name(segment), offset: place.offset, len: place.len }
    }

    /// The block in the bytes read at [`SegmentBlock::span`]; `None`: they are not those that were written.
    pub fn check(read: Buffer, segment: u64, place: &BlockPlace) -> Option<SegmentBlock> {
        SegmentBlock::read(read.seal(), segment, place.offset).filter(|block| block.place == *place)
    }

    /// Reads a whole block that is at `offset` of segment `segment`. Any bytes may come.
    pub fn read(memory: Memory, segment: u64, offset: u64) -> Option<SegmentBlock> {
        let head = BlockHead::read(&memory).ok()?;
        let layout = head.layout()?;
        let is_here = head.segment == segment && head.place.offset == offset && layout.end == memory.len();
        if !is_here || crc32c(&memory[8..]) != head.crc {
            return None;
        }
        let Layout { positions, offsets, records, .. } = layout;
        let block = SegmentBlock { place: head.place, memory, positions, offsets, records };
        block.is_in_order().then_some(block)
    }

    fn is_in_order(&self) -> bool {
        let positions = self.positions();
        let rises = positions.windows(2).all(|pair| number(pair[0]) < number(pair[1]));
        let ends = positions.first().is_some_and(|first| number(*first) == self.place.first)
            && positions.last().is_some_and(|last| number(*last) == self.place.last);
        let offsets = self.offsets();
        let starts = offsets.first().is_some_and(|first| u32::from_le_bytes(*first) == 0);
        let whole = offsets.iter().all(|offset| u32::from_le_bytes(*offset).is_multiple_of(8));
        let grows = offsets.windows(2).all(|pair| u32::from_le_bytes(pair[0]) < u32::from_le_bytes(pair[1]));
        let fits =
            offsets.last().is_some_and(|last| (u32::from_le_bytes(*last) as usize) < self.records.len());
        rises && ends && starts && whole && grows && fits
    }

    fn positions(&self) -> &[[u8; 8]] {
        self.memory[self.positions.clone()].as_chunks().0
    }

    fn offsets(&self) -> &[[u8; 4]] {
        self.memory[self.offsets.clone()].as_chunks().0
    }

    /// Its content and its place.
    pub fn place(&self) -> &BlockPlace {
        &self.place
    }

    /// The memory its records are in.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// As [`SegmentBlock::memory`], of a block that is needed no more.
    pub fn into_memory(self) -> Memory {
        self.memory
    }

    /// Where in its memory the record at `position` is.
    pub fn find(&self, position: u64) -> Option<Range<usize>> {
        let positions = self.positions();
        // Positions are dense unless some had gone before: look there first.
        let guess = usize::try_from(position.checked_sub(self.place.first)?).ok();
        let dense = guess.filter(|at| positions.get(*at).is_some_and(|found| number(*found) == position));
        let at = match dense {
            Some(at) => at,
            None => self.find_sparse(position)?,
        };
        Some(self.record(at))
    }

    /// Which of its positions this is, where some are missing: mostly they are so throughout, as where some priorities of
    /// all have been delivered.
    fn find_sparse(&self, position: u64) -> Option<usize> {
        let positions = self.positions();
        let first = position.checked_sub(self.place.first)?;
        let span = u128::from(self.place.last.checked_sub(self.place.first)?) + 1;
        let guess = usize::try_from(u128::from(first) * positions.len() as u128 / span).ok()?;
        let near = guess.saturating_sub(NEAR)..(guess + NEAR).min(positions.len());
        let some = positions.get(near.clone())?;
        let is_in = some.first().is_some_and(|first| number(*first) <= position)
            && some.last().is_some_and(|last| position <= number(*last));
        let (from, among) = if is_in { (near.start, some) } else { (0, positions) };
        among.binary_search_by_key(&position, |found| number(*found)).ok().map(|at| from + at)
    }

    fn record(&self, at: usize) -> Range<usize> {
        let offsets = self.offsets();
        let start = u32::from_le_bytes(offsets[at]) as usize;
        let end = offsets.get(at + 1).map_or(self.records.len(), |next| u32::from_le_bytes(*next) as usize);
        self.records.start + start..self.records.start + end
    }

    /// All records: position, and where in the memory.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, Range<usize>)> {
        self.positions().iter().enumerate().map(|(at, position)| (number(*position), self.record(at)))
    }
}

fn number(bytes: [u8; 8]) -> u64 {
    u64::from_le_bytes(bytes)
}

/// The first bytes of a block, unchecked.
struct BlockHead {
    crc: u32,
    segment: u64,
    records_len: u64,
    place: BlockPlace,
}

struct Layout {
    positions: Range<usize>,
    offsets: Range<usize>,
    records: Range<usize>,
    end: usize,
}

impl BlockHead {
    fn read(bytes: &[u8]) -> Result<BlockHead, Short> {
        let mut reader = Reader::new(bytes);
        let (magic, crc) = (reader.u32_le()?, reader.u32_le()?);
        let (segment, offset, key) = (reader.u64_le()?, reader.u64_le()?, reader.u64_le()?);
        let (first, last) = (reader.u64_le()?, reader.u64_le()?);
        let (count, zeros, records_len) = (reader.u32_le()?, reader.u32_le()?, reader.u64_le()?);
        if magic != MAGIC || zeros != 0 || count == 0 {
            return Err(Short);
        }
        let mut head = BlockHead {
            crc,
            segment,
            records_len,
            place: BlockPlace { key, first, last, count, offset, len: 0 },
        };
        head.place.len = head.layout().ok_or(Short)?.end as u64;
        Ok(head)
    }

    fn layout(&self) -> Option<Layout> {
        let count = self.place.count as usize;
        let positions = HEADER..HEADER.checked_add(count.checked_mul(8)?)?;
        let offsets = positions.end..positions.end.checked_add(count.checked_mul(4)?)?;
        let start = offsets.end.checked_next_multiple_of(8)?;
        let end = start.checked_add(usize::try_from(self.records_len).ok()?)?;
        Some(Layout { positions, offsets, records: start..end, end })
    }
}

/// Walks a segment block by block, checking each: for a file whose index is lost, and to look for rot. Returns whether
/// all of it is sound; a block that is not ends the walk, since nothing tells where the next one begins.
pub fn scan(disk: &dyn Disk, segment: u64, visit: &mut dyn FnMut(SegmentBlock)) -> Result<bool, DiskError> {
    let len = disk.len(name(segment))?;
    let mut head = [0; FILE_HEADER];
    let is_ours = disk.read_at(name(segment), 0, &mut head)? == FILE_HEADER
        && check_header(&head, FILE_MAGIC).is_ok_and(|mut reader| reader.u64_le() == Ok(segment));
    let mut offset = FILE_HEADER as u64;
    while is_ours && offset < len {
        let mut head = [0; HEADER];
        let read = disk.read_at(name(segment), offset, &mut head)?;
        let Ok(head) = BlockHead::read(&head[..read]) else { return Ok(false) };
        // The length is compared before memory is taken for it.
        if head.place.offset != offset || head.place.len > len - offset {
            return Ok(false);
        }
        let Some(block) = SegmentBlock::load(disk, segment, &head.place)? else { return Ok(false) };
        visit(block);
        offset += head.place.len;
    }
    Ok(is_ours)
}
