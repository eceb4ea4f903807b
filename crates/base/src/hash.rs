//! Hash maps and sets, by where their keys come from: bytes of clients, or ids that the node gives out.
//!
//! Keys that a client may choose are hashed with a seed of the process ([`ByBytes`]), so that nobody can write down
//! keys that fall together and make each look-up as dear as a search. Ids are hashed without ([`ById`]): that costs
//! less, and their order is the same in every process. A client that has many ids can hardly choose among them.
//!
//! The seed is one for the process: a map has no room of its own for it, and there are millions of maps. The first map
//! that hashes settles it: [`seed`] comes before, where a node starts. Where nobody gives a seed, as in tests and
//! simulations, it is a fixed one, so that a run repeats.
//!
//! Neither kind is iterated where order shows.

#![expect(clippy::disallowed_types, reason = "the one place where maps are given their hashes")]

use crate::Secrets;
use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use rustc_hash::FxHasher;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::OnceLock;

/// A map whose keys a client may choose.
pub type MapByBytes<K, V> = std::collections::HashMap<K, V, ByBytes>;

/// A set of what a client may choose.
pub type SetByBytes<K> = std::collections::HashSet<K, ByBytes>;

/// A map by ids that the node gives out.
pub type MapById<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<ById>>;

/// A set of ids that the node gives out.
pub type SetById<K> = std::collections::HashSet<K, BuildHasherDefault<ById>>;

/// The seed of the process, in the two parts that the hash takes.
struct Seed {
    own: u64,
    shared: SharedSeed,
}

static SEED: OnceLock<Seed> = OnceLock::new();

impl Seed {
    fn new([own, shared]: [u64; 2]) -> Seed {
        Seed { own, shared: SharedSeed::from_u64(shared) }
    }

    /// The seed where nobody gave one.
    #[cold]
    fn fixed() -> Seed {
        Seed::new([0; 2])
    }
}

/// Takes the seed of the process from `secrets`; false: something was hashed before, and the seed stays.
pub fn seed(secrets: &mut Secrets) -> bool {
    SEED.set(Seed::new([0; 2].map(|_: u64| u64::from_le_bytes(secrets.bytes())))).is_ok()
}

/// Hashes with the seed of the process. For maps in memory alone: the hashes of two processes differ.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByBytes;

impl BuildHasher for ByBytes {
    type Hasher = FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> FoldHasher<'static> {
        let seed = SEED.get_or_init(Seed::fixed);
        FoldHasher::with_seed(seed.own, &seed.shared)
    }
}

/// Hashes ids. Bytes and texts are no ids: a debug build refuses them.
#[derive(Clone, Default)]
pub struct ById(FxHasher);

impl Hasher for ById {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(false, "bytes are hashed with a seed: MapByBytes, SetByBytes");
        self.0.write(bytes);
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.0.write_u8(number);
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.0.write_u16(number);
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.0.write_u32(number);
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0.write_u64(number);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.0.write_usize(number);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(seed: [u64; 2], bytes: &[u8]) -> u64 {
        let Seed { own, shared } = Seed::new(seed);
        let mut hasher = FoldHasher::with_seed(own, &shared);
        hasher.write(bytes);
        hasher.finish()
    }

    #[test]
    fn each_half_of_the_seed_counts() {
        for text in [&b"k"[..], b"key", b"a.long.key", b"a key that is longer than sixteen bytes"] {
            let hashes = [[0, 0], [1, 0], [0, 1], [1, 1]].map(|seed| with(seed, text));
            for (at, hash) in hashes.iter().enumerate() {
                assert!(!hashes[..at].contains(hash), "{text:?}: {hashes:x?}");
            }
        }
    }

    #[test]
    fn a_seed_after_the_first_hash_is_too_late() {
        let before = ByBytes.hash_one("key");
        assert!(!seed(&mut Secrets::simulated(1)));
        assert_eq!((ByBytes.hash_one("key"), size_of::<ByBytes>()), (before, 0));
    }

    /// So that a simulation repeats.
    #[test]
    fn without_a_seed_it_is_a_fixed_one() {
        assert_eq!(ByBytes.hash_one("key"), ByBytes.hash_one("key"));
        assert_ne!(ByBytes.hash_one("key"), ByBytes.hash_one("kez"));
    }

    /// Keys that anybody can write down: the first eight bytes are the state that the hash of ids begins with, so that the
    /// next eight count for nothing.
    #[test]
    fn keys_that_fall_together_without_a_seed_do_not_with_one() {
        let key = |number: u64| [0x243f_6a88_85a3_08d3, number, 7, 7].map(u64::to_le_bytes).concat();
        let distinct = |hash: fn(&[u8]) -> u64| {
            let mut hashes: Vec<u64> = (0..50_000).map(|number| hash(&key(number))).collect();
            hashes.sort_unstable();
            hashes.dedup();
            hashes.len()
        };
        assert_eq!(distinct(|key| BuildHasherDefault::<FxHasher>::default().hash_one(key)), 1);
        assert_eq!(distinct(|key| ByBytes.hash_one(key)), 50_000);
        // Tables go by the lowest bits.
        let low = |key: &[u8]| ByBytes.hash_one(key) & 0xFFFF;
        assert!((34_000..36_000).contains(&distinct(low)), "{} places of 65,536", distinct(low));
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic = "hashed with a seed")]
    fn bytes_are_no_ids() {
        let mut map = MapById::default();
        map.insert("text", 1);
        assert_eq!(map.len(), 1);
    }
}
