//! Bodies of FIX and NVFIX: fields, their ends, data, tags that come again; and at random against a list of fields.

use crate::document;

use document::Body;
use filter::{Format, Limits, Program, Room};
use proptest::prelude::*;

const TRUE: Option<bool> = Some(true);
const FALSE: Option<bool> = Some(false);
const UNKNOWN: Option<bool> = None;

fn verdict(text: &str, format: Format, body: &[u8]) -> Option<bool> {
    let program = Program::parse(text, &Limits::content()).unwrap_or_else(|error| panic!("{text}: {error}"));
    program.verdict(&Body::Bytes(format, body.to_vec()), &mut Room::default(), 1_000)
}

/// In a body `^` is written for SOH.
fn check_all(format: Format, body: &str, rows: &[(&str, Option<bool>)]) {
    for (text, expected) in rows {
        let bytes = body.replace('^', "\x01");
        assert_eq!(verdict(text, format, bytes.as_bytes()), *expected, "{text} of {body}");
    }
}

const ORDER: &str = "8=FIX.4.4^9=148^35=D^34=1080^49=TESTBUY1^52=20260920-18:14:19.508^56=TESTSELL1^11=636730640278898634^15=USD^\
    21=2^38=7000^40=1^54=1^55=MSFT^60=20260920-18:14:19.492^58=a|b^44=101.2500^43=N^453=2^448=DLR^447=D^452=1^448=EXCH^447=G^452=22^10=092^";

#[test]
fn an_order_is_read_by_its_tags() {
    let rows = [
        ("/55 = 'MSFT'", TRUE),
        ("body[55] = 'MSFT'", TRUE),
        ("body['55'] = 'MSFT'", TRUE),
        ("/35 = 'D' AND /54 = 1 AND /38 >= 5000", TRUE),
        ("/38 * /44 > 700000", TRUE),
        ("/44 = 101.25", TRUE),
        ("/44 = '101.25'", FALSE),
        ("/43 = FALSE", TRUE),
        ("NOT /43", TRUE),
        ("/8 LIKE 'FIX.4%'", TRUE),
        ("/11 = 636730640278898634", TRUE),
        ("/10 = 92", TRUE),
        ("/10 = '092'", TRUE),
        ("/52 > '20260920'", TRUE),
        ("TIMESTAMP(/52) - TIMESTAMP(/60) = 16", TRUE),
        ("TIMESTAMP(/60) = TIMESTAMP('2026-09-20T18:14:19.492Z')", TRUE),
        ("/448 = 'EXCH'", TRUE),
        ("/448[1] = 'EXCH' AND /447[1] = 'G'", TRUE),
        ("/448[0] = 'EXCH'", FALSE),
        ("/448[2] IS NULL", TRUE),
        ("/55[0] = 'MSFT'", TRUE),
        ("ARRAY_LENGTH(/448) = /453", TRUE),
        ("ARRAY_SUM(/452) = 23", TRUE),
        ("body[*]['55'] = 'MSFT'", TRUE),
        ("/65 IS NULL", TRUE),
        ("/5 IS NULL", TRUE),
        ("body['055'] IS NULL", TRUE),
        ("/55/1 IS NULL", TRUE),
        ("/448/a = 1", FALSE),
        ("/55/a = 1", UNKNOWN),
    ];
    check_all(Format::Fix, ORDER, &rows);
    // The form for the eye is the same, but for a value that has the stroke in it.
    let eye = ORDER.replace("a|b", "a").replace('^', "|");
    check_all(Format::Fix, &eye, &rows);
    check_all(Format::Fix, ORDER, &[("/58 = 'a|b'", TRUE)]);
    // Without the first field a stroke is part of a value.
    check_all(
        Format::Fix,
        "55=MSFT|54=1^38=5^",
        &[("/55 = 'MSFT|54=1'", TRUE), ("/54 IS NULL", TRUE), ("/38 = 5", TRUE)],
    );
}

#[test]
fn data_is_as_long_as_the_field_before_says() {
    for (body, rows) in [
        (
            "95=7^96=a^b=c^d^55=X^",
            &[("/96 = 0x6101623D630164", TRUE), ("/55 = 'X'", TRUE), ("/95 = 7", TRUE)][..],
        ),
        ("93=3^89=^^^^10=1^", &[("LENGTH(/89) = 3", TRUE), ("/10 = 1", TRUE)]),
        ("354=0^355=^55=X^", &[("/355 = ''", TRUE), ("/55 = 'X'", TRUE)]),
        ("95=2^96=a^b^96=c^55=X^", &[("/96 = 'b'", UNKNOWN), ("/55 = 'X'", UNKNOWN)]),
        ("95=3^96=a^b^96=c^55=X^", &[("/96 = 'c'", TRUE), ("/55 = 'X'", TRUE)]),
        // A length that is wrong, or none: nothing behind it is known.
        ("95=2^96=abc^55=X^", &[("/95 = 2", TRUE), ("/96 IS NULL", UNKNOWN), ("/55 = 'X'", UNKNOWN)]),
        ("95=99999999999999999999^96=a^", &[("/96 = 'a'", UNKNOWN)]),
        ("95=99^96=a^", &[("/96 = 'a'", UNKNOWN)]),
        ("95=x^96=a^55=X^", &[("/55 = 'X'", UNKNOWN)]),
        ("95=^96=a^55=X^", &[("/55 = 'X'", UNKNOWN)]),
        // Only the field behind it.
        ("95=9^55=X^96=a^", &[("/55 = 'X'", TRUE), ("/96 = 'a'", TRUE)]),
        ("96=a^55=X^", &[("/96 = 'a'", TRUE), ("/55 = 'X'", TRUE)]),
        ("8=FIX.4.4|95=5|96=a|b|c|55=X|", &[("/96 = 'a|b|c'", TRUE), ("/55 = 'X'", TRUE)]),
    ] {
        check_all(Format::Fix, body, rows);
    }
    // In NVFIX numbers are names as others.
    check_all(Format::NameValueFix, "95=3^96=a^b=c^", &[("/96 = 'a'", TRUE), ("/b = 'c'", TRUE)]);
}

#[test]
fn nothing_behind_a_fault_counts() {
    let fix = Format::Fix;
    for (format, body, rows) in [
        (
            fix,
            "55=X^54^38=5^",
            &[("/55 = 'X'", TRUE), ("/55 = 'Y'", UNKNOWN), ("/38 = 5", UNKNOWN), ("/1 IS NULL", UNKNOWN)][..],
        ),
        (fix, "55=X^a=1^38=5^", &[("/55 = 'X'", TRUE), ("/38 = 5", UNKNOWN)]),
        (fix, "55=X^=1^38=5^", &[("/38 = 5", UNKNOWN)]),
        (fix, "55=X^^38=5^", &[("/38 = 5", UNKNOWN)]),
        (fix, "55=X^1234567890=1^38=5^", &[("/38 = 5", UNKNOWN)]),
        // The last field is cut off, or may be.
        (fix, "55=X^54=1", &[("/55 = 'X'", TRUE), ("/54 = 1", UNKNOWN), ("/54 IS NULL", UNKNOWN)]),
        (fix, "55=X^54", &[("/54 IS NULL", UNKNOWN)]),
        (fix, "55=X^54=1^\r\n ", &[("/54 = 1", TRUE), ("/1 IS NULL", TRUE)]),
        (fix, "", &[("/1 IS NULL", TRUE)]),
        (
            fix,
            "55=X^55=Y^5",
            &[
                ("/55[0] = 'X'", TRUE),
                ("/55[0] = 'Z'", FALSE),
                ("/55[2] = 'Z'", UNKNOWN),
                ("/55 = 'Z'", UNKNOWN),
            ],
        ),
        (fix, "8=FIX.4.4", &[("/8 = 'FIX.4.4'", UNKNOWN)]),
        (Format::NameValueFix, "a=1^b=2", &[("/a = 1", TRUE), ("/b = 2", TRUE), ("/c IS NULL", TRUE)]),
        (Format::NameValueFix, "a=1^b=x\r\n", &[("/b = 'x'", TRUE)]),
        (
            Format::NameValueFix,
            "a=1^b^c=3",
            &[("/a = 1", TRUE), ("/b IS NULL", UNKNOWN), ("/c = 3", UNKNOWN)],
        ),
        (Format::NameValueFix, "a=1^b", &[("/b IS NULL", UNKNOWN)]),
        (
            Format::NameValueFix,
            "=x^a=b=c^A b=1^",
            &[("body[''] = 'x'", TRUE), ("/a = 'b=c'", TRUE), ("body['A b'] = 1", TRUE)],
        ),
        (Format::NameValueFix, "8=FIX|a=1^b=2", &[("/8 = 'FIX|a=1'", TRUE), ("/b = 2", TRUE)]),
    ] {
        check_all(format, body, rows);
    }
}

#[test]
fn bodies_beyond_their_bound_are_unknown_from_there_on() {
    for format in [Format::Fix, Format::NameValueFix] {
        let mut body = b"55=X\x01".to_vec();
        while body.len() < (1 << 20) - 20 {
            body.extend(b"58=0123456789abcde\x01");
        }
        let last = format!("44={}\x01", "7".repeat((1 << 20) - body.len() - 4));
        body.extend(last.bytes());
        assert_eq!(body.len(), 1 << 20);
        assert_eq!(verdict("/54 IS NULL", format, &body), TRUE);
        assert_eq!(verdict("/44 LIKE '77%'", format, &body), TRUE);
        body.extend(b"54=1\x01");
        assert_eq!(verdict("/54 IS NULL", format, &body), UNKNOWN);
        assert_eq!(verdict("/44 LIKE '77%' AND /55 = 'X'", format, &body), TRUE);
        body.truncate(1 << 20);
        body[(1 << 20) - 1] = b'7';
        body.extend(b"7\x01");
        assert_eq!(verdict("/44 LIKE '77%'", format, &body), UNKNOWN);
    }
    // Of a tag that comes again 1,024 times count.
    let many: String = (0..3000).map(|number| format!("1={number}\x01")).collect();
    for (text, expected) in
        [("/1 = 1023", TRUE), ("/1 = 1024", UNKNOWN), ("/1[2000] = 2000", TRUE), ("/1[3000] IS NULL", TRUE)]
    {
        assert_eq!(verdict(text, Format::Fix, many.as_bytes()), expected, "{text}");
    }
}

fn fields() -> impl Strategy<Value = Vec<(u32, Vec<u8>)>> {
    let tag = prop::sample::select(&[1, 8, 35, 55, 448, 95, 96, 93, 89, 40004, 40005, 999_999_999][..]);
    let value = prop::collection::vec(prop::sample::select(&b"0159.-Xa=| Y\xff"[..]), 0..20);
    prop::collection::vec((tag, value), 0..12)
}

fn quoted(value: &[u8]) -> String {
    "0x".to_owned() + &value.iter().map(|byte| format!("{byte:02X}")).collect::<String>()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn fields_are_found_as_they_were_written(fields in fields(), tag in prop::sample::select(&[1, 8, 35, 55, 448, 96, 89][..]), cut in any::<prop::sample::Index>()) {
        let lengths = [95, 93, 40004];
        let mut body = Vec::new();
        let mut values = Vec::new();
        for (of, value) in &fields {
            // Data is written with its length, and may then hold any byte.
            let (length, data) = match of {
                96 => (Some(95), [value, &b"\x01|="[..]].concat()),
                89 => (Some(93), [&b"\x01"[..], value].concat()),
                of if lengths.contains(of) => continue,
                _ => (None, value.clone()),
            };
            if let Some(length) = length {
                body.extend(format!("{length}={}\x01", data.len()).bytes());
            }
            body.extend(format!("{of}=").bytes());
            body.extend(&data);
            body.push(1);
            values.extend((*of == tag && !data.is_empty()).then_some(data));
        }
        // A stroke in the version would end all fields.
        let first = fields.iter().find(|(of, _)| !lengths.contains(of));
        let is_plain = first.is_none_or(|(of, value)| *of != 8 || !value.contains(&b'|'));
        let equal = |value: &[u8]| format!("/{tag} = {}", quoted(value));
        let none = format!("/{tag} = 'nothing is so'");
        if is_plain {
            for (place, value) in values.iter().enumerate() {
                prop_assert_eq!(verdict(&equal(value), Format::Fix, &body), TRUE);
                prop_assert_ne!(verdict(&format!("/{tag} = {} AND /{tag}[{place}] IS NULL", quoted(value)), Format::Fix, &body), TRUE);
            }
            let is_there = fields.iter().any(|(of, _)| *of == tag);
            prop_assert_eq!(verdict(&none, Format::Fix, &body), is_there.then_some(false));
            prop_assert_eq!(verdict(&format!("EXISTS(/{tag})"), Format::Fix, &body), Some(is_there));
        }
        // Nothing is true of a part that is not of the whole.
        let part = &body[..cut.index(body.len() + 1)];
        for value in &values {
            if verdict(&equal(value), Format::Fix, part) == TRUE {
                prop_assert_eq!(verdict(&equal(value), Format::Fix, &body), TRUE);
            }
        }
        prop_assert_ne!(verdict(&none, Format::Fix, part), TRUE);
    }
}
