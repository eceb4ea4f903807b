//! AMQP 1.0 to AMQP 0-9-1.

use super::{EMPTY_ELEMENTS_TOTAL_MAX, OWN_ANNOTATIONS, SECTIONS_TYPE, text};
use crate::amqp10::properties::Property;
use crate::amqp10::value::Array;
use crate::amqp10::{BodyKind, Map, Message, Value};
use crate::amqp091::{NewProperties, Table};
use crate::{deaths, stamps};
use base::percent;
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

    /// Converts a message; the earlier content is forgotten. Answers the body, see [`Amqp091::body`].
    pub fn convert<'a>(&mut self, from: &Message<'a>) -> Body<'a> {
        self.convert_at(from, 0)
    }

    /// Converts a message that came at `received_at_ms`, which it has as its timestamp where the node wrote it there.
    pub fn convert_at<'a>(&mut self, from: &Message<'a>, received_at_ms: u64) -> Body<'a> {
        self.headers.clear();
        self.properties.clear();
        self.joined.clear();
        self.reply_to.clear();
        self.write_properties(from, received_at_ms);
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

    fn write_properties(&mut self, from: &Message<'_>, received_at_ms: u64) {
        let annotations = from.message_annotations;
        let properties = from.properties.fields();
        let mut fields = Fields::new(&mut self.headers);
        // A name in both is an annotation's (RabbitMQ merges them in this order); with very many it stays in both, as
        // looking each up would take quadratic time.
        let is_annotation = |name: &str| {
            let name = if name == stamps::TIME_HEADER { stamps::TIME_ANNOTATION } else { name };
            annotations.len() <= DISTINCT_MAX && annotations.get(name).is_some()
        };
        for (name, value) in from.application_properties.iter() {
            if let Some(name) = name.as_str().filter(|name| !is_annotation(name)) {
                fields.put(name.as_bytes(), value);
            }
        }
        let (mut message_type, mut stamp) = (None, None);
        for (name, value) in annotations.iter() {
            match name.as_str() {
                Some("x-basic-type") => message_type = short(value.as_str()),
                Some("x-basic-app-id" | "x-basic-cluster-id") => {}
                // RabbitMQ passes on a publisher's word on deaths in 1.0's form alone.
                Some(deaths::HEADER) => {}
                Some(deaths::ANNOTATION) => {
                    if let Some(list) = deaths::as_header(&value) {
                        write_name(deaths::HEADER.as_bytes(), fields.into);
                        write_long(b'A', &list, fields.into);
                    }
                }
                Some("x-cc") => fields.put(b"CC", value),
                Some(stamps::TIME_ANNOTATION) if matches!(value, Value::Timestamp(_)) => {
                    let Value::Timestamp(ms) = value else { continue };
                    fields.put(stamps::TIME_HEADER.as_bytes(), Value::Long(ms));
                    stamp = u64::try_from(ms).ok().filter(|ms| *ms == received_at_ms);
                }
                Some(name) if !OWN_ANNOTATIONS.contains(&name) => {
                    fields.put(name.as_bytes(), value);
                }
                _ => {}
            }
        }
        let (mut message_id, mut correlation_id) = ([0; 45], [0; 45]);
        let message_id = fields.id(properties[Property::MessageId as usize], "x-message-id", &mut message_id);
        let correlation_id =
            fields.id(properties[Property::CorrelationId as usize], "x-correlation-id", &mut correlation_id);
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
            timestamp: from.properties.creation_time_ms().map(seconds).or(stamp.map(|ms| ms / 1000)),
            message_type,
            user_id: from.properties.user_id().filter(|user| user.len() <= SHORT_MAX),
            app_id: short(from.properties.group_id()),
            cluster_id: None,
        };
        new.write(&mut self.properties);
    }

    /// Puts the queue an address names, or another address as it is, into `reply_to`. False where it cannot be said.
    fn reply_to(&mut self, address: Option<&str>) -> bool {
        let Some(address) = address else { return false };
        let is_said = match address.strip_prefix("/queues/") {
            Some(queue) => percent::decode(queue.as_bytes(), &mut self.reply_to).is_some(),
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

/// Appends the fields of a map as those of a table, but for values that a table cannot hold.
pub(crate) fn write_fields(map: &Map<'_>, into: &mut Vec<u8>) {
    Fields::new(into).put_all(map);
}

/// Appends fields to a table.
struct Fields<'v> {
    into: &'v mut Vec<u8>,
    /// Elements of no width that are still written out.
    empty_left: u32,
}

impl<'v> Fields<'v> {
    fn new(into: &'v mut Vec<u8>) -> Fields<'v> {
        Fields { into, empty_left: EMPTY_ELEMENTS_TOTAL_MAX }
    }

    /// A field; nothing where its name is too long for one, or its value cannot be said.
    fn put(&mut self, name: &[u8], value: Value<'_>) {
        if name.len() <= SHORT_MAX && is_sayable(&value) {
            write_name(name, self.into);
            self.value(value);
        }
    }

    fn put_all(&mut self, map: &Map<'_>) {
        for (name, value) in map.iter() {
            if let Some(name) = name.as_str() {
                self.put(name.as_bytes(), value);
            }
        }
    }

    /// An id as a short string; one that is none goes into a field.
    fn id<'t>(&mut self, id: Value<'t>, header: &str, room: &'t mut [u8; 45]) -> Option<&'t [u8]> {
        match id {
            Value::String(text) if text.len() <= SHORT_MAX => Some(text.as_bytes()),
            Value::Ulong(number) => Some(digits(number, room)),
            Value::Uuid(uuid) => {
                *room = text::uuid_text(uuid);
                Some(room)
            }
            Value::Binary(bytes) => {
                write_name(header.as_bytes(), self.into);
                write_long(b'x', bytes, self.into);
                None
            }
            Value::String(_) => {
                self.put(header.as_bytes(), id);
                None
            }
            _ => None,
        }
    }

    /// A compound value with its length in front.
    fn nested(&mut self, letter: u8, write: impl FnOnce(&mut Fields<'v>)) {
        self.into.push(letter);
        let at = self.into.len();
        self.into.extend_from_slice(&[0; 4]);
        write(self);
        let len = (self.into.len() - at - 4) as u32;
        self.into[at..at + 4].copy_from_slice(&len.to_be_bytes());
    }

    fn elements<'a>(&mut self, elements: impl Iterator<Item = Value<'a>>) {
        self.nested(b'A', |fields| elements.filter(is_sayable).for_each(|value| fields.value(value)));
    }

    fn array(&mut self, array: Array<'_>) {
        if !array.is_of_no_width() {
            return self.elements(array.iter());
        }
        let count = array.iter().count().min(self.empty_left as usize);
        self.empty_left -= count as u32;
        self.elements(array.iter().take(count));
    }

    /// Nested as deep as values may be, which were checked when they came in.
    fn value(&mut self, value: Value<'_>) {
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
            // Left out by the writers of fields and elements; the remaining case is one under a descriptor.
            Value::Decimal32(_) | Value::Decimal64(_) | Value::Decimal128(_) => To::Void,
            Value::Timestamp(ms) => To::Timestamp(seconds(ms)),
            Value::Binary(bytes) => To::Text(bytes),
            Value::String(text) | Value::Symbol(text) => To::Text(text.as_bytes()),
            Value::Char(unit) => {
                let mut room = [0; 4];
                let text = char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut room);
                return To::Text(text.as_bytes()).write(self.into);
            }
            Value::Uuid(uuid) => return To::Text(&text::uuid_text(uuid)).write(self.into),
            Value::List(list) => return self.elements(list.iter()),
            Value::Array(array) => return self.array(array),
            Value::Map(map) => return self.nested(b'F', |fields| fields.put_all(&map)),
            Value::Described(described) => return self.value(described.value()),
        };
        to.write(self.into);
    }
}
