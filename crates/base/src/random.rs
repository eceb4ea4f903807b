//! Seeded randomness: the same seed gives the same dice on every machine. Not for secrets, see [`crate::secrets`].

/// A small fast generator (xoshiro256++ seeded by splitmix64). Not for secrets: a few
/// thousand outputs give its state away, and with it all others.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Random {
        let mut x = seed;
        let state = std::array::from_fn(|_| {
            x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        });
        Random { state }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `0..bound`; `bound` must not be 0. The bias is below 2^-32 for bounds below 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a die has at least one side");
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `first..=last`.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        assert!(first <= last);
        match (last - first).checked_add(1) {
            Some(sides) => first + self.below(sides),
            None => self.bits(),
        }
    }

    /// True once in `sides` throws on average.
    pub fn one_in(&mut self, sides: u64) -> bool {
        self.below(sides) == 0
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let bits = self.bits().to_le_bytes();
            chunk.copy_from_slice(&bits[..chunk.len()]);
        }
    }

    /// A generator of its own, for a part that must not disturb the others' dice.
    pub fn fork(&mut self) -> Random {
        Random::new(self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn same_seed_same_dice() {
        let (mut a, mut b) = (Random::new(7), Random::new(7));
        assert!((0..100).all(|_| a.bits() == b.bits()));
        assert_ne!(Random::new(8).bits(), Random::new(7).bits());
    }

    #[test]
    fn below_stays_below() {
        let mut dice = Random::new(1);
        let mut seen = [false; 6];
        for _ in 0..1000 {
            seen[dice.below(6) as usize] = true;
        }
        assert_eq!(seen, [true; 6]);
        assert!((0..100).all(|_| (5..=7).contains(&dice.between(5, 7))));
    }
}
