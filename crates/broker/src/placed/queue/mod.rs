//! Queues at their owner: the machine `queue::Fifo`, its consumers and its rules, and all that queues do at work.

mod applying;
pub(crate) mod at;
mod barriers;
pub(crate) mod browse;
mod choosing;
pub(crate) mod commands;
mod configuring;
pub(crate) mod dead_letters;
pub(crate) mod delivery;
mod ending;
pub(crate) mod features;
mod get_at;
mod going_on;
mod leasing;
mod leaving;
pub(crate) mod modified;
pub(crate) mod owned;
pub(crate) mod recovery;
mod reject_publish;
mod ringing;
mod row;
pub(crate) mod selectors;
mod settling;
pub(crate) mod sizing;
mod weighing;
