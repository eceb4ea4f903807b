//! Answers as terms of Erlang, for programs that read those: names of columns and fixed words are atoms, texts are binaries,
//! objects are lists of pairs.
//!
//! Lines are broken between columns and rows alone, not where RabbitMQ's tools break them, at 80 characters.

use serde_json::Value;

/// Columns of words from a fixed set.
const ATOMS: [&str; 9] = [
    "type",
    "state",
    "tags",
    "source_kind",
    "destination_kind",
    "activity_status",
    "leader",
    "members",
    "online",
];

/// A column and its value.
pub(crate) fn pair(column: &str, value: &Value) -> String {
    let value = match value {
        Value::Null => atom(""),
        value if ATOMS.contains(&column) => atoms(value),
        value => term(value),
    };
    format!("{{{},{value}}}", atom(column))
}

/// The fields of an object, each with an atom for its name.
pub(crate) fn list(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let pairs: Vec<String> =
                fields.iter().map(|(name, value)| format!("{{{},{}}}", atom(name), list(value))).collect();
            format!("[{}]", pairs.join(",\n "))
        }
        other => term(other),
    }
}

/// A value.
pub(crate) fn term(value: &Value) -> String {
    match value {
        Value::Null => "undefined".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => binary(text),
        Value::Array(parts) => format!("[{}]", parts.iter().map(term).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let pair = |(name, value): (&String, &Value)| format!("{{{},{}}}", binary(name), term(value));
            format!("[{}]", fields.iter().map(pair).collect::<Vec<_>>().join(","))
        }
    }
}

fn atoms(value: &Value) -> String {
    match value {
        Value::String(text) => atom(text),
        Value::Array(parts) => format!("[{}]", parts.iter().map(atoms).collect::<Vec<_>>().join(",")),
        other => term(other),
    }
}

/// A text; characters beyond ASCII are told to be UTF-8.
fn binary(text: &str) -> String {
    match text {
        "" => "<<>>".to_owned(),
        text if text.is_ascii() => format!("<<\"{}\">>", escaped(text, '"')),
        text => format!("<<\"{}\"/utf8>>", escaped(text, '"')),
    }
}

/// An atom, in quotes where its letters need them.
fn atom(text: &str) -> String {
    let is_plain = text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '@'));
    if is_plain { text.to_owned() } else { format!("'{}'", escaped(text, '\'')) }
}

fn escaped(text: &str, quote: char) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            letter if letter == quote => escaped.extend(['\\', letter]),
            letter if letter.is_control() => escaped.push_str(&format!("\\x{{{:x}}}", u32::from(letter))),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_terms() {
        let check = |value: Value, expected: &str| assert_eq!(term(&value), expected);
        check(json!("a\"b\\c\n\u{1}"), r#"<<"a\"b\\c\n\x{1}">>"#);
        check(json!("ä"), "<<\"ä\"/utf8>>");
        check(json!(""), "<<>>");
        check(json!([1, true, null, 1.5]), "[1,true,undefined,1.5]");
        check(json!({"x": {"y": []}}), r#"[{<<"x">>,[{<<"y">>,[]}]}]"#);
    }

    #[test]
    fn columns_are_atoms() {
        let check = |column: &str, value: Value, expected: &str| assert_eq!(pair(column, &value), expected);
        check("name", json!("q"), r#"{name,<<"q">>}"#);
        check("apply-to", json!("all"), r#"{'apply-to',<<"all">>}"#);
        check("type", json!("x-random"), "{type,'x-random'}");
        check("type", json!("classic"), "{type,classic}");
        check("tags", json!(["administrator", "it's"]), r"{tags,[administrator,'it\'s']}");
        check("policy", Value::Null, "{policy,''}");
        check("leader", json!("rabbit@hare"), "{leader,rabbit@hare}");
        check("leader", json!("rabbit@hare-1"), "{leader,'rabbit@hare-1'}");
    }
}
