//! A world of several nodes that agree on all logs, that of the catalog among them.
//!
//! A client declares, binds and deletes at any node. It reaches the queues of a log once its node leads that: what
//! it sends before waits there.
//! Invariants looked at: where two nodes have applied the same entry of a log, its state is the same on both; a shard that has
//! had its turn leads no log that another node led in a later term; a promise on disk is kept; whatever fails, what was confirmed is
//! there.

mod hunger;
mod known;
mod rest;

use crate::client::{Asked, Client, Kind, Seen, State};
use crate::cluster::{Cluster, Sent, Standing};
use crate::machine::Machine;
use crate::oracle::Check;
use crate::seat::Seat;
use crate::workload::declare;
use crate::world::World;
use adapters::Protocol;
use base::id::LogId;
use base::time::NS_PER_MS;
use broker::CATALOG_LOG;
use std::collections::BTreeSet;

/// Queues that are made before anything fails.
const QUEUES: usize = 3;

/// Rounds in which nodes begin, and a client makes queues.
const BEGIN_ROUNDS_MAX: usize = 4000;

/// Milliseconds of such a round.
const BEGIN_ROUND_MS: u64 = 5;

/// The queues that the exchange is bound to.
const BOUND: usize = 2;

impl World {
    /// The number of the node that is looked at.
    pub fn here(&self) -> usize {
        self.cluster.as_ref().map_or(0, |cluster| cluster.here.number)
    }

    /// The node that is looked at is down.
    pub fn is_down(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.here.up_at.is_some())
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
        makeup.seat = Some(Seat { number, nodes, life: here.life });
    }

    /// The node that is looked at begins a life: it knows the number of the last one.
    pub fn begin_life(&mut self) {
        if let (Some(cluster), Some(seat)) = (&mut self.cluster, &mut self.makeup.seat) {
            cluster.here.life += 1;
            seat.life = cluster.here.life;
        }
    }

    /// All nodes, and how it is with each.
    pub(self) fn all_nodes(&self) -> impl Iterator<Item = (&Machine, &Standing)> {
        let cluster = self.cluster.iter();
        cluster.flat_map(|cluster| {
            let others = cluster.others.iter().map(|site| (&site.node, &site.standing));
            others.chain([(&self.node, &cluster.here)])
        })
    }

    /// The nodes begin: one comes to lead the catalog, and all have its first content. In a part of the runs a client makes
    /// some queues and an exchange before anything fails.
    ///
    /// # Errors
    /// They do not.
    pub fn settle_together(&mut self, user: &str) -> Check {
        self.heal_all();
        let is_settled = |world: &mut World| {
            let mut nodes = world.all_nodes();
            nodes.all(|(node, _)| {
                let shards = node.berths.iter().map(|berth| &berth.home.shard);
                let mut catalogs = shards.map(|shard| shard.catalog());
                node.planning().is_caught_up() && catalogs.all(|catalog| catalog.user(user).is_some())
            })
        };
        self.rounds_until(is_settled, "the nodes do not begin")?;
        if !self.dice.one_in(4) {
            self.make_content()?;
        }
        self.begin_link_faults();
        self.visit(0);
        Ok(())
    }

    /// Rounds of all nodes until something is so.
    fn rounds_until(&mut self, mut is_so: impl FnMut(&mut World) -> bool, otherwise: &str) -> Check {
        let crashes = self.tally.crashes;
        for _ in 0..BEGIN_ROUNDS_MAX {
            if is_so(self) {
                return Ok(());
            }
            self.pass(BEGIN_ROUND_MS);
            self.round(crashes)?;
        }
        Err(otherwise.to_owned())
    }

    /// A client makes queues, and an exchange that some are bound to.
    fn make_content(&mut self) -> Check {
        let mut queues = Vec::new();
        for _ in 0..QUEUES {
            let rules = declare::roll(self, true);
            let queue = self.oracle.new_queue(true, true, rules);
            self.note(format!("q{queue}, {rules:?}"));
            self.oracle.done(0, Asked::Declare(queue), Some(0))?;
            queues.push(queue);
        }
        let delays = self.plan.rich && self.dice.one_in(2);
        let exchange = self.oracle.new_exchange((0..BOUND).collect(), delays);
        (0..BOUND).try_for_each(|queue| self.oracle.done(0, Asked::Bind(exchange, queue), None))?;
        self.visit(0);
        let line = self.net.open(self.here());
        let mut client = Client::new(0, line, self.now, Kind::Amqp091, &mut self.dice);
        self.node.accept(0, line, Protocol::Amqp);
        let mut has_asked = false;
        let mut failed = Ok(());
        let is_made = |world: &mut World| {
            let mut seen = Vec::new();
            client.exchange(world.now, None, &mut world.net, &mut seen);
            if let Some(Seen::Failed(why)) = seen.into_iter().find(|event| matches!(event, Seen::Failed(_))) {
                failed = Err(why);
                return true;
            }
            if client.state == State::Open && !has_asked {
                has_asked = true;
                for queue in &queues {
                    client.declare(*queue, true, true, world.oracle.rules_of(*queue));
                }
                client.ask(Asked::DeclareExchange(exchange, delays));
                (0..BOUND).for_each(|queue| client.ask(Asked::Bind(exchange, queue)));
            }
            has_asked && !client.is_waiting()
        };
        self.rounds_until(is_made, "the content is not made")?;
        client.vanish(&mut self.net);
        failed
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
        self.check_promises()?;
        self.take_answers()?;
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

    /// A promise that was on disk is there again after a start, unless there is a later one.
    fn check_promises(&mut self) -> Check {
        let World { cluster: Some(Cluster { promises, logs, here, .. }), node, .. } = self else {
            return Ok(());
        };
        for log in logs {
            let vote = node.promised(*log).unwrap_or_default();
            let known = promises.entry((here.number, *log)).or_default();
            let is_later = vote.term > known.term || (vote.term == known.term && vote.is_won >= known.is_won);
            let is_other = vote.term == known.term && vote.candidate != known.candidate && !vote.is_won;
            if !is_later || is_other {
                return Err(format!("n{} promised {known:?} in {log:?}, and has {vote:?}", here.number));
            }
            *known = vote;
        }
        Ok(())
    }

    /// Whoever begins to lead a log gives out what others may hold; who ceases to forgets what its clients hold.
    fn note_roles(&mut self) {
        let World { cluster: Some(cluster), node, oracle, trace, .. } = self else { return };
        let bits = cluster.logs.iter().enumerate().map(|(at, log)| u64::from(node.leads(*log)) << at);
        let before = std::mem::replace(&mut cluster.here.leading, bits.sum());
        if cluster.here.leading & !before != 0 {
            oracle.leader_begins();
        }
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
        for word in node.words.drain(..) {
            cluster.links.send(now.mono_ns, dice, cluster.here.number, word);
        }
    }

    /// Messages that are due come to their nodes.
    pub fn bring_messages(&mut self) {
        let World { cluster: Some(cluster), node, now, .. } = self else { return };
        for Sent { from, to, word } in cluster.links.due(now.mono_ns) {
            if to == cluster.here.number {
                if cluster.here.up_at.is_none() {
                    node.hear(from, word);
                }
            } else if let Some(site) = cluster.others.iter_mut().find(|site| site.standing.number == to)
                && site.standing.up_at.is_none()
            {
                site.node.hear(from, word);
            }
        }
    }

    /// The node that is looked at is down for a while.
    pub fn stay_down(&mut self) -> bool {
        let World { cluster: Some(cluster), now, dice, .. } = self else { return false };
        let ms = [5, 200, 1500, 6000][dice.below(4) as usize];
        cluster.here.up_at = Some(now.mono_ns + dice.below(ms) * NS_PER_MS);
        cluster.links.forget(cluster.here.number);
        cluster.users.went_down(cluster.here.number);
        true
    }

    /// The node that is looked at is up again.
    pub fn is_up(&mut self) {
        if let Some(cluster) = &mut self.cluster {
            cluster.here = Standing { life: cluster.here.life, ..Standing::new(cluster.here.number) };
        }
        self.note_roles();
        self.send_messages();
    }

    /// Where two nodes have applied the same, they have the same.
    pub fn compare(&mut self) -> Check {
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
                if log == CATALOG_LOG {
                    compared += 1;
                    if one.catalog_bytes() != other.catalog_bytes() {
                        return Err(format!("n{first} and n{second} have other catalogs at {applied:?}"));
                    }
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
