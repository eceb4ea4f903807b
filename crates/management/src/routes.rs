//! Which path is what, what may be done with it, and what it takes to.

use crate::caller::{Caller, Need};
use crate::node::Node;
use crate::request::{Method, Request};
use crate::response::{Answer, Response};
use crate::{
    bindings, channels, connections, definitions, exchanges, features, health, limits, memory, messages,
    operations, overview, parameters, permissions, policies, queues, streams, users, vhosts,
};
use broker::catalog::PolicyKind;

/// A request of somebody who was let in.
pub(crate) struct Call<'a, N> {
    /// Whom to ask.
    pub node: &'a N,
    /// What is asked.
    pub request: &'a Request,
    /// Who asks.
    pub caller: Caller,
}

/// Answers.
type Run<'a, N> = Box<dyn FnOnce(&Call<'_, N>) -> Answer + 'a>;

/// What a path is.
struct Route<'a, N> {
    /// As the header `allow` has them.
    methods: &'static str,
    need: Need<'a>,
    run: Run<'a, N>,
}

const READ: &str = "HEAD, GET, OPTIONS";
const CHANGE: &str = "HEAD, GET, PUT, DELETE, OPTIONS";
const ADD: &str = "HEAD, GET, POST, OPTIONS";
const REMOVE: &str = "HEAD, GET, DELETE, OPTIONS";
const REPLACE: &str = "HEAD, GET, PUT, OPTIONS";
const ASK: &str = "POST, OPTIONS";

/// Answers a request.
pub fn handle<N: Node>(node: &N, request: &Request) -> Response {
    let mut response = answer(node, request).unwrap_or_else(|refused| refused);
    if request.method == Method::Head {
        response.body.clear();
    }
    let policy = "script-src 'self'; object-src 'self'".to_owned();
    response
        .with("content-security-policy", policy)
        .with("vary", "accept, accept-encoding, origin".to_owned())
}

fn answer<N: Node>(node: &N, request: &Request) -> Answer {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let ["api", path @ ..] = &path[..] else { return Err(Response::not_found()) };
    let Some(Route { methods, need, run }) = route::<N>(path, request.method) else {
        return Err(Response::not_found());
    };
    let allowing = |response: Response| response.with("allow", methods.to_owned());
    let name = match request.method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Put => "PUT",
        Method::Post => "POST",
        Method::Delete => "DELETE",
        Method::Options => return Ok(allowing(Response::empty(200))),
        Method::Other => return Err(allowing(Response::empty(405))),
    };
    if !methods.split(", ").any(|method| method == name) {
        return Err(allowing(Response::empty(405)));
    }
    let caller = match need {
        Need::Nobody => Ok(Caller::nobody()),
        _ => Caller::enter(node, request),
    };
    let is_read = matches!(request.method, Method::Get | Method::Head);
    let run = |caller: Caller| {
        caller.check(need, is_read)?;
        if request.awaits_body {
            return Ok(Response::empty(100));
        }
        run(&Call { node, request, caller })
    };
    caller.and_then(run).map(allowing).map_err(allowing)
}

/// What a path below `stream` is.
fn stream<'a, N: Node>(path: &[&'a str]) -> Option<Route<'a, N>> {
    use Need::{User, Vhost};
    macro_rules! to {
        ($methods:expr, $need:expr, $call:ident => $answer:expr) => {
            Some(Route { methods: $methods, need: $need, run: Box::new(move |$call: &Call<'_, N>| $answer) })
        };
    }
    let asked = streams::Asked::default();
    match *path {
        ["connections"] => to!(READ, User, call => streams::list(call, None)),
        ["connections", vhost] => to!(READ, Vhost(vhost), call => streams::list(call, Some(vhost))),
        ["connections", vhost, name] => to!(REMOVE, Vhost(vhost), call => streams::one(call, vhost, name)),
        ["connections", vhost, name, "publishers"] => {
            let asked = streams::Asked { vhost: Some(vhost), connection: Some(name), ..asked };
            to!(READ, Vhost(vhost), call => streams::publishers(call, asked))
        }
        ["connections", vhost, name, "consumers"] => {
            let asked = streams::Asked { vhost: Some(vhost), connection: Some(name), ..asked };
            to!(READ, Vhost(vhost), call => streams::consumers(call, asked))
        }
        ["publishers"] => to!(READ, User, call => streams::publishers(call, asked)),
        ["publishers", vhost] => {
            let asked = streams::Asked { vhost: Some(vhost), ..asked };
            to!(READ, Vhost(vhost), call => streams::publishers(call, asked))
        }
        ["publishers", vhost, name] => {
            let asked = streams::Asked { vhost: Some(vhost), stream: Some(name), ..asked };
            to!(READ, Vhost(vhost), call => streams::publishers(call, asked))
        }
        ["consumers"] => to!(READ, User, call => streams::consumers(call, asked)),
        ["consumers", vhost] => {
            let asked = streams::Asked { vhost: Some(vhost), ..asked };
            to!(READ, Vhost(vhost), call => streams::consumers(call, asked))
        }
        ["super-streams", vhost, name] => {
            to!("PUT, OPTIONS", Vhost(vhost), call => streams::super_stream(call, vhost, name))
        }
        [vhost, name, "tracking"] => to!(READ, Vhost(vhost), call => streams::tracking(call, vhost, name)),
        _ => None,
    }
}

fn route<'a, N: Node>(path: &'a [&'a str], method: Method) -> Option<Route<'a, N>> {
    use Need::{Administrator, Monitor, Nobody, Policymaker, PolicymakerIn, User, Vhost};
    let is_read = matches!(method, Method::Get | Method::Head);
    macro_rules! to {
        ($methods:expr, $need:expr, $call:ident => $answer:expr) => {
            Some(Route { methods: $methods, need: $need, run: Box::new(move |$call: &Call<'_, N>| $answer) })
        };
    }
    // Who may only look, and who may change it.
    let policymaker = |vhost: &'a str| if is_read { Vhost(vhost) } else { PolicymakerIn(vhost) };
    let definer = |vhost: &'a str| if is_read { PolicymakerIn(vhost) } else { Administrator };
    let operator = |vhost: &'a str| if is_read { Vhost(vhost) } else { Administrator };
    match *path {
        ["overview"] => to!(READ, User, call => overview::overview(call)),
        ["whoami"] => to!(READ, User, call => users::whoami(call)),
        ["cluster-name"] if is_read => to!(REPLACE, User, call => parameters::cluster_name(call)),
        ["cluster-name"] => to!(REPLACE, Administrator, call => parameters::cluster_name(call)),
        ["version"] => to!(READ, User, call => overview::version(call)),
        ["login"] => to!(ASK, Nobody, call => operations::login(call)),
        ["rebalance", "queues"] => to!(ASK, Administrator, call => operations::rebalance(call)),
        ["reset"] => to!("DELETE, OPTIONS", Administrator, call => operations::reset(call, None)),
        ["reset", name] => to!("DELETE, OPTIONS", Administrator, call => operations::reset(call, Some(name))),
        ["nodes", name, "memory"] => to!(READ, Monitor, call => memory::of_node(call, name, false)),
        ["nodes", name, "memory", "relative"] => {
            to!(READ, Monitor, call => memory::of_node(call, name, true))
        }
        ["auth", "attempts", name] if is_read => to!(REMOVE, Monitor, call => operations::auth(call, name)),
        ["auth", "attempts", name] => to!(REMOVE, Administrator, call => operations::auth(call, name)),
        ["auth", "attempts", name, "source"] if is_read => {
            to!(REMOVE, Monitor, call => operations::auth_sources(call, name))
        }
        ["auth", "attempts", name, "source"] => {
            to!(REMOVE, Administrator, call => operations::auth_sources(call, name))
        }
        ["feature-flags", name, "enable"] => {
            to!("PUT, OPTIONS", Administrator, call => features::enable(call, name))
        }
        ["nodes"] => to!(READ, Monitor, call => overview::nodes(call)),
        ["nodes", name] => to!(READ, Monitor, call => overview::node(call, name)),
        ["extensions"] => to!(READ, User, _call => Ok(Response::ok(&serde_json::json!([])))),
        ["feature-flags"] => to!(READ, User, call => features::flags(call)),
        ["deprecated-features"] => to!(READ, User, call => features::deprecated(call)),
        ["deprecated-features", "used"] => to!(READ, User, call => features::used(call)),
        ["auth", "hash_password", password] => to!("GET, OPTIONS", User, call => users::hash(call, password)),

        ["definitions"] => to!(ADD, Administrator, call => definitions::definitions(call, None)),
        ["definitions", vhost] => {
            to!(ADD, definer(vhost), call => definitions::definitions(call, Some(vhost)))
        }

        ["vhosts"] => to!(READ, User, call => vhosts::list(call)),
        ["vhosts", name] => to!(CHANGE, Administrator, call => vhosts::one(call, name)),
        ["vhosts", name, "permissions"] => {
            to!(READ, Administrator, call => permissions::of_vhost(call, name))
        }
        ["vhosts", name, "topic-permissions"] => {
            to!(READ, Administrator, call => permissions::topics_of_vhost(call, name))
        }
        ["vhosts", name, "deletion", "protection"] => {
            to!("GET, POST, DELETE, OPTIONS", Administrator, call => vhosts::protect(call, name))
        }
        ["vhosts", name, "connections"] => to!(READ, Vhost(name), call => connections::of_vhost(call, name)),
        ["users"] => to!(READ, Administrator, call => users::list(call)),
        ["users", "without-permissions"] => {
            to!(READ, Administrator, call => users::without_permissions(call))
        }
        ["users", "bulk-delete"] => to!(ASK, Administrator, call => users::delete_many(call)),
        ["users", name] => to!(CHANGE, Administrator, call => users::one(call, name)),
        ["users", name, "permissions"] => to!(READ, Administrator, call => permissions::of_user(call, name)),
        ["users", name, "topic-permissions"] => {
            to!(READ, Administrator, call => permissions::topics_of_user(call, name))
        }
        ["permissions"] => to!(READ, Administrator, call => permissions::list(call)),
        ["permissions", vhost, user] => {
            to!(CHANGE, Administrator, call => permissions::one(call, vhost, user))
        }
        ["topic-permissions"] => to!(READ, Administrator, call => permissions::topics(call)),
        ["topic-permissions", vhost, user] => {
            to!(CHANGE, Administrator, call => permissions::topics_one(call, vhost, user, None))
        }
        ["topic-permissions", vhost, user, exchange] => {
            to!(REMOVE, Administrator, call => permissions::topics_one(call, vhost, user, Some(exchange)))
        }
        ["vhost-limits"] => to!("GET, OPTIONS", User, call => limits::vhosts(call, None)),
        ["vhost-limits", vhost] => {
            to!("GET, OPTIONS", Vhost(vhost), call => limits::vhosts(call, Some(vhost)))
        }
        ["vhost-limits", vhost, name] => {
            to!("PUT, DELETE, OPTIONS", Administrator, call => limits::set_vhost(call, vhost, name))
        }
        ["user-limits"] => to!("GET, OPTIONS", Administrator, call => limits::users(call, None)),
        ["user-limits", user] => to!("GET, OPTIONS", Administrator, call => limits::users(call, Some(user))),
        ["user-limits", user, name] => {
            to!("PUT, DELETE, OPTIONS", Administrator, call => limits::set_user(call, user, name))
        }

        ["policies"] => to!(READ, User, call => policies::list(call, PolicyKind::User, None)),
        ["policies", vhost] => {
            to!(READ, Vhost(vhost), call => policies::list(call, PolicyKind::User, Some(vhost)))
        }
        ["policies", vhost, name] => {
            to!(CHANGE, policymaker(vhost), call => policies::one(call, PolicyKind::User, vhost, name))
        }
        ["operator-policies"] => to!(READ, User, call => policies::list(call, PolicyKind::Operator, None)),
        ["operator-policies", vhost] => {
            to!(READ, Vhost(vhost), call => policies::list(call, PolicyKind::Operator, Some(vhost)))
        }
        ["operator-policies", vhost, name] => {
            to!(CHANGE, operator(vhost), call => policies::one(call, PolicyKind::Operator, vhost, name))
        }
        ["parameters"] => to!(READ, Policymaker, call => parameters::list(call, None, None)),
        ["parameters", component] => {
            to!(READ, Policymaker, call => parameters::list(call, Some(component), None))
        }
        ["parameters", component, vhost] => {
            to!(READ, PolicymakerIn(vhost), call => parameters::list(call, Some(component), Some(vhost)))
        }
        ["parameters", component, vhost, name] => {
            to!(CHANGE, PolicymakerIn(vhost), call => parameters::one(call, component, vhost, name))
        }
        ["global-parameters", name] if is_read => {
            to!(CHANGE, Policymaker, call => parameters::global_one(call, name))
        }
        ["global-parameters", name] => to!(CHANGE, Administrator, call => parameters::global_one(call, name)),
        ["global-parameters"] => to!(READ, Policymaker, call => parameters::global(call)),

        ["exchanges"] => to!(READ, User, call => exchanges::list(call, None)),
        ["exchanges", vhost] => to!(READ, Vhost(vhost), call => exchanges::list(call, Some(vhost))),
        ["exchanges", vhost, name] => to!(CHANGE, Vhost(vhost), call => exchanges::one(call, vhost, name)),
        ["exchanges", vhost, name, "publish"] => {
            to!(ASK, Vhost(vhost), call => messages::publish(call, vhost, name))
        }
        ["exchanges", vhost, name, "bindings", "source"] => {
            to!(READ, Vhost(vhost), call => bindings::of_exchange(call, vhost, name, true))
        }
        ["exchanges", vhost, name, "bindings", "destination"] => {
            to!(READ, Vhost(vhost), call => bindings::of_exchange(call, vhost, name, false))
        }
        ["queues"] => to!(READ, User, call => queues::list(call, None)),
        ["queues", "detailed"] => to!(READ, User, call => queues::list(call, None)),
        ["queues", vhost] => to!(READ, Vhost(vhost), call => queues::list(call, Some(vhost))),
        ["queues", vhost, name] => to!(CHANGE, Vhost(vhost), call => queues::one(call, vhost, name)),
        ["queues", vhost, name, "bindings"] => {
            to!(READ, Vhost(vhost), call => bindings::of_queue(call, vhost, name))
        }
        ["queues", vhost, name, "contents"] => {
            to!("DELETE, OPTIONS", Vhost(vhost), call => queues::purge(call, vhost, name))
        }
        ["queues", vhost, name, "get"] => to!(ASK, Vhost(vhost), call => messages::get(call, vhost, name)),
        // Not RabbitMQ's.
        ["x", "streams", vhost, name, "truncate"] => {
            to!(ASK, PolicymakerIn(vhost), call => queues::truncate(call, vhost, name))
        }
        ["bindings"] => to!(READ, User, call => bindings::list(call, None)),
        ["bindings", vhost] => to!(READ, Vhost(vhost), call => bindings::list(call, Some(vhost))),
        ["bindings", vhost, "e", source, kind @ ("q" | "e"), destination] => {
            to!(ADD, Vhost(vhost), call => bindings::between(call, vhost, source, (kind == "e", destination)))
        }
        ["bindings", vhost, "e", source, kind @ ("q" | "e"), destination, key] => {
            to!(REMOVE, Vhost(vhost), call => bindings::one(call, vhost, source, (kind == "e", destination), key))
        }

        ["connections"] => to!(READ, User, call => connections::list(call)),
        ["connections", "username", user] => to!(REMOVE, User, call => connections::of_user(call, user)),
        ["connections", name, "channels"] => {
            to!(READ, User, call => channels::of_connection(call, name))
        }
        ["channels"] => to!(READ, User, call => channels::list(call)),
        ["channels", name] => to!(READ, User, call => channels::one(call, name)),
        ["vhosts", name, "channels"] => to!(READ, Vhost(name), call => channels::of_vhost(call, name)),
        ["consumers"] => to!(READ, User, call => channels::consumers(call, None)),
        ["consumers", vhost] => to!(READ, Vhost(vhost), call => channels::consumers(call, Some(vhost))),
        ["stream", ref path @ ..] => stream(path),
        ["connections", name] => to!(REMOVE, User, call => connections::one(call, name)),

        ["aliveness-test", vhost] => to!(READ, Vhost(vhost), call => messages::aliveness(call, vhost)),
        ["health", "checks", ref check @ ..] => {
            // Probes of who has no password: RabbitMQ answers these to everybody, and so do we.
            let is_open = matches!(
                *check,
                ["is-in-service"
                    | "ready-to-serve-clients"
                    | "reached-target-cluster-size"
                    | "below-node-connection-limit"]
            );
            let check: Vec<&str> = check.to_vec();
            to!(READ, if is_open { Nobody } else { User }, call => health::check(call, &check))
        }
        _ => None,
    }
}
