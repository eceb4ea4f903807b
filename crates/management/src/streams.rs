//! Connections, publishers and consumers of the stream protocol, and the offsets and numbers that streams keep of both.

use crate::body::Body;
use crate::call::Call;
use crate::list::Listed;
use crate::node::{Action, Node, Which};
use crate::response::{Answer, Response};
use crate::{channels, connections, json, list, trail};
use base::brief;
use broker::access::Access;
use broker::catalog::QueueDefinition;
use broker::{Opened, StreamConsumerRow, StreamPublisherRow};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;

const PROTOCOL: &str = "stream";

/// `GET /api/stream/connections[/VHOST]`.
pub(crate) fn list<N: Node>(call: &Call<'_, N>, vhost: Option<&str>) -> Answer {
    let mut rows = connections::seen(call)?;
    rows.retain(|row| row.protocol == PROTOCOL && vhost.is_none_or(|vhost| row.vhost == vhost));
    connections::answer(call, rows)
}

fn is_of_streams<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Result<(), Response> {
    let rows = call.node.connections()?;
    let found = rows.iter().any(|row| row.protocol == PROTOCOL && row.name == name && row.vhost == vhost);
    if found { Ok(()) } else { Err(Response::not_found()) }
}

/// `/api/stream/connections/VHOST/NAME`.
pub(crate) fn one<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    is_of_streams(call, vhost, name)?;
    connections::one(call, name)
}

fn connection<N: Node>(call: &Call<'_, N>, opened: &Opened) -> Value {
    let (peer, _) = opened.connection.split_once(" -> ").unwrap_or_default();
    let (host, port) = peer.rsplit_once(':').unwrap_or_default();
    json!({
        "name": opened.connection,
        "node": call.node.about().node,
        "user": opened.user,
        "peer_host": host.trim_start_matches('[').trim_end_matches(']'),
        "peer_port": port.parse::<u16>().unwrap_or(0),
    })
}

fn queue(stream: &QueueDefinition) -> Value {
    json!({ "name": *stream.name, "vhost": *stream.vhost_name })
}

/// Which publishers or consumers are asked for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asked<'a> {
    /// Of this virtual host.
    pub vhost: Option<&'a str>,
    /// Of this stream.
    pub stream: Option<&'a str>,
    /// Of this connection.
    pub connection: Option<&'a str>,
}

impl Asked<'_> {
    fn has(&self, opened: &Opened, stream: &QueueDefinition) -> bool {
        self.vhost.is_none_or(|vhost| *stream.vhost_name == *vhost)
            && self.stream.is_none_or(|name| *stream.name == *name)
            && self.connection.is_none_or(|name| opened.connection == name)
    }

    fn check<N: Node>(&self, call: &Call<'_, N>) -> Result<(), Response> {
        match (self.vhost, self.connection) {
            (Some(vhost), Some(name)) => is_of_streams(call, vhost, name),
            _ => Ok(()),
        }
    }
}

/// A publisher or a consumer, with its stream and all that its connection has open.
struct Peer<'o, R> {
    opened: &'o Opened,
    stream: &'o QueueDefinition,
    row: &'o R,
}

impl<R> Listed for Peer<'_, R> {
    fn column(&self, column: &str) -> Option<Cow<'_, str>> {
        match column {
            "queue.vhost" => Some((&*self.stream.vhost_name).into()),
            "queue.name" => Some((&*self.stream.name).into()),
            _ => None,
        }
    }
}

/// Those that are asked for, each made of a row of all that connections have open.
fn peers<'o, N: Node, R>(
    call: &Call<'_, N>,
    asked: Asked<'_>,
    all: &'o [(u16, Opened)],
    rows: impl Fn(&'o Opened) -> &'o [R],
    stream: impl Fn(&'o R) -> &'o QueueDefinition,
) -> Vec<Peer<'o, R>> {
    let each = all.iter().flat_map(|(_, opened)| rows(opened).iter().map(move |row| (opened, row)));
    let each = each.map(|(opened, row)| Peer { opened, stream: stream(row), row });
    each.filter(|own| asked.has(own.opened, own.stream) && call.caller.sees(&own.stream.vhost_name)).collect()
}

/// `GET /api/stream/publishers[/VHOST[/STREAM]]` and `GET /api/stream/connections/VHOST/NAME/publishers`.
pub(crate) fn publishers<N: Node>(call: &Call<'_, N>, asked: Asked<'_>) -> Answer {
    asked.check(call)?;
    let all = call.node.opened()?;
    let found = peers(call, asked, &all, |opened| &opened.stream_publishers, |row| &row.stream);
    let shown = |own: &Peer<'_, StreamPublisherRow>| {
        let StreamPublisherRow { id, reference, published, confirmed, errored, .. } = own.row;
        json!({
            "connection_details": connection(call, own.opened),
            "queue": queue(own.stream),
            "reference": reference,
            "publisher_id": id,
            "published": published,
            "confirmed": confirmed,
            "errored": errored,
        })
    };
    let order = &["queue.vhost", "queue.name", "publisher_id"];
    let show = |found: &[_]| Ok(found.iter().map(shown).collect());
    list::of(found, call.request, &call.node.about().limits, order, show)
}

/// `GET /api/stream/consumers[/VHOST]` and `GET /api/stream/connections/VHOST/NAME/consumers`.
pub(crate) fn consumers<N: Node>(call: &Call<'_, N>, asked: Asked<'_>) -> Answer {
    asked.check(call)?;
    let mut ends = BTreeMap::new();
    call.node.each_queue(Which::All, |row| {
        ends.extend(row.stream.as_ref().map(|stream| (row.definition.id, stream.next_offset)));
    })?;
    let all = call.node.opened()?;
    let found = peers(call, asked, &all, |opened| &opened.stream_consumers, |row| &row.stream);
    let shown = |own: &Peer<'_, StreamConsumerRow>| {
        let StreamConsumerRow { id, credits, consumed, offset, active, properties, .. } = own.row;
        let last = ends.get(&own.stream.id).map_or(0, |end| end.saturating_sub(1));
        let properties: Map<String, Value> =
            brief::collect(properties.iter().map(|(name, value)| (name.to_string(), Value::from(&**value))));
        let is_single = properties.contains_key("single-active-consumer");
        json!({
            "connection_details": connection(call, own.opened),
            "queue": queue(own.stream),
            "subscription_id": id,
            "credits": credits,
            "consumed": consumed,
            "offset": offset,
            "offset_lag": if *consumed == 0 { 0 } else { last.saturating_sub(*offset) },
            "properties": properties,
            "active": active,
            "activity_status": channels::status(is_single, *active),
        })
    };
    let order = &["queue.vhost", "queue.name", "subscription_id"];
    let show = |found: &[_]| Ok(found.iter().map(shown).collect());
    list::of(found, call.request, &call.node.about().limits, order, show)
}

/// `GET /api/stream/VHOST/STREAM/tracking`.
pub(crate) fn tracking<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let id = call.caller.vhost(vhost)?;
    let tracking = call.node.tracking(id, name)?.ok_or_else(Response::not_found)?;
    let object = |pairs: &[(String, u64)]| -> Map<String, Value> {
        brief::collect(pairs.iter().map(|(name, value)| (name.clone(), Value::from(*value))))
    };
    let mut body = Map::new();
    // Only one of the two where one is asked for, as in RabbitMQ.
    let asked = call.request.asked("type");
    if asked != Some("writer") {
        body.insert("offsets".into(), Value::Object(object(&tracking.offsets)));
    }
    if asked != Some("offset") {
        body.insert("writers".into(), Value::Object(object(&tracking.writers)));
    }
    Ok(Response::ok(&Value::Object(body)))
}

/// `PUT /api/stream/super-streams/VHOST/NAME`: an exchange, its partitions, and the bindings of each.
pub(crate) fn super_stream<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let body = Body::read(&call.request.body)?;
    let keys: Vec<String> = match (body.text("binding-keys")?, body.integer("partitions")?) {
        (Some(_), Some(_)) => {
            return Err(Response::bad_request("Specify partitions or binding-keys, not both"));
        }
        (Some(keys), None) => keys.split(',').map(|key| key.trim().to_owned()).collect(),
        (None, count) => {
            let most = call.node.about().limits.partitions_max;
            match count.unwrap_or(3) {
                count @ 1.. if count <= most => (0..count).map(|number| number.to_string()).collect(),
                _ => return Err(Response::bad_request("The partition number must be greater than 0")),
            }
        }
    };
    if keys.len() as i64 > call.node.about().limits.partitions_max {
        return Err(Response::bad_request("too many partitions"));
    }
    let act = |action| call.act(vhost, action);
    let table = |value: &Value| value.as_object().map(json::table).unwrap_or_default();
    act(Action::DeclareExchange {
        name: name.to_owned(),
        kind: "direct".to_owned(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: table(&json!({ "x-super-stream": true })),
    })?;
    let mut arguments = body.object("arguments")?;
    arguments.insert("x-queue-type".to_owned(), "stream".into());
    for (order, key) in keys.into_iter().enumerate() {
        let partition = format!("{name}-{key}");
        act(Action::DeclareQueue {
            name: partition.clone(),
            durable: true,
            auto_delete: false,
            arguments: json::table(&arguments),
        })?;
        act(Action::Bind {
            on: true,
            source: name.to_owned(),
            destination: partition,
            to_exchange: false,
            key,
            arguments: table(&json!({ "x-stream-partition-order": order })),
        })?;
    }
    Ok(Response::empty(204))
}

/// `DELETE /api/x/streams/VHOST/STREAM/offsets/REFERENCE`.
pub(crate) fn reset_offset<N: Node>(
    call: &Call<'_, N>,
    vhost: &str,
    stream: &str,
    reference: &str,
) -> Answer {
    let found = call.node.tracking(call.caller.vhost(vhost)?, stream)?.ok_or_else(Response::not_found)?;
    call.check_access(vhost, Access::Read, stream)?;
    if found.offsets.iter().all(|(own, _)| **own != *reference) {
        return Err(Response::error(404, "not_found", NO_OFFSET));
    }
    call.node.reset_offset(vhost, stream, reference)?;
    let [reference, stream, vhost] = [reference, stream, vhost].map(trail::quoted);
    call.tell(&format!("Reset the offset of {reference} in stream {stream} in virtual host {vhost}"));
    Ok(Response::empty(204))
}

/// As RabbitMQ's tool says it.
const NO_OFFSET: &str = "There is no stored offset for this reference, no need to reset";

/// `POST /api/x/streams/VHOST/STREAM/restart`.
pub(crate) fn restart<N: Node>(call: &Call<'_, N>, vhost: &str, stream: &str) -> Answer {
    call.caller.vhost(vhost)?;
    match call.node.restart_stream(vhost, stream)? {
        true => {
            let [stream, vhost] = [stream, vhost].map(trail::quoted);
            call.tell(&format!("Restarted stream {stream} in virtual host {vhost}"));
            Ok(Response::empty(204))
        }
        false => Err(Response::not_found()),
    }
}
