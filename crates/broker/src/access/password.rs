//! Password hashes in RabbitMQ's form: a salt of four bytes, then SHA-256, or SHA-512, over salt and password.
//!
//! The form is RabbitMQ's so that its definition files can be loaded and ours be loaded there; it is not what one would
//! choose today.

use sha2::{Digest, Sha256, Sha512};

/// Bytes of salt.
pub const SALT: usize = 4;

/// Bytes of SHA-256.
const DIGEST: usize = 32;

/// Bytes of SHA-512.
const LONG_DIGEST: usize = 64;

/// A salted hash. A user without one cannot log in with a password.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(Box<[u8]>);

impl PasswordHash {
    /// The hash of `password` with a salt the caller rolled.
    pub fn new(password: &str, salt: [u8; SALT]) -> PasswordHash {
        let digest = Sha256::new().chain_update(salt).chain_update(password).finalize();
        PasswordHash([&salt[..], &digest].concat().into())
    }

    /// From salt and digest as they are stored: which digest it is its length says.
    pub fn from_bytes(bytes: &[u8]) -> Option<PasswordHash> {
        let is_known = [SALT + DIGEST, SALT + LONG_DIGEST].contains(&bytes.len());
        is_known.then(|| PasswordHash(bytes.into()))
    }

    /// From base64 as it stands in definition files.
    pub fn from_base64(text: &str) -> Option<PasswordHash> {
        let symbols = text.trim_end_matches('=');
        if !text.len().is_multiple_of(4) || text.len() - symbols.len() > 2 || text.len() > 2 * LONG_DIGEST {
            return None;
        }
        let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
        for four in symbols.as_bytes().chunks(4) {
            let mut bits = 0;
            for symbol in four {
                bits = bits << 6 | STANDARD.iter().position(|s| s == symbol)? as u32;
            }
            bits <<= 6 * (4 - four.len());
            bytes.extend(&bits.to_be_bytes()[1..four.len()]);
        }
        PasswordHash::from_bytes(&bytes)
    }

    /// Salt and digest.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The digest as RabbitMQ calls it.
    pub fn algorithm(&self) -> &'static str {
        let is_long = self.0.len() == SALT + LONG_DIGEST;
        if is_long { "rabbit_password_hashing_sha512" } else { "rabbit_password_hashing_sha256" }
    }

    /// As it stands in definition files.
    pub fn to_base64(&self) -> String {
        let mut text = base64(STANDARD, &self.0);
        while !text.len().is_multiple_of(4) {
            text.push('=');
        }
        text
    }

    /// Whether this is `password`'s hash. Takes the same time wherever they differ.
    pub fn matches(&self, password: &str) -> bool {
        let (salt, digest) = self.0.split_at(SALT);
        let difference = |other: &[u8]| digest.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
        let difference = match digest.len() {
            LONG_DIGEST => difference(&Sha512::new().chain_update(salt).chain_update(password).finalize()),
            _ => difference(&Sha256::new().chain_update(salt).chain_update(password).finalize()),
        };
        std::hint::black_box(difference) == 0
    }
}

/// Hashes are not for logs.
impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash(..)")
    }
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base64 without padding (RFC 4648 §4, §5).
fn base64(alphabet: &[u8; 64], bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for symbol in 0..=three.len() {
            text.push(char::from(alphabet[(bits >> (18 - 6 * symbol)) as usize & 63]));
        }
    }
    text
}

/// Base64 for names (RFC 4648 §5), without padding: what follows `amq.gen-` in a server-named queue.
pub(crate) fn base64_url(bytes: &[u8]) -> String {
    base64(URL_SAFE, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_as_rabbitmq_stores_it() {
        // `GET /api/users/catu` of RabbitMQ 4.3.6 after `PUT` with the password "p".
        let stored = "36Tl7wKnaFtQgzsni44HG9/U+ZgxPs/jOIw7S5baP9uY1V/Y";
        let hash = PasswordHash::from_base64(stored).unwrap();
        assert_eq!(hash.to_base64(), stored);
        assert!(hash.matches("p"));
        assert!(!hash.matches("P") && !hash.matches(""));
        assert_eq!(PasswordHash::from_bytes(hash.as_bytes()), Some(hash));
    }

    #[test]
    fn long_hashes_are_taken_too() {
        let stored =
            "AQIDBEv08L+iRi6ZYtPsVLlHi/nOFKLypZXpZLuQCrgZ4K1q+WrKAlgZwNbemOkemTfbWw6ukQpIJFFKquObC2n3wxc=";
        let hash = PasswordHash::from_base64(stored).unwrap();
        assert_eq!(hash.to_base64(), stored);
        assert!(hash.matches("p") && !hash.matches("P") && !hash.matches(""));
        assert_eq!(hash.algorithm(), "rabbit_password_hashing_sha512");
        assert_eq!(PasswordHash::new("p", [0; 4]).algorithm(), "rabbit_password_hashing_sha256");
        assert_eq!(PasswordHash::from_bytes(hash.as_bytes()), Some(hash));
    }

    #[test]
    fn wrong_encodings_are_none() {
        for text in ["", "36Tl", "36Tl7wKnaFtQgzsni44HG9/U+ZgxPs/jOIw7S5baP9uY1V/=", &"é".repeat(24)] {
            assert_eq!(PasswordHash::from_base64(text), None, "{text}");
        }
        assert_eq!(PasswordHash::from_bytes(&[0; 35]), None);
    }

    #[test]
    fn names_are_url_safe() {
        assert_eq!(base64_url(&[0xFB, 0xFF, 0xFE, 1]), "-__-AQ");
        assert_eq!(base64_url(&[0; 16]).len(), 22);
    }
}
