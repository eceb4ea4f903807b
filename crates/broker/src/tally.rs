//! Counts of a shard: messages by exchange, virtual host and protocol, and comings and goings.
//!
//! Plain numbers that only grow, added to where a count is at hand anyway: once for a publish, once for a run of
//! deliveries or settled positions. Nobody reads them until somebody asks; rates are the reader's matter. They begin at 0
//! with the node. What is counted for a queue is with the queue, what is counted for a channel with the channel.

use crate::catalog::{Catalog, QueueType, Reason, Refusal, VhostId};
use crate::latency::Latencies;
use crate::publisher::Publish;
use base::hash::MapById;
use filter::Counts;
use message::record::Format;
use routing::ExchangeId;
use slab::Slab;

/// A count of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum Count {
    /// Published.
    Publish,
    /// Confirmed to their publishers.
    Confirm,
    /// Routed nowhere and sent back.
    ReturnUnroutable,
    /// Routed nowhere and gone.
    DropUnroutable,
    /// Delivered to consumers that settle.
    Deliver,
    /// Delivered to consumers that do not.
    DeliverNoAck,
    /// Gets that are to be settled.
    Get,
    /// Gets that are settled at once.
    GetNoAck,
    /// Gets that found nothing.
    GetEmpty,
    /// Delivered or got not for the first time.
    Redeliver,
    /// Accepted by consumers.
    Ack,
}

/// How many there are of [`Count`].
pub const COUNTS: usize = 11;

impl Count {
    /// All, in their order.
    pub const ALL: [Count; COUNTS] = [
        Count::Publish,
        Count::Confirm,
        Count::ReturnUnroutable,
        Count::DropUnroutable,
        Count::Deliver,
        Count::DeliverNoAck,
        Count::Get,
        Count::GetNoAck,
        Count::GetEmpty,
        Count::Redeliver,
        Count::Ack,
    ];

    /// As RabbitMQ's tools call it.
    pub fn name(self) -> &'static str {
        match self {
            Count::Publish => "publish",
            Count::Confirm => "confirm",
            Count::ReturnUnroutable => "return_unroutable",
            Count::DropUnroutable => "drop_unroutable",
            Count::Deliver => "deliver",
            Count::DeliverNoAck => "deliver_no_ack",
            Count::Get => "get",
            Count::GetNoAck => "get_no_ack",
            Count::GetEmpty => "get_empty",
            Count::Redeliver => "redeliver",
            Count::Ack => "ack",
        }
    }
}

/// Messages counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally(pub [u64; COUNTS]);

impl Tally {
    /// So many more.
    #[inline]
    pub fn add(&mut self, count: Count, more: u64) {
        self.0[count as usize] += more;
    }

    /// How many.
    pub fn get(&self, count: Count) -> u64 {
        self.0[count as usize]
    }

    /// All of another's as well.
    pub fn merge(&mut self, other: &Tally) {
        self.0.iter_mut().zip(other.0).for_each(|(own, more)| *own += more);
    }

    /// Delivered or got, by whatever way.
    pub fn deliver_get(&self) -> u64 {
        [Count::Deliver, Count::DeliverNoAck, Count::Get, Count::GetNoAck]
            .map(|count| self.get(count))
            .iter()
            .sum()
    }

    /// Nothing was counted.
    pub fn is_empty(&self) -> bool {
        *self == Tally::default()
    }
}

/// A protocol that clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Protocol {
    /// AMQP 0-9-1.
    Amqp091,
    /// AMQP 1.0.
    Amqp10,
    /// The stream protocol.
    Stream,
}

/// How many there are of [`Protocol`].
pub const PROTOCOLS: usize = 3;

impl Protocol {
    /// All, in their order.
    pub const ALL: [Protocol; PROTOCOLS] = [Protocol::Amqp091, Protocol::Amqp10, Protocol::Stream];

    /// As labels of metrics have it.
    pub fn label(self) -> &'static str {
        match self {
            Protocol::Amqp091 => "amqp091",
            Protocol::Amqp10 => "amqp10",
            Protocol::Stream => "stream",
        }
    }

    /// By the name and version that connections are announced with.
    pub(crate) fn of(protocol: &str) -> Protocol {
        match protocol {
            "{0,9,1}" => Protocol::Amqp091,
            "{1,0}" => Protocol::Amqp10,
            _ => Protocol::Stream,
        }
    }
}

impl From<Format> for Protocol {
    #[inline]
    fn from(format: Format) -> Protocol {
        match format {
            Format::Amqp091 => Protocol::Amqp091,
            Format::Amqp10 => Protocol::Amqp10,
        }
    }
}

/// How many types of queue there are.
pub const QUEUE_TYPES: usize = QueueType::ALL.len();

/// Where messages of queues of a type are counted.
pub fn type_index(queue_type: QueueType) -> usize {
    queue_type as usize
}

/// Upper bounds of the sizes that bodies are told apart by, bytes; larger ones are in a last group.
pub const SIZE_BOUNDS: [u64; 8] =
    [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000];

/// The counts of a protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtocolTally {
    /// Messages that came.
    pub received: u64,
    /// Those of them whose publishers want to know when they are safe.
    pub received_confirm: u64,
    /// Places in queues they were routed to.
    pub routed: u64,
    /// Bodies by size: see [`SIZE_BOUNDS`].
    pub sizes: [u64; SIZE_BOUNDS.len() + 1],
    /// Bytes of all bodies.
    pub size_bytes: u64,
    /// Counts without a queue: confirmed, sent back, dropped.
    pub own: Tally,
    /// Delivered, got, settled: by the type of queue.
    pub by_type: [Tally; QUEUE_TYPES],
    /// Logins that were tried, and those of them that were refused.
    pub logins: [u64; 2],
}

impl ProtocolTally {
    /// Messages came that are alike.
    fn came(&mut self, run: &Run) {
        self.received += run.messages;
        self.received_confirm += if run.is_confirmed { run.messages } else { 0 };
        self.routed += run.messages * u64::from(run.queues);
        self.size_bytes += run.bytes;
        self.sizes[size_group(run.bytes_above)] += run.messages;
    }

    fn merge(&mut self, other: &ProtocolTally) {
        self.received += other.received;
        self.received_confirm += other.received_confirm;
        self.routed += other.routed;
        self.size_bytes += other.size_bytes;
        self.sizes.iter_mut().zip(other.sizes).for_each(|(own, more)| *own += more);
        self.own.merge(&other.own);
        self.by_type.iter_mut().zip(&other.by_type).for_each(|(own, more)| own.merge(more));
        self.logins.iter_mut().zip(other.logins).for_each(|(own, more)| *own += more);
    }
}

fn size_group(bytes: u64) -> usize {
    SIZE_BOUNDS.iter().position(|bound| bytes <= *bound).unwrap_or(SIZE_BOUNDS.len())
}

/// Messages that came one after the other to the same exchange, over the same protocol, went to as many queues, and are of
/// about the same size: they are counted together when another one comes, or somebody asks.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The number of the exchange here.
    exchange: u32,
    /// Queues that each went to.
    queues: u32,
    format: Format,
    is_confirmed: bool,
    /// The least a body of this group may have, and by how much another may be larger than that.
    bytes_above: u64,
    bytes_span: u64,
    messages: u64,
    /// Bytes of all bodies.
    bytes: u64,
}

impl Default for Run {
    fn default() -> Run {
        let [exchange, queues] = [NO_EXCHANGE, 0];
        let (format, is_confirmed) = (Format::Amqp091, false);
        Run { exchange, queues, format, is_confirmed, bytes_above: 0, bytes_span: 0, messages: 0, bytes: 0 }
    }
}

impl Run {
    /// The run of a first message with `bytes` of body.
    fn new(exchange: u32, queues: u32, publish: &Publish<'_>, bytes: u64) -> Run {
        let group = size_group(bytes);
        let bytes_above = group.checked_sub(1).map_or(0, |below| SIZE_BOUNDS[below] + 1);
        let bytes_most = SIZE_BOUNDS.get(group).copied().unwrap_or(u64::MAX);
        Run {
            exchange,
            queues,
            format: publish.format,
            is_confirmed: publish.confirm,
            bytes_above,
            bytes_span: bytes_most - bytes_above,
            messages: 1,
            bytes,
        }
    }
}

/// Comings and goings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Churn {
    /// Connections that were opened.
    pub connection_created: u64,
    /// Those that are closed.
    pub connection_closed: u64,
    /// Channels that were opened.
    pub channel_created: u64,
    /// Those that are closed.
    pub channel_closed: u64,
    /// Declarations of queues.
    pub queue_declared: u64,
    /// Queues that were made.
    pub queue_created: u64,
    /// Queues that were deleted.
    pub queue_deleted: u64,
}

impl Churn {
    /// Each with its name in RabbitMQ's tools.
    pub fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("connection_created", self.connection_created),
            ("connection_closed", self.connection_closed),
            ("channel_created", self.channel_created),
            ("channel_closed", self.channel_closed),
            ("queue_declared", self.queue_declared),
            ("queue_created", self.queue_created),
            ("queue_deleted", self.queue_deleted),
        ]
    }

    fn merge(&mut self, other: &Churn) {
        self.connection_created += other.connection_created;
        self.connection_closed += other.connection_closed;
        self.channel_created += other.channel_created;
        self.channel_closed += other.channel_closed;
        self.queue_declared += other.queue_declared;
        self.queue_created += other.queue_created;
        self.queue_deleted += other.queue_deleted;
    }
}

/// The counts of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeTally {
    /// Its virtual host.
    pub vhost: VhostId,
    /// Messages published to it.
    pub publish_in: u64,
    /// Places in queues it routed them to.
    pub publish_out: u64,
    /// Messages of those published to it that are confirmed, or will be.
    pub confirmed: u64,
    /// Messages it routed nowhere and that were sent back.
    pub returned: u64,
    /// Messages it routed nowhere and that are gone.
    pub dropped: u64,
    /// Counts of the filters of its bindings, and of exchanges behind it.
    pub filtered: Counts,
}

impl ExchangeTally {
    fn came(&mut self, run: &Run) {
        self.publish_in += run.messages;
        self.publish_out += run.messages * u64::from(run.queues);
        self.confirmed += if run.is_confirmed { run.messages } else { 0 };
    }

    fn merge(&mut self, other: &ExchangeTally) {
        self.vhost = other.vhost;
        self.publish_in += other.publish_in;
        self.publish_out += other.publish_out;
        self.confirmed += other.confirmed;
        self.returned += other.returned;
        self.dropped += other.dropped;
        self.filtered.merge(&other.filtered);
    }
}

/// Why messages left queues otherwise than by being settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum End {
    /// The queue was full.
    MaxLength,
    /// Their time was over.
    Expired,
    /// A consumer rejected them.
    Rejected,
    /// They had failed too often.
    DeliveryLimit,
}

/// How many there are of [`End`].
pub const ENDS: usize = 4;

/// The fate of messages that end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum DeadLetterStrategy {
    /// They are gone: the queue sends them nowhere.
    Disabled,
    /// They are sent on, and go with the sending.
    AtMostOnce,
    /// They stay until what was sent on is safe.
    AtLeastOnce,
}

/// How many there are of [`DeadLetterStrategy`].
pub const DEAD_LETTER_STRATEGIES: usize = 3;

/// Messages that ended: by the type of queue, by what became of them, by why.
pub type Ends = [[[u64; ENDS]; DEAD_LETTER_STRATEGIES]; QUEUE_TYPES];

/// The number of an exchange nothing was counted of yet.
pub(crate) const NO_EXCHANGE: u32 = u32::MAX;

/// Exchanges that may be gone are looked for when there are so many more.
const SWEEP: usize = 64;

/// Errors of the stream protocol by code, from 2 on, as metrics call them.
pub const STREAM_ERRORS: [&str; 17] = [
    "global_stream_error_stream_does_not_exist_total",
    "global_stream_error_subscription_id_already_exists_total",
    "global_stream_error_subscription_id_does_not_exist_total",
    "global_stream_error_stream_already_exists_total",
    "global_stream_error_stream_not_available_total",
    "global_stream_error_sasl_mechanism_not_supported_total",
    "global_stream_error_authentication_failure_total",
    "global_stream_error_sasl_error_total",
    "global_stream_error_sasl_challenge_total",
    "global_stream_error_sasl_authentication_failure_loopback_total",
    "global_stream_error_vhost_access_failure_total",
    "global_stream_error_unknown_frame_total",
    "global_stream_error_frame_too_large_total",
    "global_stream_error_internal_error_total",
    "global_stream_error_access_refused_total",
    "global_stream_error_precondition_failed_total",
    "global_stream_error_publisher_does_not_exist_total",
];

/// Stands for all virtual hosts that are gone.
const GONE: VhostId = VhostId(u32::MAX);

/// All counts of a shard.
#[derive(Debug, Default)]
pub struct Tallies {
    /// By protocol, in the order of [`Protocol`].
    pub(crate) protocols: [ProtocolTally; PROTOCOLS],
    /// By virtual host: what is not counted for an exchange, and what was for those that are gone.
    vhosts: MapById<VhostId, Tally>,
    /// Of the virtual host something was counted of last, what is not in `vhosts` yet.
    last_vhost: (VhostId, Tally),
    /// The messages that came last: not in `protocols` and `exchanges` yet.
    run: Run,
    exchanges: Slab<(ExchangeId, ExchangeTally)>,
    by_exchange: MapById<ExchangeId, u32>,
    sweep_at: usize,
    /// Comings and goings.
    pub(crate) churn: Churn,
    /// Messages that ended.
    pub(crate) ends: Ends,
    /// Messages that ended and arrived safely where they were sent: by the type of queue.
    pub(crate) dead_lettered: [u64; QUEUE_TYPES],
    /// Messages that ended and would have gone round for ever: by the type of queue they ended in.
    pub(crate) cycles: [u64; QUEUE_TYPES],
    /// Messages that went nowhere since finding where takes too many steps.
    pub(crate) too_dear: u64,
    /// Stored offsets of streams that others took the place of.
    pub(crate) offsets_driven_out: u64,
    /// In the order of [`STREAM_ERRORS`].
    stream_errors: [u64; STREAM_ERRORS.len()],
}

impl Tallies {
    /// A publish was refused.
    #[cold]
    pub(crate) fn note_refused(&mut self, refusal: &Refusal) {
        self.too_dear += u64::from(refusal.reason == Reason::RouteTooDear);
    }

    /// Something happened to messages over a protocol, in a virtual host.
    #[inline]
    pub fn note(&mut self, vhost: VhostId, protocol: Protocol, count: Count, more: u64) {
        self.protocols[protocol as usize].own.add(count, more);
        self.of_vhost(vhost).add(count, more);
    }

    /// The same, where a queue of this type has a part in it.
    #[inline]
    pub fn note_of(&mut self, vhost: VhostId, protocol: Protocol, of: QueueType, count: Count, more: u64) {
        self.protocols[protocol as usize].by_type[type_index(of)].add(count, more);
        self.of_vhost(vhost).add(count, more);
    }

    /// Clients of the stream protocol were told of so many errors with this code.
    pub fn stream_errors(&mut self, code: u16, more: u64) {
        if let Some(count) = self.stream_errors.get_mut(usize::from(code).wrapping_sub(2)) {
            *count += more;
        }
    }

    /// A channel is there.
    pub fn channel_came(&mut self) {
        self.churn.channel_created += 1;
    }

    /// A channel is gone.
    pub fn channel_went(&mut self) {
        self.churn.channel_closed += 1;
    }

    /// Messages came by themselves, without an exchange, to a stream.
    #[inline]
    pub fn came_to_stream(&mut self, vhost: VhostId, messages: u64, bytes: u64) {
        let protocol = &mut self.protocols[Protocol::Stream as usize];
        protocol.received += messages;
        protocol.received_confirm += messages;
        protocol.routed += messages;
        protocol.size_bytes += bytes;
        if let Some(each) = bytes.checked_div(messages) {
            protocol.sizes[size_group(each)] += messages;
        }
        self.of_vhost(vhost).add(Count::Publish, messages);
    }

    #[inline]
    fn of_vhost(&mut self, vhost: VhostId) -> &mut Tally {
        if self.last_vhost.0 != vhost {
            self.turn_to(vhost);
        }
        &mut self.last_vhost.1
    }

    #[cold]
    #[inline(never)]
    fn turn_to(&mut self, vhost: VhostId) {
        let (last, tally) = std::mem::replace(&mut self.last_vhost, (vhost, Tally::default()));
        if !tally.is_empty() {
            self.vhosts.entry(last).or_default().merge(&tally);
        }
    }

    /// A message with a body of so many bytes is published to an exchange that has this number here, and goes to so many queues.
    #[inline]
    pub(crate) fn publish(&mut self, exchange: u32, queues: u32, publish: &Publish<'_>, body: usize) {
        let bytes = body as u64;
        let run = &mut self.run;
        let is_alike = (run.exchange, run.queues, run.format, run.is_confirmed)
            == (exchange, queues, publish.format, publish.confirm);
        if is_alike && bytes.wrapping_sub(run.bytes_above) <= run.bytes_span {
            run.messages += 1;
            run.bytes += bytes;
        } else {
            self.count_run(Run::new(exchange, queues, publish, bytes));
        }
    }

    /// Counts the messages that came last, and begins with `next`.
    #[cold]
    #[inline(never)]
    fn count_run(&mut self, next: Run) {
        let run = std::mem::replace(&mut self.run, next);
        self.protocols[Protocol::from(run.format) as usize].came(&run);
        if let Some((_, tally)) = self.exchanges.get_mut(run.exchange as usize) {
            tally.came(&run);
        }
    }

    /// A message was published to an exchange that routed it nowhere.
    pub(crate) fn unroutable(&mut self, exchange: u32, is_returned: bool) {
        if let Some((_, tally)) = self.exchanges.get_mut(exchange as usize) {
            *(if is_returned { &mut tally.returned } else { &mut tally.dropped }) += 1;
        }
    }

    /// Filters of bindings were asked of messages that were published to an exchange.
    pub(crate) fn filtered(&mut self, exchange: u32, counts: Counts) {
        if let Some((_, tally)) = self.exchanges.get_mut(exchange as usize) {
            tally.filtered.merge(&counts);
        }
    }

    /// The number of an exchange here, until it is deleted.
    pub(crate) fn exchange(&mut self, catalog: &Catalog, vhost: VhostId, name: &[u8]) -> u32 {
        let Some(id) = catalog.exchange(vhost, name).map(|entry| entry.definition.id) else {
            return NO_EXCHANGE;
        };
        if let Some(slot) = self.by_exchange.get(&id) {
            return *slot;
        }
        if self.exchanges.len() >= self.sweep_at {
            self.sweep(catalog);
        }
        let slot = self.exchanges.insert((id, ExchangeTally { vhost, ..ExchangeTally::default() })) as u32;
        self.by_exchange.insert(id, slot);
        slot
    }

    /// Forgets exchanges that are gone, but for what they did in their virtual hosts.
    #[cold]
    fn sweep(&mut self, catalog: &Catalog) {
        // Its number may soon be another's.
        self.count_run(Run::default());
        self.turn_to(GONE);
        let (exchanges, by_exchange, vhosts) = (&mut self.exchanges, &mut self.by_exchange, &mut self.vhosts);
        exchanges.retain(|_, (id, tally)| {
            let is_there = catalog.exchange_by_id(*id).is_some();
            if !is_there {
                by_exchange.remove(id);
                vhosts.entry(tally.vhost).or_default().add(Count::Publish, tally.publish_in);
            }
            is_there
        });
        let mut gone = Tally::default();
        vhosts.retain(|vhost, tally| {
            let is_there = catalog.vhost_definition(*vhost).is_some();
            if !is_there {
                gone.merge(tally);
            }
            is_there
        });
        vhosts.insert(GONE, gone);
        self.sweep_at = 2 * self.exchanges.len() + SWEEP;
    }

    /// All of it, for somebody else.
    pub fn survey(&self) -> Survey {
        let mut vhosts = self.vhosts.clone();
        let (last, tally) = &self.last_vhost;
        if !tally.is_empty() {
            vhosts.entry(*last).or_default().merge(tally);
        }
        let (mut protocols, run) = (self.protocols, &self.run);
        protocols[Protocol::from(run.format) as usize].came(run);
        let own = |(slot, (id, tally)): (usize, &(ExchangeId, ExchangeTally))| {
            let mut tally = *tally;
            if slot == run.exchange as usize {
                tally.came(run);
            }
            (*id, tally)
        };
        let exchanges: MapById<ExchangeId, ExchangeTally> = self.exchanges.iter().map(own).collect();
        for tally in exchanges.values() {
            vhosts.entry(tally.vhost).or_default().add(Count::Publish, tally.publish_in);
        }
        Survey {
            protocols,
            vhosts,
            exchanges,
            churn: self.churn,
            ends: self.ends,
            dead_lettered: self.dead_lettered,
            cycles: self.cycles,
            too_dear: self.too_dear,
            offsets_driven_out: self.offsets_driven_out,
            stream_errors: self.stream_errors,
            latencies: Latencies::default(),
        }
    }
}

/// The counts of a shard, or of several.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// By protocol, in the order of [`Protocol`].
    pub protocols: [ProtocolTally; PROTOCOLS],
    /// By virtual host.
    pub vhosts: MapById<VhostId, Tally>,
    /// By exchange, of those something was published to.
    pub exchanges: MapById<ExchangeId, ExchangeTally>,
    /// Comings and goings.
    pub churn: Churn,
    /// Messages that ended.
    pub ends: Ends,
    /// Messages that ended and arrived safely where they were sent: by the type of queue.
    pub dead_lettered: [u64; QUEUE_TYPES],
    /// Messages that ended and would have gone round for ever: by the type of queue they ended in.
    pub cycles: [u64; QUEUE_TYPES],
    /// Messages that went nowhere since finding where takes too many steps.
    pub too_dear: u64,
    /// Stored offsets of streams that others took the place of.
    pub offsets_driven_out: u64,
    /// In the order of [`STREAM_ERRORS`].
    pub stream_errors: [u64; STREAM_ERRORS.len()],
    /// How long messages took.
    pub latencies: Latencies,
}

impl Survey {
    /// Adds the counts of another shard.
    pub fn merge(&mut self, other: &Survey) {
        self.protocols.iter_mut().zip(&other.protocols).for_each(|(own, more)| own.merge(more));
        for (vhost, tally) in &other.vhosts {
            self.vhosts.entry(*vhost).or_default().merge(tally);
        }
        for (id, tally) in &other.exchanges {
            self.exchanges.entry(*id).or_default().merge(tally);
        }
        self.churn.merge(&other.churn);
        let ends = self.ends.as_flattened_mut().as_flattened_mut().iter_mut();
        ends.zip(other.ends.as_flattened().as_flattened()).for_each(|(own, more)| *own += more);
        self.dead_lettered.iter_mut().zip(other.dead_lettered).for_each(|(own, more)| *own += more);
        self.cycles.iter_mut().zip(other.cycles).for_each(|(own, more)| *own += more);
        self.too_dear += other.too_dear;
        self.offsets_driven_out += other.offsets_driven_out;
        self.stream_errors.iter_mut().zip(other.stream_errors).for_each(|(own, more)| *own += more);
        self.latencies.merge(&other.latencies);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_told_apart_by_size() {
        for (bytes, group) in
            [(0, 0), (100, 0), (101, 1), (1000, 1), (10_001, 3), (100_000_000, 7), (100_000_001, 8)]
        {
            let mut tallies = Tallies::default();
            publish(&mut tallies, 0, bytes, 2);
            let mut sizes = [0; 9];
            sizes[group] = 2;
            let own = tallies.survey().protocols[0];
            assert_eq!((own.sizes, own.size_bytes), (sizes, 2 * bytes as u64), "{bytes}");
            assert_eq!((own.received, own.received_confirm, own.routed), (2, 2, 6));
        }
    }

    fn publish(tallies: &mut Tallies, exchange: u32, bytes: usize, times: usize) {
        let body = vec![0; bytes];
        let message = Publish {
            exchange: b"x",
            routing_key: b"k",
            more: None,
            headers: &routing::NoHeaders,
            format: Format::Amqp091,
            durable: true,
            priority: None,
            ttl_ms: None,
            head: &[],
            body: &[&body],
            confirm: true,
        };
        (0..times).for_each(|_| tallies.publish(exchange, 3, &message, bytes));
    }

    #[test]
    fn runs_count_as_their_messages_do() {
        let mut tallies = Tallies::default();
        for (id, vhost) in [(7, 1), (8, 2)] {
            let own = ExchangeTally { vhost: VhostId(vhost), ..ExchangeTally::default() };
            tallies.exchanges.insert((ExchangeId(id), own));
        }
        for (exchange, bytes, times) in
            [(0, 50, 3), (1, 50, 2), (0, 5000, 1), (0, 1001, 4), (0, 101, 1), (1, 0, 1)]
        {
            publish(&mut tallies, exchange, bytes, times);
        }
        let survey = tallies.survey();
        let own = survey.protocols[0];
        assert_eq!((own.received, own.routed, own.size_bytes), (12, 36, 150 + 100 + 5000 + 4004 + 101));
        assert_eq!(own.sizes[..4], [6, 1, 5, 0]);
        let counts = [7, 8]
            .map(|id| survey.exchanges[&ExchangeId(id)])
            .map(|own| (own.publish_in, own.publish_out, own.confirmed));
        assert_eq!(counts, [(9, 27, 9), (3, 9, 3)]);
        assert_eq!(survey.vhosts[&VhostId(1)].get(Count::Publish), 9);
    }

    #[test]
    fn surveys_add_up() {
        let mut tallies = Tallies::default();
        let vhost = VhostId(3);
        tallies.note(vhost, Protocol::Amqp10, Count::Confirm, 5);
        tallies.note_of(vhost, Protocol::Amqp091, QueueType::Quorum, Count::Deliver, 7);
        tallies.came_to_stream(vhost, 10, 5000);
        tallies.ends[1][2][3] = 4;
        let mut sum = tallies.survey();
        sum.merge(&tallies.survey());
        let own = sum.vhosts[&vhost];
        let counted = [Count::Confirm, Count::Deliver, Count::Publish].map(|count| own.get(count));
        assert_eq!((counted, own.deliver_get(), sum.ends[1][2][3]), ([10, 14, 20], 14, 8));
        assert_eq!(sum.protocols[1].own.get(Count::Confirm), 10);
        assert_eq!(sum.protocols[0].by_type[1].get(Count::Deliver), 14);
        assert_eq!((sum.protocols[2].received, sum.protocols[2].sizes[1]), (20, 20));
    }
}
