//! Annotations that a sender may write on its messages (§3.2.3), and those that the broker reads, with the user-id of
//! the properties (§3.2.4).
//!
//! Keys are symbols that begin with `x-`: all others are reserved. `x-cc` holds further keys a message is routed by,
//! `x-opt-delivery-time` when it is to be delivered, milliseconds since 1970.

use super::refused::Refused;
use ::amqp10::condition;
use broker::More;
use message::amqp10::{Map, Message, Value};

/// Routing keys besides the address's own.
const CC: &str = "x-cc";

/// When a message is to be delivered, not before.
const DELIVERY_TIME: &str = "x-opt-delivery-time";

/// A fault of annotations.
#[derive(Debug)]
pub(super) enum Wrong {
    /// The message is none.
    Message(Refused),
    /// It is not said in a readable way where it is to go.
    Address(Refused),
}

impl Wrong {
    pub(super) fn refused(self) -> Refused {
        let (Wrong::Message(refused) | Wrong::Address(refused)) = self;
        refused
    }
}

/// Checks annotations and properties of a message and answers their requests to the broker, if any.
pub(super) fn more<'a>(message: &Message<'a>) -> Result<Option<More<'a>>, Wrong> {
    let mut more = of_annotations(&message.message_annotations)?;
    match message.properties.claimed_user() {
        Value::Null => {}
        Value::Binary(user) => more.get_or_insert_default().user_id = Some(user),
        other => {
            // A reader might take it for a user that the broker has checked.
            let text = format!("user-id of the properties is no binary: {}", term(other));
            return Err(Wrong::Message(Refused::new(condition::DECODE_ERROR, text)));
        }
    }
    Ok(more)
}

fn of_annotations<'a>(annotations: &Map<'a>) -> Result<Option<More<'a>>, Wrong> {
    let mut asked = Ok(None::<More<'a>>);
    for (name, value) in annotations.iter() {
        match name {
            Value::Symbol(CC) => match cc(value) {
                Some(keys) => _ = asked.as_mut().map(|more| more.get_or_insert_default().keys = keys),
                None => asked = Err(Wrong::Address(bad_cc(value))),
            },
            Value::Symbol(DELIVERY_TIME) => match delivery_time_ms(value) {
                Some(at_ms) => _ = asked.as_mut().map(|more| more.get_or_insert_default().due_at_ms = at_ms),
                None => return Err(Wrong::Message(bad_time(value))),
            },
            Value::Symbol(name) if name.starts_with("x-") => {}
            other => {
                let text = format!("failed to parse message: {{reserved_annotation_key,{}}}", term(other));
                return Err(Wrong::Message(Refused::new(condition::DECODE_ERROR, text)));
            }
        }
    }
    asked
}

/// When the annotations of an outcome want a message delivered again, milliseconds since 1970; `None`: not said, or not
/// as a time.
pub(super) fn delivery_time(annotations: &Map<'_>) -> Option<u64> {
    annotations.get(DELIVERY_TIME).and_then(delivery_time_ms)
}

/// A moment, or a number of milliseconds since 1970; one before then is 0.
fn delivery_time_ms(value: Value<'_>) -> Option<u64> {
    match value {
        Value::Timestamp(ms) => Some(u64::try_from(ms).unwrap_or(0)),
        Value::Ulong(ms) => Some(ms),
        value => value.as_i64().map(|ms| u64::try_from(ms).unwrap_or(0)),
    }
}

fn bad_time(value: Value<'_>) -> Refused {
    let text = format!("bad value for '{DELIVERY_TIME}' message-annotation: {}", term(value));
    Refused::new(condition::INVALID_FIELD, text)
}

/// A simple value as RabbitMQ writes it in its texts.
fn term(value: Value<'_>) -> String {
    match value {
        Value::Symbol(text) => format!("{{symbol,<<\"{text}\">>}}"),
        Value::String(text) => format!("{{utf8,<<\"{text}\">>}}"),
        Value::Boolean(flag) => format!("{{boolean,{flag}}}"),
        Value::Ulong(number) => format!("{{ulong,{number}}}"),
        Value::Uint(number) => format!("{{uint,{number}}}"),
        Value::Int(number) => format!("{{int,{number}}}"),
        Value::Long(number) => format!("{{long,{number}}}"),
        Value::Null => "null".to_owned(),
        _ => "...".to_owned(),
    }
}

fn cc(value: Value<'_>) -> Option<Vec<&[u8]>> {
    let Value::List(list) = value else { return None };
    list.iter().map(|key| if let Value::String(key) = key { Some(key.as_bytes()) } else { None }).collect()
}

fn bad_cc(value: Value<'_>) -> Refused {
    let text = format!("bad value for 'x-cc' message-annotation: {}", term(value));
    Refused::new(condition::INVALID_FIELD, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::amqp10::Encoder;

    fn check(write: impl FnOnce(&mut Encoder<'_>), expected: Result<&[&str], &str>) {
        let mut bytes = Vec::new();
        write(&mut Encoder::new(&mut bytes));
        let more = of_annotations(&Map::new(2, &bytes)).map_err(|wrong| wrong.refused().condition);
        let keys = more.map(|more| more.unwrap_or_default().keys);
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

    #[test]
    fn a_user_id_is_a_binary_or_absent() {
        let check = |fields: &[Value<'static>], expected: Result<Option<&[u8]>, &str>| {
            let mut bytes = Vec::new();
            let mut encoder = Encoder::new(&mut bytes);
            encoder.descriptor(0x73);
            let mut list = encoder.list();
            for field in fields {
                encoder.value(*field);
                list.field(&encoder);
            }
            encoder.close(list);
            bytes.extend(b"\0\x53\x75\xa0\x01x");
            let message = Message::read(&bytes).unwrap();
            let asked = more(&message).map_err(|wrong| wrong.refused().condition);
            assert_eq!(asked.map(|more| more.and_then(|more| more.user_id)), expected, "{fields:?}");
        };
        let id = Value::String("id");
        check(&[], Ok(None));
        check(&[id], Ok(None));
        check(&[Value::Null, Value::Null, Value::String("to")], Ok(None));
        check(&[id, Value::Null, Value::String("to")], Ok(None));
        check(&[Value::Null, Value::Binary(b"u")], Ok(Some(b"u")));
        check(&[id, Value::Binary(b"")], Ok(Some(b"")));
        for other in [Value::String("u"), Value::Symbol("u"), Value::Ulong(1), Value::Boolean(true)] {
            check(&[id, other], Err(condition::DECODE_ERROR));
        }
    }

    #[test]
    fn a_time_of_delivery_is_a_moment_or_a_number() {
        let check = |value, expected| {
            let mut bytes = Vec::new();
            let mut encoder = Encoder::new(&mut bytes);
            encoder.symbol(DELIVERY_TIME);
            encoder.value(value);
            let asked = of_annotations(&Map::new(2, &bytes)).map_err(|wrong| wrong.refused().condition);
            assert_eq!(asked.map(|more| more.unwrap_or_default().due_at_ms), expected);
            assert_eq!(delivery_time(&Map::new(2, &bytes)), expected.ok());
        };
        check(Value::Timestamp(1_700_000_000_000), Ok(1_700_000_000_000));
        check(Value::Timestamp(-5), Ok(0));
        check(Value::Ulong(u64::MAX), Ok(u64::MAX));
        check(Value::Long(7), Ok(7));
        check(Value::Uint(7), Ok(7));
        check(Value::Null, Err(condition::INVALID_FIELD));
        check(Value::String("7"), Err(condition::INVALID_FIELD));
    }
}
