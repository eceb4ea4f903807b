//! Files of segments that the snapshots of a start do not know.
//!
//! Mostly the replay makes them again. Whether the journal still holds all that is in them shows when it is read to its end, so
//! until then they are set aside under another name, where what is made again does not touch them. They go when the journal was
//! sound. Where it was not, one of them may be the only copy of a chunk.
//! A start that ended in between left them aside: the next one gives them their names back, in place of what that had made, and
//! sets them aside anew, as nobody knows which of the names were synced. One whose segment a snapshot has learned of meanwhile is
//! not wanted back.
//! Indexes are made from chunks, and go at once.

use super::file::chunks_of;
use base::id::LogId;
use journal::{Disk, DiskError, FileKind, FileName};
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Debug)]
pub struct Strays {
    aside: Vec<FileName>,
    /// Those of them that the replay has made again, with all there is in them.
    made: BTreeSet<FileName>,
}

/// A file that was kept, as it may hold what the journal does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stray {
    /// Its name before.
    pub was: FileName,
    /// Its name now.
    pub is: FileName,
}

impl Strays {
    /// Sets the files aside of these logs that are of no segment named. To be called when the snapshots are read, and before the
    /// journal is.
    pub fn set_aside(disk: &dyn Disk, known: &BTreeMap<LogId, BTreeSet<u64>>) -> Result<Strays, DiskError> {
        // Of a log that has lost its past nobody knows anything.
        let is_stray =
            |name: &FileName| known.get(&name.log).is_some_and(|segments| !segments.contains(&name.number));
        for index in disk.list(FileKind::StreamIndex)?.into_iter().filter(is_stray) {
            disk.remove(index)?;
        }
        for aside in disk.list(FileKind::StreamAside)?.into_iter().filter(is_stray) {
            disk.rename(aside, chunks_of(aside.log, aside.number))?;
        }
        for name in disk.list(FileKind::Stream)?.into_iter().filter(is_stray) {
            disk.rename(name, FileName { kind: FileKind::StreamAside, ..name })?;
        }
        let mut aside = disk.list(FileKind::StreamAside)?;
        aside.retain(|name| known.contains_key(&name.log));
        // Before what the replay makes takes a name that the disk still knows for one of these.
        if !aside.is_empty() {
            disk.sync_folder(FileKind::StreamAside)?;
        }
        Ok(Strays { aside, made: BTreeSet::new() })
    }

    /// The journal is read to its end, which made these segments of a log, with so many bytes in the file of each.
    pub fn note_made(
        &mut self,
        disk: &dyn Disk,
        log: LogId,
        segments: &BTreeMap<u64, u64>,
    ) -> Result<(), DiskError> {
        for aside in self.aside.iter().filter(|aside| aside.log == log) {
            if let Some(bytes) = segments.get(&aside.number)
                && disk.len(*aside)? <= *bytes
            {
                self.made.insert(*aside);
            }
        }
        Ok(())
    }

    /// All is known that there is to know. Where nothing is damaged they go. Else those are kept that were not made again: of logs
    /// that are stopped aside, as all of them stays what it is, the others in quarantine.
    pub fn end(
        self,
        disk: &dyn Disk,
        is_sound: bool,
        is_stopped: impl Fn(LogId) -> bool,
    ) -> Result<Vec<Stray>, DiskError> {
        let mut kept = Vec::new();
        let mut quarantined = disk.list(FileKind::QuarantinedStream)?;
        for is in self.aside {
            let was = chunks_of(is.log, is.number);
            if is_sound || (!is_stopped(is.log) && self.made.contains(&is)) {
                disk.remove(is)?;
                continue;
            }
            if is_stopped(is.log) {
                kept.push(Stray { was, is });
                continue;
            }
            let mut to = FileName { kind: FileKind::QuarantinedStream, ..is };
            // Nothing there is replaced.
            while quarantined.contains(&to) {
                to.number += 1;
            }
            disk.rename(is, to)?;
            quarantined.push(to);
            kept.push(Stray { was, is: to });
        }
        // First that it is where it is now, then that it is not where it was.
        if !kept.is_empty() {
            disk.sync_folder(FileKind::QuarantinedStream)?;
            disk.sync_folder(FileKind::StreamAside)?;
        }
        Ok(kept)
    }
}

impl std::fmt::Display for Stray {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Stray { was, is } = self;
        write!(f, "{was} may hold messages that nothing else has any more, and is kept as {is}")
    }
}
