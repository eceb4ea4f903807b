//! The event before, from which the next is told: it comes back with the request for that.

use crate::counters::Counters;

/// The last event of a stream, as far as the next one is told from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// When, milliseconds since the node started.
    pub(crate) at_ms: u64,
    /// Messages, then churn.
    pub(crate) whole: Counters,
    /// Of each queue that was named; none: it is not there.
    pub(crate) queues: Vec<Option<Counters>>,
    /// Where the next event goes on: a position, an offset, or the number of a line.
    pub(crate) place: u64,
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
