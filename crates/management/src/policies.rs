//! Policies, the users' and the operator's.

use crate::body::Body;
use crate::call::Call;
use crate::json;
use crate::list;
use crate::node::Node;
use crate::request::Method;
use crate::response::{Answer, Response};
use broker::access::Pattern;
use broker::catalog::{ExchangeDefinition, Op, PolicyDefinition, PolicyKind, QueueDefinition, VhostId};
use serde_json::{Value, json};
use std::sync::Arc;

/// A value as error texts have it.
pub(crate) fn term(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "<<>>".to_owned(),
        Value::String(text) => format!("<<\"{text}\">>"),
        Value::Array(items) => format!("[{}]", items.iter().map(term).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("<<\"{key}\">> => {}", term(value))).collect();
            format!("#{{{}}}", fields.join(","))
        }
        other => other.to_string(),
    }
}

/// The policies of a kind in virtual hosts; those that count less come first.
pub(crate) fn find<N: Node>(
    node: &N,
    kind: PolicyKind,
    vhosts: Vec<(String, VhostId)>,
) -> Result<Vec<Value>, Response> {
    let found: Vec<(String, Vec<Arc<PolicyDefinition>>)> = node.look(move |catalog| {
        let own = |(name, id)| (name, catalog.policies(id, kind).cloned().collect());
        vhosts.into_iter().map(own).collect()
    })?;
    Ok(found.iter().flat_map(|(vhost, own)| own.iter().map(|policy| shown(vhost, policy))).collect())
}

fn shown(vhost: &str, policy: &PolicyDefinition) -> Value {
    json!({
        "vhost": vhost,
        "name": *policy.name,
        "pattern": policy.pattern.source(),
        "apply-to": policy.apply_to.name(),
        "definition": json::object(&policy.definition),
        "priority": policy.priority,
    })
}

/// The virtual hosts that are asked for, of those that are seen.
pub(crate) fn asked<N: Node>(call: &Call<'_, N>, vhost: Option<&str>) -> Vec<(String, VhostId)> {
    let seen = call.caller.visible().filter(|(name, _)| vhost.is_none_or(|vhost| vhost == *name));
    seen.map(|(name, id)| (name.to_owned(), id)).collect()
}

/// `GET /api/x/{queues,exchanges}/VHOST/NAME/policies`: users' policies with a pattern that matches, those that count
/// most first.
pub(crate) fn matching<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str, is_exchange: bool) -> Answer {
    let (id, asked) = (call.caller.vhost(vhost)?, name.to_owned());
    let found = call.node.look(move |catalog| {
        let object = match is_exchange {
            true => Object::Exchange(catalog.exchange(id, asked.as_bytes())?.definition.clone()),
            false => Object::Queue(catalog.queue_by_name(id, asked.as_bytes())?.clone()),
        };
        let all = catalog.policies(id, PolicyKind::User).rev().cloned();
        Some((object, all.collect::<Vec<_>>()))
    })?;
    let (object, mut all) = found.ok_or_else(Response::not_found)?;
    // Here, and not where connections wait: patterns may be dear.
    all.retain(|policy| match &object {
        Object::Exchange(exchange) => policy.is_for_exchange(exchange),
        Object::Queue(queue) => policy.is_for_queue(queue),
    });
    Ok(Response::ok(&all.iter().map(|policy| shown(vhost, policy)).collect()))
}

/// A thing that policies are for.
enum Object {
    Queue(Arc<QueueDefinition>),
    Exchange(Arc<ExchangeDefinition>),
}

/// `GET /api/policies[/VHOST]`.
pub(crate) fn list<N: Node>(call: &Call<'_, N>, kind: PolicyKind, vhost: Option<&str>) -> Answer {
    let rows = find(call.node, kind, asked(call, vhost))?;
    list::answer(rows, call.request, &call.node.about().limits, &["vhost", "name"])
}

/// `/api/policies/VHOST/NAME`.
pub(crate) fn one<N: Node>(call: &Call<'_, N>, kind: PolicyKind, vhost: &str, name: &str) -> Answer {
    let own = find(call.node, kind, asked(call, Some(vhost)))?.into_iter().find(|row| row["name"] == name);
    match (call.request.method, own) {
        (Method::Put, own) => {
            let body = Body::read(&call.request.body)?;
            let wanted = wanted(kind, vhost, name, &body)?;
            check_pattern(call, &wanted)?;
            call.request(wanted)?;
            Ok(Response::empty(if own.is_some() { 204 } else { 201 }))
        }
        (_, None) => Err(Response::not_found()),
        (Method::Delete, Some(_)) => {
            call.request(Op::ClearPolicy { kind, vhost: vhost.into(), name: name.into() })?;
            Ok(Response::empty(204))
        }
        (_, Some(own)) => list::one(own, call.request, &call.node.about().limits),
    }
}

/// Whether the user may set a policy's pattern: one that may take many steps for a name is for administrators.
pub(crate) fn check_pattern<N: Node>(call: &Call<'_, N>, wanted: &Op) -> Result<(), Response> {
    let Op::SetPolicy { name, pattern, .. } = wanted else { return Ok(()) };
    if call.caller.is("administrator") || !Pattern::new(pattern).is_ok_and(|pattern| pattern.backtracks()) {
        return Ok(());
    }
    Err(Response::not_authorised(&format!(
        "the pattern of policy '{name}' looks around, refers back or forbids to go back: {pattern}. Only administrators may set such"
    )))
}

/// The remark on a policy with keys that have no effect.
pub(crate) fn remark(body: &Body) -> Option<String> {
    let definition = body.object("definition").ok()?;
    let keys = definition.keys().filter(|key| key.starts_with("federation-upstream"));
    let keys: Vec<&str> = keys.map(String::as_str).collect();
    (!keys.is_empty())
        .then(|| format!("kept; federation is not served yet: {} has no effect", keys.join(", ")))
}

/// To have a policy as an object says.
pub(crate) fn wanted(kind: PolicyKind, vhost: &str, name: &str, body: &Body) -> Result<Op, Response> {
    let pattern = body.need_text("pattern")?.into();
    body.need("definition")?;
    let definition = json::arguments(&body.object("definition")?);
    let priority = body.integer("priority")?.unwrap_or(0);
    let apply_to = body.text("apply-to")?.unwrap_or("all").into();
    Ok(Op::SetPolicy {
        kind,
        vhost: vhost.into(),
        name: name.into(),
        pattern,
        apply_to,
        priority,
        definition,
    })
}
