//! One shard: its copy of the catalog, its logs with their queues, and the connections that are at home here.
//!
//! A value without I/O. The loop around it, in every turn: hands in what the connections want ([`Shard::request`],
//! [`Shard::publish`], [`Shard::command`]) and what came from other shards ([`Shard::receive`]); calls
//! [`Shard::end_turn`]; writes the batches that gives out and reports them with [`Shard::written`]; carries out the
//! reads; hands [`Shard::take_events`] to the connections and [`Shard::take_mail`] to the other shards.
//! Invariants: a queue lives on the shard that owns its log; shard 0 plans the catalog's changes, and all shards apply
//! them in one order.

use crate::access::AccessRules;
use crate::catalog::{
    Actor, Applied, Catalog, Change, Object, Op, Plan, QueueDefinition, Reason, Refusal, ReplyCode, VhostId,
};
use crate::commit::CommitRule;
use crate::connection_limits::Unit;
use crate::dead_letters::{DeadLetter, DeadLetterings, Heard, own_port};
use crate::event::{Event, Events};
use crate::event_exchange::Occurrence;
use crate::limits::Limits;
use crate::log::{Brings, Log};
use crate::mail::Answering;
use crate::mail::Mail;
use crate::planner::{Answer, Asked, Planner};
use crate::post::Post;
use crate::queue_commands::{Done, Parked};
use crate::reading::{ReadBytes, ReadRequest};
use crate::reply::ReplyConsumers;
use crate::request::{ConsumerRef, Placement, QueueCommand, Reply};
use crate::spare::Spare;
use crate::streams::OffsetRules;
use crate::tally::{Survey, Tallies};
use crate::turn::Turn;
use crate::watch::Watches;
use base::id::{LogId, LogIndex, PortId, QueueId, ShardId};
use base::{Buffer, Now, Secrets};
use journal::{Place, Sealed};
use message::record;
use routing::Arguments;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use stream_files::StreamJob;

/// The log of the catalog.
pub const CATALOG_LOG: LogId = LogId(0);

/// What a shard is made from.
#[derive(Clone, Debug)]
pub struct ShardSettings {
    /// Which one it is.
    pub id: ShardId,
    /// How logs are spread.
    pub placement: Placement,
    /// Its bounds.
    pub limits: Limits,
    /// Who may log in from where.
    pub rules: Arc<AccessRules>,
    /// The node's name, as refusals have it (`rabbit@HOST`).
    pub node: Arc<str>,
    /// A quorum queue may be declared again as a classic one, and stays what it is.
    pub relaxes_types: bool,
    /// Where the dice begin that exchanges draw lots with; another one at each start tells the connections of before from those that
    /// come.
    pub seed: u64,
}

/// A connection that is at home here.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) actor: Actor,
    /// Queues where it has consumers, to be told when it goes; by handle, since there may be a hundred thousand.
    consumers: Vec<ConsumerRef>,
    /// It declared an exclusive queue.
    owns_queues: bool,
    /// Its channels that count.
    channels: u32,
    /// Its name, if its coming was announced, or what it does is told of.
    pub(crate) name: Option<Box<str>>,
    /// Its coming was announced, with what its client says of itself: then its going is too.
    announced: Option<Box<Arguments>>,
}

impl Shard {
    /// Bytes of memory of the table of connections: a slot and a control byte each, of which seven in eight may be full.
    pub(crate) fn ports_bytes(&self) -> usize {
        (self.ports.capacity() * 8 / 7).next_power_of_two() * (size_of::<(PortId, Port)>() + 1)
    }
}

impl Port {
    /// It has neither consumers nor queues of its own, and nobody was told by what port it goes.
    pub(crate) fn is_light(&self) -> bool {
        self.consumers.is_empty() && !self.owns_queues && self.announced.is_none()
    }
}

/// Parcels of another shard that came and are not acknowledged yet.
#[derive(Debug, Default)]
struct Unacknowledged {
    /// Bytes of records.
    bytes: usize,
    /// The memory the last of them came in, emptied.
    buffer: Option<Buffer>,
}

/// Whether it is a connection's, and not the node's own.
fn is_client(port: PortId) -> bool {
    port.slot != u32::MAX
}

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

    // ---- connections

    /// A connection has logged in and opened its virtual host: from now on it may ask for things as `actor`.
    pub fn open_port(&mut self, port: PortId, actor: Actor) {
        self.add_port(port, actor, None);
    }

    /// As [`Shard::open_port`], where [`Shard::is_limited`] says that a limit is to be asked. The answer comes as an
    /// [`Event::Reply`] with `token`; refused, the port is to be closed at once.
    pub fn ask_port(&mut self, port: PortId, actor: Actor, token: u32) {
        self.add_port(port, actor, Some((port, token)));
    }

    /// Whether a connection of this actor must ask before it is opened.
    pub fn is_limited(&self, actor: &Actor) -> bool {
        self.settings.limits.connections_max.is_some()
            || self.catalog.vhost_limits(actor.vhost).connections_max.is_some()
            || self.catalog.user_limits(&actor.user).connections_max.is_some()
    }

    /// Asks whether a channel may be opened where its user or the node has a limit; false: there is none, and it may. The
    /// answer comes as an [`Event::Reply`] with `token`. It counts until [`Shard::drop_channel`], a refused one too.
    pub fn ask_channel(&mut self, port: PortId, token: u32) -> bool {
        let Some(state) = self.ports.get_mut(&port) else { return false };
        let is_limited = self.settings.limits.channels_max.is_some()
            || self.catalog.user_limits(&state.actor.user).channels_max.is_some();
        if !is_limited {
            return false;
        }
        state.channels += 1;
        let actor = state.actor.clone();
        self.tell_census(Mail::Came { actor, unit: Unit::Channel, asked: Some((port, token)) });
        true
    }

    /// A channel that was asked for is gone.
    pub fn drop_channel(&mut self, port: PortId) {
        if let Some(state) = self.ports.get_mut(&port).filter(|state| state.channels > 0) {
            state.channels -= 1;
            let actor = state.actor.clone();
            self.tell_census(Mail::Left { actor, unit: Unit::Channel });
        }
    }

    fn add_port(&mut self, port: PortId, actor: Actor, asked: Option<(PortId, u32)>) {
        let state = Port {
            actor: actor.clone(),
            consumers: Vec::new(),
            owns_queues: false,
            channels: 0,
            name: None,
            announced: None,
        };
        self.ports.insert(port, state);
        if is_client(port) {
            self.tallies.churn.connection_created += 1;
            self.tell_census(Mail::Came { actor, unit: Unit::Connection { channels: 0 }, asked });
        }
    }

    /// Tells the planning shard what comes or goes.
    fn tell_census(&mut self, mail: Mail) {
        let planner = self.settings.placement.owner(CATALOG_LOG);
        if planner == self.settings.id { self.count(mail) } else { self.post.send(planner, mail) }
    }

    /// On the planning shard: counts what comes or goes, and answers who asked.
    fn count(&mut self, mail: Mail) {
        let census = &mut self.planner.as_mut().expect("this shard plans").census;
        match mail {
            Mail::Came { actor, unit, asked } => {
                if let Some((port, token)) = asked {
                    let node = (&*self.settings.node, &self.settings.limits);
                    let answer = census.check(&self.catalog, node, &actor, unit);
                    self.post.reply(port, token, answer.map(|()| Reply::Done));
                }
                census.came(&actor, unit);
            }
            Mail::Left { actor, unit } => census.left(&actor, unit),
            other => unreachable!("{other:?} is no matter of the census"),
        }
    }

    /// A connection is gone: its consumers go, what they held goes back, its exclusive queues are deleted.
    pub fn close_port(&mut self, now: Now, port: PortId) {
        let Some(Port { actor, mut consumers, owns_queues, channels, name, announced }) =
            self.ports.remove(&port)
        else {
            return;
        };
        if let (Some(name), Some(properties)) = (name, announced) {
            let (name, properties) = (&*name, &*properties);
            self.announce(now, &Occurrence::ConnectionClosed { port, name, properties });
        }
        if is_client(port) {
            self.tell_census(Mail::Left { actor: actor.clone(), unit: Unit::Connection { channels } });
            self.tallies.churn.connection_closed += 1;
        }
        self.replies.close_port(port);
        consumers.sort_unstable_by_key(|consumer| (consumer.log, consumer.queue));
        consumers.dedup_by_key(|consumer| (consumer.log, consumer.queue));
        for consumer in consumers {
            self.send_to_queue(now, consumer.log, consumer.queue, port, QueueCommand::Leave);
        }
        if owns_queues {
            let actor = Actor::internal(actor.vhost, port);
            self.send_to_planner(now, actor, None, Op::DeleteExclusive { port });
        }
    }

    /// Asks for a change of the catalog. The answer comes as an [`Event::Reply`] with `token`, when the change is on
    /// disk and every shard knows it.
    pub fn request(&mut self, now: Now, port: PortId, token: u32, op: Op) {
        let Some(state) = self.ports.get_mut(&port) else { return };
        state.owns_queues |= matches!(op, Op::DeclareQueue { exclusive: true, .. });
        let actor = state.actor.clone();
        self.send_to_planner(now, actor, Some(Answering { port, token, instead: None }), op);
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

    /// Notes that a connection has a consumer, to be told when it goes.
    #[cold]
    fn note_consumer(&mut self, port: PortId, log: LogId, queue: QueueId, command: &QueueCommand) {
        let handle = match command {
            QueueCommand::Consume { handle, .. } => Some(*handle),
            QueueCommand::Stream(command) => command.opens(),
            other => other.getter(),
        };
        if let (Some(handle), Some(state)) = (handle, self.ports.get_mut(&port)) {
            let key = |of: &ConsumerRef| (of.handle, of.log, of.queue);
            let consumer = ConsumerRef { log, queue, handle };
            if let Err(at) = state.consumers.binary_search_by_key(&key(&consumer), key) {
                state.consumers.insert(at, consumer);
            }
        }
    }

    /// The going of a connection is to be announced, under this name and with what its client says of itself.
    pub(crate) fn announce_end(&mut self, port: PortId, name: &str, properties: &Arguments) {
        if let Some(state) = self.ports.get_mut(&port) {
            state.name = Some(name.into());
            state.announced = Some(Box::new(properties.clone()));
        }
    }

    /// The connection is done with a consumer for good.
    pub fn forget_consumer(&mut self, port: PortId, handle: u32) {
        if let Some(state) = self.ports.get_mut(&port) {
            let begin = state.consumers.partition_point(|consumer| consumer.handle < handle);
            let end = state.consumers.partition_point(|consumer| consumer.handle <= handle);
            state.consumers.drain(begin..end);
            if state.consumers.is_empty() {
                state.consumers = Vec::new();
            }
        }
    }

    /// The connection is to hear [`Event::QueueDeleted`], with its own number `watcher`, when the queue is deleted. It
    /// must [`Shard::unwatch_queue`] before it closes.
    pub fn watch_queue(&mut self, port: PortId, queue: QueueId, watcher: u32) {
        self.watches.add(queue, port, watcher);
    }

    /// The connection no longer wants to hear of the queue.
    pub fn unwatch_queue(&mut self, port: PortId, queue: QueueId, watcher: u32) {
        self.watches.remove(queue, port, watcher);
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

    // ---- the catalog

    fn send_to_planner(&mut self, now: Now, actor: Actor, answer: Option<Answering>, op: Op) {
        if self.planner.is_some() {
            self.plan(now, actor, answer, op);
        } else {
            let planner = self.settings.placement.owner(CATALOG_LOG);
            self.post.send(planner, Mail::Plan { actor, answer, op: Box::new(op) });
        }
    }

    /// On the planning shard: works out what a request changes, applies it here and logs it.
    fn plan(&mut self, now: Now, actor: Actor, answer: Option<Answering>, op: Op) {
        let planner = self.planner.as_mut().expect("this shard plans");
        let Some(Asked { actor, answer, op }) = planner.put_off(Asked { actor, answer, op }) else { return };
        let planned = match self.settings.relaxes_types {
            true => self.catalog.plan_relaxed(&actor, &op),
            false => self.catalog.plan(&actor, &op),
        };
        let planned = planned.and_then(|plan| {
            self.settings.limits.check(&self.catalog, &plan.changes)?;
            planner.check_room(&plan.changes)?;
            Ok(plan)
        });
        let mut reply = Ok(Reply::Done);
        match planned {
            Err(refusal) => reply = Err(refusal),
            Ok(Plan { changes, queue }) => {
                let is_new = !changes.is_empty();
                if queue.is_none() {
                    let is_queue = |change: &&Change| matches!(change, Change::AddQueue(_));
                    self.tallies.churn.queue_declared += changes.iter().filter(is_queue).count() as u64;
                }
                for change in changes {
                    let told = self.announcements(&actor, answer.is_some(), &change);
                    self.make_change(now, change);
                    told.iter().for_each(|announcement| self.publish_announcement(now, announcement));
                }
                if let Some(queue) = queue {
                    self.tallies.churn.queue_declared += 1;
                    if !is_new && let Some(answer) = answer {
                        // What it holds now, only its owner knows.
                        let command = QueueCommand::Counts { token: answer.token };
                        self.send_to_queue(now, queue.log, queue.id, answer.port, command);
                        return;
                    }
                    reply = Ok(Reply::Declared { queue, is_new, ready: 0, consumers: 0 });
                } else if !is_new {
                    reply = Ok(Reply::Unchanged);
                }
            }
        }
        if let Some(Answering { port, token, instead }) = answer {
            let reply = reply.map(|reply| instead.unwrap_or(reply));
            let planner = self.planner.as_mut().expect("this shard plans");
            planner.add_answer(Answer { port, token, reply });
        }
    }

    /// Whether the journal has room left for what gives some back alone. While it has, nothing that is kept is newly made: who
    /// declares and binds is refused, unless it is there already.
    pub fn set_short(&mut self, is_short: bool) {
        if let Some(planner) = &mut self.planner {
            planner.set_short(is_short);
        }
    }

    /// On the planning shard: logs a change, applies it here and has it sent to the others.
    pub(crate) fn make_change(&mut self, now: Now, change: Change) {
        if change.is_durable() {
            let encoded = change.encode();
            let log = self.log_mut(CATALOG_LOG).expect("the planner owns the catalog's log");
            log.commons
                .pipeline
                .append(now, Brings::FLUSH, |records| record::write_catalog(&encoded, records));
        }
        self.apply_change(Some(now), &change);
        if let Change::Bind(binding) = &change {
            self.recall(now, binding);
        }
        self.planner.as_mut().expect("this shard plans").add_change(change);
    }

    /// A change of the catalog was applied here that is not known to be on disk. Until it is there is no snapshot, and where
    /// changes come without end, none ever: see [`Shard::hold_changes`].
    pub fn has_change_under_way(&self) -> bool {
        let committed = self.log(CATALOG_LOG).map(|log| log.commons.pipeline.committed()).unwrap_or_default();
        self.planner.as_ref().is_some_and(|planner| planner.has_unwritten(committed))
    }

    /// What is to change in the catalog waits from now on, so that what was changed gets to disk alone.
    pub fn hold_changes(&mut self) {
        if let Some(planner) = &mut self.planner {
            planner.hold();
        }
    }

    /// Makes the changes that have waited, in the order in which they were asked for, and waits for none any more.
    pub fn go_on_with_changes(&mut self, now: Now) {
        let held = self.planner.as_mut().map(Planner::go_on).unwrap_or_default();
        for Asked { actor, answer, op } in held {
            self.plan(now, actor, answer, op);
        }
    }

    /// Applies a change of the catalog and does what it means for the queues here. Without `now` it is a replay, at whose
    /// end queues learn what they go by.
    pub(crate) fn apply_change(&mut self, now: Option<Now>, change: &Change) {
        for applied in self.catalog.apply(change) {
            match applied {
                Applied::QueueCreated(definition) => {
                    if self.log_slots.contains_key(&definition.log) {
                        self.create_queue(definition.clone());
                        if let Some(now) = now {
                            self.tallies.churn.queue_created += 1;
                            self.go_by(now, &definition);
                            self.feed_once_known(now, &definition);
                        }
                        if self.catalog.is_traced(definition.vhost) {
                            self.trace_queue(&definition);
                        }
                    }
                }
                // Policies changed what the queue goes by: its owner takes that up at once.
                Applied::RulesChanged(definition) => {
                    if let Some(now) = now {
                        self.go_by(now, &definition);
                        self.feed_once_known(now, &definition);
                    }
                }
                Applied::Traced(vhost) => self.trace(vhost),
                Applied::VhostDeleted(vhost) => {
                    let text = format!("vhost '{}' is deleted", vhost.name);
                    self.close_ports(Object::VirtualHost, &text, |actor| actor.vhost == vhost.id);
                }
                Applied::UserDeleted(user) => {
                    let text = format!("user '{user}' is deleted");
                    self.close_ports(Object::User, &text, |actor| actor.user == user);
                }
                Applied::QueueDeleted(definition) => {
                    let is_here = self.log_slots.contains_key(&definition.log);
                    self.tallies.churn.queue_deleted += u64::from(now.is_some() && is_here);
                    let limits = self.settings.limits;
                    if definition.is_stream()
                        && let Some(slot) = self.log_slots.get(&definition.log)
                    {
                        if let Some(streams) = &mut self.logs[*slot as usize].streams {
                            streams.delete(definition.id, &mut self.post);
                        }
                    } else if let Some(slot) = self.log_slots.get(&definition.log)
                        && let Some(queue) = self.logs[*slot as usize].remove_queue(definition.id, &limits)
                    {
                        queue.tell_members(&mut self.post);
                        // A replay finds the record of it.
                        if let Some(now) = now.filter(|_| definition.has_source()) {
                            self.logs[*slot as usize].end_feed(now, definition.id);
                        }
                    }
                    for (port, watcher) in self.watches.take(definition.id) {
                        self.post.event(port, Event::QueueDeleted { watcher, queue: definition.id });
                    }
                }
            }
        }
    }

    /// A queue of a log of this shard is there.
    pub(crate) fn create_queue(&mut self, definition: Arc<QueueDefinition>) {
        let declared = definition.declared_rules();
        self.has_streams |= definition.is_stream();
        if let Some(log) = self.log_mut(definition.log) {
            log.create_queue(definition, &declared);
        }
    }

    /// A queue of this shard goes by what the catalog says now.
    pub(crate) fn go_by(&mut self, now: Now, definition: &QueueDefinition) {
        let limits = self.settings.limits;
        if let Some(slot) = self.log_slots.get(&definition.log) {
            let rules = self.catalog.rules(definition);
            let log = &mut self.logs[*slot as usize];
            log.go_by(&mut Turn::new(now, &limits, &mut self.post), definition.id, rules);
        }
    }

    /// A queue is filled from its stream, if it has one, once the record of the queue is on disk. Elsewhere than on the planning
    /// shard it is. What was fed before would come before that record in the journal: a replay would pass over the messages, as
    /// their queue is not there yet, and know how far they went.
    fn feed_once_known(&mut self, now: Now, definition: &QueueDefinition) {
        match &self.planner {
            _ if !definition.has_source() => {}
            Some(planner) => self.unfed.push_back((planner.next_wave(), definition.id)),
            None => self.feed(now, definition),
        }
    }

    /// A queue is filled from its stream, if it has one, from now on. Where the log is stopped that would be recorded as the
    /// first thing in it, before what is on disk.
    pub(crate) fn feed(&mut self, now: Now, definition: &QueueDefinition) {
        if definition.has_source()
            && !self.stopped.contains(&definition.log)
            && let Some(slot) = self.log_slots.get(&definition.log)
            && let Some(source) = self.catalog.source(definition)
        {
            let limits = self.settings.limits;
            self.logs[*slot as usize].begin_feed(now, definition.id, source, &limits);
        }
    }

    /// Closes the connections that a deleted object takes with it, in the order of their ports.
    fn close_ports(&mut self, object: Object, text: &str, is_theirs: impl Fn(&Actor) -> bool) {
        let theirs = self.ports.iter().filter(|(_, state)| is_theirs(&state.actor));
        let mut ports: Vec<PortId> = theirs.map(|(port, _)| *port).collect();
        ports.sort_unstable();
        for port in ports {
            let refusal = Refusal::new(ReplyCode::ConnectionForced, Reason::Deleted(object), text);
            self.post.event(port, Event::Close { refusal });
        }
    }

    /// On the planning shard, at the end of a turn: sends the waves that are committed, answers those all have seen.
    fn advance_waves(&mut self, now: Now) {
        let committed = self.log_mut(CATALOG_LOG).map(|log| log.commons.pipeline.committed());
        let (Some(planner), Some(committed)) = (&mut self.planner, committed) else { return };
        let mut sent = 0;
        while let Some((number, changes)) = planner.next_to_send(committed) {
            for shard in self.post.others() {
                self.post.send(shard, Mail::Changes { number, changes: changes.clone() });
            }
            sent = number;
        }
        planner.finished(|Answer { port, token, reply }| self.post.reply(port, token, reply));
        while let Some((_, id)) = self.unfed.pop_front_if(|(wave, _)| *wave <= sent) {
            // It may be gone again.
            if let Some(definition) = self.catalog.queue(id).cloned() {
                self.feed(now, &definition);
            }
        }
    }

    // ---- the turn

    /// Takes in what another shard sent. Events in it are for the connections: they are appended to `events`.
    pub fn receive(&mut self, now: Now, mail: Mail) -> Option<Box<Events>> {
        match mail {
            Mail::Append { from, log, mut records, waiters, needs_flush } => {
                if self.stopped.contains(&log) {
                    self.drop_stopped(log, records.bytes(), &waiters);
                } else if let Some(log) = self.log_mut(log) {
                    log.commons.append_records(now, records.bytes(), &waiters, needs_flush);
                }
                let unacknowledged = &mut self.unacknowledged[from.0 as usize];
                unacknowledged.bytes += records.len();
                records.truncate(0);
                unacknowledged.buffer = Some(records);
            }
            Mail::Ask { from, log, record, waiter, needs_flush } => {
                self.unacknowledged[from.0 as usize].bytes += record.len();
                match self.stopped.contains(&log) {
                    true => self.drop_stopped(log, record.bytes(), waiter.as_slice()),
                    false => self.admit(now, log, record, waiter, needs_flush),
                }
            }
            Mail::Remember { from, exchanges, record } => {
                self.unacknowledged[from.0 as usize].bytes += record.len();
                self.remember(now, &exchanges, record.bytes());
            }
            Mail::Announce(announcement) => self.publish_announcement(now, &announcement),
            Mail::Replies { from, replies } => {
                self.unacknowledged[from.0 as usize].bytes += replies.records.len();
                self.replies.deliver(replies, &self.settings.limits, &mut self.post);
            }
            Mail::ReplyAsked { port, token, address, missing } => {
                self.answer_whether_there(port, token, address, *missing);
            }
            mail @ (Mail::Came { .. } | Mail::Left { .. }) => self.count(mail),
            Mail::Taken { bytes, buffer } => {
                self.under_way -= bytes;
                if let Some(buffer) = buffer {
                    self.parcels.put_empty(buffer, self.settings.limits.spare_buffers_max);
                }
            }
            Mail::Queue { log, queue, port, command } => self.at_queue(now, log, queue, port, command),
            Mail::Plan { actor, answer, op } => self.plan(now, actor, answer, *op),
            Mail::Changes { number, changes } => {
                changes.iter().for_each(|change| self.apply_change(Some(now), change));
                let planner = self.settings.placement.owner(CATALOG_LOG);
                self.post.send(planner, Mail::ChangesSeen { number });
            }
            Mail::ChangesSeen { number } => {
                if let Some(planner) = &mut self.planner {
                    planner.seen(number);
                }
            }
            Mail::Answered { first, last, fate } => {
                self.post.heard.push(Heard { first, last, fate });
            }
            Mail::Stopped { log } => self.stop_log(log),
            Mail::Events(events) => return Some(events),
        }
        None
    }

    /// Ends the turn: what nobody waits for is applied, what somebody waits for is sealed. The batches in `out` are to
    /// be written, in order, in one group, and reported with [`Shard::written`].
    pub fn end_turn(&mut self, now: Now, out: &mut Vec<Sealed>) {
        let limits = self.settings.limits;
        self.replies.end_turn(&limits, &mut self.post);
        if self.has_dead() {
            self.publish_dead_letters(now);
        }
        // The catalog's log comes first, in every group: a queue is on disk before anything in it.
        for slot in 0..self.logs.len() {
            self.logs[slot].end_turn(&mut Turn::new(now, &limits, &mut self.post), out);
            self.carry_parked(now, slot);
            self.logs[slot].take_reads(&limits, &mut self.reads);
            if self.logs[slot].commons.agenda.timers.first().is_some_and(|at| at <= now.mono_ns) {
                self.ring(now, slot);
            }
        }
        if let Some(planner) = &mut self.planner {
            let slot = self.log_slots[&CATALOG_LOG];
            planner.close_wave(Some(self.logs[slot as usize].commons.pipeline.next()));
        }
        self.advance_waves(now);
        self.tell_taken();
        if self.spares_at <= now.mono_ns {
            self.forget_spares(now);
        }
    }

    /// Lets go of the buffers that no log needed lately.
    #[cold]
    #[inline(never)]
    fn forget_spares(&mut self, now: Now) {
        self.spares_at = now.after_ms(self.settings.limits.spare_ms_max);
        self.logs.iter_mut().for_each(Log::forget_spares);
        self.parcels.forget_unused();
    }

    /// Does what is due in the queues of a log.
    #[cold]
    fn ring(&mut self, now: Now, slot: usize) {
        let mut ended = Vec::new();
        let limits = self.settings.limits;
        self.logs[slot].look(&mut Turn::new(now, &limits, &mut self.post));
        self.logs[slot].ring(now, &mut ended);
        for definition in ended {
            let port = own_port(self.settings.id);
            self.finish(now, port, Done::Delete { definition, token: None, messages: 0 });
        }
    }

    /// Something is to be published anew, or what was is answered.
    #[inline]
    fn has_dead(&self) -> bool {
        !self.post.heard.is_empty() || !self.dead_letters.is_empty() || self.has_dying()
    }

    /// Queues have dead letters.
    #[inline]
    fn has_dying(&self) -> bool {
        self.logs.iter().any(|log| !log.commons.agenda.dying.is_empty())
    }

    /// Tells other shards that what they sent is taken in, unless too much waits for the disk here: then they hold
    /// their publishers as this shard holds its own.
    fn tell_taken(&mut self) {
        if self.bytes_in_flight() > self.settings.limits.log_bytes_in_flight_max {
            return;
        }
        for (to, unacknowledged) in
            self.unacknowledged.iter_mut().enumerate().filter(|(_, unacknowledged)| unacknowledged.bytes > 0)
        {
            let Unacknowledged { bytes, buffer } = std::mem::take(unacknowledged);
            self.post.send(ShardId(to as u16), Mail::Taken { bytes, buffer });
        }
    }

    /// The batch with this base, given out by [`Shard::end_turn`], is on disk.
    pub fn written(&mut self, now: Now, log: LogId, base: LogIndex, place: Place) {
        let limits = self.settings.limits;
        if let Some(slot) = self.log_slots.get(&log).map(|slot| *slot as usize) {
            self.logs[slot].written(&mut Turn::new(now, &limits, &mut self.post), base, place);
            self.carry_parked(now, slot);
            self.logs[slot].take_reads(&limits, &mut self.reads);
        }
        if log == CATALOG_LOG {
            self.advance_waves(now);
        }
        self.tell_taken();
    }

    /// Puts a log of this shard under another commit rule; only before anything was appended to it.
    pub fn set_commit_rule(&mut self, log: LogId, rule: CommitRule) {
        if let Some(log) = self.log_mut(log) {
            log.commons.pipeline.set_rule(rule);
        }
    }

    /// Under [`CommitRule::Quorum`]: somebody outside says that all records of `log` before `end` are agreed on. What of
    /// them is also on this node's disk is committed now.
    pub fn commit_outside(&mut self, now: Now, log: LogId, end: LogIndex) {
        let limits = self.settings.limits;
        if let Some(slot) = self.log_slots.get(&log).map(|slot| *slot as usize) {
            self.logs[slot].agreed(&mut Turn::new(now, &limits, &mut self.post), end);
            self.carry_parked(now, slot);
            self.logs[slot].take_reads(&limits, &mut self.reads);
        }
    }

    /// Something is left to do at once, without anything more coming in.
    pub fn has_work(&self) -> bool {
        self.has_pressing_work() || self.logs.iter().any(Log::has_work)
    }

    /// As [`Shard::has_work`], but for what readers of streams wait for: who has something to publish comes before them.
    pub fn has_pressing_work(&self) -> bool {
        self.logs.iter().any(Log::has_pressing_work)
            || self.post.has_events()
            || !self.post.heard.is_empty()
            || !self.dead_letters.is_empty()
            || (self.may_dead_letter() && self.has_dying())
            || self.planner.as_ref().is_some_and(Planner::has_open_wave)
    }

    /// When to come back though nothing came in; monotonic nanoseconds.
    pub fn deadline(&self) -> Option<u64> {
        let has_spares = !self.parcels.is_empty()
            || self.logs.iter().any(|log| !log.commons.store.batches.spare.is_empty());
        let logs = self.logs.iter().filter_map(|log| log.deadline(&self.settings.limits));
        logs.chain(has_spares.then_some(self.spares_at)).min()
    }

    /// Too much is appended, here or for other shards, and not yet committed: connections that publish are not to be
    /// read for now.
    pub fn is_congested(&self) -> bool {
        self.bytes_in_flight() + self.under_way > self.settings.limits.log_bytes_in_flight_max
            || (self.has_streams && self.unwritten_bytes() > self.settings.limits.stream_unwritten_bytes_max)
    }

    /// Memory of streams' chunks that are not written, bytes.
    fn unwritten_bytes(&self) -> usize {
        let streams = self.logs.iter().filter_map(|log| log.streams.as_ref());
        streams.map(|streams| streams.unwritten_bytes()).sum()
    }

    fn bytes_in_flight(&self) -> usize {
        self.logs.iter().map(|log| log.commons.pipeline.bytes()).sum()
    }

    /// Takes the reads that deliveries wait for; each is to be answered with [`Shard::read_done`].
    pub fn take_reads(&mut self, into: &mut Vec<ReadRequest>) {
        into.append(&mut self.reads);
    }

    /// What a read brought of each of its parts; `None`: the bytes there are not what was written, or cannot be read.
    ///
    /// # Panics
    /// When it brought more or fewer parts than were asked for.
    pub fn read_done(&mut self, now: Now, request: ReadRequest, brought: Vec<Option<ReadBytes>>) {
        let limits = self.settings.limits;
        if let Some(slot) = self.log_slots.get(&request.log).map(|slot| *slot as usize) {
            self.logs[slot].read_done(&mut Turn::new(now, &limits, &mut self.post), request, brought);
            // Now, while it is there: what is read next, for whom ever, may drive it out.
            if self.has_dying() {
                self.publish_dead_letters(now);
            }
            self.logs[slot].take_reads(&limits, &mut self.reads);
        }
    }

    /// Swaps this turn's events for the connections here into `into`, which is emptied first.
    pub fn take_events(&mut self, into: &mut Events) {
        self.post.take_events(into);
    }

    /// Moves the mail for another shard into `into`.
    pub fn take_mail(&mut self, to: ShardId, into: &mut Vec<Mail>) {
        self.post.take_mail(to, into);
    }
}
