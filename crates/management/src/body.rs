//! A request's body: a JSON object with fields that are there or not.

use crate::response::Response;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// A JSON object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Body(pub Map<String, Value>);

impl Body {
    /// The object that these bytes are; nothing is an empty one.
    ///
    /// # Errors
    /// The response to anything else.
    pub(crate) fn read(bytes: &[u8]) -> Result<Body, Response> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Body::default());
        }
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(fields)) => Ok(Body(fields)),
            _ => Err(Response::bad_request("not_json")),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn need(&self, name: &str) -> Result<&Value, Response> {
        self.get(name).ok_or_else(|| Response::missing_key(name))
    }

    /// A text, where there is one.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Response> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Response::bad_request(format!("{name} is not a string"))),
        }
    }

    pub(crate) fn need_text(&self, name: &str) -> Result<&str, Response> {
        self.text(name)?.ok_or_else(|| Response::missing_key(name))
    }

    /// A boolean, also as a text.
    pub(crate) fn boolean(&self, name: &str, otherwise: bool) -> Result<bool, Response> {
        match self.get(name) {
            None => Ok(otherwise),
            Some(Value::Bool(value)) => Ok(*value),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(other) => Err(Response::bad_request(json!(["not_boolean", other]))),
        }
    }

    /// An integer, also as a text.
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, Response> {
        let number = match self.get(name) {
            None => return Ok(None),
            Some(Value::Number(number)) => number.as_i64(),
            Some(Value::String(text)) => text.parse().ok(),
            Some(_) => None,
        };
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(Response::bad_request(json!(["not_int", name]))),
        }
    }

    /// An object; nothing is an empty one.
    pub(crate) fn object(&self, name: &str) -> Result<Map<String, Value>, Response> {
        match self.get(name) {
            None => Ok(Map::new()),
            Some(Value::Object(fields)) => Ok(fields.clone()),
            Some(Value::Array(items)) if items.is_empty() => Ok(Map::new()),
            Some(_) => Err(Response::bad_request(format!("{name} is not an object"))),
        }
    }

    /// Positions of messages, `most` of them at most, each once: as they were first named. Null is no list, and not none.
    pub(crate) fn positions(&self, name: &str, most: usize) -> Result<Option<Vec<u64>>, Response> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let items = value.as_array().filter(|items| items.len() <= most);
        let is_no_list = || {
            let text = format!("{name} is not a list of numbers, {most} at most");
            Response::bad_request(text)
        };
        let mut seen = BTreeSet::new();
        let mut positions = Vec::new();
        for item in items.ok_or_else(is_no_list)? {
            let position = item.as_u64().ok_or_else(is_no_list)?;
            if seen.insert(position) {
                positions.push(position);
            }
        }
        Ok(Some(positions))
    }

    /// Words: a list of them, or a text with commas between them.
    pub(crate) fn words(&self, name: &str) -> Result<Option<Vec<String>>, Response> {
        let is_no_list = || Response::bad_request(format!("{name} is not a list of strings"));
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => {
                let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                Ok(Some(words.map(str::to_owned).collect()))
            }
            Some(Value::Array(items)) => {
                let word = |item: &Value| item.as_str().map(str::to_owned).ok_or_else(is_no_list);
                items.iter().map(word).collect::<Result<_, _>>().map(Some)
            }
            Some(_) => Err(is_no_list()),
        }
    }
}
