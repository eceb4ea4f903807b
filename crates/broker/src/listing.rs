//! A shard as it is listed: its queues, and the memory they take.

use crate::catalog::QueueDefinition;
use crate::shard::Shard;
use std::sync::Arc;

/// A queue as it is listed.
#[derive(Clone, Debug)]
pub struct QueueRow {
    /// What it is.
    pub definition: Arc<QueueDefinition>,
    /// Messages that nobody holds.
    pub ready: u64,
    /// Messages that consumers hold.
    pub unsettled: u64,
    /// Consumers.
    pub consumers: u32,
    /// Bytes of memory it takes, messages apart.
    pub memory_bytes: usize,
}

impl Shard {
    /// The queues that live here.
    pub fn queue_rows(&self) -> impl Iterator<Item = QueueRow> + '_ {
        let queues = self.logs.iter().flat_map(|log| log.queues.iter());
        queues.map(|(_, queue)| QueueRow {
            definition: queue.definition.clone(),
            ready: queue.fifo.ready(),
            unsettled: queue.fifo.unsettled(),
            consumers: queue.fifo.consumers(),
            memory_bytes: queue.fifo.memory_bytes() + size_of_val(queue),
        })
    }
}
