//! AMQP 1.0 to AMQP 0-9-1.

use super::{OWN_ANNOTATIONS, SECTIONS_TYPE, text};
use crate::amqp10::properties::Property;
use crate::amqp10::{BodyKind, Map, Message, Value};
use crate::amqp091::{NewProperties, Table};
use crate::deaths;
use std::io::Write;

/// A short string holds at most this many bytes (AMQP 0-9-1 §4.2.5.3).
const SHORT_MAX: usize = 255;

/// Application-properties are compared with at most this many annotations.
const DISTINCT_MAX: usize = 64;

/// A 1.0 message as 0-9-1 properties and body. Keep one and convert many into it: its vectors are reused.
#[derive(Clone, Debug, Default)]
pub struct Amqp091 {
    /// Property flags and list, as they stand in a content header.
    pub properties: Vec<u8>,
    /// The fields of the header table.
    headers: Vec<u8>,
    reply_to: Vec<u8>,
    joined: Vec<u8>,
}

/// The body of a converted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// A part of the 1.0 message's own bytes.
    Within(&'a [u8]),
    /// Several data sections, joined in the converter's memory.
    Joined,
}

impl Amqp091 {
    /// The bytes of the body that [`Amqp091::convert`] answered last.
    pub fn body<'a>(&'a self, body: Body<'a>) -> &'a [u8] {
        match body {
            Body::Within(bytes) => bytes,
            Body::Joined => &self.joined,
        }
    }

    /// Converts a message; what was in here is forgotten. Answers the body, see [`Amqp091::body`].
    pub fn convert<'a>(&mut self, from: &Message<'a>) -> Body<'a> {
        self.headers.clear();
        self.properties.clear();
        self.joined.clear();
        self.reply_to.clear();
        self.write_properties(from);
        match (from.body.kind, from.body.single_data()) {
            (BodyKind::Data, Some(data)) => Body::Within(data),
            (BodyKind::Data, None) => {
                for section in from.body.sections() {
                    if let Value::Binary(data) = section {
                        self.joined.extend_from_slice(data);
                    }
                }
                Body::Joined
            }
            _ => Body::Within(from.body_and_footer()),
        }
    }

    fn write_properties(&mut self, from: &Message<'_>) {
        let annotations = from.message_annotations;
        let fields = from.properties.fields();
        // What is in both is an annotation's (RabbitMQ merges them in this order); with very many it stays in both, as
        // looking each up would take quadratic time.
        let is_annotation = |name: &str| annotations.len() <= DISTINCT_MAX && annotations.get(name).is_some();
        for (name, value) in from.application_properties.iter() {
            if let Some(name) = name.as_str().filter(|name| !is_annotation(name)) {
                write_field(name.as_bytes(), value, &mut self.headers);
            }
        }
        let mut message_type = None;
        for (name, value) in annotations.iter() {
            match name.as_str() {
                Some("x-basic-type") => message_type = short(value.as_str()),
                Some("x-basic-app-id" | "x-basic-cluster-id") => {}
                // RabbitMQ passes on in 1.0's form alone what a publisher says of deaths.
                Some(deaths::HEADER) => {}
                Some(deaths::ANNOTATION) => {
                    if let Some(list) = deaths::as_header(&value) {
                        write_name(deaths::HEADER.as_bytes(), &mut self.headers);
                        write_long(b'A', &list, &mut self.headers);
                    }
                }
                Some("x-cc") => write_field(b"CC", value, &mut self.headers),
                Some(name) if !OWN_ANNOTATIONS.contains(&name) => {
                    write_field(name.as_bytes(), value, &mut self.headers);
                }
                _ => {}
            }
        }
        let (mut message_id, mut correlation_id) = ([0; 45], [0; 45]);
        let message_id = self.id(fields[Property::MessageId as usize], "x-message-id", &mut message_id);
        let correlation_id =
            self.id(fields[Property::CorrelationId as usize], "x-correlation-id", &mut correlation_id);
        let mut expiration = [0; 20];
        let expiration = from.header.ttl_ms.map(|ms| digits(ms.into(), &mut expiration));
        let reply_to = self.reply_to(from.properties.reply_to());
        if from.body.kind != BodyKind::Data {
            message_type = Some(SECTIONS_TYPE.as_bytes());
        }
        let new = NewProperties {
            content_type: short(from.properties.content_type()),
            content_encoding: short(from.properties.content_encoding()),
            headers: (!self.headers.is_empty()).then(|| Table::new(&self.headers).ok()).flatten(),
            delivery_mode: from.header.durable.then_some(2),
            priority: from.header.priority,
            correlation_id,
            reply_to: reply_to.then_some(&self.reply_to[..]),
            expiration,
            message_id,
            timestamp: from.properties.creation_time_ms().map(seconds),
            message_type,
            user_id: from.properties.user_id().filter(|user| user.len() <= SHORT_MAX),
            app_id: short(from.properties.group_id()),
            cluster_id: None,
        };
        new.write(&mut self.properties);
    }

    /// An id as a short string; one that is none goes into a header.
    fn id<'t>(&mut self, id: Value<'t>, header: &str, room: &'t mut [u8; 45]) -> Option<&'t [u8]> {
        match id {
            Value::String(text) if text.len() <= SHORT_MAX => Some(text.as_bytes()),
            Value::Ulong(number) => Some(digits(number, room)),
            Value::Uuid(uuid) => {
                *room = text::uuid_text(uuid);
                Some(room)
            }
            Value::Binary(bytes) => {
                write_name(header.as_bytes(), &mut self.headers);
                write_long(b'x', bytes, &mut self.headers);
                None
            }
            Value::String(_) => {
                write_field(header.as_bytes(), id, &mut self.headers);
                None
            }
            _ => None,
        }
    }

    /// Puts the queue an address names, or another address as it is, into `reply_to`. False where it cannot be said.
    fn reply_to(&mut self, address: Option<&str>) -> bool {
        let Some(address) = address else { return false };
        let is_said = match address.strip_prefix("/queues/") {
            Some(queue) => text::percent_decode(queue.as_bytes(), &mut self.reply_to).is_some(),
            None => {
                self.reply_to.extend_from_slice(address.as_bytes());
                true
            }
        };
        is_said && self.reply_to.len() <= SHORT_MAX
    }
}

/// Times before 1970 are two's complement, as RabbitMQ writes them.
fn seconds(ms: i64) -> u64 {
    (ms / 1000) as u64
}

fn short(text: Option<&str>) -> Option<&[u8]> {
    text.map(str::as_bytes).filter(|text| text.len() <= SHORT_MAX)
}

/// The decimal digits of a number.
fn digits(number: u64, room: &mut [u8]) -> &[u8] {
    let len = {
        let mut rest = &mut *room;
        let before = rest.len();
        // Twenty bytes hold any number.
        let _ = write!(rest, "{number}");
        before - rest.len()
    };
    &room[..len]
}

fn write_name(name: &[u8], into: &mut Vec<u8>) {
    into.push(name.len() as u8);
    into.extend_from_slice(name);
}

fn write_long(letter: u8, bytes: &[u8], into: &mut Vec<u8>) {
    into.push(letter);
    into.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    into.extend_from_slice(bytes);
}

/// Tables have nothing for the decimals of 1.0 (IEEE 754; theirs are scaled integers): RabbitMQ leaves them out too.
fn is_sayable(value: &Value<'_>) -> bool {
    !matches!(value, Value::Decimal32(_) | Value::Decimal64(_) | Value::Decimal128(_))
}

/// A field of a table; nothing where its name is too long for one, or its value cannot be said.
fn write_field(name: &[u8], value: Value<'_>, into: &mut Vec<u8>) {
    if name.len() <= SHORT_MAX && is_sayable(&value) {
        write_name(name, into);
        write_value(value, into);
    }
}

/// Appends the fields of a map as those of a table, but for what cannot be said there.
pub(crate) fn write_fields(map: &Map<'_>, into: &mut Vec<u8>) {
    for (name, value) in map.iter() {
        if let Some(name) = name.as_str() {
            write_field(name.as_bytes(), value, into);
        }
    }
}

/// Writes a compound value with its length in front.
fn nested(letter: u8, into: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    into.push(letter);
    let at = into.len();
    into.extend_from_slice(&[0; 4]);
    write(into);
    let len = (into.len() - at - 4) as u32;
    into[at..at + 4].copy_from_slice(&len.to_be_bytes());
}

fn write_array<'a>(elements: impl Iterator<Item = Value<'a>>, into: &mut Vec<u8>) {
    nested(b'A', into, |into| elements.filter(is_sayable).for_each(|value| write_value(value, into)));
}

fn write_map(map: Map<'_>, into: &mut Vec<u8>) {
    nested(b'F', into, |into| write_fields(&map, into));
}

/// Nested as deep as values may be, which were checked when they came in.
fn write_value(value: Value<'_>, into: &mut Vec<u8>) {
    use crate::amqp091::Value as To;
    let to = match value {
        Value::Null => To::Void,
        Value::Boolean(value) => To::Bool(value),
        Value::Ubyte(value) => To::U8(value),
        Value::Ushort(value) => To::U16(value),
        Value::Uint(value) => To::U32(value),
        // As RabbitMQ: the same eight bytes under the letter of signed numbers.
        Value::Ulong(value) => To::I64(value as i64),
        Value::Byte(value) => To::I8(value),
        Value::Short(value) => To::I16(value),
        Value::Int(value) => To::I32(value),
        Value::Long(value) => To::I64(value),
        Value::Float(value) => To::F32(value),
        Value::Double(value) => To::F64(value),
        // Left out by who writes fields and elements; what is left is one under a descriptor.
        Value::Decimal32(_) | Value::Decimal64(_) | Value::Decimal128(_) => To::Void,
        Value::Timestamp(ms) => To::Timestamp(seconds(ms)),
        Value::Binary(bytes) => To::Text(bytes),
        Value::String(text) | Value::Symbol(text) => To::Text(text.as_bytes()),
        Value::Char(unit) => {
            let mut room = [0; 4];
            let text = char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut room);
            return To::Text(text.as_bytes()).write(into);
        }
        Value::Uuid(uuid) => return To::Text(&text::uuid_text(uuid)).write(into),
        Value::List(list) => return write_array(list.iter(), into),
        Value::Array(array) => return write_array(array.iter(), into),
        Value::Map(map) => return write_map(map, into),
        Value::Described(described) => return write_value(described.value(), into),
    };
    to.write(into);
}
