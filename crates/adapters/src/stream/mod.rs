//! The stream protocol and the broker.
//!
//! [`Adapter`] is a connection; the work is in rooms of its own: logins in `login`, requests in `requests`, where streams
//! are in `topology`, streams of streams in `super_streams`, streams that end in `leaving`.
//! Parts with their own fields are below it, and take what they need as arguments: the request that waits for the broker
//! in `pending`, publishing and confirms in `publishers`, chunks in `subscriptions`, the user in `rights`, streams whose
//! end is heard in `watching`.
//! While the broker's answer to a request is awaited nothing further is read, so that everything a client says takes
//! effect in the order it was said; chunks and confirms go on.
//!
//! Not here: streams. A chunk goes out as it lies in memory, and messages go in as they lie in their frame.

mod arrivals;
mod confirms;
mod creating;
mod following;
mod leaving;
mod login;
mod partitions;
mod pending;
mod publishers;
mod requests;
mod rights;
mod settings;
mod subscriptions;
mod super_streams;
mod topology;
mod watching;

pub use arrivals::Arrivals;
pub use settings::{Advertised, StreamSettings};

use crate::alarm::Alarm;
use crate::clients::Client;
use crate::context::{Context, Gravity, Note};
use crate::following::Roaming;
use crate::settings::{Peer, Settings};
use ::stream_protocol::{Command, Connection, Event as WireEvent, Input, Publish};
use arrivals::Arrival;
use base::id::ShardId;
use base::{Now, Output};
use broker::catalog::{Catalog, ReplyCode, VhostId};
use broker::ledger::Kind;
use broker::{ConnectionRow, Depth, Event, Events, Opened};
use login::{Login, port_of};
use pending::Requests;
use publishers::Publishers;
use rights::Rights;
use std::sync::Arc;
use subscriptions::{Ends, Subscriptions};
use watching::Watched;

/// Bytes of a frame that has not all come from which on they are kept here: the socket's would be copied with each read.
const GATHERED_BYTES_MIN: usize = 64 << 10;

/// A connection that speaks the stream protocol.
#[derive(Debug)]
pub struct Adapter {
    machine: Connection,
    /// It counts at its listener, where that has a limit.
    arrival: Option<Arrival>,
    peer: Peer,
    /// Only until the connection is open.
    login: Option<Box<Login>>,
    rights: Rights,
    /// How it logged in.
    mechanism: &'static str,
    /// Its client's description of itself.
    client: Option<Client>,
    publishers: Publishers,
    subscriptions: Subscriptions,
    /// The memory of both.
    tables: Tables,
    /// See [`crate::connection::Adapter::counts_tables`].
    pub(crate) counts_tables: bool,
    /// Streams whose end it must hear of.
    watched: Watched,
    requests: Requests,
    /// The beginning of a long frame.
    gathered: Vec<u8>,
    is_over: bool,
    roaming: Roaming,
    /// The shard it is to go to: until it has gone nothing further is read.
    goes_to: Option<ShardId>,
}

/// Bytes that a subscription takes at its stream.
const READER_BYTES: usize = 512;

/// Bytes that the publishers and subscriptions of a connection take.
#[derive(Debug, Default)]
struct Tables {
    /// Which of them: see [`crate::handles::Handles::version`].
    version: ((usize, u16), (usize, u16)),
    bytes: usize,
}

impl Adapter {
    /// The server's end of a connection just accepted.
    pub fn new(now: Now, settings: &Settings, peer: &Peer) -> Adapter {
        Adapter {
            machine: Connection::server(settings.stream.limits, now),
            arrival: settings.stream.arrivals.came(port_of(peer)),
            peer: peer.clone(),
            login: Some(Box::default()),
            rights: Rights::default(),
            mechanism: "",
            client: None,
            publishers: Publishers::default(),
            subscriptions: Subscriptions::default(),
            tables: Tables::default(),
            counts_tables: false,
            watched: Watched::default(),
            requests: Requests::default(),
            gathered: Vec::new(),
            is_over: false,
            roaming: Roaming::new(settings, peer),
            goes_to: None,
        }
    }

    /// Takes in bytes of the client: how many are done with.
    pub(crate) fn input(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> usize {
        let before = self.gathered.capacity();
        let taken = self.take_in(context, bytes);
        if self.gathered.capacity() != before {
            self.count_gathered(context);
        }
        taken
    }

    /// Counts the memory of a frame that has not come to its end in the ledger. Where there is no room the connection is
    /// closed.
    #[cold]
    fn count_gathered(&mut self, context: &mut Context<'_>) {
        let bytes = self.gathered.capacity();
        let Some(holding) = context.shard.holding_mut(context.port) else { return };
        let before = holding.held_of(Kind::Bodies) as usize;
        if bytes <= before {
            return holding.give(Kind::Bodies, before - bytes);
        }
        if let Err(full) = holding.take(Kind::Bodies, bytes - before) {
            holding.give_all(Kind::Bodies);
            self.gathered = Vec::new();
            let refusal = full.refuse(ReplyCode::ResourceError, &format!("a frame of {bytes} bytes"));
            self.event(context, &Event::Close { refusal }, &Events::default());
        }
    }

    fn take_in(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> usize {
        let gathered = self.gather(context, bytes);
        if gathered > 0 {
            self.machine.note_alive();
        }
        if !self.gathered.is_empty() || self.is_unread(context) {
            return gathered;
        }
        let mut input = Input::new(&bytes[gathered..]);
        let wants_more = self.listen(context, &mut input);
        let rest = input.rest();
        let is_long = rest.len() >= GATHERED_BYTES_MIN && self.machine.wanted() > rest.len();
        if is_long && wants_more && self.machine.is_open() {
            self.gathered.extend_from_slice(rest);
            input.consume(usize::MAX);
        }
        if input.consumed() > 0 {
            // Where an answer is waited for the machine is not asked to the end, and has not seen that somebody speaks.
            self.machine.note_alive();
        }
        gathered + input.consumed()
    }

    /// Whether it heard all there is: the rest is the beginning of a frame.
    fn listen(&mut self, context: &mut Context<'_>, input: &mut Input<'_>) -> bool {
        while !self.is_waiting() && !context.shard.has_worked_enough() {
            match self.machine.poll_event(context.now, input) {
                None => return true,
                // No more goes back than came.
                Some(WireEvent::Publish(publish)) => self.publish(context, &publish),
                Some(event) => {
                    self.heard(context, event);
                    if self.is_unread(context) {
                        return false;
                    }
                }
            }
        }
        false
    }

    /// There is too much to send to listen on.
    fn is_unread(&self, context: &Context<'_>) -> bool {
        self.output_len() > context.settings.unread_bytes_max
    }

    /// Goes on with a long frame of which only the beginning had come; how many bytes belong to it.
    fn gather(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> usize {
        if self.gathered.is_empty() || self.is_waiting() {
            return 0;
        }
        let missing = self.machine.wanted().saturating_sub(self.gathered.len()).min(bytes.len());
        self.gathered.extend_from_slice(&bytes[..missing]);
        let frame = std::mem::take(&mut self.gathered);
        let mut input = Input::new(&frame);
        self.listen(context, &mut input);
        if input.consumed() == 0 && self.machine.is_open() {
            self.gathered = frame;
        }
        missing
    }

    #[inline]
    fn publish(&mut self, context: &mut Context<'_>, publish: &Publish<'_>) {
        let published = self.publishers.publish(context, &self.rights, &mut self.machine, publish);
        if let Err(refusal) = published {
            self.note(context, Gravity::Error, format!("error: {refusal}"));
        }
    }

    fn heard(&mut self, context: &mut Context<'_>, event: WireEvent<'_>) {
        match event {
            WireEvent::Publish(publish) => self.publish(context, &publish),
            WireEvent::Command(Command::Credit { subscription_id, credit }) => {
                self.subscriptions.give_credit(context, &mut self.machine, subscription_id, credit);
            }
            WireEvent::Command(Command::StoreOffset { reference, stream, offset }) => {
                self.subscriptions.store_offset(context, &self.rights, reference, stream, offset);
            }
            WireEvent::Request { correlation_id, request } => {
                // A request sees the offsets that earlier frames stored.
                self.subscriptions.hand_on_offsets(context, &self.rights);
                self.request(context, correlation_id, &request);
            }
            WireEvent::Response { correlation_id, response } => {
                self.subscriptions.updated(context, &mut self.machine, correlation_id, &response);
            }
            WireEvent::Tune(tune) => {
                if let Some(login) = &mut self.login {
                    login.tuned = Some(tune);
                }
            }
            WireEvent::Failed(error) => {
                self.requests.give_up();
                self.note(context, Gravity::Error, format!("error: {error}"));
                // Behind its close nothing more may be said: no confirm, no chunk.
                self.drop_all(context);
            }
            WireEvent::Closed => self.is_over = true,
            // An answer without a question does no harm; the others a server never hears.
            WireEvent::Unasked { .. } | WireEvent::Command(_) | WireEvent::Deliver(_) => {}
        }
    }

    pub(crate) fn event(&mut self, context: &mut Context<'_>, event: &Event, events: &Events) {
        match event {
            Event::Chunk { subscription, memory, bytes, committed_chunk_id, asks } => {
                let memory = &events.memories[*memory as usize];
                let (machine, committed) = (&mut self.machine, *committed_chunk_id);
                let bytes = bytes.clone();
                self.subscriptions.deliver(context, machine, *subscription, memory, bytes, committed);
                if *asks {
                    self.subscriptions.asked.push(*subscription);
                }
            }
            Event::Confirmed { publisher, first, last } => {
                self.publishers.confirmed(context, *publisher, *first, *last);
            }
            Event::Reply { token, reply } => self.answered(context, *token, reply.clone()),
            Event::Active { consumer, active } => {
                self.subscriptions.activate(context, &mut self.machine, *consumer, *active)
            }
            Event::QueueDeleted { queue, .. } => self.stream_gone(context, *queue),
            Event::Cancelled { queue, .. } => self.stream_gone(context, queue.id),
            Event::StreamRestarted { queue } => self.stream_restarted(context, *queue),
            Event::Introduce => context.shard.introduce(context.port, &self.peer.name),
            // As from RabbitMQ: the connection is cut, and clients come again.
            Event::Close { refusal } => {
                self.note(context, Gravity::Error, format!("error: {refusal}"));
                self.drop_all(context);
                self.is_over = true;
            }
            // Streams refuse nothing that was published, and the rest is for consumers of messages.
            Event::Refused { .. }
            | Event::Deliver { .. }
            | Event::Barrier { .. }
            | Event::Got { .. }
            | Event::Drained { .. }
            | Event::Available { .. }
            | Event::TimedOut { .. }
            | Event::Leased { .. }
            | Event::Shown { .. }
            | Event::LeaseOver { .. } => {}
        }
    }

    /// The turn ends: confirms gathered are told.
    pub(crate) fn end_turn(&mut self, context: &mut Context<'_>) {
        if self.publishers.is_due() && self.machine.is_open() {
            self.publishers.tell(&mut self.machine, &context.settings.stream);
        }
        if !self.subscriptions.asked.is_empty() {
            self.subscriptions.go_on(context, &self.machine);
        }
        self.subscriptions.hand_on_offsets(context, &self.rights);
        if self.roaming.may_go() && self.publishers.is_waiting() {
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
        self.publishers.is_full() || self.requests.is_waiting() || self.goes_to.is_some()
    }

    pub(crate) fn is_publishing(&self) -> bool {
        // Offsets that consumers store are written as messages are.
        !self.publishers.is_empty() || self.subscriptions.stores_offsets
    }

    /// While nothing is read the client's silence is not held against it.
    pub(crate) fn set_reading(&mut self, now: Now, reads: bool) {
        self.machine.set_reading(now, reads);
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
        if self.rights.actor().is_some() && !self.is_over {
            let text = "client unexpectedly closed TCP connection".to_owned();
            self.note(context, Gravity::Warning, text);
        }
        self.subscriptions.hand_on_offsets(context, &self.rights);
        self.watched.clear(context);
    }

    /// An alarm that concerns streams was raised, changed or cleared.
    pub(crate) fn set_blocked(&mut self, _context: &mut Context<'_>, alarm: Option<Alarm>) {
        self.publishers.set_blocked(alarm.is_some());
    }

    /// There is much to send, or no longer: subscriptions pause or go on.
    pub(crate) fn set_paused(&mut self, context: &mut Context<'_>, paused: bool) {
        self.subscriptions.set_paused(context, paused);
    }

    /// The user it acts for, once it is open.
    pub(crate) fn user(&self) -> Option<&Arc<str>> {
        self.rights.actor().map(|actor| &actor.user)
    }

    /// The virtual host it is in, once it is open.
    pub(crate) fn vhost(&self) -> Option<VhostId> {
        self.rights.actor().map(|actor| actor.vhost)
    }

    pub(crate) fn row(&self, catalog: &Catalog) -> ConnectionRow {
        let over = self.is_over.then_some("closing");
        let row = ConnectionRow::new(catalog, self.rights.actor(), "stream", over);
        ConnectionRow {
            given_name: self.peer.given_name().map(Box::from),
            frame_max: self.machine.frame_max(),
            mechanism: self.mechanism,
            client: self.client.clone(),
            ..row
        }
    }

    /// Rows of its publishers and consumers, into `opened`.
    pub(crate) fn list(&self, depth: Depth, opened: &mut Opened) {
        opened.stream_publishers.extend(self.publishers.rows(depth));
        opened.stream_consumers.extend(self.subscriptions.rows(depth));
    }

    /// Bytes that its publishers and subscriptions take, here and at their streams.
    #[inline]
    pub(crate) fn table_bytes(&mut self) -> usize {
        let Adapter { publishers, subscriptions, tables, .. } = self;
        let version = (publishers.version(), subscriptions.version());
        if version != tables.version {
            let own = publishers.heap_bytes() + subscriptions.heap_bytes();
            *tables = Tables { version, bytes: own + subscriptions.len() * READER_BYTES };
        }
        tables.bytes
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Adapter>()
            + self.machine.capacity()
            + self.publishers.heap_bytes()
            + self.subscriptions.heap_bytes()
            + self.watched.heap_bytes()
            + self.gathered.capacity()
    }

    fn note(&self, context: &mut Context<'_>, gravity: Gravity, text: String) {
        let text = format!("stream connection {}: {text}", self.peer.name);
        context.notes.push(Note { gravity, text });
    }

    /// The subscriptions, and the parts that have to do with their end.
    fn ends(&mut self) -> (&mut Subscriptions, Ends<'_>) {
        let Adapter { subscriptions, machine, watched, requests, .. } = self;
        (subscriptions, Ends { machine, watched, requests })
    }

    /// Ends all publishers and subscriptions.
    fn drop_all(&mut self, context: &mut Context<'_>) {
        self.publishers.clear();
        let (subscriptions, ends) = self.ends();
        subscriptions.end_all(context, ends);
        self.watched.clear(context);
    }
}
