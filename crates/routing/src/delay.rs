//! How long a message that comes through a delayed-message exchange asks to wait.

use crate::headers::{Field, Headers};

/// The header that says it, in milliseconds.
pub const DELAY: &[u8] = b"x-delay";

/// The longest delay, milliseconds; what asks for more is not delayed.
pub const DELAY_MS_MAX: i64 = u32::MAX as i64;

/// Milliseconds the message is to wait, at most [`DELAY_MS_MAX`]; `None` where that is not said, or is no time to come:
/// it is not delayed. Numbers count, as text too, and of fractions the whole part.
pub fn delay_ms(headers: &dyn Headers) -> Option<u64> {
    let delay_ms = match headers.delay()? {
        Field::Int(number) => number,
        Field::Unsigned(number) => i64::try_from(number).ok()?,
        // Saturates; what is no number is 0.
        Field::Float(number) => number as i64,
        Field::Bytes(text) => str::from_utf8(text).ok()?.parse().ok()?,
        _ => return None,
    };
    (1..=DELAY_MS_MAX).contains(&delay_ms).then_some(delay_ms as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::Property;

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

    #[test]
    fn asks_for_a_time_to_come() {
        let check = |field, expected| assert_eq!(delay_ms(&Asks(field)), expected);
        check(None, None);
        check(Some(Field::Int(5000)), Some(5000));
        for nothing in [0, -1, -5000, i64::MIN, i64::MAX, DELAY_MS_MAX + 1] {
            check(Some(Field::Int(nothing)), None);
        }
        check(Some(Field::Int(DELAY_MS_MAX)), Some(u64::from(u32::MAX)));
        check(Some(Field::Unsigned(7)), Some(7));
        check(Some(Field::Unsigned(u64::MAX)), None);
        check(Some(Field::Float(99.9)), Some(99));
        check(Some(Field::Float(f64::NAN)), None);
        check(Some(Field::Float(f64::INFINITY)), None);
        check(Some(Field::Bytes(b"250")), Some(250));
        check(Some(Field::Bytes(b"soon")), None);
        check(Some(Field::Bool(true)), None);
        check(Some(Field::Void), None);
    }
}
