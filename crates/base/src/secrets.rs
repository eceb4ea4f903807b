//! Bytes that nobody may foretell: keys of reply consumers, names that the server makes, salts, the folder's secret.
//!
//! ChaCha20 seeded with 256 bits. In a node the seed comes from the system's random source; in a simulation from the
//! simulation's own seed, so that a run repeats. Numbers that may be foretold, as the lots an exchange draws, come from
//! [`crate::Random`], which is faster and whose outputs give its state away. The two have no method in common, and
//! a node makes no secrets from dice.
//! Invariant: no two sources of a node give the same bytes: a source cannot be copied, only forked.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use std::fmt;

/// Bytes of a seed.
pub const SECRET_SEED: usize = 32;

/// A source of secrets. See the module.
pub struct Secrets(ChaCha20Rng);

impl Secrets {
    /// The source of a seed, which must come from the system's random source.
    pub fn new(seed: [u8; SECRET_SEED]) -> Secrets {
        Secrets(ChaCha20Rng::from_seed(seed))
    }

    /// The source of a simulation or test: the same seed gives the same bytes.
    pub fn simulated(seed: u64) -> Secrets {
        let mut whole = [0; SECRET_SEED];
        whole[..8].copy_from_slice(&seed.to_le_bytes());
        Secrets::new(whole)
    }

    /// The next bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    /// A source of its own, for a part of the node.
    pub fn fork(&mut self) -> Secrets {
        Secrets::new(self.bytes())
    }
}

/// Neither the state nor its output is for logs.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8439, appendix A.1, test vectors 1 and 2: the key stream of a key of zeros.
    #[test]
    fn the_bytes_are_those_of_chacha20() {
        let mut secrets = Secrets::new([0; SECRET_SEED]);
        let first = [
            0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90, 0x40, 0x5d, 0x6a, 0xe5, 0x53, 0x86, 0xbd, 0x28,
            0xbd, 0xd2, 0x19, 0xb8, 0xa0, 0x8d, 0xed, 0x1a, 0xa8, 0x36, 0xef, 0xcc, 0x8b, 0x77, 0x0d, 0xc7,
        ];
        assert_eq!(secrets.bytes(), first);
        let _: [u8; 32] = secrets.bytes();
        assert_eq!(secrets.bytes(), [0x9f, 0x07, 0xe7, 0xbe, 0x55, 0x51, 0x38, 0x7a]);
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_a_fork_others() {
        let (mut one, mut other) = (Secrets::simulated(7), Secrets::simulated(7));
        assert_eq!(one.bytes::<40>(), other.bytes::<40>());
        assert_ne!(Secrets::simulated(7).bytes::<16>(), Secrets::simulated(8).bytes());
        let (mut fork, mut second) = (one.fork(), one.fork());
        let all = [one.bytes::<16>(), fork.bytes(), second.bytes()];
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
        assert_eq!(other.fork().bytes::<16>(), all[1]);
    }

    #[test]
    fn nothing_of_it_is_shown() {
        assert_eq!(format!("{:?}", Secrets::simulated(1)), "Secrets(..)");
    }
}
