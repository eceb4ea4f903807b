//! Messages whose delivery failed before they came: dead letters, which keep that count, as in RabbitMQ.
//!
//! Their failures go on from there and count towards the delivery limit once they have come back; before that they are
//! handed out like any other, but marked as redelivered and with their count.
//! Recorded where the queue counts: it means the same whether such a position is here or among the counts, as one that failed
//! so often and never was out; a snapshot writes it as that. Elsewhere it is volatile, and who delivers finds the count in the
//! message.
//!
//! Invariants: every position here is live; in a queue that counts it is not among the counts.

use crate::delivery::Counts;
use crate::effect::{Effect, Effects};
use crate::fifo::Fifo;
use crate::spans::Spans;
use base::id::QueueSeq;
use base::ranges::Range;

/// How often each failed, in runs.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    failures: Spans,
}

impl Tried {
    pub(crate) fn is_empty(&self) -> bool {
        self.failures.is_empty()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.failures.iter().map(|(_, part)| part.len()).sum()
    }

    /// A position above all others.
    pub(crate) fn push(&mut self, seq: u64, failures: u16) {
        self.failures.push(failures.into(), seq);
    }

    /// Positions are gone.
    pub(crate) fn leave(&mut self, part: Range) {
        self.failures.cut(part, |_, _| {});
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.failures.heap_bytes()
    }
}

impl Fifo {
    /// The message failed before it came, and has not come back since.
    pub(crate) fn is_tried(&self, seq: QueueSeq) -> bool {
        self.tried(seq).is_some()
    }

    fn tried(&self, seq: QueueSeq) -> Option<u64> {
        let tried = &self.features.as_ref()?.tried;
        tried.failures.within(Range { first: seq.0, last: seq.0 }).next().map(|(failures, _)| failures)
    }

    /// The counts of a message that failed before it came to a queue that counts.
    pub(crate) fn tried_counts(&self, seq: QueueSeq) -> Option<Counts> {
        self.tried(seq).map(Counts::failed_before)
    }

    /// How often deliveries of a message failed: where the queue counts with those before it came, else those that this
    /// owner saw.
    pub fn failed(&self, seq: QueueSeq) -> u32 {
        match self.line.returns.seen_failures(Range { first: seq.0, last: seq.0 }) {
            Some((failures, _)) => failures,
            None => self.counts(seq).delivery_count,
        }
    }

    /// Those of `range` are from here on among the counts.
    #[cold]
    #[inline(never)]
    pub(crate) fn count_tried(&mut self, range: Range) {
        let Fifo { features: Some(features), line, .. } = self else { return };
        if line.returns.counts() {
            let returns = &mut line.returns;
            features.tried.failures.cut(range, |failures, part| returns.add_failed_before(failures, part));
        }
    }

    /// All counts of messages, in order of position: what is recorded of how often they came back and failed.
    pub(crate) fn all_counts(&self) -> impl Iterator<Item = (u64, Counts)> + '_ {
        let mut counted = self.line.returns.all_recorded().peekable();
        let features = self.features.as_ref().filter(|_| self.line.returns.counts());
        let tried = features.into_iter().flat_map(|features| features.tried.failures.iter());
        let mut tried = tried
            .flat_map(|(failures, part)| {
                (part.first..=part.last).map(move |seq| (seq, Counts::failed_before(failures)))
            })
            .peekable();
        std::iter::from_fn(move || match (counted.peek(), tried.peek()) {
            (Some((seq, _)), Some((of, _))) if seq > of => tried.next(),
            (None, _) => tried.next(),
            _ => counted.next(),
        })
    }

    /// Of the counts that were read those are taken out which say what is kept here.
    pub(crate) fn read_tried(&mut self) {
        let annotations = self.features.as_ref().map(|features| &features.annotations);
        let is_annotated = |seq: u64| annotations.is_some_and(|annotations| annotations.has(seq));
        let mut tried = Tried::default();
        self.line.returns.retain(|seq, counts| match u16::try_from(counts.delivery_count) {
            Ok(failures @ 1..) if counts.acquired_count == 0 && !is_annotated(seq) => {
                tried.push(seq, failures);
                false
            }
            _ => true,
        });
        if !tried.is_empty() {
            self.features_mut().tried = tried;
        }
    }

    /// Behind handing out: of what is handed out those that failed before they came are told with their counts.
    #[cold]
    #[inline(never)]
    pub(crate) fn mark_tried(&self, effects: &mut Effects) {
        let Some(features) = self.features.as_ref().filter(|features| !features.tried.is_empty()) else {
            return;
        };
        let counts = self.line.returns.counts();
        let mut told = Vec::with_capacity(effects.list.len());
        for effect in effects.list.drain(..) {
            let Effect::Deliver { consumer, first, count, .. } = effect else {
                told.push(effect);
                continue;
            };
            let range = Range { first: first.0, last: first.0 + u64::from(count) - 1 };
            let mut from = range.first;
            for (failures, part) in features.tried.failures.within(range) {
                if from < part.first {
                    told.push(part_of(effect, Range { first: from, last: part.first - 1 }));
                }
                let marked = match part_of(effect, part) {
                    Effect::Deliver { first, count, delivery_count, acquired_count, .. } => {
                        let seen = match counts {
                            true => Counts::failed_before(failures).shown(),
                            false => Counts { delivery_count, acquired_count },
                        };
                        let Counts { delivery_count, acquired_count } = seen;
                        let redelivered = true;
                        Effect::Deliver {
                            consumer,
                            first,
                            count,
                            redelivered,
                            delivery_count,
                            acquired_count,
                        }
                    }
                    other => other,
                };
                told.push(marked);
                from = part.last + 1;
            }
            if from <= range.last {
                told.push(part_of(effect, Range { first: from, last: range.last }));
            }
        }
        effects.list = told;
    }
}

/// The delivery of `range` alone, which is a part of a delivery.
fn part_of(delivery: Effect, range: Range) -> Effect {
    match delivery {
        Effect::Deliver { consumer, redelivered, delivery_count, acquired_count, .. } => Effect::Deliver {
            consumer,
            first: QueueSeq(range.first),
            count: range.len() as u32,
            redelivered,
            delivery_count,
            acquired_count,
        },
        other => other,
    }
}
