//! Reasons why the marks of a log give no state.

use super::members::MembersFault;
use super::note::Malformed;
use crate::entry::{EntryId, Vote};
use base::id::LogIndex;
use std::fmt;

/// The fault of batches that no replica writes in this order. Something of the log is lost, or was written by another
/// program; the replica has to be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The mark is none.
    Malformed(Malformed),
    /// A batch that no snapshot covers has no mark.
    Unmarked {
        /// Where it begins.
        base: LogIndex,
    },
    /// A mark of a kind that has no records has some, or one that has none is of a kind that has.
    Records {
        /// Bytes of records.
        len: u64,
    },
    /// The records are not whole.
    Length {
        /// Bytes of records.
        len: u64,
    },
    /// The log would end behind the largest index.
    End {
        /// Where the batch begins.
        base: LogIndex,
    },
    /// A batch does not begin where its place is.
    Base {
        /// Where its place is.
        expected: LogIndex,
        /// Where it begins.
        found: LogIndex,
    },
    /// Entries before this one are missing.
    Missing {
        /// The first missing one.
        from: u64,
        /// The one that is there.
        found: u64,
    },
    /// Entries that are agreed on, or let go of, are taken away.
    TakesBackAgreed {
        /// The first that is taken away.
        index: u64,
    },
    /// An entry is of an earlier term than the one before.
    TermGoesBack {
        /// The one before.
        before: EntryId,
        /// The entry.
        id: EntryId,
    },
    /// An entry names members, and not all of them are in parts before it.
    Parts {
        /// Its index.
        index: u64,
    },
    /// An entry names members that no log has.
    Members {
        /// Its index.
        index: u64,
        /// Their fault.
        fault: MembersFault,
    },
    /// A vote is of an earlier term than the one promised, or for another candidate of the same, or was won and is not.
    VoteGoesBack {
        /// The vote promised.
        promised: Vote,
        /// The later one.
        found: Vote,
    },
    /// More was let go of before, or the entry of this index is another.
    Purged {
        /// The mark's entry.
        id: EntryId,
    },
    /// More is agreed on than there are entries.
    AgreedBeyond {
        /// The index.
        index: u64,
    },
    /// The snapshot ends with another entry, or somewhere else, than the log has it.
    OtherSnapshot {
        /// The snapshot's end.
        end: LogIndex,
    },
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Fault {
        Fault::Malformed(malformed)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Malformed(malformed) => malformed.fmt(f),
            Fault::Unmarked { base } => write!(f, "the batch at {base} has no mark"),
            Fault::Records { len } => write!(f, "{len} bytes of records with a mark of another kind"),
            Fault::Length { len } => write!(f, "{len} bytes of records, which are not whole"),
            Fault::End { base } => write!(f, "the batch at {base} ends behind the largest index"),
            Fault::Base { expected, found } => write!(f, "a batch of {expected} is at {found}"),
            Fault::Missing { from, found } => write!(f, "entries {from} to before {found} are missing"),
            Fault::TakesBackAgreed { index } => write!(f, "entries agreed on are taken away from {index} on"),
            Fault::TermGoesBack { before, id } => {
                write!(f, "entry {} of term {} is behind one of term {}", id.index, id.term, before.term)
            }
            Fault::Parts { index } => write!(f, "the members of entry {index} are not all there"),
            Fault::Members { index, fault } => write!(f, "members of entry {index}: {fault}"),
            Fault::VoteGoesBack { promised, found } => {
                let (one, other) = (promised.candidate, found.candidate);
                write!(f, "a vote of term {} for {other}", found.term)?;
                write!(f, " is behind one of term {} for {one}", promised.term)
            }
            Fault::Purged { id } => write!(f, "entry {} that was let go of is another", id.index),
            Fault::AgreedBeyond { index } => write!(f, "entry {index} is agreed on and not there"),
            Fault::OtherSnapshot { end } => write!(f, "the log does not go on behind the snapshot at {end}"),
        }
    }
}
