//! The memory of exchanges of the type `x-recent-history`: the last messages that went through them.
//!
//! Whole messages as records for no queue, in memory, and with a durable exchange in the catalog's log and snapshot. Only
//! the catalog of the shard that plans has them: that shard binds, and who is bound gets them.
//!
//! Invariant: never more messages than the exchange was declared to remember, nor more bytes than
//! [`super::Limits::history_bytes_max`] unless it is one message.

use super::arguments::integer;
use super::wire::LIMITS;
use super::{Catalog, Change, ExchangeDefinition, ExchangeEntry, VhostId};
use routing::{Destination, ExchangeId, HISTORY_LENGTH, Kind, Matches};
use std::collections::VecDeque;
use std::sync::Arc;

/// Messages remembered where nobody said how many.
const LENGTH: usize = 20;

/// The cost of a message beside its bytes, roughly.
const COST: usize = 64;

#[derive(Clone, Debug)]
struct Remembered {
    number: u64,
    message: Arc<[u8]>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct History {
    length_max: usize,
    messages: VecDeque<Remembered>,
    /// Of `messages`, with what each costs.
    bytes: usize,
    /// Of the last message, forgotten or not; 0 before the first.
    number: u64,
}

impl History {
    /// An empty one, if an exchange like this remembers.
    pub(super) fn of(definition: &ExchangeDefinition) -> Option<Box<History>> {
        if definition.kind != Kind::RecentHistory {
            return None;
        }
        let length = definition.arguments.get(HISTORY_LENGTH).and_then(integer);
        let length_max = length.map_or(LENGTH, |length| usize::try_from(length).unwrap_or(usize::MAX));
        Some(Box::new(History { length_max, messages: VecDeque::new(), bytes: 0, number: 0 }))
    }

    /// Remembers a message, unless it is one it remembered before.
    fn push(&mut self, number: u64, message: &Arc<[u8]>) {
        if number <= self.number {
            return;
        }
        self.number = number;
        self.bytes += message.len() + COST;
        self.messages.push_back(Remembered { number, message: message.clone() });
        while self.messages.len() > self.length_max
            || (self.bytes > LIMITS.history_bytes_max && self.messages.len() > 1)
        {
            let Some(oldest) = self.messages.pop_front() else { break };
            self.bytes -= oldest.message.len() + COST;
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<History>() + self.bytes
    }
}

impl ExchangeEntry {
    /// The changes that make what it remembers.
    pub(super) fn each_remembered(&self, each: &mut impl FnMut(&Change)) {
        let (exchange, durable) = (self.definition.id, self.definition.durable);
        for Remembered { number, message } in self.history.iter().flat_map(|history| &history.messages) {
            each(&Change::Remember { exchange, durable, number: *number, message: message.clone() });
        }
    }
}

impl Catalog {
    /// The change that has an exchange remember a message; none if the exchange is gone.
    pub(crate) fn remembering(&self, exchange: ExchangeId, message: &Arc<[u8]>) -> Option<Change> {
        let entry = self.exchanges.get(&exchange)?;
        let number = entry.history.as_ref()?.number + 1;
        let durable = entry.definition.durable;
        Some(Change::Remember { exchange, durable, number, message: message.clone() })
    }

    pub(super) fn remember(&mut self, exchange: ExchangeId, number: u64, message: &Arc<[u8]>) {
        if let Some(entry) = self.exchanges.get_mut(&exchange)
            && let Some(history) = &mut entry.history
        {
            history.push(number, message);
        }
    }

    /// The messages that an exchange remembers, the oldest first.
    pub(crate) fn remembered(&self, exchange: ExchangeId) -> Vec<Arc<[u8]>> {
        let history = self.exchanges.get(&exchange).and_then(|entry| entry.history.as_ref());
        history.into_iter().flat_map(|history| &history.messages).map(|one| one.message.clone()).collect()
    }

    /// The exchanges that are to remember a message which came to `exchange` and from there to `matches`.
    pub(crate) fn remembering_exchanges(
        &self,
        vhost: VhostId,
        exchange: &[u8],
        matches: &Matches,
    ) -> Vec<ExchangeId> {
        let first = self.exchange(vhost, exchange).map(|entry| entry.definition.id);
        let further = matches.destinations().iter().filter_map(|destination| match destination {
            Destination::Exchange(id) => Some(*id),
            Destination::Queue(_) => None,
        });
        let mut all: Vec<_> = first.into_iter().chain(further.filter(|id| Some(*id) != first)).collect();
        all.retain(|id| self.exchanges.get(id).is_some_and(|entry| entry.history.is_some()));
        all
    }

    /// Forgets all messages: a shard that does not plan has no use for them.
    pub(crate) fn forget_messages(&mut self) {
        for entry in self.exchanges.values_mut() {
            entry.history = History::of(&entry.definition);
        }
    }
}
