//! The work between nodes, as values: so far the [`lane`], one connection between two nodes.
//!
//! Nothing here knows a socket, a clock or a thread. Bytes and time come in as arguments; events and bytes go out.

pub mod lane;
pub mod names;

pub use lane::{Event, Lane};
