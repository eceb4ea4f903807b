//! SipHash-2-4 with 128 bits: short names for long values, told apart as if they were the values.
//!
//! The key is fixed, because names are kept on disk. An attacker needs 2^64 tries to find two values with one name.

/// The key, for good.
const KEY: [u64; 2] = [0x6c65_7665_7265_7431, 0x6469_6765_7374_2d31];

/// A digest under way.
#[derive(Clone, Debug)]
pub struct Digest {
    v: [u64; 4],
    /// Bytes that do not fill a word yet, lowest first.
    tail: u64,
    len: u64,
}

impl Default for Digest {
    fn default() -> Digest {
        Digest::with_key(KEY)
    }
}

impl Digest {
    fn with_key([k0, k1]: [u64; 2]) -> Digest {
        let v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        Digest { v, tail: 0, len: 0 }
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
    pub fn finish(mut self) -> [u64; 2] {
        let last = self.tail | self.len << 56;
        self.word(last);
        let fold = |v: [u64; 4]| v.into_iter().fold(0, |sum, word| sum ^ word);
        self.v[2] ^= 0xee;
        self.rounds(4);
        let first = fold(self.v);
        self.v[1] ^= 0xdd;
        self.rounds(4);
        [first, fold(self.v)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of the reference implementation: key 00 01 ... 0f, input 00 01 ... of that length.
    fn check(len: u8, expected: [u8; 16]) {
        let word = |first: u8| u64::from_le_bytes(std::array::from_fn(|at| first + at as u8));
        let input: Vec<u8> = (0..len).collect();
        for split in 0..=input.len() {
            let mut digest = Digest::with_key([word(0), word(8)]);
            digest.write(&input[..split]);
            digest.write(&input[split..]);
            let bytes: Vec<u8> = digest.finish().into_iter().flat_map(u64::to_le_bytes).collect();
            assert_eq!(bytes, expected, "{len} bytes, split at {split}");
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
    fn the_key_stays_what_it_is() {
        let mut digest = Digest::default();
        digest.write(b"order 17, invoice 4");
        assert_eq!(digest.finish(), [0xa625_2525_b434_64aa, 0x6311_e512_67ef_16d3]);
    }
}
