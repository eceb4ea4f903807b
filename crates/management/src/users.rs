//! Users, and the user of the request.

use crate::body::Body;
use crate::call::Call;
use crate::list;
use crate::node::{Node, Trouble};
use crate::request::{Method, Only};
use crate::response::{Answer, Response};
use broker::access::{Hashing, PasswordHash, Stored};
use broker::catalog::{Object, Op, Reason, UserDefinition, UserLimits};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const HASHING: &str = "rabbit_password_hashing_sha256";

/// `GET /api/whoami`.
pub(crate) fn whoami<N: Node>(call: &Call<'_, N>) -> Answer {
    let caller = &call.caller;
    Ok(Response::ok(&json!({ "name": caller.login.user, "tags": caller.tags, "is_internal_user": true })))
}

pub(crate) type Found = Vec<(Arc<UserDefinition>, UserLimits)>;

pub(crate) fn find<N: Node>(node: &N) -> Result<Found, Response> {
    Ok(node.look(|catalog| {
        catalog.users().map(|user| (user.clone(), catalog.user_limits(&user.name))).collect()
    })?)
}

pub(crate) fn shown((user, limits): &(Arc<UserDefinition>, UserLimits)) -> Value {
    let hash = user.password.as_ref().map(PasswordHash::to_text).unwrap_or_default();
    json!({
        "name": *user.name,
        "password_hash": hash,
        "hashing_algorithm": user.password.as_ref().map_or(HASHING, PasswordHash::algorithm),
        "tags": user.tags.iter().map(|tag| &**tag).collect::<Vec<_>>(),
        "limits": crate::limits::of_user(limits),
    })
}

/// `GET /api/users`.
pub(crate) fn list<N: Node>(call: &Call<'_, N>) -> Answer {
    let rows = find(call.node)?.iter().map(shown).collect();
    list::answer(rows, call.request, &call.node.about().limits, &["name"])
}

/// `GET /api/users/without-permissions`.
pub(crate) fn without_permissions<N: Node>(call: &Call<'_, N>) -> Answer {
    let permitted: BTreeSet<Arc<str>> = call.node.look(|catalog| {
        let all = catalog.vhosts().flat_map(|vhost| catalog.vhost_permissions(vhost.id));
        all.map(|own| own.user.clone()).collect()
    })?;
    let mut found = find(call.node)?;
    found.retain(|(user, _)| !permitted.contains(&user.name));
    let rows = found.iter().map(shown).collect();
    list::answer(rows, call.request, &call.node.about().limits, &["name"])
}

/// `POST /api/users/bulk-delete`.
pub(crate) fn delete_many<N: Node>(call: &Call<'_, N>) -> Answer {
    let body = Body::read(&call.request.body)?;
    body.need("users")?;
    for user in body.words("users")?.unwrap_or_default() {
        if find(call.node)?.iter().any(|(own, _)| *own.name == *user) {
            call.request(Op::DeleteUser { name: user.into() })?;
        }
    }
    Ok(Response::empty(204))
}

/// `/api/users/NAME`.
pub(crate) fn one<N: Node>(call: &Call<'_, N>, name: &str) -> Answer {
    let found = find(call.node)?;
    let own = found.iter().find(|(user, _)| *user.name == *name);
    match (call.request.method, own) {
        (Method::Put, own) => {
            let body = Body::read(&call.request.body)?;
            let ops = match (call.request.only()?, own.is_some()) {
                (Some(Only::New), true) => return Err(Response::exists("user", name)),
                (Some(Only::Existing), false) => return Err(Response::not_found()),
                (Some(Only::Existing), true) => changes(call.node, name, &body)?,
                (_, is_there) => wanted(call.node, name, &body, is_there)?,
            };
            let is_any = call.request.only()?.is_none();
            for op in ops {
                let instead = if is_any { instead(&op) } else { None };
                or_instead(call, call.request(op), instead)?;
            }
            Ok(Response::empty(if own.is_some() { 204 } else { 201 }))
        }
        (_, None) => Err(Response::not_found()),
        (Method::Delete, Some(_)) => {
            call.request(Op::DeleteUser { name: name.into() })?;
            Ok(Response::empty(204))
        }
        (_, Some(own)) => list::one(shown(own), call.request, &call.node.about().limits),
    }
}

/// The requests that make a user as an object says, in order.
pub(crate) fn wanted<N: Node>(
    node: &N,
    name: &str,
    body: &Body,
    is_there: bool,
) -> Result<Vec<Op>, Response> {
    let Some(tags) = body.words("tags")? else { return Err(Response::bad_request("tags_not_present")) };
    let tags: Vec<Box<str>> = tags.into_iter().map(String::into_boxed_str).collect();
    let password = password(node, name, body)?;
    Ok(match is_there {
        true => {
            vec![
                Op::ChangePassword { name: name.into(), password },
                Op::SetUserTags { name: name.into(), tags },
            ]
        }
        false => vec![Op::AddUser { name: name.into(), password, tags }],
    })
}

/// The requests that change a user to what this one makes of it: somebody else may have made one of that name meanwhile. None: it makes
/// no user.
pub(crate) fn instead(op: &Op) -> Option<[Op; 2]> {
    let Op::AddUser { name, password, tags } = op else { return None };
    let (name, password, tags) = (name.clone(), password.clone(), tags.clone());
    Some([Op::ChangePassword { name: name.clone(), password }, Op::SetUserTags { name, tags }])
}

/// The outcome of making a user, or of changing the one that somebody else has made meanwhile.
pub(crate) fn or_instead<N: Node>(
    call: &Call<'_, N>,
    outcome: Result<(), Trouble>,
    instead: Option<[Op; 2]>,
) -> Result<(), Trouble> {
    match (outcome, instead) {
        (Err(Trouble::Refused(refusal)), Some(instead)) if refusal.reason == Reason::Exists(Object::User) => {
            instead.into_iter().try_for_each(|op| call.request(op))
        }
        (outcome, _) => outcome,
    }
}

/// The requests that change a user as an object says; fields that it does not name stay.
fn changes<N: Node>(node: &N, name: &str, body: &Body) -> Result<Vec<Op>, Response> {
    let mut ops = Vec::new();
    if body.get("password").or(body.get("password_hash")).is_some() {
        ops.push(Op::ChangePassword { name: name.into(), password: password(node, name, body)? });
    }
    if let Some(tags) = body.words("tags")? {
        let tags = tags.into_iter().map(String::into_boxed_str).collect();
        ops.push(Op::SetUserTags { name: name.into(), tags });
    }
    Ok(ops)
}

/// The hash of a password that an object has in clear, or as a hash. A clear one is hashed as the object says, where it
/// names an algorithm for new hashes.
fn password<N: Node>(node: &N, name: &str, body: &Body) -> Result<Option<PasswordHash>, Response> {
    Ok(match (body.text("password")?, body.text("password_hash")?) {
        (Some(_), Some(_)) => {
            return Err(Response::bad_request("both_password_and_password_hash_are_provided"));
        }
        (Some(password), None) => {
            let named = body.text("hashing_algorithm")?.and_then(Hashing::named);
            Some(node.hash(password, named.unwrap_or(node.about().access.hashing))?)
        }
        (None, None | Some("")) => None,
        (None, Some(hash)) => match PasswordHash::from_text(hash, body.text("hashing_algorithm")?) {
            Some(Stored::Hash(hash)) => Some(hash),
            // As with RabbitMQ such a user is there, and cannot log in with a password.
            Some(Stored::Other) => None,
            Some(Stored::TooDear(why)) => return Err(Response::bad_request(format!("user '{name}': {why}"))),
            None => return Err(Response::bad_request(json!(["not_base64", body.get("password_hash")]))),
        },
    })
}

/// The remark on a user that cannot log in, since the hash of its password is of no known kind.
pub(crate) fn remark(body: &Body) -> Option<String> {
    let hash = body.text("password_hash").ok()?.filter(|hash| !hash.is_empty())?;
    let algorithm = body.text("hashing_algorithm").ok()?;
    match PasswordHash::from_text(hash, algorithm)? {
        // The second is refused.
        Stored::Hash(_) | Stored::TooDear(_) => None,
        Stored::Other => Some(match algorithm {
            Some(algorithm) => {
                format!("without a password: the hash is none of '{algorithm}' as it is known here")
            }
            None => "without a password: the hash is of no known length".to_owned(),
        }),
    }
}

/// `GET /api/auth/hash_password/PASSWORD`.
pub(crate) fn hash<N: Node>(call: &Call<'_, N>, password: &str) -> Answer {
    let hash = call.node.hash(password, call.node.about().access.hashing)?;
    Ok(Response::ok(&json!({ "ok": hash.to_text() })))
}
