//! Field tables as the broker's arguments, and message headers as routing looks at them.

use message::amqp091::{Properties, Table, Value as Wire};
use routing::{Arguments, Field, Float, Headers, IntType, Property, Value};

/// The arguments in a field table; of a name that comes twice the last counts.
pub(super) fn arguments(table: &Table<'_>) -> Arguments {
    let mut arguments = Arguments::default();
    for (name, value) in table.iter() {
        arguments.insert(name, own(&value));
    }
    arguments
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
        Wire::U64(value) => Value::Unsigned(value),
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

/// What RabbitMQ calls the type of a value.
pub(super) fn type_name(value: &Wire<'_>) -> &'static str {
    match value {
        Wire::Bool(_) => "bool",
        Wire::I8(_) => "byte",
        Wire::U8(_) => "unsignedbyte",
        Wire::I16(_) => "short",
        Wire::U16(_) => "unsignedshort",
        Wire::I32(_) => "signedint",
        Wire::U32(_) => "unsignedint",
        Wire::I64(_) | Wire::U64(_) => "long",
        Wire::F32(_) => "float",
        Wire::F64(_) => "double",
        Wire::Decimal { .. } => "decimal",
        Wire::Text(_) => "longstr",
        Wire::Bytes(_) => "binary",
        Wire::Array(_) => "array",
        Wire::Timestamp(_) => "timestamp",
        Wire::Table(_) => "table",
        Wire::Void => "void",
    }
}

/// The headers of a message in 0-9-1's encoding.
#[derive(Debug)]
pub(super) struct MessageHeaders<'a>(pub(super) &'a Properties<'a>);

impl Headers for MessageHeaders<'_> {
    fn get(&self, name: &[u8]) -> Option<Field<'_>> {
        let value = self.0.headers()?.get(name)?;
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

    fn property(&self, property: Property) -> Option<Field<'_>> {
        match property {
            Property::CorrelationId => self.0.correlation_id().map(Field::Bytes),
            Property::MessageId => self.0.message_id().map(Field::Bytes),
            Property::Timestamp => self.0.timestamp().map(Field::Timestamp),
        }
    }
}
