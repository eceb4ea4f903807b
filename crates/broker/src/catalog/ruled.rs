//! The policies that count for an object, as a change says it.

use super::definition::Destination;

/// An object, and the policies that count for it: their places among those of their kind in its virtual host, where
/// those that count more come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ruled {
    /// The queue or exchange.
    pub object: Destination,
    /// The users' policy.
    pub user: Option<u16>,
    /// The operator's.
    pub operator: Option<u16>,
}
