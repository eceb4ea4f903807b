//! A node's use of the machine: its disk, its memory, its files; each figure with how it grows.
//!
//! RabbitMQ's counters of things that are never done here are 0 and stay so.

use crate::counters::Counters;
use crate::history::{Growth, MACHINE_GAUGES, Span, put};
use crate::node::{Condition, Writing};
use serde_json::{Map, Value, json};

/// Names of the figures that only grow, in the order of [`figures`].
const COUNTED: [&str; 5] =
    ["io_read_count", "io_read_bytes", "io_write_count", "io_write_bytes", "io_sync_count"];

/// How long reads and flushes took together, nanoseconds: behind those of `COUNTED`.
const READ_NS: usize = COUNTED.len();
const SYNC_NS: usize = READ_NS + 1;

/// Groups that were flushed: the mean time of a flush is over these.
const SYNC_GROUPS: usize = SYNC_NS + 1;

/// Figures that may shrink come last.
const FIRST_GAUGE: usize = SYNC_GROUPS + 1;

/// Where the files are that are open.
pub(crate) const FILES: usize = FIRST_GAUGE;

/// Where the messages are that came to queues on disk.
const DISK_WRITES: usize = FIRST_GAUGE + 4;

/// Names of the figures that may shrink, in the order of [`figures`].
const SHRINKING: [&str; 4] = ["fd_used", "mem_used", "disk_free", "proc_used"];

/// RabbitMQ's counters of things that are never done here.
const NEVER: [&str; 10] = [
    "gc_bytes_reclaimed",
    "gc_num",
    "io_reopen_count",
    "io_seek_count",
    "mnesia_disk_tx_count",
    "mnesia_ram_tx_count",
    "msg_store_read_count",
    "msg_store_write_count",
    "queue_index_read_count",
    "queue_index_write_count",
];

/// The queues of RabbitMQ's collectors of metrics, always empty: here there are no collectors.
const COLLECTED: [&str; 8] = [
    "channel_closed",
    "channel_consumer_deleted",
    "connection_closed",
    "consumer_deleted",
    "exchange_deleted",
    "node_node_deleted",
    "queue_deleted",
    "vhost_deleted",
];

/// The figures as they are sampled; `disk_writes` messages came to queues on disk.
pub fn figures(writing: &Writing, condition: &Condition, disk_writes: u64) -> Counters {
    let Writing { reads, read_bytes, writes, written_bytes, syncs, .. } = *writing;
    let counted = [reads, read_bytes, writes, written_bytes, syncs];
    let times = [writing.read_ns, writing.flush_sum_ns, writing.groups];
    let gauges: [u64; MACHINE_GAUGES] =
        [condition.files[0], condition.memory_used, condition.disk_free, condition.threads[0], disk_writes];
    counted.into_iter().chain(times).chain(gauges).collect()
}

/// Milliseconds that one took on average.
fn mean_ms(ns: f64, count: f64) -> f64 {
    if count > 0.0 { ns / count / 1e6 } else { 0.0 }
}

/// Adds a node's figures of the machine to an object.
pub(crate) fn put_machine(
    item: &mut Map<String, Value>,
    now: &[u64],
    growth: Growth<'_>,
    span: Option<Span>,
) {
    for (at, name) in COUNTED.into_iter().enumerate() {
        put(item, name, now[at], growth.details(at, span));
    }
    for (at, name) in SHRINKING.into_iter().enumerate() {
        put(item, name, now[FIRST_GAUGE + at], growth.details(FIRST_GAUGE + at, span));
    }
    for name in NEVER {
        put(item, name, 0, json!({ "rate": 0.0 }));
    }
    put(item, "sockets_used", 0, json!({ "rate": 0.0 }));
    // A write and its flush are one here, and timed as one: the time is the flush's, nearly all of it.
    let read = Some((READ_NS, 0));
    let sync = Some((SYNC_NS, SYNC_GROUPS));
    for (name, timed) in [("read", read), ("write", None), ("sync", sync), ("seek", None)] {
        let [whole, lately] = timed.map_or([0.0; 2], |(ns, count)| {
            [mean_ms(now[ns] as f64, now[count] as f64), mean_ms(growth.rate(ns), growth.rate(count))]
        });
        item.insert(format!("io_{name}_avg_time"), whole.into());
        item.insert(format!("io_{name}_avg_time_details"), json!({ "rate": lately }));
    }
    item.insert("metrics_gc_queue_length".to_owned(), COLLECTED.iter().map(|name| (*name, 0)).collect());
}

/// Adds how many messages were read from the disk and written to it to `message_stats`.
pub(crate) fn put_disk(
    stats: &mut Map<String, Value>,
    [reads, writes]: [u64; 2],
    growth: Growth<'_>,
    span: Option<Span>,
) {
    put(stats, "disk_reads", reads, growth.details(0, span));
    let mut details = growth.details(DISK_WRITES, span);
    // Where a queue was deleted fewer are counted, and none was taken back.
    details["rate"] = growth.rate(DISK_WRITES).max(0.0).into();
    put(stats, "disk_writes", writes, details);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_where_they_are_looked_for() {
        let writing = Writing {
            reads: 1,
            read_bytes: 2,
            writes: 3,
            written_bytes: 4,
            syncs: 5,
            read_ns: 6_000_000,
            flush_sum_ns: 70_000_000,
            groups: 7,
            ..Writing::default()
        };
        let condition = Condition {
            files: [8, 99],
            memory_used: 9,
            disk_free: 10,
            threads: [11, 99],
            ..Condition::default()
        };
        let now = figures(&writing, &condition, 12);
        let mut history = crate::History::default();
        let limits = crate::Limits::default();
        let whose = crate::Whose::Machine;
        history.add(10_000, vec![(whose, now.iter().map(|own| own / 2).collect())], &limits);
        history.add(15_000, vec![(whose, now.clone())], &limits);
        let mut item = Map::new();
        put_machine(&mut item, &now, history.of(whose), None);
        put_disk(&mut item, [1, 12], history.of(whose), None);
        for (name, value, rate) in [
            ("io_read_count", 1, 0.2),
            ("io_read_bytes", 2, 0.2),
            ("io_write_count", 3, 0.4),
            ("io_write_bytes", 4, 0.4),
            ("io_sync_count", 5, 0.6),
            ("fd_used", 8, 0.8),
            ("mem_used", 9, 1.0),
            ("disk_free", 10, 1.0),
            ("proc_used", 11, 1.2),
            ("disk_reads", 1, 0.2),
            ("disk_writes", 12, 1.2),
            ("gc_num", 0, 0.0),
        ] {
            let is = (&item[name], &item[&format!("{name}_details")]["rate"]);
            assert_eq!(is, (&json!(value), &json!(rate)), "{name}");
        }
        assert_eq!((&item["io_read_avg_time"], &item["io_sync_avg_time"]), (&json!(6.0), &json!(10.0)));
        assert_eq!(item["io_sync_avg_time_details"], json!({ "rate": 35.0 / 4.0 }));
        assert_eq!(item["metrics_gc_queue_length"]["queue_deleted"], 0);
    }

    #[test]
    fn a_queue_that_is_deleted_takes_no_writes_back() {
        let mut history = crate::History::default();
        for (at_ms, writes) in [(5_000, 50), (10_000, 20)] {
            let now = figures(&Writing::default(), &Condition::default(), writes);
            history.add(at_ms, vec![(crate::Whose::Machine, now)], &crate::Limits::default());
        }
        let mut stats = Map::new();
        put_disk(&mut stats, [0, 20], history.of(crate::Whose::Machine), None);
        assert_eq!(stats["disk_writes_details"], json!({ "rate": 0.0 }));
    }
}
