//! A message made with the help of another is the one made without.

use super::super::messages::{Converter, Entry};
use crate::catalog::{QueueDefinition, QueueType};
use base::Buffer;
use message::amqp10::{Encoder, Header, Message, Value};
use message::amqp091::{self, NewProperties, Properties, TableWriter};
use message::record::{Enqueue, Format, NewEnqueue, flag};

fn stream(id: u64, name: &str) -> QueueDefinition {
    QueueDefinition { name: name.into(), queue_type: QueueType::Stream, ..QueueDefinition::sample(id) }
}

/// A section that is a map.
fn map(descriptor: u64, pairs: &[(&str, Value<'_>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    encoder.descriptor(descriptor);
    let mut map = encoder.map();
    for (name, value) in pairs {
        if descriptor == 0x72 {
            encoder.symbol(name)
        } else {
            encoder.string(name)
        }
        map.field(&encoder);
        encoder.value(*value);
        map.field(&encoder);
    }
    encoder.close(map);
    bytes
}

fn header(header: Header) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.write(&mut bytes);
    bytes
}

fn section(descriptor: u64, value: Value<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    encoder.descriptor(descriptor);
    encoder.value(value);
    bytes
}

/// Bodies as a stream may hold them.
fn stored() -> Vec<Vec<u8>> {
    let durable = header(Header { durable: true, ..Header::default() });
    let urgent = header(Header { durable: true, priority: Some(7), ..Header::default() });
    let mortal = header(Header { ttl_ms: Some(5000), ..Header::default() });
    let place = |exchange, key| {
        map(0x72, &[("x-exchange", Value::String(exchange)), ("x-routing-key", Value::String(key))])
    };
    // Looks as an offset does that is told.
    let likeness = [
        &b"\xa3\x0fx-stream-offset\x81"[..],
        &7u64.to_be_bytes(),
        b"\x0fx-stream-offsetl",
        &7u64.to_be_bytes(),
    ];
    let likeness = likeness.concat();
    let odd = map(0x72, &[("x-own", Value::Binary(&likeness)), ("x-stream-offset", Value::Long(7))]);
    let mut id = Vec::new();
    let mut encoder = Encoder::new(&mut id);
    encoder.descriptor(0x73);
    let mut list = encoder.list();
    encoder.value(Value::Binary(&likeness));
    list.field(&encoder);
    encoder.close(list);
    let colored = map(0x74, &[("color", Value::String("red"))]);
    let fronts = [
        vec![],
        durable.clone(),
        [durable.clone(), place("", "q")].concat(),
        [urgent, place("x", "a.b")].concat(),
        [mortal, place("x", "a.b")].concat(),
        [durable.clone(), odd, id].concat(),
        [durable.clone(), place("x", "a.b"), colored].concat(),
        [durable, map(0x72, &[("x-long", Value::Binary(&[1; 2000]))])].concat(),
    ];
    let bodies = [
        section(0x75, Value::Binary(b"body")),
        section(0x75, Value::Binary(b"another")),
        section(0x75, Value::Binary(&[5; 300])),
        [section(0x75, Value::Binary(b"two")), section(0x75, Value::Binary(b"parts"))].concat(),
        section(0x77, Value::String("text")),
        section(0x77, Value::Uint(5)),
        [section(0x75, Value::Binary(b"body")), map(0x78, &[("crc", Value::Uint(1))])].concat(),
        b"no sections at all".to_vec(),
    ];
    fronts.iter().flat_map(|front| bodies.iter().map(|body| [&front[..], body].concat())).collect()
}

fn shown(converter: &mut Converter, entry: Entry<'_>, format: Format) -> Vec<u8> {
    let mut into = Buffer::default();
    // Bytes that lie there already are no matter.
    into.extend(&[0xee; 64]);
    assert!(converter.show(entry, format, None, &mut into));
    let record = &into.bytes()[64..];
    let read = Enqueue::read(record).expect("a whole record");
    assert_eq!((read.format, record.len() % 8), (format, 0));
    if format == Format::Amqp10 {
        assert!(Message::read_parts(read.head, read.body).is_ok());
    } else {
        assert!(Properties::read(read.head).is_ok());
    }
    record.to_vec()
}

#[test]
fn messages_are_shown_the_same_whatever_came_before() {
    let streams = [stream(1, "one"), stream(2, "two")];
    let all = stored();
    let entry = |message, offset, stream| Entry { message, offset, at_ms: 1000 + offset, stream };
    for format in [Format::Amqp10, Format::Amqp091] {
        for second in &all {
            let alone: Vec<Vec<u8>> = [(7, &streams[0]), (300, &streams[1])]
                .iter()
                .map(|(offset, stream)| {
                    shown(&mut Converter::default(), entry(second, *offset, stream), format)
                })
                .collect();
            for first in &all {
                let mut converter = Converter::default();
                shown(&mut converter, entry(first, 7, &streams[0]), format);
                assert_eq!(shown(&mut converter, entry(second, 7, &streams[0]), format), alone[0]);
                assert_eq!(shown(&mut converter, entry(second, 300, &streams[1]), format), alone[1]);
                assert_eq!(shown(&mut converter, entry(second, 300, &streams[1]), format), alone[1]);
            }
        }
    }
}

/// Messages that may come for a stream.
fn published() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut add = |format, flags, exchange: &[u8], routing_key: &[u8], head: &[u8], body: &[u8]| {
        let record = NewEnqueue {
            flags,
            format,
            priority: 0,
            received_at_ms: 5,
            expires_at_ms: 0,
            due_at_ms: 0,
            keys: None,
            exchange,
            routing_key,
            head: &[head],
            body: &[body],
        };
        let mut into = Buffer::default();
        record.write(&[], &mut into);
        all.push(into.bytes().to_vec());
    };
    let headers = TableWriter::fields(|fields| {
        fields.put(b"x-stream-filter-value", amqp091::Value::Text(b"red"));
        fields.put(b"n", amqp091::Value::I32(1));
    });
    let table = amqp091::Table::new(&headers).expect("a table");
    let heads: Vec<Vec<u8>> = [
        NewProperties::default(),
        NewProperties { delivery_mode: Some(2), ..NewProperties::default() },
        NewProperties { delivery_mode: Some(2), headers: Some(table), ..NewProperties::default() },
        NewProperties { message_type: Some(b"amqp-1.0"), ..NewProperties::default() },
    ]
    .into_iter()
    .map(|new| {
        let mut head = Vec::new();
        new.write(&mut head);
        head
    })
    .collect();
    let data = section(0x75, Value::Binary(b"body"));
    for (exchange, key) in [(&b""[..], &b"q"[..]), (b"x", b"q"), (b"x", b"another")] {
        for body in [&b"body"[..], &[5; 300], &data] {
            for head in &heads {
                add(Format::Amqp091, flag::DURABLE, exchange, key, head, body);
            }
        }
        let annotations =
            map(0x72, &[("x-stream-filter-value", Value::String("red")), ("x-exchange", Value::Null)]);
        for head in [vec![], header(Header { durable: true, ..Header::default() }), annotations] {
            add(Format::Amqp10, flag::DURABLE, exchange, key, &head, &data);
            add(Format::Amqp10, 0, exchange, key, &head, &section(0x77, Value::Uint(5)));
        }
    }
    all
}

#[test]
fn messages_are_stored_the_same_whatever_came_before() {
    let all = published();
    let made = |converter: &mut Converter, record: &[u8]| {
        let (parts, filter_value) = converter.store(&Enqueue::read(record).expect("a record"));
        (parts.concat(), filter_value.to_vec())
    };
    for second in &all {
        let alone = made(&mut Converter::default(), second);
        assert!(Message::read(&alone.0).is_ok());
        for first in &all {
            let mut converter = Converter::default();
            made(&mut converter, first);
            assert_eq!(made(&mut converter, second), alone);
            assert_eq!(made(&mut converter, second), alone);
        }
    }
}
