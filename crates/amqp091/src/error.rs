//! Refusals: the reply code, the words and how much they close (AMQP 0-9-1 §1.2).
//!
//! Texts are RabbitMQ 4.3.6's, because people search for them and clients match on them.

use crate::method::MethodId;

macro_rules! reply_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal $text:literal;)*) => {
        /// Why something was refused (§1.2).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum ReplyCode { $($(#[$doc])* $name = $code,)* }

        impl ReplyCode {
            /// The name that a reply text begins with.
            pub fn name(self) -> &'static str {
                match self { $(ReplyCode::$name => $text,)* }
            }

            /// The code with this number.
            pub fn from_number(number: u16) -> Option<ReplyCode> {
                match number {
                    $($code => Some(ReplyCode::$name),)*
                    _ => None,
                }
            }
        }
    };
}

reply_codes! {
    /// No error.
    Success = 200 "REPLY_SUCCESS";
    /// The body is larger than the peer takes.
    ContentTooLarge = 311 "CONTENT_TOO_LARGE";
    /// A mandatory message had no queue.
    NoRoute = 312 "NO_ROUTE";
    /// An immediate message had no consumer.
    NoConsumers = 313 "NO_CONSUMERS";
    /// An operator closed the connection.
    ConnectionForced = 320 "CONNECTION_FORCED";
    /// An unknown virtual host.
    InvalidPath = 402 "INVALID_PATH";
    /// No permission.
    AccessRefused = 403 "ACCESS_REFUSED";
    /// No such entity.
    NotFound = 404 "NOT_FOUND";
    /// Another connection holds it.
    ResourceLocked = 405 "RESOURCE_LOCKED";
    /// It is not as the request takes it to be.
    PreconditionFailed = 406 "PRECONDITION_FAILED";
    /// A frame that cannot be decoded.
    FrameError = 501 "FRAME_ERROR";
    /// A field with a value it cannot have.
    SyntaxError = 502 "SYNTAX_ERROR";
    /// A method that is out of place.
    CommandInvalid = 503 "COMMAND_INVALID";
    /// A channel that is not open, or is.
    ChannelError = 504 "CHANNEL_ERROR";
    /// A frame that is out of place.
    UnexpectedFrame = 505 "UNEXPECTED_FRAME";
    /// The server lacks resources.
    ResourceError = 506 "RESOURCE_ERROR";
    /// Forbidden by the site's rules.
    NotAllowed = 530 "NOT_ALLOWED";
    /// Not implemented.
    NotImplemented = 540 "NOT_IMPLEMENTED";
    /// The server's own fault.
    InternalError = 541 "INTERNAL_ERROR";
}

/// The most bytes of a reply text.
pub const TEXT_MAX: usize = 255;

/// `text`, cut to the length of a reply text where it is longer, with dots at its end.
pub fn fit(mut text: String) -> String {
    if text.len() > TEXT_MAX {
        text.truncate(text.floor_char_boundary(TEXT_MAX - 3));
        text.push_str("...");
    }
    text
}

/// A fault of the peer's, or an end of the connection without a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Refused with a code; the peer was told unless it has not logged in.
    Refused {
        /// Why.
        code: ReplyCode,
        /// In words, the code's name first; at most [`TEXT_MAX`] bytes.
        text: String,
        /// The method refused; (0, 0) where it was none.
        method: MethodId,
    },
    /// Not a protocol header this end speaks.
    WrongHeader([u8; 8]),
    /// Not open in time.
    HandshakeTimeout,
    /// Nothing came for two heartbeat intervals.
    HeartbeatMissed,
    /// The close was not answered in time.
    CloseTimeout,
}

impl Error {
    /// A refusal; its text is the code's name, a dash and `text`.
    pub fn refused(code: ReplyCode, text: impl std::fmt::Display, method: MethodId) -> Error {
        Error::Refused { code, text: fit(format!("{} - {text}", code.name())), method }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Refused { code, text, .. } => write!(f, "{} {text}", *code as u16),
            Error::WrongHeader(header) => {
                write!(f, "not an AMQP 0-9-1 protocol header: {}", Octets(header))
            }
            Error::HandshakeTimeout => f.write_str("handshake timeout"),
            Error::HeartbeatMissed => f.write_str("missed heartbeats from the peer"),
            Error::CloseTimeout => f.write_str("close-ok did not come in time"),
        }
    }
}

impl std::error::Error for Error {}

/// Bytes the way RabbitMQ's texts show them: `<<"text">>` where all are printable, else `<<1,2,3>>`.
pub(crate) struct Octets<'a>(pub &'a [u8]);

/// More bytes than this never fit a reply text in either form.
const OCTETS_SHOWN_MAX: usize = TEXT_MAX;

impl std::fmt::Display for Octets<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = &self.0[..self.0.len().min(OCTETS_SHOWN_MAX)];
        f.write_str("<<")?;
        if !bytes.is_empty() && bytes.iter().all(|byte| matches!(byte, b' '..=b'~')) {
            f.write_str("\"")?;
            for byte in bytes {
                let escape = if matches!(byte, b'"' | b'\\') { "\\" } else { "" };
                write!(f, "{escape}{}", char::from(*byte))?;
            }
            f.write_str("\"")?;
        } else {
            for (index, byte) in bytes.iter().enumerate() {
                write!(f, "{}{byte}", if index == 0 { "" } else { "," })?;
            }
        }
        f.write_str(">>")
    }
}

/// "type 1, all octets = <<0,20>>", the way RabbitMQ's texts show a frame: its first 16 bytes.
pub(crate) struct Snippet<'a>(pub u8, pub &'a [u8]);

impl std::fmt::Display for Snippet<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.1.split_at_checked(16) {
            Some((first, [_, ..])) => write!(f, "type {}, first 16 octets = {}", self.0, Octets(first)),
            _ => write!(f, "type {}, all octets = {}", self.0, Octets(self.1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_shown_as_rabbitmq_shows_them() {
        for (bytes, expected) in [
            (&b""[..], "type 1, all octets = <<>>"),
            (b"abc", "type 1, all octets = <<\"abc\">>"),
            (b"a\"b", "type 1, all octets = <<\"a\\\"b\">>"),
            (&[0, 90, 0, 10], "type 1, all octets = <<0,90,0,10>>"),
            (b"0123456789abcdef", "type 1, all octets = <<\"0123456789abcdef\">>"),
            (b"0123456789abcdefghij", "type 1, first 16 octets = <<\"0123456789abcdef\">>"),
        ] {
            assert_eq!(Snippet(1, bytes).to_string(), expected);
        }
    }

    #[test]
    fn texts_are_cut_to_what_fits() {
        let Error::Refused { text, .. } =
            Error::refused(ReplyCode::NotFound, "ü".repeat(200), MethodId::NONE)
        else {
            panic!("refused is refused")
        };
        assert!(text.len() <= TEXT_MAX && text.starts_with("NOT_FOUND - ü") && text.ends_with("ü..."));
    }
}
