//! The catalog has exchanges remember messages, and says what they remember.

use super::{History, Remembered};
use crate::catalog::{Catalog, Change, ExchangeEntry, VhostId};
use routing::{Destination, ExchangeId, Matches};
use std::ops::RangeInclusive;
use std::sync::Arc;

impl ExchangeEntry {
    /// The changes that make what it remembers.
    pub(in crate::catalog) fn each_remembered(&self, each: &mut impl FnMut(&Change)) {
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

    pub(in crate::catalog) fn remember(&mut self, exchange: ExchangeId, number: u64, message: &Arc<[u8]>) {
        if let Some(entry) = self.exchanges.get_mut(&exchange)
            && let Some(history) = &mut entry.history
        {
            history.push(number, message);
        }
    }

    /// The numbers of the messages that an exchange remembers; none: it remembers none.
    pub(crate) fn remembered_numbers(&self, exchange: ExchangeId) -> Option<RangeInclusive<u64>> {
        let messages = &self.exchanges.get(&exchange)?.history.as_ref()?.messages;
        Some(messages.front()?.number..=messages.back()?.number)
    }

    /// Of the messages with these numbers those that an exchange remembers still, with their numbers: the oldest first,
    /// `most` of them.
    pub(crate) fn remembered(
        &self,
        exchange: ExchangeId,
        numbers: RangeInclusive<u64>,
        most: usize,
    ) -> Vec<(u64, Arc<[u8]>)> {
        let Some(history) = self.exchanges.get(&exchange).and_then(|entry| entry.history.as_ref()) else {
            return Vec::new();
        };
        let first = history.messages.partition_point(|one| one.number < *numbers.start());
        let found = history.messages.range(first..).take_while(|one| one.number <= *numbers.end());
        found.take(most).map(|one| (one.number, one.message.clone())).collect()
    }

    /// Whether a queue or an exchange is there.
    pub(crate) fn has_destination(&self, destination: Destination) -> bool {
        match destination {
            Destination::Queue(id) => self.queue(id).is_some(),
            Destination::Exchange(id) => self.exchange_by_id(id).is_some(),
        }
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
