//! The Bloom filter of a chunk: which filter values its entries may have.
//!
//! A value sets two bits, found by Erlang's portable hash of it and of a list with it alone, as in the chunks of
//! RabbitMQ. Bits count from the highest of the first byte. Bit 0 stands for entries without a value, and
//! for that alone; values have the others.

/// The fewest bytes of a filter; the most are 255.
pub const FILTER_LEN_MIN: u8 = 16;
/// Bytes of a filter where a stream does not say.
pub const FILTER_LEN_DEFAULT: u8 = 16;

/// The golden ratio, where lookup2 begins; Erlang's constants are multiples of it.
const RATIO: u32 = 0x9e37_79b9;
/// Where Erlang begins with binaries.
const BINARY: u32 = RATIO.wrapping_mul(13);
/// Where Erlang goes on with the empty list, which has the number 2.
const EMPTY_LIST: u32 = RATIO.wrapping_mul(2);

/// The two hashes of a value, for any size of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hashes(u32, u32);

impl Hashes {
    fn of(value: &[u8]) -> Hashes {
        let binary = block_hash(value, BINARY);
        let [_, _, list] = mix([EMPTY_LIST.wrapping_add(2), EMPTY_LIST, binary]);
        Hashes(binary, list)
    }

    fn bits(self, filter_len: usize) -> [usize; 2] {
        let count = (filter_len * 8) as u32 - 1;
        [(self.0 % count) as usize + 1, (self.1 % count) as usize + 1]
    }
}

/// Notes that an entry has `value`; an empty one is none.
pub(super) fn insert(filter: &mut [u8], value: &[u8]) {
    if value.is_empty() {
        filter[0] |= 0x80;
        return;
    }
    for bit in Hashes::of(value).bits(filter.len()) {
        filter[bit / 8] |= 0x80 >> (bit % 8);
    }
}

/// A consumer's choice of chunks: those that may have entries with one of its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    values: Vec<Hashes>,
    match_unfiltered: bool,
}

impl Filter {
    /// Wants entries with one of `values` and, if `match_unfiltered`, those without any. 8 bytes of memory a value.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a [u8]>, match_unfiltered: bool) -> Filter {
        let (mut hashes, mut match_unfiltered) = (Vec::new(), match_unfiltered);
        for value in values {
            // To RabbitMQ an empty value is no value.
            if value.is_empty() {
                match_unfiltered = true;
            } else {
                hashes.push(Hashes::of(value));
            }
        }
        Filter { values: hashes, match_unfiltered }
    }

    /// Whether a chunk with this Bloom filter may hold such an entry; without one it holds entries without a value
    /// alone.
    pub fn may_match(&self, bloom: &[u8]) -> bool {
        if bloom.is_empty() {
            return self.match_unfiltered;
        }
        let has = |bit: usize| bloom[bit / 8] & (0x80 >> (bit % 8)) != 0;
        (self.match_unfiltered && has(0))
            || self.values.iter().any(|value| value.bits(bloom.len()).into_iter().all(has))
    }
}

/// Bob Jenkins's lookup2.
fn block_hash(bytes: &[u8], initial: u32) -> u32 {
    let word = |part: &[u8]| part.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    let add = |state: [u32; 3], words: [u32; 3]| std::array::from_fn(|i| state[i].wrapping_add(words[i]));
    let mut state = [RATIO, RATIO, initial];
    let mut blocks = bytes.chunks_exact(12);
    for block in &mut blocks {
        state = mix(add(state, [word(&block[..4]), word(&block[4..8]), word(&block[8..])]));
    }
    let rest = blocks.remainder();
    let part = |from: usize, to: usize| word(&rest[from.min(rest.len())..to.min(rest.len())]);
    // The lowest byte of the third word is the length's.
    let third = (part(8, 11) << 8).wrapping_add(bytes.len() as u32);
    mix(add(state, [part(0, 4), part(4, 8), third]))[2]
}

fn mix([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    for [first, second, third] in [[13, 8, 13], [12, 16, 5], [3, 10, 15]] {
        a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> first);
        b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << second);
        c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> third);
    }
    [a, b, c]
}

#[cfg(test)]
mod tests {
    use super::{Filter, Hashes, insert};

    /// Values and their hashes in Erlang/OTP 29: of the value, of a list with it, and the bits in a filter of 16 bytes.
    #[test]
    fn hashes_are_erlangs() {
        let all: Vec<u8> = (0..=255).collect();
        for (value, hashes, bits) in [
            (&b"a"[..], Hashes(1_589_197_455, 3_543_352_798), [101, 94]),
            (b"apple", Hashes(1_977_344_157, 906_012_242), [5, 85]),
            (b"invoices", Hashes(2_647_366_799, 2_941_845_946), [111, 40]),
            (b"twelve-bytes", Hashes(2_558_707_432, 1_526_491_941), [79, 75]),
            (b"thirteen byte", Hashes(2_583_333_678, 4_210_591_032), [9, 13]),
            (b"0123456789012345678901234567890123456789", Hashes(1_434_867_018, 4_236_624_560), [64, 65]),
            (&[0, 255, 128, 7], Hashes(3_702_647_628, 3_168_031_425), [94, 43]),
            (&all, Hashes(4_163_814_291, 1_166_980_643), [39, 123]),
        ] {
            assert_eq!((Hashes::of(value), Hashes::of(value).bits(16)), (hashes, bits), "{value:?}");
        }
    }

    #[test]
    fn filters_are_osiris() {
        let mut filter = [0; 16];
        for value in [&b"apple"[..], b"invoices", b""] {
            insert(&mut filter, value);
        }
        assert_eq!(filter, [132, 0, 0, 0, 0, 128, 0, 0, 0, 0, 4, 0, 0, 1, 0, 0]);
        let mut long = [0; 255];
        for value in [&b"apple"[..], b"invoices"] {
            insert(&mut long, value);
        }
        let set: Vec<_> = long.iter().enumerate().filter(|(_, byte)| **byte != 0).collect();
        assert_eq!(set, [(70, &4), (118, &128), (151, &1), (184, &1)]);
    }

    #[test]
    fn chunks_that_cannot_match_are_told_from_those_that_may() {
        let mut filter = [0; 16];
        insert(&mut filter, b"apple");
        let mut with_unfiltered = filter;
        insert(&mut with_unfiltered, b"");
        for (values, match_unfiltered, expected) in [
            (&[&b"apple"[..]][..], false, [true, true, false]),
            (&[b"invoices"], false, [false, false, false]),
            (&[b"invoices"], true, [false, true, true]),
            (&[b"invoices", b"apple"], false, [true, true, false]),
            (&[b""], false, [false, true, true]),
        ] {
            let wanted = Filter::new(values.iter().copied(), match_unfiltered);
            let actual = [&filter[..], &with_unfiltered, &[]].map(|bloom| wanted.may_match(bloom));
            assert_eq!(actual, expected, "{values:?} {match_unfiltered}");
        }
    }
}
