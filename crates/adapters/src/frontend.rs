//! The connections of one shard.
//!
//! Invariant: a connection is on the dirty list exactly while `is_dirty`; connections the shell must look at after a
//! turn are on one of the lists, so that nothing walks over idle connections.

use crate::alarm::Alarm;
use crate::connection::Adapter;
use crate::context::{Context, Note, Scratch, Trying};
use crate::credentials::Outcome;
use crate::settings::{Peer, Settings};
use ::amqp091::frame::PROTOCOL_HEADER;
use base::id::{PortId, ShardId};
use base::{Now, Output, Quantum};
use broker::catalog::{Catalog, VhostId};
use broker::catalog::{Reason, Refusal, ReplyCode};
use broker::{ChannelTally, ConnectionSums, Depth, OpenSums, Opened};
use broker::{ConnectionRow, Event, Events, Leaver, Reply, SessionRow, Shard};
use slab::Slab;
use std::sync::Arc;

/// The slot of the node itself, which has no connection: its requests to a shard come from a port with this slot.
pub const NODE_SLOT: u32 = u32::MAX;

/// The outcome of bytes handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// So many are done with; the rest is to be kept and handed in again, with more behind it.
    pub consumed: usize,
    /// No more input is wanted until the connection is on the list of [`Frontend::take_resumed`].
    pub is_waiting: bool,
}

/// Whether a connection was told to wait, and is to be handed its input again when it no longer does. One byte, as there are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// It was not.
    No,
    /// For the broker.
    ForBroker,
    /// Until half of the output above the bound is gone.
    ForPeer,
}

#[derive(Debug)]
struct Connection {
    generation: u32,
    is_dirty: bool,
    /// Its consumers were paused because it has much to send.
    is_paused: bool,
    /// Its adapter knows of the alarm.
    is_blocked: bool,
    waits: Waits,
    adapter: Adapter,
    peer: Peer,
}

impl Connection {
    /// Bytes it holds besides itself, output apart.
    fn heap_bytes(&self) -> usize {
        // The name is shared with the adapter; two counts stand before it.
        self.adapter.heap_bytes() + self.peer.name.len() + 2 * size_of::<usize>()
    }

    /// Its input is left alone; `is_unread`: because of its output. Its peer's silence means nothing then, except where
    /// it is the peer that does not read: one that takes no byte for as long as it may be silent is gone.
    fn hold(&mut self, now: Now, is_unread: bool) {
        self.waits = if is_unread { Waits::ForPeer } else { Waits::ForBroker };
        self.adapter.set_reading(now, is_unread);
    }

    /// Whether the alarm concerns it.
    #[cold]
    fn heeds(&self, alarm: Alarm) -> bool {
        self.adapter.heeds(alarm, &self.peer)
    }

    /// Whether it publishes while the broker is congested, or an alarm holds that concerns it.
    #[cold]
    fn is_held_back(&self, context: &Context<'_>, alarm: Option<Alarm>) -> bool {
        let is_alarmed = alarm.is_some_and(|alarm| self.heeds(alarm));
        (is_alarmed || context.shard.is_congested()) && self.adapter.is_publishing()
    }

    /// Tells its adapter of the alarm, if it does not know of it yet.
    #[cold]
    fn hear_of(&mut self, context: &mut Context<'_>, alarm: Option<Alarm>) {
        let alarm = alarm.filter(|alarm| self.heeds(*alarm));
        if self.is_blocked != alarm.is_some() && !self.adapter.is_greeting() {
            self.is_blocked = alarm.is_some();
            self.adapter.set_blocked(context, alarm);
        }
    }

    /// The next bytes are to find the alarm, also behind the protocol header: how many of `bytes` were that.
    #[cold]
    fn meet(&mut self, context: &mut Context<'_>, alarm: Option<Alarm>, bytes: &[u8]) -> usize {
        let mut consumed = 0;
        if self.adapter.is_greeting() && bytes.len() > PROTOCOL_HEADER.len() {
            consumed = self.adapter.input(context, &self.peer, &bytes[..PROTOCOL_HEADER.len()]);
        }
        if self.adapter.is_over() {
            return bytes.len();
        }
        self.hear_of(context, alarm);
        consumed
    }

    /// Whether so many bytes, more than those at which others go on, are so much that consumers pause.
    #[cold]
    fn has_much(&self, len: usize, settings: &Settings) -> bool {
        matches!(self.adapter, Adapter::Stream(_)) || len > settings.output_bytes_max
    }

    /// Whether so little is left to send that paused consumers go on.
    fn has_room(&mut self, settings: &Settings) -> bool {
        let low = settings.output_bytes_low;
        let low = if matches!(self.adapter, Adapter::Stream(_)) { low / 4 } else { low };
        self.adapter.output().len() <= low
    }
}

/// Bytes of memory of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionBytes {
    /// Output buffers.
    pub output: usize,
    /// All else.
    pub own: usize,
}

/// A connection between two shards.
#[derive(Debug)]
pub struct Mover {
    connection: Connection,
    leaver: Leaver,
}

/// The connections of one shard.
#[derive(Debug)]
pub struct Frontend {
    shard: ShardId,
    settings: Arc<Settings>,
    /// Shared by all connections of the front.
    limits10: Arc<amqp10::Limits>,
    scratch: Scratch,
    connections: Slab<Connection>,
    next_generation: u32,
    dirty: Vec<u32>,
    resumed: Vec<u32>,
    /// Connections that can go to the shard of the queue they use, and to which.
    leaving: Vec<(u32, ShardId)>,
    events: Events,
    /// Answers to the node's own requests.
    node_answers: Vec<(u32, Result<Reply, Refusal>)>,
    /// Why publishers are blocked, while they are.
    alarm: Option<Alarm>,
    notes: Vec<Note>,
    trials: Vec<Trying>,
}

impl Frontend {
    /// A front without connections.
    pub fn new(shard: ShardId, settings: Arc<Settings>) -> Frontend {
        let limits10 = Arc::new(settings.amqp10);
        Frontend {
            shard,
            settings,
            limits10,
            scratch: Scratch::default(),
            connections: Slab::new(),
            next_generation: 0,
            dirty: Vec::new(),
            resumed: Vec::new(),
            leaving: Vec::new(),
            events: Events::default(),
            node_answers: Vec::new(),
            alarm: None,
            notes: Vec::new(),
            trials: Vec::new(),
        }
    }

    /// Connections there are.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// There is no connection.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// A socket was accepted: the number of its connection, which is free again after [`Frontend::closed`].
    pub fn accept(&mut self, now: Now, peer: Peer) -> u32 {
        self.next_generation = self.next_generation.wrapping_add(1);
        let adapter = Adapter::new(now, &self.settings, &peer);
        let connection = Connection {
            generation: self.next_generation,
            is_dirty: false,
            is_paused: false,
            is_blocked: false,
            waits: Waits::No,
            adapter,
            peer,
        };
        self.add(connection)
    }

    fn add(&mut self, connection: Connection) -> u32 {
        if let Some(following) = &self.settings.following {
            following.came(self.shard);
        }
        self.connections.insert(connection) as u32
    }

    fn remove(&mut self, slot: u32) -> Connection {
        if let Some(following) = &self.settings.following {
            following.left(self.shard);
        }
        self.dirty.retain(|dirty| *dirty != slot);
        self.resumed.retain(|resumed| *resumed != slot);
        self.leaving.retain(|(leaving, _)| *leaving != slot);
        self.connections.remove(slot as usize)
    }

    /// Moves the connections that can go to another shard now, and to which, into `into`. Their commands until now have
    /// to be on their way to other shards before they are.
    pub fn take_leaving(&mut self, into: &mut Vec<(u32, ShardId)>) {
        into.append(&mut self.leaving);
    }

    /// The connection leaves for another shard, and its socket with it; `None`: it stays after all.
    pub fn leave(&mut self, now: Now, shard: &mut Shard, slot: u32) -> Option<Mover> {
        let connection = self.connections.get(slot as usize)?;
        let port = PortId::here(self.shard, slot, connection.generation);
        let goal = connection.adapter.goal()?;
        if shard.has_moves() {
            // Its messages may be on their way to a log that moves: it goes when that is there.
            if !self.leaving.contains(&(slot, goal)) {
                self.leaving.push((slot, goal));
            }
            return None;
        }
        if connection.is_dirty || !shard.may_leave(port) {
            return None;
        }
        self.with(now, shard, slot, |connection, context| connection.adapter.depart(context));
        let leaver = shard.release_port(port)?;
        Some(Mover { connection: self.remove(slot), leaver })
    }

    /// A connection that left another shard is at home here: its number.
    pub fn adopt(&mut self, now: Now, shard: &mut Shard, mover: Mover) -> u32 {
        let Mover { connection, leaver } = mover;
        self.next_generation = self.next_generation.wrapping_add(1);
        let generation = self.next_generation;
        let slot = self.add(Connection { generation, is_dirty: false, ..connection });
        shard.adopt_port(PortId::here(self.shard, slot, generation), leaver);
        let alarm = self.alarm;
        self.with(now, shard, slot, |connection, context| {
            connection.adapter.arrive(context);
            connection.hear_of(context, alarm);
        });
        slot
    }

    /// Calls `work` for a connection with all it needs, and puts it on the dirty list.
    fn with<T>(
        &mut self,
        now: Now,
        shard: &mut Shard,
        slot: u32,
        work: impl FnOnce(&mut Connection, &mut Context<'_>) -> T,
    ) -> T {
        let connection = &mut self.connections[slot as usize];
        let port = PortId::here(self.shard, slot, connection.generation);
        if !connection.is_dirty {
            connection.is_dirty = true;
            self.dirty.push(slot);
        }
        let mut context = Context {
            now,
            shard,
            port,
            settings: &self.settings,
            limits10: &self.limits10,
            notes: &mut self.notes,
            trials: &mut self.trials,
            scratch: &mut self.scratch,
        };
        work(connection, &mut context)
    }

    /// Hands in bytes of the peer: the kept rest, if any, and those that came behind it.
    pub fn input(&mut self, now: Now, shard: &mut Shard, slot: u32, bytes: &[u8]) -> Taken {
        let alarm = self.alarm;
        let is_held = alarm.is_some() || shard.is_congested();
        self.with(now, shard, slot, |connection, context| {
            let adapter = &mut connection.adapter;
            if adapter.is_over() {
                return Taken { consumed: bytes.len(), is_waiting: false };
            }
            let unread_bytes_max = context.settings.unread_bytes_max;
            let is_unread = adapter.output_len() > unread_bytes_max;
            if is_unread || adapter.is_waiting() || (is_held && connection.is_held_back(context, alarm)) {
                connection.hold(now, is_unread);
                return Taken { consumed: 0, is_waiting: true };
            }
            let mut greeting = 0;
            if alarm.is_some() || connection.is_blocked {
                greeting = connection.meet(context, alarm, bytes);
            }
            let Connection { adapter, peer, .. } = connection;
            let consumed = greeting + adapter.input(context, peer, &bytes[greeting..]);
            let is_unread = adapter.output_len() > unread_bytes_max;
            let is_waiting = is_unread
                || adapter.is_waiting()
                || (connection.is_blocked && connection.adapter.is_publishing());
            if is_waiting {
                connection.hold(now, is_unread);
            }
            Taken { consumed, is_waiting }
        })
    }

    /// Hands the shard's events to the connections they are for.
    pub fn handle_events(&mut self, now: Now, shard: &mut Shard) {
        let mut events = std::mem::take(&mut self.events);
        shard.take_events(&mut events);
        self.hand_out(now, shard, &events);
        events.clear();
        self.events = events;
    }

    /// Hands out events that came as mail from another shard.
    pub fn handle_mail(&mut self, now: Now, shard: &mut Shard, events: &Events) {
        self.hand_out(now, shard, events);
    }

    fn hand_out(&mut self, now: Now, shard: &mut Shard, events: &Events) {
        for (port, event) in &events.list {
            let is_current = self
                .connections
                .get(port.slot as usize)
                .is_some_and(|connection| connection.generation == port.generation);
            if is_current {
                self.with(now, shard, port.slot, |connection, context| {
                    connection.adapter.event(context, event, events);
                });
            } else if let Event::Reply { token, reply } = event
                && port.slot == NODE_SLOT
            {
                self.node_answers.push((*token, reply.clone()));
            }
        }
    }

    /// Moves the passwords that are to be compared elsewhere into `into`.
    pub fn take_trials(&mut self, into: &mut Vec<Trying>) {
        into.append(&mut self.trials);
    }

    /// The outcome of [`Trying`]; the connection may be gone.
    pub fn tried(&mut self, now: Now, shard: &mut Shard, slot: u32, generation: u32, outcome: Outcome) {
        if self.connections.get(slot as usize).is_some_and(|own| own.generation == generation) {
            self.with(now, shard, slot, |connection, context| connection.adapter.tried(context, outcome));
        }
    }

    /// Moves the answers to the node's own requests, by their tokens, into `into`.
    pub fn take_node_answers(&mut self, into: &mut Vec<(u32, Result<Reply, Refusal>)>) {
        into.append(&mut self.node_answers);
    }

    /// Ends the turn of every connection something happened to: confirms and credit are sent. Afterwards these are the
    /// ones [`Frontend::take_dirty`] names.
    pub fn end_turn(&mut self, now: Now, shard: &mut Shard) {
        let (alarm, is_congested) = (self.alarm, shard.is_congested());
        let is_held = alarm.is_some() || is_congested;
        for at in 0..self.dirty.len() {
            let slot = self.dirty[at];
            self.with(now, shard, slot, |connection, context| {
                connection.adapter.end_turn(context);
                let len = connection.adapter.output().len();
                if !connection.is_paused
                    && len > context.settings.output_bytes_low
                    && connection.has_much(len, context.settings)
                {
                    connection.is_paused = true;
                    connection.adapter.set_paused(context, true);
                }
            });
            let connection = &mut self.connections[slot as usize];
            if connection.waits == Waits::ForPeer {
                // It goes on, or leaves, when it was heard that enough was sent.
                continue;
            }
            let is_held = is_held
                && connection.adapter.is_publishing()
                && (is_congested || alarm.is_some_and(|alarm| connection.heeds(alarm)));
            if connection.waits != Waits::No && !connection.adapter.is_waiting() && !is_held {
                connection.waits = Waits::No;
                connection.adapter.set_reading(now, true);
                self.resumed.push(slot);
            } else if let Some(to) = connection.adapter.goal() {
                connection.hold(now, false);
                self.leaving.push((slot, to));
            }
        }
    }

    /// Moves the connections whose output, or whose end, is to be looked at into `into`.
    pub fn take_dirty(&mut self, into: &mut Vec<u32>) {
        for slot in &self.dirty {
            self.connections[*slot as usize].is_dirty = false;
        }
        into.append(&mut self.dirty);
    }

    /// Something happened to a connection since [`Frontend::end_turn`]: the next turn is to come at once.
    pub fn has_work(&self) -> bool {
        !self.dirty.is_empty() || !self.resumed.is_empty()
    }

    /// Moves the connections that want their kept input, and more, into `into`.
    pub fn take_resumed(&mut self, into: &mut Vec<u32>) {
        into.append(&mut self.resumed);
    }

    /// Lines for the log.
    pub fn take_notes(&mut self, into: &mut Vec<Note>) {
        into.append(&mut self.notes);
    }

    /// The output of a connection.
    pub fn output(&mut self, slot: u32) -> &mut Output {
        self.connections[slot as usize].adapter.output()
    }

    /// The connection is to be closed once its output is sent.
    pub fn is_over(&self, slot: u32) -> bool {
        self.connections[slot as usize].adapter.is_over()
    }

    /// Some output went out: consumers that had paused because of it go on, and so does the input that was left alone.
    pub fn sent(&mut self, now: Now, shard: &mut Shard, slot: u32) {
        let connection = &mut self.connections[slot as usize];
        if connection.waits == Waits::ForPeer {
            connection.adapter.note_alive();
            if connection.adapter.output_len() <= self.settings.unread_bytes_max / 2 {
                connection.hold(now, false);
                if !connection.is_dirty {
                    connection.is_dirty = true;
                    self.dirty.push(slot);
                }
            }
        }
        if connection.is_paused && connection.has_room(&self.settings) {
            connection.is_paused = false;
            self.with(now, shard, slot, |connection, context| {
                connection.adapter.set_paused(context, false);
            });
        }
    }

    /// When the connection wants [`Frontend::handle_deadline`] though nothing came; monotonic nanoseconds.
    pub fn deadline(&self, slot: u32) -> Option<u64> {
        self.connections[slot as usize].adapter.deadline()
    }

    /// Time has come.
    pub fn handle_deadline(&mut self, now: Now, shard: &mut Shard, slot: u32) {
        self.with(now, shard, slot, |connection, context| connection.adapter.handle_deadline(context));
    }

    /// The socket is gone, and with it the connection.
    pub fn closed(&mut self, now: Now, shard: &mut Shard, slot: u32) {
        self.with(now, shard, slot, |connection, context| {
            connection.adapter.closed(context);
            context.shard.close_port(context.now, context.port);
        });
        self.remove(slot);
    }

    /// An alarm was raised, changed or cleared: whether publishers are blocked, and why.
    pub fn set_alarm(&mut self, now: Now, shard: &mut Shard, alarm: Option<Alarm>) {
        if self.alarm == alarm {
            return;
        }
        self.alarm = alarm;
        let slots: Vec<u32> = self.connections.iter().map(|(slot, _)| slot as u32).collect();
        for slot in slots {
            self.with(now, shard, slot, |connection, context| {
                let alarm = alarm.filter(|alarm| connection.heeds(*alarm));
                if !connection.adapter.is_greeting() {
                    connection.is_blocked = alarm.is_some();
                    connection.adapter.set_blocked(context, alarm);
                }
            });
        }
    }

    /// The node stops: every connection is told so, and is over when its peer has heard it.
    pub fn shut_down(&mut self, now: Now, shard: &mut Shard) {
        let slots: Vec<u32> = self.connections.iter().map(|(slot, _)| slot as u32).collect();
        slots.into_iter().for_each(|slot| self.shut_down_one(now, shard, slot));
    }

    /// The node stops, and this connection has come only now.
    pub fn shut_down_one(&mut self, now: Now, shard: &mut Shard, slot: u32) {
        self.close(now, shard, slot, "broker forced connection closure with reason 'shutdown'");
    }

    /// An operator closes the connection of this name; whether it is here.
    pub fn close_named(&mut self, now: Now, shard: &mut Shard, name: &str, reason: &str) -> bool {
        let found = self.connections.iter().find(|(_, connection)| *connection.peer.name == *name);
        let Some((slot, _)) = found else { return false };
        self.close(now, shard, slot as u32, reason);
        true
    }

    fn close(&mut self, now: Now, shard: &mut Shard, slot: u32, reason: &str) {
        let event =
            Event::Close { refusal: Refusal::new(ReplyCode::ConnectionForced, Reason::Closed, reason) };
        self.with(now, shard, slot, |connection, context| {
            connection.adapter.event(context, &event, &Events::default());
        });
    }

    /// The broker is no longer congested: connections held for it go on.
    pub fn release_held(&mut self) {
        for (slot, connection) in &mut self.connections {
            if connection.waits != Waits::No && !connection.is_dirty {
                connection.is_dirty = true;
                self.dirty.push(slot as u32);
            }
        }
    }

    /// Connections from a slot on, without passing over those before it.
    fn connections_from(&self, from: u32) -> impl Iterator<Item = (usize, &Connection)> {
        let slots = from as usize..self.connections.capacity();
        slots.filter_map(|slot| Some((slot, self.connections.get(slot)?)))
    }

    /// Connections as they are listed, as many of them as `quantum` allows from number `from` on. Where to go on, until all were
    /// looked at. `complete` adds the numbers of the socket in a slot; false: it has none, and its connection is not listed.
    pub fn rows_from(
        &self,
        catalog: &Catalog,
        from: u32,
        quantum: &mut Quantum<'_>,
        complete: impl Fn(u32, &mut ConnectionRow) -> bool,
        rows: &mut Vec<ConnectionRow>,
    ) -> Option<u32> {
        for (slot, connection) in self.connections_from(from) {
            if quantum.is_over() {
                return Some(slot as u32);
            }
            let mut row = self.row(catalog, slot, connection);
            if complete(slot as u32, &mut row) {
                rows.push(row);
            }
            quantum.spend(1);
        }
        None
    }

    fn row(&self, catalog: &Catalog, slot: usize, connection: &Connection) -> ConnectionRow {
        let row = connection.adapter.row(catalog).named(&connection.peer.name);
        ConnectionRow {
            id: (self.shard.0, slot as u32, connection.generation),
            channels: connection.adapter.channels() as u64,
            encryption: connection.peer.encryption.clone(),
            ..row
        }
    }

    /// Rows of connections' channels and consumers, of those that have any: as many connections as `quantum` allows are
    /// looked at, from number `from` on; one counts as many times as it has things open. Where to go on, until all were
    /// looked at.
    pub fn opened(
        &self,
        catalog: &Catalog,
        from: u32,
        quantum: &mut Quantum<'_>,
        rows: &mut Vec<Opened>,
    ) -> Option<u32> {
        for (slot, connection) in self.connections_from(from) {
            if quantum.is_over() {
                return Some(slot as u32);
            }
            let mut opened = Opened::default();
            connection.adapter.list(catalog, Depth::Whole, &mut opened);
            let has = opened.len();
            if !opened.is_empty() {
                let ConnectionRow { user, vhost, .. } = connection.adapter.row(catalog);
                let (connection, port) =
                    (connection.peer.name.to_string(), (slot as u32, connection.generation));
                rows.push(Opened { connection, port, user, vhost, ..opened });
            }
            quantum.spend(1 + has);
        }
        None
    }

    /// The sums of connections and of their channels and consumers, added to `sums`: as [`Frontend::opened`]. `traffic`
    /// tells of the socket in a slot the bytes it received and sent, and its calls.
    pub fn sums_from(
        &self,
        catalog: &Catalog,
        from: u32,
        quantum: &mut Quantum<'_>,
        traffic: impl Fn(u32) -> ConnectionSums,
        sums: &mut OpenSums,
    ) -> Option<u32> {
        let mut opened = Opened::default();
        for (slot, connection) in self.connections_from(from) {
            if quantum.is_over() {
                return Some(slot as u32);
            }
            opened.clear();
            connection.adapter.list(catalog, Depth::Numbers, &mut opened);
            sums.add(&opened);
            if connection.adapter.vhost().is_some() {
                let channels = connection.adapter.channels() as u64;
                sums.connections.merge(&ConnectionSums { connections: 1, channels, ..traffic(slot as u32) });
            }
            quantum.spend(1 + opened.len());
        }
        None
    }

    /// The sessions of a connection by its slot and its number there; none: it is not here, or its protocol has none.
    pub fn sessions(&self, catalog: &Catalog, (slot, generation): (u32, u32)) -> Option<Vec<SessionRow>> {
        let connection = self.connections.get(slot as usize)?;
        (connection.generation == generation).then(|| connection.adapter.sessions(catalog))?
    }

    /// The number of a connection in its slot, and its virtual host; none while it is in none.
    pub fn whose(&self, slot: u32) -> Option<(u32, VhostId)> {
        let connection = self.connections.get(slot as usize)?;
        Some((connection.generation, connection.adapter.vhost()?))
    }

    /// The counts of channels, of those that have any; as [`Frontend::opened`].
    pub fn channel_tallies(
        &self,
        from: u32,
        quantum: &mut Quantum<'_>,
        tallies: &mut Vec<ChannelTally>,
    ) -> Option<u32> {
        for (slot, connection) in self.connections_from(from) {
            if quantum.is_over() {
                return Some(slot as u32);
            }
            let port = (slot as u32, connection.generation);
            let before = tallies.len();
            connection.adapter.tallies(|number, tally| tallies.push((port, number, tally)));
            quantum.spend(1 + tallies.len() - before);
        }
        None
    }

    /// Bytes of memory of connections, for callers that must not hold others up: of as many as `quantum` allows from
    /// number `from` on. Where to go on, until all were counted.
    pub fn memory_from(&self, from: u32, quantum: &mut Quantum<'_>) -> (ConnectionBytes, Option<u32>) {
        let mut bytes = ConnectionBytes::default();
        if from == 0 {
            bytes.own += self.connections.capacity() * size_of::<Connection>();
            bytes.own += self.scratch.clients.memory_bytes();
        }
        for (slot, connection) in self.connections_from(from) {
            if quantum.is_over() {
                return (bytes, Some(slot as u32));
            }
            bytes.own += connection.heap_bytes();
            bytes.output += connection.adapter.output_bytes();
            quantum.spend(1);
        }
        (bytes, None)
    }

    /// Bytes of memory of the connections, output apart.
    pub fn heap_bytes(&self) -> usize {
        let own = self.connections.capacity() * size_of::<Connection>();
        let each = self.connections.iter().map(|(_, connection)| connection.heap_bytes());
        own + self.scratch.clients.memory_bytes() + each.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_connections_go_with_their_front() {
        let front = Frontend::new(ShardId(0), Arc::new(Settings::new("rabbit@test")));
        let limits = Arc::downgrade(&front.limits10);
        assert_eq!(limits.upgrade().as_deref(), Some(&front.settings.amqp10));
        drop(front);
        assert!(limits.upgrade().is_none(), "a node that is stopped and started again leaves nothing behind");
    }
}
