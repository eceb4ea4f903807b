//! Promises and entries of a replica as they stand in the journal: batches with a [`journal::Mark`] each.
//!
//! A mark is a [`Note`] in 24 bytes, described in `docs/formats/mark.md`. [`At`] writes the batches of each operation,
//! and a start reads them back with [`Recovery`]. The journal has one order, so that of votes, entries, truncations and
//! purges needs no word of its own.
//! Not here: files, the engine, what records mean.

mod fault;
mod members;
#[cfg(test)]
mod model;
mod note;
mod recovery;
#[cfg(test)]
mod tests;
mod write;

pub use fault::Fault;
pub use members::{MembersFault, REPLICAS_MAX};
pub(crate) use members::{Seat, members_of, seats_of};
pub use note::{Malformed, Note, Part, TERM_MAX};
pub(crate) use recovery::follows;
pub use recovery::{Covered, Found, FoundContent, Recovered, Recovery, Start};
pub use write::At;
