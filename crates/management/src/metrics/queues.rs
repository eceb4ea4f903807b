//! Metrics of queues: of each, or of all together.

use super::facts::{Detail, Facts};
use super::figures::Figures;
use super::text::{Kind, Real, Text};
use Kind::{Counter, Gauge};
use broker::Count;
use filter::Counts;
use std::fmt::Display;

/// A metric of queues: its name, its type, its line of help, and its value.
type Metric = (&'static str, Kind, &'static str, fn(&Figures) -> u64);

/// A metric of queues: of each, or of all together.
fn of_queues<V: Display + Default>(
    facts: &Facts,
    text: &mut Text,
    (name, kind, help): (&'static str, Kind, &str),
    of: impl Fn(&Figures) -> Option<V>,
) {
    text.family(name, kind, help);
    match facts.detail {
        Detail::Sums => text.sample(&[], of(&facts.sums.of_queues).unwrap_or_default()),
        Detail::Each => {
            for (queue, own) in &facts.queues {
                let labels = [("vhost", &*queue.vhost_name), ("queue", &*queue.name)];
                if let Some(value) = of(own) {
                    text.sample(&labels, value);
                }
            }
        }
    }
}

fn all_of(facts: &Facts, text: &mut Text, metrics: &[Metric]) {
    for (name, kind, help, of) in metrics {
        of_queues(facts, text, (name, *kind, help), |own| Some(of(own)));
    }
}

pub(super) fn coarse(facts: &Facts, text: &mut Text) {
    all_of(
        facts,
        text,
        &[
            ("queue_messages_ready", Gauge, "Messages ready to be delivered to consumers", |own| own.ready),
            (
                "queue_messages_unacked",
                Gauge,
                "Messages delivered to consumers but not yet acknowledged",
                |own| own.unsettled,
            ),
            (
                "queue_messages",
                Gauge,
                "Sum of ready and unacknowledged messages - total queue depth",
                |own| own.ready + own.unsettled,
            ),
            ("queue_process_reductions_total", Counter, "Nothing: Erlang's unit of work", |_| 0),
        ],
    );
}

/// The type of each queue.
pub(super) fn info(facts: &Facts, text: &mut Text) {
    text.family(
        "queue_info",
        Gauge,
        "A metric with a constant '1' value and labels that provide some queue details",
    );
    for (queue, _) in &facts.queues {
        let labels = [
            ("vhost", &*queue.vhost_name),
            ("queue", &*queue.name),
            ("queue_type", queue.queue_type.module()),
            ("membership", "leader"),
        ];
        text.sample(&labels, 1);
    }
}

pub(super) fn consumers(facts: &Facts, text: &mut Text) {
    all_of(facts, text, &[("queue_consumers", Gauge, "Consumers on a queue", |own| own.consumers)]);
}

/// Counts of the filters of readers, of each stream.
fn of_filters(facts: &Facts, text: &mut Text) {
    let metrics = [
        (
            "leveret_stream_filter_messages_total",
            "Messages of streams that expressions of readers were asked of, by each reader",
            (|own| own.messages) as fn(&Counts) -> u64,
        ),
        (
            "leveret_stream_filter_unreadable_total",
            "Of those, messages whose body could not be read as far as was needed",
            |own| own.unreadable,
        ),
    ];
    for (name, help, of) in metrics {
        of_queues(facts, text, (name, Counter, help), |own| own.stream.map(|_| of(&own.filtered)));
    }
}

pub(super) fn queue(facts: &Facts, text: &mut Text) {
    consumers(facts, text);
    let capacities = [
        ("queue_consumer_capacity", Gauge, "Consumer capacity"),
        ("queue_consumer_utilisation", Gauge, "Same as consumer capacity"),
    ];
    for metric in capacities {
        of_queues(facts, text, metric, |own| Some(Real(own.capacity)));
    }
    all_of(
        facts,
        text,
        &[
            ("queue_process_memory_bytes", Gauge, "Memory in bytes used by the queue", |own| {
                own.memory_bytes
            }),
            // Of messages memory holds the log's latest alone, of all queues together: those count here that would be
            // gone after a restart.
            (
                "queue_messages_ram",
                Gauge,
                "Ready and unacknowledged messages stored in memory alone",
                |own| own.kept[1],
            ),
            (
                "queue_messages_ram_bytes",
                Gauge,
                "Size of ready and unacknowledged messages stored in memory alone",
                |own| own.kept_bytes[1],
            ),
            ("queue_messages_ready_ram", Gauge, "Ready messages stored in memory alone", |own| own.lost[0]),
            ("queue_messages_unacked_ram", Gauge, "Unacknowledged messages stored in memory alone", |own| {
                own.lost[1]
            }),
            ("queue_messages_persistent", Gauge, "Messages that survive a restart", |own| own.kept[0]),
            (
                "queue_messages_persistent_bytes",
                Gauge,
                "Size in bytes of messages that survive a restart",
                |own| own.kept_bytes[0],
            ),
            ("queue_messages_bytes", Gauge, "Size in bytes of ready and unacknowledged messages", |own| {
                own.bytes.iter().sum()
            }),
            ("queue_messages_ready_bytes", Gauge, "Size in bytes of ready messages", |own| own.bytes[0]),
            ("queue_messages_unacked_bytes", Gauge, "Size in bytes of all unacknowledged messages", |own| {
                own.bytes[1]
            }),
        ],
    );
    of_filters(facts, text);
    // A moment, which does not add up: it is told of each queue alone.
    let head = ("queue_head_message_timestamp", Gauge, "Timestamp of the first message in the queue, if any");
    match facts.detail {
        Detail::Sums => text.family(head.0, head.1, head.2),
        Detail::Each => of_queues(facts, text, head, |own| {
            Some(own.head_timestamp_s.map_or(f64::NAN, |seconds| seconds as f64))
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
                |own| own.disk_writes,
            ),
        ],
    );
    let segments = ("stream_segments", Counter, "Total number of stream segment files");
    of_queues(facts, text, segments, |own| own.stream.map(|[segments, _]| segments));
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
        of_queues(facts, text, (name, Counter, help), |own| Some(own.tally.get(count)));
    }
    let help = "Total number of deliveries that came back to a queue because their lease was over";
    all_of(facts, text, &[("leveret_queue_lease_expiries_total", Counter, help, |own| own.leases_over)]);
    let help = "Total number of consumers that barriers of a queue passed over, for they had no room";
    all_of(
        facts,
        text,
        &[
            ("leveret_queue_barriers", Gauge, "Messages in a queue that are barriers", |own| own.barriers),
            ("leveret_queue_barriers_passed_over_total", Counter, help, |own| own.passed_over),
        ],
    );
}
