//! Effects of a stream.

use super::readers::ReaderId;
use super::work::{Damage, Work};

/// A thing that a stream wants to happen.
#[derive(Clone, Debug)]
pub enum Effect {
    /// [`super::Stream::next`] may have something for this reader.
    Ready(ReaderId),
    /// The client is to be told whether its consumer is the active one of its group, and to answer
    /// ([`super::Stream::answer`]).
    Active {
        /// The reader of that client.
        reader: ReaderId,
        /// It is to go on, or to stop.
        active: bool,
    },
    /// To be carried out by the owner of a disk; the result goes to [`super::Stream::done`].
    Work(Work),
    /// Bytes on disk are not those that were written; the rest is served.
    Damaged(Damage),
}
