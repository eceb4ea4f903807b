//! What a message is, whatever protocol brought it: the stored record, AMQP value types, sections, properties and the
//! conversion between protocols.
//!
//! - [`record`]: what a log holds, byte by byte.
//! - [`amqp091`]: field tables and basic properties of AMQP 0-9-1.
//! - [`amqp10`]: the type system and message sections of AMQP 1.0.
//! - [`convert`]: each into the other.
//! - [`chunk`]: what streams store and deliver messages in.
//! - [`annotations`]: what consumers add to a message that they give back.
//! - [`deaths`]: what a message says of where it died.
//! - [`delay`]: what it says of a delay that was taken.
//! - [`stamps`]: what a node writes on it when it comes in.

pub mod amqp091;
pub mod amqp10;
pub mod annotations;
pub mod chunk;
pub mod convert;
pub mod deaths;
pub mod delay;
pub mod record;
pub mod stamps;
