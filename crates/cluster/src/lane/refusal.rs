//! A refusal: the reason of the end that closes a lane, told before it closes.
//!
//! ```text
//!   0      2
//!   | code | text ...
//! ```
//!
//! Its form stays for good, so that ends without a common version can read it.

use super::error::Error;
use base::{Reader, Short};

/// Bytes of a refusal's text at most.
pub const REFUSAL_TEXT_BYTES_MAX: usize = 512;

/// Bytes of the code.
pub(crate) const CODE_BYTES: usize = 2;

/// The kind of reason for which a lane is closed. The holder goes by it, and not by the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalCode(pub u16);

impl RefusalCode {
    /// The proof is not one by the refuser's cookie.
    pub const WRONG_COOKIE: RefusalCode = RefusalCode(1);
    /// The nodes are of different clusters.
    pub const WRONG_CLUSTER: RefusalCode = RefusalCode(2);
    /// No version is spoken by both.
    pub const NO_COMMON_VERSION: RefusalCode = RefusalCode(3);
    /// The refuser knows a node of this name with another folder.
    pub const ANOTHER_FOLDER: RefusalCode = RefusalCode(4);
    /// Both ends have the same folder.
    pub const ONESELF: RefusalCode = RefusalCode(5);
    /// The refuser does not serve connections for this purpose, or none from this node.
    pub const UNEXPECTED_PURPOSE: RefusalCode = RefusalCode(6);
    /// The refused end broke a rule of the lane, or bytes were damaged on the way.
    pub const FAULT: RefusalCode = RefusalCode(7);
    /// A frame of a kind that the refuser does not know.
    pub const UNKNOWN_KIND: RefusalCode = RefusalCode(8);
    /// The lane was not open in time, or the refused end was silent for too long.
    pub const TIMEOUT: RefusalCode = RefusalCode(9);
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of reason; of a later version maybe, and then without a name here.
    pub code: RefusalCode,
    /// The reason in words, for a log: without control characters, at most [`REFUSAL_TEXT_BYTES_MAX`] bytes.
    pub text: String,
}

impl Refusal {
    /// The refusal with this reason; of a longer text the beginning, control characters as spaces.
    pub fn new(code: RefusalCode, text: &str) -> Refusal {
        let kept = &text[..text.floor_char_boundary(REFUSAL_TEXT_BYTES_MAX)];
        // The only characters that are changed become shorter or stay as long.
        Refusal { code, text: kept.chars().map(|c| if c.is_control() { ' ' } else { c }).collect() }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        [&self.code.0.to_le_bytes(), self.text.as_bytes()].concat()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Refusal, Error> {
        let mut reader = Reader::new(bytes);
        let code = reader.u16_le().map_err(|Short| Error::Refusal)?;
        let text = std::str::from_utf8(reader.rest()).map_err(|_| Error::Refusal)?;
        if text.contains(char::is_control) {
            return Err(Error::Refusal);
        }
        Ok(Refusal { code: RefusalCode(code), text: text.to_owned() })
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (code {})", self.text, self.code.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_comes_back_and_fits() {
        let check = |text: &str, expected: &str| {
            let refusal = Refusal::new(RefusalCode::ONESELF, text);
            assert_eq!(refusal.text, expected);
            assert_eq!(Refusal::decode(&refusal.encode()), Ok(refusal));
        };
        check("it is me", "it is me");
        check("", "");
        check("two\nlines\u{85}", "two lines ");
        check(&"ü".repeat(300), &"ü".repeat(256));
        check(&format!("x{}", "ü".repeat(300)), &format!("x{}", "ü".repeat(255)));
    }

    #[test]
    fn a_refusal_that_is_none_is_an_error() {
        for bytes in [&b""[..], b"\x01", b"\x01\0\xff", b"\x01\0line\n"] {
            assert_eq!(Refusal::decode(bytes), Err(Error::Refusal), "{bytes:?}");
        }
    }
}
