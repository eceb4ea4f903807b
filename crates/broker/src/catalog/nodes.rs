//! The nodes that agree on the catalog, as it knows them: the last start of each that it was told of, and the wishes of
//! that one which are done.
//!
//! A node resends a wish until it knows the outcome. What was done is in the log with its changes, so that whoever leads
//! next does not do it again. A node says with each wish below which number it knows all outcomes: those are forgotten.

use super::removal::Removal;
use super::{Catalog, Change};
use base::id::{NodeNo, QueueId};
use std::collections::BTreeMap;

/// A wish of a node for a change, as all nodes know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WishId {
    /// The node.
    pub node: NodeNo,
    /// Which of its starts: a later one has a higher number.
    pub incarnation: u64,
    /// Counts the wishes of that one, from 1.
    pub number: u64,
}

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
}

impl Catalog {
    /// Several nodes agree on it.
    pub fn is_shared(&self) -> bool {
        !self.nodes.known.is_empty()
    }

    /// The last start of a node that it was told of.
    pub fn incarnation_of(&self, node: NodeNo) -> Option<u64> {
        self.nodes.known.get(&node).map(|known| known.incarnation)
    }

    /// The changes by which a node is known to have started, and what connections of its earlier starts had for themselves goes.
    pub(crate) fn plan_node_up(&self, node: NodeNo, incarnation: u64) -> Vec<Change> {
        let mut changes = self.plan_node_down(node);
        changes.push(Change::NodeUp { node, incarnation });
        changes
    }

    /// The changes by which all goes that connections of a node had for themselves.
    pub(crate) fn plan_node_down(&self, node: NodeNo) -> Vec<Change> {
        let theirs = self.exclusive.iter().filter(|(port, _)| port.node == node);
        let mut queues: Vec<QueueId> = theirs.flat_map(|(_, queues)| queues.iter().copied()).collect();
        queues.sort_unstable();
        let mut removal = Removal::new(self, usize::MAX);
        removal.queues(queues.into_iter());
        removal.finish().changes
    }

    /// The wish is done, or so old that its node knows the outcome.
    pub(crate) fn has_outcome(&self, wish: WishId) -> bool {
        let of = self.nodes.known.get(&wish.node).filter(|of| of.incarnation == wish.incarnation);
        of.is_some_and(|of| wish.number < of.below || of.done.contains_key(&wish.number))
    }

    /// Queues with numbers below this were added, be they there or gone; others it has not heard of.
    pub(crate) fn queues_known_below(&self) -> QueueId {
        QueueId(self.added_below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeNo = NodeNo(2);

    fn catalog(changes: &[(u64, u64, u64)]) -> Catalog {
        let mut catalog = Catalog::default();
        for (incarnation, number, below) in changes {
            let wish = WishId { node: NODE, incarnation: *incarnation, number: *number };
            catalog.apply(&match number {
                0 => Change::NodeUp { node: NODE, incarnation: *incarnation },
                _ => Change::WishDone { wish, below: *below, queue: None },
            });
        }
        catalog
    }

    #[test]
    fn a_wish_is_known_until_its_node_knows_the_outcome_and_ever_after() {
        let check = |changes: &[(u64, u64, u64)], incarnation, expected: &str| {
            let catalog = catalog(changes);
            let known = (1..=4).map(|number| {
                if catalog.has_outcome(WishId { node: NODE, incarnation, number }) { 'd' } else { '-' }
            });
            assert_eq!(known.collect::<String>(), expected, "{changes:?}");
        };
        check(&[], 7, "----");
        check(&[(7, 2, 1)], 7, "----");
        check(&[(7, 0, 0)], 7, "----");
        check(&[(7, 0, 0), (7, 2, 1)], 7, "-d--");
        check(&[(7, 0, 0), (7, 2, 1), (7, 1, 1)], 7, "dd--");
        check(&[(7, 0, 0), (7, 2, 1), (7, 3, 3)], 7, "ddd-");
        // What came late and was below counts all the same.
        check(&[(7, 0, 0), (7, 4, 3), (7, 1, 1)], 7, "dd-d");
        // Another start begins anew, and an earlier one is over.
        check(&[(7, 0, 0), (7, 2, 1), (8, 0, 0)], 8, "----");
        check(&[(8, 0, 0), (8, 2, 1), (7, 0, 0)], 8, "-d--");
        check(&[(8, 0, 0), (7, 2, 1)], 7, "----");
    }

    #[test]
    fn a_snapshot_has_the_table() {
        for changes in [&[(7, 0, 0), (7, 2, 1), (7, 4, 3)][..], &[(7, 0, 0)], &[(7, 0, 0), (7, 2, 3)]] {
            let before = catalog(changes);
            let mut bytes = Vec::new();
            before.write_snapshot(&mut bytes);
            let read = Catalog::read_snapshot(&bytes).expect("it was written so");
            assert_eq!(read.nodes, before.nodes, "{changes:?}");
        }
    }
}
