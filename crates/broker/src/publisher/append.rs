//! A message goes into a log: into the shard's own at once, into another shard's by mail.
//!
//! Most messages go the short way, see [`Shard::publish`]: a log of the shard's own takes them as they are. The long way is for those
//! that are delayed, that have keys nobody is to see, or that a queue may refuse.

use super::route::{Due, Target};
use crate::mail::{Mail, Waiter, wait};
use crate::shard::Shard;
use base::Now;
use base::id::PortId;
use message::record::{NewEnqueue, flag};
use routing::Matches;

/// A message and the queues of one log that it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addressed<'a> {
    pub(crate) message: &'a NewEnqueue<'a>,
    /// Keys that nobody is to see.
    pub(crate) hidden: &'a [&'a [u8]],
    pub(crate) target: &'a Target,
    /// The publisher that is told when it is committed, or is refused.
    pub(crate) waiter: Option<(PortId, u32, u64)>,
    /// The publisher, or the kind of queue, waits for the disk.
    pub(crate) needs_flush: bool,
}

impl<'a> Addressed<'a> {
    /// `waiter` is told only where there is something to wait for.
    pub(crate) fn new(
        message: &'a NewEnqueue<'a>,
        hidden: &'a [&'a [u8]],
        target: &'a Target,
        waiter: Option<(PortId, u32, u64)>,
    ) -> Addressed<'a> {
        let needs_flush = target.needs_flush(message.flags & flag::DURABLE != 0);
        let waiter = waiter.filter(|_| needs_flush || target.is_special);
        Addressed { message, hidden, target, waiter, needs_flush }
    }

    /// The waiter will hear of it.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiter.is_some()
    }

    /// When the message is due, milliseconds since 1970; none: it was before it came.
    fn due_at_ms(&self, now: Now) -> Option<u64> {
        let due_at_ms = match self.target.due {
            Due::Now => 0,
            Due::At(at_ms) => at_ms,
            Due::After(0) => now.wall_ms,
            // The clock may be as good as at its next millisecond: what waits less than it was asked to is early.
            Due::After(delay_ms) => now.wall_ms.saturating_add(delay_ms).saturating_add(1),
        };
        // The clock says what is to come, in the log for ever: what was received and is due.
        Some(due_at_ms).filter(|due_at_ms| *due_at_ms > self.message.received_at_ms)
    }
}

impl Target {
    /// A message is to be on disk before it counts.
    #[inline]
    pub(super) fn needs_flush(&self, is_durable: bool) -> bool {
        !self.is_memory && (is_durable || self.has_quorum)
    }
}

impl Shard {
    /// Publishes a message of the node itself to where `matches` leads; nobody waits for it.
    #[cold]
    pub(crate) fn publish_own(&mut self, now: Now, message: &NewEnqueue<'_>, matches: &Matches) {
        for target in &self.view((0, 0)).targets_now(matches) {
            if !self.stopped.contains(&target.log) && message.record_len(target.queues.len()).is_some() {
                self.append_addressed(now, &Addressed::new(message, &[], target, None));
            }
        }
    }

    /// Appends a message to its log, delayed where its target says so; queues that may refuse it are asked.
    #[inline(never)]
    pub(crate) fn append_addressed(&mut self, now: Now, addressed: &Addressed<'_>) {
        let Addressed { message, target, .. } = *addressed;
        let Some(due_at_ms) = addressed.due_at_ms(now) else { return self.append_as_it_is(now, addressed) };
        let head = match target.due {
            Due::After(delay_ms) => message::delay::taken(message.format, message.head, delay_ms),
            _ => None,
        };
        let pieces = [head.as_deref().unwrap_or_default()];
        let later_ms = due_at_ms - message.received_at_ms;
        let delayed = NewEnqueue {
            flags: message.flags | flag::DELAYED,
            due_at_ms: message.due_at(due_at_ms),
            expires_at_ms: match message.expires_at_ms {
                0 => 0,
                expires_at_ms => expires_at_ms.saturating_add(later_ms),
            },
            head: if head.is_some() { &pieces } else { message.head },
            ..*message
        };
        self.append_as_it_is(now, &Addressed { message: &delayed, ..*addressed });
    }

    fn append_as_it_is(&mut self, now: Now, addressed: &Addressed<'_>) {
        let Addressed { message, hidden, target, waiter, needs_flush } = *addressed;
        match target.slot {
            _ if target.asks || !hidden.is_empty() => self.append_apart(now, addressed),
            Some(slot) => {
                let log = &mut self.logs[slot as usize];
                log.commons.append_message(
                    now,
                    (message, message.sizes()),
                    &target.queues,
                    waiter,
                    needs_flush,
                );
            }
            None => self.append_remote(addressed),
        }
    }

    /// Puts a message with nothing special about it into the mail for the shard that has its log.
    fn append_remote(&mut self, addressed: &Addressed<'_>) {
        let Addressed { message, target, waiter, needs_flush, .. } = *addressed;
        let owner = self.settings.placement.owner(target.log);
        if !matches!(self.post.last_for(owner), Some(Mail::Append { log, .. }) if *log == target.log) {
            let (records, waiters) = (self.parcels.take(), Vec::new());
            let (from, log) = (self.settings.id, target.log);
            self.post.send(owner, Mail::Append { from, log, records, waiters, needs_flush: false });
        }
        if let Some(Mail::Append { records, waiters, needs_flush: flush, .. }) = self.post.last_for(owner) {
            let before = records.len();
            message.write(&target.queues, records);
            self.under_way += records.len() - before;
            *flush |= needs_flush;
            if let Some(waiter) = waiter {
                wait(waiters, Waiter::one(waiter));
            }
        }
    }
}
