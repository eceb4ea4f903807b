//! Entries that replicas agree on, with their names; votes; members.

use base::id::NodeNo;
use journal::Sealed;
use std::collections::BTreeSet;
use std::fmt;

/// A replica of a log: a node, and how often that node began with nothing. One that lost its data, or doubts it, comes back
/// under the next number: its promises went with the data.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub u64);

impl ReplicaId {
    /// The replica of a node, in its `generation`.
    pub const fn new(node: NodeNo, generation: u32) -> ReplicaId {
        ReplicaId((node.0 as u64) << 32 | generation as u64)
    }

    /// The node that has it.
    pub const fn node(self) -> NodeNo {
        NodeNo((self.0 >> 32) as u16)
    }

    /// How often the node began with nothing.
    pub const fn generation(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Debug for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 >> 32, self.generation())
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Names an entry. Two entries of a log with one name are one and the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// The term in which it was proposed, by the one leader of that term.
    pub term: u64,
    /// Its place among the entries of the log: dense, from 0.
    pub index: u64,
}

/// The promise of a replica: it follows nobody of an earlier term, and of this one only this candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Vote {
    /// The term.
    pub term: u64,
    /// For whom.
    pub candidate: ReplicaId,
    /// That one has a majority, and leads.
    pub is_won: bool,
}

/// The replicas of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Those who vote. While members change there are two sets, and each has to agree by itself.
    pub voters: Vec<BTreeSet<ReplicaId>>,
    /// Those who follow and do not vote.
    pub learners: BTreeSet<ReplicaId>,
}

impl Members {
    /// Those who vote, and nobody else.
    pub fn voting(voters: impl IntoIterator<Item = ReplicaId>) -> Members {
        Members { voters: vec![voters.into_iter().collect()], learners: BTreeSet::new() }
    }

    /// All of them.
    pub fn all(&self) -> BTreeSet<ReplicaId> {
        self.voters.iter().flatten().chain(&self.learners).copied().collect()
    }
}

/// The content of an entry.
#[derive(Clone, Debug)]
pub enum Content {
    /// Nothing: a leader begins its term with one.
    Blank,
    /// Records of the log, which follow on those of the entry before.
    Batch(Sealed),
    /// The members are these from here on.
    Members(Members),
}

/// An entry of a log. Only batches have records: the place of a record, counted in bytes of those before it, is the same on
/// every replica.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub id: EntryId,
    /// Its content.
    pub content: Content,
}
