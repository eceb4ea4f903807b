//! Limits that an administrator sets for a virtual host or a user.
//!
//! Kept beside the definitions, since few have any. A limit counts when something new is asked for; what is there
//! already stays, however much it is.

/// Limits of a virtual host; none: any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VhostLimits {
    /// Connections open at once.
    pub connections_max: Option<u32>,
    /// Queues, transient and exclusive ones included.
    pub queues_max: Option<u32>,
    /// Bytes of memory that its connections hold, by the ledger; none: the share of virtual hosts counts, if there is one.
    pub memory_bytes_max: Option<u64>,
}

/// Limits of a user; none: any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserLimits {
    /// Connections open at once.
    pub connections_max: Option<u32>,
    /// Channels open at once, on all connections.
    pub channels_max: Option<u32>,
    /// Bytes of memory that the user's connections hold, by the ledger; none: the share of users counts.
    pub memory_bytes_max: Option<u64>,
}
