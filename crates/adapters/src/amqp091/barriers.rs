//! Barriers of queues: messages that every consumer is given, settled in advance.
//!
//! AMQP 0-9-1 has no word for that: a client that acks deliveries acks this one too, some time. Its tag is known until
//! then, marked as that of a delivery whose lease is over: what the client says of it goes nowhere. Where consumers share
//! a prefetch it is a delivery as any other, for it takes its place there; the queue passes over what is said of it.

use super::Adapter;
use super::consumer::Kind;
use super::outgoing::{counted, outgoing};
use super::unacked::Delivery;
use crate::context::Context;
use ::amqp091::Outgoing;
use broker::{Count, Events};
use message::amqp091::write_position;

impl Adapter {
    /// A barrier for a consumer.
    #[cold]
    #[inline(never)]
    pub(super) fn deliver_barrier(
        &mut self,
        context: &mut Context<'_>,
        marked: u32,
        (memory, item): (u32, u32),
        events: &Events,
    ) {
        let items = item..item + 1;
        let handle = match self.consumers.get(marked) {
            Some(_) => Some(marked),
            None => self.tell_delivered(context, marked, memory, items.clone(), events),
        };
        let Some(handle) = handle else { return };
        let Some(consumer) = self.consumers.get_mut(handle) else { return };
        let item = &events.items[item as usize];
        consumer.delivered += 1;
        consumer.again += u64::from(item.is_redelivered());
        let (prefix, is_telling) = match &consumer.kind {
            Kind::Plain(prefix) | Kind::Reply(prefix) => (prefix, false),
            Kind::Telling(prefix) => (prefix, true),
            Kind::Shared => return self.deliver_shared(context, handle, memory, items, events),
            Kind::Getter => return,
        };
        let Some(channel) = self.channels.get(consumer.channel) else { return };
        let message = events.message(memory, item);
        let tag = channel.next_tag();
        if !consumer.no_ack {
            channel.unacked.push(tag, Delivery { consumer: handle, seq: item.seq }.over());
            self.is_resized |= channel.unacked.take_resized();
        }
        let outgoing = outgoing(&message, &events.memories[memory as usize], &mut context.scratch.amqp091);
        let mut head = counted(&outgoing, item).into_owned();
        if is_telling {
            let before = std::mem::take(&mut head);
            write_position(&before, item.seq.0, &mut head);
        }
        let outgoing = Outgoing { head: &head, ..outgoing };
        self.machine.deliver_rare(prefix, tag, item.is_redelivered(), &outgoing);
        channel.note(
            context,
            consumer.of,
            if consumer.no_ack { Count::DeliverNoAck } else { Count::Deliver },
            1,
        );
        if item.is_redelivered() {
            channel.note(context, consumer.of, Count::Redeliver, 1);
        }
    }
}
