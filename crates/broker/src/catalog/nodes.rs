//! The nodes that agree on the catalog, as it knows them: the last start of each that it was told of, and the wishes of
//! that one which are done.
//!
//! A node resends a wish until it knows the outcome. What was done is in the log with its changes, so that whoever leads
//! next does not do it again. A node says with each wish below which number it knows all outcomes: those are forgotten.

use super::change::Change;
use super::wish_id::WishId;
use base::id::{NodeNo, QueueId};
use std::collections::BTreeMap;

/// A node, and what is done of the wishes of its last start.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    incarnation: u64,
    /// It knows the outcomes of all wishes below this.
    below: u64,
    /// The others that are done, and the queue that each was about, if any.
    done: BTreeMap<u64, Option<QueueId>>,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Nodes {
    known: BTreeMap<NodeNo, Known>,
}

impl Nodes {
    /// A node has started.
    pub(super) fn up(&mut self, node: NodeNo, incarnation: u64) {
        let known = self.known.entry(node).or_default();
        if incarnation > known.incarnation {
            *known = Known { incarnation, ..Known::default() };
        }
    }

    /// A wish is done; its node knows the outcomes of those below `below`.
    pub(super) fn done(&mut self, wish: WishId, below: u64, queue: Option<QueueId>) {
        let Some(known) = self.known.get_mut(&wish.node) else { return };
        if known.incarnation != wish.incarnation {
            return;
        }
        if below > known.below {
            known.done = known.done.split_off(&below);
            known.below = below;
        }
        if wish.number >= known.below {
            known.done.insert(wish.number, queue);
        }
    }

    /// The changes that make this table from an empty one.
    pub(super) fn each(&self, each: &mut impl FnMut(&Change)) {
        for (node, Known { incarnation, below, done }) in &self.known {
            let (node, incarnation, below) = (*node, *incarnation, *below);
            each(&Change::NodeUp { node, incarnation });
            if done.is_empty() && below > 0 {
                let wish = WishId { node, incarnation, number: 0 };
                each(&Change::WishDone { wish, below, queue: None });
            }
            for (number, queue) in done {
                let wish = WishId { node, incarnation, number: *number };
                each(&Change::WishDone { wish, below, queue: *queue });
            }
        }
    }

    /// No node was told of.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The last start of a node that was told of.
    pub(super) fn incarnation_of(&self, node: NodeNo) -> Option<u64> {
        self.known.get(&node).map(|known| known.incarnation)
    }

    /// The wish is done, or so old that its node knows the outcome.
    pub(super) fn has_outcome(&self, wish: WishId) -> bool {
        let of = self.known.get(&wish.node).filter(|of| of.incarnation == wish.incarnation);
        of.is_some_and(|of| wish.number < of.below || of.done.contains_key(&wish.number))
    }
}
