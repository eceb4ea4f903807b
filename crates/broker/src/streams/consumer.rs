//! A consumer of AMQP messages of a stream: what it may be sent, and where in a chunk it stands.
//!
//! Chunks are unpacked as far as the consumer has room, message by message, into records of their own: what does not fit is
//! unpacked when there is room. Sub-batches that are compressed are left out, as RabbitMQ leaves them out. How many messages
//! a sub-batch has is what its head says, whatever it holds: the offsets of the stream are counted by that.
//! Settling changes nothing but how much it may be sent.

use super::messages::{Converter, Entry};
use super::pace::Pace;
use super::progress::Progress;
use super::request::Wanted;
use crate::catalog::QueueDefinition;
use crate::event::Item;
use crate::owned::Member;
use crate::request::{Credit, NewConsumer};
use base::Buffer;
use base::crc::crc32c;
use base::id::{QueueId, QueueSeq};
use message::chunk::{self, Compression, Content, Filter, HEADER_LEN, Header};
use message::record::{Enqueue, Format, Outcome, Refer, SeqRange, flag};
use queue::stream::{self, Chunk};

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) member: Member,
    credit: Credit,
    /// How it gets messages.
    format: Format,
    /// Messages it may have been sent in all, where it has link credit; wrapping.
    limit: u32,
    /// Messages it was sent since it came, and credit it had used up, wrapping.
    delivered: u32,
    /// Of these, those it is to settle yet.
    unsettled: u64,
    /// It settles nothing.
    settled: bool,
    pub(crate) is_paused: bool,
    drain: bool,
    wanted: Option<Wanted>,
    /// How fast it gets messages; none: as fast as it may.
    pace: Option<Pace>,
    /// It waits for its pace, and is listed for that.
    waits: bool,
    /// Which chunks it is to see.
    pub(crate) chunks: Option<Filter>,
    /// The chunk it stands in.
    open: Option<Place>,
    /// The machine counts a chunk for it that it has not handed out.
    pub(crate) has_chunk_credit: bool,
    /// It goes on from here: what was handed out was not sent.
    pub(crate) back_to: Option<u64>,
    /// Messages before this are not for it.
    pub(crate) from: u64,
    /// How far it has come, where it has a name by which that is remembered.
    pub(crate) progress: Option<Box<Progress>>,
    /// It is none: what it is shown is written as records for a queue.
    pub(crate) feeds: Option<Box<Feeding>>,
}

/// For which queue messages are written as records.
#[derive(Debug)]
pub(crate) struct Feeding {
    pub(crate) queue: QueueId,
    /// Where the chunk lies, if its messages may be referred to.
    pub(crate) chunk_at: Option<stream::Place>,
    /// Messages with fewer bytes are copied.
    pub(crate) referred_bytes_min: usize,
    /// Bytes of messages that were referred to, and not copied.
    pub(crate) referred_bytes: usize,
}

impl Feeding {
    /// The bytes of `chunk` that are `message` are on disk for good: writes where, in place of the record at `at`, which holds
    /// them.
    fn refer(&mut self, (chunk, entry): (&[u8], Entry<'_>), at: usize, now_ms: u64, into: &mut Buffer) {
        let Entry { message, offset, stream, .. } = entry;
        let Some(place) = self.chunk_at.filter(|_| message.len() >= self.referred_bytes_min) else { return };
        let Some(record) = Enqueue::read(&into.bytes()[at..]) else { return };
        let says_name = record.routing_key == stream.name.as_bytes() && stream.name.len() <= u8::MAX.into();
        let refer = Refer {
            queue: self.queue,
            stream: stream.id,
            received_at_ms: now_ms,
            priority: (record.flags & flag::PRIORITY != 0).then_some(record.priority),
            offset,
            segment: place.segment,
            position: place.position + (message.as_ptr() as usize - chunk.as_ptr() as usize) as u64,
            len: message.len() as u32,
            crc: crc32c(message),
            head_len: record.head.len() as u32,
            body_len: record.body.len() as u32,
            name: if says_name { stream.name.as_bytes() } else { b"" },
        };
        into.truncate(at);
        refer.write(into);
        self.referred_bytes += message.len();
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

impl Consumer {
    pub(crate) fn new(
        member: Member,
        new: &NewConsumer,
        format: Format,
        (wanted, rate): (Option<Wanted>, Option<u32>),
    ) -> Consumer {
        let NewConsumer { credit, settled, .. } = *new;
        Consumer {
            member,
            credit,
            format,
            limit: 0,
            delivered: 0,
            unsettled: 0,
            settled,
            is_paused: false,
            drain: false,
            wanted,
            pace: rate.map(Pace::new),
            waits: false,
            chunks: None,
            open: None,
            has_chunk_credit: false,
            back_to: None,
            from: 0,
            progress: None,
            feeds: None,
        }
    }

    /// Messages that it may be sent now.
    pub(crate) fn room(&self) -> u32 {
        if self.is_paused {
            return 0;
        }
        match self.credit {
            Credit::Prefetch(0) => u32::MAX,
            Credit::Prefetch(_) if self.settled => u32::MAX,
            Credit::Prefetch(prefetch) => {
                u32::try_from(u64::from(prefetch).saturating_sub(self.unsettled)).unwrap_or(u32::MAX)
            }
            Credit::Link => {
                let credit = self.limit.wrapping_sub(self.delivered);
                if credit > u32::MAX / 2 { 0 } else { credit }
            }
        }
    }

    /// Messages that may go now by its pace.
    pub(crate) fn allowed(&mut self, now_ns: u64) -> u32 {
        self.pace.as_mut().map_or(u32::MAX, |pace| pace.allowed(now_ns))
    }

    /// It has room, and its next message is not due: when it is to be listed again, if that was not said before; monotonic
    /// nanoseconds.
    pub(crate) fn wait_for_turn(&mut self, now_ns: u64) -> Option<u64> {
        let next_turn = self.pace.as_ref().map(|pace| pace.next_turn(now_ns));
        next_turn.filter(|_| !std::mem::replace(&mut self.waits, true))
    }

    /// It is listed again.
    pub(crate) fn has_waited(&mut self) {
        self.waits = false;
    }

    /// The offset of the next message in the chunk it stands in.
    pub(crate) fn stands_at(&self) -> Option<u64> {
        self.open.as_ref().map(|place| place.offset)
    }

    /// It settles nothing.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    pub(crate) fn is_in_chunk(&self) -> bool {
        self.open.is_some()
    }

    /// Its link may have been sent so many in all.
    pub(crate) fn credit(&mut self, limit: u32, drain: bool) {
        (self.credit, self.limit, self.drain) = (Credit::Link, limit, drain);
    }

    pub(crate) fn prefetch(&mut self, prefetch: u32) {
        self.credit = Credit::Prefetch(prefetch);
    }

    pub(crate) fn settle(&mut self, range: SeqRange, outcome: Outcome) {
        if let Some(progress) = &mut self.progress {
            progress.settle(range, outcome);
        }
        self.unsettled = self.unsettled.saturating_sub(range.last.0.saturating_sub(range.first.0) + 1);
    }

    /// A message that was handed out was not sent: it goes on there.
    pub(crate) fn unsent(&mut self, range: SeqRange) {
        let count = range.last.0 - range.first.0 + 1;
        self.delivered = self.delivered.wrapping_sub(count as u32);
        if !self.settled {
            self.unsettled = self.unsettled.saturating_sub(count);
        }
        if let Some(progress) = &mut self.progress {
            progress.unsent(range);
        }
        self.back_to = Some(self.back_to.map_or(range.first.0, |back_to| back_to.min(range.first.0)));
        self.open = None;
    }

    /// Nothing is left to send. What of its credit was not used, if it wanted it used up.
    pub(crate) fn drained(&mut self) -> Option<u32> {
        if !self.drain {
            return None;
        }
        self.drain = false;
        let unused = self.room();
        self.delivered = self.delivered.wrapping_add(unused);
        Some(unused)
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

    /// Unpacks what follows in the chunk, up to `bytes_max` bytes, `messages_left` messages that are looked at, which are counted
    /// off, and `allowed` that are shown, as long as there is room. Records go to `into`, and what there is to tell of them to
    /// `items`.
    pub(crate) fn unpack(
        &mut self,
        stream: &QueueDefinition,
        now_ms: u64,
        (bytes_max, messages_left, allowed): (usize, &mut u32, u32),
        converter: &mut Converter,
        (into, items): (&mut Buffer, &mut Vec<Item>),
    ) -> Unpacked {
        let Some(mut place) = self.open.take() else { return Unpacked::Done };
        let (mut room, mut shown) = (self.room().min(allowed), 0);
        let wanted = self.wanted.clone();
        let wanted = wanted.as_ref().map(|wanted| (&*wanted.0, now_ms));
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
            if room == 0 {
                break Unpacked::Full;
            }
            let referred_bytes = self.feeds.as_ref().map_or(0, |feeding| feeding.referred_bytes);
            if into.len() + referred_bytes >= bytes_max || *messages_left == 0 {
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
                    let offset = std::mem::replace(offset, *offset + 1);
                    *messages_left -= 1;
                    if offset >= self.from {
                        let record_at = into.len() as u32;
                        let entry = Entry { message, offset, at_ms, stream };
                        let is_shown = match &mut self.feeds {
                            Some(feeding) => {
                                let is_fed = converter.feed(entry, (feeding.queue, now_ms), wanted, into);
                                if is_fed {
                                    feeding.refer((data, entry), record_at as usize, now_ms, into);
                                }
                                is_fed
                            }
                            None => converter.show(entry, self.format, wanted, into),
                        };
                        if is_shown {
                            if let Some(progress) = &mut self.progress {
                                progress.hand_out(offset, self.settled);
                            }
                            items.push(Item { seq: QueueSeq(offset), offset: record_at, marks: 0 });
                            shown += 1;
                            room -= 1;
                        }
                    }
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
                }
            }
        };
        if let Some(pace) = &mut self.pace {
            pace.sent(shown);
        }
        self.delivered = self.delivered.wrapping_add(shown);
        if !self.settled {
            self.unsettled += u64::from(shown);
        }
        if unpacked != Unpacked::Done {
            self.open = Some(place);
        }
        unpacked
    }
}
