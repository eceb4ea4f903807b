//! Batches that say what a replica promises and appends.

use super::members::seats_of;
use super::note::{Note, Part};
use crate::entry::{Content, Entry, EntryId, Members, Vote};
use base::Buffer;
use base::id::{LogId, LogIndex};
use journal::{Batch, Sealed};

/// The place in a journal where the next batch of a log goes. The batches of one operation are written in their order, and
/// behind those of the operation before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The log.
    pub log: LogId,
    /// The end of its records.
    pub end: LogIndex,
    /// The time, milliseconds since 1970.
    pub now_ms: u64,
}

impl At {
    /// Appends `entries`. `end` is where the first begins, which is before the log's end where they replace its tail. Returns
    /// the log's end behind them.
    ///
    /// # Panics
    /// When an entry is none of the log at this place, or nothing that [`crate::codec`] would have let in: a batch is of
    /// this log, begins where the one before ended, and has records; members are at most [`super::REPLICAS_MAX`], each in a
    /// set of voters or a learner.
    pub fn append(mut self, entries: &[Entry], out: &mut Vec<Sealed>) -> LogIndex {
        for Entry { id, content } in entries {
            match content {
                Content::Blank => out.push(self.note(Note::Blank(*id))),
                Content::Batch(sealed) => {
                    assert!(sealed.log == self.log && sealed.base == self.end, "a batch out of its place");
                    assert!(sealed.len > 0 && sealed.len.is_multiple_of(8), "an entry without whole records");
                    self.end = sealed.next();
                    out.push(Sealed { mark: Some(Note::Batch(*id).mark()), ..sealed.clone() });
                }
                Content::Members(members) => self.members(*id, members, out),
            }
        }
        self.end
    }

    fn members(self, id: EntryId, members: &Members, out: &mut Vec<Sealed>) {
        let seats = seats_of(members).expect("members that a log can have");
        let count = seats.len() as u16;
        for (number, seat) in (0..).zip(&seats) {
            let (index, replica, roles) = (id.index, seat.replica, seat.roles);
            out.push(self.note(Note::Part(Part { index, number, count, replica, roles })));
        }
        out.push(self.note(Note::Members(id)));
    }

    /// Promises a vote.
    pub fn vote(self, vote: Vote) -> Sealed {
        self.note(Note::Vote(vote))
    }

    /// Takes the entries from `index` on away; `end` is the end of the records of those that stay.
    pub fn truncated(self, index: u64) -> Sealed {
        self.note(Note::Truncated(index))
    }

    /// Lets go of the entries up to `id`, which a snapshot has. Where the log ends before that one, it begins anew behind it,
    /// and `end` is the end of the snapshot.
    pub fn purged(self, id: EntryId) -> Sealed {
        self.note(Note::Purged(id))
    }

    /// Notes that the entries up to `index` are agreed on.
    pub fn agreed(self, index: u64) -> Sealed {
        self.note(Note::Agreed(index))
    }

    /// A batch with a mark and without records.
    fn note(self, note: Note) -> Sealed {
        let nothing = Batch::new(self.log, self.end, Buffer::default()).seal(self.now_ms);
        Sealed { mark: Some(note.mark()), ..nothing }
    }
}
