//! Constants of filters as keys: what equals, and what lies between.

use crate::value::Value;
use base::hash::ByBytes;
use std::hash::{BuildHasher, Hash, Hasher};

/// 2^127, the first number above every integer.
const ABOVE_INTEGERS: f64 = -(i128::MIN as f64);

/// A constant of its own.
#[derive(Clone, Debug)]
pub(super) enum Key {
    Bool(bool),
    Integer(i64),
    /// Of more than 64 bits.
    Large(Box<i128>),
    Float(f64),
    Bytes(Box<[u8]>),
}

impl Key {
    /// The constant that a value is, if it is a single one that can be compared.
    pub(super) fn of(value: Value<'_>) -> Option<Key> {
        Some(match value {
            Value::Bool(truth) => Key::Bool(truth),
            Value::Integer(integer) => {
                i64::try_from(integer).map_or_else(|_| Key::Large(Box::new(integer)), Key::Integer)
            }
            Value::Float(float) => Key::Float(float),
            Value::Bytes(bytes) => Key::Bytes(bytes.into()),
            _ => return None,
        })
    }

    #[inline]
    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Key::Bool(truth) => Value::Bool(*truth),
            Key::Integer(integer) => Value::Integer((*integer).into()),
            Key::Large(integer) => Value::Integer(**integer),
            Key::Float(float) => Value::Float(*float),
            Key::Bytes(bytes) => Value::Bytes(bytes),
        }
    }

    /// Bytes it keeps on the heap.
    pub(super) fn memory(&self) -> usize {
        match self {
            Key::Large(_) => size_of::<i128>(),
            Key::Bytes(bytes) => bytes.len(),
            Key::Bool(_) | Key::Integer(_) | Key::Float(_) => 0,
        }
    }
}

/// The same constant, not one that equals it: 1 is not 1.0.
impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        match (self, other) {
            (Key::Float(left), Key::Float(right)) => left.to_bits() == right.to_bits(),
            _ => {
                std::mem::discriminant(self) == std::mem::discriminant(other) && self.value() == other.value()
            }
        }
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        match self {
            Key::Bool(truth) => truth.hash(hasher),
            Key::Integer(integer) => integer.hash(hasher),
            Key::Large(integer) => integer.hash(hasher),
            Key::Float(float) => float.to_bits().hash(hasher),
            Key::Bytes(bytes) => bytes.hash(hasher),
        }
    }
}

/// The value that stands for all that are equal to this one: a whole number is exact, be it written as `1` or `1.0`.
#[inline]
pub(super) fn canonical(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Float(float)
            if (-ABOVE_INTEGERS..ABOVE_INTEGERS).contains(&float) && libm::trunc(float) == float =>
        {
            Value::Integer(float as i128)
        }
        value => value,
    }
}

/// The hash of a canonical value at a place.
#[inline]
pub(super) fn hash(place: u32, is_prefix: bool, value: Value<'_>) -> u64 {
    let mut hasher = ByBytes.build_hasher();
    hasher.write_u64(u64::from(place) << 1 | u64::from(is_prefix));
    match value {
        Value::Bool(truth) => hasher.write_u64(truth.into()),
        Value::Integer(integer) => hasher.write_u128(integer.cast_unsigned()),
        Value::Float(float) => hasher.write_u64(float.to_bits()),
        Value::Bytes(bytes) => hasher.write(bytes),
        _ => {}
    }
    hasher.finish()
}

/// A number on a line: one that is less is never behind, but numbers that are near may fall together.
#[inline]
pub(super) fn number_line(value: Value<'_>) -> Option<u64> {
    let float = match value {
        Value::Integer(integer) => integer as f64,
        Value::Float(float) if !float.is_nan() => float,
        _ => return None,
    };
    // Both zeros are one.
    let bits = (float + 0.0).to_bits();
    Some(if bits >> 63 == 1 { !bits } else { bits | 1 << 63 })
}

/// Bytes on a line, by the first 16 of them; the same holds.
#[inline]
pub(super) fn text_line(value: Value<'_>) -> Option<u128> {
    let Value::Bytes(bytes) = value else { return None };
    let mut first = [0; 16];
    let length = bytes.len().min(first.len());
    first[..length].copy_from_slice(&bytes[..length]);
    Some(u128::from_be_bytes(first))
}
