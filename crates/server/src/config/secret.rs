//! Settings that are written encrypted, by RabbitMQ's scheme: `encrypted:BASE64`, as `rabbitmqctl encode` makes them.
//!
//! BASE64 is salt (16 bytes), initialization vector (16 bytes) and ciphertext (CBC with PKCS#7 padding). The key is PBKDF2
//! of the passphrase, and what is encrypted is a term of Erlang in its external format.

use super::syntax::{Error, Fault, Setting};
use aes::{Aes128, Aes192, Aes256};
use cbc::Decryptor;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use data_encoding::BASE64;
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};

/// What an encrypted value begins with.
pub const PREFIX: &str = "encrypted:";

/// Bytes of the salt, and of the initialization vector.
const SALT: usize = 16;
const VECTOR: usize = 16;

/// Rounds of the key's derivation: what takes some seconds.
const ITERATIONS_MAX: u32 = 10_000_000;

/// A cipher, by the length of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cipher {
    Aes128,
    Aes192,
    Aes256,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hash {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

/// `config_entry_decoder.*`.
pub struct Decoder {
    passphrase: Option<String>,
    cipher: Cipher,
    hash: Hash,
    iterations: u32,
}

impl Default for Decoder {
    /// RabbitMQ's own.
    fn default() -> Decoder {
        Decoder { passphrase: None, cipher: Cipher::Aes128, hash: Hash::Sha256, iterations: 1 }
    }
}

impl Decoder {
    /// Takes `config_entry_decoder.<name>`.
    ///
    /// # Errors
    /// What would be accepted.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "passphrase" => self.passphrase = Some(value.to_owned()),
            "cipher" => {
                self.cipher = match value {
                    "aes_128_cbc" | "aes_cbc128" => Cipher::Aes128,
                    "aes_192_cbc" | "aes_cbc192" => Cipher::Aes192,
                    "aes_256_cbc" | "aes_cbc256" => Cipher::Aes256,
                    _ => return Err("accepted values: aes_128_cbc, aes_192_cbc, aes_256_cbc".into()),
                }
            }
            "hash" => {
                self.hash = match value {
                    "sha" => Hash::Sha1,
                    "sha256" => Hash::Sha256,
                    "sha384" => Hash::Sha384,
                    "sha512" => Hash::Sha512,
                    _ => return Err("accepted values: sha, sha256, sha384, sha512".into()),
                }
            }
            "iterations" => {
                let number = value.parse().ok().filter(|number| (1..=ITERATIONS_MAX).contains(number));
                self.iterations = number.ok_or("accepted values: a whole number from 1 to 10000000")?;
            }
            _ => return Err("known are .passphrase, .cipher, .hash and .iterations".into()),
        }
        Ok(())
    }

    /// Puts the clear text in place of an encrypted value.
    ///
    /// # Errors
    /// Why it cannot be decrypted.
    pub fn open(&self, setting: &mut Setting) -> Result<(), Error> {
        let Some(encoded) = setting.value.strip_prefix(PREFIX) else { return Ok(()) };
        match self.decrypt(encoded) {
            Ok(clear) => {
                setting.value = clear;
                setting.is_secret = true;
                Ok(())
            }
            Err(why) => Err(Error {
                fault: Fault::Refused,
                origin: Some(setting.origin.clone()),
                marked: setting.value.clone(),
                message: format!("'{}' cannot be decrypted: {why}", setting.key),
                hint: "config_entry_decoder.passphrase, .cipher, .hash and .iterations must be those it was encrypted with".into(),
            }),
        }
    }

    fn decrypt(&self, encoded: &str) -> Result<String, &'static str> {
        let passphrase = self.passphrase.as_deref().ok_or("config_entry_decoder.passphrase is not set")?;
        let bytes = BASE64.decode(encoded.as_bytes()).map_err(|_| "it is not base64")?;
        let (salt, rest) = bytes.split_at_checked(SALT).ok_or("it is too short")?;
        let (vector, text) = rest.split_at_checked(VECTOR).ok_or("it is too short")?;
        let clear = match self.cipher {
            Cipher::Aes128 => self.decrypt_with::<Decryptor<Aes128>, 16>(passphrase, salt, vector, text),
            Cipher::Aes192 => self.decrypt_with::<Decryptor<Aes192>, 24>(passphrase, salt, vector, text),
            Cipher::Aes256 => self.decrypt_with::<Decryptor<Aes256>, 32>(passphrase, salt, vector, text),
        };
        read_term(&clear.ok_or("the passphrase, or what else goes with it, is another")?)
            .ok_or("it holds no text, or the passphrase is another")
    }

    fn decrypt_with<C: KeyIvInit + BlockModeDecrypt, const KEY: usize>(
        &self,
        passphrase: &str,
        salt: &[u8],
        vector: &[u8],
        text: &[u8],
    ) -> Option<Vec<u8>> {
        let mut key = [0; KEY];
        let (passphrase, rounds) = (passphrase.as_bytes(), self.iterations);
        match self.hash {
            Hash::Sha1 => pbkdf2::pbkdf2_hmac::<Sha1>(passphrase, salt, rounds, &mut key),
            Hash::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(passphrase, salt, rounds, &mut key),
            Hash::Sha384 => pbkdf2::pbkdf2_hmac::<Sha384>(passphrase, salt, rounds, &mut key),
            Hash::Sha512 => pbkdf2::pbkdf2_hmac::<Sha512>(passphrase, salt, rounds, &mut key),
        }
        C::new_from_slices(&key, vector).ok()?.decrypt_padded_vec::<Pkcs7>(text).ok()
    }
}

/// The text of a term in Erlang's external format: a binary, a string, a list of characters or an atom.
fn read_term(term: &[u8]) -> Option<String> {
    const VERSION: u8 = 131;
    let [VERSION, tag, rest @ ..] = term else { return None };
    let short = |size: usize| {
        let (len, rest) = rest.split_at_checked(size)?;
        let len = len.iter().fold(0usize, |len, byte| len << 8 | usize::from(*byte));
        (rest.len() == len).then(|| String::from_utf8(rest.to_vec()).ok())?
    };
    match tag {
        // BINARY_EXT; STRING_EXT, ATOM_EXT and ATOM_UTF8_EXT; SMALL_ATOM_EXT and SMALL_ATOM_UTF8_EXT; NIL_EXT.
        109 => short(4),
        // Of a string each byte is a character.
        107 => (rest.len() >= 2 && rest.len() - 2 == usize::from(rest[0]) << 8 | usize::from(rest[1]))
            .then(|| rest[2..].iter().map(|byte| char::from(*byte)).collect()),
        100 | 118 => short(2),
        115 | 119 => short(1),
        106 => rest.is_empty().then(String::new),
        108 => read_characters(rest),
        _ => None,
    }
}

/// LIST_EXT of SMALL_INTEGER_EXT and INTEGER_EXT: characters beyond Latin-1 are among them.
fn read_characters(list: &[u8]) -> Option<String> {
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
    use super::super::syntax::Origin;
    use super::*;
    use proptest::prelude::*;

    fn open(settings: &[(&str, &str)], value: &str) -> Result<String, String> {
        let mut decoder = Decoder::default();
        for (name, value) in settings {
            decoder.set(name, value)?;
        }
        let mut setting = Setting::new("default_pass".into(), value.into(), Origin::CommandLine);
        decoder.open(&mut setting).map_err(|error| error.message)?;
        Ok(setting.value)
    }

    /// Made by `rabbitmqctl encode` of RabbitMQ 4.3.6.
    #[test]
    fn what_rabbitmq_encrypts_is_decrypted() {
        let check = |settings: &[(&str, &str)], value: &str, expected: &str| {
            let with: Vec<_> = [("passphrase", "mypassphrase")].iter().chain(settings).copied().collect();
            assert_eq!(open(&with, value).as_deref(), Ok(expected), "{value}");
        };
        let binary = "encrypted:ZD0qYC37J28lVH1cSMR7K7tzzkfbpAkch+rr9YWOJKK20hn1VDm569oKIrs3AFet3nB68KhqmQzepXW5RG6s9Q==";
        check(&[], binary, "s3cret pass");
        check(
            &[],
            "encrypted:suE5AbWMTBLVQ/o3q/9P/BbEi9+Q49eP/28+fVklSyJnAhfPba2c34yU1TD6zvm7",
            "s3cret list",
        );
        check(&[], "encrypted:v+87gvb1bRxDMtJT3dhnYTzN+88r/81gjfdFZajcmOmawLe0egMU+WessLQKCSx+", "plainword");
        let other = "encrypted:3neYcFmi7vlbQxDQboJPnhQsYCIzMnQmYnh7EwUTIyl0EJ0fzk8WnOscasJ6WEDv";
        check(&[("cipher", "aes_128_cbc"), ("hash", "sha256"), ("iterations", "10")], other, "short");
        MORE.iter().for_each(|(cipher, hash, iterations, value)| {
            check(&[("cipher", cipher), ("hash", hash), ("iterations", iterations)], value, "gr\u{fc}n");
        });
        check(&[], "plain", "plain");
    }

    const MORE: &[(&str, &str, &str, &str)] = &[
        (
            "aes_256_cbc",
            "sha512",
            "1000",
            "encrypted:JS1AEH4k1jJ7bVGDTBQXeV9Pn4BhQyTvnmfGaIp9vmaNivOiA9upVB6il8eg7VlU",
        ),
        (
            "aes_192_cbc",
            "sha384",
            "7",
            "encrypted:pKNoyYK/TBUTC+xTmTXLbp0xCKwX6uy9KR6N2SnE8d33c/XR46JhhBVy22T437T/",
        ),
        (
            "aes_256_cbc",
            "sha",
            "2",
            "encrypted:OUQbeZjzwgpgYSWdYJVCGKN3tyi7BSxrJ23Latg5AnTmRiDPMX4fu4USlSTQLmXj",
        ),
        (
            "aes_256_cbc",
            "sha256",
            "3",
            "encrypted:9vXz7IlG4WY95nJsVerC7S6GAlqswtP0LA6NRqTU/u6x2KYUp9MlKRSqO7JaU28J",
        ),
    ];

    #[test]
    fn what_cannot_be_decrypted_says_why() {
        let check = |settings: &[(&str, &str)], value: &str, expected: &str| {
            let error = open(settings, value).expect_err(value);
            assert!(error.contains(expected), "{value}: {error}");
        };
        let value = "encrypted:suE5AbWMTBLVQ/o3q/9P/BbEi9+Q49eP/28+fVklSyJnAhfPba2c34yU1TD6zvm7";
        check(&[], value, "config_entry_decoder.passphrase is not set");
        check(&[("passphrase", "other")], value, "the passphrase");
        check(&[("passphrase", "x")], "encrypted:!", "it is not base64");
        check(&[("passphrase", "x")], "encrypted:AAAA", "it is too short");
        check(&[("cipher", "blowfish_cbc")], value, "accepted values: aes_128_cbc");
        check(&[("hash", "md5")], value, "accepted values: sha");
        check(&[("iterations", "0")], value, "a whole number from 1");
        check(&[("salt", "0")], value, "known are .passphrase");
    }

    proptest! {
        #[test]
        fn any_term_is_read_without_panic(term in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = read_term(&term);
            let with: Vec<u8> = [131].into_iter().chain(term).collect();
            let _ = read_term(&with);
        }
    }
}
