//! Small requests of operators to a node: logging in, rebalancing, forgetting counters, attempts to log in.

use crate::body::Body;
use crate::call::Call;
use crate::caller::Caller;
use crate::node::Node;
use crate::parameters;
use crate::request::{Method, Request, decode};
use crate::response::{Answer, Response};
use crate::web_sessions::cookie_name;
use broker::Protocol;
use data_encoding::BASE64;
use serde_json::{Value, json};

/// A key with any of these in its name has a value that is nobody's business.
const SECRETS: [&str; 4] = ["pass", "secret", "token", "salt"];

/// `POST /api/login`: user and password in a form or an object, for pages that ask for both.
pub(crate) fn login<N: Node>(call: &Call<'_, N>) -> Answer {
    let (caller, token) = entered(call)?;
    Ok(Response::ok(&json!({
        "user": { "name": caller.login.user, "tags": caller.tags, "is_internal_user": true },
        "token": { "type": "basic", "value": token },
    }))
    .logged_in())
}

/// `POST /api/x/session`: the same, for a browser that is to have a cookie. `DELETE`: it is to have none any more.
/// `GET`: who it is that has one; nobody is no error, as a page asks before it knows.
pub(crate) fn session<N: Node>(call: &Call<'_, N>) -> Answer {
    let Call { node, request, .. } = call;
    let about = node.about();
    let Some(sessions) = &about.web_sessions else { return Err(Response::not_found()) };
    let cookie = |value: &str| {
        let name = cookie_name(request.host.as_ref().and_then(|host| host.said_port()));
        let secure = if request.is_secure { "; Secure" } else { "" };
        format!("{name}={value}; Path={}/; HttpOnly; SameSite=Strict{secure}", about.prefix)
    };
    if matches!(request.method, Method::Get | Method::Head) {
        let nobody = || Ok(Response::ok(&json!({ "name": null })));
        if request.session.is_none() {
            return nobody();
        }
        return match Caller::enter(*node, request) {
            Ok(caller) => Ok(Response::ok(&told(&caller, *node)?)),
            Err(refused) if refused.status == 401 => nobody(),
            // Its password is to be compared first, or cannot be now.
            Err(other) => Err(other),
        };
    }
    if request.method == Method::Delete {
        request.session.iter().for_each(|key| sessions.end(key));
        return Ok(Response::empty(204).with("set-cookie", cookie("") + "; Max-Age=0"));
    }
    let (caller, token) = entered(call)?;
    request.session.iter().for_each(|key| sessions.end(key));
    let told = told(&caller, *node)?;
    let secret = sessions.begin(node.now(), &caller.login.user, format!("Basic {token}"));
    Ok(Response::ok(&told).with("set-cookie", cookie(&secret)).logged_in())
}

/// A user that is logged in by a browser, where that is, and the parts of messages that it may see there.
///
/// # Errors
/// The response where the node is busy.
fn told<N: Node>(caller: &Caller, node: &N) -> Result<Value, Response> {
    let messages = node.about().browsers_see.name();
    let Caller { login, tags, .. } = caller;
    Ok(
        json!({ "name": login.user, "tags": tags, "messages": messages, "cluster_name": parameters::cluster(node)? }),
    )
}

/// The user that a body names, and its token of basic authentication.
///
/// # Errors
/// The response to a user that is not let in.
fn entered<N: Node>(call: &Call<'_, N>) -> Result<(Caller, String), Response> {
    let body = call.request.body.as_slice();
    let (user, password) = match Body::read(body) {
        Ok(object) if !object.0.is_empty() => {
            (object.need_text("username")?.to_owned(), object.need_text("password")?.to_owned())
        }
        _ => {
            let text = std::str::from_utf8(body).map_err(|_| Response::bad_request("the form is no text"))?;
            let field = |name: &str| {
                let mut pairs = text.split('&').filter_map(|pair| pair.split_once('='));
                let found = pairs.find(|(own, _)| *own == name);
                found.and_then(|(_, value)| decode(value, true)).ok_or_else(|| Response::missing_key(name))
            };
            (field("username")?, field("password")?)
        }
    };
    let token = BASE64.encode(format!("{user}:{password}").as_bytes());
    let authorization = Some(format!("Basic {token}"));
    let request = Request { authorization, session: None, ..call.request.clone() };
    Ok((Caller::enter(call.node, &request)?, token))
}

/// `GET /api/config/effective`: the settings, as they could be set again; without secrets.
pub(crate) fn effective<N: Node>(call: &Call<'_, N>) -> Answer {
    let mut text = String::new();
    for (key, value) in &call.node.about().settings {
        let is_secret = SECRETS.iter().any(|word| key.contains(word));
        text += &format!("{key} = {}\n", if is_secret { "[redacted]" } else { value });
    }
    let headers = vec![("content-type", "text/plain".to_owned()), ("cache-control", "no-cache".to_owned())];
    Ok(Response { headers, body: text.into_bytes(), ..Response::empty(200) })
}

/// `GET /api/x/settings`: each setting that was read, and where; without secrets.
pub(crate) fn settings<N: Node>(call: &Call<'_, N>) -> Answer {
    let rows = call.node.about().settings_read.iter().map(|(key, value, from)| {
        let is_secret = SECRETS.iter().any(|word| key.contains(word)) && !key.starts_with("password_hashing");
        json!({ "key": key, "value": if is_secret { "********" } else { value }, "from": from })
    });
    Ok(Response::ok(&rows.collect::<Value>()))
}

/// `POST /api/x/certificates/reload`.
pub(crate) fn reload_certificates<N: Node>(call: &Call<'_, N>) -> Answer {
    let reloaded = call.node.reload_certificates().map_err(Response::bad_request)?;
    call.tell(&format!("Read the certificates of {reloaded} kinds of listeners anew"));
    Ok(Response::ok(&json!({ "reloaded": reloaded })))
}

/// `POST /api/rebalance/queues`: every queue has one member here, which leads it.
pub(crate) fn rebalance<N: Node>(call: &Call<'_, N>) -> Answer {
    call.node.look(|catalog| catalog.version())?;
    Ok(Response::empty(204))
}

fn check_node<N: Node>(call: &Call<'_, N>, name: Option<&str>) -> Result<(), Response> {
    match name {
        Some(name) if name != call.node.about().node => Err(Response::not_found()),
        _ => Ok(()),
    }
}

/// `DELETE /api/reset[/NODE]`: how counters grew is forgotten, not the counters.
pub(crate) fn reset<N: Node>(call: &Call<'_, N>, name: Option<&str>) -> Answer {
    check_node(call, name)?;
    call.node.forget_history();
    Ok(Response::empty(204))
}

/// Logins by protocol since the node started: tried, refused.
pub(crate) fn attempts<N: Node>(node: &N) -> Result<Vec<(&'static str, [u64; 2])>, Response> {
    let survey = node.survey()?;
    let own = |protocol: &Protocol| (protocol.label(), survey.protocols[*protocol as usize].logins);
    Ok(Protocol::ALL.iter().map(own).chain([("http", node.logins())]).collect())
}

/// `/api/auth/attempts/NODE`.
pub(crate) fn auth<N: Node>(call: &Call<'_, N>, name: &str) -> Answer {
    check_node(call, Some(name))?;
    let all = attempts(call.node)?;
    if call.request.method == Method::Delete {
        call.node.forget_logins(all.iter().map(|(_, own)| *own).collect());
        return Ok(Response::empty(204));
    }
    let before = call.node.forgotten_logins();
    let rows = all.iter().enumerate().filter_map(|(at, (protocol, own))| {
        let [tried_before, refused_before] = before.get(at).copied().unwrap_or_default();
        // They are read one after the other, while others count and forget.
        let (tried, refused) = (own[0].saturating_sub(tried_before), own[1].saturating_sub(refused_before));
        (tried > 0).then(|| {
            json!({
                "protocol": protocol,
                "auth_attempts": tried,
                "auth_attempts_failed": refused,
                "auth_attempts_succeeded": tried.saturating_sub(refused),
            })
        })
    });
    Ok(Response::ok(&rows.collect::<Value>()))
}

/// `GET /api/auth/attempts/NODE/source`: nobody counts by where they come from, as in RabbitMQ where nothing else is said.
pub(crate) fn auth_sources<N: Node>(call: &Call<'_, N>, name: &str) -> Answer {
    check_node(call, Some(name))?;
    if call.request.method == Method::Delete {
        return Ok(Response::empty(204));
    }
    Ok(Response::ok(&json!([])))
}
