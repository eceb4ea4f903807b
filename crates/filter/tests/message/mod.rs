//! A message made of values, for tests.

#![allow(dead_code, reason = "each test takes what it needs")]

use filter::{Field, Fields, Format, Found, MessageField, Paths, Property, Value};

#[derive(Clone, Debug, Default)]
pub struct Message {
    pub priority: Option<u8>,
    pub properties: Vec<(Property, Held)>,
    pub application: Vec<(&'static str, Held)>,
    pub annotations: Vec<(&'static str, Held)>,
    /// Functions of the message.
    pub said: Vec<(MessageField, Held)>,
    /// JSON.
    pub body: Vec<u8>,
}

#[derive(Clone, Debug)]
pub enum Held {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Bytes(Vec<u8>),
}

impl Held {
    pub fn value(&self) -> Value<'_> {
        match self {
            Held::Null => Value::Null,
            Held::Bool(truth) => Value::Bool(*truth),
            Held::Integer(integer) => Value::Integer(*integer),
            Held::Float(float) => Value::Float(*float),
            Held::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

impl From<i64> for Held {
    fn from(integer: i64) -> Held {
        Held::Integer(integer.into())
    }
}

impl From<f64> for Held {
    fn from(float: f64) -> Held {
        Held::Float(float)
    }
}

impl From<bool> for Held {
    fn from(truth: bool) -> Held {
        Held::Bool(truth)
    }
}

impl From<&str> for Held {
    fn from(text: &str) -> Held {
        Held::Bytes(text.as_bytes().to_vec())
    }
}

impl From<&[u8]> for Held {
    fn from(bytes: &[u8]) -> Held {
        Held::Bytes(bytes.to_vec())
    }
}

impl Fields for Message {
    fn field(&self, field: Field<'_>) -> Option<Value<'_>> {
        match field {
            Field::Priority => self.priority.map(|priority| Value::Integer(priority.into())),
            Field::Property(property) => {
                self.properties.iter().find(|entry| entry.0 == property).map(|entry| entry.1.value())
            }
            Field::ApplicationProperty(name) => {
                self.application.iter().find(|entry| entry.0 == name).map(|entry| entry.1.value())
            }
            Field::Annotation(name) => {
                self.annotations.iter().find(|entry| entry.0 == name).map(|entry| entry.1.value())
            }
            Field::Message(field) => {
                self.said.iter().find(|entry| entry.0 == field).map(|entry| entry.1.value())
            }
            Field::Body(_) => None,
        }
    }

    fn body<'a>(&'a self, paths: &Paths, found: &mut Found<'a>) -> bool {
        Format::Json.find(&self.body, paths, found)
    }
}
