//! Deterministic queue machines: what is in a queue, who gets it, who holds it.
//!
//! - [`Fifo`]: the machine. Records change what must survive, commands change what need not, and both say what
//!   should happen as [`Effects`].
//! - [`Places`]: the index from positions to where their bytes are.
//!
//! Nothing here holds a body, a connection or a file; nothing reads a clock.

mod active;
mod annotations;
mod browse;
mod command;
mod consumer_timeout;
mod consumers;
mod deadlines;
mod dedup_window;
mod delays;
mod dispatch;
mod dispatch_groups;
mod dispatch_levels;
mod effect;
mod failures;
mod features;
mod fifo;
mod groups;
mod levels;
mod overflow;
mod pick;
mod places;
mod prior_failures;
mod priority_blocks;
mod retry;
mod schedule;
mod sections;
mod settings;
mod settle_many;
mod sizes;
mod snapshot;
mod spans;
pub mod stream;
mod timeout_rounds;
mod weigh;

pub use command::{Command, Consume, ConsumerId, Credit, Record, Refused};
pub use consumer_timeout::Late;
pub use dedup_window::{MessageKey, WindowSettings};
pub use effect::{Effect, Effects, scattered};
pub use fifo::{Counts, Fifo, Recovery};
pub use groups::{GroupKey, PASSED_AT_ONCE_MAX, PASSED_MAX};
pub use places::{LogStretch, Place, Places, Run, Stretch};
pub use retry::Retry;
pub use settings::{Arrival, Priorities, Rules, Settings};
pub use snapshot::{SnapshotError, VERSION as SNAPSHOT_VERSION};

use base::id::QueueSeq;
use base::ranges::Range;
use message::record::SeqRange;

/// The range of a set as the positions of a queue.
#[inline]
fn positions(range: Range) -> SeqRange {
    SeqRange { first: QueueSeq(range.first), last: QueueSeq(range.last) }
}

/// The positions as numbers of a set; `None` where they run backwards or name the one number no position has.
#[inline]
fn numbers(range: SeqRange) -> Option<Range> {
    let Range { first, last } = Range { first: range.first.0, last: range.last.0 };
    (first <= last && last < u64::MAX).then_some(Range { first, last })
}
