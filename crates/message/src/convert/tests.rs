//! Rows as RabbitMQ 4.3.6 answers them, published over one protocol and consumed over the other; where it crashes, ours.

use super::*;
use crate::amqp10::section::descriptor;
use crate::amqp10::{Encoder, Header, Map, Message, Value, properties};
use crate::amqp091::{NewProperties, Properties, Table, TableWriter, Value as Field};
use proptest::prelude::*;

/// Converts a 0-9-1 message and reads the result as a consumer would.
fn to_10(new: NewProperties<'_>, body: &[u8], look: impl FnOnce(Message<'_>)) {
    let mut raw = Vec::new();
    new.write(&mut raw);
    let mut converted = Amqp10::default();
    converted.convert(&Properties::read(&raw).unwrap(), body, 0);
    let mut bytes = Vec::new();
    converted.header.write(&mut bytes);
    let annotations = Map::new(converted.annotations_count, &converted.annotations);
    crate::amqp10::section::write_map(descriptor::MESSAGE_ANNOTATIONS, annotations, &mut bytes);
    bytes.extend_from_slice(&converted.bare);
    bytes.extend_from_slice(body);
    look(Message::read(&bytes).unwrap());
}

/// Converts a 1.0 message of these sections and reads the result.
fn to_091(sections: &[u8], look: impl FnOnce(Properties<'_>, &[u8])) {
    let message = Message::read(sections).unwrap();
    let mut converted = Amqp091::default();
    let body = converted.convert(&message);
    let body = converted.body(body).to_vec();
    look(Properties::read(&converted.properties).unwrap(), &body);
}

const BODY: &[u8] = b"\0\x53\x75\xa0\x01b";

fn with_properties(fields: &[(usize, Value<'_>)]) -> Vec<u8> {
    let mut all = [Value::Null; 13];
    fields.iter().for_each(|(at, value)| all[*at] = *value);
    let mut bytes = Vec::new();
    properties::write(&all, &mut bytes);
    bytes.extend_from_slice(BODY);
    bytes
}

fn with_map(section: u8, pairs: &[(&str, Value<'_>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    encoder.descriptor(section.into());
    let mut map = encoder.map();
    for (key, value) in pairs {
        match section {
            descriptor::MESSAGE_ANNOTATIONS => encoder.symbol(key),
            _ => encoder.string(key),
        }
        map.field(&encoder);
        encoder.value(*value);
        map.field(&encoder);
    }
    encoder.close(map);
    bytes.extend_from_slice(BODY);
    bytes
}

#[test]
fn properties_become_sections() {
    let new = NewProperties {
        content_type: Some(b"a/b"),
        content_encoding: Some(b"gz"),
        delivery_mode: Some(2),
        priority: Some(7),
        correlation_id: Some(b"cid"),
        reply_to: Some(b"a b/c%\xc3\xa9"),
        expiration: Some(b"60000"),
        message_id: Some(b"urn:uuid:12345678-1234-5678-1234-567812345678"),
        timestamp: Some(1_700_000_000),
        message_type: Some(b"ty"),
        user_id: Some(b"guest"),
        app_id: Some(b"app"),
        cluster_id: Some(b"cl"),
        headers: None,
    };
    to_10(new, b"body", |message| {
        let header = Header { durable: true, priority: Some(7), ttl_ms: Some(60_000), ..Header::default() };
        assert_eq!(message.header, header);
        let properties = message.properties;
        let uuid = *b"\x12\x34\x56\x78\x12\x34\x56\x78\x12\x34\x56\x78\x12\x34\x56\x78";
        assert_eq!(properties.message_id(), Value::Uuid(&uuid));
        assert_eq!(properties.correlation_id(), Value::String("cid"));
        assert_eq!(properties.user_id(), Some(&b"guest"[..]));
        assert_eq!(properties.reply_to(), Some("/queues/a%20b%2Fc%25%C3%A9"));
        assert_eq!((properties.content_type(), properties.content_encoding()), (Some("a/b"), Some("gz")));
        assert_eq!(properties.creation_time_ms(), Some(1_700_000_000_000));
        assert_eq!((properties.group_id(), properties.to(), properties.subject()), (Some("app"), None, None));
        assert_eq!(message.message_annotations.get("x-basic-type"), Some(Value::String("ty")));
        assert_eq!(message.message_annotations.len(), 1);
        assert_eq!(message.body.single_data(), Some(&b"body"[..]));
    });
    to_10(NewProperties::default(), b"", |message| {
        assert_eq!((message.header, message.properties.is_empty()), (Header::default(), true));
        assert_eq!(message.body.single_data(), Some(&b""[..]));
    });
}

#[test]
fn headers_become_annotations_or_application_properties() {
    let check = |name: &str, value: Field<'_>, annotation: Option<Value<'_>>, property: Option<Value<'_>>| {
        let fields = TableWriter::fields(|table| table.put(name.as_bytes(), value));
        let headers = Some(Table::new(&fields).unwrap());
        to_10(NewProperties { headers, ..NewProperties::default() }, b"body", |message| {
            let annotated = if name == "CC" { "x-cc" } else { name };
            assert_eq!(message.message_annotations.get(annotated), annotation, "{name}");
            assert_eq!(message.application_properties.get(name), property, "{name}");
        });
    };
    let simple = [
        (Field::Text(b"str"), Value::String("str")),
        (Field::Text(b"\xff\xfe"), Value::Binary(b"\xff\xfe")),
        (Field::Bytes(b"\0\xff"), Value::Binary(b"\0\xff")),
        (Field::I8(-3), Value::Byte(-3)),
        (Field::U8(253), Value::Ubyte(253)),
        (Field::I16(-5), Value::Short(-5)),
        (Field::U16(60_000), Value::Ushort(60_000)),
        (Field::I32(1), Value::Int(1)),
        (Field::U32(4_000_000_000), Value::Uint(4_000_000_000)),
        (Field::I64(1 << 40), Value::Long(1 << 40)),
        (Field::U64(1 << 40), Value::Long(1 << 40)),
        (Field::U64(u64::MAX), Value::Long(-1)),
        (Field::F32(1.5), Value::Float(1.5)),
        (Field::F64(1.5), Value::Double(1.5)),
        (Field::Bool(true), Value::Boolean(true)),
        (Field::Void, Value::Null),
        (Field::Timestamp(1_700_000_000), Value::Timestamp(1_700_000_000_000)),
        (Field::Timestamp((-2_i64) as u64), Value::Timestamp(-2000)),
        (Field::Timestamp(1 << 60), Value::Timestamp(i64::MIN)),
        (Field::Decimal { scale: 2, value: 150 }, Value::Double(1.5)),
    ];
    for (field, value) in simple {
        check("h", field, None, Some(value));
        check("x-h", field, Some(value), None);
    }
    check("X-Up", Field::I32(1), None, Some(Value::Int(1)));
    check("", Field::I32(1), None, Some(Value::Int(1)));
    check("x-é", Field::I32(1), None, Some(Value::Int(1)));
    check("x-exchange", Field::I32(1), None, None);
    check("BCC", Field::I32(1), None, None);
    let fields = TableWriter::fields(|table| table.put(b"a", Field::I32(1)));
    let table = Field::Table(Table::new(&fields).unwrap());
    check("h", table, None, None);
    check("x-h", table, Some(Value::Map(Map::new(2, b"\xa3\x01a\x54\x01"))), None);
    let fields = TableWriter::fields(|table| table.array(b"a", [Field::Text(b"k1"), Field::I32(1)]));
    let (_, array) = Table::new(&fields).unwrap().iter().next().unwrap();
    let list = Value::List(crate::amqp10::List::new(2, b"\xa1\x02k1\x54\x01"));
    check("h", array, None, None);
    check("x-h", array, Some(list), None);
    check("CC", array, Some(list), None);
    check("BCC", array, None, None);
}

#[test]
fn bodies_keep_what_they_were() {
    let new = NewProperties { message_type: Some(b"amqp-1.0"), ..NewProperties::default() };
    to_10(new, b"\0\x53\x77\xa1\x03abc", |message| {
        assert_eq!(message.body.sections().collect::<Vec<_>>(), [Value::String("abc")]);
    });
    // Not of the form that the type names.
    to_10(new, b"abc", |message| assert_eq!(message.body.single_data(), Some(&b"abc"[..])));
    let check = |sections: &[u8], kind: Option<&[u8]>, body: &[u8]| {
        to_091(sections, |properties, converted| {
            assert_eq!((properties.message_type(), converted), (kind, body));
        });
    };
    check(BODY, None, b"b");
    check(b"\0\x53\x75\xa0\x01a\0\x53\x75\xa0\x02bc", None, b"abc");
    let value = b"\0\x53\x77\xa1\x03str";
    check(value, Some(b"amqp-1.0"), value);
    let sequences = b"\0\x53\x76\xc0\x02\x01\x40\0\x53\x76\x45";
    check(sequences, Some(b"amqp-1.0"), sequences);
    // A footer stays with sections, and is of no use without them.
    let footed = b"\0\x53\x77\xa1\x03str\0\x53\x78\xc1\x05\x02\xa3\x01f\x41";
    check(footed, Some(b"amqp-1.0"), footed);
    check(&[BODY, &footed[8..]].concat(), None, b"b");
    to_10(new, footed, |message| {
        assert_eq!(message.body.sections().collect::<Vec<_>>(), [Value::String("str")]);
        assert_eq!(message.footer.get("f"), Some(Value::Boolean(true)));
    });
}

#[test]
fn sections_become_properties() {
    let mut bytes = Vec::new();
    Header { durable: true, priority: Some(7), ttl_ms: Some(60_000), ..Header::default() }.write(&mut bytes);
    bytes.extend(with_properties(&[
        (0, Value::String("mid")),
        (1, Value::Binary(b"guest")),
        (3, Value::String("subj")),
        (5, Value::Ulong(8)),
        (6, Value::Symbol("a/b")),
        (7, Value::Symbol("gz")),
        (8, Value::Timestamp(1_900_000_000_000)),
        (9, Value::Timestamp(1_700_000_000_999)),
        (10, Value::String("g")),
        (11, Value::Uint(3)),
        (12, Value::String("rg")),
    ]));
    to_091(&bytes, |properties, _| {
        let expected = NewProperties {
            content_type: Some(b"a/b"),
            content_encoding: Some(b"gz"),
            delivery_mode: Some(2),
            priority: Some(7),
            correlation_id: Some(b"8"),
            expiration: Some(b"60000"),
            message_id: Some(b"mid"),
            timestamp: Some(1_700_000_000),
            user_id: Some(b"guest"),
            app_id: Some(b"g"),
            ..NewProperties::default()
        };
        assert_eq!(properties.to_new(), expected);
    });
    to_091(BODY, |properties, _| assert_eq!(properties.to_new(), NewProperties::default()));
}

#[test]
fn addresses_and_ids() {
    let check = |field: usize, value: Value<'_>, expected: NewProperties<'_>| {
        to_091(&with_properties(&[(field, value)]), |properties, _| {
            assert_eq!(properties.to_new(), expected)
        });
    };
    let reply = |reply_to| NewProperties { reply_to, ..NewProperties::default() };
    let long = "r".repeat(256);
    check(4, Value::String("/queues/my%20q"), reply(Some(b"my q")));
    check(4, Value::String("/queues/a%2Fb"), reply(Some(b"a/b")));
    check(4, Value::String("/queues/a%zz"), reply(None));
    check(4, Value::String("/exchanges/e/k"), reply(Some(b"/exchanges/e/k")));
    check(4, Value::String("rt"), reply(Some(b"rt")));
    check(4, Value::String(&long), reply(None));
    let id = |message_id| NewProperties { message_id, ..NewProperties::default() };
    check(0, Value::Ulong(u64::MAX), id(Some(b"18446744073709551615")));
    let uuid = *b"\x12\x34\x56\x78\x12\x34\x56\x78\x12\x34\x56\x78\x12\x34\x56\x7a";
    check(0, Value::Uuid(&uuid), id(Some(b"urn:uuid:12345678-1234-5678-1234-56781234567a")));
    let fields = TableWriter::fields(|table| table.put(b"x-message-id", Field::Bytes(b"\0\x01")));
    let headers =
        |fields| NewProperties { headers: Some(Table::new(fields).unwrap()), ..NewProperties::default() };
    check(0, Value::Binary(b"\0\x01"), headers(&fields));
    let fields = TableWriter::fields(|table| table.put(b"x-correlation-id", Field::Text(long.as_bytes())));
    check(5, Value::String(&long), headers(&fields));
    check(6, Value::Symbol(&long), NewProperties::default());
    check(10, Value::String(&long), NewProperties::default());
}

#[test]
fn application_properties_and_annotations_become_headers() {
    let check = |section: u8, name: &str, value: Value<'_>, expected: Option<Field<'_>>| {
        to_091(&with_map(section, &[(name, value)]), |properties, _| {
            let name = if name == "x-cc" { "CC" } else { name };
            let headers = properties.headers();
            assert_eq!(headers.and_then(|headers| headers.get(name.as_bytes())), expected, "{name}");
        });
    };
    let uuid = [0xab; 16];
    let simple = [
        (Value::String("str"), Field::Text(b"str")),
        (Value::Symbol("sy"), Field::Text(b"sy")),
        (Value::Binary(b"\0\xff"), Field::Text(b"\0\xff")),
        (Value::Null, Field::Void),
        (Value::Boolean(true), Field::Bool(true)),
        (Value::Ubyte(200), Field::U8(200)),
        (Value::Ushort(60_000), Field::U16(60_000)),
        (Value::Uint(4_000_000_000), Field::U32(4_000_000_000)),
        (Value::Ulong(5), Field::I64(5)),
        (Value::Byte(-3), Field::I8(-3)),
        (Value::Short(-300), Field::I16(-300)),
        (Value::Int(-70_000), Field::I32(-70_000)),
        (Value::Long(1), Field::I64(1)),
        (Value::Float(1.5), Field::F32(1.5)),
        (Value::Double(2.5), Field::F64(2.5)),
        (Value::Timestamp(1_700_000_000_123), Field::Timestamp(1_700_000_000)),
        (Value::Timestamp(-1500), Field::Timestamp(u64::MAX)),
        (Value::Char(0xe9), Field::Text("é".as_bytes())),
        (Value::Uuid(&uuid), Field::Text(b"urn:uuid:abababab-abab-abab-abab-abababababab")),
    ];
    for (value, field) in simple {
        check(descriptor::APPLICATION_PROPERTIES, "h", value, Some(field));
        check(descriptor::APPLICATION_PROPERTIES, "x-h", value, Some(field));
        check(descriptor::MESSAGE_ANNOTATIONS, "x-h", value, Some(field));
    }
    let fields = TableWriter::fields(|table| table.put(b"a", Field::I64(1)));
    let table = Field::Table(Table::new(&fields).unwrap());
    check(descriptor::MESSAGE_ANNOTATIONS, "x-m", Value::Map(Map::new(2, b"\xa3\x01a\x55\x01")), Some(table));
    let fields = TableWriter::fields(|table| table.array(b"a", [Field::I64(1), Field::Text(b"a")]));
    let (_, array) = Table::new(&fields).unwrap().iter().next().unwrap();
    let list = Value::List(crate::amqp10::List::new(2, b"\x55\x01\xa1\x01a"));
    check(descriptor::MESSAGE_ANNOTATIONS, "x-l", list, Some(array));
    check(descriptor::MESSAGE_ANNOTATIONS, "x-cc", list, Some(array));
    check(descriptor::MESSAGE_ANNOTATIONS, "x-exchange", Value::Null, None);
    check(descriptor::MESSAGE_ANNOTATIONS, "x-death", list, None);
    check(descriptor::MESSAGE_ANNOTATIONS, "x-opt-deaths", list, None);
    check(descriptor::MESSAGE_ANNOTATIONS, "x-d", Value::Decimal32(&[0x22, 0x50, 0, 1]), None);
    let with_decimal = Value::List(crate::amqp10::List::new(3, b"\x55\x01\x74\x22\x50\0\x01\xa1\x01a"));
    check(descriptor::MESSAGE_ANNOTATIONS, "x-l", with_decimal, Some(array));
    check(descriptor::MESSAGE_ANNOTATIONS, "x-basic-app-id", Value::Null, None);
    check(descriptor::APPLICATION_PROPERTIES, &"k".repeat(256), Value::Null, None);
    to_091(
        &with_map(descriptor::MESSAGE_ANNOTATIONS, &[("x-basic-type", Value::String("t"))]),
        |properties, _| {
            assert_eq!((properties.message_type(), properties.headers()), (Some(&b"t"[..]), None));
        },
    );
}

#[test]
fn the_deepest_values_survive() {
    let mut value = vec![0x41];
    for depth in 1..crate::amqp10::value::DEPTH_MAX {
        value = [&[0xd0][..], &(value.len() as u32 + 4).to_be_bytes(), &[0, 0, 0, 1], &value].concat();
        let map = [b"\xa3\x03x-l", &value[..]].concat();
        let mut bytes = Vec::new();
        crate::amqp10::section::write_map(descriptor::MESSAGE_ANNOTATIONS, Map::new(2, &map), &mut bytes);
        bytes.extend_from_slice(BODY);
        if Message::read(&bytes).is_ok() {
            to_091(&bytes, |properties, _| assert!(properties.has_headers(), "depth {depth}"));
        } else {
            assert!(depth + 1 >= crate::amqp10::value::DEPTH_MAX, "depth {depth}");
        }
    }
}

/// Arrays of elements without width in a list or an array: each claims many of them.
#[test]
fn a_few_bytes_do_not_become_many() {
    let check = |constructor: &[u8], array: &[u8]| {
        let arrays = array.repeat(100_000);
        let content = [&100_000_u32.to_be_bytes()[..], constructor, &arrays].concat();
        let list = [&[0xa3, 3, b'x', b'-', b'l'][..], &constructor_of(constructor), &long(&content)].concat();
        let mut bytes = Vec::new();
        crate::amqp10::section::write_map(descriptor::MESSAGE_ANNOTATIONS, Map::new(2, &list), &mut bytes);
        bytes.extend_from_slice(BODY);
        to_091(&bytes, |properties, _| check_growth(bytes.len(), properties.raw().len()));
    };
    for code in 0x40..=0x45 {
        check(&[], &[0xf0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, code]);
        check(&[], &[0xe0, 2, 0xff, code]);
        check(&[0xe0], &[2, 64, code]);
    }
}

/// A list where elements have constructors of their own, an array where one stands in front of all.
fn constructor_of(elements: &[u8]) -> [u8; 1] {
    if elements.is_empty() { [0xd0] } else { [0xf0] }
}

/// With its length in front.
fn long(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

/// The bound on the converted bytes of a message of `len` bytes of 1.0.
fn check_growth(len: usize, converted: usize) {
    assert!(converted <= GROWTH_MAX * len + GROWTH_CONSTANT, "{len} bytes became {converted}");
}

#[test]
fn elements_without_width_are_kept_up_to_a_bound() {
    let arrays = [0xe0, 2, 64, 0x41].repeat(100);
    let value = Value::List(crate::amqp10::List::new(100, &arrays));
    to_091(&with_map(descriptor::MESSAGE_ANNOTATIONS, &[("x-l", value)]), |properties, _| {
        let lists = properties.headers().and_then(|headers| headers.get(b"x-l")).unwrap();
        let lists: Vec<usize> =
            lists.as_array().unwrap().iter().map(|list| list.as_array().unwrap().iter().count()).collect();
        let full = EMPTY_ELEMENTS_TOTAL_MAX as usize / 64;
        assert_eq!(lists, [vec![64; full], vec![0; 100 - full]].concat());
    });
}

/// A value of 1.0 as it may be encoded: its format code, and the bytes behind that.
fn encoded() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let simple = prop_oneof![
        (0x40u8..=0x45).prop_map(|code| (code, vec![])),
        (0x50u8..=0x56, any::<[u8; 1]>()).prop_map(|(code, bytes)| (code, bytes.to_vec())),
        any::<[u8; 4]>().prop_map(|bytes| (0x73, bytes.to_vec())),
        any::<[u8; 8]>().prop_map(|bytes| (0x83, bytes.to_vec())),
        any::<[u8; 16]>().prop_map(|bytes| (0x98, bytes.to_vec())),
        "[a-z]{0,9}".prop_map(|text| (0xa1, [&[text.len() as u8], text.as_bytes()].concat())),
    ];
    simple.prop_recursive(6, 64, 8, |inner| {
        let some = || prop::collection::vec(inner.clone(), 0..8);
        prop_oneof![
            some().prop_map(|values| {
                let values: Vec<Vec<u8>> = values.into_iter().map(whole).collect();
                (0xd0, long(&[&(values.len() as u32).to_be_bytes()[..], &values.concat()].concat()))
            }),
            some().prop_map(|values| {
                let values = values.into_iter().map(|value| [&b"\xa3\x01k"[..], &whole(value)].concat());
                let values: Vec<Vec<u8>> = values.collect();
                (0xd1, long(&[&(values.len() as u32 * 2).to_be_bytes()[..], &values.concat()].concat()))
            }),
            (inner.clone(), 0u8..200).prop_map(|((code, bytes), count)| {
                let elements = bytes.repeat(count.into());
                (0xf0, long(&[&[0, 0, 0, count, code][..], &elements].concat()))
            }),
        ]
    })
}

fn whole((code, bytes): (u8, Vec<u8>)) -> Vec<u8> {
    [&[code][..], &bytes].concat()
}

/// A value of 0-9-1 as it may be encoded.
fn encoded_091() -> impl Strategy<Value = Vec<u8>> {
    let simple = prop_oneof![
        Just(b"V".to_vec()),
        any::<u8>().prop_map(|byte| vec![b'B', byte]),
        any::<[u8; 5]>().prop_map(|bytes| [&b"D"[..], &bytes].concat()),
        any::<[u8; 8]>().prop_map(|bytes| [&b"T"[..], &bytes].concat()),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(|text| [&b"S"[..], &long(&text)].concat()),
    ];
    simple.prop_recursive(6, 64, 8, |inner| {
        let some = || prop::collection::vec(inner.clone(), 0..8);
        prop_oneof![
            some().prop_map(|values| [&b"A"[..], &long(&values.concat())].concat()),
            some().prop_map(|values| {
                let values: Vec<Vec<u8>> = values.iter().map(|value| [&[0][..], value].concat()).collect();
                [&b"F"[..], &long(&values.concat())].concat()
            }),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_nested_grows_by_no_more_than_a_factor(
        values in prop::collection::vec(encoded(), 1..10),
        is_property in any::<bool>(),
    ) {
        let section = if is_property { descriptor::APPLICATION_PROPERTIES } else { descriptor::MESSAGE_ANNOTATIONS };
        let count = values.len() as u32 * 2;
        let pairs = values.into_iter().map(|value| [&b"\xa3\x02x-"[..], &whole(value)].concat());
        let pairs: Vec<u8> = pairs.collect::<Vec<_>>().concat();
        let mut bytes = Vec::new();
        crate::amqp10::section::write_map(section, Map::new(count, &pairs), &mut bytes);
        bytes.extend_from_slice(BODY);
        to_091(&bytes, |properties, _| check_growth(bytes.len(), properties.raw().len()));
    }

    #[test]
    fn what_is_nested_in_0_9_1_grows_by_no_more_than_a_factor(values in prop::collection::vec(encoded_091(), 1..10)) {
        let fields: Vec<Vec<u8>> = values.iter().map(|value| [&b"\x02x-"[..], value].concat()).collect();
        let fields = fields.concat();
        let new = NewProperties { headers: Some(Table::new(&fields).unwrap()), ..NewProperties::default() };
        let mut raw = Vec::new();
        new.write(&mut raw);
        let mut converted = Amqp10::default();
        converted.convert(&Properties::read(&raw).unwrap(), b"", 0);
        let len = converted.bare.len() + converted.annotations.len();
        prop_assert!(len <= GROWTH_MAX * raw.len() + GROWTH_CONSTANT, "{} bytes became {len}", raw.len());
    }
}

proptest! {
    #[test]
    fn any_sections_become_properties(
        sections in prop::collection::vec((0x70u8..0x79, prop::collection::vec(any::<u8>(), 0..30)), 0..5),
    ) {
        let mut bytes = Vec::new();
        for (section, content) in sections {
            bytes.extend([0, 0x53, section, 0xc1, content.len() as u8 + 1, 2]);
            bytes.extend(content);
        }
        bytes.extend_from_slice(BODY);
        if let Ok(message) = Message::read(&bytes) {
            let mut converted = Amqp091::default();
            converted.convert(&message);
            prop_assert!(Properties::read(&converted.properties).is_ok());
            check_growth(bytes.len(), converted.properties.len());
        }
    }

    #[test]
    fn any_properties_become_sections(
        flags in any::<u16>(),
        rest in prop::collection::vec(any::<u8>(), 0..100),
        body in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let raw = [&(flags & !1).to_be_bytes()[..], &rest].concat();
        if let Ok(properties) = Properties::read(&raw) {
            to_10(properties.to_new(), &body, |_| {});
        }
    }
}

/// Text of 0-9-1 properties that 1.0 can say everywhere: symbols hold ASCII only.
fn plain() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop::option::of("[ -~]{0,40}".prop_map(String::into_bytes))
}

/// A header's value that comes back as the same type.
fn field() -> impl Strategy<Value = Field<'static>> {
    prop_oneof![
        any::<bool>().prop_map(Field::Bool),
        any::<i8>().prop_map(Field::I8),
        any::<u8>().prop_map(Field::U8),
        any::<i16>().prop_map(Field::I16),
        any::<u16>().prop_map(Field::U16),
        any::<i32>().prop_map(Field::I32),
        any::<u32>().prop_map(Field::U32),
        any::<i64>().prop_map(Field::I64),
        any::<f32>().prop_filter("comparable", |number| !number.is_nan()).prop_map(Field::F32),
        any::<f64>().prop_filter("comparable", |number| !number.is_nan()).prop_map(Field::F64),
        (0..1_u64 << 50).prop_map(Field::Timestamp),
        Just(Field::Void),
        Just(Field::Text(b"")),
        Just(Field::Text("grün".as_bytes())),
    ]
}

proptest! {
    /// The properties that the table keeps on the way there are kept on the way back: all but cluster-id, and headers
    /// in another order.
    #[test]
    fn properties_come_back_as_they_were(
        (content_type, content_encoding, message_type, user_id) in (plain(), plain(), plain(), plain()),
        (correlation_id, message_id, reply_to, app_id) in (plain(), plain(), plain(), plain()),
        priority in any::<Option<u8>>(),
        durable in any::<bool>(),
        ttl_ms in any::<Option<u32>>(),
        timestamp in prop::option::of(0..1_u64 << 50),
        fields in prop::collection::btree_map("(x-)?[d-w]{1,10}", field(), 0..6),
        body in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let table = TableWriter::fields(|table| {
            // As they come back: application-properties first.
            let (annotations, others): (Vec<_>, Vec<_>) =
                fields.iter().partition(|(name, _)| name.starts_with("x-"));
            others.iter().chain(&annotations).for_each(|(name, value)| table.put(name.as_bytes(), **value));
        });
        let expiration = ttl_ms.map(|ms| ms.to_string());
        let new = NewProperties {
            content_type: content_type.as_deref(),
            content_encoding: content_encoding.as_deref(),
            headers: (!fields.is_empty()).then(|| Table::new(&table).unwrap()),
            delivery_mode: durable.then_some(2),
            priority,
            correlation_id: correlation_id.as_deref(),
            reply_to: reply_to.as_deref(),
            expiration: expiration.as_deref().map(str::as_bytes),
            message_id: message_id.as_deref(),
            timestamp,
            message_type: message_type.as_deref(),
            user_id: user_id.as_deref(),
            app_id: app_id.as_deref(),
            cluster_id: None,
        };
        let mut there = Vec::new();
        to_10(new, &body, |message| {
            message.header.write(&mut there);
            let annotations = message.message_annotations;
            crate::amqp10::section::write_map(descriptor::MESSAGE_ANNOTATIONS, annotations, &mut there);
            there.extend_from_slice(message.bare);
        });
        to_091(&there, |properties, back| {
            assert_eq!(properties.to_new(), new);
            assert_eq!(back, body);
        });
    }

    /// The other way: parts of 1.0 that are not kept have no place in 0-9-1, and are not among these.
    #[test]
    fn sections_come_back_as_they_were(
        ids in (0..3_u8, 0..3_u8),
        text in "[ -~]{0,40}",
        seconds in prop::option::of(-(1_i64 << 50)..1 << 50),
        durable in any::<bool>(),
        priority in any::<Option<u8>>(),
        ttl_ms in any::<Option<u32>>(),
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..4),
    ) {
        let uuid = [0x5a; 16];
        let id = |kind| match kind {
            0 => Value::Null,
            1 => Value::String(&text),
            _ => Value::Uuid(&uuid),
        };
        let mut address = b"/queues/".to_vec();
        base::percent::encode(text.as_bytes(), &mut address);
        let mut fields = [Value::Null; 13];
        fields[0] = id(ids.0);
        fields[1] = Value::Binary(text.as_bytes());
        fields[4] = Value::String(str::from_utf8(&address).unwrap());
        fields[5] = id(ids.1);
        fields[6] = Value::Symbol(&text);
        fields[7] = Value::Symbol(&text);
        fields[9] = seconds.map_or(Value::Null, |seconds| Value::Timestamp(seconds * 1000));
        fields[10] = Value::String(&text);
        let header = Header { durable, priority, ttl_ms, ..Header::default() };
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        properties::write(&fields, &mut bytes);
        for part in &parts {
            let (prefix, len) = crate::amqp10::section::data_prefix(part.len());
            bytes.extend_from_slice(&prefix[..len]);
            bytes.extend_from_slice(part);
        }
        let mut there = (Vec::new(), Vec::new());
        to_091(&bytes, |properties, body| there = (properties.raw().to_vec(), body.to_vec()));
        to_10(Properties::read(&there.0).unwrap().to_new(), &there.1, |message| {
            assert_eq!(message.header, header);
            assert_eq!(message.properties.fields(), fields);
            assert_eq!(message.body.single_data(), Some(&parts.concat()[..]));
        });
    }
}
