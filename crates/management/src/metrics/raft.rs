//! Metrics of the logs of quorum queues, as dashboards read them.

use super::facts::{Detail, Facts};
use super::replicas::OfCatalog;
use super::text::{Kind, Real, Text};
use Kind::{Counter, Gauge};

/// A metric of the catalog's log; none: it is not known.
fn of_catalog(name: &str, own: &OfCatalog) -> Option<f64> {
    match name {
        "raft_term" | "raft_term_total" => Some(own.term as f64),
        "raft_commit_index" | "raft_last_applied" | "raft_log_commit_index" => Some(own.index as f64),
        _ => None,
    }
}

/// Metrics of the logs of quorum queues, as dashboards read them, and of the catalog's.
pub(super) fn raft(facts: &Facts, catalog: Option<&OfCatalog>, text: &mut Text) {
    let latency = facts.writing.sync_ns as f64 / 1e9;
    type Of<'a> = &'a dyn Fn([u64; 2]) -> f64;
    let (start, end): (Of<'_>, Of<'_>) = (&|[start, _]| start as f64, &|[_, end]| end as f64);
    let all: [(&'static str, Kind, &str, Of<'_>); 10] = [
        ("raft_term", Counter, "Current term", &|_| 1.0),
        (
            "raft_commit_latency_seconds",
            Gauge,
            "Approximate time taken from an entry being written to the log until it is committed",
            &|_| latency,
        ),
        ("raft_snapshot_index", Counter, "The current snapshot index", start),
        ("raft_last_written_index", Counter, "The last fully written and fsynced index of the log", end),
        ("raft_commit_index", Counter, "The current commit index", end),
        ("raft_last_applied", Gauge, "The last applied index", end),
        // As boards for RabbitMQ before 4.2 call them.
        ("raft_term_total", Counter, "Current Raft term number", &|_| 1.0),
        ("raft_log_snapshot_index", Gauge, "Raft log snapshot index", start),
        ("raft_log_last_written_index", Gauge, "Raft log last written index", end),
        ("raft_log_commit_index", Gauge, "Raft log commit index", end),
    ];
    for (name, kind, help, of) in all {
        text.family(name, kind, help);
        match facts.detail {
            Detail::Sums => {
                let most = facts.sums.of_queues.quorum.map_or(0.0, of);
                text.sample(&[("module", "rabbit_fifo"), ("ra_system", "quorum_queues")], Real(most));
                let value = catalog.and_then(|own| of_catalog(name, own).map(|value| (own, value)));
                value.into_iter().for_each(|(own, value)| text.sample(&own.labels, Real(value)));
            }
            Detail::Each => {
                for (queue, own) in &facts.queues {
                    let labels = [("queue", &*queue.name), ("vhost", &*queue.vhost_name)];
                    own.quorum.iter().for_each(|range| text.sample(&labels, Real(of(*range))));
                }
            }
        }
    }
    if facts.detail == Detail::Sums {
        text.family("raft_max_commit_latency_seconds", Gauge, "The longest commit latency of all");
        text.sample(
            &[("ra_system", "quorum_queues")],
            Real(facts.sums.of_queues.quorum.map_or(0.0, |_| latency)),
        );
    }
}
