//! Keys by which messages are told apart, or put together: the value of a header, read where it lies in either encoding.
//!
//! The same value is the same key over both protocols: text is bytes, whatever kind of text it is, and integers are numbers,
//! whatever their width.

use crate::catalog::QueueDefinition;
use crate::owned::OwnedQueue;
use base::{DigestKey, Digester};
use message::amqp10::{Message, Value};
use message::amqp091::{Properties, Value as Wire};
use message::record::{Enqueue, Format, flag};
use queue::{GroupKey, MessageKey};

/// The header that says whether a message is a duplicate, unless the queue names another.
pub(crate) const DEDUPLICATION_HEADER: &str = "x-deduplication-header";

/// The argument of a queue that names the header by which its messages are in groups.
const GROUP_KEY: &str = "x-group-key";

/// The header that says how long a message's key stays, milliseconds.
const CACHE_TTL_HEADER: &str = "x-cache-ttl";

/// A value by which messages can be told apart.
enum Scalar<'a> {
    Bytes(&'a [u8]),
    Number(i128),
    Bool(bool),
    Float(f64),
    /// Seconds since 1970.
    Timestamp(u64),
}

impl Scalar<'_> {
    fn key(&self) -> MessageKey {
        let mut digest = Digester::new(&DigestKey::FIXED);
        match self {
            Scalar::Bytes(bytes) => {
                digest.write(&[1]);
                digest.write(bytes);
            }
            Scalar::Number(number) => {
                digest.write(&[2]);
                digest.write(&number.to_le_bytes());
            }
            Scalar::Bool(value) => digest.write(&[3, u8::from(*value)]),
            Scalar::Float(value) => {
                digest.write(&[4]);
                digest.write(&value.to_bits().to_le_bytes());
            }
            Scalar::Timestamp(seconds) => {
                digest.write(&[5]);
                digest.write(&seconds.to_le_bytes());
            }
        }
        MessageKey(digest.finish())
    }

    fn number(&self) -> Option<u64> {
        if let Scalar::Number(number) = self { u64::try_from(*number).ok() } else { None }
    }
}

fn scalar091<'a>(value: &Wire<'a>) -> Option<Scalar<'a>> {
    Some(match *value {
        Wire::Bool(value) => Scalar::Bool(value),
        Wire::U64(value) => Scalar::Number(value.into()),
        Wire::F32(value) => Scalar::Float(value.into()),
        Wire::F64(value) => Scalar::Float(value),
        Wire::Text(bytes) | Wire::Bytes(bytes) => Scalar::Bytes(bytes),
        Wire::Timestamp(seconds) => Scalar::Timestamp(seconds),
        Wire::Void | Wire::Decimal { .. } | Wire::Array(_) | Wire::Table(_) => return None,
        Wire::I8(_)
        | Wire::U8(_)
        | Wire::I16(_)
        | Wire::U16(_)
        | Wire::I32(_)
        | Wire::U32(_)
        | Wire::I64(_) => Scalar::Number(value.as_i64()?.into()),
    })
}

fn scalar10<'a>(value: Value<'a>) -> Option<Scalar<'a>> {
    Some(match value {
        Value::Boolean(value) => Scalar::Bool(value),
        Value::Ulong(value) => Scalar::Number(value.into()),
        Value::Float(value) => Scalar::Float(value.into()),
        Value::Double(value) => Scalar::Float(value),
        Value::Timestamp(ms) => Scalar::Timestamp(u64::try_from(ms / 1000).unwrap_or(0)),
        Value::Binary(bytes) => Scalar::Bytes(bytes),
        Value::Uuid(bytes) => Scalar::Bytes(bytes),
        value => match value.as_i64() {
            Some(number) => Scalar::Number(number.into()),
            None => Scalar::Bytes(value.as_str()?.as_bytes()),
        },
    })
}

/// The headers of a stored message.
enum Stored<'a> {
    Amqp091(Properties<'a>),
    Amqp10(Message<'a>),
}

impl<'a> Stored<'a> {
    fn of(message: &Enqueue<'a>) -> Option<Stored<'a>> {
        Some(match message.format {
            Format::Amqp091 => Stored::Amqp091(Properties::read(message.head).ok()?),
            Format::Amqp10 => Stored::Amqp10(Message::read_parts(message.head, message.body).ok()?),
        })
    }

    /// A header; over AMQP 1.0 an annotation, or else an application property.
    fn get(&self, name: &str) -> Option<Scalar<'a>> {
        match self {
            Stored::Amqp091(properties) => scalar091(&properties.headers()?.get(name.as_bytes())?),
            Stored::Amqp10(message) => {
                let annotation = message.message_annotations.get(name);
                scalar10(annotation.or_else(|| message.application_properties.get(name))?)
            }
        }
    }
}

impl OwnedQueue {
    /// Whether an arriving message is a duplicate, which is to be passed over. Dead letters are not: they come back under the
    /// key they came with.
    pub(crate) fn is_duplicate(&mut self, message: &Enqueue<'_>) -> bool {
        if self.fifo.window().is_none() || message.flags & flag::DEATHS != 0 {
            return false;
        }
        let named = self.definition.arguments.get(DEDUPLICATION_HEADER.as_bytes());
        let name = named.and_then(routing::Value::as_str).unwrap_or(DEDUPLICATION_HEADER);
        let Some(stored) = Stored::of(message) else { return false };
        let Some(key) = stored.get(name) else { return false };
        let ttl_ms = stored.get(CACHE_TTL_HEADER).and_then(|ttl| ttl.number());
        !self.fifo.admit(key.key(), message.received_at_ms, ttl_ms)
    }

    /// The group an arriving message is in.
    pub(crate) fn group_of(&self, message: &Enqueue<'_>) -> Option<GroupKey> {
        let name = self.definition.group_header()?;
        let key = Stored::of(message)?.get(name)?;
        let MessageKey(digest) = key.key();
        Some(GroupKey(digest))
    }
}

impl QueueDefinition {
    /// The header by which its messages are in groups.
    pub(crate) fn group_header(&self) -> Option<&str> {
        self.arguments.get(GROUP_KEY.as_bytes()).and_then(routing::Value::as_str)
    }
}
