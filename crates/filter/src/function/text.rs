//! Functions of texts. All but comparisons of bytes need UTF-8.

use crate::found::Room;
use crate::regexp::TEXT_BYTES_MAX;
use crate::value::Value;

/// The text of a value, if it is one that functions take.
fn text<'a>(value: Value<'a>) -> Option<&'a str> {
    let text = value.first().text().filter(|text| text.len() <= TEXT_BYTES_MAX)?;
    str::from_utf8(text).ok()
}

/// A text that was made; unknown if it is too long, or if there is no room for it.
fn made<'a>(text: &str, room: &'a Room) -> Value<'a> {
    let kept = (text.len() <= TEXT_BYTES_MAX).then(|| room.keep(text.as_bytes())).flatten();
    kept.map_or(Value::Null, Value::Bytes)
}

/// A whole number of characters: as many as there are at most.
fn count(value: Value<'_>) -> Option<usize> {
    match value.first_number() {
        Value::Integer(number) => usize::try_from(number.clamp(0, TEXT_BYTES_MAX as i128)).ok(),
        _ => None,
    }
}

pub(super) fn map<'a>(value: Value<'a>, room: &'a Room, change: impl FnOnce(&str) -> String) -> Value<'a> {
    text(value).map_or(Value::Null, |text| made(&change(text), room))
}

pub(super) fn length(value: Value<'_>) -> Value<'static> {
    match value.first_text() {
        Value::Bytes(bytes) if bytes.len() <= TEXT_BYTES_MAX => {
            let characters = str::from_utf8(bytes).map_or(bytes.len(), |text| text.chars().count());
            Value::Integer(characters as i128)
        }
        _ => Value::Null,
    }
}

pub(super) fn substring<'a>(values: &[Value<'a>], _room: &'a Room) -> Value<'a> {
    let (Some(text), Value::Integer(start)) = (text(values[0]), values[1].first_number()) else {
        return Value::Null;
    };
    let end = match values.get(2).map(|value| value.first_number()) {
        None => i128::MAX,
        Some(Value::Integer(length)) if length >= 0 => start.saturating_add(length),
        Some(_) => return Value::Null,
    };
    // Places before the first character count, as in SQL.
    let skipped = start.max(1) - 1;
    let length = (end.saturating_sub(1) - skipped).max(0);
    let [skipped, length] = [skipped, length].map(|count| count.min(TEXT_BYTES_MAX as i128) as usize);
    let from = behind(text, skipped);
    Value::Bytes(&text.as_bytes()[from..from + behind(&text[from..], length)])
}

/// Bytes before the character behind so many.
fn behind(text: &str, characters: usize) -> usize {
    text.char_indices().nth(characters).map_or(text.len(), |(place, _)| place)
}

pub(super) fn left<'a>(values: &[Value<'a>], _room: &'a Room) -> Value<'a> {
    let (Some(text), Some(count)) = (text(values[0]), count(values[1])) else { return Value::Null };
    Value::Bytes(&text.as_bytes()[..behind(text, count)])
}

pub(super) fn right<'a>(values: &[Value<'a>], _room: &'a Room) -> Value<'a> {
    let (Some(text), Some(count)) = (text(values[0]), count(values[1])) else { return Value::Null };
    let skipped = text.chars().count().saturating_sub(count);
    Value::Bytes(&text.as_bytes()[behind(text, skipped)..])
}

pub(super) fn concat<'a>(values: &[Value<'a>], room: &'a Room) -> Value<'a> {
    let mut whole = String::new();
    for value in values {
        let Some(part) = text(cast(*value, room)) else { return Value::Null };
        if whole.len() + part.len() > TEXT_BYTES_MAX {
            return Value::Null;
        }
        whole.push_str(part);
    }
    made(&whole, room)
}

pub(super) fn replace<'a>(values: &[Value<'a>], room: &'a Room) -> Value<'a> {
    let (Some(text), Some(from), Some(to)) = (text(values[0]), text(values[1]), text(values[2])) else {
        return Value::Null;
    };
    if from.is_empty() {
        return values[0].first();
    }
    let mut whole = String::new();
    let mut rest = text;
    while let Some(place) = rest.find(from) {
        if whole.len() + place + to.len() > TEXT_BYTES_MAX {
            return Value::Null;
        }
        whole.push_str(&rest[..place]);
        whole.push_str(to);
        rest = &rest[place + from.len()..];
    }
    whole.push_str(rest);
    made(&whole, room)
}

/// A question about a text, or each of several, and another text.
pub(super) fn ask(values: &[Value<'_>], is: impl Fn(&[u8], &[u8]) -> bool) -> Value<'static> {
    let Some(part) = values[1].first().text() else { return Value::Null };
    values[0].ask(|value| Some(is(value.text()?, part)))
}

pub(super) fn contains(values: &[Value<'_>]) -> Value<'static> {
    let Some(part) = values[1].first().text() else { return Value::Null };
    let Ok(part) = str::from_utf8(part) else { return Value::Null };
    values[0].ask(|value| {
        let text = value.text().filter(|text| text.len() <= TEXT_BYTES_MAX)?;
        str::from_utf8(text).ok().map(|text| text.contains(part))
    })
}

pub(super) fn cast<'a>(value: Value<'a>, room: &'a Room) -> Value<'a> {
    match value.first_text() {
        Value::Bytes(text) => Value::Bytes(text),
        Value::Bool(truth) => Value::Bytes(if truth { b"TRUE" } else { b"FALSE" }),
        Value::Integer(number) => made(&number.to_string(), room),
        Value::Float(number) => made(&number.to_string(), room),
        _ => Value::Null,
    }
}
