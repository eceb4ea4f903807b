//! Messages out, outcomes in.

use super::Adapter;
use super::link::{Activity, ConsumerAt, End};
use super::outcomes::{Added, NOT_TO_BE_ADDED, outcome_of};
use crate::context::Context;
use crate::handles::is_leased;
use ::amqp10::{
    Body, Delivery, Disposition, LinkFlow, LinkId, NotSent, Outcome as WireOutcome, Role, Room, Run,
    SessionId, condition,
};
use base::Memory;
use base::id::QueueSeq;
use broker::catalog::QueueType;
use broker::{ConsumerRef, Count, Events, Protocol, QueueCommand};
use message::amqp10::{Encoder, Map};
use message::record::{Enqueue, Outcome, SeqRange};
use std::ops::Range;

/// The stored body as a range of the memory it lies in: so it can go out by reference.
#[inline]
fn body<'a>(message: &Enqueue<'a>, memory: &'a Memory) -> Body<'a> {
    let start = message.body.as_ptr() as usize - memory.as_ptr() as usize;
    Body::Memory(memory, start..start + message.body.len())
}

/// The kinds of deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// As most are.
    Plain,
    /// They say until when they are leased.
    Leased,
    /// They are barriers.
    Barrier,
}

impl Adapter {
    #[inline]
    pub(super) fn deliver(
        &mut self,
        context: &mut Context<'_>,
        consumer: u32,
        memory: u32,
        items: Range<u32>,
        events: &Events,
    ) {
        match self.consumers.get(consumer) {
            Some(found) => self.send::<true>(context, (*found, How::Plain), memory, items, events),
            None => self.deliver_marked(context, consumer, memory, items, events),
        }
    }

    /// Deliveries of a consumer that is gone, or that are told of or leased.
    #[cold]
    #[inline(never)]
    fn deliver_marked(
        &mut self,
        context: &mut Context<'_>,
        consumer: u32,
        memory: u32,
        items: Range<u32>,
        events: &Events,
    ) {
        let Some(found) = self.tell_delivered(context, consumer, memory, items.clone(), events) else {
            return;
        };
        let how = if is_leased(consumer) { How::Leased } else { How::Plain };
        self.send::<false>(context, (found, how), memory, items, events);
    }

    /// A barrier for a consumer.
    #[cold]
    #[inline(never)]
    pub(super) fn deliver_barrier(
        &mut self,
        context: &mut Context<'_>,
        consumer: u32,
        memory: u32,
        items: Range<u32>,
        events: &Events,
    ) {
        let found = match self.consumers.get(consumer) {
            Some(found) => Some(*found),
            None => self.tell_delivered(context, consumer, memory, items.clone(), events),
        };
        if let Some(found) = found {
            self.send::<false>(context, (found, How::Barrier), memory, items, events);
        }
    }

    /// Sends a consumer deliveries, which say how long it has them where they are leased, and are settled where they are
    /// barriers. Most are plain, and have code of their own.
    #[inline]
    fn send<const IS_PLAIN: bool>(
        &mut self,
        context: &mut Context<'_>,
        (found, how): (ConsumerAt, How),
        memory: u32,
        items: Range<u32>,
        events: &Events,
    ) {
        let ConsumerAt { session: id, link, at, of, .. } = found;
        let count = u64::from(items.end - items.start);
        let how = if IS_PLAIN { How::Plain } else { how };
        let locked_until_ms = if how == How::Leased { self.locked_until_ms(context, id, link) } else { None };
        let Some(session) = self.sessions.get_mut(id) else { return };
        let Some(End::Source { settled, mixes, tag, .. }) = session.link(link).map(|link| &mut link.end)
        else {
            return;
        };
        // Where a receiver wants all unsettled, a barrier is too, and what becomes of it is nothing to its queue.
        let settled = *settled || how == How::Barrier && *mixes;
        let bytes = &events.memories[memory as usize];
        let mut again = 0;
        for item in &events.items[items.start as usize..items.end as usize] {
            let message = events.message(memory, item);
            let heads = &mut context.scratch.heads;
            let head = match locked_until_ms {
                Some(until_ms) if how == How::Leased => heads.leased(&message, item, until_ms),
                _ => heads.of(&message, item),
            };
            again += u64::from(item.is_redelivered());
            *tag = tag.wrapping_add(1);
            let delivery = Delivery {
                tag: &tag.to_be_bytes(),
                settled,
                token: item.seq.0,
                head: &[head],
                body: body(&message, bytes),
            };
            let mut sent = self.machine.transfer(id, link, &delivery);
            if sent == Err(NotSent::NoCredit) && (settled || how == How::Barrier) && at.is_some() {
                // The peer took credit back meanwhile. Deliveries settled in advance have left their queue: this one
                // was on its way.
                self.machine.lend_credit(id, link);
                sent = self.machine.transfer(id, link, &delivery);
            }
            match sent {
                Ok(_) => {}
                Err(NotSent::TooLarge) => {
                    let size = delivery.bytes();
                    return self.too_large(context, id, link, size);
                }
                // The same, where nothing is settled yet, or it leaves too much unsettled: it goes back untouched.
                Err(why @ (NotSent::NoCredit | NotSent::TooManyUnsettled | NotSent::Detached)) => {
                    // A reply goes nowhere.
                    let Some(at) = at else { continue };
                    if let Some(consumer) = self.consumers.get_mut(at.handle) {
                        consumer.lacks_credit |= why == NotSent::TooManyUnsettled;
                    }
                    let range = SeqRange { first: item.seq, last: item.seq };
                    let back = QueueCommand::Unsent { handle: at.handle, range };
                    context.shard.command(context.now, context.port, at.log, at.queue, back);
                }
            }
        }
        if self.machine.room(id) < session.room {
            self.look_at_room(context, id);
        }
        let what = if settled { Count::DeliverNoAck } else { Count::Deliver };
        self.note_of(context, of, what, count);
        if again > 0 {
            self.note_of(context, of, Count::Redeliver, again);
        }
    }

    /// So many more of something, of a queue of this type.
    #[inline]
    pub(super) fn note_of(&self, context: &mut Context<'_>, of: QueueType, count: Count, more: u64) {
        if let Some(actor) = &self.actor {
            context.shard.tallies().note_of(actor.vhost, Protocol::Amqp10, of, count, more);
        }
    }

    /// A message is larger than the link's receiver takes: the session ends, as in RabbitMQ.
    #[cold]
    #[inline(never)]
    pub(super) fn too_large(&mut self, context: &mut Context<'_>, id: SessionId, link: LinkId, size: usize) {
        let most = self.machine.message_bytes_max(id, link).unwrap_or_default();
        let text = format!("message size ({size} bytes) > maximum message size ({most} bytes)");
        self.end_session(context, id, condition::MESSAGE_SIZE_EXCEEDED, &text);
    }

    /// The peer told the state or outcome of deliveries.
    #[inline]
    pub(super) fn disposition(&mut self, context: &mut Context<'_>, disposition: &Disposition<'_>) {
        let Disposition { session: id, role, first, last, settled, outcome } = *disposition;
        if role != Role::Sender {
            return;
        }
        let wire = match outcome {
            Some(wire) if wire.is_terminal() => wire,
            Some(WireOutcome::Transactional { id, outcome }) => {
                return self.retire(context, disposition, id, outcome);
            }
            // How much has arrived: the receiver is at work.
            Some(WireOutcome::Received { .. }) if !settled => return self.renew(context, id, first, last),
            // A state that is no outcome: nothing ends.
            Some(_) => return,
            // Settled without a word: the default outcome.
            None if settled => WireOutcome::Released,
            None => return,
        };
        if let WireOutcome::Modified { annotations, .. } = &wire
            && !annotations.is_empty()
        {
            return self.modified(context, disposition, &wire, annotations);
        }
        let outcome = outcome_of(&wire);
        let Some(session) = self.sessions.get(id) else { return };
        let has_room = session.room == Room::Anything;
        let consumers = &self.consumers;
        // Settles kept back because more of the same may follow.
        let mut kept: Option<(ConsumerRef, SeqRange)> = None;
        let may_scatter = first != last && outcome == Outcome::Accepted;
        let vhost = session.publisher.vhost();
        self.machine.settle(id, first, last, |Run { link, token, count, .. }| {
            let found = session.links.iter().find(|it| it.id.0 == link);
            let Some(End::Source { consumer, .. }) = found.map(|link| &link.end) else { return };
            let Some(ConsumerAt { at: Some(at), of, .. }) = consumers.get(*consumer) else { return };
            let ConsumerRef { log, queue, handle } = *at;
            if outcome == Outcome::Accepted {
                context.shard.tallies().note_of(vhost, Protocol::Amqp10, *of, Count::Ack, count.into());
            }
            let range = SeqRange { first: QueueSeq(token), last: QueueSeq(token + u64::from(count) - 1) };
            if may_scatter {
                return keep(context, &mut kept, (*at, range));
            }
            let command = QueueCommand::Settle { handle, range, outcome };
            context.shard.command(context.now, context.port, log, queue, command);
        });
        if let Some((at, range)) = kept {
            pass_on(context, at, range);
        }
        if !settled {
            self.machine.dispose(id, Role::Sender, first, last, true, Some(&wire));
        }
        if !has_room {
            self.look_at_room(context, id);
        }
    }

    /// The peer gave deliveries back with annotations, `added` to those they have, perhaps to be delivered again at a
    /// time of its choice.
    #[cold]
    #[inline(never)]
    fn modified(
        &mut self,
        context: &mut Context<'_>,
        disposition: &Disposition<'_>,
        wire: &WireOutcome<'_>,
        annotations: &Map<'_>,
    ) {
        let Disposition { session: id, first, last, settled, .. } = *disposition;
        let Some(added) = Added::new(annotations) else {
            return self.end_session(context, id, condition::INVALID_FIELD, NOT_TO_BE_ADDED);
        };
        let outcome = outcome_of(wire);
        let Some(session) = self.sessions.get(id) else { return };
        let consumers = &self.consumers;
        self.machine.settle(id, first, last, |Run { link, token, count, .. }| {
            let found = session.links.iter().find(|it| it.id.0 == link);
            let Some(End::Source { consumer, .. }) = found.map(|link| &link.end) else { return };
            let Some(ConsumerAt { at: Some(at), .. }) = consumers.get(*consumer) else { return };
            let ConsumerRef { log, queue, handle } = *at;
            let range = SeqRange { first: QueueSeq(token), last: QueueSeq(token + u64::from(count) - 1) };
            let command = added.command(handle, range, outcome);
            context.shard.command(context.now, context.port, log, queue, command);
        });
        if !settled {
            self.machine.dispose(id, Role::Sender, first, last, true, Some(wire));
        }
        self.look_at_room(context, id);
    }

    /// The peer's flow of a link: credit for a consumer, or news of a sender.
    pub(super) fn flow(&mut self, context: &mut Context<'_>, flow: &LinkFlow<'_>) {
        if flow.role == Role::Receiver {
            self.is_due |= self.is_target(flow.session, flow.link);
            return;
        }
        let Some(session) = self.sessions.get_mut(flow.session) else {
            return;
        };
        let Some(End::Source { consumer, activity, .. }) = session.link(flow.link).map(|link| &link.end)
        else {
            // Answers of the management node: there is nothing to send until something is asked.
            if flow.drain {
                self.machine.drained(flow.session, flow.link, flow.credit, Map::default());
            } else if flow.echo {
                self.machine.report(flow.session, flow.link, Some(0), Map::default());
            }
            return;
        };
        let Some(ConsumerAt { at, .. }) = self.consumers.get(*consumer) else { return };
        let limit = flow.delivery_count.wrapping_add(flow.link_credit);
        // One that drains is answered anyhow, and one whose receiver has not heard yet whether it is active.
        let echo = (flow.echo || matches!(activity, Activity::Due(_))) && !flow.drain;
        match *at {
            Some(ConsumerRef { log, queue, handle }) => {
                let command = QueueCommand::Credit { handle, limit, drain: flow.drain, echo };
                context.shard.command(context.now, context.port, log, queue, command);
            }
            None => context.shard.credit_reply(context.port, *consumer, limit, flow.drain, echo),
        }
        self.look_at_room(context, flow.session);
    }

    /// Of the consumers of a queue that has one active at a time, this one is it now, or is it no more.
    pub(super) fn is_active(&mut self, consumer: u32, active: bool) {
        let Some(ConsumerAt { session, link, .. }) = self.consumers.get(consumer).copied() else { return };
        let Some(found) = self.session(session).and_then(|session| session.link(link)) else { return };
        let End::Source { activity, .. } = &mut found.end else { return };
        if matches!(activity, Activity::Never) || *activity == Activity::Told(active) {
            return;
        }
        *activity = Activity::Due(active);
        let mut bytes = Vec::new();
        let properties = self.activity(session, link, &mut bytes);
        self.machine.report(session, link, Some(0), properties);
    }

    /// A receiver held deliveries for too long: they are released, and it is to settle them before it gets more (§2.6.12).
    pub(super) fn timed_out(&mut self, consumer: u32, range: SeqRange) {
        if let Some(ConsumerAt { session, link, .. }) = self.consumers.get(consumer).copied() {
            if let Some(held) = self.session(session).and_then(|session| session.link(link)) {
                held.particulars.has_timed_out = true;
            }
            self.machine.tell_state(session, link, range.first.0, range.last.0, &WireOutcome::Released);
        }
    }

    /// The properties of a flow that tells a receiver whether it is active, if it has not heard so yet; none else.
    pub(super) fn activity<'b>(
        &mut self,
        session: SessionId,
        link: LinkId,
        bytes: &'b mut Vec<u8>,
    ) -> Map<'b> {
        let found = self.session(session).and_then(|session| session.link(link));
        let Some(End::Source { activity, .. }) = found.map(|link| &mut link.end) else {
            return Map::default();
        };
        let Activity::Due(active) = *activity else { return Map::default() };
        *activity = Activity::Told(active);
        let mut encoder = Encoder::new(bytes);
        encoder.symbol("rabbitmq:active");
        encoder.boolean(active);
        Map::new(2, bytes)
    }

    /// A session may have more room than its consumers know of, or less: those that it has no room for pause, and others go on.
    #[cold]
    #[inline(never)]
    pub(super) fn look_at_room(&mut self, context: &mut Context<'_>, id: SessionId) {
        let now = self.machine.room(id);
        let Some(session) = self.session(id) else { return };
        let before = std::mem::replace(&mut session.room, now);
        if before == now || self.is_paused {
            return;
        }
        let moved = |consumer: &ConsumerAt| {
            consumer.session == id && before.takes(consumer.settled) != now.takes(consumer.settled)
        };
        let moved = self.consumers.iter().filter(|(_, consumer)| moved(consumer));
        let moved: Vec<u32> = moved.map(|(handle, _)| handle).collect();
        for handle in moved {
            self.pause(context, handle, now < before);
        }
    }

    /// A consumer that comes to this session now is to wait: there is much to send, or no room for its deliveries.
    pub(super) fn begins_paused(&mut self, id: SessionId, settled: bool) -> bool {
        self.is_paused || self.session(id).is_some_and(|session| !session.room.takes(settled))
    }

    /// A consumer pauses, or goes on with the credit that its link has.
    fn pause(&mut self, context: &mut Context<'_>, handle: u32, paused: bool) {
        let Some(ConsumerAt { session, link, at, lacks_credit, .. }) = self.consumers.get_mut(handle) else {
            return;
        };
        let Some(ConsumerRef { log, queue, .. }) = *at else {
            return context.shard.pause_reply(context.port, handle, paused);
        };
        if !paused
            && std::mem::take(lacks_credit)
            && let Some((limit, drain)) = self.machine.limit(*session, *link)
        {
            let command = QueueCommand::Credit { handle, limit, drain, echo: false };
            context.shard.command(context.now, context.port, log, queue, command);
        }
        let command = QueueCommand::Pause { handle, paused };
        context.shard.command(context.now, context.port, log, queue, command);
    }

    /// There is much to send, or no longer: consumers pause or go on, but for those that wait for room anyhow.
    pub(crate) fn set_paused(&mut self, context: &mut Context<'_>, paused: bool) {
        self.is_paused = paused;
        let sessions = &self.sessions;
        let has_room = |consumer: &ConsumerAt| {
            let session = sessions.get(consumer.session);
            session.is_some_and(|session| session.room.takes(consumer.settled))
        };
        let moved = self.consumers.iter().filter(|(_, consumer)| has_room(consumer));
        let moved: Vec<u32> = moved.map(|(handle, _)| handle).collect();
        for handle in moved {
            self.pause(context, handle, paused);
        }
    }
}

/// Keeps positions that were accepted back until the next ones are known, and passes on those that no others of the
/// same consumer follow.
#[cold]
#[inline(never)]
fn keep(
    context: &mut Context<'_>,
    kept: &mut Option<(ConsumerRef, SeqRange)>,
    (at, range): (ConsumerRef, SeqRange),
) {
    if let Some((before, kept)) = kept.replace((at, range))
        && (before != at || !context.scratch.scattered.add(kept))
    {
        pass_on(context, before, kept);
    }
}

/// Settles the positions kept back of this consumer, `last` being the last of them.
#[cold]
#[inline(never)]
fn pass_on(context: &mut Context<'_>, at: ConsumerRef, last: SeqRange) {
    let Context { now, port, shard, scratch, .. } = context;
    scratch.scattered.pass_on(*now, shard, *port, at, last);
}
