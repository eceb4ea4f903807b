//! The leader's memory of wishes: those that came, and the answers that were given.
//!
//! It is as old as the lead and goes with it. A wish is for one time of one leader ([`Reign`]), so one that comes late cannot
//! be taken for a new one: within that time it is known here, and later nobody does it.

use super::word::{CatalogWord, Reign, Wish};
use crate::catalog::WishId;
use base::id::{LogId, LogIndex, NodeNo};
use std::collections::{BTreeMap, VecDeque};

/// A wish that is planned, and its node's word of which outcomes it knows.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) wish: WishId,
    pub(crate) below: u64,
    /// Somebody waits for the answer.
    pub(crate) is_asked: bool,
    /// Logs that are led where the connection is.
    pub(crate) led: Box<[LogId]>,
    /// Part of it was done in an earlier turn.
    pub(crate) has_begun: bool,
}

/// The wishes of a node.
#[derive(Debug, Default)]
struct Taken {
    incarnation: u64,
    /// It knows the outcomes of those below this.
    below: u64,
    /// The others, with the answers that were given; none: it is planned, or the log tells.
    came: BTreeMap<u64, Option<CatalogWord>>,
}

/// An answer that waits until what it rests on is agreed on.
#[derive(Debug)]
struct Held {
    at: LogIndex,
    wish: WishId,
    word: CatalogWord,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Lead {
    pub(crate) reign: Reign,
    taken: BTreeMap<NodeNo, Taken>,
    /// To be planned, in the order in which they came.
    waiting: VecDeque<(NodeNo, Box<Wish>)>,
    held: VecDeque<Held>,
}

impl Lead {
    pub(crate) fn new(reign: Reign) -> Lead {
        Lead { reign, taken: BTreeMap::new(), waiting: VecDeque::new(), held: VecDeque::new() }
    }

    /// A wish comes, of which `has_outcome` says whether the log has it already. Returned is the answer that was given before.
    pub(crate) fn take(
        &mut self,
        from: NodeNo,
        wish: Box<Wish>,
        has_outcome: bool,
        most: u64,
    ) -> Option<CatalogWord> {
        let taken = self.taken.entry(from).or_default();
        if taken.incarnation != wish.incarnation {
            *taken = Taken { incarnation: wish.incarnation, ..Taken::default() };
        }
        if wish.below > taken.below {
            taken.below = wish.below;
            taken.came = taken.came.split_off(&wish.below);
        }
        // One below is known there, and one so far above no node sends.
        if wish.number < taken.below || wish.number - taken.below >= most {
            return None;
        }
        if let Some(came) = taken.came.get(&wish.number) {
            return came.clone();
        }
        taken.came.insert(wish.number, None);
        if !has_outcome {
            self.waiting.push_back((from, wish));
        }
        None
    }

    /// The next wish to be planned.
    pub(crate) fn next(&mut self) -> Option<(NodeNo, Box<Wish>)> {
        self.waiting.pop_front()
    }

    /// Wishes wait to be planned.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// An answer to a wish is to be given once everything before `at` is agreed on.
    pub(crate) fn hold(&mut self, at: LogIndex, wish: WishId, word: CatalogWord) {
        self.held.push_back(Held { at, wish, word });
    }

    /// The next answer that may be given, now that everything before `agreed` is agreed on.
    pub(crate) fn release(&mut self, agreed: LogIndex) -> Option<(NodeNo, CatalogWord)> {
        let Held { wish, word, .. } = self.held.pop_front_if(|held| held.at <= agreed)?;
        let taken = self.taken.get_mut(&wish.node).filter(|taken| taken.incarnation == wish.incarnation);
        if let Some(came) = taken.and_then(|taken| taken.came.get_mut(&wish.number)) {
            *came = Some(word.clone());
        }
        Some((wish.node, word))
    }
}

#[cfg(test)]
mod tests {
    use super::super::word::Outcome;
    use super::*;
    use crate::catalog::{Actor, Op, VhostId};
    use base::id::PortId;

    const REIGN: Reign = Reign { incarnation: 1, tenure: 0 };
    const NODE: NodeNo = NodeNo(2);
    const MOST: u64 = 4;

    fn wish(incarnation: u64, number: u64, below: u64) -> Box<Wish> {
        let actor = Actor::internal(VhostId(0), PortId::default());
        let (op, led) = (Op::DeleteUser { name: "u".into() }, Box::default());
        Box::new(Wish { incarnation, number, below, reign: REIGN, actor, is_asked: true, led, op })
    }

    /// Wishes as incarnation, number, below; those that are planned.
    fn planned(came: &[(u64, u64, u64)]) -> Vec<(u64, u64)> {
        let mut lead = Lead::new(REIGN);
        for (incarnation, number, below) in came {
            let known = lead.take(NODE, wish(*incarnation, *number, *below), *number == 9, MOST);
            assert!(known.is_none());
        }
        std::iter::from_fn(|| lead.next()).map(|(_, wish)| (wish.incarnation, wish.number)).collect()
    }

    #[test]
    fn a_wish_is_planned_once() {
        let check = |came: &[(u64, u64, u64)], expected: &[(u64, u64)]| {
            assert_eq!(planned(came), expected, "{came:?}");
        };
        check(&[(7, 1, 1), (7, 1, 1), (7, 2, 1)], &[(7, 1), (7, 2)]);
        check(&[(7, 2, 1), (7, 1, 1)], &[(7, 2), (7, 1)]);
        // The node knows the outcome of what comes late.
        check(&[(7, 3, 3), (7, 2, 1), (7, 3, 3)], &[(7, 3)]);
        // No node has so many under way.
        check(&[(7, 5, 1), (7, 4, 1)], &[(7, 4)]);
        check(&[(7, 1, 1), (8, 1, 1)], &[(7, 1), (8, 1)]);
        // The log has it.
        check(&[(7, 9, 9), (7, 10, 9)], &[(7, 10)]);
    }

    #[test]
    fn an_answer_is_given_again() {
        let mut lead = Lead::new(REIGN);
        assert!(lead.take(NODE, wish(7, 1, 1), false, MOST).is_none());
        let word =
            CatalogWord::Answer { incarnation: 7, number: 1, at: LogIndex(16), outcome: Outcome::Unchanged };
        lead.hold(LogIndex(16), wish(7, 1, 1).id(NODE), word);
        assert!(lead.release(LogIndex(15)).is_none());
        assert!(lead.take(NODE, wish(7, 1, 1), false, MOST).is_none(), "it is not given so far");
        assert!(matches!(lead.release(LogIndex(16)), Some((NODE, CatalogWord::Answer { number: 1, .. }))));
        let again = lead.take(NODE, wish(7, 1, 1), false, MOST);
        assert!(matches!(again, Some(CatalogWord::Answer { number: 1, .. })));
        assert!(lead.take(NODE, wish(7, 1, 2), false, MOST).is_none(), "the node knows it");
    }
}
