//! Handing out: chunks to subscriptions, messages to consumers, to each its share before the next has its turn.

use super::choosing::Choice;
use super::cursor::{Budget, Unpacked};
use super::owned::{OwnedStream, Reader, named};
use super::request::StreamReply;
use super::{AtStream, HANDED_MAX, Streams};
use crate::event::Event;
use crate::limits::Limits;
use crate::log::Commons;
use crate::placed::Machines;
use crate::placed::queue::owned::Member;
use crate::post::Post;
use crate::request::Reply;
use crate::turn::Turn;
use base::{Buffer, Memory, Now};
use message::chunk::{HEADER_LEN, Header};
use queue::stream::{From, NewReader, Next, ReaderId};

/// Memory of what was handed out that is kept to be used again, bytes.
const HANDED_BYTES_MAX: usize = 512 << 10;

impl Streams {
    /// Hands out to the readers that may have something, each once, and no more to all of them than others can wait for.
    pub(crate) fn dispatch(&mut self, machines: &mut Machines, turn: &mut Turn<'_>) {
        while !self.turns.is_empty() {
            for (slot, reader, active) in std::mem::take(&mut self.turns) {
                let found = machines.stream(slot).and_then(|stream| stream.readers.get(&reader));
                if let Some(Member { port, handle }) = found.and_then(Reader::member) {
                    turn.post.event(port, Event::Active { consumer: handle, active });
                }
            }
        }
        if self.truncations.has_answers() {
            self.truncations.answer(turn.post);
        }
        for _ in 0..self.ready.len() {
            if !self.share.has_some() {
                break;
            }
            let Some((slot, reader)) = self.ready.pop_front() else { break };
            let handed = self.at(machines, slot).map_or(0, |mut at| at.hand_out(turn, reader));
            self.share.handed(handed);
        }
    }

    /// Lists the consumers whose next message is due.
    fn ring(&mut self, machines: &mut Machines, now: Now) {
        let due = self.paced.extract_if(.., |(at, ..)| *at <= now.mono_ns);
        for (_, slot, member) in due.collect::<Vec<_>>() {
            let Some(mut at) = self.at(machines, slot) else { continue };
            let Some(id) = at.stream.find(member) else { continue };
            if let Some(Reader::Messages(consumer)) = at.stream.readers.get_mut(&id) {
                consumer.has_waited();
                at.list(id);
            }
        }
    }

    /// Memory for what is handed out next: that of what was handed out before, if it is done with; else as much.
    fn take_buffer(&mut self) -> Buffer {
        let Some(memory) = self.handed.iter_mut().find_map(Option::take) else { return Buffer::default() };
        let capacity = memory.len();
        memory.recycle().unwrap_or_else(|| Buffer::with_capacity(capacity))
    }
}

impl AtStream<'_> {
    /// The reader may have something to be handed out.
    pub(super) fn list(&mut self, reader: ReaderId) {
        let listed = (self.slot, reader);
        if !self.streams.ready.contains(&listed) {
            self.streams.ready.push_back(listed);
        }
    }

    /// How many bytes it was handed, and units of work its filter took.
    fn hand_out(&mut self, turn: &mut Turn<'_>, reader: ReaderId) -> usize {
        match self.stream.readers.get_mut(&reader) {
            Some(Reader::Chunks { is_paused: true, .. }) | None => 0,
            Some(Reader::Chunks { member, .. }) => {
                let member = *member;
                self.hand_chunks(turn, reader, member)
            }
            Some(Reader::Feeds(_)) => self.feed(turn.now, reader, turn.limits),
            Some(Reader::Messages(_)) => self.hand_messages(turn, reader),
            Some(Reader::Asks { .. }) => {
                self.answer(reader, turn.post);
                0
            }
        }
    }

    fn hand_chunks(&mut self, turn: &mut Turn<'_>, reader: ReaderId, member: Member) -> usize {
        let (mut bytes, mut spent, mut next) = (0, 0, None);
        let mut messages_left = turn.limits.dispatch_messages_max;
        loop {
            let AtStream { stream, streams: Streams { common, effects, converter, .. }, .. } = self;
            let OwnedStream { machine, readers, delivered, definition, filtered, verdicts, .. } =
                &mut **stream;
            let Some(Reader::Chunks { choosing, .. }) = readers.get_mut(&reader) else { break };
            if !choosing.as_ref().is_some_and(|choosing| choosing.holds()) {
                let Next::Chunk(chunk) = machine.next(reader, common, effects) else { break };
                next = Some(chunk);
            }
            let chunk = match (choosing, next.take()) {
                (None, Some(chunk)) => chunk,
                (None, None) => break,
                (Some(choosing), next) => {
                    next.into_iter().for_each(|chunk| choosing.hold(chunk));
                    let messages_left = &mut messages_left;
                    let bytes_max = turn.limits.stream_turn_bytes_max;
                    let budget = Budget { bytes_max, spent: &mut spent, messages_left, room: 1 };
                    let choice = choosing.look(
                        named(definition),
                        turn.now.wall_ms,
                        budget,
                        verdicts.as_deref_mut(),
                        converter,
                    );
                    filtered.merge(&choosing.take_filtered());
                    match choice {
                        Choice::Send(chunk) => chunk,
                        Choice::Skip => {
                            machine.credit(reader, 1);
                            continue;
                        }
                        Choice::Later => {
                            self.list(reader);
                            break;
                        }
                    }
                }
            };
            *delivered += messages_of(&chunk.memory[chunk.at as usize..]);
            let committed_chunk_id = machine.last_chunk_id().unwrap_or(0);
            let range = chunk.at..chunk.at + chunk.len;
            bytes += chunk.len as usize;
            // Chunks handed out are kept until they are sent, and credit is in chunks, however large.
            let mut asks = false;
            if let Some(Reader::Chunks { is_paused, handed, .. }) = readers.get_mut(&reader) {
                *handed += chunk.len as usize;
                asks = *handed >= turn.limits.consumer_window_bytes;
                *is_paused |= asks;
            }
            turn.post.chunk(member.port, member.handle, &chunk.memory, range, (committed_chunk_id, asks));
            if asks {
                break;
            }
            if bytes + spent >= turn.limits.stream_turn_bytes_max {
                self.list(reader);
                break;
            }
        }
        self.sort();
        bytes + spent
    }

    fn hand_messages(&mut self, turn: &mut Turn<'_>, reader: ReaderId) -> usize {
        let mut into = self.streams.take_buffer();
        let mut items = Vec::new();
        let mut reader = reader;
        let mut has_more = false;
        let bytes_max = turn.limits.stream_turn_bytes_max;
        // Of all chunks together: a filter that leaves out much hands out no bytes, but is work.
        let (mut messages_left, mut spent) = (turn.limits.dispatch_messages_max, 0);
        loop {
            let AtStream { slot, stream, streams } = self;
            let Streams { common, effects, converter, paced, .. } = &mut **streams;
            if let Some(back_to) = take_back(stream.readers.get_mut(&reader)) {
                // It stood further on: it begins anew, as another.
                let Some(Reader::Messages(consumer)) = stream.readers.get_mut(&reader) else { return 0 };
                consumer.cursor.has_chunk_credit = false;
                let filter = consumer.chunks.clone().map(Box::new);
                stream.machine.detach(reader, common, effects);
                let new = NewReader { from: From::Offset(back_to), filter, credit: 0, group: None };
                let renamed = stream.machine.attach(new, common, effects);
                stream.rename(std::mem::replace(&mut reader, renamed), renamed);
            }
            let Some(Reader::Messages(consumer)) = stream.readers.get_mut(&reader) else { break };
            if consumer.room() == 0 {
                break;
            }
            let allowed = consumer.allowed(turn.now.mono_ns);
            if allowed == 0 {
                let waits = consumer.wait_for_turn(turn.now.mono_ns);
                paced.extend(waits.map(|at| (at, *slot, consumer.member)));
                break;
            }
            if !consumer.cursor.is_in_chunk() {
                if !std::mem::replace(&mut consumer.cursor.has_chunk_credit, true) {
                    stream.machine.credit(reader, 1);
                }
                match stream.machine.next(reader, common, effects) {
                    Next::Chunk(chunk) => {
                        consumer.cursor.has_chunk_credit = false;
                        consumer.cursor.from = stream.machine.wanted_from(reader);
                        consumer.cursor.enter(chunk);
                    }
                    Next::Wait | Next::NoCredit => break,
                }
            }
            let messages_left = &mut messages_left;
            let budget = Budget { bytes_max, spent: &mut spent, messages_left, room: allowed };
            let definition = named(&stream.definition);
            let out = (&mut into, &mut items);
            let unpacked = consumer.unpack(
                definition,
                turn.now.wall_ms,
                budget,
                stream.verdicts.as_deref_mut(),
                converter,
                out,
            );
            stream.filtered.merge(&consumer.cursor.take_filtered());
            if unpacked == Unpacked::Enough || into.len() + spent >= bytes_max {
                has_more = true;
                break;
            }
        }
        let bytes = into.len() + spent;
        let AtStream { stream, streams, .. } = self;
        let is_at_end = stream.machine.stands_at(reader) == Some(stream.machine.next_offset());
        let mut progress = None;
        if let Some(Reader::Messages(consumer)) = stream.readers.get_mut(&reader) {
            let Member { port, handle } = consumer.member;
            let memory: Memory = into.seal();
            // A consumer that settles nothing counts as having settled all it was sent.
            progress = match items.is_empty() || !consumer.is_settled() {
                true => None,
                false => consumer.progress.as_mut().and_then(|progress| progress.take()),
            };
            if !items.is_empty() {
                stream.delivered += items.len() as u64;
                let shown = consumer.member.shown(stream.is_traced).handle;
                turn.post.deliver_all(port, shown, &memory, items.into_iter());
            }
            if memory.capacity() <= HANDED_BYTES_MAX {
                streams.handed.rotate_left(1);
                streams.handed[HANDED_MAX - 1] = Some(memory);
            }
            if !has_more
                && is_at_end
                && !consumer.cursor.is_in_chunk()
                && !consumer.is_paused
                && let Some(unused) = consumer.drained()
            {
                turn.post.event(port, Event::Drained { consumer: handle, unused });
            }
        }
        if let Some(settled) = progress {
            streams.note_progress(stream.id, settled);
        }
        self.sort();
        if has_more {
            self.list(reader);
        }
        bytes
    }

    /// Answers a connection that asked where a reader would stand, if that is known now.
    pub(super) fn answer(&mut self, reader: ReaderId, post: &mut Post) {
        let AtStream { stream, streams: Streams { common, effects, .. }, .. } = self;
        let Some(stands_at) = stream.machine.stands_at(reader) else { return };
        if let Some(Reader::Asks { port, token }) = stream.remove(reader) {
            stream.machine.detach(reader, common, effects);
            let offset = (stream.machine.messages() > 0).then_some(stands_at);
            post.reply(port, token, Ok(Reply::Stream(StreamReply::Offset(offset))));
        }
        self.sort();
    }
}

/// Messages of a chunk.
fn messages_of(chunk: &[u8]) -> u64 {
    let header = chunk.first_chunk().and_then(|header: &[u8; HEADER_LEN]| Header::read(header).ok());
    header.map_or(0, |header| header.records.into())
}

fn take_back(reader: Option<&mut Reader>) -> Option<u64> {
    match reader {
        Some(Reader::Messages(consumer)) => consumer.back_to.take(),
        _ => None,
    }
}

impl Streams {
    /// The turn ends: readers of streams have their share anew.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin_share(&mut self, now: Now, limits: &Limits) {
        self.share.begin(now, limits);
    }

    /// Hands out what readers of streams wait for, and puts into the log what comes of it.
    #[cold]
    #[inline(never)]
    pub(crate) fn hand_out_all(
        &mut self,
        commons: &mut Commons,
        machines: &mut Machines,
        turn: &mut Turn<'_>,
    ) {
        if self.has_feeds {
            self.see_their_room(machines);
        }
        self.retry(machines, turn.now);
        if !self.paced.is_empty() {
            self.ring(machines, turn.now);
        }
        self.dispatch(machines, turn);
        let has_fed = !self.fed.is_empty();
        if !self.progress.is_empty() {
            self.store_progress(commons, machines, turn.now, turn.limits.stream_offsets_told_max);
        }
        if has_fed {
            self.append_fed(commons, machines, turn.now);
        }
    }
}
