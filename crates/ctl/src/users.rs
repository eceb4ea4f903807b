//! Users and their permissions: the words about them, as requests to the HTTP API.

use crate::exit;
use crate::limits::{self, Wanted};
use crate::listing::{found, items};
use crate::request::{Refusal, Response};
use crate::session::{Session, done, failed, no_user};
use crate::vhosts;
use serde_json::{Value, json};

/// Users with their tags.
pub(crate) fn list(session: &Session<'_>) -> Result<Value, Refusal> {
    let mut rows = items(session, &["users"], "columns=name,tags")?;
    rows.iter_mut().for_each(|row| row["user"] = row["name"].take());
    Ok(rows.into())
}

/// Makes a user that is not there yet.
pub(crate) fn add(session: &Session<'_>, user: &str, password: &str) -> Result<(), Refusal> {
    let body = json!({ "password": password, "tags": [] });
    let response = session.api("PUT", &["users", user], "only=new", Some(&body))?;
    if response.status == 409 {
        let message = format!("Error:\nUser \"{user}\" already exists");
        return Err(Refusal { code: exit::SOFTWARE, message });
    }
    response.changed()
}

/// Removes a user. One that is not there is gone.
pub(crate) fn delete(session: &Session<'_>, user: &str) -> Result<(), Refusal> {
    let response = session.api("DELETE", &["users", user], "", None)?;
    if response.status == 404 { Ok(()) } else { response.changed() }
}

/// Changes a user that is there as an object says; fields that it does not name stay.
pub(crate) fn update(session: &Session<'_>, user: &str, body: &Value) -> Result<(), Refusal> {
    let response = session.api("PUT", &["users", user], "only=existing", Some(body))?;
    if response.status == 404 { Err(no_user(user)) } else { response.changed() }
}

/// The permissions in a virtual host, of names or `topic-permissions`.
pub(crate) fn permissions_in(session: &Session<'_>, vhost: &str, kind: &str) -> Result<Value, Refusal> {
    found(session, &["vhosts", vhost, kind], || vhosts::missing(vhost))
}

/// The permissions of a user. As RabbitMQ's tool, one that is not there is taken for a node that cannot be asked.
pub(crate) fn permissions_of(session: &Session<'_>, user: &str, kind: &str) -> Result<Value, Refusal> {
    found(session, &["users", user, kind], || unknown(user))
}

/// Has a user have permissions in a virtual host.
pub(crate) fn permit(
    session: &Session<'_>,
    vhost: &str,
    user: &str,
    [configure, write, read]: [&str; 3],
) -> Result<(), Refusal> {
    let body = json!({ "configure": configure, "write": write, "read": read });
    let response = session.api("PUT", &["permissions", vhost, user], "", Some(&body))?;
    permitted(session, response, vhost, user)
}

/// The same with the topics of an exchange.
pub(crate) fn permit_topics(
    session: &Session<'_>,
    vhost: &str,
    user: &str,
    exchange: &str,
    [write, read]: [&str; 2],
) -> Result<(), Refusal> {
    let body = json!({ "exchange": exchange, "write": write, "read": read });
    let response = session.api("PUT", &["topic-permissions", vhost, user], "", Some(&body))?;
    permitted(session, response, vhost, user)
}

/// The outcome of a change of permissions: where it was refused, the user is looked for first, then the virtual host.
fn permitted(session: &Session<'_>, response: Response, vhost: &str, user: &str) -> Result<(), Refusal> {
    if (200..300).contains(&response.status) {
        return Ok(());
    }
    if session.find_part(&["users", user], "columns=name")?.is_none() {
        return Err(no_user(user));
    }
    vhosts::check_changed(session, vhost)?;
    response.changed()
}

/// Takes a user's permissions in a virtual host away. Those that are not there are gone.
pub(crate) fn forbid(session: &Session<'_>, vhost: &str, user: &str) -> Result<(), Refusal> {
    let response = session.api("DELETE", &["permissions", vhost, user], "", None)?;
    if response.status == 404 { vhosts::check_changed(session, vhost) } else { response.changed() }
}

/// The same with topics, of an exchange or of all.
pub(crate) fn forget_topics(
    session: &Session<'_>,
    vhost: &str,
    user: &str,
    exchange: Option<&str>,
) -> Result<(), Refusal> {
    let path: Vec<&str> = ["topic-permissions", vhost, user].into_iter().chain(exchange).collect();
    let response = session.api("DELETE", &path, "", None)?;
    if response.status == 404 { Ok(()) } else { response.changed() }
}

/// The limits of users that have any.
pub(crate) fn all_limits(session: &Session<'_>) -> Result<Value, Refusal> {
    Ok(items(session, &["user-limits"], "")?.into_iter().map(limits::row).collect())
}

/// The limits of a user, as a text; as [`permissions_of`].
pub(crate) fn limits_of(session: &Session<'_>, user: &str) -> Result<String, Refusal> {
    let rows = found(session, &["user-limits", user], || unknown(user))?;
    Ok(if rows[0].is_null() { "{}".to_owned() } else { rows[0]["value"].to_string() })
}

/// Limits a user; limits that are not named stay.
pub(crate) fn set_limits(session: &Session<'_>, user: &str, definition: &str) -> Result<(), Refusal> {
    if session.find_part(&["users", user], "columns=name")?.is_none() {
        return Err(no_user(user));
    }
    let wanted = limits::user(definition).map_err(failed)?;
    for (name, wanted) in limits::OF_USER.into_iter().zip(wanted) {
        let value = match wanted {
            Wanted::Unnamed => continue,
            Wanted::Any => json!(-1),
            Wanted::Max(max) => max.into(),
        };
        let body = json!({ "value": value });
        session.api("PUT", &["user-limits", user, name], "", Some(&body))?.changed()?;
    }
    Ok(())
}

/// Takes a limit of a user away, or all.
pub(crate) fn clear_limits(session: &Session<'_>, user: &str, limit: &str) -> Result<(), Refusal> {
    if session.find_part(&["users", user], "columns=name")?.is_none() {
        return Err(no_user(user));
    }
    let one = [limit];
    let names: &[&str] = if limit == "all" { &limits::OF_USER } else { &one };
    for name in names {
        done(session.api("DELETE", &["user-limits", user, name], "", None)?)?;
    }
    Ok(())
}

fn unknown(user: &str) -> Refusal {
    Refusal { code: exit::UNAVAILABLE, ..no_user(user) }
}
