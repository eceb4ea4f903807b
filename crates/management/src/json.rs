//! Arguments and headers as JSON, and the other way round.

use data_encoding::BASE64;
use message::amqp091::{Array, Table, TableWriter, Value as Field};
use routing::{Argument, Arguments, Fields, Float, Value};
use serde_json::{Map, Value as Json};

/// Text as it is; other bytes in base64, said so as RabbitMQ does.
fn text(bytes: &[u8]) -> Json {
    match str::from_utf8(bytes) {
        Ok(text) => Json::from(text),
        Err(_) => Json::from(format!("Not UTF-8, base64 is: {}", BASE64.encode(bytes))),
    }
}

/// Arguments as an object.
pub(crate) fn object(arguments: &Arguments) -> Json {
    fields(arguments.fields())
}

fn fields(fields: Fields<'_>) -> Json {
    let pair =
        |(name, value): (&[u8], Argument<'_>)| (String::from_utf8_lossy(name).into_owned(), argument(value));
    Json::Object(base::brief::collect(fields.iter().map(pair)))
}

fn argument(value: Argument<'_>) -> Json {
    match value {
        Argument::Void => Json::Null,
        Argument::Bool(value) => Json::from(value),
        Argument::Int(_, value) => Json::from(value),
        Argument::Unsigned(value) | Argument::Timestamp(value) => Json::from(value),
        Argument::Float(value) => Json::from(value.0),
        Argument::Decimal { scale, value } => Json::from(f64::from(value) / 10f64.powi(i32::from(scale))),
        Argument::Text(bytes) | Argument::Bytes(bytes) => text(bytes),
        Argument::List(values) => values.iter().map(argument).collect(),
        Argument::Table(values) => fields(values),
    }
}

/// An object as arguments.
pub(crate) fn arguments(fields: &Map<String, Json>) -> Arguments {
    fields.iter().map(|(name, json)| (name.as_bytes(), value(json))).collect()
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Void,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::long(number),
            (None, Some(number)) => Value::Unsigned(number),
            (None, None) => Value::Float(Float(number.as_f64().unwrap_or(f64::NAN))),
        },
        Json::String(text) => Value::text(text),
        Json::Array(values) => Value::List(values.iter().map(value).collect()),
        Json::Object(fields) => Value::Table(arguments(fields)),
    }
}

/// An object as a field table of AMQP 0-9-1, without its length.
pub(crate) fn table(fields: &Map<String, Json>) -> Vec<u8> {
    TableWriter::fields(|table| {
        for (name, value) in fields {
            let mut encoding = Vec::new();
            field(value, &mut encoding);
            // A name is a short string.
            let end = name.floor_char_boundary(255);
            table.encoding(&name.as_bytes()[..end], &encoding);
        }
    })
}

fn field(json: &Json, out: &mut Vec<u8>) {
    match json {
        Json::Null => Field::Void.write(out),
        Json::Bool(value) => Field::Bool(*value).write(out),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Field::I64(number).write(out),
            (None, Some(number)) => Field::U64(number).write(out),
            (None, None) => Field::F64(number.as_f64().unwrap_or(f64::NAN)).write(out),
        },
        Json::String(text) => Field::Text(text.as_bytes()).write(out),
        Json::Array(values) => {
            let mut items = Vec::new();
            values.iter().for_each(|value| field(value, &mut items));
            Field::Array(Array::new(&items).unwrap_or_default()).write(out);
        }
        Json::Object(fields) => {
            let fields = table(fields);
            Field::Table(Table::new(&fields).unwrap_or_default()).write(out);
        }
    }
}

/// A field table as an object.
pub(crate) fn headers(table: Table<'_>) -> Json {
    Json::Object(
        table
            .iter()
            .map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), shown(&value)))
            .collect(),
    )
}

fn shown(value: &Field<'_>) -> Json {
    match value {
        Field::Bool(value) => Json::from(*value),
        Field::U64(value) | Field::Timestamp(value) => Json::from(*value),
        Field::F32(value) => Json::from(*value),
        Field::F64(value) => Json::from(*value),
        Field::Decimal { scale, value } => Json::from(f64::from(*value) / 10f64.powi(i32::from(*scale))),
        Field::Text(bytes) | Field::Bytes(bytes) => text(bytes),
        Field::Array(values) => values.iter().map(|value| shown(&value)).collect(),
        Field::Table(table) => headers(*table),
        Field::Void => Json::Null,
        integer => integer.as_i64().map_or(Json::Null, Json::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_goes_in_as_json_comes_out_as_json() {
        let json = json!({"a": 1, "b": [true, null, "x", {"c": -2.5}], "d": {"e": u64::MAX}, "é": ""});
        let fields = json.as_object().unwrap();
        assert_eq!(object(&arguments(fields)), json);
        assert_eq!(headers(Table::new(&table(fields)).unwrap()), json);
    }

    #[test]
    fn what_is_no_text_is_shown_in_base64() {
        let bytes: Arguments = [(&b"a"[..], Value::Bytes(b"\xff\x00"[..].into()))].into_iter().collect();
        assert_eq!(object(&bytes), json!({"a": "Not UTF-8, base64 is: /wA="}));
    }
}
