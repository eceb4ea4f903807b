//! The names of wishes for changes.

use base::id::NodeNo;

/// A wish of a node for a change, as all nodes know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WishId {
    /// The node.
    pub node: NodeNo,
    /// Which of its starts: a later one has a higher number.
    pub incarnation: u64,
    /// Counts the wishes of that one, from 1.
    pub number: u64,
}
