//! Weighing: a limit in bytes came to a queue that keeps no sizes of what is in it, and its log finds them out.
//!
//! In order of position and some at a time: the records are looked at where they lie, those on disk alone are read first,
//! and what they weigh is recorded ([`Weigh`]). The next are weighed when that is applied. So where it has come is the
//! machine's to know, and goes on there after a restart, a purge or another policy; nothing of it is kept here but whether
//! a record is under way.
//! A message whose bytes are damaged weighs nothing.

use crate::limits::Limits;
use crate::log::Brings;
use crate::placed::queue::at::AtQueue;
use crate::placed::queue::delivery::Site;
use crate::placed::queue::owned::size_in;
use crate::reading::ReadWhat;
use base::Now;
use base::id::QueueSeq;
use message::record::{Enqueue, SeqRange, Weigh};

impl AtQueue<'_> {
    /// Weighs the next messages of a queue, if any are to be weighed and none is under way.
    #[cold]
    #[inline(never)]
    pub(crate) fn weigh(&mut self, now: Now, limits: &Limits) {
        let Some(range) = self.next_to_weigh() else { return };
        let (fifo, is_quorum) = (&self.queue.fifo, self.queue.is_quorum());
        let some: Vec<QueueSeq> = fifo.live_within(range).take(limits.weighed_at_once_max).collect();
        let is_all = some.len() < limits.weighed_at_once_max;
        let mut last = some.last().copied().filter(|_| !is_all).unwrap_or(range.last);
        let mut sizes = Vec::with_capacity(some.len());
        for seq in some {
            match self.locate(seq) {
                Site::Here(memory, offset) => {
                    let message = Enqueue::read(&memory[offset as usize..]);
                    let bytes = size_in(is_quorum, &message.expect("a live message is a record"));
                    sizes.push((seq, bytes.try_into().unwrap_or(u32::MAX)));
                }
                Site::Away(what) => {
                    self.commons.reads.reading.wait(what, self.slot, None);
                    last = QueueSeq(seq.0.saturating_sub(1));
                    break;
                }
                Site::Gone => {}
            }
        }
        if range.first <= last && (!sizes.is_empty() || last == range.last) {
            self.append_weights(now, SeqRange { first: range.first, last }, &sizes);
        }
    }

    /// The positions to be weighed, unless a record about them is under way.
    fn next_to_weigh(&self) -> Option<SeqRange> {
        let queue = &*self.queue;
        let features = queue.features.as_ref()?;
        let is_asked_for =
            features.rules.bytes_max.is_some() && self.commons.pipeline.applied() >= features.weighed_to;
        queue.fifo.to_weigh().filter(|_| is_asked_for)
    }

    fn append_weights(&mut self, now: Now, range: SeqRange, sizes: &[(QueueSeq, u32)]) {
        let id = self.queue.id;
        self.commons.pipeline.append(now, Brings::NOTHING, |records| {
            Weigh::write(id, range, now.wall_ms, sizes, records);
        });
        let end = self.commons.pipeline.next();
        if let Some(features) = &mut self.queue.features {
            features.weighed_to = end;
        }
        // The turn that follows applies it.
        self.mark_dirty();
    }

    /// The bytes there are damaged: those of the next messages to be weighed that lie in them weigh nothing.
    #[cold]
    pub(crate) fn pass_over_weighing(&mut self, now: Now, what: ReadWhat) {
        let Some(range) = self.next_to_weigh() else { return };
        let mut next = range.first;
        while next <= range.last {
            let rest = SeqRange { first: next, last: range.last };
            let Some(seq) = self.queue.fifo.live_within(rest).next() else { break };
            if !matches!(self.locate(seq), Site::Away(found) if found == what) {
                break;
            }
            next = QueueSeq(seq.0 + 1);
        }
        if next > range.first {
            let range = SeqRange { first: range.first, last: QueueSeq(next.0 - 1) };
            self.append_weights(now, range, &[]);
        }
    }
}
