//! Messages over HTTP: publish one, get some. For tests and for a look, not for work: each request is a connection.

use crate::body::Body;
use crate::browsers;
use crate::call::Call;
use crate::exchanges::named;
use crate::json;
use crate::node::{Action, BrowsersSee, GetMode, Got, Node, Outcome, Publication, Trouble};
use crate::response::{Answer, Response};
use broker::catalog::{Refusal, ReplyCode};
use data_encoding::BASE64;
use message::amqp091::{NewProperties, Properties, Table};
use serde_json::{Map, Value, json};

/// The queue that shows that messages go through, as RabbitMQ calls it.
const ALIVENESS: &str = "aliveness-test";

/// `POST /api/exchanges/VHOST/NAME/publish`.
pub(crate) fn publish<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let body = Body::read(&call.request.body)?;
    body.need("properties")?;
    let key = body.need_text("routing_key")?.to_owned();
    let payload = payload(body.need_text("payload")?, body.need_text("payload_encoding")?)?;
    let properties = properties(&body.object("properties")?)?;
    let exchange = named(name).to_owned();
    let publication = Publication { exchange, key, properties, body: payload };
    match call.act(vhost, Action::Publish(publication)) {
        Ok(outcome) => Ok(Response::ok(&json!({ "routed": outcome == Outcome::Published(true) }))),
        Err(Trouble::Refused(refusal)) if refusal.code == ReplyCode::NotFound => {
            Err(Response::error(404, "not_found", "exchange_not_found"))
        }
        Err(Trouble::Refused(refusal)) => Err(numbered(&refusal)),
        Err(trouble) => Err(trouble.into()),
    }
}

/// The bytes that a text is in this encoding.
///
/// # Errors
/// The response to another encoding, and to a text that is not in it.
pub(crate) fn payload(payload: &str, encoding: &str) -> Result<Vec<u8>, Response> {
    match encoding {
        "string" => Ok(payload.as_bytes().to_vec()),
        "base64" => {
            let no_base64 = |_| Response::bad_request(json!(["not_base64", payload]));
            BASE64.decode(payload.as_bytes()).map_err(no_base64)
        }
        other => Err(Response::bad_request(json!(["unsupported_encoding", other]))),
    }
}

/// The response to a refusal where a message is concerned.
pub(crate) fn numbered(refusal: &Refusal) -> Response {
    match refusal.code {
        ReplyCode::AccessRefused => Response::refused(refusal),
        code => Response::bad_request(format!("{} {refusal}", code.number())),
    }
}

/// Properties from an object, as AMQP 0-9-1 has them on the wire.
pub(crate) fn properties(fields: &Map<String, Value>) -> Result<Vec<u8>, Response> {
    let fields = Body(fields.clone());
    let text = |name: &str| fields.text(name).map(|text| text.map(str::as_bytes));
    let number = |name: &str, most: i64| match fields.integer(name)? {
        Some(number) if !(0..=most).contains(&number) => {
            Err(Response::bad_request(format!("{name} is out of range: {number}")))
        }
        number => Ok(number),
    };
    for name in [
        "content_type",
        "correlation_id",
        "reply_to",
        "expiration",
        "message_id",
        "type",
        "user_id",
        "app_id",
    ] {
        if fields.text(name)?.is_some_and(|text| text.len() > 255) {
            return Err(Response::bad_request(format!("{name} is longer than 255 bytes")));
        }
    }
    let headers = json::table(&fields.object("headers")?);
    let mut written = Vec::new();
    NewProperties {
        content_type: text("content_type")?,
        content_encoding: text("content_encoding")?.filter(|text| text.len() < 256),
        headers: fields.get("headers").and_then(|_| Table::new(&headers).ok()),
        delivery_mode: number("delivery_mode", 255)?.map(|mode| mode as u8),
        priority: number("priority", 255)?.map(|priority| priority as u8),
        correlation_id: text("correlation_id")?,
        reply_to: text("reply_to")?,
        expiration: text("expiration")?,
        message_id: text("message_id")?,
        timestamp: number("timestamp", i64::MAX)?.map(|seconds| seconds as u64),
        message_type: text("type")?,
        user_id: text("user_id")?,
        app_id: text("app_id")?,
        cluster_id: text("cluster_id")?.filter(|text| text.len() < 256),
    }
    .write(&mut written);
    Ok(written)
}

/// Properties as an object.
fn shown(raw: &[u8]) -> Value {
    let Ok(properties) = Properties::read(raw) else { return json!([]) };
    let mut object = Map::new();
    let texts = [
        ("content_type", properties.content_type()),
        ("content_encoding", properties.content_encoding()),
        ("correlation_id", properties.correlation_id()),
        ("reply_to", properties.reply_to()),
        ("expiration", properties.expiration()),
        ("message_id", properties.message_id()),
        ("type", properties.message_type()),
        ("user_id", properties.user_id()),
        ("app_id", properties.app_id()),
        ("cluster_id", properties.cluster_id()),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            object.insert(name.to_owned(), String::from_utf8_lossy(value).into());
        }
    }
    let numbers = [
        ("delivery_mode", properties.delivery_mode().map(u64::from)),
        ("priority", properties.priority().map(u64::from)),
        ("timestamp", properties.timestamp()),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            object.insert(name.to_owned(), value.into());
        }
    }
    if let Some(headers) = properties.headers() {
        object.insert("headers".to_owned(), json::headers(headers));
    }
    // As RabbitMQ, which has no empty objects here.
    if object.is_empty() { json!([]) } else { Value::Object(object) }
}

/// `POST /api/queues/VHOST/NAME/get`.
pub(crate) fn get<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    if browsers::seen(call) != BrowsersSee::Full {
        return Err(browsers::not_shown());
    }
    let body = Body::read(&call.request.body)?;
    let mode = match (body.text("ackmode")?, body.get("requeue")) {
        (Some("ack_requeue_true" | "reject_requeue_true"), _) => GetMode::Requeue,
        (Some("ack_requeue_false"), _) => GetMode::Remove,
        (Some("reject_requeue_false"), _) => GetMode::Reject,
        (Some(other), _) => {
            return Err(Response::bad_request(format!(
                "Invalid ackmode value: {other}. Valid values are: ack_requeue_true, ack_requeue_false, \
                 reject_requeue_true, reject_requeue_false"
            )));
        }
        (None, Some(_)) if body.boolean("requeue", true)? => GetMode::Requeue,
        (None, Some(_)) => GetMode::Remove,
        (None, None) => return Err(Response::missing_key("ackmode")),
    };
    body.need("count")?;
    let limits = &call.node.about().limits;
    let count = body.integer("count")?.unwrap_or(0).clamp(0, i64::from(limits.get_messages_max)) as u32;
    let is_base64 = match body.need_text("encoding")? {
        "auto" => false,
        "base64" => true,
        _ => return Err(Response::bad_request("Unsupported encoding. Please use auto or base64.")),
    };
    let most = body.integer("truncate")?.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(0));
    let action = Action::Get { queue: name.to_owned(), count, bytes_max: limits.get_bytes_max, mode };
    match call.act(vhost, action) {
        Ok(Outcome::Got(messages)) => {
            let rows = messages.iter().map(|got| message(got, is_base64, most));
            Ok(Response::ok(&rows.collect()))
        }
        Ok(_) => Ok(Response::ok(&json!([]))),
        Err(Trouble::Refused(refusal)) if refusal.code == ReplyCode::NotFound => {
            Err(Response::error(404, "not_found", "queue_not_found"))
        }
        Err(Trouble::Refused(refusal)) => Err(numbered(&refusal)),
        Err(trouble) => Err(trouble.into()),
    }
}

pub(crate) fn message(got: &Got, is_base64: bool, most: usize) -> Value {
    let body = &got.body[..got.body.len().min(most)];
    let (payload, encoding) = match std::str::from_utf8(body) {
        Ok(text) if !is_base64 => (text.to_owned(), "string"),
        _ => (BASE64.encode(body), "base64"),
    };
    json!({
        "payload_bytes": got.body.len(),
        "redelivered": got.redelivered,
        "exchange": got.exchange,
        "routing_key": got.key,
        "message_count": got.left,
        "properties": shown(&got.properties),
        "payload": payload,
        "payload_encoding": encoding,
    })
}

/// `GET /api/aliveness-test/VHOST`: a message goes through a queue.
pub(crate) fn aliveness<N: Node>(call: &Call<'_, N>, vhost: &str) -> Answer {
    let act = |action| call.act(vhost, action);
    let durable_queue = Action::DeclareQueue {
        name: ALIVENESS.to_owned(),
        durable: true,
        auto_delete: false,
        arguments: Vec::new(),
    };
    act(durable_queue)?;
    let mut properties = Vec::new();
    NewProperties::default().write(&mut properties);
    let (exchange, key, body) = (String::new(), ALIVENESS.to_owned(), b"test_message".to_vec());
    act(Action::Publish(Publication { exchange, key, properties, body }))?;
    let queue = ALIVENESS.to_owned();
    match act(Action::Get { queue, count: 1, bytes_max: usize::MAX, mode: GetMode::Remove })? {
        Outcome::Got(got) if !got.is_empty() => Ok(Response::ok(&json!({ "status": "ok" }))),
        _ => Ok(Response::json(503, &json!({ "status": "failed", "reason": "a message did not come back" }))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_go_there_and_back() {
        let check = |given: Value, expected: Result<Value, &str>| {
            let read = properties(given.as_object().unwrap()).map(|raw| shown(&raw));
            let parts = |refused: Response| (refused.status, refused.body);
            let expected = expected.map_err(Response::bad_request).map_err(parts);
            assert_eq!(read.map_err(parts), expected, "{given}");
        };
        check(json!({}), Ok(json!([])));
        let all = json!({"delivery_mode": 2, "headers": {"a": 1, "b": "c"}, "content_type": "t/p", "message_id": "m",
            "priority": 3, "timestamp": 7, "type": "t", "app_id": "x", "reply_to": "r", "correlation_id": "c"});
        check(all.clone(), Ok(all));
        check(json!({"delivery_mode": "2", "headers": {}}), Ok(json!({"delivery_mode": 2, "headers": {}})));
        check(json!({"priority": 256}), Err("priority is out of range: 256"));
        check(json!({"type": 1}), Err("type is not a string"));
        check(json!({"type": "x".repeat(256)}), Err("type is longer than 255 bytes"));
    }
}
