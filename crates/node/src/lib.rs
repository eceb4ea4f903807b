//! A whole node as a value: its start, the turns of its shards, writing, housekeeping, the policy of a disk that fills,
//! and its end.
//!
//! Here is the order of things, and no thread, socket, file or clock: a program gives the node those, or their
//! substitutes in a simulation, and moves it on. Two steps here may be any time apart.

pub mod commit;
pub mod fetch;
pub mod first;
pub mod keeper;
pub mod replicas;
pub mod snapped;
pub mod space;
pub mod start;
pub mod stop;
pub mod turn;
pub mod word;

use journal::DiskError;
use std::fmt;

/// The node must stop, or cannot start, and why in plain words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop(pub String);

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<DiskError> for Stop {
    fn from(error: DiskError) -> Stop {
        Stop(error.to_string())
    }
}
