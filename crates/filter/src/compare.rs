//! Comparison and arithmetic of values, as SQL filters have them (AMQP Filter Expressions 1.0 section 6.4).
//!
//! Exact and approximate numbers compare by their mathematical value, never by one rounded to the other's type. An
//! exact result beyond 128 bits goes on as an approximate one; an approximate one beyond its range is unknown.

use crate::operator::{Arithmetic, Comparison};
use crate::untyped::Untyped;
use crate::value::{Value, any};
use std::cmp::Ordering;

/// 2^127, the first number above every integer.
const ABOVE_INTEGERS: f64 = -(i128::MIN as f64);

/// Pairs of values of two lists that are compared at most.
pub(crate) const PAIRS_MAX: usize = 1 << 14;

/// Compares two values: unknown if one of them is, false between kinds that have no order in common, but values of
/// two kinds do differ.
pub(crate) fn compare(comparison: Comparison, left: Value<'_>, right: Value<'_>) -> Value<'static> {
    match (left, right) {
        (Value::Several(left), Value::Several(right)) => compare_lists(comparison, left, right),
        (Value::Several(_), _) => left.ask(|left| compare(comparison, left, right).truth()),
        (_, Value::Several(_)) => right.ask(|right| compare(comparison, left, right).truth()),
        _ => compare_two(comparison, left, right),
    }
}

/// Each of some with each of others, as far as [`PAIRS_MAX`] reaches: what is left is unknown.
fn compare_lists(comparison: Comparison, left: &[Value<'_>], right: &[Value<'_>]) -> Value<'static> {
    let left_max = PAIRS_MAX / right.len().max(1);
    let (looked, rest) = left.split_at(left.len().min(left_max));
    let each = |left: Value<'_>| any(right, |right| compare_two(comparison, left, right).truth());
    let truth = any(looked, each);
    Value::of_truth(if rest.is_empty() || truth == Some(true) { truth } else { None })
}

fn compare_two(comparison: Comparison, left: Value<'_>, right: Value<'_>) -> Value<'static> {
    if matches!(left, Value::Null) || matches!(right, Value::Null) {
        return Value::Null;
    }
    let order = match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => {
            let equal = left == right;
            return Value::Bool(match comparison {
                Comparison::Equal => equal,
                Comparison::NotEqual => !equal,
                _ => false,
            });
        }
        (Value::Bytes(left), Value::Bytes(right)) => Some(left.cmp(right)),
        (Value::Untyped(untyped), _) => return compare_untyped(comparison, untyped, right),
        (_, Value::Untyped(untyped)) => return compare_untyped(comparison.exchanged(), untyped, left),
        _ => compare_numbers(left, right),
    };
    Value::Bool(match order {
        Some(order) => comparison.holds(order),
        None => comparison == Comparison::NotEqual,
    })
}

/// An untyped value has the type of the other one.
fn compare_untyped(comparison: Comparison, untyped: &Untyped<'_>, other: Value<'_>) -> Value<'static> {
    let value = untyped.beside(other);
    let other = match other {
        Value::Untyped(other) => other.beside(value),
        other => other,
    };
    compare_two(comparison, value, other)
}

/// Whether two single values compare so; not if one is unknown.
pub(crate) fn compare_one(comparison: Comparison, left: Value<'_>, right: Value<'_>) -> bool {
    compare_two(comparison, left, right) == Value::Bool(true)
}

/// Whether two values are equal, as `=` and `IN` have it. Unknown equals nothing.
pub(crate) fn equal(left: Value<'_>, right: Value<'_>) -> bool {
    compare(Comparison::Equal, left, right) == Value::Bool(true)
}

fn compare_numbers(left: Value<'_>, right: Value<'_>) -> Option<Ordering> {
    match (left, right) {
        (Value::Integer(left), Value::Integer(right)) => Some(left.cmp(&right)),
        (Value::Float(left), Value::Float(right)) => left.partial_cmp(&right),
        (Value::Integer(left), Value::Float(right)) => integer_to_float(left, right),
        (Value::Float(left), Value::Integer(right)) => integer_to_float(right, left).map(Ordering::reverse),
        _ => None,
    }
}

fn integer_to_float(integer: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float >= ABOVE_INTEGERS {
        return Some(Ordering::Less);
    }
    if float < -ABOVE_INTEGERS {
        return Some(Ordering::Greater);
    }
    // In range, so the fraction alone is cut off.
    Some(
        integer
            .cmp(&(float as i128))
            .then_with(|| 0.0.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal)),
    )
}

/// Where a value stands among the sorted entries of an `IN` list: truth values, numbers, bytes. Entries that are equal
/// by [`equal`] are equal here, and only those.
pub(crate) fn list_order(left: Value<'_>, right: Value<'_>) -> Ordering {
    let rank = |value: Value<'_>| match value {
        // An untyped one is asked for as each that it reads as.
        Value::Null | Value::Composite | Value::Unreadable | Value::Several(_) | Value::Untyped(_) => 0,
        Value::Bool(_) => 1,
        Value::Integer(_) | Value::Float(_) => 2,
        Value::Bytes(_) => 3,
    };
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left.cmp(&right),
        (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
        _ => {
            rank(left).cmp(&rank(right)).then_with(|| compare_numbers(left, right).unwrap_or(Ordering::Equal))
        }
    }
}

/// Calculates: unknown if an operand is no number, a divisor is zero, or the result has no value.
pub(crate) fn calculate(arithmetic: Arithmetic, left: Value<'_>, right: Value<'_>) -> Value<'static> {
    let (left, right) = (left.first_number(), right.first_number());
    if let (Value::Integer(left), Value::Integer(right)) = (left, right) {
        let exact = match arithmetic {
            Arithmetic::Add => left.checked_add(right),
            Arithmetic::Subtract => left.checked_sub(right),
            Arithmetic::Multiply => left.checked_mul(right),
            // A quotient is approximate, even of two integers without remainder.
            Arithmetic::Divide => None,
            Arithmetic::Remainder if right == 0 => return Value::Null,
            Arithmetic::Remainder => Some(left.wrapping_rem(right)),
        };
        if let Some(exact) = exact {
            return Value::Integer(exact);
        }
    }
    let (Some(left), Some(right)) = (approximate(left), approximate(right)) else { return Value::Null };
    match arithmetic {
        Arithmetic::Add => finite(left + right),
        Arithmetic::Subtract => finite(left - right),
        Arithmetic::Multiply => finite(left * right),
        Arithmetic::Divide if right == 0.0 => Value::Null,
        Arithmetic::Divide => finite(left / right),
        // Of exact numbers only.
        Arithmetic::Remainder => Value::Null,
    }
}

/// The negative of a number; unknown for all else.
pub(crate) fn negate(value: Value<'_>) -> Value<'static> {
    match value.first_number() {
        Value::Integer(integer) => {
            integer.checked_neg().map_or(Value::Float(-(integer as f64)), Value::Integer)
        }
        Value::Float(float) => Value::Float(-float),
        _ => Value::Null,
    }
}

/// The number itself; unknown for all else.
pub(crate) fn number(value: Value<'_>) -> Value<'static> {
    match value.first_number() {
        Value::Integer(integer) => Value::Integer(integer),
        Value::Float(float) => Value::Float(float),
        _ => Value::Null,
    }
}

fn approximate(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Integer(integer) => Some(integer as f64),
        Value::Float(float) => Some(float),
        _ => None,
    }
}

/// An approximate number, if it is one.
pub(crate) fn finite(float: f64) -> Value<'static> {
    if float.is_finite() { Value::Float(float) } else { Value::Null }
}

/// `AND` of three truths: false if one is, true if both are.
pub(crate) fn both(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// `OR` of three truths: true if one is, false if both are.
pub(crate) fn either(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}
