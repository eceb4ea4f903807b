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

use super::consumer::{Consumer, Kind};
use super::outgoing::{locked, outgoing};
use super::unacked::{Delivery, Unacked};
use crate::context::Context;
use crate::handles::Handles;
use ::amqp091::{Connection, DeliverPrefix, Outgoing};
use base::id::QueueSeq;
use base::{Buffer, Memory};
use broker::{ConsumerRef, Item, QueueCommand};
use message::record::{Enqueue, split};
use std::collections::VecDeque;

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
    /// Until when it is leased, milliseconds since 1970.
    locked_until_ms: Option<u64>,
}

impl SharedPrefetch {
    /// The prefetch: the most that the consumers have together.
    pub(super) fn most(&self) -> u16 {
        self.most as u16
    }

    /// One without members.
    pub(super) fn new(most: u32) -> SharedPrefetch {
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
    fn count(&mut self, unacked: &Unacked, last_tag: u64) -> bool {
        let seen = Some((unacked.len(), last_tag));
        if self.seen == seen {
            return false;
        }
        self.seen = seen;
        self.sent = 0;
        self.members.iter_mut().for_each(|member| (member.sent, member.waiting) = (0, 0));
        for delivery in unacked.iter() {
            if let Some(member) = self.member(delivery.holder()) {
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

    /// Takes in the consumer of this handle, if it is a plain one; its queue was told `told`.
    pub(super) fn join(&mut self, handle: u32, consumer: &mut Consumer, told: u32) {
        let Some(prefix) = consumer.share() else { return };
        self.add(Member { handle, prefix, own: consumer.prefetch, sent: 0, waiting: 0, told });
    }

    /// The number that one consumer more may be sent at first, `own` being its own prefetch (0: none).
    pub(super) fn first_part(&self, own: u32) -> u32 {
        let part = self.part(self.members.len() + 1).max(1);
        if own == 0 { part } else { part.min(own) }
    }

    /// So many deliveries may be unsettled at once from now on.
    pub(super) fn set_most(&mut self, most: u32) {
        (self.most, self.seen) = (most, None);
    }

    /// Keeps deliveries of a member until they are sent; those that are leased, until when, milliseconds since 1970.
    pub(super) fn keep(
        &mut self,
        handle: u32,
        items: &[Item],
        memory: &Memory,
        locked_until_ms: Option<u64>,
    ) {
        for item in items {
            let is_next = self.sent as usize + self.waiting.len() < self.most as usize;
            let (item, memory) = if is_next { (*item, memory.clone()) } else { alone(*item, memory) };
            self.waiting.push_back(Waiting { handle, item, memory, locked_until_ms });
        }
        self.seen = None;
    }

    /// Takes out the positions of a member's deliveries that wait.
    pub(super) fn take_waiting(&mut self, handle: u32) -> Vec<QueueSeq> {
        self.seen = None;
        let all = std::mem::take(&mut self.waiting).into_iter();
        let (its, others): (VecDeque<_>, VecDeque<_>) = all.partition(|waiting| waiting.handle == handle);
        self.waiting = others;
        its.into_iter().map(|waiting| waiting.item.seq).collect()
    }

    /// Takes out waiting deliveries that are meant, by consumer and position.
    pub(super) fn take_meant(&mut self, is_meant: impl Fn(Delivery) -> bool) -> Vec<Delivery> {
        self.seen = None;
        let mut taken = Vec::new();
        self.waiting.retain(|waiting| {
            let delivery = Delivery { consumer: waiting.handle, seq: waiting.item.seq };
            let is_meant = is_meant(delivery);
            taken.extend(is_meant.then_some(delivery));
            !is_meant
        });
        taken
    }

    /// Sends waiting deliveries, as far as the prefetch goes.
    pub(super) fn send_waiting(
        &mut self,
        context: &mut Context<'_>,
        machine: &mut Connection,
        unacked: &mut Unacked,
        last_tag: &mut u64,
    ) {
        while self.sent < self.most
            && let Some(Waiting { handle, item, memory, locked_until_ms }) = self.waiting.pop_front()
        {
            // Deliveries of members that are gone are back in their queue already.
            let Some(member) = self.member(handle) else { continue };
            member.sent += 1;
            *last_tag += 1;
            unacked.push(*last_tag, Delivery { consumer: handle, seq: item.seq });
            let message = Enqueue::read(&memory[item.offset as usize..]);
            let message = message.expect("only enqueue records are delivered");
            let outgoing = outgoing(&message, &memory, &mut context.scratch.amqp091);
            let head = locked_until_ms.map(|until_ms| locked(outgoing.head, until_ms));
            let outgoing = Outgoing { head: head.as_deref().unwrap_or(outgoing.head), ..outgoing };
            machine.deliver_rare(&member.prefix, *last_tag, item.is_redelivered(), &outgoing);
            self.sent += 1;
            self.seen = None;
        }
    }

    /// Deals the rest of the prefetch out among the members, if anything has changed. `is_paused`: there is much to send.
    pub(super) fn deal_out(
        &mut self,
        context: &mut Context<'_>,
        machine: &mut Connection,
        consumers: &Handles<Consumer>,
        (unacked, last_tag): (&mut Unacked, &mut u64),
        is_paused: bool,
    ) {
        self.members.retain(|member| consumers.get(member.handle).is_some_and(|it| it.is_shared()));
        if !self.count(unacked, *last_tag) {
            return;
        }
        self.send_waiting(context, machine, unacked, last_tag);
        self.seen = None;
        self.count(unacked, *last_tag);
        let active = |handle: u32| consumers.get(handle).filter(|consumer| !consumer.is_cancelled);
        let count = self.members.iter().filter(|member| active(member.handle).is_some()).count();
        let part = self.part(count);
        for member in &mut self.members {
            let Some(consumer) = active(member.handle) else { continue };
            let Member { own, sent, waiting, told, .. } = *member;
            let all = sent.saturating_add(waiting).saturating_add(part);
            let wanted = if own == 0 { all } else { all.min(own.into()) };
            member.told = wanted;
            tell_prefetch(context, consumer.at, (told, wanted), is_paused);
        }
    }

    /// Its members have prefetches of their own again.
    pub(super) fn dissolve(
        self,
        context: &mut Context<'_>,
        consumers: &mut Handles<Consumer>,
        is_paused: bool,
    ) {
        for Member { handle, prefix, own, told, .. } in self.members {
            let Some(consumer) = consumers.get_mut(handle).filter(|consumer| consumer.is_shared()) else {
                continue;
            };
            consumer.kind = Kind::Plain(prefix);
            if !consumer.is_cancelled {
                set_prefetch(context, consumer.at, (told, own.into()), is_paused);
            }
        }
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

/// A consumer's queue is told how many may be unsettled at once; it was told `told` before, of which 0 means none.
fn tell_prefetch(context: &mut Context<'_>, at: ConsumerRef, (told, wanted): (u32, u32), is_paused: bool) {
    if told == wanted {
        return;
    }
    if wanted == 0 {
        return tell_pause(context, at, true);
    }
    set_prefetch(context, at, (told, wanted), is_paused);
}

/// As [`tell_prefetch`], but 0 means any number.
fn set_prefetch(context: &mut Context<'_>, at: ConsumerRef, (told, prefetch): (u32, u32), is_paused: bool) {
    let command = QueueCommand::Prefetch { handle: at.handle, prefetch };
    context.shard.command(context.now, context.port, at.log, at.queue, command);
    if told == 0 {
        tell_pause(context, at, is_paused);
    }
}

fn tell_pause(context: &mut Context<'_>, at: ConsumerRef, paused: bool) {
    let command = QueueCommand::Pause { handle: at.handle, paused };
    context.shard.command(context.now, context.port, at.log, at.queue, command);
}
