//! Connections that are at home on a shard: the actor of each, and the things of its that are to end with it.
//!
//! Not here: how many there may be ([`crate::connection_limits`]), and the work as they come and go, which is the
//! shard's.

use crate::catalog::{Actor, Op, VhostId};
use crate::ledger::{Holding, Kind};
use crate::request::{ConsumerRef, QueueCommand};
use crate::watch::Watches;
use base::hash::MapById;
use base::id::{LogId, PortId, QueueId};
use routing::Arguments;
use std::collections::VecDeque;
use std::vec;

/// A connection that is at home here.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) actor: Actor,
    /// The memory that it holds.
    pub(crate) holding: Holding,
    /// Queues where it has consumers, to be told when it goes; by handle, since there may be a hundred thousand.
    consumers: Vec<ConsumerRef>,
    /// Filters that its consumers have, counted in `holding`; few have any.
    filters: Vec<ConsumerFilter>,
    /// It is closed for the memory that it holds, and may take a while to go.
    pub(crate) is_evicted: bool,
    /// It declared an exclusive queue.
    pub(crate) owns_queues: bool,
    /// Its channels that count.
    pub(crate) channels: u32,
    /// Its name, if its coming was announced, or what it does is told of; few have any.
    pub(crate) told: Option<Box<Told>>,
}

/// The name of a connection that others are told of.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) name: Box<str>,
    /// Its coming was announced, with what its client says of itself: then its going is too.
    pub(crate) announced: Option<Arguments>,
}

/// The filter of a consumer.
#[derive(Debug)]
struct ConsumerFilter {
    handle: u32,
    /// Bytes of memory that it takes.
    bytes: usize,
    /// They are the queue's, which asks all its selectors at once.
    is_of_queue: bool,
}

impl ConsumerFilter {
    /// Those of its bytes that are no queue's.
    fn own_bytes(&self) -> usize {
        if self.is_of_queue { 0 } else { self.bytes }
    }
}

impl Port {
    /// It has neither consumers nor queues of its own, and nobody was told by what port it goes.
    fn is_light(&self) -> bool {
        self.consumers.is_empty()
            && !self.owns_queues
            && self.told.as_ref().is_none_or(|told| told.announced.is_none())
    }

    /// One of its consumers of each queue where it has any, in the order of logs and queues.
    pub(crate) fn into_queues(self) -> Vec<ConsumerRef> {
        let mut consumers = self.consumers;
        consumers.sort_unstable_by_key(|consumer| (consumer.log, consumer.queue));
        consumers.dedup_by_key(|consumer| (consumer.log, consumer.queue));
        consumers
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    by_id: MapById<PortId, Port>,
    /// Those that are told when a queue goes.
    pub(crate) watches: Watches,
    /// The queues that connections have yet to leave which are gone.
    leaving: VecDeque<(PortId, vec::IntoIter<ConsumerRef>)>,
    /// Queues that were left in this turn.
    left: usize,
    /// Bytes of the filters of consumers that are no queue's.
    filter_bytes: usize,
}

impl Ports {
    /// A connection that is gone has these queues to leave.
    pub(crate) fn leave(&mut self, port: PortId, queues: Vec<ConsumerRef>) {
        if !queues.is_empty() {
            self.leaving.push_back((port, queues.into_iter()));
        }
    }

    /// The next queue that a connection leaves which is gone, of no more than `most` in this turn.
    pub(crate) fn next_to_leave(&mut self, most: usize) -> Option<(PortId, ConsumerRef)> {
        while self.left < most
            && let Some((port, queues)) = self.leaving.front_mut()
        {
            if let Some(queue) = queues.next() {
                self.left += 1;
                return Some((*port, queue));
            }
            self.leaving.pop_front();
        }
        None
    }

    /// Connections that are gone have queues to leave.
    pub(crate) fn has_to_leave(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// A turn is over.
    pub(crate) fn end_turn(&mut self) {
        self.left = 0;
    }

    /// A connection is at home here from now on.
    pub(crate) fn open(&mut self, port: PortId, actor: Actor, holding: Holding) {
        let state = Port {
            actor,
            holding,
            consumers: Vec::new(),
            filters: Vec::new(),
            owns_queues: false,
            is_evicted: false,
            channels: 0,
            told: None,
        };
        self.by_id.insert(port, state);
    }

    /// The connection is gone.
    pub(crate) fn close(&mut self, port: PortId) -> Option<Port> {
        let state = self.by_id.remove(&port)?;
        self.filter_bytes -= state.filters.iter().map(ConsumerFilter::own_bytes).sum::<usize>();
        Some(state)
    }

    /// Bytes of the filters that consumers of connections have, without those that queues have.
    pub(crate) fn filter_bytes(&self) -> usize {
        self.filter_bytes
    }

    /// The connection, if it is at home here.
    pub(crate) fn get(&self, port: PortId) -> Option<&Port> {
        self.by_id.get(&port)
    }

    /// The connection, if it is at home here.
    pub(crate) fn get_mut(&mut self, port: PortId) -> Option<&mut Port> {
        self.by_id.get_mut(&port)
    }

    /// The actor on whose behalf a connection asks for a change. Where that makes an exclusive queue it is noted that it has one.
    pub(crate) fn asks_for(&mut self, port: PortId, op: &Op) -> Option<Actor> {
        let state = self.get_mut(port)?;
        state.owns_queues |= matches!(op, Op::DeclareQueue { exclusive: true, .. });
        Some(state.actor.clone())
    }

    /// Notes that a connection has a consumer, to be told when it goes.
    #[cold]
    pub(crate) fn note_consumer(&mut self, port: PortId, log: LogId, queue: QueueId, command: &QueueCommand) {
        let handle = match command {
            QueueCommand::Consume { handle, .. } | QueueCommand::Select { handle, .. } => Some(*handle),
            QueueCommand::Stream(command) => command.opens(),
            other => other.getter(),
        };
        if let (Some(handle), Some(state)) = (handle, self.by_id.get_mut(&port)) {
            let key = |of: &ConsumerRef| (of.handle, of.log, of.queue);
            let consumer = ConsumerRef { log, queue, handle };
            if let Err(at) = state.consumers.binary_search_by_key(&key(&consumer), key) {
                state.consumers.insert(at, consumer);
            }
            let bytes = command.filter_bytes();
            if bytes > 0 {
                let is_of_queue = matches!(command, QueueCommand::Select { .. });
                let filter = ConsumerFilter { handle, bytes, is_of_queue };
                self.filter_bytes += filter.own_bytes();
                state.holding.keep(Kind::Filters, bytes);
                state.filters.push(filter);
            }
        }
    }

    /// The connection is done with a consumer for good.
    pub(crate) fn forget_consumer(&mut self, port: PortId, handle: u32) {
        if let Some(state) = self.by_id.get_mut(&port) {
            let begin = state.consumers.partition_point(|consumer| consumer.handle < handle);
            let end = state.consumers.partition_point(|consumer| consumer.handle <= handle);
            state.consumers.drain(begin..end);
            let Port { filters, holding, .. } = state;
            for filter in filters.extract_if(.., |filter| filter.handle == handle) {
                self.filter_bytes -= filter.own_bytes();
                holding.give(Kind::Filters, filter.bytes);
            }
            if state.consumers.is_empty() {
                state.consumers = Vec::new();
            }
        }
    }

    /// The name of a connection: `ADDRESS:PORT -> ADDRESS:PORT`.
    pub(crate) fn introduce(&mut self, port: PortId, name: &str) {
        if let Some(state) = self.by_id.get_mut(&port) {
            let announced = state.told.take().and_then(|told| told.announced);
            state.told = Some(Box::new(Told { name: name.into(), announced }));
        }
    }

    /// The going of a connection is to be announced, under this name and with what its client says of itself.
    pub(crate) fn announce_end(&mut self, port: PortId, name: &str, properties: &Arguments) {
        if let Some(state) = self.by_id.get_mut(&port) {
            state.told = Some(Box::new(Told { name: name.into(), announced: Some(properties.clone()) }));
        }
    }

    /// Bytes of room that connections have reserved in the ledger.
    pub(crate) fn reserved(&self) -> u64 {
        self.by_id.values().map(|state| state.holding.reserved()).sum()
    }

    /// Those of these actors, in order.
    pub(crate) fn of(&self, is_theirs: impl Fn(&Actor) -> bool) -> Vec<PortId> {
        self.those(|state| is_theirs(&state.actor))
    }

    /// Those of a virtual host whose names are not known, in order.
    pub(crate) fn nameless(&self, vhost: VhostId) -> Vec<PortId> {
        self.those(|state| state.actor.vhost == vhost && state.told.is_none())
    }

    fn those(&self, is_one: impl Fn(&Port) -> bool) -> Vec<PortId> {
        let found = self.by_id.iter().filter(|(_, state)| is_one(state));
        let mut ports: Vec<PortId> = found.map(|(port, _)| *port).collect();
        base::brief::sort(&mut ports);
        ports
    }

    /// The connection that holds most, and how much, of those that are not about to go; none: no connection holds anything.
    pub(crate) fn largest_holder(&self) -> Option<(PortId, u64)> {
        let stays = self.by_id.iter().filter(|(_, state)| !state.is_evicted);
        let held = stays.map(|(port, state)| (state.holding.held(), *port));
        held.max().filter(|(held, _)| *held > 0).map(|(held, port)| (port, held))
    }

    /// Bytes of memory of the table: a slot and a control byte each, of which seven in eight may be full.
    pub(crate) fn heap_bytes(&self) -> usize {
        (self.by_id.capacity() * 8 / 7).next_power_of_two() * (size_of::<(PortId, Port)>() + 1)
    }

    // ---- connections that leave for another shard

    /// The connection has nothing here that keeps it.
    pub(crate) fn may_leave(&self, port: PortId) -> bool {
        self.by_id.get(&port).is_some_and(Port::is_light)
    }

    /// The connection leaves; `None` where something keeps it.
    pub(crate) fn release(&mut self, port: PortId) -> Option<Leaver> {
        if !self.may_leave(port) {
            return None;
        }
        self.close(port).map(Leaver)
    }

    /// A connection that left another shard is at home here, and goes by `port` from now on.
    pub(crate) fn adopt(&mut self, port: PortId, Leaver(mut state): Leaver) -> &Port {
        state.actor.port = port;
        // Where it came from it is given back to nobody.
        state.holding.give_all(Kind::Outbox);
        self.by_id.entry(port).insert_entry(state).into_mut()
    }
}

/// A connection that is between two shards, and what of it the broker knows.
///
/// Only one that has nothing where it was but itself leaves: no consumer, no queue of its own, nothing under way. What happened to
/// the catalog between its leaving and its coming is told to it when it comes.
#[derive(Debug)]
pub struct Leaver(Port);
