//! Functions of the values of a path that leads through a list or to one. What is no list is one element. Elements that
//! are unknown are left out, as SQL's aggregates do; a list that cannot be read to its end makes all unknown.

use super::are_numbers;
use crate::compare::{calculate, compare_one};
use crate::operator::{Arithmetic, Comparison};
use crate::value::Value;

/// The values; none where it is unknown how many there are.
fn elements<'v, 'a>(value: &'v Value<'a>) -> Option<&'v [Value<'a>]> {
    match value {
        Value::Null | Value::Composite | Value::Unreadable => None,
        Value::Several(values) if values.last() == Some(&Value::Unreadable) => None,
        Value::Several(values) => Some(values),
        one => Some(std::slice::from_ref(one)),
    }
}

pub(super) fn length(value: Value<'_>) -> Value<'static> {
    elements(&value).map_or(Value::Null, |values| Value::Integer(values.len() as i128))
}

pub(super) fn sum(value: Value<'_>) -> Value<'static> {
    let Some(values) = elements(&value) else { return Value::Null };
    let mut sum = Value::Integer(0);
    for value in values.iter().map(|value| value.known()).filter(|value| *value != Value::Null) {
        sum = calculate(Arithmetic::Add, sum, value);
    }
    sum
}

pub(super) fn extreme<'a>(value: Value<'a>, comparison: Comparison) -> Value<'a> {
    let mut best = Value::Null;
    let values = elements(&value).unwrap_or_default();
    let are_numbers = are_numbers(values.iter().map(|value| value.known()));
    for value in values {
        let value = value.known().as_one_of(are_numbers);
        match (best, value) {
            (_, Value::Null) => {}
            (Value::Null, value) => best = value,
            (Value::Bytes(_), Value::Bytes(_))
            | (Value::Integer(_) | Value::Float(_), Value::Integer(_) | Value::Float(_)) => {
                if compare_one(comparison, value, best) {
                    best = value;
                }
            }
            // There is no order among them.
            _ => return Value::Null,
        }
    }
    match best {
        Value::Bool(_) | Value::Several(_) => Value::Null,
        best => best,
    }
}
