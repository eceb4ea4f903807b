//! A queue is deleted: what it had is let go of, and its consumers are told.

use super::at::AtQueue;
use super::owned::{Member, OwnedQueue};
use crate::catalog::Refusal;
use crate::event::Event;
use crate::limits::Limits;
use crate::post::Post;
use base::id::LogIndex;

/// Messages of a deleted queue that are counted off at once: bounds the memory of deleting a long one.
const PLACES_AT_ONCE: usize = 4096;

impl AtQueue<'_> {
    /// The queue is on its log no more: its messages in memory and in segments go with it.
    pub(crate) fn let_go(&mut self, is_replaying: bool, limits: &Limits) {
        let AtQueue { slot, queue, commons } = self;
        let timer = queue.features.as_ref().and_then(|features| features.timer);
        commons.agenda.forget(*slot, timer, queue.looks_at());
        commons.reads.reading.forget(*slot);
        commons.effects.runs_left.extend(queue.fifo.runs());
        // While the journal is replayed nothing is counted yet: the messages left are counted at the end.
        if is_replaying {
            return;
        }
        let mut places = queue.fifo.live_below(LogIndex(u64::MAX)).map(|(_, place)| place);
        let mut some = Vec::with_capacity(PLACES_AT_ONCE);
        loop {
            some.clear();
            some.extend(places.by_ref().take(PLACES_AT_ONCE));
            if some.is_empty() {
                break;
            }
            commons.store.batches.left(&some, limits.spare_buffers_max);
        }
    }
}

impl OwnedQueue {
    /// Tells the consumers of a queue that is gone, and first the gets that wait for a message of it.
    pub(crate) fn tell_members(&self, post: &mut Post) {
        for (Member { port, .. }, token) in self.waiting_gets() {
            post.reply(port, token, Err(Refusal::queue_gone()));
        }
        for Member { port, handle } in self.all_members() {
            let queue = self.definition.clone();
            post.event(port, Event::Cancelled { consumer: handle, queue });
        }
    }
}
