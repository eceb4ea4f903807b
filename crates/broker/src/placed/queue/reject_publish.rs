//! Queues that refuse messages when they are full are asked before a message is in their log.

use crate::placed::Machines;
use crate::placed::queue::owned::OwnedQueue;
use base::id::QueueId;
use message::record::{self, Enqueue, Kind, Refer};

impl Machines {
    /// The queues of an enqueue record that are too full for it. Those that are not count it as arriving.
    pub(crate) fn ask(&mut self, message: &Enqueue<'_>) -> Vec<QueueId> {
        let mut full = Vec::new();
        for id in message.queues() {
            let Some((_, queue)) = self.find_queue(id) else { continue };
            let bytes = queue.size_of(message);
            let (coming, coming_bytes) = queue.arriving();
            let Some(features) = queue.features.as_mut().filter(|features| features.rules.refuses()) else {
                continue;
            };
            if queue.fifo.is_full(coming, (coming_bytes + bytes).saturating_sub(1)) {
                full.push(id);
            } else {
                features.arriving += 1;
                features.arriving_bytes += bytes;
            }
        }
        full
    }
}

impl OwnedQueue {
    /// Messages and bytes that are under way and fill a queue which refuses what is too much. While somebody takes them as
    /// they come, they fill nothing.
    fn arriving(&self) -> (u64, u64) {
        match &self.features {
            Some(features) if !self.fifo.has_taker() => (features.arriving, features.arriving_bytes),
            _ => (0, 0),
        }
    }

    /// Messages that a queue which refuses them has room for beside those under way; of one that does not, any.
    pub(crate) fn room_beside_arriving(&self) -> u64 {
        let (coming, coming_bytes) = self.arriving();
        self.fifo.vacancy(coming, coming_bytes)
    }

    /// Messages of these records are under way to it, and are not refused: they count as arriving where others might be.
    pub(crate) fn count_arriving(&mut self, mut records: &[u8]) {
        if !self.features.as_ref().is_some_and(|features| features.rules.refuses()) {
            return;
        }
        while let Some((kind, record, rest)) = record::split(records) {
            let bytes = match kind {
                Kind::Enqueue => Enqueue::read(record).map(|message| self.size_of(&message)),
                Kind::Refer => Refer::read(record).map(|refer| self.size_of_referred(&refer)),
                _ => None,
            };
            if let (Some(bytes), Some(features)) = (bytes, &mut self.features) {
                features.arriving += 1;
                features.arriving_bytes += bytes;
            }
            records = rest;
        }
    }
}
