//! The bounds of a connection, by name.

/// Bounds of one connection's memory and input. Defaults are RabbitMQ 4.3.6's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest frame proposed and accepted, in bytes with its header and end; at least
    /// [`crate::frame::FRAME_MIN_SIZE`].
    pub frame_max: u32,
    /// Channels open at once that are proposed and accepted; 0: as many as there are numbers.
    pub channel_max: u16,
    /// The heartbeat timeout proposed, in seconds; 0: none. The client has the last word.
    pub heartbeat_s: u16,
    /// The largest body taken, in bytes; at most [`BODY_SIZE_MAX`].
    pub message_size_max: u32,
    /// From the first byte to `open`, in milliseconds.
    pub handshake_ms_max: u32,
    /// Bytes of an incomplete message that are left in the input instead of being gathered in a buffer of the
    /// channel. The caller's read buffer must hold as much, and [`Limits::input_max`] in any case.
    pub contiguous_max: u32,
}

/// No configuration lets a body be larger, in bytes.
pub const BODY_SIZE_MAX: u64 = 512 * 1024 * 1024;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            frame_max: 131_072,
            channel_max: 2047,
            heartbeat_s: 60,
            message_size_max: 16 * 1024 * 1024,
            handshake_ms_max: 10_000,
            contiguous_max: 144 * 1024,
        }
    }
}

impl Limits {
    /// The most bytes of input [`crate::Connection::poll_event`] ever wants to see at once.
    pub fn input_max(&self) -> usize {
        (self.frame_max as usize + crate::frame::OVERHEAD).max(self.contiguous_max as usize)
    }
}

/// How long a peer that has not logged in is left without an answer before its socket is closed, in milliseconds: it
/// must not learn quickly that a guess was wrong.
pub const SILENCE_MS: u64 = 3_000;

/// How long a `close-ok` is waited for, in milliseconds.
pub const CLOSING_MS: u64 = 30_000;
