//! States of logs on their way: to a snapshot on disk, or from one node to another.

use base::id::{LogId, LogIndex};
use broker::{LogSnapshot, MoveJob, Moved};
use consensus::SnapshotName;
use consensus::standing::Standing;
use journal::FileId;
use std::collections::BTreeSet;

/// The state of a log that is to be written as a snapshot.
#[derive(Clone, Debug)]
pub struct Snapped {
    /// The state of its machines.
    pub state: LogSnapshot,
    /// That of its replica, where other nodes have the log too.
    pub replica: Option<Part>,
    /// It came from another node, whose replica is waited for.
    pub is_installed: bool,
}

/// The part of a replica in the snapshot of its log.
#[derive(Clone, Debug)]
pub struct Part {
    /// The snapshot's words about it.
    pub standing: Standing,
    /// No entry behind the snapshot is in a journal file before this one. None: all that was handed in to be journaled was on disk
    /// and is in the snapshot when it was made, so that what is missing is in the file written to then, or behind that.
    pub from: Option<FileId>,
}

impl Snapped {
    /// The log.
    pub fn log(&self) -> LogId {
        self.state.log
    }
}

/// The state of a log for another node.
#[derive(Debug)]
pub struct Given {
    /// The state.
    pub state: LogSnapshot,
    /// Up to where it covers the log.
    pub name: SnapshotName,
    /// Segments that it refers to.
    pub segments: BTreeSet<u64>,
    /// Its messages that are in none.
    pub job: MoveJob,
}

impl Given {
    /// The job has all of those messages.
    pub fn is_whole(&self) -> bool {
        self.job.bound >= self.state.covered
    }
}

/// The state of a log that came from another node, all segments of which are here.
#[derive(Debug)]
pub struct Arrival {
    /// The log.
    pub log: LogId,
    /// Up to where it covers the log.
    pub name: SnapshotName,
    /// The bytes of the state.
    pub state: Vec<u8>,
    /// Where those of its messages are that it has no segment for.
    pub moved: Moved,
}

impl Arrival {
    /// Where the records behind it begin.
    pub fn end(&self) -> LogIndex {
        self.name.end
    }
}
