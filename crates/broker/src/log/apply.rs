//! Records of a log are applied: each goes to the machines that it names.

use super::{Closed, Commons, Log};
use crate::limits::Limits;
use crate::post::Post;
use crate::turn::Turn;
use base::id::LogIndex;
use journal::Place;
use message::record::{self, Close, Enqueue, Kind, Open, Stamp, flag};

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
        let live = self.apply_records(from, &sealed.records()[*applied..], turn.limits);
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

    /// A batch is agreed on and on this node's disk, at `place`, while another leads the log: it is applied. Nobody owns the
    /// queues here, so nothing that they ask for is done but that messages go which left them. Those that wait for what is
    /// recorded of this node's records hear so.
    ///
    /// # Panics
    /// When the batch is not the next one.
    pub(crate) fn apply_agreed(
        &mut self,
        base: LogIndex,
        records: &[u8],
        place: Place,
        (limits, post): (&Limits, &mut Post),
    ) {
        assert!(base == self.commons.pipeline.applied(), "batches are applied in the order of their log");
        self.commons.store.batches.push(base, records.len() as u32, None, Some(place), 0);
        self.commons.store.delayed = 0;
        let live = self.apply_records(base, records, limits);
        self.commons.effects.list.clear();
        self.commons.agenda.set_aside.clear();
        self.commons.store.batches.came(base, live, limits.spare_buffers_max);
        self.commons.let_go(limits);
        self.commons.pipeline.followed(LogIndex(base.0 + records.len() as u64));
        self.confirm_recorded(post);
    }

    /// Parcels of this node that are recorded are done with, and those that wait for them hear so. Where another node leads it says
    /// so itself: see [`Peers::turn`](super::peers::Peers::turn).
    pub(crate) fn confirm_recorded(&mut self, post: &mut Post) {
        let Commons { pipeline, origins, peers, .. } = &mut self.commons;
        if pipeline.follows() && peers.as_ref().is_some_and(|peers| peers.visits()) {
            return;
        }
        let outbox = pipeline.outbox_mut();
        let recorded = outbox.take_recorded(origins.recorded(outbox.origin()));
        match peers {
            Some(peers) => peers.are_done(recorded, post),
            None => {
                let waiters = recorded.iter().flat_map(|parcel| &parcel.waiters);
                waiters.for_each(|waiter| post.confirm(waiter));
            }
        }
    }

    /// Applies the records of the open batch that are not applied yet.
    pub(super) fn apply_rest(&mut self, limits: &Limits) {
        let (open, applied) = self.commons.pipeline.lend_open();
        let at = LogIndex(open.base().0 + applied as u64);
        self.apply_records(at, &open.bytes()[applied..], limits);
        self.commons.pipeline.applied_open(open);
        self.commons.let_go(limits);
    }

    /// Applies records to their machines and counts the messages that became live, once per queue. Records of machines
    /// that are not open, or gone, are passed over, and so are those that are in the log for the second time.
    pub(crate) fn apply_records(&mut self, base: LogIndex, records: &[u8], limits: &Limits) -> u32 {
        let mut at = base;
        let mut live = 0;
        let mut rest = records;
        while let Some((kind, record, mut after)) = record::split(rest) {
            match kind {
                Kind::Enqueue => live += self.apply_enqueue(at, record),
                Kind::Catalog => self.note_change(LogIndex(at.0 + (rest.len() - after.len()) as u64), record),
                Kind::Origin => after = self.begin_parcel(record, after),
                Kind::Open => self.open(record),
                Kind::Close => self.close(record, limits),
                kind => live += self.apply_to_one(at, kind, record),
            }
            at.0 += (rest.len() - after.len()) as u64;
            rest = after;
        }
        assert!(rest.is_empty(), "a committed batch holds whole records");
        if let Some(streams) = self.streams.get_mut() {
            streams.close_chunks(&mut self.machines);
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
            let slot = self.machines.slot(id);
            match slot.and_then(|slot| self.at(slot).take_in(at, record, message.flags, asks)) {
                Some(more) => live += more,
                None => self.pass_over(Kind::Enqueue, record),
            }
        }
        live
    }

    /// A record of any kind that names one machine.
    fn apply_to_one(&mut self, at: LogIndex, kind: Kind, record: &[u8]) -> u32 {
        let id = record::named(record).expect("a committed batch holds whole records");
        let slot = self.machines.slot(id);
        slot.and_then(|slot| self.at(slot).apply(at, kind, record)).unwrap_or_else(|| {
            self.pass_over(kind, record);
            0
        })
    }

    /// A change of the catalog that nodes agree on: the shard applies it. What is read back at a start it has applied.
    #[cold]
    fn note_change(&mut self, end: LogIndex, record: &[u8]) {
        if self.commons.pipeline.is_agreed_on() && self.recovering.is_none() {
            self.commons.changes.push((end, record.into()));
        }
    }

    /// The records behind this one are under its number, up to the next of its kind. Those left of `rest` are to be applied.
    #[cold]
    #[inline(never)]
    fn begin_parcel<'a>(&mut self, record: &[u8], mut rest: &'a [u8]) -> &'a [u8] {
        let stamp = Stamp::read(record).expect("a committed batch holds whole records");
        if !self.commons.origins.take(stamp) {
            while let Some((kind, _, after)) = record::split(rest)
                && kind != Kind::Origin
            {
                rest = after;
            }
        }
        rest
    }

    #[cold]
    fn open(&mut self, record: &[u8]) {
        let open = Open::read(record).expect("a committed batch holds whole records");
        self.machines.open(&open, &mut self.streams);
    }

    #[cold]
    fn close(&mut self, record: &[u8], limits: &Limits) {
        let close = Close::read(record).expect("a committed batch holds whole records");
        let Log { commons, machines, streams, recovering, .. } = self;
        machines.close(close.id, (commons, streams), recovering.is_some(), limits);
    }

    /// The machine is gone that a record names, or not open.
    fn pass_over(&mut self, kind: Kind, record: &[u8]) {
        if let Some(streams) = self.streams.get_mut() {
            streams.pass_over(kind, record);
        }
    }
}
