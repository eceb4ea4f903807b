//! Argon2id (RFC 9106): hashes that take memory and time, so that a stolen definitions file is not guessed at on
//! graphics cards. Kept as text in PHC form, as other programs write it:
//!
//!   $argon2id$v=19$m=19456,t=2,p=1$SALT$DIGEST       salt and digest in base64 without padding
//!
//! One takes [`Cost`]'s memory while it is made, and tens of milliseconds at least: never on a shard. Bounds are those
//! of a hash that is taken from elsewhere; beyond, a login would take the node's memory or time.

use argon2::{Algorithm, Argon2, Block, Params, Version};
use data_encoding::BASE64_NOPAD;
use subtle::ConstantTimeEq;

/// How such hashes begin.
pub(super) const BEGIN: &str = "$argon2id$";

/// Bytes of salt in hashes made here.
pub const LONG_SALT: usize = 16;

/// Bytes of digest in hashes made here.
const DIGEST: usize = 32;

/// KiB of memory that a hash may take.
const MEMORY_KIB_MAX: u32 = 64 << 10;

/// KiB of memory times passes over it: some 2 s on a slow processor.
const WORK_KIB_MAX: u32 = 10 * MEMORY_KIB_MAX;

/// Lanes of a hash. They are filled one after the other here.
const LANES_MAX: u32 = 16;

/// Bytes of a salt or digest.
const PART_BYTES_MAX: usize = 64;

/// Bytes of text.
const TEXT_BYTES_MAX: usize = 256;

/// The cost of hashes made here: what OWASP asks for at least.
const COST: Cost = Cost { memory_kib: 19 << 10, passes: 2, lanes: 1 };

/// The memory and time of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

/// Why a text is no hash that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It is none.
    Malformed,
    /// It takes more than it may.
    TooDear(String),
}

/// A hash, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Parts {
    cost: Cost,
    salt: Vec<u8>,
    digest: Vec<u8>,
}

impl Parts {
    fn read(text: &str) -> Result<Parts, Unfit> {
        let parts = Parts::split(text).ok_or(Unfit::Malformed)?;
        let Cost { memory_kib, passes, lanes } = parts.cost;
        let is_dear = memory_kib > MEMORY_KIB_MAX
            || memory_kib.saturating_mul(passes) > WORK_KIB_MAX
            || lanes > LANES_MAX
            || parts.salt.len() > PART_BYTES_MAX
            || parts.digest.len() > PART_BYTES_MAX;
        if is_dear {
            return Err(Unfit::TooDear(format!(
                "its hash takes m={memory_kib},t={passes},p={lanes}; served are at most m={MEMORY_KIB_MAX} KiB, m times t \
                 {WORK_KIB_MAX}, p={LANES_MAX}, and {PART_BYTES_MAX} bytes of salt and of digest"
            )));
        }
        params(parts.cost, parts.digest.len()).map_err(|_| Unfit::Malformed)?;
        // The library's own bounds: RFC 9106 §3.1.
        let is_whole =
            parts.salt.len() >= argon2::MIN_SALT_LEN && parts.digest.len() >= Params::MIN_OUTPUT_LEN;
        is_whole.then_some(parts).ok_or(Unfit::Malformed)
    }

    fn split(text: &str) -> Option<Parts> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let mut fields = text.strip_prefix(BEGIN)?.split('$');
        if fields.next()? != "v=19" {
            return None;
        }
        let mut costs = fields.next()?.split(',');
        let mut cost = |name: &str| -> Option<u32> {
            let digits = costs.next()?.strip_prefix(name)?.strip_prefix('=')?;
            let is_plain = digits == "0" || !digits.starts_with(['0', '+']);
            is_plain.then(|| digits.parse().ok()).flatten()
        };
        let cost = Cost { memory_kib: cost("m")?, passes: cost("t")?, lanes: cost("p")? };
        let mut bytes = || BASE64_NOPAD.decode(fields.next()?.as_bytes()).ok();
        let (salt, digest) = (bytes()?, bytes()?);
        (fields.next().is_none() && costs.next().is_none()).then_some(Parts { cost, salt, digest })
    }
}

fn params(cost: Cost, digest_len: usize) -> Result<Params, argon2::Error> {
    Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(digest_len))
}

fn digest(password: &str, cost: Cost, salt: &[u8], len: usize) -> Result<Vec<u8>, argon2::Error> {
    let params = params(cost, len)?;
    let (mut digest, mut memory) = (vec![0; len], vec![Block::new(); params.block_count()]);
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    hasher.hash_password_into_with_memory(password.as_bytes(), salt, &mut digest, &mut memory)?;
    Ok(digest)
}

/// The hash of a password, of the cost that hashes have here.
pub(super) fn make(password: &str, salt: [u8; LONG_SALT]) -> String {
    let digest = digest(password, COST, &salt, DIGEST).expect("the cost is within the library's bounds");
    text(&salt, &digest)
}

fn text(salt: &[u8], digest: &[u8]) -> String {
    let Cost { memory_kib, passes, lanes } = COST;
    let (salt, digest) = (BASE64_NOPAD.encode(salt), BASE64_NOPAD.encode(digest));
    format!("{BEGIN}v=19$m={memory_kib},t={passes},p={lanes}${salt}${digest}")
}

/// A hash of no password, of the same cost.
pub(super) fn dummy() -> Vec<u8> {
    text(&[0; LONG_SALT], &[0; DIGEST]).into_bytes()
}

/// Whether a text is a hash that is served.
pub(super) fn check(text: &str) -> Result<(), Unfit> {
    Parts::read(text).map(drop)
}

/// Whether a hash is this password's. Takes the same time wherever they differ.
pub(super) fn matches(text: &str, password: &str) -> bool {
    let Ok(Parts { cost, salt, digest: expected }) = Parts::read(text) else { return false };
    digest(password, cost, &salt, expected.len()).is_ok_and(|digest| digest.ct_eq(&expected).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by argon2-cffi 25.1 of "a password" and the salt "salt of leveret".
    const KNOWN: &str = "$argon2id$v=19$m=256,t=2,p=2$c2FsdCBvZiBsZXZlcmV0$jjQAtE0IzwJDILtsElBc5AFwQQBv/8wK";

    #[test]
    fn hashes_of_others_are_taken() {
        assert_eq!(check(KNOWN), Ok(()));
        assert!(matches(KNOWN, "a password") && !matches(KNOWN, "A password") && !matches(KNOWN, ""));
    }

    #[test]
    fn own_hashes_are_read_again() {
        let hash = make("p", [7; LONG_SALT]);
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_eq!(check(&hash), Ok(()));
        assert!(matches(&hash, "p") && !matches(&hash, "q"));
        assert_ne!(hash, make("p", [8; LONG_SALT]));
    }

    #[test]
    fn bounds_and_forms() {
        let of = |costs: &str| KNOWN.replace("m=256,t=2,p=2", costs);
        let served = ["m=8,t=1,p=1", "m=65536,t=10,p=1", "m=65536,t=1,p=16", "m=64,t=10240,p=1"];
        served.iter().for_each(|costs| assert_eq!(check(&of(costs)), Ok(()), "{costs}"));
        let dear = [
            "m=65537,t=1,p=1",
            "m=65536,t=11,p=1",
            "m=8192,t=81,p=1",
            "m=65536,t=1,p=17",
            "m=4294967295,t=4294967295,p=1",
        ];
        dear.iter().for_each(|costs| assert!(matches!(check(&of(costs)), Err(Unfit::TooDear(_))), "{costs}"));
        let malformed = [
            of("m=8,t=1"),
            of("m=8,t=1,p=1,x=1"),
            of("t=1,m=8,p=1"),
            of("m=+8,t=1,p=1"),
            of("m=08,t=1,p=1"),
            of("m=7,t=1,p=1"),
            of("m=8,t=0,p=1"),
            of("m=8,t=1,p=0"),
            of("m=8,t=1,p=99999999999"),
            KNOWN.replace("v=19", "v=16"),
            KNOWN.replace("v=19$", ""),
            KNOWN.replace("argon2id", "argon2i"),
            KNOWN.replace("c2FsdCBvZiBsZXZlcmV0", "c2FsdA"),
            KNOWN.replace("c2FsdCBvZiBsZXZlcmV0", "%%%"),
            format!("{KNOWN}="),
            format!("{KNOWN}$"),
            String::from(BEGIN),
            format!("{BEGIN}{}", "a".repeat(300)),
        ];
        malformed.iter().for_each(|text| assert_eq!(check(text), Err(Unfit::Malformed), "{text}"));
        let long = format!("$argon2id$v=19$m=8,t=1,p=1${}$jjQAtE0IzwJDILts", BASE64_NOPAD.encode(&[1; 65]));
        assert!(matches!(check(&long), Err(Unfit::TooDear(_))));
    }
}
