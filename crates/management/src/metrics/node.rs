//! Metrics of the node: connections that came and went, files, memory, disk, logins, turns.

use super::facts::Facts;
use super::text::{Kind, Real, Text};
use crate::node::Node;
use Kind::{Counter, Gauge, Histogram};
use broker::Protocol;

pub(super) fn churn(facts: &Facts, text: &mut Text) {
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

pub(super) fn node<N: Node>(node: &N, text: &mut Text) {
    let now = node.condition();
    let [_, most] = now.files;
    text.one("process_max_fds", Gauge, "Open file descriptors limit", most.min(u64::from(u32::MAX)));
    text.one("resident_memory_limit_bytes", Gauge, "Memory high watermark in bytes", now.memory_limit);
    text.one(
        "disk_space_available_limit_bytes",
        Gauge,
        "Free disk space low watermark in bytes",
        now.disk_limit,
    );
    text.one("erlang_uptime_seconds", Gauge, "Node uptime", now.uptime_ms as f64 / 1000.0);
}

pub(super) fn coarse<N: Node>(node: &N, text: &mut Text) {
    let now = node.condition();
    let [open, _] = now.files;
    text.one("process_open_fds", Gauge, "Open file descriptors", open);
    text.one("process_resident_memory_bytes", Gauge, "Memory used in bytes", now.memory_used);
    text.one("disk_space_available_bytes", Gauge, "Disk space available in bytes", now.disk_free);
}

/// Where nothing is counted because nothing of the kind is done the value is 0, as RabbitMQ 4 has it.
pub(super) fn persister(facts: &Facts, text: &mut Text) {
    let writing = &facts.writing;
    for (name, help, value) in [
        ("io_read_ops_total", "Total number of I/O read operations", writing.reads),
        ("io_read_bytes_total", "Total number of I/O bytes read", writing.read_bytes),
        ("io_write_ops_total", "Total number of I/O write operations", writing.writes),
        ("io_write_bytes_total", "Total number of I/O bytes written", writing.written_bytes),
        ("io_sync_ops_total", "Total number of I/O sync operations", writing.syncs),
        ("io_seek_ops_total", "Total number of I/O seek operations", 0),
        ("io_reopen_ops_total", "Total number of times files have been reopened", 0),
        ("schema_db_ram_tx_total", "Total number of Schema DB memory transactions", 0),
        ("schema_db_disk_tx_total", "Total number of Schema DB disk transactions", 0),
        ("msg_store_read_total", "Total number of Message Store read operations", 0),
        ("msg_store_write_total", "Total number of Message Store write operations", 0),
        ("queue_index_read_ops_total", "Total number of Queue Index read operations", 0),
        ("queue_index_write_ops_total", "Total number of Queue Index write operations", 0),
    ] {
        text.one(name, Counter, help, value);
    }
    // A write and its flush are one here, and timed as one: the time is the flush's, nearly all of it.
    for (name, help, ns) in [
        ("io_read_time_seconds_total", "Total I/O read time", writing.read_ns),
        ("io_write_time_seconds_total", "Total I/O write time", 0),
        ("io_sync_time_seconds_total", "Total I/O sync time", writing.flush_sum_ns),
        ("io_seek_time_seconds_total", "Total I/O seek time", 0),
    ] {
        text.one(name, Counter, help, Real(ns as f64 / 1e9));
    }
}

pub(super) fn auth<N: Node>(node: &N, facts: &Facts, text: &mut Text) {
    let mut logins: Vec<(&str, [u64; 2])> = Protocol::ALL
        .iter()
        .map(|protocol| (protocol.label(), facts.survey.protocols[*protocol as usize].logins))
        .collect();
    logins.push(("http", node.logins()));
    for (name, help, of) in [
        (
            "auth_attempts_total",
            "Total number of authorization attempts",
            (|own| own[0]) as fn([u64; 2]) -> u64,
        ),
        ("auth_attempts_succeeded_total", "Total number of successful authentication attempts", |own| {
            // They are read one after the other, while others count.
            own[0].saturating_sub(own[1])
        }),
        ("auth_attempts_failed_total", "Total number of failed authentication attempts", |own| own[1]),
    ] {
        text.family(name, Counter, help);
        for (protocol, own) in &logins {
            text.sample(&[("protocol", protocol)], of(*own));
        }
    }
}

/// The guard of passwords.
pub(super) fn guesses<N: Node>(node: &N, text: &mut Text) {
    let counts = node.about().guard.counts(node.now());
    text.family(
        "leveret_logins_held_back_total",
        Counter,
        "Logins that were refused without a look at the password, by what was at its bound",
    );
    let held = [
        ("account", counts.held_by_account),
        ("address", counts.held_by_origin),
        ("work", counts.held_by_work),
    ];
    for (by, count) in held {
        text.sample(&[("by", by)], count);
    }
    text.family(
        "leveret_guessed",
        Gauge,
        "Accounts and addresses with wrong passwords that still count against them",
    );
    for (what, count) in [("account", counts.accounts), ("address", counts.origins)] {
        text.sample(&[("of", what)], count as u64);
    }
    let help = "Pairs of account and address that logged in within a day";
    text.one("leveret_known_origins", Gauge, help, counts.known as u64);
}

/// The ledger of memory.
pub(super) fn ledger<N: Node>(node: &N, text: &mut Text) {
    let ledger = &node.about().ledger;
    let help = "Bytes of memory that connections hold: transactions, unfinished bodies, output and the like";
    text.one("leveret_connections_held_bytes", Gauge, help, ledger.held());
    let help = "Requests for memory that were refused, as a connection, a user, a virtual host or the node held what it may";
    text.one("leveret_memory_refusals_total", Counter, help, ledger.refusals());
}

/// By client: not told apart, which with RabbitMQ has to be turned on.
pub(super) fn auth_detailed(text: &mut Text) {
    for (name, help) in [
        ("auth_attempts_detailed_total", "Total number of authentication attempts with source info"),
        (
            "auth_attempts_detailed_succeeded_total",
            "Total number of successful authentication attempts with source info",
        ),
        (
            "auth_attempts_detailed_failed_total",
            "Total number of failed authentication attempts with source info",
        ),
    ] {
        text.family(name, Counter, help);
    }
}

pub(super) fn alarms<N: Node>(node: &N, text: &mut Text) {
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
        node.members().iter().filter(|member| !member.is_running).count(),
    );
}

/// Our own: requests to the disk, and how long they take.
pub(super) fn flushes(facts: &Facts, text: &mut Text) {
    let writing = &facts.writing;
    text.one(
        "leveret_commits_total",
        Counter,
        "Groups of batches that were committed, each with one write and one flush",
        writing.groups,
    );
    text.one(
        "leveret_pattern_matches_given_up_total",
        Counter,
        "Matches of patterns of permissions and policies that took too many steps and counted as none",
        broker::access::given_up().0,
    );
    text.one("leveret_batches_total", Counter, "Batches of logs that were committed", writing.batches);
    text.family(
        "leveret_flush_seconds",
        Histogram,
        "How long committing a group takes: its write and its flush",
    );
    let bounds = crate::node::FLUSH_BOUNDS_US.iter().map(|us| *us as f64 / 1e6);
    text.buckets(&[], bounds, &writing.flushes, writing.flush_sum_ns as f64 / 1e9);
    text.one(
        "leveret_flush_longest_seconds",
        Gauge,
        "The longest that committing a group took since the node started",
        Real(writing.flush_longest_ns as f64 / 1e9),
    );
    text.family("leveret_commit_bytes", Histogram, "Bytes of records that are committed together");
    text.buckets(&[], crate::node::COMMIT_BOUNDS.iter(), &writing.commits, writing.record_bytes);
}

/// Our own: how long the turns of shards take, and how long looks at them like this one.
pub(super) fn turns(facts: &Facts, text: &mut Text) {
    let shards: Vec<String> = (0..facts.turns.len()).map(|shard| shard.to_string()).collect();
    let each = || shards.iter().zip(&facts.turns);
    text.family(
        "leveret_turn_seconds",
        Histogram,
        "How long turns of a shard's loop take, flushes done in them included",
    );
    for (shard, own) in each() {
        let bounds = crate::node::TURN_BOUNDS_US.iter().map(|us| *us as f64 / 1e6);
        text.buckets(&[("shard", shard)], bounds, &own.groups, own.sum_ns as f64 / 1e9);
    }
    text.family("leveret_turn_longest_seconds", Gauge, "The longest turn of the last half minute to minute");
    each().for_each(|(shard, own)| text.sample(&[("shard", shard)], own.longest_ns as f64 / 1e9));
    text.family(
        "leveret_look_longest_seconds",
        Gauge,
        "The longest that somebody who asked held up a turn in the last half minute to minute",
    );
    each().for_each(|(shard, own)| text.sample(&[("shard", shard)], own.longest_look_ns as f64 / 1e9));
    text.family(
        "leveret_look_longest_work_seconds",
        Gauge,
        "The longest that a shard had a processor for somebody who asked, in the last half minute to minute",
    );
    each().for_each(|(shard, own)| text.sample(&[("shard", shard)], own.longest_look_work_ns as f64 / 1e9));
    text.family(
        "leveret_turn_work_units_total",
        Counter,
        "Units of work of connections in turns: commands whose cost has no other bound",
    );
    each().for_each(|(shard, own)| text.sample(&[("shard", shard)], own.work));
    text.family(
        "leveret_turn_work_units",
        Gauge,
        "Units of work that a turn has, by how long units took before; beyond them connections wait",
    );
    each().for_each(|(shard, own)| text.sample(&[("shard", shard)], own.work_max));
}
