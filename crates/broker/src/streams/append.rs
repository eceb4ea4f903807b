//! Messages of the stream protocol's publishers, on their way into a log.

use super::request::{Messages, NewMessages};
use crate::catalog::Refusal;
use crate::log::Brings;
use crate::mail::{Mail, Waiter, wait};
use crate::shard::Shard;
use base::Now;
use base::id::{LogId, PortId, QueueId};
use message::record::NewAppend;

impl Shard {
    /// Appends messages for one stream, which is placed on `log`; who published them hears of it in
    /// [`crate::Event::Confirmed`], counted in its own numbers, when they are on disk: duplicates too, and where the stream
    /// is gone by then. The caller has checked permissions and the bounds of messages and of sub-batches.
    ///
    /// # Errors
    /// The log is stopped.
    ///
    /// # Panics
    /// When the reference or a filter value is longer than 65,535 bytes.
    pub fn append<'a>(
        &mut self,
        now: Now,
        port: PortId,
        log: LogId,
        stream: QueueId,
        new: NewMessages<'a, impl Messages<'a>>,
    ) -> Result<(), Refusal> {
        if self.stopped.contains(&log) {
            return Err(Refusal::log_stopped(log));
        }
        let NewMessages { publisher, first, reference, has_filters, messages } = new;
        let record = NewAppend { stream, at_ms: now.wall_ms, reference, has_filters };
        let waiter = |count: u32| Waiter { port, publisher, first, last: first + u64::from(count) - 1 };
        if let Some(slot) = self.log_slots.get(&log) {
            let log = &mut self.logs[*slot as usize];
            let count = log.commons.append(now, 0, Brings::STREAM, |records| record.write(messages, records));
            if count > 0 {
                log.commons.pipeline.wait(waiter(count));
            }
            return Ok(());
        }
        let owner = self.settings.placement.owner(log);
        if !matches!(self.post.last_for(owner), Some(Mail::Append { log: last, .. }) if *last == log) {
            let (records, waiters) = (self.parcels.take(), Vec::new());
            let from = self.settings.id;
            self.post.send(owner, Mail::Append { from, log, records, waiters, needs_flush: true });
        }
        if let Some(Mail::Append { records, waiters, needs_flush, .. }) = self.post.last_for(owner) {
            let before = records.len();
            let count = record.write(messages, records);
            self.under_way += records.len() - before;
            *needs_flush = true;
            if count > 0 {
                wait(waiters, waiter(count));
            }
        }
        Ok(())
    }
}
