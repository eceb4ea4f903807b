//! Rounds of a world that rests for which clients wait without anything moving for them: each shard has a turn in a
//! round, and what is written is on disk at its end.

use crate::client::{CLIENTS_MAX, Client};
use crate::net::Net;

/// Rounds for which the node may leave a client that waits for an answer alone, whatever a hostile tenant does: of ten
/// thousand seeds two come beyond 40, as mail of floods is before theirs and shards here read one piece in a turn.
pub const ROUNDS_MAX: u64 = 80;

/// See the module.
#[derive(Debug, Default)]
pub struct Patience {
    rounds: [u64; CLIENTS_MAX],
    /// Bytes of each client that the node had not read.
    unread: [usize; CLIENTS_MAX],
}

impl Patience {
    /// Before bytes move between the client at `at` and the node: for how many rounds nothing has moved for it. The node
    /// has read something of it, or said something, or it waits one round longer.
    pub fn look(&mut self, at: usize, client: &Client, net: &mut Net) -> u64 {
        let line = net.line(client.line());
        let has_moved = !line.down.is_empty() || line.up.len() < self.unread[at] || line.down_ended;
        let waits = client.is_waiting() && !has_moved;
        self.rounds[at] = if waits { self.rounds[at] + 1 } else { 0 };
        self.rounds[at]
    }

    /// Behind it: what is left to read.
    pub fn note(&mut self, at: usize, client: &Client, net: &mut Net) {
        self.unread[at] = net.line(client.line()).up.len();
    }
}
