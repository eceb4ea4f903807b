//! Typed arguments: of queues, exchanges, bindings, consumers. Both protocols' tables convert into these.
//!
//! Not how a message carries its headers: those stay bytes, read through [`crate::Headers`].

use crate::argument::Argument;
use crate::arguments::{Arguments, List};
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};

/// Which integer a value was, AMQP 0-9-1 §4.2.5.5 as RabbitMQ names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum IntType {
    /// 8 bits, signed.
    Byte,
    /// 8 bits.
    UnsignedByte,
    /// 16 bits, signed.
    Short,
    /// 16 bits.
    UnsignedShort,
    /// 32 bits, signed.
    SignedInt,
    /// 32 bits.
    UnsignedInt,
    /// 64 bits, signed.
    Long,
}

/// A floating-point number that equals itself, bit for bit, so that a binding made with it can be found again.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Float(pub f64);

impl PartialEq for Float {
    fn eq(&self, other: &Float) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Float {}

impl Hash for Float {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// An argument's value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// No value.
    Void,
    /// A boolean.
    Bool(bool),
    /// An integer of up to 64 bits, signed.
    Int(IntType, i64),
    /// An unsigned integer of 64 bits.
    Unsigned(u64),
    /// A floating-point number, of 32 or 64 bits.
    Float(Float),
    /// `value` divided by ten to the power of `scale`.
    Decimal {
        /// Decimal places.
        scale: u8,
        /// The digits.
        value: u32,
    },
    /// Text; not promised to be UTF-8.
    Text(Box<[u8]>),
    /// Bytes.
    Bytes(Box<[u8]>),
    /// A moment, in seconds since 1970.
    Timestamp(u64),
    /// Values in order.
    List(List),
    /// Named values.
    Table(Arguments),
}

impl Value {
    /// The text `text`.
    pub fn text(text: &str) -> Value {
        Value::Text(text.as_bytes().into())
    }

    /// The 64-bit integer `number`.
    pub fn long(number: i64) -> Value {
        Value::Int(IntType::Long, number)
    }

    /// The list of `values`.
    pub fn list(values: impl IntoIterator<Item = Value>) -> Value {
        Value::List(values.into_iter().collect())
    }

    /// The value as it is read.
    pub fn view(&self) -> Argument<'_> {
        match self {
            Value::Void => Argument::Void,
            Value::Bool(value) => Argument::Bool(*value),
            Value::Int(of_type, number) => Argument::Int(*of_type, *number),
            Value::Unsigned(number) => Argument::Unsigned(*number),
            Value::Float(number) => Argument::Float(*number),
            Value::Decimal { scale, value } => Argument::Decimal { scale: *scale, value: *value },
            Value::Text(text) => Argument::Text(text),
            Value::Bytes(bytes) => Argument::Bytes(bytes),
            Value::Timestamp(seconds) => Argument::Timestamp(*seconds),
            Value::List(list) => Argument::List(list.items()),
            Value::Table(table) => Argument::Table(table.fields()),
        }
    }

    /// The number, if it is an integer of any type and fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.view().as_i64()
    }

    /// The text, if it is text in UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        self.view().as_str()
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        self.view().as_bool()
    }

    /// Its type as RabbitMQ names it in error texts.
    pub fn type_name(&self) -> &'static str {
        self.view().type_name()
    }
}

impl std::fmt::Display for Value {
    /// As in RabbitMQ's error texts.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.view().fmt(f)
    }
}

/// Whether an argument of a second declaration agrees with the first.
pub fn equivalent(given: Option<Argument<'_>>, current: Option<Argument<'_>>) -> bool {
    match (given, current) {
        (Some(given), Some(current)) => given.is_equivalent(current),
        (None, None) => true,
        _ => false,
    }
}

/// An argument in the words of RabbitMQ's error texts: `none`, or `the value '10' of type 'long'`.
pub fn describe(value: Option<Argument<'_>>) -> String {
    match value {
        None => "none".into(),
        Some(value) => format!("the value '{value}' of type '{}'", value.type_name()),
    }
}

/// Where an argument of a second declaration does not agree with the first, in the words of RabbitMQ's error text:
/// types are named only where one of the two is missing. `None` where they agree.
pub fn disagreement(given: Option<Argument<'_>>, current: Option<Argument<'_>>) -> Option<String> {
    match (given, current) {
        _ if equivalent(given, current) => None,
        (Some(given), Some(current)) => {
            let quoted = |value: Argument<'_>| match value {
                Argument::Void => "none".to_owned(),
                value => format!("'{value}'"),
            };
            Some(format!("received {} but current is {}", quoted(given), quoted(current)))
        }
        _ => Some(format!("received {} but current is {}", describe(given), describe(current))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(kind: IntType, number: i64) -> Value {
        Value::Int(kind, number)
    }

    #[test]
    fn equivalence_is_by_meaning() {
        let check = |a: Value, b: Value, same: bool| {
            assert_eq!(a.view().is_equivalent(b.view()), same, "{a:?} {b:?}");
            assert_eq!(b.view().is_equivalent(a.view()), same, "{b:?} {a:?}");
        };
        let table = |value| Value::Table([(&b"k"[..], value)].into_iter().collect());
        check(int(IntType::Byte, 5), int(IntType::Long, 5), true);
        check(int(IntType::Long, 5), Value::Unsigned(5), true);
        check(int(IntType::Long, -1), Value::Unsigned(u64::MAX), false);
        check(int(IntType::Long, 5), Value::Timestamp(5), true);
        check(int(IntType::Long, 5), Value::Float(Float(5.0)), false);
        check(int(IntType::Long, 5), Value::text("5"), false);
        check(Value::text("a"), Value::Bytes(b"a"[..].into()), true);
        check(Value::Float(Float(0.0)), Value::Float(Float(-0.0)), true);
        check(Value::Bool(true), Value::text("true"), false);
        check(Value::list([int(IntType::Byte, 1)]), Value::list([int(IntType::Long, 1)]), true);
        check(Value::list([]), Value::list([Value::Void]), false);
        check(table(int(IntType::Byte, 1)), table(int(IntType::Long, 1)), true);
        check(table(Value::Void), Value::Table(Arguments::new()), false);
    }

    #[test]
    fn disagreement_in_the_words_clients_know() {
        let check = |given: Option<Value>, current: Option<Value>, text: Option<&str>| {
            assert_eq!(
                disagreement(given.as_ref().map(Value::view), current.as_ref().map(Value::view)).as_deref(),
                text
            );
        };
        let ten = || Some(Value::long(10));
        check(None, None, None);
        check(ten(), Some(int(IntType::Byte, 10)), None);
        check(Some(Value::long(11)), ten(), Some("received '11' but current is '10'"));
        check(Some(Value::text("10")), ten(), Some("received '10' but current is '10'"));
        check(Some(Value::Void), ten(), Some("received none but current is '10'"));
        let list = Value::list([int(IntType::SignedInt, 1), Value::text("a")]);
        check(Some(list), ten(), Some("received '[{signedint,1},{longstr,a}]' but current is '10'"));
        check(
            None,
            Some(Value::Void),
            Some("received none but current is the value 'undefined' of type 'void'"),
        );
        check(None, ten(), Some("received none but current is the value '10' of type 'long'"));
        check(ten(), None, Some("received the value '10' of type 'long' but current is none"));
        check(
            None,
            Some(Value::text("a")),
            Some("received none but current is the value 'a' of type 'longstr'"),
        );
    }
}
