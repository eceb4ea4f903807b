//! Functions of numbers. Those that are not exact by nature come from a library: the machine's own differ from one to the
//! next.

use crate::compare::{calculate, finite};
use crate::operator::Arithmetic;
use crate::value::Value;

pub(super) fn abs(value: Value<'_>) -> Value<'static> {
    match value.first_number() {
        Value::Integer(number) => {
            number.checked_abs().map_or(Value::Float((number as f64).abs()), Value::Integer)
        }
        Value::Float(number) => Value::Float(number.abs()),
        _ => Value::Null,
    }
}

pub(super) fn sign(value: Value<'_>) -> Value<'static> {
    match value.first_number() {
        Value::Integer(number) => Value::Integer(number.signum()),
        Value::Float(0.0) => Value::Integer(0),
        Value::Float(number) => Value::Integer(if number < 0.0 { -1 } else { 1 }),
        _ => Value::Null,
    }
}

/// A whole number made of an approximate one; an exact one is whole.
pub(super) fn whole(value: Value<'_>, to_whole: fn(f64) -> f64) -> Value<'static> {
    match value.first_number() {
        Value::Integer(number) => Value::Integer(number),
        Value::Float(number) => {
            let number = to_whole(number);
            // Beyond there every approximate number is whole, and some are no exact ones.
            if number.abs() < 1e38 { Value::Integer(number as i128) } else { finite(number) }
        }
        _ => Value::Null,
    }
}

pub(super) fn round(values: &[Value<'_>]) -> Value<'static> {
    let digits = match values.get(1).map(|value| value.first_number()) {
        None => 0,
        Some(Value::Integer(digits @ 0..=15)) => digits as i32,
        Some(_) => return Value::Null,
    };
    match values[0].first_number() {
        Value::Float(number) if digits > 0 => {
            let scale = 10f64.powi(digits);
            let scaled = number * scale;
            if scaled.abs() < 1e15 { finite(scaled.round() / scale) } else { Value::Float(number) }
        }
        value => whole(value, f64::round),
    }
}

pub(super) fn remainder(values: &[Value<'_>]) -> Value<'static> {
    match (values[0].first_number(), values[1].first_number()) {
        (left @ Value::Integer(_), right @ Value::Integer(_)) => {
            calculate(Arithmetic::Remainder, left, right)
        }
        (left, right) => match (float(left), float(right)) {
            (Some(left), Some(right)) if right != 0.0 => finite(left % right),
            _ => Value::Null,
        },
    }
}

pub(super) fn power(values: &[Value<'_>]) -> Value<'static> {
    match (values[0].first_number(), values[1].first_number()) {
        (Value::Integer(base), Value::Integer(exponent @ 0..=127))
            if base.checked_pow(exponent as u32).is_some() =>
        {
            Value::Integer(base.pow(exponent as u32))
        }
        (left, right) => match (float(left), float(right)) {
            (Some(left), Some(right)) => finite(libm::pow(left, right)),
            _ => Value::Null,
        },
    }
}

pub(super) fn of_float(value: Value<'_>, function: fn(f64) -> f64) -> Value<'static> {
    float(value.first_number()).map_or(Value::Null, |number| finite(function(number)))
}

/// A number as an approximate one.
pub(super) fn float(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(number as f64),
        Value::Float(number) => Some(number),
        _ => None,
    }
}

pub(super) fn cast(value: Value<'_>) -> Value<'static> {
    match value.first_number() {
        Value::Integer(number) => Value::Integer(number),
        Value::Float(number) => Value::Float(number),
        Value::Bool(truth) => Value::Integer(truth.into()),
        Value::Bytes(text) => crate::number::value(text.trim_ascii()).unwrap_or(Value::Null),
        _ => Value::Null,
    }
}
