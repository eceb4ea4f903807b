#![no_main]
//! Bodies of MessagePack: any bytes are looked into, and of those that another library reads elements are what it says they are.

use filter::{Field, Fields, Format, Found, Limits, Paths, Program, Room, Value};
use libfuzzer_sys::fuzz_target;
use rmpv::Value as Pack;
use std::sync::LazyLock;

struct Body<'b>(&'b [u8]);

impl Fields for Body<'_> {
    fn field(&self, _field: Field<'_>) -> Option<Value<'_>> {
        None
    }

    fn body<'a>(&'a self, paths: &Paths, found: &mut Found<'a>) -> bool {
        Format::MessagePack.find(self.0, paths, found)
    }
}

/// Places in lists.
static PLACES: LazyLock<Vec<(Vec<usize>, Program)>> = LazyLock::new(|| {
    let places = [vec![0], vec![1], vec![2], vec![0, 0], vec![1, 0], vec![0, 1], vec![0, 0, 0]];
    let of = |places: Vec<usize>| {
        let text = places.iter().fold("body".to_owned(), |text, place| format!("{text}[{place}]"));
        let program = Program::parse(&text, &Limits::content()).expect("a path");
        (places, program)
    };
    places.into_iter().map(of).collect()
});

static ALL: LazyLock<Program> = LazyLock::new(|| {
    let text = "body.a = 1 OR body.a.b = body[*].a OR body[0].a[1] = 'x' OR body['0'] IS NULL OR EXISTS(body.a[*][0])";
    Program::parse(text, &Limits::content()).expect("an expression")
});

fuzz_target!(|bytes: &[u8]| {
    let (body, room) = (Body(bytes), Room::default());
    _ = ALL.evaluate(&body, &room, 0);
    let mut rest = bytes;
    // To that library 0xC1, which is never used, is null.
    let document = match rmpv::decode::read_value(&mut rest) {
        Ok(document) if rest.is_empty() && !bytes.contains(&0xC1) => Some(document),
        _ => None,
    };
    for (places, program) in PLACES.iter() {
        let found = program.evaluate(&body, &room, 0);
        let Some(document) = &document else { continue };
        let leaf = places.iter().try_fold(document, |value, place| value.as_array()?.get(*place));
        match leaf {
            Some(Pack::Boolean(truth)) => assert_eq!(found, Value::Bool(*truth)),
            Some(Pack::String(text)) => assert_eq!(found, Value::Bytes(text.as_bytes())),
            Some(Pack::Binary(bytes)) => assert_eq!(found, Value::Bytes(bytes)),
            Some(Pack::Integer(number)) if number.as_i64().is_some() => {
                assert_eq!(found, Value::Integer(number.as_i64().expect("it is").into()));
            }
            Some(Pack::F64(number)) if number.is_finite() => assert_eq!(found, Value::Float(*number)),
            Some(Pack::Array(_)) => assert!(matches!(found, Value::Several(_))),
            Some(Pack::Nil | Pack::Map(_)) => assert_eq!(found, Value::Null),
            Some(Pack::Integer(_) | Pack::F32(_) | Pack::F64(_) | Pack::Ext(..)) => {}
            // A member of that number, in a map.
            None => {}
        }
    }
});
