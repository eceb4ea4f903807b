//! WebSocket (RFC 6455) with permessage-deflate (RFC 7692), for both peers, as a carrier of a stream of bytes.
//!
//! Values without I/O: [`upgrade`] takes the HTTP request or answer apart, [`Incoming`] turns bytes of the wire into
//! the bytes that were carried, [`Outgoing`] wraps the bytes to be carried. Payload is passed on as it comes, however
//! it is cut into frames and messages: its meaning is the carried protocol's affair (AMQP WebSocket Binding 1.0), so no
//! message is ever held. A connection holds a few dozen bytes; while a compressed message is coming in also the state
//! of its inflation, given back at its end.
//!
//! No crate for WebSocket does all of this without I/O, without copying each payload more than once and with
//! compression; HTTP, SHA-1, base64 and DEFLATE are other people's.

mod deflate;
mod frame;
mod incoming;
mod outgoing;
pub mod upgrade;

pub use deflate::Workshop;
pub use frame::{CloseCode, HEADER_BYTES_MAX, mask};
pub use incoming::{Incoming, Taken};
pub use outgoing::Outgoing;

/// The side of a peer: only a client's frames are masked (§5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It was connected to.
    Server,
    /// It connected.
    Client,
}

/// Bounds of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the HTTP request or answer.
    pub request_bytes_max: usize,
    /// Header lines of it.
    pub request_headers_max: usize,
    /// Bytes of payload of a frame.
    pub frame_bytes_max: u64,
    /// Bytes a compressed message may inflate to.
    pub inflated_bytes_max: u64,
    /// Bytes of frames of compressed messages that are taken at once: each may take as long as a hundred others. Bytes
    /// beyond that are left on the wire, as where there is no room.
    pub inflate_bytes_max: usize,
    /// Bytes of answers to pings that are not yet sent; further pings stay unanswered meanwhile (§5.5.3).
    pub answers_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            request_bytes_max: 8192,
            request_headers_max: upgrade::HEADERS_MAX,
            frame_bytes_max: 1 << 30,
            inflated_bytes_max: 32 << 20,
            inflate_bytes_max: 16 << 10,
            answers_bytes_max: 1024,
        }
    }
}
