//! Shares in reading ahead: held by queues that may read on.
//!
//! Nobody says when a queue reads no more: the messages it hands out last were read before, and those that come then
//! never left memory. So with each read that is given out a few of those with a share are looked at, in turn.
//! A queue whose consumers have no room for now keeps its share: it goes on where it was.

use super::{Purpose, Reader, Way};
use crate::batches::Found;
use crate::log::{Commons, Reads, Store};
use crate::placed::Machines;
use base::id::LogIndex;
use queue::Place;
use std::ops::Bound;

/// Queues looked at with each read that is given out.
const LOOKS: usize = 16;

impl Commons {
    /// Of the queues with a share the next few are looked at: those that read no more have none from here on.
    pub(super) fn forget_who_reads_no_more(&mut self, machines: &Machines) {
        let behind = self.reads.reading.looked_at.map_or(Bound::Unbounded, Bound::Excluded);
        let mut looked_at = [Reader::NONE; LOOKS];
        let mut count = 0;
        for ((reader, _), place) in
            self.reads.reading.ahead.range((behind, Bound::Unbounded)).zip(&mut looked_at)
        {
            *place = *reader;
            count += 1;
        }
        let looked_at = &looked_at[..count];
        // Behind the last one, it begins again.
        let is_round = count < LOOKS;
        self.reads.reading.looked_at = looked_at.last().filter(|_| !is_round).copied();
        for reader in looked_at {
            if self.reads_no_more(machines, *reader) {
                self.reads.reading.ahead.remove(reader);
            }
        }
    }

    /// It has nothing to read, as far as can be seen.
    fn reads_no_more(&mut self, machines: &Machines, reader: Reader) -> bool {
        let Commons { store: Store { batches, .. }, reads: Reads { reading, .. }, .. } = self;
        let (Some(queue), Some(ahead)) = (machines.queue(reader.slot), reading.ahead.get(&reader)) else {
            return true;
        };
        if ahead.under_way > 0 || ahead.is_listed {
            return false;
        }
        if reader.purpose == Purpose::Choosing {
            return queue.fifo.to_classify().is_none();
        }
        if queue.is_waiting() {
            return false;
        }
        // It may be anywhere next, and nothing is lost where it begins anew.
        if ahead.way == Way::Chosen {
            return true;
        }
        if queue.fifo.ready() == 0 || queue.fifo.consumers() == 0 {
            return true;
        }
        // A message behind in order of arrival need not be handed out later.
        if ahead.way == Way::ByLevel || queue.fifo.has_levels() {
            return false;
        }
        let next = queue.fifo.next_ready_at(ahead.next);
        match next.and_then(|seq| queue.fifo.place(seq)) {
            Some(Place::Log(index)) => match batches.find(index) {
                // A batch that was read back leaves soon, and the next one may be on disk.
                Found::Resident(_, offset, _) => {
                    batches.loaded_bytes_of(LogIndex(index.0 - u64::from(offset))).is_none()
                }
                Found::Away(..) => false,
            },
            Some(Place::Segment(_)) => false,
            None => true,
        }
    }
}
