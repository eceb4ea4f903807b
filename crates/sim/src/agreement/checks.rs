//! Things that must hold, whatever fails: one entry for each name, on every replica; one leader a term; what was confirmed is on the disks of a
//! majority, and stays; records follow on each other; states are equal where logs are; snapshots are of what was
//! agreed on.

use super::disk::Disk;
use super::state::State;
use crate::oracle::Check;
use base::crc::crc32c;
use base::id::{LogId, NodeNo};
use consensus::{Content, Entry, EntryId, Members, ReplicaId};
use journal::Sealed;
use std::collections::{BTreeMap, BTreeSet};

/// Tells contents apart.
pub fn crc_of(content: &Content) -> u32 {
    match content {
        Content::Blank => 0,
        Content::Batch(batch) => batch.crc,
        Content::Members(members) => crc32c(format!("{members:?}").as_bytes()),
    }
}

/// The number of a proposal.
pub fn number_of(batch: &Sealed) -> u64 {
    batch.records().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// See the module.
#[derive(Debug, Default)]
pub struct Checks {
    /// Agreed on: the entry's name, its sum, and the state behind it.
    agreed: BTreeMap<(LogId, u64), (EntryId, u32, u64)>,
    /// The last batch that is agreed on, of each log.
    batches: BTreeMap<LogId, u64>,
    leaders: BTreeMap<(LogId, u64), ReplicaId>,
    /// Proposals, and where they were agreed on.
    proposals: BTreeMap<u64, Option<u64>>,
}

impl Checks {
    /// A replica applied an entry.
    pub fn applied(&mut self, log: LogId, who: ReplicaId, entry: &Entry, state: &State) -> Check {
        let crc = crc_of(&entry.content);
        let known = *self.agreed.entry((log, entry.id.index)).or_insert((entry.id, crc, state.chain));
        if known != (entry.id, crc, state.chain) {
            return Err(format!(
                "{log:?}: {who} has {:?}, sum {crc:x}, state {:x}; another has {:?}, sum {:x}, state {:x}",
                entry.id, state.chain, known.0, known.1, known.2
            ));
        }
        if let Content::Batch(batch) = &entry.content {
            let last = self.batches.entry(log).or_default();
            *last = entry.id.index.max(*last);
            match self.proposals.get_mut(&number_of(batch)) {
                None => return Err(format!("{log:?}: {:?} was never proposed", entry.id)),
                Some(at) => {
                    if at.replace(entry.id.index).is_some_and(|at| at != entry.id.index) {
                        return Err(format!("{log:?}: {:?} is there twice", entry.id));
                    }
                }
            }
        }
        Ok(())
    }

    /// A replica took a snapshot for its state.
    pub fn installed(&self, log: LogId, who: ReplicaId, state: &State) -> Check {
        let Some(last) = state.last else { return Ok(()) };
        match self.agreed.get(&(log, last.index)) {
            Some((id, _, chain)) if (*id, *chain) == (last, state.chain) => Ok(()),
            known => {
                Err(format!("{log:?}: {who} installs {last:?}, state {:x}; known is {known:?}", state.chain))
            }
        }
    }

    /// A replica leads.
    pub fn leads(&mut self, log: LogId, who: ReplicaId, term: u64) -> Check {
        let known = *self.leaders.entry((log, term)).or_insert(who);
        if known == who { Ok(()) } else { Err(format!("{log:?}: {who} and {known} lead in term {term}")) }
    }

    /// A batch is proposed.
    pub fn proposed(&mut self, number: u64) {
        self.proposals.insert(number, None);
    }

    /// A proposal is confirmed to somebody: it must be on the disks of a majority of the members of old, and of the new.
    pub fn confirmed<'a>(
        &self,
        log: LogId,
        entry: &Entry,
        members: &Members,
        disks: impl Fn(NodeNo) -> &'a Disk,
    ) -> Check {
        let crc = crc_of(&entry.content);
        for voters in &members.voters {
            let having: BTreeSet<&ReplicaId> =
                voters.iter().filter(|replica| disks(replica.node()).has(log, entry.id, crc)).collect();
            if having.len() * 2 <= voters.len() {
                return Err(format!(
                    "{log:?}: {:?} is confirmed, and on the disks of {having:?} of {voters:?}",
                    entry.id
                ));
            }
        }
        Ok(())
    }

    /// The index of the last batch that is agreed on.
    pub fn last_batch(&self, log: LogId) -> Option<u64> {
        self.batches.get(&log).copied()
    }

    /// The last entry that is agreed on.
    pub fn last(&self, log: LogId) -> Option<EntryId> {
        self.agreed.range((log, 0)..=(log, u64::MAX)).next_back().map(|(_, (id, ..))| *id)
    }
}
