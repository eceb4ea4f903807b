//! [`Message`]s as bytes, described in `docs/formats/consensus-message.md`.
//!
//! Written to an [`Output`], which refers to the records of batches and copies none that are long; read with one copy of
//! them. A message has one form: what is read and written again has the same bytes. Both sides refuse the same messages,
//! so that nobody is sent what it would not take.
//! Not here: frames, the version (nodes agree on it before), the sum over a message.

mod check;
mod fault;
mod read;
#[cfg(test)]
mod tests;
mod write;

use crate::entry::Vote;
use crate::message::{Message, SnapshotName};
use base::Output;
pub use fault::Fault;

/// The largest term of a message. A replica asks for votes in the term behind the one it is told of, and so on: those
/// terms have to fit the marks in its journal.
pub const TERM_MAX: u64 = crate::mark::TERM_MAX >> 1;

/// The bounds of a message. That of the members is [`crate::mark::REPLICAS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Entries in one message: each takes a block of memory where it is read, however short it is.
    pub entries_max: usize,
    /// Bytes of the manifest of a snapshot.
    pub manifest_bytes_max: usize,
    /// Bytes of all of it, less than 4 GiB. An entry is never split, and the largest message of a client is one.
    pub message_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { entries_max: 1024, manifest_bytes_max: 256 << 20, message_bytes_max: 1 << 30 }
    }
}

/// Bytes that [`write()`] writes.
///
/// # Errors
/// The message has no bytes: [`read`] would refuse them.
pub fn size(message: &Message, limits: &Limits) -> Result<usize, Fault> {
    check::message(message, limits)?;
    let mut count = write::Count::default();
    write::message(message, &mut count);
    match count.0 {
        size if size > limits.message_bytes_max || size > u32::MAX as usize => Err(Fault::Message(size)),
        size => Ok(size),
    }
}

/// Appends a message, and returns its size.
///
/// # Errors
/// As [`size`]; then nothing is written.
pub fn write(message: &Message, limits: &Limits, out: &mut Output) -> Result<usize, Fault> {
    let size = size(message, limits)?;
    write::message(message, out);
    Ok(size)
}

/// Reads a message that is all of `bytes`. Batches have memory of their own, and no mark.
///
/// # Errors
/// It is none that [`write()`] writes.
pub fn read(bytes: &[u8], limits: &Limits) -> Result<Message, Fault> {
    if bytes.len() > limits.message_bytes_max {
        return Err(Fault::Message(bytes.len()));
    }
    let message = read::message(bytes, limits)?;
    check::message(&message, limits)?;
    Ok(message)
}

/// Appends the name of a snapshot, and a vote.
pub(crate) fn write_standing(name: &SnapshotName, vote: Option<Vote>, out: &mut Vec<u8>) {
    write::standing(name, vote, out);
}

/// Reads what [`write_standing`] wrote, which is all of `bytes`.
///
/// # Errors
/// It is nothing of the kind.
pub(crate) fn read_standing(bytes: &[u8]) -> Result<(SnapshotName, Option<Vote>), Fault> {
    read::standing(bytes)
}

/// The content of a message.
mod body {
    pub const APPEND: u8 = 1;
    pub const VOTE: u8 = 2;
    pub const PRE_VOTE: u8 = 3;
    pub const TRANSFER: u8 = 4;
    pub const INSTALL: u8 = 5;
    pub const APPENDED: u8 = 129;
    pub const VOTED: u8 = 130;
    pub const TRANSFERRED: u8 = 132;
    pub const INSTALLED: u8 = 133;
    pub const UNABLE: u8 = 134;
}

/// The content of an entry.
mod content {
    pub const BATCH: u8 = 1;
    pub const BLANK: u8 = 2;
    pub const MEMBERS: u8 = 3;
}

/// Answers to appended entries.
mod appended {
    pub const ALL: u8 = 0;
    pub const UP_TO: u8 = 1;
    pub const CONFLICT: u8 = 2;
    pub const HIGHER_VOTE: u8 = 3;
}

/// Answers of a replica that is to lead.
mod transferred {
    pub const LEADS: u8 = 0;
    pub const VOTE_CHANGED: u8 = 1;
    pub const NOT_FLUSHED: u8 = 2;
}
