//! The disk as the journal sees it.
//!
//! Files are named, never opened: a [`FileName`] is a value, and whoever implements [`Disk`] keeps as many descriptors
//! as it likes. Methods take `&self`, so one disk serves the commit path, the maker of spare files and the readers of
//! segments at once. Nothing here retries: what a failure means is decided by the caller.

use base::id::LogId;
use std::fmt;
use std::io::{IoSlice, IoSliceMut};

/// The purpose of a file, which also says its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// The owner of this data folder; in the folder itself.
    Identity,
    /// An identity being written.
    IdentityNew,
    /// The identity, on its way to the same name.
    IdentityAgain,
    /// A journal file, by slot: slots are reused, the [`crate::FileId`] in the file's header is not.
    Journal,
    /// A journal file that is free, on its way to the same name.
    JournalAgain,
    /// The records of one big batch that a journal entry commits.
    Bulk,
    /// Blocks of records that outlived their journal file.
    Segment,
    /// A log's snapshot.
    Snapshot,
    /// A log's snapshot being written.
    SnapshotNew,
    /// A log's snapshot, on its way to the same name.
    SnapshotAgain,
    /// A damaged snapshot, kept for whoever wants to look at it.
    Quarantined,
    /// Chunks of a stream that nothing else may have, kept likewise.
    QuarantinedStream,
    /// Chunks of a stream.
    Stream,
    /// The same, out of the way until the journal is read.
    StreamAside,
    /// Where in a file of chunks some of them begin.
    StreamIndex,
}

impl FileKind {
    /// The folder of such files, relative to the data folder; empty for the data folder itself.
    pub fn folder(self) -> &'static str {
        match self {
            FileKind::Identity | FileKind::IdentityNew | FileKind::IdentityAgain => "",
            FileKind::Journal | FileKind::JournalAgain => "journal",
            FileKind::Bulk => "bulk",
            FileKind::Segment => "segments",
            FileKind::Snapshot | FileKind::SnapshotNew | FileKind::SnapshotAgain => "snapshots",
            FileKind::Quarantined | FileKind::QuarantinedStream => "quarantine",
            FileKind::Stream | FileKind::StreamAside | FileKind::StreamIndex => "streams",
        }
    }

    fn extension(self) -> &'static str {
        match self {
            FileKind::Identity => "identity",
            FileKind::IdentityNew | FileKind::SnapshotNew => "new",
            FileKind::IdentityAgain | FileKind::JournalAgain | FileKind::SnapshotAgain => "again",
            FileKind::Journal => "journal",
            FileKind::Bulk => "bulk",
            FileKind::Segment => "segment",
            FileKind::Snapshot | FileKind::Quarantined => "snapshot",
            FileKind::Stream | FileKind::QuarantinedStream => "stream",
            FileKind::StreamAside => "aside",
            FileKind::StreamIndex => "index",
        }
    }
}

/// The name of a file: what it is for, the log it belongs to (0 where it belongs to none) and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName {
    /// Its purpose.
    pub kind: FileKind,
    /// The log it belongs to.
    pub log: LogId,
    /// Which of its kind.
    pub number: u64,
}

impl FileName {
    /// The file of `kind` that belongs to no log.
    pub const fn new(kind: FileKind, number: u64) -> FileName {
        FileName { kind, log: LogId(0), number }
    }

    /// The file of `kind` that belongs to `log`.
    pub const fn of_log(kind: FileKind, log: LogId, number: u64) -> FileName {
        FileName { kind, log, number }
    }

    /// The name without its folder.
    pub fn leaf(&self) -> String {
        let (log, number, extension) = (self.log.0, self.number, self.kind.extension());
        match self.kind {
            FileKind::Identity => "identity".to_owned(),
            FileKind::IdentityNew | FileKind::IdentityAgain => format!("identity.{extension}"),
            FileKind::SnapshotNew => format!("{log:08x}.{extension}"),
            FileKind::Snapshot
            | FileKind::SnapshotAgain
            | FileKind::Quarantined
            | FileKind::QuarantinedStream
            | FileKind::Stream
            | FileKind::StreamAside
            | FileKind::StreamIndex => {
                format!("{log:08x}-{number:016x}.{extension}")
            }
            FileKind::Journal | FileKind::JournalAgain | FileKind::Bulk | FileKind::Segment => {
                format!("{number:016x}.{extension}")
            }
        }
    }

    /// The file of `kind` with this name in its folder; `None` for a name we did not give.
    pub fn from_leaf(kind: FileKind, leaf: &str) -> Option<FileName> {
        let stem = leaf.strip_suffix(kind.extension())?;
        let stem = stem.strip_suffix('.').unwrap_or(stem);
        let log = |hex| u32::from_str_radix(hex, 16).ok().map(LogId);
        let number = |hex| u64::from_str_radix(hex, 16).ok();
        let name = match kind {
            FileKind::Identity | FileKind::IdentityNew | FileKind::IdentityAgain => FileName::new(kind, 0),
            FileKind::SnapshotNew => FileName::of_log(kind, log(stem)?, 0),
            FileKind::Snapshot
            | FileKind::SnapshotAgain
            | FileKind::Quarantined
            | FileKind::QuarantinedStream
            | FileKind::Stream
            | FileKind::StreamAside
            | FileKind::StreamIndex => {
                let (owner, counter) = stem.split_once('-')?;
                FileName::of_log(kind, log(owner)?, number(counter)?)
            }
            FileKind::Journal | FileKind::JournalAgain | FileKind::Bulk | FileKind::Segment => {
                FileName::new(kind, number(stem)?)
            }
        };
        (name.leaf() == leaf).then_some(name)
    }
}

impl fmt::Display for FileName {
    /// The path relative to the data folder.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind.folder() {
            "" => f.write_str(&self.leaf()),
            folder => write!(f, "{folder}/{}", self.leaf()),
        }
    }
}

/// Why a disk did not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// No space, no quota: the one failure that passes.
    NoSpace,
    /// No such file.
    NotFound,
    /// The file exists already.
    Exists,
    /// Anything else, with the system's error number. The bytes of a write may be there, gone, or half there.
    Io(i32),
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::NoSpace => f.write_str("no space left on the device"),
            DiskError::NotFound => f.write_str("no such file"),
            DiskError::Exists => f.write_str("file exists"),
            DiskError::Io(code) => write!(f, "input/output error (system error {code})"),
        }
    }
}

impl std::error::Error for DiskError {}

/// A folder of files on a device.
pub trait Disk: Send + Sync {
    /// Makes a file of `len` bytes that read as zeros, with the space for them set aside. The file outlives a power cut
    /// after [`Disk::sync`] of it and [`Disk::sync_folder`] of its kind.
    fn create(&self, file: FileName, len: u64) -> Result<(), DiskError>;

    /// Bytes of the file.
    fn len(&self, file: FileName) -> Result<u64, DiskError>;

    /// The files of a kind, in order of name. Files with other names in the same folder are left out.
    fn list(&self, kind: FileKind) -> Result<Vec<FileName>, DiskError>;

    /// Reads from `offset` until `into` is full or the file ends; the number of bytes read.
    fn read_at(&self, file: FileName, offset: u64, into: &mut [u8]) -> Result<usize, DiskError>;

    /// Reads from `offset` until all of `into`, one behind the other, are full or the file ends; the number of bytes read.
    fn read_pieces_at(
        &self,
        file: FileName,
        offset: u64,
        into: &mut [IoSliceMut<'_>],
    ) -> Result<usize, DiskError> {
        let mut done = 0;
        for piece in into {
            let read = self.read_at(file, offset + done as u64, piece)?;
            done += read;
            if read < piece.len() {
                break;
            }
        }
        Ok(done)
    }

    /// Writes all of `pieces`, one behind the other, from `offset` on. Fast where `offset` and every piece's address and
    /// length are multiples of [`base::memory::BLOCK`]. The bytes may be lost until [`Disk::sync`].
    fn write_at(&self, file: FileName, offset: u64, pieces: &[IoSlice<'_>]) -> Result<(), DiskError>;

    /// Returns when the file's bytes (and what is needed to read them) survive a power cut.
    fn sync(&self, file: FileName) -> Result<(), DiskError>;

    /// Returns when the names in the folder of `kind` survive a power cut.
    fn sync_folder(&self, kind: FileKind) -> Result<(), DiskError>;

    /// Gives the file another name, in the place of what had that name.
    fn rename(&self, from: FileName, to: FileName) -> Result<(), DiskError>;

    /// Removes the file.
    fn remove(&self, file: FileName) -> Result<(), DiskError>;

    /// Removes the file: its name at once, its space piece by piece where the disk can do so, so that whoever else waits for
    /// the device waits for one piece at most. `pause` is called in front of each; when it says `false`, the rest goes at once.
    fn remove_slowly(&self, file: FileName, pause: &mut dyn FnMut() -> bool) -> Result<(), DiskError> {
        // One piece: what it says makes no difference.
        pause();
        self.remove(file)
    }

    /// Bytes that may still be written on the device.
    fn free_bytes(&self) -> Result<u64, DiskError>;
}

/// Reads exactly `into.len()` bytes; a file that ends before is `Io(0)`.
pub(crate) fn read_exact(
    disk: &dyn Disk,
    file: FileName,
    offset: u64,
    into: &mut [u8],
) -> Result<(), DiskError> {
    match disk.read_at(file, offset, into)? {
        read if read == into.len() => Ok(()),
        _ => Err(DiskError::Io(0)),
    }
}

/// Gives a file its own name once more, by way of another one in the same folder: a name that a run gave and then failed
/// to sync may never become durable by itself, though a start sees it; this one does, with the folder's next sync. A
/// start that was killed halfway left the other name: see [`back_again`].
pub(crate) fn name_again(disk: &dyn Disk, name: FileName, by_way_of: FileName) -> Result<(), DiskError> {
    disk.rename(name, by_way_of)?;
    disk.rename(by_way_of, name)
}

/// Ends what [`name_again`] began: `found` is there under the name in between. Where both are, they are one file.
pub(crate) fn back_again(disk: &dyn Disk, found: FileName, name: FileName) -> Result<(), DiskError> {
    match disk.len(name) {
        Ok(_) => disk.remove(found),
        Err(DiskError::NotFound) => disk.rename(found, name),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        let check = |name: FileName, text: &str| {
            assert_eq!(name.to_string(), text);
            assert_eq!(FileName::from_leaf(name.kind, &name.leaf()), Some(name));
        };
        check(FileName::new(FileKind::Identity, 0), "identity");
        check(FileName::new(FileKind::IdentityNew, 0), "identity.new");
        check(FileName::new(FileKind::IdentityAgain, 0), "identity.again");
        check(FileName::new(FileKind::Journal, 26), "journal/000000000000001a.journal");
        check(FileName::new(FileKind::JournalAgain, 26), "journal/000000000000001a.again");
        check(FileName::new(FileKind::Segment, 1), "segments/0000000000000001.segment");
        check(FileName::new(FileKind::Bulk, 1), "bulk/0000000000000001.bulk");
        check(FileName::of_log(FileKind::SnapshotNew, LogId(3), 0), "snapshots/00000003.new");
        check(
            FileName::of_log(FileKind::Snapshot, LogId(3), 9),
            "snapshots/00000003-0000000000000009.snapshot",
        );
        check(
            FileName::of_log(FileKind::SnapshotAgain, LogId(3), 9),
            "snapshots/00000003-0000000000000009.again",
        );
        check(FileName::of_log(FileKind::Stream, LogId(3), 10), "streams/00000003-000000000000000a.stream");
        check(
            FileName::of_log(FileKind::StreamAside, LogId(3), 10),
            "streams/00000003-000000000000000a.aside",
        );
        check(
            FileName::of_log(FileKind::QuarantinedStream, LogId(3), 10),
            "quarantine/00000003-000000000000000a.stream",
        );
        check(
            FileName::of_log(FileKind::StreamIndex, LogId(3), 10),
            "streams/00000003-000000000000000a.index",
        );
    }

    #[test]
    fn other_names_are_not_ours() {
        for leaf in ["", "1.journal", "000000000000001A.journal", "000000000000001a.journal~", ".journal"] {
            assert_eq!(FileName::from_leaf(FileKind::Journal, leaf), None, "{leaf}");
        }
        assert_eq!(FileName::from_leaf(FileKind::Snapshot, "00000003.new"), None);
    }
}
