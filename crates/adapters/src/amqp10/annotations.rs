//! What a sender may write into the annotations of its messages (§3.2.3), and what the broker reads there.
//!
//! Keys are symbols that begin with `x-`: all others are reserved. `x-cc` holds further keys a message is routed by.

use super::links::Refused;
use ::amqp10::condition;
use message::amqp10::{Map, Value};

/// Routing keys besides the address's own.
const CC: &str = "x-cc";

/// Checks the annotations and answers the keys in `x-cc`, none without.
pub(super) fn more_keys<'a>(annotations: &Map<'a>) -> Result<Vec<&'a [u8]>, Refused> {
    let mut keys = Vec::new();
    for (name, value) in annotations.iter() {
        match name {
            Value::Symbol(CC) => keys = cc(value).ok_or_else(bad_cc)?,
            Value::Symbol(name) if name.starts_with("x-") => {}
            other => {
                let key = match other {
                    Value::Symbol(name) => format!("{{symbol,<<\"{name}\">>}}"),
                    Value::String(name) => format!("{{utf8,<<\"{name}\">>}}"),
                    other => other.as_u64().map_or("...".to_owned(), |number| format!("{{ulong,{number}}}")),
                };
                let text = format!("failed to parse message: {{reserved_annotation_key,{key}}}");
                return Err(Refused::new(condition::DECODE_ERROR, text));
            }
        }
    }
    Ok(keys)
}

fn cc(value: Value<'_>) -> Option<Vec<&[u8]>> {
    let Value::List(list) = value else { return None };
    list.iter().map(|key| if let Value::String(key) = key { Some(key.as_bytes()) } else { None }).collect()
}

fn bad_cc() -> Refused {
    Refused::new(
        condition::INVALID_FIELD,
        "bad value for 'x-cc' message-annotation: it is to be a list of strings",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::amqp10::Encoder;

    fn check(write: impl FnOnce(&mut Encoder<'_>), expected: Result<&[&str], &str>) {
        let mut bytes = Vec::new();
        write(&mut Encoder::new(&mut bytes));
        let keys = more_keys(&Map::new(2, &bytes)).map_err(|refused| refused.condition);
        let expected: Result<Vec<&[u8]>, &str> =
            expected.map(|keys| keys.iter().map(|key| key.as_bytes()).collect());
        assert_eq!(keys, expected, "{bytes:x?}");
    }

    fn keyed(key: Value<'_>, value: Value<'_>) -> impl FnOnce(&mut Encoder<'_>) {
        move |encoder| {
            encoder.value(key);
            encoder.value(value);
        }
    }

    #[test]
    fn keys_are_symbols_that_begin_with_x() {
        check(keyed(Value::Symbol("x-a"), Value::Null), Ok(&[]));
        check(keyed(Value::Symbol("a"), Value::Null), Err(condition::DECODE_ERROR));
        check(keyed(Value::String("x-a"), Value::Null), Err(condition::DECODE_ERROR));
        check(keyed(Value::Ulong(5), Value::Null), Err(condition::DECODE_ERROR));
    }

    #[test]
    fn further_keys_are_a_list_of_strings() {
        let list = |keys: &'static [Value<'static>]| {
            move |encoder: &mut Encoder<'_>| {
                encoder.symbol(CC);
                let mut list = encoder.list();
                for key in keys {
                    encoder.value(*key);
                    list.field(encoder);
                }
                encoder.close(list);
            }
        };
        check(list(&[]), Ok(&[]));
        check(list(&[Value::String("a"), Value::String("")]), Ok(&["a", ""]));
        check(list(&[Value::String("a"), Value::Long(5)]), Err(condition::INVALID_FIELD));
        check(list(&[Value::Symbol("a")]), Err(condition::INVALID_FIELD));
        check(keyed(Value::Symbol(CC), Value::String("a")), Err(condition::INVALID_FIELD));
    }
}
