//! Secrets in configuration files, as RabbitMQ's `encode` writes them: a term, encrypted under a passphrase.
//!
//! A secret is a term in Erlang's external format (ERTS User's Guide, chapter 12), of which texts are read: binaries,
//! strings and atoms. The key is made of the passphrase by PBKDF2 (RFC 8018 §5.2), the cipher is AES in CBC with the padding of
//! RFC 5652 §6.3, and salt and first block come before the encrypted bytes. Nothing vouches for it: a wrong passphrase
//! is told from the padding and from the term.

use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use aes::{Aes128, Aes192, Aes256};
use cbc::{Decryptor, Encryptor};
use data_encoding::BASE64;
use hmac::Hmac;
use pbkdf2::pbkdf2;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

/// The prefix of a secret in `rabbitmq.conf`.
pub const PREFIX: &str = "encrypted:";

/// Bytes of a salt, and of a first block.
const BLOCK: usize = 16;

/// Rounds of a key's derivation that are done at most: each takes about a microsecond.
pub const ITERATIONS_MAX: u32 = 10_000_000;

/// How a secret is encrypted: both sides must know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// One of [`CIPHERS`].
    pub cipher: String,
    /// One of [`HASHES`].
    pub hash: String,
    /// Rounds of the key's derivation.
    pub iterations: u32,
}

/// Ciphers there are.
pub const CIPHERS: [&str; 4] = ["aes_256_cbc", "aes_192_cbc", "aes_128_cbc", "aes_cbc256"];

/// Hashes there are.
pub const HASHES: [&str; 5] = ["sha512", "sha384", "sha256", "sha224", "sha"];

impl Default for Way {
    /// As RabbitMQ has it where nothing else is said.
    fn default() -> Way {
        Way { cipher: "aes_128_cbc".to_owned(), hash: "sha256".to_owned(), iterations: 1 }
    }
}

impl Way {
    /// The bytes of the key.
    ///
    /// # Errors
    /// The part of this way that is not supported.
    fn key(&self, passphrase: &str, salt: &[u8]) -> Result<Vec<u8>, String> {
        let bytes = match self.cipher.as_str() {
            "aes_256_cbc" | "aes_cbc256" => 32,
            "aes_192_cbc" => 24,
            "aes_128_cbc" => 16,
            other => return Err(format!("The requested cipher is not supported: {other}")),
        };
        if self.iterations == 0 || self.iterations > ITERATIONS_MAX {
            return Err("The requested number of iterations is incorrect".to_owned());
        }
        let mut key = vec![0; bytes];
        let (word, rounds) = (passphrase.as_bytes(), self.iterations);
        match self.hash.as_str() {
            "sha512" => pbkdf2::<Hmac<Sha512>>(word, salt, rounds, &mut key),
            "sha384" => pbkdf2::<Hmac<Sha384>>(word, salt, rounds, &mut key),
            "sha256" => pbkdf2::<Hmac<Sha256>>(word, salt, rounds, &mut key),
            "sha224" => pbkdf2::<Hmac<Sha224>>(word, salt, rounds, &mut key),
            "sha" => pbkdf2::<Hmac<Sha1>>(word, salt, rounds, &mut key),
            other => return Err(format!("The requested hash is not supported: {other}")),
        }
        .map_err(|_| "The key cannot be made".to_owned())?;
        Ok(key)
    }

    /// A text as RabbitMQ's tools encrypt it; `dice` are 32 bytes that nobody can guess.
    ///
    /// # Errors
    /// The part of this way that is not supported.
    pub fn encrypt(&self, passphrase: &str, text: &str, dice: [u8; 2 * BLOCK]) -> Result<String, String> {
        let (salt, first) = dice.split_at(BLOCK);
        let key = self.key(passphrase, salt)?;
        let term = term(text);
        let unfit = |_| "The key cannot be used".to_owned();
        let secret = match key.len() {
            32 => Encryptor::<Aes256>::new_from_slices(&key, first)
                .map_err(unfit)?
                .encrypt_padded_vec::<Pkcs7>(&term),
            24 => Encryptor::<Aes192>::new_from_slices(&key, first)
                .map_err(unfit)?
                .encrypt_padded_vec::<Pkcs7>(&term),
            _ => Encryptor::<Aes128>::new_from_slices(&key, first)
                .map_err(unfit)?
                .encrypt_padded_vec::<Pkcs7>(&term),
        };
        Ok(BASE64.encode(&[salt, first, &secret].concat()))
    }

    /// The text of a secret, with or without its prefix.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn decrypt(&self, passphrase: &str, secret: &str) -> Result<String, String> {
        let wrong = || "Failed to decrypt the value: is the passphrase right?".to_owned();
        let secret = secret.strip_prefix(PREFIX).unwrap_or(secret);
        let bytes = BASE64.decode(secret.as_bytes()).map_err(|_| "The value is no base64".to_owned())?;
        let (Some(salt), Some(first), Some(rest)) =
            (bytes.get(..BLOCK), bytes.get(BLOCK..2 * BLOCK), bytes.get(2 * BLOCK..))
        else {
            return Err("The value is too short to have been encrypted".to_owned());
        };
        let key = self.key(passphrase, salt)?;
        let unfit = |_| wrong();
        let term = match key.len() {
            32 => Decryptor::<Aes256>::new_from_slices(&key, first)
                .map_err(unfit)?
                .decrypt_padded_vec::<Pkcs7>(rest),
            24 => Decryptor::<Aes192>::new_from_slices(&key, first)
                .map_err(unfit)?
                .decrypt_padded_vec::<Pkcs7>(rest),
            _ => Decryptor::<Aes128>::new_from_slices(&key, first)
                .map_err(unfit)?
                .decrypt_padded_vec::<Pkcs7>(rest),
        };
        text(&term.map_err(|_| wrong())?).ok_or_else(wrong)
    }
}

/// A text as a term: a binary.
///
///   131 | 109 | length, 4 bytes | the text
fn term(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    [&[131, 109], &length.to_be_bytes()[..], text.as_bytes()].concat()
}

/// The text that a term is: a binary, a string, a list of characters or an atom.
fn text(term: &[u8]) -> Option<String> {
    const VERSION: u8 = 131;
    let [VERSION, tag, rest @ ..] = term else { return None };
    let bytes = |length_bytes: usize| {
        let (length, text) = rest.split_at_checked(length_bytes)?;
        let length = length.iter().fold(0usize, |length, byte| length << 8 | usize::from(*byte));
        (text.len() == length).then_some(text)
    };
    let utf8 = |length_bytes| String::from_utf8(bytes(length_bytes)?.to_vec()).ok();
    match tag {
        // BINARY_EXT; ATOM_EXT and ATOM_UTF8_EXT; SMALL_ATOM_EXT and SMALL_ATOM_UTF8_EXT; NIL_EXT.
        109 => utf8(4),
        100 | 118 => utf8(2),
        115 | 119 => utf8(1),
        106 => rest.is_empty().then(String::new),
        // STRING_EXT: each byte is a character.
        107 => Some(bytes(2)?.iter().map(|byte| char::from(*byte)).collect()),
        108 => characters(rest),
        _ => None,
    }
}

/// LIST_EXT of SMALL_INTEGER_EXT and INTEGER_EXT: characters beyond Latin-1 are among them.
fn characters(list: &[u8]) -> Option<String> {
    let (count, mut rest) = list.split_at_checked(4)?;
    let count = u32::from_be_bytes(count.try_into().ok()?);
    let mut text = String::new();
    for _ in 0..count {
        let character;
        (character, rest) = match rest {
            [97, byte, rest @ ..] => (u32::from(*byte), rest),
            [98, a, b, c, d, rest @ ..] => (u32::from_be_bytes([*a, *b, *c, *d]), rest),
            _ => return None,
        };
        text.push(char::from_u32(character)?);
    }
    (rest == [106]).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn way(cipher: &str, hash: &str, iterations: u32) -> Way {
        Way { cipher: cipher.to_owned(), hash: hash.to_owned(), iterations }
    }

    #[test]
    fn what_is_encrypted_is_read_again() {
        for cipher in CIPHERS {
            for hash in HASHES {
                let way = way(cipher, hash, 3);
                for text in ["", "secret", "sixteen bytes...", "ein Schlüssel", &"long ".repeat(100)] {
                    let secret = way.encrypt("pass phrase", text, [7; 32]).expect("is encrypted");
                    assert_eq!(way.decrypt("pass phrase", &secret).as_deref(), Ok(text), "{cipher} {hash}");
                    let prefixed = format!("{PREFIX}{secret}");
                    assert_eq!(way.decrypt("pass phrase", &prefixed).as_deref(), Ok(text));
                    assert!(way.decrypt("pass phrasf", &secret).is_err(), "{cipher} {hash} {text:?}");
                }
            }
        }
    }

    #[test]
    fn what_there_is_not_is_named() {
        let check = |way: Way, expected: &str| {
            let error = way.encrypt("p", "t", [0; 32]).expect_err("is refused");
            assert!(error.contains(expected), "{error}");
        };
        check(way("rc4", "sha512", 1), "rc4");
        check(way("aes_256_cbc", "md5", 1), "md5");
        check(way("aes_256_cbc", "sha512", 0), "iterations");
        check(way("aes_256_cbc", "sha512", u32::MAX), "iterations");
        for secret in ["", "???", "AAAA", &BASE64.encode(&[0; 32]), &BASE64.encode(&[0; 33])] {
            assert!(way("aes_256_cbc", "sha512", 1).decrypt("p", secret).is_err(), "{secret}");
        }
    }

    #[test]
    fn texts_are_read_from_terms() {
        let check =
            |term: &[u8], expected: Option<&str>| assert_eq!(text(term).as_deref(), expected, "{term:?}");
        check(&term("abc"), Some("abc"));
        check(&[131, 107, 0, 2, b'h', b'i'], Some("hi"));
        check(&[131, 106], Some(""));
        check(&[131, 107, 0, 2, b'g', 0xfc], Some("g\u{fc}"));
        check(&[131, 108, 0, 0, 0, 2, 97, b'a', 98, 0, 0, 0x20, 0xac, 106], Some("a\u{20ac}"));
        check(&[131, 108, 0xff, 0xff, 0xff, 0xff, 97, b'a', 106], None);
        check(&[131, 119, 2, b'o', b'k'], Some("ok"));
        check(&[131, 97, 7], None);
        check(&[131, 109, 0, 0, 0, 9, b'x'], None);
        check(&[131, 109, 0, 0, 0, 1, 0xff], None);
        check(&[131], None);
        check(&[], None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = text(&bytes);
            let _ = way("aes_128_cbc", "sha", 1).decrypt("p", &BASE64.encode(&bytes));
        }
    }
}
