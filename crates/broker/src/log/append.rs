//! Messages go into a log: into the open batch of its pipeline, which is closed when it is full.

use super::{Brings, Log};
use crate::mail::Waiter;
use base::id::{PortId, QueueId};
use base::{Buffer, Now};
use message::record::{NewEnqueue, Sizes};

impl Log {
    /// Appends the records with messages that `write` writes, of which `bytes` are known to come. What is no message goes into the
    /// pipeline itself, and never has its batch closed.
    #[inline]
    pub(crate) fn append<R>(
        &mut self,
        now: Now,
        bytes: usize,
        brings: Brings,
        write: impl FnOnce(&mut Buffer) -> R,
    ) -> R {
        if self.pipeline.is_full(bytes) {
            self.pipeline.close_full(now, &mut self.batches.spare);
        }
        self.pipeline.append(now, brings, write)
    }

    /// Appends a message for `queues` of this log. `waiter`: who waits for it to be committed.
    #[inline]
    pub(crate) fn append_message(
        &mut self,
        now: Now,
        (message, sizes): (&NewEnqueue<'_>, Sizes),
        queues: &[QueueId],
        waiter: Option<(PortId, u32, u64)>,
        needs_flush: bool,
    ) {
        self.append(now, 0, Brings::messages(needs_flush), |records| {
            message.write_of(sizes, queues, records)
        });
        if let Some(waiter) = waiter {
            self.pipeline.wait(Waiter::one(waiter));
        }
    }

    /// Appends whole records that another shard made.
    pub(crate) fn append_records(&mut self, now: Now, records: &[u8], waiters: &[Waiter], needs_flush: bool) {
        let brings = Brings::messages(needs_flush);
        self.append(now, records.len(), brings, |into| into.extend(records));
        waiters.iter().for_each(|waiter| self.pipeline.wait(*waiter));
    }
}
