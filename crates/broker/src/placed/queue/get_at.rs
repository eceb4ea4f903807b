//! Messages that somebody chose by position: taken to be settled, or thrown away.

use crate::placed::queue::at::AtQueue;
use crate::placed::queue::owned::Member;
use crate::request::Reply;
use crate::tally::Count;
use crate::turn::Turn;
use base::id::{PortId, QueueSeq};
use message::record::SeqRange;
use queue::Command;

impl AtQueue<'_> {
    /// Gives the message at a position, if it is ready, to what stands for the gets of `member`. Unlike a get it may be of a queue
    /// that has one consumer active at a time: a request that names a message means no other.
    #[cold]
    pub(crate) fn pick(&mut self, turn: &mut Turn<'_>, member: Member, (token, position): (u32, QueueSeq)) {
        let id = match self.queue.find(member) {
            Some(id) => id,
            None => self.add_getter(turn, member),
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
        let fifo = &mut self.queue.fifo;
        let before = fifo.ready() + fifo.delayed();
        let range = SeqRange { first: position, last: position };
        fifo.apply(Command::Discard { range }, &mut self.commons.effects);
        let messages = before - fifo.ready() - fifo.delayed();
        turn.post.reply(port, token, Ok(Reply::Purged { messages }));
        self.carry_out(turn, None);
        self.mark_dirty();
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
