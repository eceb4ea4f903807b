//! Pieces are taken out of streams for queues, and put into the log; a feed begins and ends.

use super::{Fed, Feed, Feeding, IS_TIME, PASSED_OVER_MAX, Records, queue_of, reference};
use crate::catalog::{Source, SourceFrom};
use crate::limits::Limits;
use crate::log::{Brings, Commons};
use crate::message_keys::KeyRule;
use crate::placed::Machines;
use crate::placed::stream::cursor::{Budget, Cursor, Unpacked};
use crate::placed::stream::owned::{Reader, named};
use crate::placed::stream::{AtStream, StreamFrom, Streams};
use base::id::QueueId;
use base::{Buffer, Now};
use message::record::Track;
use queue::stream::{From, NewReader, Next, Place, ReaderId};
use stream_files::StreamJob;

impl AtStream<'_> {
    /// It was applied how far the queue of this name was fed: it may go on.
    pub(in crate::placed::stream) fn fed_upto(&mut self, reference: &[u8], offset: u64) {
        let Some(queue) = queue_of(reference) else { return };
        let Some(reader) = self.stream.feed_of(queue) else { return };
        if let Some(Reader::Feeds(feed)) = self.stream.readers.get_mut(&reader)
            && feed.waits_for == Some(offset)
        {
            feed.waits_for = None;
            self.list(reader);
        }
    }

    /// Takes out of the stream what the queue is fed next; how many bytes, and units of work its filter took.
    pub(in crate::placed::stream) fn feed(&mut self, now: Now, reader: ReaderId, limits: &Limits) -> usize {
        if self.streams.feeds_wait {
            return 0;
        }
        let mut records = Buffer::default();
        let mut fed = 0;
        let mut segments = Vec::new();
        let mut upto = None;
        let bytes_max = limits.stream_turn_bytes_max;
        let (mut messages_left, mut spent) = (limits.dispatch_messages_max, 0);
        let mut has_more = false;
        loop {
            let AtStream { slot, stream, streams } = self;
            let Streams { log, common, effects, converter, starved, references, jobs, .. } = &mut **streams;
            let Some(Reader::Feeds(feed)) = stream.readers.get_mut(&reader) else { return 0 };
            if feed.waits_for.is_some() || feed.awaits_flush {
                break;
            }
            let room = feed.room.saturating_sub(fed);
            if room == 0 {
                if !std::mem::replace(&mut feed.is_starved, true) {
                    starved.push((*slot, reader));
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
                jobs.push(StreamJob { log: *log, stream: stream.id, work });
                break;
            }
            let chunk_at = chunk_at.filter(|_| is_durable);
            let Feed { cursor, feeding, chunk_end, .. } = &mut **feed;
            let referred_before = feeding.referred_bytes;
            feeding.ranking_units = 0;
            feeding.chunk_at = chunk_at;
            let room = u32::try_from(room).unwrap_or(u32::MAX);
            let budget = Budget { bytes_max, spent: &mut spent, messages_left: &mut messages_left, room };
            let mut sink = Records { converter, feeding, now_ms: now.wall_ms };
            let definition = named(&stream.definition);
            let (unpacked, count) = cursor.unpack(
                definition,
                now.wall_ms,
                budget,
                stream.verdicts.as_deref_mut(),
                &mut sink,
                &mut records,
            );
            stream.filtered.merge(&cursor.take_filtered());
            fed += u64::from(count);
            upto = Some(cursor.stands_at().unwrap_or(*chunk_end));
            let referred = feeding.referred_bytes;
            spent += feeding.ranking_units;
            if referred > referred_before
                && let Some(at) = chunk_at
            {
                segments.push(at.segment);
                segments.dedup();
            }
            if unpacked == Unpacked::Enough
                || records.len() + referred + spent >= bytes_max
                || messages_left == 0
            {
                has_more = true;
                break;
            }
        }
        let mut bytes = records.len();
        let AtStream { stream, streams, .. } = self;
        if let Some(offset) = upto
            && let Some(Reader::Feeds(feed)) = stream.readers.get_mut(&reader)
        {
            bytes += std::mem::take(&mut feed.feeding.referred_bytes);
            let is_far = feed.stored.is_none_or(|stored| offset >= stored.saturating_add(PASSED_OVER_MAX));
            if bytes > 0 || is_far {
                // It goes on when this is applied.
                has_more = false;
                (feed.waits_for, feed.stored) = (Some(offset), Some(offset));
                let (stream, queue) = (stream.id, feed.feeding.queue);
                Track { stream, at_ms: now.wall_ms, offset, owner: None, reference: &reference(queue) }
                    .write(&mut records);
                if !segments.is_empty() {
                    streams.references.send(queue, offset, segments);
                }
                streams.fed.push(Fed { queue, records });
            }
        }
        self.sort();
        if has_more {
            self.list(reader);
        }
        bytes + spent
    }

    /// A flush of the stream has ended, as it may: queues that are filled from it go on.
    pub(in crate::placed::stream) fn feed_on(&mut self) {
        let feeds: Vec<ReaderId> = self.stream.feeds().map(|(_, reader)| reader).collect();
        for reader in feeds {
            if let Some(Reader::Feeds(feed)) = self.stream.readers.get_mut(&reader)
                && std::mem::take(&mut feed.awaits_flush)
            {
                self.list(reader);
            }
        }
    }

    fn stop_feed(&mut self, queue: QueueId, reader: ReaderId) {
        let AtStream { slot, stream, streams } = self;
        stream.remove_feed(queue);
        stream.machine.detach(reader, &mut streams.common, &mut streams.effects);
        streams.starved.retain(|waits| *waits != (*slot, reader));
        self.sort();
    }

    fn begin_feed(
        &mut self,
        commons: &mut Commons,
        now: Now,
        (queue, source, key_rule): (QueueId, Source, Option<KeyRule>),
        limits: &Limits,
    ) {
        let AtStream { stream, streams, .. } = self;
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
        let filter = source.chunks.map(Box::new);
        let new = NewReader { from, filter, credit: 0, group: None };
        let reader = stream.machine.attach(new, &mut streams.common, &mut streams.effects);
        let feed = Feed {
            cursor: Cursor::new(source.wanted),
            feeding: Feeding {
                queue,
                key_rule,
                chunk_at: None,
                referred_bytes_min,
                referred_bytes: 0,
                ranking_units: 0,
            },
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
        streams.has_feeds = true;
        self.sort();
        self.list(reader);
        if stored.is_none() {
            // From here on it is known, whatever `next` or an age would mean later.
            append_fed_upto(commons, now, source.stream, queue, place);
        }
    }
}

impl Streams {
    /// Nothing is fed while an alarm holds.
    pub(crate) fn hold_feeds(&mut self, machines: &mut Machines, hold: bool) {
        self.feeds_wait = hold;
        if !hold {
            for slot in self.all() {
                let Some(mut at) = self.at(machines, slot) else { continue };
                let feeds: Vec<ReaderId> = at.stream.feeds().map(|(_, reader)| reader).collect();
                feeds.into_iter().for_each(|reader| at.list(reader));
            }
        }
    }

    /// A queue of this log is filled from a stream of this log from now on, going on where it was before.
    pub(crate) fn begin_feed(
        &mut self,
        (machines, commons): (&mut Machines, &mut Commons),
        now: Now,
        feed: (QueueId, Source, Option<KeyRule>),
        limits: &Limits,
    ) {
        let Some(slot) = machines.owned_slot(feed.1.stream) else { return };
        if let Some(mut at) = self.at(machines, slot) {
            at.begin_feed(commons, now, feed, limits);
        }
    }

    /// A queue is gone: nothing is kept of how far it was fed.
    pub(crate) fn end_feed(
        &mut self,
        machines: &mut Machines,
        commons: &mut Commons,
        now: Now,
        queue: QueueId,
    ) {
        let feed_in = |slot: &u32| Some((*slot, machines.stream(*slot)?.feed_of(queue)?));
        let Some((slot, reader)) = self.slots.iter().find_map(feed_in) else { return };
        if let Some(mut at) = self.at(machines, slot) {
            at.stop_feed(queue, reader);
            append_fed_upto(commons, now, at.stream.id, queue, u64::MAX);
        }
    }

    /// No queue is filled for now; each goes on where its records say that it is.
    pub(crate) fn stop_feeds(&mut self, machines: &mut Machines) {
        for slot in self.all() {
            let Some(mut at) = self.at(machines, slot) else { continue };
            let feeds: Vec<_> = at.stream.feeds().collect();
            feeds.into_iter().for_each(|(queue, reader)| at.stop_feed(queue, reader));
        }
    }

    /// Looks how much room those queues have that are to be fed now, or wait for room.
    #[cold]
    pub(in crate::placed::stream) fn see_their_room(&mut self, machines: &mut Machines) {
        let starved = std::mem::take(&mut self.starved);
        let listed: Vec<(u32, ReaderId)> = self.ready.iter().copied().collect();
        for (is_starved, (slot, reader)) in
            listed.into_iter().map(|at| (false, at)).chain(starved.into_iter().map(|at| (true, at)))
        {
            let fed = machines.stream(slot).and_then(|stream| stream.readers.get(&reader));
            let Some(Reader::Feeds(feed)) = fed else { continue };
            let queue = machines.find_queue(feed.feeding.queue).map(|(_, queue)| queue);
            let may_refer = queue.as_ref().is_some_and(|queue| queue.may_refer());
            let room = queue.map_or(0, |queue| queue.room_beside_arriving());
            let Some(mut at) = self.at(machines, slot) else { continue };
            let Some(Reader::Feeds(feed)) = at.stream.readers.get_mut(&reader) else { continue };
            (feed.may_refer, feed.room) = (may_refer, room);
            if is_starved && feed.room > 0 {
                feed.is_starved = false;
                at.list(reader);
            } else if is_starved {
                self.starved.push((slot, reader));
            }
        }
    }

    /// After a start: of queues that are gone it is forgotten how far they were fed. The node may have gone down between the
    /// record of a queue's end and the one that says so here.
    pub(crate) fn forget_feeds(
        &self,
        machines: &Machines,
        commons: &mut Commons,
        now: Now,
        is_fed: impl Fn(QueueId) -> bool,
    ) {
        let mut gone = Vec::new();
        for stream in self.slots.iter().filter_map(|slot| machines.stream(*slot)) {
            stream.machine.each_offset(|reference, _| {
                gone.extend(
                    queue_of(reference).filter(|queue| !is_fed(*queue)).map(|queue| (stream.id, queue)),
                );
            });
        }
        for (stream, queue) in gone {
            append_fed_upto(commons, now, stream, queue, u64::MAX);
        }
    }

    /// Puts what was taken out of streams into the log.
    #[cold]
    pub(in crate::placed::stream) fn append_fed(
        &mut self,
        commons: &mut Commons,
        machines: &mut Machines,
        now: Now,
    ) {
        for Fed { queue, records } in std::mem::take(&mut self.fed) {
            if let Some((_, queue)) = machines.find_queue(queue) {
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
