//! Limits of virtual hosts and users.

use crate::body::Body;
use crate::call::Call;
use crate::node::Node;
use crate::request::Method;
use crate::response::{Answer, Response};
use broker::catalog::{Op, UserLimits, VhostLimits};
use serde_json::{Map, Value, json};

fn object(limits: [(&str, Option<u64>); 3]) -> Value {
    let given = limits.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), Value::from(limit?))));
    Value::Object(base::brief::collect(given))
}

pub(crate) fn of_vhost(limits: &VhostLimits) -> Value {
    object([
        ("max-connections", limits.connections_max.map(u64::from)),
        ("max-queues", limits.queues_max.map(u64::from)),
        ("max-memory-bytes", limits.memory_bytes_max),
    ])
}

pub(crate) fn of_user(limits: &UserLimits) -> Value {
    object([
        ("max-connections", limits.connections_max.map(u64::from)),
        ("max-channels", limits.channels_max.map(u64::from)),
        ("max-memory-bytes", limits.memory_bytes_max),
    ])
}

/// `GET /api/vhost-limits`.
pub(crate) fn vhosts<N: Node>(call: &Call<'_, N>, only: Option<&str>) -> Answer {
    let found: Vec<(String, VhostLimits)> = call.node.look(|catalog| {
        catalog.vhosts().map(|vhost| (vhost.name.to_string(), catalog.vhost_limits(vhost.id))).collect()
    })?;
    let is_seen = |name: &str| match only {
        Some(only) => only == name,
        None => call.caller.is_monitor() || call.caller.sees(name),
    };
    let rows = found.iter().filter(|(name, limits)| is_seen(name) && *limits != VhostLimits::default());
    let rows = rows.map(|(name, limits)| json!({ "vhost": name, "value": of_vhost(limits) }));
    Ok(Response::ok(&rows.collect()))
}

/// `GET /api/user-limits`.
pub(crate) fn users<N: Node>(call: &Call<'_, N>, only: Option<&str>) -> Answer {
    let found = crate::users::find(call.node)?;
    if let Some(only) = only
        && found.iter().all(|(user, _)| *user.name != *only)
    {
        return Err(Response::not_found());
    }
    let rows = found.iter().filter(|(user, limits)| {
        only.is_none_or(|only| only == &*user.name) && *limits != UserLimits::default()
    });
    let rows = rows.map(|(user, limits)| json!({ "user": *user.name, "value": of_user(limits) }));
    Ok(Response::ok(&rows.collect()))
}

/// The value that a limit is to have; below 0: any number.
fn wanted<N: Node>(call: &Call<'_, N>, name: &str) -> Result<Option<u64>, Response> {
    if call.request.method == Method::Delete {
        return Ok(None);
    }
    let body = Body::read(&call.request.body)?;
    read(name, body.need("value")?)
}

/// The number that a limit is; below 0: any number.
pub(crate) fn read(name: &str, value: &Value) -> Result<Option<u64>, Response> {
    match (value.as_u64(), value.as_i64()) {
        (Some(max), _) => Ok(Some(max)),
        (None, Some(_)) => Ok(None),
        (None, None) => {
            let value = crate::policies::term(value);
            let text = format!("Validation failed\n\n{name} should be a number, actually was {value}\n");
            Err(Response::bad_request(text))
        }
    }
}

/// A number of objects; of those there are never more than 32 bits say.
fn number(most: u64) -> u32 {
    u32::try_from(most).unwrap_or(u32::MAX)
}

fn unknown(name: &str, value: &Value, what: &str) -> Response {
    let value = crate::policies::term(value);
    Response::bad_request(format!(
        "Validation failed\n\nUnrecognised terms [{{<<\"{name}\">>,{value}}}] in {what}\n"
    ))
}

/// Clearing a limit that there is not is as good as done.
fn nothing_to_clear() -> Response {
    Response::empty(204)
}

/// `/api/vhost-limits/VHOST/NAME`.
pub(crate) fn set_vhost<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let id = call.caller.vhost(vhost)?;
    let mut limits = call.node.look(move |catalog| catalog.vhost_limits(id))?;
    match put_vhost(&mut limits, name, wanted(call, name)?) {
        Err(_) if call.request.method == Method::Delete => return Ok(nothing_to_clear()),
        put => put?,
    }
    call.request(Op::SetVhostLimits { vhost: vhost.into(), limits })?;
    Ok(Response::empty(204))
}

fn put_vhost(limits: &mut VhostLimits, name: &str, wanted: Option<u64>) -> Result<(), Response> {
    match name {
        "max-connections" => limits.connections_max = wanted.map(number),
        "max-queues" => limits.queues_max = wanted.map(number),
        "max-memory-bytes" => limits.memory_bytes_max = wanted,
        _ => return Err(unknown(name, &wanted.into(), "limits")),
    }
    Ok(())
}

/// Limits of a virtual host from an object of them.
pub(crate) fn vhost_limits(fields: &Map<String, Value>) -> Result<VhostLimits, Response> {
    let mut limits = VhostLimits::default();
    for (name, value) in fields {
        put_vhost(&mut limits, name, read(name, value)?)?;
    }
    Ok(limits)
}

fn put_user(limits: &mut UserLimits, name: &str, wanted: Option<u64>) -> Result<(), Response> {
    match name {
        "max-connections" => limits.connections_max = wanted.map(number),
        "max-channels" => limits.channels_max = wanted.map(number),
        "max-memory-bytes" => limits.memory_bytes_max = wanted,
        _ => return Err(unknown(name, &wanted.into(), "user-limits")),
    }
    Ok(())
}

/// Limits as definitions have them: an object, or as of old a list of names and values.
pub(crate) fn listed(row: &Body, name: &str) -> Result<Map<String, Value>, Response> {
    let Some(Value::Array(items)) = row.get(name) else { return row.object(name) };
    let one = |item: &Value| Some((item["name"].as_str()?.to_owned(), item["value"].clone()));
    let bad = || Response::bad_request(format!("{name} is not a list of names and values"));
    items.iter().map(|item| one(item).ok_or_else(bad)).collect()
}

/// Limits of a user from an object of them.
pub(crate) fn user_limits(fields: &Map<String, Value>) -> Result<UserLimits, Response> {
    let mut limits = UserLimits::default();
    for (name, value) in fields {
        put_user(&mut limits, name, read(name, value)?)?;
    }
    Ok(limits)
}

/// `/api/user-limits/USER/NAME`.
pub(crate) fn set_user<N: Node>(call: &Call<'_, N>, user: &str, name: &str) -> Answer {
    let found = crate::users::find(call.node)?;
    let missing = || Response::bad_request(json!(["no_such_user", user]));
    let own = found.iter().find(|(own, _)| *own.name == *user).ok_or_else(missing)?;
    let mut limits = own.1;
    match put_user(&mut limits, name, wanted(call, name)?) {
        Err(_) if call.request.method == Method::Delete => return Ok(nothing_to_clear()),
        put => put?,
    }
    call.request(Op::SetUserLimits { user: user.into(), limits })?;
    Ok(Response::empty(204))
}
