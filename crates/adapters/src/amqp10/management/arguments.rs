//! Arguments of queues, exchanges and bindings as AMQP 1.0 maps, both ways, in the types RabbitMQ gives them.

use message::amqp10::{Encoder, Map, Value as Wire};
use routing::{Argument, Arguments, Fields, Float, IntType, Value};

/// The arguments in a map; `None`: a key is no text, or a value is of a type that no argument can have. Of a name that
/// comes twice the last counts. Nesting is bounded by the message's own check.
pub(super) fn read(map: &Map<'_>) -> Option<Arguments> {
    map.iter().map(|(name, value)| Some((name.as_str()?.as_bytes(), own(&value)?))).collect()
}

fn own(value: &Wire<'_>) -> Option<Value> {
    Some(match *value {
        Wire::Null => Value::Void,
        Wire::Boolean(value) => Value::Bool(value),
        Wire::Ubyte(value) => Value::Int(IntType::UnsignedByte, value.into()),
        Wire::Ushort(value) => Value::Int(IntType::UnsignedShort, value.into()),
        Wire::Uint(value) => Value::Int(IntType::UnsignedInt, value.into()),
        Wire::Ulong(value) => match i64::try_from(value) {
            Ok(value) => Value::long(value),
            Err(_) => Value::Unsigned(value),
        },
        Wire::Byte(value) => Value::Int(IntType::Byte, value.into()),
        Wire::Short(value) => Value::Int(IntType::Short, value.into()),
        Wire::Int(value) => Value::Int(IntType::SignedInt, value.into()),
        Wire::Long(value) => Value::long(value),
        Wire::Float(value) => Value::Float(Float(value.into())),
        Wire::Double(value) => Value::Float(Float(value)),
        Wire::Timestamp(ms) => Value::Timestamp(u64::try_from(ms / 1000).ok()?),
        Wire::Binary(bytes) => Value::Text(bytes.into()),
        Wire::String(text) | Wire::Symbol(text) => Value::text(text),
        Wire::List(list) => Value::List(list.iter().map(|value| own(&value)).collect::<Option<_>>()?),
        // Elements without bytes of their own could be more than their room pays for.
        Wire::Array(array) if array.len() <= array.bytes().len() => {
            Value::List(array.iter().map(|value| own(&value)).collect::<Option<_>>()?)
        }
        Wire::Map(map) => Value::Table(read(&map)?),
        Wire::Decimal32(_)
        | Wire::Decimal64(_)
        | Wire::Decimal128(_)
        | Wire::Char(_)
        | Wire::Uuid(_)
        | Wire::Array(_)
        | Wire::Described(_) => return None,
    })
}

/// Writes arguments as a map with strings as keys; those of nested tables are symbols.
pub(super) fn write(arguments: &Arguments, encoder: &mut Encoder<'_>) {
    write_named(arguments.fields(), encoder, false);
}

fn write_named(fields: Fields<'_>, encoder: &mut Encoder<'_>, by_symbol: bool) {
    let mut map = encoder.map();
    for (name, value) in fields.iter() {
        let name = String::from_utf8_lossy(name);
        if by_symbol {
            encoder.symbol(&name)
        } else {
            encoder.string(&name)
        }
        map.field(encoder);
        write_value(value, encoder);
        map.field(encoder);
    }
    encoder.close(map);
}

fn write_value(value: Argument<'_>, encoder: &mut Encoder<'_>) {
    match value {
        Argument::Void => encoder.null(),
        Argument::Bool(value) => encoder.boolean(value),
        Argument::Int(kind, number) => encoder.value(integer(kind, number)),
        Argument::Unsigned(number) => encoder.ulong(number),
        Argument::Float(Float(number)) => encoder.value(Wire::Double(number)),
        // AMQP 1.0's decimals are encoded in another base: the nearest number stands for it.
        Argument::Decimal { scale, value } => {
            encoder.value(Wire::Double(f64::from(value) / 10f64.powi(scale.into())));
        }
        Argument::Text(bytes) => match str::from_utf8(bytes) {
            Ok(text) => encoder.string(text),
            Err(_) => encoder.binary(bytes),
        },
        Argument::Bytes(bytes) => encoder.binary(bytes),
        Argument::Timestamp(seconds) => {
            encoder.timestamp(i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX));
        }
        Argument::List(values) => {
            let mut list = encoder.list();
            for value in values.iter() {
                write_value(value, encoder);
                list.field(encoder);
            }
            encoder.close(list);
        }
        Argument::Table(arguments) => write_named(arguments, encoder, true),
    }
}

/// A number of its own type; of the widest where it does not fit, which no reader of ours makes.
fn integer(kind: IntType, number: i64) -> Wire<'static> {
    let fitting = match kind {
        IntType::Byte => i8::try_from(number).ok().map(Wire::Byte),
        IntType::UnsignedByte => u8::try_from(number).ok().map(Wire::Ubyte),
        IntType::Short => i16::try_from(number).ok().map(Wire::Short),
        IntType::UnsignedShort => u16::try_from(number).ok().map(Wire::Ushort),
        IntType::SignedInt => i32::try_from(number).ok().map(Wire::Int),
        IntType::UnsignedInt => u32::try_from(number).ok().map(Wire::Uint),
        IntType::Long => None,
    };
    fitting.unwrap_or(Wire::Long(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::amqp10::Decoder;

    fn encoded(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut Encoder::new(&mut bytes));
        bytes
    }

    fn map(bytes: &[u8]) -> Map<'_> {
        match Decoder::new(bytes).checked_value() {
            Ok(Wire::Map(map)) => map,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_read_is_written() {
        let nested: Arguments = [(&b"k"[..], Value::text("v"))].into_iter().collect();
        let arguments: Arguments = [
            (&b"a"[..], Value::Void),
            (b"b", Value::Bool(true)),
            (b"c", Value::Int(IntType::UnsignedInt, 5)),
            (b"d", Value::long(-5)),
            (b"e", Value::Float(Float(1.5))),
            (b"f", Value::text("text")),
            (b"g", Value::Timestamp(7)),
            (b"h", Value::list([Value::long(1), Value::text("x")])),
            (b"i", Value::Table(nested)),
            (b"j", Value::Unsigned(u64::MAX)),
        ]
        .into_iter()
        .collect();
        let bytes = encoded(|encoder| write(&arguments, encoder));
        assert_eq!(read(&map(&bytes)), Some(arguments));
    }

    #[test]
    fn some_types_are_no_arguments() {
        let one = |value: Wire<'_>| {
            let bytes = encoded(|encoder| {
                let mut map = encoder.map();
                encoder.string("x");
                map.field(encoder);
                encoder.value(value);
                map.field(encoder);
                encoder.close(map);
            });
            read(&map(&bytes)).and_then(|arguments| arguments.get(b"x").map(Argument::to_value))
        };
        assert_eq!(one(Wire::Char(99)), None);
        assert_eq!(one(Wire::Uuid(&[0; 16])), None);
        assert_eq!(one(Wire::Timestamp(-1000)), None);
        assert_eq!(one(Wire::Ulong(5)), Some(Value::long(5)));
        assert_eq!(one(Wire::Symbol("s")), Some(Value::text("s")));
        assert_eq!(one(Wire::Binary(b"s")), Some(Value::text("s")));
        assert_eq!(one(Wire::Float(1.5)), Some(Value::Float(Float(1.5))));
    }
}
