//! The disk of a node, as far as replicas see it: writes in order, of which a crash keeps a part, and snapshots. In some runs the writes
//! go through the journal.

use super::checks::crc_of;
use super::journaled::Journaled;
use base::Random;
use base::id::LogId;
use consensus::{Entry, EntryId, Recovered, SnapshotName, Write};
use std::collections::{BTreeMap, VecDeque};

/// A snapshot on disk.
#[derive(Clone, Debug, Default)]
pub struct Saved {
    /// Its name.
    pub name: SnapshotName,
    /// The state.
    pub state: Vec<u8>,
}

/// The writes of one log that are on disk.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    vote: Option<consensus::Vote>,
    entries: VecDeque<Entry>,
    purged: Option<EntryId>,
    agreed: Option<EntryId>,
}

impl Kept {
    fn take(&mut self, write: &Write) -> Result<(), String> {
        match write {
            Write::Vote(vote) => {
                // One that is won counts for more than any other of its term.
                let rank = |vote: &consensus::Vote| (vote.term, vote.is_won);
                if self.vote.as_ref().map(rank) > Some(rank(vote)) {
                    return Err(format!("a promise goes back from {:?} to {vote:?}", self.vote));
                }
                self.vote = Some(*vote);
            }
            Write::Append(_, entries) => {
                for entry in entries {
                    let next = self.last().map_or(0, |last| last.index + 1);
                    if entry.id.index != next {
                        return Err(format!("entry {} is written where {next} is next", entry.id.index));
                    }
                    self.entries.push_back(entry.clone());
                }
            }
            Write::Truncate(last, _) => {
                let last = last.map(|last| last.index);
                while self.entries.back().is_some_and(|entry| Some(entry.id.index) > last) {
                    self.entries.pop_back();
                }
            }
            Write::Purge(last, _) => {
                while self.entries.front().is_some_and(|entry| entry.id.index <= last.index) {
                    self.entries.pop_front();
                }
                self.purged = Some(*last);
            }
            Write::Agreed(last) => self.agreed = Some(*last),
        }
        Ok(())
    }

    fn last(&self) -> Option<EntryId> {
        self.entries.back().map(|entry| entry.id).or(self.purged)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Disk {
    /// The content of the disk, as far as it is known.
    kept: BTreeMap<LogId, Kept>,
    /// Handed out and not on disk, in order; whether it is told when it is.
    waiting: VecDeque<(LogId, Write, bool)>,
    /// How many of them are being flushed; 0: none.
    flying: usize,
    snapshots: BTreeMap<LogId, Saved>,
    /// The one before the last of each log, in case the last is lost.
    before: BTreeMap<LogId, Saved>,
    /// The journal, in runs that have one.
    journaled: Option<Journaled>,
}

impl Disk {
    /// An empty one; with a journal if there is a seed for its disk.
    pub fn new(seed: Option<u64>) -> Disk {
        Disk { journaled: seed.map(Journaled::new), ..Disk::default() }
    }

    /// Takes a write.
    pub fn hand_in(&mut self, log: LogId, write: Write, is_told: bool) {
        self.waiting.push_back((log, write, is_told));
    }

    /// Begins to flush all that waits; false: there is nothing, or a flush is under way.
    pub fn begin(&mut self) -> bool {
        let begins = self.flying == 0 && !self.waiting.is_empty();
        if begins {
            self.flying = self.waiting.len();
        }
        begins
    }

    /// A flush has ended: how many writes of each log are told to be on disk.
    ///
    /// # Errors
    /// The journal did not take them, or they do not follow on what is there.
    pub fn flushed(&mut self, now_ms: u64) -> Result<BTreeMap<LogId, usize>, String> {
        let mut told = BTreeMap::new();
        let flushed: Vec<_> = self.waiting.drain(..std::mem::take(&mut self.flying)).collect();
        if let Some(journaled) = &mut self.journaled {
            journaled.write(flushed.iter().map(|(log, write, _)| (*log, write)), now_ms)?;
        }
        for (log, write, is_told) in &flushed {
            self.kept.entry(*log).or_default().take(write)?;
            *told.entry(*log).or_default() += usize::from(*is_told);
        }
        Ok(told)
    }

    /// The node is gone; some of the writes that were not flushed are on disk all the same. How many are lost.
    ///
    /// # Errors
    /// As [`Disk::flushed`].
    pub fn crash(&mut self, dice: &mut Random, now_ms: u64) -> Result<usize, String> {
        let kept = match &mut self.journaled {
            Some(journaled) => {
                let flying = self.waiting.iter().take(self.flying).map(|(log, write, _)| (*log, write));
                journaled.crash(flying, dice, now_ms);
                0
            }
            None => dice.below(self.waiting.len() as u64 + 1) as usize,
        };
        for (log, write, _) in self.waiting.drain(..kept) {
            self.kept.entry(log).or_default().take(&write)?;
        }
        let lost = self.waiting.len();
        self.waiting.clear();
        self.flying = 0;
        Ok(lost)
    }

    /// A snapshot is on disk.
    pub fn save(&mut self, log: LogId, saved: Saved) {
        if let Some(before) = self.snapshots.insert(log, saved) {
            self.before.insert(log, before);
        }
    }

    /// The last snapshot of a log.
    pub fn saved(&self, log: LogId) -> Option<&Saved> {
        self.snapshots.get(&log)
    }

    /// The last snapshots were not on disk.
    pub fn lose_snapshots(&mut self) {
        self.snapshots = std::mem::take(&mut self.before);
    }

    /// Promises are not there.
    pub fn lose_votes(&mut self) {
        self.kept.values_mut().for_each(|kept| kept.vote = None);
    }

    /// Whether an entry is on disk, or in a snapshot.
    pub fn has(&self, log: LogId, id: EntryId, crc: u32) -> bool {
        let covered = self.snapshots.get(&log).and_then(|saved| saved.name.last);
        if covered.is_some_and(|covered| covered.index >= id.index) {
            return true;
        }
        let Some(kept) = self.kept.get(&log) else { return false };
        kept.entries.iter().any(|entry| entry.id == id && crc_of(&entry.content) == crc)
    }

    /// A node comes up: it reads its journal.
    ///
    /// # Errors
    /// The journal is damaged.
    pub fn open(&mut self) -> Result<(), String> {
        self.journaled.as_mut().map_or(Ok(()), Journaled::open)
    }

    /// The state that a replica comes up with.
    ///
    /// # Errors
    /// Entries are missing between the snapshot and what is on disk.
    pub fn recover(&mut self, log: LogId) -> Result<Recovered, String> {
        let Saved { name, state } = self.snapshots.get(&log).cloned().unwrap_or_default();
        let kept = self.kept.entry(log).or_default();
        let Some(journaled) = &mut self.journaled else { return kept.recover(log, name, state) };
        let recovered = journaled.recover(log, name, state)?;
        *kept = Kept {
            // Those of the model were lost on purpose.
            vote: recovered.vote,
            entries: recovered.entries.clone().into(),
            purged: recovered.snapshot.last,
            agreed: recovered.agreed,
        };
        Ok(recovered)
    }
}

impl Kept {
    fn recover(&mut self, log: LogId, name: SnapshotName, manifest: Vec<u8>) -> Result<Recovered, String> {
        let covered = name.last.map_or(0, |last| last.index + 1);
        if self.purged.is_some_and(|purged| purged.index >= covered) {
            return Err(format!("{log:?} lets go of {:?}, and its snapshot ends at {covered}", self.purged));
        }
        // As the journal does, which has no other word for it either.
        if let Some(other) = self.entries.iter().find(|entry| entry.id.index + 1 == covered)
            && Some(other.id) != name.last
        {
            return Err(format!("{log:?} has {:?} where its snapshot has {:?}", other.id, name.last));
        }
        let behind = self.entries.iter().filter(|entry| entry.id.index >= covered);
        let entries: Vec<Entry> = behind.cloned().collect();
        // It may all end before the snapshot.
        let agreed = self.agreed.max(name.last);
        let is_there = |id: &EntryId| Some(*id) == name.last || entries.iter().any(|entry| entry.id == *id);
        let agreed = agreed.filter(is_there);
        if entries.is_empty() {
            self.entries.clear();
        }
        Ok(Recovered { vote: self.vote, snapshot: name, manifest, entries, agreed })
    }
}
