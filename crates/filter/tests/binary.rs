//! MessagePack and CBOR byte by byte: every form of a value, and every way to be malformed.

use crate::document;

use document::{Body, Doc};
use filter::{Expression, Format, Limits, Name, Path, Program, Room, Step, Value};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hex"))
        .collect()
}

/// A body in words: what is there, or `unknown`.
fn shown(format: Format, body: &[u8]) -> String {
    let path = Path::new(vec![Step::Each]).expect("a step");
    let body = Body::Bytes(format, body.to_vec());
    let room = Room::default();
    let is_null = Program::compile(&Expression::IsNull(Name::Body(path.clone()))).expect("one");
    let is_null = is_null.evaluate(&body, &room, 0);
    let value = Program::compile(&Expression::Field(Name::Body(path))).expect("one");
    match (value.evaluate(&body, &room, 0), is_null) {
        (Value::Null, Value::Bool(true)) => "null".to_owned(),
        (Value::Null, Value::Bool(false)) => "something".to_owned(),
        (Value::Null, _) => "unknown".to_owned(),
        (Value::Bytes(text), _) => format!("{:?}", String::from_utf8_lossy(text)),
        (Value::Several(values), _) => {
            let one = |value: &Value<'_>| match value {
                Value::Integer(number) => number.to_string(),
                Value::Unreadable => "unknown".to_owned(),
                other => format!("{other:?}"),
            };
            format!("[{}]", values.iter().map(one).collect::<Vec<_>>().join(", "))
        }
        (Value::Integer(number), _) => number.to_string(),
        (Value::Float(number), _) => format!("{number:?}"),
        (Value::Bool(truth), _) => truth.to_string(),
        (other, _) => format!("{other:?}"),
    }
}

fn check_all(format: Format, rows: &[(&str, &str)]) {
    for (hex, expected) in rows {
        assert_eq!(shown(format, &bytes(hex)), *expected, "{hex}");
    }
}

#[test]
fn every_form_of_message_pack_is_read() {
    check_all(
        Format::MessagePack,
        &[
            ("00", "0"),
            ("7f", "127"),
            ("e0", "-32"),
            ("ff", "-1"),
            ("cc ff", "255"),
            ("cd ffff", "65535"),
            ("ce ffffffff", "4294967295"),
            ("cf ffffffffffffffff", "18446744073709551615"),
            ("d0 80", "-128"),
            ("d1 8000", "-32768"),
            ("d2 80000000", "-2147483648"),
            ("d3 8000000000000000", "-9223372036854775808"),
            ("ca 3fc00000", "1.5"),
            ("cb 3ff8000000000000", "1.5"),
            ("ca 7f800000", "null"),
            ("cb fff8000000000000", "null"),
            ("c0", "null"),
            ("c2", "false"),
            ("c3", "true"),
            ("a0", "\"\""),
            ("a3 616263", "\"abc\""),
            ("d9 01 61", "\"a\""),
            ("da 0001 61", "\"a\""),
            ("db 00000001 61", "\"a\""),
            ("c4 01 61", "\"a\""),
            ("c5 0001 61", "\"a\""),
            ("c6 00000001 61", "\"a\""),
            ("90", "[]"),
            ("92 01 02", "[1, 2]"),
            ("dc 0002 01 02", "[1, 2]"),
            ("dd 00000002 01 02", "[1, 2]"),
            ("80", "something"),
            ("de 0000", "something"),
            ("df 00000000", "something"),
            ("81 01 02", "something"),
            // Timestamps of 32, 64 and 96 bits, and what is none.
            ("d6 ff 00000001", "1000"),
            ("d7 ff 0000000000000001", "1000"),
            ("d7 ff 773593fc00000002", "2499"),
            ("d7 ff ee6b280000000001", "something"),
            ("c7 0c ff 1dcd6500 ffffffffffffffff", "-500"),
            ("c7 0c ff 3b9aca00 0000000000000001", "something"),
            ("c7 05 ff 0000000001", "something"),
            ("d4 05 00", "something"),
            ("d5 05 0000", "something"),
            ("d8 05 00000000000000000000000000000000", "something"),
            ("c7 00 05", "something"),
            ("c8 0001 05 00", "something"),
            ("c9 00000001 05 00", "something"),
            // Malformed, cut off, or with something behind: then it is there, and unknown.
            ("", "unknown"),
            ("c1", "unknown"),
            ("cc", "unknown"),
            ("cd ff", "unknown"),
            ("a3 6162", "unknown"),
            ("db ffffffff 61", "unknown"),
            ("c6 ffffffff", "unknown"),
            ("c9 ffffffff ff", "unknown"),
            ("d6 ff 000000", "unknown"),
            ("92 01", "[1, unknown]"),
            ("dd ffffffff 01", "[1, unknown]"),
            ("93 01 c1 02", "[1, unknown]"),
            ("00 00", "something"),
        ],
    );
}

#[test]
fn every_form_of_cbor_is_read() {
    check_all(
        Format::Cbor,
        &[
            ("00", "0"),
            ("17", "23"),
            ("18 18", "24"),
            ("19 03e8", "1000"),
            ("1a 000f4240", "1000000"),
            ("1b ffffffffffffffff", "18446744073709551615"),
            ("c2 49 010000000000000000", "18446744073709551616"),
            ("3b ffffffffffffffff", "-18446744073709551616"),
            ("c3 49 010000000000000000", "-18446744073709551617"),
            ("20", "-1"),
            ("39 03e7", "-1000"),
            ("f9 3e00", "1.5"),
            ("f9 0001", "5.960464477539063e-8"),
            ("fa 47c35000", "100000.0"),
            ("fb c010666666666666", "-4.1"),
            ("f9 7c00", "null"),
            ("f9 7e00", "null"),
            ("fb 7ff0000000000000", "null"),
            ("f4", "false"),
            ("f5", "true"),
            ("f6", "null"),
            ("f7", "null"),
            ("f0", "something"),
            ("f8 ff", "something"),
            ("40", "\"\""),
            ("43 616263", "\"abc\""),
            ("60", "\"\""),
            ("62 c3bc", "\"ü\""),
            ("78 01 61", "\"a\""),
            ("79 0001 61", "\"a\""),
            ("7a 00000001 61", "\"a\""),
            ("7b 0000000000000001 61", "\"a\""),
            ("80", "[]"),
            ("83 01 02 03", "[1, 2, 3]"),
            ("98 02 01 02", "[1, 2]"),
            ("a0", "something"),
            ("a1 01 02", "something"),
            // Of indefinite length.
            ("9f ff", "[]"),
            ("9f 01 02 ff", "[1, 2]"),
            ("bf ff", "something"),
            ("bf 61 61 01 ff", "something"),
            ("7f ff", "\"\""),
            ("7f 61 61 ff", "\"a\""),
            ("7f 61 61 60 62 6263 ff", "\"abc\""),
            ("5f 41 61 41 62 ff", "\"ab\""),
            ("c2 5f 41 01 41 00 ff", "256"),
            // Tags.
            ("c0 74 323031332d30332d32315432303a30343a30305a", "\"2013-03-21T20:04:00Z\""),
            ("c1 1a 514b67b0", "1363896240000"),
            ("c1 fb 41d452d9ec200000", "1363896240500"),
            ("c1 20", "-1000"),
            ("c1 61 61", "\"a\""),
            ("c1 f9 7e00", "null"),
            ("c2 40", "0"),
            ("c2 61 61", "\"a\""),
            ("c2 05", "5"),
            ("d7 44 01020304", "\"\\u{1}\\u{2}\\u{3}\\u{4}\""),
            ("d9 d9f7 05", "5"),
            ("d9 d9f7 d9 d9f7 82 01 02", "[1, 2]"),
            ("c4 82 21 19 6ab3", "something"),
            ("c5 82 20 03", "something"),
            ("d8 1e 82 01 03", "something"),
            ("d9 0108 9f 01 03 ff", "something"),
            ("c4 05", "5"),
            ("83 c4 82 21 19 6ab3 02 03", "[Composite, 2, 3]"),
            // Malformed, cut off, or with something behind: then it is there, and unknown.
            ("", "unknown"),
            ("ff", "unknown"),
            ("1c", "unknown"),
            ("1f", "unknown"),
            ("df 00", "unknown"),
            ("fc", "unknown"),
            ("f8 18", "unknown"),
            ("f8", "unknown"),
            ("18", "unknown"),
            ("62 61", "unknown"),
            ("7b ffffffffffffffff 61", "unknown"),
            ("7f 41 61 ff", "unknown"),
            ("7f 7f 61 61 ff ff", "unknown"),
            ("7f 61 61", "unknown"),
            ("82 01", "[1, unknown]"),
            ("82 01 ff", "[1, unknown]"),
            ("9f 01", "[1, unknown]"),
            ("9b ffffffffffffffff 01", "[1, unknown]"),
            ("c1", "unknown"),
            ("c4 82 01", "unknown"),
            ("00 00", "something"),
        ],
    );
}

#[test]
fn keys_are_texts_bytes_and_numbers() {
    for (format, hex, rows) in [
        (
            Format::MessagePack,
            // {55: 1, "44": 2, bin "b": 3, nil: 4, [1]: 5, -1: 6, 55: 7, "c": 8}
            "88 37 01 a2 3434 02 c4 01 62 03 c0 04 91 01 05 ff 06 cd 0037 07 a1 63 08",
            &[
                ("/55 = 1", true),
                ("/44 = 2", true),
                ("/b = 3", true),
                ("/c = 8", true),
                ("body['55'] IS NULL", true),
            ][..],
        ),
        (
            Format::Cbor,
            "a8 18 37 01 62 3434 02 41 62 03 f6 04 81 01 05 20 06 19 0037 07 61 63 08",
            &[
                ("/55 = 1", true),
                ("/44 = 2", true),
                ("/b = 3", true),
                ("/c = 8", true),
                ("body['55'] IS NULL", true),
            ],
        ),
        (
            Format::Cbor,
            "bf c2 41 37 01 7f 61 61 61 62 ff 02 d8 20 61 62 03 ff",
            &[("/55 = 1", true), ("/ab = 2", true), ("/b = 3", true)],
        ),
        // The map ends behind a key.
        (
            Format::Cbor,
            "bf 61 61 01 61 62 ff",
            &[("/a = 1", true), ("/b IS NULL", false), ("EXISTS(/b)", false)],
        ),
    ] {
        let body = Body::Bytes(format, bytes(hex));
        for (text, expected) in rows {
            let program = Program::parse(text, &Limits::content()).expect("an expression");
            assert_eq!(program.matches(&body, &mut Room::default(), 0), *expected, "{text} of {hex}");
        }
    }
}

/// A value that is passed over takes neither memory nor stack, and is bounded where it would.
#[test]
fn nothing_is_too_deep() {
    let program = Program::parse("/z = 1", &Limits::content()).expect("an expression");
    let verdict =
        |format, body: Vec<u8>| program.verdict(&Body::Bytes(format, body), &mut Room::default(), 0);
    let message_pack =
        |deep: usize| [&[0x82, 0xA1, b'a'][..], &vec![0x91; deep], &[1, 0xA1, b'z', 1]].concat();
    let cbor = |deep: usize| [&[0xA2, 0x61, b'a'][..], &vec![0x81; deep], &[1, 0x61, b'z', 1]].concat();
    let tags =
        |deep: usize| [&[0xA2, 0x61, b'a'][..], &vec![0xC6; deep], &[1, 0x61, b'z', 0xC6, 0xC6, 1]].concat();
    for deep in [0, 1, 1000, 1_000_000] {
        assert_eq!(verdict(Format::MessagePack, message_pack(deep)), Some(true), "{deep}");
        assert_eq!(verdict(Format::Cbor, cbor(deep)), Some(true), "{deep}");
        assert_eq!(verdict(Format::Cbor, tags(deep)), Some(true), "{deep}");
    }
    let indefinite = |deep: usize| {
        [&[0xA2, 0x61, b'a'][..], &vec![0x9F; deep], &vec![0xFF; deep], &[0x61, b'z', 1]].concat()
    };
    assert_eq!(verdict(Format::Cbor, indefinite(64)), Some(true));
    assert_eq!(verdict(Format::Cbor, indefinite(65)), None);
    assert_eq!(verdict(Format::Cbor, indefinite(500_000)), None);
}

/// Of a list 1,024 values count, and those behind them are passed over: a large one costs no more than its bytes.
#[test]
fn a_large_list_costs_little() {
    let numbers = Doc::List((0..60_000).map(Doc::Integer).collect());
    let late = Doc::List([vec![Doc::Null; 2000], vec![Doc::Integer(5)]].concat());
    let doc =
        Doc::Map(vec![("l".to_owned(), numbers), ("n".to_owned(), late), ("z".to_owned(), Doc::Bool(true))]);
    for (name, body) in doc.bodies() {
        for (text, expected) in [
            ("/l = 1023", Some(true)),
            ("/l = 1024", None),
            ("body.l[*] = 1023", Some(true)),
            ("body.l[*] = 1024", None),
            ("/l[50000] = 50000", Some(true)),
            ("EXISTS(/n) AND EXISTS(body.n[*])", Some(true)),
            ("/l = 7 AND /z", Some(true)),
        ] {
            let program = Program::parse(text, &Limits::content()).expect("an expression");
            let mut room = Room::default();
            assert_eq!(program.verdict(&body, &mut room, 0), expected, "{text} in {name}");
            let is_cheap = text.contains("50000") || room.spent() < 60_000;
            assert!(is_cheap, "{} units for {text} in {name}", room.spent());
        }
    }
}
