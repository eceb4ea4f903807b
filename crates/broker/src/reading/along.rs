//! What a read takes along: what its queue hands out next and has to be read too.
//!
//! In a queue whose messages have priorities that is not what lies next: it is what follows of the same priority.
//! Invariant: what is put into a read is among what is asked for.

use super::{Ahead, BlockKey, Loaded, ReadWhat, Reading};
use crate::batches::{Batches, Found};
use crate::log::Log;
use crate::owned::OwnedQueue;
use base::id::{LogIndex, QueueSeq};
use journal::span::SPANS_MAX;
use message::record::SeqRange;
use queue::{Place, Stretch};
use rustc_hash::FxHashMap;

/// A read that is being put together.
struct Basket<'a> {
    asked: &'a mut FxHashMap<(u64, u64), Vec<u32>>,
    parts: &'a mut Vec<ReadWhat>,
    bytes: u64,
    /// Bytes at most, where there is more than one part.
    window: u64,
}

impl Basket<'_> {
    /// Puts `what` in unless it is asked for already; false: there is no room for it, or it lies elsewhere.
    fn take(&mut self, what: ReadWhat) -> bool {
        if self.asked.contains_key(&what.name()) {
            return true;
        }
        let span = what.span();
        let follows = |last: &ReadWhat| last.span().is_followed_by(&span);
        let has_room = self.bytes + span.len <= self.window && self.parts.len() < SPANS_MAX;
        if !self.parts.last().is_none_or(|last| has_room && follows(last)) {
            return false;
        }
        self.asked.insert(what.name(), Vec::new());
        self.bytes += span.len;
        self.parts.push(what);
        true
    }
}

impl Log {
    /// Adds to `parts` what the queue in `slot` needs next, as far as its window holds and at most `share` bytes in all.
    /// True: there is more, for another read.
    pub(super) fn take_along(&mut self, slot: u32, share: u64, parts: &mut Vec<ReadWhat>) -> bool {
        let Log { queues, batches, loaded, reading, .. } = self;
        let Reading { asked, ahead, .. } = reading;
        let (Some(queue), Some(ahead)) = (queues.get(slot as usize), ahead.get_mut(&slot)) else {
            return false;
        };
        let bytes = parts.iter().map(|part| part.span().len).sum();
        let mut basket = Basket { asked, parts, bytes, window: ahead.window.min(share) };
        if queue.fifo.has_levels() {
            return take_of_level(queue, batches, loaded, ahead, &mut basket);
        }
        let fifo = &queue.fifo;
        // What consumers wait for, and then what they have room for.
        let waiting = queue.first_waiting().map(|first| first.seq);
        let Some(first) = waiting.or_else(|| fifo.next_ready_at(QueueSeq(0))) else { return false };
        let room = queue.waiting_len() as u64 + fifo.room(fifo.ready());
        let end = first.0.saturating_add(room).min(fifo.next_seq().0);
        if ahead.next.0 >= end {
            return false;
        }
        for stretch in fifo.stretches(SeqRange { first: ahead.next, last: QueueSeq(end - 1) }) {
            let mut rest = match stretch {
                Stretch::Log(stretch) => stretch,
                Stretch::Segment { first, run, .. } => {
                    let key = BlockKey::new(queue.definition.id, run);
                    if loaded.block(key).is_none() && !basket.take(ReadWhat::Block(key)) {
                        ahead.next = first;
                        return true;
                    }
                    continue;
                }
            };
            while let Some((seq, index)) = rest.first() {
                let behind = match batches.find(index) {
                    Found::Resident(_, offset, len) => index.0 - u64::from(offset) + u64::from(len),
                    Found::Away(base, place) => {
                        if !basket.take(ReadWhat::Batch { base, place }) {
                            ahead.next = seq;
                            return true;
                        }
                        base.0 + place.len
                    }
                };
                rest = rest.split_at(LogIndex(behind)).1;
            }
        }
        ahead.next = QueueSeq(end);
        false
    }
}

/// As [`Log::take_along`], in a queue whose messages have priorities.
fn take_of_level(
    queue: &OwnedQueue,
    batches: &mut Batches,
    loaded: &Loaded,
    ahead: &mut Ahead,
    basket: &mut Basket<'_>,
) -> bool {
    let fifo = &queue.fifo;
    let Some(first) = queue.waiting().next().or_else(|| fifo.coming(QueueSeq(0)).next()) else {
        return false;
    };
    // Of another priority, whose messages lie further in front: those are to be read from the first on.
    if first < ahead.next
        && Unread::of(queue, batches, loaded, first).is_some_and(|unread| !unread.is_in(basket))
    {
        ahead.next = first;
    }
    let from = ahead.next;
    // Where the deliveries that wait go back, the next priority begins.
    let mut last = first;
    let is_next = |seq: &QueueSeq| *seq >= std::mem::replace(&mut last, *seq);
    let waiting: Vec<QueueSeq> = queue.waiting().take_while(is_next).collect();
    let is_all = waiting.len() == queue.waiting_len();
    let room = if is_all { fifo.room(fifo.ready()) } else { 0 };
    let behind = waiting.last().map_or(from, |last| from.max(QueueSeq(last.0 + 1)));
    let coming = fifo.coming(behind).take(usize::try_from(room).unwrap_or(usize::MAX));
    for seq in waiting.iter().copied().filter(|seq| *seq >= from).chain(coming) {
        if let Some(unread) = Unread::of(queue, batches, loaded, seq)
            && !basket.take(unread.0)
        {
            ahead.next = seq;
            return true;
        }
        ahead.next = QueueSeq(seq.0 + 1);
    }
    false
}

/// What has to be read for a message.
struct Unread(ReadWhat);

impl Unread {
    fn of(queue: &OwnedQueue, batches: &mut Batches, loaded: &Loaded, seq: QueueSeq) -> Option<Unread> {
        match queue.fifo.place(seq)? {
            Place::Log(index) => match batches.find(index) {
                Found::Resident(..) => None,
                Found::Away(base, place) => Some(Unread(ReadWhat::Batch { base, place })),
            },
            Place::Segment(run) => {
                let key = BlockKey::new(queue.definition.id, run);
                loaded.block(key).is_none().then_some(Unread(ReadWhat::Block(key)))
            }
        }
    }

    /// It is asked for.
    fn is_in(&self, basket: &Basket<'_>) -> bool {
        basket.asked.contains_key(&self.0.name())
    }
}
