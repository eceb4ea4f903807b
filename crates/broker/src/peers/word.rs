//! Words about the catalog that nodes send each other. Each may be lost, come late, come twice, or overtake another.

use crate::catalog::{Actor, Op, Refusal, WishId};
use base::id::{LogId, LogIndex, NodeNo, QueueId};
use routing::ExchangeId;
use std::sync::Arc;

/// A time for which a node leads the catalog: what it was told for an earlier one it does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reign {
    /// Which start of the node.
    pub incarnation: u64,
    /// Counts the times of that one.
    pub tenure: u32,
}

/// A node's wish for a change of the catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    /// Which start of the node.
    pub incarnation: u64,
    /// Counts the wishes of that one, from 1.
    pub number: u64,
    /// The node knows the outcomes of all its wishes below this.
    pub below: u64,
    /// The time of the leader's that it is meant for.
    pub reign: Reign,
    /// The actor that asks for it.
    pub actor: Actor,
    /// Somebody waits for the answer.
    pub is_asked: bool,
    /// The logs that are led where the connection is: a new queue goes there.
    pub led: Box<[LogId]>,
    /// The request.
    pub op: Op,
}

impl Wish {
    /// Its name in the log, where `node` sent it.
    pub(crate) fn id(&self, node: NodeNo) -> WishId {
        WishId { node, incarnation: self.incarnation, number: self.number }
    }
}

/// The outcome of a wish that changed nothing. Of one that did, the log tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// All is as it was to be.
    Unchanged,
    /// The queue is there.
    There(QueueId),
    /// A rule is broken.
    Refused(Refusal),
}

/// A word about the catalog.
#[derive(Clone, Debug, PartialEq)]
pub enum CatalogWord {
    /// To the leader: a change is wanted. It comes again until the outcome is known.
    Wish(Box<Wish>),
    /// From the leader: a wish changed nothing. It rests on the catalog as it was at `at`.
    Answer {
        /// Which start of the addressee.
        incarnation: u64,
        /// Its wish.
        number: u64,
        /// The catalog's log is to be applied up to here before the answer counts.
        at: LogIndex,
        /// The answer.
        outcome: Outcome,
    },
    /// Asks for the leader, and how far the catalog is; a sign of life as well.
    Ask {
        /// Which start of the sender.
        incarnation: u64,
        /// Comes back with the answer; 0: nobody waits for it.
        call: u64,
    },
    /// The sender leads the catalog.
    Leads {
        /// Since when.
        reign: Reign,
        /// Which start of the addressee asked; 0: none did.
        incarnation: u64,
        /// Of the question.
        call: u64,
        /// All that was agreed on when it was answered is before this.
        at: LogIndex,
    },
    /// The leader knows a later start of the addressee, which cannot be: the number of it.
    Outdated {
        /// That start.
        incarnation: u64,
    },
    /// Every shard of the sender has applied the catalog's log up to there.
    Seen {
        /// The end of it.
        at: LogIndex,
    },
    /// To the leader: a message went through exchanges that remember.
    Remember {
        /// The exchanges.
        exchanges: Arc<[ExchangeId]>,
        /// The message, as a record for no queue.
        record: Arc<[u8]>,
    },
    /// Asks for [`CatalogWord::Seen`] of this, or behind it.
    HaveSeen {
        /// The index.
        at: LogIndex,
    },
}
