//! One queue or stream, opened from the list: its properties, its consumers, and the messages at its head, which stay
//! there.

use super::overview::Opened;
use crate::request::{Refusal, Request, Response};
use crate::session::{reason, target};
use crate::{exit, show};
use serde_json::Value;

/// Messages of the head that are shown.
const MESSAGES: u32 = 20;

/// Bytes of a message's body that are asked for.
const BODY_BYTES: u32 = 200;

/// Consumers that are shown.
const CONSUMERS: usize = 100;

/// Properties of a queue that are shown, in the order of the API's answer and here.
const PROPERTIES: [&str; 9] = [
    "type",
    "state",
    "durable",
    "auto_delete",
    "exclusive",
    "policy",
    "arguments",
    "messages",
    "head_message_timestamp",
];

/// Asks for a queue of a virtual host.
///
/// # Errors
/// The node did not answer; where it has no such queue, the answer says so.
pub fn open(
    vhost: &str,
    name: &str,
    ask: impl Fn(&Request) -> Result<Value, Refusal>,
) -> Result<Opened, Refusal> {
    let get = |path: &[&str], query: &str| -> Result<Result<Value, String>, Refusal> {
        let (method, target) = ("GET".to_owned(), target(path, query));
        let answer = ask(&Request::Api { method, target, body: String::new(), reason: None })?;
        let response: Response = serde_json::from_value(answer).map_err(|error| Refusal {
            code: exit::SOFTWARE,
            message: format!("the node answered what is no response: {error}"),
        })?;
        Ok(match response.status {
            200 => serde_json::from_str(&response.body).map_err(|error| error.to_string()),
            _ => Err(reason(&response)),
        })
    };
    let queue = match get(&["queues", vhost, name], "")? {
        Ok(queue) => queue,
        Err(why) => return Ok(Opened { trouble: Some(why), ..Opened::default() }),
    };
    // Without a place to begin at: queues count from their head, streams name offsets.
    let query = format!("count={MESSAGES}&truncate={BODY_BYTES}");
    let head = get(&["x", "queues", vhost, name, "messages"], &query)?;
    let (messages, trouble) = match head {
        Ok(head) => (items(&head["messages"]).map(message).collect(), None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let consumers = items(&queue["consumer_details"]);
    let property = |name: &&str| {
        let value = queue.get(*name).filter(|value| !value.is_null())?;
        let shown = if *name == "arguments" { arguments(value)? } else { show::cell(name, value) };
        Some([(*name).to_owned(), shown])
    };
    Ok(Opened {
        properties: PROPERTIES.iter().filter_map(property).collect(),
        consumer_count: consumers.clone().count(),
        consumers: consumers.take(CONSUMERS).map(consumer).collect(),
        messages,
        trouble,
    })
}

/// Arguments of a declaration, but for the type, which has a place of its own; none where that is all.
fn arguments(of: &Value) -> Option<String> {
    let named = of.as_object()?.iter().filter(|(name, _)| *name != "x-queue-type");
    let pairs: Vec<String> = named.map(|(name, value)| format!("{name}={}", text(value))).collect();
    (!pairs.is_empty()).then(|| pairs.join(", "))
}

fn items(list: &Value) -> impl Iterator<Item = &Value> + Clone {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn consumer(of: &Value) -> [String; 4] {
    let active = if of["active"] == Value::Bool(false) { "waits" } else { "active" };
    [
        text(&of["consumer_tag"]),
        text(&of["channel_details"]["connection_name"]),
        text(&of["prefetch_count"]),
        active.to_owned(),
    ]
}

fn message(of: &Value) -> [String; 3] {
    [text(&of["routing_key"]), text(&of["payload_bytes"]), text(&of["payload"])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A node that answers these two requests, by status and body.
    fn check(queue: (u16, Value), head: (u16, Value)) -> Opened {
        let ask = |request: &Request| {
            let Request::Api { target, .. } = request else { panic!("{request:?}") };
            assert!(!target.contains("offset"), "no kind of queue has it that a stream knows too: {target}");
            let (status, body) = if target.starts_with("/api/queues/%2F/a%20b") { &queue } else { &head };
            Ok(json!({ "status": status, "body": body.to_string() }))
        };
        open("/", "a b", ask).expect("answers")
    }

    #[test]
    fn a_queue_has_properties_consumers_and_messages() {
        let queue = json!({
            "type": "classic", "durable": true, "policy": null, "arguments": { "x-max-length": 5, "x-queue-type": "classic" },
            "consumer_details": [{ "consumer_tag": "t", "prefetch_count": 10, "active": true,
                                   "channel_details": { "connection_name": "c" } }],
        });
        let head = json!({ "messages": [{ "routing_key": "k", "payload_bytes": 5, "payload": "hello" }] });
        let opened = check((200, queue.clone()), (200, head));
        assert_eq!(opened.properties[0], ["type", "classic"]);
        assert_eq!(opened.properties.len(), 3);
        assert_eq!(opened.properties[2], ["arguments", "x-max-length=5"]);
        assert_eq!(opened.consumers, [["t", "c", "10", "active"]]);
        assert_eq!(opened.messages, [["k", "5", "hello"]]);
        let damaged = check((200, queue), (500, json!({ "reason": "its log is damaged" })));
        assert_eq!((damaged.messages.len(), damaged.trouble.as_deref()), (0, Some("its log is damaged")));
        let typed = json!({ "type": "quorum", "arguments": { "x-queue-type": "quorum" } });
        assert_eq!(check((200, typed), (200, json!({}))).properties, [["type", "quorum"]]);
        let consumers = vec![json!({ "consumer_tag": "t" }); CONSUMERS + 1];
        let many = check((200, json!({ "consumer_details": consumers })), (200, json!({ "messages": [] })));
        assert_eq!((many.consumers.len(), many.consumer_count), (CONSUMERS, CONSUMERS + 1));
        let gone = check((404, json!({ "reason": "Not Found" })), (404, json!({})));
        assert_eq!(gone.trouble.as_deref(), Some("Not Found"));
    }
}
