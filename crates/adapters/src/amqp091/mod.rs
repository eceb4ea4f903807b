//! AMQP 0-9-1 and the broker.
//!
//! [`Adapter`] is a connection; the work is in rooms of its own: the handshake in `login`, methods that ask for
//! something in `methods`, publishing and confirms in `publishing`, consuming and settling in `consuming`, commits in
//! `committing`. Parts with their own fields are below it, and take what they need as arguments: `channel`, `consumer`,
//! `pending`, `settling`, `shared_prefetch`, `transaction`.
//! While the broker's answer to a method is awaited nothing further is read, so that everything a client says takes
//! effect in the order it was said.

mod barriers;
mod by_position;
mod channel;
mod committing;
mod confirms;
mod consumer;
mod consuming;
mod direct_reply;
mod finder;
mod firehose;
mod following;
mod leasing;
mod listing;
mod login;
mod looking_again;
mod methods;
mod news;
mod outgoing;
mod parked;
mod pending;
mod publish_options;
mod publishing;
mod selecting;
mod settling;
mod shared_prefetch;
mod sharing;
mod streams;
mod tables;
mod transaction;
mod unacked;

use crate::alarm::Alarm;
use crate::clients::Client;
use crate::context::{Context, Gravity, Note};
use crate::credentials;
use crate::following::Roaming;
use crate::handles::{Handles, LeasesOver};
use crate::settings::Peer;
use ::amqp091::method::{Method, MethodId};
use ::amqp091::{Connection, Event as WireEvent, Input, ReplyCode};
use base::{Now, Output};
use broker::catalog::{Actor, Catalog, Refusal, VhostId};
use broker::ledger;
use broker::{ConnectionRow, Event, Events};
use channel::Channels;
use consumer::Consumer;
use finder::Finder;
use login::Login;
use pending::Requests;
use settling::Settled;
use std::sync::Arc;

/// Bytes that a channel takes, here and in the machine.
const CHANNEL_BYTES: usize = 304;

/// Bytes that a consumer takes, here and at its queue, with a long tag.
const CONSUMER_BYTES: usize = 640;

/// A connection that speaks AMQP 0-9-1.
#[derive(Debug)]
pub struct Adapter {
    machine: Connection,
    peer: Peer,
    /// Only until the connection is open.
    login: Option<Box<Login>>,
    /// The user it acts for; once the connection is open.
    actor: Option<Actor>,
    /// How it logged in, as [`credentials::mechanism`] knows it.
    mechanism: u8,
    /// Its client's description of itself, once it has logged in.
    client: Option<Client>,
    channels: Channels,
    consumers: Handles<Consumer>,
    finder: Finder,
    requests: Requests,
    /// The upper half of the number of the publisher of the last channel opened.
    next_channel: u16,
    settled: Settled,
    /// Something is to be told at the end of the turn.
    is_due: bool,
    has_published: bool,
    /// A method is looked at again, by a copy of the catalog that is new enough.
    has_looked: bool,
    /// A channel has as many publishes waiting for the broker as it may.
    is_full: bool,
    /// The client wants to hear of alarms.
    hears_blocked: bool,
    /// The client wants to hear of consumers that end without its doing.
    hears_cancel: bool,
    /// Why publishers are blocked, while they are.
    blocked: Option<Alarm>,
    /// The client was told of it.
    is_told_blocked: bool,
    /// The rest of prefetches that channels share is to be dealt out when the turn ends.
    deals: bool,
    /// Leases that are over, by consumer; until the turn ends.
    leases_over: Option<Box<LeasesOver>>,
    /// Its consumers are to wait: there is much to send.
    is_paused: bool,
    /// A table of deliveries that are not settled takes more or less memory than before.
    is_resized: bool,
    /// Bytes of those tables, where they are large; more than 4 GiB count as that.
    unacked_bytes: u32,
    /// See [`crate::connection::Adapter::counts_tables`].
    pub(crate) counts_tables: bool,
    /// Whether it may go to the shard of the queue it uses.
    roaming: Roaming,
    is_over: bool,
}

impl Adapter {
    /// The server's end of a connection whose protocol header is about to be read.
    pub fn new(context: &mut Context<'_>, peer: &Peer) -> Adapter {
        let mut machine = Connection::server(context.settings.amqp091, context.now);
        machine.ration();
        Adapter {
            machine,
            peer: peer.clone(),
            login: Some(Box::default()),
            actor: None,
            mechanism: 0,
            client: None,
            channels: Channels::default(),
            consumers: Handles::default(),
            finder: Finder::default(),
            requests: Requests::default(),
            next_channel: 0,
            settled: Settled::default(),
            is_due: false,
            has_published: false,
            has_looked: false,
            is_full: false,
            hears_blocked: false,
            hears_cancel: false,
            blocked: None,
            is_told_blocked: false,
            deals: false,
            leases_over: None,
            is_paused: false,
            is_resized: false,
            unacked_bytes: 0,
            counts_tables: false,
            roaming: Roaming::new(context.settings, peer),
            is_over: false,
        }
    }

    /// Takes in bytes of the client: how many are done with. Requests are left alone while there is too much to send;
    /// publishes are not, for as much as came of them at most goes back.
    pub(crate) fn input(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> usize {
        if self.blocked.is_some() {
            return self.input_while_blocked(context, bytes);
        }
        self.take_in(context, bytes)
    }

    /// Takes in bytes of the client up to the first message: no body is read while an alarm holds, even if it came in
    /// one piece with other frames. A message without a body is taken, as RabbitMQ takes it.
    #[cold]
    #[inline(never)]
    fn input_while_blocked(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> usize {
        let mut consumed = 0;
        loop {
            let rest = &bytes[consumed..];
            let until = ::amqp091::frame::until_body(rest);
            let taken = self.take_in(context, &rest[..until.unwrap_or(rest.len())]);
            consumed += taken;
            let Some(until) = until else { break };
            let is_over = self.is_over || context.shard.has_worked_enough();
            if self.is_publishing() || self.is_waiting() || is_over || self.is_unread(context) {
                break;
            }
            if taken < until {
                // It began a message, which the machine leaves alone until it is whole.
                self.has_published = self.machine.is_open();
                break;
            }
            // Discarded messages, as on a channel that closes, make no publisher.
        }
        self.tell_blocked();
        consumed
    }

    /// There is too much to send to listen on.
    fn is_unread(&self, context: &Context<'_>) -> bool {
        self.output_len() > context.settings.unread_bytes_max
    }

    #[inline(always)]
    fn take_in(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> usize {
        let mut input = Input::new(bytes);
        while !self.is_waiting() && !context.shard.has_worked_enough() {
            let event = self.machine.poll_event(context.now, &mut input);
            // By reference, for most of all: bytes just written in small parts and moved in larger ones stall the
            // processor.
            match &event {
                Some(WireEvent::Publish { channel, publish, properties, body }) => {
                    self.publish(context, *channel, publish, properties, body);
                    continue;
                }
                // As many, and never answered.
                Some(WireEvent::Method { channel, method: method @ Method::BasicAck(_) }) => {
                    self.method(context, *channel, method);
                    continue;
                }
                _ => {}
            }
            let Some(event) = event else { break };
            self.heard(context, event);
            if self.is_unread(context) {
                break;
            }
        }
        self.pass_on_settled(context);
        if input.consumed() > 0 {
            // Where an answer is waited for the machine is not asked to the end, and has not seen that somebody speaks.
            self.machine.note_alive();
        }
        input.consumed()
    }

    fn heard(&mut self, context: &mut Context<'_>, event: WireEvent<'_>) {
        match event {
            WireEvent::Publish { channel, publish, properties, body } => {
                self.publish(context, channel, &publish, &properties, body);
            }
            WireEvent::Method { channel, method } => self.method(context, channel, &method),
            WireEvent::Gathered(message) => self.heard(context, message.event()),
            WireEvent::Gathering { bytes } => self.gather(context, bytes),
            WireEvent::ProtocolHeader => self.start(context),
            WireEvent::StartOk(start_ok) => self.log_in(context, &start_ok),
            WireEvent::Open(open) => self.open(context, &open),
            WireEvent::ChannelOpen { channel } => self.open_channel(context, channel),
            WireEvent::ChannelClose { channel, .. } => {
                self.tell_confirms();
                self.drop_channel(context, channel);
                self.machine.channel_close_ok(channel);
            }
            WireEvent::ChannelFailed { channel, error } => {
                self.note(context, Gravity::Error, format!("channel {channel} error: {error}"));
                self.tell_confirms_before(&error);
                self.drop_channel(context, channel);
            }
            WireEvent::Close(_) => {
                self.tell_confirms();
                // Its exclusive queues are gone when it hears so.
                self.drop_channels(context);
                context.shard.close_port(context.now, context.port);
                self.machine.close_ok();
            }
            WireEvent::Failed(error) => {
                self.requests.give_up();
                self.note(context, Gravity::Error, format!("error: {error}"));
                self.tell_confirms_before(&error);
                // Behind its close nothing more may be said: no confirm, no delivery.
                self.drop_channels(context);
            }
            WireEvent::Closed => self.is_over = true,
            // The settled limits are the machine's matter; challenges are not among the mechanisms offered.
            WireEvent::TuneOk(_) | WireEvent::SecureOk(_) | WireEvent::ChannelClosed { .. } => {}
            // A server never hears these.
            WireEvent::Start(_)
            | WireEvent::Secure(_)
            | WireEvent::Tune(_)
            | WireEvent::OpenOk
            | WireEvent::ChannelOpenOk { .. }
            | WireEvent::Deliver { .. }
            | WireEvent::Return { .. }
            | WireEvent::GetOk { .. } => {}
        }
    }

    pub(crate) fn event(&mut self, context: &mut Context<'_>, event: &Event, events: &Events) {
        match event {
            Event::Deliver { consumer, memory, items } => {
                self.deliver(context, *consumer, *memory, items.clone(), events);
            }
            Event::Barrier { consumer, memory, item } => {
                self.deliver_barrier(context, *consumer, (*memory, *item), events);
            }
            Event::Shown { consumer, memory, item } => {
                self.deliver_telling(context, *consumer, (*memory, true), *item..*item + 1, events);
            }
            Event::Confirmed { publisher, first, last } => {
                self.confirmed(context, *publisher, *first, *last);
            }
            Event::Reply { token, reply } => self.answered(context, *token, reply.clone()),
            Event::Got { token, consumer, memory, item, ready } => {
                self.got(context, *token, *consumer, (*memory, *item), *ready, events);
            }
            Event::Refused { publisher, first, last, .. } => {
                self.publishes_refused(context, *publisher, *first, *last)
            }
            // Link credit is AMQP 1.0's, and only there consumers are told that they are active, and senders that
            // their queue is gone.
            Event::Drained { .. }
            | Event::Available { .. }
            | Event::Active { .. }
            | Event::QueueDeleted { .. }
            | Event::StreamRestarted { .. }
            // Nobody subscribes to chunks here.
            | Event::Chunk { .. } => {}
            Event::TimedOut { consumer, has_more: false, .. } => self.timed_out(context, *consumer),
            Event::Leased { consumer, lease_ms } => self.leased(*consumer, *lease_ms),
            Event::LeaseOver { consumer, ranges } => self.leases_over.get_or_insert_default().0.push((*consumer, ranges.clone())),
            Event::TimedOut { .. } => {}
            Event::Cancelled { consumer, queue } => self.cancelled(context, *consumer, queue),
            Event::Introduce => context.shard.introduce(context.port, &self.peer.name),
            // A client that is not let in yet hears nothing, as from RabbitMQ, and no answer is waited for.
            Event::Close { .. } if self.login.is_some() => self.is_over = true,
            Event::Close { refusal } => self.close(context, refusal, MethodId::NONE),
        }
    }

    /// The turn ends: confirms gathered are told.
    pub(crate) fn end_turn(&mut self, context: &mut Context<'_>) {
        if let Some(over) = self.leases_over.take() {
            self.end_leases(context, *over);
        }
        self.pass_on_settled(context);
        self.tell_confirms();
        let spare = self.machine.take_spare();
        if spare > 0 {
            context.shard.give(context.port, ledger::Kind::Bodies, spare);
        }
        if self.is_full {
            self.see_whether_full(context);
        }
        if let Some(leaving) = self.settled.take_leaving() {
            self.see_off(context, leaving);
        }
        if self.deals {
            self.deal_out(context);
        }
        if self.has_published && self.roaming.may_go() {
            self.look_for_home(context);
        }
    }

    #[inline]
    pub(crate) fn output(&mut self) -> &mut Output {
        self.machine.output_mut()
    }

    /// Bytes to be sent.
    #[inline]
    pub(crate) fn output_len(&self) -> usize {
        self.machine.output().len()
    }

    /// Bytes of memory of the output.
    pub(crate) fn output_bytes(&self) -> usize {
        self.machine.output().capacity()
    }

    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_full || self.requests.is_waiting()
    }

    /// It published a message, or begins to: while its input is kept in memory it can be held.
    pub(crate) fn is_publishing(&self) -> bool {
        self.has_published || self.machine.is_gathering()
    }

    /// While nothing is read the client's silence is not held against it.
    pub(crate) fn set_reading(&mut self, _now: Now, reads: bool) {
        self.machine.set_reading(reads);
    }

    /// The peer took some of its output.
    pub(crate) fn note_alive(&mut self) {
        self.machine.note_alive();
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(crate) fn deadline(&self) -> Option<u64> {
        self.machine.poll_deadline()
    }

    pub(crate) fn handle_deadline(&mut self, context: &mut Context<'_>) {
        self.machine.handle_deadline(context.now);
        let mut nothing = Input::new(&[]);
        while let Some(event) = self.machine.poll_event(context.now, &mut nothing) {
            self.heard(context, event);
        }
    }

    /// The socket is gone.
    pub(crate) fn closed(&mut self, context: &mut Context<'_>) {
        if self.actor.is_some() && !self.is_over {
            let text = "client unexpectedly closed TCP connection".to_owned();
            self.note(context, Gravity::Warning, text);
        }
        self.announce_ends(context);
        self.channels.iter().for_each(|_| context.shard.tallies().channel_went());
    }

    /// An alarm was raised, changed or cleared. Only a connection that publishes hears of it, and not before it does.
    pub(crate) fn set_blocked(&mut self, _context: &mut Context<'_>, alarm: Option<Alarm>) {
        self.blocked = alarm;
        self.tell_blocked();
    }

    fn tell_blocked(&mut self) {
        if !self.hears_blocked || !self.is_publishing() || !self.machine.is_open() {
            return;
        }
        match self.blocked {
            Some(alarm) if !self.is_told_blocked => {
                let reason = alarm.reason().as_bytes();
                self.machine.send(0, &::amqp091::method::ConnectionBlocked { reason });
            }
            None if self.is_told_blocked => self.machine.send(0, &::amqp091::method::ConnectionUnblocked {}),
            _ => {}
        }
        self.is_told_blocked = self.blocked.is_some();
    }

    /// The user it acts for, once it is open.
    pub(crate) fn user(&self) -> Option<&Arc<str>> {
        self.actor.as_ref().map(|actor| &actor.user)
    }

    /// The virtual host it is in, once it is open.
    pub(crate) fn vhost(&self) -> Option<VhostId> {
        self.actor.as_ref().map(|actor| actor.vhost)
    }

    /// How many channels are open.
    pub(crate) fn channels(&self) -> usize {
        self.channels.len()
    }

    pub(crate) fn row(&self, catalog: &Catalog) -> ConnectionRow {
        let over = self.is_over.then_some("closing");
        let row = ConnectionRow::new(catalog, self.actor.as_ref(), "AMQP 0-9-1", over);
        ConnectionRow {
            given_name: self.peer.given_name().map(Box::from),
            frame_max: self.machine.frame_max(),
            channel_max: self.machine.channel_max(),
            timeout_s: self.machine.heartbeat_s(),
            mechanism: credentials::mechanism(self.mechanism),
            client: self.client.clone(),
            ..row
        }
    }

    /// Bytes that its channels and consumers take, here and at their queues, and its deliveries that are not settled.
    #[inline]
    pub(crate) fn table_bytes(&mut self) -> usize {
        if std::mem::take(&mut self.is_resized) {
            let bytes: usize = self.channels.iter().map(|channel| channel.unacked.counted_bytes()).sum();
            self.unacked_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        }
        let unacked = self.unacked_bytes as usize;
        self.channels.len() * CHANNEL_BYTES + self.consumers.len() * CONSUMER_BYTES + unacked
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Adapter>()
            + self.channels.heap_bytes()
            + self.machine.capacity()
            + self.consumers.heap_bytes()
            + self.finder.heap_bytes()
    }

    fn note(&self, context: &mut Context<'_>, gravity: Gravity, text: String) {
        let text = format!("AMQP connection {}: {text}", self.peer.name);
        context.notes.push(Note { gravity, text });
    }

    /// A refusal of the broker's: closes the channel or the connection, whichever its code calls for.
    fn refuse(&mut self, context: &mut Context<'_>, channel: u16, refusal: &Refusal, method: MethodId) {
        if refusal.code.is_hard() || channel == 0 {
            return self.close(context, refusal, method);
        }
        self.tell_confirms();
        self.note(context, Gravity::Error, format!("channel {channel} error: {}", refusal.reply_text()));
        self.drop_channel(context, channel);
        self.machine.close_channel(channel, code(refusal), &refusal.reply_text(), method);
    }

    fn close(&mut self, context: &mut Context<'_>, refusal: &Refusal, method: MethodId) {
        self.note(context, Gravity::Error, format!("error: {}", refusal.reply_text()));
        self.tell_confirms();
        self.machine.close_connection(context.now, code(refusal), &refusal.reply_text(), method);
        self.requests.give_up();
        self.drop_channels(context);
    }

    fn drop_channels(&mut self, context: &mut Context<'_>) {
        let numbers: Vec<u16> = self.channels.iter().map(|channel| channel.number).collect();
        numbers.into_iter().for_each(|channel| self.drop_channel(context, channel));
    }
}

/// The protocol's own name for the code.
fn code(refusal: &Refusal) -> ReplyCode {
    ReplyCode::from_number(refusal.code.number()).unwrap_or(ReplyCode::InternalError)
}
