//! A log gives out reads, keeps what they bring, and its queues go on with that.

use super::{
    Ahead, Hunger, Keeping, Purpose, ReadBytes, ReadRequest, ReadWhat, Reader, Used, WINDOW_BYTES_MIN, Way,
};
use crate::limits::Limits;
use crate::log::{Commons, Reads, Store};
use crate::placed::Machines;
use crate::placed::queue::at::AtQueue;
use crate::placed::queue::delivery::Site;
use crate::placed::queue::owned::{OwnedQueue, Waiting};
use crate::post::Post;
use crate::turn::Turn;
use base::hash::SetById;
use message::record::{Kind, Outcome, SeqRange};

impl Commons {
    /// Moves the reads that deliveries wait for into `into`, as many as may be under way at once.
    #[inline]
    pub(crate) fn take_reads(&mut self, machines: &Machines, limits: &Limits, into: &mut Vec<ReadRequest>) {
        if !self.reads.reading.hungry.is_empty() {
            self.give_out_reads(machines, limits, into);
        }
    }

    #[cold]
    #[inline(never)]
    fn give_out_reads(&mut self, machines: &Machines, limits: &Limits, into: &mut Vec<ReadRequest>) {
        self.reads.referred.forget_gone(|slot, id, seq| {
            let queue = machines.queue(slot).filter(|queue| queue.id == id);
            queue.is_some_and(|queue| queue.fifo.place(seq).is_some())
        });
        while self.reads.reading.under_way < limits.reads_max
            && let Some(hunger) = self.reads.reading.hungry.pop_front()
        {
            let Some((reader, parts)) = self.feed(machines, hunger, limits) else { continue };
            let spare = &mut self.store.batches.spare;
            let used = parts.iter().map(|part| spare.take_for(part.span().len as usize)).collect();
            let request = ReadRequest { log: self.id, parts, reader, into: Used(used) };
            self.reads.reading.under_way += 1;
            self.reads.reading.bytes += request.bytes();
            into.push(request);
        }
    }

    /// The parts to read for this, and for whom; none where nothing more is needed.
    fn feed(
        &mut self,
        machines: &Machines,
        hunger: Hunger,
        limits: &Limits,
    ) -> Option<(Reader, Vec<ReadWhat>)> {
        self.forget_who_reads_no_more(machines);
        let window_min = WINDOW_BYTES_MIN.min(limits.read_bytes_max as u64);
        let new = |next| Ahead { next, window: window_min, under_way: 0, is_listed: false, way: Way::Onward };
        let (reader, mut parts) = match hunger {
            Hunger::Only(what) => return Some((Reader::NONE, vec![what])),
            Hunger::Miss { reader, seq, what } => {
                let ahead = self.reads.reading.ahead.entry(reader).or_insert_with(|| new(seq));
                if seq < ahead.next && ahead.way == Way::Onward {
                    ahead.window = window_min;
                }
                ahead.next = seq;
                (reader, vec![what])
            }
            Hunger::On { reader } => {
                self.reads.reading.ahead.get_mut(&reader)?.is_listed = false;
                (reader, Vec::new())
            }
        };
        // All that queues read ahead stays until it is needed: they share the room there is.
        let share = limits.loaded_bytes_max as u64 / 2 / self.reads.reading.ahead.len().max(1) as u64;
        if parts.is_empty() && share < window_min {
            return None;
        }
        let has_more = self.take_along(machines, reader, share, &mut parts);
        if parts.is_empty() {
            return None;
        }
        let ahead = self.reads.reading.ahead.get_mut(&reader)?;
        ahead.under_way += 1;
        if has_more {
            self.reads.reading.list(reader);
        }
        Some((reader, parts))
    }

    /// Keeps the bytes that were read.
    pub(crate) fn keep_loaded(
        &mut self,
        what: ReadWhat,
        brought: ReadBytes,
        keeping: Keeping,
        limits: &Limits,
    ) {
        let Commons { store: Store { batches, .. }, reads: Reads { loaded, .. }, .. } = self;
        loaded.keep(batches, (what, brought), keeping, limits);
    }

    /// A read for this came back; `queue` is the one in its slot.
    pub(crate) fn read_came_back(
        &mut self,
        reader: Reader,
        queue: Option<&OwnedQueue>,
        bytes: u64,
        limits: &Limits,
    ) {
        let Reads { reading, loaded, .. } = &mut self.reads;
        reading.came_back(reader, bytes, limits);
        let is_idle = queue.is_none_or(|queue| match reader.purpose {
            Purpose::Delivery => queue.fifo.ready() == 0 && !queue.is_waiting(),
            Purpose::Choosing => queue.fifo.to_classify().is_none(),
        });
        if is_idle {
            reading.forget_idle(reader);
        }
        if is_idle && reader.purpose == Purpose::Choosing {
            loaded.ends_passing();
        }
    }

    /// Bytes of what was read back that are more than [`Limits::loaded_bytes_max`].
    pub(crate) fn loaded_beyond(&self, limits: &Limits) -> usize {
        self.reads.loaded.bytes(&self.store.batches).saturating_sub(limits.loaded_bytes_max)
    }
}

impl AtQueue<'_> {
    /// Something was read that the queue waits for: what waits for it is delivered, or passed over where it is damaged.
    pub(crate) fn read_done(&mut self, turn: &mut Turn<'_>, what: ReadWhat, is_damaged: bool) {
        if is_damaged {
            self.pass_over_damage(what, turn.post);
            self.pass_over_dying(what);
            self.pass_over_shown(what);
            self.pass_over_weighing(turn.now, what);
            self.pass_over_choosing(what);
        }
        self.list_dying();
        self.deliver_waiting(turn);
        self.mark_dirty();
    }

    /// Delivers what waits, as far as it was read.
    pub(crate) fn deliver_waiting(&mut self, turn: &mut Turn<'_>) {
        if self.queue.is_chosen_from() {
            return self.deliver_waiting_apart(turn);
        }
        while let Some(first) = self.queue.first_waiting() {
            if !self.try_deliver_waiting(first, turn.post) {
                break;
            }
            self.queue.pop_waiting();
            self.delivered_late(turn, first);
            self.tell_due(turn.post);
        }
    }

    /// Delivers all that waits and was read, but to no consumer before what it waits for in front of that: consumers that
    /// choose are at different places, and nobody waits for another's messages. The first that was not read is asked for.
    #[cold]
    #[inline(never)]
    fn deliver_waiting_apart(&mut self, turn: &mut Turn<'_>) {
        let mut behind: SetById<u32> = SetById::default();
        let mut at = 0;
        while let Some(next) = self.queue.waiting_at(at) {
            if behind.contains(&next.consumer.0) {
                at += 1;
                continue;
            }
            let is_elsewhere = !behind.is_empty() && matches!(self.locate(next.seq), Site::Away(_));
            if is_elsewhere || !self.try_deliver_waiting(next, turn.post) {
                behind.insert(next.consumer.0);
                at += 1;
                continue;
            }
            self.queue.take_waiting(at);
            self.delivered_late(turn, next);
        }
        self.tell_due(turn.post);
    }

    fn try_deliver_waiting(&mut self, waiting: Waiting, post: &mut Post) -> bool {
        match waiting.is_annotated {
            true => self.try_deliver_annotated(waiting, post),
            false => self.try_deliver(waiting, post),
        }
    }

    /// One that waited is delivered: its lease begins, and it is settled where its consumer settles at once.
    fn delivered_late(&mut self, turn: &mut Turn<'_>, delivery: Waiting) {
        self.lease_from_now(delivery.consumer, delivery.seq);
        if delivery.settles && !(delivery.is_barrier && self.queue.waits_for_barrier(delivery.seq)) {
            let (id, range) = (self.queue.id, SeqRange { first: delivery.seq, last: delivery.seq });
            let (kind, outcome) = (Kind::Settle, Outcome::Accepted);
            self.commons.pipeline.append_positions(turn.now, kind, id, outcome, range);
        }
    }
}
