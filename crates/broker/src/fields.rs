//! The fields of a message that routing reads, in either encoding, and field tables as arguments.

use message::amqp10::{Decoder, Map, Message, Properties as Properties10, Value as Amqp10};
use message::amqp091::{Properties, Table, Value as Wire};
use message::record::Format;
use message::stamps;
use routing::{
    Arguments, DELAY, Field, Float, Headers, INDEXED_MAX, IntType, Property, RECEIVED_FROM, Value,
};

/// The arguments in a field table; of a name that comes twice the last counts.
pub fn arguments(table: &Table<'_>) -> Arguments {
    table.iter().map(|(name, value)| (name, own(&value))).collect()
}

/// The value with bytes of its own. Nesting is bounded by the table's own check.
fn own(value: &Wire<'_>) -> Value {
    match *value {
        Wire::Bool(value) => Value::Bool(value),
        Wire::I8(value) => Value::Int(IntType::Byte, value.into()),
        Wire::U8(value) => Value::Int(IntType::UnsignedByte, value.into()),
        Wire::I16(value) => Value::Int(IntType::Short, value.into()),
        Wire::U16(value) => Value::Int(IntType::UnsignedShort, value.into()),
        Wire::I32(value) => Value::Int(IntType::SignedInt, value.into()),
        Wire::U32(value) => Value::Int(IntType::UnsignedInt, value.into()),
        Wire::I64(value) => Value::Int(IntType::Long, value),
        // RabbitMQ calls both `long`.
        Wire::U64(value) => i64::try_from(value).map_or(Value::Unsigned(value), Value::long),
        Wire::F32(value) => Value::Float(Float(value.into())),
        Wire::F64(value) => Value::Float(Float(value)),
        Wire::Decimal { scale, value } => Value::Decimal { scale, value },
        Wire::Text(bytes) => Value::Text(bytes.into()),
        Wire::Bytes(bytes) => Value::Bytes(bytes.into()),
        Wire::Array(array) => Value::List(array.iter().map(|value| own(&value)).collect()),
        Wire::Timestamp(seconds) => Value::Timestamp(seconds),
        Wire::Table(table) => Value::Table(arguments(&table)),
        Wire::Void => Value::Void,
    }
}

/// The headers of a message in 0-9-1's encoding.
#[derive(Debug)]
pub struct Fields091<'a>(pub &'a Properties<'a>);

impl Headers for Fields091<'_> {
    fn get(&self, name: &[u8]) -> Option<Field<'_>> {
        header091(self.0, name)
    }

    fn encodings<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        encodings091(self.0, visit);
    }

    fn read<'a>(&'a self, encoding: &'a [u8]) -> Option<Field<'a>> {
        read091(encoding)
    }

    fn delay(&self) -> Option<Field<'_>> {
        delay091(self.0)
    }

    fn property(&self, property: Property) -> Option<Field<'_>> {
        property091(self.0, property)
    }
}

/// The headers of a message on which the node wrote when it came: nothing is routed by that, as in RabbitMQ.
pub struct Unstamped<'a>(pub &'a dyn Headers);

impl Unstamped<'_> {
    fn is_stamp(name: &[u8]) -> bool {
        [stamps::TIME_HEADER, stamps::TIME_ANNOTATION].iter().any(|own| own.as_bytes() == name)
    }
}

impl Headers for Unstamped<'_> {
    fn get(&self, name: &[u8]) -> Option<Field<'_>> {
        if Unstamped::is_stamp(name) { None } else { self.0.get(name) }
    }

    fn encodings<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        self.0.encodings(&mut |name, encoding| {
            if !Unstamped::is_stamp(name) {
                visit(name, encoding);
            }
        });
    }

    fn read<'a>(&'a self, encoding: &'a [u8]) -> Option<Field<'a>> {
        self.0.read(encoding)
    }

    fn delay(&self) -> Option<Field<'_>> {
        self.0.delay()
    }

    fn received_from(&self) -> Option<Value> {
        self.0.received_from()
    }

    fn property(&self, property: Property) -> Option<Field<'_>> {
        self.0.property(property)
    }
}

/// Of a name that comes twice the last counts, where elsewhere the first does: so RabbitMQ routes.
fn header091<'a>(properties: &Properties<'a>, name: &[u8]) -> Option<Field<'a>> {
    let named = properties.headers()?.iter().filter(|(found, _)| *found == name);
    field091(named.last()?.1)
}

fn encodings091<'a>(properties: &Properties<'a>, visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {
    let headers = properties.headers().unwrap_or_default();
    headers.encodings().for_each(|(name, encoding)| visit(name, encoding));
}

fn read091(encoding: &[u8]) -> Option<Field<'_>> {
    field091(Wire::of_encoding(encoding)?)
}

fn delay091<'a>(properties: &Properties<'a>) -> Option<Field<'a>> {
    field091(properties.headers()?.get(DELAY)?)
}

fn field091(value: Wire<'_>) -> Option<Field<'_>> {
    Some(match value {
        Wire::Bool(value) => Field::Bool(value),
        Wire::U64(value) => Field::Unsigned(value),
        Wire::F32(value) => Field::Float(value.into()),
        Wire::F64(value) => Field::Float(value),
        Wire::Decimal { scale, value } => Field::Decimal { scale, value },
        Wire::Text(bytes) | Wire::Bytes(bytes) => Field::Bytes(bytes),
        Wire::Timestamp(seconds) => Field::Timestamp(seconds),
        Wire::Void => Field::Void,
        Wire::Array(_) | Wire::Table(_) => Field::Nested(own(&value)),
        Wire::I8(_)
        | Wire::U8(_)
        | Wire::I16(_)
        | Wire::U16(_)
        | Wire::I32(_)
        | Wire::U32(_)
        | Wire::I64(_) => Field::Int(value.as_i64()?),
    })
}

fn property091<'a>(properties: &Properties<'a>, property: Property) -> Option<Field<'a>> {
    match property {
        Property::CorrelationId => properties.correlation_id().map(Field::Bytes),
        Property::MessageId => properties.message_id().map(Field::Bytes),
        Property::Timestamp => properties.timestamp().map(Field::Timestamp),
    }
}

/// The fields of a 1.0 message that exchanges look at: its application-properties are its headers, and those of its
/// message-annotations that are simple values under names that begin with `x-`.
pub struct Fields10<'a> {
    headers: Map<'a>,
    properties: Properties10<'a>,
    annotations: Map<'a>,
}

impl<'a> Fields10<'a> {
    /// Those of `message`.
    pub fn of(message: &Message<'a>) -> Fields10<'a> {
        Fields10 {
            headers: message.application_properties,
            properties: message.properties,
            annotations: message.message_annotations,
        }
    }

    /// The annotation that is the header `name`: it goes before an application property of that name. Of a name that
    /// comes twice the last counts.
    fn annotation(&self, name: &[u8]) -> Option<Field<'_>> {
        if !name.starts_with(ANNOTATION) || self.annotations.is_empty() {
            return None;
        }
        let annotations = self.annotations.iter().filter(|(key, value)| {
            key.as_str().is_some_and(|key| key.as_bytes() == name) && is_header(*value)
        });
        field(annotations.last()?.1)
    }
}

/// The prefix of annotations that are headers too.
const ANNOTATION: &[u8] = b"x-";

/// Whether an annotation is a header: simple values are.
fn is_header(value: Amqp10<'_>) -> bool {
    value != Amqp10::Null && field(value).is_some()
}

/// A simple value as exchanges see it: a time is its number of milliseconds.
fn field(value: Amqp10<'_>) -> Option<Field<'_>> {
    Some(match value {
        Amqp10::Null => Field::Void,
        Amqp10::Boolean(value) => Field::Bool(value),
        Amqp10::Ulong(value) => Field::Unsigned(value),
        Amqp10::Float(value) => Field::Float(value.into()),
        Amqp10::Double(value) => Field::Float(value),
        Amqp10::Binary(bytes) => Field::Bytes(bytes),
        Amqp10::Uuid(bytes) => Field::Bytes(bytes),
        Amqp10::Char(number) => Field::Int(number.into()),
        value => match value.as_i64() {
            Some(number) => Field::Int(number),
            None => Field::Bytes(value.as_str()?.as_bytes()),
        },
    })
}

/// A broker that a message came through, as a table: the texts of its map; void where it is no map.
fn hop(value: Amqp10<'_>) -> Value {
    let Amqp10::Map(fields) = value else { return Value::Void };
    let texts = fields.iter().filter_map(|(name, value)| Some((name.as_str()?, value.as_str()?)));
    Value::Table(texts.map(|(name, value)| (name.as_bytes(), Value::text(value))).collect())
}

/// The names of a map that are text, each with its value's encoding.
fn named<'a>(map: &Map<'a>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
    let text = |key| Some(Decoder::new(key).value().ok()?.as_str()?.as_bytes());
    map.encodings().filter_map(move |(key, encoding)| Some((text(key)?, encoding)))
}

fn read10(encoding: &[u8]) -> Option<Field<'_>> {
    field(Decoder::new(encoding).value().ok()?)
}

impl Headers for Fields10<'_> {
    fn get(&self, name: &[u8]) -> Option<Field<'_>> {
        self.annotation(name).or_else(|| field(self.headers.get(str::from_utf8(name).ok()?)?))
    }

    fn encodings<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        // Of a name that comes twice the first counts.
        let headers: Vec<_> = named(&self.headers).take(INDEXED_MAX).collect();
        headers.into_iter().rev().for_each(|(name, encoding)| visit(name, encoding));
        for (name, encoding) in named(&self.annotations) {
            if name.starts_with(ANNOTATION) && Decoder::new(encoding).value().is_ok_and(is_header) {
                visit(name, encoding);
            }
        }
    }

    fn read<'a>(&'a self, encoding: &'a [u8]) -> Option<Field<'a>> {
        read10(encoding)
    }

    /// An annotation: a name that begins with `x-` is no header of an application's.
    fn delay(&self) -> Option<Field<'_>> {
        match self.annotations.get(str::from_utf8(DELAY).ok()?)? {
            Amqp10::Timestamp(_) => None,
            delay => field(delay),
        }
    }

    /// An annotation, a list of maps.
    fn received_from(&self) -> Option<Value> {
        let Amqp10::List(hops) = self.annotations.get(str::from_utf8(RECEIVED_FROM).ok()?)? else {
            return None;
        };
        Some(Value::List(hops.iter().map(hop).collect()))
    }

    fn property(&self, property: Property) -> Option<Field<'_>> {
        let id = match property {
            Property::Timestamp => {
                let ms = self.properties.creation_time_ms()?;
                return Some(Field::Timestamp(u64::try_from(ms / 1000).unwrap_or(0)));
            }
            Property::CorrelationId => self.properties.correlation_id(),
            Property::MessageId => self.properties.message_id(),
        };
        Some(match id {
            Amqp10::Ulong(number) => Field::Unsigned(number),
            Amqp10::Uuid(bytes) => Field::Bytes(bytes),
            Amqp10::Binary(bytes) => Field::Bytes(bytes),
            id => Field::Bytes(id.as_str()?.as_bytes()),
        })
    }
}

/// The fields of a stored message that routing reads, in whichever encoding; none of one that cannot be read.
pub(crate) enum Fields<'a> {
    Amqp091(Properties<'a>),
    Amqp10(Fields10<'a>),
    Unread,
}

impl<'a> Fields<'a> {
    /// Those of a message with this head and body.
    pub(crate) fn read(format: Format, head: &'a [u8], body: &'a [u8]) -> Fields<'a> {
        match format {
            Format::Amqp091 => Properties::read(head).map_or(Fields::Unread, Fields::Amqp091),
            Format::Amqp10 => Message::read_parts(head, body)
                .map_or(Fields::Unread, |message| Fields::Amqp10(Fields10::of(&message))),
        }
    }
}

impl Headers for Fields<'_> {
    fn get(&self, name: &[u8]) -> Option<Field<'_>> {
        match self {
            Fields::Amqp091(properties) => header091(properties, name),
            Fields::Amqp10(fields) => fields.get(name),
            Fields::Unread => None,
        }
    }

    fn encodings<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        match self {
            Fields::Amqp091(properties) => encodings091(properties, visit),
            Fields::Amqp10(fields) => fields.encodings(visit),
            Fields::Unread => {}
        }
    }

    fn read<'a>(&'a self, encoding: &'a [u8]) -> Option<Field<'a>> {
        match self {
            Fields::Amqp091(_) => read091(encoding),
            Fields::Amqp10(_) => read10(encoding),
            Fields::Unread => None,
        }
    }

    fn delay(&self) -> Option<Field<'_>> {
        match self {
            Fields::Amqp091(properties) => delay091(properties),
            Fields::Amqp10(fields) => fields.delay(),
            Fields::Unread => None,
        }
    }

    fn received_from(&self) -> Option<Value> {
        match self {
            Fields::Amqp091(properties) => Fields091(properties).received_from(),
            Fields::Amqp10(fields) => fields.received_from(),
            Fields::Unread => None,
        }
    }

    fn property(&self, property: Property) -> Option<Field<'_>> {
        match self {
            Fields::Amqp091(properties) => property091(properties, property),
            Fields::Amqp10(fields) => fields.property(property),
            Fields::Unread => None,
        }
    }
}
