//! From a queue's decision to the consumer's connection: finding the bytes, in memory or on disk.
//!
//! A delivery whose bytes are away waits in its queue, and all later ones of that queue behind it, so order holds. What
//! was read back is kept for a while (bounded), since the next deliveries mostly lie beside it.

use crate::batches::Found;
use crate::event::{Event, Item};
use crate::limits::Limits;
use crate::log::Log;
use crate::owned::{Member, Waiting};
use crate::post::Post;
use crate::request::Reply;
use base::id::{LogId, LogIndex, QueueId, QueueSeq};
use base::{Memory, Now};
use journal::{BlockPlace, Disk, DiskError, SegmentBlock};
use message::record::{Kind, Outcome, SeqRange};
use queue::{ConsumerId, Effect, Place, Run, Stretch};
use std::collections::VecDeque;

/// Bytes to be read back before deliveries can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// The log whose deliveries wait.
    pub log: LogId,
    /// What to read.
    pub what: ReadWhat,
}

/// Where the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadWhat {
    /// The batch with this base, at this place of the journal.
    Batch {
        /// Its first record's index.
        base: LogIndex,
        /// Its place.
        place: journal::Place,
    },
    /// A block of a segment.
    Block(BlockKey),
}

/// What a read brought.
#[derive(Clone, Debug)]
pub enum ReadBytes {
    /// A whole batch.
    Batch(Memory),
    /// A block.
    Block(SegmentBlock),
}

impl ReadRequest {
    /// Reads, on whatever thread has the disk. `Ok(None)`: the bytes there are not what was written.
    pub fn carry_out(&self, disk: &dyn Disk) -> Result<Option<ReadBytes>, DiskError> {
        match self.what {
            ReadWhat::Batch { place, .. } => Ok(place.read(disk)?.map(ReadBytes::Batch)),
            ReadWhat::Block(key) => {
                Ok(SegmentBlock::load(disk, key.segment, &key.place)?.map(ReadBytes::Block))
            }
        }
    }
}

/// Names a block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockKey {
    /// The segment.
    pub segment: u64,
    /// The block in it.
    pub place: BlockPlace,
}

impl BlockKey {
    fn new(queue: QueueId, run: &Run) -> BlockKey {
        let Run { first, last, count, segment, offset, len } = *run;
        let len = u64::from(len);
        let place = BlockPlace { key: queue.0, first: first.0, last: last.0, count, offset, len };
        BlockKey { segment, place }
    }
}

/// Where the bytes of a message are.
pub(crate) enum Site<'a> {
    /// The record begins at this offset of this memory.
    Here(&'a Memory, u32),
    /// This must be read first.
    Away(ReadWhat),
    /// Nowhere: it left the queue, or its block is not what was written.
    Gone,
}

/// Reads that are wanted or under way, and the queues that wait for each. Only so many are given out at once: what they
/// bring is memory.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    waiting: Vec<(ReadWhat, Vec<u32>)>,
    wanted: VecDeque<ReadWhat>,
    under_way: usize,
}

impl Reading {
    /// The queue in `slot` waits for `what`.
    pub(crate) fn wait(&mut self, what: ReadWhat, slot: u32) {
        match self.waiting.iter_mut().find(|(have, _)| *have == what) {
            Some((_, slots)) if slots.contains(&slot) => {}
            Some((_, slots)) => slots.push(slot),
            None => {
                self.waiting.push((what, vec![slot]));
                self.wanted.push_back(what);
            }
        }
    }

    fn done(&mut self, what: ReadWhat) -> Vec<u32> {
        self.under_way -= 1;
        let at = self.waiting.iter().position(|(have, _)| *have == what);
        at.map_or_else(Vec::new, |at| self.waiting.swap_remove(at).1)
    }

    /// The next read to give out.
    fn next(&mut self, most: usize) -> Option<ReadWhat> {
        let what = if self.under_way < most { self.wanted.pop_front() } else { None };
        self.under_way += usize::from(what.is_some());
        what
    }

    /// The queue in `slot` is gone.
    pub(crate) fn forget(&mut self, slot: u32) {
        self.waiting.iter_mut().for_each(|(_, slots)| slots.retain(|waiting| *waiting != slot));
    }
}

/// What of a log was read back, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    blocks: VecDeque<(BlockKey, SegmentBlock)>,
    batches: VecDeque<(LogIndex, usize)>,
    bytes: usize,
}

impl Loaded {
    /// Bytes of blocks held; batches are counted where they are.
    pub(crate) fn block_bytes(&self) -> usize {
        self.blocks.iter().map(|(_, block)| block.memory().capacity()).sum()
    }

    #[inline]
    fn block(&self, key: BlockKey) -> Option<&SegmentBlock> {
        self.blocks.iter().rev().find(|(have, _)| *have == key).map(|(_, block)| block)
    }
}

impl Log {
    /// Hands out what is ready to who has credit, for every queue something happened to. A queue that could hand out
    /// more than the limit stays on the list.
    pub(crate) fn dispatch(&mut self, now: Now, limits: &Limits, post: &mut Post) {
        if self.has_set_aside() {
            self.carry_out_set_aside(now, limits, post);
        }
        for _ in 0..self.dirty.len() {
            let Some(slot) = self.dirty.pop_front() else { break };
            let queue = &mut self.queues[slot as usize];
            queue.is_dirty = false;
            let room = limits.waiting_for_bytes_max.saturating_sub(queue.waiting_len());
            let budget = limits.dispatch_messages_max.min(room as u32);
            let given = queue.fifo.dispatch(now.wall_ms, budget, &mut self.effects);
            self.carry_out(now, slot, None, limits, post);
            if self.queues[slot as usize].has_clock() {
                self.arm(now, slot);
                self.show_all(slot, limits, post);
            }
            if given == budget && budget > 0 {
                self.mark_dirty(slot);
            }
        }
    }

    /// Does what a queue's machine asked for. `token`: of the get the effects answer.
    pub(crate) fn carry_out(
        &mut self,
        now: Now,
        slot: u32,
        token: Option<u32>,
        limits: &Limits,
        post: &mut Post,
    ) {
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.list.drain(..) {
            match effect {
                Effect::Deliver { consumer, first, count, redelivered, delivery_count, acquired_count } => {
                    let marks = Item::marks_of(redelivered, delivery_count, acquired_count);
                    self.queues[slot as usize].hand(consumer, count);
                    let last = QueueSeq(first.0 + u64::from(count) - 1);
                    let mut next = Some(first);
                    if token.is_none() {
                        next = self.deliver_run(slot, consumer, SeqRange { first, last }, marks, post);
                    }
                    if let Some(next) = next {
                        for seq in next.0..=last.0 {
                            let seq = QueueSeq(seq);
                            let waiting =
                                Waiting { consumer, seq, marks, token, settles: false, is_annotated: false };
                            self.deliver(slot, waiting, post);
                        }
                    }
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
                    self.deliver_annotated(slot, consumer, SeqRange { first, last }, marks, token, post);
                }
                Effect::Append { kind, range, outcome } => {
                    let queue = &self.queues[slot as usize];
                    if kind == Kind::Settle && queue.is_waiting() {
                        self.settle_delivered(now, slot, outcome, range);
                    } else {
                        let id = queue.definition.id;
                        self.append_positions(now, kind, id, outcome, range);
                    }
                }
                Effect::Postpone { range, outcome, due_at_ms } => {
                    let id = self.queues[slot as usize].definition.id;
                    self.append_postponed(now, id, outcome, range, due_at_ms);
                }
                Effect::Drained { consumer, unused } => {
                    if let Some(member) = self.queues[slot as usize].member(consumer) {
                        let event = Event::Drained { consumer: member.handle, unused };
                        post.event(member.port, event);
                    }
                }
                Effect::Empty { .. } => {}
                Effect::DeadLetter { range, reason } => self.died(slot, range, reason),
                Effect::Active { consumer, active } => {
                    if let Some(member) = self.queues[slot as usize].member(consumer) {
                        let event = Event::Active { consumer: member.handle, active };
                        post.event(member.port, event);
                    }
                }
            }
        }
        // Carrying out asks no machine for anything, so nothing came meanwhile.
        debug_assert!(self.effects.is_empty());
        self.effects = effects;
        self.let_go(limits);
    }

    /// Delivers as many of `range` as lie in memory in the log, and says where it stopped.
    fn deliver_run(
        &mut self,
        slot: u32,
        consumer: ConsumerId,
        range: SeqRange,
        marks: u32,
        post: &mut Post,
    ) -> Option<QueueSeq> {
        let Log { queues, batches, .. } = self;
        let queue = &queues[slot as usize];
        if queue.is_waiting() {
            return Some(range.first);
        }
        let Member { port, handle } = queue.member(consumer)?;
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
                post.deliver_all(port, handle, memory, here.iter().map(item));
                rest = behind;
            }
        }
        None
    }

    /// Settles what of `range` was delivered, now, and what still waits for its bytes when it is.
    #[cold]
    fn settle_delivered(&mut self, now: Now, slot: u32, outcome: Outcome, range: SeqRange) {
        let queue = &mut self.queues[slot as usize];
        let id = queue.definition.id;
        let mut delivered = Vec::new();
        queue.settle_later(range, |part| delivered.push(part));
        for part in delivered {
            self.append_positions(now, Kind::Settle, id, outcome, part);
        }
    }

    #[inline]
    fn deliver(&mut self, slot: u32, delivery: Waiting, post: &mut Post) {
        let queue = &self.queues[slot as usize];
        if queue.is_waiting() || !self.try_deliver(slot, delivery, post) {
            self.queues[slot as usize].wait(delivery);
        }
    }

    /// Where the bytes of a message are.
    #[inline]
    pub(crate) fn locate(&mut self, slot: u32, seq: QueueSeq) -> Site<'_> {
        let queue = &self.queues[slot as usize];
        match queue.fifo.place(seq) {
            Some(Place::Log(index)) => match self.batches.find(index) {
                Found::Resident(memory, offset, _) => Site::Here(memory, offset),
                Found::Away(base, place) => Site::Away(ReadWhat::Batch { base, place }),
            },
            Some(Place::Segment(run)) => {
                let key = BlockKey::new(queue.definition.id, run);
                match self.loaded.block(key) {
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
    fn try_deliver(&mut self, slot: u32, delivery: Waiting, post: &mut Post) -> bool {
        let Some(member) = self.queues[slot as usize].member(delivery.consumer) else { return true };
        let Waiting { seq, marks, token, .. } = delivery;
        let ready = self.queues[slot as usize].fifo.ready();
        let (memory, offset) = match self.locate(slot, seq) {
            Site::Here(memory, offset) => (memory, offset),
            Site::Away(what) => {
                self.reading.wait(what, slot);
                return false;
            }
            Site::Gone => return Log::in_vain(member, token, post),
        };
        let item = Item { seq, offset, marks };
        match token {
            None => post.deliver(member.port, member.handle, memory, item),
            Some(token) => {
                post.got(member.port, token, member.handle, memory, item, ready);
            }
        }
        true
    }

    /// There is nothing to deliver; who asked for one message is told so.
    #[cold]
    pub(crate) fn in_vain(member: Member, token: Option<u32>, post: &mut Post) -> bool {
        if let Some(token) = token {
            post.reply(member.port, token, Ok(Reply::Empty));
        }
        true
    }

    /// Moves the reads that deliveries wait for into `into`, as many as may be under way at once.
    pub(crate) fn take_reads(&mut self, limits: &Limits, into: &mut Vec<ReadRequest>) {
        while let Some(what) = self.reading.next(limits.reads_max) {
            into.push(ReadRequest { log: self.id, what });
        }
    }

    /// A read ended; `None`: the bytes there are not what was written, and what lies there cannot be delivered.
    pub(crate) fn read_done(
        &mut self,
        now: Now,
        what: ReadWhat,
        brought: Option<ReadBytes>,
        limits: &Limits,
        post: &mut Post,
    ) {
        let slots = self.reading.done(what);
        let is_damaged = brought.is_none();
        if let Some(bytes) = brought {
            self.keep_loaded(what, bytes, limits);
        }
        for slot in slots {
            if is_damaged {
                self.pass_over_damage(slot, what, post);
                self.pass_over_dying(slot, what);
                self.pass_over_shown(slot, what);
            }
            self.list_dying(slot);
            while let Some(first) = self.queues.get(slot as usize).and_then(|queue| queue.first_waiting()) {
                let is_delivered = if first.is_annotated {
                    self.try_deliver_annotated(slot, first, post)
                } else {
                    self.try_deliver(slot, first, post)
                };
                if !is_delivered {
                    break;
                }
                let queue = &mut self.queues[slot as usize];
                queue.pop_waiting();
                if first.settles {
                    let (id, range) = (queue.definition.id, SeqRange { first: first.seq, last: first.seq });
                    self.append_positions(now, Kind::Settle, id, Outcome::Accepted, range);
                }
            }
            self.mark_dirty(slot);
        }
        self.dispatch(now, limits, post);
    }

    fn keep_loaded(&mut self, what: ReadWhat, brought: ReadBytes, limits: &Limits) {
        match (what, brought) {
            (ReadWhat::Batch { base, .. }, ReadBytes::Batch(memory)) => {
                let bytes = memory.capacity();
                self.loaded.bytes += bytes;
                self.batches.loaded(base, memory);
                self.loaded.batches.push_back((base, bytes));
            }
            (ReadWhat::Block(key), ReadBytes::Block(block)) => {
                self.loaded.bytes += block.memory().capacity();
                self.loaded.blocks.push_back((key, block));
            }
            _ => panic!("a read brings what was asked for"),
        }
        // Never the one just read: somebody waits for it.
        while self.loaded.bytes > limits.loaded_bytes_max
            && self.loaded.batches.len() + self.loaded.blocks.len() > 1
        {
            if self.loaded.batches.len() > usize::from(matches!(what, ReadWhat::Batch { .. })) {
                let Some((base, bytes)) = self.loaded.batches.pop_front() else { break };
                self.batches.unload(base);
                self.loaded.bytes -= bytes;
            } else {
                let Some((_, block)) = self.loaded.blocks.pop_front() else { break };
                self.loaded.bytes -= block.memory().capacity();
            }
        }
    }

    /// The bytes of the first waiting delivery are damaged: it cannot be delivered, now or ever. It stays unsettled with
    /// its consumer, so nothing is lost that could still be repaired, and what is behind it goes on.
    fn pass_over_damage(&mut self, slot: u32, what: ReadWhat, post: &mut Post) {
        let Some(queue) = self.queues.get_mut(slot as usize) else { return };
        while let Some(first) = queue.first_waiting() {
            let is_there = match (queue.fifo.place(first.seq), what) {
                (Some(Place::Log(index)), ReadWhat::Batch { base, place }) => {
                    index >= base && index.0 < base.0 + place.len
                }
                (Some(Place::Segment(run)), ReadWhat::Block(key)) => {
                    (run.segment, run.offset) == (key.segment, key.place.offset)
                }
                _ => false,
            };
            if !is_there {
                break;
            }
            if let Some(member) = queue.member(first.consumer) {
                Log::in_vain(member, first.token, post);
            }
            queue.pop_waiting();
        }
        self.mark_dirty(slot);
    }
}
