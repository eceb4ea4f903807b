//! Records of a log are applied: they move messages of the queues and streams placed on it.

use super::{Closed, Log};
use crate::limits::Limits;
use crate::turn::Turn;
use base::id::{LogIndex, QueueId};
use journal::Place;
use message::record::{self, Enqueue, Kind, Positions, Refer, SeqRange, flag};
use queue::Record;

/// The record of positions that left without being settled.
#[cold]
fn rare(kind: Kind, range: SeqRange) -> Record {
    match kind {
        Kind::Expire => Record::Expire { range },
        Kind::Drop => Record::Drop { range },
        Kind::DeadLetter => Record::DeadLetter { range },
        _ => Record::Purge { range },
    }
}

impl Log {
    /// How many messages it brought: to queues, or where there are none those that somebody waits for.
    pub(super) fn apply_closed(
        &mut self,
        turn: &mut Turn<'_>,
        Closed { sealed, applied, waiters, .. }: &Closed,
        place: Option<Place>,
    ) -> u64 {
        let memory = Some(sealed.memory.clone());
        self.batches.push(sealed.base, sealed.len as u32, memory, place, turn.now.mono_ns);
        let from = LogIndex(sealed.base.0 + *applied as u64);
        self.delayed = 0;
        let live = self.apply_records(from, &sealed.records()[*applied..]);
        self.batches.came(sealed.base, live, turn.limits.spare_buffers_max);
        self.let_go(turn.limits);
        waiters.iter().for_each(|waiter| turn.post.confirm(waiter));
        self.dispatch(turn);
        if self.batches.is_over(turn.limits.resident_bytes_max) {
            self.evict(turn.limits);
        } else if live > 0
            && self.delayed == live
            && self.batches.is_over(turn.limits.resident_delayed_bytes_max)
        {
            self.batches.evict_newest(turn.limits.resident_delayed_bytes_max);
        }
        match live {
            0 => waiters.iter().map(|waiter| waiter.last - waiter.first + 1).sum(),
            live => live.into(),
        }
    }

    /// Drops from memory what is needed last.
    #[cold]
    #[inline(never)]
    fn evict(&mut self, limits: &Limits) {
        let most = limits.resident_bytes_max + self.loaded_beyond(limits);
        match std::mem::take(&mut self.has_levels) {
            true => self.batches.evict_oldest(most, limits.spare_buffers_max),
            false => self.batches.evict_newest(most),
        }
    }

    /// Applies what of the open batch is not applied yet.
    pub(super) fn apply_rest(&mut self, limits: &Limits) {
        let (open, applied) = self.pipeline.lend_open();
        let at = LogIndex(open.base().0 + applied as u64);
        self.apply_records(at, &open.bytes()[applied..]);
        self.pipeline.applied_open(open);
        self.let_go(limits);
    }

    /// Applies records to their queues and counts the messages that became live, once per queue. Records of queues
    /// that are gone are passed over.
    pub(crate) fn apply_records(&mut self, base: LogIndex, records: &[u8]) -> u32 {
        let mut at = base;
        let mut live = 0;
        let mut rest = records;
        while let Some((kind, record, after)) = record::split(rest) {
            match kind {
                Kind::Enqueue => live += self.apply_enqueue(at, record),
                Kind::Catalog => {}
                Kind::Append => self.apply_append(record),
                Kind::Track => self.apply_track(record),
                Kind::Refer => live += self.apply_refer(at, record),
                Kind::Truncate => self.apply_truncate(record),
                Kind::Configure => self.apply_configure(record),
                Kind::Annotate => self.apply_annotate(record),
                _ => self.apply_positions(kind, record),
            }
            at.0 += (rest.len() - after.len()) as u64;
            rest = after;
        }
        assert!(rest.is_empty(), "a committed batch holds whole records");
        self.close_chunks();
        live
    }

    #[inline]
    fn apply_enqueue(&mut self, at: LogIndex, record: &[u8]) -> u32 {
        let message = Enqueue::read(record).expect("a committed batch holds whole records");
        let asks = message.flags & (flag::PRIORITY | flag::DELAYED | flag::FAILED) != 0
            || message.expires_at_ms != 0;
        let mut live = 0;
        for id in message.queues() {
            let Some(slot) = self.slot(id) else {
                self.apply_to_stream(id, record);
                continue;
            };
            let queue = &mut self.queues[slot as usize];
            let is_transient = !message.is_durable() && !queue.definition.is_quorum();
            if asks || queue.has_features() {
                // The record, not what was read of it, which would have to be kept for this.
                if !queue.arrive(at, record, is_transient) {
                    continue;
                }
                self.has_levels |= queue.fifo.has_levels();
                self.delayed += u32::from(message.flags & flag::DELAYED != 0);
            } else {
                queue.fifo.enqueue(at, is_transient);
            }
            live += 1;
            self.mark_dirty(slot);
        }
        live
    }

    /// A message came that lies in a segment of a stream.
    #[cold]
    #[inline(never)]
    fn apply_refer(&mut self, at: LogIndex, record: &[u8]) -> u32 {
        let refer = Refer::read(record).expect("a committed batch holds whole records");
        let Some(slot) = self.slot(refer.queue) else { return 0 };
        let queue = &mut self.queues[slot as usize];
        let seq = queue.fifo.next_seq();
        queue.arrive_referred(at, &refer);
        queue.refers = true;
        self.has_levels |= queue.fifo.has_levels();
        self.streams_mut().references.add(refer.queue, seq, refer.segment);
        self.mark_dirty(slot);
        1
    }

    fn apply_positions(&mut self, kind: Kind, record: &[u8]) {
        let positions = Positions::read(record).expect("a committed batch holds whole records");
        let Some(slot) = self.slot(positions.queue) else { return };
        let fifo = &mut self.queues[slot as usize].fifo;
        if fifo.has_features() && kind == Kind::Settle {
            fifo.settled_together(positions.ranges(), &mut self.effects);
        } else {
            for range in positions.ranges() {
                match kind {
                    Kind::Settle => fifo.settled(range, &mut self.effects),
                    Kind::Return => fifo.returned(range, positions.outcome, &mut self.effects),
                    Kind::Purge => fifo.purged(range, &mut self.effects),
                    Kind::Postpone => {
                        let due_at_ms = positions.delivered_at_ms;
                        fifo.postponed(range, positions.outcome, due_at_ms, &mut self.effects);
                    }
                    kind => fifo.record(rare(kind, range), &mut self.effects),
                }
            }
        }
        if !self.effects.list.is_empty() {
            self.set_aside(positions.queue);
        }
        self.mark_dirty(slot);
    }

    /// Keeps what a queue's machine has asked for apart from what others ask for.
    #[cold]
    #[inline(never)]
    fn set_aside(&mut self, queue: QueueId) {
        self.set_aside.push((queue, std::mem::take(&mut self.effects.list)));
    }

    /// Does what was asked for when records were applied, but for queues that are gone.
    #[cold]
    #[inline(never)]
    pub(crate) fn carry_out_set_aside(&mut self, turn: &mut Turn<'_>) {
        for (queue, list) in std::mem::take(&mut self.set_aside) {
            if let Some(slot) = self.slot(queue) {
                self.effects.list = list;
                self.carry_out(turn, slot, None);
            }
        }
    }

    /// Something was asked for when records were applied.
    #[inline]
    pub(crate) fn has_set_aside(&self) -> bool {
        !self.set_aside.is_empty()
    }

    /// Frees what left the queues since the last time.
    pub(crate) fn let_go(&mut self, limits: &Limits) {
        if !self.effects.left.is_empty() {
            self.batches.left(&self.effects.left, limits.spare_buffers_max);
            self.effects.left.clear();
        }
    }

    #[inline]
    pub(crate) fn mark_dirty(&mut self, slot: u32) {
        let queue = &mut self.queues[slot as usize];
        if !queue.is_dirty {
            queue.is_dirty = true;
            self.dirty.push_back(slot);
        }
    }
}
