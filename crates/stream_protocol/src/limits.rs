//! The bounds of a connection, by name.

/// Bounds of one connection's memory and input. Defaults are RabbitMQ 4.3.6's where it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest frame proposed and, once the connection is open, accepted, in bytes without those of its size. A peer
    /// that wants no bound has this one.
    pub frame_max: u32,
    /// The same until the connection is open.
    pub initial_frame_max: u32,
    /// Client: the largest frame accepted. Chunks are as large as publishers made them, beyond any bound agreed on.
    pub chunk_frame_max: u32,
    /// The heartbeat timeout proposed, in seconds; 0: none. The client has the last word.
    pub heartbeat_s: u32,
    /// From the first byte to `open`, in milliseconds. (RabbitMQ waits as long for each of the steps.)
    pub handshake_ms_max: u32,
    /// How long an answer to a close is waited for, in milliseconds.
    pub closing_ms_max: u32,
    /// How long an answer to any other request is waited for, in milliseconds.
    pub request_ms_max: u32,
    /// Requests of this end that may wait for an answer at once: 16 bytes each.
    pub requests_max: u16,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            frame_max: 1_048_576,
            initial_frame_max: 8192,
            chunk_frame_max: 128 * 1024 * 1024,
            heartbeat_s: 60,
            handshake_ms_max: 10_000,
            closing_ms_max: 10_000,
            request_ms_max: 60_000,
            // As many as there are subscriptions, of which each may be asked once.
            requests_max: 256,
        }
    }
}

/// The fewest bytes that [`Limits::frame_max`] may have: the longest login must go into a frame of a connection that is
/// not open.
pub const FRAME_MAX_MIN: u32 = 8192;

/// How long a client whose login was refused is left without an answer, in milliseconds: it must not learn quickly that a
/// guess was wrong.
pub const SILENCE_MS: u64 = 3_000;
