//! The consumers of a connection's channels and the prefetches that they share.

use super::Adapter;
use super::channel::Channel;
use super::consumer::{Consumer, Kind};
use super::shared_prefetch::SharedPrefetch;
use super::unacked::Delivery;
use crate::context::Context;
use ::amqp091::DeliverPrefix;
use broker::Events;
use broker::catalog::{QueueDefinition, Refusal};
use message::record::Outcome;
use std::ops::Range;

impl Adapter {
    /// The channel's consumers share a prefetch from now on; 0: no longer.
    pub(super) fn share(&mut self, context: &mut Context<'_>, number: u16, most: u16) {
        if most == 0 {
            return self.unshare(context, number);
        }
        let Some(channel) = self.channels.get(number) else { return };
        let shared = channel.shared.get_or_insert_with(|| Box::new(SharedPrefetch::new(0)));
        shared.set_most(most.into());
        let catalog = context.shard.catalog();
        let joins = |consumer: &Consumer| {
            consumer.channel == number
                && !consumer.no_ack
                && !consumer.is_cancelled
                && catalog.queue(consumer.at.queue).is_some_and(|queue| !queue.makes_durable())
        };
        let handles = self.consumers.iter().filter(|(_, consumer)| joins(consumer));
        let handles: Vec<u32> = handles.map(|(handle, _)| handle).collect();
        for handle in handles {
            if let Some(consumer) = self.consumers.get_mut(handle) {
                shared.join(handle, consumer, u32::MAX);
            }
        }
        self.deals = true;
    }

    /// The channel's consumers have prefetches of their own again.
    pub(super) fn unshare(&mut self, context: &mut Context<'_>, number: u16) {
        let Some(channel) = self.channels.get(number) else { return };
        let Some(mut shared) = channel.shared.take() else { return };
        shared.set_most(u32::MAX);
        shared.send_waiting(context, &mut self.machine, &mut channel.unacked, &mut channel.last_tag);
        self.is_resized |= channel.unacked.take_resized();
        shared.dissolve(context, &mut self.consumers, self.is_paused);
    }

    /// A consumer of a channel that shares a prefetch: the number it may be sent at first; none: its channel does not.
    pub(super) fn check_shared(
        &mut self,
        number: u16,
        queue: &QueueDefinition,
    ) -> Result<Option<u32>, Refusal> {
        let Some(channel) = self.channels.get(number) else { return Ok(None) };
        let own = u32::from(channel.prefetch);
        let Some(shared) = &channel.shared else { return Ok(None) };
        if queue.makes_durable() {
            let text = format!("{} does not support global qos", queue.named());
            return Err(Refusal::not_served(text));
        }
        Ok(Some(shared.first_part(own)))
    }

    /// The consumer, just made, shares the channel's prefetch; its queue is told `told`.
    pub(super) fn join(&mut self, number: u16, handle: u32, told: u32) {
        let Some(consumer) = self.consumers.get_mut(handle) else { return };
        let Some(channel) = self.channels.get(number) else { return };
        let Some(shared) = &mut channel.shared else { return };
        shared.join(handle, consumer, told);
    }

    /// The prefix of a consumer's deliveries; none for gets.
    pub(super) fn prefix_of(&self, handle: u32) -> Option<&DeliverPrefix> {
        let consumer = self.consumers.get(handle)?;
        match &consumer.kind {
            Kind::Plain(prefix) | Kind::Reply(prefix) | Kind::Telling(prefix) => Some(prefix),
            Kind::Shared => self.channels.find(consumer.channel)?.shared.as_ref()?.prefix(handle),
            Kind::Getter => None,
        }
    }

    /// Messages for a consumer without a prefix of its own: those of a channel that shares a prefetch.
    #[cold]
    #[inline(never)]
    pub(super) fn deliver_shared(
        &mut self,
        context: &mut Context<'_>,
        handle: u32,
        memory: u32,
        items: Range<u32>,
        events: &Events,
    ) {
        let Some(consumer) = self.consumers.get(handle).filter(|consumer| consumer.is_shared()) else {
            return;
        };
        let Some(channel) = self.channels.get(consumer.channel) else { return };
        let Channel { shared: Some(shared), unacked, last_tag, .. } = channel else { return };
        let items = &events.items[items.start as usize..items.end as usize];
        let locked_until_ms = consumer.lease_ms.map(|lease_ms| context.now.wall_ms.saturating_add(lease_ms));
        shared.keep(handle, items, &events.memories[memory as usize], locked_until_ms);
        shared.send_waiting(context, &mut self.machine, unacked, last_tag);
        self.is_resized |= unacked.take_resized();
    }

    /// Deliveries that wait for a consumer that was cancelled go back; if its queue is gone, they are gone too.
    pub(super) fn drop_waiting(&mut self, context: &mut Context<'_>, handle: u32, goes_back: bool) {
        let Some(consumer) = self.consumers.get(handle).filter(|consumer| consumer.is_shared()) else {
            return;
        };
        let Some(channel) = self.channels.get(consumer.channel) else { return };
        let Some(shared) = &mut channel.shared else { return };
        for seq in shared.take_waiting(handle).into_iter().filter(|_| goes_back) {
            self.settle_one(context, Delivery { consumer: handle, seq }, Outcome::Released);
        }
    }

    /// Deals out the rest of each shared prefetch.
    #[cold]
    pub(super) fn deal_out(&mut self, context: &mut Context<'_>) {
        self.deals = false;
        let numbers: Vec<u16> =
            self.channels.iter().filter(|channel| channel.shared.is_some()).map(|it| it.number).collect();
        for number in numbers {
            // There may be something to do in every turn.
            self.deals = true;
            self.deal_out_in(context, number);
        }
    }

    fn deal_out_in(&mut self, context: &mut Context<'_>, number: u16) {
        let Some(channel) = self.channels.get(number) else { return };
        let Channel { shared: Some(shared), unacked, last_tag, .. } = channel else { return };
        let is_paused = self.is_paused;
        shared.deal_out(context, &mut self.machine, &self.consumers, (&mut *unacked, last_tag), is_paused);
        self.is_resized |= unacked.take_resized();
    }
}
