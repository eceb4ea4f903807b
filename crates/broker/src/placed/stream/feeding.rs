//! Filling queues from a stream: a reader of the stream whose messages are put into a queue of the same log.
//!
//! A piece goes into the log at once, messages and how far they go, so that a crash leaves both or neither; how far
//! they go is an offset stored under a name that only queues have. The next piece follows when the one before is applied:
//! the disk sets the pace, and bytes under way are bounded. Messages on disk for good in the stream are referred to
//! ([`message::record::Refer`]), the rest is copied; a feed far behind has the stream flushed first. Where nothing was
//! wanted, how far that went is stored once in [`PASSED_OVER_MAX`] messages: after a crash they are looked at again. A
//! queue that refuses messages when it is full is fed as many as it has room for beside those its publishers have under
//! way; one that is limited in bytes may be fed one piece too much. Nothing is fed while an alarm holds.
//! Not here: which queue is fed from where (`catalog::source`).

use super::Streams;
use super::cursor::{Budget, Cursor, Expected, Sink, Unpacked};
use super::messages::{Converter, Entry, Recipient};
use super::owned::Reader;
use crate::catalog::{Source, SourceFrom};
use crate::limits::Limits;
use crate::log::{Brings, Commons, Queues};
use crate::message_keys::KeyRule;
use crate::placed::stream::StreamFrom;
use base::crc::crc32c;
use base::id::QueueId;
use base::{Buffer, Now};
use message::record::{Enqueue, Refer, Track, flag};
use queue::stream::{FEED, From, NewReader, Next, Place, ReaderId};
use stream_files::StreamJob;

/// Set in what is stored where it is no offset but a time, milliseconds since 1970, from which on the queue wants messages.
const IS_TIME: u64 = 1 << 63;

/// Offsets that a queue's reader may pass over before it is stored how far it is.
const PASSED_OVER_MAX: u64 = 1 << 16;

/// A queue that is fed.
#[derive(Debug)]
pub(crate) struct Feed {
    /// Where it stands in the stream.
    cursor: Cursor,
    feeding: Feeding,
    /// The offset behind the chunk it stands in.
    chunk_end: u64,
    /// Messages fed up to this offset are not in the queue yet.
    waits_for: Option<u64>,
    /// Up to which offset it is stored that the queue was fed, or will be soon; none: it began at a time.
    stored: Option<u64>,
    /// Messages that its queue has room for.
    room: u64,
    /// Its queue's messages may lie in the stream's segments.
    may_refer: bool,
    /// Where the chunk lies that it stands in, if it is still there after so many moves.
    chunk_at: Option<(Place, u32)>,
    /// It waits for the stream to be flushed.
    awaits_flush: bool,
    /// The stream was asked to be flushed up to this offset.
    flushed_to: u64,
    /// It waits until its queue has room, and is listed for that.
    is_starved: bool,
}

/// A piece to be put into a log: records of messages for a queue, and behind them how far they go.
#[derive(Debug)]
pub(super) struct Fed {
    queue: QueueId,
    records: Buffer,
}

/// Which queue a name belongs to under which it is stored how far it was fed.
pub(super) fn queue_of(reference: &[u8]) -> Option<QueueId> {
    let id = reference.strip_prefix(FEED)?.first_chunk()?;
    Some(QueueId(u64::from_le_bytes(*id)))
}

/// Under which name it is stored how far a queue was fed.
fn reference(queue: QueueId) -> [u8; FEED.len() + 8] {
    let mut reference = [0; FEED.len() + 8];
    reference[..FEED.len()].copy_from_slice(FEED);
    reference[FEED.len()..].copy_from_slice(&queue.0.to_le_bytes());
    reference
}

/// For which queue messages are written as records.
#[derive(Debug)]
struct Feeding {
    queue: QueueId,
    /// The keys it goes by.
    key_rule: Option<KeyRule>,
    /// Where the chunk lies, if its messages may be referred to.
    chunk_at: Option<Place>,
    /// Messages with fewer bytes are copied.
    referred_bytes_min: usize,
    /// Bytes of messages that were referred to, and not copied.
    referred_bytes: usize,
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

/// Sink of the messages that a queue is fed.
struct Records<'a> {
    converter: &'a mut Converter,
    feeding: &'a mut Feeding,
    now_ms: u64,
}

impl Sink for Records<'_> {
    fn take(&mut self, (chunk, entry): (&[u8], Entry<'_>), wanted: Expected<'_>, into: &mut Buffer) -> bool {
        let record_at = into.len();
        let Feeding { queue, ref key_rule, .. } = *self.feeding;
        let recipient = Recipient { queue, now_ms: self.now_ms, key_rule: key_rule.as_ref() };
        let is_fed = self.converter.feed(entry, recipient, wanted, into);
        if is_fed {
            self.feeding.refer((chunk, entry), record_at, self.now_ms, into);
        }
        is_fed
    }

    fn referred_bytes(&self) -> usize {
        self.feeding.referred_bytes
    }
}

impl Streams {
    /// It was applied how far the queue of this name was fed: it may go on.
    pub(super) fn fed_upto(&mut self, slot: u32, reference: &[u8], offset: u64) {
        let Some(queue) = queue_of(reference) else { return };
        let Some(reader) = self.owned[slot as usize].feed_of(queue) else { return };
        if let Some(Reader::Feeds(feed)) = self.owned[slot as usize].readers.get_mut(&reader)
            && feed.waits_for == Some(offset)
        {
            feed.waits_for = None;
            self.list(slot, reader);
        }
    }

    /// Takes out of the stream what the queue is fed next; how many bytes.
    pub(super) fn feed(&mut self, now: Now, slot: u32, reader: ReaderId, limits: &Limits) -> usize {
        if self.feeds_wait {
            return 0;
        }
        let mut records = Buffer::default();
        let mut fed = 0;
        let mut segments = Vec::new();
        let mut upto = None;
        let bytes_max = limits.stream_turn_bytes_max;
        let mut messages_left = limits.dispatch_messages_max;
        let mut has_more = false;
        loop {
            let Streams { owned, common, effects, converter, starved, references, .. } = self;
            let stream = &mut owned[slot as usize];
            let Some(Reader::Feeds(feed)) = stream.readers.get_mut(&reader) else { return 0 };
            if feed.waits_for.is_some() || feed.awaits_flush {
                break;
            }
            let room = feed.room.saturating_sub(fed);
            if room == 0 {
                if !std::mem::replace(&mut feed.is_starved, true) {
                    starved.push((slot, reader));
                }
                break;
            }
            if !feed.cursor.is_in_chunk() {
                if !std::mem::replace(&mut feed.cursor.has_chunk_credit, true) {
                    stream.machine.credit(reader, 1);
                }
                match stream.machine.next(reader, common, effects) {
                    Next::Chunk(chunk) => {
                        feed.cursor.has_chunk_credit = false;
                        feed.cursor.from = stream.machine.wanted_from(reader);
                        feed.chunk_end = chunk.next_offset();
                        let place = stream.machine.handed_at(reader, &chunk);
                        feed.chunk_at = place.map(|place| (place, stream.machine.moves()));
                        feed.cursor.enter(chunk);
                    }
                    Next::Wait | Next::NoCredit => break,
                }
            }
            // A message on disk for good need not be there twice; one whose segment is gone meanwhile must be copied.
            let is_there = |(place, moves): &(Place, u32)| {
                let is_kept = references.knows(place.segment) && stream.machine.has_segment(place.segment);
                is_kept && *moves == stream.machine.moves()
            };
            let chunk_at = feed.chunk_at.filter(|at| feed.may_refer && is_there(at)).map(|(place, _)| place);
            let is_durable = feed.chunk_end <= stream.machine.durable_to();
            if let Some(place) = chunk_at.filter(|_| !is_durable && feed.flushed_to < feed.chunk_end)
                && stream.machine.bytes_from(place) >= limits.feed_sync_bytes_min
                && let Some(work) = stream.machine.take_sync()
            {
                (feed.awaits_flush, feed.flushed_to) = (true, stream.machine.next_offset());
                self.jobs.push(StreamJob { log: self.log, stream: stream.definition.id, work });
                break;
            }
            let chunk_at = chunk_at.filter(|_| is_durable);
            let Feed { cursor, feeding, chunk_end, .. } = &mut **feed;
            let referred_before = feeding.referred_bytes;
            feeding.chunk_at = chunk_at;
            let room = u32::try_from(room).unwrap_or(u32::MAX);
            let budget = Budget { bytes_max, messages_left: &mut messages_left, room };
            let mut sink = Records { converter, feeding, now_ms: now.wall_ms };
            let definition = &*stream.definition;
            let (unpacked, count) = cursor.unpack(definition, now.wall_ms, budget, &mut sink, &mut records);
            fed += u64::from(count);
            upto = Some(cursor.stands_at().unwrap_or(*chunk_end));
            let referred = feeding.referred_bytes;
            if referred > referred_before
                && let Some(at) = chunk_at
            {
                segments.push(at.segment);
                segments.dedup();
            }
            if unpacked == Unpacked::Enough || records.len() + referred >= bytes_max || messages_left == 0 {
                has_more = true;
                break;
            }
        }
        let mut bytes = records.len();
        let stream = &mut self.owned[slot as usize];
        if let Some(offset) = upto
            && let Some(Reader::Feeds(feed)) = stream.readers.get_mut(&reader)
        {
            bytes += std::mem::take(&mut feed.feeding.referred_bytes);
            let is_far = feed.stored.is_none_or(|stored| offset >= stored.saturating_add(PASSED_OVER_MAX));
            if bytes > 0 || is_far {
                // It goes on when this is applied.
                has_more = false;
                (feed.waits_for, feed.stored) = (Some(offset), Some(offset));
                let (stream, queue) = (stream.definition.id, feed.feeding.queue);
                Track { stream, at_ms: now.wall_ms, offset, owner: None, reference: &reference(queue) }
                    .write(&mut records);
                if !segments.is_empty() {
                    self.references.send(queue, offset, segments);
                }
                self.fed.push(Fed { queue, records });
            }
        }
        self.sort(slot);
        if has_more {
            self.list(slot, reader);
        }
        bytes
    }

    /// A flush of the stream has ended, as it may: queues that are filled from it go on.
    pub(super) fn feed_on(&mut self, slot: u32) {
        let feeds: Vec<ReaderId> = self.owned[slot as usize].feeds().map(|(_, reader)| reader).collect();
        for reader in feeds {
            if let Some(Reader::Feeds(feed)) = self.owned[slot as usize].readers.get_mut(&reader)
                && std::mem::take(&mut feed.awaits_flush)
            {
                self.list(slot, reader);
            }
        }
    }

    /// Nothing is fed while an alarm holds.
    pub(crate) fn hold_feeds(&mut self, hold: bool) {
        self.feeds_wait = hold;
        if !hold {
            let feeds = self
                .owned
                .iter()
                .flat_map(|(slot, stream)| stream.feeds().map(move |(_, reader)| (slot as u32, reader)));
            for (slot, reader) in feeds.collect::<Vec<_>>() {
                self.list(slot, reader);
            }
        }
    }
}

impl Streams {
    /// A queue of this log is filled from a stream of this log from now on, going on where it was before.
    pub(crate) fn begin_feed(
        &mut self,
        commons: &mut Commons,
        now: Now,
        (queue, source, key_rule): (QueueId, Source, Option<KeyRule>),
        limits: &Limits,
    ) {
        let Some(slot) = self.slot(source.stream) else { return };
        let stream = &mut self.owned[slot as usize];
        if stream.feed_of(queue).is_some() {
            return;
        }
        let reference = &reference(queue);
        let stored = stream.machine.offset(reference);
        let place = stored.unwrap_or_else(|| {
            let next = stream.machine.next_offset();
            // Where nothing is that new yet it begins with what comes next, whenever that was: also after a crash.
            let is_to_come = |at_ms: i64| stream.machine.last_timestamp_ms().is_none_or(|last| last < at_ms);
            let time = |at_ms: i64| match is_to_come(at_ms) {
                true => next,
                false => IS_TIME | u64::try_from(at_ms).unwrap_or(0),
            };
            match source.from {
                SourceFrom::At(StreamFrom::First) => 0,
                SourceFrom::At(StreamFrom::Last) => stream.machine.last_chunk_id().unwrap_or(next),
                SourceFrom::At(StreamFrom::Next) => next,
                SourceFrom::At(StreamFrom::Offset(offset)) => offset.min(next),
                SourceFrom::At(StreamFrom::LastMessages(count)) => next.saturating_sub(count),
                SourceFrom::At(StreamFrom::Timestamp(at_ms)) => time(at_ms),
                SourceFrom::Age(age_ms) => time(now.wall_ms.saturating_sub(age_ms) as i64),
            }
        });
        let from = match place & IS_TIME {
            0 => From::Offset(place),
            _ => From::Timestamp((place & !IS_TIME) as i64),
        };
        let referred_bytes_min = limits.referred_bytes_min;
        let Streams { owned, common, effects, .. } = self;
        let stream = &mut owned[slot as usize];
        let filter = source.chunks.map(Box::new);
        let new = NewReader { from, filter, credit: 0, group: None };
        let reader = stream.machine.attach(new, common, effects);
        let feed = Feed {
            cursor: Cursor::new(source.wanted),
            feeding: Feeding { queue, key_rule, chunk_at: None, referred_bytes_min, referred_bytes: 0 },
            chunk_end: 0,
            waits_for: None,
            stored: Some(place).filter(|place| place & IS_TIME == 0),
            room: 0,
            may_refer: false,
            chunk_at: None,
            awaits_flush: false,
            flushed_to: 0,
            is_starved: false,
        };
        stream.add_feed(queue, reader, feed);
        self.has_feeds = true;
        self.sort(slot);
        self.list(slot, reader);
        if stored.is_none() {
            // From here on it is known, whatever `next` or an age would mean later.
            append_fed_upto(commons, now, source.stream, queue, place);
        }
    }

    /// A queue is gone: nothing is kept of how far it was fed.
    pub(crate) fn end_feed(&mut self, commons: &mut Commons, now: Now, queue: QueueId) {
        let found = self.owned.iter().find_map(|(slot, stream)| Some((slot, stream.feed_of(queue)?)));
        let Some((slot, reader)) = found else { return };
        let Streams { owned, common, effects, starved, .. } = self;
        let stream = &mut owned[slot];
        stream.remove_feed(queue);
        stream.machine.detach(reader, common, effects);
        starved.retain(|waits| *waits != (slot as u32, reader));
        let id = stream.definition.id;
        self.sort(slot as u32);
        append_fed_upto(commons, now, id, queue, u64::MAX);
    }

    /// Looks how much room those queues have that are to be fed now, or wait for room.
    #[cold]
    pub(super) fn see_their_room(&mut self, queues: &mut Queues) {
        let starved = std::mem::take(&mut self.starved);
        let listed: Vec<(u32, ReaderId)> = self.ready.iter().copied().collect();
        for (is_starved, (slot, reader)) in
            listed.into_iter().map(|at| (false, at)).chain(starved.into_iter().map(|at| (true, at)))
        {
            let stream = self.owned.get_mut(slot as usize);
            let Some(Reader::Feeds(feed)) = stream.and_then(|stream| stream.readers.get_mut(&reader)) else {
                continue;
            };
            let queue = queues.get_mut(feed.feeding.queue).map(|(_, queue)| queue);
            feed.may_refer = queue.as_ref().is_some_and(|queue| queue.may_refer());
            feed.room = queue.map_or(0, |queue| queue.room_beside_arriving());
            if is_starved && feed.room > 0 {
                feed.is_starved = false;
                self.list(slot, reader);
            } else if is_starved {
                self.starved.push((slot, reader));
            }
        }
    }

    /// After a start: of queues that are gone it is forgotten how far they were fed. The node may have gone down between the
    /// record of a queue's end and the one that says so here.
    pub(crate) fn forget_feeds(&self, commons: &mut Commons, now: Now, is_fed: impl Fn(QueueId) -> bool) {
        let mut gone = Vec::new();
        for stream in self.iter() {
            stream.machine.each_offset(|reference, _| {
                gone.extend(
                    queue_of(reference)
                        .filter(|queue| !is_fed(*queue))
                        .map(|queue| (stream.definition.id, queue)),
                );
            });
        }
        for (stream, queue) in gone {
            append_fed_upto(commons, now, stream, queue, u64::MAX);
        }
    }

    /// Puts what was taken out of streams into the log.
    #[cold]
    pub(super) fn append_fed(&mut self, commons: &mut Commons, queues: &mut Queues, now: Now) {
        for Fed { queue, records } in std::mem::take(&mut self.fed) {
            if let Some((_, queue)) = queues.get_mut(queue) {
                queue.count_arriving(records.bytes());
            }
            commons.append_records(now, records.bytes(), &[], true);
        }
    }
}

/// Appends that a queue was fed up to an offset of a stream.
fn append_fed_upto(commons: &mut Commons, now: Now, stream: QueueId, queue: QueueId, offset: u64) {
    let track = Track { stream, at_ms: now.wall_ms, offset, owner: None, reference: &reference(queue) };
    commons.append(now, 0, Brings::STREAM, |records| track.write(records));
}
