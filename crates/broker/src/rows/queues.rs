//! Rows of queues and streams.

use crate::catalog::QueueDefinition;
use crate::placed::queue::sizing::Sample;
use crate::tally::Tally;
use base::id::PortId;
use filter::Counts;
use queue::Retry;
use std::sync::Arc;

/// A message that a consumer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldRow {
    /// Its position in its queue.
    pub position: u64,
    /// The connection that has it.
    pub port: PortId,
    /// That connection's name for the consumer, or for what it got there.
    pub handle: u32,
    /// Since when at least, monotonic nanoseconds; none: nobody noted it.
    pub since_ns: Option<u64>,
    /// It was out before.
    pub redelivered: bool,
}

/// A queue as it is listed.
#[derive(Clone, Debug)]
pub struct QueueRow {
    /// Its entry in the catalog.
    pub definition: Arc<QueueDefinition>,
    /// Messages that nobody holds.
    pub ready: u64,
    /// Bytes of those, as limits in bytes count them; none where the size of some is not known.
    pub ready_bytes: Option<u64>,
    /// Mean size, and timestamp of the oldest, from messages that are in memory; empty where it was not asked for.
    pub sample: Sample,
    /// Messages that consumers hold.
    pub unsettled: u64,
    /// Messages that wait for their time.
    pub delayed: u64,
    /// Selectors that consumers have, or had of late.
    pub selectors: u32,
    /// Messages that no consumer wants, where all choose, as far as they were asked.
    pub unmatched: u64,
    /// Messages of those that are ready or held, or wait, that are gone after a restart.
    pub transient: u64,
    /// Leases of messages that were over, since the node started; none where nothing is leased and nothing was.
    pub leases_over: Option<u64>,
    /// Barriers there are, and consumers that barriers passed over since the node started; none where the queue has no barriers.
    pub barriers: Option<(u64, u64)>,
    /// Messages that are ready, and were out before.
    pub returned: u64,
    /// Messages that died, and are on their way to where their queue sends the dead.
    pub dying: u64,
    /// Only of a quorum queue.
    pub quorum: Option<QuorumRow>,
    /// Consumers.
    pub consumers: u32,
    /// Bytes of memory it takes, messages apart.
    pub memory_bytes: usize,
    /// Counts since the node started.
    pub tally: Tally,
    /// The position of the oldest message there is.
    pub head: u64,
    /// The position that the next message gets.
    pub end: u64,
    /// Only of a stream.
    pub stream: Option<StreamRow>,
    /// Of consumers of which one is active at a time, whose turn it is: its connection, and what that calls it.
    pub active: Option<(PortId, u32)>,
}

impl QueueRow {
    /// Bytes of messages that are ready, and of those that consumers hold, as limits in bytes count them; what the queue does
    /// not know by itself is told by some messages that are in memory. None: none of those looked at is.
    pub fn bytes(&self) -> Option<[u64; 2]> {
        let about = |messages: u64| match self.sample.bytes_mean {
            Some(mean) => Some((mean * messages as f64).round() as u64),
            None => (messages == 0).then_some(0),
        };
        let ready = self.ready_bytes.or_else(|| about(self.ready))?;
        Some([ready, about(self.unsettled)?])
    }
}

/// A queue, its counts, and how many messages are ready and held.
pub type QueueTally = (Arc<QueueDefinition>, Tally, [u64; 2]);

/// A queue with messages, in brief.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Its entry in the catalog.
    pub definition: Arc<QueueDefinition>,
    /// Messages that nobody holds.
    pub ready: u64,
    /// Messages that consumers hold.
    pub unsettled: u64,
    /// Consumers.
    pub consumers: u32,
    /// Since when a consumer holds the one of them that is watched, monotonic nanoseconds, if one is.
    pub held_since_ns: Option<u64>,
}

/// Sums over the queues of a virtual host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSums {
    /// Queues, and streams.
    pub queues: u64,
    /// Messages that nobody holds.
    pub ready: u64,
    /// Messages that consumers hold.
    pub unsettled: u64,
    /// Consumers.
    pub consumers: u64,
    /// Messages that came to those [of which messages survive a restart](QueueDefinition::is_kept).
    pub written: u64,
}

/// How a queue is just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Counts since the node started.
    pub tally: Tally,
    /// Messages that nobody holds.
    pub ready: u64,
    /// Messages that consumers hold.
    pub unsettled: u64,
    /// Consumers.
    pub consumers: u32,
}

/// The columns that only quorum queues have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumRow {
    /// Messages that are ready and were not out before, by priority, lowest first: of priorities that any has.
    pub priorities: Vec<(u8, u64)>,
    /// Failed deliveries of a message at most; none: any number.
    pub delivery_limit: Option<u32>,
    /// The wait of messages that come back; none: they do not wait.
    pub retry: Option<Retry>,
}

/// The columns that only streams have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRow {
    /// Files.
    pub segments: usize,
    /// Readers.
    pub readers: usize,
    /// The offset of the first message there is.
    pub first_offset: u64,
    /// The offset that the next message gets.
    pub next_offset: u64,
    /// The time of the first chunk there is, milliseconds since 1970.
    pub first_timestamp_ms: Option<i64>,
    /// Counts of the filters of its readers since the node started.
    pub filtered: Counts,
}

/// Stored offsets and publishing ids, which a stream keeps for its consumers and publishers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracking {
    /// Offsets that consumers stored, by their references.
    pub offsets: Vec<(String, u64)>,
    /// The last publishing ids of publishers, by their references.
    pub writers: Vec<(String, u64)>,
}
