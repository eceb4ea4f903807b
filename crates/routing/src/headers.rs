//! Matching by headers instead of keys: `x-match` all, any, all-with-x, any-with-x.
//!
//! Values match by meaning: integers of different types by their number, text and bytes by their bytes; a number never
//! matches its text. A binding argument without a value matches whatever the header holds. Arguments that begin with
//! `x-` take no part unless the mode says `-with-x`, and `x-match` itself never does.

use crate::value::{Arguments, Value};

/// The headers of a message, in whatever encoding it came.
pub trait Headers {
    /// The value of `name`; where a name comes more than once, whichever the protocol's rules say.
    fn get(&self, name: &[u8]) -> Option<Field<'_>>;
}

/// No headers at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHeaders;

impl Headers for NoHeaders {
    fn get(&self, _name: &[u8]) -> Option<Field<'_>> {
        None
    }
}

/// A header's value, borrowed from the message where it is bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Field<'a> {
    /// No value.
    Void,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer of 64 bits without sign.
    Unsigned(u64),
    /// A floating-point number.
    Float(f64),
    /// A decimal number.
    Decimal {
        /// Decimal places.
        scale: u8,
        /// The digits.
        value: u32,
    },
    /// Text or bytes.
    Bytes(&'a [u8]),
    /// Seconds since 1970.
    Timestamp(u64),
    /// A list or a table: rare, and made for the comparison.
    Nested(Value),
}

impl Field<'_> {
    /// Whether it means the same as `value`.
    pub fn matches(&self, value: &Value) -> bool {
        match (self, value) {
            (Field::Void, Value::Void) => true,
            (Field::Bool(a), Value::Bool(b)) => a == b,
            (Field::Int(a), Value::Int(_, b)) => a == b,
            (Field::Int(a), Value::Unsigned(b)) => u64::try_from(*a) == Ok(*b),
            (Field::Unsigned(a), Value::Int(_, b)) => Ok(*a) == u64::try_from(*b),
            (Field::Unsigned(a), Value::Unsigned(b)) => a == b,
            (Field::Float(a), Value::Float(b)) => *a == b.0,
            (Field::Decimal { scale: a, value: x }, Value::Decimal { scale: b, value: y }) => {
                a == b && x == y
            }
            (Field::Bytes(a), Value::Text(b) | Value::Bytes(b)) => **a == **b,
            (Field::Timestamp(a), Value::Timestamp(b)) => a == b,
            (Field::Nested(a), b) => a.is_equivalent(b),
            _ => false,
        }
    }
}

/// How the arguments of a binding are weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mode {
    any: bool,
    with_x: bool,
}

/// The name of the argument that says how.
pub(crate) const X_MATCH: &[u8] = b"x-match";

/// The mode `x-match` names; all of them without it.
fn mode(arguments: &Arguments) -> Mode {
    match arguments.get(X_MATCH).and_then(Value::as_str) {
        Some("any") => Mode { any: true, with_x: false },
        Some("any-with-x") => Mode { any: true, with_x: true },
        Some("all-with-x") => Mode { any: false, with_x: true },
        _ => Mode { any: false, with_x: false },
    }
}

/// Whether `x-match` names a mode.
pub(crate) fn is_mode(text: &[u8]) -> bool {
    matches!(text, b"all" | b"any" | b"all-with-x" | b"any-with-x")
}

/// Whether a binding with these arguments lets a message with these headers through.
pub(crate) fn is_match(arguments: &Arguments, headers: &dyn Headers) -> bool {
    let Mode { any, with_x } = mode(arguments);
    let mut weighed = arguments
        .iter()
        .filter(|(name, _)| if with_x { *name != X_MATCH } else { !name.starts_with(b"x-") })
        .map(|(name, value)| {
            headers.get(name).is_some_and(|field| *value == Value::Void || field.matches(value))
        });
    if any { weighed.any(|is_match| is_match) } else { weighed.all(|is_match| is_match) }
}
