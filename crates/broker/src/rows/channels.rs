//! Rows of all that connections have open, as it is listed: channels, consumers, and over the stream protocol publishers and
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
    /// Its counts.
    pub tally: Tally,
    /// Messages published by exchange.
    pub publishes: Vec<(Box<str>, u64)>,
    /// Publishes that were routed nowhere by exchange: sent back, and dropped.
    pub unroutable: Vec<(Box<str>, [u64; 2])>,
    /// Messages by exchange and queue they were routed to, as far as it remembers.
    pub routes: Vec<(Box<str>, QueueId, u64)>,
    /// Counts by queue, of consumers that are there and of gets.
    pub deliveries: Vec<(Arc<QueueDefinition>, Tally)>,
}

/// A consumer of a queue.
#[derive(Clone, Debug)]
pub struct ConsumerRow {
    /// Its connection's name for it.
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
    /// The arguments it was declared with.
    pub arguments: Option<Box<Arguments>>,
}

/// A session of AMQP 1.0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionRow {
    /// The channel its client sends on.
    pub channel: u16,
    /// The highest handle a link may have.
    pub handle_max: u16,
    /// Transfer-id of the client's next transfer.
    pub next_incoming_id: u32,
    /// Transfers the client may send.
    pub incoming_window: u32,
    /// Transfer-id of the next transfer to the client.
    pub next_outgoing_id: u32,
    /// Transfers the client takes.
    pub remote_incoming_window: u32,
    /// Transfers the client may have under way by what it said.
    pub remote_outgoing_window: u32,
    /// Deliveries the client has not settled.
    pub unsettled: usize,
    /// Its links, in no order.
    pub links: Vec<LinkRow>,
}

/// A link of AMQP 1.0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkRow {
    /// Its client's name for it.
    pub handle: u16,
    /// Its name.
    pub name: String,
    /// The address it leads to or from, as its client has it.
    pub address: Option<String>,
    /// Bytes of a message that its receiver takes; none: of any size.
    pub message_bytes_max: Option<u32>,
    /// Deliveries that were sent on it.
    pub delivery_count: u32,
    /// Deliveries that its sender may send.
    pub credit: u32,
    /// It is to or from the management node.
    pub is_management: bool,
    /// Which way it goes.
    pub end: LinkEnd,
}

/// Which way a link goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// The client sends.
    Incoming {
        /// How it settles: `settled`, `unsettled` or `mixed`.
        settles: &'static str,
        /// Messages that are not safe yet.
        unconfirmed: u32,
    },
    /// The client receives.
    Outgoing {
        /// From this queue; empty: from none.
        queue: String,
        /// Messages are sent settled.
        settled: bool,
        /// The filters in place, as an encoded map of AMQP 1.0; empty: none.
        filter: Box<[u8]>,
        /// It once held a message for too long.
        has_timed_out: bool,
    },
}

/// A publisher over the stream protocol.
#[derive(Clone, Debug)]
pub struct StreamPublisherRow {
    /// Its client's name for it.
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
    /// Its client's name for it.
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
    /// The properties it was made with.
    pub properties: Box<[(Box<str>, Box<str>)]>,
}

/// How much is told of what is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// All there is to tell.
    Whole,
    /// Numbers: names and what channels counted by exchange and queue are left out, and no block of memory is made for them.
    Numbers,
}

/// All that one connection has open.
#[derive(Clone, Debug, Default)]
pub struct Opened {
    /// `ADDRESS:PORT -> ADDRESS:PORT`.
    pub connection: String,
    /// Its slot and its number there: which one it is of the shard's.
    pub port: (u32, u32),
    /// The user that logged in.
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
    /// Makes room for what another connection has open: the lists stay as large as they were.
    pub fn clear(&mut self) {
        self.channels.clear();
        self.consumers.clear();
        self.senders = 0;
        self.stream_publishers.clear();
        self.stream_consumers.clear();
    }

    /// It has nothing open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many things it has open.
    pub fn len(&self) -> usize {
        self.channels.len()
            + self.consumers.len()
            + self.senders as usize
            + self.stream_publishers.len()
            + self.stream_consumers.len()
    }
}

/// The counts of a channel: its connection, its number.
pub type ChannelTally = ((u32, u32), u16, Tally);
