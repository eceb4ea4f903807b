//! A message as filters see it: its sections, and its envelope.

use filter::tree::{self, Item, Key};
use filter::{
    BODY_BYTES_MAX, Field, Fields, Format, Found, Known, MessageField, PRIORITY_DEFAULT, Paths, Property,
    VALUES_MAX, Value,
};
use message::amqp10::properties::Property as Position;
use message::amqp10::{self, Body, BodyKind, Message};

/// Facts of a message beside its sections; none: that is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Envelope<'a> {
    /// The exchange it was published to.
    pub exchange: Option<&'a [u8]>,
    /// The routing key it was published with.
    pub routing_key: Option<&'a [u8]>,
    /// Bytes of its body.
    pub size: Option<usize>,
    /// When it was stored, milliseconds since 1970.
    pub received_ms: Option<u64>,
    /// Its offset in a stream.
    pub offset: Option<u64>,
    /// It was delivered before.
    pub is_redelivered: Option<bool>,
    /// Times that it was delivered before.
    pub deliveries: Option<u64>,
    /// Times that it died in the queue where it died last, for the reason it died for there.
    pub deaths: Option<u64>,
    /// Its state in a queue.
    pub state: Option<&'static str>,
}

impl<'a> Envelope<'a> {
    fn value(&self, field: MessageField) -> Option<Value<'a>> {
        match field {
            MessageField::Exchange => self.exchange.map(Value::Bytes),
            MessageField::RoutingKey => self.routing_key.map(Value::Bytes),
            MessageField::Size => self.size.map(|size| Value::Integer(size as i128)),
            MessageField::Received => self.received_ms.map(|at_ms| Value::Integer(at_ms.into())),
            MessageField::Offset => self.offset.map(|offset| Value::Integer(offset.into())),
            MessageField::Redelivered => self.is_redelivered.map(Value::Bool),
            MessageField::Deliveries => self.deliveries.map(|count| Value::Integer(count.into())),
            MessageField::Deaths => self.deaths.map(|count| Value::Integer(count.into())),
            MessageField::State => self.state.map(|state| Value::Bytes(state.as_bytes())),
            // It is in the header.
            MessageField::Durable => None,
        }
    }
}

/// Bytes of a body: of its data, or of its sections of values as they are encoded.
pub(crate) fn size(body: Body<'_>) -> usize {
    let data = |section| if let amqp10::Value::Binary(data) = section { data.len() } else { 0 };
    match body.kind {
        BodyKind::Data => body.sections().map(data).sum(),
        BodyKind::Value | BodyKind::Sequence => body.bytes().len(),
    }
}

/// The functions of messages of a stream that filters may ask. Nothing in one is delivered twice.
pub(crate) const KNOWN: Known = Known::of(&[
    MessageField::Exchange,
    MessageField::RoutingKey,
    MessageField::Size,
    MessageField::Received,
    MessageField::Offset,
    MessageField::Durable,
    MessageField::Redelivered,
    MessageField::Deliveries,
]);

/// An AMQP 1.0 message, its values shown to a filter. Lists and maps among its properties are absent.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a, 'b> {
    message: &'b Message<'a>,
    envelope: Envelope<'a>,
    /// The bytes that are the body, where it is not the message's.
    data: Option<&'a [u8]>,
}

impl<'a, 'b> Shown<'a, 'b> {
    /// A message, with its body.
    pub(crate) fn new(message: &'b Message<'a>, envelope: Envelope<'a>) -> Shown<'a, 'b> {
        Shown { message, envelope, data: None }
    }

    /// The sections of a message before its body, and the bytes that are that.
    pub(crate) fn with_data(
        message: &'b Message<'a>,
        envelope: Envelope<'a>,
        data: &'a [u8],
    ) -> Shown<'a, 'b> {
        Shown { message, envelope, data: Some(data) }
    }
}

impl Fields for Shown<'_, '_> {
    fn field(&self, field: Field<'_>) -> Option<Value<'_>> {
        read(self.message, &self.envelope, field)
    }

    fn body<'f>(&'f self, paths: &Paths, found: &mut Found<'f>) -> bool {
        look(self.message, self.data, paths, found)
    }
}

/// A value of a message beside its body.
pub(crate) fn read<'a>(
    message: &Message<'a>,
    envelope: &Envelope<'a>,
    field: Field<'_>,
) -> Option<Value<'a>> {
    match field {
        Field::Priority => {
            let priority = message.header.priority.unwrap_or(PRIORITY_DEFAULT);
            Some(Value::Integer(priority.into()))
        }
        Field::Property(property) => match value(message.properties.get(position(property))) {
            // A value that is not set and one that is null are one in a list.
            Some(Value::Null) | None => None,
            value => value,
        },
        Field::ApplicationProperty(name) => {
            let of_name = |(key, _): &(amqp10::Value<'_>, _)| key.as_str() == Some(name);
            let (_, found) = message.application_properties.iter().find(of_name)?;
            value(found)
        }
        Field::Annotation(name) => value(message.message_annotations.get(name)?),
        Field::Message(MessageField::Durable) => Some(Value::Bool(message.header.durable)),
        Field::Message(field) => envelope.value(field),
        // It is asked for with all others.
        Field::Body(_) => None,
    }
}

/// Looks for paths in the body of a message, or in `data` that is it; see [`Fields::body`].
pub(crate) fn look<'f>(
    message: &Message<'f>,
    data: Option<&'f [u8]>,
    paths: &Paths,
    found: &mut Found<'f>,
) -> bool {
    let said = |position| match message.properties.get(position) {
        amqp10::Value::Symbol(text) => Some(text.as_bytes()),
        _ => None,
    };
    // As what the properties say they are.
    let look_into = |data: &'f [u8], found: &mut Found<'f>| {
        let format = Format::of(said(Position::ContentType), said(Position::ContentEncoding), data);
        format.is_some_and(|format| format.find(data, paths, found))
    };
    if let Some(data) = data {
        return look_into(data, found);
    }
    let body = message.body;
    match body.kind {
        BodyKind::Data => match body.single_data().or_else(|| gathered(body, found)) {
            Some(data) => look_into(data, found),
            None => false,
        },
        BodyKind::Value | BodyKind::Sequence if body.bytes().len() > BODY_BYTES_MAX => false,
        BodyKind::Value => {
            found.room().spend(body.bytes().len() / VALUE_BYTES_A_UNIT);
            let value = body.sections().next();
            value.is_some_and(|value| {
                tree::find(Part::Value(value), paths, found);
                true
            })
        }
        BodyKind::Sequence => {
            found.room().spend(body.bytes().len() / VALUE_BYTES_A_UNIT);
            tree::find(Part::Sequences(body), paths, found);
            true
        }
    }
}

/// Bytes of a body of values that are walked in a unit of work.
const VALUE_BYTES_A_UNIT: usize = 6;

/// The data of several sections, one behind the other, as far as filters look.
fn gathered<'f>(body: Body<'f>, found: &Found<'f>) -> Option<&'f [u8]> {
    let mut data = Vec::new();
    for section in body.sections() {
        let amqp10::Value::Binary(bytes) = section else { return None };
        let room = BODY_BYTES_MAX - data.len();
        data.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
    found.room().spend(data.len() / VALUE_BYTES_A_UNIT);
    found.room().keep(&data)
}

/// A value in a body of values.
#[derive(Clone, Copy)]
enum Part<'a> {
    Value(amqp10::Value<'a>),
    /// The lists of all sections, as one.
    Sequences(Body<'a>),
}

impl<'a> Item<'a> for Part<'a> {
    fn scalar(self) -> Value<'a> {
        match self {
            Part::Value(of) => value(of).unwrap_or(Value::Null),
            Part::Sequences(_) => Value::Null,
        }
    }

    fn members(self) -> Option<impl Iterator<Item = (Key<'a>, Part<'a>)>> {
        let Part::Value(amqp10::Value::Map(map)) = self else { return None };
        Some(map.iter().map(|(key, of)| {
            let key = match value(key) {
                Some(Value::Bytes(name)) => Key::Name(name),
                Some(Value::Integer(number)) => Key::Number(number),
                _ => Key::Other,
            };
            (key, Part::Value(of))
        }))
    }

    fn elements(self) -> Option<impl Iterator<Item = Part<'a>>> {
        let (list, array, body) = match self {
            Part::Value(amqp10::Value::List(list)) => (Some(list), None, None),
            Part::Value(amqp10::Value::Array(array)) => (None, Some(array), None),
            Part::Value(_) => return None,
            Part::Sequences(body) => (None, None, Some(body)),
        };
        // An array of elements without width has as many as it says.
        let of_array = |array: amqp10::Array<'a>| array.iter().take(VALUES_MAX + 1);
        let lists = body.into_iter().flat_map(|body| body.sections()).filter_map(|section| match section {
            amqp10::Value::List(list) => Some(list),
            _ => None,
        });
        let listed = list.into_iter().chain(lists).flat_map(|list| list.iter());
        Some(listed.chain(array.into_iter().flat_map(of_array)).map(Part::Value))
    }
}

/// A value that can be compared; none of a list, a map and a decimal.
fn value(value: amqp10::Value<'_>) -> Option<Value<'_>> {
    use amqp10::Value as From;
    Some(match value {
        From::Null => Value::Null,
        From::Boolean(value) => Value::Bool(value),
        From::Ubyte(number) => Value::Integer(number.into()),
        From::Ushort(number) => Value::Integer(number.into()),
        From::Uint(number) => Value::Integer(number.into()),
        From::Ulong(number) => Value::Integer(number.into()),
        From::Byte(number) => Value::Integer(number.into()),
        From::Short(number) => Value::Integer(number.into()),
        From::Int(number) => Value::Integer(number.into()),
        From::Long(number) => Value::Integer(number.into()),
        From::Timestamp(ms) => Value::Integer(ms.into()),
        From::Char(unit) => Value::Integer(unit.into()),
        From::Float(number) => Value::Float(number.into()),
        From::Double(number) => Value::Float(number),
        From::Binary(bytes) => Value::Bytes(bytes),
        From::String(text) | From::Symbol(text) => Value::Bytes(text.as_bytes()),
        From::Uuid(bytes) => Value::Bytes(bytes),
        _ => return None,
    })
}

fn position(property: Property) -> Position {
    match property {
        Property::MessageId => Position::MessageId,
        Property::UserId => Position::UserId,
        Property::To => Position::To,
        Property::Subject => Position::Subject,
        Property::ReplyTo => Position::ReplyTo,
        Property::CorrelationId => Position::CorrelationId,
        Property::ContentType => Position::ContentType,
        Property::ContentEncoding => Position::ContentEncoding,
        Property::AbsoluteExpiryTime => Position::AbsoluteExpiryTime,
        Property::CreationTime => Position::CreationTime,
        Property::GroupId => Position::GroupId,
        Property::GroupSequence => Position::GroupSequence,
        Property::ReplyToGroupId => Position::ReplyToGroupId,
    }
}
