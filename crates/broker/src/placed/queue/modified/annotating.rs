//! A queue at work keeps the annotations that its messages come back with, and hands them out with those.

use super::Modified;
use crate::event::Item;
use crate::limits::Limits;
use crate::placed::queue::at::AtQueue;
use crate::placed::queue::delivery::Site;
use crate::placed::queue::features::Features;
use crate::placed::queue::owned::{Member, Waiting};
use crate::post::Post;
use base::id::QueueSeq;
use base::{Buffer, Memory, Now};
use message::amqp10::{Decoder, Map, Value};
use message::annotations::{head_with, merge};
use message::record::{Annotate, Enqueue, NewEnqueue, Outcome, SeqRange, flag, hidden_keys};
use queue::{ConsumerId, Fifo};
use std::sync::Arc;

impl Features {
    fn last_words(&self, seq: QueueSeq) -> Option<&Arc<[u8]>> {
        self.last_words.as_ref()?.by_seq.get(&seq.0)
    }
}

impl AtQueue<'_> {
    /// Positions come back, or are refused, with annotations. Those of a message that are over a limit are not kept,
    /// nor are any in a classic queue.
    pub(crate) fn annotate_held(&mut self, now: Now, id: ConsumerId, modified: &Modified, limits: &Limits) {
        let fifo = &self.queue.fifo;
        if !fifo.settings().counts {
            return;
        }
        let added = match Decoder::new(&modified.annotations).checked_value() {
            Ok(Value::Map(map)) => map,
            _ => Map::default(),
        };
        let parts: Vec<SeqRange> = fifo.held_within(id, modified.range).collect();
        for part in parts {
            self.annotate(now, part, (&added, modified.outcome), limits);
        }
    }

    /// Adds to the annotations of positions that one consumer holds: those without any share what they get.
    fn annotate(&mut self, now: Now, part: SeqRange, (added, outcome): (&Map<'_>, Outcome), limits: &Limits) {
        let fresh: Arc<[u8]> = merge(None, added).into();
        let room = limits.queue_annotations_bytes_max;
        let mut from = part.first.0;
        while from <= part.last.0 {
            let fifo = &self.queue.fifo;
            // Once there is no room the rest is not even looked at.
            if fifo.annotations_bytes() + fresh.len() as u64 > room {
                return;
            }
            let (annotations, last) = match fifo.annotations(QueueSeq(from)) {
                Some(before) => (merge(Some(before), added).into(), from),
                None => (fresh.clone(), last_without(fifo, from, part.last.0)),
            };
            let range = SeqRange { first: QueueSeq(from), last: QueueSeq(last) };
            if annotations.len() <= limits.annotations_bytes_max {
                self.put_annotations(now, range, annotations, outcome, limits);
            }
            from = last + 1;
        }
    }

    fn put_annotations(
        &mut self,
        now: Now,
        range: SeqRange,
        annotations: Arc<[u8]>,
        outcome: Outcome,
        limits: &Limits,
    ) {
        let queue = &mut *self.queue;
        let bytes = annotations.len() as u64 * (range.last.0 - range.first.0 + 1);
        let said = queue.features.as_ref().and_then(|features| features.last_words.as_ref());
        let held = queue.fifo.annotations_bytes() + said.map_or(0, |said| said.bytes);
        if held + bytes > limits.queue_annotations_bytes_max {
            return;
        }
        match outcome {
            Outcome::Released | Outcome::Failed => {
                queue.fifo.will_annotate(range, annotations.len());
                let annotate =
                    Annotate { queue: queue.id, range, at_ms: now.wall_ms, annotations: &annotations };
                self.append_annotate(now, &annotate);
            }
            Outcome::Rejected | Outcome::Undeliverable => {
                if let Some(features) = queue.features.as_mut().filter(|of| of.rules.takes_dead().is_some()) {
                    let words = features.last_words.get_or_insert_default();
                    (range.first.0..=range.last.0).for_each(|seq| words.put(seq, annotations.clone()));
                }
            }
            Outcome::Accepted => {}
        }
    }

    /// Delivers messages that have annotations.
    #[cold]
    #[inline(never)]
    pub(crate) fn deliver_annotated(
        &mut self,
        consumer: ConsumerId,
        range: SeqRange,
        marks: u32,
        token: Option<u32>,
        post: &mut Post,
    ) {
        self.queue.hand(
            consumer,
            (range.last.0 - range.first.0 + 1) as u32,
            marks & crate::event::REDELIVERED != 0,
        );
        // Those that lie in memory follow each other in one piece of it.
        let mut buffer = Buffer::default();
        let mut items = Vec::new();
        for seq in (range.first.0..=range.last.0).map(QueueSeq) {
            let waiting = Waiting { is_annotated: true, ..Waiting::new(consumer, seq, marks, token) };
            if self.queue.is_waiting() {
                self.queue.wait(waiting);
                continue;
            }
            let annotations = self.queue.fifo.annotations(seq).cloned();
            match self.locate(seq) {
                Site::Here(memory, offset) => {
                    let at = buffer.len() as u32;
                    write_with(memory, offset, annotations.as_deref(), &mut buffer);
                    items.push(Item { seq, offset: at, marks });
                }
                Site::Away(what) => {
                    self.commons.reads.reading.wait(what, self.slot, Some(seq));
                    self.queue.wait(waiting);
                }
                Site::Gone => {
                    if let Some(member) = self.queue.member(consumer) {
                        AtQueue::in_vain(member, token, post);
                    }
                }
            }
        }
        let Some(Member { port, handle }) = self.queue.recipient(consumer) else { return };
        let Some(first) = items.first().copied() else { return };
        let memory = buffer.seal();
        match token {
            None => post.deliver_all(port, handle, &memory, items.into_iter()),
            Some(token) => {
                let ready = self.queue.fifo.ready();
                post.got(port, token, handle, &memory, first, ready);
            }
        }
    }

    /// Delivers one that waited for its bytes, if they are in memory; else asks for them.
    #[cold]
    pub(crate) fn try_deliver_annotated(&mut self, delivery: Waiting, post: &mut Post) -> bool {
        let Waiting { consumer, seq, marks, token, is_barrier, .. } = delivery;
        let Some(member) = self.queue.recipient(consumer) else { return true };
        let ready = self.queue.fifo.ready();
        let annotations = self.queue.fifo.annotations(seq).cloned();
        let memory = match self.locate(seq) {
            Site::Here(memory, offset) => rewritten(memory, offset, annotations.as_deref()),
            Site::Away(what) => {
                self.commons.reads.reading.wait(what, self.slot, Some(seq));
                return false;
            }
            Site::Gone => return AtQueue::in_vain(member, token, post),
        };
        let item = Item { seq, offset: 0, marks };
        match token {
            None if is_barrier => post.deliver_barrier(member.port, member.handle, &memory, item),
            None => post.deliver(member.port, member.handle, &memory, item),
            Some(token) => post.got(member.port, token, member.handle, &memory, item, ready),
        }
        true
    }

    /// A message whose record is at `offset` of `memory`: where it is with its annotations, which are its last words if it
    /// is dying with such.
    pub(crate) fn with_annotations(&self, seq: QueueSeq, (memory, offset): (Memory, u32)) -> (Memory, u32) {
        let queue = &*self.queue;
        let last_words = queue.features.as_ref().and_then(|features| features.last_words(seq));
        match last_words.or_else(|| queue.fifo.annotations(seq)) {
            Some(annotations) => (rewritten(&memory, offset, Some(annotations)), 0),
            None => (memory, offset),
        }
    }
}

/// The last position, from `from` to `last`, before the next that has annotations.
fn last_without(fifo: &Fifo, from: u64, last: u64) -> u64 {
    let range = SeqRange { first: QueueSeq(from), last: QueueSeq(last) };
    fifo.next_annotated(range).map_or(last, |next| next.0 - 1)
}

/// The record at `offset` of `memory` in memory of its own, with `annotations`.
fn rewritten(memory: &Memory, offset: u32, annotations: Option<&[u8]>) -> Memory {
    let mut buffer = Buffer::default();
    write_with(memory, offset, annotations, &mut buffer);
    buffer.seal()
}

/// Appends the record at `offset` of `memory` with `annotations` in its head; as it is where it would grow beyond what a
/// record holds.
fn write_with(memory: &Memory, offset: u32, annotations: Option<&[u8]>, into: &mut Buffer) {
    let message = Enqueue::read(&memory[offset as usize..]).expect("only enqueue records are delivered");
    let head = annotations.map(|annotations| head_with(&message, annotations));
    let (heads, body) = ([head.as_deref().unwrap_or(message.head)], [message.body]);
    let annotated = NewEnqueue {
        flags: message.flags & !flag::HIDDEN_KEYS,
        format: message.format,
        priority: message.priority,
        received_at_ms: message.received_at_ms,
        expires_at_ms: message.expires_at_ms,
        due_at_ms: message.due_at_ms,
        keys: None,
        exchange: message.exchange,
        routing_key: message.routing_key,
        head: &heads,
        body: &body,
    };
    // Its queues are nobody's business any more; its hidden keys are, when it dies.
    let hidden = hidden_keys(&memory[offset as usize..]);
    let plain = NewEnqueue { head: &[message.head], ..annotated };
    let new = if annotated.hiding_len(0, &hidden).is_some() { annotated } else { plain };
    match &hidden[..] {
        [] => new.write(&[], into),
        keys => new.write_hiding(keys, &[], into),
    }
}
