//! The files that rotted so far, and whether anything may be lost by it.

use base::id::LogId;
use journal::{FileKind, FileName};
use std::collections::BTreeSet;

/// See the module.
#[derive(Debug, Default)]
pub struct Rotten {
    /// Logs of which a snapshot rotted.
    snapshots: BTreeSet<LogId>,
    may_lose: bool,
    has_outrun: bool,
}

impl Rotten {
    /// A bit of this file rotted, one of all there are of its kind.
    pub fn note(&mut self, file: FileName, all: &[FileName]) {
        // A log has two snapshots once it has been written to for a while, and the journal what the older one does not cover.
        let has_another = all.iter().filter(|other| other.log == file.log).count() > 1;
        let is_made_up = file.kind == FileKind::Snapshot && has_another && self.snapshots.insert(file.log);
        self.may_lose |= !is_made_up;
    }

    /// Whether a snapshot was written though the journal has not all it knows: without it a start may meet a gap.
    pub fn note_outrun(&mut self, has_outrun: bool) {
        self.has_outrun |= has_outrun;
    }

    /// See [`Rotten::note_outrun`].
    pub fn has_outrun(&self) -> bool {
        self.has_outrun
    }

    /// More rotted than there is twice.
    pub fn may_lose(&self) -> bool {
        self.may_lose || (self.has_outrun && !self.snapshots.is_empty())
    }
}
