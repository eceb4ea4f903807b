//! Where a message goes: each destination once, however many bindings match.
//!
//! A message that goes from exchange to exchange is the caller's loop. Because a destination is in the list once, a
//! circle of exchanges ends by itself:
//!
//! ```text
//! start(); exchange.route(.., out);
//! for at in 0.. while let Some(destination) = out.get(at) { if it is an exchange: that.route(.., out) }
//! ```

use base::hash::SetById;
use base::id::QueueId;
use filter::Counts;
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

/// Units of work that routing one message may take unless the caller says otherwise, through all exchanges and by all its
/// keys: nodes of tries looked at, arguments compared, destinations found. They take 5 to 15 ms (docs/performance).
pub const STEPS_MAX: u32 = 1 << 20;

/// Bytes that are hashed or compared for one step.
pub(crate) const STEP_BYTES: usize = 64;

/// Up to so many destinations are compared one by one; more go through a hash set.
const COMPARED_MAX: usize = 24;

/// The destinations of one message, in the order they were found, and the memory to find them with.
#[derive(Debug)]
pub struct Matches {
    list: Vec<Destination>,
    /// The first `seen_len` of `list`; filled only where there are many.
    seen: SetById<Destination>,
    seen_len: usize,
    held: Vec<ExchangeId>,
    /// Units of work that the message has taken so far.
    steps: u32,
    steps_max: u32,
    /// Counts of the filters of bindings for the message so far.
    filtered: Counts,
    pub(crate) walk: crate::walk::Walk,
}

impl Default for Matches {
    fn default() -> Matches {
        Matches::within(STEPS_MAX)
    }
}

impl Matches {
    /// The destinations of messages that may take so many steps each.
    pub fn within(steps_max: u32) -> Matches {
        let (list, held, filtered, walk) = Default::default();
        Matches { list, seen: SetById::default(), seen_len: 0, held, steps: 0, steps_max, filtered, walk }
    }

    /// Forgets the message before.
    #[inline]
    pub fn start(&mut self) {
        self.list.clear();
        self.held.clear();
        self.steps = 0;
        self.filtered = Counts::default();
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

    /// Units of work that the message has taken so far: a plain number, whatever the exchange.
    #[inline]
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Units of work that a message may take.
    pub fn steps_max(&self) -> u32 {
        self.steps_max
    }

    /// Units of work that the message may still take.
    pub(crate) fn steps_left(&self) -> usize {
        self.steps_max.saturating_sub(self.steps) as usize
    }

    /// Routing the message takes more steps than it may: destinations may be missing, so it is to be refused.
    #[inline]
    pub fn is_too_dear(&self) -> bool {
        self.steps > self.steps_max
    }

    /// Counts work before it is done; whether it may be done.
    #[inline]
    pub fn take(&mut self, steps: usize) -> bool {
        self.steps = self.steps.saturating_add(u32::try_from(steps).unwrap_or(u32::MAX));
        !self.is_too_dear()
    }

    /// Counts of the filters of bindings for the message so far, of all exchanges together.
    #[inline]
    pub fn filtered(&self) -> Counts {
        self.filtered
    }

    /// Filters were asked.
    pub(crate) fn note_filtered(&mut self, evaluations: usize, is_unreadable: bool) {
        self.filtered.messages = 1;
        self.filtered.evaluations += evaluations as u64;
        self.filtered.unreadable |= u64::from(is_unreadable);
    }

    /// Counts a look-up of bytes; whether it may be made.
    #[inline]
    pub fn take_bytes(&mut self, bytes: &[u8]) -> bool {
        self.take(1 + bytes.len() / STEP_BYTES)
    }

    /// No destinations, of the same message: what it takes counts together once [`Matches::join`] has them.
    pub fn beside(&self) -> Matches {
        Matches { steps: self.steps, filtered: self.filtered, ..Matches::within(self.steps_max) }
    }

    /// Counts the work that was done [beside](Matches::beside).
    pub fn count(&mut self, other: &Matches) {
        self.steps = self.steps.max(other.steps);
        if other.filtered.evaluations > self.filtered.evaluations {
            self.filtered = other.filtered;
        }
    }

    /// Adds what was found [beside](Matches::beside), and the work for it.
    pub fn join(&mut self, other: &Matches) {
        self.count(other);
        other.list.iter().for_each(|destination| self.push(*destination));
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
