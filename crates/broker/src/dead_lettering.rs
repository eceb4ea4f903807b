//! A dead message that was published anew, until the logs have answered that its copies are on.
//!
//! Not here: publishing it, and its end ([`crate::dead_letterings`]).

use base::id::{LogId, QueueId, QueueSeq};
use message::record::DeathReason;

/// See the module's head.
#[derive(Debug)]
pub struct DeadLettering {
    pub(crate) log: LogId,
    pub(crate) queue: QueueId,
    pub(crate) seq: QueueSeq,
    /// The number of the time for which its queue was owned.
    pub(crate) tenure: u32,
    pub(crate) reason: DeathReason,
    pub(crate) at_least_once: bool,
    /// Logs that have not answered.
    pub(crate) left: u32,
    pub(crate) was_refused: bool,
    /// Bytes of the message.
    pub(crate) bytes: usize,
}
