//! A log and the machines placed on it: records go in, are committed, are applied in order, and move messages.
//!
//! The state that its machines share is apart from them, so that one of them can be at work: see [`At`]. Records
//! go through the log's [`Pipeline`], which says when they are written, and which of them are committed.
//! Not here: files (the batch goes out as data), connections (events go to the turn's [`crate::post::Post`]), the catalog.
//! Invariant: records are applied in log order, each once; application never passes the first unwritten record that
//! somebody waits for.

mod apply;
mod claims;
mod commons;
mod edge;
mod foreign;
mod guests;
mod origins;
mod outbox;
mod peers;
mod pipeline;
mod turns;
mod visit;
pub(crate) mod visiting;

use crate::catalog::{QueueDefinition, QueueRules, Refusal, Source};
use crate::commit::CommitRule;
use crate::limits::Limits;
use crate::message_keys::KeyRule;
use crate::placed::queue::at::AtQueue;
use crate::placed::queue::commands::{Done, answer_gone};
use crate::placed::stream::{OfStreams, OffsetRules};
use crate::placed::{At, Machines, Placed, Recovering, machine_of};
use crate::post::Post;
use crate::request::QueueCommand;
use crate::turn::Turn;
use base::Now;
use base::id::{LogId, LogIndex, NodeNo, PortId, QueueId};
use message::record::{Close, Open};
use std::sync::Arc;

pub(crate) use commons::{Commons, NO_QUEUE, Parked, Reads, Store};
pub(crate) use edge::{Kept, Over};
pub(crate) use foreign::Records;
pub(crate) use origins::Origins;
pub(crate) use peers::{Brought, refuse_all};
pub(crate) use pipeline::Brings;
use pipeline::{Closed, Due};

/// A log.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) commons: Commons,
    pub(crate) machines: Machines,
    pub(crate) streams: OfStreams,
    /// Only until the replay is over.
    pub(crate) recovering: Option<Box<Recovering>>,
}

impl Log {
    /// A log with nothing in it yet.
    pub(crate) fn new(id: LogId, rule: CommitRule, offset_rules: OffsetRules) -> Log {
        Log {
            commons: Commons::new(id, rule),
            machines: Machines::default(),
            streams: OfStreams::new(id, offset_rules),
            recovering: Some(Box::default()),
        }
    }

    /// The machine in a slot, at work.
    #[inline]
    pub(crate) fn at(&mut self, slot: u32) -> At<'_> {
        let Log { commons, machines, streams, .. } = self;
        machines.at(slot, commons, streams)
    }

    /// The queue in a slot, at work, if there is one that is owned here.
    #[inline]
    pub(crate) fn queue_at(&mut self, slot: u32) -> Option<AtQueue<'_>> {
        let Log { commons, machines, .. } = self;
        let queue = machines.queue_mut(slot).filter(|queue| queue.is_owned())?;
        Some(AtQueue { slot, queue, commons })
    }

    /// A queue of this log is filled from a stream of this log from now on, going on where it was before.
    pub(crate) fn begin_feed(&mut self, now: Now, feed: (QueueId, Source, Option<KeyRule>), limits: &Limits) {
        if let Some(streams) = self.streams.get_mut() {
            streams.begin_feed((&mut self.machines, &mut self.commons), now, feed, limits);
        }
    }

    // ---- machines come and go

    /// A queue of the catalog's is owned here from now on. Its machine begins with a record, which is appended unless it is
    /// there already, or the journal is being replayed: then the end of the replay sees to that.
    /// Where another leads the log, the queue is owned once this one does.
    pub(crate) fn claim(&mut self, now: Option<Now>, definition: &Arc<QueueDefinition>) {
        if !self.commons.pipeline.leads() {
            // Its messages may gather before this one leads, and have to come behind what opens it.
            return now.into_iter().for_each(|now| self.append_open(now, definition));
        }
        let is_open = self.machines.claim(definition.clone(), &mut self.streams);
        if let Some(now) = now.filter(|_| !is_open) {
            self.append_open(now, definition);
        }
    }

    fn append_open(&mut self, now: Now, definition: &QueueDefinition) {
        let open = Open { id: definition.id, at_ms: now.wall_ms, machine: machine_of(definition) };
        self.commons.pipeline.append(now, Brings::NOTHING, |records| open.write(records));
    }

    /// From now on the queue goes by these rules. What its machine records of that is appended.
    /// Where another leads the log, it is recorded in front of the messages that gather, as far as it concerns those.
    pub(crate) fn go_by(&mut self, turn: &mut Turn<'_>, definition: &QueueDefinition, rules: QueueRules) {
        if !self.commons.pipeline.leads() {
            return self.commons.append_rules(turn.now, definition, &rules);
        }
        if let Some(slot) = self.machines.owned_slot(definition.id) {
            self.at(slot).go_by(turn, rules);
        }
    }

    /// A queue is deleted: its consumers are told, and its machine ends with a record. Without `now` it is a replay, or the log
    /// is stopped: then nothing is recorded, and a machine that no record has opened is gone at once, as is any where the
    /// log goes on without records.
    pub(crate) fn delete_queue(
        &mut self,
        now: Option<Now>,
        definition: &QueueDefinition,
        limits: &Limits,
        post: &mut Post,
    ) {
        let Log { commons, machines, streams, recovering } = self;
        let id = definition.id;
        if !commons.pipeline.leads() {
            // A stream keeps its owner when the log loses its leader. The next who leads closes it.
            if machines.owned_slot(id).is_some() {
                machines.resign(id, (commons, streams), post, false);
            }
            if let Some(peers) = &mut commons.peers {
                peers.forget_queue(definition, post);
            }
            return;
        }
        if !machines.resign(id, (commons, streams), post, false) {
            return;
        }
        let Some(now) = now else {
            if recovering.is_none() || machines.get(id).is_some_and(|placed| !placed.is_open()) {
                machines.close(id, (commons, streams), recovering.is_some(), limits);
            }
            return;
        };
        // Nothing is kept of how far it was fed.
        if definition.has_source()
            && let Some(streams) = streams.get_mut()
        {
            streams.end_feed(machines, commons, now, id);
        }
        self.append_close(now, id);
    }

    fn append_close(&mut self, now: Now, id: QueueId) {
        // Files of its own go with it, and the record is to be on disk before they do.
        let has_files = self.machines.get(id).is_some_and(Placed::has_files);
        let brings = if has_files { Brings::FLUSH } else { Brings::NOTHING };
        let close = Close { id, at_ms: now.wall_ms };
        self.commons.pipeline.append(now, brings, |records| close.write(records));
    }

    /// The replay is over: the log comes to have the queues that the catalog says it has, no more and no fewer. The node may
    /// have gone down between the record of the catalog and that of the log.
    /// The catalog has heard of queues below `known_below`: of another one it is about to.
    pub(crate) fn agree_with_catalog(&mut self, now: Now, known_below: QueueId) {
        let mut unlike = Vec::new();
        let is_unlike = |placed: &&Placed| {
            placed.is_open() != placed.is_owned() && (placed.is_owned() || placed.id() < known_below)
        };
        for placed in self.machines.iter().filter(is_unlike) {
            unlike.push((placed.id(), placed.is_owned().then(|| placed.definition().clone())));
        }
        for (id, definition) in unlike {
            match definition {
                Some(definition) => self.append_open(now, &definition),
                None => self.append_close(now, id),
            }
        }
    }

    // ---- roles

    /// This node leads the log from now on. All that others have agreed on is applied, so it is known which queues of the
    /// catalog's are not open: records that open the `unopened`, and say which rules they go by, come in front of messages
    /// that have gathered for them. Where nothing has gathered, they come when the queues are owned.
    pub(crate) fn lead(
        &mut self,
        now: Now,
        unopened: Vec<(Arc<QueueDefinition>, QueueRules)>,
        (limits, post): (&Limits, &mut Post),
    ) {
        if !self.commons.pipeline.follows() {
            return;
        }
        let Commons { pipeline, origins, .. } = &mut self.commons;
        let outbox = pipeline.outbox_mut();
        if let Some(last) = origins.of(outbox.origin().node)
            && !outbox.go_on_behind(last)
        {
            post.outlived = post.outlived.max(Some(last.origin.incarnation));
        }
        pipeline.cut();
        for (definition, rules) in unopened {
            self.append_open(now, &definition);
            self.commons.append_rules(now, &definition, &rules);
        }
        let Commons { pipeline, store, .. } = &mut self.commons;
        let commands = pipeline.lead(now, &mut store.batches.spare);
        let until = self.commons.pipeline.next();
        let parked =
            commands.into_iter().map(|(port, queue, command)| Parked { until, queue, port, command });
        self.commons.agenda.parked.extend(parked);
        let Commons { pipeline, peers, .. } = &mut self.commons;
        if let Some(peers) = peers {
            peers.lead(now, pipeline, limits);
        }
    }

    /// The log is to be led here, and its queues owned, once everything before is applied and others have said what they hold.
    pub(crate) fn is_about_to_lead(&self) -> bool {
        self.commons.peers.is_some() && self.commons.pipeline.is_beginning()
    }

    /// The others are to say what their connections hold, before anything is handed out.
    pub(crate) fn waits_for_claims(&self, now: Now) -> bool {
        self.commons.peers.as_ref().is_some_and(|peers| peers.waits_for_claims(now))
    }

    /// Another leads the log from now on, or nobody: records that are not agreed on are taken back, and kept until they are
    /// recorded. The consumers of its queues are told that they are none any more; what they held is ready once somebody
    /// leads. Publishers are told nothing, commands wait, and streams are read on: see
    /// `docs/decisions/0017-roles-of-a-log.md`.
    pub(crate) fn resign(&mut self, turn: &mut Turn<'_>) {
        let led = self.commons.pipeline.leads();
        self.commons.pipeline.resign();
        self.keep_edge(led, turn.post);
        if let Some(streams) = self.streams.get_mut() {
            streams.stop_feeds(&mut self.machines);
        }
        let owned = self.machines.queues().filter(|queue| queue.is_owned());
        let owned: Vec<_> = owned.map(|queue| queue.id).collect();
        for id in owned {
            let keeps = self.commons.peers.is_some();
            self.machines.resign(id, (&mut self.commons, &mut self.streams), turn.post, keeps);
        }
        self.commons.agenda.set_aside.clear();
        // They are carried out in the order in which they came, behind what is proposed again.
        let until = self.commons.pipeline.applied();
        self.commons.agenda.parked.iter_mut().for_each(|parked| parked.until = until);
    }

    /// This node leads no more. What consumers of its connections hold is noted for whoever leads next, if it `led`: had others been
    /// waited for yet, that is known from the time before. Commands that wait go to the next who leads.
    fn keep_edge(&mut self, led: bool, post: &mut Post) {
        let Log { commons, machines, .. } = self;
        let Commons { pipeline, agenda, peers: Some(peers), .. } = commons else { return };
        peers.resign(post);
        let outbox = pipeline.outbox_mut();
        if led {
            let owned = machines.queues().filter(|queue| queue.is_owned());
            let kept = owned.flat_map(|queue| queue.kept_members().map(|kept| (queue.id, kept)));
            for (port, queue, command) in peers.edge.keep(kept) {
                peers.command(outbox, (port, queue), command);
            }
        }
        let stay = agenda.parked.iter().map(|parked| {
            machines.get(parked.queue).is_some_and(Placed::is_stream) && parked.port.node == NodeNo::ONLY
        });
        let stay: Vec<bool> = stay.collect();
        for (parked, stays) in std::mem::take(&mut agenda.parked).into_iter().zip(stay) {
            match stays {
                true => agenda.parked.push_back(parked),
                false => peers.command(outbox, (parked.port, parked.queue), parked.command),
            }
        }
    }

    /// The log is led from here on: the owner of its queues begins, as another one before may have handed out anything.
    pub(crate) fn begin(&mut self, turn: &mut Turn<'_>) {
        self.commons.agenda.dirty.clear();
        self.commons.agenda.choosing.clear();
        for slot in self.machines.slots() {
            self.at(slot).begin(turn);
        }
    }

    /// Nothing is kept any more of how far queues were filled from streams of this log that are not filled from them.
    pub(crate) fn forget_feeds(&mut self, now: Now, is_fed: impl Fn(QueueId) -> bool) {
        if let Some(streams) = self.streams.get() {
            streams.forget_feeds(&self.machines, &mut self.commons, now, is_fed);
        }
    }

    // ---- commands

    /// Carries out a connection's command, or parks it behind the messages under way. A queue that is gone answers
    /// not-found to those who want an answer.
    pub(crate) fn command(
        &mut self,
        turn: &mut Turn<'_>,
        queue: QueueId,
        port: PortId,
        command: QueueCommand,
    ) -> Done {
        let command = match &self.commons.peers {
            None => command,
            Some(_) => match self.ask_leader(turn.post, (port, queue), command) {
                Some(command) => command,
                None => return Done::Nothing,
            },
        };
        if command.follows_arrivals()
            && let Some(until) = self.commons.pipeline.arrivals_end()
        {
            return self.park(until, queue, port, command);
        }
        if !self.commons.pipeline.leads() && self.machines.owned_slot(queue).is_none() {
            // Nobody owns the queue for now.
            return self.park(self.commons.pipeline.applied(), queue, port, command);
        }
        let Some(slot) = self.machines.slot(queue) else {
            answer_gone(turn.post, port, command);
            return Done::Nothing;
        };
        if let QueueCommand::Credit { handle, .. } = command {
            // It says what one says that waits, of later.
            self.commons.agenda.give_up(port, queue, |waits| waits.credited() == Some(handle));
        }
        if let Some(until) = self.at(slot).comes_after(port, &command) {
            return self.park(until, queue, port, command);
        }
        self.carry_at(turn, slot, port, command)
    }

    /// A connection's command is for the node that leads, where that is another. Else it is given back, as are those of readers of
    /// a stream that has an owner here, which stays when the log loses its leader. Other readers are refused.
    #[cold]
    #[inline(never)]
    fn ask_leader(
        &mut self,
        post: &mut Post,
        (port, queue): (PortId, QueueId),
        command: QueueCommand,
    ) -> Option<QueueCommand> {
        let is_of_stream = self.machines.get(queue).is_some_and(Placed::is_stream);
        let is_for_reader = match command {
            QueueCommand::Stream(_) => true,
            QueueCommand::Counts { .. } | QueueCommand::Delete { .. } => false,
            _ => is_of_stream,
        };
        let is_owned = is_for_reader && self.machines.owned_slot(queue).is_some();
        let Commons { pipeline, peers: Some(peers), .. } = &mut self.commons else { return Some(command) };
        if is_owned || !pipeline.follows() {
            return Some(command);
        }
        if is_for_reader {
            if let Some(token) = command.token().filter(|_| port.node == NodeNo::ONLY) {
                let text = "streams are read at the node that leads their log alone";
                post.reply(port, token, Err(Refusal::not_served(text)));
            }
            return None;
        }
        // Behind what the connection published before.
        pipeline.cut();
        peers.command(pipeline.outbox_mut(), (port, queue), command);
        None
    }

    /// A command is carried out when all records before `until` are applied.
    fn park(&mut self, until: LogIndex, queue: QueueId, port: PortId, command: QueueCommand) -> Done {
        if matches!(command, QueueCommand::Leave) {
            // The connection is gone: messages that were handed to it before that is carried out would be lost on the way.
            self.commons.agenda.give_up(port, queue, QueueCommand::asks_for_messages);
        }
        self.commons.agenda.parked.push_back(Parked { until, queue, port, command });
        Done::Nothing
    }

    /// The first parked command whose time has come, taken out; none where another leads the log, unless that is stopped here.
    pub(crate) fn take_due(&mut self) -> Option<Parked> {
        if self.commons.is_stopped {
            return self.commons.agenda.parked.pop_front();
        }
        if !self.commons.pipeline.leads() {
            return None;
        }
        let applied = self.commons.pipeline.applied();
        self.commons.agenda.parked.pop_front_if(|parked| parked.until <= applied)
    }

    /// Carries out a connection's command.
    pub(crate) fn carry(
        &mut self,
        turn: &mut Turn<'_>,
        queue: QueueId,
        port: PortId,
        command: QueueCommand,
    ) -> Done {
        match self.machines.slot(queue) {
            Some(slot) => self.carry_at(turn, slot, port, command),
            None => {
                answer_gone(turn.post, port, command);
                Done::Nothing
            }
        }
    }

    #[inline]
    fn carry_at(&mut self, turn: &mut Turn<'_>, slot: u32, port: PortId, command: QueueCommand) -> Done {
        let Log { commons, machines, streams, .. } = self;
        if let Some(peers) = &mut commons.peers {
            peers.carries(port, machines.id_at(slot), &command);
        }
        let done = machines.carry(slot, (commons, streams), turn, port, command);
        let Done::Echo(member) = done else { return done };
        self.dispatch(turn);
        if let Some(mut at) = self.queue_at(slot) {
            at.tell_ready(turn, member);
        }
        Done::Nothing
    }

    /// A queue or a stream can hand out more at once.
    pub(crate) fn has_work(&self) -> bool {
        let has_work = || self.streams.get().is_some_and(|streams| streams.has_work());
        self.has_pressing_work() || (!self.commons.is_stopped && has_work())
    }

    /// A queue can hand out more at once, or something waits for the disk; whether its dead letters can be published is the
    /// shard's to say.
    pub(crate) fn has_pressing_work(&self) -> bool {
        let Commons { agenda, pipeline, peers, is_stopped, .. } = &self.commons;
        let has_queues = !agenda.dirty.is_empty() || !agenda.choosing.is_empty();
        let has_dirty = has_queues && pipeline.leads() && !is_stopped;
        let is_to_say = peers.as_ref().is_some_and(|peers| peers.is_pressing(pipeline));
        has_dirty || self.commons.pipeline.is_pressing() || (is_to_say && !is_stopped)
    }
}
