//! Requests of connections to the streams of a log.

use super::choosing::Choosing;
use super::consumer::Consumer;
use super::owned::Reader;
use super::progress::Progress;
use super::request::{SingleActive, StreamCommand, StreamFilter, StreamFrom, StreamReply, StreamStats};
use super::{AtStream, Streams};
use crate::catalog::{Reason, Refusal};
use crate::event::Event;
use crate::log::{Brings, Commons};
use crate::placed::Machines;
use crate::placed::queue::commands::Done;
use crate::placed::queue::modified::Modified;
use crate::placed::queue::owned::Member;
use crate::post::Post;
use crate::request::{NewConsumer, QueueCommand, Reply};
use crate::turn::Turn;
use base::id::PortId;
use message::record::{Format, Outcome, Track};
use queue::stream::{FEED, From, Group, NewReader};

fn from(from: StreamFrom) -> From {
    match from {
        StreamFrom::First => From::First,
        StreamFrom::Last => From::Last,
        StreamFrom::Next => From::Next,
        StreamFrom::Offset(offset) => From::Offset(offset),
        StreamFrom::Timestamp(ms) => From::Timestamp(ms),
        StreamFrom::LastMessages(count) => From::LastMessages(count),
    }
}

/// The name a consumer is known by, and the user to whom its stored offset counts.
struct KnownAs {
    user: u32,
    name: Box<[u8]>,
}

impl AtStream<'_> {
    fn consume(
        &mut self,
        member: Member,
        (consumer, format): (NewConsumer, Format),
        begin: StreamFrom,
        (filter, rate, known_as): (StreamFilter, Option<u32>, Option<KnownAs>),
    ) {
        let StreamFilter { chunks, messages } = filter;
        let AtStream { stream, streams: Streams { offset_rules, common, effects, .. }, .. } = self;
        let mut consumer = Consumer::new(member, &consumer, format, (messages, rate));
        consumer.chunks.clone_from(&chunks);
        let mut begin = begin;
        if let Some(KnownAs { user, name }) = known_as {
            if let Some(stored) = stream.stored(&name) {
                begin = StreamFrom::Offset(stored.saturating_add(1));
            }
            consumer.progress = Some(Box::new(Progress::new(name, offset_rules.owner(user, member.port))));
        }
        let new = NewReader { from: from(begin), filter: chunks.map(Box::new), credit: 0, group: None };
        let id = stream.machine.attach(new, common, effects);
        stream.add(id, Reader::Messages(Box::new(consumer)));
        self.sort();
        self.list(id);
    }

    fn remove(&mut self, member: Member) {
        let AtStream { slot, stream, streams } = self;
        let slot = *slot;
        if let Some(id) = stream.find(member) {
            stream.remove(id);
            // The next reader may get the same number, and is not meant.
            streams.turns.retain(|(of, whose, _)| (*of, *whose) != (slot, id));
            stream.machine.detach(id, &mut streams.common, &mut streams.effects);
            streams.handed = Default::default();
            streams.paced.retain(|(_, of, waits)| (*of, *waits) != (slot, member));
        }
        self.sort();
    }

    /// Has a consumer do something, and looks whether it may be sent more.
    fn with(&mut self, member: Member, change: impl FnOnce(&mut Consumer)) {
        let AtStream { stream, streams, .. } = self;
        let Some(id) = stream.find(member) else { return };
        if let Some(Reader::Messages(consumer)) = stream.readers.get_mut(&id) {
            change(consumer);
            let progress = consumer.progress.as_mut().and_then(|progress| progress.take());
            if let Some(settled) = progress {
                streams.note_progress(stream.id, settled);
            }
            self.list(id);
        }
    }

    fn pause(&mut self, member: Member, paused: bool) {
        let stream = &mut *self.stream;
        let Some(id) = stream.find(member) else { return };
        match stream.readers.get_mut(&id) {
            Some(Reader::Messages(consumer)) => consumer.is_paused = paused,
            Some(Reader::Chunks { is_paused, handed, .. }) => (*is_paused, *handed) = (paused, 0),
            _ => return,
        }
        if !paused {
            self.list(id);
        }
    }

    /// Messages between where a consumer stands and the end.
    fn available(&self, member: Member) -> u64 {
        let stream = &*self.stream;
        let stands_at = stream.find(member).and_then(|id| stream.machine.stands_at(id));
        stands_at.map_or(0, |stands_at| stream.machine.next_offset().saturating_sub(stands_at))
    }

    fn ask(&mut self, port: PortId, command: StreamCommand, post: &mut Post) {
        let AtStream { stream, streams: Streams { common, effects, .. }, .. } = self;
        match command {
            StreamCommand::Consume { token, handle, consumer, format, from, filter, rate, user, name } => {
                post.reply(port, token, Ok(Reply::Consuming));
                let rest = (filter, rate, name.map(|name| KnownAs { user, name }));
                self.consume(Member { port, handle }, (consumer, format), from, rest);
            }
            StreamCommand::Subscribe { token, handle, from: begin, credit, filter, group } => {
                let group = group.map(|SingleActive { name, partition }| Group {
                    name: name.as_bytes().into(),
                    partition,
                });
                if group.as_ref().is_some_and(|group| !stream.machine.agrees(group)) {
                    let text = "the group has members for which the stream is another partition, or none";
                    return post.reply(port, token, Err(Refusal::precondition(Reason::WrongState, text)));
                }
                post.reply(port, token, Ok(Reply::Consuming));
                let StreamFilter { chunks, messages } = filter;
                let filter = chunks.map(Box::new);
                let new = NewReader { from: from(begin), filter, credit: credit.into(), group };
                let id = stream.machine.attach(new, common, effects);
                let choosing = messages.map(|wanted| Box::new(Choosing::new(wanted)));
                let member = Member { port, handle };
                stream.add(id, Reader::Chunks { member, is_paused: false, handed: 0, choosing });
                self.sort();
                self.list(id);
            }
            StreamCommand::Credit { handle, chunks } => {
                if let Some(id) = stream.find(Member { port, handle }) {
                    stream.machine.credit(id, chunks.into());
                    self.list(id);
                }
            }
            StreamCommand::Continue { handle, from: begin } => {
                if let Some(id) = stream.find(Member { port, handle }) {
                    stream.machine.answer(id, Some(from(begin)), common, effects);
                    self.sort();
                    self.list(id);
                }
            }
            StreamCommand::Unsubscribe { token, handle } => {
                self.remove(Member { port, handle });
                post.reply(port, token, Ok(Reply::Cancelled));
            }
            StreamCommand::Disband { token } => {
                stream.machine.disband();
                for member in stream.subscribers() {
                    self.remove(member);
                }
                post.reply(port, token, Ok(Reply::Cancelled));
            }
            StreamCommand::Sequence { token, reference } => {
                let sequence = StreamReply::Sequence(stream.machine.sequence(&reference));
                post.reply(port, token, Ok(Reply::Stream(sequence)));
            }
            StreamCommand::QueryOffset { token, reference } => {
                let offset = StreamReply::Offset(stream.stored(&reference));
                post.reply(port, token, Ok(Reply::Stream(offset)));
            }
            StreamCommand::Stats { token } => {
                let machine = &stream.machine;
                let is_empty = machine.messages() == 0;
                let stats = StreamStats {
                    first_offset: (!is_empty).then(|| machine.first_offset()),
                    last_chunk_id: machine.last_chunk_id(),
                    committed_offset: (!is_empty).then(|| machine.next_offset() - 1),
                    messages: machine.messages(),
                };
                post.reply(port, token, Ok(Reply::Stream(StreamReply::Stats(stats))));
            }
            StreamCommand::Resolve { token, from: begin } => {
                let new = NewReader { from: from(begin), filter: None, credit: 0, group: None };
                let id = stream.machine.attach(new, common, effects);
                stream.add(id, Reader::Asks { port, token });
                self.sort();
                self.answer(id, post);
            }
            // Written to the log before they come here.
            StreamCommand::StoreOffset { .. } | StreamCommand::Truncate { .. } => {}
        }
    }
}

impl Streams {
    /// Carries out a connection's command for the stream in a slot.
    #[cold]
    pub(crate) fn carry(
        &mut self,
        (machines, commons): (&mut Machines, &mut Commons),
        turn: &mut Turn<'_>,
        slot: u32,
        port: PortId,
        command: QueueCommand,
    ) -> Done {
        let Some(mut at) = self.at(machines, slot) else { return Done::Nothing };
        let id = at.stream.id;
        if let QueueCommand::Stream(command) = &command
            && let StreamCommand::StoreOffset { user, reference, offset } = &**command
        {
            // How far queues were fed is nobody's to say.
            if reference.starts_with(FEED) {
                return Done::Nothing;
            }
            at.stream.tell(reference, *offset, turn.limits.stream_offsets_told_max);
            let owner = Some(at.streams.offset_rules.owner(*user, port));
            let track = Track { stream: id, at_ms: turn.now.wall_ms, offset: *offset, owner, reference };
            commons.append(turn.now, 0, Brings::STREAM, |records| track.write(records));
            return Done::Nothing;
        }
        if let QueueCommand::Stream(command) = &command
            && let StreamCommand::Truncate { token, before } = **command
        {
            at.streams.append_truncate(commons, turn.now, id, before, (port, token));
            return Done::Nothing;
        }
        at.streams.common.read_with(turn.limits.stream_reads_ahead, turn.limits.stream_read_bytes_max);
        if let QueueCommand::Credit { handle, limit, drain, echo: true } = command {
            let member = Member { port, handle };
            at.with(member, |consumer| consumer.credit(limit, drain));
            self.dispatch(machines, turn);
            let ready = self.at(machines, slot).map_or(0, |at| at.available(member));
            turn.post.event(port, Event::Available { consumer: handle, ready });
            return Done::Nothing;
        }
        at.carry(turn, port, command)
    }
}

impl AtStream<'_> {
    fn carry(&mut self, turn: &mut Turn<'_>, port: PortId, command: QueueCommand) -> Done {
        let stream = &*self.stream;
        let definition = stream.definition().clone();
        match command {
            QueueCommand::Stream(command) => self.ask(port, *command, turn.post),
            QueueCommand::Consume { token, handle, consumer } => {
                turn.post.reply(port, token, Ok(Reply::Consuming));
                let member = Member { port, handle };
                let new = (consumer, Format::Amqp10);
                self.consume(member, new, StreamFrom::Next, Default::default());
            }
            // Its readers say so in a request of streams.
            QueueCommand::Select { token, .. } => {
                turn.post.reply(port, token, Err(Refusal::not_for_streams("selectors", &definition)));
            }
            QueueCommand::Get { token, .. } | QueueCommand::Pick { token, .. } => {
                turn.post.reply(port, token, Err(Refusal::not_for_streams("basic.get", &definition)));
            }
            QueueCommand::Purge { token } | QueueCommand::Discard { token, .. } => {
                turn.post.reply(port, token, Err(Refusal::not_for_streams("queue.purge", &definition)));
            }
            QueueCommand::SettleAt(settle) => {
                let refusal = Refusal::not_for_streams("settling by position", &definition);
                turn.post.reply(port, settle.token, Err(refusal));
            }
            QueueCommand::Counts { token } => {
                let ready = stream.machine.messages();
                // As RabbitMQ has it, a declaration is told of no consumers.
                let reply = Reply::Declared { queue: definition, is_new: false, ready, consumers: 0 };
                turn.post.reply(port, token, Ok(reply));
            }
            // In use or not, empty or not, as in RabbitMQ.
            QueueCommand::Delete { token, .. } => {
                return Done::Delete { definition, token: Some(token), messages: 0 };
            }
            QueueCommand::Cancel { token, handle, .. } => {
                self.remove(Member { port, handle });
                if let Some(token) = token {
                    turn.post.reply(port, token, Ok(Reply::Cancelled));
                }
            }
            QueueCommand::Leave => {
                for member in stream.of_port(port) {
                    self.remove(member);
                }
            }
            QueueCommand::Credit { handle, limit, drain, .. } => {
                self.with(Member { port, handle }, |consumer| consumer.credit(limit, drain));
            }
            QueueCommand::Prefetch { handle, prefetch } => {
                self.with(Member { port, handle }, |consumer| consumer.prefetch(prefetch));
            }
            QueueCommand::Pause { handle, paused } => self.pause(Member { port, handle }, paused),
            QueueCommand::Settle { handle, range, outcome } => {
                self.with(Member { port, handle }, |consumer| consumer.settle(range, outcome));
            }
            QueueCommand::Accept { handle, ranges } => {
                self.with(Member { port, handle }, |consumer| {
                    ranges.iter().for_each(|range| consumer.settle(*range, Outcome::Accepted));
                });
            }
            QueueCommand::Unsent { handle, range } => {
                self.with(Member { port, handle }, |consumer| consumer.unsent(range));
            }
            // Nothing of a stream is leased.
            QueueCommand::LeaseOver(_) | QueueCommand::SettleOver { .. } | QueueCommand::Renew { .. } => {}
            QueueCommand::Modify(modified) => {
                let member = Member { port, handle: modified.handle };
                let Modified { range, outcome, .. } = *modified;
                self.with(member, |consumer| consumer.settle(range, outcome));
            }
        }
        Done::Nothing
    }
}
