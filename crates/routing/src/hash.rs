//! The hashes by which RabbitMQ spreads messages, so that a message goes to the queue it would go to there.
//!
//! Two public algorithms: the portable term hash of Erlang (Jenkins' hash of blocks, over a few kinds of terms), and
//! jump hashing, whose dice are a xorshift generator of 1,024 bits seeded with the key. Neither resists a publisher
//! that chooses keys on purpose: they decide which queue gets a message, nothing else.

use crate::headers::Field;

/// The golden ratio, from which all constants come.
const GOLDEN: u32 = 0x9e37_79b9;

/// Hashes are cut to 27 bits.
const RANGE: u32 = 1 << 27;

/// The hash where a message has no such header or property: that of the term `undefined`.
const NOTHING: u32 = 45_914_356;

/// The terms `true` and `false`.
const TRUE: u32 = 506_293;
const FALSE: u32 = 7_111_573;

fn constant(number: u32) -> u32 {
    GOLDEN.wrapping_mul(number)
}

fn mix(mut a: u32, mut b: u32, mut c: u32) -> [u32; 3] {
    for [first, second, third] in [[13, 8, 13], [12, 16, 5], [3, 10, 15]] {
        a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> first);
        b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << second);
        c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> third);
    }
    [a, b, c]
}

fn two_words(first: u32, second: u32, constant: u32, hash: u32) -> u32 {
    mix(constant.wrapping_add(first), constant.wrapping_add(second), hash)[2]
}

/// The hash of bytes that follow others whose hash is `hash`.
fn bytes_after(bytes: &[u8], hash: u32) -> u32 {
    let word = |part: &[u8]| part.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    let mut state = [GOLDEN, GOLDEN, constant(13).wrapping_add(hash)];
    if bytes.is_empty() {
        return state[2];
    }
    let mut blocks = bytes.chunks_exact(12);
    for block in &mut blocks {
        let [a, b, c] = state;
        let [x, y, z] = [word(&block[..4]), word(&block[4..8]), word(&block[8..])];
        state = mix(a.wrapping_add(x), b.wrapping_add(y), c.wrapping_add(z));
    }
    // The length takes the lowest byte of the last word.
    let mut rest = [0; 12];
    let left = blocks.remainder();
    rest[..left.len()].copy_from_slice(left);
    let [a, b, c] = state;
    let [x, y, z] = [word(&rest[..4]), word(&rest[4..8]), word(&rest[8..11]) << 8];
    mix(a.wrapping_add(x), b.wrapping_add(y), c.wrapping_add(bytes.len() as u32).wrapping_add(z))[2]
}

/// Steps that the choice of a bucket takes, whatever it hangs on.
const CHOICE_STEPS: usize = 32;

/// Bytes of keys that are hashed in one step.
const STEP_BYTES: usize = 8;

/// Steps that hashing these keys and choosing a bucket takes.
pub(crate) fn steps<'a>(keys: impl Iterator<Item = &'a &'a [u8]>) -> usize {
    CHOICE_STEPS + keys.map(|key| 1 + key.len() / STEP_BYTES).sum::<usize>()
}

/// The hash of bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> u32 {
    bytes_after(bytes, 0) % RANGE
}

/// The hash of a list of keys.
pub(crate) fn of_keys(keys: &[&[u8]]) -> u32 {
    const NIL: u32 = 2;
    let hash = keys.iter().fold(0, |hash, key| bytes_after(key, hash));
    two_words(NIL, 0, constant(2), hash) % RANGE
}

/// The seed of jump hashing for a header or property. Decimal numbers, lists and tables are spread evenly, but
/// not as RabbitMQ spreads them.
pub(crate) fn of_field(field: Option<Field<'_>>) -> u64 {
    match field {
        None | Some(Field::Void) => u64::from(NOTHING),
        Some(Field::Bool(true)) => u64::from(TRUE),
        Some(Field::Bool(false)) => u64::from(FALSE),
        Some(Field::Int(number)) => number as u64,
        Some(Field::Unsigned(number)) => number,
        // Counted in milliseconds.
        Some(Field::Timestamp(seconds)) => seconds.wrapping_mul(1000),
        Some(Field::Float(number)) => {
            // 0 and -0 are the same.
            let bits = (number + 0.0).to_bits();
            u64::from(two_words((bits >> 32) as u32, bits as u32, constant(12), 0) % RANGE)
        }
        Some(Field::Bytes(bytes)) => u64::from(of_bytes(bytes)),
        Some(Field::Decimal { scale, value }) => {
            u64::from(two_words(value, u32::from(scale), constant(1), 0))
        }
        Some(Field::Nested(value)) => u64::from(of_bytes(value.to_string().as_bytes())),
    }
}

/// Jump hashing (Lamping and Veach, 2014): which of `buckets`, at least 1, a key falls into. Where their number grows
/// from n to n + 1, one key in n + 1 moves. At most some tens of steps: each leads on by half of the rest on average.
pub(crate) fn jump(key: u64, buckets: u64) -> u64 {
    assert!(buckets > 0, "a key needs a bucket");
    if buckets == 1 {
        return 0;
    }
    let mut dice = Dice::new(key);
    let mut next = 0u64;
    loop {
        let bucket = next;
        let jump = (bucket as f64 + 1.0) / dice.fraction();
        if jump >= buckets as f64 {
            return bucket;
        }
        next = jump as u64;
    }
}

/// Xorshift1024* (Vigna, 2016).
struct Dice {
    state: [u64; 16],
    at: usize,
}

impl Dice {
    fn new(key: u64) -> Dice {
        const LOW: u64 = (1 << 21) - 1;
        let part = |factor: u64| (((key & LOW) + 1) * factor) & LOW;
        let mut seed = part(2_097_131) << 43 | part(2_097_133) << 22 | part(2_097_143) << 1 | 1;
        let mut state = [0; 16];
        for word in state.iter_mut().rev() {
            seed ^= seed >> 12;
            seed ^= seed << 25;
            seed ^= seed >> 27;
            *word = seed.wrapping_mul(2_685_821_657_736_338_717);
        }
        Dice { state, at: 0 }
    }

    /// From 0 to below 1.
    fn fraction(&mut self) -> f64 {
        let before = self.state[self.at];
        self.at = (self.at + 1) % 16;
        let mut word = self.state[self.at];
        word ^= word << 31;
        word ^= word >> 11;
        word ^= before ^ (before >> 30);
        self.state[self.at] = word;
        word.wrapping_mul(1_181_783_497_276_652_981) as f64 / 2f64.powi(64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // All numbers are Erlang/OTP 27's answers on RabbitMQ 4.3.6.

    #[test]
    fn bytes_are_hashed_as_erlang_does() {
        let rows: [(&str, u32, u32); 7] = [
            ("", 13_708_901, 38_220_213),
            ("a", 112_802_447, 53_691_870),
            ("abc", 98_228_475, 63_525_141),
            ("k1", 57_409_138, 21_317_394),
            ("hello world 12", 95_725_649, 92_479_014),
            ("0123456789ab", 115_360_506, 119_280_432),
            ("0123456789abcdefghijklmnop", 40_292_403, 78_361_916),
        ];
        for (text, own, listed) in rows {
            assert_eq!((of_bytes(text.as_bytes()), of_keys(&[text.as_bytes()])), (own, listed), "{text}");
        }
        assert_eq!(of_bytes(b"0123456789a"), 73_708_536);
        assert_eq!(of_bytes(b"0123456789abc"), 67_923_675);
        assert_eq!(of_keys(&[b"a", b"b"]), 3_094_894);
        assert_eq!(of_keys(&[b"a", b""]), 8_559_055);
    }

    #[test]
    fn numbers_are_their_own_seeds() {
        for (number, hash) in
            [(1.5, 10_380_315), (0.0, 20_875_736), (-0.0, 20_875_736), (3.25e10, 22_572_753)]
        {
            assert_eq!(of_field(Some(Field::Float(number))), hash, "{number}");
        }
        assert_eq!(of_field(Some(Field::Int(-5))), -5i64 as u64);
        assert_eq!(of_field(None), of_field(Some(Field::Void)));
    }

    #[test]
    fn dice_fall_as_erlangs_do() {
        let rows = [
            (0, [0.2942322177448042, 0.9893093436811865, 0.32632696091752267]),
            (77, [0.03062496013915016, 0.37390371419376556, 0.8959057127088637]),
            (123_456_789, [0.7295665694070308, 0.3356076399443135, 0.49725118748728003]),
            (-5i64 as u64, [0.4464146051906634, 0.04317419107410052, 0.05459026675610531]),
        ];
        for (key, expected) in rows {
            let mut dice = Dice::new(key);
            assert_eq!(expected, [(); 3].map(|()| dice.fraction()), "{key}");
        }
    }

    #[test]
    fn keys_jump_to_the_same_buckets() {
        let rows = [
            (0, 10, 4),
            (1, 10, 3),
            (77, 10, 0),
            (123_456_789, 1000, 584),
            (-5i64 as u64, 7, 2),
            (68_719_476_735, 100_000, 46_231),
            (45_914_356, 3, 1),
            (112_802_447, 10, 6),
            (5, 1, 0),
        ];
        for (key, buckets, expected) in rows {
            assert_eq!(jump(key, buckets), expected, "{key} of {buckets}");
        }
    }

    #[test]
    fn few_keys_move_when_a_bucket_is_added() {
        let moved = (0..10_000).filter(|key| jump(*key, 10) != jump(*key, 11)).count();
        assert!((700..1_100).contains(&moved), "{moved} moved; a tenth to an eleventh should");
        assert!((0..10_000).all(|key| jump(key, 11) == 10 || jump(key, 11) == jump(key, 10)));
    }
}
