//! Records are applied to a queue: they bring its messages, move them, and say what its machine keeps of them.

use super::at::AtQueue;
use super::features::settings_of;
use crate::placed::stream::OfStreams;
use base::id::LogIndex;
use message::record::{Annotate, Configure, Deduplicate, Kind, Positions, Refer, SeqRange, Weigh, flag};
use queue::{Record, WindowSettings};

const WHOLE: &str = "a committed batch holds whole records";

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

impl AtQueue<'_> {
    /// A message came, in this record with these flags; `asks`: it has properties that the queue may keep. How many messages
    /// live by that: none where it is a duplicate.
    #[inline]
    pub(crate) fn take_in(&mut self, at: LogIndex, record: &[u8], flags: u8, asks: bool) -> u32 {
        let queue = &mut *self.queue;
        let is_transient = flags & flag::DURABLE == 0 && !queue.is_quorum();
        if asks || queue.has_features() {
            // The record, not what was read of it, which would have to be kept for this.
            if !queue.arrive(at, record, is_transient) {
                return 0;
            }
            let store = &mut self.commons.store;
            store.has_levels |= queue.fifo.has_levels();
            store.delayed += u32::from(flags & flag::DELAYED != 0);
        } else {
            queue.fifo.enqueue(at, is_transient);
        }
        self.mark_dirty();
        1
    }

    /// A record that names the queue is applied. How many messages live by that.
    #[inline]
    pub(crate) fn apply(&mut self, at: LogIndex, kind: Kind, record: &[u8], streams: &mut OfStreams) -> u32 {
        match kind {
            Kind::Refer => {
                self.refer(at, record, streams);
                return 1;
            }
            Kind::Configure => self.configure(record),
            Kind::Annotate => self.annotated(record),
            // Records of streams, of what is no machine, and of what comes and goes.
            Kind::Append
            | Kind::Track
            | Kind::Truncate
            | Kind::StreamSettings
            | Kind::Catalog
            | Kind::Enqueue
            | Kind::Origin
            | Kind::Open
            | Kind::Close => {}
            Kind::Settle
            | Kind::Return
            | Kind::Purge
            | Kind::Expire
            | Kind::Drop
            | Kind::DeadLetter
            | Kind::Postpone => self.move_positions(kind, record),
        }
        0
    }

    /// A message came that lies in a segment of a stream.
    #[cold]
    #[inline(never)]
    fn refer(&mut self, at: LogIndex, record: &[u8], streams: &mut OfStreams) {
        let refer = Refer::read(record).expect(WHOLE);
        let queue = &mut *self.queue;
        let seq = queue.fifo.next_seq();
        queue.arrive_referred(at, &refer);
        queue.refers = true;
        self.commons.store.has_levels |= queue.fifo.has_levels();
        streams.make().references.add(refer.queue, seq, refer.segment);
        self.mark_dirty();
    }

    fn move_positions(&mut self, kind: Kind, record: &[u8]) {
        let positions = Positions::read(record).expect(WHOLE);
        let (fifo, effects) = (&mut self.queue.fifo, &mut self.commons.effects);
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
            match self.queue.is_owned() {
                true => self.commons.set_aside(positions.queue),
                false => effects.list.clear(),
            }
        }
        self.mark_dirty();
    }

    /// A record of the kind that all these but annotations have.
    #[cold]
    fn configure(&mut self, record: &[u8]) {
        let fifo = &mut self.queue.fifo;
        if let Some(Deduplicate { keys_max, ttl_ms, .. }) = Deduplicate::read(record) {
            let keys_max = keys_max.min(WindowSettings::KEYS_MAX);
            fifo.deduplicate(WindowSettings { keys_max, ttl_ms });
        } else if let Some(weigh) = Weigh::read(record) {
            fifo.weigh(weigh.range, weigh.sizes());
            // There may be too much in it, now that it is known.
            self.mark_dirty();
        } else {
            let configure = Configure::read(record).expect(WHOLE);
            fifo.configure(settings_of(&configure, fifo.settings()));
            if fifo.to_weigh().is_some() {
                self.mark_dirty();
            }
        }
    }

    /// Positions have annotations.
    #[cold]
    fn annotated(&mut self, record: &[u8]) {
        let annotate = Annotate::read(record).expect(WHOLE);
        self.queue.fifo.annotated(annotate.range, &annotate.annotations.into());
    }
}
