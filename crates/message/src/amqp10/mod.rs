//! The type system and message sections of AMQP 1.0.
//!
//! - [`value`]: reading values out of borrowed bytes, without copying them.
//! - [`write`]: writing them.
//! - [`section`]: the sections of a message, and where its head ends.
//! - [`properties`]: the immutable properties section.
//!
//! Not here: frames, performatives and everything else that two peers say to each other about messages.

pub mod properties;
pub mod section;
pub mod value;
pub mod write;

pub use properties::Properties;
pub use section::{Body, BodyKind, Header, Message, Plain};
pub use value::{Array, Decoder, Described, Descriptor, Fields, List, Malformed, Map, Value};
pub use write::{Encoder, Scope};
