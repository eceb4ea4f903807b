//! The corpus of the language: operators beside every kind of value, places in documents, faults and numbers, each with its
//! documented verdict, over every format that can hold the document.
//!
//! Verdicts were written by the rules of the guide. A row that fails is a fault of the program or of the guide.

use crate::document;

use document::{Body, Doc};
use filter::{Format, Limits, Program, Room};
use regex_lite::Regex;

/// The verdicts of one row: of formats with types, and of NVFIX and XML, where they hold the document.
struct Row<'t> {
    doc: Doc,
    text: &'t str,
    typed: Option<bool>,
    untyped: Option<Option<bool>>,
}

fn letter(letter: &str) -> Option<bool> {
    match letter {
        "T" | "true" => Some(true),
        "F" | "false" => Some(false),
        "U" | "unknown" => None,
        other => panic!("{other} is no verdict"),
    }
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Expressions, each followed by a line of verdicts, one a column, and one for NVFIX.
fn matrix(text: &str) -> Vec<Row<'_>> {
    let (columns, rest): (Vec<_>, Vec<_>) = lines(text).partition(|line| line.starts_with("column "));
    let columns: Vec<_> = columns
        .iter()
        .map(|line| {
            let (mark, doc) = line["column ".len()..].split_at(2);
            (mark == "~ ", Doc::read(doc))
        })
        .collect();
    let mut rows = Vec::new();
    for lines in rest.chunks(3) {
        let [text, typed, untyped] = lines else { panic!("{lines:?}: three lines expected") };
        let typed: Vec<_> = typed.split_whitespace().map(letter).collect();
        let untyped = untyped.trim_start().strip_prefix('~').expect("the line of NVFIX");
        let mut untyped = untyped.split_whitespace().map(letter);
        assert_eq!(typed.len(), columns.len(), "{text}");
        for ((is_flat, doc), typed) in columns.iter().zip(typed) {
            let untyped = is_flat.then(|| untyped.next().expect("a verdict of NVFIX"));
            rows.push(Row { doc: doc.clone(), text, typed, untyped });
        }
        assert_eq!(untyped.next(), None, "{text}");
    }
    rows
}

/// Documents, each followed by verdicts and expressions.
fn listed(text: &str) -> Vec<Row<'_>> {
    let mut doc = Doc::Null;
    let mut rows = Vec::new();
    for line in lines(text) {
        if let Some(of) = line.strip_prefix("document ") {
            doc = Doc::read(of);
            continue;
        }
        let (verdict, text) = line.split_once(' ').expect("a verdict and an expression");
        let (typed, untyped) = verdict.split_once('/').unwrap_or((verdict, verdict));
        let untyped = Some(letter(untyped));
        rows.push(Row { doc: doc.clone(), text: text.trim_start(), typed: letter(typed), untyped });
    }
    rows
}

/// An expression over the members of the element that a document is in XML.
fn within(text: &str) -> String {
    let path = Regex::new(r"(^|[ (,+-])/([\w@])").expect("one");
    path.replace_all(&text.replace("body", "body.r"), "$1/r/$2").into_owned()
}

/// Runs rows over all formats. Returns how many rows there are, and how many verdicts.
fn check(rows: &[Row<'_>]) -> (usize, usize) {
    let (mut verdicts, mut wrong) = (0, Vec::new());
    let mut room = Room::default();
    for Row { doc, text, typed, untyped } in rows {
        let program = |text: &str| {
            Program::parse(text, &Limits::content()).unwrap_or_else(|error| panic!("{text}: {error}"))
        };
        let (program, within) = (program(text), program(&within(text)));
        for (format, body) in doc.bodies() {
            let (program, expected) = match &body {
                Body::Bytes(Format::NameValueFix, _) => {
                    (&program, untyped.unwrap_or_else(|| panic!("{text} of {doc:?}: NVFIX too")))
                }
                // A column that NVFIX does not have holds nothing without a type.
                Body::Bytes(Format::Xml, _) => (&within, untyped.unwrap_or(*typed)),
                _ => (&program, *typed),
            };
            let verdict = program.verdict(&body, &mut room, 1_000);
            verdicts += 1;
            if verdict != expected {
                wrong.push(format!("{text} of {doc:?} in {format}: {verdict:?}, not {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} verdicts are wrong:\n{}", wrong.len(), wrong.join("\n"));
    (rows.len(), verdicts)
}

#[test]
fn operators_have_their_verdicts_on_every_kind_of_value() {
    let (rows, verdicts) = check(&matrix(include_str!("corpus/operators.txt")));
    assert!(rows >= 1200 && verdicts >= 6000, "{rows} rows, {verdicts} verdicts");
}

#[test]
fn places_are_found_in_every_format() {
    let (rows, verdicts) = check(&listed(include_str!("corpus/places.txt")));
    assert!(rows >= 140 && verdicts >= 700, "{rows} rows, {verdicts} verdicts");
}

#[test]
fn nothing_behind_a_fault_counts_in_any_format() {
    let (rows, verdicts) = check(&listed(include_str!("corpus/faults.txt")));
    assert!(rows >= 80 && verdicts >= 300, "{rows} rows, {verdicts} verdicts");
}

#[test]
fn numbers_are_compared_by_their_value_in_every_format() {
    let (rows, verdicts) = check(&listed(include_str!("corpus/numbers.txt")));
    assert!(rows >= 35 && verdicts >= 150, "{rows} rows, {verdicts} verdicts");
}
