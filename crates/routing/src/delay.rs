//! How long a message that comes through a delayed-message exchange asks to wait.

use crate::headers::{Field, Headers};

/// The longest delay, milliseconds: a message that asks for more waits as long.
pub const DELAY_MS_MAX: i64 = i64::MAX;

/// Milliseconds the message is to wait, at most [`DELAY_MS_MAX`]; `None` where that is not said, or is no time to come:
/// it is not delayed. Numbers count, as text too, and of fractions the whole part. An unsigned number of 64 bits with the highest
/// set is one below zero: some clients read the negated delay of a message so, and send it on.
pub fn delay_ms(headers: &dyn Headers) -> Option<u64> {
    let delay_ms = match headers.delay()? {
        Field::Int(number) => number,
        Field::Unsigned(number) => number.cast_signed(),
        // Saturates; not-a-number is 0.
        Field::Float(number) => number as i64,
        Field::Bytes(text) => of_text(text)?,
        _ => return None,
    };
    (1..=DELAY_MS_MAX).contains(&delay_ms).then_some(delay_ms as u64)
}

/// The number a text is, at most as large as numbers are.
fn of_text(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return str::from_utf8(text).ok()?.parse().ok();
    }
    match str::from_utf8(digits).ok()?.parse::<u64>() {
        Ok(number) => Some(number.cast_signed()),
        // It has too many digits.
        Err(_) => Some(DELAY_MS_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::{DELAY, Property};

    struct Asks(Option<Field<'static>>);

    impl Headers for Asks {
        fn get(&self, name: &[u8]) -> Option<Field<'_>> {
            self.0.clone().filter(|_| name == DELAY)
        }

        fn encodings<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {
            visit(DELAY, DELAY);
        }

        fn read<'a>(&'a self, encoding: &'a [u8]) -> Option<Field<'a>> {
            self.get(encoding)
        }

        fn property(&self, _: Property) -> Option<Field<'_>> {
            None
        }
    }

    fn text(number: impl ToString) -> Field<'static> {
        Field::Bytes(number.to_string().into_bytes().leak())
    }

    #[test]
    fn asks_for_a_time_to_come() {
        let check = |field, expected| assert_eq!(delay_ms(&Asks(field)), expected);
        check(None, None);
        check(Some(Field::Int(5000)), Some(5000));
        for nothing in [0, -1, -5000, i64::MIN] {
            check(Some(Field::Int(nothing)), None);
            check(Some(Field::Unsigned(nothing.cast_unsigned())), None);
            check(Some(Field::Float(nothing as f64)), None);
            check(Some(text(nothing)), None);
            check(Some(text(nothing.cast_unsigned())), None);
        }
        for far in [u32::MAX.into(), 1 << 32, 15_552_000_000, 315_360_000_000, 1 << 53] {
            check(Some(Field::Int(far)), Some(far as u64));
            check(Some(Field::Unsigned(far as u64)), Some(far as u64));
            check(Some(Field::Float(far as f64)), Some(far as u64));
            check(Some(text(far)), Some(far as u64));
        }
        let most = Some(DELAY_MS_MAX as u64);
        check(Some(Field::Int(i64::MAX)), most);
        check(Some(Field::Float(1e300)), most);
        check(Some(Field::Float(f64::INFINITY)), most);
        check(Some(Field::Bytes(b"99999999999999999999999")), most);
        check(Some(Field::Unsigned(7)), Some(7));
        check(Some(Field::Float(99.9)), Some(99));
        check(Some(Field::Float(f64::NAN)), None);
        check(Some(Field::Bytes(b"250")), Some(250));
        check(Some(Field::Bytes(b"+250")), Some(250));
        check(Some(Field::Bytes(b"-99999999999999999999999")), None);
        check(Some(Field::Bytes(b"")), None);
        check(Some(Field::Bytes(b"+")), None);
        check(Some(Field::Bytes(b"soon")), None);
        check(Some(Field::Bool(true)), None);
        check(Some(Field::Void), None);
    }
}
