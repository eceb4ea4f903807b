//! The common part of a message and the one before it: mostly all but its body and its offset.
//!
//! The record made of the last message is kept with the message, so that the next one is compared, not taken apart.
//! Invariant: what is made this way is what would be made without it, byte by byte.

use super::messages::Entry;
use base::Buffer;
use base::id::QueueId;
use message::amqp10::section::{Plain, data_alone};
use message::amqp091::Properties;
use message::record::{Enqueue, Format};

/// Bytes of what is compared beyond which nothing is kept: it is not to hold much memory, and long heads seldom repeat.
const FRONT_MAX: usize = 1024;

/// Bytes of a record in front of its body beyond which it is not kept.
const RECORD_MAX: usize = 4096;

/// The bytes in front of a body that is stored.
#[derive(Debug)]
pub(super) struct Stored {
    is_set: bool,
    format: Format,
    flags: u8,
    head: Vec<u8>,
    exchange: Vec<u8>,
    routing_key: Vec<u8>,
    /// The body is sections already: a message of 0-9-1 that was 1.0 before.
    pub(super) is_sections: bool,
    /// All that goes in front of the body, but for what makes a body of 0-9-1 a section.
    pub(super) front: Vec<u8>,
    /// By what the message is filtered; empty: none.
    pub(super) filter_value: Vec<u8>,
}

impl Default for Stored {
    fn default() -> Stored {
        Stored {
            is_set: false,
            format: Format::Amqp10,
            flags: 0,
            head: Vec::new(),
            exchange: Vec::new(),
            routing_key: Vec::new(),
            is_sections: false,
            front: Vec::new(),
            filter_value: Vec::new(),
        }
    }
}

impl Stored {
    /// The record that was made serves this message too.
    #[inline]
    pub(super) fn is_for(&self, message: &Enqueue<'_>) -> bool {
        self.is_set
            && self.format == message.format
            && self.flags == message.flags
            && base::copy::equal(&self.head, message.head)
            && base::copy::equal(&self.routing_key, message.routing_key)
            && base::copy::equal(&self.exchange, message.exchange)
    }

    /// The record made next serves others too that are like this message.
    pub(super) fn set(&mut self, message: &Enqueue<'_>, is_sections: bool) {
        let Enqueue { format, flags, head, exchange, routing_key, .. } = *message;
        self.is_sections = is_sections;
        // Whether its body is what its head says, each message is to be asked.
        let may_differ =
            format == Format::Amqp091 && Properties::read(head).is_ok_and(|it| it.names_sections());
        self.is_set = !may_differ && head.len() + exchange.len() + routing_key.len() <= FRONT_MAX;
        if self.is_set {
            (self.format, self.flags) = (format, flags);
            for (to, from) in
                [(&mut self.head, head), (&mut self.exchange, exchange), (&mut self.routing_key, routing_key)]
            {
                to.clear();
                to.extend_from_slice(from);
            }
        }
    }
}

/// The record that is made of a stored message for consumers of one protocol.
#[derive(Debug)]
pub(super) struct Shown {
    format: Format,
    stream: QueueId,
    is_set: bool,
    /// The bytes in front of the body section, as it is stored.
    front: Vec<u8>,
    /// The record in front of what is made of the body section.
    record: Vec<u8>,
    /// Bytes of the record's body that are in it already.
    body_len: u32,
    /// Where in it the offset stands: eight bytes, highest first.
    offset_at: usize,
}

/// The parts to be kept of a record that was made.
pub(super) struct NewShown<'a> {
    /// The message's header, annotations and properties, as they are stored; its body section, and nothing else, follows.
    pub(super) front: &'a [u8],
    /// The record.
    pub(super) record: &'a [u8],
    /// Where in the record the head begins and ends.
    pub(super) head: std::ops::Range<usize>,
    /// Where in the record begins what is made of the body section.
    pub(super) body_at: usize,
}

impl Shown {
    pub(super) fn new(format: Format) -> Shown {
        let (front, record) = (Vec::new(), Vec::new());
        Shown { format, stream: QueueId(u64::MAX), is_set: false, front, record, body_len: 0, offset_at: 0 }
    }

    /// The body in the only body section, if `section` is that.
    #[inline]
    fn body<'a>(&self, section: &'a [u8]) -> Option<&'a [u8]> {
        match (self.format, data_alone(section)) {
            (Format::Amqp091, data) => data,
            (Format::Amqp10, Some(_)) => Some(section),
            (Format::Amqp10, None) => Plain::is_body(section).then_some(section),
        }
    }

    /// Writes the record of a message that is like the one before; false: it is not.
    #[inline]
    pub(super) fn write(&self, entry: &Entry<'_>, into: &mut Buffer) -> bool {
        let Some((front, section)) = entry.message.split_at_checked(self.front.len()) else { return false };
        if !self.is_set || self.stream != entry.stream.id || front != self.front {
            return false;
        }
        let Some(body) = self.body(section) else { return false };
        let at = self.record.len();
        let len = (at + body.len()).next_multiple_of(8);
        let record = into.extend_stale(len);
        // Padding, unless it is overwritten.
        if let Some(end) = record.last_chunk_mut::<8>() {
            *end = [0; 8];
        }
        record[..at].copy_from_slice(&self.record);
        base::copy::copy(&mut record[at..at + body.len()], body);
        record[0..4].copy_from_slice(&(len as u32).to_le_bytes());
        record[20..24].copy_from_slice(&(self.body_len + body.len() as u32).to_le_bytes());
        record[24..32].copy_from_slice(&entry.at_ms.to_le_bytes());
        record[self.offset_at..self.offset_at + 8].copy_from_slice(&entry.offset.to_be_bytes());
        true
    }

    /// Keeps a record for those that follow, if one can be made of another this way.
    pub(super) fn keep(&mut self, entry: &Entry<'_>, new: &NewShown<'_>) {
        let NewShown { front, record, ref head, body_at } = *new;
        self.is_set = false;
        if front.len() > FRONT_MAX
            || body_at > RECORD_MAX
            || self.body(&entry.message[front.len()..]).is_none()
        {
            return;
        }
        let mut said = [0; OFFSET_LEN];
        let said = offset_said(self.format, entry.offset, &mut said);
        let Some(offset_at) = only(&record[head.clone()], said) else { return };
        self.is_set = true;
        self.stream = entry.stream.id;
        self.offset_at = head.start + offset_at + said.len() - 8;
        self.body_len = (body_at - head.end) as u32;
        for (to, from) in [(&mut self.front, front), (&mut self.record, &record[..body_at])] {
            to.clear();
            to.extend_from_slice(from);
        }
    }
}

/// Where a message is in its stream.
pub(super) const OFFSET: &str = "x-stream-offset";

/// Bytes that an offset takes with its name, at most: one fewer in AMQP 0-9-1.
const OFFSET_LEN: usize = OFFSET.len() + 11;

/// How an offset is said with its name: always with eight bytes, at the end.
fn offset_said(format: Format, offset: u64, room: &mut [u8; OFFSET_LEN]) -> &[u8] {
    let len = OFFSET.len();
    let (before, kind) = match format {
        Format::Amqp091 => (&[len as u8][..], b'l'),
        Format::Amqp10 => (&[0xa3, len as u8][..], 0x81),
    };
    let mut at = 0;
    for piece in [before, OFFSET.as_bytes(), &[kind], &offset.to_be_bytes()] {
        room[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    &room[..at]
}

/// The encoding in AMQP 1.0 of an offset with its name.
pub(super) fn offset_field(offset: u64) -> [u8; OFFSET_LEN] {
    let mut room = [0; OFFSET_LEN];
    offset_said(Format::Amqp10, offset, &mut room);
    room
}

/// Where `needle` stands in `bytes`, if it does so once.
fn only(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    let mut found = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(needle));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests;
