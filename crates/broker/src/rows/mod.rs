//! Rows of what connections have open, as lists show it, and the sums of them.

pub(crate) mod channels;
pub(crate) mod sums;
