//! Where a message would go, and why not elsewhere: routing without a message.

use crate::body::Body;
use crate::call::Call;
use crate::exchanges::named;
use crate::json;
use crate::messages::{payload, properties};
use crate::node::Node;
use crate::response::{Answer, Response};
use base::brief;
use broker::Content;
use broker::catalog::{Catalog, Refusal, ReplyCode, VhostId};
use broker::fields::Fields091;
use message::amqp091::Properties;
use message::record::{Format, flag};
use routing::{Arguments, Binding, Destination, Envelope, Exchange, Kind, Matches, X_FILTER};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The message is of AMQP 0-9-1; deaths that its headers tell of count, so that the way of a dead letter can be asked for.
const AS_TOLD: (Format, u8) = (Format::Amqp091, flag::DEATHS);

/// Names that are looked up in one turn of a shard.
const NAMES_TURN: usize = 1000;

/// A binding of the exchange, as it is shown.
struct Seen {
    destination: String,
    to_exchange: bool,
    key: String,
    arguments: Arguments,
    /// The message goes there, by this binding or by another.
    is_reached: bool,
    /// By this one.
    is_matched: bool,
    /// It would, were it not for the filter.
    is_filtered: bool,
}

/// The part of the catalog that is read at once: as much work as publishing the message, and some bindings. The rest is
/// found out later, on another thread.
struct Taken {
    /// The exchange's rule of routing.
    kind: Kind,
    /// Somewhere on its way the message would be kept for later first.
    is_held: bool,
    /// It is the exchange itself that keeps messages.
    keeps: bool,
    destinations: Vec<Destination>,
    bindings: Vec<Binding>,
    /// There are more bindings than were taken.
    has_more: bool,
}

/// `POST /api/x/exchanges/VHOST/NAME/route`.
pub(crate) fn route<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let body = Body::read(&call.request.body)?;
    let key = body.need_text("routing_key")?.to_owned();
    let raw = properties(&body.object("properties")?)?;
    let encoding = body.text("payload_encoding")?.unwrap_or("string");
    let payload: Arc<[u8]> = payload(body.text("payload")?.unwrap_or_default(), encoding)?.into();
    let now_ms = call.node.now_ms();
    let properties = Properties::read(&raw).map_err(|_| Response::not_found())?;
    let (id, exchange) = (call.caller.vhost(vhost)?, named(name).to_owned());
    let most = call.node.about().limits.trial_bindings_max;
    let (asked, fields, content) = (key.clone(), raw.clone(), payload.clone());
    let taken = call
        .node
        .look(move |catalog| take(catalog, (id, &exchange), &asked, (&fields, &content, now_ms), most))?;
    let mut taken = match taken.ok_or_else(Response::not_found)? {
        Ok(taken) => taken,
        Err(refusal) if refusal.code == ReplyCode::NotFound => return Err(Response::not_found()),
        Err(refusal) => return Err(Response::refused(&refusal)),
    };
    base::brief::sort_by(&mut taken.bindings, |a, b| (&a.key, a.destination).cmp(&(&b.key, b.destination)));
    let reached: BTreeSet<Destination> = base::brief::collect(taken.destinations.iter().copied());
    let bound = taken.bindings.iter().map(|binding| binding.destination);
    let names = names(call, reached.iter().copied().chain(bound).collect())?;
    let (mut queues, mut through) = (Vec::new(), Vec::new());
    for destination in &taken.destinations {
        let list = match destination {
            Destination::Queue(_) => &mut queues,
            Destination::Exchange(_) => &mut through,
        };
        list.extend(names.get(destination).cloned());
    }
    brief::sort(&mut queues);
    let keys = [key.as_bytes()];
    let (head, payload) = ([&raw[..]], [&payload[..]]);
    let content = &Content::new(AS_TOLD, (named(name).as_bytes(), key.as_bytes()), (&head, &payload));
    let message = Envelope { keys: &keys, headers: &Fields091(&properties), roll: 0, content, now_ms };
    let rows = taken.bindings.into_iter().filter_map(|binding| {
        let leads = |arguments: Arguments| {
            let mut alone = Exchange::new(taken.kind);
            alone.bind(&*binding.key, arguments, binding.destination);
            let mut own = Matches::default();
            own.start();
            alone.route(&message, &mut own);
            !own.destinations().is_empty()
        };
        let is_matched = leads(binding.arguments.clone());
        let has_filter = binding.arguments.get(X_FILTER).is_some();
        let others = || binding.arguments.iter().filter(|(name, _)| *name != X_FILTER);
        let without = || others().map(|(name, value)| (Box::<[u8]>::from(name), value.to_value())).collect();
        Some(Seen {
            destination: names.get(&binding.destination)?.clone(),
            to_exchange: matches!(binding.destination, Destination::Exchange(_)),
            key: String::from_utf8_lossy(&binding.key).into_owned(),
            is_reached: reached.contains(&binding.destination),
            is_matched,
            is_filtered: has_filter && !is_matched && leads(without()),
            arguments: binding.arguments,
        })
    });
    let told = if taken.is_held && taken.keeps { Kind::Delayed } else { taken.kind };
    let bindings: Vec<Value> = rows.map(|seen| shown(&seen, told, &key)).collect();
    Ok(Response::ok(&json!({
        "routed": !queues.is_empty(),
        "queues": queues,
        "through": through,
        "delayed": taken.is_held,
        "bindings": bindings,
        "has_more_bindings": taken.has_more,
    })))
}

fn take(
    catalog: &Catalog,
    (vhost, exchange): (VhostId, &str),
    key: &str,
    (raw, payload, now_ms): (&[u8], &[u8], u64),
    most: usize,
) -> Option<Result<Taken, Refusal>> {
    let properties = Properties::read(raw).ok()?;
    let keys = [key.as_bytes()];
    let (head, body) = ([raw], [payload]);
    let content = &Content::new(AS_TOLD, (exchange.as_bytes(), key.as_bytes()), (&head, &body));
    let message = Envelope { keys: &keys, headers: &Fields091(&properties), roll: 0, content, now_ms };
    let mut matches = Matches::default();
    matches.start();
    if let Err(refusal) = catalog.route(vhost, exchange.as_bytes(), &message, &mut matches) {
        return Some(Err(refusal));
    }
    let mut taken = Taken {
        kind: Kind::Direct,
        is_held: !matches.held().is_empty(),
        keeps: false,
        destinations: matches.destinations().to_vec(),
        bindings: Vec::new(),
        has_more: false,
    };
    // The default exchange has a binding for each queue, which says nothing.
    let Some(entry) = catalog.exchange(vhost, exchange.as_bytes()).filter(|_| !exchange.is_empty()) else {
        return Some(Ok(taken));
    };
    taken.keeps = entry.definition.kind == Kind::Delayed;
    taken.kind = entry.exchange.kind();
    taken.has_more = entry
        .exchange
        .visit_bindings(|key, arguments, destination| {
            if taken.bindings.len() == most {
                return ControlFlow::Break(());
            }
            taken.bindings.push(Binding { key: key.into(), arguments: arguments.clone(), destination });
            ControlFlow::Continue(())
        })
        .is_break();
    Some(Ok(taken))
}

/// The names of these, but for those that are gone.
fn names<N: Node>(
    call: &Call<'_, N>,
    asked: BTreeSet<Destination>,
) -> Result<BTreeMap<Destination, String>, Response> {
    let asked: Vec<Destination> = asked.into_iter().collect();
    let mut names = BTreeMap::new();
    for some in asked.chunks(NAMES_TURN) {
        let some = some.to_vec();
        names.extend(call.node.look(move |catalog| {
            let name = |destination: &Destination| match destination {
                Destination::Queue(id) => catalog.queue(*id).map(|queue| queue.name.to_string()),
                Destination::Exchange(id) => {
                    catalog.exchange_by_id(*id).map(|entry| entry.definition.name.to_string())
                }
            };
            some.iter().filter_map(|own| Some((*own, name(own)?))).collect::<Vec<_>>()
        })?);
    }
    Ok(names)
}

fn shown(seen: &Seen, kind: Kind, key: &str) -> Value {
    json!({
        "destination": seen.destination,
        "destination_type": if seen.to_exchange { "exchange" } else { "queue" },
        "routing_key": seen.key,
        "arguments": json::object(&seen.arguments),
        "matched": seen.is_matched && seen.is_reached,
        "why": why(seen, kind, key),
    })
}

fn why(seen: &Seen, kind: Kind, key: &str) -> String {
    let own = &seen.key;
    match (seen.is_matched, seen.is_reached) {
        (true, true) => "the message goes there by this binding".to_owned(),
        (true, false) => match kind {
            Kind::Delayed => "the message waits first, and goes there when its time has come".to_owned(),
            Kind::FederationUpstream => {
                "the message came through as many brokers as it may, or was where it would go".to_owned()
            }
            _ => "the exchange chose another".to_owned(),
        },
        (false, true) => "the message goes there, but not by this binding".to_owned(),
        (false, false) if seen.is_filtered => {
            "the filter of the binding is false of the message, or unknown".to_owned()
        }
        (false, false) => match kind {
            Kind::Headers => "the headers of the message are not what the arguments ask for".to_owned(),
            Kind::Topic => format!("the key '{key}' does not match the pattern '{own}'"),
            _ => format!("the key is '{key}', not '{own}'"),
        },
    }
}
