//! Messages that failed before they came: dead letters, which keep that count, as in RabbitMQ.
//!
//! Their failures go on from there and count towards the delivery limit once they have come back; before that they are
//! handed out like any other, but marked as redelivered and with their count.
//! Recorded where the queue counts: it means the same whether such a position is here or among the counts, as one that failed
//! so often and never was out; a snapshot writes it as that. Elsewhere it is volatile, and the adapter finds the count
//! in the message.
//!
//! Invariants: every position here is live; in a queue that counts it is not among the counts.

use crate::delivery::Counts;
use crate::effect::{Effect, Effects};
use crate::returns::Returns;
use crate::spans::Spans;
use base::id::QueueSeq;
use base::ranges::Range;

/// How often each failed, in runs.
#[derive(Debug, Default)]
pub(crate) struct PriorFailures {
    failures: Spans,
}

impl PriorFailures {
    pub(crate) fn is_empty(&self) -> bool {
        self.failures.is_empty()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
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

    /// How often the message failed before it came, if it did and has not come back since.
    pub(crate) fn of(&self, seq: u64) -> Option<u64> {
        self.failures.within(Range { first: seq, last: seq }).next().map(|(failures, _)| failures)
    }

    /// Those of `range` are from here on among the counts, where the queue counts.
    #[cold]
    #[inline(never)]
    pub(crate) fn count(&mut self, range: Range, returns: &mut Returns) {
        if returns.counts() {
            self.failures.cut(range, |failures, part| returns.add_failed_before(failures, part));
        }
    }

    /// All of them, in order of position.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Counts)> + '_ {
        self.failures.iter().flat_map(|(failures, part)| {
            (part.first..=part.last).map(move |seq| (seq, Counts::failed_before(failures)))
        })
    }

    /// Takes out of the counts that were read those that are kept here; of messages with annotations none is.
    pub(crate) fn take_from(returns: &mut Returns, is_annotated: impl Fn(u64) -> bool) -> PriorFailures {
        let mut prior = PriorFailures::default();
        returns.retain(|seq, counts| match u16::try_from(counts.delivery_count) {
            Ok(failures @ 1..) if counts.acquired_count == 0 && !is_annotated(seq) => {
                prior.push(seq, failures);
                false
            }
            _ => true,
        });
        prior
    }

    /// Behind handing out: deliveries that failed before they came are told with their counts.
    #[cold]
    #[inline(never)]
    pub(crate) fn mark(&self, counts: bool, effects: &mut Effects) {
        if self.is_empty() {
            return;
        }
        let mut told = Vec::with_capacity(effects.list.len());
        for effect in effects.list.drain(..) {
            let Effect::Deliver { consumer, first, count, .. } = effect else {
                told.push(effect);
                continue;
            };
            let range = Range { first: first.0, last: first.0 + u64::from(count) - 1 };
            let mut from = range.first;
            for (failures, part) in self.failures.within(range) {
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
