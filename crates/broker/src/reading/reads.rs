//! A log gives out reads, keeps what they bring, and its queues go on with that.

use super::{Ahead, Hunger, ReadBytes, ReadRequest, ReadWhat, Used, WINDOW_BYTES_MIN};
use crate::limits::Limits;
use crate::log::{Commons, Reads, Store};
use crate::placed::Machines;
use crate::placed::queue::at::AtQueue;
use crate::turn::Turn;
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
            let Some((slot, parts)) = self.feed(machines, hunger, limits) else { continue };
            let spare = &mut self.store.batches.spare;
            let used = parts.iter().map(|part| spare.take_for(part.span().len as usize)).collect();
            let request = ReadRequest { log: self.id, parts, slot, into: Used(used) };
            self.reads.reading.under_way += 1;
            self.reads.reading.bytes += request.bytes();
            into.push(request);
        }
    }

    /// The parts to read for this, and for which queue; none where nothing more is needed.
    fn feed(&mut self, machines: &Machines, hunger: Hunger, limits: &Limits) -> Option<(u32, Vec<ReadWhat>)> {
        self.forget_who_reads_no_more(machines);
        let window_min = WINDOW_BYTES_MIN.min(limits.read_bytes_max as u64);
        let new =
            |next| Ahead { next, window: window_min, under_way: 0, is_listed: false, has_passes: false };
        let (slot, mut parts) = match hunger {
            Hunger::Only(what) => return Some((u32::MAX, vec![what])),
            Hunger::Miss { slot, seq, what } => {
                let ahead = self.reads.reading.ahead.entry(slot).or_insert_with(|| new(seq));
                if seq < ahead.next {
                    ahead.window = window_min;
                }
                ahead.next = seq;
                (slot, vec![what])
            }
            Hunger::On { slot } => {
                self.reads.reading.ahead.get_mut(&slot)?.is_listed = false;
                (slot, Vec::new())
            }
        };
        // All that queues read ahead stays until it is needed: they share the room there is.
        let share = limits.loaded_bytes_max as u64 / 2 / self.reads.reading.ahead.len().max(1) as u64;
        if parts.is_empty() && share < window_min {
            return None;
        }
        let has_more = self.take_along(machines, slot, share, &mut parts);
        if parts.is_empty() {
            return None;
        }
        let ahead = self.reads.reading.ahead.get_mut(&slot)?;
        ahead.under_way += 1;
        if has_more {
            self.reads.reading.list(slot);
        }
        Some((slot, parts))
    }

    /// Keeps the bytes read for a queue; `has_passes`: it is gone through more than once, and few others are read.
    pub(crate) fn keep_loaded(
        &mut self,
        what: ReadWhat,
        brought: ReadBytes,
        has_passes: bool,
        limits: &Limits,
    ) {
        let Commons { store: Store { batches, .. }, reads: Reads { loaded, .. }, .. } = self;
        loaded.keep(batches, what, brought);
        if !has_passes {
            loaded.drop_oldest(batches, what.name(), limits);
        } else if loaded.bytes(batches) > limits.loaded_by_priority_bytes_max {
            loaded.drop_needed_last(batches, what.name(), limits);
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
        while let Some(first) = self.queue.first_waiting() {
            let is_delivered = if first.is_annotated {
                self.try_deliver_annotated(first, turn.post)
            } else {
                self.try_deliver(first, turn.post)
            };
            if !is_delivered {
                break;
            }
            self.queue.pop_waiting();
            self.lease_from_now(first.consumer, first.seq);
            self.tell_due(turn.post);
            if first.settles {
                let (id, range) = (self.queue.id, SeqRange { first: first.seq, last: first.seq });
                let (kind, outcome) = (Kind::Settle, Outcome::Accepted);
                self.commons.pipeline.append_positions(turn.now, kind, id, outcome, range);
            }
        }
        self.mark_dirty();
    }
}
