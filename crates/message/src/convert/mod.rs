//! Conversion of messages between protocols, by RabbitMQ's tables (docs: `docs/compatibility/conversion.md`).
//!
//! Both ways are total: any message of one protocol becomes a message of the other. Where RabbitMQ crashes (a decimal,
//! a character, a uuid in a header, a name too long) something sensible takes its place. The result has at most
//! [`GROWTH_MAX`] times the message's own bytes and [`GROWTH_CONSTANT`], and bodies are never copied but for a message
//! of several data sections.

mod amqp091;
mod amqp10;
mod text;

pub use amqp10::Amqp10;
pub(crate) use amqp091::write_fields;
pub use amqp091::{Amqp091, Body};

/// The fields of a map as those of a 0-9-1 table, but for values that a table cannot hold.
pub fn table_fields(map: &crate::amqp10::Map<'_>) -> Vec<u8> {
    let mut fields = Vec::new();
    write_fields(map, &mut fields);
    fields
}

/// The most bytes one byte becomes: a small number in an array of 1.0 takes one, and nine where it carries its type.
pub const GROWTH_MAX: usize = 9;

/// Bytes a conversion writes besides, for parts that have no bytes of their own, such as elements of no width.
pub const GROWTH_CONSTANT: usize = 9 * EMPTY_ELEMENTS_TOTAL_MAX as usize + 1024;

/// Elements of no width that all arrays of a message have at most after it was converted to 0-9-1. An array claims up
/// to [`EMPTY_ELEMENTS_MAX`](crate::amqp10::value::EMPTY_ELEMENTS_MAX) with three bytes, and there it takes nine for each.
const EMPTY_ELEMENTS_TOTAL_MAX: u32 = 1024;

/// Annotations a broker sets on every delivery; a publisher's of these names are not passed on.
const OWN_ANNOTATIONS: [&str; 2] = ["x-exchange", "x-routing-key"];

/// The `type` of a 0-9-1 message whose body is AMQP 1.0 sections.
pub(crate) const SECTIONS_TYPE: &str = "amqp-1.0";

#[cfg(test)]
mod tests;
