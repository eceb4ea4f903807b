//! Place of a reader of single messages in a stream: the chunk it stands in, and the messages of that it goes through.
//!
//! Chunks are unpacked as far as there is room, message by message, into records of their own: what does not fit is unpacked
//! when there is room. Sub-batches that are compressed are left out, as RabbitMQ leaves them out. How many messages a
//! sub-batch has is what its head says, whatever it holds: the offsets of the stream are counted by that.
//! Both consumers and queues that are fed have one; what becomes of a message is their [`Sink`]'s.

use super::messages::{Converter, Entry};
use super::request::Wanted;
use super::verdicts::{Verdict, Verdicts};
use crate::catalog::QueueDefinition;
use base::Buffer;
use filter::{Counts, Expression, Field, Filed, Program};
use message::chunk::{self, Compression, Content, HEADER_LEN, Header};
use queue::stream::Chunk;
use std::cell::Cell;
use std::sync::Arc;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// Of the messages that it wants; none: it wants all.
    program: Option<Arc<Program>>,
    /// Its expression, until it has its seat.
    expression: Option<Arc<Expression>>,
    /// It looks into bodies for that.
    looks_in_bodies: bool,
    /// The seat of its filter among those that are asked together.
    seat: Option<Filed>,
    /// The chunk it stands in.
    open: Option<Place>,
    /// The machine counts a chunk for it that it has not handed out.
    pub(crate) has_chunk_credit: bool,
    /// Messages before this are not for it.
    pub(crate) from: u64,
    /// Counts of its filter since they were taken.
    filtered: Counts,
}

/// Bounds of one step of unpacking.
#[derive(Debug)]
pub(crate) struct Budget<'a> {
    /// Bytes of records, and units of [work on filters](Program::price), together.
    pub(crate) bytes_max: usize,
    /// Units of work that were spent on filters; they are added.
    pub(crate) spent: &'a mut usize,
    /// Messages that are looked at; they are counted off.
    pub(crate) messages_left: &'a mut u32,
    /// Messages that are taken.
    pub(crate) room: u32,
}

/// Messages that are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter<'a> {
    pub(crate) program: &'a Program,
    /// The time of day for it, milliseconds.
    pub(crate) now_ms: u64,
    /// Units of [work](Program::price) that were spent on it.
    pub(crate) spent: &'a Cell<usize>,
    /// Counts of its filter.
    pub(crate) counts: &'a Cell<Counts>,
}

/// The filter of the messages that are wanted, unless all are.
pub(crate) type Expected<'a> = Option<Filter<'a>>;

/// Taker of the messages that are unpacked.
pub(crate) trait Sink {
    /// Writes a message of a chunk as a record, if it is expected; whether it was.
    fn take(&mut self, entry: (&[u8], Entry<'_>), wanted: Expected<'_>, into: &mut Buffer) -> bool;

    /// The converter that messages are looked at with.
    fn converter(&mut self) -> &mut Converter;

    /// Messages are left out that are compressed together.
    fn pass_compressed(&mut self) {}

    /// Bytes of messages that were taken and are not in their records, and what counts as such.
    fn referred_bytes(&self) -> usize {
        0
    }
}

/// Where in a chunk.
#[derive(Debug)]
struct Place {
    chunk: Chunk,
    at_ms: u64,
    /// The offset of the next message.
    offset: u64,
    /// Where the next entry begins.
    at: usize,
    /// Where the entries end.
    end: usize,
    /// Behind the sub-batch that is being unpacked.
    outer: Option<Outer>,
}

/// The rest of a chunk behind a sub-batch in it.
#[derive(Debug)]
struct Outer {
    /// The offset of the message behind it.
    offset: u64,
    /// Where the entry behind it begins.
    at: usize,
    /// Where the entries of the chunk end.
    end: usize,
}

/// The result of unpacking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unpacked {
    /// The chunk is done with.
    Done,
    /// There is more for which the consumer has no room.
    Full,
    /// There is more, and so much was done that others have their turn first.
    Enough,
}

impl Cursor {
    pub(crate) fn new(wanted: Option<Wanted>) -> Cursor {
        let (expression, program) =
            wanted.map(|Wanted { expression, program }| (expression, program)).unzip();
        let looks_in_body =
            |program: &Arc<Program>| program.fields().any(|field| matches!(field, Field::Body(_)));
        Cursor {
            looks_in_bodies: program.as_ref().is_some_and(looks_in_body),
            program,
            expression,
            seat: None,
            open: None,
            has_chunk_credit: false,
            from: 0,
            filtered: Counts::default(),
        }
    }

    /// Counts of its filter since they were taken last.
    pub(crate) fn take_filtered(&mut self) -> Counts {
        std::mem::take(&mut self.filtered)
    }

    /// Its filter gets a seat among those that are asked together, if there is one for it.
    pub(super) fn sit_down(&mut self, verdicts: &mut Option<Box<Verdicts>>) {
        if let (Some(program), Some(expression)) = (&self.program, self.expression.take()) {
            self.seat = verdicts.get_or_insert_default().join(&expression, program);
        }
    }

    /// Its filter gives its seat up.
    pub(super) fn stand_up(&mut self, verdicts: &mut Option<Box<Verdicts>>) {
        if let (Some(seat), Some(verdicts)) = (self.seat.take(), verdicts) {
            verdicts.leave(seat);
        }
    }

    /// The offset of the next message in the chunk it stands in.
    pub(crate) fn stands_at(&self) -> Option<u64> {
        self.open.as_ref().map(|place| place.offset)
    }

    pub(crate) fn is_in_chunk(&self) -> bool {
        self.open.is_some()
    }

    /// It leaves the chunk, wherever it stands.
    pub(crate) fn leave(&mut self) {
        self.open = None;
    }

    /// It goes on with this chunk.
    pub(crate) fn enter(&mut self, chunk: Chunk) {
        let bytes = chunk.bytes();
        let header = bytes.first_chunk::<HEADER_LEN>().and_then(|header| Header::read(header).ok());
        let Some(header) = header else { return };
        let at = header.data_at();
        let end = bytes.len().min(at + header.data_len as usize);
        let at_ms = u64::try_from(header.timestamp_ms).unwrap_or(0);
        self.open = Some(Place { offset: chunk.first_offset, at_ms, at, end, outer: None, chunk });
    }

    /// Unpacks what follows in the chunk, as far as the budget goes, into records; how many messages were taken.
    pub(crate) fn unpack(
        &mut self,
        stream: &QueueDefinition,
        now_ms: u64,
        Budget { bytes_max, spent, messages_left, room }: Budget<'_>,
        mut verdicts: Option<&mut Verdicts>,
        sink: &mut impl Sink,
        into: &mut Buffer,
    ) -> (Unpacked, u32) {
        let Some(mut place) = self.open.take() else { return (Unpacked::Done, 0) };
        let mut taken = 0;
        let (filtering, counts) = (Cell::new(*spent), &Cell::new(self.filtered));
        let wanted =
            self.program.as_ref().map(|program| Filter { program, now_ms, spent: &filtering, counts });
        let Place { chunk, at_ms, offset, at, end, outer } = &mut place;
        let (data, at_ms) = (chunk.bytes(), *at_ms);
        let unpacked = loop {
            // Entries of a sub-batch beyond its count are nobody's: those offsets are of the entries that follow.
            if let Some(behind) = outer.take_if(|behind| *at >= *end || *offset >= behind.offset) {
                (*offset, *at, *end) = (behind.offset, behind.at, behind.end);
            }
            if *at >= *end {
                break Unpacked::Done;
            }
            if taken >= room {
                break Unpacked::Full;
            }
            if into.len() + sink.referred_bytes() + filtering.get() >= bytes_max || *messages_left == 0 {
                break Unpacked::Enough;
            }
            // Bytes that are not as they were written could not come here: the checksum said that they were.
            let Some(entry) = chunk::Entry::first(&data[*at..*end]) else {
                *at = *end;
                continue;
            };
            let behind = *at + entry.bytes().len();
            match entry.content() {
                Content::Message(message) => {
                    let entry = Entry { message, offset: *offset, at_ms, stream };
                    let mut filter = wanted;
                    if *offset >= self.from
                        && let (Some(seat), Some(verdicts)) = (self.seat, verdicts.as_deref_mut())
                    {
                        let mut work = filtering.get();
                        let left = bytes_max.saturating_sub(into.len() + sink.referred_bytes() + work);
                        let verdict = verdicts.on(seat, entry, (now_ms, left), &mut work, sink.converter());
                        filtering.set(work);
                        match verdict {
                            Verdict::Later => break Unpacked::Enough,
                            Verdict::Unknown => {}
                            Verdict::Known { is_wanted, is_unreadable } => {
                                counts.set(counts.get().and_one(is_unreadable && self.looks_in_bodies));
                                filter = None;
                                if !is_wanted {
                                    *offset += 1;
                                    *messages_left -= 1;
                                    *at = behind;
                                    continue;
                                }
                            }
                        }
                    }
                    *messages_left -= 1;
                    if *offset >= self.from {
                        taken += u32::from(sink.take((data, entry), filter, into));
                    }
                    *offset += 1;
                    *at = behind;
                }
                Content::Batch(batch)
                    if batch.compression() == Some(Compression::None) && outer.is_none() =>
                {
                    let next = *offset + u64::from(batch.records);
                    *outer = Some(Outer { offset: next, at: behind, end: *end });
                    *at = behind - batch.body.len();
                    *end = behind;
                }
                Content::Batch(batch) => {
                    *offset += u64::from(batch.records);
                    *messages_left -= 1;
                    *at = behind;
                    sink.pass_compressed();
                }
            }
        };
        *spent = filtering.get();
        self.filtered = counts.get();
        if unpacked != Unpacked::Done {
            self.open = Some(place);
        }
        (unpacked, taken)
    }
}
