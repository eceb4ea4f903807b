//! Deliveries that are told of at the firehose.

use super::Adapter;
use super::link::ConsumerAt;
use crate::context::Context;
use crate::handles::untraced;
use broker::Events;
use std::ops::Range;

impl Adapter {
    /// Tells of deliveries whose consumer is not found under its handle, and finds it; none: it is gone.
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
        let handle = untraced(consumer)?;
        let found = *self.consumers.get(handle)?;
        let ConsumerAt { session, at, .. } = found;
        let at = at?;
        context.trace_delivered(session.0, at.queue, (memory, items), events);
        Some(found)
    }
}
