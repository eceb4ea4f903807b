//! The logs that the nodes of a cluster have in common, as each of them has told: `GET /api/x/cluster`.
//!
//! A node tells the others every two seconds how far it is, so what stands here of them is as old as that, and by how much one is
//! behind is exact only where nothing is written.

use crate::call::Call;
use crate::members::{Member, Replica};
use crate::node::{Busy, Node};
use crate::response::{Answer, Response};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The name of the replicas in the words of a node about itself.
pub(crate) const REPLICAS: &str = "replicas";

/// Logs that a node tells the others of, at most: of 4,096, which it may have, its words would be longer than they may be.
const TOLD_MAX: usize = 512;

/// The replicas of a node, as it tells the others of them, the first [`TOLD_MAX`]: log, whether it leads, term and index of the last entry that it has applied.
///
/// # Errors
/// The node did not answer in time.
pub(crate) fn told<N: Node>(node: &N) -> Result<Value, Busy> {
    let row = |own: &Replica| json!([own.log, own.leads, own.applied.0, own.applied.1]);
    Ok(node.replicas()?.all.iter().take(TOLD_MAX).map(row).collect())
}

/// A replica on a node.
struct Told {
    node: String,
    leads: bool,
    term: u64,
    index: u64,
}

/// The replicas in what a node told, by log. Whatever is no row of four is passed over: it came from another node.
fn read(member: &Member) -> Vec<(u64, Told)> {
    let told = member.news.as_ref().filter(|_| member.is_running).map(|news| &news[REPLICAS]);
    let rows = told.and_then(Value::as_array).into_iter().flatten();
    let read = |row: &Value| {
        let [log, leads, term, index] = &row.as_array()?[..] else { return None };
        let node = member.name.clone();
        let told = Told { node, leads: leads.as_bool()?, term: term.as_u64()?, index: index.as_u64()? };
        Some((log.as_u64()?, told))
    };
    rows.filter_map(read).collect()
}

/// `GET /api/x/cluster`.
pub(crate) fn cluster<N: Node>(call: &Call<'_, N>) -> Answer {
    let (own, members) = (&call.node.about().node, call.node.members());
    let mut logs: BTreeMap<u64, Vec<Told>> = BTreeMap::new();
    for member in &members {
        if member.name == *own {
            for Replica { log, leads, applied: (term, index), .. } in call.node.replicas()?.all {
                let told = Told { node: own.clone(), leads, term, index };
                logs.entry(u64::from(log)).or_default().push(told);
            }
            continue;
        }
        for (log, told) in read(member) {
            logs.entry(log).or_default().push(told);
        }
    }
    let lanes = call.node.lanes();
    let node = |member: &Member| {
        let to = lanes.iter().flat_map(|lanes| &lanes.nodes).find(|lanes| lanes.node == member.name);
        let mut row = json!({ "name": member.name, "running": member.is_running });
        if let Some(to) = to {
            row["lanes"] = json!({
                "dialed": to.dialed,
                "open": to.open,
                "sent_bytes": to.sent_bytes,
                "received_bytes": to.received_bytes,
            });
        }
        row
    };
    let logs: Vec<Value> = logs.into_iter().map(|(log, told)| of_log(log, &told)).collect();
    let nodes: Vec<Value> = members.iter().map(node).collect();
    Ok(Response::ok(&json!({ "node": own, "nodes": nodes, "logs": logs })))
}

/// A log: who leads it, and how far each replica is. Of two that say that they lead, the one of the later term does.
fn of_log(log: u64, told: &[Told]) -> Value {
    let leader = told.iter().filter(|own| own.leads).max_by_key(|own| own.term);
    let last = told.iter().map(|own| own.index).max().unwrap_or_default();
    let member = |own: &Told| json!({ "node": own.node, "term": own.term, "index": own.index, "behind": last - own.index });
    json!({
        "log": log,
        "has_catalog": log == 0,
        "leader": leader.map(|own| &own.node),
        "term": told.iter().map(|own| own.term).max(),
        "members": told.iter().map(member).collect::<Vec<_>>(),
    })
}
