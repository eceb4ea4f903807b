//! Names and numbers of what streams have in a run, which tell them from those of queues.

use std::fmt;

/// The number of the first message that is published to a stream.
pub const FIRST_MESSAGE: u64 = 1 << 40;

/// The numbers of queues that are filled from streams begin here, so that nobody takes them for others.
pub const FIRST_FED: usize = 1 << 20;

/// The filter values there are: a message has one of them, or none.
pub const VALUES: [&str; 2] = ["red", "blue"];

/// The filter value a message has, among [`VALUES`], where its publisher gives it one.
pub fn value_of(id: u64) -> Option<usize> {
    (id % 3).checked_sub(1).map(|value| value as usize)
}

/// The users that clients of the stream protocol log in as, where a run has several.
pub const USERS: [&str; 3] = ["guest", "ann", "ben"];

/// The name of a stream.
pub fn stream_name(stream: usize) -> String {
    format!("s{stream:04}")
}

/// The reference under which publishers with this number are known.
pub fn reference_name(reference: usize) -> String {
    format!("r{reference}")
}

/// A name under which a client stores offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The client's number.
    pub client: u64,
    /// Which of its names.
    pub number: u64,
}

impl Reference {
    /// The name that a client has to go on from.
    pub fn tracker(client: u64) -> Reference {
        Reference { client, number: 0 }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reference { client, number: 0 } => write!(f, "o{client}"),
            Reference { client, number } => write!(f, "o{client}.{number}"),
        }
    }
}
