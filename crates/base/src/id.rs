//! The numbers of the house. They are different types so that they never mix.

use std::hash::{Hash, Hasher};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// A log of this node: an ordered sequence of records with one owner. 0 is the catalog's.
    LogId(u32)
}
number! {
    /// A position in a log: the logical byte address of a record, counted from the log's first byte ever.
    /// Dense over batches: a batch of `n` record bytes at `LogIndex(i)` is followed by one at `LogIndex(i + n)`.
    LogIndex(u64)
}
number! {
    /// A queue of this node; given out by the catalog, never reused.
    QueueId(u64)
}
number! {
    /// A message's place in a queue: dense, from 0, never reused.
    QueueSeq(u64)
}
number! {
    /// The number of a message in a stream, as readers see it.
    Offset(u64)
}
number! {
    /// One shard: a thread with its connections, logs and queues.
    ShardId(u16)
}

number! {
    /// A node among those that work together.
    NodeNo(u16)
}

impl NodeNo {
    /// A node that works by itself.
    pub const ONLY: NodeNo = NodeNo(0);
}

/// A connection as the broker knows it: which node, which shard, which slot of it, and which of the slot's successive tenants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortId {
    /// The node with that shard.
    pub node: NodeNo,
    /// The shard whose loop serves the connection.
    pub shard: ShardId,
    /// The connection's slot on that shard.
    pub slot: u32,
    /// Counts the tenants of the slot, so that a late event for an earlier one is recognised.
    pub generation: u32,
}

// Ports are kept per message and per connection: the node takes the room that was not used.
const _: () = assert!(size_of::<PortId>() == 12);

impl PortId {
    /// A connection of a node that works by itself.
    pub const fn here(shard: ShardId, slot: u32, generation: u32) -> PortId {
        PortId { node: NodeNo::ONLY, shard, slot, generation }
    }

    /// The connection as one of this node.
    #[inline]
    pub const fn of(self, node: NodeNo) -> PortId {
        PortId { node, ..self }
    }
}

/// In two words rather than four: ports are looked up where messages go through.
impl Hash for PortId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let PortId { node: NodeNo(node), shard: ShardId(shard), slot, generation } = *self;
        state.write_u64(u64::from(node) << 48 | u64::from(shard) << 32 | u64::from(slot));
        state.write_u32(generation);
    }
}
