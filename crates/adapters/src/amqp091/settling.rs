//! Positions that a client settled and that are not yet passed on: they grow while acks follow on each other.
//!
//! Invariant: positions set aside in the scratch memory are of the consumer, and have the outcome, of the last ones.

use super::channel::Channels;
use super::consumer::Consumer;
use super::unacked::{Delivery, whose_is_over};
use crate::context::Context;
use crate::handles::Handles;
use base::id::QueueSeq;
use broker::{ConsumerRef, Count, QueueCommand};
use message::record::{Outcome, SeqRange};

/// Cancelled consumers that are to be looked after when the turn ends, for something they held was settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Leaving {
    /// None.
    #[default]
    Nobody,
    /// The one of this handle.
    One(u32),
    /// Any of them.
    Several,
}

impl Leaving {
    fn add(&mut self, handle: u32) {
        match *self {
            Leaving::Nobody => *self = Leaving::One(handle),
            Leaving::One(is) if is == handle => {}
            _ => *self = Leaving::Several,
        }
    }
}

/// Positions of one consumer that follow on each other and are to be settled alike.
#[derive(Debug)]
struct Settling {
    consumer: u32,
    outcome: Outcome,
    first: QueueSeq,
    last: QueueSeq,
}

/// The positions settled last, and the cancelled consumers that had some.
#[derive(Debug, Default)]
pub(super) struct Settled {
    last: Option<Settling>,
    leaving: Leaving,
}

impl Settled {
    /// Nothing waits to be passed on.
    pub(super) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Positions of this consumer wait to be passed on.
    pub(super) fn is_of(&self, consumer: u32) -> bool {
        self.last
            .as_ref()
            .is_some_and(|last| last.consumer == consumer || whose_is_over(last.consumer) == Some(consumer))
    }

    /// The cancelled consumers to look after, if a turn has any; it has none afterwards.
    #[inline]
    pub(super) fn take_leaving(&mut self) -> Option<Leaving> {
        let leaving = std::mem::take(&mut self.leaving);
        (leaving != Leaving::Nobody).then_some(leaving)
    }

    /// Settles a delivery, together with others that follow on it.
    #[inline]
    pub(super) fn settle(
        &mut self,
        context: &mut Context<'_>,
        (consumers, channels): (&mut Handles<Consumer>, &mut Channels),
        delivery: Delivery,
        outcome: Outcome,
    ) {
        let Delivery { consumer, seq } = delivery;
        if let Some(last) = &mut self.last {
            if last.consumer == consumer && last.outcome == outcome && last.last.0 + 1 == seq.0 {
                last.last = seq;
                return;
            }
            self.set_aside(context, (consumers, channels), delivery, outcome);
        }
        self.last = Some(Settling { consumer, outcome, first: seq, last: seq });
    }

    /// The positions settled last make room for the next, with which they are passed on if that may be.
    #[cold]
    #[inline(never)]
    fn set_aside(
        &mut self,
        context: &mut Context<'_>,
        (consumers, channels): (&mut Handles<Consumer>, &mut Channels),
        next: Delivery,
        outcome: Outcome,
    ) {
        let Some(settling) = &self.last else { return };
        let Settling { consumer, first, last, .. } = *settling;
        let is_alike = settling.outcome == outcome && consumer == next.consumer;
        // The same position may be over several times.
        let is_alike = is_alike && whose_is_over(consumer).is_none();
        // How the others end has to do with their order.
        if outcome != Outcome::Accepted
            || !is_alike
            || !context.scratch.scattered.add(SeqRange { first, last })
        {
            self.pass_on(context, (consumers, channels));
        }
    }

    /// Passes on the positions settled last.
    #[inline]
    pub(super) fn pass_on(
        &mut self,
        context: &mut Context<'_>,
        (consumers, channels): (&mut Handles<Consumer>, &mut Channels),
    ) {
        let Some(Settling { consumer, outcome, first, last }) = self.last.take() else { return };
        if outcome == Outcome::Accepted {
            let count = last.0 - first.0 + 1 + context.scratch.scattered.count();
            count_accepted(context, (consumers, channels), consumer, count);
        }
        let range = SeqRange { first, last };
        let Some(found) = consumers.get(consumer) else {
            return self.pass_on_over(context, consumers, (consumer, range));
        };
        if found.is_cancelled {
            self.leaving.add(consumer);
        }
        let ConsumerRef { log, queue, handle } = found.at;
        if !context.scratch.scattered.is_empty() {
            let Context { now, port, shard, scratch, .. } = context;
            return scratch.scattered.pass_on(*now, shard, *port, found.at, range);
        }
        let command = QueueCommand::Settle { handle, range, outcome };
        context.shard.command(context.now, context.port, log, queue, command);
    }
}

impl Settled {
    /// Positions of nobody are forgotten; of deliveries whose leases were over the queue is told.
    #[cold]
    #[inline(never)]
    fn pass_on_over(
        &mut self,
        context: &mut Context<'_>,
        consumers: &Handles<Consumer>,
        (consumer, range): (u32, SeqRange),
    ) {
        context.scratch.scattered.clear();
        let Some(handle) = whose_is_over(consumer) else { return };
        let Some(found) = consumers.get(handle) else { return };
        if found.is_cancelled {
            self.leaving.add(handle);
        }
        let ConsumerRef { log, queue, handle } = found.at;
        let command = QueueCommand::SettleOver { handle, range };
        context.shard.command(context.now, context.port, log, queue, command);
    }
}

#[inline]
fn count_accepted(
    context: &mut Context<'_>,
    (consumers, channels): (&mut Handles<Consumer>, &mut Channels),
    consumer: u32,
    count: u64,
) {
    let Some(Consumer { channel, of, accepted, .. }) = consumers.get_mut(consumer) else { return };
    *accepted += count;
    if let Some(channel) = channels.get(*channel) {
        channel.note(context, *of, Count::Ack, count);
    }
}
