//! Streams in the simulated world: clients of the stream protocol, and AMQP clients that publish to streams, under a judge of
//! their own.
//!
//! They share node, network, disk, dice and clock with everything else of a run. A stream is `s` and its number; messages
//! published to one have numbers from [`FIRST_MESSAGE`] on, so that nobody takes them for those of queues.

mod client;
mod names;
mod oracle;

pub use client::{Asked, Spec, StreamClient, Subscription};
pub use names::{FIRST_FED, FIRST_MESSAGE, Reference, USERS, VALUES, reference_name, stream_name};
pub use oracle::{Oracle, Publisher};

use crate::client::{Kind, State, queue_name};
use crate::oracle::{Check, Stage};
use crate::world::World;
use adapters::{NODE_SLOT, Protocol};
use base::id::{PortId, ShardId};
use broker::StreamDamage;
use broker::access::{PasswordHash, SALT};
use broker::catalog::{Actor, Op, VhostId};
use client::{Arrived, Heard};
use queue::stream::DamageReason;
use stream_protocol::{List, OffsetSpec, Request, ResponseCode};

/// Connections of the stream protocol there may be at once.
pub const STREAM_CLIENTS_MAX: usize = 3;

/// Questions at once.
const ASKED_AT_ONCE: usize = 200;

/// Chunks a subscription that reads all may be sent at once.
const CREDIT_MAX: u16 = 1000;

/// The streams of a run, and their clients.
#[derive(Debug, Default)]
pub struct Streams {
    /// The clients.
    pub clients: [Option<StreamClient>; STREAM_CLIENTS_MAX],
    /// The judge.
    pub oracle: Oracle,
    /// All there is is read.
    is_draining: bool,
}

impl Streams {
    /// None yet, of which each keeps so many names of stored offsets.
    pub fn new(names_max: usize) -> Streams {
        let mut streams = Streams::default();
        streams.oracle.names_max = names_max;
        streams
    }
}

impl World {
    /// Something of the stream's log is lost.
    pub fn is_stream_damaged(&self, stream: usize) -> bool {
        self.oracle.has_lost(self.streams.oracle.log(stream))
    }

    /// Bytes move between a client of the stream protocol and the node, and what the client heard is judged.
    pub fn exchange_stream(&mut self, at: usize, all: bool) -> Check {
        let World { streams, net, dice, now, .. } = self;
        let Some(client) = &mut streams.clients[at] else { return Ok(()) };
        let mut heard = Vec::new();
        client.exchange(*now, (!all).then_some(dice), net, &mut heard);
        for one in heard {
            self.stream_heard(at, one)?;
        }
        if self.streams.clients[at].as_ref().is_some_and(|client| client.state == State::Over) {
            self.forget_stream_client(at);
        }
        Ok(())
    }

    fn stream_heard(&mut self, at: usize, heard: Heard) -> Check {
        let Some(client) = &mut self.streams.clients[at] else { return Ok(()) };
        let number = client.number;
        match heard {
            Heard::Open => self.note(format!("c{number} is open")),
            Heard::Answered(asked, code, value) => {
                self.note(format!("c{number} hears of {asked:?}: {code} {value:?}"));
                self.stream_answered(at, asked, code, value)?;
            }
            Heard::Confirmed(id, ids) => {
                self.trace.note(format!("c{number} hears that {ids:?} of publisher {id} are confirmed"));
                let Some(publisher) = client.publishers.get_mut(&id) else {
                    return Err(format!("c{number} is told of publisher {id}, which it does not have"));
                };
                for publishing_id in ids {
                    let messages = publisher.unconfirmed.remove(&publishing_id);
                    let messages = messages.ok_or_else(|| {
                        format!("c{number} hears that {publishing_id} of publisher {id} is confirmed, and does not wait")
                    })?;
                    self.tally.stream_confirmed += messages.len() as u64;
                    messages.iter().for_each(|message| self.streams.oracle.confirmed(*message));
                }
            }
            Heard::Refused(id, ids, code) => {
                self.trace
                    .note(format!("c{number} hears that {ids:?} of publisher {id} are refused: {code}"));
                let Some(publisher) = client.publishers.get_mut(&id) else { return Ok(()) };
                publisher.is_over = true;
                let stream = publisher.stream;
                let is_there = self.streams.oracle.streams[stream].stage == Stage::There;
                // One created on a log that was damaged before is on one that nobody here has learnt of.
                if is_there && !self.oracle.has_damage() {
                    return Err(format!("publisher {id} of c{number} is refused: {code}"));
                }
            }
            Heard::Chunk(chunk) => self.chunk_came(at, &chunk)?,
            Heard::Gone(name) => {
                self.trace.note(format!("c{number} hears that {name} is gone"));
                for publisher in client.publishers.values_mut() {
                    publisher.is_over |= stream_name(publisher.stream) == name;
                }
                for subscription in client.subscriptions.values_mut() {
                    subscription.is_over |= stream_name(subscription.stream) == name;
                }
            }
            Heard::Closed => self.note(format!("c{number} is closed")),
            Heard::Failed(why) => {
                self.note(format!("c{number} fails: {why}"));
                if !self.is_stopping && !self.oracle.has_damage() {
                    return Err(format!("connection {number} (stream) failed: {why}"));
                }
                client_is_over(&mut self.streams.clients[at]);
            }
        }
        Ok(())
    }

    fn stream_answered(&mut self, at: usize, asked: Asked, code: ResponseCode, value: Option<u64>) -> Check {
        let has_damage = self.oracle.has_damage();
        let World { streams, now, .. } = self;
        let Streams { clients, oracle, .. } = streams;
        let Some(client) = &mut clients[at] else { return Ok(()) };
        let number = client.number;
        let is_there = |oracle: &Oracle, stream: usize| oracle.streams[stream].stage == Stage::There;
        let unexpected = || Err(format!("c{number} asked for {asked:?} and was answered {code}"));
        match asked {
            Asked::Opening if code.is_ok() => {}
            Asked::Opening => return unexpected(),
            Asked::Create(stream) if code.is_ok() => {
                let stage = &mut oracle.streams[stream].stage;
                if *stage == Stage::Asked {
                    *stage = Stage::There;
                }
            }
            Asked::Delete(stream) if code.is_ok() => oracle.streams[stream].stage = Stage::Gone,
            Asked::Create(_) => {
                let is_without_room = self.tally.full > 0 && code == ResponseCode::PRECONDITION_FAILED;
                if !has_damage && !is_without_room {
                    return unexpected();
                }
            }
            Asked::Delete(stream) => {
                if is_there(oracle, stream) && !has_damage {
                    return unexpected();
                }
            }
            Asked::Declare(id) => {
                let Some(publisher) = client.publishers.get_mut(&id) else { return Ok(()) };
                match (code.is_ok(), publisher.reference) {
                    (true, None) => publisher.is_ready = true,
                    (true, Some(reference)) => {
                        let least = oracle.come_to(publisher.stream, reference);
                        let stream = stream_name(publisher.stream);
                        let (reference, stream) = (reference_name(reference), stream.as_bytes());
                        let reference = reference.as_bytes();
                        let request = Request::QueryPublisherSequence { reference, stream };
                        client.ask(*now, Asked::Sequence(id, least), &request);
                    }
                    // RabbitMQ lets none be declared while its disk is full.
                    (false, _) => publisher.is_over = true,
                }
            }
            Asked::Sequence(id, least) => {
                let Some(publisher) = client.publishers.get_mut(&id) else { return Ok(()) };
                let (true, Some(reference), Some(last)) = (code.is_ok(), publisher.reference, value) else {
                    publisher.is_over = true;
                    let is_expected = has_damage || !is_there(oracle, publisher.stream);
                    return if is_expected { Ok(()) } else { unexpected() };
                };
                if self.oracle.has_lost(oracle.log(publisher.stream)) {
                    publisher.is_over = true;
                    return Ok(());
                }
                let again = oracle.reached(publisher.stream, reference, last, least)?;
                let sent = oracle.streams[publisher.stream].outboxes.get(&reference);
                (publisher.is_ready, publisher.last) =
                    (true, sent.map_or(0, |outbox| outbox.sent.len() as u64));
                self.tally.republished += again.len() as u64;
                let few = crate::client::ID_BYTES;
                client.publish(id, &again, few, false);
            }
            Asked::EndPublisher(id) => _ = client.publishers.remove(&id),
            Asked::Subscribe(id) => {
                let Some(subscription) = client.subscriptions.get_mut(&id) else { return Ok(()) };
                subscription.is_over |= !code.is_ok();
                if !code.is_ok() && is_there(oracle, subscription.stream) && !has_damage {
                    return unexpected();
                }
            }
            Asked::Unsubscribe(id) => _ = client.subscriptions.remove(&id),
            Asked::Offset { stream, of, least } => {
                if !is_there(oracle, stream) || self.oracle.has_lost(oracle.log(stream)) {
                    return Ok(());
                }
                if !code.is_ok() && code != ResponseCode::NO_OFFSET {
                    // Which log a new stream is on may not be known yet.
                    return if has_damage { Ok(()) } else { unexpected() };
                }
                self.tally.offsets_told += 1;
                oracle.told(stream, of, value.unwrap_or(0), least)?;
            }
            Asked::Stats(stream) => {
                if self.streams.is_draining {
                    self.read_to_the_end(at, stream, value.map_or(0, |last| last + 1))?;
                }
            }
        }
        Ok(())
    }

    fn chunk_came(&mut self, at: usize, chunk: &Arrived) -> Check {
        let (rots, has_faults) = (self.rots, self.has_faults);
        let World { streams, dice, trace, tally, oracle: queues, .. } = self;
        let Streams { clients, oracle, .. } = streams;
        let Some(client) = &mut clients[at] else { return Ok(()) };
        let (number, id, first) = (client.number, chunk.subscription, chunk.first_offset);
        let Some(subscription) = client.subscriptions.get_mut(&id) else {
            return Err(format!("c{number} gets a chunk for subscription {id}, which it does not have"));
        };
        let stream = subscription.stream;
        trace
            .note(format!("c{number} gets the chunk at {first} of s{stream} for {id}: {:?}", chunk.messages));
        oracle.arrived(stream, chunk, rots)?;
        let count = chunk.messages.as_ref().map_or(0, Vec::len) as u64;
        tally.chunks += 1;
        tally.stream_delivered += count;
        let of = &oracle.streams[stream];
        let may_jump = of.retains || of.is_torn || of.is_unreadable || queues.has_lost(oracle.log(stream));
        let Subscription { spec, end, is_single, .. } = *subscription;
        let is_right = match (subscription.next, spec) {
            (Some(next), _) => first == next || may_jump && first > next,
            (None, _) if may_jump || is_single => true,
            (None, Spec::First) => first == 0,
            (None, Spec::Next) => first >= end,
            (None, Spec::Last) => first + count >= end,
            // Where it could not be sought it is read from further in front; clients leave out what they did not want.
            (None, Spec::Offset(offset)) => {
                first <= offset.max(end) && (first + count > offset.min(end) || has_faults)
            }
        };
        if !is_right {
            return Err(format!(
                "c{number} gets the chunk at {first}, {count} messages, for {id}: {subscription:?}"
            ));
        }
        subscription.next = Some(first + count);
        subscription.first.get_or_insert(first);
        subscription.credit -= 1;
        if subscription.credit < 0 && !is_single {
            return Err(format!("c{number} gets more chunks for {id} than it has credit for"));
        }
        if self.streams.is_draining || dice.one_in(2) {
            let Some(client) = &mut self.streams.clients[at] else { return Ok(()) };
            client.give_credit(id, 1);
        }
        Ok(())
    }

    fn forget_stream_client(&mut self, at: usize) {
        let Some(mut client) = self.streams.clients[at].take() else { return };
        client.vanish(&mut self.net);
        self.streams.oracle.client_gone(client.number);
    }

    /// An administrator adds the users there are besides the first.
    pub fn add_users(&mut self) {
        let World { node, now, .. } = self;
        let home = &mut node.berths[0].home;
        let port = PortId::here(ShardId(0), NODE_SLOT, 1);
        home.shard.open_port(port, Actor::internal(VhostId::default(), port));
        for name in &USERS[1..] {
            let password = Some(PasswordHash::new("guest", [7; SALT]));
            home.shard.request(
                *now,
                port,
                1,
                Op::AddUser { name: (*name).into(), password, tags: Vec::new() },
            );
            let all = || ".*".into();
            let (user, vhost) = ((*name).into(), "/".into());
            let op = Op::SetPermissions { user, vhost, configure: all(), write: all(), read: all() };
            home.shard.request(*now, port, 2, op);
        }
        // The outcome is not waited for.
        home.shard.close_port(*now, port);
    }

    /// A client of the stream protocol connects, if there is a place for it.
    pub fn connect_stream(&mut self) -> Option<usize> {
        let at = self.streams.clients.iter().position(Option::is_none)?;
        let line = self.net.open(self.here());
        let shard = self.dice.below(self.node.berths.len() as u64) as usize;
        let number = self.next_connection();
        self.note(format!("c{number} connects to shard {shard} over the stream protocol"));
        let user = if self.plan.crowds { self.dice.below(USERS.len() as u64) as usize } else { 0 };
        self.streams.clients[at] = Some(StreamClient::new(number, line, user, self.now));
        self.node.accept(shard, line, Protocol::Stream);
        Some(at)
    }

    /// A client of the stream protocol is gone without a word.
    pub fn vanish_stream(&mut self, at: usize) {
        if let Some(number) = self.streams.clients[at].as_ref().map(|client| client.number) {
            self.note(format!("c{number} vanishes"));
            self.forget_stream_client(at);
        }
    }

    /// An open client of the stream protocol, rolled.
    pub fn any_stream_client(&mut self) -> Option<usize> {
        let is_open = |client: &StreamClient| client.state == State::Open;
        let open: Vec<usize> = (0..STREAM_CLIENTS_MAX)
            .filter(|at| self.streams.clients[*at].as_ref().is_some_and(is_open))
            .collect();
        self.any_of(&open)
    }

    /// The node said that something of a stream cannot be read.
    pub fn stream_torn(&mut self, damage: &StreamDamage) -> Check {
        self.note(format!("damage is reported: {damage}"));
        let number = oracle::number_of(&damage.stream.name);
        let known = number.and_then(|number| self.streams.oracle.streams.get(number));
        // A reader that goes on behind an unreadable part goes on in the midst of a chunk, and reports that.
        let is_second = known.is_some_and(|stream| stream.is_unreadable);
        let passes = !self.rots && (is_second || matches!(damage.damage.reason, DamageReason::Disk(_)));
        let is_expected = self.rots || passes && self.has_faults;
        if !is_expected {
            return Err(format!("a stream is damaged though nothing failed: {damage}"));
        }
        if let Some(stream) = number.and_then(|number| self.streams.oracle.streams.get_mut(number)) {
            stream.is_unreadable |= passes;
            stream.was_unreadable |= passes;
            stream.is_torn |= !passes;
        }
        self.tally.torn += 1;
        Ok(())
    }

    /// The node rests: offsets that connected clients have stored are on disk.
    pub fn streams_rest(&mut self) -> Check {
        for at in 0..STREAM_CLIENTS_MAX {
            if let Some(client) = &self.streams.clients[at] {
                self.streams.oracle.rests(client.number);
            }
        }
        let rows = self.node.queues();
        self.streams.oracle.learn(&rows);
        self.streams.oracle.check_counts(&rows, |log| self.oracle.has_lost(log))?;
        self.streams.oracle.fed_rest(&rows, &|log| self.oracle.has_lost(log))
    }

    /// Everything is read from every stream, and it is what must be there.
    pub fn drain_streams(&mut self) -> Check {
        if self.streams.oracle.streams.is_empty() {
            return Ok(());
        }
        self.note("drain of streams");
        let at = self.connect_stream().ok_or("no place for a client")?;
        self.rest_while(|_| false)?;
        self.streams.is_draining = true;
        let there: Vec<usize> = self
            .streams
            .oracle
            .there()
            .into_iter()
            .filter(|stream| !self.is_stream_damaged(*stream))
            .collect();
        for stream in &there {
            self.subscribe(at, *stream, Spec::First, CREDIT_MAX, false);
            for (count, of) in (1..).zip(self.asked_at_the_end(*stream)) {
                self.query_offset(at, *stream, of);
                if count % ASKED_AT_ONCE == 0 {
                    self.rest_while(|_| false)?;
                }
            }
            self.rest_while(|_| false)?;
            let World { streams, now, .. } = self;
            let Some(client) = &mut streams.clients[at] else {
                return Err("the connection that reads all streams is lost".to_owned());
            };
            let name = stream_name(*stream);
            client.ask(*now, Asked::Stats(*stream), &Request::StreamStats { stream: name.as_bytes() });
            self.rest_while(|_| false)?;
        }
        self.streams.is_draining = false;
        self.vanish_stream(at);
        self.drain_fed()
    }

    /// The names that are asked for at the end: all, or where they do not all stay those that do, and some others.
    fn asked_at_the_end(&self, stream: usize) -> Vec<Reference> {
        let oracle = &self.streams.oracle;
        let mut names = oracle.tracked(stream);
        if self.plan.crowds {
            let safe = oracle.safe(stream);
            names.retain(|name| name.number % 8 == 0 || safe.binary_search(name).is_ok());
        }
        names
    }

    /// Everything is taken out of the queues that are filled from streams, and it is what must be there.
    fn drain_fed(&mut self) -> Check {
        let at = self.connect(Kind::Amqp091).ok_or("no place for a client")?;
        self.rest_while(|_| false)?;
        let mut there = self.streams.oracle.fed_there();
        // One on what is damaged may refuse everything.
        there.retain(|queue| !self.oracle.has_lost(self.streams.oracle.fed(*queue).log()));
        let rows = self.node.queues();
        for queue in &there {
            let Some(client) = &mut self.clients[at] else { break };
            client.consume(*queue, 0, true, None);
            self.rest_while(|_| false)?;
        }
        for queue in there {
            self.tally.fed += self.streams.oracle.fed(queue).count();
            self.tally.outlived += self.streams.oracle.outlived(queue);
            let name = queue_name(queue);
            let row = rows.iter().find(|row| *row.definition.name == *name);
            let ready = row.map_or(0, |row| row.ready);
            self.streams.oracle.check_fed(queue, ready, |log| self.oracle.has_lost(log))?;
        }
        self.vanish(at);
        Ok(())
    }

    /// The node said where a stream ends, all of which was read.
    fn read_to_the_end(&mut self, at: usize, stream: usize, end: u64) -> Check {
        let Streams { clients, oracle, .. } = &self.streams;
        let Some(client) = &clients[at] else { return Ok(()) };
        let its = client.subscriptions.values().find(|subscription| subscription.stream == stream);
        let of = &oracle.streams[stream];
        let next = its.and_then(|subscription| subscription.next);
        if next.unwrap_or(0) != end && !of.is_torn && !of.is_unreadable {
            return Err(format!("stream {stream} ends at {end} and was read up to {next:?}"));
        }
        let first = its.and_then(|subscription| subscription.first).unwrap_or(end);
        oracle.check_all(stream, first, end)
    }

    /// Opens a subscription.
    pub fn subscribe(&mut self, at: usize, stream: usize, spec: Spec, credit: u16, is_single: bool) {
        let World { streams, now, .. } = self;
        let Streams { clients, oracle, .. } = streams;
        let Some(client) = &mut clients[at] else { return };
        let Some(id) = client.take_id() else { return };
        let name = stream_name(stream);
        let group = [
            stream_protocol::Pair::new("single-active-consumer", "true"),
            stream_protocol::Pair::new("name", "group"),
        ];
        let properties = if is_single { List::new(&group) } else { List::default() };
        let offset: OffsetSpec = spec.on_wire();
        let request =
            Request::Subscribe { subscription_id: id, stream: name.as_bytes(), offset, credit, properties };
        if client.ask(*now, Asked::Subscribe(id), &request) {
            let end = oracle.streams[stream].end();
            let credit = credit.into();
            let subscription = Subscription {
                stream,
                spec,
                is_single,
                next: None,
                first: None,
                credit,
                end,
                is_over: false,
            };
            client.subscriptions.insert(id, subscription);
        }
    }

    /// Asks what is stored under a name.
    pub fn query_offset(&mut self, at: usize, stream: usize, of: Reference) {
        let World { streams, now, .. } = self;
        let Streams { clients, oracle, .. } = streams;
        let Some(client) = &mut clients[at] else { return };
        let least = oracle.least(stream, of, client.number == of.client);
        let (reference, name) = (of.to_string(), stream_name(stream));
        let request = Request::QueryOffset { reference: reference.as_bytes(), stream: name.as_bytes() };
        client.ask(*now, Asked::Offset { stream, of, least }, &request);
    }
}

fn client_is_over(client: &mut Option<StreamClient>) {
    if let Some(client) = client {
        client.state = State::Over;
    }
}
