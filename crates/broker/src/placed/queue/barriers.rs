//! Barriers of a queue: messages that every consumer is given, settled in advance.
//!
//! A barrier whose bytes are away waits for each of its consumers as any delivery does. Its end, which the machine asks for
//! when all have it, is appended with the last of these: what is settled is nowhere to be read.

use crate::placed::queue::at::AtQueue;
use crate::placed::queue::owned::Waiting;
use crate::post::Post;
use base::Now;
use base::id::QueueSeq;
use message::record::{Kind, Outcome, SeqRange};
use queue::ConsumerId;

impl AtQueue<'_> {
    /// Delivers a barrier to a consumer.
    #[cold]
    #[inline(never)]
    pub(crate) fn deliver_barrier(
        &mut self,
        consumer: ConsumerId,
        seq: QueueSeq,
        marks: u32,
        post: &mut Post,
    ) {
        let is_annotated = self.queue.fifo.annotations(seq).is_some();
        let waiting = Waiting { is_annotated, is_barrier: true, ..Waiting::new(consumer, seq, marks, None) };
        let is_out = !self.queue.is_waiting()
            && match is_annotated {
                true => self.try_deliver_annotated(waiting, post),
                false => self.try_deliver(waiting, post),
            };
        if !is_out {
            self.queue.wait(waiting);
        }
    }

    /// A barrier was not sent to a consumer that goes: it is ready again if nobody was sent it, and if others were, and wait no
    /// more, its end is appended.
    #[cold]
    pub(crate) fn barrier_unsent(&mut self, now: Now, seq: QueueSeq) {
        if self.queue.fifo.barrier_unsent(seq) && !self.queue.waits_for_barrier(seq) {
            let range = SeqRange { first: seq, last: seq };
            let (id, outcome) = (self.queue.id, Outcome::Accepted);
            self.commons.pipeline.append_positions(now, Kind::Settle, id, outcome, range);
        }
    }
}
