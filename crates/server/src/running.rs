//! One node: from a configuration to running shards, and to a clean end.
//!
//! Start-up order: data folder, identity, snapshots, journal, first user, listeners, threads. Everything is recovered
//! before the first connection is accepted.

use crate::acceptor::Acceptor;
use crate::alarm::{Alarms, Meter, Watermarks};
use crate::board::Board;
use crate::clock::Clock;
use crate::committer::{Committer, Report};
use crate::complaints::Complaints;
use crate::config::Config;
use crate::config::network::ListenerKind;
use crate::courtesy;
use crate::definitions;
use crate::descriptors::Shares;
use crate::desk::Desk;
use crate::disk::{DiskOptions, RealDisk};
use crate::door::{Door, Letter};
use crate::end::End;
use crate::entrance::Entrance;
use crate::eviction;
use crate::exposure;
use crate::greeting;
use crate::handshake::{self, Handshaker};
use crate::heap::{self, Thrift};
use crate::http;
use crate::idle;
use crate::keeper::Keeper;
use crate::lanes::{self, Lanes};
use crate::layer::Layer;
use crate::log::Logger;
use crate::log::level::Level;
use crate::manager::Manager;
use crate::membership::Membership;
use crate::news;
use crate::notify::{self, News};
use crate::passwords::{HASHERS, Hasher, Passwords};
use crate::ports::{self, Ports};
use crate::queue_names::QueueNames;
use crate::queue_orders::QueueOrders;
use crate::reader::{READERS, Reader, Reads};
use crate::seat::{self, Seat};
use crate::seed;
use crate::shard::{Ended, ShardLoop, Surroundings, poll};
use crate::socket::Arrival;
use crate::sweeper::Sweeper;
use adapters::{Following, Frontend, Peer, Settings};
use base::Secrets;
use base::id::{LogId, ShardId};
use broker::access::{AccessRules, Anonymous, FREE_SECONDS, Guard, GuessLimits, Mechanisms, Rate};
use broker::catalog::Op;
use broker::ledger::{Ledger, LedgerLimits};
use broker::{Limits, Placement, Shard};
use ctl::client::SOCKET_NAME;
use journal::Disk;
use management::{Lane, WebSessions};
use message::stamps::Stamps;
use node::commit::Written;
use node::replicas::Coming;
use node::snapped::Part;
use node::start::{self, Common, Found, Gravity, Logs, Makeup, Recovered};
use node::turn::Raised;
use node::{Stop, first};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Local logs of a new data folder: twice the cores, at least this many.
const LOGS_MIN: u32 = 8;

/// The purpose of the listener for other nodes, in the words of RabbitMQ's tools.
const BETWEEN_NODES: &str = "inter-node and CLI tool communication";

/// Milliseconds between two looks of the housekeeper when nothing calls it.
const HOUSE_MS: u64 = 1000;

/// The warning of a node that is one of several.
const EXPERIMENT: &str = "leveret.cluster.experimental: streams are read only at the node that leads their log, and the list of nodes \
                          cannot change. This is not for use";

/// The line of the log of a node that begins anew by itself.
const ANEW: &str = "the node begins anew, with the catalog of another";

/// The time until memory is looked at again when the connection that held most was closed.
const EVICTED: Duration = Duration::from_millis(50);

/// Threads for TLS handshakes: half as many as cores, and no more than this.
const HANDSHAKERS_MAX: usize = 4;

/// Hands reports of the writer thread to the shards, and failures to the thread that ends the node.
struct Reporter {
    doors: Arc<[Door]>,
    end: Mutex<Sender<End>>,
}

impl Report for Reporter {
    fn written(&self, shard: ShardId, written: Vec<Written>) {
        self.doors[shard.0 as usize].letters.put(Letter::Node(node::turn::Letter::Written(written)));
    }

    fn failed(&self, why: String) {
        send_end(&self.end, why);
    }
}

fn send_end(end: &Mutex<Sender<End>>, why: String) {
    if let Ok(end) = end.lock() {
        // Nobody listens once the node is ending.
        let _ = end.send(End::Failed(why));
    }
}

/// A node before it runs, and its disk.
struct Opened {
    disk: Arc<dyn Disk>,
    node: Recovered,
    /// The cluster that it is one of.
    membership: Option<Membership>,
    /// The content of a catalog in which nothing is, where nodes agree on it.
    content: Option<Vec<Op>>,
    /// The user that somebody new logs in as.
    user: Option<String>,
    guard: Arc<Guard>,
}

/// The state of a node after it has stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Then {
    /// Its process ends.
    End,
    /// Its process waits.
    Wait,
    /// It begins anew at once, with what is on its disk.
    Anew,
    /// It never came to serve, for this reason, and nothing of it runs.
    Failed(String),
}

/// Runs a node until it ends. Through `end` any thread may ask it to; `ends` is the other side of that channel.
///
/// # Errors
/// Why it could not start or had to stop, in plain words.
pub fn run(config: &Config, logger: &Logger, end: Sender<End>, ends: &Receiver<End>) -> Result<(), String> {
    let mut failed = match run_on(config, logger, &end, ends)? {
        Then::End => return Ok(()),
        Then::Wait | Then::Anew => None,
        Then::Failed(why) => return Err(why),
    };
    while idle::wait(config, logger, &end, ends, failed)? {
        failed = match run_on(config, logger, &end, ends)? {
            Then::End => return Ok(()),
            Then::Wait | Then::Anew => None,
            // The administrator who asked for the start hears of it, and may ask again.
            Then::Failed(why) => {
                logger.error(format!("the node could not start again: {why}"));
                Some(why)
            }
        };
    }
    Ok(())
}

/// From a start to a stop behind which the node does not begin anew by itself.
fn run_on(config: &Config, logger: &Logger, end: &Sender<End>, ends: &Receiver<End>) -> Result<Then, String> {
    loop {
        match run_once(config, logger, end.clone(), ends)? {
            Then::Anew => logger.info(ANEW),
            then => return Ok(then),
        }
    }
}

/// From a start to a stop.
fn run_once(
    config: &Config,
    logger: &Logger,
    end: Sender<End>,
    ends: &Receiver<End>,
) -> Result<Then, String> {
    let clock = Clock::new();
    let shares = Shares::raised(logger);
    heap::share(config.shards.map_or_else(cores, u32::from));
    heap::merge_at_once();
    let (opened, lanes, ports) = match prepare(config, shares, clock, logger) {
        Ok(prepared) => prepared,
        Err(why) => return Ok(Then::Failed(why)),
    };
    for (kind, why) in &ports.without {
        let (_, what, _) = kind.names();
        let key = match kind {
            ListenerKind::Http => "management.tcp",
            ListenerKind::Prometheus => "prometheus.tcp",
            kind if kind.is_web() => "web_amqp.tcp",
            _ => "stream.listeners.tcp",
        };
        logger.warning(format!("{what} is not served: {why}. {key} = none wants none"));
    }
    let running = Running::start(config, logger, clock, (opened, lanes), end.clone())?;
    let outcome = running.serve(config, ports, shares, end, ends);
    running.stop(outcome)
}

/// Brings back what there is, and opens the ports. Where it fails nothing of the node runs yet.
fn prepare(
    config: &Config,
    shares: Shares,
    clock: Clock,
    logger: &Logger,
) -> Result<(Opened, Option<lanes::Opened>, Ports), String> {
    let mut opened = recover(config, shares, clock, logger)?;
    let Opened { disk, node, membership, content, user, .. } = &mut opened;
    match membership {
        None => seed::first_user(config, clock, node, &**disk, logger)?,
        Some(_) => *content = Some(seed::first_content(config)?),
    }
    first::flush(node, &**disk, &|| clock.now()).map_err(|Stop(why)| why)?;
    exposure::warnings(config, node.shards[0].catalog()).iter().for_each(|it| logger.warning(it.as_str()));
    *user = greeting::user(config, node.shards[0].catalog());
    let lanes = open_lanes(config, opened.membership.take(), logger)?;
    let ports = Ports::open(config)?;
    Ok((opened, lanes, ports))
}

/// Listens for the other nodes of the cluster, if it is of one.
fn open_lanes(
    config: &Config,
    membership: Option<Membership>,
    logger: &Logger,
) -> Result<Option<lanes::Opened>, String> {
    let (Some(wanted), Some(membership)) = (config.cluster.as_deref(), membership) else { return Ok(None) };
    logger.warning(EXPERIMENT);
    lanes::warning(config).into_iter().for_each(|warning| logger.warning(warning));
    lanes::Opened::new(wanted, membership, seed::secrets()?).map(Some)
}

fn raised_of(bits: &AtomicU8) -> Raised {
    let bits = bits.load(Ordering::Relaxed);
    Raised { memory: bits & 1 != 0, disk: bits & 2 != 0 }
}

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// Opens the data folder and brings the shards to where they were.
fn recover(config: &Config, shares: Shares, clock: Clock, logger: &Logger) -> Result<Opened, String> {
    let options = DiskOptions {
        descriptors_max: shares.files,
        removed_max: shares.removed,
        sync_delay_ns: config.test_sync_delay_us * 1000,
        capacity_bytes: config.test_disk_bytes,
        ..DiskOptions::default()
    };
    let disk = RealDisk::open(&config.data_dir, options).map_err(|error| error.to_string())?;
    disk.told().into_iter().for_each(|told| logger.warning(told));
    let way = if disk.is_direct() { "bypass" } else { "go through" };
    logger.log(Level::Debug, format!("journal writes {way} the page cache"));
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let mut secrets = seed::secrets()?;
    let makeup = makeup(config);
    let tell = &mut |found: Found| {
        let level = match found.gravity() {
            Gravity::Info => Level::Info,
            Gravity::Warning => Level::Warning,
            Gravity::Error => Level::Error,
        };
        logger.log(level, found.to_string());
    };
    let in_folder = |Stop(error)| format!("data folder {}: {error}", config.data_dir.display());
    let identity = start::identity(&*disk, &mut secrets, makeup.logs, tell).map_err(in_folder)?;
    let dice = |secrets: &mut Secrets| u64::from_le_bytes(secrets.bytes());
    let limits = |shards| broker_limits(config, shares.connections(), shards);
    let membership = Membership::open(config, &*disk, &identity)?;
    let mut shards = start::shards(&makeup, &identity, limits, &mut secrets, dice);
    let mut common = start::ALONE;
    if membership.is_some() && identity.logs < 2 {
        return Err(
            "leveret.logs must be 2 at least in a cluster: queues are on other logs than the catalog"
                .to_owned(),
        );
    }
    if membership.is_some() && !config.definitions.paths.is_empty() {
        return Err("load_definitions is not served in a cluster yet: import definitions over the HTTP API"
            .to_owned());
    }
    if let Some(membership) = &membership {
        common = Common { node: membership.number, logs: seat::agreed_on(identity.logs).collect() };
        seat::take(&mut shards, membership, identity.logs);
    }
    let now = || clock.now();
    let node =
        start::recover(&*disk, &identity, makeup.journal, &common, shards, &now, tell).map_err(in_folder)?;
    let guard = Guard::new(guess_limits(config), &mut secrets);
    Ok(Opened { disk, node, membership, content: None, user: None, guard: Arc::new(guard) })
}

/// The makeup of a node with this configuration.
fn makeup(config: &Config) -> Makeup {
    Makeup {
        name: config.node_name.as_str().into(),
        shards: config.shards.map_or_else(cores, u32::from),
        logs: Logs { new: config.logs.unwrap_or_else(|| LOGS_MIN.max(2 * cores())), least: config.logs },
        journal: journal_limits(config),
        rules: access_rules(config),
        relaxes_types: config.relaxes_types,
        ledger: Arc::new(Ledger::new(ledger_limits(config))),
    }
}

/// The operator's rules beside users and permissions.
fn access_rules(config: &Config) -> Arc<AccessRules> {
    let has = |mechanism| config.mechanisms.contains(&mechanism);
    let anonymous = config.anonymous_user.as_deref();
    Arc::new(AccessRules {
        loopback_users: config.loopback_users.iter().map(|user| user.as_str().into()).collect(),
        anonymous: anonymous.map(|user| Anonymous {
            user: user.into(),
            password: config.anonymous_password.as_str().into(),
            is_named: config.names_anonymous,
        }),
        mechanisms: Mechanisms {
            anonymous: has("ANONYMOUS"),
            plain: has("PLAIN"),
            amqplain: has("AMQPLAIN"),
            external: has("EXTERNAL"),
        },
        hashing: config.hashing,
    })
}

/// Bounds of guesses of passwords.
fn guess_limits(config: &Config) -> GuessLimits {
    let rate = |guesses: Option<u32>| guesses.map(|count| Rate::per_second(count, FREE_SECONDS));
    GuessLimits {
        account: rate(config.guesses_per_account),
        origin: rate(config.guesses_per_address),
        ..GuessLimits::default()
    }
}

/// Bounds of the memory that connections hold.
fn ledger_limits(config: &Config) -> LedgerLimits {
    let usual = LedgerLimits::usual(config.message_bytes_max as usize);
    LedgerLimits {
        connection_max: config.connection_memory_max.unwrap_or(usual.connection_max),
        user_share: config.user_memory_share,
        lone_user_share: config.lone_user_memory_share,
        vhost_share: config.vhost_memory_share,
        user_unread_max: config.user_unread_max,
    }
}

/// The bounds of a shard, where there is room for so many connections.
fn broker_limits(config: &Config, connections: usize, shards: u16) -> Limits {
    let limits = Limits::default();
    // All places may be one user's: nothing is to be asked then.
    let of_user = Some(config.user_connection_share).filter(|share| *share < 1.0);
    // Batches in flight when a disk is full have to fit the file that is left for them, and leave room there: behind
    // them wait the settles that make room. Shards may have as much again on its way to each other.
    let share = journal_limits(config).file_bytes / (4 * u64::from(shards));
    Limits {
        log_bytes_in_flight_max: limits.log_bytes_in_flight_max.min(share as usize),
        message_size_max: config.message_bytes_max as usize,
        connections_max: config.connection_max.map(u64::from),
        user_connections_max: of_user.map(|share| ((connections as f64 * share) as u64).max(1)),
        channels_max: config.node_channels_max.map(u64::from),
        vhosts_max: config.vhosts_max.map(u64::from),
        exchanges_max: config.exchanges_max.map(u64::from),
        queues_max: config.queues_max.map(u64::from),
        policy_programs_bytes_max: config.policy_patterns_bytes_max.map(u64::from),
        alarm_refuses_growth: config.alarm_refuses_growth,
        arguments_max: config
            .arguments_max
            .map_or(limits.arguments_max, |most| most.map_or(usize::MAX, |most| most as usize)),
        arguments_bytes_max: config.arguments_bytes_max.map_or(limits.arguments_bytes_max, |most| {
            most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
        }),
        topic_words_max: config
            .topic_words_max
            .map_or(limits.topic_words_max, |most| most.map_or(usize::MAX, |most| most as usize)),
        exchange_filters_max: config
            .exchange_filters_max
            .map_or(limits.exchange_filters_max, |most| most.map_or(usize::MAX, |most| most as usize)),
        exchange_filters_bytes_max: config
            .exchange_filters_bytes_max
            .map_or(limits.exchange_filters_bytes_max, |most| {
                most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
            }),
        route_steps_max: config.route_steps_max.unwrap_or(limits.route_steps_max),
        consumer_timeout_ms: config.consumer_timeout_ms,
        stream_reads_ahead: config.stream.reads_ahead.unwrap_or(limits.stream_reads_ahead),
        stream_read_bytes_max: config.stream.read_bytes_max.unwrap_or(limits.stream_read_bytes_max),
        ..limits
    }
}

fn journal_limits(config: &Config) -> journal::Limits {
    let mut limits = journal::Limits::default();
    if let Some(bytes) = config.journal_file_bytes {
        limits.file_bytes = bytes.next_multiple_of(base::memory::BLOCK as u64);
        limits.first_file_bytes = limits.first_file_bytes.min(limits.file_bytes);
    }
    limits
}

fn front_settings(config: &Config) -> Settings {
    let mut settings = Settings::new(&config.node_name);
    settings.handshake_ms_max = config.handshake_timeout_ms;
    settings.cluster = config.cluster_called().into();
    settings.default_vhost = config.default_user.vhost.as_str().into();
    if let Some(most) = config.credit.link {
        settings.link_credit_max = most;
        settings.link_credit_min = settings.link_credit_min.min(most);
    }
    settings.transaction_work_max = config.transaction_work_max.unwrap_or(settings.transaction_work_max);
    let message_bytes = u32::try_from(config.message_bytes_max).unwrap_or(u32::MAX);
    settings.channel_consumers_max = config.channel_consumers_max;
    settings.permits_transient_queues = config.permits_transient_queues;
    settings.permits_global_qos = config.permits_global_qos;
    settings.permits_address_v1 = config.permits_address_v1;
    settings.amqp091.frame_max = config.frame_max;
    settings.amqp091.channel_max = config.channel_max;
    settings.amqp091.heartbeat_s = config.heartbeat_s;
    settings.amqp091.message_size_max = message_bytes;
    settings.amqp091.handshake_ms_max = u32::try_from(config.handshake_timeout_ms).unwrap_or(u32::MAX);
    settings.amqp10.frame_bytes_max = config.frame_max;
    // Half of it, so that a peer that keeps to it is never found silent.
    settings.amqp10.idle_ms = u32::from(config.heartbeat_s) * 500;
    settings.amqp10.sessions_max = config.session_max;
    settings.amqp10.links_max = u16::try_from(config.link_max).unwrap_or(u16::MAX);
    settings.amqp10.message_bytes_max = config.message_bytes_max;
    if let Some(most) = config.link_name_bytes_max {
        let most = most.unwrap_or(u64::MAX);
        settings.amqp10.link_name_bytes_max = usize::try_from(most).unwrap_or(usize::MAX);
    }
    settings.amqp10.handshake_ms = settings.amqp091.handshake_ms_max;
    config.stream.apply(&mut settings.stream);
    settings.stream.limits.handshake_ms_max = settings.amqp091.handshake_ms_max;
    let stamps = Stamps {
        time: config.interceptors.time,
        node: config.interceptors.node.map(|overwrites| (config.node_name.as_str().into(), overwrites)),
    };
    settings.stamps = (!stamps.is_empty()).then(|| Box::new(stamps));
    if let Some(most) = config.credit.incoming_window {
        settings.amqp10.incoming_window_max = most;
        settings.session_window_max = most;
    }
    settings
}

/// A node that runs.
struct Running {
    doors: Arc<[Door]>,
    committer: Arc<Committer>,
    keeper: Arc<Mutex<Keeper>>,
    logger: Logger,
    shards: Vec<JoinHandle<Ended>>,
    others: Vec<JoinHandle<()>>,
    is_stopping: Arc<AtomicBool>,
    entrance: Arc<Entrance>,
    clock: Clock,
    raised: Arc<AtomicU8>,
    watermarks: Watermarks,
    ledger: Arc<Ledger>,
    reads: Arc<Reads>,
    identity: u128,
    /// The user that somebody new logs in as.
    user: Option<String>,
    guard: Arc<Guard>,
    passwords: Passwords,
    /// The lanes to other nodes, where they listen here, and the descriptors that they may take.
    lanes: Option<(Arc<Lanes>, SocketAddr, usize)>,
}

impl Running {
    fn start(
        config: &Config,
        logger: &Logger,
        clock: Clock,
        (opened, lanes): (Opened, Option<lanes::Opened>),
        end: Sender<End>,
    ) -> Result<Running, String> {
        let failed = |error: std::io::Error| format!("the node cannot start: {error}");
        let Opened { disk, node, mut content, user, guard, membership: _ } = opened;
        let Recovered { journal, keeper, shards, placement, identity, replicas } = node;
        let committer = Arc::new(Committer::new(disk.clone(), journal, config.inline_flush_us * 1000));
        let polls: Result<Vec<_>, _> = shards.iter().map(|_| poll()).collect();
        let (polls, sleepers): (Vec<_>, Vec<_>) = polls.map_err(failed)?.into_iter().unzip();
        let doors: Arc<[Door]> = sleepers.into_iter().map(Door::new).collect();
        let keeper = Keeper::new(keeper, committer.clone(), doors.clone(), logger.clone());
        let (hasher, passwords) = Hasher::new(doors.clone(), clock, guard.clone(), access_rules(config));
        let watermarks = Watermarks::new(config);
        let ledger = shards.first().map(|shard| shard.ledger().clone()).unwrap_or_default();
        ledger.set_watermark(watermarks.shared_bytes());
        let mut running = Running {
            doors: doors.clone(),
            committer: committer.clone(),
            keeper: Arc::new(Mutex::new(keeper)),
            logger: logger.clone(),
            shards: Vec::new(),
            others: Vec::new(),
            is_stopping: Arc::new(AtomicBool::new(false)),
            entrance: Arc::default(),
            clock,
            raised: Arc::new(AtomicU8::new(0)),
            watermarks,
            ledger,
            reads: Arc::default(),
            identity,
            user,
            guard,
            passwords,
            lanes: None,
        };
        let mut seats: Vec<Option<Seat>> = shards.iter().map(|_| None).collect();
        if let Some(lanes) = lanes {
            seats = running.take_seats(&lanes, placement, replicas)?;
            running.start_lanes(lanes, placement, end.clone()).map_err(failed)?;
        }
        let delay = Duration::from_micros(config.test_read_delay_us);
        let (removals, line) = channel();
        let sweeper = Sweeper::new(line, disk.clone(), doors.clone(), running.is_stopping.clone());
        let (reader, asks) = Reader::new(disk, doors.clone(), delay, removals);
        running.reads = reader.reads();
        let mut settings = Settings { guard: running.guard.clone(), ..front_settings(config) };
        let follows = config.follows_queues && placement.shards > 1;
        settings.following = follows.then(|| Arc::new(Following::new(placement.shards)));
        let settings = Arc::new(settings);
        for (number, ((shard, poll), seat)) in shards.into_iter().zip(polls).zip(seats).enumerate() {
            let id = ShardId(number as u16);
            let end = end.clone();
            let around = Surroundings {
                doors: doors.clone(),
                committer: committer.clone(),
                reader: asks.clone(),
                passwords: running.passwords.clone(),
                lanes: running.lanes.as_ref().map(|(lanes, ..)| lanes.clone()),
                clock,
                logger: logger.of(number as u32 + 1),
                turn_work_max: config.turn_work_max,
                entrance: running.entrance.clone(),
                tell: Box::new(move |what| end.send(what).unwrap_or_default()),
            };
            let content = content.take();
            let front = Frontend::new(id, settings.clone());
            let thread = Builder::new().name(format!("shard-{number}"));
            let run = move || match seat.map(|seat| seat.open(clock.now())).transpose() {
                Ok(replicas) => ShardLoop::new(id, poll, shard, front, (replicas, content), around).run(),
                Err(why) => {
                    (around.tell)(End::Failed(why));
                    Ended { shard, parts: Vec::new() }
                }
            };
            running.shards.push(thread.spawn(run).map_err(failed)?);
        }
        let reporter = Reporter { doors: doors.clone(), end: Mutex::new(end.clone()) };
        let writer = committer.clone();
        running.spawn("writer", move || writer.run_writer(&reporter)).map_err(failed)?;
        let looks = end.clone();
        committer.call_to_look(move || looks.send(End::Look).unwrap_or_default());
        running.spawn_house(end).map_err(failed)?;
        for _ in 0..READERS {
            let reader = reader.clone();
            running.spawn("reader", move || reader.run()).map_err(failed)?;
        }
        for _ in 0..HASHERS {
            let hasher = hasher.clone();
            let work = move || {
                courtesy::step_back();
                hasher.run();
            };
            running.spawn("hasher", work).map_err(failed)?;
        }
        running.spawn("sweeper", move || sweeper.run()).map_err(failed)?;
        Ok(running)
    }

    fn spawn_house(&mut self, end: Sender<End>) -> std::io::Result<()> {
        let (house, keeper, alarms) = (self.committer.clone(), self.keeper.clone(), self.raised.clone());
        self.spawn("house", move || {
            house.run_housekeeping(Duration::from_millis(HOUSE_MS), || {
                let is_tight = raised_of(&alarms).disk;
                let round = keeper.lock().map_or(Ok(true), |mut keeper| keeper.round(is_tight));
                round.unwrap_or_else(|why| {
                    // Nobody listens once the node is ending.
                    let _ = end.send(End::Failed(why));
                    true
                })
            });
        })
    }

    /// The replicas of each shard.
    fn take_seats(
        &self,
        lanes: &lanes::Opened,
        placement: Placement,
        mut replicas: Vec<Coming>,
    ) -> Result<Vec<Option<Seat>>, String> {
        let mut secrets = seed::secrets()?;
        let seat = |id: u16| {
            let own = replicas.extract_if(.., |own| placement.owner_at_start(own.log) == ShardId(id));
            let seed = u64::from_le_bytes(secrets.bytes());
            Some(Seat::new(lanes.membership(), own.collect(), seed))
        };
        Ok((0..placement.shards).map(seat).collect())
    }

    fn start_lanes(
        &mut self,
        lanes: lanes::Opened,
        placement: Placement,
        end: Sender<End>,
    ) -> std::io::Result<()> {
        let (address, descriptors) = (lanes.address, lanes.descriptors(usize::from(placement.shards)));
        self.logger.info(format!("started clustering listener on {address}"));
        let fail = Box::new(move |why| end.send(End::Failed(why)).unwrap_or_default());
        let house = self.committer.clone();
        let call_keeper = Box::new(move || house.call_house());
        let (doors, clock, logger) = (self.doors.clone(), self.clock, self.logger.clone());
        let (lanes, exchange) = lanes.start(placement, doors, clock, logger, call_keeper, fail)?;
        if let Ok(mut keeper) = self.keeper.lock() {
            keeper.join(lanes.clone(), clock);
        }
        self.lanes = Some((lanes, address, descriptors));
        self.spawn("lanes", move || exchange.run())
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        self.others.push(Builder::new().name(name.into()).spawn(work)?);
        Ok(())
    }

    /// Accepts connections until the node is to end; what it ends with.
    fn serve(
        &self,
        config: &Config,
        ports: Ports,
        shares: Shares,
        end: Sender<End>,
        ends: &Receiver<End>,
    ) -> Result<Then, String> {
        let failed = |error: std::io::Error| format!("the node cannot start: {error}");
        for (kind, address) in &ports.addresses {
            self.logger.info(format!("started {} listener on {address}", kind.names().2));
        }
        let mut rows = ports.rows(&config.node_name);
        if let Some((_, address, _)) = &self.lanes {
            rows.push(ports::row(&config.node_name, *address, "clustering", BETWEEN_NODES));
        }
        let socket = config.data_dir.join(SOCKET_NAME);
        let control = ctl::server::listen(&socket)
            .map_err(|error| format!("cannot listen on {}: {error}", socket.display()))?;
        self.logger.info(format!("administration socket at {}", socket.display()));
        let most =
            if ports.secure.is_empty() { 0 } else { (cores() as usize).div_ceil(2).min(HANDSHAKERS_MAX) };
        // Each of them, and the acceptor without TLS, has its own epoll and its waker.
        let of_lanes = self.lanes.as_ref().map_or(0, |(_, _, descriptors)| *descriptors);
        let places = shares.places(&self.logger, most * (ports.secure.len() + 2) + 2 + of_lanes);
        let (acceptor, stop_accepting) = Acceptor::new(ports.plain, places.clone()).map_err(failed)?;
        let spoken = &ports.spoken;
        let handshakers: Result<Vec<_>, std::io::Error> = (0..most)
            .map(|_| {
                Handshaker::new(
                    ports::again(&ports.secure)?,
                    places.clone(),
                    config.network.tls_handshake_ms,
                    config.network.login,
                )
            })
            .collect();
        let (handshakers, stop_handshakes): (Vec<_>, Vec<_>) =
            handshakers.map_err(failed)?.into_iter().unzip();
        let next = &AtomicUsize::new(0);
        let stop_http = tokio::sync::Notify::new();
        let (jobs, lanes) = http::Queues::new();
        let raised = || self.raised();
        let lacks_space = || self.committer.lacks_space();
        let (wake, woken) = channel();
        let stop_samples = wake.clone();
        let (guard, ledger) = (self.guard.clone(), self.ledger.clone());
        let mut about = Manager::about(config, self.identity, &rows, access_rules(config), guard, ledger);
        if !config.http_shares {
            about.limits = about.limits.without_shares();
        }
        about.web_sessions = Some(Arc::new(WebSessions::new(config.web_sessions, seed::secrets()?)));
        about.limits.connections_max = about.limits.connections_max.min(shares.api);
        about.limits.metrics_connections_max = about.limits.metrics_connections_max.min(shares.metrics);
        about.limits.event_streams_max = about.limits.event_streams_max.min(shares.listeners);
        about.limits.handshake_ms_max = config.network.tls_handshake_ms;
        let pools = Arc::new(http::Pools::new(&about.limits));
        let manager = Manager {
            pools: pools.clone(),
            places,
            doors: &self.doors,
            config,
            raised: &raised,
            lacks_space: &lacks_space,
            watermarks: &self.watermarks,
            clock: self.clock,
            about,
            next: AtomicUsize::new(0),
            committer: &self.committer,
            history: Mutex::default(),
            queue_names: QueueNames::default(),
            queue_orders: QueueOrders::default(),
            asked_at: AtomicU64::new(0),
            wake,
            logins: [const { AtomicU64::new(0) }; 2],
            forgotten: Mutex::default(),
            reads: self.reads.clone(),
            tls: &ports.tls,
            is_stopping: &self.is_stopping,
            lanes: self.lanes.as_ref().map(|(lanes, ..)| &**lanes),
            logger: self.logger.clone(),
            passwords: self.passwords.clone(),
        };
        let manager = &manager;
        let board = &Board::default();
        if let Err(why) = definitions::load(config, manager, &self.logger) {
            return Ok(Then::Failed(why));
        }
        std::thread::scope(|threads| {
            let doors = &self.doors;
            let hand_over = move |arrival| {
                let number = next.fetch_add(1, Ordering::Relaxed) % doors.len();
                doors[number].letters.put(Letter::Accepted(arrival));
            };
            let accept = move || {
                self.let_in();
                acceptor.run(
                    |number, stream, peer| {
                        let (protocol, web) = &spoken[number];
                        let layer = web.clone().map(|rules| Box::new(Layer::new(None, Some(rules))));
                        let peer = Peer { protocol: *protocol, ..peer };
                        hand_over(Arrival { stream, peer, layer });
                    },
                    |text| self.logger.error(text),
                );
            };
            let answer = || {
                let (ports, clock, raised) = (&rows, self.clock, &|| self.raised());
                let (watermarks, logger, end) = (&self.watermarks, &self.logger, end.clone());
                let (doors, lanes) = (&self.doors, self.lanes.as_ref().map(|(lanes, ..)| &**lanes));
                let desk = Desk {
                    doors,
                    manager,
                    board,
                    lanes,
                    config,
                    ports,
                    raised,
                    watermarks,
                    clock,
                    logger,
                    end,
                };
                let is_over = || self.is_stopping.load(Ordering::SeqCst);
                let limits = ctl::Limits::default();
                ctl::server::serve(&control, &limits, is_over, |request| {
                    courtesy::step_back();
                    desk.answer(request)
                });
            };
            let mut spawned = Builder::new()
                .name("accept".into())
                .spawn_scoped(threads, accept)
                .and_then(|_| Builder::new().name("ctl".into()).spawn_scoped(threads, answer))
                .map(drop);
            for handshaker in handshakers {
                let clock = self.clock;
                let work = move || {
                    self.let_in();
                    handshaker.run(|| clock.now().mono_ns, hand_over, |text| self.logger.warning(text));
                };
                spawned = spawned
                    .and_then(|()| Builder::new().name("tls".into()).spawn_scoped(threads, work).map(drop));
            }
            let (jobs, lanes, listeners) = (jobs, &lanes, ports.http);
            if !listeners.is_empty() {
                let is_over = || self.is_stopping.load(Ordering::SeqCst);
                let workers = Lane::ALL.into_iter().flat_map(|lane| vec![lane; lane.workers()]);
                for lane in workers {
                    let work = move || {
                        courtesy::step_back();
                        self.let_in();
                        http::work(manager, lanes, lane, is_over);
                    };
                    spawned = spawned.and_then(|()| {
                        Builder::new().name("http-work".into()).spawn_scoped(threads, work).map(drop)
                    });
                }
                let work = move || {
                    courtesy::step_back();
                    manager.sample_on(&woken, is_over);
                };
                spawned = spawned.and_then(|()| {
                    Builder::new().name("http-rates".into()).spawn_scoped(threads, work).map(drop)
                });
                let (limits, stop, logger) = (manager.about.limits, &stop_http, &self.logger);
                let (gate, served) = (manager.gate(), (config.ui.clone(), self.clock));
                let work = move || {
                    if let Err(error) = http::serve(listeners, limits, gate, served, pools, &jobs, stop) {
                        logger.error(format!("the management HTTP API is not served: {error}"));
                    }
                };
                spawned = spawned
                    .and_then(|()| Builder::new().name("http".into()).spawn_scoped(threads, work).map(drop));
            }
            if let Some(lanes) = manager.lanes {
                let work = move || {
                    courtesy::step_back();
                    news::say_on(manager, lanes, &self.entrance);
                };
                spawned = spawned
                    .and_then(|()| Builder::new().name("news".into()).spawn_scoped(threads, work).map(drop));
            }
            let spawned = spawned.map_err(failed);
            let outcome = match spawned {
                Ok(()) => {
                    let ms = self.clock.now().mono_ns / base::time::NS_PER_MS;
                    let plugins = base::rabbitmq::PLUGINS.len();
                    self.logger.info(format!("Server startup complete; {plugins} plugins started."));
                    self.logger.info(format!("Time to start RabbitMQ: {ms} ms"));
                    let user = self.user.as_deref();
                    self.logger.info(greeting::line(ms, &ports.addresses, user, &config.data_dir));
                    notify::tell(News::Ready, &self.logger);
                    self.watch(config, ends, || {
                        board.forget_old(self.clock.mono_ns());
                        let now_ms = self.clock.now().mono_ns / base::time::NS_PER_MS;
                        manager.queue_orders.forget_old(now_ms, &manager.about.limits);
                    })
                }
                Err(why) => Err(why),
            };
            // One that begins anew by itself does not stop, for those who watch over it.
            if !matches!(outcome, Ok(Then::Wait | Then::Anew)) {
                notify::tell(News::Stopping, &self.logger);
            }
            self.is_stopping.store(true, Ordering::SeqCst);
            self.entrance.end();
            stop_accepting.stop();
            stop_http.notify_one();
            // Nobody samples where nothing is served.
            let _ = stop_samples.send(());
            stop_handshakes.iter().for_each(handshake::Stop::stop);
            // Its thread ends with the next request, which this is; where its file is gone, with its socket.
            if let Err(error) = ctl::server::wake(&socket) {
                self.logger.warning(format!("the administration socket does not answer: {error}"));
                let _ = socket2::SockRef::from(&control).shutdown(std::net::Shutdown::Both);
            }
            outcome
        })
    }

    /// Returns when clients may come.
    fn let_in(&self) {
        if self.lanes.is_some() {
            self.entrance.wait();
        }
    }

    /// Watches memory and disk until the node is to end, and calls `also` as often.
    fn watch(&self, config: &Config, ends: &Receiver<End>, also: impl Fn()) -> Result<Then, String> {
        let (memory_limit, disk_limit) = self.watermarks.bytes();
        let mut alarms = Alarms::new(memory_limit, disk_limit, &config.node_name);
        let meter = Meter::new(&config.data_dir);
        let interval = Duration::from_millis(config.sample_interval_ms);
        let mut lines = Vec::new();
        let mut thrift = Thrift::default();
        // A look that a message asks for ends no interval: only one that comes of itself does.
        let (mut is_interval, mut has_evicted) = (true, false);
        let mut shortages = 0;
        let mut complaints = Complaints::default();
        let mut asked = None;
        loop {
            (alarms.memory_limit, alarms.disk_limit) = self.watermarks.bytes();
            self.ledger.set_watermark(self.watermarks.shared_bytes());
            if alarms.raised().memory || (is_interval && thrift.is_due(heap::used_ns())) {
                heap::trim();
            }
            match meter.sample() {
                Ok(mut sample) => {
                    if let Ok(free) = self.committer.disk().free_bytes() {
                        sample.disk_free = free;
                    }
                    // Shards have seen each for themselves, and hear from here that it is over.
                    let seen = std::mem::replace(&mut shortages, self.committer.shortages());
                    if self.committer.lacks_space() {
                        sample.disk_free = 0;
                    }
                    if alarms.judge(sample, &mut lines) || seen != shortages {
                        self.announce(alarms.raised());
                    }
                    if is_interval && config.alarm_refuses_growth && alarms.is_far_beyond(sample) {
                        let line = eviction::evict_largest(&self.doors);
                        has_evicted = line.is_some();
                        lines.extend(line.map(|line| (Level::Warning, line)));
                    }
                }
                Err(error) => self.logger.warning(format!("memory and disk cannot be measured: {error}")),
            }
            if let Some(asked) = asked.take() {
                // One that no longer waits has its answer from the next look.
                let _ = Sender::send(&asked, ());
            }
            lines.drain(..).for_each(|(level, text): (Level, String)| self.logger.log(level, text));
            also();
            if let Some(line) = complaints.due(self.clock.now().mono_ns, broker::access::given_up) {
                self.logger.warning(line);
            }
            // The others wait no longer than it takes to see that there is room again.
            let soon = std::mem::take(&mut has_evicted).then_some(EVICTED);
            let call = ends.recv_timeout(soon.map_or(interval, |soon| soon.min(interval)));
            is_interval = call.is_err() && soon.is_none();
            match call {
                Ok(End::Asked) => return Ok(Then::End),
                Ok(End::StopApp) => return Ok(Then::Wait),
                Ok(End::Anew) => return Ok(Then::Anew),
                Ok(End::Failed(why)) => return Err(why),
                Ok(End::Judge(answer)) => asked = Some(answer),
                Ok(End::Look | End::StartApp) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err("nobody is left to end the node".into()),
            }
        }
    }

    fn announce(&self, raised: Raised) {
        self.raised.store(u8::from(raised.memory) | u8::from(raised.disk) << 1, Ordering::Relaxed);
        self.doors.iter().for_each(|door| door.letters.put(Letter::Node(node::turn::Letter::Alarm(raised))));
    }

    fn raised(&self) -> Raised {
        raised_of(&self.raised)
    }

    /// Ends every thread. After a clean end each log has a snapshot, so the next start replays nothing.
    fn stop(self, outcome: Result<Then, String>) -> Result<Then, String> {
        // After a failure, what the device did with the last writes is only known after a restart: nothing more is
        // written.
        let then = outcome?;
        self.logger.info("the node is stopping");
        self.doors.iter().for_each(|door| door.letters.put(Letter::Node(node::turn::Letter::Stop)));
        let ended: Result<Vec<_>, _> = self.shards.into_iter().map(JoinHandle::join).collect();
        if let Some((lanes, ..)) = &self.lanes {
            lanes.stop();
        }
        self.committer.stop();
        // Nobody brings passwords any more.
        drop(self.passwords);
        for thread in self.others {
            if thread.join().is_err() {
                return Err("a thread failed while the node was stopping".into());
            }
        }
        let ended = ended.map_err(|_| "a shard failed while the node was stopping".to_owned())?;
        let (mut shards, parts): (Vec<Shard>, Vec<_>) =
            ended.into_iter().map(|ended| (ended.shard, ended.parts)).unzip();
        let mut parts: BTreeMap<LogId, Option<Part>> = parts.into_iter().flatten().collect();
        let mut keeper = self.keeper.lock().map_err(|_| "the housekeeper failed".to_owned())?;
        keeper.write_snapshots(&mut shards, &mut parts).map_err(|Stop(why)| why)?;
        self.committer.seal_end()?;
        let counters = self.committer.counters();
        let (bytes, groups) = (counters.record_bytes, counters.groups);
        let flush_us = self.committer.flush_ns() / 1000;
        self.logger
            .log(Level::Debug, format!("{bytes} bytes in {groups} groups; a flush takes {flush_us} us"));
        self.logger.info("the node has stopped");
        Ok(then)
    }
}
