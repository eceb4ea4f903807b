//! The memory of exchanges of the type `x-recent-history`: the last messages that went through them.
//!
//! Whole messages as records for no queue, in memory, and with a durable exchange in the catalog's log and snapshot. Only
//! the catalog of the shard that plans has them: that shard binds, and a new destination gets them.
//!
//! Invariant: never more messages than the exchange was declared to remember, nor more bytes than
//! [`super::Limits::history_bytes_max`] unless it is one message.

mod remembering;

use super::ExchangeDefinition;
use super::numbers::integer;
use super::wire::LIMITS;
use routing::{HISTORY_LENGTH, Kind};
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
