//! A message on its way into a log: where it goes there, the publish that waits for it, when it is due.

use super::route::{Due, Target};
use base::Now;
use base::id::PortId;
use message::record::{NewEnqueue, flag};

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
    pub(crate) fn due_at_ms(&self, now: Now) -> Option<u64> {
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
