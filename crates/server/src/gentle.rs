//! A disk as the housekeeper uses it: written bytes reach the device piece by piece, with pauses in between.
//!
//! Written without that, 64 MiB of messages stay in memory until they are synced in one go, and a flush meanwhile waits
//! for the device to take all of them: 200 ms were seen. Here it waits behind one piece. In a hurry there are no
//! pauses: publishers that outrun the housekeeper would fill the disk. Invariant: once a sync has failed there is no
//! other: each [`Disk::sync`] tells of it, and so does [`Gentle::failure`] to a caller that gave up before it came to
//! one.

use crate::pauses::Pauses;
use journal::{Disk, DiskError, FileKind, FileName};
use std::io::{IoSlice, IoSliceMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes the device is given at a time.
const PIECE_BYTES: usize = 512 << 10;

/// See the module.
pub struct Gentle<'a> {
    disk: &'a dyn Disk,
    is_in_hurry: &'a (dyn Fn() -> bool + Sync),
    state: Mutex<State>,
}

struct State {
    /// Bytes written since the device was given what there was.
    written: usize,
    /// The error of the first sync that failed.
    failure: Option<DiskError>,
    pauses: Pauses,
}

impl<'a> Gentle<'a> {
    /// `disk`, used gently while `is_in_hurry` says `false`.
    pub fn new(disk: &'a dyn Disk, is_in_hurry: &'a (dyn Fn() -> bool + Sync)) -> Gentle<'a> {
        let state = State { written: 0, failure: None, pauses: Pauses::begin() };
        Gentle { disk, is_in_hurry, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error of the first sync that failed: the system tells it once, and a later sync would not hear of it.
    pub fn failure(&self) -> Option<DiskError> {
        self.state().failure
    }

    /// So many bytes more were written to `file`.
    fn note_written(&self, file: FileName, bytes: usize) {
        let mut state = self.state();
        state.written += bytes;
        if state.written < PIECE_BYTES {
            return;
        }
        state.written = 0;
        if (self.is_in_hurry)() {
            state.pauses = Pauses::begin();
            return;
        }
        if state.failure.is_none() {
            state.failure = self.disk.sync(file).err();
        }
        state.pauses.pause();
    }
}

impl Disk for Gentle<'_> {
    fn create(&self, file: FileName, len: u64) -> Result<(), DiskError> {
        self.disk.create(file, len)
    }

    fn len(&self, file: FileName) -> Result<u64, DiskError> {
        self.disk.len(file)
    }

    fn list(&self, kind: FileKind) -> Result<Vec<FileName>, DiskError> {
        self.disk.list(kind)
    }

    fn read_at(&self, file: FileName, offset: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        self.disk.read_at(file, offset, into)
    }

    fn read_pieces_at(
        &self,
        file: FileName,
        offset: u64,
        into: &mut [IoSliceMut<'_>],
    ) -> Result<usize, DiskError> {
        self.disk.read_pieces_at(file, offset, into)
    }

    fn write_at(&self, file: FileName, offset: u64, pieces: &[IoSlice<'_>]) -> Result<(), DiskError> {
        let mut offset = offset;
        let mut write = |pieces: &[IoSlice<'_>]| {
            let len: usize = pieces.iter().map(|piece| piece.len()).sum();
            self.disk.write_at(file, offset, pieces)?;
            offset += len as u64;
            self.note_written(file, len);
            Ok(())
        };
        let mut rest = pieces;
        while let Some(first) = rest.first() {
            if first.len() > PIECE_BYTES {
                first.chunks(PIECE_BYTES).try_for_each(|part| write(&[IoSlice::new(part)]))?;
                rest = &rest[1..];
                continue;
            }
            let (now, later) = rest.split_at(fitting(rest));
            write(now)?;
            rest = later;
        }
        Ok(())
    }

    fn sync(&self, file: FileName) -> Result<(), DiskError> {
        let mut state = self.state();
        if state.failure.is_none() {
            state.failure = self.disk.sync(file).err();
        }
        state.failure.map_or(Ok(()), Err)
    }

    fn sync_folder(&self, kind: FileKind) -> Result<(), DiskError> {
        self.disk.sync_folder(kind)
    }

    fn rename(&self, from: FileName, to: FileName) -> Result<(), DiskError> {
        self.disk.rename(from, to)
    }

    fn remove(&self, file: FileName) -> Result<(), DiskError> {
        self.disk.remove(file)
    }

    fn remove_slowly(&self, file: FileName, pause: &mut dyn FnMut() -> bool) -> Result<(), DiskError> {
        self.disk.remove_slowly(file, pause)
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.disk.free_bytes()
    }
}

/// How many of `pieces`, of which the first does, make one piece for the device.
fn fitting(pieces: &[IoSlice<'_>]) -> usize {
    let mut bytes = 0;
    let fits = |piece: &&IoSlice<'_>| {
        bytes += piece.len();
        bytes <= PIECE_BYTES
    };
    pieces.iter().take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use journal::{FaultyDisk, faulty::Call, faulty::Temper};

    const FILE: FileName = FileName::new(FileKind::Segment, 3);
    const OTHER: FileName = FileName::new(FileKind::Segment, 4);

    fn disk() -> FaultyDisk {
        let disk = FaultyDisk::new(5);
        [FILE, OTHER].iter().for_each(|file| disk.create(*file, 0).unwrap());
        disk.sync_folder(FileKind::Segment).unwrap();
        disk
    }

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at % 251) as u8).collect()
    }

    /// The length of `FILE` after a power cut, with pieces of these lengths written and no sync called.
    fn left(lens: &[usize], is_in_hurry: bool) -> u64 {
        let disk = disk();
        let all = bytes(lens.iter().sum());
        let mut from = 0;
        let pieces: Vec<IoSlice<'_>> = lens
            .iter()
            .map(|len| {
                from += len;
                IoSlice::new(&all[from - len..from])
            })
            .collect();
        let in_hurry = || is_in_hurry;
        Gentle::new(&disk, &in_hurry).write_at(FILE, 0, &pieces).unwrap();
        let mut read = vec![0; all.len()];
        assert_eq!((disk.read_at(FILE, 0, &mut read), &read), (Ok(all.len()), &all), "{lens:?}");
        disk.crash_as(Temper::LoseAll);
        disk.len(FILE).unwrap()
    }

    #[test]
    fn what_is_written_reaches_the_device_piece_by_piece() {
        const PIECE: usize = PIECE_BYTES;
        for (lens, expected) in [
            (&[100][..], 0),
            (&[PIECE - 1], 0),
            (&[PIECE], PIECE),
            (&[3 * PIECE + 7], 3 * PIECE),
            (&[PIECE / 2 + 1, PIECE / 2 + 1, 5], PIECE + 7),
            (&[1, 2 * PIECE + 5, 2], 2 * PIECE + 1),
            (&[PIECE / 4; 9], 2 * PIECE),
        ] {
            assert_eq!(left(lens, false), expected as u64, "{lens:?}");
            assert_eq!(left(lens, true), 0, "{lens:?}, in a hurry");
        }
    }

    #[test]
    fn a_sync_that_failed_is_told_by_all_that_follow_and_to_who_asks() {
        let disk = disk();
        disk.fail(Call::Sync, 1, DiskError::Io(5));
        let gentle = Gentle::new(&disk, &|| false);
        assert_eq!(gentle.failure(), None);
        let all = bytes(2 * PIECE_BYTES);
        assert_eq!(gentle.write_at(FILE, 0, &[IoSlice::new(&all)]), Ok(()), "that is for a sync to say");
        assert_eq!(gentle.failure(), Some(DiskError::Io(5)));
        assert_eq!((gentle.sync(OTHER), gentle.sync(FILE)), (Err(DiskError::Io(5)), Err(DiskError::Io(5))));
        disk.crash_as(Temper::LoseAll);
        assert_eq!(disk.len(FILE), Ok(0), "nothing was synced after it");
    }
}
