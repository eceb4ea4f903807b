//! Records of a log are applied: they move messages of the queues and streams placed on it.

use super::{Closed, Log};
use crate::limits::Limits;
use crate::placed::queue::features::settings_of;
use crate::turn::Turn;
use base::id::LogIndex;
use journal::Place;
use message::record::{
    self, Annotate, Configure, Deduplicate, Enqueue, Kind, Positions, Refer, SeqRange, Weigh, flag,
};
use queue::{Record, WindowSettings};

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
        self.commons.store.batches.push(sealed.base, sealed.len as u32, memory, place, turn.now.mono_ns);
        let from = LogIndex(sealed.base.0 + *applied as u64);
        self.commons.store.delayed = 0;
        let live = self.apply_records(from, &sealed.records()[*applied..]);
        self.commons.store.batches.came(sealed.base, live, turn.limits.spare_buffers_max);
        self.commons.let_go(turn.limits);
        waiters.iter().for_each(|waiter| turn.post.confirm(waiter));
        self.dispatch(turn);
        if self.commons.store.batches.is_over(turn.limits.resident_bytes_max) {
            self.commons.evict(turn.limits);
        } else if live > 0
            && self.commons.store.delayed == live
            && self.commons.store.batches.is_over(turn.limits.resident_delayed_bytes_max)
        {
            self.commons.store.batches.evict_newest(turn.limits.resident_delayed_bytes_max);
        }
        match live {
            0 => waiters.iter().map(|waiter| waiter.last - waiter.first + 1).sum(),
            live => live.into(),
        }
    }

    /// Applies the records of the open batch that are not applied yet.
    pub(super) fn apply_rest(&mut self, limits: &Limits) {
        let (open, applied) = self.commons.pipeline.lend_open();
        let at = LogIndex(open.base().0 + applied as u64);
        self.apply_records(at, &open.bytes()[applied..]);
        self.commons.pipeline.applied_open(open);
        self.commons.let_go(limits);
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
                Kind::Append | Kind::Track | Kind::Truncate => {
                    if let Some(streams) = &mut self.streams {
                        streams.apply(kind, record);
                    }
                }
                Kind::Refer => live += self.apply_refer(at, record),
                Kind::Configure => self.apply_configure(record),
                Kind::Annotate => self.apply_annotate(record),
                _ => self.apply_positions(kind, record),
            }
            at.0 += (rest.len() - after.len()) as u64;
            rest = after;
        }
        assert!(rest.is_empty(), "a committed batch holds whole records");
        if let Some(streams) = &mut self.streams {
            streams.close_chunks();
        }
        live
    }

    #[inline]
    fn apply_enqueue(&mut self, at: LogIndex, record: &[u8]) -> u32 {
        let message = Enqueue::read(record).expect("a committed batch holds whole records");
        let asks = message.flags & (flag::PRIORITY | flag::DELAYED | flag::FAILED) != 0
            || message.expires_at_ms != 0;
        let mut live = 0;
        for id in message.queues() {
            let Some(slot) = self.queues.slot(id) else {
                if let Some(streams) = &mut self.streams {
                    streams.apply_message(id, record);
                }
                continue;
            };
            let mut at_queue = self.at(slot);
            let queue = &mut *at_queue.queue;
            let is_transient = !message.is_durable() && !queue.definition.is_quorum();
            if asks || queue.has_features() {
                // The record, not what was read of it, which would have to be kept for this.
                if !queue.arrive(at, record, is_transient) {
                    continue;
                }
                let store = &mut at_queue.commons.store;
                store.has_levels |= queue.fifo.has_levels();
                store.delayed += u32::from(message.flags & flag::DELAYED != 0);
            } else {
                queue.fifo.enqueue(at, is_transient);
            }
            at_queue.mark_dirty();
            live += 1;
        }
        live
    }

    /// A message came that lies in a segment of a stream.
    #[cold]
    #[inline(never)]
    fn apply_refer(&mut self, at: LogIndex, record: &[u8]) -> u32 {
        let refer = Refer::read(record).expect("a committed batch holds whole records");
        let Some(slot) = self.queues.slot(refer.queue) else { return 0 };
        let queue = &mut self.queues.slab[slot as usize];
        let seq = queue.fifo.next_seq();
        queue.arrive_referred(at, &refer);
        queue.refers = true;
        self.commons.store.has_levels |= queue.fifo.has_levels();
        self.streams_mut().references.add(refer.queue, seq, refer.segment);
        self.at(slot).mark_dirty();
        1
    }

    fn apply_positions(&mut self, kind: Kind, record: &[u8]) {
        let positions = Positions::read(record).expect("a committed batch holds whole records");
        let Some(slot) = self.queues.slot(positions.queue) else { return };
        let mut at_queue = self.at(slot);
        let (fifo, effects) = (&mut at_queue.queue.fifo, &mut at_queue.commons.effects);
        if fifo.has_features() && kind == Kind::Settle {
            fifo.settled_together(positions.ranges(), effects);
        } else {
            for range in positions.ranges() {
                match kind {
                    Kind::Settle => fifo.settled(range, effects),
                    Kind::Return => fifo.returned(range, positions.outcome, effects),
                    Kind::Purge => fifo.purged(range, effects),
                    Kind::Postpone => {
                        let due_at_ms = positions.delivered_at_ms;
                        fifo.postponed(range, positions.outcome, due_at_ms, effects);
                    }
                    kind => fifo.record(rare(kind, range), effects),
                }
            }
        }
        if !effects.list.is_empty() {
            at_queue.commons.set_aside(positions.queue);
        }
        at_queue.mark_dirty();
    }

    /// A record of the kind that all these but annotations have.
    #[cold]
    fn apply_configure(&mut self, record: &[u8]) {
        if let Some(Deduplicate { queue, keys_max, ttl_ms, .. }) = Deduplicate::read(record) {
            let keys_max = keys_max.min(WindowSettings::KEYS_MAX);
            if let Some((_, queue)) = self.queues.get_mut(queue) {
                queue.fifo.deduplicate(WindowSettings { keys_max, ttl_ms });
            }
            return;
        }
        if let Some(weigh) = Weigh::read(record) {
            let Some((slot, queue)) = self.queues.get_mut(weigh.queue) else { return };
            queue.fifo.weigh(weigh.range, weigh.sizes());
            // There may be too much in it, now that it is known.
            self.at(slot).mark_dirty();
            return;
        }
        let configure = Configure::read(record).expect("a committed batch holds whole records");
        let Some((slot, queue)) = self.queues.get_mut(configure.queue) else { return };
        queue.fifo.configure(settings_of(&configure, queue.fifo.settings()));
        if queue.fifo.to_weigh().is_some() {
            self.at(slot).mark_dirty();
        }
    }

    /// Positions have annotations.
    #[cold]
    fn apply_annotate(&mut self, record: &[u8]) {
        let annotate = Annotate::read(record).expect("a committed batch holds whole records");
        let Some((_, queue)) = self.queues.get_mut(annotate.queue) else { return };
        queue.fifo.annotated(annotate.range, &annotate.annotations.into());
    }
}
