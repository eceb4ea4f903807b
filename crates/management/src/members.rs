//! The nodes of a cluster, the logs that they have in common, and the lanes between them, as tools see them.

/// A node of a cluster, as another one knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// It runs, and is reached.
    pub is_running: bool,
    /// Its own words of how it is, [`crate::news`]; none: it is this node, or said nothing so far.
    pub news: Option<serde_json::Value>,
}

/// The replicas of logs on this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replicas {
    /// By log.
    pub all: Vec<Replica>,
    /// How often the node began to lead a log.
    pub leads_begun: u64,
    /// How often it ceased to.
    pub leads_ended: u64,
}

/// A replica of a log on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The log; 0 has the catalog.
    pub log: u32,
    /// This node leads it, and hands out what is in its queues.
    pub leads: bool,
    /// Some node leads it, as far as is known here.
    pub has_leader: bool,
    /// Term and index of the last entry that was applied here.
    pub applied: (u64, u64),
}

/// The lanes to other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lanes {
    /// By node.
    pub nodes: Vec<LanesTo>,
    /// Words that were dropped since the start, by reason.
    pub dropped: Vec<(&'static str, u64)>,
}

/// The lanes between this node and another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanesTo {
    /// Its name.
    pub node: String,
    /// Lanes that this node dials to it.
    pub dialed: u64,
    /// Those of them that are open.
    pub open: u64,
    /// Bytes that were sent since the start, on lanes of either side.
    pub sent_bytes: u64,
    /// Bytes that were received.
    pub received_bytes: u64,
}
