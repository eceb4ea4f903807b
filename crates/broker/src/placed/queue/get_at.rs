//! Messages that somebody chose by position: taken to be settled, thrown away, or settled whoever holds them.

use crate::placed::queue::at::AtQueue;
use crate::placed::queue::owned::Member;
use crate::request::{Reply, SettleAt};
use crate::tally::Count;
use crate::turn::Turn;
use base::id::{PortId, QueueSeq};
use message::record::{Outcome, SeqRange};
use queue::{Command, ConsumerId, Late};
use std::collections::BTreeMap;

impl AtQueue<'_> {
    /// Gives the message at a position, if it is ready, to what stands for the gets of `member`. Unlike a get it may be of a queue
    /// that has one consumer active at a time: a request that names a message means no other.
    #[cold]
    pub(crate) fn pick(&mut self, turn: &mut Turn<'_>, member: Member, (token, position): (u32, QueueSeq)) {
        let id = match self.queue.find(member) {
            Some(id) => id,
            None => self.add_getter(turn, member, true),
        };
        let owned = &mut *self.queue;
        let range = SeqRange { first: position, last: position };
        let is_there = owned.fifo.pick(id, range, turn.now.wall_ms, &mut self.commons.effects) > 0;
        owned.count(if is_there { Count::Get } else { Count::GetEmpty }, 1);
        if !is_there {
            turn.post.reply(member.port, token, Ok(Reply::Empty));
        }
        self.carry_out(turn, Some(token));
        self.used(turn.now);
        self.mark_dirty();
    }

    /// Throws the message at a position away, if it is ready or delayed.
    #[cold]
    pub(crate) fn discard(&mut self, turn: &mut Turn<'_>, port: PortId, (token, position): (u32, QueueSeq)) {
        let range = SeqRange { first: position, last: position };
        let messages = self.end_ready(Command::Discard { range });
        turn.post.reply(port, token, Ok(Reply::Purged { messages }));
        self.carry_out(turn, None);
        self.mark_dirty();
    }

    /// Has the machine end messages that are ready or delayed; how many it were.
    fn end_ready(&mut self, command: Command) -> u64 {
        let fifo = &mut self.queue.fifo;
        let before = fifo.ready() + fifo.delayed();
        fifo.apply(command, &mut self.commons.effects);
        before - fifo.ready() - fifo.delayed()
    }

    /// Settles the messages at some positions, those that are ready and those that consumers hold. Messages that the node
    /// itself holds are on their way to another queue, and stay with it.
    #[cold]
    pub(crate) fn settle_at(&mut self, turn: &mut Turn<'_>, port: PortId, settle: &SettleAt) {
        let mut sorted = settle.positions.to_vec();
        base::brief::sort(&mut sorted);
        let held: BTreeMap<QueueSeq, ConsumerId> = self.queue.fifo.held_among(&sorted).into_iter().collect();
        self.take_from_holders(turn, &held);
        let outcome = if settle.rejects { Outcome::Rejected } else { Outcome::Accepted };
        let mut missing = Vec::new();
        for &position in &settle.positions {
            let range = SeqRange { first: position, last: position };
            let is_settled = match held.get(&position) {
                Some(id) if self.queue.is_own(*id) => false,
                Some(id) => {
                    self.queue.watched(range, turn.now);
                    let settle = Command::Settle { consumer: *id, range, outcome };
                    self.queue.fifo.apply(settle, &mut self.commons.effects);
                    true
                }
                None if settle.rejects => self.end_ready(Command::Reject { range }) > 0,
                None => self.end_ready(Command::Discard { range }) > 0,
            };
            if !is_settled {
                missing.push(position);
            }
        }
        turn.post.reply(port, settle.token, Ok(Reply::Settled { missing: missing.into() }));
        self.carry_out(turn, None);
        self.used(turn.now);
        self.mark_dirty();
    }

    /// Tells the holders of these messages that they hold them no longer, as where leases are over. The connections have
    /// nothing to say to that: what they do about the messages from here on is passed over. Messages that were not sent yet
    /// will not be.
    fn take_from_holders(&mut self, turn: &mut Turn<'_>, held: &BTreeMap<QueueSeq, ConsumerId>) {
        let mut by_holder: BTreeMap<ConsumerId, Vec<SeqRange>> = BTreeMap::new();
        for (&position, id) in held.iter().filter(|(_, id)| !self.queue.is_own(**id)) {
            let range = SeqRange { first: position, last: position };
            by_holder.entry(*id).or_default().push(range);
        }
        for (consumer, ranges) in by_holder {
            let taken = Late { consumer, ranges, is_leased: true };
            if let Some((member, sent)) = self.without_unsent(&taken, turn.post, |_, _| {}) {
                AtQueue::tell_taken(member, &sent, turn.post);
            }
        }
    }

    /// Throws delayed messages away; how many of `ids` were there.
    pub(crate) fn cancel_delayed(&mut self, turn: &mut Turn<'_>, ids: &[u64]) -> u64 {
        let mut cancelled = 0;
        for id in ids.iter().map(|id| QueueSeq(*id)) {
            let range = SeqRange { first: id, last: id };
            let fifo = &mut self.queue.fifo;
            cancelled += fifo.delayed_within(range);
            fifo.apply(Command::CancelDelayed { range }, &mut self.commons.effects);
        }
        self.carry_out(turn, None);
        self.commons.pipeline.flush_soon();
        self.mark_dirty();
        cancelled
    }
}
