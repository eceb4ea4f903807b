//! The files of streams: made, written, made durable, removed. Their format is in `docs/formats/stream-file.md`.
//!
//! Writing the same twice does no harm. A segment's files are made by the write of its first chunk alone: a write behind it
//! that finds no file fails, rather than leave a gap in front.

use super::index;
use base::id::LogId;
use journal::{Disk, DiskError, FileKind, FileName};
use queue::stream::{FILE_HEADER_LEN, StorePiece, Sync, SyncFailure, WorkError, Write};
use std::collections::BTreeMap;
use std::io::IoSlice;

/// The first bytes of a file of chunks: the name of the format, and its version.
const HEADER: [u8; FILE_HEADER_LEN as usize] = *b"OSIL\0\0\0\x01";

/// The file with a segment's chunks.
pub(super) fn chunks_of(log: LogId, segment: u64) -> FileName {
    FileName::of_log(FileKind::Stream, log, segment)
}

/// Writes chunks and what the index has of them.
pub(super) fn write(disk: &dyn Disk, log: LogId, write: &Write) -> Result<(), DiskError> {
    write.pieces.iter().try_for_each(|piece| write_piece(disk, log, piece))
}

fn write_piece(disk: &dyn Disk, log: LogId, piece: &StorePiece) -> Result<(), DiskError> {
    let chunks = chunks_of(log, piece.segment);
    let mut position = piece.position;
    let mut slices = Vec::with_capacity(piece.parts.len() + 1);
    if piece.begins_segment() {
        make(disk, chunks)?;
        position = 0;
        slices.push(IoSlice::new(&HEADER));
    } else if disk.len(chunks)? < position {
        return Err(DiskError::NotFound);
    }
    slices.extend(
        (piece.parts.iter())
            .map(|(memory, range)| IoSlice::new(&memory[range.start as usize..range.end as usize])),
    );
    disk.write_at(chunks, position, &slices)?;
    index::write(disk, log, piece)
}

/// Makes an empty file that grows, unless it is there.
pub(super) fn make(disk: &dyn Disk, name: FileName) -> Result<(), DiskError> {
    match disk.create(name, 0) {
        Err(DiskError::Exists) => Ok(()),
        made => made,
    }
}

/// Writes what is to be written and makes all of it durable, names included.
pub(super) fn sync(disk: &dyn Disk, log: LogId, sync: &Sync) -> Result<(), SyncFailure> {
    write(disk, log, &sync.write).map_err(|error| SyncFailure::Write(work_error(error)))?;
    let synced = sync.segments.iter().try_for_each(|segment| {
        disk.sync(chunks_of(log, *segment))?;
        match disk.sync(index::index_of(log, *segment)) {
            // It was lost, and is not needed.
            Err(DiskError::NotFound) => Ok(()),
            synced => synced,
        }
    });
    let synced = synced.and_then(|()| disk.sync_folder(FileKind::Stream));
    synced.map_err(|error| SyncFailure::Sync(work_error(error)))
}

/// Removes segments, each of their files with `remove`; those that were never written are none.
pub(super) fn remove(
    log: LogId,
    segments: &[u64],
    mut remove: impl FnMut(FileName) -> Result<(), DiskError>,
) -> Result<(), DiskError> {
    let mut outcome = Ok(());
    for segment in segments {
        for name in [index::index_of(log, *segment), chunks_of(log, *segment)] {
            match remove(name) {
                Err(DiskError::NotFound) => {}
                removed => outcome = outcome.and(removed),
            }
        }
    }
    outcome
}

/// The segments of a log that have a file, and the bytes of each: what its streams recover with.
pub fn stream_files(disk: &dyn Disk, log: LogId) -> Result<BTreeMap<u64, u64>, DiskError> {
    let names = disk.list(FileKind::Stream)?.into_iter().filter(|name| name.log == log);
    names.map(|name| Ok((name.number, disk.len(name)?))).collect()
}

/// A disk's error in the words of the machine.
pub(super) fn work_error(error: DiskError) -> WorkError {
    match error {
        DiskError::NoSpace => WorkError::NoSpace,
        DiskError::NotFound => WorkError::Missing,
        DiskError::Exists => WorkError::Io(0),
        DiskError::Io(code) => WorkError::Io(code),
    }
}
