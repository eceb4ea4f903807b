//! Parcels of other nodes that go into the batch of a leader which is open, behind its own records.

use base::{Buffer, Memory};
use message::record::Stamp;
use std::ops::Range;

/// Whole records of another node.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    /// The memory they lie in.
    pub(crate) memory: Memory,
    /// Where in it.
    pub(crate) range: Range<usize>,
}

impl Records {
    /// Their bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.range.clone()]
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Foreign {
    parcels: Vec<(Stamp, Records)>,
    /// Bytes that they take in the batch.
    bytes: usize,
}

impl Foreign {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.parcels.is_empty()
    }

    /// Bytes that they take in the batch.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a parcel.
    pub(crate) fn push(&mut self, stamp: Stamp, records: Records) {
        self.bytes += Stamp::LEN + records.range.len();
        self.parcels.push((stamp, records));
    }

    /// Appends all to the records of their batch.
    #[cold]
    pub(crate) fn write(self, into: &mut Buffer) {
        into.reserve(self.bytes);
        for (stamp, records) in self.parcels {
            stamp.write(into);
            into.extend(records.bytes());
        }
    }
}
