//! Typed arguments: of queues, exchanges, bindings, consumers. Both protocols' tables convert into these.
//!
//! Not how a message carries its headers: those stay bytes, read through [`crate::Headers`].

use serde::{Deserialize, Serialize};

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

/// An argument's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    List(Vec<Value>),
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

    /// The number, if it is an integer of any type and fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(_, number) => Some(*number),
            Value::Unsigned(number) => i64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// The text, if it is text in UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Its type as RabbitMQ names it in error texts.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Void => "void",
            Value::Bool(_) => "bool",
            Value::Int(IntType::Byte, _) => "byte",
            Value::Int(IntType::UnsignedByte, _) => "unsignedbyte",
            Value::Int(IntType::Short, _) => "short",
            Value::Int(IntType::UnsignedShort, _) => "unsignedshort",
            Value::Int(IntType::SignedInt, _) => "signedint",
            Value::Int(IntType::UnsignedInt, _) => "unsignedint",
            Value::Int(IntType::Long, _) => "long",
            Value::Unsigned(_) => "long",
            Value::Float(_) => "double",
            Value::Decimal { .. } => "decimal",
            Value::Text(_) => "longstr",
            Value::Bytes(_) => "binary",
            Value::Timestamp(_) => "timestamp",
            Value::List(_) => "array",
            Value::Table(_) => "table",
        }
    }

    /// Whether both mean the same: integers of different types compare by value (and so they do within lists and
    /// tables), text and bytes by their bytes.
    pub fn is_equivalent(&self, other: &Value) -> bool {
        match (self, other) {
            // To RabbitMQ a time is a number too.
            (
                Value::Int(..) | Value::Unsigned(_) | Value::Timestamp(_),
                Value::Int(..) | Value::Unsigned(_) | Value::Timestamp(_),
            ) => self.as_i128() == other.as_i128(),
            (Value::Text(a) | Value::Bytes(a), Value::Text(b) | Value::Bytes(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a.0 == b.0 || a == b,
            (Value::List(a), Value::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_equivalent(b))
            }
            (Value::Table(a), Value::Table(b)) => {
                a.len() == b.len()
                    && a.iter().zip(b.iter()).all(|((a, x), (b, y))| a == b && x.is_equivalent(y))
            }
            _ => self == other,
        }
    }

    fn as_i128(&self) -> Option<i128> {
        match self {
            Value::Int(_, number) => Some(i128::from(*number)),
            Value::Unsigned(number) | Value::Timestamp(number) => Some(i128::from(*number)),
            _ => None,
        }
    }

    fn heap_bytes(&self) -> usize {
        match self {
            Value::Text(bytes) | Value::Bytes(bytes) => bytes.len(),
            Value::List(values) => {
                values.capacity() * size_of::<Value>() + values.iter().map(Value::heap_bytes).sum::<usize>()
            }
            Value::Table(table) => table.heap_bytes(),
            _ => 0,
        }
    }
}

impl std::fmt::Display for Value {
    /// As in RabbitMQ's error texts.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Void => f.write_str("undefined"),
            Value::Bool(value) => value.fmt(f),
            Value::Int(_, number) => number.fmt(f),
            Value::Unsigned(number) | Value::Timestamp(number) => number.fmt(f),
            Value::Float(number) => write!(f, "{:?}", number.0),
            Value::Decimal { scale, value } => write!(f, "{{{scale},{value}}}"),
            Value::Text(bytes) | Value::Bytes(bytes) => String::from_utf8_lossy(bytes).fmt(f),
            Value::List(values) => {
                let typed = |value: &Value| format!("{{{},{value}}}", value.type_name());
                let values: Vec<String> = values.iter().map(typed).collect();
                write!(f, "[{}]", values.join(","))
            }
            Value::Table(table) => {
                let pairs = table.iter().map(|(name, value)| {
                    format!("{{{},{},{value}}}", String::from_utf8_lossy(name), value.type_name())
                });
                write!(f, "[{}]", pairs.collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// Named values, sorted by name; each name once. Nothing on the heap while empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arguments(Vec<(Box<[u8]>, Value)>);

impl Arguments {
    /// No arguments.
    pub const fn new() -> Arguments {
        Arguments(Vec::new())
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The value of `name`.
    pub fn get(&self, name: &[u8]) -> Option<&Value> {
        let at = self.0.binary_search_by(|(have, _)| have[..].cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    /// Sets `name`; the value it had.
    pub fn insert(&mut self, name: &[u8], value: Value) -> Option<Value> {
        match self.0.binary_search_by(|(have, _)| have[..].cmp(name)) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (name.into(), value));
                None
            }
        }
    }

    /// All of them, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &Value)> {
        self.0.iter().map(|(name, value)| (&name[..], value))
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let held: usize = self.0.iter().map(|(name, value)| name.len() + value.heap_bytes()).sum();
        held + self.0.capacity() * size_of::<(Box<[u8]>, Value)>()
    }
}

impl<N: Into<Box<[u8]>>> FromIterator<(N, Value)> for Arguments {
    /// Of a name that comes twice, the last value counts.
    fn from_iter<I: IntoIterator<Item = (N, Value)>>(values: I) -> Arguments {
        let mut list: Vec<(Box<[u8]>, Value)> =
            values.into_iter().map(|(name, value)| (name.into(), value)).collect();
        // Stable, so that of equal names the last given comes first when read backwards.
        list.reverse();
        list.sort_by(|(a, _), (b, _)| a.cmp(b));
        list.dedup_by(|(later, _), (kept, _)| later == kept);
        list.shrink_to_fit();
        Arguments(list)
    }
}

/// Whether an argument of a second declaration agrees with the first.
pub fn equivalent(given: Option<&Value>, current: Option<&Value>) -> bool {
    match (given, current) {
        (Some(given), Some(current)) => given.is_equivalent(current),
        (None, None) => true,
        _ => false,
    }
}

/// An argument in the words of RabbitMQ's error texts: `none`, or `the value '10' of type 'long'`.
pub fn describe(value: Option<&Value>) -> String {
    match value {
        None => "none".into(),
        Some(value) => format!("the value '{value}' of type '{}'", value.type_name()),
    }
}

/// Where an argument of a second declaration does not agree with the first, in the words of RabbitMQ's error text:
/// types are named only where one of the two is missing. `None` where they agree.
pub fn disagreement(given: Option<&Value>, current: Option<&Value>) -> Option<String> {
    match (given, current) {
        _ if equivalent(given, current) => None,
        (Some(given), Some(current)) => {
            let quoted = |value: &Value| match value {
                Value::Void => "none".to_owned(),
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
            assert_eq!(a.is_equivalent(&b), same, "{a:?} {b:?}");
            assert_eq!(b.is_equivalent(&a), same, "{b:?} {a:?}");
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
        check(Value::List(vec![int(IntType::Byte, 1)]), Value::List(vec![int(IntType::Long, 1)]), true);
        check(Value::List(vec![]), Value::List(vec![Value::Void]), false);
        check(table(int(IntType::Byte, 1)), table(int(IntType::Long, 1)), true);
        check(table(Value::Void), Value::Table(Arguments::new()), false);
    }

    #[test]
    fn arguments_are_sorted_and_unique() {
        let arguments: Arguments = [("b", 1), ("a", 2), ("b", 3)]
            .map(|(name, n)| (name.as_bytes(), Value::long(n)))
            .into_iter()
            .collect();
        assert_eq!(arguments.len(), 2);
        assert_eq!(arguments.get(b"b"), Some(&Value::long(3)));
        assert_eq!(arguments.iter().next().map(|(name, _)| name), Some(&b"a"[..]));
        let mut grown = arguments.clone();
        assert_eq!(grown.insert(b"aa", Value::Void), None);
        assert_eq!(grown.insert(b"aa", Value::Bool(true)), Some(Value::Void));
        assert_eq!(grown.iter().map(|(name, _)| name).collect::<Vec<_>>(), [&b"a"[..], b"aa", b"b"]);
    }

    #[test]
    fn disagreement_in_the_words_clients_know() {
        let check = |given: Option<Value>, current: Option<Value>, text: Option<&str>| {
            assert_eq!(disagreement(given.as_ref(), current.as_ref()).as_deref(), text);
        };
        let ten = || Some(Value::long(10));
        check(None, None, None);
        check(ten(), Some(int(IntType::Byte, 10)), None);
        check(Some(Value::long(11)), ten(), Some("received '11' but current is '10'"));
        check(Some(Value::text("10")), ten(), Some("received '10' but current is '10'"));
        check(Some(Value::Void), ten(), Some("received none but current is '10'"));
        let list = Value::List(vec![int(IntType::SignedInt, 1), Value::text("a")]);
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
