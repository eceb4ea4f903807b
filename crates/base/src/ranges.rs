//! A set of numbers kept as ranges.

/// Placeholder shape: see the queue work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {}
