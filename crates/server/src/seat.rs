//! The place of a node among those that agree on its logs, the catalog's among them, and the replicas of a shard there.

use crate::membership::Membership;
use base::Now;
use base::id::{LogId, NodeNo};
use broker::{CommitRule, Shard};
use consensus::ReplicaId;
use node::replicas::{Coming, Replicas};
use serde::Serialize;
use std::collections::BTreeSet;

/// The replica of a node, of any log. None comes back under another number yet.
fn replica_of(number: NodeNo) -> ReplicaId {
    ReplicaId::new(number, 0)
}

/// Logs that the nodes of a cluster agree on, where there are so many: all.
pub fn agreed_on(logs: u32) -> impl Iterator<Item = LogId> {
    (0..logs).map(LogId)
}

/// Makes shards, which are new, those of a node that agrees on its catalog, and on all its logs, with others.
pub fn take(shards: &mut [Shard], membership: &Membership, logs: u32) {
    let others = membership.members().map(|(number, _)| number).filter(|number| *number != membership.number);
    let place = broker::Membership {
        node: membership.number,
        incarnation: membership.life,
        others: others.collect(),
    };
    for shard in shards {
        shard.join(place.clone());
        agreed_on(logs).for_each(|log| shard.logs_mut().set_commit_rule(log, CommitRule::Quorum));
    }
}

/// The replicas of a shard, before its thread has them: they stay there.
pub struct Seat {
    me: ReplicaId,
    founders: Option<BTreeSet<ReplicaId>>,
    coming: Vec<Coming>,
    seed: u64,
}

impl Seat {
    /// Those that come up, in the cluster that the node is of. All chance is of the seed.
    pub fn new(membership: &Membership, coming: Vec<Coming>, seed: u64) -> Seat {
        let all = membership.members().map(|(number, _)| replica_of(number));
        let founders = membership.is_founder().then(|| all.collect());
        Seat { me: replica_of(membership.number), founders, coming, seed }
    }

    /// Brings them up.
    ///
    /// # Errors
    /// One of them cannot come up with what it has.
    pub fn open(self, now: Now) -> Result<Box<Replicas>, String> {
        let Seat { me, founders, coming, seed } = self;
        let mut replicas = Box::new(Replicas::new(consensus::Settings::default(), seed, false, now));
        for own in coming {
            let log = own.log;
            let opened = replicas.open(me, own, founders.clone());
            opened.map_err(|why| format!("the replica of log {log} cannot come up: {why}"))?;
        }
        Ok(replicas)
    }
}

/// Another node is to lead a log that a shard leads. Whether it led that.
pub fn give_lead(replicas: &mut Replicas, now: Now, shard: &mut Shard, log: LogId, to: NodeNo) -> bool {
    let leads = replicas.leads_in(log).is_some();
    replicas.transfer(now, shard, log, replica_of(to));
    leads
}

/// A replica, as tools show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplicaRow {
    /// The log.
    pub log: u32,
    /// The number of the node that leads it, as far as is known here.
    pub leader: Option<u16>,
    /// The term in which this node leads it, and hands out what is in its queues.
    pub leads: Option<u64>,
    /// Term and index of the last entry that was applied here.
    pub applied: Option<(u64, u64)>,
}

/// The replicas of a shard, as tools show them, of a node with so many logs.
pub fn rows(replicas: &Replicas, logs: u32) -> Vec<ReplicaRow> {
    let row = |log: LogId| ReplicaRow {
        log: log.0,
        leader: replicas.leader(log).map(|leader| leader.node().0),
        leads: replicas.leads_in(log),
        applied: replicas.applied(log).map(|entry| (entry.term, entry.index)),
    };
    agreed_on(logs).filter(|log| replicas.hosts(*log)).map(row).collect()
}
