//! Deliveries that are told of at the firehose.

use super::Adapter;
use crate::connection::Context;
use crate::handles::untraced;
use base::id::QueueId;
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
        for item in &events.items[items.start as usize..items.end as usize] {
            tell(context, channel, queue, memory, item, events);
        }
        Some(handle)
    }

    /// The handle of what a channel got from a queue; tells of it where that is asked for.
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
            tell(context, channel, queue, memory, item, events);
        }
        handle
    }
}

fn tell(context: &mut Context<'_>, channel: u16, queue: QueueId, memory: u32, item: &Item, events: &Events) {
    let message = events.message(memory, item);
    let by = (context.port, channel);
    context.shard.trace_delivery(context.now, by, queue, &message, item.is_redelivered());
}
