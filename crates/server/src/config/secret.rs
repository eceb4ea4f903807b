//! Settings that are written encrypted, `encrypted:BASE64`, as `rabbitmqctl encode` makes them: which passphrase, cipher
//! and hash the configuration names for them. The scheme itself is [`ctl::secret`].

use super::syntax::{Error, Fault, Origin, Setting};
use ctl::secret::{ITERATIONS_MAX, PREFIX, Way};

/// `config_entry_decoder.*`.
#[derive(Default)]
pub struct Decoder {
    passphrase: Option<String>,
    way: Way,
}

impl Decoder {
    /// Takes `config_entry_decoder.<name>`.
    ///
    /// # Errors
    /// The values that would be accepted.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "passphrase" => self.passphrase = Some(value.to_owned()),
            "cipher" => {
                self.way.cipher = match value {
                    "aes_128_cbc" | "aes_cbc128" => "aes_128_cbc",
                    "aes_192_cbc" | "aes_cbc192" => "aes_192_cbc",
                    "aes_256_cbc" | "aes_cbc256" => "aes_256_cbc",
                    _ => return Err("accepted values: aes_128_cbc, aes_192_cbc, aes_256_cbc".into()),
                }
                .to_owned();
            }
            "hash" => match value {
                "sha" | "sha224" | "sha256" | "sha384" | "sha512" => self.way.hash = value.to_owned(),
                _ => return Err("accepted values: sha, sha224, sha256, sha384, sha512".into()),
            },
            "iterations" => {
                let number = value.parse().ok().filter(|number| (1..=ITERATIONS_MAX).contains(number));
                let accepted = || format!("accepted values: a whole number from 1 to {ITERATIONS_MAX}");
                self.way.iterations = number.ok_or_else(accepted)?;
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
        if !setting.value.starts_with(PREFIX) {
            return Ok(());
        }
        let passphrase =
            self.passphrase.as_deref().ok_or("config_entry_decoder.passphrase is not set".to_owned());
        match passphrase.and_then(|passphrase| self.way.decrypt(passphrase, &setting.value)) {
            Ok(clear) => {
                setting.value = clear;
                setting.is_secret = true;
                Ok(())
            }
            Err(why) => Err(Error {
                fault: Fault::Refused,
                origin: Some(setting.origin.clone()),
                marked: match setting.origin {
                    Origin::CommandLine => setting.key.clone(),
                    _ => setting.value.clone(),
                },
                message: format!("'{}' cannot be decrypted: {why}", setting.key),
                hint: "config_entry_decoder.passphrase, .cipher, .hash and .iterations must be those it was encrypted with".into(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        check(&[("passphrase", "other")], value, "is the passphrase right?");
        check(&[("passphrase", "x")], "encrypted:!", "is no base64");
        check(&[("passphrase", "x")], "encrypted:AAAA", "is too short");
        check(&[("cipher", "blowfish_cbc")], value, "accepted values: aes_128_cbc");
        check(&[("hash", "md5")], value, "accepted values: sha");
        check(&[("iterations", "0")], value, "a whole number from 1");
        check(&[("salt", "0")], value, "known are .passphrase");
    }
}
