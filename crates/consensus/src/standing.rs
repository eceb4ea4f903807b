//! The words about a replica in the snapshot of its log: a section of the file, described in `docs/formats/log-snapshot.md`.

use crate::codec::{Fault, read_standing, write_standing};
use crate::entry::Vote;
use crate::mark::Start;
use crate::message::SnapshotName;

/// The section's tag.
pub const SECTION: u32 = 2;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Up to where the snapshot covers the log.
    pub name: SnapshotName,
    /// The vote that was promised when it was made.
    pub vote: Option<Vote>,
}

impl Standing {
    /// The bytes of the section.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_standing(&self.name, self.vote, &mut bytes);
        bytes
    }

    /// Reads all of a section. Any bytes may come.
    ///
    /// # Errors
    /// It is none that [`Standing::write`] writes.
    pub fn read(bytes: &[u8]) -> Result<Standing, Fault> {
        let (name, vote) = read_standing(bytes)?;
        Ok(Standing { name, vote })
    }

    /// The begin of a start.
    pub fn start(&self) -> Start {
        Start { last: self.name.last, end: self.name.end, vote: self.vote }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{EntryId, Members, ReplicaId};
    use base::id::LogIndex;

    #[test]
    fn a_section_comes_back_as_it_was() {
        let vote = Vote { term: 9, candidate: ReplicaId(7), is_won: true };
        let last = EntryId { term: 8, index: 41 };
        let members = Members::voting([1, 2, 3].map(ReplicaId));
        let name = SnapshotName { last: Some(last), end: LogIndex(4096), members, members_at: Some(last) };
        for standing in [
            Standing::default(),
            Standing { name: name.clone(), vote: None },
            Standing { name, vote: Some(vote) },
        ] {
            let bytes = standing.write();
            assert_eq!(Standing::read(&bytes), Ok(standing));
            for len in 0..bytes.len() {
                assert!(Standing::read(&bytes[..len]).is_err(), "{len} bytes");
            }
            assert_eq!(Standing::read(&[&bytes[..], &[0]].concat()), Err(Fault::Trailing(1)));
        }
    }
}
