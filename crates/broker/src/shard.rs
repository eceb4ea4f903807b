//! One shard: its copy of the catalog, its logs with their queues, and the connections that are at home here.
//!
//! A value without I/O. The loop around it, in every turn: hands in what the connections want ([`Shard::request`],
//! [`Shard::publish`], [`Shard::command`]) and what came from other shards ([`Shard::receive`]); calls
//! [`Shard::end_turn`]; writes the batches that gives out and reports them with [`Shard::written`]; carries out the
//! reads; hands [`Shard::take_events`] to the connections and [`Shard::take_mail`] to the other shards.
//! Invariants: a queue lives on the shard that owns its log; shard 0 plans the catalog's changes, and all shards apply
//! them in one order.

mod changes;
mod connections;
mod recovery;
mod settings;
mod turn;

use crate::access::AccessRules;
use crate::catalog::{Actor, Catalog, Op, Refusal, VhostId};
use crate::commit::CommitRule;
use crate::dead_letters::{DeadLetter, DeadLetterings};
use crate::limits::Limits;
use crate::log::Log;
use crate::mail::{Answering, Mail};
use crate::planner::Planner;
use crate::post::Post;
use crate::queue_commands::{Done, Parked};
use crate::reading::ReadRequest;
use crate::reply::ReplyConsumers;
use crate::request::{Placement, QueueCommand, Reply};
use crate::spare::Spare;
use crate::streams::OffsetRules;
use crate::tally::{Survey, Tallies};
use crate::turn::Turn;
use crate::watch::Watches;
use base::id::{LogId, LogIndex, PortId, QueueId};
use base::{Now, Secrets};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use stream_files::StreamJob;
use turn::Unacknowledged;

pub(crate) use connections::Port;
pub use settings::{CATALOG_LOG, ShardSettings};

/// A shard. See the module's head.
#[derive(Debug)]
pub struct Shard {
    pub(crate) settings: ShardSettings,
    pub(crate) catalog: Catalog,
    pub(crate) planner: Option<Planner>,
    pub(crate) logs: Vec<Log>,
    /// Which of `logs` a log is, by its number.
    pub(crate) log_slots: FxHashMap<LogId, u32>,
    pub(crate) ports: FxHashMap<PortId, Port>,
    pub(crate) post: Post,
    pub(crate) replies: ReplyConsumers,
    pub(crate) watches: Watches,
    /// Bytes of records sent to other shards that they have not said to have taken in.
    pub(crate) under_way: usize,
    /// Parcels of each shard that are not acknowledged yet.
    unacknowledged: Vec<Unacknowledged>,
    /// Buffers for records that go to other shards.
    pub(crate) parcels: Spare,
    reads: Vec<ReadRequest>,
    /// When spare buffers are looked at next, monotonic nanoseconds.
    spares_at: u64,
    pub(crate) dead_letterings: DeadLetterings,
    /// Messages that queues refused and that are to be published anew.
    pub(crate) dead_letters: VecDeque<DeadLetter>,
    pub(crate) tallies: Tallies,
    /// What keys of reply consumers and server-made names come from.
    secrets: Secrets,
    pub(crate) dead_segments: Vec<u64>,
    /// A log here has, or had, a stream.
    pub(crate) has_streams: bool,
    /// What is to be removed of streams once the catalog's log is on disk up to there.
    pub(crate) removals: VecDeque<(LogIndex, StreamJob)>,
    /// Queues that are to be filled from streams once the wave of that number is on disk, on the planning shard.
    unfed: VecDeque<(u64, QueueId)>,
    /// Logs of this node that hold damage: nothing is taken from them or put into them.
    pub(crate) stopped: Vec<LogId>,
    /// Everything of the catalog's log before this is in the catalog; only during recovery.
    pub(crate) catalog_covered: LogIndex,
}

impl Shard {
    /// A shard with nothing in it yet, and a source of secrets that no other part of the node has. Shard 0 plans the
    /// catalog.
    pub fn new(settings: ShardSettings, secrets: Secrets) -> Shard {
        let Placement { shards, logs } = settings.placement;
        let id = settings.id;
        let mut shard = Shard {
            catalog: Catalog::default(),
            planner: (id == settings.placement.owner(CATALOG_LOG)).then(|| Planner::new(shards - 1)),
            logs: Vec::new(),
            log_slots: FxHashMap::default(),
            ports: FxHashMap::default(),
            post: Post::new(id, shards),
            replies: ReplyConsumers::default(),
            watches: Watches::default(),
            under_way: 0,
            unacknowledged: (0..shards).map(|_| Unacknowledged::default()).collect(),
            parcels: Spare::default(),
            reads: Vec::new(),
            spares_at: 0,
            dead_letterings: DeadLetterings::default(),
            dead_letters: VecDeque::new(),
            tallies: Tallies::default(),
            secrets,
            dead_segments: Vec::new(),
            has_streams: false,
            removals: VecDeque::new(),
            unfed: VecDeque::new(),
            stopped: Vec::new(),
            catalog_covered: LogIndex(0),
            settings,
        };
        for log in shard.settings.placement.logs_of(id) {
            shard.add_log(log, CommitRule::Synced);
        }
        debug_assert!(logs > 0);
        shard.add_log(shard.settings.placement.memory_log(id), CommitRule::Immediate);
        shard
    }

    fn add_log(&mut self, log: LogId, rule: CommitRule) {
        self.log_slots.insert(log, self.logs.len() as u32);
        self.logs.push(Log::new(log, rule, OffsetRules::of(&self.settings)));
    }

    pub(crate) fn log(&self, log: LogId) -> Option<&Log> {
        let slot = *self.log_slots.get(&log)?;
        Some(&self.logs[slot as usize])
    }

    pub(crate) fn log_mut(&mut self, log: LogId) -> Option<&mut Log> {
        let slot = *self.log_slots.get(&log)?;
        Some(&mut self.logs[slot as usize])
    }

    /// Puts a log of this shard under another commit rule; only before anything was appended to it.
    pub fn set_commit_rule(&mut self, log: LogId, rule: CommitRule) {
        if let Some(log) = self.log_mut(log) {
            log.commons.pipeline.set_rule(rule);
        }
    }

    /// The shard's copy of the catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Who may log in from where.
    pub fn rules(&self) -> &AccessRules {
        &self.settings.rules
    }

    /// Its bounds.
    pub fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// Where what happens is counted.
    #[inline]
    pub fn tallies(&mut self) -> &mut Tallies {
        &mut self.tallies
    }

    /// A message was published to an exchange that routed it nowhere: it was sent back, or is gone.
    #[cold]
    pub fn note_unroutable(&mut self, vhost: VhostId, exchange: &[u8], is_returned: bool) {
        let number = self.tallies.exchange(&self.catalog, vhost, exchange);
        self.tallies.unroutable(number, is_returned);
    }

    /// What has happened here since the node started.
    pub fn survey(&self) -> Survey {
        let mut survey = self.tallies.survey();
        for log in &self.logs {
            survey.merge(&Survey {
                ends: log.commons.figures.ends,
                latencies: log.commons.figures.latencies,
                ..Survey::default()
            });
        }
        survey
    }

    /// Bytes that nobody may foretell: for a name that the server makes, or the number of a transaction.
    pub fn secret_bytes(&mut self) -> [u8; 16] {
        self.secrets.bytes()
    }

    /// The log a queue declared now by a connection of this shard is placed on: the one with the fewest queues of those that are
    /// not stopped.
    pub fn log_for_new_queue(&self, is_durable: bool) -> LogId {
        if !is_durable {
            return self.settings.placement.memory_log(self.settings.id);
        }
        let is_open = |log: &&Log| {
            log.commons.pipeline.is_durable()
                && log.commons.id != CATALOG_LOG
                && !self.stopped.contains(&log.commons.id)
        };
        let mine = self.logs.iter().filter(is_open);
        let count =
            |log: &&Log| log.queues.slab.len() + log.streams.as_ref().map_or(0, |streams| streams.len());
        let fewest = mine.min_by_key(count).map(|log| log.commons.id);
        fewest.unwrap_or(CATALOG_LOG)
    }

    /// Sends `command` to the queue's owner on behalf of `port`; what it answers comes as an event. The caller has
    /// checked permissions.
    pub fn command(&mut self, now: Now, port: PortId, log: LogId, queue: QueueId, command: QueueCommand) {
        if matches!(
            command,
            QueueCommand::Consume { .. }
                | QueueCommand::Get { .. }
                | QueueCommand::Pick { .. }
                | QueueCommand::Stream(_)
        ) {
            self.note_consumer(port, log, queue, &command);
        }
        self.send_to_queue(now, log, queue, port, command);
    }

    fn send_to_queue(&mut self, now: Now, log: LogId, queue: QueueId, port: PortId, command: QueueCommand) {
        let owner = self.settings.placement.owner(log);
        if owner == self.settings.id {
            self.at_queue(now, log, queue, port, command);
        } else {
            self.post.send(owner, Mail::Queue { log, queue, port, command });
        }
    }

    fn at_queue(&mut self, now: Now, log: LogId, queue: QueueId, port: PortId, command: QueueCommand) {
        let limits = self.settings.limits;
        if self.stopped.contains(&log) {
            if let Some(token) = command.token() {
                return self.post.reply(port, token, Err(Refusal::log_stopped(log)));
            }
            if command.is_recorded_unheard() {
                // What is on disk stays what it is, and nobody waits for an answer.
                return;
            }
        }
        if command.looks() && self.has_dead() {
            self.publish_dead_letters(now);
        }
        let Some(slot) = self.log_slots.get(&log) else { return };
        let done = self.logs[*slot as usize].command(
            &mut Turn::new(now, &limits, &mut self.post),
            queue,
            port,
            command,
        );
        self.finish(now, port, done);
    }

    /// Carries out the commands of a log that waited for messages which are in their queues now.
    fn carry_parked(&mut self, now: Now, slot: usize) {
        let limits = self.settings.limits;
        while let Some(Parked { queue, port, command, .. }) = self.logs[slot].take_due() {
            let done =
                self.logs[slot].carry(&mut Turn::new(now, &limits, &mut self.post), queue, port, command);
            self.finish(now, port, done);
        }
    }

    /// Does what a command left to do.
    fn finish(&mut self, now: Now, port: PortId, done: Done) {
        match done {
            Done::Nothing => {}
            Done::Delete { definition, token, messages } => {
                let mut actor = Actor::internal(definition.vhost, port);
                if let Some(state) = self.ports.get(&port) {
                    actor.user = state.actor.user.clone();
                }
                let instead = Some(Reply::Deleted { messages });
                let answer = token.map(|token| Answering { port, token, instead });
                self.send_to_planner(now, actor, answer, Op::DeleteQueue { id: definition.id });
            }
        }
    }
}
