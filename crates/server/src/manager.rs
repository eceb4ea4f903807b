//! The node as the management HTTP API asks it: letters to the shards, and what the system says.

use crate::agent;
use crate::alarm::{Meter, Watermarks};
use crate::breakdown::{self, Breakdown};
use crate::clock::Clock;
use crate::committer::Committer;
use crate::config::Config;
use crate::descriptors::Places;
use crate::door::{Act, CancelDelayed, Door, Letter, ResetOffset, Room, Truncate};
use crate::http::Pools;
use crate::lanes::Lanes;
use crate::log::Logger;
use crate::news;
use crate::passwords::{Ask, Passwords};
use crate::queue_names::{Names, QueueNames};
use crate::queue_orders::QueueOrders;
use crate::reader::Reads;
use crate::seed;
use crate::socket::Traffic;
use crate::tls::LiveConfig;
use base::hash::MapById;
use base::id::QueueSeq;
use base::time::NS_PER_MS;
use base::{Now, Quantum};
use broker::access::{AccessRules, Guard, Hashing, PasswordHash, Trial};
use broker::catalog::{Catalog, Op, QueueDefinition, Refusal, VhostDefaults, VhostId};
use broker::ledger::Ledger;
use broker::{
    Begin, ConnectionId, ConnectionRow, ConnectionSums, HeldCounts, HeldRow, ListedTo, Listing, OpenSums,
    Opened, Pulse, QueueRow, QueueSums, QueueTally, Reply, SessionRow, Shard, Standing, StreamReply, Survey,
    Tally, TenantRow, Tracking,
};
use management::{
    About, Action, Authority, Begun, Busy, Compared, Condition, Counters, Delayed, Gate, History, Login,
    Member, Memory, Node, Outcome, PoolRow, Replicas, SAMPLE_MS, Tried, Trouble, Which, Whose, Writing,
    counters, durations, figures,
};
use node::turn::Raised;
use rustix::process::Resource;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long an answer of a shard is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Nanoseconds that a look at a shard may take of one turn, where it can go on in the next.
pub const LOOK_NS: u64 = 500_000;

/// Queues, and messages of them, that a shard looks at in one turn.
const QUEUES_TURN: usize = 500;

/// Queues that a shard lists by name alone in one turn.
const NAMES_TURN: usize = 4000;

/// Connections and channels that a shard lists in brief in one turn.
const CONNECTIONS_TURN: usize = 2000;

/// Connections, and the channels and consumers on them, that a shard lists in full in one turn.
const ROWS_TURN: usize = 250;

/// Users of connections, by name.
type TenantRows = BTreeMap<Arc<str>, TenantRow>;

/// See the module.
pub struct Manager<'a> {
    /// All shards' doors.
    pub doors: &'a [Door],
    /// The node's configuration.
    pub config: &'a Config,
    /// The alarms that hold.
    pub raised: &'a (dyn Fn() -> Raised + Sync),
    /// Whether something could not be written for lack of space, and still cannot.
    pub lacks_space: &'a (dyn Fn() -> bool + Sync),
    /// When alarms are raised.
    pub watermarks: &'a Watermarks,
    /// Since when it runs.
    pub clock: Clock,
    /// The facts of the node that do not change.
    pub about: About,
    /// The shard that serves the next connection, modulo their number.
    pub next: AtomicUsize,
    /// The writer to the disk, for its counters and its state.
    pub committer: &'a Committer,
    /// How counters grow.
    pub history: Mutex<History>,
    /// Which queues there are, as long as somebody wants to know.
    pub queue_names: QueueNames,
    /// Orders of queues that pages come from.
    pub queue_orders: QueueOrders,
    /// When somebody last wanted to know, milliseconds since the node started; 0: nobody yet.
    pub asked_at: AtomicU64,
    /// Wakes the thread that samples.
    pub wake: Sender<()>,
    /// Logins over HTTP: tried, refused.
    pub logins: [AtomicU64; 2],
    /// Those that are not to be told of any more, by protocol.
    pub forgotten: Mutex<Vec<[u64; 2]>>,
    /// Counters of reads from the disk.
    pub reads: Arc<Reads>,
    /// The TLS configurations of the listeners that have one.
    pub tls: &'a [Arc<LiveConfig>],
    /// The node is to end: work under way begins nothing more.
    pub is_stopping: &'a AtomicBool,
    /// The lanes to other nodes, where there are any.
    pub lanes: Option<&'a Lanes>,
    /// Where lines go.
    pub logger: Logger,
    /// Where passwords are brought that take long to compare, and to hash.
    pub passwords: Passwords,
    /// Places of clients of HTTP.
    pub pools: Arc<Pools>,
    /// Places of connections.
    pub places: Arc<Places>,
}

impl Manager<'_> {
    /// The facts of the node that do not change while it runs.
    pub fn about(
        config: &Config,
        identity: u128,
        listeners: &[ctl::Listener],
        access: Arc<AccessRules>,
        guard: Arc<Guard>,
        ledger: Arc<Ledger>,
    ) -> About {
        let listener = |own: &ctl::Listener| management::Listener {
            address: if own.interface == "[::]" { "::".to_owned() } else { own.interface.clone() },
            port: own.port,
            protocol: own.protocol.clone(),
            backlog: config.socket.backlog,
        };
        About {
            node: config.node_name.clone(),
            cluster: config.cluster_called().to_owned(),
            cluster_id: format!("leveret-{identity:032x}"),
            metrics_each: config.metrics_each,
            metrics_path: config.metrics_path.clone(),
            version: base::rabbitmq::VERSION.to_owned(),
            product: "Leveret".to_owned(),
            product_version: env!("CARGO_PKG_VERSION").to_owned(),
            listeners: listeners.iter().map(listener).collect(),
            settings: settings(config),
            settings_read: config
                .shown
                .iter()
                .map(|own| (own.key.clone(), own.value.clone(), own.from.clone()))
                .collect(),
            config_files: config.files.iter().map(|path| path.display().to_string()).collect(),
            data_dir: std::path::absolute(&config.data_dir)
                .unwrap_or_else(|_| config.data_dir.clone())
                .display()
                .to_string(),
            pid: std::process::id(),
            processors: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
            access,
            guard,
            ledger,
            web_sessions: None,
            browsers_see: config.browsers_see,
            permits_transient_queues: config.permits_transient_queues,
            permits_global_qos: config.permits_global_qos,
            permits_address_v1: config.permits_address_v1,
            connections_max: config.connection_max.map(u64::from),
            consumer_timeout_ms: config.consumer_timeout_ms,
            prefix: management::path(&config.gate.prefix),
            limits: management::Limits {
                body_bytes_max: config.http_body_bytes_max as usize,
                ..management::Limits::default()
            },
        }
    }

    /// The gate of the HTTP API. The machine's names are its own host name and the one in the node's name.
    pub fn gate(&self) -> Gate {
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let named = self.config.node_name.split_once('@').map(|(_, host)| host.to_owned());
        let names = [Some(own), named].into_iter().flatten();
        Gate {
            rules: self.config.gate.clone(),
            names: names.filter_map(|name| Authority::read(&name)).collect(),
            loopback_users: self.about.access.loopback_users.clone(),
            sessions: self.about.web_sessions.clone(),
        }
    }

    fn look_at<T: Send + 'static>(
        &self,
        door: &Door,
        look: impl FnOnce(&Shard) -> T + Send + 'static,
    ) -> Result<T, Busy> {
        door.look(PATIENCE, look).ok_or(Busy)
    }

    /// Looks for what one shard at most has: `look` finds it there.
    fn look_for<T: Send + 'static>(
        &self,
        look: impl Fn(&Shard) -> Option<T> + Clone + Send + 'static,
    ) -> Result<Option<T>, Busy> {
        for door in self.doors {
            let found = self.look_at(door, look.clone())?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Visits every shard, at most `things` of its connections in a turn: `visit` says where to go on.
    fn visit_all<T: Send + 'static>(
        &self,
        things: usize,
        visit: impl Fn(&Room<'_>, u32, &mut Quantum<'_>, &mut Vec<T>) -> Option<u32> + Clone + Send + 'static,
    ) -> Result<Vec<T>, Busy> {
        let mut all = Vec::new();
        self.visit_with(things, Vec::with_capacity(things), visit, |found| all.append(found))?;
        Ok(all)
    }

    /// The same with one thing that is filled by all visits; `then` has it after each. Where to go on is told in any way that has a
    /// beginning.
    fn visit_with<S: Send + 'static, At: Default + Send + 'static>(
        &self,
        things: usize,
        mut filled: S,
        visit: impl Fn(&Room<'_>, At, &mut Quantum<'_>, &mut S) -> Option<At> + Clone + Send + 'static,
        mut then: impl FnMut(&mut S),
    ) -> Result<S, Busy> {
        let clock = self.clock;
        for door in self.doors {
            let mut from = Some(At::default());
            while let Some(at) = from {
                let visit = visit.clone();
                // It goes to and fro: the shard need not make room for what it finds.
                let visited = door.visit(PATIENCE, move |room| {
                    let now = || clock.mono_ns();
                    let next = visit(room, at, &mut Quantum::new(things, LOOK_NS, &now), &mut filled);
                    (next, filled)
                });
                (from, filled) = visited.ok_or(Busy)?;
                then(&mut filled);
            }
        }
        Ok(filled)
    }

    /// Looks at the queues of every shard, at most `things` of them in a turn: `look` says where to go on.
    fn look_at_queues<T: Send + 'static>(
        &self,
        things: usize,
        look: impl Fn(Listing<'_>, ListedTo, &mut Quantum<'_>, &mut Vec<T>) -> Option<ListedTo>
        + Clone
        + Send
        + 'static,
    ) -> Result<Vec<T>, Busy> {
        let mut all = Vec::new();
        self.look_at_each(things, look, |found| all.append(found))?;
        Ok(all)
    }

    /// The same, for a caller that keeps none of it: `take` empties the rows found in a turn.
    fn look_at_each<T: Send + 'static>(
        &self,
        things: usize,
        look: impl Fn(Listing<'_>, ListedTo, &mut Quantum<'_>, &mut Vec<T>) -> Option<ListedTo>
        + Clone
        + Send
        + 'static,
        take: impl FnMut(&mut Vec<T>),
    ) -> Result<(), Busy> {
        let visit = move |room: &Room<'_>, from, quantum: &mut Quantum<'_>, found: &mut Vec<T>| {
            look(room.shard.listing(), from, quantum, found)
        };
        self.visit_with(things, Vec::with_capacity(things), visit, take).map(drop)
    }

    /// Samples until the node ends: all counters every so often while somebody wants to know rates, and those of the past
    /// always.
    pub fn sample_on(&self, woken: &Receiver<()>, is_over: impl Fn() -> bool) {
        let limits = &self.about.limits;
        let (mut was_wanted, mut past_due_ns) = (false, self.clock.mono_ns());
        let mut pause = Duration::from_millis(limits.past_gap_ms);
        loop {
            let called = woken.recv_timeout(pause);
            if is_over() || called == Err(RecvTimeoutError::Disconnected) {
                return;
            }
            let now = self.clock.now();
            let asked_at = self.asked_at.load(Ordering::Relaxed);
            let is_wanted = asked_at > 0 && now.mono_ns / NS_PER_MS < asked_at + limits.sampling_ms_max;
            let is_past_due = now.mono_ns >= past_due_ns;
            // A shard that does not answer in time is asked again next time.
            let round = match (is_wanted, is_past_due) {
                (true, _) => self.sample(),
                (false, true) => self.sample_past(),
                (false, false) => Err(Busy),
            };
            if was_wanted && !is_wanted {
                self.queue_names.forget();
                self.history.lock().unwrap_or_else(PoisonError::into_inner).forget_recent();
            }
            if let Ok(round) = round {
                let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
                if is_past_due {
                    history.keep(now.wall_ms, &round, limits);
                }
                if is_wanted {
                    history.add(now.wall_ms, round, limits);
                }
            }
            let ended_ns = self.clock.mono_ns();
            if is_past_due {
                let took_ns = ended_ns.saturating_sub(now.mono_ns);
                let gap_ns = (limits.past_gap_ms * NS_PER_MS).max(took_ns.saturating_mul(limits.past_share));
                past_due_ns = now.mono_ns.saturating_add(gap_ns);
            }
            was_wanted = is_wanted;
            pause = match is_wanted {
                true => Duration::from_millis(SAMPLE_MS),
                false => Duration::from_nanos(past_due_ns.saturating_sub(ended_ns)),
            };
        }
    }

    /// Counters of the past alone: of the node, and of queues. Nothing is asked of connections.
    fn sample_past(&self) -> Result<Vec<(Whose, Counters)>, Busy> {
        let mut round = Vec::new();
        let survey = self.survey()?;
        let (mut all, mut disk_writes) = ([0, 0], 0);
        for (queue, tally, own) in self.queue_tallies()? {
            disk_writes += management::disk_writes(&queue, &tally);
            (0..2).for_each(|at| all[at] += own[at]);
            round.push((Whose::Queue(queue.id), counters(&tally, &own)));
        }
        self.add_whole(&mut round, &survey, all, disk_writes);
        Ok(round)
    }

    /// Adds the counters of the node, of whose queues these are the lengths.
    fn add_whole(
        &self,
        round: &mut Vec<(Whose, Counters)>,
        survey: &Survey,
        lengths: [u64; 2],
        disk_writes: u64,
    ) {
        let mut whole = Tally::default();
        survey.vhosts.values().for_each(|tally| whole.merge(tally));
        let machine = figures(&self.writing(), &self.condition(), disk_writes);
        round.insert(0, (Whose::Machine, machine));
        // A shard that does not answer in time has no durations.
        let turns = self.turns().unwrap_or_default();
        round.insert(0, (Whose::Durations, durations(&survey.latencies, &self.writing(), &turns)));
        let churn = survey.churn.named().map(|(_, count)| count);
        round.insert(0, (Whose::Node, counters(&whole, &[&churn[..], &lengths].concat())));
    }

    /// All counters there are, as they are now.
    fn sample(&self) -> Result<Vec<(Whose, Counters)>, Busy> {
        let mut round = Vec::new();
        let survey = self.survey()?;
        let mut lengths: BTreeMap<VhostId, [u64; 2]> = BTreeMap::new();
        let mut all = [0, 0];
        let mut disk_writes = 0;
        for (queue, tally, own) in self.queue_tallies()? {
            disk_writes += management::disk_writes(&queue, &tally);
            let of = lengths.entry(queue.vhost).or_default();
            for at in [0, 1] {
                of[at] += own[at];
                all[at] += own[at];
            }
            round.push((Whose::Queue(queue.id), counters(&tally, &own)));
        }
        let mut bytes: BTreeMap<VhostId, [u64; 2]> = BTreeMap::new();
        for (id, vhost, own) in self.connection_bytes()? {
            let of = bytes.entry(vhost).or_default();
            of[0] += own[0];
            of[1] += own[1];
            round.push((Whose::Connection(id), own.into()));
        }
        for (vhost, tally) in &survey.vhosts {
            let [received, sent] = bytes.get(vhost).copied().unwrap_or_default();
            let [ready, held] = lengths.get(vhost).copied().unwrap_or_default();
            round.push((Whose::Vhost(*vhost), counters(tally, &[received, sent, ready, held])));
        }
        for (exchange, tally) in &survey.exchanges {
            round.push((Whose::Exchange(*exchange), [tally.publish_in, tally.publish_out].into()));
        }
        for (id, number, tally) in self.channel_tallies()? {
            round.push((Whose::Channel(id, number), counters(&tally, &[])));
        }
        self.add_whole(&mut round, &survey, all, disk_writes);
        Ok(round)
    }

    fn queue_tallies(&self) -> Result<Vec<QueueTally>, Busy> {
        self.look_at_queues(QUEUES_TURN, |queues, from, quantum, found| {
            queues.tallies_from(from, quantum, found)
        })
    }

    /// Queues, in no order; `is_sampled`: with what messages of them say of all.
    pub fn queue_rows(&self, which: Which, is_sampled: bool) -> Result<Vec<QueueRow>, Busy> {
        self.look_at_queues(QUEUES_TURN, move |queues, from, quantum, found| {
            queues.rows_from(from, quantum, is_sampled, |queue| which.has(queue), found)
        })
    }

    fn connection_bytes(&self) -> Result<Vec<(ConnectionId, VhostId, [u64; 2])>, Busy> {
        self.visit_all(CONNECTIONS_TURN, |room, from, quantum, found| {
            for (slot, socket) in room.sockets.iter().enumerate().skip(from as usize) {
                if quantum.is_over() {
                    return Some(slot as u32);
                }
                quantum.spend(1);
                let (Some(socket), Some((generation, vhost))) = (socket, room.front.whose(slot as u32))
                else {
                    continue;
                };
                let bytes = [socket.traffic.received, socket.traffic.sent];
                found.push(((room.id.0, slot as u32, generation), vhost, bytes));
            }
            None
        })
    }

    fn channel_tallies(&self) -> Result<Vec<(ConnectionId, u16, Tally)>, Busy> {
        self.visit_all(CONNECTIONS_TURN, |room, from, quantum, found| {
            let mut own = Vec::new();
            let next = room.front.channel_tallies(from, quantum, &mut own);
            let id = |(slot, generation)| (room.id.0, slot, generation);
            found.extend(own.into_iter().map(|(port, number, tally)| (id(port), number, tally)));
            next
        })
    }

    /// Checks that a change may be made, perhaps as one step of many: not while the node stops.
    fn go_on(&self) -> Result<(), Trouble> {
        match self.is_stopping.load(Ordering::SeqCst) {
            true => Err(Trouble::Broken("the node is stopping".to_owned())),
            false => Ok(()),
        }
    }

    /// Checks that a message may be published: a single one whatever alarm holds, as in RabbitMQ, if there is room for
    /// it; messages are moved only without an alarm, or their connection would be silent until that is over, and one of
    /// the few threads with it.
    fn go_publish(&self, action: &Action) -> Result<(), Trouble> {
        let names = (self.raised)().names();
        match action {
            Action::Publish(_) if (self.lacks_space)() => Err(Trouble::Held(
                "the disk is full: nothing can be published until there is room".to_owned(),
            )),
            Action::Move { .. } if !names.is_empty() => {
                let which = names.join(" and ");
                Err(Trouble::Held(format!(
                    "an alarm holds ({which}): nothing can be published until it is over"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Whether an action of a user comes to the same without a connection of the user's own: it does where the rules of
    /// the catalog decide alone. Rules of AMQP 0-9-1 need a connection: reserved names, the queue that was declared
    /// last, and queues that the operator has forbidden.
    fn needs_no_connection(&self, action: &Action) -> bool {
        let is_usual = |name: &str| !name.is_empty() && !name.starts_with("amq.");
        match action {
            Action::DeclareQueue { name, durable, .. } => {
                is_usual(name) && (*durable || self.about.permits_transient_queues)
            }
            Action::DeclareExchange { .. } => true,
            Action::Bind { destination, .. } => is_usual(destination),
            _ => false,
        }
    }

    /// The answers of all shards to a letter, in no order.
    fn ask_all<T>(&self, letter: impl Fn(Sender<T>) -> Letter) -> Result<Vec<T>, Busy> {
        let (sender, receiver) = channel();
        for door in self.doors {
            door.letters.put(letter(sender.clone()));
        }
        drop(sender);
        self.doors.iter().map(|_| receiver.recv_timeout(PATIENCE).map_err(|_| Busy)).collect()
    }

    fn next_door(&self) -> &Door {
        &self.doors[self.next.fetch_add(1, Ordering::Relaxed) % self.doors.len()]
    }
}

impl Node for Manager<'_> {
    fn about(&self) -> &About {
        &self.about
    }

    fn condition(&self) -> Condition {
        let files = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
        let threads = std::fs::read_dir("/proc/self/task").map_or(0, |entries| entries.count() as u64);
        let mut condition = self.vitals();
        (condition.files[0], condition.threads[0]) = (files, threads);
        condition
    }

    fn vitals(&self) -> Condition {
        let (memory_limit, disk_limit) = self.watermarks.bytes();
        let sample = Meter::new(&self.config.data_dir).sample();
        let raised = (self.raised)();
        let most = |resource| rustix::process::getrlimit(resource).current.unwrap_or(u64::MAX);
        Condition {
            uptime_ms: self.clock.now().mono_ns / NS_PER_MS,
            memory_used: sample.as_ref().map_or(0, |sample| sample.memory_used),
            memory_limit,
            is_memory_alarm: raised.memory,
            disk_free: sample.map_or(0, |sample| sample.disk_free),
            disk_limit,
            is_disk_alarm: raised.disk,
            files: [0, most(Resource::Nofile)],
            threads: [0, most(Resource::Nproc)],
        }
    }

    fn look<T: Send + 'static>(&self, look: impl FnOnce(&Catalog) -> T + Send + 'static) -> Result<T, Busy> {
        self.look_at(&self.doors[0], move |shard| look(shard.catalog()))
    }

    fn queues(&self, which: Which, is_sampled: bool) -> Result<Vec<QueueRow>, Busy> {
        let Which::One(vhost, name) = which else { return self.queue_rows(which, is_sampled) };
        let found = self.look(move |catalog| catalog.queue_by_name(vhost, name.as_bytes()).cloned())?;
        self.rows_of(found.as_slice())
    }

    fn each_queue(&self, which: Which, mut each: impl FnMut(&QueueRow)) -> Result<(), Busy> {
        let look = move |queues: Listing<'_>, from, quantum: &mut Quantum<'_>, found: &mut Vec<QueueRow>| {
            queues.rows_from(from, quantum, true, |queue| which.has(queue), found)
        };
        self.look_at_each(QUEUES_TURN, look, |found| found.drain(..).for_each(|row| each(&row)))
    }

    fn queue_names(&self) -> Result<Names, Busy> {
        let now = |known| self.look_at(&self.doors[0], move |shard| shard.queues_now(known))?.ok_or(Busy);
        self.queue_names.get(now, || {
            self.look_at_queues(NAMES_TURN, |queues, from, quantum, found| {
                queues.definitions_from(from, quantum, found)
            })
        })
    }

    fn queue_order<E>(
        &self,
        column: &str,
        sort: impl FnOnce() -> Result<Vec<Arc<QueueDefinition>>, E>,
    ) -> Result<Names, E> {
        self.queue_orders.get(column, || self.uptime_ms(), &self.about.limits, sort)
    }

    fn rows_of(&self, queues: &[Arc<QueueDefinition>]) -> Result<Vec<QueueRow>, Busy> {
        let (queues, clock): (Names, Clock) = (queues.into(), self.clock);
        let mut all = Vec::with_capacity(queues.len());
        for door in self.doors {
            let (mut from, mut found) = (Some(0), Vec::with_capacity(queues.len().min(QUEUES_TURN)));
            while let Some(at) = from {
                let asked = queues.clone();
                (from, found) = self.look_at(door, move |shard| {
                    let now = || clock.mono_ns();
                    let mut quantum = Quantum::new(QUEUES_TURN, LOOK_NS, &now);
                    let next = shard.listing().rows_of(&asked, at, &mut quantum, &mut found);
                    (next, found)
                })?;
                all.append(&mut found);
            }
        }
        all.sort_unstable_by_key(|(number, _)| *number);
        Ok(all.into_iter().map(|(_, row)| row).collect())
    }

    fn standings(&self) -> Result<Vec<Standing>, Busy> {
        self.look_at_queues(NAMES_TURN, |queues, from, quantum, found| {
            queues.standings_from(from, quantum, found)
        })
    }

    fn queue_sums(&self) -> Result<MapById<VhostId, QueueSums>, Busy> {
        let visit =
            |room: &Room<'_>, from, quantum: &mut Quantum<'_>, sums: &mut MapById<VhostId, QueueSums>| {
                room.shard.listing().sums_from(from, quantum, sums)
            };
        self.visit_with(NAMES_TURN, MapById::default(), visit, |_| {})
    }

    fn pulses(&self, queues: Vec<(VhostId, String)>) -> Result<Vec<Option<Pulse>>, Busy> {
        let mut all = vec![None; queues.len()];
        let queues: Arc<[(VhostId, String)]> = queues.into();
        for door in self.doors {
            let asked = queues.clone();
            let found = self.look_at(door, move |shard| {
                asked.iter().map(|(vhost, name)| shard.listing().pulse(*vhost, name)).collect::<Vec<_>>()
            })?;
            all.iter_mut().zip(found).for_each(|(own, found)| *own = found.or(own.take()));
        }
        Ok(all)
    }

    fn connections(&self) -> Result<Vec<ConnectionRow>, Busy> {
        self.visit_all(ROWS_TURN, |room, from, quantum, found| {
            let complete = |slot: u32, row: &mut ConnectionRow| {
                let Some(socket) = room.sockets.get(slot as usize).and_then(Option::as_ref) else {
                    return false;
                };
                let Traffic { received, sent, calls, since_ms } = socket.traffic;
                (row.received, row.sent, row.calls, row.connected_at) = (received, sent, calls, since_ms);
                if socket.layer.as_ref().is_some_and(|layer| layer.is_web()) {
                    row.protocol = over_web(row.protocol);
                }
                true
            };
            room.front.rows_from(room.shard, from, quantum, complete, found)
        })
    }

    fn connection_count(&self) -> Result<u64, Busy> {
        let mut count = 0;
        for door in self.doors {
            count += door.visit(PATIENCE, |room| room.front.len() as u64).ok_or(Busy)?;
        }
        Ok(count)
    }

    fn certificate_ends_s(&self) -> Vec<u64> {
        self.tls.iter().filter_map(|own| own.ends_at_s()).collect()
    }

    fn now_s(&self) -> u64 {
        self.clock.now().wall_ms / 1000
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().wall_ms
    }

    fn uptime_ms(&self) -> u64 {
        self.clock.now().mono_ns / NS_PER_MS
    }

    fn reload_certificates(&self) -> Result<usize, String> {
        let failed: Vec<String> = self.tls.iter().filter_map(|own| own.reload().err()).collect();
        if failed.is_empty() { Ok(self.tls.len()) } else { Err(failed.join("; ")) }
    }

    fn opened(&self) -> Result<Vec<(u16, Opened)>, Busy> {
        self.visit_all(ROWS_TURN, |room, from, quantum, found| {
            let mut own = Vec::new();
            let next = room.front.opened(room.shard.catalog(), from, quantum, &mut own);
            found.extend(own.into_iter().map(|opened| (room.id.0, opened)));
            next
        })
    }

    fn open_sums(&self) -> Result<OpenSums, Busy> {
        let visit = |room: &Room<'_>, from, quantum: &mut Quantum<'_>, sums: &mut OpenSums| {
            let traffic = |slot| {
                let socket = room.sockets.get(slot as usize).and_then(Option::as_ref);
                socket.map_or_else(ConnectionSums::default, |socket| {
                    let Traffic { received, sent, calls, .. } = socket.traffic;
                    ConnectionSums { received, sent, calls, ..ConnectionSums::default() }
                })
            };
            room.front.sums_from(room.shard.catalog(), from, quantum, traffic, sums)
        };
        self.visit_with(CONNECTIONS_TURN, OpenSums::default(), visit, |_| {})
    }

    fn held_back(&self) -> Result<HeldCounts, Busy> {
        let mut sums = HeldCounts::default();
        for door in self.doors {
            let own = door.visit(PATIENCE, |room: &Room<'_>| *room.front.held_back()).ok_or(Busy)?;
            sums.iter_mut().zip(own).for_each(|(sum, count)| *sum += count);
        }
        Ok(sums)
    }

    fn tenants(&self) -> Result<Vec<TenantRow>, Busy> {
        let visit = |room: &Room<'_>, from, quantum: &mut Quantum<'_>, rows: &mut TenantRows| {
            room.front.tenants_from(from, quantum, rows)
        };
        let rows = self.visit_with(CONNECTIONS_TURN, TenantRows::new(), visit, |_| {})?;
        Ok(rows.into_values().collect())
    }

    fn pools(&self) -> Vec<PoolRow> {
        let mut rows = self.pools.rows();
        rows.insert(0, self.places.row());
        rows
    }

    fn sessions(&self, (shard, slot, generation): ConnectionId) -> Result<Option<Vec<SessionRow>>, Busy> {
        let Some(door) = self.doors.get(usize::from(shard)) else { return Ok(None) };
        let sessions = move |room: &Room<'_>| room.front.sessions(room.shard.catalog(), (slot, generation));
        door.visit(PATIENCE, sessions).ok_or(Busy)
    }

    fn survey(&self) -> Result<Survey, Busy> {
        let mut survey = Survey::default();
        for door in self.doors {
            survey.merge(&self.look_at(door, Shard::survey)?);
        }
        Ok(survey)
    }

    fn history<T>(&self, look: impl FnOnce(&History) -> T) -> T {
        let now_ms = self.clock.now().mono_ns / NS_PER_MS;
        let before = self.asked_at.fetch_max(now_ms, Ordering::Relaxed);
        if now_ms >= before + self.about.limits.sampling_ms_max || before == 0 {
            // The receiver is gone once the node is ending.
            let _ = self.wake.send(());
        }
        look(&self.history.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn logins(&self) -> [u64; 2] {
        [&self.logins[0], &self.logins[1]].map(|count| count.load(Ordering::Relaxed))
    }

    fn login_tried(&self, is_refused: bool) {
        self.logins[0].fetch_add(1, Ordering::Relaxed);
        self.logins[1].fetch_add(u64::from(is_refused), Ordering::Relaxed);
    }

    fn now(&self) -> Now {
        self.clock.now()
    }

    fn members(&self) -> Vec<Member> {
        self.lanes.map(|lanes| news::members(lanes, &self.about.node)).unwrap_or_default()
    }

    fn replicas(&self) -> Result<Replicas, Busy> {
        let logs = self.config.logs.unwrap_or_default();
        self.lanes.map_or_else(|| Ok(Replicas::default()), |_| news::replicas(self.doors, logs, PATIENCE))
    }

    fn lanes(&self) -> Option<management::Lanes> {
        self.lanes.map(news::lanes)
    }

    fn forget_history(&self) {
        *self.history.lock().unwrap_or_else(PoisonError::into_inner) = History::default();
    }

    fn forget_logins(&self, logins: Vec<[u64; 2]>) {
        *self.forgotten.lock().unwrap_or_else(PoisonError::into_inner) = logins;
    }

    fn forgotten_logins(&self) -> Vec<[u64; 2]> {
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tracking(&self, vhost: VhostId, stream: &str) -> Result<Option<Tracking>, Busy> {
        let name = stream.to_owned();
        self.look_for(move |shard| shard.listing().tracking(vhost, &name))
    }

    fn memory(&self) -> Result<Memory, Busy> {
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner).memory_bytes();
        let more = [
            ("mgmt_db", (history + self.queue_orders.memory_bytes()) as u64),
            (breakdown::FILTERS, broker::filter_steps_bytes() as u64),
        ];
        let told = breakdown::measure(self.doors, self.config, (self.clock, PATIENCE), &more).ok_or(Busy)?;
        let Breakdown { pools, in_use, allocated, resident } = told;
        Ok(Memory { pools: pools.into_iter().collect(), in_use, allocated, resident })
    }

    fn writing(&self) -> Writing {
        let (counters, flushes) = (self.committer.counters(), self.committer.flushes());
        Writing {
            groups: counters.groups,
            batches: counters.batches,
            writes: counters.writes,
            written_bytes: counters.written_bytes,
            record_bytes: counters.record_bytes,
            syncs: counters.syncs,
            sync_ns: self.committer.flush_ns(),
            flushes: flushes.times(),
            flush_sum_ns: flushes.sum_ns(),
            flush_longest_ns: flushes.longest_ns(),
            commits: flushes.sizes(),
            reads: self.reads.count.load(Ordering::Relaxed),
            read_ns: self.reads.took_ns.load(Ordering::Relaxed),
            read_bytes: self.reads.bytes.load(Ordering::Relaxed),
        }
    }

    fn turns(&self) -> Result<Vec<management::Turns>, Busy> {
        let mut all = Vec::new();
        for door in self.doors {
            let now_ns = self.clock.now().mono_ns;
            let told = door.visit(PATIENCE, move |room| management::Turns {
                work: room.front.work(),
                work_max: room.shard.turn_work(),
                ..room.turns.told(now_ns)
            });
            all.push(told.ok_or(Busy)?);
        }
        Ok(all)
    }

    fn close_connection(&self, name: &str, reason: &str) -> Result<bool, Busy> {
        let asked = (name.to_owned(), reason.to_owned());
        let answers = self.ask_all(|sender| Letter::CloseConnection(Box::new(asked.clone()), sender))?;
        Ok(answers.contains(&true))
    }

    fn request(&self, op: Op) -> Result<(), Trouble> {
        self.go_on()?;
        let (sender, receiver) = channel();
        self.doors[0].letters.put(Letter::Request(Box::new(op), sender));
        granted(&receiver)
    }

    fn begin_request(&self, op: Op) -> Begun<'_> {
        if let Err(trouble) = self.go_on() {
            return Box::new(|| Err(trouble));
        }
        let (sender, receiver) = channel();
        self.doors[0].letters.put(Letter::Request(Box::new(op), sender));
        Box::new(move || granted(&receiver))
    }

    fn begin_act(&self, login: &Login, vhost: &str, action: Action) -> Begun<'_> {
        if !login.is_own && !self.needs_no_connection(&action) {
            let done = self.act(login, vhost, action).map(drop);
            return Box::new(|| done);
        }
        if let Err(trouble) = self.go_on() {
            return Box::new(|| Err(trouble));
        }
        // Queues are placed where they are declared; everything else goes through one door, so that it stays in its order.
        let is_queue = matches!(action, Action::DeclareQueue { .. });
        let door = if is_queue { self.next_door() } else { &self.doors[0] };
        let user = (!login.is_own).then(|| login.user.clone());
        let (sender, receiver) = channel();
        door.letters.put(Letter::Act(Box::new(Act { user, vhost: vhost.to_owned(), action }), sender));
        Box::new(move || granted(&receiver))
    }

    fn act(&self, login: &Login, vhost: &str, action: Action) -> Result<Outcome, Trouble> {
        self.go_on()?;
        let moves_messages = matches!(
            action,
            Action::Publish(_)
                | Action::Get { .. }
                | Action::Peek { .. }
                | Action::Read { .. }
                | Action::Search(_)
                | Action::Move { .. }
                | Action::Discard { .. }
        );
        if login.is_own && !moves_messages {
            let asked = Box::new(Act { user: None, vhost: vhost.to_owned(), action });
            let (sender, receiver) = channel();
            self.next_door().letters.put(Letter::Act(asked, sender));
            return granted(&receiver).map(|()| Outcome::Done);
        }
        self.go_publish(&action)?;
        agent::act(self.next_door(), login, vhost, &action, self.is_stopping)
    }

    fn truncate_stream(&self, vhost: &str, stream: &str, before: u64) -> Result<u64, Trouble> {
        let asked = Truncate { vhost: vhost.to_owned(), stream: stream.to_owned(), before };
        let (sender, receiver) = channel();
        self.next_door().letters.put(Letter::Truncate(Box::new(asked), sender));
        match receiver.recv_timeout(PATIENCE).map_err(|_| Busy)? {
            Ok(Reply::Stream(StreamReply::Truncated(first_offset))) => Ok(first_offset),
            Ok(other) => {
                let reply = std::mem::discriminant(&other);
                Err(Trouble::Broken(format!("a stream answered with {reply:?} of replies")))
            }
            Err(refusal) => Err(Trouble::Refused(refusal)),
        }
    }

    fn ready_from(
        &self,
        vhost: VhostId,
        queue: &str,
        begin: Begin,
        most: u64,
    ) -> Result<Option<(u64, u64)>, Busy> {
        for door in self.doors {
            let queue = queue.to_owned();
            let found =
                self.look_at(door, move |shard| shard.listing().ready_from(vhost, &queue, begin, most))?;
            if let Some((from, count)) = found {
                return Ok(Some((from.0, count)));
            }
        }
        Ok(None)
    }

    fn delayed(&self, vhost: &str, queue: &str, count_max: usize) -> Result<Option<Delayed>, Busy> {
        let (vhost, queue) = (vhost.to_owned(), queue.to_owned());
        self.look_for(move |shard| shard.listing().delayed(&vhost, &queue, count_max))
    }

    fn held(
        &self,
        vhost: VhostId,
        queue: &str,
        from: QueueSeq,
        count_max: usize,
    ) -> Result<Option<Vec<HeldRow>>, Busy> {
        let queue = queue.to_owned();
        self.look_for(move |shard| shard.listing().held(vhost, &queue, from, count_max))
    }

    fn held_end(&self, vhost: VhostId, queue: &str) -> Result<Option<u64>, Busy> {
        let queue = queue.to_owned();
        self.look_for(move |shard| shard.listing().held_end(vhost, &queue))
    }

    fn cancel_delayed(&self, vhost: &str, queue: &str, ids: Vec<u64>) -> Result<Option<u64>, Busy> {
        let asked = CancelDelayed { vhost: vhost.to_owned(), queue: queue.to_owned(), ids };
        let answers = self.ask_all(|sender| Letter::CancelDelayed(Box::new(asked.clone()), sender))?;
        Ok(answers.into_iter().flatten().next())
    }

    fn reset_offset(&self, vhost: &str, stream: &str, reference: &str) -> Result<(), Trouble> {
        let [vhost, stream, reference] = [vhost, stream, reference].map(str::to_owned);
        let (sender, receiver) = channel();
        let asked = Box::new(ResetOffset { vhost, stream, reference });
        self.next_door().letters.put(Letter::ResetOffset(asked, sender));
        granted(&receiver)
    }

    fn restart_stream(&self, vhost: &str, stream: &str) -> Result<bool, Busy> {
        let named = (vhost.to_owned(), stream.to_owned());
        // Its owner lets go of all readers first: were they told shard by shard, a single active consumer that waits would have
        // its turn for a moment, since those told before it had left.
        let (sender, receiver) = channel();
        self.next_door().letters.put(Letter::DisbandStream(Box::new(named.clone()), sender));
        if receiver.recv_timeout(PATIENCE).map_err(|_| Busy)?.is_err() {
            return Ok(false);
        }
        let answers = self.ask_all(|sender| Letter::RestartStream(Box::new(named.clone()), sender))?;
        Ok(answers.into_iter().all(|is_known| is_known))
    }

    fn vhost_defaults(&self, name: &str) -> VhostDefaults {
        // Whoever makes a virtual host is to have its users, however long their passwords wait.
        let hash = &mut |password: &str| {
            let hash = self.hash(password, self.config.hashing);
            hash.unwrap_or_else(|Busy| self.config.hashing.hash(password, seed::sure_salt()))
        };
        self.config.defaults_of_vhost(name, hash)
    }

    fn log_lines(&self, next: Option<u64>) -> (Vec<(&'static str, String)>, u64) {
        let (lines, next) = self.logger.leveled_since(Some(next.unwrap_or(0)));
        (lines.into_iter().map(|(level, line)| (level.name(), line)).collect(), next)
    }

    fn log(&self, line: String) {
        self.logger.info(line);
    }

    fn hash(&self, password: &str, hashing: Hashing) -> Result<PasswordHash, Busy> {
        match hashing {
            Hashing::Sha256 => Ok(hashing.hash(password, seed::salt().map_err(|_| Busy)?)),
            Hashing::Argon2id => {
                let (sender, receiver) = channel();
                self.passwords.put(Ask::Hash(password.to_owned(), sender));
                receiver.recv_timeout(PATIENCE).map_err(|_| Busy)
            }
        }
    }

    fn carry_out(&self, trial: Box<Trial>) -> Result<Tried, Busy> {
        let (sender, receiver) = channel();
        // This thread may have given up.
        self.compare(trial, Box::new(move |tried| sender.send(tried).unwrap_or_default()));
        receiver.recv_timeout(PATIENCE).map_err(|_| Busy)
    }

    fn compare(&self, trial: Box<Trial>, then: Compared) {
        self.passwords.put(Ask::Other(trial, then));
    }
}

/// The outcome of a request to a shard, without its reply.
fn granted(answer: &Receiver<Result<Reply, Refusal>>) -> Result<(), Trouble> {
    answer.recv_timeout(PATIENCE).map_err(|_| Busy)?.map(drop).map_err(Trouble::Refused)
}

/// The settings that are in force, by key: of several with one key the last.
fn settings(config: &Config) -> Vec<(String, String)> {
    let own: BTreeMap<_, _> = base::brief::collect(config.settings.iter().cloned());
    own.into_iter().collect()
}

/// How a protocol is called over WebSocket.
fn over_web(protocol: &'static str) -> &'static str {
    match protocol {
        "AMQP 0-9-1" => "Web AMQP 0-9-1",
        "AMQP 1-0" => "Web AMQP 1-0",
        other => other,
    }
}
