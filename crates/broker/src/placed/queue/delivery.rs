//! From a queue's decision to the consumer's connection: finding the bytes, in memory or on disk.
//!
//! A delivery whose bytes are away waits in its queue, and all later ones of that queue behind it, so order holds; where
//! consumers choose, all later ones to its consumer. How they are read is in [`crate::reading`].

use crate::batches::{Batches, Found};
use crate::event::{Event, Item, REDELIVERED};
use crate::latency::Latencies;
use crate::log::Commons;
use crate::placed::queue::at::AtQueue;
use crate::placed::queue::owned::{Member, Notice, Waiting};
use crate::post::Post;
use crate::reading::{BlockKey, ReadWhat};
use crate::request::Reply;
use crate::turn::Turn;
use base::id::{LogIndex, QueueSeq};
use base::{Memory, Now};
use message::record::{Kind, Outcome, SeqRange};
use queue::{ConsumerId, Effect, Place, Stretch, scattered};

/// Where the bytes of a message are.
pub(crate) enum Site<'a> {
    /// The record begins at this offset of this memory.
    Here(&'a Memory, u32),
    /// This must be read first.
    Away(ReadWhat),
    /// Nowhere: it left the queue, or its block is not what was written.
    Gone,
}

/// Messages of the batch that was found last were handed out: those that were not before count with how long that took.
#[inline]
fn delivered(latencies: &mut Latencies, batches: &Batches, now: Now, marks: u32, count: u64) {
    let committed_at = batches.found_committed_at();
    if committed_at != 0 && marks & REDELIVERED == 0 {
        latencies.commit_to_deliver.add(now.mono_ns.saturating_sub(committed_at), count);
    }
}

impl AtQueue<'_> {
    /// Hands out ready messages, as many as a turn may, and sets when it is to be done again.
    #[inline]
    pub(crate) fn hand_out(&mut self, turn: &mut Turn<'_>) {
        self.queue.is_dirty = false;
        if self.waits_for_returns() {
            return;
        }
        if self.queue.is_chosen_from() {
            self.choose_first(turn);
        }
        let room = turn.limits.waiting_for_bytes_max.saturating_sub(self.queue.waiting_len());
        let budget = turn.limits.dispatch_messages_max.min(room as u32);
        let given = self.queue.fifo.dispatch(turn.now.wall_ms, budget, &mut self.commons.effects);
        self.carry_out(turn, None);
        if self.queue.has_clock() {
            if given > 0 && self.queue.is_waiting() && self.queue.is_chosen_from() {
                self.deliver_waiting(turn);
            }
            self.arm(turn.now);
            self.show_all(turn);
            if self.queue.fifo.to_weigh().is_some() {
                self.weigh(turn.now, turn.limits);
            }
        }
        if given == budget && budget > 0 {
            self.mark_dirty();
        }
    }

    /// Messages that come back are handed out in front of those behind them, as with RabbitMQ. Where nodes agree on that first it
    /// takes some time, and the record of it has the queue looked at again.
    #[inline]
    fn waits_for_returns(&self) -> bool {
        self.commons.peers.is_some() && self.queue.fifo.is_coming_back()
    }

    /// Carries out the effects of a queue's machine. `token`: of the get the effects answer.
    pub(crate) fn carry_out(&mut self, turn: &mut Turn<'_>, token: Option<u32>) {
        let mut effects = std::mem::take(&mut self.commons.effects);
        for effect in effects.list.drain(..) {
            match effect {
                Effect::Deliver { consumer, first, count, redelivered, delivery_count, acquired_count } => {
                    let marks = Item::marks_of(redelivered, delivery_count, acquired_count);
                    let queue = &mut *self.queue;
                    queue.hand(consumer, count, redelivered);
                    if token.is_none()
                        && let Some(age_ns) = queue.watch(consumer, first, turn.now)
                    {
                        self.commons.figures.latencies.deliver_to_settle.add(age_ns, 1);
                    }
                    let last = QueueSeq(first.0 + u64::from(count) - 1);
                    let mut next = Some(first);
                    if token.is_none() {
                        next = if count > 1 {
                            self.deliver_run(turn, consumer, SeqRange { first, last }, marks)
                        } else {
                            (!self.deliver_one(turn, consumer, first, marks)).then_some(first)
                        };
                    }
                    if let Some(next) = next {
                        for seq in next.0..=last.0 {
                            let seq = QueueSeq(seq);
                            self.deliver(Waiting::new(consumer, seq, marks, token), turn.post);
                        }
                    }
                }
                Effect::DeliverScattered { consumer, block, bits } => {
                    self.deliver_scattered(consumer, (block, bits), turn.post);
                }
                Effect::DeliverAnnotated {
                    consumer,
                    first,
                    count,
                    redelivered,
                    delivery_count,
                    acquired_count,
                } => {
                    let marks = Item::marks_of(redelivered, delivery_count, acquired_count);
                    let last = QueueSeq(first.0 + u64::from(count) - 1);
                    self.deliver_annotated(consumer, SeqRange { first, last }, marks, token, turn.post);
                }
                Effect::DeliverBarrier { consumer, seq, redelivered, delivery_count, acquired_count } => {
                    let marks = Item::marks_of(redelivered, delivery_count, acquired_count);
                    self.queue.hand(consumer, 1, redelivered);
                    self.deliver_barrier(consumer, seq, marks, turn.post);
                }
                Effect::PassedOver { consumers } => self.queue.count_passed_over(consumers),
                Effect::Append { kind, range, outcome } => {
                    if outcome != Outcome::Accepted {
                        self.count_gone(kind, range, outcome);
                    }
                    let queue = &*self.queue;
                    if kind == Kind::Settle && queue.is_waiting() {
                        self.settle_delivered(turn.now, outcome, range);
                    } else {
                        let id = queue.id;
                        self.commons.pipeline.append_positions(turn.now, kind, id, outcome, range);
                        if kind == Kind::Return {
                            self.commons.pipeline.agree_soon();
                        }
                    }
                }
                Effect::Postpone { range, outcome, due_at_ms } => {
                    let id = self.queue.id;
                    self.commons.pipeline.append_postponed(turn.now, id, outcome, range, due_at_ms);
                }
                Effect::Retry { range, outcome, after_ms } => {
                    let id = self.queue.id;
                    let due_at_ms = turn.now.wall_ms.saturating_add(after_ms);
                    self.commons.pipeline.append_postponed(turn.now, id, outcome, range, due_at_ms);
                }
                Effect::Drained { consumer, unused } => {
                    self.queue.used_up(consumer, unused);
                    self.tell(consumer, Notice::Drained { unused }, turn.post);
                }
                Effect::Empty { .. } => {}
                Effect::DeadLetter { range, reason } => self.died(range, reason),
                Effect::Active { consumer, active } => {
                    if let Some(member) = self.queue.member(consumer) {
                        let event = Event::Active { consumer: member.handle, active };
                        turn.post.event(member.port, event);
                    }
                }
            }
        }
        // Carrying out asks no machine for anything, so nothing came meanwhile.
        debug_assert!(self.commons.effects.is_empty());
        self.commons.effects = effects;
        self.commons.let_go(turn.limits);
    }

    /// Delivers one message that was just handed out if it lies in memory in the log; false: it does not.
    #[inline]
    fn deliver_one(&mut self, turn: &mut Turn<'_>, consumer: ConsumerId, seq: QueueSeq, marks: u32) -> bool {
        let AtQueue { queue, commons: Commons { store, figures, .. }, .. } = self;
        let (batches, latencies) = (&mut store.batches, &mut figures.latencies);
        if queue.is_waiting() || queue.refers {
            return false;
        }
        let Some(Member { port, handle }) = queue.recipient(consumer) else { return false };
        let Some(Place::Log(index)) = queue.fifo.place_of_live(seq) else { return false };
        let Found::Resident(memory, offset, _) = batches.find(index) else { return false };
        turn.post.deliver(port, handle, memory, Item { seq, offset, marks });
        delivered(latencies, batches, turn.now, marks, 1);
        true
    }

    /// Delivers as many of `range` as lie in memory in the log, and says where it stopped.
    fn deliver_run(
        &mut self,
        turn: &mut Turn<'_>,
        consumer: ConsumerId,
        range: SeqRange,
        marks: u32,
    ) -> Option<QueueSeq> {
        let AtQueue { queue, commons: Commons { store, figures, .. }, .. } = self;
        let (batches, latencies) = (&mut store.batches, &mut figures.latencies);
        if queue.is_waiting() || queue.refers {
            return Some(range.first);
        }
        let Member { port, handle } = queue.recipient(consumer)?;
        for stretch in queue.fifo.stretches(range) {
            let mut rest = match stretch {
                Stretch::Log(stretch) => stretch,
                Stretch::Segment { first, .. } => return Some(first),
            };
            while let Some((seq, index)) = rest.first() {
                let Found::Resident(memory, offset, len) = batches.find(index) else { return Some(seq) };
                let base = index.0 - u64::from(offset);
                let (here, behind) = rest.split_at(LogIndex(base + u64::from(len)));
                let item =
                    |(seq, place): (QueueSeq, LogIndex)| Item { seq, offset: (place.0 - base) as u32, marks };
                turn.post.deliver_all(port, handle, memory, here.iter().map(item));
                delivered(latencies, batches, turn.now, marks, here.iter().len() as u64);
                rest = behind;
            }
        }
        None
    }

    /// Delivers those positions of a block that are set in its bits, none of which was out before: those from the first on
    /// that lie in memory in the log at once, the others one by one.
    #[cold]
    #[inline(never)]
    fn deliver_scattered(&mut self, consumer: ConsumerId, (block, bits): (QueueSeq, u64), post: &mut Post) {
        let marks = Item::marks_of(false, 0, 0);
        let AtQueue { queue, commons: Commons { store, reads, .. }, .. } = self;
        let (batches, loaded) = (&mut store.batches, &reads.loaded);
        queue.hand(consumer, bits.count_ones(), false);
        let Some(Member { port, handle }) = queue.recipient(consumer) else { return };
        let is_waiting = queue.is_waiting() || queue.refers;
        let mut rest = scattered(block, bits).peekable();
        while !is_waiting
            && let Some(seq) = rest.peek()
            && let Some(Place::Log(index)) = queue.fifo.place_of_live(*seq)
            && let Found::Resident(memory, offset, len) = batches.find(index)
        {
            let base = index.0 - u64::from(offset);
            let here = std::iter::from_fn(|| {
                let Place::Log(index) = queue.fifo.place_of_live(*rest.peek()?)? else { return None };
                let offset = index.0.checked_sub(base).filter(|offset| *offset < u64::from(len))? as u32;
                Some(Item { seq: rest.next()?, offset, marks })
            });
            post.deliver_all(port, handle, memory, here);
        }
        while !is_waiting
            && let Some(seq) = rest.peek()
            && let Some(Place::Segment(run)) = queue.fifo.place_of_live(*seq)
            && let Some(block) = loaded.block(BlockKey::new(queue.id, run))
            && block.find(seq.0).is_some()
        {
            let here = std::iter::from_fn(|| {
                let offset = block.find(rest.peek().filter(|seq| **seq <= run.last)?.0)?.start as u32;
                Some(Item { seq: rest.next()?, offset, marks })
            });
            post.deliver_all(port, handle, block.memory(), here);
        }
        for seq in rest {
            self.deliver(Waiting::new(consumer, seq, marks, None), post);
        }
    }

    /// Settles the messages of `range` that were delivered, now, and those that still wait for their bytes when they
    /// are.
    #[cold]
    fn settle_delivered(&mut self, now: Now, outcome: Outcome, range: SeqRange) {
        let queue = &mut *self.queue;
        let id = queue.id;
        let mut delivered = Vec::new();
        queue.settle_later(range, |part| delivered.push(part));
        for part in delivered {
            self.commons.pipeline.append_positions(now, Kind::Settle, id, outcome, part);
        }
    }

    #[inline]
    fn deliver(&mut self, delivery: Waiting, post: &mut Post) {
        let queue = &*self.queue;
        if queue.is_waiting() || !self.try_deliver(delivery, post) {
            self.queue.wait(delivery);
        }
    }

    /// Where the bytes of a message are.
    #[inline]
    pub(crate) fn locate(&mut self, seq: QueueSeq) -> Site<'_> {
        match self.queue.refers {
            true => self.locate_referred(seq),
            false => self.locate_record(seq),
        }
    }

    /// Where a message's record is, which may say that the message is elsewhere.
    #[inline]
    pub(crate) fn locate_record(&mut self, seq: QueueSeq) -> Site<'_> {
        let queue = &*self.queue;
        match queue.fifo.place(seq) {
            Some(Place::Log(index)) => match self.commons.store.batches.find(index) {
                Found::Resident(memory, offset, _) => Site::Here(memory, offset),
                Found::Away(base, place) => Site::Away(ReadWhat::Batch { base, place }),
            },
            Some(Place::Segment(run)) => {
                let key = BlockKey::new(queue.id, run);
                match self.commons.reads.loaded.block(key) {
                    Some(block) => match block.find(seq.0) {
                        Some(range) => Site::Here(block.memory(), range.start as u32),
                        None => Site::Gone,
                    },
                    None => Site::Away(ReadWhat::Block(key)),
                }
            }
            // Purged or settled meanwhile: it is nobody's any more.
            None => Site::Gone,
        }
    }

    /// Delivers if the bytes are in memory; else asks for them.
    #[inline]
    pub(crate) fn try_deliver(&mut self, delivery: Waiting, post: &mut Post) -> bool {
        let Some(member) = self.queue.recipient(delivery.consumer) else { return true };
        let Waiting { seq, marks, token, is_barrier, .. } = delivery;
        let ready = token.map_or(0, |_| self.queue.fifo.ready());
        let (memory, offset) = match self.locate(seq) {
            Site::Here(memory, offset) => (memory, offset),
            Site::Away(what) => {
                self.commons.reads.reading.wait(what, self.slot, Some(seq));
                return false;
            }
            Site::Gone => return AtQueue::in_vain(member, token, post),
        };
        let item = Item { seq, offset, marks };
        match token {
            None if is_barrier => post.deliver_barrier(member.port, member.handle, memory, item),
            None => post.deliver(member.port, member.handle, memory, item),
            Some(token) => {
                post.got(member.port, token, member.handle, memory, item, ready);
            }
        }
        true
    }

    /// Tells a consumer something, behind the deliveries that wait.
    pub(crate) fn tell(&mut self, consumer: ConsumerId, notice: Notice, post: &mut Post) {
        let queue = &mut *self.queue;
        if queue.is_waiting() {
            return queue.tell_behind(consumer, notice);
        }
        let Some(Member { port, handle }) = queue.member(consumer) else { return };
        post.event(port, notice.event(handle));
    }

    /// Sends the notices that waited for deliveries which are out, or for which nobody waits any more.
    pub(crate) fn tell_due(&mut self, post: &mut Post) {
        while let Some((consumer, notice)) = self.queue.take_notice() {
            if let Some(member) = self.queue.member(consumer) {
                post.event(member.port, notice.event(member.handle));
            }
        }
    }

    /// There is nothing to deliver; a get is told so.
    #[cold]
    pub(crate) fn in_vain(member: Member, token: Option<u32>, post: &mut Post) -> bool {
        if let Some(token) = token {
            post.reply(member.port, token, Ok(Reply::Empty));
        }
        true
    }

    /// The bytes of the first waiting delivery are damaged: it cannot be delivered, now or ever. It stays unsettled with
    /// its consumer, so nothing is lost that could still be repaired, and what is behind it goes on. It is reported also where
    /// nobody waits for a delivery of it, only a browser, or the shard that publishes dead letters.
    pub(crate) fn pass_over_damage(&mut self, what: ReadWhat, post: &mut Post) {
        post.damages.note(self.commons.id, self.queue.definition(), what);
        while let Some(first) = self.queue.first_waiting() {
            let is_stretch = matches!(what, ReadWhat::Stretch(_));
            let lies_there =
                is_stretch && matches!(self.locate(first.seq), Site::Away(found) if found == what);
            let queue = &mut *self.queue;
            let is_there = match (queue.fifo.place(first.seq), what) {
                (Some(Place::Log(index)), ReadWhat::Batch { base, place }) => {
                    index >= base && index.0 < base.0 + place.len
                }
                (Some(Place::Segment(run)), ReadWhat::Block(key)) => {
                    (run.segment, run.offset) == (key.segment, key.place.offset)
                }
                _ => lies_there,
            };
            if !is_there {
                break;
            }
            if let Some(member) = queue.member(first.consumer) {
                AtQueue::in_vain(member, first.token, post);
            }
            queue.pop_waiting();
            self.tell_due(post);
        }
        self.mark_dirty();
    }
}
