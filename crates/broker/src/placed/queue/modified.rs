//! Messages that a consumer gave back with annotations (AMQP 1.0 `modified`): kept in quorum queues, as RabbitMQ does.
//!
//! All annotations of a message are kept, merged, in a record in front of the one that brings it back. When it is
//! handed out again, or dies, its stored record is written anew with them in its head, in memory that lives as long as
//! the delivery; so nobody who reads a delivered message needs to know of annotations. That copies the body, which was
//! in memory already.
//! A message that is refused with annotations takes them along to where the dead go, without a record: until it is
//! there, a crash brings it back as it was.

mod annotating;

use message::record::{Outcome, SeqRange};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Positions that were given back with annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modified {
    /// The consumer's handle.
    pub handle: u32,
    /// The positions.
    pub range: SeqRange,
    /// How they ended.
    pub outcome: Outcome,
    /// The encoding of the annotations to be added, one AMQP 1.0 map.
    pub annotations: Arc<[u8]>,
    /// Where they come back they are delayed until then, milliseconds since 1970.
    pub due_at_ms: Option<u64>,
}

/// Annotations of messages that die, until they are where the dead go.
#[derive(Debug, Default)]
pub(crate) struct LastWords {
    by_seq: BTreeMap<u64, Arc<[u8]>>,
    /// As if no two messages shared any.
    bytes: u64,
}

impl LastWords {
    fn put(&mut self, seq: u64, annotations: Arc<[u8]>) {
        self.bytes += annotations.len() as u64;
        if let Some(before) = self.by_seq.insert(seq, annotations) {
            self.bytes -= before.len() as u64;
        }
    }

    /// These are dead letters that have left.
    pub(crate) fn forget(&mut self, range: SeqRange) {
        while let Some((&seq, _)) = self.by_seq.range(range.first.0..=range.last.0).next() {
            let annotations = self.by_seq.remove(&seq).unwrap_or_default();
            self.bytes -= annotations.len() as u64;
        }
    }
}
