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
}

impl Rotten {
    /// A bit of this file rotted, one of all there are of its kind.
    pub fn note(&mut self, file: FileName, all: &[FileName]) {
        // A log has two snapshots once it has been written to for a while, and the journal what the older one does not cover.
        let has_another = all.iter().filter(|other| other.log == file.log).count() > 1;
        let is_made_up = file.kind == FileKind::Snapshot && has_another && self.snapshots.insert(file.log);
        self.may_lose |= !is_made_up;
    }

    /// More rotted than there is twice.
    pub fn may_lose(&self) -> bool {
        self.may_lose
    }
}
