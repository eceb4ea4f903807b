//! Names of the arguments of a queue that is filled from a stream.

/// The stream.
pub(super) const STREAM: &str = "x-source-stream";
/// Where it begins in it.
pub(super) const OFFSET: &str = "x-source-offset";
/// An expression over its messages.
pub(super) const FILTER: &str = "x-source-filter";
/// Filter values of its messages.
pub(super) const FILTER_VALUES: &str = "x-source-filter-values";
/// Messages without a filter value are for it too.
pub(super) const MATCH_UNFILTERED: &str = "x-source-match-unfiltered";
