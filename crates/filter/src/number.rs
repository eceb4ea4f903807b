//! Numbers: RFC 8259 section 6.

use crate::value::Value;

/// Powers of ten that are exact as approximate numbers.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// Digits of a whole number that fit 64 bits, whatever they are.
const DIGITS_SHORT: usize = 19;

/// The parts of a number.
struct Parts<'a> {
    is_negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    has_exponent: bool,
}

/// Whether these bytes are a number, whole.
pub(crate) fn is_number(digits: &[u8]) -> bool {
    parts(digits).is_some()
}

/// The number that these bytes are: exact without fraction and exponent up to 128 bits, otherwise the nearest approximate one;
/// unknown beyond the range of those. None: they are none.
pub(crate) fn value(digits: &[u8]) -> Option<Value<'static>> {
    let Parts { is_negative, whole, fraction, has_exponent } = parts(digits)?;
    if fraction.is_empty() && !has_exponent {
        if whole.len() <= DIGITS_SHORT {
            let number = i128::from(short(whole));
            return Some(Value::Integer(if is_negative { -number } else { number }));
        }
        if let Ok(number) = str::from_utf8(digits).ok()?.parse() {
            return Some(Value::Integer(number));
        }
    }
    if !has_exponent && whole.len() + fraction.len() <= DIGITS_SHORT {
        let number = short(whole) * 10u64.pow(fraction.len() as u32) + short(fraction);
        // Both are exact, so their quotient is rounded once.
        if number < 1 << 53 {
            let number = number as f64 / POWERS[fraction.len()];
            return Some(Value::Float(if is_negative { -number } else { number }));
        }
    }
    let number = str::from_utf8(digits).ok()?.parse::<f64>().ok()?;
    Some(if number.is_finite() { Value::Float(number) } else { Value::Null })
}

fn parts(digits: &[u8]) -> Option<Parts<'_>> {
    let (is_negative, rest) = match digits.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, digits),
    };
    let (whole, rest) = split(rest);
    if whole.is_empty() || (whole[0] == b'0' && whole.len() > 1) {
        return None;
    }
    let (fraction, rest) = match rest.split_first() {
        Some((b'.', rest)) => match split(rest) {
            ([], _) => return None,
            parts => parts,
        },
        _ => (&[][..], rest),
    };
    let exponent = match rest.split_first() {
        None => return Some(Parts { is_negative, whole, fraction, has_exponent: false }),
        Some((b'e' | b'E', rest)) => rest,
        Some(_) => return None,
    };
    let exponent = match exponent.split_first() {
        Some((b'+' | b'-', rest)) => rest,
        _ => exponent,
    };
    match split(exponent) {
        ([_, ..], []) => Some(Parts { is_negative, whole, fraction, has_exponent: true }),
        _ => None,
    }
}

/// Digits, and what is behind them.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let length = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    bytes.split_at(length)
}

/// The number of at most [`DIGITS_SHORT`] digits.
fn short(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_where_they_can_be() {
        let check =
            |text: &str, expected: Value<'_>| assert_eq!(value(text.as_bytes()), Some(expected), "{text}");
        check("0", Value::Integer(0));
        check("-0", Value::Integer(0));
        check("-17", Value::Integer(-17));
        check("9999999999999999999", Value::Integer(9_999_999_999_999_999_999));
        let most = "99999999999999999999999999999999999999";
        check(most, Value::Integer(most.parse().unwrap()));
        check(&i128::MIN.to_string(), Value::Integer(i128::MIN));
        check(&i128::MAX.to_string(), Value::Integer(i128::MAX));
        check("170141183460469231731687303715884105728", Value::Float(2f64.powi(127)));
        check("0.1", Value::Float(0.1));
        check("-0.5", Value::Float(-0.5));
        check("123.45", Value::Float(123.45));
        check("9007199254740993.0", Value::Float(9_007_199_254_740_992.0));
        check("0.30000000000000004", Value::Float(0.300_000_000_000_000_04));
        check("1e3", Value::Float(1000.0));
        check("1.5E-3", Value::Float(0.0015));
        check("1e999", Value::Null);
        check("-1e999", Value::Null);
        check("1e-999", Value::Float(0.0));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "",
            "-",
            "+1",
            "01",
            "-01",
            "1.",
            ".5",
            "1.e2",
            "1e",
            "1e+",
            "1e1.5",
            "0x1",
            "1a",
            "NaN",
            "Infinity",
            "-Infinity",
            "1 2",
            "--1",
            "1-",
            "\u{ff11}",
            "12e4e",
        ] {
            assert_eq!(value(text.as_bytes()), None, "{text}");
            assert!(!is_number(text.as_bytes()), "{text}");
        }
    }
}
