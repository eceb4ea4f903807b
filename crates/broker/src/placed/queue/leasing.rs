//! Leases of a queue's messages: consumers are told of them, and asked when they are over.
//!
//! A lease ends in two steps ([`queue::Fifo::lease_over`]): the machine tells, at a look, which are over, and the consumer's
//! connection answers which of these it has not settled. Messages that it was never sent go back at once, uncounted: their
//! lease begins when they are sent.

use crate::event::Event;
use crate::placed::queue::at::AtQueue;
use crate::placed::queue::owned::Member;
use crate::post::Post;
use crate::request::LeaseOver;
use crate::turn::Turn;
use base::RangeSet;
use base::id::{PortId, QueueSeq};
use base::ranges::Range;
use message::record::{Outcome, SeqRange};
use queue::{Command, ConsumerId, Late};

impl AtQueue<'_> {
    /// A consumer that is new is told how long it has its messages, where that has an end.
    pub(crate) fn tell_lease(&mut self, member: Member, post: &mut Post) {
        if let Some(lease_ms) = self.queue.lease_ms() {
            let Member { port, handle } = member;
            post.event(port, Event::Leased { consumer: handle, lease_ms: Some(lease_ms) });
        }
    }

    /// Consumers have their messages for another time from now on.
    #[cold]
    pub(crate) fn change_lease(&mut self, turn: &mut Turn<'_>) {
        let lease_ms = self.queue.lease_ms();
        for Member { port, handle } in self.queue.changed_lease() {
            turn.post.event(port, Event::Leased { consumer: handle, lease_ms });
        }
        self.arm_look(turn.now);
    }

    /// A message is sent that was handed out before: its lease begins now.
    pub(crate) fn lease_from_now(&mut self, consumer: ConsumerId, seq: QueueSeq) {
        if self.queue.lease_ms().is_some() {
            self.queue.fifo.renew(consumer, SeqRange { first: seq, last: seq });
        }
    }

    /// A consumer's connection is asked which of these messages it has not settled.
    #[cold]
    pub(crate) fn tell_over(&mut self, late: &Late, post: &mut Post) {
        let back = |at: &mut AtQueue<'_>, range| {
            let back = Command::Settle { consumer: late.consumer, range, outcome: Outcome::Released };
            at.queue.fifo.apply(back, &mut at.commons.effects);
        };
        if let Some((member, told)) = self.without_unsent(late, post, back) {
            AtQueue::tell_taken(member, &told, post);
        }
    }

    /// Tells a consumer's connection which of its messages are to be, or are, its own no longer.
    pub(crate) fn tell_taken(member: Member, told: &RangeSet, post: &mut Post) {
        let Member { port, handle } = member;
        if !told.is_empty() {
            let ranges = told
                .iter()
                .map(|Range { first, last }| SeqRange { first: QueueSeq(first), last: QueueSeq(last) });
            post.event(port, Event::LeaseOver { consumer: handle, ranges: ranges.collect() });
        }
    }

    /// A connection answers which of the messages whose leases are over it has not settled.
    #[cold]
    pub(crate) fn lease_over(&mut self, turn: &mut Turn<'_>, port: PortId, answer: &LeaseOver) {
        let LeaseOver { handle, asked, over, is_late } = answer;
        let queue = &mut *self.queue;
        let Some(id) = queue.find(Member { port, handle: *handle }) else { return };
        let count = queue.fifo.lease_over(id, over, *is_late, &mut self.commons.effects);
        queue.fifo.lease_on(id, asked);
        queue.count_over(count);
        self.carry_out(turn, None);
        self.mark_dirty();
    }

    /// A consumer settles what was no longer its own.
    #[cold]
    pub(crate) fn settle_over(&mut self, member: Member, range: SeqRange) {
        if let Some(id) = self.queue.find(member) {
            self.queue.fifo.settle_over(id, range);
            self.mark_dirty();
        }
    }

    /// A consumer says that it is at work on messages: their leases begin anew.
    #[cold]
    pub(crate) fn renew(&mut self, member: Member, range: SeqRange) {
        if let Some(id) = self.queue.find(member) {
            self.queue.fifo.renew(id, range);
        }
    }
}
