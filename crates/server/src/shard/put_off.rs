//! Snapshots that wait for changes of the catalog to be on disk.
//!
//! What is changed is applied where it is planned, before it is on disk, and a snapshot must not know more than that. Where clients
//! change something all the time there would never be one, and so no journal file could be let go: changes wait meanwhile.

use base::Now;
use base::id::LogId;
use broker::LogSnapshot;
use std::sync::mpsc::Sender;
use stream_files::StreamJob;

/// Who wants a snapshot, and what of the log's streams must be on disk before it is.
pub(super) type SnapshotAnswer = Sender<Option<(LogSnapshot, Vec<StreamJob>)>>;

/// How long changes wait for those before them to get to disk, milliseconds. Where there is no space they may never: then there is
/// no snapshot now.
const HOLD_MS: u64 = 1000;

/// See the module.
#[derive(Default)]
pub(super) struct PutOff {
    /// When the first of them has waited long enough; monotonic nanoseconds.
    until: Option<u64>,
    waiting: Vec<(LogId, SnapshotAnswer)>,
}

impl PutOff {
    pub(super) fn add(&mut self, now: Now, log: LogId, answer: SnapshotAnswer) {
        self.until.get_or_insert(now.after_ms(HOLD_MS));
        self.waiting.push((log, answer));
    }

    /// When they wait no longer; `None`: there is none.
    pub(super) fn until(&self) -> Option<u64> {
        self.until
    }

    pub(super) fn take(&mut self) -> Vec<(LogId, SnapshotAnswer)> {
        self.until = None;
        std::mem::take(&mut self.waiting)
    }
}
