//! The terms a shard is made on.

use crate::access::AccessRules;
use crate::ledger::Ledger;
use crate::limits::Limits;
use crate::request::Placement;
use base::id::ShardId;
use std::sync::Arc;

/// The shard that plans changes of the catalog: it has the catalog's log, which stays where it is.
pub(crate) const PLANNER: ShardId = ShardId(0);

/// Terms that a shard is made on.
#[derive(Clone, Debug)]
pub struct ShardSettings {
    /// The shard's number.
    pub id: ShardId,
    /// How logs are spread at first.
    pub placement: Placement,
    /// Its bounds.
    pub limits: Limits,
    /// The users that may log in, and from where.
    pub rules: Arc<AccessRules>,
    /// The node's name, as refusals have it (`rabbit@HOST`).
    pub node: Arc<str>,
    /// A quorum queue may be declared again as a classic one, and stays what it is.
    pub relaxes_types: bool,
    /// The ledger of memory, one for the whole node.
    pub ledger: Arc<Ledger>,
    /// Where the dice begin that exchanges draw lots with; another one at each start tells the connections of before from those that
    /// come.
    pub seed: u64,
}

impl ShardSettings {
    /// This is the shard that plans changes of the catalog.
    pub(crate) fn plans(&self) -> bool {
        self.id == PLANNER
    }
}
