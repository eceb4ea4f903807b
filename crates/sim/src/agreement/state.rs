//! The state of a log on a node, as far as the bed needs one: a number made of all entries.

use super::checks::crc_of;
use super::disk::Saved;
use base::id::LogIndex;
use consensus::{Content, Entry, EntryId, SnapshotName};

/// The state of a log on a node: what was applied, as one number, and how far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The last entry.
    pub last: Option<EntryId>,
    /// Where the records end.
    pub end: LogIndex,
    /// Of all entries, in order.
    pub chain: u64,
    /// The members, and the entry that said so.
    pub members: consensus::Members,
    /// See there.
    pub members_at: Option<EntryId>,
}

impl State {
    /// Applies the next entry.
    ///
    /// # Errors
    /// It is not the next one.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), String> {
        let next = self.last.map_or(0, |last| last.index + 1);
        if entry.id.index != next || self.last.is_some_and(|last| last.term > entry.id.term) {
            return Err(format!("{:?} is applied behind {:?}", entry.id, self.last));
        }
        match &entry.content {
            Content::Blank => {}
            Content::Members(members) => (self.members, self.members_at) = (members.clone(), Some(entry.id)),
            Content::Batch(batch) if batch.base != self.end => {
                return Err(format!(
                    "{:?} begins at {}, and the records end at {}",
                    entry.id, batch.base, self.end
                ));
            }
            Content::Batch(batch) => self.end = batch.next(),
        }
        self.last = Some(entry.id);
        let word = u64::from(crc_of(&entry.content)) ^ entry.id.term << 32 ^ entry.id.index;
        self.chain = (self.chain ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
        Ok(())
    }

    /// Its name as a snapshot.
    pub fn name(&self) -> SnapshotName {
        SnapshotName {
            last: self.last,
            end: self.end,
            members: self.members.clone(),
            members_at: self.members_at,
        }
    }

    /// From a snapshot.
    pub fn restored(saved: &Saved) -> State {
        let chain = saved.state.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let SnapshotName { last, end, members, members_at } = saved.name.clone();
        State { last, end, chain, members, members_at }
    }

    /// As a snapshot.
    pub fn saved(&self) -> Saved {
        Saved { name: self.name(), state: self.chain.to_le_bytes().to_vec() }
    }
}
