//! The only commit path of a node: batches in pre-written files, segments, snapshots, recovery.
//!
//! A [`Journal`] is a value over a [`Disk`]. It has no threads and no clock, and it does not know what a message is:
//! it takes [`Sealed`] batches of records from the logs of the node, writes what has gathered as one *group* with one
//! write and one sync, and after a crash visits again, in order, every batch whose write had returned. It is used from
//! one thread at a time. The formats are described in `docs/formats/journal.md`, `segment.md` and `snapshot.md`.
//!
//! Invariants:
//! - A batch is committed when [`Journal::write`] has put its [`Place`] into the list it was given, not before.
//! - After a failed write or sync (other than "no space") the journal refuses everything: what the device then holds
//!   is only known after a restart.
//! - Nothing read from disk is handed out before its CRC32C was found right.
//! - Files are recycled only when the caller has said that nothing in them is needed, never because something looked
//!   unneeded.

pub mod batch;
mod bulk;
mod cut;
pub mod disk;
pub mod faulty;
pub mod file;
mod group;
pub mod identity;
mod journal;
mod live;
mod recovery;
pub mod segment;
pub mod snapshot;
pub mod span;
mod spare;
mod survey;
mod window;

pub use batch::{Batch, Mark, Place, Sealed};
pub use disk::{Disk, DiskError, FileKind, FileName};
pub use faulty::FaultyDisk;
pub use file::{FileId, LiveFile, LogSpan};
pub use group::{GROUP_BATCHES_MAX, Malformed};
pub use identity::{Identity, IdentityError};
pub use journal::{Counters, Journal, WriteError};
pub use recovery::{Damage, DamageCause, OpenError, Recovered, RecoveredBatch, Start};
pub use segment::{BlockPlace, SegmentBlock, SegmentDone, SegmentWriter};
pub use snapshot::{BadSnapshot, Cover, Section, Snapshot, SnapshotError, Snapshots};
pub use span::{Span, read_spans};
pub use spare::{Spare, SpareMaker};

/// The bounds of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a journal file, a multiple of [`base::memory::BLOCK`].
    pub file_bytes: u64,
    /// Bytes of the file that is made on start-up when there is none: small, so that nobody waits for it.
    pub first_file_bytes: u64,
    /// Prepared files kept in reserve.
    pub spare_files: usize,
    /// Prepared files kept when more come back from use than were in reserve.
    pub spare_files_max: usize,
    /// A group whose records are at most this long is copied behind its header instead of taking a block of its own.
    pub packed_bytes_max: usize,
    /// A batch longer than this goes to a bulk file of its own.
    pub inline_bytes_max: usize,
    /// Bytes in bulk files from which on the journal file that names them is left for the next, so that they can be
    /// released.
    pub bulk_bytes_max: u64,
    /// Bytes one step of making a spare file writes: who flushes meanwhile waits behind as many.
    pub prepare_bytes: usize,
    /// Bytes read at once when a journal is opened.
    pub window_bytes: usize,
}

impl Limits {
    /// Bytes of the device that are left to snapshots when there is little space: neither journal files nor segments take
    /// them, because without a snapshot no file can be released.
    pub fn reserve_bytes(&self) -> u64 {
        self.file_bytes / 8
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            file_bytes: 64 << 20,
            first_file_bytes: 4 << 20,
            spare_files: 2,
            spare_files_max: 4,
            packed_bytes_max: 16 << 10,
            inline_bytes_max: 8 << 20,
            bulk_bytes_max: 256 << 20,
            prepare_bytes: 1 << 20,
            window_bytes: 4 << 20,
        }
    }
}
