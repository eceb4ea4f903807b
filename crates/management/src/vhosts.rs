//! Virtual hosts.

use crate::body::Body;
use crate::call::Call;
use crate::history::{Whose, put};
use crate::node::{Node, Trouble};
use crate::request::{Method, Only};
use crate::response::{Answer, Response};
use crate::{list, stats};
use broker::catalog::{Op, QueueType, Reason, VhostDefinition};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

type Found = Vec<(Arc<VhostDefinition>, bool)>;

/// Columns of a virtual host that are sums over its queues and connections.
const COUNTED: &[&str] = &[
    "message_stats",
    "messages",
    "messages_details",
    "messages_ready",
    "messages_ready_details",
    "messages_unacknowledged",
    "messages_unacknowledged_details",
    "recv_oct",
    "recv_oct_details",
    "send_oct",
    "send_oct_details",
];

/// `GET /api/vhosts`.
pub(crate) fn list<N: Node>(call: &Call<'_, N>) -> Answer {
    let rows: Vec<Value> = rows(call, None)?;
    list::answer(rows, call.request, &call.node.about().limits, &["name"])
}

fn rows<N: Node>(call: &Call<'_, N>, only: Option<&str>) -> Result<Vec<Value>, Response> {
    let found: Found = call.node.look(|catalog| {
        catalog.vhosts().map(|vhost| (vhost.clone(), catalog.is_traced(vhost.id))).collect()
    })?;
    let seen = found.iter().filter(|(vhost, _)| match only {
        Some(only) => *vhost.name == *only,
        None => call.caller.is_monitor() || call.caller.sees(&vhost.name),
    });
    let node = call.node.about().node.as_str();
    if !list::wants(call.request, COUNTED) {
        return Ok(seen.map(|(vhost, is_traced)| shown(vhost, *is_traced, node)).collect());
    }
    only.map(|name| call.caller.vhost(name)).transpose()?;
    let counts = call.node.queue_sums()?;
    let survey = call.node.survey()?;
    let mut bytes: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for row in call.node.connections()? {
        let of = bytes.entry(row.vhost).or_default();
        of[0] += row.received;
        of[1] += row.sent;
    }
    let [lengths, data] = [stats::lengths_span(call.request), stats::data_span(call.request)];
    let row = |(vhost, is_traced): &(Arc<VhostDefinition>, bool)| {
        let whose = Whose::Vhost(vhost.id);
        let mut item = shown(vhost, *is_traced, node);
        let sum = counts.get(&vhost.id).copied().unwrap_or_default();
        let [received, sent] = bytes.get(&*vhost.name).copied().unwrap_or_default();
        call.node.history(|history| {
            let growth = history.of(whose);
            stats::put_lengths(&mut item, [sum.ready, sum.unsettled], (growth, stats::MESSAGES + 2), lengths);
            if let Some(item) = item.as_object_mut() {
                put(item, "recv_oct", received, growth.details(stats::MESSAGES, data));
                put(item, "send_oct", sent, growth.details(stats::MESSAGES + 1, data));
            }
        });
        if let Some(tally) = survey.vhosts.get(&vhost.id) {
            stats::put_messages(call.node, call.request, &mut item, whose, tally, stats::ALL);
        }
        item
    };
    Ok(seen.map(row).collect())
}

fn shown(vhost: &VhostDefinition, is_traced: bool, node: &str) -> Value {
    json!({
        "name": *vhost.name,
        "description": *vhost.about().description,
        "tags": vhost.about().tags.iter().map(|tag| &**tag).collect::<Vec<_>>(),
        "default_queue_type": vhost.default_queue_type.name(),
        "protected_from_deletion": vhost.about().is_protected,
        "metadata": metadata(vhost),
        "tracing": is_traced,
        "cluster_state": { node: "running" },
    })
}

/// A virtual host's metadata, as definitions have it.
pub(crate) fn metadata(vhost: &VhostDefinition) -> Value {
    let about = vhost.about();
    let mut metadata = json!({
        "description": *about.description,
        "tags": about.tags.iter().map(|tag| &**tag).collect::<Vec<_>>(),
        "default_queue_type": vhost.default_queue_type.name(),
    });
    if about.is_protected {
        metadata["protected_from_deletion"] = true.into();
    }
    metadata
}

/// `/api/vhosts/NAME`.
pub(crate) fn one<N: Node>(call: &Call<'_, N>, name: &str) -> Answer {
    let is_there = call.caller.vhost(name).is_ok();
    match call.request.method {
        Method::Put => {
            let body = Body::read(&call.request.body)?;
            match call.request.only()? {
                Some(Only::New) if is_there => return Err(Response::exists("virtual host", name)),
                Some(Only::Existing) if !is_there => return Err(Response::not_found()),
                _ => {}
            }
            for op in wanted(call, name, &body, is_there)? {
                call.request(op)?;
            }
            Ok(Response::empty(if is_there { 204 } else { 201 }))
        }
        _ if !is_there => Err(Response::not_found()),
        Method::Delete => {
            match call.request(Op::DeleteVhost { name: name.into() }) {
                Err(Trouble::Refused(refusal)) if refusal.reason == Reason::Protected => {
                    let reason = format!(
                        "Refusing to delete virtual host '{name}' because it is protected from deletion"
                    );
                    return Err(Response::error(412, "precondition_failed", reason));
                }
                other => other?,
            }
            Ok(Response::empty(204))
        }
        _ => {
            let row = rows(call, Some(name))?.into_iter().next().ok_or_else(Response::not_found)?;
            list::one(row, call.request, &call.node.about().limits)
        }
    }
}

/// Lets a user do everything in a virtual host.
pub(crate) fn giving(vhost: &str, user: &str) -> Op {
    Op::SetPermissions {
        user: user.into(),
        vhost: vhost.into(),
        configure: ".*".into(),
        write: ".*".into(),
        read: ".*".into(),
    }
}

/// The requests that make or change a virtual host as an object says, in order.
pub(crate) fn wanted<N: Node>(
    call: &Call<'_, N>,
    name: &str,
    body: &Body,
    is_there: bool,
) -> Result<Vec<Op>, Response> {
    let queue_type = body.text("default_queue_type")?.filter(|name| *name != "undefined");
    let unknown = |name: &str| Response::bad_request(format!("{name} is not a valid queue type"));
    let queue_type =
        queue_type.map(|name| QueueType::from_any_name(name).ok_or_else(|| unknown(name))).transpose()?;
    let description = body.text("description")?.map(Into::into);
    let tags = body.words("tags")?.map(|tags| tags.into_iter().map(String::into_boxed_str).collect());
    let is_protected = body.get("protected_from_deletion").is_some();
    let is_protected = is_protected.then(|| body.boolean("protected_from_deletion", false)).transpose()?;
    let mut ops = Vec::new();
    if is_there {
        ops.push(Op::UpdateVhost { name: name.into(), description, tags, queue_type, is_protected });
    } else {
        let mut defaults = call.node.vhost_defaults(name);
        defaults.queue_type = queue_type.unwrap_or(defaults.queue_type);
        defaults.about.description = description.unwrap_or_default();
        defaults.about.tags = tags.unwrap_or_default();
        defaults.about.is_protected = is_protected.unwrap_or_default();
        ops.push(Op::AddVhost { name: name.into(), defaults });
    }
    if body.get("tracing").is_some() {
        ops.push(Op::Trace { vhost: name.into(), on: body.boolean("tracing", false)? });
    }
    if !is_there && !call.caller.login.is_own {
        // As with RabbitMQ, the user that makes it may use it.
        ops.push(giving(name, &call.caller.login.user));
    }
    Ok(ops)
}

/// `/api/vhosts/NAME/deletion/protection`.
pub(crate) fn protect<N: Node>(call: &Call<'_, N>, name: &str) -> Answer {
    call.caller.vhost(name)?;
    if call.request.method == Method::Get {
        return one(call, name);
    }
    call.request(Op::UpdateVhost {
        name: name.into(),
        description: None,
        tags: None,
        queue_type: None,
        is_protected: Some(call.request.method == Method::Post),
    })?;
    Ok(Response::empty(204))
}

/// `POST /api/vhosts/NAME/start/NODE`: each virtual host is served as long as the node runs.
pub(crate) fn start<N: Node>(call: &Call<'_, N>, name: &str, node: &str) -> Answer {
    if node != call.node.about().node {
        return Err(Response::bad_request(format!("Unknown node: {node}")));
    }
    if call.caller.vhost(name).is_err() {
        let reason = format!("Request to node {node} failed with {{no_such_vhost,<<\"{name}\">>}}");
        return Err(Response::bad_request(reason));
    }
    Ok(Response::empty(204))
}
