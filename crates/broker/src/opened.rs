//! What connections have open, as it is listed: channels, consumers, and over the stream protocol publishers and
//! subscriptions.

use crate::catalog::QueueDefinition;
use crate::tally::Tally;
use base::id::QueueId;
use routing::Arguments;
use std::sync::Arc;

/// A channel of AMQP 0-9-1.
#[derive(Clone, Debug)]
pub struct ChannelRow {
    /// Its number.
    pub number: u16,
    /// Its publishes are confirmed.
    pub confirm: bool,
    /// It has transactions.
    pub transactional: bool,
    /// The prefetch of consumers to come; 0: none.
    pub prefetch: u16,
    /// The prefetch that its consumers share; 0: none.
    pub shared_prefetch: u16,
    /// Its consumers.
    pub consumers: u32,
    /// Deliveries it has not settled.
    pub unacknowledged: u64,
    /// Publishes that are not confirmed yet.
    pub unconfirmed: u64,
    /// Publishes that a transaction holds back.
    pub uncommitted: u64,
    /// Settled deliveries that a transaction holds back.
    pub uncommitted_acks: u64,
    /// What was counted.
    pub tally: Tally,
    /// Messages published by exchange.
    pub publishes: Vec<(Box<str>, u64)>,
    /// Publishes that were routed nowhere by exchange: sent back, and dropped.
    pub unroutable: Vec<(Box<str>, [u64; 2])>,
    /// Messages by exchange and queue they were routed to, as far as it remembers.
    pub routes: Vec<(Box<str>, QueueId, u64)>,
    /// What was counted by queue, of consumers that are there and of gets.
    pub deliveries: Vec<(Arc<QueueDefinition>, Tally)>,
}

/// A consumer of a queue.
#[derive(Clone, Debug)]
pub struct ConsumerRow {
    /// What its connection calls it.
    pub handle: u32,
    /// Its tag.
    pub tag: String,
    /// Its queue.
    pub queue: Arc<QueueDefinition>,
    /// The channel or session it is on.
    pub channel: u16,
    /// It settles what it gets.
    pub settles: bool,
    /// It is the only one.
    pub exclusive: bool,
    /// Its prefetch; 0: none.
    pub prefetch: u16,
    /// What it was declared with.
    pub arguments: Option<Box<Arguments>>,
}

/// A publisher over the stream protocol.
#[derive(Clone, Debug)]
pub struct StreamPublisherRow {
    /// What its client calls it.
    pub id: u8,
    /// By what the stream knows it again; empty: not at all.
    pub reference: String,
    /// Its stream.
    pub stream: Arc<QueueDefinition>,
    /// Messages it published.
    pub published: u64,
    /// Those of them that are confirmed.
    pub confirmed: u64,
    /// Those that were refused.
    pub errored: u64,
}

/// A subscription over the stream protocol.
#[derive(Clone, Debug)]
pub struct StreamConsumerRow {
    /// What its client calls it.
    pub id: u8,
    /// Its stream.
    pub stream: Arc<QueueDefinition>,
    /// Chunks it may be sent.
    pub credits: u32,
    /// Messages it was sent.
    pub consumed: u64,
    /// The offset of the chunk it was sent last.
    pub offset: u64,
    /// It is not one of a group in which another one is active.
    pub active: bool,
    /// What it was made with.
    pub properties: Box<[(Box<str>, Box<str>)]>,
}

/// What one connection has open.
#[derive(Clone, Debug, Default)]
pub struct Opened {
    /// `ADDRESS:PORT -> ADDRESS:PORT`.
    pub connection: String,
    /// Its slot and its number there: which one it is of the shard's.
    pub port: (u32, u32),
    /// Who logged in.
    pub user: String,
    /// Where.
    pub vhost: String,
    /// Channels.
    pub channels: Vec<ChannelRow>,
    /// Consumers.
    pub consumers: Vec<ConsumerRow>,
    /// Links of AMQP 1.0 that publish.
    pub senders: u32,
    /// Publishers to streams.
    pub stream_publishers: Vec<StreamPublisherRow>,
    /// Subscriptions to streams.
    pub stream_consumers: Vec<StreamConsumerRow>,
}

impl Opened {
    /// It has nothing open.
    pub fn is_empty(&self) -> bool {
        self.channels.is_empty()
            && self.consumers.is_empty()
            && self.senders == 0
            && self.stream_publishers.is_empty()
            && self.stream_consumers.is_empty()
    }
}

/// What was counted of a channel: its connection, its number.
pub type ChannelTally = ((u32, u32), u16, Tally);
