//! Deliveries that are told of at the firehose.

use super::Adapter;
use crate::context::Context;
use crate::handles::{is_traced, unmarked};
use broker::{Events, Item};
use std::ops::Range;

impl Adapter {
    /// The handle of a consumer that is not found under that of its deliveries, which are told of where that is asked for;
    /// none: it is gone.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_delivered(
        &self,
        context: &mut Context<'_>,
        marked: u32,
        memory: u32,
        items: Range<u32>,
        events: &Events,
    ) -> Option<u32> {
        let handle = unmarked(marked)?;
        let consumer = self.consumers.get(handle)?;
        if is_traced(marked) {
            let (channel, queue) = (consumer.channel, consumer.at.queue);
            context.trace_delivered(channel, queue, (memory, items), events);
        }
        Some(handle)
    }

    /// The handle of a message that a channel got from a queue; tells of it where that is asked for.
    #[cold]
    pub(super) fn got_traced(
        &self,
        context: &mut Context<'_>,
        marked: u32,
        (memory, item): (u32, &Item),
        events: &Events,
    ) -> u32 {
        let Some(handle) = unmarked(marked) else { return marked };
        if is_traced(marked)
            && let Some(consumer) = self.consumers.get(handle)
        {
            let (channel, queue) = (consumer.channel, consumer.at.queue);
            context.trace(channel, queue, (memory, item), events);
        }
        handle
    }
}
