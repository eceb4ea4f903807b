//! Times and bounds of replicas.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A leader says so often that it lives, milliseconds.
    pub heartbeat_ms: u64,
    /// A replica that hears of no leader for so long asks for votes, milliseconds: at least, and at most. Each has a time between.
    pub election_ms: (u64, u64),
    /// An answer about entries that has not come in so many milliseconds does not count; the question is asked again.
    /// It takes the follower a flush.
    pub answer_ms: u64,
    /// A snapshot that is not installed in so many milliseconds is sent again: the message was lost, or it takes
    /// longer.
    pub install_ms: u64,
    /// A replica that could not be reached is left alone for so long, milliseconds, the last time again and again.
    pub retry_ms: [u64; 3],
    /// Timers ring at multiples of so many milliseconds.
    pub grid_ms: u64,
    /// Entries of one message.
    pub message_entries_max: u64,
    /// Bytes of records in one message, unless one entry has more.
    pub message_bytes_max: usize,
    /// A replica so many entries behind is sent a snapshot if there is one.
    pub lag_entries_max: u64,
    /// A leader that comes up again leads on in its term, though it may have lost entries: a fault, which the simulation is to find.
    pub restores_leaders: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            heartbeat_ms: 100,
            election_ms: (250, 500),
            answer_ms: 500,
            install_ms: 1000,
            retry_ms: [50, 100, 200],
            grid_ms: 20,
            message_entries_max: 256,
            message_bytes_max: 4 << 20,
            lag_entries_max: 100_000,
            restores_leaders: false,
        }
    }
}
