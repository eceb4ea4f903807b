//! Messages, of all protocols: the stored record, AMQP value types, sections, properties and the conversion between
//! protocols.
//!
//! - [`record`]: the content of a log, byte by byte.
//! - [`amqp091`]: field tables and basic properties of AMQP 0-9-1.
//! - [`amqp10`]: the type system and message sections of AMQP 1.0.
//! - [`convert`]: each into the other.
//! - [`chunk`]: the form in which streams store and deliver messages.
//! - [`annotations`]: annotations that consumers add to a message that they give back.
//! - [`deaths`]: the deaths of a message, as its head tells them.
//! - [`delay`]: the header about a delay that was taken.
//! - [`stamps`]: stamps that a node writes on it when it comes in.

pub mod amqp091;
pub mod amqp10;
pub mod annotations;
pub mod chunk;
pub mod convert;
pub mod deaths;
pub mod delay;
pub mod record;
pub mod stamps;
