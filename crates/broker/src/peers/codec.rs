//! [`CatalogWord`] as bytes, described in `docs/formats/catalog-word.md`.
//!
//! Reading costs linear time, memory within a fixed multiple of the input, and a bounded stack. What is read may still be refused
//! by a planner, as what a client asks for.

mod op;
#[cfg(test)]
mod tests;

use super::word::{CatalogWord, Outcome, Reign, Wish};
use crate::catalog::{Actor, BadChange, Decoder, VhostId, put_bytes, put_flags, put_port, put_text};
use crate::word::codec as word_codec;
use base::Short;
use base::id::{LogId, LogIndex, QueueId};
use routing::ExchangeId;
use std::fmt;
use std::sync::Arc;

/// The fault of bytes that are no word. A node that sends such bytes runs another program; its lane is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadWord {
    /// In what the catalog has bytes of its own for.
    Change(BadChange),
    /// In a refusal.
    Refusal(word_codec::Fault),
}

impl From<BadChange> for BadWord {
    fn from(fault: BadChange) -> BadWord {
        BadWord::Change(fault)
    }
}

impl From<Short> for BadWord {
    fn from(fault: Short) -> BadWord {
        BadWord::Change(fault.into())
    }
}

impl fmt::Display for BadWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadWord::Change(BadChange::Short) => f.write_str("a word about the catalog ends early"),
            BadWord::Change(BadChange::Long) => f.write_str("bytes follow a word about the catalog"),
            BadWord::Change(other) => write!(f, "a word about the catalog: {other}"),
            BadWord::Refusal(fault) => write!(f, "the refusal in a word about the catalog: {fault}"),
        }
    }
}

impl std::error::Error for BadWord {}

mod kind {
    pub const WISH: u8 = 1;
    pub const ANSWER: u8 = 2;
    pub const ASK: u8 = 3;
    pub const LEADS: u8 = 4;
    pub const OUTDATED: u8 = 5;
    pub const SEEN: u8 = 6;
    pub const REMEMBER: u8 = 7;
    pub const HAVE_SEEN: u8 = 8;
}

mod outcome {
    pub const UNCHANGED: u8 = 0;
    pub const THERE: u8 = 1;
    pub const REFUSED: u8 = 2;
}

impl CatalogWord {
    /// Appends the word as bytes.
    pub fn encode_to(&self, out: &mut Vec<u8>) {
        match self {
            CatalogWord::Wish(wish) => {
                out.push(kind::WISH);
                put_wish(out, wish);
            }
            CatalogWord::Answer { incarnation, number, at, outcome } => {
                out.push(kind::ANSWER);
                put_numbers(out, &[*incarnation, *number, at.0]);
                put_outcome(out, outcome);
            }
            CatalogWord::Ask { incarnation, call } => {
                out.push(kind::ASK);
                put_numbers(out, &[*incarnation, *call]);
            }
            CatalogWord::Leads { reign, incarnation, call, at } => {
                out.push(kind::LEADS);
                put_reign(out, *reign);
                put_numbers(out, &[*incarnation, *call, at.0]);
            }
            CatalogWord::Outdated { incarnation } => {
                out.push(kind::OUTDATED);
                put_numbers(out, &[*incarnation]);
            }
            CatalogWord::Seen { at } => {
                out.push(kind::SEEN);
                put_numbers(out, &[at.0]);
            }
            CatalogWord::Remember { exchanges, record } => {
                out.push(kind::REMEMBER);
                out.extend((exchanges.len() as u32).to_le_bytes());
                exchanges.iter().for_each(|exchange| out.extend(exchange.0.to_le_bytes()));
                put_bytes(out, record);
            }
            CatalogWord::HaveSeen { at } => {
                out.push(kind::HAVE_SEEN);
                put_numbers(out, &[at.0]);
            }
        }
    }

    /// Reads a word that is all of `bytes`, which may be any.
    ///
    /// # Errors
    /// They are no word.
    pub fn decode(bytes: &[u8]) -> Result<CatalogWord, BadWord> {
        let mut decoder = Decoder::new(bytes);
        let word = word(&mut decoder)?;
        if decoder.reader.is_empty() { Ok(word) } else { Err(BadChange::Long.into()) }
    }

    /// Bytes of it beside those that every word has, about.
    pub fn bytes(&self) -> usize {
        match self {
            CatalogWord::Wish(_) => {
                let mut bytes = Vec::new();
                self.encode_to(&mut bytes);
                bytes.len()
            }
            CatalogWord::Remember { exchanges, record } => 8 * exchanges.len() + record.len(),
            // Its text is short.
            CatalogWord::Answer { .. }
            | CatalogWord::Ask { .. }
            | CatalogWord::Leads { .. }
            | CatalogWord::Outdated { .. }
            | CatalogWord::Seen { .. }
            | CatalogWord::HaveSeen { .. } => 0,
        }
    }
}

fn word(decoder: &mut Decoder<'_>) -> Result<CatalogWord, BadWord> {
    Ok(match decoder.reader.u8()? {
        kind::WISH => CatalogWord::Wish(Box::new(wish(decoder)?)),
        kind::ANSWER => CatalogWord::Answer {
            incarnation: decoder.reader.u64_le()?,
            number: decoder.reader.u64_le()?,
            at: index(decoder)?,
            outcome: outcome(decoder)?,
        },
        kind::ASK => {
            CatalogWord::Ask { incarnation: decoder.reader.u64_le()?, call: decoder.reader.u64_le()? }
        }
        kind::LEADS => CatalogWord::Leads {
            reign: reign(decoder)?,
            incarnation: decoder.reader.u64_le()?,
            call: decoder.reader.u64_le()?,
            at: index(decoder)?,
        },
        kind::OUTDATED => CatalogWord::Outdated { incarnation: decoder.reader.u64_le()? },
        kind::SEEN => CatalogWord::Seen { at: index(decoder)? },
        kind::REMEMBER => {
            let count = decoder.count(8)?;
            let exchanges: Result<Arc<[ExchangeId]>, BadChange> =
                (0..count).map(|_| Ok(ExchangeId(decoder.reader.u64_le()?))).collect();
            CatalogWord::Remember { exchanges: exchanges?, record: decoder.message()?.into() }
        }
        kind::HAVE_SEEN => CatalogWord::HaveSeen { at: index(decoder)? },
        tag => return Err(BadChange::Tag { of: "word about the catalog", tag }.into()),
    })
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
}

fn index(decoder: &mut Decoder<'_>) -> Result<LogIndex, BadChange> {
    Ok(LogIndex(decoder.reader.u64_le()?))
}

fn put_reign(out: &mut Vec<u8>, Reign { incarnation, tenure }: Reign) {
    out.extend(incarnation.to_le_bytes());
    out.extend(tenure.to_le_bytes());
}

fn reign(decoder: &mut Decoder<'_>) -> Result<Reign, BadChange> {
    Ok(Reign { incarnation: decoder.reader.u64_le()?, tenure: decoder.reader.u32_le()? })
}

fn put_wish(out: &mut Vec<u8>, wish: &Wish) {
    let Wish { incarnation, number, below, reign, actor, is_asked, led, op } = wish;
    let Actor { user, vhost, port, is_internal, is_tool } = actor;
    put_numbers(out, &[*incarnation, *number, *below]);
    put_reign(out, *reign);
    put_text(out, user);
    out.extend(vhost.0.to_le_bytes());
    put_port(out, *port);
    put_flags(out, [*is_internal, *is_tool, *is_asked]);
    out.extend((led.len() as u32).to_le_bytes());
    led.iter().for_each(|log| out.extend(log.0.to_le_bytes()));
    op::put(out, op);
}

fn wish(decoder: &mut Decoder<'_>) -> Result<Wish, BadChange> {
    let (incarnation, number) = (decoder.reader.u64_le()?, decoder.reader.u64_le()?);
    let (below, reign) = (decoder.reader.u64_le()?, reign(decoder)?);
    let (user, vhost) = (decoder.text()?.into(), VhostId(decoder.reader.u32_le()?));
    let port = decoder.port()?;
    let [is_internal, is_tool, is_asked] = decoder.flags()?;
    let actor = Actor { user, vhost, port, is_internal, is_tool };
    let count = decoder.count(4)?;
    let led: Result<Box<[LogId]>, BadChange> =
        (0..count).map(|_| Ok(LogId(decoder.reader.u32_le()?))).collect();
    Ok(Wish { incarnation, number, below, reign, actor, is_asked, led: led?, op: op::read(decoder)? })
}

fn put_outcome(out: &mut Vec<u8>, outcome: &Outcome) {
    match outcome {
        Outcome::Unchanged => out.push(outcome::UNCHANGED),
        Outcome::There(queue) => {
            out.push(outcome::THERE);
            out.extend(queue.0.to_le_bytes());
        }
        Outcome::Refused(refusal) => {
            out.push(outcome::REFUSED);
            put_bytes(out, &word_codec::refusal_bytes(refusal));
        }
    }
}

fn outcome(decoder: &mut Decoder<'_>) -> Result<Outcome, BadWord> {
    Ok(match decoder.reader.u8()? {
        outcome::UNCHANGED => Outcome::Unchanged,
        outcome::THERE => Outcome::There(QueueId(decoder.reader.u64_le()?)),
        outcome::REFUSED => {
            Outcome::Refused(word_codec::read_refusal(decoder.bytes()?).map_err(BadWord::Refusal)?)
        }
        tag => return Err(BadChange::Tag { of: "outcome of a wish", tag }.into()),
    })
}
