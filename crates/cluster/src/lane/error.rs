//! Faults for which this end closes a lane.

use super::frame::Kind;
use super::hello::{Purpose, Versions};
use super::refusal::RefusalCode;
use crate::names::ClusterId;

/// The fault for which this end closed a lane. Before the peer is proven, everything it says about the peer is that
/// peer's claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The peer begins with TLS, which is not spoken here. It was told nothing.
    Tls,
    /// The peer's first bytes, these four among them, are of no lane. It was told nothing.
    Foreign([u8; 4]),
    /// A frame below or above the bounds of its kind.
    FrameLength {
        /// Its bytes, those of the head included.
        len: u32,
        /// The bound above, for any frame or for this kind.
        len_max: u32,
    },
    /// A frame of a kind that is not known.
    UnknownKind(u8),
    /// Flags that the kind cannot have, or reserved bytes that are not 0.
    Flags {
        /// The frame's kind.
        kind: Kind,
        /// All flags and reserved bytes.
        flags: [u8; 3],
    },
    /// A frame is missing, or came twice.
    Sequence {
        /// The number that was due.
        expected: u64,
        /// The number it has.
        found: u64,
    },
    /// The checksum of a frame is not that of its bytes.
    Checksum {
        /// The frame's number.
        sequence: u64,
    },
    /// A frame that cannot come now.
    Unexpected(Kind),
    /// A hello that is none: in which way.
    Hello(&'static str),
    /// A refusal that is none.
    Refusal,
    /// No version is spoken by both.
    Versions {
        /// Versions of this end.
        ours: Versions,
        /// Versions of the peer.
        theirs: Versions,
    },
    /// The peer is of another cluster.
    Cluster {
        /// The cluster of this end.
        ours: ClusterId,
        /// The cluster of the peer.
        theirs: ClusterId,
    },
    /// The peer has the folder of this end.
    Oneself {
        /// In the same life: this node connected to itself. Else another node has a copy of the folder.
        is_same_life: bool,
    },
    /// The listener answered with another purpose.
    Purpose {
        /// The dialer's.
        asked: Purpose,
        /// The listener's.
        answered: Purpose,
    },
    /// The peer's proof is none by the cookie of this end, or is there on one side only.
    Cookie,
    /// A body of several frames is longer than a body may be.
    EntryLength {
        /// The bound, in bytes.
        len_max: u32,
    },
    /// A frame that has another to follow and no bytes of its own.
    EmptyPiece,
    /// The peer sent more than the window allows.
    Window {
        /// The bound, in bytes.
        window_bytes: u32,
    },
    /// The peer takes a count of bytes that is below an earlier one or above all that was sent.
    Taken {
        /// The count.
        count: u64,
    },
    /// The peer answers a ping that waits for no answer.
    Pong {
        /// The number it answers.
        number: u64,
    },
    /// The lane was not open in time.
    OpeningTimeout,
    /// Nothing came from the peer for so many milliseconds.
    Silence {
        /// The bound.
        silence_ms: u32,
    },
}

impl Error {
    /// The fault of first bytes that are of no lane.
    pub(crate) fn foreign(bytes: &[u8]) -> Error {
        let mut first = [0; 4];
        first.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        // The content type of a TLS handshake's record, and the higher half of its version.
        if first[..2] == [0x16, 0x03] { Error::Tls } else { Error::Foreign(first) }
    }

    /// The code that the peer is told; none: it is told nothing, as it would not understand.
    pub(crate) fn code(&self) -> Option<RefusalCode> {
        Some(match self {
            Error::Tls | Error::Foreign(_) => return None,
            Error::Cookie => RefusalCode::WRONG_COOKIE,
            Error::Cluster { .. } => RefusalCode::WRONG_CLUSTER,
            Error::Versions { .. } => RefusalCode::NO_COMMON_VERSION,
            Error::Oneself { .. } => RefusalCode::ONESELF,
            Error::Purpose { .. } => RefusalCode::UNEXPECTED_PURPOSE,
            Error::UnknownKind(_) => RefusalCode::UNKNOWN_KIND,
            Error::OpeningTimeout | Error::Silence { .. } => RefusalCode::TIMEOUT,
            _ => RefusalCode::FAULT,
        })
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Tls => f.write_str("the peer begins with TLS, which is not spoken here"),
            Error::Foreign(first) => write!(f, "bytes of another protocol: \"{}\"", first.escape_ascii()),
            Error::FrameLength { len, len_max } => {
                write!(f, "a frame has {len} bytes and may have {len_max}")
            }
            Error::UnknownKind(kind) => write!(f, "unknown kind of frame {kind}"),
            Error::Flags { kind, flags } => write!(f, "a frame of kind {kind} with the flags {flags:02x?}"),
            Error::Sequence { expected, found } => {
                write!(f, "a frame has the number {found} where {expected} was due")
            }
            Error::Checksum { sequence } => write!(f, "the checksum of frame {sequence} is wrong"),
            Error::Unexpected(kind) => write!(f, "a frame of kind {kind} cannot come now"),
            Error::Hello(why) => write!(f, "the hello is none: {why}"),
            Error::Refusal => f.write_str("a refusal is none"),
            Error::Versions { ours, theirs } => {
                write!(f, "no common version of the lane: {ours} are spoken here, {theirs} by the peer")
            }
            Error::Cluster { ours, theirs } => {
                write!(f, "the peer is of cluster {theirs}, this node of cluster {ours}")
            }
            Error::Oneself { is_same_life: true } => f.write_str("the node is connected to itself"),
            Error::Oneself { is_same_life: false } => {
                f.write_str("the peer has this node's data folder, or a copy of it")
            }
            Error::Purpose { asked, answered } => {
                write!(f, "the listener answers as {answered} where {asked} was asked for")
            }
            Error::Cookie => f.write_str("the peer's proof does not fit the cookie of this node"),
            Error::EntryLength { len_max } => write!(f, "a body is longer than {len_max} bytes"),
            Error::EmptyPiece => f.write_str("an empty frame says that more follows"),
            Error::Window { window_bytes } => {
                write!(f, "more was sent than the window of {window_bytes} bytes")
            }
            Error::Taken { count } => write!(f, "{count} bytes are said to be taken, which cannot be"),
            Error::Pong { number } => write!(f, "ping {number} waits for no answer"),
            Error::OpeningTimeout => f.write_str("the lane was not open in time"),
            Error::Silence { silence_ms } => write!(f, "nothing came for {silence_ms} ms"),
        }
    }
}

impl std::error::Error for Error {}
