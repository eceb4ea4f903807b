//! Where a message goes: each destination once, however many bindings match.
//!
//! A message that goes from exchange to exchange is the caller's loop. Because a destination is in the list once, a
//! circle of exchanges ends by itself:
//!
//! ```text
//! start(); exchange.route(.., out);
//! for at in 0.. while let Some(destination) = out.get(at) { if it is an exchange: that.route(.., out) }
//! ```

use base::id::QueueId;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

/// An exchange of this node; given out by the catalog, never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExchangeId(pub u64);

/// The target of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Destination {
    /// A queue.
    Queue(#[serde(with = "queue_id")] QueueId),
    /// Another exchange.
    Exchange(ExchangeId),
}

/// A queue's number as it is stored.
mod queue_id {
    use base::id::QueueId;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(id: &QueueId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(id.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<QueueId, D::Error> {
        u64::deserialize(deserializer).map(QueueId)
    }
}

/// Up to so many destinations are compared one by one; more go through a hash set.
const COMPARED_MAX: usize = 24;

/// The destinations of one message, in the order they were found, and the memory to find them with.
#[derive(Debug, Default)]
pub struct Matches {
    list: Vec<Destination>,
    /// The first `seen_len` of `list`; filled only where there are many.
    seen: FxHashSet<Destination>,
    seen_len: usize,
    held: Vec<ExchangeId>,
    pub(crate) walk: crate::topic::Walk,
}

impl Matches {
    /// Forgets the message before.
    #[inline]
    pub fn start(&mut self) {
        self.list.clear();
        self.held.clear();
        if self.seen_len > 0 {
            self.seen.clear();
            self.seen_len = 0;
        }
    }

    /// Where the message goes.
    #[inline]
    pub fn destinations(&self) -> &[Destination] {
        &self.list
    }

    /// The queues it goes to.
    #[inline]
    pub fn queues(&self) -> impl Iterator<Item = QueueId> + '_ {
        self.list.iter().filter_map(|destination| match destination {
            Destination::Queue(queue) => Some(*queue),
            Destination::Exchange(_) => None,
        })
    }

    /// The destination found as number `at`.
    #[inline]
    pub fn get(&self, at: usize) -> Option<Destination> {
        self.list.get(at).copied()
    }

    /// No destination was found.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// An exchange keeps the message for later: the targets of its bindings are not among the destinations.
    pub fn hold(&mut self, exchange: ExchangeId) {
        if !self.held.contains(&exchange) {
            self.held.push(exchange);
        }
    }

    /// The exchanges that keep the message for later.
    pub fn held(&self) -> &[ExchangeId] {
        &self.held
    }

    /// Adds a destination unless it is there.
    #[inline]
    pub fn push(&mut self, destination: Destination) {
        if self.list.len() <= COMPARED_MAX {
            if !self.list.contains(&destination) {
                self.list.push(destination);
            }
        } else {
            self.push_to_many(destination);
        }
    }

    /// Adds a destination, if there is one, unless it is there.
    #[inline]
    pub(crate) fn extend(&mut self, destination: Option<Destination>) {
        if let Some(destination) = destination {
            self.push(destination);
        }
    }

    fn push_to_many(&mut self, destination: Destination) {
        self.seen.extend(&self.list[self.seen_len..]);
        if self.seen.insert(destination) {
            self.list.push(destination);
        }
        self.seen_len = self.list.len();
    }

    /// Adds destinations that differ from each other.
    #[inline]
    pub(crate) fn extend_distinct(&mut self, destinations: impl ExactSizeIterator<Item = Destination>) {
        if self.list.is_empty() {
            self.list.extend(destinations);
        } else {
            destinations.for_each(|destination| self.push(destination));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_destination_once_few_or_many() {
        let mut matches = Matches::default();
        for round in 0..3u32 {
            matches.start();
            assert!(matches.is_empty());
            matches.extend_distinct((0..round * 40).map(|id| Destination::Queue(QueueId(u64::from(id)))));
            for id in (0..100).chain(0..100).chain(50..120) {
                matches.push(Destination::Queue(QueueId(id)));
                matches.push(Destination::Exchange(ExchangeId(id / 2)));
            }
            let mut found = matches.destinations().to_vec();
            assert_eq!(found.len(), 120 + 60);
            found.sort();
            found.dedup();
            assert_eq!(found.len(), 120 + 60);
        }
    }
}
