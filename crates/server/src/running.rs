//! One node: from a configuration to running shards, and to a clean end.
//!
//! Start-up order: data folder, identity, snapshots, journal, first user, listeners, threads. Everything is recovered
//! before the first connection is accepted.

mod opened;
mod serving;
mod settings;
mod watch;

use crate::alarm::Watermarks;
use crate::clock::Clock;
use crate::committer::{Committer, Report};
use crate::config::Config;
use crate::config::network::ListenerKind;
use crate::courtesy;
use crate::descriptors::Shares;
use crate::door::{Door, Letter};
use crate::end::End;
use crate::entrance::Entrance;
use crate::heap;
use crate::idle;
use crate::keeper::Keeper;
use crate::lanes::{self, Lanes};
use crate::log::Logger;
use crate::log::level::Level;
use crate::passwords::{HASHERS, Hasher, Passwords};
use crate::reader::{Asks, READERS, Reader, Reads};
use crate::seat::Seat;
use crate::seed;
use crate::shard::{Ended, ShardLoop, Surroundings, poll};
use crate::sweeper::Sweeper;
use adapters::{Following, Frontend, Settings};
use base::id::{LogId, ShardId};
use broker::access::Guard;
use broker::catalog::Op;
use broker::ledger::Ledger;
use broker::{Placement, Shard};
use mio::Poll;
use node::Stop;
use node::commit::Written;
use node::replicas::Coming;
use node::snapped::Part;
use node::start::Recovered;
use node::turn::Raised;
use opened::{Opened, prepare};
use settings::{access_rules, cores, front_settings};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Milliseconds between two looks of the housekeeper when nothing calls it.
const HOUSE_MS: u64 = 1000;

/// The line of the log of a node that begins anew by itself.
const ANEW: &str = "the node begins anew, with the catalog of another";

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

fn raised_of(bits: &AtomicU8) -> Raised {
    let bits = bits.load(Ordering::Relaxed);
    Raised { memory: bits & 1 != 0, disk: bits & 2 != 0 }
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
        for (number, (shard, (poll, seat))) in
            shards.into_iter().zip(polls.into_iter().zip(seats)).enumerate()
        {
            let id = ShardId(number as u16);
            let front = Frontend::new(id, settings.clone());
            let around = running.surroundings(id, asks.clone(), config.turn_work_max, end.clone());
            running.spawn_shard((id, poll), shard, front, (seat, content.take()), around).map_err(failed)?;
        }
        running.spawn_writers(end, reader).map_err(failed)?;
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

    fn surroundings(&self, id: ShardId, reader: Asks, turn_work_max: u32, end: Sender<End>) -> Surroundings {
        Surroundings {
            doors: self.doors.clone(),
            committer: self.committer.clone(),
            reader,
            passwords: self.passwords.clone(),
            lanes: self.lanes.as_ref().map(|(lanes, ..)| lanes.clone()),
            clock: self.clock,
            logger: self.logger.of(u32::from(id.0) + 1),
            turn_work_max,
            entrance: self.entrance.clone(),
            tell: Box::new(move |what| end.send(what).unwrap_or_default()),
        }
    }

    /// Begins the thread of a shard, with its replicas where it has any.
    fn spawn_shard(
        &mut self,
        (id, poll): (ShardId, Poll),
        shard: Shard,
        front: Frontend,
        (seat, content): (Option<Seat>, Option<Vec<Op>>),
        around: Surroundings,
    ) -> io::Result<()> {
        let clock = self.clock;
        let run = move || match seat.map(|seat| seat.open(clock.now())).transpose() {
            Ok(replicas) => ShardLoop::new(id, poll, shard, front, (replicas, content), around).run(),
            Err(why) => {
                (around.tell)(End::Failed(why));
                Ended { shard, parts: Vec::new() }
            }
        };
        self.shards.push(Builder::new().name(format!("shard-{}", id.0)).spawn(run)?);
        Ok(())
    }

    /// Begins the threads that write to the disk, keep house and read.
    fn spawn_writers(&mut self, end: Sender<End>, reader: Reader) -> io::Result<()> {
        let reporter = Reporter { doors: self.doors.clone(), end: Mutex::new(end.clone()) };
        let writer = self.committer.clone();
        self.spawn("writer", move || writer.run_writer(&reporter))?;
        let looks = end.clone();
        self.committer.call_to_look(move || looks.send(End::Look).unwrap_or_default());
        self.spawn_house(end)?;
        for _ in 0..READERS {
            let reader = reader.clone();
            self.spawn("reader", move || reader.run())?;
        }
        Ok(())
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
        let mut parts: BTreeMap<LogId, Option<Part>> = base::brief::collect(parts.into_iter().flatten());
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
