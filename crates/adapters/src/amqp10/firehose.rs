//! Deliveries that are told of at the firehose.

use super::Adapter;
use super::link::ConsumerAt;
use crate::context::Context;
use crate::handles::{is_traced, unmarked};
use broker::Events;
use std::ops::Range;

impl Adapter {
    /// A consumer that is not found under the handle of its deliveries, which are told of where that is asked for; none: it is
    /// gone.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_delivered(
        &self,
        context: &mut Context<'_>,
        consumer: u32,
        memory: u32,
        items: Range<u32>,
        events: &Events,
    ) -> Option<ConsumerAt> {
        let handle = unmarked(consumer)?;
        let found = *self.consumers.get(handle)?;
        let ConsumerAt { session, at, .. } = found;
        let at = at?;
        if is_traced(consumer) {
            context.trace_delivered(session.0, at.queue, (memory, items), events);
        }
        Some(found)
    }
}
