//! A shard as it is listed: its queues, and the memory they take.

use crate::catalog::QueueDefinition;
use crate::log::Log;
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

    /// Bytes of memory by what they are for, in the words of RabbitMQ's memory breakdown.
    pub fn memory_pools(&self) -> [(&'static str, u64); 3] {
        let sum = |bytes: &dyn Fn(&Log) -> usize| self.logs.iter().map(bytes).sum::<usize>() as u64;
        let queues: usize = self.queue_rows().map(|row| row.memory_bytes).sum();
        [
            ("queue_procs", queues as u64),
            ("binary", sum(&|log| log.batches.resident_bytes() + log.loaded.block_bytes())),
            ("msg_index", sum(&|log| log.batches.overhead_bytes())),
        ]
    }

    /// The segments that messages of queues here are in.
    pub fn segments_in_use(&self) -> impl Iterator<Item = u64> + '_ {
        self.logs.iter().flat_map(|log| log.segments.keys().copied())
    }
}
