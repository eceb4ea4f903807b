//! The families of metrics, by the names that `/metrics/detailed` asks for them by.

use super::text::{Kind, Labels, Text};
use super::{Detail, Facts};
use crate::node::Node;
use crate::queues::capacity;
use crate::response::Response;
use broker::catalog::QueueType;
use broker::{BURIALS, Count, QUEUE_TYPES, QueueRow, SIZE_BOUNDS, Tally, Tongue};
use std::fmt::Display;

/// Types of queue as labels have them, in the order of their tallies.
const TYPES: [&str; QUEUE_TYPES] = ["rabbit_classic_queue", "rabbit_quorum_queue", "rabbit_stream_queue"];

/// What becomes of messages that end, as labels have it.
const STRATEGIES: [&str; BURIALS] = ["disabled", "at_most_once", "at_least_once"];

/// A family of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Churn,
    Node,
    NodeCoarse,
    Persister,
    Auth,
    Global,
    Totals,
    Alarms,
    QueueCoarse,
    QueueConsumers,
    Queue,
    QueueDelivery,
    Exchange,
    Channel,
    ChannelExchange,
    ChannelQueue,
    Connection,
    ConnectionCoarse,
    StreamConsumers,
    Raft,
    Flushes,
    Vhosts,
    ExchangeNames,
    ExchangeBindings,
}
use Kind::{Counter, Gauge, Histogram};

impl Family {
    pub(super) const ALL: [Family; 24] = [
        Family::Churn,
        Family::Node,
        Family::NodeCoarse,
        Family::Persister,
        Family::Auth,
        Family::Global,
        Family::Totals,
        Family::Alarms,
        Family::QueueCoarse,
        Family::QueueConsumers,
        Family::Queue,
        Family::QueueDelivery,
        Family::Exchange,
        Family::Channel,
        Family::ChannelExchange,
        Family::ChannelQueue,
        Family::Connection,
        Family::ConnectionCoarse,
        Family::StreamConsumers,
        Family::Raft,
        Family::Flushes,
        Family::Vhosts,
        Family::ExchangeNames,
        Family::ExchangeBindings,
    ];

    /// As `/metrics/detailed` calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Family::Churn => "connection_churn_metrics",
            Family::Node => "node_metrics",
            Family::NodeCoarse => "node_coarse_metrics",
            Family::Persister => "node_persister_metrics",
            Family::Auth => "auth_attempt_metrics",
            Family::Global => "global_metrics",
            Family::Totals => "totals",
            Family::Alarms => "alarm_metrics",
            Family::QueueCoarse => "queue_coarse_metrics",
            Family::QueueConsumers => "queue_consumer_count",
            Family::Queue => "queue_metrics",
            Family::QueueDelivery => "queue_delivery_metrics",
            Family::Exchange => "exchange_metrics",
            Family::Channel => "channel_metrics",
            Family::ChannelExchange => "channel_exchange_metrics",
            Family::ChannelQueue => "channel_queue_metrics",
            Family::Connection => "connection_metrics",
            Family::ConnectionCoarse => "connection_coarse_metrics",
            Family::StreamConsumers => "stream_consumer_metrics",
            Family::Raft => "ra_metrics",
            Family::Flushes => "leveret_metrics",
            Family::Vhosts => "vhost_status",
            Family::ExchangeNames => "exchange_names",
            Family::ExchangeBindings => "exchange_bindings",
        }
    }

    /// It is told without being asked for.
    pub(super) fn is_usual(self) -> bool {
        !self.is_of_cluster() && self != Family::QueueConsumers
    }

    /// Its metrics are not the node's alone.
    pub(super) fn is_of_cluster(self) -> bool {
        matches!(self, Family::Vhosts | Family::ExchangeNames | Family::ExchangeBindings)
    }

    pub(super) fn write<N: Node>(self, node: &N, facts: &Facts, text: &mut Text) -> Result<(), Response> {
        match self {
            Family::Churn => churn(facts, text),
            Family::Node | Family::NodeCoarse => self.write_node(node, text),
            Family::Persister => persister(facts, text),
            Family::Auth => auth(node, facts, text),
            Family::Global => global(facts, text),
            Family::Totals => totals(facts, text),
            Family::Alarms => alarms(node, text),
            Family::QueueCoarse => queue_coarse(facts, text),
            Family::QueueConsumers => {
                of_queues(facts, text, "queue_consumers", Gauge, "Consumers on a queue", |row| row.consumers);
            }
            Family::Queue => queue(facts, text),
            Family::QueueDelivery => queue_delivery(facts, text),
            Family::Exchange => exchange(node, facts, text)?,
            Family::Channel => channel(facts, text),
            Family::ChannelExchange => channel_counts(facts, text, &PUBLISHING),
            Family::ChannelQueue => channel_counts(facts, text, &DELIVERING),
            Family::Connection => connection(facts, text),
            Family::ConnectionCoarse => connection_coarse(facts, text),
            Family::StreamConsumers => stream_consumers(facts, text),
            Family::Raft => raft(facts, text),
            Family::Flushes => flushes(facts, text),
            Family::Vhosts | Family::ExchangeNames | Family::ExchangeBindings => {
                self.write_cluster(node, text)?
            }
        }
        Ok(())
    }

    fn write_node<N: Node>(self, node: &N, text: &mut Text) {
        let now = node.condition();
        if self == Family::Node {
            let [_, most] = now.files;
            text.one("process_max_fds", Gauge, "Open file descriptors limit", most.min(u64::from(u32::MAX)));
            text.one(
                "resident_memory_limit_bytes",
                Gauge,
                "Memory high watermark in bytes",
                now.memory_limit,
            );
            text.one(
                "disk_space_available_limit_bytes",
                Gauge,
                "Free disk space low watermark in bytes",
                now.disk_limit,
            );
            text.one("erlang_uptime_seconds", Gauge, "Node uptime", now.uptime_ms as f64 / 1000.0);
            return;
        }
        let [open, _] = now.files;
        text.one("process_open_fds", Gauge, "Open file descriptors", open);
        text.one("process_resident_memory_bytes", Gauge, "Memory used in bytes", now.memory_used);
        text.one("disk_space_available_bytes", Gauge, "Disk space available in bytes", now.disk_free);
    }

    fn write_cluster<N: Node>(self, node: &N, text: &mut Text) -> Result<(), Response> {
        if self == Family::Vhosts {
            let vhosts: Vec<String> =
                node.look(|catalog| catalog.vhosts().map(|vhost| vhost.name.to_string()).collect())?;
            text.family("vhost_status", Gauge, "Whether a given vhost is running");
            vhosts.iter().for_each(|vhost| text.sample(&[("vhost", vhost)], 1));
            return Ok(());
        }
        let rows: Vec<([String; 3], usize)> = node.look(|catalog| {
            let mut rows = Vec::new();
            for vhost in catalog.vhosts() {
                for exchange in catalog.exchanges(vhost.id) {
                    let entry = catalog.exchange_by_id(exchange.id);
                    let count = entry.map_or(0, |entry| entry.exchange.bindings_count());
                    let (vhost, name) = (vhost.name.to_string(), exchange.name.to_string());
                    rows.push(([vhost, name, exchange.kind.name().to_owned()], count));
                }
            }
            rows
        })?;
        let is_names = self == Family::ExchangeNames;
        match is_names {
            true => text.family("exchange_name", Gauge, "Enumerates exchanges without any additional info"),
            false => text.family("exchange_bindings", Gauge, "Number of bindings for an exchange"),
        }
        for ([vhost, name, kind], count) in rows.iter().filter(|([_, name, _], _)| !name.is_empty()) {
            let value = if is_names { 1 } else { *count };
            text.sample(&[("vhost", vhost), ("exchange", name), ("type", kind)], value);
        }
        Ok(())
    }
}

fn churn(facts: &Facts, text: &mut Text) {
    let churn = &facts.survey.churn;
    for (name, help, value) in [
        ("connections_opened_total", "Total number of connections opened", churn.connection_created),
        (
            "connections_closed_total",
            "Total number of connections closed or terminated",
            churn.connection_closed,
        ),
        ("channels_opened_total", "Total number of channels opened", churn.channel_created),
        ("channels_closed_total", "Total number of channels closed", churn.channel_closed),
        ("queues_declared_total", "Total number of queues declared", churn.queue_declared),
        ("queues_created_total", "Total number of queues created", churn.queue_created),
        ("queues_deleted_total", "Total number of queues deleted", churn.queue_deleted),
    ] {
        text.one(name, Counter, help, value);
    }
}

fn persister(facts: &Facts, text: &mut Text) {
    let writing = &facts.writing;
    for (name, help, value) in [
        ("io_read_ops_total", "Total number of I/O read operations", writing.reads),
        ("io_write_ops_total", "Total number of I/O write operations", writing.writes),
        ("io_write_bytes_total", "Total number of I/O bytes written", writing.written_bytes),
        ("io_sync_ops_total", "Total number of I/O sync operations", writing.syncs),
    ] {
        text.one(name, Counter, help, value);
    }
    let seconds = writing.read_ns as f64 / 1e9;
    text.one("io_read_time_seconds_total", Counter, "Total I/O read time", seconds);
    let seconds = writing.flush_sum_ns as f64 / 1e9;
    text.one("io_sync_time_seconds_total", Counter, "Total I/O sync time", seconds);
}

fn auth<N: Node>(node: &N, facts: &Facts, text: &mut Text) {
    let mut logins: Vec<(&str, [u64; 2])> = Tongue::ALL
        .iter()
        .map(|tongue| (tongue.label(), facts.survey.protocols[*tongue as usize].logins))
        .collect();
    logins.push(("http", node.logins()));
    for (name, help, of) in [
        (
            "auth_attempts_total",
            "Total number of authorization attempts",
            (|own| own[0]) as fn([u64; 2]) -> u64,
        ),
        ("auth_attempts_succeeded_total", "Total number of successful authentication attempts", |own| {
            own[0] - own[1]
        }),
        ("auth_attempts_failed_total", "Total number of failed authentication attempts", |own| own[1]),
    ] {
        text.family(name, Counter, help);
        for (protocol, own) in &logins {
            text.sample(&[("protocol", protocol)], of(*own));
        }
    }
}

fn global(facts: &Facts, text: &mut Text) {
    let protocols = &facts.survey.protocols;
    let mut of_protocol = |name, help, of: &dyn Fn(Tongue) -> u64| {
        text.family(name, Counter, help);
        for tongue in Tongue::ALL {
            text.sample(&[("protocol", tongue.label())], of(tongue));
        }
    };
    let own = |count: Count| move |tongue: Tongue| protocols[tongue as usize].own.get(count);
    of_protocol(
        "global_messages_received_total",
        "Total number of messages received from publishers",
        &|tongue| protocols[tongue as usize].received,
    );
    of_protocol(
        "global_messages_received_confirm_total",
        "Total number of messages received from publishers expecting confirmations",
        &|tongue| protocols[tongue as usize].received_confirm,
    );
    of_protocol(
        "global_messages_routed_total",
        "Total number of messages routed to queues or streams",
        &|tongue| protocols[tongue as usize].routed,
    );
    for (name, help, count) in [
        (
            "global_messages_confirmed_total",
            "Total number of messages confirmed to publishers",
            Count::Confirm,
        ),
        (
            "global_messages_unroutable_returned_total",
            "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
            Count::ReturnUnroutable,
        ),
        (
            "global_messages_unroutable_dropped_total",
            "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
            Count::DropUnroutable,
        ),
    ] {
        of_protocol(name, help, &own(count));
    }
    type Of = fn(&Tally) -> u64;
    let by_type: [(&'static str, &str, Of); 8] = [
        (
            "global_messages_delivered_total",
            "Total number of messages delivered to consumers",
            Tally::deliver_get,
        ),
        (
            "global_messages_delivered_consume_manual_ack_total",
            "Total number of messages delivered to consumers using basic.consume with manual acknowledgment",
            |own| own.get(Count::Deliver),
        ),
        (
            "global_messages_delivered_consume_auto_ack_total",
            "Total number of messages delivered to consumers using basic.consume with automatic acknowledgment",
            |own| own.get(Count::DeliverNoAck),
        ),
        (
            "global_messages_delivered_get_manual_ack_total",
            "Total number of messages delivered to consumers using basic.get with manual acknowledgment",
            |own| own.get(Count::Get),
        ),
        (
            "global_messages_delivered_get_auto_ack_total",
            "Total number of messages delivered to consumers using basic.get with automatic acknowledgment",
            |own| own.get(Count::GetNoAck),
        ),
        (
            "global_messages_get_empty_total",
            "Total number of times basic.get operations fetched no message",
            |own| own.get(Count::GetEmpty),
        ),
        ("global_messages_redelivered_total", "Total number of messages redelivered to consumers", |own| {
            own.get(Count::Redeliver)
        }),
        (
            "global_messages_acknowledged_total",
            "Total number of message acknowledgements received from consumers",
            |own| own.get(Count::Ack),
        ),
    ];
    for (name, help, of) in by_type {
        text.family(name, Counter, help);
        for tongue in Tongue::ALL {
            for (at, queue_type) in TYPES.iter().enumerate() {
                let value = of(&protocols[tongue as usize].by_type[at]);
                text.sample(&[("protocol", tongue.label()), ("queue_type", queue_type)], value);
            }
        }
    }
    let ends = [
        (
            "global_messages_dead_lettered_maxlen_total",
            "Total number of messages dead-lettered due to overflow drop-head or reject-publish-dlx",
        ),
        (
            "global_messages_dead_lettered_expired_total",
            "Total number of messages dead-lettered due to message TTL exceeded",
        ),
        (
            "global_messages_dead_lettered_rejected_total",
            "Total number of messages dead-lettered due to basic.reject or basic.nack",
        ),
        (
            "global_messages_dead_lettered_delivery_limit_total",
            "Total number of messages dead-lettered due to delivery-limit exceeded",
        ),
    ];
    for (end, (name, help)) in ends.into_iter().enumerate() {
        text.family(name, Counter, help);
        for (of, queue_type) in TYPES.iter().enumerate().take(2) {
            for (burial, strategy) in STRATEGIES.iter().enumerate() {
                let labels: Labels<'_> = &[("queue_type", queue_type), ("dead_letter_strategy", strategy)];
                text.sample(labels, facts.survey.ends[of][burial][end]);
            }
        }
    }
    text.family(
        "global_messages_dead_lettered_confirmed_total",
        Counter,
        "Total number of messages dead-lettered and confirmed by target queues",
    );
    let labels: Labels<'_> = &[("queue_type", TYPES[1]), ("dead_letter_strategy", STRATEGIES[2])];
    text.sample(labels, facts.survey.buried[1]);
    text.family("global_publishers", Gauge, "Publishers currently connected");
    let publishers = publishers(facts);
    Tongue::ALL.iter().for_each(|own| text.sample(&[("protocol", own.label())], publishers[*own as usize]));
    text.family("global_consumers", Gauge, "Consumers currently connected");
    let consumers = consumers(facts);
    Tongue::ALL.iter().for_each(|own| text.sample(&[("protocol", own.label())], consumers[*own as usize]));
    stream_errors(facts, text);
    text.family("message_size_bytes", Histogram, "Size of messages received from publishers");
    for tongue in Tongue::ALL {
        let own = &protocols[tongue as usize];
        text.buckets(&[("protocol", tongue.label())], SIZE_BOUNDS.iter(), &own.sizes, own.size_bytes);
    }
}

fn stream_errors(facts: &Facts, text: &mut Text) {
    for (at, name) in broker::STREAM_ERRORS.into_iter().enumerate() {
        text.family(name, Counter, "Total number of errors of the stream protocol, by code");
        text.sample(&[("protocol", Tongue::Stream.label())], facts.survey.stream_errors[at]);
    }
}

/// Channels that have published, and publishers of streams.
fn publishers(facts: &Facts) -> [usize; 3] {
    let opened = facts.opened.iter().map(|(_, opened)| opened);
    let channels = opened.clone().flat_map(|opened| &opened.channels);
    let streams = opened.clone().map(|opened| opened.stream_publishers.len()).sum();
    let links = opened.map(|opened| opened.senders as usize).sum();
    [channels.filter(|row| row.tally.get(Count::Publish) > 0).count(), links, streams]
}

fn consumers(facts: &Facts) -> [usize; 3] {
    let mut counts = [0; 3];
    for (_, opened) in &facts.opened {
        let of = if opened.channels.is_empty() { Tongue::Amqp10 } else { Tongue::Amqp091 };
        counts[of as usize] += opened.consumers.len();
        counts[Tongue::Stream as usize] += opened.stream_consumers.len();
    }
    counts
}

fn totals(facts: &Facts, text: &mut Text) {
    let channels: usize = facts.opened.iter().map(|(_, opened)| opened.channels.len()).sum();
    for (name, help, value) in [
        ("connections", "Connections currently open", facts.connections.len()),
        ("channels", "Channels currently open", channels),
        ("consumers", "Consumers currently connected", consumers(facts).iter().sum()),
        ("queues", "Queues available", facts.queues.len()),
    ] {
        text.one(name, Gauge, help, value);
    }
}

fn alarms<N: Node>(node: &N, text: &mut Text) {
    let now = node.condition();
    let is = u8::from;
    text.one(
        "alarms_memory_used_watermark",
        Kind::Untyped,
        "is 1 if VM memory watermark alarm is in effect",
        is(now.is_memory_alarm),
    );
    text.one(
        "alarms_free_disk_space_watermark",
        Kind::Untyped,
        "is 1 if free disk space watermark alarm is in effect",
        is(now.is_disk_alarm),
    );
    text.one(
        "unreachable_cluster_peers_count",
        Gauge,
        "Number of peers in the cluster the current node cannot reach",
        0,
    );
}

/// A metric of queues: of each, or of all together.
fn of_queues<V: Display + Into<f64> + Copy>(
    facts: &Facts,
    text: &mut Text,
    name: &'static str,
    kind: Kind,
    help: &str,
    of: impl Fn(&QueueRow) -> V,
) {
    text.family(name, kind, help);
    match facts.detail {
        Detail::Sums => text.sample(&[], facts.queues.iter().map(|row| of(row).into()).sum::<f64>()),
        Detail::Each => {
            for row in &facts.queues {
                let labels = [("vhost", &*row.definition.vhost_name), ("queue", &*row.definition.name)];
                text.sample(&labels, of(row));
            }
        }
    }
}

fn queue_coarse(facts: &Facts, text: &mut Text) {
    of_queues(
        facts,
        text,
        "queue_messages_ready",
        Gauge,
        "Messages ready to be delivered to consumers",
        |row| row.ready as f64,
    );
    of_queues(
        facts,
        text,
        "queue_messages_unacked",
        Gauge,
        "Messages delivered to consumers but not yet acknowledged",
        |row| row.unsettled as f64,
    );
    of_queues(
        facts,
        text,
        "queue_messages",
        Gauge,
        "Sum of ready and unacknowledged messages - total queue depth",
        |row| (row.ready + row.unsettled) as f64,
    );
    if facts.detail == Detail::Each {
        text.family(
            "queue_info",
            Gauge,
            "A metric with a constant '1' value and labels that provide some queue details",
        );
        for row in &facts.queues {
            let queue_type = TYPES[broker::type_index(row.definition.queue_type)];
            let labels = [
                ("vhost", &*row.definition.vhost_name),
                ("queue", &*row.definition.name),
                ("queue_type", queue_type),
                ("membership", "leader"),
            ];
            text.sample(&labels, 1);
        }
    }
}

fn queue(facts: &Facts, text: &mut Text) {
    let is_kept = |row: &QueueRow| row.definition.durable || row.definition.is_quorum();
    of_queues(facts, text, "queue_consumers", Gauge, "Consumers on a queue", |row| row.consumers);
    of_queues(facts, text, "queue_consumer_capacity", Gauge, "Consumer capacity", capacity);
    of_queues(facts, text, "queue_consumer_utilisation", Gauge, "Same as consumer capacity", capacity);
    of_queues(facts, text, "queue_process_memory_bytes", Gauge, "Memory in bytes used by the queue", |row| {
        row.memory_bytes as f64
    });
    // Of messages memory holds the log's latest alone, whichever queues they are in.
    of_queues(
        facts,
        text,
        "queue_messages_ram",
        Gauge,
        "Ready and unacknowledged messages stored in memory alone",
        |row| {
            if is_kept(row) { 0.0 } else { (row.ready + row.unsettled) as f64 }
        },
    );
    of_queues(
        facts,
        text,
        "queue_messages_persistent",
        Gauge,
        "Messages of queues that survive a restart",
        |row| {
            if is_kept(row) { (row.ready + row.unsettled) as f64 } else { 0.0 }
        },
    );
    let bytes = |row: &QueueRow| row.ready_bytes.unwrap_or(0) as f64;
    of_queues(
        facts,
        text,
        "queue_messages_bytes",
        Gauge,
        "Size in bytes of ready messages, where the queue has to know it",
        bytes,
    );
    of_queues(
        facts,
        text,
        "queue_messages_ready_bytes",
        Gauge,
        "Size in bytes of ready messages, where the queue has to know it",
        bytes,
    );
    of_queues(
        facts,
        text,
        "queue_messages_published_total",
        Counter,
        "Total number of messages published to queues",
        |row| row.tally.get(Count::Publish) as f64,
    );
    of_queues(
        facts,
        text,
        "queue_disk_writes_total",
        Counter,
        "Total number of messages that came to be written to disk",
        |row| {
            if is_kept(row) { row.tally.get(Count::Publish) as f64 } else { 0.0 }
        },
    );
    let segments = |row: &QueueRow| row.stream.map_or(0.0, |stream| stream.segments as f64);
    if facts.detail == Detail::Sums || facts.queues.iter().any(|row| row.stream.is_some()) {
        of_queues(facts, text, "stream_segments", Counter, "Total number of stream segment files", segments);
    }
}

fn queue_delivery(facts: &Facts, text: &mut Text) {
    for (name, help, count) in [
        (
            "queue_get_ack_total",
            "Total number of messages fetched from a queue with basic.get in manual acknowledgement mode",
            Count::Get,
        ),
        (
            "queue_get_total",
            "Total number of messages fetched from a queue with basic.get in automatic acknowledgement mode",
            Count::GetNoAck,
        ),
        (
            "queue_messages_delivered_ack_total",
            "Total number of messages delivered from a queue to consumers in manual acknowledgement mode",
            Count::Deliver,
        ),
        (
            "queue_messages_delivered_total",
            "Total number of messages delivered from a queue to consumers in automatic acknowledgement mode",
            Count::DeliverNoAck,
        ),
        (
            "queue_messages_redelivered_total",
            "Total number of messages redelivered from a queue to consumers",
            Count::Redeliver,
        ),
        (
            "queue_messages_acked_total",
            "Total number of messages acknowledged by consumers on a queue",
            Count::Ack,
        ),
        (
            "queue_get_empty_total",
            "Total number of times basic.get operations fetched no message on a queue",
            Count::GetEmpty,
        ),
    ] {
        of_queues(facts, text, name, Counter, help, |row| row.tally.get(count) as f64);
    }
}

fn exchange<N: Node>(node: &N, facts: &Facts, text: &mut Text) -> Result<(), Response> {
    let ids: Vec<_> = facts.survey.exchanges.keys().copied().collect();
    let names = node.look(move |catalog| {
        let named = ids.into_iter().filter_map(|id| {
            let exchange = &catalog.exchange_by_id(id)?.definition;
            let vhost = catalog.vhost_definition(exchange.vhost)?;
            Some((id, vhost.name.to_string(), exchange.name.to_string()))
        });
        named.collect::<Vec<_>>()
    })?;
    let mut each = |name, help, of: &dyn Fn(&broker::ExchangeTally) -> u64| {
        text.family(name, Counter, help);
        if facts.detail == Detail::Sums {
            return text.sample(&[], facts.survey.exchanges.values().map(of).sum::<u64>());
        }
        for (id, vhost, exchange) in &names {
            text.sample(&[("vhost", vhost), ("exchange", exchange)], of(&facts.survey.exchanges[id]));
        }
    };
    each(
        "exchange_messages_published_total",
        "Total number of messages published into an exchange",
        &|own| own.publish_in,
    );
    each(
        "queue_exchange_messages_published_total",
        "Total number of messages routed to queues by an exchange",
        &|own| own.publish_out,
    );
    if facts.detail == Detail::Sums {
        for (name, help, count) in [
            (
                "exchange_messages_confirmed_total",
                "Total number of messages published into an exchange and confirmed",
                Count::Confirm,
            ),
            (
                "exchange_messages_unroutable_returned_total",
                "Total number of messages published as mandatory into an exchange and returned",
                Count::ReturnUnroutable,
            ),
            (
                "exchange_messages_unroutable_dropped_total",
                "Total number of messages published as non-mandatory into an exchange and dropped",
                Count::DropUnroutable,
            ),
        ] {
            let sum: u64 = facts.survey.protocols.iter().map(|own| own.own.get(count)).sum();
            text.one(name, Counter, help, sum);
        }
    }
    Ok(())
}

/// A metric of channels: of each, or of all together.
fn of_channels(
    facts: &Facts,
    text: &mut Text,
    name: &'static str,
    kind: Kind,
    help: &str,
    of: impl Fn(&broker::ChannelRow) -> u64,
) {
    text.family(name, kind, help);
    let channels =
        facts.opened.iter().flat_map(|(_, opened)| opened.channels.iter().map(move |row| (opened, row)));
    match facts.detail {
        Detail::Sums => text.sample(&[], channels.map(|(_, row)| of(row)).sum::<u64>()),
        Detail::Each => channels.for_each(|(opened, row)| {
            let channel = format!("{} ({})", opened.connection, row.number);
            text.sample(&[("channel", &channel)], of(row));
        }),
    }
}

fn channel(facts: &Facts, text: &mut Text) {
    type Of = fn(&broker::ChannelRow) -> u64;
    let all: [(&'static str, &str, Of); 7] = [
        ("channel_consumers", "Consumers on a channel", |row| row.consumers.into()),
        ("channel_messages_unacked", "Delivered but not yet acknowledged messages", |row| row.unacknowledged),
        ("channel_messages_unconfirmed", "Published but not yet confirmed messages", |row| row.unconfirmed),
        ("channel_messages_uncommitted", "Messages received in a transaction but not yet committed", |row| {
            row.uncommitted
        }),
        ("channel_acks_uncommitted", "Message acknowledgements in a transaction not yet committed", |row| {
            row.uncommitted_acks
        }),
        ("consumer_prefetch", "Limit of unacknowledged messages for each consumer", |row| {
            row.prefetch.into()
        }),
        (
            "channel_prefetch",
            "Total limit of unacknowledged messages for all consumers on a channel",
            |row| row.shared_prefetch.into(),
        ),
    ];
    for (name, help, of) in all {
        of_channels(facts, text, name, Gauge, help, of);
    }
}

/// A metric of channels that counts, its line of help, and what it counts.
type Counted = (&'static str, &'static str, Count);

const PUBLISHING: [Counted; 4] = [
    (
        "channel_messages_published_total",
        "Total number of messages published into an exchange on a channel",
        Count::Publish,
    ),
    (
        "channel_messages_confirmed_total",
        "Total number of messages published into an exchange and confirmed on the channel",
        Count::Confirm,
    ),
    (
        "channel_messages_unroutable_returned_total",
        "Total number of messages published as mandatory and returned",
        Count::ReturnUnroutable,
    ),
    (
        "channel_messages_unroutable_dropped_total",
        "Total number of messages published as non-mandatory and dropped",
        Count::DropUnroutable,
    ),
];

const DELIVERING: [Counted; 7] = [
    (
        "channel_get_ack_total",
        "Total number of messages fetched with basic.get in manual acknowledgement mode",
        Count::Get,
    ),
    (
        "channel_get_total",
        "Total number of messages fetched with basic.get in automatic acknowledgement mode",
        Count::GetNoAck,
    ),
    (
        "channel_messages_delivered_ack_total",
        "Total number of messages delivered to consumers in manual acknowledgement mode",
        Count::Deliver,
    ),
    (
        "channel_messages_delivered_total",
        "Total number of messages delivered to consumers in automatic acknowledgement mode",
        Count::DeliverNoAck,
    ),
    (
        "channel_messages_redelivered_total",
        "Total number of messages redelivered to consumers",
        Count::Redeliver,
    ),
    ("channel_messages_acked_total", "Total number of messages acknowledged by consumers", Count::Ack),
    (
        "channel_get_empty_total",
        "Total number of times basic.get operations fetched no message",
        Count::GetEmpty,
    ),
];

fn channel_counts(facts: &Facts, text: &mut Text, counted: &[Counted]) {
    for (name, help, count) in counted {
        of_channels(facts, text, name, Counter, help, |row| row.tally.get(*count));
    }
}

fn of_connections(
    facts: &Facts,
    text: &mut Text,
    name: &'static str,
    kind: Kind,
    help: &str,
    of: impl Fn(&crate::ConnectionRow) -> u64,
) {
    text.family(name, kind, help);
    match facts.detail {
        Detail::Sums => text.sample(&[], facts.connections.iter().map(of).sum::<u64>()),
        Detail::Each => {
            facts.connections.iter().for_each(|row| text.sample(&[("connection", &row.name)], of(row)))
        }
    }
}

fn connection(facts: &Facts, text: &mut Text) {
    of_connections(facts, text, "connection_channels", Gauge, "Channels on a connection", |row| row.channels);
}

fn connection_coarse(facts: &Facts, text: &mut Text) {
    of_connections(
        facts,
        text,
        "connection_incoming_bytes_total",
        Counter,
        "Total number of bytes received on a connection",
        |row| row.received,
    );
    of_connections(
        facts,
        text,
        "connection_outgoing_bytes_total",
        Counter,
        "Total number of bytes sent on a connection",
        |row| row.sent,
    );
}

fn stream_consumers(facts: &Facts, text: &mut Text) {
    let end = |stream| {
        let row = facts.queues.iter().find(|row| row.definition.id == stream)?;
        row.stream.map(|stream| stream.next_offset)
    };
    let mut lags: Vec<(&str, &str, u64)> = Vec::new();
    for row in facts.opened.iter().flat_map(|(_, opened)| &opened.stream_consumers) {
        let (vhost, name) = (&*row.stream.vhost_name, &*row.stream.name);
        let lag = end(row.stream.id).map_or(0, |end| end.saturating_sub(1).saturating_sub(row.offset));
        match lags.iter_mut().find(|(of, own, _)| (*of, *own) == (vhost, name)) {
            Some((_, _, most)) => *most = lag.max(*most),
            None => lags.push((vhost, name, lag)),
        }
    }
    text.family("stream_consumer_max_offset_lag", Gauge, "Current maximum of offset lag of consumers");
    match facts.detail {
        Detail::Sums => text.sample(&[], lags.iter().map(|(_, _, lag)| *lag).max().unwrap_or(0)),
        Detail::Each => lags
            .iter()
            .for_each(|(vhost, queue, lag)| text.sample(&[("vhost", vhost), ("queue", queue)], lag)),
    }
}

/// Of queues of type quorum, which have one member: what dashboards read of its log.
fn raft(facts: &Facts, text: &mut Text) {
    let rows: Vec<&QueueRow> =
        facts.queues.iter().filter(|row| row.definition.queue_type == QueueType::Quorum).collect();
    let latency = facts.writing.sync_ns as f64 / 1e9;
    type Of<'a> = &'a dyn Fn(&QueueRow) -> f64;
    let all: [(&'static str, Kind, &str, Of<'_>); 5] = [
        ("raft_term", Counter, "Current term", &|_| 1.0),
        (
            "raft_commit_latency_seconds",
            Gauge,
            "Approximate time taken from an entry being written to the log until it is committed",
            &|_| latency,
        ),
        ("raft_snapshot_index", Counter, "The current snapshot index", &|row| row.head as f64),
        ("raft_last_written_index", Counter, "The last fully written and fsynced index of the log", &|row| {
            row.end as f64
        }),
        ("raft_commit_index", Counter, "The current commit index", &|row| row.end as f64),
    ];
    for (name, kind, help, of) in all {
        text.family(name, kind, help);
        match facts.detail {
            Detail::Sums => {
                let most = rows.iter().map(|row| of(row)).fold(0.0, f64::max);
                text.sample(&[("module", "rabbit_fifo"), ("ra_system", "quorum_queues")], most);
            }
            Detail::Each => {
                for row in &rows {
                    text.sample(
                        &[("queue", &row.definition.name), ("vhost", &row.definition.vhost_name)],
                        of(row),
                    );
                }
            }
        }
    }
}

/// Our own: what the disk is asked for, and how long it takes.
fn flushes(facts: &Facts, text: &mut Text) {
    let writing = &facts.writing;
    text.one(
        "leveret_commits_total",
        Counter,
        "Groups of batches that were committed, each with one write and one flush",
        writing.groups,
    );
    text.one("leveret_batches_total", Counter, "Batches of logs that were committed", writing.batches);
    text.family(
        "leveret_flush_seconds",
        Histogram,
        "How long committing a group takes: its write and its flush",
    );
    let bounds = crate::node::FLUSH_BOUNDS_US.iter().map(|us| *us as f64 / 1e6);
    text.buckets(&[], bounds, &writing.flushes, writing.flush_sum_ns as f64 / 1e9);
    text.family("leveret_commit_bytes", Histogram, "Bytes of records that are committed together");
    text.buckets(&[], crate::node::COMMIT_BOUNDS.iter(), &writing.commits, writing.record_bytes);
}
