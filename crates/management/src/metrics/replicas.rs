//! Metrics of a node of a cluster: its replicas of logs, and its lanes to other nodes. One that is alone has none.

use super::text::{Kind, Text};
use crate::members::{Lanes, LanesTo, Replica, Replicas};
use crate::node::{Busy, Node};
use Kind::{Counter, Gauge};

/// The log of the catalog, which RabbitMQ has in Khepri.
const CATALOG: u32 = 0;

/// Labels of its metrics there.
const KHEPRI: [(&str, &str); 2] = [("module", "rabbit_khepri"), ("ra_system", "coordination")];

/// The term and the index of a log, as metrics of RabbitMQ's Raft have them.
pub(super) struct OfCatalog {
    pub(super) labels: [(&'static str, &'static str); 2],
    pub(super) term: u64,
    pub(super) index: u64,
}

/// Those of the catalog's log, where nodes agree on it.
pub(super) fn of_catalog<N: Node>(node: &N) -> Result<Option<OfCatalog>, Busy> {
    let replica = node.replicas()?.all.into_iter().find(|replica| replica.log == CATALOG);
    Ok(replica.map(|Replica { applied: (term, index), .. }| OfCatalog { labels: KHEPRI, term, index }))
}

/// Our own: replicas and lanes.
pub(super) fn replicas<N: Node>(node: &N, text: &mut Text) -> Result<(), Busy> {
    let Replicas { all, leads_begun, leads_ended } = node.replicas()?;
    if all.is_empty() {
        return Ok(());
    }
    type Of<'a> = &'a dyn Fn(&Replica) -> u64;
    let each: [(&'static str, Kind, &str, Of<'_>); 4] = [
        ("leveret_log_leads", Gauge, "1 if this node leads the log", &|own| u64::from(own.leads)),
        ("leveret_log_has_leader", Gauge, "1 if some node is known to lead the log", &|own| {
            u64::from(own.has_leader)
        }),
        ("leveret_log_term", Counter, "Term of the last entry of the log that was applied", &|own| {
            own.applied.0
        }),
        (
            "leveret_log_applied_index",
            Counter,
            "Index of the last entry of the log that was applied",
            &|own| own.applied.1,
        ),
    ];
    for (name, kind, help, of) in each {
        text.family(name, kind, help);
        all.iter().for_each(|own| text.sample(&[("log", &own.log.to_string())], of(own)));
    }
    text.one(
        "leveret_log_leads_begun_total",
        Counter,
        "Times that this node began to lead a log",
        leads_begun,
    );
    text.one("leveret_log_leads_ended_total", Counter, "Times that it ceased to", leads_ended);
    lanes(node.lanes().unwrap_or_default(), text);
    Ok(())
}

fn lanes(Lanes { nodes, dropped }: Lanes, text: &mut Text) {
    type Of<'a> = &'a dyn Fn(&LanesTo) -> u64;
    let each: [(&'static str, Kind, &str, Of<'_>); 4] = [
        ("leveret_lanes", Gauge, "Lanes that this node has to another one", &|own| own.dialed),
        ("leveret_lanes_open", Gauge, "Lanes that are open", &|own| own.open),
        ("leveret_lanes_sent_bytes_total", Counter, "Bytes sent on lanes", &|own| own.sent_bytes),
        ("leveret_lanes_received_bytes_total", Counter, "Bytes received on lanes", &|own| own.received_bytes),
    ];
    for (name, kind, help, of) in each {
        text.family(name, kind, help);
        nodes.iter().for_each(|own| text.sample(&[("peer", &own.node)], of(own)));
    }
    text.family(
        "leveret_lane_words_dropped_total",
        Counter,
        "Words to other nodes, or of them, that were dropped",
    );
    dropped.iter().for_each(|(reason, count)| text.sample(&[("reason", reason)], count));
}
