//! Arguments as a field table of AMQP 0-9-1: each value in its own type, so that a reader of the table has the same
//! arguments again. The catalog finds a binding by exactly those it was made with.

use message::amqp091::{Array, Malformed, Table, TableWriter, Value as Field};
use routing::{Argument, Arguments, Fields, IntType};

/// Why there is no such table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// A name is longer than a short string may be. AMQP 1.0 and older definitions know such.
    LongName,
    /// Tables and arrays lie in each other too deep.
    TooDeep,
}

impl From<Malformed> for Unfit {
    fn from(_: Malformed) -> Unfit {
        Unfit::TooDeep
    }
}

/// The fields, without a length in front.
///
/// # Errors
/// Why there is no such table.
pub(crate) fn table(arguments: &Arguments) -> Result<Vec<u8>, Unfit> {
    of_fields(arguments.fields())
}

fn of_fields(fields: Fields<'_>) -> Result<Vec<u8>, Unfit> {
    let mut out = Vec::new();
    for (name, value) in fields.iter() {
        if u8::try_from(name.len()).is_err() {
            return Err(Unfit::LongName);
        }
        let mut encoding = Vec::new();
        put(value, &mut encoding)?;
        out.extend(TableWriter::fields(|table| table.encoding(name, &encoding)));
    }
    Table::new(&out)?;
    Ok(out)
}

fn put(value: Argument<'_>, out: &mut Vec<u8>) -> Result<(), Unfit> {
    match value {
        Argument::Void => Field::Void.write(out),
        Argument::Bool(value) => Field::Bool(value).write(out),
        Argument::Int(kind, number) => integer(kind, number).write(out),
        Argument::Unsigned(number) => Field::U64(number).write(out),
        Argument::Float(number) => Field::F64(number.0).write(out),
        Argument::Decimal { scale, value } => Field::Decimal { scale, value }.write(out),
        Argument::Text(bytes) => Field::Text(bytes).write(out),
        Argument::Bytes(bytes) => Field::Bytes(bytes).write(out),
        Argument::Timestamp(seconds) => Field::Timestamp(seconds).write(out),
        Argument::List(values) => {
            let mut items = Vec::new();
            values.iter().try_for_each(|value| put(value, &mut items))?;
            Field::Array(Array::new(&items)?).write(out);
        }
        Argument::Table(fields) => Field::Table(Table::new(&of_fields(fields)?)?).write(out),
    }
    Ok(())
}

/// A number of its own type; of the widest where it does not fit, which nobody makes.
fn integer(kind: IntType, number: i64) -> Field<'static> {
    let fitting = match kind {
        IntType::Byte => i8::try_from(number).ok().map(Field::I8),
        IntType::UnsignedByte => u8::try_from(number).ok().map(Field::U8),
        IntType::Short => i16::try_from(number).ok().map(Field::I16),
        IntType::UnsignedShort => u16::try_from(number).ok().map(Field::U16),
        IntType::SignedInt => i32::try_from(number).ok().map(Field::I32),
        IntType::UnsignedInt => u32::try_from(number).ok().map(Field::U32),
        IntType::Long => None,
    };
    fitting.unwrap_or(Field::I64(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::fields::arguments;
    use routing::Float;
    use routing::Value;

    fn one(value: Value) -> Arguments {
        [(&b"a"[..], value)].into_iter().collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let check = |value: Value| {
            let own = one(value);
            let bytes = table(&own).unwrap();
            assert_eq!(arguments(&Table::new(&bytes).unwrap()), own);
        };
        let numbers = [
            (IntType::Byte, -5),
            (IntType::UnsignedByte, 200),
            (IntType::Short, -500),
            (IntType::UnsignedShort, 60_000),
            (IntType::SignedInt, -70_000),
            (IntType::UnsignedInt, 4_000_000_000),
            (IntType::Long, i64::MIN),
        ];
        numbers.into_iter().for_each(|(kind, number)| check(Value::Int(kind, number)));
        let others = [Value::Void, Value::Bool(true), Value::Unsigned(u64::MAX), Value::Timestamp(7)];
        others.into_iter().for_each(check);
        check(Value::Float(Float(-0.0)));
        check(Value::Decimal { scale: 2, value: 314 });
        check(Value::Text(b"\xff"[..].into()));
        check(Value::Bytes(b"text"[..].into()));
        check(Value::list([Value::Int(IntType::Byte, 1), Value::Table(one(Value::text("x")))]));
        assert_eq!(table(&Arguments::new()), Ok(Vec::new()));
    }

    #[test]
    fn what_no_table_has_is_refused() {
        let named = |length: usize| [(vec![b'n'; length], Value::Void)].into_iter().collect::<Arguments>();
        assert!(table(&named(255)).is_ok());
        assert_eq!(table(&named(256)), Err(Unfit::LongName));
        assert_eq!(table(&one(Value::list([Value::Table(named(256))]))), Err(Unfit::LongName));
        let deep = (0..40).fold(Value::Void, |inner, _| Value::list([inner]));
        assert_eq!(table(&one(deep)), Err(Unfit::TooDeep));
    }
}
