//! Queues that dead letters go to, found by the rules of all others: `GET /api/x/dead-letters`.
//!
//! A rule with a routing key is followed as a message with that key is; one without leads to all queues that are bound to
//! its exchange, for each letter keeps its own key.

use crate::call::Call;
use crate::node::Node;
use crate::policies;
use crate::response::{Answer, Response};
use base::brief;
use base::id::QueueId;
use broker::catalog::{Catalog, DeadLetterRule, QueueDefinition, VhostId};
use routing::{Destination, Envelope, Matches};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Queues that are looked up at a time.
const LOOK: usize = 500;

/// Queues whose letters go to one that are named.
const SOURCES: usize = 20;

/// Bindings of an exchange that are followed.
const BINDINGS: usize = 1000;

/// A rule by which letters leave some queues: their virtual host, the exchange, and a key if the rule has one.
type Way = (VhostId, Box<str>, Option<Box<str>>);

/// A queue that letters go to.
#[derive(Default)]
struct Target {
    /// Queues that send it letters.
    count: u64,
    sources: Vec<String>,
}

/// See the module.
pub(crate) fn list<N: Node>(call: &Call<'_, N>) -> Answer {
    let targets = found(call)?;
    let ids: Vec<QueueId> = targets.keys().copied().collect();
    let mut definitions: Vec<Arc<QueueDefinition>> = Vec::new();
    for some in ids.chunks(LOOK) {
        let some = some.to_vec();
        definitions.extend(call.node.look(move |catalog| -> Vec<_> {
            some.into_iter().filter_map(|id| catalog.queue(id).cloned()).collect()
        })?);
    }
    let mut rows = call.node.rows_of(&definitions)?;
    base::brief::sort_by_key(&mut rows, |row| std::cmp::Reverse(row.ready + row.unsettled));
    let told = rows.iter().map(|row| {
        let target = targets.get(&row.definition.id);
        json!({
            "vhost": *row.definition.vhost_name,
            "name": *row.definition.name,
            "type": row.definition.queue_type.name(),
            "messages": row.ready + row.unsettled,
            "messages_ready": row.ready,
            "consumers": row.consumers,
            "source_count": target.map(|target| target.count),
            "sources": target.map(|target| &target.sources),
        })
    });
    Ok(Response::ok(&told.collect::<Value>()))
}

/// The queues that letters go to, of the virtual hosts that are asked for.
pub(crate) fn targets<N: Node>(call: &Call<'_, N>) -> Result<BTreeSet<QueueId>, Response> {
    Ok(base::brief::collect(found(call)?.into_keys()))
}

fn found<N: Node>(call: &Call<'_, N>) -> Result<BTreeMap<QueueId, Target>, Response> {
    let seen = policies::asked(call, call.request.asked("vhost"));
    let ways = ways(call, seen.iter().map(|(_, id)| *id).collect())?;
    let mut targets: BTreeMap<QueueId, Target> = BTreeMap::new();
    let asked: Vec<Way> = ways.keys().cloned().collect();
    for some in asked.chunks(LOOK) {
        let some = some.to_vec();
        let found: Vec<(Way, Vec<QueueId>)> = call.node.look(move |catalog| {
            some.into_iter().map(|way| (way.clone(), followed(catalog, &way))).collect()
        })?;
        for (way, queues) in found {
            let Some(sources) = ways.get(&way) else { continue };
            for queue in queues {
                let target = targets.entry(queue).or_default();
                target.count += sources.len() as u64;
                let room = SOURCES.saturating_sub(target.sources.len());
                target.sources.extend(sources.iter().take(room).map(|queue| queue.name.to_string()));
            }
        }
    }
    Ok(targets)
}

/// The rules of all queues by which letters leave them, each with its queues.
fn ways<N: Node>(
    call: &Call<'_, N>,
    vhosts: Vec<VhostId>,
) -> Result<BTreeMap<Way, Vec<Arc<QueueDefinition>>>, Response> {
    let all = call.node.queue_names()?;
    let own: Vec<Arc<QueueDefinition>> =
        all.iter().filter(|queue| !queue.is_stream() && vhosts.contains(&queue.vhost)).cloned().collect();
    let mut ways: BTreeMap<Way, Vec<Arc<QueueDefinition>>> = BTreeMap::new();
    for some in own.chunks(LOOK) {
        let some = some.to_vec();
        type Found = Vec<(Arc<QueueDefinition>, Arc<DeadLetterRule>)>;
        let found: Found = call.node.look(move |catalog| {
            let rule = |queue: Arc<QueueDefinition>| {
                let rule = catalog.rules(&queue).dead_letter?;
                Some((queue, rule))
            };
            some.into_iter().filter_map(rule).collect()
        })?;
        for (queue, rule) in found {
            let way = (queue.vhost, rule.exchange.clone(), rule.routing_key.clone());
            ways.entry(way).or_default().push(queue);
        }
    }
    Ok(ways)
}

/// The queues that letters of a rule may go to.
fn followed(catalog: &Catalog, (vhost, exchange, key): &Way) -> Vec<QueueId> {
    let queue = |destination: &Destination| match destination {
        Destination::Queue(id) => Some(*id),
        Destination::Exchange(_) => None,
    };
    let entry = catalog.exchange(*vhost, exchange.as_bytes());
    // Where more than the key has a part in it, each binding may be theirs.
    let is_by_key = entry.is_none_or(|entry| !entry.exchange.sees_more_than_keys());
    if let Some(key) = key.as_ref().filter(|_| is_by_key) {
        let keys = [key.as_bytes()];
        let mut matches = Matches::default();
        matches.start();
        return match catalog.route(*vhost, exchange.as_bytes(), &Envelope::keyed(&keys), &mut matches) {
            Ok(_) => matches.destinations().iter().filter_map(queue).collect(),
            Err(_) => Vec::new(),
        };
    }
    let mut found = Vec::new();
    if let Some(entry) = entry {
        let mut seen = 0;
        let _ = entry.exchange.visit_bindings(|_, _, destination| {
            found.extend(queue(&destination));
            seen += 1;
            if seen < BINDINGS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    }
    brief::sort(&mut found);
    found.dedup();
    found
}
