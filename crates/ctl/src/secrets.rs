//! The words about secrets in configuration files, which ask no node.

use crate::exit;
use crate::objects::random;
use crate::request::Refusal;
use crate::secret::{CIPHERS, HASHES, PREFIX, Way};
use crate::session::{Session, bad_word, failed};
use clap::{Args, Subcommand};
use serde_json::json;

/// Words about secrets.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum SecretWord {
    /// Encrypts a value for advanced.config: a term of Erlang, such as <<"secret">>
    Encode {
        #[command(flatten)]
        way: WayWords,
        value: String,
        passphrase: String,
    },
    /// Decrypts a value of encode
    Decode {
        #[command(flatten)]
        way: WayWords,
        value: String,
        passphrase: String,
    },
    /// Encrypts a value for rabbitmq.conf
    EncryptConfValue {
        #[command(flatten)]
        way: WayWords,
        value: String,
        passphrase: String,
    },
    /// Decrypts a value of rabbitmq.conf that begins with encrypted:
    DecryptConfValue {
        #[command(flatten)]
        way: WayWords,
        value: String,
        passphrase: String,
    },
    /// Ciphers that secrets may be encrypted with
    ListCiphers,
    /// Hashes that keys may be made with
    ListHashes,
}

/// How a secret is encrypted.
#[derive(Debug, Args)]
pub(crate) struct WayWords {
    /// One of those that list_ciphers lists
    #[arg(long, default_value_t = Way::default().cipher)]
    cipher: String,
    /// One of those that list_hashes lists
    #[arg(long, default_value_t = Way::default().hash)]
    hash: String,
    /// Rounds of the key's derivation
    #[arg(long, default_value_t = Way::default().iterations)]
    iterations: u32,
}

impl WayWords {
    fn check(&self) -> Result<(), Refusal> {
        let bad = |what: &str| {
            Err(bad_word(exit::DATA, format!("Bad argument: The requested {what} is not supported")))
        };
        match (CIPHERS.contains(&&*self.cipher), HASHES.contains(&&*self.hash)) {
            (false, _) => bad("cipher"),
            (_, false) => bad("hash"),
            _ => Ok(()),
        }
    }

    fn way(&self) -> Way {
        Way { cipher: self.cipher.clone(), hash: self.hash.clone(), iterations: self.iterations }
    }
}

pub(crate) fn run(word: &SecretWord, session: &Session<'_>) -> Result<String, Refusal> {
    if let SecretWord::Encode { way, .. }
    | SecretWord::Decode { way, .. }
    | SecretWord::EncryptConfValue { way, .. }
    | SecretWord::DecryptConfValue { way, .. } = word
    {
        way.check()?;
    }
    match word {
        SecretWord::Encode { way, value, passphrase } => {
            let show = session.announce("Encrypting value to be used in advanced.config...");
            let secret = encrypt(way, read_term(value)?, passphrase)?;
            Ok(show.message(&format!("{{encrypted,<<\"{secret}\">>}}")))
        }
        SecretWord::EncryptConfValue { way, value, passphrase } => {
            let show = session.announce("Encrypting value to be used in rabbitmq.conf...");
            let secret = encrypt(way, value, passphrase)?;
            Ok(show.message(&format!("{PREFIX}{secret}")))
        }
        SecretWord::Decode { way, value, passphrase } => {
            let show = session.announce("Decrypting an advanced.config (Erlang term) value...");
            let text = way.way().decrypt(passphrase, read_secret(value)?).map_err(failed)?;
            Ok(show.message(&format!("<<\"{text}\">>")))
        }
        SecretWord::DecryptConfValue { way, value, passphrase } => {
            let show = session.announce("Decrypting a rabbitmq.conf string value...");
            let text = way.way().decrypt(passphrase, value).map_err(failed)?;
            Ok(show.message(&text))
        }
        SecretWord::ListCiphers => list(session, "Listing supported ciphers ...", &CIPHERS),
        SecretWord::ListHashes => list(session, "Listing supported hash algorithms ...", &HASHES),
    }
}

fn encrypt(way: &WayWords, value: &str, passphrase: &str) -> Result<String, Refusal> {
    way.way().encrypt(passphrase, value, random()?).map_err(failed)
}

fn list(session: &Session<'_>, banner: &str, names: &[&str]) -> Result<String, Refusal> {
    let show = session.announce(banner);
    match session.is_for_programs() {
        true => Ok(format!("{}\n", json!({ "result": "ok", "value": names }))),
        false => Ok(show.message(&format!("[{}]", names.join(",")))),
    }
}

/// The text of a term: `<<"text">>`, `"text"`, or a word.
///
/// # Errors
/// It is another term, which would be another value once it was decrypted.
fn read_term(term: &str) -> Result<&str, Refusal> {
    let inside = term.trim();
    let inside = inside.strip_prefix("<<").and_then(|rest| rest.strip_suffix(">>")).unwrap_or(inside);
    let text = match inside.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(text) => text,
        None if inside.starts_with(|first: char| first.is_ascii_lowercase()) => inside,
        None => "\"",
    };
    if text.contains(['"', '\\', '{', '[', ',']) {
        let why = "the value is no text: <<\"text\">>, \"text\" or a word is taken";
        return Err(bad_word(exit::DATA, why));
    }
    Ok(text)
}

/// The secret in `{encrypted,<<"secret">>}`, or as it is.
fn read_secret(value: &str) -> Result<&str, Refusal> {
    let value = value.trim();
    let Some(inside) = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        return Ok(value.trim_matches(['<', '>', '"']));
    };
    let secret = inside.trim().strip_prefix("encrypted").and_then(|rest| rest.trim().strip_prefix(','));
    match secret {
        Some(secret) => Ok(secret.trim().trim_matches(['<', '>', '"'])),
        None => Err(bad_word(exit::DATA, "the value is not {encrypted,<<\"...\">>}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_terms_are_read() {
        let check = |term: &str, expected: Option<&str>| assert_eq!(read_term(term).ok(), expected, "{term}");
        check("<<\"secret\">>", Some("secret"));
        check(" \"secret word\" ", Some("secret word"));
        check("secret", Some("secret"));
        check("<<\"\">>", Some(""));
        check("{a,b}", None);
        check("[1]", None);
        check("17", None);
        check("<<\"a\\\"b\">>", None);
        check("'odd'", None);
    }

    #[test]
    fn secrets_are_read_as_they_are_written() {
        let check =
            |value: &str, expected: Option<&str>| assert_eq!(read_secret(value).ok(), expected, "{value}");
        check("{encrypted,<<\"AAAA\">>}", Some("AAAA"));
        check("{ encrypted , <<\"AAAA\">> }", Some("AAAA"));
        check("{encrypted, \"AAAA\"}", Some("AAAA"));
        check("AAAA", Some("AAAA"));
        check("<<\"AAAA\">>", Some("AAAA"));
        check("{other,<<\"AAAA\">>}", None);
    }
}
