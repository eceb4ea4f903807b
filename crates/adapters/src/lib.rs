//! The front of a shard: its connections, each a protocol machine and the adapter that speaks to the broker for it.
//!
//! A value without I/O. [`Frontend`] holds the connections of one shard; the loop around it hands in the bytes that
//! sockets brought and takes away the bytes they shall send. An adapter (one module per protocol) turns protocol events
//! into broker requests and broker events into protocol verbs; it knows both sides and nobody else does.

mod alarm;
pub mod amqp091;
pub mod amqp10;
mod asking;
mod clients;
mod connection;
mod context;
mod credentials;
mod following;
mod frontend;
mod handles;
mod scattered;
pub mod settings;
mod shares;
pub mod stream;
mod tenants;
mod tokens;
mod transaction;

pub use alarm::Alarm;
pub use clients::Client;
pub use context::{Context, Gravity, Note, Trying};
pub use credentials::Outcome;
pub use following::Following;
pub use frontend::{ConnectionBytes, Frontend, Mover, NODE_SLOT, Taken};
pub use settings::{Peer, Protocol, Settings};
pub use shares::TurnWork;
