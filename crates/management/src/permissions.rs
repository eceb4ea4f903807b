//! Permissions of users in virtual hosts, and on the topics of exchanges.

use crate::body::Body;
use crate::call::Call;
use crate::list;
use crate::node::Node;
use crate::request::Method;
use crate::response::{Answer, Response};
use broker::catalog::{Op, PermissionDefinition, TopicPermissionDefinition};
use serde_json::{Value, json};
use std::sync::Arc;

/// A list of rows in the order of their virtual hosts and users.
fn answer<N: Node>(call: &Call<'_, N>, rows: Vec<Value>) -> Answer {
    list::answer(rows, call.request, &call.node.about().limits, &["vhost", "user", "exchange"])
}

/// Every user's permissions.
pub(crate) fn find<N: Node>(node: &N) -> Result<Vec<Value>, Response> {
    let found: Vec<(Arc<str>, Arc<PermissionDefinition>)> = node.look(|catalog| {
        let own = catalog.vhosts().flat_map(|vhost| {
            catalog.vhost_permissions(vhost.id).map(|own| (vhost.name.clone(), own.clone()))
        });
        own.collect()
    })?;
    let row = |(vhost, own): &(Arc<str>, Arc<PermissionDefinition>)| {
        let permissions = &own.permissions;
        json!({
            "user": *own.user,
            "vhost": **vhost,
            "configure": permissions.configure.source(),
            "write": permissions.write.source(),
            "read": permissions.read.source(),
        })
    };
    Ok(found.iter().map(row).collect())
}

/// Every user's topic permissions.
pub(crate) fn find_topics<N: Node>(node: &N) -> Result<Vec<Value>, Response> {
    let found: Vec<(Arc<str>, Arc<TopicPermissionDefinition>)> = node.look(|catalog| {
        let own = catalog.vhosts().flat_map(|vhost| {
            catalog.topic_permissions(vhost.id).map(|own| (vhost.name.clone(), own.clone()))
        });
        own.collect()
    })?;
    let row = |(vhost, own): &(Arc<str>, Arc<TopicPermissionDefinition>)| {
        json!({
            "user": *own.user,
            "vhost": **vhost,
            "exchange": *own.exchange,
            "write": *own.write,
            "read": *own.read,
        })
    };
    Ok(found.iter().map(row).collect())
}

fn has_user<N: Node>(call: &Call<'_, N>, user: &str) -> Result<bool, Response> {
    let user = user.to_owned();
    Ok(call.node.look(move |catalog| catalog.user(&user).is_some())?)
}

fn keep(rows: Vec<Value>, key: &str, value: &str) -> Vec<Value> {
    rows.into_iter().filter(|row| row[key] == value).collect()
}

/// `GET /api/permissions`.
pub(crate) fn list<N: Node>(call: &Call<'_, N>) -> Answer {
    answer(call, find(call.node)?)
}

/// `GET /api/vhosts/VHOST/permissions`.
pub(crate) fn of_vhost<N: Node>(call: &Call<'_, N>, vhost: &str) -> Answer {
    call.caller.vhost(vhost)?;
    answer(call, keep(find(call.node)?, "vhost", vhost))
}

/// `GET /api/users/USER/permissions`.
pub(crate) fn of_user<N: Node>(call: &Call<'_, N>, user: &str) -> Answer {
    if !has_user(call, user)? {
        return Err(Response::not_found());
    }
    answer(call, keep(find(call.node)?, "user", user))
}

/// `GET /api/topic-permissions`.
pub(crate) fn topics<N: Node>(call: &Call<'_, N>) -> Answer {
    answer(call, find_topics(call.node)?)
}

/// `GET /api/vhosts/VHOST/topic-permissions`.
pub(crate) fn topics_of_vhost<N: Node>(call: &Call<'_, N>, vhost: &str) -> Answer {
    call.caller.vhost(vhost)?;
    answer(call, keep(find_topics(call.node)?, "vhost", vhost))
}

/// `GET /api/users/USER/topic-permissions`.
pub(crate) fn topics_of_user<N: Node>(call: &Call<'_, N>, user: &str) -> Answer {
    if !has_user(call, user)? {
        return Err(Response::not_found());
    }
    answer(call, keep(find_topics(call.node)?, "user", user))
}

/// `/api/permissions/VHOST/USER`.
pub(crate) fn one<N: Node>(call: &Call<'_, N>, vhost: &str, user: &str) -> Answer {
    let own = keep(keep(find(call.node)?, "vhost", vhost), "user", user).pop();
    match (call.request.method, own) {
        (Method::Put, own) => {
            let body = Body::read(&call.request.body)?;
            if call.caller.vhost(vhost).is_err() || !has_user(call, user)? {
                return Err(Response::bad_request("vhost_or_user_not_found"));
            }
            call.request(wanted(vhost, user, &body)?)?;
            Ok(Response::empty(if own.is_some() { 204 } else { 201 }))
        }
        (_, None) => Err(Response::not_found()),
        (Method::Delete, Some(_)) => {
            call.request(Op::ClearPermissions { user: user.into(), vhost: vhost.into() })?;
            Ok(Response::empty(204))
        }
        (_, Some(own)) => list::one(own, call.request, &call.node.about().limits),
    }
}

/// To give permissions as an object says.
pub(crate) fn wanted(vhost: &str, user: &str, body: &Body) -> Result<Op, Response> {
    Ok(Op::SetPermissions {
        user: user.into(),
        vhost: vhost.into(),
        configure: body.need_text("configure")?.into(),
        write: body.need_text("write")?.into(),
        read: body.need_text("read")?.into(),
    })
}

/// `/api/topic-permissions/VHOST/USER[/EXCHANGE]`.
pub(crate) fn topics_one<N: Node>(
    call: &Call<'_, N>,
    vhost: &str,
    user: &str,
    exchange: Option<&str>,
) -> Answer {
    let mut own = keep(keep(find_topics(call.node)?, "vhost", vhost), "user", user);
    if let Some(exchange) = exchange {
        own = keep(own, "exchange", exchange);
    }
    match call.request.method {
        Method::Put => {
            let body = Body::read(&call.request.body)?;
            if call.caller.vhost(vhost).is_err() || !has_user(call, user)? {
                return Err(Response::bad_request("vhost_or_user_not_found"));
            }
            call.request(wanted_topics(vhost, user, &body)?)?;
            Ok(Response::empty(if own.is_empty() { 201 } else { 204 }))
        }
        _ if own.is_empty() => Err(Response::not_found()),
        Method::Delete => {
            let exchange = exchange.map(Into::into);
            call.request(Op::ClearTopicPermissions { user: user.into(), vhost: vhost.into(), exchange })?;
            Ok(Response::empty(204))
        }
        _ => answer(call, own),
    }
}

/// To give topic permissions as an object says.
pub(crate) fn wanted_topics(vhost: &str, user: &str, body: &Body) -> Result<Op, Response> {
    Ok(Op::SetTopicPermissions {
        user: user.into(),
        vhost: vhost.into(),
        exchange: body.need_text("exchange")?.into(),
        write: body.need_text("write")?.into(),
        read: body.need_text("read")?.into(),
    })
}
