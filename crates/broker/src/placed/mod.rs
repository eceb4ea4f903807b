//! The machines that are placed on a log.

pub(crate) mod queue;
pub(crate) mod stream;
