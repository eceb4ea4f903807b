//! Several nodes that agree on all logs but the catalog's: the others beside the one that is looked at, what is under way
//! between them, and their faults.
//!
//! The world looks at one node at a time; the others wait here. Their catalogs are the same from the start on, and do not
//! change. A client reaches the queues of a log once its node leads that: what it sends before waits there.
//! Invariants looked at: where two nodes have applied the same entry of a log, its state is the same on both; a shard that has
//! had its turn leads no log that was led in a later term; whatever fails, what was confirmed is there.

mod links;
mod operations;
mod rest;

pub use operations::OPERATIONS;

use crate::client::{Asked, Client, Kind, Seen, State};
use crate::double::agreed_on;
use crate::machine::{Machine, Makeup};
use crate::oracle::Check;
use crate::workload::declare;
use crate::world::World;
use adapters::Protocol;
use base::Random;
use base::id::{LogId, NodeNo};
use base::time::NS_PER_MS;
use consensus::ReplicaId;
use journal::FaultyDisk;
use links::Links;
use std::collections::{BTreeMap, BTreeSet};

/// Queues of a run.
const QUEUES: usize = 8;

/// Rounds in which a node makes them.
const DECLARE_ROUNDS_MAX: usize = 400;

/// The queues that the exchange is bound to.
const BOUND: usize = 3;

/// The place of a node among those that agree.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    /// Its number, from 0.
    pub number: usize,
    /// Nodes there are.
    pub nodes: usize,
}

impl Seat {
    /// Its replica of any log.
    pub fn replica(self) -> ReplicaId {
        replica_of(self.number)
    }

    /// All replicas of a log, where this node is the one that founds it.
    pub fn founders(self) -> Option<BTreeSet<ReplicaId>> {
        (self.number == 0).then(|| (0..self.nodes).map(replica_of).collect())
    }
}

fn replica_of(number: usize) -> ReplicaId {
    ReplicaId::new(NodeNo(number as u16 + 1), 0)
}

/// The node that has a replica.
pub fn node_of(replica: ReplicaId) -> usize {
    usize::from(replica.node().0) - 1
}

/// How it is with a node, besides what is on its disk and in its memory.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// Its number, from 0.
    pub number: usize,
    /// It is down, and comes up then; monotonic nanoseconds.
    pub up_at: Option<u64>,
    /// It does nothing before; monotonic nanoseconds.
    pub still_until: u64,
    /// How often it began to lead a log, or ceased to, in this life.
    changes: u64,
}

impl Standing {
    fn new(number: usize) -> Standing {
        Standing { number, up_at: None, still_until: 0, changes: 0 }
    }
}

/// A node that is not looked at.
#[derive(Debug)]
struct Site {
    disk: FaultyDisk,
    node: Machine,
    has_faults: bool,
    standing: Standing,
}

/// See the module.
#[derive(Debug)]
pub struct Cluster {
    /// The node that is looked at.
    pub here: Standing,
    others: Vec<Site>,
    links: Links,
    /// Logs there are, without the catalog's.
    logs: Vec<LogId>,
    /// How fast time goes by: fast, and leaders come and go; slowly, and much is done under each.
    pace: u64,
    /// The latest term in which each log was led.
    terms: BTreeMap<LogId, u64>,
    /// Rounds of a rest so far.
    rounds: u64,
    /// The nodes rest: no start of one fails.
    is_calm: bool,
    /// The node that is to lead all logs.
    wanted: Option<usize>,
    /// How often two nodes were compared.
    pub compared: u64,
    /// How often nodes began to lead a log.
    pub led: u64,
}

impl Cluster {
    /// The nodes beside the first, none of which has begun so far.
    ///
    /// # Errors
    /// One does not start.
    pub fn new(makeup: &Makeup, nodes: usize, world: (base::Now, &mut Random)) -> Result<Cluster, String> {
        let (now, dice) = world;
        let mut others = Vec::new();
        for number in 1..nodes {
            let disk = FaultyDisk::new(dice.bits());
            let makeup = Makeup { seat: Some(Seat { number, nodes }), ..makeup.clone() };
            // A queue is on a log of the shard that declares it: one shard, and they are on the same logs on each node.
            let node = Machine::start(&disk, &makeup, 1, now, dice, &mut Vec::new());
            let node = node.map_err(|stop| stop.0)?;
            others.push(Site { disk, node, has_faults: false, standing: Standing::new(number) });
        }
        let here = Standing::new(0);
        let (logs, links) = (agreed_on(makeup.logs).collect(), Links::roll(dice));
        Ok(Cluster {
            here,
            others,
            links,
            logs,
            pace: [1, 4, 4, 10][dice.below(4) as usize],
            terms: BTreeMap::new(),
            rounds: 0,
            is_calm: false,
            wanted: None,
            compared: 0,
            led: 0,
        })
    }

    /// Nodes there are.
    pub fn nodes(&self) -> usize {
        1 + self.others.len()
    }
}

impl World {
    /// The number of the node that is looked at.
    pub fn here(&self) -> usize {
        self.cluster.as_ref().map_or(0, |cluster| cluster.here.number)
    }

    /// Nothing fails any more for a while.
    pub fn is_calm(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.is_calm)
    }

    /// Looks at another node.
    pub fn visit(&mut self, number: usize) {
        let World { cluster: Some(cluster), disk, node, has_faults, makeup, .. } = self else { return };
        let nodes = cluster.nodes();
        let Cluster { here, others, .. } = cluster;
        let Some(site) = others.iter_mut().find(|site| site.standing.number == number) else { return };
        std::mem::swap(disk, &mut site.disk);
        std::mem::swap(node, &mut site.node);
        std::mem::swap(has_faults, &mut site.has_faults);
        std::mem::swap(here, &mut site.standing);
        makeup.seat = Some(Seat { number, nodes });
    }

    /// All nodes, and how it is with each.
    fn all_nodes(&self) -> impl Iterator<Item = (&Machine, &Standing)> {
        let cluster = self.cluster.iter();
        cluster.flat_map(|cluster| {
            let others = cluster.others.iter().map(|site| (&site.node, &site.standing));
            others.chain([(&self.node, &cluster.here)])
        })
    }

    /// The queues and the exchange of a run are made on each node, by the same words.
    ///
    /// # Errors
    /// A node does not do so.
    pub fn make_content(&mut self) -> Check {
        for _ in 0..QUEUES {
            let rules = declare::roll(self, true);
            let queue = self.oracle.new_queue(true, true, rules);
            self.note(format!("q{queue}, {rules:?}"));
            self.oracle.done(0, Asked::Declare(queue), Some(0))?;
        }
        let delays = self.plan.rich && self.dice.one_in(2);
        let exchange = self.oracle.new_exchange((0..BOUND).collect(), delays);
        (0..BOUND).try_for_each(|queue| self.oracle.done(0, Asked::Bind(exchange, queue), None))?;
        let nodes = self.cluster.as_ref().map_or(1, Cluster::nodes);
        for number in 0..nodes {
            self.visit(number);
            self.declare_all(exchange, delays).map_err(|why| format!("n{number}: {why}"))?;
        }
        Ok(())
    }

    /// A client makes all there is on the node that is looked at.
    fn declare_all(&mut self, exchange: usize, delays: bool) -> Check {
        let line = self.net.open(self.here());
        let mut client = Client::new(0, line, self.now, Kind::Amqp091, &mut self.dice);
        self.node.accept(0, line, Protocol::Amqp);
        let mut has_asked = false;
        for _ in 0..DECLARE_ROUNDS_MAX {
            let mut seen = Vec::new();
            client.exchange(self.now, None, &mut self.net, &mut seen);
            if let Some(Seen::Failed(why)) = seen.into_iter().find(|event| matches!(event, Seen::Failed(_))) {
                return Err(why);
            }
            if client.state == State::Open && !has_asked {
                has_asked = true;
                for queue in 0..QUEUES {
                    client.declare(queue, true, true, self.oracle.rules_of(queue));
                }
                client.ask(Asked::DeclareExchange(exchange, delays));
                (0..BOUND).for_each(|queue| client.ask(Asked::Bind(exchange, queue)));
            } else if has_asked && !client.is_waiting() {
                client.vanish(&mut self.net);
                return Ok(());
            }
            for at in 0..self.node.berths.len() {
                self.turn(at)?;
            }
            self.node.write(self.now).map_err(|stop| stop.0)?;
        }
        Err("its content is not made".to_owned())
    }

    /// One thing happens; true when it was an operation of the workload.
    ///
    /// # Errors
    /// Something is not as it must be.
    pub fn step_together(&mut self) -> Result<bool, String> {
        let nodes = self.cluster.as_ref().map_or(1, Cluster::nodes) as u64;
        let number = self.dice.below(nodes) as usize;
        self.visit(number);
        self.bring_messages();
        let now_ns = self.now.mono_ns;
        let here = |world: &World| world.cluster.as_ref().map(|cluster| cluster.here);
        if here(self).is_some_and(|here| here.up_at.is_some_and(|at| at <= now_ns)) {
            self.come_up()?;
        }
        let is_able = |here: Standing| here.up_at.is_none() && here.still_until <= now_ns;
        let is_able = here(self).is_some_and(is_able);
        match self.dice.below(100) {
            0..64 if !is_able => {}
            0..40 => {
                let at = self.dice.below(self.node.berths.len() as u64) as usize;
                self.turn(at)?;
            }
            40..50 => {
                let result = self.node.write(self.now);
                self.unless_stopped(result)?;
            }
            50..56 => {
                let result = self.node.read(&mut self.dice, &mut self.tally);
                self.unless_stopped(result)?;
            }
            56..62 => {
                let result = self.node.keep(self.now, &mut self.dice, &mut self.tally);
                self.unless_stopped(result)?;
            }
            62..64 => self.node.prepare(),
            64..82 => {
                let at = self.dice.below(crate::client::CLIENTS_MAX as u64) as usize;
                self.exchange(at, false)?;
            }
            82..86 => {
                let most = if self.dice.one_in(4) { 60 } else { 4 };
                let pace = self.cluster.as_ref().map_or(1, |cluster| cluster.pace);
                let ms = self.dice.below(most * pace);
                self.pass(ms);
            }
            _ => {
                crate::workload::one(self)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A turn of a shard of the node that is looked at.
    pub fn turn(&mut self, at: usize) -> Check {
        let World { node, now, dice, net, .. } = self;
        let result = node.turn(at, *now, dice, net);
        self.note_roles();
        self.send_messages();
        if let Some((log, why)) = self.node.take_ended() {
            return Err(format!("the replica of {log:?} ends: {why}"));
        }
        self.check_terms(at)?;
        self.unless_stopped(result)
    }

    /// A shard that has had its turn leads no log that another node led in a later term: it would hand out what is in the
    /// other's queues.
    fn check_terms(&mut self, shard: usize) -> Check {
        let World { cluster: Some(Cluster { terms, logs, here, .. }), node, .. } = self else {
            return Ok(());
        };
        for log in logs {
            let Some(term) = node.leads_in(shard, *log) else { continue };
            let latest = terms.entry(*log).or_default();
            if *latest > term {
                return Err(format!("n{} leads {log:?} in term {term}, after one of {latest}", here.number));
            }
            *latest = term;
        }
        Ok(())
    }

    /// Whoever begins to lead a log gives out what others may hold; who ceases to forgets what its clients hold.
    fn note_roles(&mut self) {
        let World { cluster: Some(cluster), node, oracle, trace, .. } = self else { return };
        let (led, resigned) = node.roles();
        if led + resigned != cluster.here.changes {
            cluster.here.changes = led + resigned;
            cluster.led += 1;
            oracle.leader_lost();
            let leads: Vec<LogId> = cluster.logs.iter().copied().filter(|log| node.leads(*log)).collect();
            trace.note(format!("n{} leads {leads:?} in round {}", cluster.here.number, cluster.rounds));
        }
    }

    fn send_messages(&mut self) {
        let World { cluster: Some(cluster), node, now, dice, .. } = self else { return };
        for message in node.messages.drain(..) {
            cluster.links.send(now.mono_ns, dice, cluster.here.number, message);
        }
    }

    /// Messages that are due come to their nodes.
    fn bring_messages(&mut self) {
        let World { cluster: Some(cluster), node, now, .. } = self else { return };
        for (to, message) in cluster.links.due(now.mono_ns) {
            if to == cluster.here.number {
                if cluster.here.up_at.is_none() {
                    node.hear(message);
                }
            } else if let Some(site) = cluster.others.iter_mut().find(|site| site.standing.number == to)
                && site.standing.up_at.is_none()
            {
                site.node.hear(message);
            }
        }
    }

    /// The node that is looked at is down for a while.
    pub fn stay_down(&mut self) -> bool {
        let World { cluster: Some(cluster), now, dice, .. } = self else { return false };
        let ms = [5, 200, 1500][dice.below(3) as usize];
        cluster.here.up_at = Some(now.mono_ns + dice.below(ms) * NS_PER_MS);
        cluster.links.forget(cluster.here.number);
        true
    }

    /// The node that is looked at is up again.
    pub fn is_up(&mut self) {
        if let Some(cluster) = &mut self.cluster {
            cluster.here = Standing::new(cluster.here.number);
        }
        self.note_roles();
        self.send_messages();
    }

    /// Where two nodes have applied the same, they have the same.
    fn compare(&mut self) -> Check {
        let logs = self.cluster.as_ref().map(|cluster| cluster.logs.clone()).unwrap_or_default();
        let mut compared = 0;
        for log in logs {
            let up = self.all_nodes().filter(|(_, standing)| standing.up_at.is_none());
            let nodes: Vec<_> =
                up.filter_map(|(node, standing)| Some((node.agreed(log)?, node, standing.number))).collect();
            for pair in nodes.windows(2) {
                let [(applied, one, first), (other_applied, other, second)] = pair else { continue };
                if applied != other_applied {
                    continue;
                }
                let from = one.moved_below(log).max(other.moved_below(log));
                let (ours, theirs) = (one.canonical_from(log, from), other.canonical_from(log, from));
                compared += 1;
                if ours != theirs {
                    let ids = ours.keys().chain(theirs.keys());
                    let unlike: BTreeSet<_> = ids.filter(|id| ours.get(id) != theirs.get(id)).collect();
                    return Err(format!(
                        "n{first} and n{second} differ in {unlike:?} of {log:?}, and have applied {applied:?}"
                    ));
                }
            }
        }
        if let Some(cluster) = &mut self.cluster {
            cluster.compared += compared;
        }
        Ok(())
    }
}
