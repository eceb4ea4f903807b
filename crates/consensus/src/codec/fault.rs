//! Reasons why bytes are no message, and a message has no bytes.

use super::TERM_MAX;
use crate::entry::EntryId;
use crate::mark::MembersFault;
use base::Short;
use base::id::{LogId, LogIndex};
use std::fmt;

/// The fault of bytes that are no message, or of a message that has none. A peer that sends such bytes runs another
/// program; its connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The bytes end before the message does.
    Short,
    /// So many bytes are behind the message.
    Trailing(usize),
    /// The message is longer than the limit.
    Message(usize),
    /// No content of a message has this number.
    Body(u8),
    /// No content of an entry has this number.
    Content(u8),
    /// No answer to appended entries has this number.
    Appended(u8),
    /// No answer of a replica that is to lead has this number.
    Transferred(u8),
    /// A flag, or what tells whether something is there, is neither 0 nor 1.
    Flag(u8),
    /// A term is over [`TERM_MAX`].
    Term(u64),
    /// No entry has the largest index, as none could follow.
    Index,
    /// The entries are more than the limit.
    Entries(usize),
    /// The index of an entry does not follow on the one before.
    Gap {
        /// The index that follows.
        expected: u64,
        /// The index of the entry.
        found: u64,
    },
    /// An entry is of an earlier term than the one before, or of the same and another leader.
    Order {
        /// The one before.
        before: EntryId,
        /// The entry.
        id: EntryId,
    },
    /// The records of a batch are none, or not whole.
    Records(usize),
    /// A batch is of another log than the message.
    Log(LogId),
    /// A batch does not begin where the one before ended.
    Base {
        /// The end of the one before.
        expected: LogIndex,
        /// Where it begins.
        found: LogIndex,
    },
    /// The log would end behind the largest index.
    End(LogIndex),
    /// The records of the batch that begins there are not those its sum is of.
    Sum(LogIndex),
    /// No log has these members.
    Members(MembersFault),
    /// The manifest is longer than the limit.
    Manifest(usize),
}

impl From<Short> for Fault {
    fn from(_: Short) -> Fault {
        Fault::Short
    }
}

impl From<MembersFault> for Fault {
    fn from(fault: MembersFault) -> Fault {
        Fault::Members(fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Short => f.write_str("the message is cut off"),
            Fault::Trailing(bytes) => write!(f, "{bytes} bytes behind the message"),
            Fault::Message(bytes) => write!(f, "a message of {bytes} bytes"),
            Fault::Body(kind) => write!(f, "unknown message {kind}"),
            Fault::Content(kind) => write!(f, "an entry of unknown content {kind}"),
            Fault::Appended(kind) => write!(f, "unknown answer {kind} to appended entries"),
            Fault::Transferred(kind) => write!(f, "unknown answer {kind} about leading"),
            Fault::Flag(flag) => write!(f, "a flag of {flag}"),
            Fault::Term(term) => write!(f, "term {term} is over {TERM_MAX}"),
            Fault::Index => f.write_str("the largest index"),
            Fault::Entries(count) => write!(f, "{count} entries in one message"),
            Fault::Gap { expected, found } => write!(f, "entry {found} in the place of entry {expected}"),
            Fault::Order { before, id } => {
                write!(f, "entry {} of term {} is behind one of term {}", id.index, id.term, before.term)
            }
            Fault::Records(bytes) => write!(f, "{bytes} bytes of records, which are none or not whole"),
            Fault::Log(log) => write!(f, "a batch of log {log} in a message of another"),
            Fault::Base { expected, found } => {
                write!(f, "a batch at {found} in the place of one at {expected}")
            }
            Fault::End(base) => write!(f, "the batch at {base} ends behind the largest index"),
            Fault::Sum(base) => write!(f, "wrong sum of the batch at {base}"),
            Fault::Members(fault) => fault.fmt(f),
            Fault::Manifest(bytes) => write!(f, "a manifest of {bytes} bytes"),
        }
    }
}
