//! A picture of a virtual host: its exchanges and queues, what binds them, and how much goes where:
//! `GET /api/x/topology`.
//!
//! Numbers are counted ones: how much an exchange routed to a queue is what channels that are open remember. Some hundred
//! things are told, those whose names begin as is asked first in the order of names; the answer says how many there are.

use crate::call::Call;
use crate::counters::{DELIVER_GET, MESSAGES};
use crate::history::Whose;
use crate::node::Node;
use crate::peek;
use crate::response::{Answer, Response};
use base::id::QueueId;
use broker::Count;
use broker::catalog::{Binding, Destination, ExchangeDefinition, QueueDefinition, VhostId};
use routing::ExchangeId;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Things that are told of each kind where nothing else is asked for.
const MOST: u32 = 300;

/// Queues whose bindings are taken at a time.
const LOOK: usize = 500;

/// Keys of the bindings between two things that are told.
const KEYS: usize = 5;

/// All bindings between two things.
#[derive(Default)]
struct Edge {
    count: u64,
    keys: Vec<String>,
}

/// From an exchange to a queue or an exchange.
type Ends = (ExchangeId, Destination);

type Edges = BTreeMap<Ends, Edge>;

/// See the module.
pub(crate) fn topology<N: Node>(call: &Call<'_, N>) -> Answer {
    let limits = &call.node.about().limits;
    let vhost = call.request.asked("vhost").ok_or_else(|| Response::missing_key("vhost"))?;
    if !call.caller.sees(vhost) {
        return Err(Response::not_found());
    }
    let id = call.caller.vhost(vhost)?;
    let most = peek::asked(call, "most", MOST, limits.topology_things_max)? as usize;
    let prefix = call.request.asked("prefix").unwrap_or_default();
    let names = call.node.queue_names()?;
    let queues: Vec<Arc<QueueDefinition>> =
        names.iter().filter(|queue| queue.vhost == id && queue.name.starts_with(prefix)).cloned().collect();
    let queue_count = queues.len();
    let queues: Vec<_> = queues.into_iter().take(most).collect();
    let (exchanges, mut edges) = exchanges(call, id)?;
    for some in queues.chunks(LOOK) {
        let ids: Vec<QueueId> = some.iter().map(|queue| queue.id).collect();
        let taken: Vec<Vec<Arc<Binding>>> = call.node.look(move |catalog| {
            ids.into_iter().map(|id| catalog.queue_bindings(id).take(most).cloned().collect()).collect()
        })?;
        taken.iter().flatten().for_each(|binding| add(&mut edges, binding));
    }
    let (exchanges, exchange_count) = chosen(exchanges, &edges, prefix, most);
    let routed = routed(call, vhost)?;
    let exchange_names: BTreeMap<ExchangeId, &str> =
        base::brief::collect(exchanges.iter().map(|exchange| (exchange.id, &*exchange.name)));
    let queue_names: BTreeMap<QueueId, &str> =
        base::brief::collect(queues.iter().map(|queue| (queue.id, &*queue.name)));
    let edges = edges.iter().filter_map(|((source, destination), edge)| {
        let source = exchange_names.get(source)?;
        let (kind, name, count) = match destination {
            Destination::Queue(id) => {
                ("queue", queue_names.get(id)?, routed.get(&((*source).to_owned(), *id)).copied())
            }
            Destination::Exchange(id) => ("exchange", exchange_names.get(id)?, None),
        };
        Some(json!({
            "source": source,
            "destination": name,
            "destination_type": kind,
            "bindings": edge.count,
            "keys": edge.keys,
            "routed": count,
        }))
    });
    let edges: Vec<Value> = edges.collect();
    Ok(Response::ok(&json!({
        "vhost": vhost,
        "exchanges": exchange_rows(call, &exchanges),
        "queues": queue_rows(call, &queues)?,
        "edges": edges,
        "exchange_count": exchange_count,
        "queue_count": queue_count,
    })))
}

/// The exchanges of a virtual host but for the default one, which leads to every queue, and what binds exchanges.
fn exchanges<N: Node>(
    call: &Call<'_, N>,
    vhost: VhostId,
) -> Result<(Vec<Arc<ExchangeDefinition>>, Edges), Response> {
    type Taken = Vec<(Arc<ExchangeDefinition>, Vec<Arc<Binding>>)>;
    let taken: Taken = call.node.look(move |catalog| {
        let each = catalog.exchanges(vhost).into_iter().filter(|exchange| !exchange.name.is_empty());
        each.map(|exchange| (exchange.clone(), catalog.exchange_bindings(exchange.id).cloned().collect()))
            .collect()
    })?;
    let mut edges = BTreeMap::new();
    taken.iter().flat_map(|(_, own)| own).for_each(|binding| add(&mut edges, binding));
    Ok((taken.into_iter().map(|(exchange, _)| exchange).collect(), edges))
}

fn add(edges: &mut Edges, binding: &Binding) {
    let edge = edges.entry((binding.source, binding.destination)).or_default();
    edge.count += 1;
    if edge.keys.len() < KEYS {
        edge.keys.push(binding.key.to_string());
    }
}

/// Of exchanges those that are shown, and how many there would be: those whose names begin so, and those that lead to a
/// queue that is shown. Those that are there without anybody's doing are shown where they lead somewhere.
fn chosen(
    all: Vec<Arc<ExchangeDefinition>>,
    edges: &Edges,
    prefix: &str,
    most: usize,
) -> (Vec<Arc<ExchangeDefinition>>, usize) {
    let is_used = |id: ExchangeId| {
        edges.keys().any(|(source, destination)| *source == id || *destination == Destination::Exchange(id))
    };
    let leads = |id: ExchangeId| edges.keys().any(|(source, _)| *source == id);
    let is_wanted = |exchange: &Arc<ExchangeDefinition>| {
        let is_named = exchange.name.starts_with(prefix) && !exchange.name.starts_with("amq.");
        is_named || if prefix.is_empty() { is_used(exchange.id) } else { leads(exchange.id) }
    };
    let mut wanted: Vec<_> = all.into_iter().filter(is_wanted).collect();
    base::brief::sort_by(&mut wanted, |a, b| a.name.cmp(&b.name));
    let count = wanted.len();
    wanted.truncate(most);
    (wanted, count)
}

/// Messages by exchange and queue that they were routed to, as far as open channels remember.
fn routed<N: Node>(call: &Call<'_, N>, vhost: &str) -> Result<BTreeMap<(String, QueueId), u64>, Response> {
    let mut sums = BTreeMap::new();
    for (_, opened) in call.node.opened()?.iter().filter(|(_, opened)| opened.vhost == vhost) {
        for (exchange, queue, count) in opened.channels.iter().flat_map(|channel| &channel.routes) {
            *sums.entry((exchange.to_string(), *queue)).or_default() += count;
        }
    }
    Ok(sums)
}

fn exchange_rows<N: Node>(call: &Call<'_, N>, exchanges: &[Arc<ExchangeDefinition>]) -> Vec<Value> {
    call.node.history(|history| {
        let row = |exchange: &Arc<ExchangeDefinition>| {
            let growth = history.of(Whose::Exchange(exchange.id));
            json!({
                "name": *exchange.name,
                "type": exchange.kind.name(),
                "in_rate": growth.rate(0),
                "out_rate": growth.rate(1),
                "alternate": exchange.arguments.get(b"alternate-exchange").and_then(|own| {
                    if let routing::Argument::Text(text) = own { Some(String::from_utf8_lossy(text).into_owned()) } else { None }
                }),
            })
        };
        exchanges.iter().map(row).collect()
    })
}

fn queue_rows<N: Node>(call: &Call<'_, N>, queues: &[Arc<QueueDefinition>]) -> Result<Vec<Value>, Response> {
    let rows = call.node.rows_of(queues)?;
    Ok(call.node.history(|history| {
        let row = |row: &broker::QueueRow| {
            let growth = history.of(Whose::Queue(row.definition.id));
            json!({
                "name": *row.definition.name,
                "type": row.definition.queue_type.name(),
                "messages": row.ready + row.unsettled,
                "consumers": row.consumers,
                "in_rate": growth.rate(Count::Publish as usize),
                "out_rate": growth.rate(DELIVER_GET),
                "growth_rate": growth.rate(MESSAGES) + growth.rate(MESSAGES + 1),
            })
        };
        rows.iter().map(row).collect()
    }))
}
