//! Bodies of JSON at random: paths find what they find in the tree, whatever the document looks like, and of one that is cut
//! off nothing else.

use crate::message;

use filter::{Expression, Name, Path, Program, Room, Step, Value};
use message::Message;
use proptest::prelude::*;
use serde_json::Value as Json;

/// The finds of a path.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Nothing,
    One(Leaf),
    Several(Vec<Leaf>),
}

#[derive(Clone, Debug, PartialEq)]
enum Leaf {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    Composite,
}

fn leaf(json: &Json) -> Leaf {
    match json {
        Json::Null => Leaf::Null,
        Json::Bool(truth) => Leaf::Bool(*truth),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Leaf::Integer(number.into()),
            (None, Some(number)) => Leaf::Integer(number.into()),
            (None, None) => Leaf::Float(number.as_f64().expect("a number")),
        },
        Json::String(text) => Leaf::Text(text.clone()),
        Json::Array(_) | Json::Object(_) => Leaf::Composite,
    }
}

/// The values in a tree, and whether there may be several.
fn look(json: &Json, steps: &[Step], into: &mut Vec<Leaf>) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        return match json {
            Json::Array(elements) => {
                into.extend(elements.iter().map(leaf));
                true
            }
            json => {
                into.push(leaf(json));
                false
            }
        };
    };
    match (step, json) {
        (Step::Each, Json::Array(elements)) => {
            elements.iter().for_each(|element| _ = look(element, rest, into));
            true
        }
        (Step::Each, json) => look(json, rest, into),
        (Step::Number(place), Json::Array(elements)) => {
            elements.get(*place as usize).is_some_and(|element| look(element, rest, into))
        }
        (Step::Number(number), Json::Object(members)) => {
            members.get(&number.to_string()).is_some_and(|member| look(member, rest, into))
        }
        (Step::Name(name), Json::Object(members)) => {
            members.get(name).is_some_and(|member| look(member, rest, into))
        }
        (Step::Name(name), Json::Array(elements)) => {
            for element in elements {
                if let Json::Object(members) = element
                    && let Some(member) = members.get(name)
                {
                    look(member, rest, into);
                }
            }
            true
        }
        _ => false,
    }
}

fn expected(json: &Json, path: &Path) -> Seen {
    let mut leaves = Vec::new();
    match look(json, path.steps(), &mut leaves) {
        true => Seen::Several(leaves),
        false => leaves.pop().map_or(Seen::Nothing, Seen::One),
    }
}

fn leaf_of(value: Value<'_>) -> Option<Leaf> {
    Some(match value {
        Value::Null => Leaf::Null,
        Value::Bool(truth) => Leaf::Bool(truth),
        Value::Integer(number) => Leaf::Integer(number),
        Value::Float(number) => Leaf::Float(number),
        Value::Bytes(text) => Leaf::Text(String::from_utf8(text.to_vec()).expect("UTF-8")),
        Value::Composite => Leaf::Composite,
        Value::Unreadable => return None,
        Value::Several(_) => panic!("several in several"),
        Value::Untyped(_) => panic!("JSON has types"),
    })
}

/// The values at each path, all of them looked for at once, and whether it is null.
fn found(document: &str, paths: &[Path]) -> Vec<(Value<'static>, Vec<Option<Leaf>>, Value<'static>)> {
    let message = Message { body: document.into(), ..Message::default() };
    let one = |path: &Path| {
        // The others are read too, before and after.
        let field = |path: &Path| Expression::Field(Name::Body(path.clone()));
        let all = paths.iter().fold(Expression::Literal(filter::Literal::Bool(false)), |all, other| {
            Expression::Or(Box::new(all), Box::new(Expression::Is(Box::new(field(other)), None)))
        });
        let case = Expression::Case(
            vec![(Expression::Is(Box::new(all), None), Expression::Utc)],
            Some(Box::new(field(path))),
        );
        let program = Program::compile(&case).expect("a small one");
        let room = Room::default();
        let (head, several) = match program.evaluate(&message, &room, 0) {
            Value::Several(values) => {
                (Value::Several(&[]), values.iter().map(|value| leaf_of(*value)).collect())
            }
            value => (Value::Null, vec![leaf_of(value)]),
        };
        let is_null = Program::compile(&Expression::IsNull(Name::Body(path.clone()))).expect("one");
        let is_null = match is_null.evaluate(&message, &room, 0) {
            Value::Bool(truth) => Value::Bool(truth),
            _ => Value::Null,
        };
        (head, several, is_null)
    };
    paths.iter().map(one).collect()
}

const KEYS: [&str; 8] = ["a", "b", "c", "0", "12", "", "k\"\\ey", "sch\u{f6}n \u{1f600}"];

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(&KEYS[..]).prop_map(str::to_owned)
}

fn json() -> impl Strategy<Value = Json> {
    let text = prop::collection::vec(
        prop::sample::select(vec![
            'a',
            '"',
            '\\',
            '{',
            '}',
            '[',
            ']',
            ',',
            ':',
            '\n',
            '\u{1}',
            '\u{f6}',
            '\u{1f600}',
            ' ',
        ]),
        0..90,
    );
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        (-1000..1000i32).prop_map(|number| Json::from(f64::from(number) / 8.0 + 0.0625)),
        any::<f64>().prop_filter_map("finite", |float| float.is_finite().then(|| Json::from(float + 0.1))),
        text.prop_map(|text| Json::String(text.into_iter().collect())),
    ];
    leaf.prop_recursive(5, 60, 6, |inside| {
        prop_oneof![
            prop::collection::vec(inside.clone(), 0..6).prop_map(Json::Array),
            prop::collection::vec((key(), inside), 0..6)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

fn path() -> impl Strategy<Value = Path> {
    let step = prop_oneof![
        5 => key().prop_map(Step::Name),
        2 => prop::sample::select(vec![0, 1, 2, 12]).prop_map(Step::Number),
        1 => Just(Step::Each),
    ];
    prop::collection::vec(step, 1..5).prop_map(|steps| Path::new(steps).expect("a few steps"))
}

/// A document of a tree, with spaces and escapes that say nothing.
fn written(json: &Json, style: u8) -> String {
    let plain =
        if style & 1 == 0 { json.to_string() } else { serde_json::to_string_pretty(json).expect("text") };
    if style & 2 == 0 {
        return plain;
    }
    let mut escaped = String::new();
    for character in plain.chars() {
        match character {
            'a' | '\u{f6}' | '\u{1f600}' => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    escaped.push_str(&format!("\\u{unit:04X}"));
                }
            }
            other => escaped.push(other),
        }
    }
    // Words that are values have no escapes.
    escaped.replace("f\\u0061lse", "false")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn paths_find_what_is_in_the_tree(json in json(), paths in prop::collection::vec(path(), 1..6), style in 0..4u8) {
        let document = written(&json, style);
        for (path, (head, found, is_null)) in paths.iter().zip(found(&document, &paths)) {
            let expected = expected(&json, path);
            let (is_several, leaves) = match expected.clone() {
                Seen::Nothing => (false, vec![Leaf::Null]),
                // A map is none to compare with.
                Seen::One(Leaf::Composite) => (false, vec![Leaf::Null]),
                Seen::One(leaf) => (false, vec![leaf]),
                Seen::Several(leaves) => (true, leaves),
            };
            let leaves: Vec<_> = leaves.into_iter().map(Some).collect();
            prop_assert_eq!((head != Value::Null, &found), (is_several, &leaves), "{:?} in {}", path, document);
            let none = match expected {
                Seen::Nothing => true,
                Seen::One(leaf) => leaf == Leaf::Null,
                Seen::Several(_) => is_null == Value::Bool(true),
            };
            prop_assert_eq!(is_null, Value::Bool(none), "{:?} in {}", path, document);
        }
    }

    #[test]
    fn of_a_document_that_is_cut_off_nothing_else_is_found(
        json in json(),
        paths in prop::collection::vec(path(), 1..6),
        style in 0..4u8,
        cut in any::<prop::sample::Index>(),
        junk in prop::sample::select(&["", "}", "]", "\"", "x", ",", "\\", "\u{f6}", "1", "[[[{"][..]),
    ) {
        let document = written(&json, style);
        let whole = found(&document, &paths);
        let at = (0..=cut.index(document.len() + 1)).rev().find(|at| document.is_char_boundary(*at)).unwrap_or(0);
        let cut = document[..at].to_owned() + junk;
        for (path, (whole, part)) in paths.iter().zip(whole.iter().zip(found(&cut, &paths))) {
            if junk.is_empty() && at < document.trim_end().len() {
                let is_known = part.1.iter().all(|leaf| leaf.as_ref().is_some_and(|leaf| *leaf != Leaf::Null));
                let is_prefix = part.1.iter().zip(&whole.1).all(|(part, whole)| part.is_none() || part == whole || *part == Some(Leaf::Null));
                // A number may be cut off within its digits; nothing stands behind it then.
                let is_number = part.1.iter().any(|leaf| matches!(leaf, Some(Leaf::Integer(_) | Leaf::Float(_))));
                prop_assert!(is_prefix || is_number, "{:?} in {}: {:?}, {:?} in all", path, cut, part, whole);
                prop_assert!(part.2 == Value::Null || part.2 == whole.2 || is_known, "{:?} in {}: null {:?}", path, cut, part.2);
            }
        }
    }

    #[test]
    fn no_bytes_make_a_panic(bytes in prop::collection::vec(prop::sample::select(&b"{}[]\",:\\ 0-1.eEtrufalsn\xc3\xb6\x00\n"[..]), 0..200), paths in prop::collection::vec(path(), 1..6)) {
        let mut wide = vec![b'['; 70];
        wide.extend_from_slice(&bytes);
        for body in [bytes, wide] {
            let message = Message { body, ..Message::default() };
            for path in &paths {
                let program = Program::compile(&Expression::Field(Name::Body(path.clone()))).expect("one");
                let room = Room::default();
                _ = program.evaluate(&message, &room, 0);
            }
        }
    }
}
