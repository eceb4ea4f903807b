//! Replicas of logs that agree on what is in them, by an engine that nothing outside this crate sees (`openraft`).
//!
//! An [`Entry`] of an agreed log is one batch of records, which are shared and never copied. Replicas talk by [`Message`]s; what they
//! promise and append is to be journaled in order ([`Write`]). A [`Consensus`] holds all replicas of a shard: time,
//! messages and finished writes go in, messages, writes, agreed entries and roles come out, and one seed makes one run.
//! Not here: what records mean, sockets, files, clocks.

pub mod codec;
mod consensus;
mod engine;
pub mod entry;
mod executor;
mod group;
mod machine;
pub mod mark;
pub mod message;
mod network;
mod runtime;
mod settings;
pub mod standing;
mod store;
mod watch;

pub use consensus::{Consensus, Output};
pub use entry::{Content, Entry, EntryId, Members, ReplicaId, Vote};
pub use group::{Recovered, Role};
pub use machine::{Installing, Offer};
pub use message::{Body, Message, SnapshotName};
pub use settings::Settings;
pub use store::Write;
