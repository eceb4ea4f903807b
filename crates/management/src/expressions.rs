//! The meaning of an expression, before anything is chosen by it: `POST /api/x/filter/check`.

use crate::body::Body;
use crate::call::Call;
use crate::macros;
use crate::messages::{payload, properties};
use crate::node::Node;
use crate::response::{Answer, Response};
use broker::{Condition, Envelope, Subject};
use filter::{Asker, Known, Macros};
use message::amqp091::Properties;
use serde_json::{Map, Value, json};

/// `POST /api/x/filter/check`: the expression as it is understood, what it reads, and what it says of a message that is given.
pub(crate) fn check<N: Node>(call: &Call<'_, N>) -> Answer {
    let body = Body::read(&call.request.body)?;
    let (text, vhost) = (body.need_text("filter")?, body.text("vhost")?);
    // Whoever may not see a virtual host does not see its macros: the usual one is there unasked.
    let macros = match (vhost, call.caller.vhost(vhost.unwrap_or("/"))) {
        (_, Ok(id)) => macros::known(call, id, text)?,
        (None, Err(_)) => Macros::default(),
        (Some(_), Err(missing)) => return Err(missing),
    };
    let asker = Asker { user: &call.caller.login.user, vhost: vhost.unwrap_or("/"), ..Asker::default() };
    let mut condition = match Condition::parse(text, Known::ALL, &macros, Some(&asker)) {
        Ok(condition) => condition,
        // Somebody who is still typing has not done anything wrong.
        Err(fault) if body.boolean("as_answer", false)? => {
            return Ok(Response::ok(&json!({ "fault": fault.to_string(), "at": fault.at })));
        }
        Err(fault) => return Err(Response::bad_request(format!("filter: {fault}"))),
    };
    let mut told = json!({
        "filter": condition.to_string(),
        "reads": condition.reads(),
        "class": condition.class().to_string(),
    });
    if ["payload", "properties", "exchange", "routing_key"].into_iter().any(|name| body.get(name).is_some()) {
        let fields = if body.get("properties").is_some() { body.object("properties")? } else { Map::new() };
        let head = properties(&fields)?;
        let properties = Properties::read(&head).unwrap_or_default();
        let payload =
            payload(body.text("payload")?.unwrap_or(""), body.text("payload_encoding")?.unwrap_or("string"))?;
        let text = |name| body.text(name).map(|text| text.map(str::as_bytes));
        let (exchange, routing_key) = (text("exchange")?, text("routing_key")?);
        let envelope = Envelope { exchange, routing_key, ..Envelope::default() };
        let subject = Subject { properties: &properties, body: &payload, envelope };
        // Unknown is null, as it is nowhere true.
        told["matches"] = condition.verdict(subject, call.node.now_ms()).map_or(Value::Null, Value::Bool);
    }
    Ok(Response::ok(&told))
}
