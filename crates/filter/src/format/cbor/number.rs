//! Numbers that CBOR has and other formats have not.

use crate::value::Value;

/// A float of 16 bits, RFC 8949 appendix D: a sign, 5 bits of exponent, 10 of mantissa.
pub(super) fn half(bits: u16) -> f64 {
    let exponent = i32::from(bits >> 10 & 0x1F);
    let mantissa = f64::from(bits & 0x3FF);
    let size = match exponent {
        0 => mantissa * 2f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (mantissa + 1024.0) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// Milliseconds since 1970 of seconds; what is no number is itself.
pub(super) fn time_ms(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Integer(seconds) => Value::Integer(seconds.saturating_mul(1000)),
        Value::Float(seconds) if seconds.is_finite() => {
            let ms = (seconds * 1000.0).round();
            // Beyond there a number of seconds is no time.
            if ms.abs() < 1e38 { Value::Integer(ms as i128) } else { Value::Null }
        }
        value => value,
    }
}

/// An integer of any length, the highest byte first, of which a negative one is -1 less it: exact up to 128 bits, otherwise
/// the nearest approximate one; unknown beyond the range of those.
pub(super) fn big(bytes: &[u8], is_negative: bool) -> Value<'static> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let bytes = &bytes[zeros..];
    let (top, rest) = bytes.split_at(bytes.len().min(size_of::<u128>()));
    let top = top.iter().fold(0u128, |number, byte| number << 8 | u128::from(*byte));
    if rest.is_empty()
        && let Ok(number) = i128::try_from(top)
    {
        return Value::Integer(if is_negative { -1 - number } else { number });
    }
    // The rest, below the highest bits, tells only whether they are all: a bit below the last that counts says so.
    let top = match is_negative {
        true if rest.iter().all(|byte| *byte == 0xFF) => top.saturating_add(1),
        true => top | 1,
        false => top | u128::from(rest.iter().any(|byte| *byte != 0)),
    };
    let bits = i32::try_from(8 * rest.len()).unwrap_or(i32::MAX);
    let size = libm::scalbn(top as f64, bits);
    match size.is_finite() {
        true => Value::Float(if is_negative { -size } else { size }),
        false => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_those_of_the_appendix() {
        for (bits, expected) in [
            (0x0000, 0.0),
            (0x3C00, 1.0),
            (0x3E00, 1.5),
            (0x7BFF, 65504.0),
            (0x0001, 5.960_464_477_539_063e-8),
            (0x0400, 0.000_061_035_156_25),
            (0xC400, -4.0),
            (0x7C00, f64::INFINITY),
            (0xFC00, f64::NEG_INFINITY),
        ] {
            assert_eq!(half(bits), expected, "{bits:04x}");
        }
        assert!(half(0x7E00).is_nan());
    }

    #[test]
    fn large_integers_are_exact_where_they_can_be() {
        let most = i128::MAX.to_be_bytes();
        assert_eq!(big(&most, false), Value::Integer(i128::MAX));
        assert_eq!(big(&most, true), Value::Integer(i128::MIN));
        assert_eq!(big(&[], false), Value::Integer(0));
        assert_eq!(big(&[0; 40], true), Value::Integer(-1));
        assert_eq!(big(&[&[0; 9][..], &most].concat(), false), Value::Integer(i128::MAX));
        let above = (1u128 << 127).to_be_bytes();
        assert_eq!(big(&above, false), Value::Float(2f64.powi(127)));
        assert_eq!(big(&above, true), Value::Float(-2f64.powi(127)));
        assert_eq!(big(&[0xFF; 16], true), Value::Float(-2f64.powi(128)));
        // Halfway between two, with and without a bit far below.
        let mut halfway = vec![0; 40];
        halfway[0] = 0x80;
        halfway[6] = 0x04;
        let below = 2f64.powi(319);
        assert_eq!(big(&halfway, false), Value::Float(below));
        halfway[39] = 1;
        assert_eq!(big(&halfway, false), Value::Float(below.next_up()));
        assert_eq!(big(&[0xFF; 128], false), Value::Null);
        assert_eq!(big(&vec![1; 1 << 20], true), Value::Null);
    }
}
