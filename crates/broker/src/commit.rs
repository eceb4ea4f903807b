//! Commit rules: what must have happened before a record counts.

/// When a log's records are committed. The queue machines do not know: they apply what is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitRule {
    /// At once, in memory alone: transient queues. Nothing is written.
    Immediate,
    /// When this node's disk has them (fdatasync returned).
    Synced,
    /// When this node's disk has them and somebody outside says so, see [`crate::Shard::commit_outside`]: the seam
    /// behind which replication stands.
    Quorum,
}
