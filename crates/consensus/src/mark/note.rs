//! The 24 bytes of a mark.

use super::members::{REPLICAS_MAX, Seat, check_roles};
use crate::entry::{EntryId, ReplicaId, Vote};
use journal::Mark;
use std::fmt;

/// The largest term: the kind of a mark is in the top byte of the same word.
pub const TERM_MAX: u64 = (1 << 56) - 1;

const BATCH: u8 = 1;
const BLANK: u8 = 2;
const MEMBERS: u8 = 3;
const PART: u8 = 4;
const VOTE: u8 = 5;
const TRUNCATED: u8 = 6;
const PURGED: u8 = 7;
const AGREED: u8 = 8;

/// The content of a mark: an operation on the entries of a log, or a word about them.
///
/// Numbers are little-endian; the top byte of the first word is the kind.
///
///   0              7      8           16      24
///   | term         | kind | zeros     | index |  1 batch, 2 blank, 3 members; 7 purged
///   | seat         | 4    | replica   | index |  part: roles 1, zero 1, number 2, count 2, zero 1
///   | term         | 5    | candidate | won   |  vote: won is 0 or 1
///   | zeros        | 6    | zeros     | index |  truncated
///   | zeros        | 8    | zeros     | index |  agreed
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// An entry: the records of this batch.
    Batch(EntryId),
    /// An entry without content.
    Blank(EntryId),
    /// An entry that names the members, of which each was in a [`Part`] before it.
    Members(EntryId),
    /// One of the members that an entry names.
    Part(Part),
    /// The replica has promised this vote.
    Vote(Vote),
    /// Entries from this index on are taken away.
    Truncated(u64),
    /// Entries up to this one are let go of: a snapshot has them.
    Purged(EntryId),
    /// Entries up to this index are agreed on. Written lazily: more may be.
    Agreed(u64),
}

/// A member that an entry names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The index of the entry.
    pub index: u64,
    /// Its place in the list, from 0.
    pub number: u16,
    /// Members in the list.
    pub count: u16,
    /// The member.
    pub replica: ReplicaId,
    /// Bits: 1 in the first set of voters, 2 in the second, 4 a learner.
    pub roles: u8,
}

impl Part {
    pub(crate) fn seat(&self) -> Seat {
        Seat { replica: self.replica, roles: self.roles }
    }
}

/// The fault of 24 bytes that are no mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// No version of this program writes this kind.
    Kind(u8),
    /// Bytes that must be zero are not.
    Zeros,
    /// A vote is neither won nor not won.
    Won(u64),
    /// A part has other roles than a member has.
    Roles(u8),
    /// A part is of a list of this many, and is not in it, or the list is too long.
    Count(u16),
    /// No entry has the largest index, as none could follow.
    Index,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Kind(kind) => write!(f, "unknown kind of mark {kind}"),
            Malformed::Zeros => f.write_str("a mark without its zeros"),
            Malformed::Won(won) => write!(f, "a vote that is won {won} times"),
            Malformed::Roles(roles) => write!(f, "unknown roles {roles:#x}"),
            Malformed::Count(count) => write!(f, "a part of a list of {count} members"),
            Malformed::Index => f.write_str("the largest index"),
        }
    }
}

impl Note {
    /// The mark.
    ///
    /// # Panics
    /// When a term is over [`TERM_MAX`]: what comes from others was checked.
    pub fn mark(self) -> Mark {
        let name = |kind, id: EntryId| (kind, id.term, 0, id.index);
        let (kind, low, middle, high) = match self {
            Note::Batch(id) => name(BATCH, id),
            Note::Blank(id) => name(BLANK, id),
            Note::Members(id) => name(MEMBERS, id),
            Note::Part(Part { index, number, count, replica, roles }) => {
                let seat = u64::from(roles) | u64::from(number) << 16 | u64::from(count) << 32;
                (PART, seat, replica.0, index)
            }
            Note::Vote(vote) => (VOTE, vote.term, vote.candidate.0, u64::from(vote.is_won)),
            Note::Truncated(index) => (TRUNCATED, 0, 0, index),
            Note::Purged(id) => name(PURGED, id),
            Note::Agreed(index) => (AGREED, 0, 0, index),
        };
        assert!(low <= TERM_MAX, "a term beyond the largest");
        let mut bytes = [0; Mark::LEN];
        let words = [low | u64::from(kind) << 56, middle, high];
        for (word, into) in words.iter().zip(bytes.as_chunks_mut::<8>().0) {
            *into = word.to_le_bytes();
        }
        Mark(bytes)
    }

    /// Reads a mark.
    ///
    /// # Errors
    /// These bytes are no mark.
    pub fn read(mark: Mark) -> Result<Note, Malformed> {
        let mut words = mark.0.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut word = || words.next().unwrap_or_default();
        let (low, middle, high) = (word(), word(), word());
        let (kind, term) = ((low >> 56) as u8, low & TERM_MAX);
        let id = EntryId { term, index: high };
        let are_zeros = term == 0 && middle == 0;
        if kind != VOTE && high == u64::MAX {
            return Err(Malformed::Index);
        }
        match kind {
            BATCH | BLANK | MEMBERS | PURGED if middle != 0 => Err(Malformed::Zeros),
            BATCH => Ok(Note::Batch(id)),
            BLANK => Ok(Note::Blank(id)),
            MEMBERS => Ok(Note::Members(id)),
            PART => Note::read_part(low.to_le_bytes(), middle, high),
            VOTE if high > 1 => Err(Malformed::Won(high)),
            VOTE => Ok(Note::Vote(Vote { term, candidate: ReplicaId(middle), is_won: high == 1 })),
            TRUNCATED if are_zeros => Ok(Note::Truncated(high)),
            PURGED => Ok(Note::Purged(id)),
            AGREED if are_zeros => Ok(Note::Agreed(high)),
            TRUNCATED | AGREED => Err(Malformed::Zeros),
            kind => Err(Malformed::Kind(kind)),
        }
    }

    fn read_part(word: [u8; 8], replica: u64, index: u64) -> Result<Note, Malformed> {
        let [roles, zero, number_low, number_high, count_low, count_high, also_zero, _kind] = word;
        let (number, count) =
            (u16::from_le_bytes([number_low, number_high]), u16::from_le_bytes([count_low, count_high]));
        if zero != 0 || also_zero != 0 {
            return Err(Malformed::Zeros);
        }
        if number >= count || usize::from(count) > REPLICAS_MAX {
            return Err(Malformed::Count(count));
        }
        check_roles(roles).map_err(|_| Malformed::Roles(roles))?;
        Ok(Note::Part(Part { index, number, count, replica: ReplicaId(replica), roles }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: EntryId = EntryId { term: 0x0001_0203_0405_0607, index: 9 };
    const REPLICA: ReplicaId = ReplicaId(0x0003_0000_0001);

    fn mark(low: u64, middle: u64, high: u64) -> Mark {
        let mut bytes = [0; Mark::LEN];
        bytes[..8].copy_from_slice(&low.to_le_bytes());
        bytes[8..16].copy_from_slice(&middle.to_le_bytes());
        bytes[16..].copy_from_slice(&high.to_le_bytes());
        Mark(bytes)
    }

    #[test]
    fn comes_back_as_written() {
        let check = |note: Note, low, middle, high| {
            assert_eq!(note.mark(), mark(low, middle, high), "{note:?}");
            assert_eq!(Note::read(note.mark()), Ok(note));
        };
        let (term, replica) = (ID.term, REPLICA.0);
        check(Note::Batch(ID), 1 << 56 | term, 0, 9);
        check(Note::Blank(ID), 2 << 56 | term, 0, 9);
        check(Note::Members(ID), 3 << 56 | term, 0, 9);
        let part = Part { index: 9, number: 1, count: 3, replica: REPLICA, roles: 2 };
        check(Note::Part(part), 4 << 56 | 3 << 32 | 1 << 16 | 2, replica, 9);
        let vote = Vote { term: TERM_MAX, candidate: REPLICA, is_won: true };
        check(Note::Vote(vote), 5 << 56 | TERM_MAX, replica, 1);
        check(Note::Vote(Vote { is_won: false, ..vote }), 5 << 56 | TERM_MAX, replica, 0);
        check(Note::Truncated(0), 6 << 56, 0, 0);
        check(Note::Purged(ID), 7 << 56 | term, 0, 9);
        check(Note::Agreed(u64::MAX - 1), 8 << 56, 0, u64::MAX - 1);
    }

    #[test]
    fn bytes_that_are_no_mark_are_refused_by_name() {
        let check = |low, middle, high, expected| {
            assert_eq!(Note::read(mark(low, middle, high)), Err(expected), "{low:x} {middle:x} {high:x}");
        };
        check(0, 0, 0, Malformed::Kind(0));
        check(9 << 56, 0, 0, Malformed::Kind(9));
        check(255 << 56, 0, 0, Malformed::Kind(255));
        check(6 << 56 | 1, 0, 0, Malformed::Zeros);
        check(6 << 56, 1, 0, Malformed::Zeros);
        check(8 << 56, 1, 0, Malformed::Zeros);
        for kind in [1, 2, 3, 7] {
            check(kind << 56 | 4, 1, 0, Malformed::Zeros);
        }
        check(5 << 56, 0, 2, Malformed::Won(2));
        check(5 << 56, 0, u64::MAX, Malformed::Won(u64::MAX));
        for kind in [1, 2, 3, 4, 6, 7, 8] {
            check(kind << 56, 0, u64::MAX, Malformed::Index);
        }
        check(4 << 56 | 1 << 32 | 1 << 8 | 1, 0, 0, Malformed::Zeros);
        check(4 << 56 | 1 << 48 | 1 << 32 | 1, 0, 0, Malformed::Zeros);
        check(4 << 56 | 1, 0, 0, Malformed::Count(0));
        check(4 << 56 | 2 << 32 | 2 << 16 | 1, 0, 0, Malformed::Count(2));
        check(4 << 56 | 256 << 32 | 1, 0, 0, Malformed::Count(256));
        check(4 << 56 | 1 << 32, 0, 0, Malformed::Roles(0));
        check(4 << 56 | 1 << 32 | 5, 0, 0, Malformed::Roles(5));
    }

    #[test]
    #[should_panic(expected = "a term beyond the largest")]
    fn a_term_that_does_not_fit_is_not_written() {
        Note::Blank(EntryId { term: TERM_MAX + 1, ..ID }).mark();
    }
}
