//! The queues placed on a log, by their slots and by their ids.

use crate::placed::queue::owned::OwnedQueue;
use base::id::QueueId;
use rustc_hash::FxHashMap;
use slab::Slab;

/// An id that is never given out; marks the look-up cache as empty.
pub(crate) const NO_QUEUE: QueueId = QueueId(u64::MAX);

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Queues {
    pub(crate) slab: Slab<OwnedQueue>,
    by_id: FxHashMap<QueueId, u32>,
    last_lookup: (QueueId, u32),
}

impl Default for Queues {
    fn default() -> Queues {
        Queues { slab: Slab::new(), by_id: FxHashMap::default(), last_lookup: (NO_QUEUE, 0) }
    }
}

impl Queues {
    pub(crate) fn insert(&mut self, queue: OwnedQueue) -> u32 {
        let id = queue.definition.id;
        let slot = self.slab.insert(queue) as u32;
        self.by_id.insert(id, slot);
        slot
    }

    pub(crate) fn remove(&mut self, id: QueueId) -> Option<(u32, OwnedQueue)> {
        let slot = self.by_id.remove(&id)?;
        self.last_lookup = (NO_QUEUE, 0);
        Some((slot, self.slab.remove(slot as usize)))
    }

    #[inline]
    pub(crate) fn slot(&mut self, id: QueueId) -> Option<u32> {
        if self.last_lookup.0 == id {
            return Some(self.last_lookup.1);
        }
        let slot = *self.by_id.get(&id)?;
        self.last_lookup = (id, slot);
        Some(slot)
    }

    /// As [`Queues::slot`], remembering nothing.
    pub(crate) fn slot_of(&self, id: QueueId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// A queue, to look at.
    pub(crate) fn get(&self, id: QueueId) -> Option<&OwnedQueue> {
        self.slab.get(self.slot_of(id)? as usize)
    }

    pub(crate) fn get_mut(&mut self, id: QueueId) -> Option<(u32, &mut OwnedQueue)> {
        let slot = self.slot(id)?;
        Some((slot, &mut self.slab[slot as usize]))
    }
}
