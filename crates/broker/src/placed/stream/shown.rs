//! A message as filters see it.

use filter::{Field, Fields, PRIORITY_DEFAULT, Property, Value};
use message::amqp10::properties::Property as Position;
use message::amqp10::{self, Message};

/// An AMQP 1.0 message, its values shown to a filter. Lists and maps are absent.
pub(crate) struct Shown<'a, 'b>(pub(crate) &'b Message<'a>);

impl Fields for Shown<'_, '_> {
    fn field(&self, field: Field<'_>) -> Option<Value<'_>> {
        let message = self.0;
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
        }
    }
}

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
