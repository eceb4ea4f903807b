//! Documents as trees, for tests: read from text, and written in each format that bodies can have.

#![allow(dead_code, reason = "each test takes what it needs")]

mod write;

use filter::tree::{Item, Key};
use filter::{Field, Fields, Format, Found, Paths, Value, tree};

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Doc {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Doc>),
    /// Members in their order; a name may come again.
    Map(Vec<(String, Doc)>),
    /// Bytes that no value begins with: `!` in text.
    Fault,
    /// The document is cut off before this value: `~` in text.
    Cut,
}

/// A body: bytes of a format, or a value as AMQP has it.
#[derive(Clone, Debug)]
pub enum Body {
    Bytes(Format, Vec<u8>),
    Tree(Doc),
}

impl Fields for Body {
    fn field(&self, _field: Field<'_>) -> Option<Value<'_>> {
        None
    }

    fn body<'a>(&'a self, paths: &Paths, found: &mut Found<'a>) -> bool {
        match self {
            Body::Bytes(format, bytes) => format.find(bytes, paths, found),
            Body::Tree(doc) => {
                tree::find(doc, paths, found);
                true
            }
        }
    }
}

impl<'a> Item<'a> for &'a Doc {
    fn scalar(self) -> Value<'a> {
        match self {
            Doc::Bool(truth) => Value::Bool(*truth),
            Doc::Integer(number) => Value::Integer(*number),
            Doc::Float(number) => Value::Float(*number),
            Doc::Text(text) => Value::Bytes(text.as_bytes()),
            _ => Value::Null,
        }
    }

    fn members(self) -> Option<impl Iterator<Item = (Key<'a>, &'a Doc)>> {
        let Doc::Map(members) = self else { return None };
        Some(members.iter().map(|(name, member)| (Key::Name(name.as_bytes()), member)))
    }

    fn elements(self) -> Option<impl Iterator<Item = &'a Doc>> {
        let Doc::List(elements) = self else { return None };
        Some(elements.iter())
    }
}

impl Doc {
    /// The document of a text: JSON, with `!` and `~` as values.
    pub fn read(text: &str) -> Doc {
        let mut rest = text;
        let doc = value(&mut rest);
        assert!(rest.trim().is_empty(), "{rest} behind a document");
        doc
    }

    /// The document in all formats that have it, each with the name of the format.
    pub fn bodies(&self) -> Vec<(&'static str, Body)> {
        let of = |format, bytes: Option<Vec<u8>>| bytes.map(|bytes| Body::Bytes(format, bytes));
        let is_whole = !self.holds(&|doc| matches!(doc, Doc::Fault | Doc::Cut));
        [
            ("JSON", of(Format::Json, Some(write::json(self)))),
            ("MessagePack", of(Format::MessagePack, write::message_pack(self))),
            ("CBOR", of(Format::Cbor, Some(write::cbor(self, false)))),
            ("CBOR of indefinite lengths", of(Format::Cbor, Some(write::cbor(self, true)))),
            ("tree", is_whole.then(|| Body::Tree(self.clone()))),
            ("NVFIX", of(Format::NameValueFix, write::name_value(self))),
            ("XML", of(Format::Xml, write::xml(self))),
        ]
        .into_iter()
        .filter_map(|(name, body)| body.map(|body| (name, body)))
        .collect()
    }

    /// Whether it, or something in it, is such.
    pub fn holds(&self, is: &dyn Fn(&Doc) -> bool) -> bool {
        is(self)
            || match self {
                Doc::List(elements) => elements.iter().any(|element| element.holds(is)),
                Doc::Map(members) => members.iter().any(|(_, member)| member.holds(is)),
                _ => false,
            }
    }
}

fn pass(rest: &mut &str, word: &str) -> bool {
    *rest = rest.trim_start();
    match rest.strip_prefix(word) {
        Some(behind) => {
            *rest = behind;
            true
        }
        None => false,
    }
}

fn string(rest: &mut &str) -> String {
    let mut text = String::new();
    let mut characters = rest.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '"' => {
                *rest = &rest[place + 1..];
                return text;
            }
            '\\' => text.push(characters.next().expect("an escape").1),
            other => text.push(other),
        }
    }
    panic!("{rest}: a text without an end");
}

fn value(rest: &mut &str) -> Doc {
    for (word, doc) in [
        ("null", Doc::Null),
        ("true", Doc::Bool(true)),
        ("false", Doc::Bool(false)),
        ("!", Doc::Fault),
        ("~", Doc::Cut),
    ] {
        if pass(rest, word) {
            return doc;
        }
    }
    if pass(rest, "\"") {
        return Doc::Text(string(rest));
    }
    if pass(rest, "[") {
        let mut elements = Vec::new();
        while !pass(rest, "]") {
            elements.push(value(rest));
            pass(rest, ",");
        }
        return Doc::List(elements);
    }
    if pass(rest, "{") {
        let mut members = Vec::new();
        while !pass(rest, "}") {
            assert!(pass(rest, "\""), "{rest}: a name expected");
            let name = string(rest);
            assert!(pass(rest, ":"), "{rest}: a colon expected");
            members.push((name, value(rest)));
            pass(rest, ",");
        }
        return Doc::Map(members);
    }
    let end =
        rest.find(|character| !matches!(character, '0'..='9' | '+' | '-' | '.' | 'e')).unwrap_or(rest.len());
    let (digits, behind) = rest.split_at(end);
    *rest = behind;
    match digits.parse() {
        Ok(number) => Doc::Integer(number),
        Err(_) => Doc::Float(digits.parse().unwrap_or_else(|_| panic!("{digits}{behind}: a value expected"))),
    }
}
