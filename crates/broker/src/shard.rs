//! One shard: its copy of the catalog, its logs with their queues, and the connections that are at home here.
//!
//! A value without I/O. The loop around it, in every turn: hands in what the connections want ([`Shard::request`],
//! [`Shard::publish`], [`Shard::command`]) and what came from other shards ([`Shard::receive`]); calls
//! [`Shard::end_turn`]; writes the batches that gives out and reports them with [`Shard::written`]; carries out the
//! reads; hands [`Shard::take_events`] to the connections and [`Shard::take_mail`] to the other shards.
//! Invariants: a queue lives on the shard that owns its log; shard 0 plans the catalog's changes, and all shards apply
//! them in one order.

mod agreeing;
mod changes;
mod connections;
mod governing;
mod leading;
mod pace;
mod recovery;
mod settings;
mod turn;
mod wishing;

use crate::access::AccessRules;
use crate::catalog::{Actor, Catalog, Op, VhostId};
use crate::connection_limits::Census;
use crate::dead_letterings::DeadLetterings;
use crate::limits::Limits;
use crate::listing::Listing;
use crate::log::{Commons, Parked};
use crate::logs::Logs;
use crate::mail::{Answering, Mail, own_port};
use crate::peers::Peers;
use crate::placed::queue::commands::Done;
use crate::planner::Planner;
use crate::ports::Ports;
use crate::post::Post;
use crate::publisher::{OwnPublisher, Publisher};
use crate::reply::ReplyConsumers;
use crate::request::{QueueCommand, Reply};
use crate::stopped::answer_stopped;
use crate::tally::{Survey, Tallies};
use crate::turn::Turn;
use base::id::{LogId, LogIndex, NodeNo, PortId, QueueId, ShardId};
use base::{Now, Quantum, Secrets, Work};

pub use crate::catalog::CATALOG_LOG;
pub(crate) use pace::Pace;
pub(crate) use settings::PLANNER;
pub use settings::ShardSettings;

/// A shard. See the module's head.
#[derive(Debug)]
pub struct Shard {
    pub(crate) settings: ShardSettings,
    pub(crate) catalog: Catalog,
    /// On the shard that plans; where several nodes agree on the catalog, while this one leads it.
    planner: Option<Planner>,
    /// On the shard that plans, where several nodes agree on the catalog.
    peers: Option<Box<Peers>>,
    /// Several nodes agree on the catalog.
    is_shared: bool,
    /// On the shard that plans: the connections of the node.
    census: Census,
    pub(crate) logs: Logs,
    pub(crate) ports: Ports,
    pub(crate) post: Post,
    pub(crate) replies: ReplyConsumers,
    dead_letterings: DeadLetterings,
    pub(crate) pace: Pace,
    pub(crate) tallies: Tallies,
    /// The source of keys of reply consumers and of server-made names.
    secrets: Secrets,
    /// The memory alarm holds.
    is_low_on_memory: bool,
    /// Everything of the catalog's log before this is in the catalog; only during recovery, and where nodes agree.
    catalog_covered: LogIndex,
}

impl Shard {
    /// A shard with nothing in it yet, and a source of secrets that no other part of the node has. Shard 0 plans the
    /// catalog.
    pub fn new(settings: ShardSettings, secrets: Secrets) -> Shard {
        let (id, placement) = (settings.id, settings.placement);
        Shard {
            catalog: Catalog::default(),
            planner: settings.plans().then(|| Planner::new(placement.shards - 1)),
            peers: None,
            is_shared: false,
            census: Census::default(),
            logs: Logs::new(&settings),
            ports: Ports::default(),
            post: Post::new(id, placement),
            replies: ReplyConsumers::default(),
            dead_letterings: DeadLetterings::default(),
            pace: Pace::new(&settings.limits),
            tallies: Tallies::default(),
            secrets,
            is_low_on_memory: false,
            catalog_covered: LogIndex(0),
            settings,
        }
    }

    /// The shard's copy of the catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The work on the input of connections: allowed, and taken off, by whoever hands that in.
    #[inline]
    pub fn work(&mut self) -> &mut Work {
        &mut self.pace.work
    }

    /// Units of work that a turn has for the input of connections: [`Limits::turn_work_max`], unless they were set.
    #[inline]
    pub fn turn_work(&self) -> u32 {
        self.pace.units
    }

    /// Turns have so many units of work from now on, as whoever measures how long they take sees fit; dead letters have
    /// theirs in the same proportion.
    pub fn set_turn_work(&mut self, units: u32) {
        self.pace.units = units.max(1);
    }

    /// Units of work on dead letters that a turn has.
    pub fn dead_lettering_work(&self) -> u32 {
        self.pace.of_dead_letters(&self.settings.limits)
    }

    /// Units of work on dead letters that there ever were, but those of the last turn.
    pub fn dead_letters_work(&self) -> u64 {
        self.dead_letterings.all_work()
    }

    /// No more input is to be worked on before [more work is allowed](Work::allow).
    #[inline]
    pub fn has_worked_enough(&self) -> bool {
        self.pace.work.is_over()
    }

    /// The logs that live here.
    pub fn logs(&self) -> &Logs {
        &self.logs
    }

    /// The logs that live here.
    pub fn logs_mut(&mut self) -> &mut Logs {
        &mut self.logs
    }

    /// The queues that live here, to be looked at.
    pub fn listing(&self) -> Listing<'_> {
        Listing { catalog: &self.catalog, logs: &self.logs }
    }

    /// The users that may log in, and from where.
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

    /// Counts of all that has happened here since the node started.
    pub fn survey(&self) -> Survey {
        let mut survey = self.tallies.survey();
        for log in self.logs.every() {
            survey.merge(&Survey {
                ends: log.commons.figures.ends,
                latencies: log.commons.figures.latencies,
                ..Survey::default()
            });
        }
        survey
    }

    /// Bytes of memory by what they are for, queues apart, in the words of RabbitMQ's memory breakdown.
    pub fn memory_pools(&self) -> [(&'static str, u64); 4] {
        let [messages, index] = self.logs.memory_bytes();
        let index = index + self.post.parcels.heap_bytes();
        [
            ("binary", messages as u64),
            ("msg_index", index as u64),
            ("connection_other", self.ports.heap_bytes() as u64),
            ("filters", self.ports.filter_bytes() as u64),
        ]
    }

    /// Bytes of memory of the planner's copy of the catalog, near enough; what it shares with the shard's is left out.
    pub fn planned_bytes(&self) -> usize {
        self.planner.as_ref().map_or(0, |planner| planner.catalog.tables_bytes())
    }

    /// Bytes of memory of the filters of bindings, those of the planner's copy included, of as many exchanges at a time as
    /// `quantum` allows, from number `at` on. Returns where to go on, until all were counted.
    pub fn filters_bytes_from(&self, at: usize, quantum: &mut Quantum<'_>) -> (usize, Option<usize>) {
        let (own, next) = self.catalog.filters_bytes_from(at, quantum);
        // The planner's has the same exchanges, or nearly: it is counted with the shard's, as far as that went.
        let most = next.map_or(usize::MAX, |next| next - at);
        let planned = self
            .planner
            .as_ref()
            .map_or(0, |planner| planner.catalog.filters_bytes_from(at, &mut Quantum::of(most)).0);
        (own + planned, next)
    }

    /// Bytes that nobody may foretell: for a name that the server makes, or the number of a transaction.
    pub fn secret_bytes(&mut self) -> [u8; 16] {
        self.secrets.bytes()
    }

    // ---- publishing of the shard's own

    /// The shard as a publisher of its own messages.
    pub(crate) fn own(&mut self, now: Now) -> OwnPublisher<'_> {
        let Shard { settings, catalog, logs, post, tallies, .. } = self;
        OwnPublisher { now, settings, catalog, logs, post, tallies }
    }

    /// As [`Shard::own`], and the connections here.
    pub(crate) fn own_and_ports(&mut self, now: Now) -> (OwnPublisher<'_>, &Ports) {
        let Shard { settings, catalog, logs, post, tallies, ports, .. } = self;
        (OwnPublisher { now, settings, catalog, logs, post, tallies }, ports)
    }

    /// Publishes dead letters anew, and takes in the answers of logs to those published before.
    fn publish_dead_letters(&mut self, now: Now) {
        let Shard { settings, catalog, logs, post, tallies, dead_letterings, .. } = self;
        dead_letterings.publish(&mut OwnPublisher { now, settings, catalog, logs, post, tallies });
    }

    // ---- where logs are, and commands to their queues

    /// The owner of `log`, where that is another shard.
    pub fn other_owner(&self, log: LogId) -> Option<ShardId> {
        self.post.whereabouts.home(log).filter(|owner| *owner != self.settings.id)
    }

    /// The shard to be asked about `log`: the one that has it, as far as is known here. None: it is here between two places, and
    /// will be here, or known to be elsewhere, in a turn to come.
    pub fn host(&self, log: LogId) -> Option<ShardId> {
        match self.logs.get(log) {
            Some(_) => Some(self.settings.id),
            None if self.logs.is_between(log) => None,
            None => Some(self.post.whereabouts.last_home(log)),
        }
    }

    /// The slot of a log whose queues are owned here; one that leaves is not among them, nor is one that has to make up for
    /// changes of the catalog first.
    pub(crate) fn home_slot(&self, log: LogId) -> Option<usize> {
        let owner = || self.post.whereabouts.owner(log);
        self.logs.slot(log).filter(|_| owner() == Some(self.settings.id) && !self.logs.owes(log))
    }

    /// The one other shard that all messages of a publisher go to so far, if there is one: the owner of their only log.
    pub fn home_of(&self, publisher: &Publisher) -> Option<ShardId> {
        let mut owners = publisher.logs().map(|log| self.other_owner(log));
        let home = owners.next()?;
        home.filter(|_| owners.all(|owner| owner == home))
    }

    /// Sends `command` to the queue's owner on behalf of `port`; what it answers comes as an event. The caller has
    /// checked permissions.
    pub fn command(&mut self, now: Now, port: PortId, log: LogId, queue: QueueId, command: QueueCommand) {
        if matches!(
            command,
            QueueCommand::Consume { .. }
                | QueueCommand::Select { .. }
                | QueueCommand::Get { .. }
                | QueueCommand::Pick { .. }
                | QueueCommand::Stream(_)
        ) {
            self.ports.note_consumer(port, log, queue, &command);
        }
        self.send_to_queue(now, log, queue, port, command);
    }

    fn send_to_queue(&mut self, now: Now, log: LogId, queue: QueueId, port: PortId, command: QueueCommand) {
        if self.post.whereabouts.home(log) == Some(self.settings.id) {
            self.at_queue(now, log, queue, port, command);
        } else {
            self.post.send_to_log(log, Mail::Queue { log, queue, port, command });
        }
    }

    fn at_queue(&mut self, now: Now, log: LogId, queue: QueueId, port: PortId, command: QueueCommand) {
        if self.logs.is_stopped(log) {
            return answer_stopped(&mut self.post, log, port, &command);
        }
        if command.looks() && self.has_dead() {
            self.publish_dead_letters(now);
        }
        let Some(slot) = self.logs.slot(log) else { return };
        let mut turn = Turn::new(now, &self.settings.limits, &mut self.post);
        let done = self.logs.all[slot].command(&mut turn, queue, port, command);
        self.finish(now, port, done);
    }

    /// Throws delayed messages of a queue that lives here away; how many of `ids` were there. `None` where it does not.
    pub fn cancel_delayed(&mut self, now: Now, vhost: &str, queue: &str, ids: &[u64]) -> Option<u64> {
        let (log, slot) = self.listing().find_queue(vhost, queue)?;
        let mut turn = Turn::new(now, &self.settings.limits, &mut self.post);
        let Commons { pipeline, is_stopped, .. } = &self.logs.all[log].commons;
        if !pipeline.leads() {
            return None;
        }
        if *is_stopped {
            return Some(0);
        }
        Some(self.logs.all[log].queue_at(slot)?.cancel_delayed(&mut turn, ids))
    }

    /// Carries out the commands of a log that waited for messages which are in their queues now.
    fn carry_parked(&mut self, now: Now, slot: usize) {
        while let Some(Parked { queue, port, command, .. }) = self.logs.all[slot].take_due() {
            let Commons { id, is_stopped, .. } = self.logs.all[slot].commons;
            if is_stopped {
                self.at_queue(now, id, queue, port, command);
                continue;
            }
            let mut turn = Turn::new(now, &self.settings.limits, &mut self.post);
            let done = self.logs.all[slot].carry(&mut turn, queue, port, command);
            self.finish(now, port, done);
        }
    }

    /// Carries out the rest of a command.
    fn finish(&mut self, now: Now, port: PortId, done: Done) {
        match done {
            Done::Nothing | Done::Echo(_) => {}
            Done::Delete { definition, token: Some(token), messages } if port.node != NodeNo::ONLY => {
                // Its own node wants it deleted, on behalf of its user, and answers once all nodes know.
                let reply = Reply::MayDelete { queue: definition.id, messages };
                self.post.reply(port, token, Ok(reply));
            }
            Done::Delete { definition, token, messages } => {
                let port = if port.node == NodeNo::ONLY { port } else { own_port(self.settings.id) };
                let mut actor = Actor::internal(definition.vhost, port);
                if let Some(state) = self.ports.get(port) {
                    actor.user = state.actor.user.clone();
                }
                let instead = Some(Reply::Deleted { messages });
                let answer = token.map(|token| Answering { port, token, instead });
                self.send_to_planner(now, actor, answer, Op::DeleteQueue { id: definition.id });
            }
        }
    }
}
