//! Outcomes of deliveries: those of receivers in the words of the queue, and the other way round.

use super::annotations::delivery_time;
use ::amqp10::Outcome as WireOutcome;
use broker::{Modified, QueueCommand};
use message::amqp10::{Encoder, Map};
use message::annotations::may_be_added;
use message::record::{Outcome, SeqRange};
use std::sync::Arc;

/// A receiver's outcome in the words of the queue.
#[inline]
pub(super) fn outcome_of(outcome: &WireOutcome<'_>) -> Outcome {
    match outcome {
        WireOutcome::Accepted => Outcome::Accepted,
        WireOutcome::Rejected(_) => Outcome::Rejected,
        WireOutcome::Modified { undeliverable_here: true, delivery_failed, .. } => match delivery_failed {
            true => Outcome::Rejected,
            false => Outcome::Undeliverable,
        },
        WireOutcome::Modified { delivery_failed: true, .. } => Outcome::Failed,
        _ => Outcome::Released,
    }
}

/// Annotations that a receiver adds to deliveries that it gives back.
#[derive(Clone, Debug)]
pub(super) struct Added {
    /// The encoding of one map.
    annotations: Arc<[u8]>,
    due_at_ms: Option<u64>,
}

impl Added {
    /// None where a name is one that a receiver may not use.
    pub(super) fn new(annotations: &Map<'_>) -> Option<Added> {
        if !may_be_added(annotations) {
            return None;
        }
        let mut bytes = Vec::with_capacity(annotations.bytes().len() + 9);
        Encoder::new(&mut bytes).whole_map(*annotations);
        Some(Added { annotations: bytes.into(), due_at_ms: delivery_time(annotations) })
    }

    /// The annotations in an outcome: none, mostly.
    pub(super) fn of(outcome: &WireOutcome<'_>) -> Result<Option<Added>, &'static str> {
        match outcome {
            WireOutcome::Modified { annotations, .. } if !annotations.is_empty() => {
                Added::new(annotations).map(Some).ok_or(NOT_TO_BE_ADDED)
            }
            _ => Ok(None),
        }
    }

    /// Bytes it holds, as if it shared none.
    pub(super) fn len_bytes(&self) -> usize {
        self.annotations.len()
    }

    /// The command to the queue for deliveries to which this is added.
    pub(super) fn command(&self, handle: u32, range: SeqRange, outcome: Outcome) -> QueueCommand {
        let Added { annotations, due_at_ms } = self.clone();
        QueueCommand::Modify(Box::new(Modified { handle, range, outcome, annotations, due_at_ms }))
    }
}

/// Why the session of a receiver ends that adds annotations it may not.
pub(super) const NOT_TO_BE_ADDED: &str =
    "annotations of a modified outcome have symbols that begin with x- for keys";

/// The outcome as it is told to a receiver.
pub(super) fn wire_outcome(outcome: Outcome) -> WireOutcome<'static> {
    let modified = |delivery_failed| WireOutcome::Modified {
        delivery_failed,
        undeliverable_here: !delivery_failed,
        annotations: Map::default(),
    };
    match outcome {
        Outcome::Accepted => WireOutcome::Accepted,
        Outcome::Rejected => WireOutcome::Rejected(None),
        Outcome::Released => WireOutcome::Released,
        Outcome::Failed => modified(true),
        Outcome::Undeliverable => modified(false),
    }
}
