//! Documents of a folder, as those of JSONTestSuite: `y_` are such, `n_` are none, of `i_` nobody knows. Every place in those
//! that a parser reads is looked for by its path, and is to have the value that the parser says; of the others nothing behind
//! the place of the fault may count: `cargo run -p filter --example json_suite -- FOLDER`.

use filter::json::Document;
use filter::{Expression, Name, Path, Program, Room, Step, Value};
use serde_json::Value as Json;

/// Places in a tree, and what is there; lists in lists and maps that name a member twice are passed over by the caller.
fn places<'j>(json: &'j Json, steps: &mut Vec<Step>, into: &mut Vec<(Vec<Step>, &'j Json)>) {
    if !steps.is_empty() {
        into.push((steps.clone(), json));
    }
    if steps.len() == filter::STEPS_MAX {
        return;
    }
    match json {
        Json::Array(elements) => {
            for (place, element) in (0..).zip(elements) {
                steps.push(Step::Number(place));
                places(element, steps, into);
                steps.pop();
            }
        }
        Json::Object(members) => {
            for (name, member) in members {
                steps.push(Step::Name(name.clone()));
                places(member, steps, into);
                steps.pop();
            }
        }
        _ => {}
    }
}

fn look<T>(document: &[u8], steps: Vec<Step>, see: impl FnOnce(Value<'_>) -> T) -> T {
    let path = Path::new(steps).expect("a few steps");
    let program = Program::compile(&Expression::Field(Name::Body(path))).expect("a program");
    see(program.evaluate(&Document(document), &Room::default(), 0))
}

fn is_same(found: Value<'_>, json: &Json) -> bool {
    match (json, found) {
        (Json::Null | Json::Object(_), Value::Null) | (Json::Array(_), Value::Several(_)) => true,
        (Json::Bool(truth), Value::Bool(found)) => *truth == found,
        (Json::String(text), Value::Bytes(found)) => text.as_bytes() == found,
        (Json::Number(number), Value::Integer(found)) => {
            number.to_string().parse() == Ok(found) || number.as_f64() == Some(found as f64)
        }
        // The parser rounds the last bit in a hurry.
        (Json::Number(number), Value::Float(found)) => {
            number.as_f64().is_some_and(|number| (number - found).abs() <= number.abs() * f64::EPSILON)
        }
        _ => false,
    }
}

fn main() {
    let folder = std::env::args().nth(1).expect("usage: json_suite FOLDER");
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let (mut read, mut looked, mut wrong) = ([0; 3], 0, 0);
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let document = std::fs::read(&file).expect("a file");
        let parsed = serde_json::from_slice::<Json>(&document);
        read[match &name[..1] {
            "y" => 0,
            "n" => 1,
            _ => 2,
        }] += 1;
        let mut complain = |what: String| {
            wrong += 1;
            println!("{name}: {what}");
        };
        match parsed {
            Ok(json) => {
                let mut all = Vec::new();
                places(&json, &mut Vec::new(), &mut all);
                // A parser has the last of two members of one name, and here the first counts.
                let doubled = name.contains("duplicated");
                for (steps, json) in all.into_iter().filter(|_| !doubled) {
                    looked += 1;
                    let shown = format!("{steps:?}");
                    look(&document, steps, |found| {
                        if !is_same(found, json) {
                            complain(format!("{shown} is {found:?}, not {json:?}"));
                        }
                    });
                }
            }
            // A parser may refuse those of `i_`, and a reader may not.
            Err(_) if name.starts_with('i') => {
                looked += usize::from(look(&document, vec![Step::Each], |_| true))
            }
            Err(fault) => {
                let line_at = document
                    .split_inclusive(|byte| *byte == b'\n')
                    .take(fault.line().saturating_sub(1))
                    .map(<[u8]>::len)
                    .sum::<usize>();
                let fault_at = (line_at + fault.column()).min(document.len());
                let steps = ["a", "b", "foo", "id", "key", "1", ""].map(|name| Step::Name(name.to_owned()));
                let steps = steps.into_iter().chain((0..5).map(Step::Number)).chain([Step::Each]);
                for step in steps {
                    looked += 1;
                    let shown = format!("{step:?}");
                    let in_all = look(&document, vec![step.clone()], |found| format!("{found:?}"));
                    // A value that is found has to be found without the bytes behind the fault too.
                    let before = look(&document[..fault_at], vec![step], |found| format!("{found:?}"));
                    if in_all != before && !in_all.contains("Unreadable") && in_all != "Null" {
                        complain(format!(
                            "{shown} is {in_all}, and {before} without what is behind byte {fault_at}"
                        ));
                    }
                }
            }
        }
    }
    let [valid, invalid, open] = read;
    println!(
        "{valid} documents, {invalid} that are none, {open} of which nobody knows: {looked} places, {wrong} wrong"
    );
    std::process::exit(i32::from(wrong > 0));
}
