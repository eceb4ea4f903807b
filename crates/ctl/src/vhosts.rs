//! Virtual hosts, their limits and their policies: the words about them, as requests to the HTTP API.

use crate::exit;
use crate::limits::{self, Wanted};
use crate::listing::{found, items};
use crate::request::Refusal;
use crate::session::{Session, failed, reason};
use serde_json::{Map, Value, json};

/// As RabbitMQ's tool says it; over HTTP the reason is another.
const PROTECTED: &str = "Cannot delete this virtual host: it is protected from deletion. To lift the protection, inspect \
                         and update its metadata";

/// Columns of policies.
pub(crate) const POLICY: [&str; 6] = ["vhost", "name", "pattern", "apply-to", "definition", "priority"];

/// There is no such virtual host.
pub(crate) fn missing(vhost: &str) -> Refusal {
    Refusal { code: exit::DATA, message: format!("Virtual host '{vhost}' does not exist") }
}

/// The same for a change of something in it.
fn missing_to_change(vhost: &str) -> Refusal {
    failed(missing(vhost).message)
}

/// Whether there is such a virtual host.
pub(crate) fn has(session: &Session<'_>, vhost: &str) -> Result<bool, Refusal> {
    Ok(items(session, &["vhosts"], "columns=name")?.iter().any(|row| row["name"] == *vhost))
}

/// Whether something can be changed in a virtual host.
pub(crate) fn check_changed(session: &Session<'_>, vhost: &str) -> Result<(), Refusal> {
    if has(session, vhost)? { Ok(()) } else { Err(missing_to_change(vhost)) }
}

/// Makes a virtual host. One that is there stays as it is.
pub(crate) fn add(session: &Session<'_>, vhost: &str, body: &Value) -> Result<(), Refusal> {
    let response = session.api("PUT", &["vhosts", vhost], "only=new", Some(body))?;
    match response.status {
        200..=299 | 409 => Ok(()),
        _ => Err(Refusal { code: exit::USAGE, ..failed(reason(&response)) }),
    }
}

/// Changes a virtual host that is there as an object says; fields that it does not name stay.
pub(crate) fn update(session: &Session<'_>, vhost: &str, body: &Value) -> Result<(), Refusal> {
    let response = session.api("PUT", &["vhosts", vhost], "only=existing", Some(body))?;
    if response.status == 404 { Err(missing_to_change(vhost)) } else { response.changed() }
}

/// Removes a virtual host and all that is in it.
pub(crate) fn delete(session: &Session<'_>, vhost: &str) -> Result<(), Refusal> {
    let response = session.api("DELETE", &["vhosts", vhost], "", None)?;
    match response.status {
        200..=299 => Ok(()),
        404 => Err(missing(vhost)),
        412 => Err(Refusal { code: exit::DATA, ..failed(PROTECTED) }),
        _ => Err(Refusal { code: exit::DATA, ..failed(reason(&response)) }),
    }
}

/// The limits of virtual hosts that have any.
pub(crate) fn all_limits(session: &Session<'_>) -> Result<Value, Refusal> {
    Ok(items(session, &["vhost-limits"], "")?.into_iter().map(limits::row).collect())
}

/// The limits of a virtual host, as a text; nothing where it has none.
pub(crate) fn limits_of(session: &Session<'_>, vhost: &str) -> Result<String, Refusal> {
    let rows = found(session, &["vhost-limits", vhost], || missing(vhost))?;
    Ok(if rows[0].is_null() { String::new() } else { rows[0]["value"].to_string() })
}

/// Limits a virtual host; limits that are not named go.
pub(crate) fn set_limits(session: &Session<'_>, vhost: &str, definition: &str) -> Result<(), Refusal> {
    let wanted = match limits::vhost(definition) {
        Ok(wanted) => wanted,
        Err(why) => {
            check_changed(session, vhost)?;
            return Err(failed(why));
        }
    };
    let mut value = Map::new();
    for (name, wanted) in limits::OF_VHOST.into_iter().zip(wanted) {
        if let Wanted::Max(max) = wanted {
            value.insert(name.to_owned(), max.into());
        }
    }
    // They are one parameter: all of them change at once.
    let path = ["parameters", "vhost-limits", vhost, "limits"];
    let response = session.api("PUT", &path, "", Some(&json!({ "value": value })))?;
    if response.status == 404 { Err(missing_to_change(vhost)) } else { response.changed() }
}

/// Where policies of a kind are.
fn policies(is_operator: bool) -> &'static str {
    if is_operator { "operator-policies" } else { "policies" }
}

/// The policies of a virtual host, the users' or the operator's; those that count less come first.
pub(crate) fn list_policies(session: &Session<'_>, vhost: &str, is_operator: bool) -> Result<Value, Refusal> {
    let path = [policies(is_operator), vhost];
    let Some(mut rows) = session.find_part(&path, "sort=priority")? else { return Err(missing(vhost)) };
    rows.as_array_mut().into_iter().flatten().for_each(with_text);
    Ok(rows)
}

/// Has a policy's definition be a text.
pub(crate) fn with_text(policy: &mut Value) {
    policy["definition"] = policy["definition"].to_string().into();
}

/// Sets a policy; `definition` is a JSON object, all else is in `body`.
pub(crate) fn set_policy(
    session: &Session<'_>,
    (vhost, name, is_operator): (&str, &str, bool),
    definition: &str,
    mut body: Value,
) -> Result<(), Refusal> {
    match limits::object(definition) {
        Ok(definition) => body["definition"] = definition.into(),
        Err(why) => {
            check_changed(session, vhost)?;
            return Err(failed(why));
        }
    }
    let response = session.api("PUT", &[policies(is_operator), vhost, name], "", Some(&body))?;
    if response.status == 404 { Err(missing_to_change(vhost)) } else { response.changed() }
}

/// Takes a policy away.
pub(crate) fn clear_policy(
    session: &Session<'_>,
    vhost: &str,
    name: &str,
    is_operator: bool,
) -> Result<(), Refusal> {
    let response = session.api("DELETE", &[policies(is_operator), vhost, name], "", None)?;
    if response.status == 404 { Err(failed("Parameter does not exist")) } else { response.changed() }
}
