//! The RabbitMQ stream protocol (port 5552): frames, commands and the connection machine, for both peers.
//!
//! [`Connection`] is a value: bytes and time go in ([`Connection::poll_event`], [`Connection::handle_deadline`]), events
//! come out that borrow from those bytes, and verbs append to its [`base::Output`]. It knows frames, every command in every
//! version, the order of the opening, requests that wait for an answer, heartbeats, and the refusals that follow from
//! these. It does not know streams, publishers, subscriptions or users: its holder does. Chunks, in which messages
//! are delivered, are [`message::chunk`].
//!
//! The protocol has no specification but the document in RabbitMQ's sources (`PROTOCOL.adoc`), whose names are kept. Where
//! RabbitMQ 4.3.6 does otherwise, it is followed: the number of items in front of a list that ends its frame is not looked
//! at; a challenge has a length of two bytes; a credit is signed; a string that should be there must not be null.

pub mod code;
pub mod command;
pub mod connection;
pub mod error;
pub mod frame;
pub mod key;
pub mod limits;
pub mod list;
pub mod offset;
mod outstanding;
pub mod publish;
pub mod request;
pub mod response;
mod wire;

pub use base::Input;
pub use code::ResponseCode;
pub use command::{Command, Deliver, PublishError, Tune};
pub use connection::{Connection, Event, Role};
pub use error::{Error, Malformed};
pub use frame::Frame;
pub use key::{Key, Versions};
pub use limits::Limits;
pub use list::{Item, List, Pair};
pub use offset::OffsetSpec;
pub use publish::{Publish, PublishFrames, PublishedMessage};
pub use request::Request;
pub use response::{Broker, Response, Statistic, StreamMetadata};
