#![no_main]
//! Bodies of JSON: any bytes are looked into, and of those that are a document elements are what a parser says they are.

use filter::json::Document;
use filter::{Expression, Limits, Program, Room, Value};
use libfuzzer_sys::fuzz_target;
use serde_json::Value as Json;
use std::sync::LazyLock;

/// Places in lists, of which a parser says the same whatever two members of one name mean to it.
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
    Program::compile(&Expression::parse(text, &Limits::content()).expect("an expression")).expect("a program")
});

fuzz_target!(|bytes: &[u8]| {
    let (body, room) = (Document(bytes), Room::default());
    _ = ALL.evaluate(&body, &room, 0);
    let document = serde_json::from_slice::<Json>(bytes);
    for (places, program) in PLACES.iter() {
        let found = program.evaluate(&body, &room, 0);
        let Ok(document) = &document else { continue };
        let leaf = places.iter().try_fold(document, |json, place| json.as_array()?.get(*place));
        match leaf {
            Some(Json::Bool(truth)) => assert_eq!(found, Value::Bool(*truth)),
            Some(Json::String(text)) => assert_eq!(found, Value::Bytes(text.as_bytes())),
            Some(Json::Number(number)) if number.as_i64().is_some() => {
                assert_eq!(found, Value::Integer(number.as_i64().expect("it is").into()));
            }
            Some(Json::Array(_)) => assert!(matches!(found, Value::Several(_))),
            Some(Json::Number(_)) => {}
            Some(Json::Null | Json::Object(_)) => assert_eq!(found, Value::Null),
            // A member of that number, in a map.
            None => {}
        }
    }
});
