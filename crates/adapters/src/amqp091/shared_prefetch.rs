//! A prefetch that the consumers of a channel share: `basic.qos` with `global`, where the operator permits it.
//!
//! A queue knows its own consumers alone. So the rest of the prefetch is dealt out among the channel's consumers at
//! the end of each turn, as prefetches of their own, and dealt anew when something was sent or settled. Each gets an
//! equal part, but at least one while anything is left: a queue that holds messages is never kept waiting for an empty
//! one. Deliveries that come beyond the prefetch wait here, at most one message a further consumer and those under way
//! when parts became smaller, and are sent as soon as something is settled. A turn costs the number of unsettled
//! deliveries on the channel, which the prefetch bounds, and nothing when nothing changed.
//!
//! Consumers that need no acks are no members, nor are those of quorum queues, as in RabbitMQ.
//!
//! Invariants: members are in the order of their handles; no more than the prefetch is sent and unsettled.

use super::Adapter;
use super::channel::Channel;
use super::consumer::{Consumer, Kind};
use super::outgoing::outgoing;
use super::unacked::Delivery;
use crate::context::Context;
use ::amqp091::DeliverPrefix;
use base::{Buffer, Memory};
use broker::catalog::{QueueDefinition, Refusal};
use broker::{Events, Item, QueueCommand};
use message::record::{Enqueue, Outcome, split};
use std::collections::VecDeque;
use std::ops::Range;

/// The shared prefetch and its members.
#[derive(Debug)]
pub(super) struct SharedPrefetch {
    /// Deliveries that may be unsettled at once; at least 1.
    most: u32,
    members: Vec<Member>,
    /// Deliveries that came and may not be sent yet, oldest first.
    waiting: VecDeque<Waiting>,
    /// Deliveries of all members that are sent and not settled.
    sent: u32,
    /// How much was unsettled and which tag was the last when it was dealt out; none: it must be dealt out anew.
    seen: Option<(usize, u64)>,
}

#[derive(Debug)]
struct Member {
    handle: u32,
    prefix: DeliverPrefix,
    /// The consumer's own prefetch; 0: none.
    own: u16,
    /// Its deliveries that are sent and not settled.
    sent: u32,
    /// Its deliveries that wait.
    waiting: u32,
    /// The prefetch its queue was told last; 0: it was told to pause.
    told: u32,
}

#[derive(Debug)]
struct Waiting {
    handle: u32,
    item: Item,
    memory: Memory,
}

impl SharedPrefetch {
    /// The prefetch: the most that the consumers have together.
    pub(super) fn most(&self) -> u16 {
        self.most as u16
    }

    fn new(most: u32) -> SharedPrefetch {
        SharedPrefetch { most, members: Vec::new(), waiting: VecDeque::new(), sent: 0, seen: None }
    }

    fn member(&mut self, handle: u32) -> Option<&mut Member> {
        let at = self.members.binary_search_by_key(&handle, |member| member.handle).ok()?;
        self.members.get_mut(at)
    }

    fn add(&mut self, member: Member) {
        let at = self.members.partition_point(|other| other.handle < member.handle);
        self.members.insert(at, member);
        self.seen = None;
    }

    /// The prefix of a member's deliveries.
    pub(super) fn prefix(&self, handle: u32) -> Option<&DeliverPrefix> {
        let at = self.members.binary_search_by_key(&handle, |member| member.handle).ok()?;
        Some(&self.members[at].prefix)
    }

    /// The member's queue was told to pause.
    pub(super) fn is_empty_handed(&self, handle: u32) -> bool {
        let at = self.members.binary_search_by_key(&handle, |member| member.handle);
        at.is_ok_and(|at| self.members[at].told == 0)
    }

    /// The number each of `count` members may be sent besides its present deliveries.
    fn part(&self, count: usize) -> u32 {
        match self.most.saturating_sub(self.sent) {
            0 => 0,
            left => (left / (count as u32).max(1)).max(1),
        }
    }

    /// Counts the unsettled deliveries anew; false: nothing has changed since they were dealt out.
    fn count(&mut self, channel: &Channel) -> bool {
        let seen = Some((channel.unacked.len(), channel.last_tag));
        if self.seen == seen {
            return false;
        }
        self.seen = seen;
        self.sent = 0;
        self.members.iter_mut().for_each(|member| (member.sent, member.waiting) = (0, 0));
        for Delivery { consumer, .. } in channel.unacked.iter() {
            if let Some(member) = self.member(consumer) {
                member.sent += 1;
                self.sent += 1;
            }
        }
        for at in 0..self.waiting.len() {
            let handle = self.waiting[at].handle;
            if let Some(member) = self.member(handle) {
                member.waiting += 1;
            }
        }
        true
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<SharedPrefetch>()
            + self.members.capacity() * size_of::<Member>()
            + self.waiting.capacity() * size_of::<Waiting>()
    }
}

/// A message that may have to wait for long, without all that came with it.
fn alone(item: Item, memory: &Memory) -> (Item, Memory) {
    let (_, record, _) = split(&memory[item.offset as usize..]).expect("only records are delivered");
    let mut copy = Buffer::with_capacity(record.len());
    copy.extend(record);
    (Item { offset: 0, ..item }, copy.seal())
}

impl Adapter {
    /// The channel's consumers share a prefetch from now on; 0: no longer.
    pub(super) fn share(&mut self, context: &mut Context<'_>, number: u16, most: u16) {
        if most == 0 {
            return self.unshare(context, number);
        }
        let Some(channel) = self.channels.get(number) else { return };
        let shared = channel.shared.get_or_insert_with(|| Box::new(SharedPrefetch::new(0)));
        (shared.most, shared.seen) = (most.into(), None);
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
            let Some(consumer) = self.consumers.get_mut(handle) else { continue };
            let Some(prefix) = consumer.share() else { continue };
            let own = consumer.prefetch;
            shared.add(Member { handle, prefix, own, sent: 0, waiting: 0, told: u32::MAX });
        }
        self.deals = true;
    }

    /// The channel's consumers have prefetches of their own again.
    pub(super) fn unshare(&mut self, context: &mut Context<'_>, number: u16) {
        let Some(mut shared) = self.channels.get(number).and_then(|channel| channel.shared.take()) else {
            return;
        };
        shared.most = u32::MAX;
        self.send_waiting(context, number, &mut shared);
        for Member { handle, prefix, own, told, .. } in shared.members {
            let Some(consumer) = self.consumers.get_mut(handle).filter(|consumer| consumer.is_shared())
            else {
                continue;
            };
            consumer.kind = Kind::Plain(prefix);
            if !consumer.is_cancelled {
                self.set_prefetch(context, handle, told, own.into());
            }
        }
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
        let part = shared.part(shared.members.len() + 1).max(1);
        Ok(Some(if own == 0 { part } else { part.min(own) }))
    }

    /// The consumer, just made, shares the channel's prefetch; its queue is told `told`.
    pub(super) fn join(&mut self, number: u16, handle: u32, told: u32) {
        let Some(consumer) = self.consumers.get_mut(handle) else { return };
        let Some(channel) = self.channels.get(number) else { return };
        let Some(shared) = &mut channel.shared else { return };
        let Some(prefix) = consumer.share() else { return };
        shared.add(Member { handle, prefix, own: consumer.prefetch, sent: 0, waiting: 0, told });
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
        let number = consumer.channel;
        let Some(mut shared) = self.channels.get(number).and_then(|channel| channel.shared.take()) else {
            return;
        };
        let memory = &events.memories[memory as usize];
        for item in &events.items[items.start as usize..items.end as usize] {
            let is_next = shared.sent as usize + shared.waiting.len() < shared.most as usize;
            let (item, memory) = if is_next { (*item, memory.clone()) } else { alone(*item, memory) };
            shared.waiting.push_back(Waiting { handle, item, memory });
        }
        shared.seen = None;
        self.send_waiting(context, number, &mut shared);
        if let Some(channel) = self.channels.get(number) {
            channel.shared = Some(shared);
        }
    }

    /// Sends waiting deliveries, as far as the prefetch goes.
    fn send_waiting(&mut self, context: &mut Context<'_>, number: u16, shared: &mut SharedPrefetch) {
        let Some(channel) = self.channels.get(number) else { return };
        while shared.sent < shared.most
            && let Some(Waiting { handle, item, memory }) = shared.waiting.pop_front()
        {
            // Deliveries of members that are gone are back in their queue already.
            let Some(member) = shared.member(handle) else { continue };
            member.sent += 1;
            let tag = channel.next_tag();
            channel.unacked.push(tag, Delivery { consumer: handle, seq: item.seq });
            let message = Enqueue::read(&memory[item.offset as usize..]);
            let message = message.expect("only enqueue records are delivered");
            let outgoing = outgoing(&message, &memory, &mut context.scratch.amqp091);
            self.machine.deliver_rare(&member.prefix, tag, item.is_redelivered(), &outgoing);
            shared.sent += 1;
            shared.seen = None;
        }
    }

    /// Deliveries that wait for a consumer that was cancelled go back; if its queue is gone, they are gone too.
    pub(super) fn drop_waiting(&mut self, context: &mut Context<'_>, handle: u32, goes_back: bool) {
        let Some(consumer) = self.consumers.get(handle).filter(|consumer| consumer.is_shared()) else {
            return;
        };
        let Some(channel) = self.channels.get(consumer.channel) else { return };
        let Some(shared) = &mut channel.shared else { return };
        shared.seen = None;
        let all = std::mem::take(&mut shared.waiting).into_iter();
        let (its, others): (VecDeque<_>, VecDeque<_>) = all.partition(|waiting| waiting.handle == handle);
        shared.waiting = others;
        for Waiting { item, .. } in its.into_iter().filter(|_| goes_back) {
            self.settle_one(context, Delivery { consumer: handle, seq: item.seq }, Outcome::Released);
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
        let Some(mut shared) = channel.shared.take() else { return };
        let consumers = &self.consumers;
        shared.members.retain(|member| consumers.get(member.handle).is_some_and(|it| it.is_shared()));
        if shared.count(channel) {
            self.send_waiting(context, number, &mut shared);
            if let Some(channel) = self.channels.get(number) {
                shared.seen = None;
                shared.count(channel);
            }
            let is_active = |handle: u32| self.consumers.get(handle).is_some_and(|it| !it.is_cancelled);
            let active = shared.members.iter().filter(|member| is_active(member.handle)).count();
            let part = shared.part(active);
            for at in 0..shared.members.len() {
                let Member { handle, own, sent, waiting, told, .. } = shared.members[at];
                if self.consumers.get(handle).is_none_or(|consumer| consumer.is_cancelled) {
                    continue;
                }
                let all = sent.saturating_add(waiting).saturating_add(part);
                let wanted = if own == 0 { all } else { all.min(own.into()) };
                shared.members[at].told = wanted;
                self.tell_prefetch(context, handle, told, wanted);
            }
        }
        if let Some(channel) = self.channels.get(number) {
            channel.shared = Some(shared);
        }
    }

    /// A consumer's queue is told how many may be unsettled at once; it was told `told` before, of which 0 means none.
    fn tell_prefetch(&mut self, context: &mut Context<'_>, handle: u32, told: u32, wanted: u32) {
        if told == wanted {
            return;
        }
        if wanted == 0 {
            return self.tell_pause(context, handle, true);
        }
        self.set_prefetch(context, handle, told, wanted);
    }

    /// As [`Adapter::tell_prefetch`], but 0 means any number.
    fn set_prefetch(&mut self, context: &mut Context<'_>, handle: u32, told: u32, prefetch: u32) {
        let Some(at) = self.consumers.get(handle).map(|consumer| consumer.at) else { return };
        let command = QueueCommand::Prefetch { handle, prefetch };
        context.shard.command(context.now, context.port, at.log, at.queue, command);
        if told == 0 {
            self.tell_pause(context, handle, self.is_paused);
        }
    }

    fn tell_pause(&mut self, context: &mut Context<'_>, handle: u32, paused: bool) {
        let Some(at) = self.consumers.get(handle).map(|consumer| consumer.at) else { return };
        let command = QueueCommand::Pause { handle, paused };
        context.shard.command(context.now, context.port, at.log, at.queue, command);
    }
}
