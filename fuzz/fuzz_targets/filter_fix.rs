#![no_main]
//! Bodies of FIX and NVFIX: any bytes are looked into, and a field of which no other is like has its value.

use filter::{Field, Fields, Format, Found, Limits, Paths, Program, Room, Value};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

struct Body<'b>(Format, &'b [u8]);

impl Fields for Body<'_> {
    fn field(&self, _field: Field<'_>) -> Option<Value<'_>> {
        None
    }

    fn body<'a>(&'a self, paths: &Paths, found: &mut Found<'a>) -> bool {
        self.0.find(self.1, paths, found)
    }
}

fn program(text: &str) -> Program {
    Program::parse(text, &Limits::content()).expect("an expression")
}

static ALL: LazyLock<Program> = LazyLock::new(|| {
    program("/55 = 'IBM' OR /44 > /38 OR /448[1] = 'x' OR /96 IS NULL OR body[*].a = 1 OR ARRAY_MAX(/55) = 1 OR /a OR /55 BETWEEN 1 AND 'x'")
});

static ONE: LazyLock<Program> = LazyLock::new(|| program("/1"));

fuzz_target!(|bytes: &[u8]| {
    let room = Room::default();
    for format in [Format::Fix, Format::NameValueFix] {
        _ = ALL.evaluate(&Body(format, bytes), &room, 0);
    }
    // Names hold no other sign, so a naive reader of names is right.
    let fields: Vec<_> = bytes.split_inclusive(|byte| *byte == 1).collect();
    let is_field = |field: &&[u8]| field.contains(&b'=') && field.ends_with(&[1]) && !field[0].is_ascii_whitespace();
    if !fields.iter().all(is_field) {
        return;
    }
    let values: Vec<_> = fields.iter().filter_map(|field| field.strip_prefix(b"1=")?.strip_suffix(&[1])).collect();
    let body = Body(Format::NameValueFix, bytes);
    match (ONE.evaluate(&body, &room, 0), &values[..]) {
        (Value::Null, []) => {}
        (Value::Untyped(value), [one]) => assert_eq!(value.text(), *one),
        (Value::Several(several), values) => assert_eq!(several.len(), values.len().min(filter::VALUES_MAX + 1)),
        (found, values) => panic!("{found:?} of {values:?}"),
    }
});
