//! Time as an argument: read once per turn by the outermost crate, passed down as a value.

/// The moment of one turn of the loop.
///
/// `mono_ns` never goes back and is the only clock for deadlines and intervals; `wall_ms` may jump and is only
/// for what people or other machines read (timestamps, absolute expiry).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds since some fixed point of this process.
    pub mono_ns: u64,
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub wall_ms: u64,
}

impl Now {
    /// A moment for tests: `ms` milliseconds after both clocks' zero.
    pub fn at_ms(ms: u64) -> Now {
        Now { mono_ns: ms * NS_PER_MS, wall_ms: ms }
    }

    /// The monotonic deadline `ms` milliseconds from now; saturates.
    pub fn after_ms(self, ms: u64) -> u64 {
        self.mono_ns.saturating_add(ms.saturating_mul(NS_PER_MS))
    }
}

/// Nanoseconds in a millisecond.
pub const NS_PER_MS: u64 = 1_000_000;
