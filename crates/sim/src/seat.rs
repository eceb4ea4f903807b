//! The places of nodes among those that agree, and their replicas.

use base::id::NodeNo;
use broker::Membership;
use consensus::ReplicaId;
use std::collections::BTreeSet;

/// The place of a node among those that agree.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    /// Its number, from 0.
    pub number: usize,
    /// Nodes there are.
    pub nodes: usize,
    /// The life that the node lives, or is about to: the number of its start.
    pub life: u64,
}

impl Seat {
    /// Its replica of any log.
    pub fn replica(self) -> ReplicaId {
        replica_of(self.number)
    }

    /// It as one of those that agree on the catalog, in its life.
    pub fn membership(self) -> Membership {
        let others = (0..self.nodes).filter(|number| *number != self.number).map(node_no).collect();
        Membership { node: node_no(self.number), incarnation: self.life, others }
    }

    /// All replicas of a log, where this node is the one that founds it.
    pub fn founders(self) -> Option<BTreeSet<ReplicaId>> {
        (self.number == 0).then(|| (0..self.nodes).map(replica_of).collect())
    }
}

/// The replica of a node, of any log.
pub fn replica_of(number: usize) -> ReplicaId {
    ReplicaId::new(node_no(number), 0)
}

/// The number of a node in what it says to others.
pub fn node_no(number: usize) -> NodeNo {
    NodeNo(number as u16 + 1)
}

/// The number of a node here, from 0.
pub fn number_of(node: NodeNo) -> usize {
    usize::from(node.0) - 1
}
