//! Queues.

use crate::body::Body;
use crate::channels;
use crate::history::Whose;
use crate::node::{Action, Node, Which};
use crate::request::Method;
use crate::response::{Answer, Response};
use crate::routes::Call;
use crate::{json, list, stats};
use broker::QueueRow;
use broker::access::Access;
use broker::catalog::{QueueDefinition, QueueType};
use routing::Arguments;
use serde_json::{Value, json};
use std::sync::Arc;

/// Queues whose policies are looked up at a time: the shard that does has other work.
const LOOK: usize = 250;

/// What policies say of a queue.
#[derive(Default)]
struct Policies {
    user: Option<Box<str>>,
    operator: Option<Box<str>>,
    definition: Arguments,
}

/// `GET /api/queues[/VHOST]`.
pub(crate) fn list<N: Node>(call: &Call<'_, N>, vhost: Option<&str>) -> Answer {
    let which = vhost.map(|vhost| call.caller.vhost(vhost)).transpose()?.map_or(Which::All, Which::Of);
    let mut rows = call.node.queues(which)?;
    rows.retain(|row| call.caller.sees(&row.definition.vhost_name));
    let limits = &call.node.about().limits;
    list::paged(rows, call.request, limits, key, |rows| shown(call, rows))
}

/// By what queues are ordered.
fn key(row: &QueueRow) -> (&str, &str) {
    (&row.definition.vhost_name, &row.definition.name)
}

fn shown<N: Node>(call: &Call<'_, N>, rows: &[QueueRow]) -> Result<Vec<Value>, Response> {
    let node = call.node.about().node.as_str();
    let mut items = Vec::with_capacity(rows.len());
    for rows in rows.chunks(LOOK) {
        let queues: Vec<Arc<QueueDefinition>> = rows.iter().map(|row| row.definition.clone()).collect();
        let policies: Vec<Policies> = call.node.look(move |catalog| {
            let of = |queue: &Arc<QueueDefinition>| {
                let matched = catalog.queue_policies(queue);
                Policies {
                    user: matched.user.map(|policy| policy.name.clone()),
                    operator: matched.operator.map(|policy| policy.name.clone()),
                    definition: matched.definition(),
                }
            };
            queues.iter().map(of).collect()
        })?;
        items.extend(rows.iter().zip(&policies).map(|(row, policies)| {
            let mut item = item(row, policies, node);
            let whose = Whose::Queue(row.definition.id);
            let lengths = stats::lengths_span(call.request);
            call.node.history(|history| {
                let growth = (history.of(whose), stats::MESSAGES);
                stats::put_lengths(&mut item, [row.ready, row.unsettled], growth, lengths);
            });
            stats::put_messages(call.node, call.request, &mut item, whose, &row.tally, stats::OF_QUEUE);
            item
        }));
    }
    Ok(items)
}

fn item(row: &QueueRow, policies: &Policies, node: &str) -> Value {
    let queue = &row.definition;
    let mut item = json!({
        "name": *queue.name,
        "vhost": *queue.vhost_name,
        "type": queue.queue_type.name(),
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.exclusive.is_some(),
        "internal": false,
        "internal_owner": false,
        "arguments": json::object(&queue.arguments),
        "node": node,
        "state": "running",
        "policy": policies.user,
        "operator_policy": policies.operator,
        "effective_policy_definition": json::object(&policies.definition),
        "messages_delayed": row.delayed,
        "consumers": row.consumers,
        "memory": row.memory_bytes,
        // Whether it could hand out what comes now at once.
        "consumer_capacity": capacity(row),
        "consumer_utilisation": capacity(row),
    });
    if let Some([ready, unsettled]) = row.bytes() {
        item["message_bytes"] = (ready + unsettled).into();
        item["message_bytes_ready"] = ready.into();
        item["message_bytes_unacknowledged"] = unsettled.into();
    }
    if let Some(stream) = &row.stream {
        item["segments"] = stream.segments.into();
        item["readers"] = json!({ node: stream.readers });
    }
    match queue.queue_type {
        QueueType::Classic => item["storage_version"] = 2.into(),
        QueueType::Quorum | QueueType::Stream => {
            item["leader"] = node.into();
            item["members"] = json!([node]);
            item["online"] = json!([node]);
        }
    }
    item
}

/// Whether the queue could hand out at once what comes now.
pub(crate) fn capacity(row: &QueueRow) -> f64 {
    f64::from(row.consumers > 0 && row.ready == 0)
}

/// The tag of the one consumer of which this holds.
fn tag_of(consumers: &Value, is_it: impl Fn(&Value) -> bool) -> Value {
    let mut found = consumers.as_array().into_iter().flatten().filter(|consumer| is_it(consumer));
    found.next().map_or(Value::Null, |consumer| consumer["consumer_tag"].clone())
}

/// `/api/queues/VHOST/NAME`.
pub(crate) fn one<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let found = call.node.queues(Which::One(call.caller.vhost(vhost)?, name.to_owned()))?;
    let act = |action| call.node.act(&call.caller.login, vhost, action);
    match (call.request.method, &found[..]) {
        (Method::Put, found) => {
            let body = Body::read(&call.request.body)?;
            act(declaration(name, &body)?)?;
            Ok(Response::empty(if found.is_empty() { 201 } else { 204 }))
        }
        (_, []) => Err(Response::not_found()),
        (Method::Delete, _) => {
            let (if_unused, if_empty) = (call.request.says("if-unused"), call.request.says("if-empty"));
            act(Action::DeleteQueue { name: name.to_owned(), if_unused, if_empty })?;
            Ok(Response::empty(204))
        }
        (_, found) => {
            let mut row = shown(call, found)?.pop().ok_or_else(Response::not_found)?;
            let queue = &found[0].definition;
            let consumers = channels::of_queue(call, queue.id)?;
            row["exclusive_consumer_tag"] = tag_of(&consumers, |own| own["exclusive"] == true);
            row["single_active_consumer_tag"] =
                tag_of(&consumers, |own| own["activity_status"] == "single_active");
            row["consumer_details"] = consumers;
            row["incoming"] = json!([]);
            row["deliveries"] = json!([]);
            list::one(row, call.request, &call.node.about().limits)
        }
    }
}

/// A queue as an object says.
pub(crate) fn declaration(name: &str, body: &Body) -> Result<Action, Response> {
    Ok(Action::DeclareQueue {
        name: name.to_owned(),
        durable: body.boolean("durable", false)?,
        auto_delete: body.boolean("auto_delete", false)?,
        arguments: json::table(&body.object("arguments")?),
    })
}

/// `POST /api/queues/VHOST/NAME/actions`: mirrors were told to catch up here; no action is left.
pub(crate) fn act<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let which = Which::One(call.caller.vhost(vhost)?, name.to_owned());
    if call.node.queues(which)?.is_empty() {
        return Err(Response::error(404, "not_found", "queue_not_found"));
    }
    let body = Body::read(&call.request.body)?;
    Err(Response::bad_request(json!(["unknown", body.need("action")?])))
}

/// `POST /api/x/streams/VHOST/NAME/truncate`.
pub(crate) fn truncate<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let body = Body::read(&call.request.body)?;
    let before = body.integer("before")?.ok_or_else(|| Response::missing_key("before"))?;
    let Ok(before) = u64::try_from(before) else {
        return Err(Response::bad_request("before is below 0"));
    };
    call.check_access(vhost, Access::Configure, name)?;
    let first_offset = call.node.truncate_stream(vhost, name, before)?;
    Ok(Response::ok(&json!({ "first_offset": first_offset })))
}

/// `DELETE /api/queues/VHOST/NAME/contents`.
pub(crate) fn purge<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let found = call.node.queues(Which::One(call.caller.vhost(vhost)?, name.to_owned()))?;
    if found.is_empty() {
        return Err(Response::not_found());
    }
    call.node.act(&call.caller.login, vhost, Action::Purge { queue: name.to_owned() })?;
    Ok(Response::empty(204))
}
