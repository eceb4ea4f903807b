//! The rule of consumers that choose: each is given only what it asked for. That the rest stays is checked where a run ends.

use super::Oracle;
use crate::client::{Delivery, Wants};

impl Oracle {
    /// Consumers of this queue may choose.
    pub fn may_choose(&self, queue: usize) -> bool {
        !self.queues[queue].rules.is_grouped
    }

    /// A consumer of a connection that is about to be opened chooses. Others may be in front of what comes back.
    pub fn choosing(&mut self, consumer: (u64, u32), queue: usize, wants: Wants) {
        self.queues[queue].is_picked = true;
        self.choices.insert(consumer, wants);
    }

    /// A message with a body of so many bytes came to a consumer, which may have chosen others.
    pub(super) fn is_wanted(&mut self, client: u64, delivery: &Delivery, len: usize) -> Result<(), String> {
        let consumer = delivery.consumer.map(|handle| (client, handle));
        let Some(wants) = consumer.and_then(|consumer| self.choices.get(&consumer)) else { return Ok(()) };
        self.chosen += 1;
        match wants.holds(len) {
            true => Ok(()),
            false => {
                Err(format!("a consumer of queue {} wants {wants:?} and got {len} bytes", delivery.queue))
            }
        }
    }
}
