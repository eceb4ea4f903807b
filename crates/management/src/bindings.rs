//! Bindings, and the key that stands for one in a path.

use crate::body::Body;
use crate::call::Call;
use crate::exchanges::named;
use crate::fields::{self, Unfit};
use crate::list::Listed;
use crate::node::{Action, Node};
use crate::request::{Method, decode};
use crate::response::{Answer, Response};
use crate::{json, list, policies};
use base::percent::encoded;
use broker::catalog::{Binding, Destination, QueueDefinition, VhostId};
use broker::fields::arguments as typed;
use data_encoding::BASE64URL_NOPAD;
use message::amqp091::Table;
use routing::{Arguments, ExchangeId};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// Queues whose bindings are taken at a time: the shard that looks has other work.
const LOOK: usize = 500;

/// Bytes of a digest of arguments.
const DIGEST: usize = 16;

/// A binding, with the names of both its ends.
pub(crate) struct Named {
    vhost: String,
    source: String,
    destination: String,
    to_exchange: bool,
    key: String,
    arguments: Arguments,
    /// See [`properties_key`]: made when it is first asked for, as a digest of long arguments is not made with each look.
    properties_key: OnceCell<String>,
}

impl Named {
    fn properties_key(&self) -> &str {
        self.properties_key.get_or_init(|| properties_key(&self.key, &self.arguments))
    }

    fn shown(&self) -> Value {
        json!({
            "source": self.source,
            "vhost": self.vhost,
            "destination": self.destination,
            "destination_type": if self.to_exchange { "exchange" } else { "queue" },
            "routing_key": self.key,
            "arguments": json::object(&self.arguments),
            "properties_key": self.properties_key(),
        })
    }

    /// Bindings to every queue by its own name are not made by anybody.
    pub(crate) fn is_made(&self) -> bool {
        !self.source.is_empty()
    }

    /// As definitions have it.
    pub(crate) fn definition(&self) -> Value {
        let mut row = self.shown();
        if let Some(fields) = row.as_object_mut() {
            fields.remove("properties_key");
        }
        row
    }
}

impl Listed for Named {
    fn column(&self, column: &str) -> Option<Cow<'_, str>> {
        match column {
            "vhost" => Some(self.vhost.as_str().into()),
            "source" => Some(self.source.as_str().into()),
            "destination" => Some(self.destination.as_str().into()),
            "routing_key" => Some(self.key.as_str().into()),
            "properties_key" => Some(self.properties_key().into()),
            _ => None,
        }
    }
}

/// The key and arguments of a binding in a path: the key escaped, and behind `~` a digest where there are arguments.
fn properties_key(key: &str, arguments: &Arguments) -> String {
    let mut text = String::new();
    for byte in key.bytes() {
        match byte {
            b' ' => text.push('+'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => text.push(char::from(byte)),
            // Writing to a string does not fail.
            _ => write!(text, "%{byte:02X}").unwrap_or_default(),
        }
    }
    if !arguments.is_empty() {
        text.push('~');
        text.push_str(&BASE64URL_NOPAD.encode(&digest(arguments)));
    } else if text.is_empty() {
        text.push('~');
    }
    text
}

/// A digest that no other arguments have, nor those of other types; as long as RabbitMQ's.
fn digest(arguments: &Arguments) -> [u8; DIGEST] {
    // Arguments that no field table has, with names that are too long, are told apart as well, if not for good.
    let typed = fields::table(arguments).unwrap_or_else(|_| format!("{arguments:?}").into_bytes());
    let mut digest = [0; DIGEST];
    digest.iter_mut().zip(Sha256::digest(&typed)).for_each(|(own, byte)| *own = byte);
    digest
}

/// All bindings of virtual hosts.
pub(crate) fn find<N: Node>(node: &N, vhosts: Vec<(String, VhostId)>) -> Result<Vec<Named>, Response> {
    let mut all = Vec::new();
    for (vhost, id) in vhosts {
        of(node, &vhost, id, &mut all)?;
    }
    Ok(all)
}

fn of<N: Node>(node: &N, vhost: &str, id: VhostId, all: &mut Vec<Named>) -> Result<(), Response> {
    type Taken = (Vec<Arc<QueueDefinition>>, Vec<(ExchangeId, Box<str>, Vec<Arc<Binding>>)>);
    let (queues, exchanges): Taken = node.look(move |catalog| {
        let exchanges = catalog.exchanges(id).into_iter().map(|exchange| {
            let to = catalog.exchange_bindings(exchange.id).cloned().collect();
            (exchange.id, exchange.name.clone(), to)
        });
        (catalog.vhost_queues(id).cloned().collect(), exchanges.collect())
    })?;
    let names: BTreeMap<ExchangeId, &str> =
        base::brief::collect(exchanges.iter().map(|(id, name, _)| (*id, &**name)));
    let mut add = |destination: &str, binding: &Binding| {
        // An exchange that came meanwhile is in the next answer.
        let Some(source) = names.get(&binding.source) else { return };
        all.push(Named {
            vhost: vhost.to_owned(),
            source: (*source).to_owned(),
            destination: destination.to_owned(),
            to_exchange: matches!(binding.destination, Destination::Exchange(_)),
            key: binding.key.to_string(),
            arguments: binding.arguments.clone(),
            properties_key: OnceCell::new(),
        });
    };
    for (_, name, bindings) in &exchanges {
        bindings.iter().for_each(|binding| add(name, binding));
    }
    let mut defaults = Vec::new();
    for queues in queues.chunks(LOOK) {
        let ids: Vec<_> = queues.iter().map(|queue| queue.id).collect();
        let taken: Vec<Vec<Arc<Binding>>> = node.look(move |catalog| {
            ids.into_iter().map(|id| catalog.queue_bindings(id).cloned().collect()).collect()
        })?;
        for (queue, bindings) in queues.iter().zip(&taken) {
            bindings.iter().for_each(|binding| add(&queue.name, binding));
            defaults.push(Named {
                vhost: vhost.to_owned(),
                source: String::new(),
                destination: queue.name.to_string(),
                to_exchange: false,
                key: queue.name.to_string(),
                arguments: Arguments::new(),
                properties_key: OnceCell::new(),
            });
        }
    }
    all.append(&mut defaults);
    Ok(())
}

fn answer<N: Node>(call: &Call<'_, N>, found: impl Iterator<Item = Named>) -> Answer {
    let order = ["vhost", "source", "destination", "routing_key", "properties_key"];
    let show = |found: &[Named]| Ok(found.iter().map(Named::shown).collect());
    list::of(found.collect(), call.request, &call.node.about().limits, &order, show)
}

/// `GET /api/bindings[/VHOST]`.
pub(crate) fn list<N: Node>(call: &Call<'_, N>, vhost: Option<&str>) -> Answer {
    answer(call, find(call.node, policies::asked(call, vhost))?.into_iter())
}

/// `GET /api/queues/VHOST/NAME/bindings`.
pub(crate) fn of_queue<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let found = find(call.node, policies::asked(call, Some(vhost)))?;
    let has = |binding: &Named| !binding.to_exchange && binding.destination == name;
    // Each queue has the binding by its own name; without it there is no such queue.
    if !found.iter().any(has) {
        return Err(Response::not_found());
    }
    answer(call, found.into_iter().filter(has))
}

/// `GET /api/exchanges/VHOST/NAME/bindings/{source,destination}`.
pub(crate) fn of_exchange<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str, is_source: bool) -> Answer {
    let name = named(name);
    check_exchange(call, vhost, name)?;
    let found = find(call.node, policies::asked(call, Some(vhost)))?;
    answer(
        call,
        found.into_iter().filter(|binding| match is_source {
            true => binding.source == name,
            false => binding.to_exchange && binding.destination == name,
        }),
    )
}

fn check_exchange<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Result<(), Response> {
    let (id, name) = (call.caller.vhost(vhost)?, name.to_owned());
    let is_there = call.node.look(move |catalog| catalog.exchange(id, name.as_bytes()).is_some())?;
    if is_there { Ok(()) } else { Err(Response::not_found()) }
}

fn both<N: Node>(
    call: &Call<'_, N>,
    vhost: &str,
    source: &str,
    (to_exchange, destination): (bool, &str),
) -> Result<Vec<Named>, Response> {
    let found = find(call.node, policies::asked(call, Some(vhost)))?;
    let is_between = |binding: &Named| {
        binding.source == source && binding.to_exchange == to_exchange && binding.destination == destination
    };
    Ok(found.into_iter().filter(is_between).collect())
}

/// The binding key in a text of a path: decoded as in a query, or as it is where that cannot be.
fn as_key(text: &str) -> Option<String> {
    (!text.contains('~')).then(|| decode(text, true).unwrap_or_else(|| text.to_owned()))
}

/// `/api/bindings/VHOST/e/SOURCE/{q,e}/DESTINATION`.
pub(crate) fn between<N: Node>(call: &Call<'_, N>, vhost: &str, source: &str, to: (bool, &str)) -> Answer {
    let (source, (_, destination)) = (named(source), to);
    if call.request.method != Method::Post {
        // Between objects that are missing there are no bindings, and no error: tools ask before they make such
        // bindings.
        call.caller.vhost(vhost)?;
        return answer(call, both(call, vhost, source, to)?.into_iter());
    }
    let body = Body::read(&call.request.body)?;
    let fields = body.object("arguments")?;
    let key = body.text("routing_key")?.unwrap_or_default();
    let arguments = json::table(&fields);
    let made = Table::new(&arguments).map(|table| typed(&table)).unwrap_or_default();
    call.act(vhost, bind(source, to, key, arguments, true))?;
    let key = properties_key(key, &made);
    let location = format!("{}/{}", encoded(destination), encoded(&key));
    Ok(Response::empty(201).with("location", location))
}

pub(crate) fn bind(source: &str, to: (bool, &str), key: &str, arguments: Vec<u8>, on: bool) -> Action {
    let (to_exchange, destination) = to;
    Action::Bind {
        on,
        source: source.to_owned(),
        destination: destination.to_owned(),
        to_exchange,
        key: key.to_owned(),
        arguments,
    }
}

/// `/api/bindings/VHOST/e/SOURCE/{q,e}/DESTINATION/KEY`.
pub(crate) fn one<N: Node>(
    call: &Call<'_, N>,
    vhost: &str,
    source: &str,
    to: (bool, &str),
    key: &str,
) -> Answer {
    let source = named(source);
    let found = both(call, vhost, source, to)?;
    let own = found.iter().find(|binding| binding.properties_key() == key);
    // A client that escapes the key itself, once, names the binding without arguments too, as in RabbitMQ.
    let by_key = || {
        let key = as_key(key)?;
        found.iter().find(|binding| binding.arguments.is_empty() && *binding.key == *key)
    };
    let own = own.or_else(by_key).ok_or_else(Response::not_found)?;
    if call.request.method != Method::Delete {
        return list::one(own.shown(), call.request, &call.node.about().limits);
    }
    // In their own types: of other ones the catalog has no such binding, which to it is as good as removed.
    let arguments = fields::table(&own.arguments).map_err(|unfit| {
        Response::bad_request(match unfit {
            Unfit::LongName => "the name of an argument is longer than 255 bytes",
            Unfit::TooDeep => "the arguments are too deep",
        })
    })?;
    call.act(vhost, bind(source, to, &own.key, arguments, false))?;
    Ok(Response::empty(204))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_escaped_as_rabbitmq_does() {
        let check = |key: &str, expected: &str| assert_eq!(properties_key(key, &Arguments::new()), expected);
        check("a.b", "a.b");
        check("a~b c/d", "a%7Eb+c%2Fd");
        check("", "~");
        check("é#*", "%C3%A9%23%2A");
        let is = |text: &str, key: Option<&str>| assert_eq!(as_key(text).as_deref(), key, "{text}");
        is("user.*", Some("user.*"));
        is("user.%2A", Some("user.*"));
        is("a b", Some("a b"));
        is("a+b", Some("a b"));
        is("a%20b", Some("a b"));
        is("%", Some("%"));
        is("%2", Some("%2"));
        is("é", Some("é"));
        is("~", None);
        let one = |number| {
            [("k", routing::Value::long(number))].into_iter().map(|(k, v)| (k.as_bytes(), v)).collect()
        };
        let (first, second) = (properties_key("a", &one(1)), properties_key("a", &one(2)));
        assert!(first.starts_with("a~") && first.len() == 24 && first != second, "{first} {second}");
        let long = |byte: u8| [(vec![byte; 300], routing::Value::Void)].into_iter().collect::<Arguments>();
        assert_ne!(properties_key("a", &long(b'x')), properties_key("a", &long(b'y')));
    }
}
