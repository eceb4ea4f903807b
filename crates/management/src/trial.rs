//! Where a message would go, and why not elsewhere: routing without a message.

use crate::body::Body;
use crate::exchanges::named;
use crate::json;
use crate::messages::properties;
use crate::node::Node;
use crate::response::{Answer, Response};
use crate::routes::Call;
use broker::catalog::Catalog;
use broker::fields::Fields091;
use message::amqp091::Properties;
use routing::{Arguments, Destination, Envelope, Exchange, Kind, Matches};
use serde_json::{Value, json};

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
}

/// What was found out.
struct Found {
    kind: Kind,
    queues: Vec<String>,
    /// Exchanges it came through, after the first.
    through: Vec<String>,
    /// It would be kept for later first.
    is_held: bool,
    bindings: Vec<Seen>,
    /// There are more bindings than are looked at.
    has_more: bool,
}

/// `POST /api/x/exchanges/VHOST/NAME/route`.
pub(crate) fn route<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let body = Body::read(&call.request.body)?;
    let key = body.need_text("routing_key")?.to_owned();
    let raw = properties(&body.object("properties")?)?;
    let (id, exchange) = (call.caller.vhost(vhost)?, named(name).to_owned());
    let most = call.node.about().limits.trial_bindings_max;
    let (asked, told) = (key.clone(), exchange.clone());
    let found = call.node.look(move |catalog| {
        let properties = Properties::read(&raw).ok()?;
        let keys = [asked.as_bytes()];
        let headers = &Fields091(&properties);
        let message = Envelope { keys: &keys, headers, roll: 0 };
        let mut matches = Matches::default();
        matches.start();
        catalog.route(id, told.as_bytes(), &message, &mut matches).ok()?;
        Some(look(catalog, id, &told, &message, &matches, most))
    })?;
    let found = found.ok_or_else(Response::not_found)?;
    let bindings: Vec<Value> = found.bindings.iter().map(|seen| shown(seen, found.kind, &key)).collect();
    Ok(Response::ok(&json!({
        "routed": !found.queues.is_empty(),
        "queues": found.queues,
        "through": found.through,
        "delayed": found.is_held,
        "bindings": bindings,
        "has_more_bindings": found.has_more,
    })))
}

fn look(
    catalog: &Catalog,
    vhost: broker::catalog::VhostId,
    exchange: &str,
    message: &Envelope<'_>,
    matches: &Matches,
    most: usize,
) -> Found {
    let name = |destination: Destination| match destination {
        Destination::Queue(id) => catalog.queue(id).map(|queue| queue.name.to_string()),
        Destination::Exchange(id) => {
            catalog.exchange_by_id(id).map(|entry| entry.definition.name.to_string())
        }
    };
    let mut found = Found {
        kind: Kind::Direct,
        queues: Vec::new(),
        through: Vec::new(),
        is_held: !matches.held().is_empty(),
        bindings: Vec::new(),
        has_more: false,
    };
    for destination in matches.destinations() {
        let list = match destination {
            Destination::Queue(_) => &mut found.queues,
            Destination::Exchange(_) => &mut found.through,
        };
        list.extend(name(*destination));
    }
    found.queues.sort_unstable();
    // The default exchange has a binding for each queue, which says nothing.
    let Some(entry) = catalog.exchange(vhost, exchange.as_bytes()).filter(|_| !exchange.is_empty()) else {
        return found;
    };
    found.kind = match entry.definition.kind {
        Kind::Delayed if found.is_held => Kind::Delayed,
        _ => entry.exchange.kind(),
    };
    let all = entry.exchange.bindings();
    found.has_more = all.len() > most;
    for binding in all.into_iter().take(most) {
        let mut alone = Exchange::new(entry.exchange.kind());
        alone.bind(&binding.key, binding.arguments.clone(), binding.destination);
        let mut own = Matches::default();
        own.start();
        alone.route(message, &mut own);
        let Some(destination) = name(binding.destination) else { continue };
        found.bindings.push(Seen {
            destination,
            to_exchange: matches!(binding.destination, Destination::Exchange(_)),
            key: String::from_utf8_lossy(&binding.key).into_owned(),
            is_reached: matches.destinations().contains(&binding.destination),
            is_matched: !own.destinations().is_empty(),
            arguments: binding.arguments,
        });
    }
    found
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
            _ => "the exchange chose another".to_owned(),
        },
        (false, true) => "the message goes there, but not by this binding".to_owned(),
        (false, false) => match kind {
            Kind::Headers => "the headers of the message are not what the arguments ask for".to_owned(),
            Kind::Topic => format!("the key '{key}' does not match the pattern '{own}'"),
            _ => format!("the key is '{key}', not '{own}'"),
        },
    }
}
