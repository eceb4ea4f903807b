//! The shards of several nodes that agree on the catalog and on a log with queues.

use base::id::{LogId, NodeNo, ShardId};
use base::{Now, Secrets};
use broker::access::AccessRules;
use broker::{CATALOG_LOG, CommitRule, Limits, Membership, Placement, Shard, ShardSettings};
use std::sync::Arc;

/// The log with the queues.
pub const LOG: LogId = LogId(1);

pub fn node_no(node: usize) -> NodeNo {
    NodeNo(node as u16 + 1)
}

/// The only shard of one of three nodes, by its index, in this life of it. It comes up with nothing.
pub fn shard(now: Now, node: usize, incarnation: u64) -> Shard {
    let settings = ShardSettings {
        id: ShardId(0),
        placement: Placement { shards: 1, logs: 2 },
        limits: Limits::default(),
        rules: Arc::new(AccessRules::default()),
        node: "rabbit@test".into(),
        relaxes_types: false,
        ledger: Arc::default(),
        seed: 7,
    };
    let mut shard = Shard::new(settings, Secrets::simulated(node as u64));
    let others = (0..3).filter(|other| *other != node).map(node_no).collect();
    shard.join(Membership { node: node_no(node), incarnation, others });
    for log in [CATALOG_LOG, LOG] {
        shard.logs_mut().set_commit_rule(log, CommitRule::Quorum);
    }
    assert!(shard.finish_recovery(now).is_empty());
    shard
}
