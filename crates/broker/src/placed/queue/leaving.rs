//! A queue ends: its owner lets go of it, and tells its consumers; its messages go when the record of its end is applied.

use super::at::AtQueue;
use super::owned::{Member, OwnedQueue};
use crate::catalog::Refusal;
use crate::event::Event;
use crate::log::Commons;
use crate::post::Post;
use crate::request::Reply;
use base::id::LogIndex;
use queue::Fifo;

/// Messages of a queue that ended which are counted off at once: bounds the memory of ending a long one.
const PLACES_AT_ONCE: usize = 4096;

impl AtQueue<'_> {
    /// The queue is not owned here any more: what its owner had under way on its log is forgotten.
    pub(crate) fn resign(&mut self) {
        let AtQueue { slot, queue, commons } = self;
        let timer = queue.features.as_ref().and_then(|features| features.timer);
        commons.agenda.forget(*slot, timer, queue.looks_at());
        commons.reads.reading.forget(*slot);
        queue.resign();
        queue.fifo.resign();
    }
}

impl Commons {
    /// A queue is on the log no more: its messages in memory and in segments go with it.
    pub(crate) fn let_queue_go(&mut self, fifo: &Fifo, is_replaying: bool, spare_buffers_max: usize) {
        self.effects.runs_left.extend(fifo.runs());
        // While the journal is replayed nothing is counted yet: the messages left are counted at the end.
        if is_replaying {
            return;
        }
        let mut places = fifo.live_below(LogIndex(u64::MAX)).map(|(_, place)| place);
        let mut some = Vec::with_capacity(PLACES_AT_ONCE);
        loop {
            some.clear();
            some.extend(places.by_ref().take(PLACES_AT_ONCE));
            if some.is_empty() {
                break;
            }
            self.store.batches.left(&some, spare_buffers_max);
        }
    }
}

impl OwnedQueue {
    /// Tells the consumers of a queue that is gone, and first the gets that wait for a message of it. Where it is not, but owned
    /// elsewhere, consumers are to go on there, and browsers alone are told.
    pub(crate) fn tell_members(&self, post: &mut Post, keeps: bool) {
        for (Member { port, .. }, token) in self.waiting_gets() {
            // Whoever is next has the message, and nobody has it now.
            post.reply(port, token, if keeps { Ok(Reply::Empty) } else { Err(Refusal::queue_gone()) });
        }
        if keeps {
            self.tell_left(post);
        }
        let browsers = || self.browsers().iter().map(|browser| browser.member).collect();
        let told: Vec<Member> = if keeps { browsers() } else { self.all_members() };
        for Member { port, handle } in told {
            let queue = self.definition().clone();
            post.event(port, Event::Cancelled { consumer: handle, queue });
        }
    }
}
