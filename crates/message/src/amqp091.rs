//! Field tables and basic properties of AMQP 0-9-1, read where they lie.
//!
//! - [`table`]: field tables and arrays (AMQP 0-9-1 §4.2.5.5, with the type letters RabbitMQ uses), read lazily from
//!   bytes that were checked once, and written.
//! - [`counts`]: headers about earlier deliveries of a message.
//! - [`header`]: one header of a message, written into the properties.
//! - [`position`]: where in its queue a message is, told with it.
//! - [`properties`]: the property flags and list of a content header (§4.2.6.1), a view and a writer.
//!
//! Nothing here copies or allocates while reading; frames and methods are the protocol crate's.

pub mod counts;
pub mod header;
pub mod position;
pub mod properties;
pub mod table;

pub use counts::write_counts;
pub use header::write_header;
pub use position::{is_held, position_of, take_position, write_held, write_position};
pub use properties::{EXPIRATION_MS_MAX, ExpirationError, NewProperties, Properties};
pub use table::{Array, Malformed, Table, TableWriter, Value};
