//! Password hashes in RabbitMQ's form: a salt of four bytes, then SHA-256, SHA-512 or MD5 over salt and password.
//!
//! The form is RabbitMQ's so that its definition files can be loaded and ours be loaded there; it is not what one would
//! choose today. MD5 comes with the definitions of nodes that were set up before RabbitMQ 3.6; what is hashed here is SHA-256.

use data_encoding::{BASE64, BASE64URL_NOPAD};
use md5::Md5;
use sha2::{Digest, Sha256, Sha512};

/// Bytes of salt.
pub const SALT: usize = 4;

/// Bytes of SHA-256.
const DIGEST: usize = 32;

/// Bytes of SHA-512.
const LONG_DIGEST: usize = 64;

/// Bytes of MD5.
const OLD_DIGEST: usize = 16;

/// Bytes of base64 that are looked at.
const TEXT_BYTES_MAX: usize = 4 * LONG_DIGEST;

/// The form of a password in a definitions file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A hash of an algorithm that is known.
    Hash(PasswordHash),
    /// Bytes that are no such hash: nobody can log in with a password.
    Other,
}

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
        let digests = [DIGEST, LONG_DIGEST, OLD_DIGEST];
        digests.contains(&bytes.len().checked_sub(SALT)?).then(|| PasswordHash(bytes.into()))
    }

    /// From base64 as it stands in definition files, perhaps in lines, where an algorithm may be named. None: it is no base64.
    pub fn from_base64(text: &str, algorithm: Option<&str>) -> Option<Stored> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let text: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let hash = PasswordHash::from_bytes(&BASE64.decode(&text).ok()?);
        let hash = hash.filter(|hash| algorithm.is_none_or(|algorithm| algorithm == hash.algorithm()));
        Some(hash.map_or(Stored::Other, Stored::Hash))
    }

    /// Salt and digest.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The digest as RabbitMQ calls it.
    pub fn algorithm(&self) -> &'static str {
        match self.0.len() - SALT {
            LONG_DIGEST => "rabbit_password_hashing_sha512",
            OLD_DIGEST => "rabbit_password_hashing_md5",
            _ => "rabbit_password_hashing_sha256",
        }
    }

    /// As it stands in definition files.
    pub fn to_base64(&self) -> String {
        BASE64.encode(&self.0)
    }

    /// Whether this is `password`'s hash. Takes the same time wherever they differ.
    pub fn matches(&self, password: &str) -> bool {
        let (salt, digest) = self.0.split_at(SALT);
        let difference = |other: &[u8]| digest.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
        let difference = match digest.len() {
            LONG_DIGEST => difference(&Sha512::new().chain_update(salt).chain_update(password).finalize()),
            OLD_DIGEST => difference(&Md5::new().chain_update(salt).chain_update(password).finalize()),
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

/// Base64 for names (RFC 4648 §5), without padding: what follows `amq.gen-` in a server-named queue.
pub(crate) fn base64_url(bytes: &[u8]) -> String {
    BASE64URL_NOPAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(text: &str, algorithm: Option<&str>) -> PasswordHash {
        match PasswordHash::from_base64(text, algorithm) {
            Some(Stored::Hash(hash)) => hash,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn hash_as_rabbitmq_stores_it() {
        // `GET /api/users/catu` of RabbitMQ 4.3.6 after `PUT` with the password "p".
        let stored = "36Tl7wKnaFtQgzsni44HG9/U+ZgxPs/jOIw7S5baP9uY1V/Y";
        let hash = known(stored, None);
        assert_eq!(hash.to_base64(), stored);
        assert!(hash.matches("p"));
        assert!(!hash.matches("P") && !hash.matches(""));
        assert_eq!(PasswordHash::from_bytes(hash.as_bytes()), Some(hash));
    }

    #[test]
    fn long_hashes_are_taken_too() {
        let stored =
            "AQIDBEv08L+iRi6ZYtPsVLlHi/nOFKLypZXpZLuQCrgZ4K1q+WrKAlgZwNbemOkemTfbWw6ukQpIJFFKquObC2n3wxc=";
        let hash = known(stored, None);
        assert_eq!(hash.to_base64(), stored);
        assert!(hash.matches("p") && !hash.matches("P") && !hash.matches(""));
        assert_eq!(hash.algorithm(), "rabbit_password_hashing_sha512");
        assert_eq!(PasswordHash::new("p", [0; 4]).algorithm(), "rabbit_password_hashing_sha256");
        assert_eq!(PasswordHash::from_bytes(hash.as_bytes()), Some(hash));
    }

    #[test]
    fn old_hashes_are_taken_too() {
        // RabbitMQ 4.3.6 lets log in with "a-md5" who was imported with this and `rabbit_password_hashing_md5`.
        let stored = "AQIDBDuFwQ/ME8GzJdHwA/Mrr9Y=";
        let hash = known(stored, Some("rabbit_password_hashing_md5"));
        assert_eq!((hash.to_base64().as_str(), hash.algorithm()), (stored, "rabbit_password_hashing_md5"));
        assert!(hash.matches("a-md5") && !hash.matches("a-MD5") && !hash.matches(""));
        assert_eq!(known("AQIDBDuFwQ/M\n E8GzJdHwA/Mrr9Y=\n", None), hash);
    }

    #[test]
    fn what_is_no_hash_lets_nobody_in() {
        let md5 = "AQIDBDuFwQ/ME8GzJdHwA/Mrr9Y=";
        let rows = [
            (md5, Some("rabbit_password_hashing_sha512"), true),
            (md5, Some("SHA256"), true),
            (md5, Some("rabbit_password_hashing_sha1"), true),
            ("AQID", None, true),
            ("", None, true),
            ("36Tl", None, true),
            ("36T", None, false),
            ("%%%%", None, false),
            ("$2b$10$abcdefghijklmnopqrstuv", Some("Bcrypt"), false),
            ("36Tl7wKnaFtQgzsni44HG9/U+ZgxPs/jOIw7S5baP9uY1V/=", None, false),
            (&"é".repeat(24), None, false),
            (&"AQID".repeat(65), None, false),
        ];
        for (text, algorithm, is_base64) in rows {
            let expected = is_base64.then_some(Stored::Other);
            assert_eq!(PasswordHash::from_base64(text, algorithm), expected, "{text} {algorithm:?}");
        }
        for len in [0, 3, 4, 19, 21, 35, 37, 67, 69] {
            assert_eq!(PasswordHash::from_bytes(&vec![0; len]), None, "{len}");
        }
    }

    #[test]
    fn names_are_url_safe() {
        assert_eq!(base64_url(&[0xFB, 0xFF, 0xFE, 1]), "-__-AQ");
        assert_eq!(base64_url(&[0; 16]).len(), 22);
    }
}
