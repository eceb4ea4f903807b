//! Chunks: subscriptions, their credit, single active consumers, and stored offsets.

use super::partitions::partition_index;
use super::pending::Requests;
use super::rights::Rights;
use super::settings::{
    PAIR_BYTES, PROPERTIES_BYTES_MAX, REFERENCE_BYTES_MAX, STORED_OFFSETS_MAX, SUBSCRIPTIONS_MAX,
};
use super::watching::Watched;
use crate::asking::Client;
use crate::context::Context;
use crate::handles::Handles;
use ::stream_protocol::{Command, Connection, List, OffsetSpec, Pair, Request, Response, ResponseCode};
use base::Memory;
use base::id::QueueId;
use broker::access::Access;
use broker::catalog::QueueDefinition;
use broker::{
    Count, Depth, FILTER_VALUES_MAX, Protocol, QueueCommand, SingleActive, StreamCommand, StreamConsumerRow,
    StreamFilter, StreamFrom, Wanted,
};
use message::chunk::{Filter, HEADER_LEN, Header, Kind};
use message::record::Owner;
use std::ops::Range;
use std::sync::Arc;

/// One subscription.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) id: u8,
    pub(super) stream: Arc<QueueDefinition>,
    /// Where the client wanted to begin.
    offset: OffsetSpec,
    /// The question that the client is, or was last, asked: one at a time.
    turn: Turn,
    /// Messages it was sent.
    consumed: u64,
    /// The offset of the chunk it was sent last.
    offset_at: u64,
    /// Chunks it may be sent.
    credit: u32,
    /// The properties it was made with.
    properties: Box<[(Box<str>, Box<str>)]>,
}

/// Where a subscription of a group stands.
#[derive(Debug, Default)]
struct Turn {
    /// It is the active one, and the client knows where it begins.
    is_reading: bool,
    /// The client was told so and has not answered; under which correlation id.
    asked: Option<(u32, bool)>,
    /// The state it is to be told next.
    next: Option<bool>,
}

impl Turn {
    /// It is the active one as far as the group knows, whether or not its client has answered yet.
    fn is_active(&self) -> bool {
        self.next.or(self.asked.map(|(_, active)| active)).unwrap_or(self.is_reading)
    }
}

/// The subscriptions of a connection. Without any it holds no memory.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    all: Handles<Subscription>,
    /// Handles by the ids that the client chose.
    by_id: Vec<(u8, u32)>,
    /// Those that are to be told that there is room for more, by their handles.
    pub(super) asked: Vec<u32>,
    /// How far consumers said they are since that was handed on, the last of each.
    stored: Vec<StoredOffset>,
    /// Some consumer has said so once.
    pub(super) stores_offsets: bool,
    /// The client takes chunks in frames of version 2.
    pub(super) takes_committed: bool,
    /// They are to wait: there is much to send.
    is_paused: bool,
}

/// How far a consumer is.
#[derive(Debug)]
struct StoredOffset {
    stream: Arc<QueueDefinition>,
    reference: Box<[u8]>,
    offset: u64,
}

/// The parts of a connection that have to do with the end of a subscription.
pub(super) struct Ends<'a> {
    pub(super) machine: &'a mut Connection,
    pub(super) watched: &'a mut Watched,
    pub(super) requests: &'a mut Requests,
}

impl Subscriptions {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    fn handle(&self, id: u8) -> Option<u32> {
        let at = self.by_id.binary_search_by_key(&id, |(own, _)| *own).ok()?;
        Some(self.by_id[at].1)
    }

    fn add(&mut self, subscription: Subscription) -> Option<u32> {
        let id = subscription.id;
        let handle = self.all.add(|_| subscription)?;
        let at = self.by_id.partition_point(|(own, _)| *own < id);
        self.by_id.insert(at, (id, handle));
        Some(handle)
    }

    fn remove(&mut self, handle: u32) -> Option<Subscription> {
        let removed = self.all.remove(handle)?;
        self.by_id.retain(|(_, own)| *own != handle);
        if self.by_id.is_empty() {
            self.by_id = Vec::new();
        }
        Some(removed)
    }

    /// Those of a stream, by their handles.
    fn of(&self, stream: QueueId) -> Vec<u32> {
        let its = self.all.iter().filter(|(_, subscription)| subscription.stream.id == stream);
        its.map(|(handle, _)| handle).collect()
    }

    /// Some subscription is a stream's.
    pub(super) fn has_of(&self, stream: QueueId) -> bool {
        self.all.iter().any(|(_, subscription)| subscription.stream.id == stream)
    }

    fn reads(&self, name: &[u8]) -> bool {
        self.all.iter().any(|(_, subscription)| subscription.stream.name.as_bytes() == name)
    }

    /// Begins a subscription: its handle, when the broker is asked for it. RabbitMQ's rules, in its order.
    pub(super) fn subscribe(
        &mut self,
        context: &mut Context<'_>,
        (rights, client_id): (&Rights, Option<&str>),
        watched: &mut Watched,
        token: u32,
        request: &Request<'_>,
    ) -> Result<u32, ResponseCode> {
        let Request::Subscribe { subscription_id, stream: name, offset, credit, properties } = *request
        else {
            return Err(ResponseCode::INTERNAL_ERROR);
        };
        if self.by_id.len() >= SUBSCRIPTIONS_MAX {
            return Err(ResponseCode::PRECONDITION_FAILED);
        }
        if !rights.may(context, Access::Read, name) {
            return Err(ResponseCode::ACCESS_REFUSED);
        }
        let bytes: usize = properties.iter().map(|pair| PAIR_BYTES + pair.key.len() + pair.value.len()).sum();
        if bytes > PROPERTIES_BYTES_MAX || filter_values(&properties).count() > FILTER_VALUES_MAX {
            return Err(ResponseCode::PRECONDITION_FAILED);
        }
        let group = properties.get(b"name");
        if group.is_some_and(|group| group.len() > REFERENCE_BYTES_MAX) {
            return Err(ResponseCode::PRECONDITION_FAILED);
        }
        let client = Client::of(context.shard.catalog(), rights.actor(), client_id);
        let wanted = |text| Wanted::parse(text, client.macros, Some(&client.asker));
        let messages = properties.get(b"x-filter").map(wanted).transpose();
        let messages = messages.map_err(|_| ResponseCode::PRECONDITION_FAILED)?;
        let stream = rights.stream(context, name).ok_or(ResponseCode::STREAM_DOES_NOT_EXIST)?;
        if self.handle(subscription_id).is_some() {
            return Err(ResponseCode::SUBSCRIPTION_ID_ALREADY_EXISTS);
        }
        let is_single = properties.get(b"single-active-consumer") == Some(b"true");
        let group = match group.filter(|_| is_single).map(str::from_utf8) {
            None if is_single => return Err(ResponseCode::PRECONDITION_FAILED),
            Some(Err(_)) => return Err(ResponseCode::PRECONDITION_FAILED),
            Some(Ok(name)) => {
                let super_stream = properties.get(b"super-stream");
                let partition = super_stream
                    .and_then(|super_stream| partition_index(context, rights, super_stream, &stream));
                Some(SingleActive { name: name.into(), partition })
            }
            None => None,
        };
        let filter = StreamFilter { chunks: filter(&properties), messages };
        let room = context.shard.check_filter(context.port, filter.bytes());
        room.map_err(|_| ResponseCode::PRECONDITION_FAILED)?;
        let turn = Turn { is_reading: !is_single, ..Turn::default() };
        let text = |bytes: &[u8]| Box::from(&*String::from_utf8_lossy(bytes));
        let subscription = Subscription {
            id: subscription_id,
            stream: stream.clone(),
            offset,
            turn,
            consumed: 0,
            offset_at: 0,
            credit: credit.into(),
            properties: properties.iter().map(|pair| (text(pair.key), text(pair.value))).collect(),
        };
        let handle = self.add(subscription).ok_or(ResponseCode::PRECONDITION_FAILED)?;
        watched.add(context, &stream);
        let from = from(offset);
        let command = StreamCommand::Subscribe { token, handle, from, credit, filter, group };
        tell(context, &stream, command);
        Ok(handle)
    }

    /// The broker let a subscription in.
    pub(super) fn subscribed(&self, context: &mut Context<'_>, handle: u32) {
        if self.is_paused
            && let Some(subscription) = self.all.get(handle)
        {
            let QueueDefinition { log, id, .. } = *subscription.stream;
            let command = QueueCommand::Pause { handle, paused: true };
            context.shard.command(context.now, context.port, log, id, command);
        }
    }

    /// A subscription that the broker refused is none.
    pub(super) fn not_subscribed(&mut self, context: &mut Context<'_>, ends: Ends<'_>, handle: u32) {
        let Ends { machine, watched, .. } = ends;
        if let Some(removed) = self.close(context, machine, handle) {
            watched.remove(context, removed.stream.id);
        }
    }

    /// A stream is gone, and with it its subscriptions.
    pub(super) fn remove_of(&mut self, context: &mut Context<'_>, machine: &mut Connection, stream: QueueId) {
        for handle in self.of(stream) {
            self.close(context, machine, handle);
        }
    }

    /// A question its client has not answered goes with it: only subscriptions that are there may have one.
    fn close(
        &mut self,
        context: &mut Context<'_>,
        machine: &mut Connection,
        handle: u32,
    ) -> Option<Subscription> {
        let removed = self.remove(handle)?;
        context.shard.forget_consumer(context.port, handle);
        if let Some((correlation_id, _)) = removed.turn.asked {
            machine.forget(correlation_id);
        }
        Some(removed)
    }

    pub(super) fn unsubscribe(
        &mut self,
        context: &mut Context<'_>,
        mut ends: Ends<'_>,
        id: u8,
    ) -> ResponseCode {
        let Some(handle) = self.handle(id) else {
            return ResponseCode::SUBSCRIPTION_ID_DOES_NOT_EXIST;
        };
        self.end(context, &mut ends, handle);
        ResponseCode::OK
    }

    /// Chunks that are on their way find nobody, so the owner's answer is not waited for.
    fn end(&mut self, context: &mut Context<'_>, ends: &mut Ends<'_>, handle: u32) {
        let Some(removed) = self.close(context, ends.machine, handle) else { return };
        let token = ends.requests.token();
        tell(context, &removed.stream, StreamCommand::Unsubscribe { token, handle });
        ends.watched.remove(context, removed.stream.id);
    }

    /// Ends the subscriptions of a stream that stays.
    pub(super) fn end_of(&mut self, context: &mut Context<'_>, mut ends: Ends<'_>, stream: QueueId) {
        self.of(stream).into_iter().for_each(|handle| self.end(context, &mut ends, handle));
    }

    /// Ends all of them.
    pub(super) fn end_all(&mut self, context: &mut Context<'_>, mut ends: Ends<'_>) {
        let handles: Vec<u32> = self.all.iter().map(|(handle, _)| handle).collect();
        handles.into_iter().for_each(|handle| self.end(context, &mut ends, handle));
    }

    #[inline]
    pub(super) fn give_credit(
        &mut self,
        context: &mut Context<'_>,
        machine: &mut Connection,
        id: u8,
        credit: i16,
    ) {
        let found = self.handle(id);
        let found = found.and_then(|handle| Some((handle, self.all.get_mut(handle)?)));
        let Some((handle, subscription)) = found else {
            let code = ResponseCode::SUBSCRIPTION_ID_DOES_NOT_EXIST;
            context.shard.tallies().stream_errors(code.0, 1);
            return machine.send(&Command::CreditRefused { code, subscription_id: id });
        };
        subscription.credit = subscription.credit.saturating_add_signed(credit.into());
        let Some(subscription) = self.all.get(handle) else { return };
        tell(context, &subscription.stream, StreamCommand::Credit { handle, chunks: credit });
        if !subscription.turn.is_reading {
            // It counts all the same, as with RabbitMQ.
            let code = ResponseCode::PRECONDITION_FAILED;
            context.shard.tallies().stream_errors(code.0, 1);
            machine.send(&Command::CreditRefused { code, subscription_id: id });
        }
    }

    /// A chunk, of which the Bloom filter and the trailer are not the client's matter.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        context: &mut Context<'_>,
        machine: &mut Connection,
        handle: u32,
        memory: &Memory,
        bytes: Range<u32>,
        committed: u64,
    ) {
        let Some(subscription) = self.all.get_mut(handle) else { return };
        let bytes = bytes.start as usize..bytes.end as usize;
        let chunk = &memory[bytes.clone()];
        let header: &[u8; HEADER_LEN] = chunk.first_chunk().expect("chunks are whole");
        let read = Header::read(header).expect("chunks are checked by those who read them");
        if read.kind != Kind::User {
            return;
        }
        let records = u64::from(read.records);
        subscription.consumed += records;
        subscription.offset_at = read.first_offset;
        subscription.credit = subscription.credit.saturating_sub(1);
        let stream = &subscription.stream;
        let (vhost, of) = (stream.vhost, stream.queue_type);
        context.shard.tallies().note_of(vhost, Protocol::Stream, of, Count::Deliver, records);
        let data = bytes.start + read.data_at();
        let data = data..data + read.data_len as usize;
        assert!(data.end <= bytes.end, "chunks are whole");
        let committed = self.takes_committed.then_some(committed);
        machine.deliver(subscription.id, committed, header, memory, data);
    }

    /// Of its group, a subscription is the active one now, or is no longer.
    pub(super) fn activate(
        &mut self,
        context: &Context<'_>,
        machine: &mut Connection,
        handle: u32,
        active: bool,
    ) {
        let Some(subscription) = self.all.get_mut(handle) else { return };
        let (id, turn) = (subscription.id, &mut subscription.turn);
        turn.is_reading = false;
        if turn.asked.is_some() {
            turn.next = Some(active);
            return;
        }
        let request = Request::ConsumerUpdate { subscription_id: id, active };
        // Each subscription is asked one thing at a time, so there is always room for one more.
        let asked = machine.is_open().then(|| machine.request(context.now, &request)).flatten();
        turn.asked = asked.map(|correlation_id| (correlation_id, active));
    }

    /// The client has answered where a subscription goes on.
    pub(super) fn updated(
        &mut self,
        context: &mut Context<'_>,
        machine: &mut Connection,
        correlation_id: u32,
        answer: &Response<'_>,
    ) {
        let Response::ConsumerUpdate { offset, .. } = *answer else { return };
        let is_asked = |subscription: &Subscription| {
            subscription.turn.asked.is_some_and(|(own, _)| own == correlation_id)
        };
        let found = self.all.iter().find(|(_, subscription)| is_asked(subscription));
        let Some(handle) = found.map(|(handle, _)| handle) else { return };
        let Some(subscription) = self.all.get_mut(handle) else { return };
        let active = subscription.turn.asked.take().is_some_and(|(_, active)| active);
        if let Some(next) = subscription.turn.next.take() {
            return self.activate(context, machine, handle, next);
        }
        subscription.turn.is_reading = active;
        let from = from(offset.unwrap_or(subscription.offset));
        let stream = subscription.stream.clone();
        tell(context, &stream, StreamCommand::Continue { handle, from });
    }

    /// Subscriptions that wait for it go on, if there is room. Else they are paused now, and go on with all others.
    pub(super) fn go_on(&mut self, context: &mut Context<'_>, machine: &Connection) {
        let has_room = !self.is_paused && machine.output().len() <= context.settings.output_bytes_low;
        for handle in std::mem::take(&mut self.asked) {
            if let Some(subscription) = self.all.get(handle).filter(|_| has_room) {
                let QueueDefinition { log, id, .. } = *subscription.stream;
                let command = QueueCommand::Pause { handle, paused: false };
                context.shard.command(context.now, context.port, log, id, command);
            }
        }
    }

    /// There is much to send, or no longer: subscriptions pause or go on.
    pub(super) fn set_paused(&mut self, context: &mut Context<'_>, paused: bool) {
        self.is_paused = paused;
        for (handle, subscription) in self.all.iter() {
            let QueueDefinition { log, id, .. } = *subscription.stream;
            let command = QueueCommand::Pause { handle, paused };
            context.shard.command(context.now, context.port, log, id, command);
        }
    }

    /// Keeps how far a consumer is. Nobody is told when that cannot be. It is written once a turn: a client that says so with
    /// each message must not fill the log.
    pub(super) fn store_offset(
        &mut self,
        context: &mut Context<'_>,
        rights: &Rights,
        reference: &[u8],
        name: &[u8],
        offset: u64,
    ) {
        let may = self.reads(name) || rights.may(context, Access::Read, name);
        let stream = rights.stream(context, name).filter(|_| may && reference.len() <= REFERENCE_BYTES_MAX);
        let Some(stream) = stream else { return };
        let Subscriptions { stored, stores_offsets, .. } = self;
        *stores_offsets = true;
        let is_its =
            |known: &&mut StoredOffset| known.stream.id == stream.id && *known.reference == *reference;
        match stored.iter_mut().find(is_its) {
            Some(known) => known.offset = offset,
            None => stored.push(StoredOffset { stream, reference: reference.into(), offset }),
        }
        if stored.len() >= STORED_OFFSETS_MAX {
            self.hand_on_offsets(context, rights);
        }
    }

    /// Has the offsets that consumers stored written.
    pub(super) fn hand_on_offsets(&mut self, context: &mut Context<'_>, rights: &Rights) {
        if self.stored.is_empty() {
            return;
        }
        let user = rights.actor().map_or(0, |actor| Owner::user_of(&actor.user));
        for StoredOffset { stream, reference, offset } in std::mem::take(&mut self.stored) {
            tell(context, &stream, StreamCommand::StoreOffset { user, reference, offset });
        }
    }

    /// As they are listed.
    pub(super) fn rows(&self, depth: Depth) -> impl Iterator<Item = StreamConsumerRow> {
        self.all.iter().map(move |(_, subscription)| StreamConsumerRow {
            id: subscription.id,
            stream: subscription.stream.clone(),
            credits: subscription.credit,
            consumed: subscription.consumed,
            offset: subscription.offset_at,
            active: subscription.turn.is_active(),
            properties: match depth {
                Depth::Whole => subscription.properties.clone(),
                Depth::Numbers => Box::default(),
            },
        })
    }

    /// See [`Handles::version`].
    #[inline]
    pub(super) fn version(&self) -> (usize, u16) {
        self.all.version()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let asked = self.asked.capacity() * size_of::<u32>();
        let references = self.stored.iter().map(|stored| stored.reference.len()).sum::<usize>();
        let stored = self.stored.capacity() * size_of::<StoredOffset>() + references;
        let kept = self.by_id.iter().filter_map(|(_, handle)| self.all.get(*handle));
        let properties = kept.flat_map(|subscription| &subscription.properties);
        let properties: usize = properties.map(|(key, value)| PAIR_BYTES + key.len() + value.len()).sum();
        self.all.heap_bytes() + self.by_id.capacity() * size_of::<(u8, u32)>() + asked + stored + properties
    }
}

/// Where the broker begins.
pub(super) fn from(offset: OffsetSpec) -> StreamFrom {
    match offset {
        OffsetSpec::First => StreamFrom::First,
        OffsetSpec::Last => StreamFrom::Last,
        OffsetSpec::Next => StreamFrom::Next,
        // A number below 0, to which the protocol gives no meaning, counts from the end.
        OffsetSpec::Offset(offset) => match offset.cast_signed() {
            0.. => StreamFrom::Offset(offset),
            count => StreamFrom::LastMessages(count.unsigned_abs()),
        },
        OffsetSpec::Timestamp(timestamp_ms) => StreamFrom::Timestamp(timestamp_ms),
    }
}

fn filter_values<'a>(properties: &List<'a, Pair<'a>>) -> impl Iterator<Item = &'a [u8]> {
    properties.iter().filter(|pair| pair.key.starts_with(b"filter.")).map(|pair| pair.value)
}

/// The choice of chunks that may hold messages with the filter values in `properties`; none: there are no values.
pub(super) fn filter(properties: &List<'_, Pair<'_>>) -> Option<Filter> {
    let mut values = filter_values(properties).peekable();
    values.peek()?;
    let match_unfiltered = properties.get(b"match-unfiltered") == Some(b"true");
    Some(Filter::new(values, match_unfiltered))
}

/// A command to a stream.
pub(super) fn tell(context: &mut Context<'_>, stream: &QueueDefinition, command: StreamCommand) {
    let command = QueueCommand::Stream(Box::new(command));
    context.shard.command(context.now, context.port, stream.log, stream.id, command);
}
