//! The lists of a file of definitions, of which each row is read when its turn comes.
//!
//! A file of 50,000 queues is a million small things once it is read. Read at once they take ten times the text's
//! memory, and leave free pieces that the next allocations have to sort (`docs/decisions/0002-system-allocator.md`);
//! one row at a time takes a row's.

use crate::body::Body;
use crate::response::Response;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// A file of definitions, as text.
#[derive(Debug, Default)]
pub(crate) struct Rows<'a> {
    /// The file's fields, by name; of two of a name the last.
    fields: BTreeMap<String, &'a RawValue>,
}

impl<'a> Rows<'a> {
    /// The object that these bytes are; nothing is an empty one. All of it is read once, so that the rows are known to be
    /// JSON before the first is imported.
    ///
    /// # Errors
    /// Where it is no object, or no JSON.
    pub(crate) fn read(text: &'a [u8]) -> Result<Rows<'a>, serde_json::Error> {
        // A byte order mark, with which some editors begin a file.
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        if text.iter().all(u8::is_ascii_whitespace) {
            return Ok(Rows::default());
        }
        let fields: BTreeMap<String, &'a RawValue> = serde_json::from_slice(text)?;
        for field in fields.values() {
            match items(field) {
                Some(items) => {
                    for item in items? {
                        read(item)?;
                    }
                }
                None => drop(read(field)?),
            }
        }
        Ok(Rows { fields })
    }

    /// The objects of the list of this name, each read when it is asked for; without a list there are none.
    ///
    /// # Errors
    /// The response to something else under this name.
    pub(crate) fn of(&self, name: &str) -> Result<impl Iterator<Item = Body> + use<'a>, Response> {
        let bad = || Response::bad_request(format!("{name} is not a list of objects"));
        let items = match self.fields.get(name) {
            None => Vec::new(),
            Some(field) if field.get() == "null" => Vec::new(),
            Some(field) => items(field).and_then(Result::ok).ok_or_else(bad)?,
        };
        if !items.iter().all(|item| item.get().starts_with('{')) {
            return Err(bad());
        }
        Ok(items.into_iter().filter_map(|item| match read(item) {
            Ok(Value::Object(fields)) => Some(Body(fields)),
            // Read before, it was an object.
            _ => None,
        }))
    }
}

/// The items of a list, none of them read; none where it is no list. A raw value has no space around it.
fn items(field: &RawValue) -> Option<Result<Vec<&RawValue>, serde_json::Error>> {
    field.get().starts_with('[').then(|| serde_json::from_str(field.get()))
}

fn read(text: &RawValue) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, list: &str) -> Result<Vec<String>, String> {
        let file = Rows::read(text.as_bytes()).map_err(|error| error.to_string())?;
        let rows = file.of(list).map_err(|refusal| String::from_utf8_lossy(&refusal.body).into_owned())?;
        Ok(rows.map(|row| row.need_text("name").unwrap().to_owned()).collect())
    }

    #[test]
    fn rows_come_in_the_files_order() {
        let cases: [(&str, &[&str]); 10] = [
            ("\u{feff}", &[]),
            ("\u{feff} {\"queues\": [{\"name\": \"q\"}]}", &["q"]),
            ("", &[]),
            (" \n", &[]),
            ("{}", &[]),
            (r#"{"queues": null}"#, &[]),
            (r#" { "queues" : [ ] } "#, &[]),
            (r#"{"queues": [ {"name": "b"} , {"name": "a", "of": {"x": [1]}} ], "users": 7}"#, &["b", "a"]),
            (r#"{"\u0071ueues": [{"n\u0061me": "\u00e9"}]}"#, &["é"]),
            (r#"{"queues": [{"name": "a"}], "queues": [{"name": "b"}]}"#, &["b"]),
        ];
        for (text, expected) in cases {
            assert_eq!(names(text, "queues").unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_list_of_objects_is_refused_when_it_is_asked_for() {
        for value in ["7", "{}", r#""[]""#, "[1]", r#"[{"name": "a"}, []]"#, "[null]"] {
            let text = format!(r#"{{"queues": {value}, "users": [{{"name": "u"}}]}}"#);
            assert_eq!(names(&text, "users").unwrap(), ["u"], "{text}");
            assert!(
                names(&text, "queues").unwrap_err().contains("queues is not a list of objects"),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_json_anywhere_in_it_is_refused_at_once() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let rows =
            ["{", r#"{"name": "\ud800"}"#, r#"{"name": 1e999}"#, r#"{"name" 1}"#, r#"{"name": 01}"#, &deep];
        for row in rows {
            for text in [
                format!(r#"{{"queues": [{{"name": "a"}}], "users": [{row}]}}"#),
                format!(r#"{{"queues": [{{"name": "a"}}], "users": {row}}}"#),
            ] {
                names(&text, "queues").expect_err(&text);
            }
        }
        for text in [
            "[]",
            "7",
            "null",
            "{} {}",
            "{",
            r#"{"queues": []"#,
            "{1: 2}",
            "{}\u{feff}",
            "\u{feff}\u{feff}{}",
        ] {
            names(text, "queues").expect_err(text);
        }
        Rows::read(b"{\"queues\": [{\"name\": \"\xff\"}]}").unwrap_err();
    }
}
