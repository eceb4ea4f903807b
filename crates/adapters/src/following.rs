//! Connections that go to the shard of the queue they use.
//!
//! A connection is accepted by the shard whose turn it is; a message that is published on one shard into a queue of
//! another costs both a wake-up, and so do its confirm, its delivery and its settling. So a connection whose messages
//! all go to one other shard, or that consumes there, moves: once, at a moment when nothing of it is under way, with
//! its socket and all its state. [`Following`] is the rule by which they may; moving is the [`crate::Frontend`]'s part
//! and that of the loop around it.
//!
//! A connection with more work of its own than the queue has with it (TLS) stays where it is, so that a crowd does not meet on one
//! core, and so does a reader of a stream over its own protocol; nor does a shard take in more than [`Following::has_room`] says.

use crate::settings::{Peer, Settings};
use base::id::ShardId;
use broker::{Publisher, Shard};
use std::sync::atomic::{AtomicU32, Ordering};

/// Turns in which something happened to a connection that publishes, after which it is seen where its messages go: a
/// client that sends a few and leaves is not moved.
const TURNS: u8 = 8;

/// Connections a shard takes in, however few the others have.
const ROOM_ALWAYS: u32 = 8;

/// Whether a connection may still go to another shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roaming {
    /// Turns until it is seen where its messages go; 0: it is where it will be.
    turns_left: u8,
}

impl Roaming {
    /// Of a connection of this peer.
    pub(crate) fn new(settings: &Settings, peer: &Peer) -> Roaming {
        let may_go = settings.following.is_some() && peer.encryption.is_none();
        Roaming { turns_left: if may_go { TURNS } else { 0 } }
    }

    /// It may go.
    pub(crate) fn may_go(self) -> bool {
        self.turns_left > 0
    }

    /// It is where it will be.
    pub(crate) fn end(&mut self) {
        self.turns_left = 0;
    }

    /// A turn ends in which it may have published; true, once: it is to be seen where to.
    #[cold]
    pub(crate) fn is_due(&mut self) -> bool {
        self.turns_left -= 1;
        self.turns_left == 0
    }
}

/// The other shard that all messages of these publishers have gone to, if there is one.
pub(crate) fn common_home<'p>(
    shard: &Shard,
    publishers: impl Iterator<Item = &'p Publisher>,
) -> Option<ShardId> {
    let mut homes = publishers.filter(|it| it.next_seq() > 1).map(|it| shard.home_of(it));
    homes.next().flatten().filter(|to| homes.all(|home| home == Some(*to)))
}

/// How many connections each shard has, known to all of them.
#[derive(Debug)]
pub struct Following {
    connections: Box<[AtomicU32]>,
}

impl Following {
    /// For so many shards, none of which has a connection.
    pub fn new(shards: u16) -> Following {
        Following { connections: (0..shards).map(|_| AtomicU32::new(0)).collect() }
    }

    fn of(&self, shard: ShardId) -> Option<&AtomicU32> {
        self.connections.get(usize::from(shard.0))
    }

    /// A shard has one more.
    pub(crate) fn came(&self, shard: ShardId) {
        if let Some(count) = self.of(shard) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A shard has one less.
    pub(crate) fn left(&self, shard: ShardId) {
        if let Some(count) = self.of(shard) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The shard may be moved to: it has at most half as many again as each would have if they were spread evenly.
    pub(crate) fn has_room(&self, shard: ShardId) -> bool {
        let Some(count) = self.of(shard) else { return false };
        let all: u64 = self.connections.iter().map(|count| u64::from(count.load(Ordering::Relaxed))).sum();
        let fair = all * 3 / (2 * self.connections.len() as u64);
        let have = count.load(Ordering::Relaxed);
        have < ROOM_ALWAYS || u64::from(have) < fair
    }
}

#[cfg(test)]
mod tests {
    use super::{Following, ROOM_ALWAYS};
    use base::id::ShardId;

    #[test]
    fn a_shard_takes_in_no_crowd() {
        let following = Following::new(2);
        let (here, there) = (ShardId(0), ShardId(1));
        for _ in 0..ROOM_ALWAYS {
            assert!(following.has_room(there));
            following.came(there);
        }
        assert!(!following.has_room(there), "all are there already");
        (0..100).for_each(|_| following.came(here));
        assert!(following.has_room(there));
        // 108 connections: 54 each, and 27 more.
        for _ in ROOM_ALWAYS..81 {
            assert!(following.has_room(there));
            following.left(here);
            following.came(there);
        }
        assert!(!following.has_room(there));
        assert!(!following.has_room(ShardId(2)), "there is no such shard");
    }
}
