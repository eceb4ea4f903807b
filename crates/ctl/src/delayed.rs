//! Messages that wait for their time: the words about them, as requests to the HTTP API.

use crate::exit;
use crate::request::Refusal;
use crate::session::Session;
use crate::vhosts;
use serde_json::{Value, json};

/// Messages that one request may name.
const IDS_MAX: usize = 1000;

/// The messages of a queue, those that are due first.
pub(crate) fn list(session: &Session<'_>, queue: &str, limit: u32) -> Result<Value, Refusal> {
    let path = ["x", "queues", session.vhost(), queue, "delayed"];
    match session.find_part(&path, &format!("count={limit}"))? {
        Some(rows) => Ok(rows),
        None => Err(missing(session, queue)?),
    }
}

/// Throws messages of a queue away; how many were there.
pub(crate) fn cancel(session: &Session<'_>, queue: &str, ids: &[u64]) -> Result<u64, Refusal> {
    let path = ["x", "queues", session.vhost(), queue, "delayed", "cancel"];
    let mut cancelled = 0;
    for ids in ids.chunks(IDS_MAX) {
        let response = session.api("POST", &path, "", Some(&json!({ "ids": ids })))?;
        if response.status == 404 {
            return Err(missing(session, queue)?);
        }
        response.changed()?;
        let told: Value = serde_json::from_str(&response.body).unwrap_or_default();
        cancelled += told["cancelled"].as_u64().unwrap_or(0);
    }
    Ok(cancelled)
}

/// Why there is nothing to say of a queue: it is its virtual host that is not there, or itself.
fn missing(session: &Session<'_>, queue: &str) -> Result<Refusal, Refusal> {
    let vhost = session.vhost();
    if !vhosts::has(session, vhost)? {
        return Ok(vhosts::missing(vhost));
    }
    let message = format!("Queue '{queue}' in virtual host '{vhost}' does not exist");
    Ok(Refusal { code: exit::DATA, message })
}
