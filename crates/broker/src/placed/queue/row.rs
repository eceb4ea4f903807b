//! A queue as it is listed.

use super::owned::OwnedQueue;
use super::sizing::Sample;
use crate::placed::queue::owned::Member;
use crate::rows::queues::{HeldRow, QueueRow, QuorumRow};
use base::id::QueueSeq;
use base::time::NS_PER_MS;

impl OwnedQueue {
    pub(crate) fn row(&self) -> QueueRow {
        QueueRow {
            definition: self.definition().clone(),
            ready: self.fifo.ready(),
            ready_bytes: self.fifo.knows_sizes().then(|| self.fifo.ready_bytes()),
            sample: Sample::default(),
            unsettled: self.fifo.unsettled(),
            delayed: self.fifo.delayed(),
            selectors: self.selectors(),
            unmatched: self.fifo.unmatched(),
            transient: self.fifo.transient(),
            leases_over: self.leases_over(),
            barriers: self.barriers(),
            returned: self.fifo.ready_returned(),
            dying: self.fifo.dying(),
            quorum: self.is_quorum().then(|| self.quorum_row()),
            consumers: self.fifo.consumers(),
            memory_bytes: self.bytes(),
            tally: self.tally(),
            head: self.fifo.head().0,
            end: self.fifo.next_seq().0,
            stream: None,
            active: self.active().map(|member| (member.port, member.handle)),
        }
    }

    fn quorum_row(&self) -> QuorumRow {
        let rules = self.fifo.rules();
        let priorities = if self.fifo.ready() > 0 { self.fifo.ready_by_priority() } else { Vec::new() };
        QuorumRow { priorities, delivery_limit: rules.delivery_limit, retry: rules.retry }
    }

    /// How many of its messages are ready, how many are held, and its consumers.
    pub(crate) fn lengths(&self) -> ([u64; 2], u32) {
        ([self.fifo.ready(), self.fifo.unsettled()], self.fifo.consumers())
    }

    /// Messages that consumers hold.
    pub(crate) fn held(&self, from: QueueSeq, count_max: usize) -> Vec<HeldRow> {
        let held = self.fifo.held_list(from, count_max);
        let rows = held.into_iter().filter_map(|held| {
            let Member { port, handle } = self.member(held.consumer)?;
            let seen_ns = held.since_ms.map(|ms| ms * NS_PER_MS);
            let redelivered = self.fifo.past(held.seq).0 || self.fifo.failed(held.seq) > 0;
            let since_ns = self.watched_since(held.seq).or(seen_ns);
            Some(HeldRow { position: held.seq.0, port, handle, since_ns, redelivered })
        });
        rows.collect()
    }

    /// Bytes of memory it takes, messages apart.
    pub(crate) fn bytes(&self) -> usize {
        let selectors = self.features.as_ref().and_then(|features| features.selectors.as_ref());
        self.fifo.memory_bytes() + size_of_val(self) + selectors.map_or(0, |selectors| selectors.bytes())
    }
}
