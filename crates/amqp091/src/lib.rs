//! AMQP 0-9-1: frames, methods and the connection machine, for both peers.
//!
//! [`Connection`] is a value: bytes and time go in ([`Connection::poll_event`], [`Connection::handle_deadline`]), events
//! come out that borrow from those bytes, and verbs append to its [`base::Output`]. It knows frames, the handshake,
//! channels and their closing races, the assembly of contents, heartbeats, and the refusals that follow from these. It
//! does not know exchanges, queues, users or the messages behind delivery tags: its holder does.
//!
//! Observed on RabbitMQ 4.3.6 and kept, where the specification says otherwise or nothing: reply codes and texts, which
//! peer closes a channel or the connection, a channel number above `channel_max` being fine while the count is not
//! above it, and frames of up to `frame_max` payload bytes being taken.

mod channel;
pub mod connection;
mod content;
pub mod encode;
pub mod error;
pub mod frame;
pub mod limits;
pub mod method;

pub use base::Input;
pub use connection::{Connection, Event, Gathered, Role, Tune};
pub use encode::{Body, DeliverPrefix, Outgoing, PublishPrefix};
pub use error::{Error, ReplyCode};
pub use frame::{Detected, detect};
pub use limits::Limits;
pub use method::{Method, MethodId};
