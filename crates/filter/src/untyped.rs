//! Values of formats that have texts alone: FIX and its like.
//!
//! Such a value takes the type of what it stands beside: it is the number that it reads as where a number is wanted, the
//! truth value that it reads as where one is, and otherwise a text. Two of them are numbers if both read as one.

use crate::found::Room;
use crate::number;
use crate::value::Value;

/// A text that may be meant as something else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Untyped<'a> {
    text: &'a [u8],
    /// The number that it reads as: null where one is beyond the range of all numbers.
    number: Option<Value<'static>>,
}

impl<'a> Untyped<'a> {
    /// The value of a text; it is read once, and kept in the room. Unreadable where there is no room for it.
    pub fn value(text: &'a [u8], room: &'a Room) -> Value<'a> {
        let untyped = Untyped { text, number: number(text) };
        room.bump().try_alloc(untyped).map_or(Value::Unreadable, |kept| Value::Untyped(kept))
    }

    /// The text.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// The number that it reads as; the text where it is none.
    pub(crate) fn number(&self) -> Value<'a> {
        self.number.unwrap_or(Value::Bytes(self.text))
    }

    /// The truth value that it reads as: `Y` and `N` of FIX, `true` and `false` in any case.
    pub(crate) fn truth(&self) -> Option<bool> {
        match self.text {
            b"Y" => Some(true),
            b"N" => Some(false),
            text if text.eq_ignore_ascii_case(b"true") => Some(true),
            text if text.eq_ignore_ascii_case(b"false") => Some(false),
            _ => None,
        }
    }

    /// All that it reads as: the text, and the number and the truth value where it is one.
    pub(crate) fn readings(&self) -> impl Iterator<Item = Value<'a>> {
        let truth = self.truth().map(Value::Bool);
        [Some(Value::Bytes(self.text)), self.number, truth].into_iter().flatten()
    }

    /// The value beside another one.
    pub(crate) fn beside(&self, other: Value<'_>) -> Value<'a> {
        match other {
            Value::Bool(_) => self.truth().map_or(Value::Bytes(self.text), Value::Bool),
            Value::Integer(_) | Value::Float(_) => self.number(),
            Value::Untyped(other) if other.number.is_some() => self.number(),
            _ => Value::Bytes(self.text),
        }
    }
}

/// The number that a text reads as: as JSON writes it, and with what FIX and XML allow beside: zeros and a plus before it,
/// no digit before or behind the point, white space around it.
fn number(text: &[u8]) -> Option<Value<'static>> {
    let text = text.trim_ascii();
    if !matches!(text.first()?, b'0'..=b'9' | b'+' | b'-' | b'.') {
        return None;
    }
    if let Some(number) = number::value(text) {
        return Some(number);
    }
    let (sign, digits) = match text {
        [sign @ (b'+' | b'-'), digits @ ..] => (*sign, digits),
        digits => (b'+', digits),
    };
    let end = digits.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(digits.len());
    let (digits, exponent) = digits.split_at(end);
    let point = digits.iter().position(|byte| *byte == b'.').unwrap_or(digits.len());
    let (whole, fraction) = (&digits[..point], digits.get(point + 1..).unwrap_or_default());
    let is_digits = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_digit);
    let is_exponent = match exponent {
        [] => true,
        [_, b'+' | b'-', digits @ ..] | [_, digits @ ..] => !digits.is_empty() && is_digits(digits),
    };
    if whole.len() + fraction.len() == 0 || !is_digits(whole) || !is_digits(fraction) || !is_exponent {
        return None;
    }
    // Now that it is one, it is read as others are.
    if exponent.is_empty() && fraction.is_empty() {
        let zeros = whole.iter().take_while(|byte| **byte == b'0').count();
        let whole = &whole[zeros.min(whole.len() - 1)..];
        return match (sign, number::value(whole)?) {
            (b'-', Value::Integer(number)) => Some(Value::Integer(-number)),
            (b'-', Value::Float(number)) => Some(Value::Float(-number)),
            (_, number) => Some(number),
        };
    }
    let number = str::from_utf8(text).ok()?.parse::<f64>().ok()?;
    Some(if number.is_finite() { Value::Float(number) } else { Value::Null })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_fix_and_xml_write_them() {
        for (text, expected) in [
            ("17", Value::Integer(17)),
            ("-17", Value::Integer(-17)),
            ("+17", Value::Integer(17)),
            ("00023", Value::Integer(23)),
            ("-0023", Value::Integer(-23)),
            ("000", Value::Integer(0)),
            ("23.", Value::Integer(23)),
            ("23.0", Value::Float(23.0)),
            ("00023.23", Value::Float(23.23)),
            (".5", Value::Float(0.5)),
            ("-.5", Value::Float(-0.5)),
            (" 5\t", Value::Integer(5)),
            ("1e3", Value::Float(1000.0)),
            ("+1.E3", Value::Float(1000.0)),
            ("1e999", Value::Null),
            ("01e999", Value::Null),
            ("0170141183460469231731687303715884105728", Value::Float(2f64.powi(127))),
            ("-0170141183460469231731687303715884105728", Value::Float(-2f64.powi(127))),
        ] {
            assert_eq!(number(text.as_bytes()), Some(expected), "{text}");
        }
        for text in [
            "", " ", "+", "-", ".", "-.", "e5", ".e5", "1e", "1e+", "1.2.3", "1-2", "0x10", "1 2", "--1",
            "+-1",
        ] {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
        for text in ["NaN", "inf", "Infinity", "IBM", "\u{ff11}", "1\u{ff11}", "20261129-08:00:00", "1_000"] {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
    }
}
