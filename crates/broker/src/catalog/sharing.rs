//! A catalog that several nodes agree on: which starts of theirs and which of their wishes it knows.

use super::removal::Removal;
use super::wish_id::WishId;
use super::{Catalog, Change};
use base::id::{NodeNo, QueueId};

impl Catalog {
    /// Several nodes agree on it.
    pub fn is_shared(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// The last start of a node that it was told of.
    pub fn incarnation_of(&self, node: NodeNo) -> Option<u64> {
        self.nodes.incarnation_of(node)
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
        base::brief::sort(&mut queues);
        let mut removal = Removal::new(self, usize::MAX);
        removal.queues(queues.into_iter());
        removal.finish().changes
    }

    /// The wish is done, or so old that its node knows the outcome.
    pub(crate) fn has_outcome(&self, wish: WishId) -> bool {
        self.nodes.has_outcome(wish)
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
        // A wish that came late and was below counts all the same.
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
