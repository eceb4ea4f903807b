//! Between shards and journal: writes a shard's batches at once, or lets them queue for the writer, whose reports arrive
//! later. Which of the two, and when, is rolled.

use crate::node::Stop;
use base::Random;
use base::id::{LogId, LogIndex};
use journal::{FaultyDisk, Journal, Place, Sealed, WriteError};

/// A batch on disk.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Its log.
    pub log: LogId,
    /// Its first record.
    pub base: LogIndex,
    /// Where it is.
    pub place: Place,
}

/// The journal and what waits for it.
#[derive(Debug)]
pub struct Committer {
    /// The commit path.
    pub journal: Journal,
    disk: FaultyDisk,
    /// Batches that wait, and whose they are, in order.
    batches: Vec<Sealed>,
    owners: Vec<(usize, usize)>,
    /// The last write found no space.
    pub is_out_of_space: bool,
}

impl Committer {
    /// One over `journal`.
    pub fn new(journal: Journal, disk: FaultyDisk) -> Committer {
        Committer { journal, disk, batches: Vec::new(), owners: Vec::new(), is_out_of_space: false }
    }

    /// Nothing waits.
    pub fn is_idle(&self) -> bool {
        self.batches.is_empty()
    }

    /// Takes `batches` of a shard of whose earlier ones `outstanding` are not reported. `written` gets those that were
    /// written at once; the number of those that were not is returned.
    pub fn commit(
        &mut self,
        dice: &mut Random,
        shard: usize,
        outstanding: usize,
        batches: &mut Vec<Sealed>,
        written: &mut Vec<Written>,
    ) -> Result<usize, Stop> {
        if outstanding == 0 && !self.is_out_of_space && dice.one_in(3) {
            let mut places = Vec::new();
            let result = self.journal.write(&self.disk, batches, &mut places);
            written.extend(batches.iter().zip(&places).map(report));
            batches.drain(..places.len());
            match result {
                Ok(()) => return Ok(0),
                Err(WriteError::NoSpace) => self.is_out_of_space = true,
                Err(error @ WriteError::Fatal(_)) => return Err(Stop(error.to_string())),
            }
        }
        let count = batches.len();
        self.batches.append(batches);
        self.owners.push((shard, count));
        Ok(count)
    }

    /// The writer writes what has gathered; what is on disk now, by shard.
    pub fn write(&mut self) -> Result<Vec<(usize, Vec<Written>)>, Stop> {
        if self.batches.is_empty() {
            return Ok(Vec::new());
        }
        let mut places = Vec::new();
        let result = self.journal.write(&self.disk, &self.batches, &mut places);
        let mut reports = self.batches.iter().zip(&places).map(report);
        let mut done: Vec<(usize, Vec<Written>)> = Vec::new();
        let mut left = places.len();
        for (shard, count) in &mut self.owners {
            let of_shard = (*count).min(left);
            *count -= of_shard;
            left -= of_shard;
            if of_shard > 0 {
                done.push((*shard, reports.by_ref().take(of_shard).collect()));
            }
        }
        drop(reports);
        self.owners.retain(|(_, count)| *count > 0);
        self.batches.drain(..places.len());
        match result {
            Ok(()) => self.is_out_of_space = false,
            Err(WriteError::NoSpace) => self.is_out_of_space = true,
            Err(error @ WriteError::Fatal(_)) => return Err(Stop(error.to_string())),
        }
        Ok(done)
    }

    /// Writes the group after which rot is told from a torn write. False where there is no space for it.
    pub fn seal_end(&mut self) -> Result<bool, Stop> {
        match self.journal.write(&self.disk, &[], &mut Vec::new()) {
            Ok(()) => Ok(true),
            Err(WriteError::NoSpace) => Ok(false),
            Err(error @ WriteError::Fatal(_)) => Err(Stop(error.to_string())),
        }
    }
}

fn report((batch, place): (&Sealed, &Place)) -> Written {
    Written { log: batch.log, base: batch.base, place: *place }
}
