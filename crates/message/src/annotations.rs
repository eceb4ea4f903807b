//! Annotations that consumers add to messages (the `modified` outcome of AMQP 1.0, §3.4.5).
//!
//! A message has at most one of a name; one added later takes the place of an earlier one, and of the publisher's under
//! that name. They are kept as the encoding of one map, in order of name, so that the same annotations are
//! the same bytes. Simple values keep no more of their type than RabbitMQ does: whole numbers are longs, text is
//! strings.
//! Not here: where they are kept, and for how long.

use crate::amqp10::section::{descriptor, write_map};
use crate::amqp10::value::Decoder;
use crate::amqp10::{Encoder, Map, Message, Value};
use crate::amqp091::{NewProperties, Properties, Table, TableWriter};
use crate::record::{Enqueue, Format};
use crate::{convert, deaths};
use std::collections::{BTreeMap, BTreeSet};

/// How a name that a consumer may use begins; all others are reserved (§3.2.10).
const PREFIX: &str = "x-";

/// Annotations of the broker's own, or that it has acted upon: nobody adds them later.
const OWN: [&str; 5] = ["x-exchange", "x-routing-key", "x-cc", "x-acquired-count", "x-delivery-count"];

/// Whether every name in `added` is one that a consumer may use: a symbol that begins with `x-`.
pub fn may_be_added(added: &Map<'_>) -> bool {
    added.iter().all(|(name, _)| matches!(name, Value::Symbol(name) if name.starts_with(PREFIX)))
}

/// `added` to an earlier result of [`merge`], `before`, none where there was nothing. Names that are the broker's own,
/// or that nobody may use, are left out.
pub fn merge(before: Option<&[u8]>, added: &Map<'_>) -> Box<[u8]> {
    let mut merged: BTreeMap<&str, Kept<'_>> = BTreeMap::new();
    for (name, encoding) in before.into_iter().flat_map(named) {
        merged.insert(name, Kept::Encoded(encoding));
    }
    for ((name, value), (_, encoding)) in added.iter().zip(added.encodings()) {
        if let Value::Symbol(name) = name
            && name.starts_with(PREFIX)
            && !is_own(name)
        {
            merged.insert(name, Kept::of(value, encoding));
        }
    }
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    let mut map = encoder.map();
    for (name, value) in &merged {
        encoder.symbol(name);
        map.field(&encoder);
        match value {
            Kept::Encoded(encoding) => encoder.encoding(encoding),
            Kept::Value(value) => encoder.value(*value),
        }
        map.field(&encoder);
    }
    encoder.close(map);
    // Nested too deeply to be read again: as if nothing had been added.
    match (Decoder::new(&bytes).check(), before) {
        (Err(_), Some(before)) => before.into(),
        (Err(_), None) => merge(None, &Map::default()),
        (Ok(()), _) => bytes.into(),
    }
}

/// The head of `message` with `annotations`, as [`merge`] answered them, in the message's own format: in place of those
/// of the same name. A head that cannot be read is passed on as it is.
pub fn head_with(message: &Enqueue<'_>, annotations: &[u8]) -> Vec<u8> {
    let mut head = Vec::with_capacity(message.head.len() + annotations.len() + 16);
    let is_written = match message.format {
        Format::Amqp10 => write10(message, annotations, &mut head),
        Format::Amqp091 => write091(message.head, annotations, &mut head),
    };
    if is_written.is_none() {
        head.clear();
        head.extend_from_slice(message.head);
    }
    head
}

/// A value to be kept.
enum Kept<'a> {
    Encoded(&'a [u8]),
    Value(Value<'a>),
}

impl<'a> Kept<'a> {
    fn of(value: Value<'a>, encoding: &'a [u8]) -> Kept<'a> {
        let number = match value {
            Value::Timestamp(ms) => Some(ms),
            Value::Char(unit) => Some(unit.into()),
            // One that is too large for a long stays as it is.
            value => value.as_i64(),
        };
        if let Some(number) = number {
            return Kept::Value(Value::Long(number));
        }
        let text = match value {
            Value::Symbol(text) => Some(text),
            Value::Binary(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        };
        text.map_or(Kept::Encoded(encoding), |text| Kept::Value(Value::String(text)))
    }
}

fn is_own(name: &str) -> bool {
    OWN.contains(&name) || deaths::is_own(name)
}

fn read(annotations: &[u8]) -> Map<'_> {
    match Decoder::new(annotations).checked_value() {
        Ok(Value::Map(map)) => map,
        _ => Map::default(),
    }
}

/// The names, and the encodings of their values.
fn named(annotations: &[u8]) -> impl Iterator<Item = (&str, &[u8])> {
    let map = read(annotations);
    let pairs = map.iter().zip(map.encodings());
    pairs.filter_map(|((name, _), (_, encoding))| Some((name.as_str()?, encoding)))
}

fn write10(message: &Enqueue<'_>, annotations: &[u8], into: &mut Vec<u8>) -> Option<()> {
    let [header, delivery_annotations, _] = Message::head_sections(message.head).ok()?;
    let theirs = Message::read_head(message.head).ok()?.2;
    into.extend_from_slice(header);
    into.extend_from_slice(delivery_annotations);
    let ours = read(annotations);
    let names: BTreeSet<&str> = named(annotations).map(|(name, _)| name).collect();
    let mut pairs = Vec::with_capacity(theirs.bytes().len() + ours.bytes().len());
    let mut count = 0;
    for ((name, _), (key, value)) in theirs.iter().zip(theirs.encodings()) {
        if !name.as_str().is_some_and(|name| names.contains(name)) {
            pairs.extend_from_slice(key);
            pairs.extend_from_slice(value);
            count += 2;
        }
    }
    pairs.extend_from_slice(ours.bytes());
    count += ours.len() as u32 * 2;
    write_map(descriptor::MESSAGE_ANNOTATIONS, Map::new(count, &pairs), into);
    // Deliveries rely on a message that can be read.
    Message::read_parts(into, message.body).ok().map(|_| ())
}

fn write091(head: &[u8], annotations: &[u8], into: &mut Vec<u8>) -> Option<()> {
    let properties = Properties::read(head).ok()?;
    let headers = properties.headers().unwrap_or_default();
    let names: BTreeSet<&[u8]> = named(annotations).map(|(name, _)| name.as_bytes()).collect();
    let mut fields = TableWriter::fields(|table| {
        for (name, encoding) in headers.encodings().filter(|(name, _)| !names.contains(name)) {
            table.encoding(name, encoding);
        }
    });
    convert::write_fields(&read(annotations), &mut fields);
    let headers = Table::new(&fields).ok()?;
    NewProperties { headers: Some(headers), ..properties.to_new() }.write(into);
    Properties::read(into).ok().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp10::Header;
    use proptest::prelude::*;

    /// The encoding of a map.
    fn map(pairs: &[(&str, Value<'_>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes);
        let mut map = encoder.map();
        for (name, value) in pairs {
            encoder.symbol(name);
            map.field(&encoder);
            encoder.value(*value);
            map.field(&encoder);
        }
        encoder.close(map);
        bytes
    }

    fn added(before: Option<&[u8]>, pairs: &[(&str, Value<'_>)]) -> Box<[u8]> {
        merge(before, &read(&map(pairs)))
    }

    #[test]
    fn the_last_of_a_name_counts_and_order_is_by_name() {
        let first = added(None, &[("x-b", Value::Long(5)), ("x-a", Value::String("one"))]);
        assert_eq!(*first, *map(&[("x-a", Value::String("one")), ("x-b", Value::Long(5))]));
        let second = added(Some(&first), &[("x-a", Value::String("two")), ("x-c", Value::Null)]);
        let expected = [("x-a", Value::String("two")), ("x-b", Value::Long(5)), ("x-c", Value::Null)];
        assert_eq!(*second, *map(&expected));
        assert_eq!(added(Some(&second), &[("x-a", Value::String("two"))]), second, "again");
    }

    #[test]
    fn simple_values_keep_their_kind_alone() {
        for (value, kept) in [
            (Value::Int(-7), Value::Long(-7)),
            (Value::Ubyte(7), Value::Long(7)),
            (Value::Ulong(7), Value::Long(7)),
            (Value::Ulong(u64::MAX), Value::Ulong(u64::MAX)),
            (Value::Timestamp(9), Value::Long(9)),
            (Value::Symbol("s"), Value::String("s")),
            (Value::Binary(b"b"), Value::String("b")),
            (Value::Binary(b"\xff"), Value::Binary(b"\xff")),
            (Value::Boolean(true), Value::Boolean(true)),
            (Value::Double(1.5), Value::Double(1.5)),
        ] {
            assert_eq!(*added(None, &[("x-a", value)]), *map(&[("x-a", kept)]), "{value:?}");
        }
    }

    #[test]
    fn names_of_the_brokers_own_are_left_out() {
        for name in ["x-cc", "x-exchange", "x-opt-deaths", "x-first-death-queue", "x-last-death-reason", "y"]
        {
            assert_eq!(*added(None, &[(name, Value::Null)]), *map(&[]), "{name}");
        }
        let check = |name, expected| {
            assert_eq!(may_be_added(&read(&map(&[(name, Value::Null)]))), expected, "{name}");
        };
        check("x-a", true);
        check("a", false);
        let mut text = Vec::new();
        Encoder::new(&mut text).string("x-a");
        Encoder::new(&mut text).null();
        assert!(!may_be_added(&Map::new(2, &text)), "text is no symbol");
    }

    fn message(format: Format, head: &[u8], annotations: &[u8]) -> Vec<u8> {
        let mut buffer = base::Buffer::default();
        let new = crate::record::NewEnqueue {
            flags: 0,
            format,
            priority: 0,
            received_at_ms: 0,
            expires_at_ms: 0,
            due_at_ms: 0,
            keys: None,
            exchange: b"",
            routing_key: b"",
            head: &[head],
            // null, as a value section.
            body: &[b"\0\x53\x77\x40"],
        };
        new.write(&[], &mut buffer);
        head_with(&Enqueue::read(buffer.bytes()).unwrap(), annotations)
    }

    #[test]
    fn a_head_in_1_0_gets_them_as_annotations() {
        let annotations = added(None, &[("x-a", Value::String("one")), ("x-b", Value::Int(5))]);
        let with = |theirs: &[(&str, Value<'_>)]| {
            let mut head = Vec::new();
            Header { durable: true, ..Header::default() }.write(&mut head);
            if !theirs.is_empty() {
                write_map(descriptor::MESSAGE_ANNOTATIONS, read(&map(theirs)), &mut head);
            }
            head
        };
        let expected =
            with(&[("x-own", Value::Null), ("x-a", Value::String("one")), ("x-b", Value::Long(5))]);
        let head = with(&[("x-a", Value::Boolean(true)), ("x-own", Value::Null)]);
        assert_eq!(message(Format::Amqp10, &head, &annotations), expected);
        let expected = with(&[("x-a", Value::String("one")), ("x-b", Value::Long(5))]);
        assert_eq!(message(Format::Amqp10, &with(&[]), &annotations), expected);
    }

    #[test]
    fn a_head_in_0_9_1_gets_them_as_headers() {
        use crate::amqp091::Value as Field;
        let annotations = added(None, &[("x-a", Value::String("one")), ("x-b", Value::Int(5))]);
        let with = |fields: &[(&[u8], Field<'_>)]| {
            let fields = TableWriter::fields(|table| {
                fields.iter().for_each(|(name, value)| table.put(name, *value));
            });
            let headers = (!fields.is_empty()).then(|| Table::new(&fields).unwrap());
            let mut head = Vec::new();
            NewProperties { headers, delivery_mode: Some(2), ..Default::default() }.write(&mut head);
            head
        };
        let head = with(&[(b"x-a", Field::Bool(true)), (b"own", Field::Void)]);
        let expected = with(&[(b"own", Field::Void), (b"x-a", Field::Text(b"one")), (b"x-b", Field::I64(5))]);
        assert_eq!(message(Format::Amqp091, &head, &annotations), expected);
        let expected = with(&[(b"x-a", Field::Text(b"one")), (b"x-b", Field::I64(5))]);
        assert_eq!(message(Format::Amqp091, &with(&[]), &annotations), expected);
    }

    #[test]
    fn heads_and_annotations_that_cannot_be_read_change_nothing() {
        let annotations = added(None, &[("x-a", Value::Null)]);
        assert_eq!(message(Format::Amqp10, b"\0\x53\x72\xff", &annotations), b"\0\x53\x72\xff");
        assert_eq!(message(Format::Amqp091, b"\xff", &annotations), b"\xff");
        assert_eq!(*added(Some(b"\xd1"), &[("x-a", Value::Null)]), *annotations);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let annotations = added(Some(&bytes), &[("x-a", Value::Null)]);
            for format in [Format::Amqp10, Format::Amqp091] {
                message(format, &bytes, &annotations);
                message(format, b"", &bytes);
            }
        }
    }
}
