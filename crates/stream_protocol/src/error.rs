//! Errors of a frame and of a connection.

use crate::code::ResponseCode;
use base::Short;
use message::chunk;

/// Why a frame cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A command or a version that nobody knows.
    UnknownCommand {
        /// Its number, the highest bit set in responses.
        key: u16,
        /// Its version; 0 if the frame has none.
        version: u16,
    },
    /// It ends before the command does.
    Short,
    /// It goes on behind the command.
    Long,
    /// A field has a value that it cannot have.
    Value,
    /// Messages that are no entries, or a chunk that is none.
    Chunk(chunk::Malformed),
}

impl From<Short> for Malformed {
    fn from(_: Short) -> Malformed {
        Malformed::Short
    }
}

impl From<chunk::Malformed> for Malformed {
    fn from(reason: chunk::Malformed) -> Malformed {
        Malformed::Chunk(reason)
    }
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Malformed::UnknownCommand { key, version } => {
                write!(f, "unknown command {key:#06x} in version {version}")
            }
            Malformed::Short => f.write_str("the frame is shorter than its command"),
            Malformed::Long => f.write_str("the frame is longer than its command"),
            Malformed::Value => f.write_str("a field has a value it cannot have"),
            Malformed::Chunk(reason) => reason.fmt(f),
        }
    }
}

impl std::error::Error for Malformed {}

/// The reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A frame that cannot be decoded. The peer was told if the connection was open.
    Malformed(Malformed),
    /// A frame that is out of place. The peer was told if the connection was open.
    Unexpected {
        /// Its number, the highest bit set in responses.
        key: u16,
    },
    /// A frame over the bound. The peer was told if the connection was open.
    FrameTooLarge {
        /// Its bytes.
        size: u32,
        /// The bound.
        size_max: u32,
    },
    /// The client begins with TLS, which is not spoken here.
    Tls,
    /// Not open in time.
    HandshakeTimeout,
    /// Nothing came for two heartbeat intervals.
    HeartbeatMissed,
    /// A request was not answered in time.
    RequestTimeout,
    /// The close was not answered in time.
    CloseTimeout,
}

impl Error {
    /// The code the peer is told.
    pub(crate) fn code(&self) -> ResponseCode {
        match self {
            Error::FrameTooLarge { .. } => ResponseCode::FRAME_TOO_LARGE,
            _ => ResponseCode::UNKNOWN_FRAME,
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Malformed(reason) => reason.fmt(f),
            Error::Unexpected { key } => write!(f, "command {key:#06x} is out of place"),
            Error::FrameTooLarge { size, size_max } => {
                write!(f, "a frame has {size} bytes and may have {size_max}")
            }
            Error::Tls => f.write_str("the client begins with TLS on a port without"),
            Error::HandshakeTimeout => f.write_str("handshake timeout"),
            Error::HeartbeatMissed => f.write_str("missed heartbeats from the peer"),
            Error::RequestTimeout => f.write_str("a request was not answered in time"),
            Error::CloseTimeout => f.write_str("the close was not answered in time"),
        }
    }
}

impl std::error::Error for Error {}
