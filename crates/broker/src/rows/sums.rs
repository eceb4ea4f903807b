//! Sums of connections and of all they have open, for lists without names.
//!
//! Numbers alone, so that a shard makes no block of memory for any of ten thousand connections. What somebody else frees it has
//! to sort when it allocates next (`docs/decisions/0002-system-allocator.md`).

use crate::rows::channels::{ChannelRow, Opened};
use crate::tally::{Count, PROTOCOLS, Protocol, Tally};
use base::id::QueueId;

/// The sums of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionSums {
    /// Connections that somebody logged in over.
    pub connections: u64,
    /// Their channels or sessions.
    pub channels: u64,
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Reads that brought something, and writes that took something.
    pub calls: [u64; 2],
}

impl ConnectionSums {
    /// All of another's as well.
    pub fn merge(&mut self, other: &ConnectionSums) {
        self.connections += other.connections;
        self.channels += other.channels;
        self.received += other.received;
        self.sent += other.sent;
        self.calls.iter_mut().zip(other.calls).for_each(|(own, more)| *own += more);
    }
}

/// The sums of channels of AMQP 0-9-1: see [`ChannelRow`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelSums {
    /// Channels.
    pub channels: u64,
    /// Those that have published.
    pub publishing: u64,
    /// Consumers.
    pub consumers: u64,
    /// Deliveries that are not settled.
    pub unacknowledged: u64,
    /// Publishes that are not confirmed yet.
    pub unconfirmed: u64,
    /// Publishes that transactions hold back.
    pub uncommitted: u64,
    /// Settled deliveries that transactions hold back.
    pub uncommitted_acks: u64,
    /// Prefetches of consumers to come.
    pub prefetch: u64,
    /// Prefetches that consumers share.
    pub shared_prefetch: u64,
    /// Their counts.
    pub tally: Tally,
}

impl ChannelSums {
    /// The sums of one channel.
    pub fn of(row: &ChannelRow) -> ChannelSums {
        ChannelSums {
            channels: 1,
            publishing: u64::from(row.tally.get(Count::Publish) > 0),
            consumers: row.consumers.into(),
            unacknowledged: row.unacknowledged,
            unconfirmed: row.unconfirmed,
            uncommitted: row.uncommitted,
            uncommitted_acks: row.uncommitted_acks,
            prefetch: row.prefetch.into(),
            shared_prefetch: row.shared_prefetch.into(),
            tally: row.tally,
        }
    }

    /// All of another's as well.
    pub fn merge(&mut self, other: &ChannelSums) {
        self.channels += other.channels;
        self.publishing += other.publishing;
        self.consumers += other.consumers;
        self.unacknowledged += other.unacknowledged;
        self.unconfirmed += other.unconfirmed;
        self.uncommitted += other.uncommitted;
        self.uncommitted_acks += other.uncommitted_acks;
        self.prefetch += other.prefetch;
        self.shared_prefetch += other.shared_prefetch;
        self.tally.merge(&other.tally);
    }
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenSums {
    /// The sums of connections.
    pub connections: ConnectionSums,
    /// Their channels.
    pub channels: ChannelSums,
    /// Consumers and subscriptions, by the protocol of their clients.
    pub consumers: [u64; PROTOCOLS],
    /// Links of AMQP 1.0 that publish.
    pub senders: u64,
    /// Publishers to streams.
    pub stream_publishers: u64,
    /// Of each subscription its stream, and the offset of the chunk it was sent last.
    pub offsets: Vec<(QueueId, u64)>,
}

impl OpenSums {
    /// Adds all that one connection has open.
    pub fn add(&mut self, opened: &Opened) {
        opened.channels.iter().for_each(|row| self.channels.merge(&ChannelSums::of(row)));
        let protocol = if opened.channels.is_empty() { Protocol::Amqp10 } else { Protocol::Amqp091 };
        self.consumers[protocol as usize] += opened.consumers.len() as u64;
        self.consumers[Protocol::Stream as usize] += opened.stream_consumers.len() as u64;
        self.senders += u64::from(opened.senders);
        self.stream_publishers += opened.stream_publishers.len() as u64;
        self.offsets.extend(opened.stream_consumers.iter().map(|row| (row.stream.id, row.offset)));
    }
}
