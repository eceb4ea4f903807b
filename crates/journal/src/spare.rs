//! Making journal files ahead of their use.
//!
//! A [`SpareMaker`] writes a whole file of zeros, so that overwriting it later changes no metadata of the filesystem,
//! and marks it as prepared. It needs the disk alone: it can run on another thread while the journal commits.

use crate::disk::{Disk, DiskError, FileKind, FileName};
use crate::file::{FileHeader, FileId};
use base::memory::BLOCK;
use base::{Buffer, Memory};
use std::io::IoSlice;

/// A prepared file, to be handed to [`crate::Journal::add_spare`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    pub(crate) slot: u64,
    pub(crate) len: u64,
}

impl Spare {
    /// Its name.
    pub(crate) fn name(&self) -> FileName {
        FileName::new(FileKind::Journal, self.slot)
    }

    /// It has room for its header and a group of `len` bytes.
    pub(crate) fn fits(&self, len: u64) -> bool {
        len + BLOCK as u64 <= self.len
    }
}

/// A file being prepared. Dropped halfway it leaves a file that the next start prepares again.
#[derive(Debug)]
pub struct SpareMaker {
    slot: u64,
    len: u64,
    done: u64,
    step: usize,
    zeros: Memory,
}

/// Bytes of zeros in memory: a step writes the same ones many times. A block as large as a step would teach the C library
/// to keep blocks of that size for itself from then on.
const ZEROS: usize = 64 << 10;

impl SpareMaker {
    pub(crate) fn new(slot: u64, len: u64, step_bytes: usize) -> SpareMaker {
        assert!(
            len >= 2 * BLOCK as u64 && len.is_multiple_of(BLOCK as u64),
            "journal files are whole blocks"
        );
        let step = step_bytes.next_multiple_of(BLOCK).clamp(BLOCK, 64 << 20).min(len as usize);
        let mut zeros = Buffer::default();
        zeros.extend_zeroed(step.min(ZEROS));
        SpareMaker { slot, len, done: 0, step, zeros: zeros.seal() }
    }

    fn name(&self) -> FileName {
        FileName::new(FileKind::Journal, self.slot)
    }

    /// Writes a bounded part; the spare once all of it is on disk. After an error the file is gone again as far as
    /// possible and the maker is used up: after [`DiskError::NoSpace`] ask the journal for another one later.
    pub fn step(&mut self, disk: &dyn Disk) -> Result<Option<Spare>, DiskError> {
        let outcome = self.try_step(disk);
        if outcome.is_err() {
            let _gone_or_found_on_the_next_start = disk.remove(self.name());
        }
        outcome
    }

    fn try_step(&mut self, disk: &dyn Disk) -> Result<Option<Spare>, DiskError> {
        if self.done == 0 {
            disk.create(self.name(), self.len)?;
        }
        let part = (self.len - self.done).min(self.step as u64);
        let (whole, rest) = (part as usize / self.zeros.len(), part as usize % self.zeros.len());
        let mut pieces = vec![IoSlice::new(&self.zeros); whole];
        pieces.extend((rest > 0).then(|| IoSlice::new(&self.zeros[..rest])));
        disk.write_at(self.name(), self.done, &pieces)?;
        self.done += part;
        if self.done < self.len {
            return Ok(None);
        }
        // The mark tells the next start that nothing is to be looked for here. Zeros that a power cut takes away again
        // cost time when they are overwritten, nothing else: one sync for both will do.
        let mut block = Buffer::default();
        block.extend(&FileHeader { file: FileId(0), salt: 0, oldest: FileId(0), first_sequence: 0 }.write());
        block.pad_to(BLOCK);
        disk.write_at(self.name(), 0, &[IoSlice::new(block.bytes())])?;
        disk.sync(self.name())?;
        disk.sync_folder(FileKind::Journal)?;
        Ok(Some(Spare { slot: self.slot, len: self.len }))
    }

    /// Writes all of it.
    pub fn finish(mut self, disk: &dyn Disk) -> Result<Spare, DiskError> {
        loop {
            if let Some(spare) = self.step(disk)? {
                return Ok(spare);
            }
        }
    }
}
