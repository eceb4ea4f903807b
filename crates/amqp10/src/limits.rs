//! Bounds of one connection, in memory and in time. Every bound of the machine has its name here.

/// Bounds of a connection. Defaults are RabbitMQ 4.3's unless a line says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a frame before the peer has opened (RabbitMQ: `initial_frame_max`).
    pub frame_bytes_before_open: u32,
    /// Bytes of a frame we take, announced as max-frame-size; at least 512.
    pub frame_bytes_max: u32,
    /// Sessions a connection may have: channel-max + 1. At least 1.
    pub sessions_max: u16,
    /// Links a session may have: handle-max + 1. At least 1.
    pub links_max: u16,
    /// Bytes of a link's name: there may be as many as sessions have links.
    pub link_name_bytes_max: usize,
    /// Transfers a peer may send on a session before we answer with a flow.
    pub incoming_window_max: u32,
    /// Bytes of a message, announced as max-message-size.
    pub message_bytes_max: u64,
    /// Bytes of incomplete messages a connection may hold.
    pub assembly_bytes_max: usize,
    /// Deliveries of a session that the peer may leave unsettled; short of that we stop sending deliveries that are not
    /// settled in advance, see [`crate::Room`]. Ours: RabbitMQ leaves it to link credit.
    pub unsettled_max: u32,
    /// Milliseconds from the first byte to the peer's open.
    pub handshake_ms: u32,
    /// Milliseconds between our close and the peer's.
    pub close_ms: u32,
    /// Milliseconds of silence announced as our idle-time-out; twice that closes the connection. 0: neither.
    pub idle_ms: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            frame_bytes_before_open: 8192,
            frame_bytes_max: 131_072,
            sessions_max: 64,
            links_max: 256,
            link_name_bytes_max: 1024,
            incoming_window_max: 400,
            message_bytes_max: 16 * 1024 * 1024,
            assembly_bytes_max: 64 * 1024 * 1024,
            unsettled_max: 1 << 20,
            handshake_ms: 10_000,
            close_ms: 10_000,
            idle_ms: 30_000,
        }
    }
}

/// How long a peer that has not logged in is left without an answer, in milliseconds: it must not learn quickly that a guess was
/// wrong.
pub const SILENCE_MS: u64 = 3_000;

/// A peer that takes no frames of this size is refused (§2.4.1).
pub const FRAME_BYTES_MIN: u32 = 512;

/// Bytes of a delivery-tag (§2.8.7).
pub const TAG_BYTES_MAX: usize = 32;
