//! The endpoint of a request, and whether the user may.

use crate::call::Call;
use crate::caller::{Caller, Need};
use crate::endpoint::Endpoint;
use crate::endpoints::{ENDPOINTS, run};
use crate::first_page;
use crate::node::Node;
use crate::plain;
use crate::request::{Method, Request};
use crate::response::{Answer, Response};

/// Answers a request.
pub fn handle<N: Node>(node: &N, request: &Request) -> Response {
    let mut response = answer(node, request).unwrap_or_else(|refused| match &request.moving {
        // Its user or its queue may have gone since the last slice.
        Some(moving) => moving.told(refused),
        None => refused,
    });
    if request.method == Method::Head {
        response.body.clear();
    }
    response.guarded().with("vary", "accept, accept-encoding, origin".to_owned())
}

/// The endpoint that a path below `/api` means, and the segments that stand for its names.
pub(crate) fn find<'p>(path: &[&'p str]) -> Option<(&'static Endpoint, Vec<&'p str>)> {
    ENDPOINTS.iter().find_map(|endpoint| Some((endpoint, endpoint.matched(path)?)))
}

/// Whether a request is one that only users are answered, so that it can be asked first whether they may.
pub fn asks_for_login(request: &Request) -> bool {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let ["api", path @ ..] = &path[..] else { return false };
    let verb = find(path).and_then(|(endpoint, _)| endpoint.verb(request.method));
    verb.is_some_and(|verb| verb.need != Need::Nobody)
}

fn answer<N: Node>(node: &N, request: &Request) -> Answer {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    if first_page::is_at(&path) {
        return first_page::show(node, request);
    }
    let ["api", path @ ..] = &path[..] else { return Err(Response::not_found()) };
    let Some((endpoint, named)) = find(path) else {
        // A page that may ask learns so, and then that there is no such thing.
        let nothing = || Response::empty(200).with("allow", "HEAD, GET, OPTIONS".to_owned());
        return if request.method == Method::Options { Ok(nothing()) } else { Err(Response::not_found()) };
    };
    let allowing = |mut response: Response| {
        if endpoint.is_secret() {
            response.set("cache-control", "no-store".to_owned());
        }
        response.with("allow", endpoint.allowed())
    };
    if request.method == Method::Options {
        return Ok(allowing(Response::empty(200)));
    }
    let Some(verb) = endpoint.verb(request.method) else { return Err(allowing(Response::empty(405))) };
    let caller = match verb.need {
        Need::Nobody => Ok(Caller::nobody()),
        _ => Caller::enter(node, request),
    };
    let is_known = verb.need != Need::Nobody && caller.is_ok();
    let is_read = matches!(request.method, Method::Get | Method::Head);
    let vhost = endpoint.names().position(|name| name == "vhost").map(|at| named[at]);
    let run = |caller: Caller| {
        caller.check(verb.need, vhost, is_read)?;
        if request.awaits_body {
            return match verb.need {
                // The room for large bodies is for known users.
                Need::Nobody => Err(Response::too_large(node.about().limits.first_body_bytes_max)),
                _ => Ok(Response::empty(100)),
            };
        }
        let plain = plain::narrowed(endpoint.name, request);
        let request = plain.as_ref().unwrap_or(request);
        run(endpoint.name, &Call { node, request, caller }, &named)
    };
    let shown = |response| if is_known { allowing(response).logged_in() } else { allowing(response) };
    caller.and_then(run).map(shown).map_err(shown)
}
