//! The bounds of a lane, by name.

/// Bounds of one lane's memory, input and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bounds that both ends tell each other.
    pub bounds: Bounds,
    /// The largest frame taken before the peer is proven, in bytes with its head; at least [`OPENING_FRAME_BYTES_MIN`].
    pub opening_frame_bytes_max: u32,
    /// From the connection to the open lane, in milliseconds.
    pub opening_ms_max: u32,
    /// Bytes of bodies that may wait for the window, with [`WAITING_BODY_BYTES`] for each. A body that finds none
    /// waiting is taken whatever its length.
    pub waiting_bytes_max: u32,
    /// A ping goes out when nothing was sent, or nothing came, for so many milliseconds.
    pub ping_ms: u32,
    /// The peer is given up when nothing came for so many milliseconds; above `ping_ms`.
    pub silence_ms: u32,
}

/// Bounds that a hello tells. On a lane the lower of both ends counts, for either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The largest frame, in bytes with its head; at least [`FRAME_BYTES_MIN`], at most a quarter of the window.
    pub frame_bytes_max: u32,
    /// The longest body, in bytes, of however many frames; at least [`FRAME_BYTES_MIN`].
    pub entry_bytes_max: u32,
    /// Bytes of counted frames that a sender may be ahead of its receiver.
    pub window_bytes: u32,
}

/// Bytes that [`Bounds::frame_bytes_max`] has at least.
pub const FRAME_BYTES_MIN: u32 = 4096;

/// Bytes that [`Limits::opening_frame_bytes_max`] has at least: the longest hello and the longest refusal must go into
/// a frame.
pub const OPENING_FRAME_BYTES_MIN: u32 = 1024;

/// Bytes that a waiting body counts for in [`Limits::waiting_bytes_max`] beside its own.
pub const WAITING_BODY_BYTES: usize = 128;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bounds: Bounds::default(),
            opening_frame_bytes_max: 4096,
            opening_ms_max: 5_000,
            waiting_bytes_max: 8 << 20,
            ping_ms: 1_000,
            silence_ms: 5_000,
        }
    }
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            frame_bytes_max: 1 << 20,
            // A message of 512 MiB is one entry, with its record's head and room for others of its batch.
            entry_bytes_max: (512 + 16) << 20,
            window_bytes: 4 << 20,
        }
    }
}

impl Limits {
    /// Asserts that these bounds can work together.
    ///
    /// # Panics
    /// When they cannot: they are the holder's own.
    pub(crate) fn assert_sound(&self) {
        assert!(self.bounds.are_sound(), "a frame is at most a quarter of the window: {:?}", self.bounds);
        assert!(self.opening_frame_bytes_max >= OPENING_FRAME_BYTES_MIN, "a hello must go into a frame");
        assert!(
            self.ping_ms > 0 && self.silence_ms > self.ping_ms,
            "a ping is sent before a silence is over"
        );
    }
}

impl Bounds {
    /// Whether a sender can keep to them: a frame fits the window also when three quarters of it are taken up.
    pub(crate) fn are_sound(&self) -> bool {
        self.frame_bytes_max >= FRAME_BYTES_MIN
            && self.frame_bytes_max <= self.window_bytes / 4
            && self.entry_bytes_max >= FRAME_BYTES_MIN
    }

    /// The bounds of a lane between these two, sound where both are.
    pub(crate) fn common(&self, other: &Bounds) -> Bounds {
        Bounds {
            frame_bytes_max: self.frame_bytes_max.min(other.frame_bytes_max),
            entry_bytes_max: self.entry_bytes_max.min(other.entry_bytes_max),
            window_bytes: self.window_bytes.min(other.window_bytes),
        }
    }
}
