//! The filter language: which messages a reader wants, said over their headers, properties and bodies.
//!
//! - [`Expression`]: the filter as a tree: parsed from SQL (`amqp:sql-filter`, AMQP Filter Expressions 1.0
//!   section 6) or made of reference values (`amqp:properties-filter` and `amqp:application-properties-filter`,
//!   section 4) by [`References`].
//! - [`Program`]: the same, flat and ready to run; [`Program::matches`] allocates nothing but in a [`Room`], which
//!   also counts and [bounds](WORK_MAX) its work.
//! - [`Asker`]: the client that has messages chosen: its names and claims become constants.
//! - [`Fields`]: how a message shows its values, whatever its format; [`Program::fields`] says beforehand which.
//! - [`Index`]: many filters at once, of which a message finds those that it passes.
//! - [`Site`]: where an expression stands: its bounds ([`Limits`]), which values are [known](Known) there, and which
//!   macros.
//! - [`Macros`]: expressions with names and parameters, which are expanded when one that uses them is parsed.
//!
//! Grammar, types and limits are RabbitMQ 4.3's, and what is ours beside them. Bodies are looked into by [`Paths`]: those
//! of bytes by their [`Format`], of values that tell what they are by [`tree`]. Nothing here knows AMQP's encoding or a
//! subscription. A new place to read from is a variant of [`Field`]; a new function is a row of [`Function`]'s table.
//! [`Pattern`] is for names of lists: the same automata.

mod asker;
mod automaton;
mod calls;
mod compare;
mod compiler;
mod counts;
mod error;
mod expression;
mod format;
mod found;
mod function;
mod index;
mod jms;
pub mod json;
mod lexer;
mod limits;
mod machine;
mod macros;
mod making;
mod message;
mod number;
mod operation;
mod operator;
mod parser;
mod path;
mod pattern;
mod print;
mod program;
mod references;
mod regexp;
mod replacement;
mod shape;
mod site;
mod spans;
mod sql_json;
mod steps;
mod topic;
pub mod tree;
mod untyped;
mod value;
mod walk;

pub use asker::{Asked, Asker};
pub use automaton::{Pattern, TooDear};
pub use calls::calls;
pub use counts::Counts;
pub use error::{Error, ErrorKind};
pub use expression::{Expression, Literal, Name};
pub use format::{BODY_BYTES_MAX, Format};
pub use found::{Found, Room, VALUES_MAX, WORK_MAX};
pub use function::Function;
pub use index::{Access, Cursor, Filed, Index, PLACES_MAX};
pub use limits::Limits;
pub use macros::{Macro, Macros, folded};
pub use making::MacroFault;
pub use message::{Class, MessageField};
pub use operator::{Arithmetic, Comparison};
pub use path::{Path, Paths, STEPS_MAX, Step};
pub use pattern::{LikePattern, PatternError};
pub use program::{Program, Sections};
pub use references::{Reference, ReferenceError, References};
pub use regexp::{Regexp, TEXT_BYTES_MAX};
pub use replacement::Replacement;
pub use site::{Known, Names, Site};
pub use steps::{STEPS_BYTES_MAX, steps_bytes};
pub use topic::{PATTERN_BYTES_MAX, TopicPattern};
pub use untyped::Untyped;
pub use value::{Field, Fields, PRIORITY_DEFAULT, Property, Value};
