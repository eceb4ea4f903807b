//! The filter language: which messages a reader wants, said over their headers and properties.
//!
//! - [`Expression`]: the filter as a tree: parsed from SQL (`amqp:sql-filter`, AMQP Filter Expressions 1.0
//!   section 6) or made of reference values (`amqp:properties-filter` and `amqp:application-properties-filter`,
//!   section 4) by [`References`].
//! - [`Program`]: the same, flat and ready to run; [`Program::matches`] allocates nothing and takes time linear in
//!   the values it reads.
//! - [`Fields`]: how a message shows its values, whatever its format; [`Program::fields`] says beforehand which.
//! - [`Limits`]: the bounds of an expression.
//!
//! Grammar, types and limits are RabbitMQ 4.3's. Nothing here knows AMQP's encoding, a body or a subscription. A new
//! place to read from is a variant of [`Field`]; a new function is an operation of the program.

mod compare;
mod compiler;
mod error;
mod expression;
mod lexer;
mod limits;
mod parser;
mod pattern;
mod print;
mod program;
mod references;
mod value;

pub use error::{Error, ErrorKind};
pub use expression::{Arithmetic, Comparison, Expression, Literal, Name};
pub use limits::Limits;
pub use pattern::{LikePattern, PatternError};
pub use program::{Program, Sections};
pub use references::{Reference, ReferenceError, References};
pub use value::{Field, Fields, PRIORITY_DEFAULT, Property, Value};
