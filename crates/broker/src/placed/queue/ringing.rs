//! A queue at work sets its timers, and does what is due as they ring.

use crate::catalog::QueueDefinition;
use crate::event::Event;
use crate::placed::queue::at::AtQueue;
use crate::placed::queue::owned::{Member, Waiting};
use crate::post::Post;
use crate::request::Reply;
use crate::turn::Turn;
use base::id::QueueSeq;
use base::ranges::Range;
use base::time::NS_PER_MS;
use base::{Now, RangeSet};
use message::record::SeqRange;
use queue::Late;
use std::sync::Arc;

impl AtQueue<'_> {
    /// Sets the queue's timer to when something is due next.
    pub(crate) fn arm(&mut self, now: Now) {
        let queue = &mut *self.queue;
        let (deadline, is_used) = (queue.fifo.next_deadline_ms(), queue.is_used());
        let Some(features) = &mut queue.features else {
            if deadline.is_some() {
                queue.features_mut(now);
                self.arm(now);
            }
            return;
        };
        let ends = features.ends_at_ms().filter(|_| !is_used);
        let retry = (!features.unplaced.is_empty()).then_some(features.retry_at_ms);
        let looks = features.selectors.as_ref().map(|selectors| selectors.looks_at_ms());
        let next = [deadline, ends, retry, looks].into_iter().flatten().min();
        let Some(next) = next else { return };
        let at = now.after_ms(next.saturating_sub(now.wall_ms));
        if features.timer.is_none_or(|timer| at < timer) {
            self.commons.agenda.timers.forget(self.slot, features.timer);
            features.timer = Some(at);
            self.commons.agenda.timers.set(at, self.slot);
        }
    }

    /// Does the work that is due. A queue that was unused for too long is added to `ended`: it is to be deleted.
    pub(crate) fn ring(&mut self, now: Now, ended: &mut Vec<Arc<QueueDefinition>>) {
        let Some(features) = &mut self.queue.features else { return };
        features.timer = None;
        features.try_again(now);
        if features.ends_at_ms().is_some_and(|ends| ends <= now.wall_ms) {
            // Until it is gone: not at every turn.
            features.used_at_ms = now.wall_ms;
            if !self.queue.is_used() {
                ended.push(self.queue.definition().clone());
            }
        }
        self.list_dying();
        // Handing out is also when messages expire, and the timer is set anew after it.
        self.mark_dirty();
    }

    /// Sets when to look at what consumers of the queue hold, if anybody is watched. Queues with the same timeout are looked
    /// at in the same moments: one waking for all.
    pub(crate) fn arm_look(&mut self, now: Now) {
        let queue = &mut *self.queue;
        let Some(every_ms) = queue.fifo.look_every_ms() else { return };
        let every = every_ms.saturating_mul(NS_PER_MS);
        let at = (now.mono_ns / every).saturating_add(1).saturating_mul(every);
        let before = queue.looks_at();
        if before.is_none_or(|before| at < before || before <= now.mono_ns) {
            queue.set_looks_at(Some(at));
            self.commons.agenda.timers.forget_look(self.slot, before);
            self.commons.agenda.timers.set_look(at, self.slot);
        }
    }

    /// Looks at the messages that consumers hold, and takes back those they hold for too long.
    pub(crate) fn look(&mut self, turn: &mut Turn<'_>) {
        let late = self.queue.fifo.look(turn.now.mono_ns / NS_PER_MS, &mut self.commons.effects);
        if !late.is_empty() {
            for late in &late {
                if late.is_leased {
                    self.tell_over(late, turn.post);
                } else {
                    self.queue.features_mut(turn.now).has_late = true;
                    self.tell_late(late, turn.post);
                }
            }
            self.carry_out(turn, None);
            self.mark_dirty();
        }
        self.arm_look(turn.now);
    }

    /// The consumer that messages were taken back from, and which of them it was sent; `back` is done about each of the others,
    /// for which it waits no more. None: it is gone.
    pub(super) fn without_unsent(
        &mut self,
        late: &Late,
        post: &mut Post,
        mut back: impl FnMut(&mut AtQueue<'_>, SeqRange),
    ) -> Option<(Member, RangeSet)> {
        let member = self.queue.member(late.consumer)?;
        let mut sent = RangeSet::new();
        for range in &late.ranges {
            sent.insert(Range::new(range.first.0, range.last.0));
            let unsent = self.queue.forget_waiting_of(late.consumer, *range);
            self.queue.take_back(late.consumer, unsent.len() as u32);
            for Waiting { seq, token, .. } in unsent {
                sent.remove(Range::new(seq.0, seq.0), |_| {});
                back(self, SeqRange { first: seq, last: seq });
                if let Some(token) = token {
                    post.reply(member.port, token, Ok(Reply::Empty));
                }
            }
        }
        self.tell_due(post);
        Some((member, sent))
    }

    /// Tells a consumer which messages were taken back from it. Those it was never sent go back without a word: it
    /// could not settle them.
    fn tell_late(&mut self, late: &Late, post: &mut Post) {
        let back = |at: &mut AtQueue<'_>, range| at.queue.fifo.settle_late(late.consumer, range);
        let Some((Member { port, handle }, told)) = self.without_unsent(late, post, back) else { return };
        let mut ranges = told.iter().peekable();
        while let Some(Range { first, last }) = ranges.next() {
            let range = SeqRange { first: QueueSeq(first), last: QueueSeq(last) };
            let has_more = ranges.peek().is_some();
            post.event(port, Event::TimedOut { consumer: handle, range, has_more });
        }
    }

    /// A consumer settles what perhaps was taken back from it.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle_late(&mut self, member: Member, range: SeqRange) {
        let queue = &mut *self.queue;
        let Some(id) = queue.find(member) else { return };
        queue.fifo.settle_late(id, range);
        if let Some(features) = &mut queue.features {
            features.has_late = queue.fifo.has_late();
        }
        self.mark_dirty();
    }

    /// The queue was used: it lives for its time from here on.
    pub(crate) fn used(&mut self, now: Now) {
        if let Some(features) = &mut self.queue.features {
            features.used_at_ms = now.wall_ms;
        }
    }
}
