//! Records that are written apart before they go into a log: those of messages with keys that nobody is to see (BCC), which
//! the message takes along for when it dies, and those that a queue is asked for first.

use crate::mail::{Mail, Waiter};
use crate::publisher::Addressed;
use crate::shard::Shard;
use base::{Buffer, Now};

impl Shard {
    /// Appends a message with its hidden keys, if any; queues that may refuse it are asked.
    #[cold]
    #[inline(never)]
    pub(crate) fn append_apart(&mut self, now: Now, addressed: &Addressed<'_>) {
        let Addressed { message, hidden, target, waiter, needs_flush } = *addressed;
        let (from, log) = (self.settings.id, target.log);
        let mut record = Buffer::default();
        match hidden {
            [] => message.write(&target.queues, &mut record),
            keys => message.write_hiding(keys, &target.queues, &mut record),
        }
        let waiter = waiter.map(Waiter::one);
        match target.slot {
            Some(_) if target.asks => return self.admit(now, log, record, waiter, needs_flush),
            Some(slot) => {
                let log = &mut self.logs[slot as usize];
                return log.commons.append_records(now, record.bytes(), waiter.as_slice(), needs_flush);
            }
            None => {}
        }
        self.under_way += record.len();
        let owner = self.settings.placement.owner(log);
        let mail = if target.asks {
            Mail::Ask { from, log, record, waiter, needs_flush }
        } else {
            Mail::Append { from, log, records: record, waiters: waiter.into_iter().collect(), needs_flush }
        };
        self.post.send(owner, mail);
    }
}
