//! Password hashes in RabbitMQ's form: a salt of four bytes, then SHA-256, SHA-512 or MD5 over salt and password; and,
//! where the operator or a user's definition chooses it, Argon2id as text ([`argon2id`]).
//!
//! RabbitMQ's form is the default so that its definition files can be loaded and ours be loaded there; it is not what
//! one would choose today. MD5 comes with the definitions of nodes that were set up before RabbitMQ 3.6; what is hashed
//! here in this form is SHA-256.

use super::argon2id::{self, LONG_SALT, Unfit};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use md5::Md5;
use sha2::{Digest, Sha256, Sha512};
use subtle::ConstantTimeEq;

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
    /// A hash that takes more memory or time than a login may, and how much.
    TooDear(String),
}

/// An algorithm for new hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hashing {
    /// RabbitMQ's default.
    #[default]
    Sha256,
    /// A memory-hard one, which RabbitMQ does not have.
    Argon2id,
}

impl Hashing {
    /// The names of algorithms in settings and definitions.
    pub const NAMES: [(&str, Hashing); 2] = [(SHA256, Hashing::Sha256), (ARGON2ID, Hashing::Argon2id)];

    /// The algorithm of a name; none where new hashes are not of that kind.
    pub fn named(name: &str) -> Option<Hashing> {
        Hashing::NAMES.iter().find(|(own, _)| *own == name).map(|(_, hashing)| *hashing)
    }

    /// The hash of `password` with a salt the caller rolled. Argon2id takes time and memory: see [`argon2id`].
    pub fn hash(self, password: &str, salt: [u8; LONG_SALT]) -> PasswordHash {
        match self {
            Hashing::Sha256 => {
                let [a, b, c, d, ..] = salt;
                PasswordHash::new(password, [a, b, c, d])
            }
            Hashing::Argon2id => PasswordHash(argon2id::make(password, salt).into_bytes().into()),
        }
    }
}

const SHA256: &str = "rabbit_password_hashing_sha256";

const ARGON2ID: &str = "argon2id";

/// A salted hash. A user without one cannot log in with a password.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(Box<[u8]>);

impl PasswordHash {
    /// The hash of `password` with a salt the caller rolled.
    pub fn new(password: &str, salt: [u8; SALT]) -> PasswordHash {
        let digest = Sha256::new().chain_update(salt).chain_update(password).finalize();
        PasswordHash([&salt[..], &digest].concat().into())
    }

    /// From salt and digest, or text, as they are stored: which digest it is its length says.
    pub fn from_bytes(bytes: &[u8]) -> Option<PasswordHash> {
        if let Some(text) = text_of(bytes) {
            return argon2id::check(text).is_ok().then(|| PasswordHash(bytes.into()));
        }
        let digests = [DIGEST, LONG_DIGEST, OLD_DIGEST];
        digests.contains(&bytes.len().checked_sub(SALT)?).then(|| PasswordHash(bytes.into()))
    }

    /// From base64 as it stands in definition files, perhaps in lines, where an algorithm may be named, or from the text
    /// of an Argon2id hash. None: it is neither.
    pub fn from_text(text: &str, algorithm: Option<&str>) -> Option<Stored> {
        if text.starts_with(argon2id::BEGIN) {
            let is_named = algorithm.is_none_or(|algorithm| algorithm == ARGON2ID);
            return match argon2id::check(text) {
                Ok(()) if is_named => Some(Stored::Hash(PasswordHash(text.as_bytes().into()))),
                Ok(()) => Some(Stored::Other),
                Err(Unfit::TooDear(why)) => Some(Stored::TooDear(why)),
                Err(Unfit::Malformed) => None,
            };
        }
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

    /// The digest as RabbitMQ calls it; `argon2id`, which it does not have.
    pub fn algorithm(&self) -> &'static str {
        match self.0.len() - SALT {
            _ if self.is_dear() => ARGON2ID,
            LONG_DIGEST => "rabbit_password_hashing_sha512",
            OLD_DIGEST => "rabbit_password_hashing_md5",
            _ => SHA256,
        }
    }

    /// As it stands in definition files.
    pub fn to_text(&self) -> String {
        text_of(&self.0).map_or_else(|| BASE64.encode(&self.0), str::to_owned)
    }

    /// It takes memory, and milliseconds, to be compared.
    pub fn is_dear(&self) -> bool {
        text_of(&self.0).is_some()
    }

    /// Whether this is `password`'s hash. Takes the same time wherever they differ.
    pub fn matches(&self, password: &str) -> bool {
        if let Some(text) = text_of(&self.0) {
            return argon2id::matches(text, password);
        }
        let (salt, digest) = self.0.split_at(SALT);
        let is_same = match digest.len() {
            LONG_DIGEST => digest.ct_eq(&Sha512::new().chain_update(salt).chain_update(password).finalize()),
            OLD_DIGEST => digest.ct_eq(&Md5::new().chain_update(salt).chain_update(password).finalize()),
            _ => digest.ct_eq(&Sha256::new().chain_update(salt).chain_update(password).finalize()),
        };
        is_same.into()
    }
}

/// The text of an Argon2id hash, where these bytes are one.
fn text_of(bytes: &[u8]) -> Option<&str> {
    bytes.starts_with(argon2id::BEGIN.as_bytes()).then(|| str::from_utf8(bytes).ok()).flatten()
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
        match PasswordHash::from_text(text, algorithm) {
            Some(Stored::Hash(hash)) => hash,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn hash_as_rabbitmq_stores_it() {
        // `GET /api/users/catu` of RabbitMQ 4.3.6 after `PUT` with the password "p".
        let stored = "36Tl7wKnaFtQgzsni44HG9/U+ZgxPs/jOIw7S5baP9uY1V/Y";
        let hash = known(stored, None);
        assert_eq!(hash.to_text(), stored);
        assert!(hash.matches("p"));
        assert!(!hash.matches("P") && !hash.matches(""));
        assert_eq!(PasswordHash::from_bytes(hash.as_bytes()), Some(hash));
    }

    #[test]
    fn long_hashes_are_taken_too() {
        let stored =
            "AQIDBEv08L+iRi6ZYtPsVLlHi/nOFKLypZXpZLuQCrgZ4K1q+WrKAlgZwNbemOkemTfbWw6ukQpIJFFKquObC2n3wxc=";
        let hash = known(stored, None);
        assert_eq!(hash.to_text(), stored);
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
        assert_eq!((hash.to_text().as_str(), hash.algorithm()), (stored, "rabbit_password_hashing_md5"));
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
            assert_eq!(PasswordHash::from_text(text, algorithm), expected, "{text} {algorithm:?}");
        }
        for len in [0, 3, 4, 19, 21, 35, 37, 67, 69] {
            assert_eq!(PasswordHash::from_bytes(&vec![0; len]), None, "{len}");
        }
    }

    #[test]
    fn memory_hard_hashes_are_text() {
        let hash = Hashing::Argon2id.hash("p", [7; LONG_SALT]);
        let text = hash.to_text();
        assert_eq!((hash.algorithm(), hash.is_dear(), hash.as_bytes()), ("argon2id", true, text.as_bytes()));
        assert!(hash.matches("p") && !hash.matches("P"));
        assert_eq!(PasswordHash::from_bytes(hash.as_bytes()), Some(hash.clone()));
        assert_eq!(PasswordHash::from_bytes(&text.as_bytes()[..60]), None);
        let rows = [
            (text.clone(), None, Some(Stored::Hash(hash.clone()))),
            (text.clone(), Some("argon2id"), Some(Stored::Hash(hash))),
            (text.clone(), Some("rabbit_password_hashing_sha256"), Some(Stored::Other)),
            (text.replace("m=19456", "m=1"), None, None),
            (text.replace("argon2id", "argon2d"), Some("argon2d"), None),
        ];
        for (text, algorithm, expected) in rows {
            assert_eq!(PasswordHash::from_text(&text, algorithm), expected, "{text} {algorithm:?}");
        }
        let dear = PasswordHash::from_text(&text.replace("m=19456", "m=2097152"), None);
        assert!(matches!(&dear, Some(Stored::TooDear(why)) if why.contains("m=2097152")), "{dear:?}");
    }

    #[test]
    fn new_hashes_are_of_the_algorithm_named() {
        let named = |name| Hashing::named(name).map(|hashing| hashing.hash("p", [7; LONG_SALT]));
        assert_eq!(named(SHA256), Some(PasswordHash::new("p", [7; SALT])));
        assert_eq!(named(ARGON2ID).map(|hash| hash.algorithm()), Some(ARGON2ID));
        assert_eq!(Hashing::named("rabbit_password_hashing_sha512"), None);
    }

    #[test]
    fn names_are_url_safe() {
        assert_eq!(base64_url(&[0xFB, 0xFF, 0xFE, 1]), "-__-AQ");
        assert_eq!(base64_url(&[0; 16]).len(), 22);
    }
}
