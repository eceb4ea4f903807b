//! Keyed digests of 128 bits: short names for long values, told apart as if they were the values.
//!
//! SipHash-2-4 with 128 bits (Aumasson and Bernstein): a search for two values with one digest takes 2^64 digests by a holder of
//! the key. Digests are recorded, so a key is never one of a process alone: it is the folder's, which the catalog keeps, or
//! [`DigestKey::FIXED`].

use std::fmt;

/// Bytes of a digest, and of a key.
pub const DIGEST: usize = 16;

/// Stands for a value, under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u64; 2]);

impl Digest {
    /// The digest of these bytes, as [`Digest::bytes`] gives them.
    pub fn of_bytes(bytes: [u8; DIGEST]) -> Digest {
        Digest(words(bytes))
    }

    /// It as it is recorded.
    pub fn bytes(self) -> [u8; DIGEST] {
        bytes(self.0)
    }
}

/// The key of digests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DigestKey([u64; 2]);

impl DigestKey {
    /// The key, for good, of digests that messages take along to other nodes. Collisions under it can be looked for anywhere.
    pub const FIXED: DigestKey = DigestKey([0x6c65_7665_7265_7431, 0x6469_6765_7374_2d31]);

    /// A key of bytes that nobody may foretell.
    pub fn new(bytes: [u8; DIGEST]) -> DigestKey {
        DigestKey(words(bytes))
    }

    /// The bytes it was made of.
    pub fn bytes(self) -> [u8; DIGEST] {
        bytes(self.0)
    }
}

/// A key is not for logs.
impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey(..)")
    }
}

fn words(bytes: [u8; DIGEST]) -> [u64; 2] {
    let both = u128::from_le_bytes(bytes);
    [both as u64, (both >> 64) as u64]
}

fn bytes([low, high]: [u64; 2]) -> [u8; DIGEST] {
    (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
}

/// A digest under way.
#[derive(Clone, Debug)]
pub struct Digester {
    v: [u64; 4],
    /// Bytes that do not fill a word yet, lowest first.
    tail: u64,
    len: u64,
}

impl Digester {
    /// Nothing is added yet.
    pub fn new(DigestKey([k0, k1]): &DigestKey) -> Digester {
        let v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        Digester { v, tail: 0, len: 0 }
    }

    /// Adds bytes; in how many pieces they come makes no difference.
    pub fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.tail |= u64::from(byte) << (8 * (self.len % 8));
            self.len += 1;
            if self.len.is_multiple_of(8) {
                let word = std::mem::take(&mut self.tail);
                self.word(word);
            }
        }
    }

    fn word(&mut self, word: u64) {
        self.v[3] ^= word;
        self.rounds(2);
        self.v[0] ^= word;
    }

    fn rounds(&mut self, count: u32) {
        let [mut a, mut b, mut c, mut d] = self.v;
        for _ in 0..count {
            a = a.wrapping_add(b);
            b = b.rotate_left(13) ^ a;
            a = a.rotate_left(32);
            c = c.wrapping_add(d);
            d = d.rotate_left(16) ^ c;
            a = a.wrapping_add(d);
            d = d.rotate_left(21) ^ a;
            c = c.wrapping_add(b);
            b = b.rotate_left(17) ^ c;
            c = c.rotate_left(32);
        }
        self.v = [a, b, c, d];
    }

    /// The digest of all that was added.
    pub fn finish(mut self) -> Digest {
        let last = self.tail | self.len << 56;
        self.word(last);
        let fold = |v: [u64; 4]| v.into_iter().fold(0, |sum, word| sum ^ word);
        self.v[2] ^= 0xee;
        self.rounds(4);
        let first = fold(self.v);
        self.v[1] ^= 0xdd;
        self.rounds(4);
        Digest([first, fold(self.v)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of the reference implementation: key 00 01 ... 0f, input 00 01 ... of that length.
    fn check(len: u8, expected: [u8; DIGEST]) {
        let key = DigestKey::new(std::array::from_fn(|at| at as u8));
        let input: Vec<u8> = (0..len).collect();
        for split in 0..=input.len() {
            let mut digester = Digester::new(&key);
            digester.write(&input[..split]);
            digester.write(&input[split..]);
            let digest = digester.finish();
            assert_eq!(digest.bytes(), expected, "{len} bytes, split at {split}");
            assert_eq!(Digest::of_bytes(expected), digest);
        }
    }

    #[test]
    fn vectors_of_the_reference() {
        check(
            0,
            [0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93],
        );
        check(
            1,
            [0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45],
        );
    }

    #[test]
    fn the_fixed_key_stays_what_it_is() {
        let mut digester = Digester::new(&DigestKey::FIXED);
        digester.write(b"order 17, invoice 4");
        assert_eq!(digester.finish(), Digest([0xa625_2525_b434_64aa, 0x6311_e512_67ef_16d3]));
    }

    #[test]
    fn another_key_gives_another_digest() {
        let one = |key| {
            let mut digester = Digester::new(&DigestKey::new([key; DIGEST]));
            digester.write(b"order 17");
            digester.finish()
        };
        assert_eq!((one(1) == one(1), one(1) == one(2)), (true, false));
    }

    #[test]
    fn a_key_comes_back_and_is_not_shown() {
        let bytes = std::array::from_fn(|at| at as u8 * 16);
        let key = DigestKey::new(bytes);
        assert_eq!((key.bytes(), format!("{key:?}")), (bytes, "DigestKey(..)".to_owned()));
    }
}
