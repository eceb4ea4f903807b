//! The connections of one shard.
//!
//! Invariant: a connection is on the dirty list exactly while `is_dirty`; connections the shell must look at after a
//! turn are on one of the lists, so that nothing walks over idle connections.

mod backlog;
mod connection;
mod listing;
mod waiting;

use crate::alarm::Alarm;
use crate::connection::Adapter;
use crate::context::{Context, Note, Scratch, Trying};
use crate::credentials::Outcome;
use crate::settings::{Peer, Settings};
use crate::shares::Shares;
use crate::tenants::Tenants;
use base::id::{PortId, ShardId};
use base::{Now, Output};
use broker::catalog::{Object, Reason, Refusal, ReplyCode};
use broker::{Event, Events, Leaver, Reply, Shard};
use connection::{Backlog, Connection, Waits};
use slab::Slab;
use std::sync::Arc;

pub use listing::ConnectionBytes;

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
    shares: Shares,
    tenants: Tenants,
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
            shares: Shares::default(),
            tenants: Tenants::default(),
        }
    }

    /// The settings of its connections.
    pub fn settings(&self) -> &Settings {
        &self.settings
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
            backlog: Backlog::Light,
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
        let connection = self.connections.remove(slot as usize);
        if connection.waits == Waits::ForShare {
            self.shares.forget(&connection.account(), slot);
        }
        connection
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
        // One that waits for its user's share is known for that here alone: it goes behind it.
        if connection.is_dirty || connection.waits == Waits::ForShare || !shard.may_leave(port) {
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
        let done = work(connection, &mut context);
        if shard.work().has_spent() {
            self.charge(shard, slot);
        }
        done
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
        if !self.shares.is_empty() {
            self.share_anew(shard.turn_work());
        }
        let (alarm, is_congested) = (self.alarm, shard.is_congested());
        let is_held = alarm.is_some() || is_congested;
        for at in 0..self.dirty.len() {
            let slot = self.dirty[at];
            self.with(now, shard, slot, |connection, context| {
                connection.adapter.end_turn(context);
                let bytes = connection.adapter.table_bytes();
                if bytes > context.settings.tables_counted_min || connection.adapter.counts_tables() {
                    connection.weigh_tables(context, bytes);
                }
                let len = connection.adapter.output().len();
                if (len > context.settings.output_bytes_low || connection.backlog != Backlog::Light)
                    && connection.weigh_output(context.shard, context.port, context.settings)
                {
                    connection.adapter.set_paused(context, true);
                }
            });
            let connection = &mut self.connections[slot as usize];
            if matches!(connection.waits, Waits::ForPeer | Waits::ForShare) {
                // It goes on, or leaves, when it was heard that enough was sent, or when there is a share for it.
                continue;
            }
            let is_held = is_held
                && connection.adapter.is_publishing()
                && (is_congested || alarm.is_some_and(|alarm| connection.heeds(alarm)));
            if is_held && connection.waits == Waits::ForBroker && !connection.adapter.is_waiting() {
                connection.waits = if alarm.is_some_and(|alarm| connection.heeds(alarm)) {
                    Waits::ForAlarm
                } else {
                    Waits::ForFlow
                };
            }
            let may_go_on = |adapter: &Adapter| !adapter.is_waiting() || adapter.is_unfinished();
            if connection.waits != Waits::No && !is_held && may_go_on(&connection.adapter) {
                connection.waits = Waits::No;
                connection.adapter.set_reading(now, true);
                self.resumed.push(slot);
            } else if let Some(to) = connection.adapter.goal() {
                connection.hold(now, Waits::ForBroker);
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
        !self.dirty.is_empty() || !self.resumed.is_empty() || self.shares.has_waiting()
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

    /// The connection has logged in and opened its virtual host.
    #[inline]
    pub fn is_open(&self, slot: u32) -> bool {
        self.connections[slot as usize].adapter.vhost().is_some()
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

    /// The node stops: every connection is told so, and is over when its peer has heard it.
    pub fn shut_down(&mut self, now: Now, shard: &mut Shard) {
        let slots: Vec<u32> = self.connections.iter().map(|(slot, _)| slot as u32).collect();
        slots.into_iter().for_each(|slot| self.shut_down_one(now, shard, slot));
    }

    /// The node stops, and this connection has come only now.
    pub fn shut_down_one(&mut self, now: Now, shard: &mut Shard, slot: u32) {
        self.close(now, shard, slot, forced("broker forced connection closure with reason 'shutdown'"));
    }

    /// An operator closes the connection of this name; whether it is here.
    pub fn close_named(&mut self, now: Now, shard: &mut Shard, name: &str, reason: &str) -> bool {
        let found = self.connections.iter().find(|(_, connection)| *connection.peer.name == *name);
        let Some((slot, _)) = found else { return false };
        self.close(now, shard, slot as u32, forced(reason));
        true
    }

    /// The node has no memory left for what a connection holds: the connection of this slot and number is closed, with 506 over
    /// 0-9-1, with `amqp:resource-limit-exceeded` over 1.0, and without a word over the stream protocol. False: it is gone.
    pub fn evict(&mut self, now: Now, shard: &mut Shard, at: (u32, u32), text: &str) -> bool {
        let (slot, generation) = at;
        let is_here = self.connections.get(slot as usize).is_some_and(|own| own.generation == generation);
        if is_here {
            shard.note_evicted(PortId::here(self.shard, slot, generation));
            let reason = Reason::LimitReached(Object::Connection);
            self.close(now, shard, slot, Refusal::new(ReplyCode::ResourceError, reason, text));
        }
        is_here
    }

    fn close(&mut self, now: Now, shard: &mut Shard, slot: u32, refusal: Refusal) {
        let event = Event::Close { refusal };
        self.with(now, shard, slot, |connection, context| {
            connection.adapter.event(context, &event, &Events::default());
        });
    }
}

/// The refusal of an operator, who closes a connection, or of a node that stops.
fn forced(reason: &str) -> Refusal {
    Refusal::new(ReplyCode::ConnectionForced, Reason::Closed, reason)
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
