//! What is told of queues: of each, or of all together.

use super::text::{Kind, Real, Text};
use super::{Detail, Facts, TYPES};
use crate::queues::{capacity, kept, kept_bytes};
use Kind::{Counter, Gauge};
use broker::{Count, QueueRow};
use std::fmt::Display;
use std::ops::Add;

/// A metric of queues: its name, its type, its line of help, and its value.
type Metric = (&'static str, Kind, &'static str, fn(&QueueRow) -> u64);

/// A metric of queues: of each, or of all together.
fn of_queues<V: Display + Add<Output = V> + Default>(
    facts: &Facts,
    text: &mut Text,
    (name, kind, help): (&'static str, Kind, &str),
    of: impl Fn(&QueueRow) -> Option<V>,
) {
    text.family(name, kind, help);
    match facts.detail {
        Detail::Sums => {
            let sum = facts.queues.iter().filter_map(of).reduce(Add::add);
            text.sample(&[], sum.unwrap_or_default());
        }
        Detail::Each => {
            for row in &facts.queues {
                let labels = [("vhost", &*row.definition.vhost_name), ("queue", &*row.definition.name)];
                if let Some(value) = of(row) {
                    text.sample(&labels, value);
                }
            }
        }
    }
}

fn all_of(facts: &Facts, text: &mut Text, metrics: &[Metric]) {
    for (name, kind, help, of) in metrics {
        of_queues(facts, text, (name, *kind, help), |row| Some(of(row)));
    }
}

pub(super) fn coarse(facts: &Facts, text: &mut Text) {
    all_of(
        facts,
        text,
        &[
            ("queue_messages_ready", Gauge, "Messages ready to be delivered to consumers", |row| row.ready),
            (
                "queue_messages_unacked",
                Gauge,
                "Messages delivered to consumers but not yet acknowledged",
                |row| row.unsettled,
            ),
            (
                "queue_messages",
                Gauge,
                "Sum of ready and unacknowledged messages - total queue depth",
                |row| row.ready + row.unsettled,
            ),
            ("queue_process_reductions_total", Counter, "Nothing: Erlang's unit of work", |_| 0),
        ],
    );
}

/// What each queue is.
pub(super) fn info(facts: &Facts, text: &mut Text) {
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

pub(super) fn consumers(facts: &Facts, text: &mut Text) {
    all_of(
        facts,
        text,
        &[("queue_consumers", Gauge, "Consumers on a queue", |row| u64::from(row.consumers))],
    );
}

/// Bytes of its messages, ready and held.
fn bytes(row: &QueueRow) -> [u64; 2] {
    row.bytes().unwrap_or_default()
}

pub(super) fn queue(facts: &Facts, text: &mut Text) {
    consumers(facts, text);
    let capacities = [
        ("queue_consumer_capacity", Gauge, "Consumer capacity"),
        ("queue_consumer_utilisation", Gauge, "Same as consumer capacity"),
    ];
    for metric in capacities {
        of_queues(facts, text, metric, |row| Some(Real(capacity(row))));
    }
    all_of(
        facts,
        text,
        &[
            ("queue_process_memory_bytes", Gauge, "Memory in bytes used by the queue", |row| {
                row.memory_bytes as u64
            }),
            // Of messages memory holds the log's latest alone, whichever queues they are in: what counts here is what would be
            // gone after a restart.
            (
                "queue_messages_ram",
                Gauge,
                "Ready and unacknowledged messages stored in memory alone",
                |row| kept(row)[1],
            ),
            (
                "queue_messages_ram_bytes",
                Gauge,
                "Size of ready and unacknowledged messages stored in memory alone",
                |row| kept_bytes(row).unwrap_or_default()[1],
            ),
            ("queue_messages_ready_ram", Gauge, "Ready messages stored in memory alone", |row| {
                kept(row)[1].min(row.ready)
            }),
            ("queue_messages_unacked_ram", Gauge, "Unacknowledged messages stored in memory alone", |row| {
                kept(row)[1].saturating_sub(row.ready)
            }),
            ("queue_messages_persistent", Gauge, "Messages that survive a restart", |row| kept(row)[0]),
            (
                "queue_messages_persistent_bytes",
                Gauge,
                "Size in bytes of messages that survive a restart",
                |row| kept_bytes(row).unwrap_or_default()[0],
            ),
            ("queue_messages_bytes", Gauge, "Size in bytes of ready and unacknowledged messages", |row| {
                bytes(row).iter().sum()
            }),
            ("queue_messages_ready_bytes", Gauge, "Size in bytes of ready messages", |row| bytes(row)[0]),
            ("queue_messages_unacked_bytes", Gauge, "Size in bytes of all unacknowledged messages", |row| {
                bytes(row)[1]
            }),
        ],
    );
    // A moment, which does not add up: it is told of each queue alone.
    let head = ("queue_head_message_timestamp", Gauge, "Timestamp of the first message in the queue, if any");
    match facts.detail {
        Detail::Sums => text.family(head.0, head.1, head.2),
        Detail::Each => of_queues(facts, text, head, |row| {
            Some(row.sample.head_timestamp_s.map_or(f64::NAN, |seconds| seconds as f64))
        }),
    }
    all_of(
        facts,
        text,
        &[
            (
                "queue_disk_reads_total",
                Counter,
                "Nothing: what is read back belongs to the log, see io_read_ops_total",
                |_| 0,
            ),
            (
                "queue_disk_writes_total",
                Counter,
                "Total number of messages that came to be written to disk",
                |row| crate::stats::disk_writes(&row.definition, &row.tally),
            ),
        ],
    );
    let segments = ("stream_segments", Counter, "Total number of stream segment files");
    of_queues(facts, text, segments, |row| row.stream.map(|stream| stream.segments as u64));
}

pub(super) fn delivery(facts: &Facts, text: &mut Text) {
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
        of_queues(facts, text, (name, Counter, help), |row| Some(row.tally.get(count)));
    }
}
