//! Messages out, acks in.

use super::consumer::{Consumer, Kind};
use super::outgoing::{counted, locked, outgoing};
use super::settling::Leaving;
use super::unacked::Delivery;
use super::{Adapter, tables};
use crate::context::Context;
use crate::handles::{HANDLES_MAX, is_leased};
use ::amqp091::method::{BasicCancel, MethodId};
use ::amqp091::{DeliverPrefix, Outgoing};
use broker::catalog::{Object, QueueDefinition, Reason, Refusal, ReplyCode};
use broker::ledger;
use broker::{ConsumerRef, Count, Events, Held, Item, QueueCommand};
use message::amqp091::{write_held, write_position};
use message::record::Outcome;
use std::ops::Range;
use std::sync::Arc;

impl Adapter {
    #[inline]
    pub(super) fn deliver(
        &mut self,
        context: &mut Context<'_>,
        handle: u32,
        memory: u32,
        items: Range<u32>,
        events: &Events,
    ) {
        let count = u64::from(items.end - items.start);
        let (handle, consumer) = match self.consumers.get_mut(handle) {
            Some(consumer) => (handle, consumer),
            // Gone, or its deliveries are told of or leased.
            None => {
                let told = self.tell_delivered(context, handle, memory, items.clone(), events);
                let Some(own) = told else { return };
                if is_leased(handle) {
                    return self.deliver_leased(context, own, memory, items, events);
                }
                let handle = own;
                let Some(consumer) = self.consumers.get_mut(handle) else { return };
                (handle, consumer)
            }
        };
        consumer.delivered += count;
        let prefix = match &consumer.kind {
            Kind::Plain(prefix) | Kind::Reply(prefix) => prefix,
            Kind::Telling(_) => return self.deliver_telling(context, handle, (memory, false), items, events),
            Kind::Shared => return self.deliver_shared(context, handle, memory, items, events),
            Kind::Getter => return,
        };
        let Some(channel) = self.channels.get(consumer.channel) else { return };
        let bytes = &events.memories[memory as usize];
        let mut again = 0;
        for item in &events.items[items.start as usize..items.end as usize] {
            let message = events.message(memory, item);
            let tag = channel.next_tag();
            if !consumer.no_ack {
                channel.unacked.push(tag, Delivery { consumer: handle, seq: item.seq });
            }
            let outgoing = outgoing(&message, bytes, &mut context.scratch.amqp091);
            if item.marks == 0 {
                self.machine.deliver(prefix, tag, false, &outgoing);
                continue;
            }
            again += u64::from(item.is_redelivered());
            let head = counted(&outgoing, item);
            let outgoing = Outgoing { head: &head, ..outgoing };
            self.machine.deliver_rare(prefix, tag, item.is_redelivered(), &outgoing);
        }
        self.is_resized |= channel.unacked.take_resized();
        let what = if consumer.no_ack { Count::DeliverNoAck } else { Count::Deliver };
        channel.note(context, consumer.of, what, count);
        if again > 0 {
            consumer.again += again;
            channel.note(context, consumer.of, Count::Redeliver, again);
        }
    }

    /// Messages for a consumer that is told where in its queue each of them is, and whether others hold them.
    #[cold]
    #[inline(never)]
    pub(super) fn deliver_telling(
        &mut self,
        context: &mut Context<'_>,
        handle: u32,
        (memory, are_held): (u32, bool),
        items: Range<u32>,
        events: &Events,
    ) {
        let Some(consumer) = self.consumers.get(handle) else { return };
        let Kind::Telling(prefix) = &consumer.kind else { return };
        let Some(channel) = self.channels.get(consumer.channel) else { return };
        let bytes = &events.memories[memory as usize];
        for item in &events.items[items.start as usize..items.end as usize] {
            let message = events.message(memory, item);
            let tag = channel.next_tag();
            if !consumer.no_ack {
                channel.unacked.push(tag, Delivery { consumer: handle, seq: item.seq });
            }
            let outgoing = outgoing(&message, bytes, &mut context.scratch.amqp091);
            let mut head = Vec::new();
            let write = if are_held { write_held } else { write_position };
            write(&counted(&outgoing, item), item.seq.0, &mut head);
            let outgoing = Outgoing { head: &head, ..outgoing };
            self.machine.deliver_rare(prefix, tag, item.is_redelivered(), &outgoing);
            if item.is_redelivered() {
                channel.note(context, consumer.of, Count::Redeliver, 1);
            }
        }
        self.is_resized |= channel.unacked.take_resized();
        let what = if consumer.no_ack { Count::DeliverNoAck } else { Count::Deliver };
        channel.note(context, consumer.of, what, u64::from(items.end - items.start));
    }

    pub(super) fn send_got(
        &mut self,
        context: &mut Context<'_>,
        number: u16,
        handle: u32,
        no_ack: bool,
        (memory, item): (u32, &Item),
        ready: u64,
        events: &Events,
    ) {
        let Some(channel) = self.channels.get(number) else { return };
        let mut lease_ms = None;
        let of = self.consumers.get_mut(handle).and_then(|consumer| {
            lease_ms = consumer.lease_ms.filter(|_| !no_ack);
            consumer.delivered += 1;
            consumer.again += u64::from(item.is_redelivered());
            consumer.got_settled += u64::from(no_ack);
            consumer.of
        });
        channel.note(context, of, if no_ack { Count::GetNoAck } else { Count::Get }, 1);
        if item.is_redelivered() {
            channel.note(context, of, Count::Redeliver, 1);
        }
        let message = events.message(memory, item);
        let tag = channel.next_tag();
        if !no_ack {
            channel.unacked.push(tag, Delivery { consumer: handle, seq: item.seq });
            self.is_resized |= channel.unacked.take_resized();
        }
        let outgoing = outgoing(&message, &events.memories[memory as usize], &mut context.scratch.amqp091);
        let head = counted(&outgoing, item);
        let head = match lease_ms {
            Some(lease_ms) => locked(&head, context.now.wall_ms.saturating_add(lease_ms)).into(),
            None => head,
        };
        let outgoing = Outgoing { head: &head, ..outgoing };
        let ready = u32::try_from(ready).unwrap_or(u32::MAX);
        self.machine.get_ok(number, tag, item.is_redelivered(), ready, &outgoing);
    }

    /// The client settles one delivery, or all up to it.
    #[inline]
    pub(super) fn settle(
        &mut self,
        context: &mut Context<'_>,
        number: u16,
        tag: u64,
        multiple: bool,
        outcome: Outcome,
        method: MethodId,
    ) {
        let Some(channel) = self.channels.get(number) else { return };
        let is_known = if let Some(transaction) = &mut channel.transaction {
            match transaction.hold_settle(context, &mut channel.unacked, (tag, multiple), outcome) {
                Ok(is_known) => is_known,
                Err(refusal) => return self.refuse(context, number, &refusal, method),
            }
        } else if multiple {
            let mut deliveries = std::mem::take(&mut channel.unacked);
            let is_known =
                deliveries.take_through(tag, |_, delivery| self.settle_one(context, delivery, outcome));
            self.is_resized |= deliveries.take_resized();
            if let Some(channel) = self.channels.get(number) {
                channel.unacked = deliveries;
            }
            is_known
        } else {
            let taken = channel.unacked.take(tag);
            self.is_resized |= channel.unacked.take_resized();
            if let Some(delivery) = taken {
                self.settle_one(context, delivery, outcome);
            }
            taken.is_some()
        };
        if !is_known {
            let text = format!("unknown delivery tag {tag}");
            let refusal = Refusal::precondition(Reason::NotFound(Object::Delivery), text);
            self.refuse(context, number, &refusal, method);
        }
    }

    /// Everything a channel holds goes back to its queues.
    pub(super) fn give_back(&mut self, context: &mut Context<'_>, number: u16) {
        let Some(channel) = self.channels.get(number) else { return };
        let mut deliveries = std::mem::take(&mut channel.unacked);
        self.is_resized |= deliveries.counted_bytes() > 0;
        deliveries.take_through(0, |_, delivery| self.settle_one(context, delivery, Outcome::Released));
        self.pass_on_settled(context);
    }

    #[inline]
    pub(super) fn settle_one(&mut self, context: &mut Context<'_>, delivery: Delivery, outcome: Outcome) {
        self.settled.settle(context, (&mut self.consumers, &mut self.channels), delivery, outcome);
    }

    /// Passes on the positions settled last.
    #[inline]
    pub(super) fn pass_on_settled(&mut self, context: &mut Context<'_>) {
        self.settled.pass_on(context, (&mut self.consumers, &mut self.channels));
    }

    pub(super) fn add_consumer(
        &mut self,
        queue: &Arc<QueueDefinition>,
        channel: u16,
        kind: Kind,
        no_ack: bool,
    ) -> Result<u32, Refusal> {
        self.add_handle(|handle| {
            let at = ConsumerRef { log: queue.log, queue: queue.id, handle };
            Consumer {
                channel,
                at,
                kind,
                no_ack,
                prefetch: 0,
                is_cancelled: false,
                newest: u64::MAX,
                exclusive: false,
                of: Some(queue.queue_type),
                lease_ms: None,
                arguments: None,
                delivered: 0,
                again: 0,
                accepted: 0,
                got_settled: 0,
            }
        })
    }

    pub(super) fn add_handle(&mut self, make: impl FnOnce(u32) -> Consumer) -> Result<u32, Refusal> {
        let handle = self.consumers.add(make).ok_or_else(|| {
            let text = format!("a connection has at most {HANDLES_MAX} consumers");
            Refusal::new(ReplyCode::ResourceError, Reason::LimitReached(Object::Consumer), text)
        })?;
        self.make_findable(handle);
        Ok(handle)
    }

    /// A queue is gone, and the consumer with it: the client is told if it wants to hear of that.
    pub(super) fn cancelled(&mut self, context: &mut Context<'_>, handle: u32, queue: &QueueDefinition) {
        self.announce_end(context, handle, Some(queue));
        let prefix = self.prefix_of(handle).cloned();
        self.drop_waiting(context, handle, false);
        let Some(consumer) = self.consumers.get_mut(handle) else { return };
        let is_told = self.hears_cancel && !consumer.is_cancelled;
        consumer.is_cancelled = true;
        let (number, of) = (consumer.channel, consumer.at.queue);
        if let Some(prefix) = prefix.filter(|_| is_told)
            && let Some(prefix) = self.requests.keep_cancelled(number, of, prefix)
        {
            self.tell_cancelled(number, &prefix);
        }
        self.remove_if_idle(context, handle);
    }

    /// A consumer held a delivery for too long. As in RabbitMQ it is told so by a basic.cancel, though it gets more
    /// once it has settled that; a client that would not hear of that, gets, and a cancelled consumer, lose the
    /// channel.
    #[cold]
    pub(super) fn timed_out(&mut self, context: &mut Context<'_>, handle: u32) {
        let Some(consumer) = self.consumers.get(handle) else { return };
        let number = consumer.channel;
        let hears = self.hears_cancel && !consumer.is_cancelled;
        match self.prefix_of(handle).filter(|_| hears).cloned() {
            Some(prefix) => self.tell_cancelled(number, &prefix),
            None => {
                // RabbitMQ does not know the timeout any more, and says -1.
                let text = format!(
                    "delivery acknowledgement on channel {number} timed out. Timeout value used: -1 ms. This timeout \
                     value can be configured, see consumers doc guide to learn more"
                );
                let refusal = Refusal::precondition(Reason::TimedOut, text);
                self.refuse(context, number, &refusal, MethodId::NONE);
            }
        }
    }

    pub(super) fn tell_cancelled(&mut self, channel: u16, prefix: &DeliverPrefix) {
        self.machine.send(channel, &BasicCancel { consumer_tag: prefix.consumer_tag(), nowait: true });
    }

    /// Forgets a cancelled consumer that holds nothing. One that does stays until that is settled or its channel goes: its handle
    /// must not come to mean another.
    pub(super) fn remove_if_idle(&mut self, context: &mut Context<'_>, handle: u32) {
        let Some(consumer) = self.consumers.get_mut(handle) else { return };
        let holds = self.channels.get(consumer.channel).is_some_and(|channel| {
            if let Some(newest) = channel.unacked.newest_of(handle, consumer.newest) {
                consumer.newest = newest;
                return true;
            }
            channel.transaction.as_ref().is_some_and(|transaction| transaction.holds(handle))
        });
        // A get that waits for its answer is about to use it.
        let is_getting = consumer.is_getter() && self.requests.is_getting(consumer.channel);
        if !holds && !is_getting && !self.settled.is_of(handle) {
            self.close_consumer(context, handle);
        }
    }

    /// Closes a consumer for good: the deliveries it holds go back.
    pub(super) fn close_consumer(&mut self, context: &mut Context<'_>, handle: u32) {
        let Some(consumer) = self.consumers.remove(handle) else { return };
        tables::give_back(context, consumer.arguments.as_deref());
        self.finder.shrink(self.consumers.len());
        if consumer.is_reply() {
            return context.shard.close_reply(context.port, handle);
        }
        let command = QueueCommand::Cancel { token: None, handle, held: Held::Fails };
        let at = consumer.at;
        context.shard.command(context.now, context.port, at.log, at.queue, command);
        context.shard.forget_consumer(context.port, handle);
    }

    /// Forgets the cancelled consumers that hold nothing any more, of those with a delivery settled in this turn.
    #[cold]
    pub(super) fn see_off(&mut self, context: &mut Context<'_>, leaving: Leaving) {
        match leaving {
            Leaving::Nobody => {}
            Leaving::Several => {
                let cancelled = self.consumers.iter().filter(|(_, consumer)| consumer.is_cancelled);
                let cancelled: Vec<u32> = cancelled.map(|(handle, _)| handle).collect();
                cancelled.into_iter().for_each(|handle| self.remove_if_idle(context, handle));
            }
            Leaving::One(handle) => self.remove_if_idle(context, handle),
        }
    }

    /// A channel is gone: its consumers go, and the deliveries they held go back.
    pub(super) fn drop_channel(&mut self, context: &mut Context<'_>, number: u16) {
        self.pass_on_settled(context);
        self.announce_channel_end(context, number);
        let handles: Vec<u32> = self
            .consumers
            .iter()
            .filter(|(_, consumer)| consumer.channel == number)
            .map(|(handle, _)| handle)
            .collect();
        handles.into_iter().for_each(|handle| self.close_consumer(context, handle));
        if let Some(mut channel) = self.channels.remove(number) {
            self.is_resized |= channel.unacked.counted_bytes() > 0;
            context.shard.tallies().channel_went();
            context.shard.forget_routes(&mut channel.publisher);
            if channel.is_counted {
                context.shard.drop_channel(context.port);
            }
            if let Some(transaction) = &channel.transaction {
                context.shard.give(context.port, ledger::Kind::Transactions, transaction.held_bytes());
            }
        }
        self.requests.drop_channel(number);
    }

    /// There is much to send, or no longer: consumers pause or go on.
    pub(crate) fn set_paused(&mut self, context: &mut Context<'_>, paused: bool) {
        self.is_paused = paused;
        for (_, consumer) in self.consumers.iter() {
            if consumer.is_reply() {
                context.shard.pause_reply(context.port, consumer.at.handle, paused);
            } else if !consumer.is_getter() {
                let ConsumerRef { log, queue, handle } = consumer.at;
                let shared = self.channels.find(consumer.channel).and_then(|channel| channel.shared.as_ref());
                let paused = paused || shared.is_some_and(|shared| shared.is_empty_handed(handle));
                let command = QueueCommand::Pause { handle, paused };
                context.shard.command(context.now, context.port, log, queue, command);
            }
        }
    }
}
