//! Queues that clients declare, look for and delete at any of several nodes.
//!
//! A queue whose declaration was answered is there for everybody who asks afterwards, at whatever node; one whose deletion
//! was answered is there for nobody. Of one whose client was gone before the answer nobody knows until all nodes rest.

use super::{Check, Oracle, Stage};
use std::collections::BTreeSet;

impl Oracle {
    /// A queue is declared, for the first time or again.
    pub fn declaring(&mut self, client: u64, queue: usize) {
        self.pinned.push((client, queue));
    }

    /// A declaration is answered.
    pub fn declared(&mut self, client: u64, queue: usize) {
        if let Some(at) = self.pinned.iter().position(|pinned| *pinned == (client, queue)) {
            self.pinned.swap_remove(at);
        }
    }

    /// The queues that may be deleted.
    pub fn deletable(&self) -> Vec<usize> {
        let is_pinned = |queue: &usize| self.pinned.iter().any(|(_, pinned)| pinned == queue);
        self.queues_there().into_iter().filter(|queue| !is_pinned(queue)).collect()
    }

    /// The queues that were asked for, be they there or not.
    pub fn asked_for(&self) -> Vec<usize> {
        self.numbers_at(|stage| matches!(stage, Stage::Asked | Stage::There))
    }

    /// The queues that are gone for good.
    pub fn gone(&self) -> Vec<usize> {
        self.numbers_at(|stage| stage.is_over())
    }

    fn numbers_at(&self, is_at: impl Fn(Stage) -> bool) -> Vec<usize> {
        let queues = self.queues.iter().enumerate().filter(|(_, queue)| is_at(queue.stage));
        queues.map(|(number, _)| number).collect()
    }

    /// A connection hears that something is not there: no queue that is may be meant.
    pub fn is_missing(&self, why: &str) -> Check {
        let named = why.split('\'').nth(1).and_then(super::number_of);
        match named.and_then(|number| Some((number, self.queues.get(number)?.stage))) {
            Some((number, Stage::There)) => {
                Err(format!("queue {number} is there, and somebody hears: {why}"))
            }
            _ => Ok(()),
        }
    }

    /// The message just published went to a node that may not have heard of all that was bound before: it may miss some queues, or
    /// come back.
    pub fn may_miss(&mut self, id: u64) {
        for queue in self.messages[id as usize].queues.clone() {
            if let Some(copy) = self.queues[queue].copies.get_mut(&id) {
                copy.is_ended = true;
            }
        }
        self.stray.insert(id);
    }

    /// All nodes rest, and these queues are there: what was in doubt is so no longer.
    pub fn doubts_end(&mut self, there: &BTreeSet<usize>) -> Check {
        self.pinned.clear();
        for (number, queue) in self.queues.iter_mut().enumerate() {
            queue.stage = match (queue.stage, there.contains(&number)) {
                (Stage::There, false) => return Err(format!("queue {number} is lost from the catalog")),
                (Stage::Gone | Stage::Missing, true) => {
                    return Err(format!("queue {number} is back though it was deleted"));
                }
                (Stage::Asked | Stage::Leaving | Stage::There, true) => Stage::There,
                (Stage::Leaving, false) => Stage::Gone,
                (Stage::Asked, false) => Stage::Missing,
                (over, false) => over,
            };
        }
        Ok(())
    }
}
