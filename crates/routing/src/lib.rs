//! Exchanges, bindings and the topic trie: from a routing key to queues.
//!
//! - [`Exchange`]: a kind, its settings and its bindings; [`Exchange::route`] answers a publish.
//! - [`Matches`]: the answer, each destination once; reused from message to message.
//! - [`Arguments`], [`Argument`] and [`Value`]: typed arguments of queues, exchanges, bindings and consumers of all
//!   protocols, kept as bytes, read, and made.
//!
//! Nothing here knows queues' messages or publishers. Which exchange leads to which other is the caller's loop: see
//! [`Matches`].

mod argument;
mod arguments;
mod binding;
mod bounds;
mod delay;
mod errors;
mod exchange;
mod federation;
mod filtered;
mod hash;
mod headers;
mod keyed;
mod lots;
mod matches;
mod ring;
mod table;
mod topic;
mod value;
mod variants;
mod walk;
mod weights;

pub use argument::{Argument, Fields, FieldsLeft, Items, ItemsLeft};
pub use arguments::{Arguments, List};
pub use binding::Binding;
pub use delay::{DELAY_MS_MAX, delay_ms};
pub use errors::{BindError, DeclareError};
pub use exchange::{Envelope, Exchange, HISTORY_LENGTH, Kind, NoContent};
pub use headers::{DELAY, Field, Headers, INDEXED_MAX, NoHeaders, Property, RECEIVED_FROM, X_FILTER};
pub use matches::{Destination, ExchangeId, Matches, STEPS_MAX};
pub use ring::WEIGHT_MAX;
pub use topic::{WILDCARDS_MAX, pattern_words};
pub use value::{Float, IntType, Value, describe, disagreement, equivalent};
