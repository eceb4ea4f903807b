//! Headers of a message as exchanges see them, in either encoding.

use base::id::QueueId;
use broker::fields::{Fields10, Fields091, Unstamped, arguments};
use message::amqp10::section::{descriptor, write_map};
use message::amqp10::{Encoder, List, Map, Message, Value as Amqp10};
use message::amqp091::{NewProperties, Properties, Table, TableWriter, Value as Wire};
use routing::{Arguments, Destination, Envelope, Exchange, Field, Headers, Kind, Matches, Value};

/// Does with the headers of a 0-9-1 message what `look` does.
fn with_091(headers: &[(&str, Wire<'_>)], look: impl FnOnce(&dyn Headers)) {
    let fields = TableWriter::fields(|table| {
        headers.iter().for_each(|(name, value)| table.put(name.as_bytes(), *value));
    });
    let mut raw = Vec::new();
    let headers = Some(Table::new(&fields).unwrap());
    NewProperties { headers, ..NewProperties::default() }.write(&mut raw);
    look(&Fields091(&Properties::read(&raw).unwrap()));
}

/// Does with a 1.0 message what `look` does.
fn with_10(
    annotations: &[(&str, Amqp10<'_>)],
    properties: &[(&str, Amqp10<'_>)],
    look: impl FnOnce(&dyn Headers),
) {
    let mut raw = Vec::new();
    for (section, pairs) in
        [(descriptor::MESSAGE_ANNOTATIONS, annotations), (descriptor::APPLICATION_PROPERTIES, properties)]
    {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes);
        for (name, value) in pairs {
            match section {
                descriptor::MESSAGE_ANNOTATIONS => encoder.symbol(name),
                _ => encoder.string(name),
            }
            encoder.value(*value);
        }
        write_map(section, Map::new(2 * pairs.len() as u32, &bytes), &mut raw);
    }
    raw.extend_from_slice(b"\0\x53\x75\xa0\x01b");
    look(&Fields10::of(&Message::read(&raw).unwrap()));
}

/// The bindings, in order, that let a message through.
fn bound(bindings: &[&[(&str, Value)]], headers: &dyn Headers) -> Vec<usize> {
    let mut exchange = Exchange::new(Kind::Headers);
    for (id, binding) in bindings.iter().enumerate() {
        let arguments = binding.iter().map(|(name, value)| (name.as_bytes(), value.clone()));
        exchange.bind(&b""[..], Arguments::from_iter(arguments), Destination::Queue(QueueId(id as u64)));
    }
    let mut matches = Matches::default();
    exchange.route(&Envelope { headers, ..Envelope::keyed(&[b""]) }, &mut matches);
    matches.queues().map(|queue| queue.0 as usize).collect()
}

#[test]
fn of_a_header_that_comes_twice_the_last_counts() {
    let h = |number| [("h", Value::long(number))];
    with_091(&[("h", Wire::I32(1)), ("h", Wire::I32(2))], |headers| {
        assert_eq!(bound(&[&h(1), &h(2)], headers), [1]);
    });
}

/// So many headers, and the first of them once for each of the arguments that look: all by an index but for the first few.
#[test]
fn an_index_finds_what_a_walk_finds() {
    let table = TableWriter::fields(|table| table.put(b"k", Wire::I32(1)));
    let table = Wire::Table(Table::new(&table).unwrap());
    let values091 = [
        Wire::I8(-1),
        Wire::U64(u64::MAX),
        Wire::F64(1.5),
        Wire::Decimal { scale: 1, value: 5 },
        Wire::Text(b"text"),
        Wire::Timestamp(5),
        Wire::Void,
        table,
    ];
    let values10 = [
        Amqp10::Boolean(true),
        Amqp10::Ulong(u64::MAX),
        Amqp10::Int(-1),
        Amqp10::Float(1.5),
        Amqp10::Timestamp(5000),
        Amqp10::Binary(b"bytes"),
        Amqp10::Symbol("text"),
        Amqp10::Null,
    ];
    let check = |headers: &dyn Headers| {
        let mut seen = Vec::new();
        headers.encodings(&mut |name, encoding| seen.push((name.to_vec(), headers.read(encoding))));
        assert_eq!(seen.len(), 10);
        let last = |wanted: &[u8]| seen.iter().rfind(|(name, _)| name == wanted).unwrap().1.clone();
        for (name, _) in &seen {
            assert_eq!(headers.get(name), last(name), "{}", String::from_utf8_lossy(name));
        }
    };
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let again = ["a", "d"];
    let pairs = names.into_iter().zip(values091).chain(again.map(|name| (name, Wire::Bool(false))));
    with_091(&pairs.collect::<Vec<_>>(), check);
    let pairs = names.into_iter().zip(values10).chain(again.map(|name| (name, Amqp10::Byte(7))));
    with_10(&[], &pairs.collect::<Vec<_>>(), check);
}

/// Both by an index and without.
#[test]
fn annotations_are_headers_that_begin_with_x() {
    let long = |number| Value::long(number);
    let with_x = || ("x-match", Value::text("all-with-x"));
    let many: Vec<(&str, Value)> =
        ["p", "q", "r", "s", "t", "u", "v", "w", "y", "z"].map(|name| (name, Value::Void)).into();
    let bindings: [&[(&str, Value)]; 5] = [
        &[with_x(), ("x-a", long(1))],
        &[with_x(), ("x-a", long(2))],
        &[with_x(), ("x-b", long(3))],
        &[with_x(), ("x-c", long(4))],
        &[("a", long(5))],
    ];
    let annotations =
        [("x-a", Amqp10::Long(1)), ("x-c", Amqp10::List(List::default())), ("x-d", Amqp10::Null)];
    let properties = [
        ("x-a", Amqp10::Long(2)),
        ("x-b", Amqp10::Long(3)),
        ("x-c", Amqp10::Long(4)),
        ("x-d", Amqp10::Long(6)),
        ("a", Amqp10::Long(5)),
    ];
    with_10(&annotations, &properties, |headers| {
        assert_eq!(bound(&bindings, headers), [0, 2, 3, 4]);
        let padded: Vec<_> = bindings.iter().map(|binding| binding.to_vec()).collect();
        let first = [&[("x-match", Value::text("any"))], &many[..]].concat();
        let all: Vec<&[_]> =
            std::iter::once(&first[..]).chain(padded.iter().map(|binding| &binding[..])).collect();
        assert_eq!(bound(&all, headers), [1, 3, 4, 5]);
        assert_eq!(headers.get(b"x-d"), Some(Field::Int(6)));
    });
}

#[test]
fn a_time_is_a_number_of_milliseconds() {
    for ms in [0, 1, 1500, 1_700_000_000_123, -1, -1500, i64::MIN, i64::MAX] {
        with_10(&[], &[("h", Amqp10::Timestamp(ms))], |headers| {
            assert_eq!(bound(&[&[("h", Value::long(ms))], &[("h", Value::long(7))]], headers), [0], "{ms}");
        });
    }
}

/// At once, too, where each field belongs before all that came: to put each in its place takes minutes.
#[test]
fn a_long_table_is_read() {
    let names: Vec<String> = (0..400_000).rev().map(|name| format!("{name:06}")).collect();
    let fields = TableWriter::fields(|table| {
        names.iter().for_each(|name| table.put(name.as_bytes(), Wire::Void));
        table.put(b"000500", Wire::I32(5));
    });
    let arguments = arguments(&Table::new(&fields).unwrap());
    assert_eq!(arguments.len(), names.len());
    assert_eq!(arguments.get(b"000500").and_then(routing::Argument::as_i64), Some(5));
}

#[test]
fn uuids_are_bytes_and_characters_numbers() {
    let uuid = *b"0123456789abcdef";
    for (header, value) in
        [(Amqp10::Uuid(&uuid), Value::text("0123456789abcdef")), (Amqp10::Char(0x263A), Value::long(0x263A))]
    {
        with_10(&[], &[("h", header)], |headers| {
            let bindings = [&[("h", value)][..], &[("h", Value::long(7))], &[("h", Value::Void)]];
            assert_eq!(bound(&bindings, headers), [0, 2], "{header:?}");
        });
    }
}

/// A message is kept from going round in a circle also where the node writes on what comes.
#[test]
fn stamps_do_not_hide_the_brokers_that_a_message_came_through() {
    let mut texts = Vec::new();
    let mut encoder = Encoder::new(&mut texts);
    ["cluster-name", "c", "vhost", "/"].iter().for_each(|text| encoder.string(text));
    let mut hops = Vec::new();
    Encoder::new(&mut hops).value(Amqp10::Map(Map::new(4, &texts)));
    let hops = Amqp10::List(List::new(1, &hops));
    with_10(&[("x-received-from", hops)], &[], |headers| {
        let seen = headers.received_from();
        assert!(matches!(&seen, Some(Value::List(hops)) if hops.len() == 1), "{seen:?}");
        assert_eq!(Unstamped(headers).received_from(), seen);
    });
}
