//! Annotations that consumers gave messages which they sent back: opaque bytes, by position.
//!
//! Recorded, in queues that count. Messages that came back together share their bytes. A message that has annotations is
//! handed out apart from others ([`Effect::DeliverAnnotated`]), so that code for plain ones need not look.
//! Invariant: every position here is live and among those that are counted.

use crate::effect::{Effect, Effects};
use base::id::QueueSeq;
use base::ranges::Range;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Annotations by position.
#[derive(Debug, Default)]
pub(crate) struct Annotations {
    by_seq: BTreeMap<u64, Arc<[u8]>>,
    /// Of all positions, as if none shared them.
    bytes: u64,
    /// Volatile: of records that were asked for and have not come back.
    coming_bytes: u64,
}

impl Annotations {
    /// There are none, and none are coming.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_seq.is_empty() && self.coming_bytes == 0
    }

    /// None are recorded.
    pub(crate) fn has_none(&self) -> bool {
        self.by_seq.is_empty()
    }

    /// Whether the position has any.
    pub(crate) fn has(&self, seq: u64) -> bool {
        self.by_seq.contains_key(&seq)
    }

    pub(crate) fn put(&mut self, seq: u64, annotations: Arc<[u8]>) {
        self.bytes += annotations.len() as u64;
        if let Some(before) = self.by_seq.insert(seq, annotations) {
            self.bytes -= before.len() as u64;
        }
    }

    pub(crate) fn leave(&mut self, part: Range) {
        while let Some((&seq, _)) = self.by_seq.range(part.first..=part.last).next() {
            let annotations = self.by_seq.remove(&seq).unwrap_or_default();
            self.bytes -= annotations.len() as u64;
        }
    }

    /// Records that were asked for will not come: the owner is another.
    pub(crate) fn forget(&mut self) {
        self.coming_bytes = 0;
    }

    /// Runs of positions that have the same, in order.
    pub(crate) fn runs(&self) -> Vec<(Range, &Arc<[u8]>)> {
        let mut runs: Vec<(Range, &Arc<[u8]>)> = Vec::new();
        for (&seq, annotations) in &self.by_seq {
            match runs.last_mut() {
                Some((range, of)) if range.last + 1 == seq && *of == annotations => range.last = seq,
                _ => runs.push((Range { first: seq, last: seq }, annotations)),
            }
        }
        runs
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.by_seq.len() * 32 + self.bytes as usize
    }

    /// A record came that was asked for, of so many bytes.
    pub(crate) fn came(&mut self, bytes: u64) {
        self.coming_bytes = self.coming_bytes.saturating_sub(bytes);
    }

    /// A record is asked for, of so many bytes.
    pub(crate) fn will_come(&mut self, bytes: u64) {
        self.coming_bytes += bytes;
    }

    /// The annotations of a message.
    pub(crate) fn get(&self, seq: u64) -> Option<&Arc<[u8]>> {
        self.by_seq.get(&seq)
    }

    /// The first of `range` that has annotations.
    pub(crate) fn next_within(&self, range: Range) -> Option<QueueSeq> {
        self.by_seq.range(range.first..=range.last).next().map(|(seq, _)| QueueSeq(*seq))
    }

    /// Bytes of all annotations, those asked for included, as if no two messages shared any.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes + self.coming_bytes
    }

    /// Behind handing out: messages of it with annotations are told as such.
    #[cold]
    #[inline(never)]
    pub(crate) fn mark(&self, effects: &mut Effects) {
        if self.has_none() {
            return;
        }
        let by_seq = &self.by_seq;
        let mut told = Vec::with_capacity(effects.list.len());
        for effect in effects.list.drain(..) {
            let Effect::Deliver { consumer, first, count, redelivered, delivery_count, acquired_count } =
                effect
            else {
                told.push(effect);
                continue;
            };
            let (mut from, end) = (first.0, first.0 + u64::from(count));
            while from < end {
                let first = QueueSeq(from);
                // Those that follow on and have any; else those up to the next that has.
                let mut to = from;
                while to < end && by_seq.contains_key(&to) {
                    to += 1;
                }
                let is_annotated = to > from;
                if !is_annotated {
                    to = by_seq.range(from..end).next().map_or(end, |(seq, _)| *seq);
                }
                let count = (to - from) as u32;
                told.push(if is_annotated {
                    Effect::DeliverAnnotated {
                        consumer,
                        first,
                        count,
                        redelivered,
                        delivery_count,
                        acquired_count,
                    }
                } else {
                    Effect::Deliver { consumer, first, count, redelivered, delivery_count, acquired_count }
                });
                from = to;
            }
        }
        effects.list = told;
    }
}
