//! The work that a stream's machine asks of the disk, carried out on whatever thread has one.
//!
//! Knows no machine: a job goes out with the names of its log and its stream and comes back with what it brought.

use super::file::work_error;
use super::{file, read, seek};
use base::id::{LogId, QueueId};
use journal::{Disk, DiskError};
use queue::stream::{Done, SyncFailure, Work, WorkError};

/// The system's number for something that was called off.
const CANCELED: i32 = 125;

/// Something for a disk to do for a stream.
#[derive(Clone, Debug)]
pub struct StreamJob {
    /// The log of the stream.
    pub log: LogId,
    /// The stream.
    pub stream: QueueId,
    /// The work.
    pub work: Work,
}

/// The outcome of a [`StreamJob`].
#[derive(Clone, Debug)]
pub struct StreamDone {
    /// The log of the stream.
    pub log: LogId,
    /// The stream.
    pub stream: QueueId,
    /// The outcome.
    pub done: Done,
}

impl StreamJob {
    /// Files are to be removed: that may take its time.
    pub fn is_removal(&self) -> bool {
        matches!(self.work, Work::Remove(_))
    }

    /// As [`StreamJob::carry_out`], but what is removed goes piece by piece: see [`Disk::remove_slowly`].
    pub fn carry_out_slowly(self, disk: &dyn Disk, pause: &mut dyn FnMut() -> bool) -> StreamDone {
        let StreamJob { log, stream, work: Work::Remove(remove) } = self else { return self.carry_out(disk) };
        let removed = file::remove(log, &remove.segments, |name| disk.remove_slowly(name, pause));
        StreamDone { log, stream, done: Done::Removed(removed.map_err(work_error)) }
    }

    /// Does it. What failed is in the answer, and whether the node can go on ([`Done::is_fatal`]).
    pub fn carry_out(self, disk: &dyn Disk) -> StreamDone {
        let StreamJob { log, stream, work } = self;
        let done = match work {
            Work::Write(write) => {
                let result = file::write(disk, log, &write).map_err(work_error);
                Done::Written(write.done(result))
            }
            Work::Sync(sync) => {
                let result = file::sync(disk, log, &sync);
                Done::Synced(sync.done(result))
            }
            Work::Read(mut read) => {
                let memory = read.memory.0.take().unwrap_or_default();
                let result = read::read(disk, log, &read, memory).map_err(work_error);
                Done::Read(read.done(result))
            }
            Work::Seek(seek) => {
                let result = seek::seek(disk, log, &seek).map_err(work_error);
                Done::Sought(seek.done(result))
            }
            Work::Remove(remove) => {
                let removed = file::remove(log, &remove.segments, |name| disk.remove(name));
                Done::Removed(removed.map_err(work_error))
            }
        };
        StreamDone { log, stream, done }
    }

    /// The outcome of a job that nobody carries out: it failed, and can be tried again.
    pub fn give_up(self) -> StreamDone {
        let StreamJob { log, stream, work } = self;
        let error = WorkError::Io(CANCELED);
        let done = match work {
            Work::Write(write) => Done::Written(write.done(Err(error))),
            Work::Sync(sync) => Done::Synced(sync.done(Err(SyncFailure::Write(error)))),
            Work::Read(read) => Done::Read(read.done(Err(error))),
            Work::Seek(seek) => Done::Sought(seek.done(Err(error))),
            Work::Remove(_) => Done::Removed(Err(error)),
        };
        StreamDone { log, stream, done }
    }
}

impl StreamDone {
    /// It is on disk, where that was asked for: a snapshot may be written that counts on it.
    pub fn is_durable(&self) -> bool {
        match &self.done {
            Done::Synced(synced) => synced.result.is_ok(),
            _ => true,
        }
    }

    /// It is not on disk because there is no space for it there.
    pub fn lacks_space(&self) -> bool {
        matches!(&self.done, Done::Synced(synced) if synced.result == Err(SyncFailure::Write(WorkError::NoSpace)))
    }

    /// Nobody knows what the device holds: the node must stop, and recovers when it starts again.
    pub fn failure(&self) -> Option<DiskError> {
        match &self.done {
            Done::Synced(synced) => match synced.result {
                Err(SyncFailure::Sync(error)) => Some(match error {
                    // Not one that passes.
                    WorkError::NoSpace => DiskError::Io(28),
                    WorkError::Missing => DiskError::NotFound,
                    WorkError::Io(code) => DiskError::Io(code),
                }),
                _ => None,
            },
            _ => None,
        }
    }
}
