//! Leases of messages that consumers hold.
//!
//! A delivery says until when it is leased (header `x-opt-locked-until`). Where a lease is over, the delivery's tag stays
//! the client's to settle, which then changes nothing; the queue hears of it, for the room in the prefetch.

use super::Adapter;
use super::channel::Channel;
use super::consumer::Kind;
use super::outgoing::{counted, locked, outgoing};
use super::unacked::Delivery;
use crate::context::Context;
use crate::handles::LeasesOver;
use ::amqp091::Outgoing;
use base::RangeSet;
use base::id::QueueSeq;
use base::ranges::Range as Positions;
use broker::{ConsumerRef, Count, Events, LeaseOver, QueueCommand};
use message::amqp091::write_position;
use message::record::{Outcome, SeqRange};
use std::collections::BTreeMap;
use std::ops::Range;

/// Leases of a consumer that are said to be over.
struct Asked {
    at: ConsumerRef,
    ranges: Vec<SeqRange>,
    /// The same.
    asked: RangeSet,
    /// Those of them that it was sent and has not settled.
    over: RangeSet,
}

impl Adapter {
    /// A consumer has its messages for so long from now on.
    pub(super) fn leased(&mut self, handle: u32, lease_ms: Option<u64>) {
        if let Some(consumer) = self.consumers.get_mut(handle) {
            consumer.lease_ms = lease_ms;
        }
    }

    /// Messages for a consumer that is told until when it has them.
    #[cold]
    #[inline(never)]
    pub(super) fn deliver_leased(
        &mut self,
        context: &mut Context<'_>,
        handle: u32,
        memory: u32,
        items: Range<u32>,
        events: &Events,
    ) {
        let Some(consumer) = self.consumers.get_mut(handle) else { return };
        let count = u64::from(items.end - items.start);
        consumer.delivered += count;
        let (prefix, is_telling) = match &consumer.kind {
            Kind::Plain(prefix) => (prefix, false),
            Kind::Telling(prefix) => (prefix, true),
            Kind::Shared => return self.deliver_shared(context, handle, memory, items, events),
            Kind::Reply(_) | Kind::Getter => return,
        };
        let Some(channel) = self.channels.get(consumer.channel) else { return };
        let until_ms = context.now.wall_ms.saturating_add(consumer.lease_ms.unwrap_or_default());
        let bytes = &events.memories[memory as usize];
        let mut again = 0;
        for item in &events.items[items.start as usize..items.end as usize] {
            let message = events.message(memory, item);
            let tag = channel.next_tag();
            again += u64::from(item.is_redelivered());
            channel.unacked.push(tag, Delivery { consumer: handle, seq: item.seq });
            let outgoing = outgoing(&message, bytes, &mut context.scratch.amqp091);
            let mut head = locked(&counted(&outgoing, item), until_ms);
            if is_telling {
                let before = std::mem::take(&mut head);
                write_position(&before, item.seq.0, &mut head);
            }
            let outgoing = Outgoing { head: &head, ..outgoing };
            self.machine.deliver_rare(prefix, tag, item.is_redelivered(), &outgoing);
        }
        self.is_resized |= channel.unacked.take_resized();
        channel.note(context, consumer.of, Count::Deliver, count);
        if again > 0 {
            consumer.again += again;
            channel.note(context, consumer.of, Count::Redeliver, again);
        }
    }

    /// Leases are over: deliveries that are not settled are marked, and are the queues' again. It costs a step for each
    /// unsettled delivery of the channels at most, once a turn.
    #[cold]
    #[inline(never)]
    pub(super) fn end_leases(&mut self, context: &mut Context<'_>, LeasesOver(leases): LeasesOver) {
        let mut channels: BTreeMap<u16, BTreeMap<u32, Asked>> = BTreeMap::new();
        for (handle, ranges) in leases {
            let Some(consumer) = self.consumers.get(handle) else { continue };
            let at = consumer.at;
            let new = || Asked { at, ranges: Vec::new(), asked: RangeSet::new(), over: RangeSet::new() };
            let asked = channels.entry(consumer.channel).or_default().entry(handle).or_insert_with(new);
            let parts = ranges.iter().map(|range| Positions::new(range.first.0, range.last.0));
            parts.for_each(|part| _ = asked.asked.insert(part));
            asked.ranges.extend(ranges);
        }
        for (number, mut consumers) in channels {
            let Some(channel) = self.channels.get(number) else { continue };
            let Channel { unacked, shared, .. } = channel;
            let is_meant = |delivery: Delivery| {
                consumers.get(&delivery.consumer).is_some_and(|asked| asked.asked.contains(delivery.seq.0))
            };
            let unsent = shared.as_mut().map_or_else(Vec::new, |shared| shared.take_meant(is_meant));
            let most = consumers.values().map(|asked| asked.asked.count()).sum();
            let mut over = Vec::new();
            unacked.end_leases(most, is_meant, |delivery| over.push(delivery));
            for Delivery { consumer, seq } in over {
                if let Some(asked) = consumers.get_mut(&consumer) {
                    asked.over.insert(Positions::new(seq.0, seq.0));
                }
            }
            // Their client has not heard of them.
            unsent.into_iter().for_each(|delivery| self.settle_one(context, delivery, Outcome::Released));
            self.pass_on_settled(context);
            consumers.into_values().for_each(|asked| asked.answer(context));
        }
    }
}

impl Asked {
    /// Tells the queue which leases are over.
    fn answer(self, context: &mut Context<'_>) {
        let ConsumerRef { log, queue, handle } = self.at;
        let over = self.over.iter();
        let over = over.map(|part| SeqRange { first: QueueSeq(part.first), last: QueueSeq(part.last) });
        let (asked, over) = (self.ranges.into(), over.collect());
        let answer = LeaseOver { handle, asked, over, is_late: true };
        context.shard.command(
            context.now,
            context.port,
            log,
            queue,
            QueueCommand::LeaseOver(Box::new(answer)),
        );
    }
}
