//! Neighbours that a read takes along: messages that its queue hands out next and that have to be read too.
//!
//! In a queue whose messages have priorities those do not lie next: they are the next of the same priority, some of
//! each batch or block. Where consumers choose they are those that wait, wherever they are, and what lies behind.
//! Invariant: each part of a read is among the parts asked for.

use super::{BlockKey, Loaded, Purpose, READS_OF_QUEUE_MAX, ReadWhat, Reader, Reading, Way};
use crate::batches::{Batches, Found};
use crate::log::{Commons, Reads, Store};
use crate::placed::Machines;
use crate::placed::queue::owned::OwnedQueue;
use base::hash::MapById;
use base::id::{LogIndex, QueueSeq};
use journal::span::SPANS_MAX;
use message::record::SeqRange;
use queue::Stretch;

/// A read that is being put together.
struct Basket<'a> {
    asked: &'a mut MapById<(u64, u64), Vec<u32>>,
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

impl Commons {
    /// Adds to `parts` those that are needed next, as far as the window holds and at most `share` bytes in all. True: there is
    /// more, for another read.
    pub(super) fn take_along(
        &mut self,
        machines: &Machines,
        reader: Reader,
        share: u64,
        parts: &mut Vec<ReadWhat>,
    ) -> bool {
        let Commons { store: Store { batches, .. }, reads: Reads { loaded, reading, .. }, .. } = self;
        let Reading { asked, ahead, .. } = reading;
        let (Some(queue), Some(ahead)) = (machines.queue(reader.slot), ahead.get_mut(&reader)) else {
            return false;
        };
        let bytes = parts.iter().map(|part| part.span().len).sum();
        let mut basket = Basket { asked, parts, bytes, window: ahead.window.min(share) };
        let fifo = &queue.fifo;
        // Reading ahead of those that are not next in order of position is bounded by bytes.
        let reach = share.min(ahead.window * u64::from(READS_OF_QUEUE_MAX));
        let mut pieces = Pieces { queue, batches, loaded, basket: &mut basket, reach, share };
        if reader.purpose == Purpose::Choosing {
            let Some(range) = fifo.to_classify() else { return false };
            return pieces.take(|from| {
                let rest = SeqRange { first: from.max(range.first), last: range.last };
                fifo.live_within(rest).next()
            });
        }
        if ahead.way == Way::ByLevel || fifo.has_levels() {
            // To another priority it goes back, and reads on there as it did here.
            (ahead.way, ahead.next) = (Way::ByLevel, QueueSeq(0));
            return pieces.take_of_level();
        }
        if queue.is_chosen_from() {
            ahead.way = Way::Chosen;
            let mut waiting: Vec<QueueSeq> = queue.waiting().collect();
            waiting.sort_unstable();
            // At the front may lie what nobody wants.
            return !waiting.is_empty()
                && pieces.take(|from| {
                    let next = waiting.partition_point(|seq| *seq < from);
                    waiting.get(next).copied().or_else(|| fifo.coming(from).next())
                });
        }
        ahead.way = Way::Onward;
        // First the messages that consumers wait for, then those they have room for.
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
                    let key = BlockKey::new(queue.id, run);
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

/// The batches and blocks of a queue that a read takes along where they are not simply the next.
struct Pieces<'a, 'b> {
    queue: &'a OwnedQueue,
    batches: &'a mut Batches,
    loaded: &'a Loaded,
    basket: &'a mut Basket<'b>,
    /// Bytes that are looked at, with those that are there already.
    reach: u64,
    /// Bytes that stay there.
    share: u64,
}

impl Pieces<'_, '_> {
    /// Takes those along in which the messages lie that `next` says are needed, each time the first from a position on. True: there
    /// is more, for another read.
    fn take(&mut self, next: impl Fn(QueueSeq) -> Option<QueueSeq>) -> bool {
        let (mut reached, mut end) = (0, QueueSeq(0));
        for _ in 0..SPANS_MAX {
            let Some(seq) = next(end) else { return false };
            match self.take_at(seq, &mut reached) {
                Taken::Piece(behind) => end = behind,
                Taken::NoRoom => return true,
                Taken::Nothing => return false,
            }
        }
        false
    }

    /// As [`Commons::take_along`], in a queue whose messages have priorities: of a batch or block only some are handed out
    /// next, so the messages that consumers have room for are soon read, and are not looked at.
    fn take_of_level(&mut self) -> bool {
        let (queue, fifo) = (self.queue, &self.queue.fifo);
        if !queue.is_waiting() && fifo.consumers() == 0 {
            return false;
        }
        let mut reached = 0;
        let mut waiting = queue.waiting();
        let (mut last, mut end, mut has_begun) = (QueueSeq(0), QueueSeq(0), false);
        for _ in 0..SPANS_MAX {
            // Messages behind it in the same batch or block are not looked at.
            let is_elsewhere = |seq: &QueueSeq| *seq < std::mem::replace(&mut last, *seq) || *seq >= end;
            let seq = waiting.find(is_elsewhere).or_else(|| {
                let from = if std::mem::replace(&mut has_begun, true) { end } else { QueueSeq(0) };
                fifo.coming(from).next()
            });
            let Some(seq) = seq else { return false };
            match self.take_at(seq, &mut reached) {
                Taken::Piece(behind) => end = behind,
                Taken::NoRoom => return true,
                Taken::Nothing => return false,
            }
        }
        false
    }

    /// Takes the piece along in which a message lies, unless it is there already.
    fn take_at(&mut self, seq: QueueSeq, reached: &mut u64) -> Taken {
        let Some(piece) = Piece::at(self.queue, self.batches, self.loaded, seq) else {
            return Taken::Nothing;
        };
        // A piece that does not fit beside those before it would drive them out; they would then be read again, and so
        // on without end.
        if *reached >= self.reach || (*reached > 0 && *reached + piece.bytes > self.share) {
            return Taken::Nothing;
        }
        *reached += piece.bytes;
        match piece.unread {
            Some(unread) if !self.basket.take(unread) => Taken::NoRoom,
            _ => Taken::Piece(piece.end),
        }
    }
}

/// The end of taking a piece along.
enum Taken {
    /// It is in the read, or was read before; the first position behind it that may lie elsewhere.
    Piece(QueueSeq),
    /// It is for another read.
    NoRoom,
    /// There is none, or it would be too much.
    Nothing,
}

/// Where a message lies.
struct Piece {
    /// The part to be read for it, if any.
    unread: Option<ReadWhat>,
    /// How large the batch or block is that it lies in.
    bytes: u64,
    /// The first position behind it that may lie elsewhere.
    end: QueueSeq,
}

impl Piece {
    fn at(queue: &OwnedQueue, batches: &mut Batches, loaded: &Loaded, seq: QueueSeq) -> Option<Piece> {
        Some(match queue.fifo.stretch_from(seq)? {
            Stretch::Log(stretch) => {
                let (_, index) = stretch.first()?;
                let (unread, base, len) = match batches.find(index) {
                    Found::Resident(_, offset, len) => (None, index.0 - u64::from(offset), u64::from(len)),
                    Found::Away(base, place) => (Some(ReadWhat::Batch { base, place }), base.0, place.len),
                };
                let here = stretch.split_at(LogIndex(base + len)).0;
                Piece { unread, bytes: len, end: QueueSeq(seq.0 + here.iter().len() as u64) }
            }
            Stretch::Segment { run, .. } => {
                let key = BlockKey::new(queue.id, run);
                let unread = loaded.block(key).is_none().then_some(ReadWhat::Block(key));
                Piece { unread, bytes: u64::from(run.len), end: QueueSeq(run.last.0 + 1) }
            }
        })
    }
}
