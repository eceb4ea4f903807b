//! Deliveries that are told of at the firehose.

use super::Adapter;
use crate::context::Context;
use crate::handles::untraced;
use broker::{Events, Item};
use std::ops::Range;

impl Adapter {
    /// Tells of deliveries whose consumer is not found under its handle, and finds that; none: it is gone.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_delivered(
        &self,
        context: &mut Context<'_>,
        handle: u32,
        memory: u32,
        items: Range<u32>,
        events: &Events,
    ) -> Option<u32> {
        let handle = untraced(handle)?;
        let consumer = self.consumers.get(handle)?;
        let (channel, queue) = (consumer.channel, consumer.at.queue);
        context.trace_delivered(channel, queue, (memory, items), events);
        Some(handle)
    }

    /// The handle of a message that a channel got from a queue; tells of it where that is asked for.
    #[cold]
    pub(super) fn got_traced(
        &self,
        context: &mut Context<'_>,
        handle: u32,
        (memory, item): (u32, &Item),
        events: &Events,
    ) -> u32 {
        let Some(handle) = untraced(handle) else { return handle };
        if let Some(consumer) = self.consumers.get(handle) {
            let (channel, queue) = (consumer.channel, consumer.at.queue);
            context.trace(channel, queue, (memory, item), events);
        }
        handle
    }
}
