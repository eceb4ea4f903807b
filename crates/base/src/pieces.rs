//! Bytes that are appended to and grow without being copied: in pieces, none of which is large.
//!
//! A snapshot of millions of messages is megabytes that live for a moment. In one block it is copied each time it
//! doubles, and leaves a hole in the heap where longer-lived memory settles.

/// Bytes of every piece but the last.
pub const PIECE: usize = 64 << 10;

/// Bytes that [`put_varint`] writes at most.
const VARINT_MAX: usize = u64::BITS.div_ceil(7) as usize;

/// Seven bits a byte, lowest first, the top bit says that more follow.
pub fn put_varint(out: &mut impl Sink, mut number: u64) {
    let (mut bytes, mut len) = ([0; VARINT_MAX], 1);
    while number >= 0x80 {
        bytes[len - 1] = number as u8 | 0x80;
        number >>= 7;
        len += 1;
    }
    bytes[len - 1] = number as u8;
    out.put(&bytes[..len]);
}

/// The target a snapshot is written to: a `Vec` where it is small, [`Pieces`] where it may be large.
pub trait Sink {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);

    /// Bytes there are.
    fn size(&self) -> usize;

    /// Overwrites the bytes from `at` on.
    ///
    /// # Panics
    /// When there are not as many bytes from there on.
    fn patch(&mut self, at: usize, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn size(&self) -> usize {
        self.len()
    }

    fn patch(&mut self, at: usize, bytes: &[u8]) {
        self[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// See the module's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// Each of [`PIECE`] bytes.
    full: Vec<Vec<u8>>,
    /// Shorter than that.
    last: Vec<u8>,
}

impl Pieces {
    /// All bytes, a piece after the other.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.full.iter().chain((!self.last.is_empty()).then_some(&self.last)).map(Vec::as_slice)
    }

    /// All bytes in one block.
    pub fn to_vec(&self) -> Vec<u8> {
        self.iter().flatten().copied().collect()
    }

    /// Fills the last piece and begins the next.
    #[cold]
    fn put_over(&mut self, mut bytes: &[u8]) {
        while self.last.len() + bytes.len() >= PIECE {
            let (fits, rest) = bytes.split_at(PIECE - self.last.len());
            self.last.reserve_exact(fits.len());
            self.last.extend_from_slice(fits);
            // A writer that filled one piece fills another.
            let next = Vec::with_capacity(PIECE);
            self.full.push(std::mem::replace(&mut self.last, next));
            bytes = rest;
        }
        self.last.extend_from_slice(bytes);
    }
}

impl Sink for Pieces {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        match self.last.len() + bytes.len() < PIECE {
            true => self.last.extend_from_slice(bytes),
            false => self.put_over(bytes),
        }
    }

    fn size(&self) -> usize {
        self.full.len() * PIECE + self.last.len()
    }

    fn patch(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.size(), "over what is not there");
        for (at, byte) in (at..).zip(bytes) {
            let piece = self.full.get_mut(at / PIECE).unwrap_or(&mut self.last);
            piece[at % PIECE] = *byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE, Pieces, Sink};
    use crate::random::Random;

    #[test]
    fn hold_what_a_vec_would() {
        for seed in 0..40 {
            let mut random = Random::new(seed);
            let (mut pieces, mut expected) = (Pieces::default(), Vec::new());
            for _ in 0..40 {
                let len = match random.below(4) {
                    0 => random.below(3 * PIECE as u64),
                    1 => (PIECE - expected.len() % PIECE) as u64,
                    _ => random.below(20),
                };
                let bytes: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
                pieces.put(&bytes);
                expected.put(&bytes);
                let at = random.below(expected.len() as u64 + 1) as usize;
                let over = &bytes[..bytes.len().min(expected.len() - at).min(8)];
                pieces.patch(at, over);
                expected.patch(at, over);
                assert_eq!(pieces.size(), expected.len(), "seed {seed}");
            }
            assert!(pieces.to_vec() == expected, "seed {seed}");
            assert!(pieces.iter().all(|piece| (1..=PIECE).contains(&piece.len())), "seed {seed}");
        }
    }

    #[test]
    #[should_panic(expected = "over what is not there")]
    fn are_not_patched_beyond_their_end() {
        let mut pieces = Pieces::default();
        pieces.put(&[0; 7]);
        pieces.patch(4, &[0; 4]);
    }
}
