//! Traces that are written to files, by a plugin of RabbitMQ's: none is served, so that lists of them are empty.
//!
//! As with that plugin, all of it is for administrators, and a list asks for no virtual host: one that is not there has
//! no traces. Messages are traced by exchanges alone (`amq.rabbitmq.trace`).

use crate::response::{Answer, Response};
use serde_json::json;

/// `GET /api/traces[/node/NODE][/VHOST]` and `GET /api/trace-files[/node/NODE]`.
pub(crate) fn list() -> Answer {
    Ok(Response::ok(&json!([])))
}

/// `/api/traces[/node/NODE]/VHOST/NAME` and `/api/trace-files[/node/NODE]/NAME`.
pub(crate) fn one() -> Answer {
    Err(Response::not_found())
}
