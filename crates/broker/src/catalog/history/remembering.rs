//! The catalog has exchanges remember messages, and says what they remember.

use super::{History, Remembered};
use crate::catalog::{Catalog, Change, ExchangeEntry, VhostId};
use routing::{Destination, ExchangeId, Matches};
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
