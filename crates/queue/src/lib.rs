//! Deterministic queue machines: the messages of a queue, their order, their consumers.
//!
//! - [`Fifo`]: the machine. Records change recorded state, commands change volatile state, and both answer with
//!   [`Effects`].
//! - [`Places`]: the index from positions to where their bytes are.
//!
//! Nothing here holds a body, a connection or a file; nothing reads a clock.

mod active;
mod ahead;
mod annotations;
mod barrier;
mod browse;
mod command;
mod consumer_timeout;
mod consumers;
mod deadlines;
mod dedup_window;
mod delays;
mod delivery;
mod dispatch;
mod dying;
mod effect;
mod failures;
mod features;
mod fifo;
mod group_numbers;
mod groups;
mod held;
mod lease;
mod levels;
mod line;
mod live;
mod pick;
mod places;
mod prior_failures;
mod priority_blocks;
mod ranges;
mod ranking;
mod ready;
mod ready_line;
mod retry;
mod returns;
mod schedule;
mod sections;
mod selector_sets;
mod selectors;
mod settings;
mod settle_many;
mod sizes;
mod snapshot;
mod snapshot_fields;
mod spans;
pub mod stream;
mod timeout_rounds;
mod weights;

pub use barrier::BARRIER_WAIT_MS_MAX;
pub use command::{Command, Consume, ConsumerId, Credit, Record, Refused};
pub use consumer_timeout::Late;
pub use dedup_window::{MessageKey, WindowSettings};
pub use delivery::Counts;
pub use effect::{Effect, Effects, scattered};
pub use fifo::{Fifo, Recovery};
pub use groups::{PASSED_AT_ONCE_MAX, PASSED_MAX};
pub use held::HeldAt;
pub use lease::LATE_MAX;
pub use places::{LogStretch, Place, Places, Run, Stretch};
pub use retry::Retry;
pub use selector_sets::{SELECTORS_MAX, SelectorId, SelectorSet};
pub use settings::{Arrival, Fairness, GroupKey, Priorities, Rules, Settings};
pub use snapshot::VERSION as SNAPSHOT_VERSION;
pub use snapshot_fields::SnapshotError;
