//! The writes of replicas in the journal, on a disk that does the worst it may: as batches with marks, and back.

use crate::oracle::Check;
use base::Random;
use base::id::{LogId, LogIndex};
use consensus::{Recovered, SnapshotName, Write, mark};
use journal::{FaultyDisk, FileId, Journal, Limits, RecoveredBatch, Sealed, Start};
use std::collections::BTreeMap;

/// Small files, so that runs have several.
const LIMITS: fn() -> Limits =
    || Limits { file_bytes: 1 << 20, first_file_bytes: 64 << 10, spare_files: 0, ..Limits::default() };

/// See the module.
#[derive(Debug)]
pub struct Journaled {
    disk: FaultyDisk,
    /// None: the node is down, or was not up yet.
    journal: Option<Journal>,
    /// Where the records of each log end.
    ends: BTreeMap<LogId, LogIndex>,
    /// Read, and not asked for yet.
    read: BTreeMap<LogId, Vec<RecoveredBatch>>,
}

impl Journaled {
    /// An empty one.
    pub fn new(seed: u64) -> Journaled {
        let (ends, read) = (BTreeMap::new(), BTreeMap::new());
        Journaled { disk: FaultyDisk::new(seed), journal: None, ends, read }
    }

    fn batches<'a>(&mut self, writes: impl Iterator<Item = (LogId, &'a Write)>, now_ms: u64) -> Vec<Sealed> {
        let mut batches = Vec::new();
        for (log, write) in writes {
            let end = self.ends.entry(log).or_default();
            *end = write.batches(log, *end, now_ms, &mut batches);
        }
        batches
    }

    /// Writes and flushes.
    ///
    /// # Errors
    /// The journal did not take them.
    pub fn write<'a>(&mut self, writes: impl Iterator<Item = (LogId, &'a Write)>, now_ms: u64) -> Check {
        let batches = self.batches(writes, now_ms);
        let journal = self.journal.as_mut().ok_or("the journal of a node that is down")?;
        journal.write(&self.disk, &batches, &mut Vec::new()).map_err(|error| format!("the journal: {error}"))
    }

    /// The node is gone, perhaps in the midst of these writes.
    pub fn crash<'a>(
        &mut self,
        writes: impl Iterator<Item = (LogId, &'a Write)>,
        dice: &mut Random,
        now_ms: u64,
    ) {
        let batches = self.batches(writes, now_ms);
        if let Some(mut journal) = self.journal.take()
            && !batches.is_empty()
            && dice.one_in(2)
        {
            self.disk.power_off(1 + dice.below(4));
            let _whatever_is_found_then = journal.write(&self.disk, &batches, &mut Vec::new());
        }
        self.disk.crash();
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// It is damaged.
    pub fn open(&mut self) -> Check {
        self.read.clear();
        let start = Start { secret: 1, from: FileId(0), keep: FileId(0) };
        let read = &mut self.read;
        let opened = Journal::open(&self.disk, LIMITS(), start, &mut |batch| {
            read.entry(batch.log).or_default().push(batch);
        });
        let (journal, recovered) = opened.map_err(|error| format!("the journal: {error}"))?;
        if !recovered.damages.is_empty() {
            return Err(format!("the journal is damaged: {:?}", recovered.damages));
        }
        self.journal = Some(journal);
        Ok(())
    }

    /// The state that a replica comes up with.
    ///
    /// # Errors
    /// The batches of the log and the snapshot do not fit together.
    pub fn recover(
        &mut self,
        log: LogId,
        name: SnapshotName,
        manifest: Vec<u8>,
    ) -> Result<Recovered, String> {
        let fault = |fault: mark::Fault| format!("{log:?} in the journal: {fault}");
        let mut recovery = mark::Recovery::new(mark::Start { last: name.last, end: name.end, vote: None });
        for batch in self.read.remove(&log).unwrap_or_default() {
            recovery.visit(batch).map_err(fault)?;
        }
        let found = recovery.finish().map_err(fault)?;
        self.ends.insert(log, found.end);
        Ok(Recovered::new(name, manifest, &found))
    }
}
