//! Messages on their way into a stream and out of it: a stream holds AMQP 1.0, whole messages as they stand in a transfer.
//!
//! Where a message was published to stands in its annotations, as RabbitMQ has it, so that readers of chunks see it too;
//! consumers over AMQP get it as an enqueue record, with its offset as an annotation. A message from a publisher of the
//! stream protocol need not be AMQP at all: it is then shown as a message of one data section.

use super::alike::{self, NewShown, OFFSET};
use super::cursor::{Expected, Filter};
use super::shown::{Envelope, KNOWN, Shown, size};
use crate::catalog::QueueDefinition;
use crate::message_keys::KeyRule;
use crate::ranking::RankingDesk;
use base::Buffer;
use base::id::QueueId;
use filter::{Filed, Index, Known, MessageField, Room};
use message::amqp10::section::data_prefix;
use message::amqp10::section::descriptor::MESSAGE_ANNOTATIONS;
use message::amqp10::{Encoder, Header, Map, Message, Value};
use message::amqp091::Properties;
use message::convert;
use message::record::{Enqueue, Format, NewEnqueue, flag};

const EXCHANGE: &str = "x-exchange";
const ROUTING_KEY: &str = "x-routing-key";
/// By what chunks are told apart.
const FILTER_VALUE: &str = "x-stream-filter-value";

/// Memory for converting messages, used again for each.
#[derive(Debug)]
pub(crate) struct Converter {
    amqp10: convert::Amqp10,
    amqp091: convert::Amqp091,
    bytes: Vec<u8>,
    stored: alike::Stored,
    /// The prefix that makes the body a section.
    prefix: [u8; 8],
    for_amqp091: alike::Shown,
    for_amqp10: alike::Shown,
    /// For filters.
    room: Room,
    /// Ranks messages for queues.
    ranking: RankingDesk,
}

impl Default for Converter {
    fn default() -> Converter {
        Converter {
            amqp10: convert::Amqp10::default(),
            amqp091: convert::Amqp091::default(),
            bytes: Vec::new(),
            stored: alike::Stored::default(),
            prefix: [0; 8],
            for_amqp091: alike::Shown::new(Format::Amqp091),
            for_amqp10: alike::Shown::new(Format::Amqp10),
            room: Room::default(),
            ranking: RankingDesk::default(),
        }
    }
}

/// The queue that a message is fed to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipient<'a> {
    pub(crate) queue: QueueId,
    /// The time the message comes to it, milliseconds since 1970.
    pub(crate) now_ms: u64,
    /// The keys it goes by.
    pub(crate) key_rule: Option<&'a KeyRule>,
}

/// A message of a chunk, and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// As it is stored.
    pub(crate) message: &'a [u8],
    pub(crate) offset: u64,
    /// The chunk's.
    pub(crate) at_ms: u64,
    /// Its name is the routing key of a message that says nothing of where it was published to.
    pub(crate) stream: &'a QueueDefinition,
}

impl Converter {
    /// A message as a stream stores it, in pieces that follow each other, and its filter value, empty where it has none.
    #[inline]
    pub(crate) fn store<'a>(&'a mut self, message: &Enqueue<'a>) -> ([&'a [u8]; 3], &'a [u8]) {
        if !self.stored.is_for(message) {
            self.make_stored(message);
        }
        let mut prefix_len = 0;
        if message.format == Format::Amqp091 && !self.stored.is_sections {
            (self.prefix, prefix_len) = data_prefix(message.body.len());
        }
        ([&self.stored.front, &self.prefix[..prefix_len], message.body], &self.stored.filter_value)
    }

    /// Makes what goes in front of the message's body.
    #[cold]
    #[inline(never)]
    fn make_stored(&mut self, message: &Enqueue<'_>) {
        let Converter { amqp10, stored, .. } = self;
        let alike::Stored { front, filter_value, .. } = stored;
        front.clear();
        filter_value.clear();
        let mut is_sections = false;
        match message.format {
            Format::Amqp10 => {
                // The record was read before it came here; a head that cannot be read again says nothing.
                let theirs = match message.head {
                    [] => Map::default(),
                    head => {
                        let [header, ..] = Message::head_sections(head).unwrap_or_default();
                        front.extend_from_slice(header);
                        Message::read_head(head).map(|(_, _, annotations)| annotations).unwrap_or_default()
                    }
                };
                annotate(message, theirs, front, filter_value);
            }
            Format::Amqp091 => {
                let properties = Properties::read(message.head).unwrap_or_default();
                is_sections = amqp10.convert(&properties, message.body, message.flags);
                amqp10.header.write(front);
                let theirs = Map::new(amqp10.annotations_count, &amqp10.annotations);
                annotate(message, theirs, front, filter_value);
                let prefix_len = if is_sections { 0 } else { data_prefix(message.body.len()).1 };
                front.extend_from_slice(&amqp10.bare[..amqp10.bare.len() - prefix_len]);
            }
        }
        stored.set(message, is_sections);
    }

    /// Whether a message of a chunk is wanted.
    pub(crate) fn is_wanted(&mut self, entry: Entry<'_>, wanted: Expected<'_>) -> bool {
        wanted.is_none_or(|filter| is_wanted(entry, filter, &mut self.room))
    }

    /// Asks an index which of its filters pass a message, as [`Index::search`] does; whether its body could not be read. None: not
    /// all is done.
    pub(super) fn search(
        &mut self,
        entry: Entry<'_>,
        index: &Index,
        now_ms: u64,
        cursor: &mut filter::Cursor,
        budget: usize,
        hits: &mut Vec<Filed>,
    ) -> Option<bool> {
        let room = &mut self.room;
        let is_done = ask(entry, KNOWN, |shown, _| index.search(shown, room, now_ms, cursor, budget, hits));
        is_done.unwrap_or(true).then(|| room.is_unreadable())
    }

    /// Writes a message of a chunk as a record for no queue, with a head as consumers of this protocol get it, if it is
    /// wanted.
    #[inline]
    pub(crate) fn show(
        &mut self,
        entry: Entry<'_>,
        format: Format,
        wanted: Expected<'_>,
        into: &mut Buffer,
    ) -> bool {
        if !self.is_wanted(entry, wanted) {
            return false;
        }
        let alike = match format {
            Format::Amqp091 => &self.for_amqp091,
            Format::Amqp10 => &self.for_amqp10,
        };
        alike.write(&entry, into) || self.show_anew(entry, format, into)
    }

    /// Writes a message of a chunk as a record for a queue, as if it had been published now where it was published to, with
    /// its offset as an annotation, if it is wanted. A time to live of its own counts for nothing: it was over the stream's
    /// to say.
    pub(crate) fn feed(
        &mut self,
        entry: Entry<'_>,
        queue: Recipient<'_>,
        wanted: Expected<'_>,
        into: &mut Buffer,
    ) -> bool {
        if !self.is_wanted(entry, wanted) {
            return false;
        }
        let Entry { message, offset, stream, .. } = entry;
        self.write_fed(message, (offset, stream.name.as_bytes()), queue, into)
    }

    /// Units of work that ranking the last message took.
    pub(crate) fn take_ranking_units(&mut self) -> u32 {
        self.ranking.take_units()
    }

    /// As [`Converter::feed`], of a message that is wanted, of a stream of which nothing is known but its name.
    pub(crate) fn write_fed(
        &mut self,
        message: &[u8],
        (offset, name): (u64, &[u8]),
        Recipient { queue, now_ms, key_rule }: Recipient<'_>,
        into: &mut Buffer,
    ) -> bool {
        let prefix = data_prefix(message.len());
        let read = Message::read(message);
        let (header, theirs): (Header, Map<'_>) = match &read {
            Ok(message) => (message.header, message.message_annotations),
            Err(_) => Default::default(),
        };
        let bytes = &mut self.bytes;
        bytes.clear();
        Header { durable: true, ttl_ms: None, first_acquirer: false, delivery_count: 0, ..header }
            .write(bytes);
        // As for 0-9-1: where it was published to is in the record, and shown from there.
        let (exchange, routing_key) = show_annotations((offset, name), theirs, Format::Amqp091, bytes);
        let body: [&[u8]; 2] = match &read {
            Ok(message) => [message.bare, b""],
            Err(_) => [&prefix.0[..prefix.1], message],
        };
        let has_priority = if header.priority.is_some() { flag::PRIORITY } else { 0 };
        let record = NewEnqueue {
            flags: flag::DURABLE | has_priority,
            format: Format::Amqp10,
            priority: header.priority.unwrap_or(0),
            received_at_ms: now_ms,
            expires_at_ms: 0,
            due_at_ms: 0,
            keys: None,
            exchange,
            routing_key,
            head: &[bytes],
            body: &body,
        };
        let keys = key_rule.and_then(|rule| rule.keys(&record, &mut self.ranking));
        let record = NewEnqueue { keys: keys.as_ref(), ..record };
        let is_fit = record.record_len(1).is_some();
        if is_fit {
            record.write(&[queue], into);
        }
        is_fit
    }

    #[cold]
    #[inline(never)]
    fn show_anew(&mut self, entry: Entry<'_>, format: Format, into: &mut Buffer) -> bool {
        let prefix = data_prefix(entry.message.len());
        let read = Message::read(entry.message);
        let bytes = &mut self.bytes;
        bytes.clear();
        let (header, theirs): (Header, Map<'_>) = match &read {
            Ok(message) => (message.header, message.message_annotations),
            Err(_) => Default::default(),
        };
        Header { first_acquirer: true, delivery_count: 0, ..header }.write(bytes);
        let place = (entry.offset, entry.stream.name.as_bytes());
        let (exchange, routing_key) = show_annotations(place, theirs, format, bytes);
        let (head, body): (&[u8], [&[u8]; 2]) = match (format, &read) {
            (Format::Amqp10, Ok(message)) => (bytes, [message.bare, b""]),
            (Format::Amqp10, Err(_)) => (bytes, [&prefix.0[..prefix.1], entry.message]),
            (Format::Amqp091, read) => {
                let bare = read.as_ref().map_or(EMPTY_DATA, |message| message.bare);
                let Ok(shown) = Message::read_parts(bytes, bare) else { return false };
                let body = self.amqp091.convert(&shown);
                let body = if read.is_ok() { self.amqp091.body(body) } else { entry.message };
                (&self.amqp091.properties, [body, b""])
            }
        };
        let is_set = |is_set, flag| if is_set { flag } else { 0 };
        let record = NewEnqueue {
            flags: is_set(header.durable, flag::DURABLE)
                | is_set(header.priority.is_some(), flag::PRIORITY)
                | flag::SHOWN,
            format,
            priority: header.priority.unwrap_or(0),
            received_at_ms: entry.at_ms,
            expires_at_ms: header.ttl_ms.map_or(0, |ttl| entry.at_ms.saturating_add(ttl.into()).max(1)),
            due_at_ms: 0,
            keys: None,
            exchange,
            routing_key,
            head: &[head],
            body: &body,
        };
        let Some(len) = record.record_len(0) else { return false };
        record.write(&[], into);
        if let Ok(message) = &read
            && header.ttl_ms.is_none()
        {
            let section = message.body_and_footer();
            let record = &into.bytes()[into.len() - len..];
            let Some(Enqueue { head, body, .. }) = Enqueue::read(record) else { return true };
            let at = |part: &[u8]| part.as_ptr() as usize - record.as_ptr() as usize;
            let head = at(head)..at(head) + head.len();
            // Properties go with the body where they stay sections.
            let before = if format == Format::Amqp10 { message.bare.len() - section.len() } else { 0 };
            let front = &entry.message[..entry.message.len() - section.len()];
            let alike = match format {
                Format::Amqp091 => &mut self.for_amqp091,
                Format::Amqp10 => &mut self.for_amqp10,
            };
            alike.keep(&entry, &NewShown { front, record, head, body_at: at(body) + before });
        }
        true
    }
}

/// A data section without content.
const EMPTY_DATA: &[u8] = b"\0\x53\x75\xa0\0";

#[inline(never)]
fn is_wanted(entry: Entry<'_>, filter: Filter<'_>, room: &mut Room) -> bool {
    let Filter { program, now_ms, spent, counts } = filter;
    let asked =
        ask(entry, program.reads(), |shown, sections| (sections, program.matches(shown, room, now_ms)));
    let (sections, is_match) = asked.unwrap_or_default();
    spent.set(spent.get().saturating_add(program.price(sections) + room.spent()));
    counts.set(counts.get().and_one(room.is_unreadable()));
    is_match
}

/// Calls `ask` with a message as filters see it, and how many bytes its sections before the body have.
#[inline]
fn ask<T>(entry: Entry<'_>, reads: Known, ask: impl FnOnce(&Shown<'_, '_>, usize) -> T) -> Option<T> {
    match Message::read(entry.message) {
        Ok(message) => {
            let sections = entry.message.len() - message.body_and_footer().len();
            Some(ask(&Shown::new(&message, envelope(entry, Some(&message), reads)), sections))
        }
        // It is shown as one data section.
        Err(_) => {
            let empty = Message::read(EMPTY_DATA).ok()?;
            Some(ask(&Shown::with_data(&empty, envelope(entry, None, reads), entry.message), 0))
        }
    }
}

/// The facts of a message, as far as somebody asks. None: it is no message of AMQP 1.0.
fn envelope<'a>(entry: Entry<'a>, message: Option<&Message<'a>>, asked: Known) -> Envelope<'a> {
    let is_of_route = asked.has(MessageField::Exchange) || asked.has(MessageField::RoutingKey);
    let (exchange, routing_key) = match message {
        _ if !is_of_route => (None, None),
        message => {
            let theirs = message.map(|message| message.message_annotations).unwrap_or_default();
            let (exchange, routing_key) = published_to(theirs, entry.stream.name.as_bytes());
            (Some(exchange), Some(routing_key))
        }
    };
    let size_of = || message.map_or(entry.message.len(), |message| size(message.body));
    Envelope {
        exchange,
        routing_key,
        size: asked.has(MessageField::Size).then(size_of),
        received_ms: Some(entry.at_ms),
        offset: Some(entry.offset),
        is_redelivered: Some(false),
        deliveries: Some(0),
        ..Envelope::default()
    }
}

/// Where a message was published to, as its annotations say: exchange and routing key. That is the stream's name where
/// they say nothing.
fn published_to<'a>(theirs: Map<'a>, name: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let (mut exchange, mut routing_key): (&[u8], &[u8]) = (b"", name);
    for (name, value) in theirs.iter() {
        match (name.as_str(), value) {
            (Some(EXCHANGE), Value::String(text)) => exchange = text.as_bytes(),
            (Some(ROUTING_KEY), Value::String(text)) => routing_key = text.as_bytes(),
            _ => {}
        }
    }
    // A client of the stream protocol may have written what is no name.
    let exchange = exchange.get(..exchange.len().min(255)).unwrap_or_default();
    let routing_key = routing_key.get(..routing_key.len().min(usize::from(u16::MAX))).unwrap_or_default();
    (exchange, routing_key)
}

/// Writes the annotations of a message for consumers, `theirs` and where it is; and, of 1.0, where it was published to, which
/// is answered as by [`published_to`].
fn show_annotations<'a>(
    (offset, name): (u64, &'a [u8]),
    theirs: Map<'a>,
    format: Format,
    bytes: &mut Vec<u8>,
) -> (&'a [u8], &'a [u8]) {
    let (exchange, routing_key) = published_to(theirs, name);
    let mut encoder = Encoder::new(bytes);
    encoder.descriptor(MESSAGE_ANNOTATIONS.into());
    let mut map = encoder.map();
    for ((name, _), (key, encoding)) in theirs.iter().zip(theirs.encodings()) {
        match name.as_str() {
            Some(EXCHANGE | ROUTING_KEY | OFFSET) => {}
            _ => {
                encoder.encoding(key);
                map.field(&encoder);
                encoder.encoding(encoding);
                map.field(&encoder);
            }
        }
    }
    encoder.encoding(&alike::offset_field(offset));
    map.field(&encoder);
    map.field(&encoder);
    if format == Format::Amqp10 {
        for (name, value) in [(ROUTING_KEY, routing_key), (EXCHANGE, exchange)] {
            encoder.symbol(name);
            map.field(&encoder);
            encoder.string(str::from_utf8(value).unwrap_or_default());
            map.field(&encoder);
        }
    }
    encoder.close(map);
    (exchange, routing_key)
}

/// Writes the annotations of a message that is stored: its own, and where it was published to.
fn annotate(message: &Enqueue<'_>, theirs: Map<'_>, bytes: &mut Vec<u8>, filter_value: &mut Vec<u8>) {
    let mut encoder = Encoder::new(bytes);
    encoder.descriptor(MESSAGE_ANNOTATIONS.into());
    let mut map = encoder.map();
    for ((name, value), (key, encoding)) in theirs.iter().zip(theirs.encodings()) {
        match (name.as_str(), value) {
            (Some(EXCHANGE | ROUTING_KEY), _) => continue,
            (Some(FILTER_VALUE), Value::String(text)) => {
                filter_value.clear();
                // As long as the stream protocol can say.
                let len = text.len().min(i16::MAX as usize);
                filter_value.extend_from_slice(&text.as_bytes()[..len]);
            }
            _ => {}
        }
        encoder.encoding(key);
        map.field(&encoder);
        encoder.encoding(encoding);
        map.field(&encoder);
    }
    for (name, value) in [(EXCHANGE, message.exchange), (ROUTING_KEY, message.routing_key)] {
        encoder.symbol(name);
        map.field(&encoder);
        // Names came as text in every protocol.
        encoder.string(str::from_utf8(value).unwrap_or_default());
        map.field(&encoder);
    }
    encoder.close(map);
}
