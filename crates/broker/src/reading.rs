//! Reading messages back that are on disk alone: what to read, how far ahead, and what is kept of it.
//!
//! A queue whose next delivery is away is *hungry* until a read is given out for it. A read takes neighbours along: those of
//! the queue's next batches or blocks that lie behind each other in one file, that its consumers have room for, and that
//! its window holds. The window begins small and doubles with every read from which the queue goes on; where it goes
//! back it begins anew. Where so many queues read that what is read ahead could not be kept until it is needed, a read takes less
//! along, and none is made ahead; queues that read no more are forgotten ([`sharing`]). A queue has at most
//! [`READS_OF_QUEUE_MAX`] reads given out ahead, a log at most [`Limits::reads_max`], and hungry queues take turns: no
//! queue's reads starve another's.
//!
//! A queue whose consumers choose reads for two purposes, handing out and asking messages which selectors are true of
//! them; each has a place, a window and reads of its own ([`Reader`]).
//!
//! Bytes that were read are kept for a while ([`keeping`]). Those read ahead that went before they were needed are read
//! again.
//! Not here: threads and files. Reads go out as data ([`ReadRequest`]) and come back with the bytes they brought.
//! Invariant: a part asked for is in a hungry queue's demand or in a read given out, and in one of them only.

mod along;
mod keeping;
mod reads;
mod sharing;

pub(crate) use keeping::{Keeping, Loaded};

use crate::limits::Limits;
use base::crc::crc32c;
use base::hash::MapById;
use base::id::{LogId, LogIndex, QueueId, QueueSeq};
use base::{Buffer, Memory};
use journal::{BlockPlace, Disk, DiskError, FileName, SegmentBlock, Span, read_spans};
use queue::Run;
use std::collections::{BTreeMap, VecDeque};

/// Reads given out for one queue at a time: while one is delivered from, the next is under way.
pub(crate) const READS_OF_QUEUE_MAX: u32 = 2;

/// Readers at the same time, beyond which it makes no difference that some go through their queue more than once.
const PASSES_MAX: usize = 4;

/// Placeholder for the segment in the names of batches, which lie in none.
const OF_NO_SEGMENT: u64 = u64::MAX;

/// A flag of names of stretches, which lie in segments of streams.
const OF_A_STREAM: u64 = 1 << 63;

/// Bytes that are read of a stream's segment where a message is wanted that has fewer: as much as a read ahead of a queue's own
/// begins with, and twice that, as the next is not read before this is handed out.
const STRETCH_BYTES: u64 = 2 * WINDOW_BYTES_MIN;

/// Bytes of a queue's first read with what it takes along.
const WINDOW_BYTES_MIN: u64 = 128 << 10;

/// Bytes to be read back before deliveries can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// The log whose deliveries wait.
    pub log: LogId,
    /// The parts to read: one behind the other in one file.
    pub parts: Vec<ReadWhat>,
    /// It was given out for this.
    pub(crate) reader: Reader,
    /// Used memory to read into, one for each of the first parts.
    into: Used,
}

/// Memory is no part of a request when requests are compared: all of it is alike.
#[derive(Debug, Default)]
struct Used(Vec<Buffer>);

impl Clone for Used {
    fn clone(&self) -> Used {
        Used::default()
    }
}

impl PartialEq for Used {
    fn eq(&self, _: &Used) -> bool {
        true
    }
}

impl Eq for Used {}

/// Where the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadWhat {
    /// The batch with this base, at this place of the journal.
    Batch {
        /// Its first record's index.
        base: LogIndex,
        /// Its place.
        place: journal::Place,
    },
    /// A block of a segment.
    Block(BlockKey),
    /// A message in a stream's segment, and the bytes behind it.
    Stretch(StretchKey),
}

/// The bytes of one part of a read.
#[derive(Clone, Debug)]
pub enum ReadBytes {
    /// A whole batch.
    Batch(Memory),
    /// A block.
    Block(SegmentBlock),
    /// A stretch of a stream's segment, shorter than asked for where the file ends.
    Stretch(Memory),
}

impl ReadBytes {
    /// Bytes.
    #[allow(clippy::len_without_is_empty, reason = "a read that brings nothing is none")]
    pub fn len(&self) -> usize {
        match self {
            ReadBytes::Batch(memory) => memory.len(),
            ReadBytes::Block(block) => block.memory().len(),
            ReadBytes::Stretch(memory) => memory.len(),
        }
    }
}

/// The results of a request, one for each part; `Ok(None)`: the bytes there are not those that were written.
pub type Brought = Vec<Result<Option<ReadBytes>, DiskError>>;

impl ReadRequest {
    /// Reads, on whatever thread has the disk.
    pub fn carry_out(&mut self, disk: &dyn Disk) -> Brought {
        let spans: Vec<Span> = self.parts.iter().map(ReadWhat::span).collect();
        if let Ok(buffers) = read_spans(disk, &spans, std::mem::take(&mut self.into.0)) {
            return self.parts.iter().zip(buffers).map(|(part, read)| Ok(part.check(read))).collect();
        }
        // Where all together cannot be read, it may be because of one of them.
        self.parts.iter().map(|part| part.read(disk)).collect()
    }

    /// Bytes it brings.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.span().len).sum()
    }
}

impl ReadWhat {
    fn read(&self, disk: &dyn Disk) -> Result<Option<ReadBytes>, DiskError> {
        Ok(match self {
            ReadWhat::Batch { place, .. } => place.read(disk)?.map(ReadBytes::Batch),
            ReadWhat::Block(key) => SegmentBlock::load(disk, key.segment, &key.place)?.map(ReadBytes::Block),
            ReadWhat::Stretch(key) => key.read(disk)?.map(ReadBytes::Stretch),
        })
    }

    /// The bytes read of [`ReadWhat::span`], if they are those that were written.
    fn check(&self, read: Buffer) -> Option<ReadBytes> {
        match self {
            ReadWhat::Batch { place, .. } => place.check(read).map(ReadBytes::Batch),
            ReadWhat::Block(key) => SegmentBlock::check(read, key.segment, &key.place).map(ReadBytes::Block),
            ReadWhat::Stretch(key) => key.check(read).map(ReadBytes::Stretch),
        }
    }

    fn span(&self) -> Span {
        match self {
            ReadWhat::Batch { place, .. } => place.span(),
            ReadWhat::Block(key) => SegmentBlock::span(key.segment, &key.place),
            ReadWhat::Stretch(key) => key.span(),
        }
    }

    fn name(&self) -> Name {
        match self {
            ReadWhat::Batch { base, .. } => (OF_NO_SEGMENT, base.0),
            ReadWhat::Block(key) => key.name(),
            ReadWhat::Stretch(key) => key.name(),
        }
    }
}

/// The name of a batch, block or stretch, unique in its log: segments are numbered from 0 on, and batches are of none.
/// Names of one queue are in the order of its messages.
type Name = (u64, u64);

/// Names a block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockKey {
    /// The segment.
    pub segment: u64,
    /// The block in it.
    pub place: BlockPlace,
}

impl BlockKey {
    pub(crate) fn new(queue: QueueId, run: &Run) -> BlockKey {
        let Run { first, last, count, segment, offset, len } = *run;
        let len = u64::from(len);
        let place = BlockPlace { key: queue.0, first: first.0, last: last.0, count, offset, len };
        BlockKey { segment, place }
    }

    fn name(&self) -> Name {
        (self.segment, self.place.offset)
    }
}

/// Names a message in a stream's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StretchKey {
    /// The segment's file.
    pub file: FileName,
    /// Where in the file the message begins.
    pub position: u64,
    /// Its bytes.
    pub len: u32,
    /// CRC32C of them.
    pub crc: u32,
}

impl StretchKey {
    /// The bytes behind the message are mostly for the same queue, and are read along.
    fn span(&self) -> Span {
        let len = u64::from(self.len).max(STRETCH_BYTES);
        Span { file: self.file, offset: self.position, len }
    }

    /// The file may end before the bytes read along do.
    fn read(&self, disk: &dyn Disk) -> Result<Option<Memory>, DiskError> {
        let Ok(len) = usize::try_from(self.span().len) else { return Ok(None) };
        let mut buffer = Buffer::default();
        let read = disk.read_at(self.file, self.position, buffer.stretch(len))?;
        buffer.truncate(read);
        Ok(self.check(buffer))
    }

    /// The bytes read, if they begin with the message.
    fn check(&self, read: Buffer) -> Option<Memory> {
        self.is_in(read.bytes()).then(|| read.seal())
    }

    /// These bytes begin with the message.
    fn is_in(&self, bytes: &[u8]) -> bool {
        bytes.get(..self.len as usize).is_some_and(|message| crc32c(message) == self.crc)
    }

    fn name(&self) -> Name {
        (OF_A_STREAM | self.file.number, self.position)
    }
}

/// The purpose of a queue's reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Messages are handed out.
    Delivery,
    /// Messages are asked which selectors are true of them.
    Choosing,
}

/// A queue that reads on, for one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reader {
    pub(crate) slot: u32,
    pub(crate) purpose: Purpose,
}

impl Reader {
    /// No queue: its reads are for whoever waits for them.
    const NONE: Reader = Reader::delivery(u32::MAX);

    const fn delivery(slot: u32) -> Reader {
        Reader { slot, purpose: Purpose::Delivery }
    }

    const fn choosing(slot: u32) -> Reader {
        Reader { slot, purpose: Purpose::Choosing }
    }
}

/// A read to be given out when its turn comes.
#[derive(Debug)]
enum Hunger {
    /// The queue needs this for its message at `seq`, and goes on from there.
    Miss { reader: Reader, seq: QueueSeq, what: ReadWhat },
    /// The queue reads on: its next messages may be read ahead.
    On { reader: Reader },
    /// This and nothing besides.
    Only(ReadWhat),
}

/// The ways through a queue's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// In order of position.
    Onward,
    /// It had messages of several priorities, and goes through what is on disk once for each.
    ByLevel,
    /// Its consumers choose, and each of them is somewhere else.
    Chosen,
}

/// How far a queue reads ahead.
#[derive(Debug)]
struct Ahead {
    /// Everything before was asked for.
    next: QueueSeq,
    /// Bytes of its next read.
    window: u64,
    /// Reads given out.
    under_way: u32,
    /// It is among the hungry as one that reads on.
    is_listed: bool,
    way: Way,
}

/// The reads of a log. See the module.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// Parts that are asked for, and the slots of the queues that wait for each.
    asked: MapById<Name, Vec<u32>>,
    /// In the order they get their turn.
    hungry: VecDeque<Hunger>,
    /// Of queues that have read and may read on.
    ahead: BTreeMap<Reader, Ahead>,
    /// Those behind this one are looked at next, for those that read no more.
    looked_at: Option<Reader>,
    under_way: usize,
    bytes: u64,
}

impl Reading {
    /// The queue in `slot` waits for `what`, for a delivery at `seq` if it may go on from there.
    #[cold]
    pub(crate) fn wait(&mut self, what: ReadWhat, slot: u32, seq: Option<QueueSeq>) {
        let miss = |seq| Hunger::Miss { reader: Reader::delivery(slot), seq, what };
        self.wait_for(what, slot, seq.map_or(Hunger::Only(what), miss));
    }

    /// The queue in `slot` waits for `what`, to ask its message at `seq` which selectors are true of it.
    #[cold]
    pub(crate) fn wait_to_choose(&mut self, what: ReadWhat, slot: u32, seq: QueueSeq) {
        self.wait_for(what, slot, Hunger::Miss { reader: Reader::choosing(slot), seq, what });
    }

    fn wait_for(&mut self, what: ReadWhat, slot: u32, hunger: Hunger) {
        let hungry = &mut self.hungry;
        let slots = self.asked.entry(what.name()).or_insert_with(|| {
            hungry.push_back(hunger);
            Vec::new()
        });
        if !slots.contains(&slot) {
            slots.push(slot);
        }
    }

    /// Bytes that reads given out will bring.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The queue in `slot` is gone. What others may wait for is still read.
    pub(crate) fn forget(&mut self, slot: u32) {
        self.asked.values_mut().for_each(|slots| slots.retain(|waiting| *waiting != slot));
        self.ahead.remove(&Reader::delivery(slot));
        self.ahead.remove(&Reader::choosing(slot));
        self.hungry.retain_mut(|hunger| match hunger {
            Hunger::Miss { reader, what, .. } if reader.slot == slot => {
                *hunger = Hunger::Only(*what);
                true
            }
            Hunger::On { reader } => reader.slot != slot,
            _ => true,
        });
    }

    /// A read for this came back: if it goes on, the next may bring more.
    pub(crate) fn came_back(&mut self, reader: Reader, bytes: u64, limits: &Limits) {
        self.under_way -= 1;
        self.bytes -= bytes;
        // The queue may be gone, and another in its slot.
        if let Some(ahead) = self.ahead.get_mut(&reader) {
            ahead.under_way = ahead.under_way.saturating_sub(1);
            ahead.window = (ahead.window * 2).min(limits.read_bytes_max as u64);
        }
        self.list(reader);
    }

    /// The queue in `slot` asked messages, and may be read ahead for to go on.
    pub(crate) fn chooses_on(&mut self, slot: u32) {
        self.list(Reader::choosing(slot));
    }

    /// It may read on.
    fn list(&mut self, reader: Reader) {
        if let Some(ahead) = self.ahead.get_mut(&reader)
            && ahead.under_way < READS_OF_QUEUE_MAX
            && !std::mem::replace(&mut ahead.is_listed, true)
        {
            self.hungry.push_back(Hunger::On { reader });
        }
    }

    /// How what was read for this is kept. Of many queues at once no more is kept than of others, and nothing is kept by where
    /// each of them is.
    pub(crate) fn keeping(&self, reader: Reader) -> Keeping {
        let way = self.ahead.get(&reader).map_or(Way::Onward, |ahead| ahead.way);
        let is_crowd = self.ahead.len() > PASSES_MAX;
        let has_chosen = || self.ahead.values().any(|ahead| ahead.way == Way::Chosen);
        match (reader.purpose, way) {
            (Purpose::Choosing, _) => Keeping::Passing,
            (Purpose::Delivery, Way::ByLevel) if !is_crowd => Keeping::ByPlace,
            (Purpose::Delivery, _) if !is_crowd && has_chosen() => Keeping::More,
            (Purpose::Delivery, _) => Keeping::Oldest,
        }
    }

    /// The queues that wait for this to be read, which it was now.
    pub(crate) fn take_asked(&mut self, what: ReadWhat) -> Vec<u32> {
        self.asked.remove(&what.name()).unwrap_or_default()
    }

    /// A queue has nothing more to read: unless it is read for, it has no share.
    pub(crate) fn forget_idle(&mut self, reader: Reader) {
        if self.ahead.get(&reader).is_some_and(|ahead| ahead.under_way == 0) {
            self.ahead.remove(&reader);
        }
    }
}
