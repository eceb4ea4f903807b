//! [`LogWord`]s as bytes, described in `docs/formats/log-word.md`.
//!
//! Written to an [`Output`], which refers to records and copies none that are long; read with one copy of them. A word has one
//! form: what is read and written again has the same bytes.
//! Not here: frames, the version (nodes agree on it before), the sum over a word.

mod command;
mod events;
mod refusal;
#[cfg(test)]
mod tests;
mod wire;

use super::{Claim, Item, LogWord, Said, Tenure};
use crate::catalog::{BadChange, Refusal};
use crate::mail::Waiter;
use crate::request::QueueCommand;
use base::{Buffer, Memory, Output, Reader, Short};
use message::record;
use std::fmt;
use std::sync::Arc;
use wire::{Wire, wire_enum, wire_struct};

/// The fault of bytes that are no word. A peer that sends such bytes runs another program; its connection is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The bytes end before the word does.
    Short,
    /// So many bytes are behind the word.
    Trailing(usize),
    /// A tag that means nothing here.
    Tag {
        /// The kind of thing that the tag tells apart.
        of: &'static str,
        /// The tag.
        tag: u8,
    },
    /// A list claims more elements than there are bytes.
    Count(usize),
    /// The last position of a range is before the first.
    Range,
    /// A text is not UTF-8.
    Text,
    /// An expression that a consumer chooses by is none.
    Selector,
    /// The definition of a queue is none.
    Change(BadChange),
    /// The definition of a queue is that of something else.
    NoQueue,
    /// Something is no record, or one of another kind than it may be.
    Record,
    /// It is for a stream, or from one: those are on no log that nodes agree on.
    OfStream,
}

impl From<Short> for Fault {
    fn from(_: Short) -> Fault {
        Fault::Short
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Short => f.write_str("the word ends early"),
            Fault::Trailing(bytes) => write!(f, "{bytes} bytes are behind the word"),
            Fault::Tag { of, tag } => write!(f, "no {of} has the tag {tag}"),
            Fault::Count(count) => write!(f, "a list claims {count} elements, more than there are bytes"),
            Fault::Range => f.write_str("a range ends before it begins"),
            Fault::Text => f.write_str("a text is not UTF-8"),
            Fault::Selector => f.write_str("the expression of a consumer is none"),
            Fault::Change(fault) => write!(f, "the definition of a queue: {fault}"),
            Fault::NoQueue => f.write_str("the definition of a queue is that of something else"),
            Fault::Record => f.write_str("something is no record, or of another kind than it may be"),
            Fault::OfStream => f.write_str("it is for a stream, or from one"),
        }
    }
}

/// Appends a word.
///
/// # Errors
/// It is for a stream, or from one; then nothing is written.
pub fn write(word: &LogWord, out: &mut Output) -> Result<(), Fault> {
    let can_be_sent = match &word.said {
        Said::Events { events, .. } => events::can_be_sent(events),
        Said::Bring { item: Item::Command { command, .. }, .. } => {
            !matches!(**command, QueueCommand::Stream(_))
        }
        _ => true,
    };
    if !can_be_sent {
        return Err(Fault::OfStream);
    }
    word.put(out);
    Ok(())
}

/// Reads a word that is all of `bytes`. Records have memory of their own.
///
/// # Errors
/// It is none that [`write()`] writes.
pub fn read(bytes: &[u8]) -> Result<LogWord, Fault> {
    let mut reader = Reader::new(bytes);
    let word = LogWord::take(&mut reader)?;
    match reader.len() {
        0 => Ok(word),
        more => Err(Fault::Trailing(more)),
    }
}

/// The bytes of a refusal, for words that are not about a log.
pub(crate) fn refusal_bytes(refusal: &Refusal) -> Vec<u8> {
    let mut out = Output::default();
    refusal.put(&mut out);
    out.to_vec()
}

/// Reads a refusal that is all of `bytes`.
///
/// # Errors
/// It is none that [`refusal_bytes`] writes.
pub(crate) fn read_refusal(bytes: &[u8]) -> Result<Refusal, Fault> {
    let mut reader = Reader::new(bytes);
    let refusal = Refusal::take(&mut reader)?;
    if reader.is_empty() { Ok(refusal) } else { Err(Fault::Trailing(reader.len())) }
}

wire_struct!(Tenure { life, number });

wire_struct!(LogWord { log, life, visit, tenure, said });

wire_struct!(Waiter { port, publisher, first, last });

wire_struct!(Claim { queue, port, handle, consumer, selector, limit, delivered, is_paused, is_active, held });

wire_enum!(Said {
    1 Led,
    2 Come,
    3 Welcome { recorded },
    4 Bring { at, catalog, item },
    5 Taken { taken, done },
    6 GoBack { from },
    7 Stranger,
    8 Events { number, done, events },
    9 Heard { number, has_gap },
    10 Past { life },
    11 Stopped,
});

impl Wire for crate::event::Events {
    fn put(&self, out: &mut Output) {
        events::put(self, out);
    }

    fn take(reader: &mut Reader<'_>) -> Result<crate::event::Events, Fault> {
        events::take(reader)
    }
}

/// The kinds of items.
mod item {
    pub const NOTHING: u8 = 1;
    pub const CLAIM: u8 = 2;
    pub const CLAIMED: u8 = 3;
    pub const ASK: u8 = 4;
    pub const COMMAND: u8 = 5;
    pub const RECORDS: u8 = 6;
}

impl Wire for Item {
    fn put(&self, out: &mut Output) {
        match self {
            Item::Nothing => out.extend(&[item::NOTHING]),
            Item::Claim(claim) => {
                out.extend(&[item::CLAIM]);
                claim.put(out);
            }
            Item::Claimed => out.extend(&[item::CLAIMED]),
            Item::Ask { number, memory, waiter, needs_flush } => {
                out.extend(&[item::ASK]);
                number.put(out);
                waiter.put(out);
                needs_flush.put(out);
                put_records(memory, 0..record::split(memory).map_or(0, |(_, record, _)| record.len()), out);
            }
            Item::Command { queue, port, command } => {
                out.extend(&[item::COMMAND]);
                queue.put(out);
                port.put(out);
                command.put(out);
            }
            Item::Records { number, memory, range } => {
                out.extend(&[item::RECORDS]);
                number.put(out);
                put_records(memory, range.clone(), out);
            }
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Item, Fault> {
        Ok(match reader.u8()? {
            item::NOTHING => Item::Nothing,
            item::CLAIM => Item::Claim(Arc::take(reader)?),
            item::CLAIMED => Item::Claimed,
            item::ASK => {
                let number = Wire::take(reader)?;
                let (waiter, needs_flush) = (Wire::take(reader)?, Wire::take(reader)?);
                let memory = take_records(reader)?;
                // One message.
                match record::split(&memory) {
                    Some((record::Kind::Enqueue, record, _)) if record::Enqueue::read(record).is_some() => {}
                    _ => return Err(Fault::Record),
                }
                Item::Ask { number, memory, waiter, needs_flush }
            }
            item::COMMAND => Item::Command {
                queue: Wire::take(reader)?,
                port: Wire::take(reader)?,
                command: Wire::take(reader)?,
            },
            item::RECORDS => {
                let number = Wire::take(reader)?;
                let len = reader.rest().first_chunk().map_or(0, |len| u32::from_le_bytes(*len) as usize);
                let memory = take_records(reader)?;
                Item::Records { number, memory, range: 0..len }
            }
            tag => return Err(Fault::Tag { of: "item", tag }),
        })
    }
}

fn put_records(memory: &Memory, range: std::ops::Range<usize>, out: &mut Output) {
    (range.len() as u32).put(out);
    out.extend_from(memory, range);
}

/// Whole records, of any kind but that which says where records come from: that is said by whoever leads.
fn take_records(reader: &mut Reader<'_>) -> Result<Memory, Fault> {
    let len = reader.u32_le()? as usize;
    let bytes = reader.take(len)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let (kind, _, after) = record::split(rest).ok_or(Fault::Record)?;
        if kind == record::Kind::Origin {
            return Err(Fault::Record);
        }
        rest = after;
    }
    let mut buffer = Buffer::with_capacity(len);
    buffer.extend(bytes);
    Ok(buffer.seal())
}
