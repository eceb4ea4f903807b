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

impl CommitRule {
    /// Records are written to disk.
    #[inline]
    pub(crate) fn is_durable(self) -> bool {
        self != CommitRule::Immediate
    }

    /// Records nobody waits for may be applied before they are written: whether they are is this node's to say alone. Where
    /// others have to agree they may yet be taken back.
    #[inline]
    pub(crate) fn runs_ahead(self) -> bool {
        self != CommitRule::Quorum
    }

    /// That they are written is not enough.
    #[inline]
    pub(crate) fn needs_agreement(self) -> bool {
        self == CommitRule::Quorum
    }
}
