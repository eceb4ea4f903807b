//! The counters that an event is told from: those in the event before, which come back with the request for the next.

use crate::counters::Counters;

/// The counters in the last event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// When, milliseconds since the node started.
    pub(crate) at_ms: u64,
    /// Messages, then churn.
    pub(crate) whole: Counters,
    /// Of each queue that was named; none: it is not there.
    pub(crate) queues: Vec<Option<Counters>>,
    /// Events so far.
    pub(crate) events: u64,
    /// They are told to an administrator.
    pub(crate) is_administrator: bool,
}

impl Seen {
    /// Whether the events are told to an administrator.
    pub fn is_administrator(&self) -> bool {
        self.is_administrator
    }
}
