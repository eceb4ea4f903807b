//! Parameters of components that are not served yet: they are kept, shown and exported, and nothing comes of them.
//!
//! Each is checked as RabbitMQ's plugins do, by a table of keys for each component, so that a typing error is not found on the day
//! it is served. The lines are RabbitMQ's, in its order: unknown keys first, then the keys from the last of a table to
//! the first. Where RabbitMQ answers with a crash (a value that is no list at all) a line of the same kind takes its
//! place.

mod uri;

use crate::policies::term;
use serde_json::{Map, Value};

/// Components that may be set one by one. Others come with definitions alone: a name that is nobody's is a typing error.
const KNOWN: [&str; 3] = ["shovel", UPSTREAM, UPSTREAM_SET];

const UPSTREAM: &str = "federation-upstream";
const UPSTREAM_SET: &str = "federation-upstream-set";

/// A key of a parameter, whether it has to be there, and the type of its value.
type Key = (&'static str, bool, Kind);

/// The type of a value.
#[derive(Clone, Copy)]
enum Kind {
    /// Any text.
    Text,
    /// Any number.
    Number,
    /// True or false.
    Flag,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// An address of a broker, or a list of them.
    Uri,
    /// Fields of any kind: arguments of queues and consumers.
    Any,
    /// Fields that are text, by any names.
    Texts,
    /// Fields of a table of their own.
    Fields(&'static [Key]),
    /// How many messages there are to be, or one of these words; and how RabbitMQ says that.
    Count(&'static [&'static str], &'static str),
    /// So many seconds, at least one.
    Seconds,
}

use Kind::{Any, Count, Fields, Flag, Number, OneOf, Seconds, Text, Texts, Uri};

const ACK_MODES: Kind = OneOf(&["no-ack", "on-publish", "on-confirm"]);
const PROTOCOLS: [&str; 3] = ["amqp091", "amqp10", "local"];
const DELETE_AFTER: Kind =
    Count(&["never", "queue-length"], "a number greater than or equal to 0, \"never\" or \"queue-length\"");

/// The keys that an upstream and its place in a set may both have.
const LINK: &[Key] = &[
    ("exchange", false, Text),
    ("queue", false, Text),
    ("consumer-tag", false, Text),
    ("prefetch-count", false, Number),
    ("reconnect-delay", false, Number),
    ("max-hops", false, Number),
    ("expires", false, Number),
    ("message-ttl", false, Number),
    ("trust-user-id", false, Flag),
    ("ack-mode", false, ACK_MODES),
    ("resource-cleanup-mode", false, OneOf(&["default", "never"])),
    ("queue-type", false, OneOf(&["classic", "quorum"])),
    ("bind-nowait", false, Flag),
    ("channel-use-mode", false, OneOf(&["multiple", "single"])),
];

const UPSTREAM_ADDRESS: &[Key] = &[("uri", true, Uri)];
const UPSTREAM_NAME: &[Key] = &[("upstream", true, Text)];

/// The keys that every shovel may have.
const SHOVEL: &[Key] = &[
    ("internal", false, Flag),
    ("internal_owner", false, Fields(OWNER)),
    ("reconnect-delay", false, Number),
    ("ack-mode", false, ACK_MODES),
    ("src-protocol", false, OneOf(&PROTOCOLS)),
    ("dest-protocol", false, OneOf(&PROTOCOLS)),
];

const OWNER: &[Key] =
    &[("name", false, Text), ("kind", false, OneOf(&["exchange", "queue"])), ("virtual_host", false, Text)];

const FROM_091: &[Key] = &[
    ("src-uri", true, Uri),
    ("src-exchange", false, Text),
    ("src-exchange-key", false, Text),
    ("src-queue", false, Text),
    ("src-queue-args", false, Any),
    ("src-consumer-args", false, Any),
    ("src-consumer-name", false, Text),
    ("prefetch-count", false, Number),
    ("src-prefetch-count", false, Number),
    ("delete-after", false, DELETE_AFTER),
    ("src-delete-after", false, DELETE_AFTER),
    ("src-delete-after-duration", false, Seconds),
    ("src-predeclared", false, Flag),
];

const FROM_10: &[Key] = &[
    ("src-uri", true, Uri),
    ("src-address", true, Text),
    ("src-prefetch-count", false, Number),
    ("src-consumer-args", false, Any),
    ("src-consumer-name", false, Text),
    ("src-delete-after", false, Count(&["never"], "a number greater than or equal to 0 or \"never\"")),
    ("src-delete-after-duration", false, Seconds),
    ("src-predeclared", false, Flag),
];

const FROM_LOCAL: &[Key] = &[
    ("src-uri", true, Uri),
    ("src-exchange", false, Text),
    ("src-exchange-key", false, Text),
    ("src-queue", false, Text),
    ("src-queue-args", false, Any),
    ("src-consumer-args", false, Any),
    ("src-consumer-name", false, Text),
    ("src-delete-after", false, DELETE_AFTER),
    ("src-delete-after-duration", false, Seconds),
    ("src-predeclared", false, Flag),
];

const TO_091: &[Key] = &[
    ("dest-uri", true, Uri),
    ("dest-exchange", false, Text),
    ("dest-exchange-key", false, Text),
    ("dest-queue", false, Text),
    ("dest-queue-args", false, Any),
    ("add-forward-headers", false, Flag),
    ("add-timestamp-header", false, Flag),
    ("dest-add-forward-headers", false, Flag),
    ("dest-add-timestamp-header", false, Flag),
    ("publish-properties", false, Fields(PROPERTIES)),
    ("dest-publish-properties", false, Fields(PROPERTIES)),
    ("dest-predeclared", false, Flag),
];

const TO_10: &[Key] = &[
    ("dest-uri", true, Uri),
    ("dest-address", true, Text),
    ("dest-add-forward-headers", false, Flag),
    ("dest-add-timestamp-header", false, Flag),
    ("dest-application-properties", false, Texts),
    ("dest-message-annotations", false, Texts),
    ("dest-properties", false, Texts),
    ("dest-predeclared", false, Flag),
];

const TO_LOCAL: &[Key] = &[
    ("dest-uri", true, Uri),
    ("dest-exchange", false, Text),
    ("dest-exchange-key", false, Text),
    ("dest-queue", false, Text),
    ("dest-queue-args", false, Any),
    ("dest-add-forward-headers", false, Flag),
    ("dest-add-timestamp-header", false, Flag),
    ("dest-predeclared", false, Flag),
];

/// Properties of the messages that a shovel over 0-9-1 publishes.
const PROPERTIES: &[Key] = &[
    ("content_type", false, Text),
    ("content_encoding", false, Text),
    ("delivery_mode", false, Number),
    ("priority", false, Number),
    ("correlation_id", false, Text),
    ("reply_to", false, Text),
    ("expiration", false, Text),
    ("message_id", false, Text),
    ("timestamp", false, Number),
    ("type", false, Text),
    ("user_id", false, Text),
    ("app_id", false, Text),
    ("cluster_id", false, Text),
];

/// Whether RabbitMQ has the component in one of its plugins.
pub(crate) fn is_known(component: &str) -> bool {
    KNOWN.contains(&component)
}

/// The remark on a parameter that is kept.
pub(crate) fn remark(component: &str) -> String {
    match is_known(component) {
        true => format!("kept; {component} is not served yet"),
        false => format!("kept; the component '{component}' is not known here"),
    }
}

/// The errors in a value, a line each; empty where there are none.
pub(crate) fn wrong(component: &str, name: &str, value: &Value) -> String {
    let mut lines = Vec::new();
    match component {
        "shovel" => shovel(name, value, &mut lines),
        UPSTREAM => check(name, value, &[UPSTREAM_ADDRESS, LINK], &mut lines),
        UPSTREAM_SET => upstream_set(name, value, &mut lines),
        _ => {}
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

fn upstream_set(name: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Array(items) if items.iter().all(|item| Terms::of(item).is_some()) => {
            items.iter().for_each(|item| check(name, item, &[UPSTREAM_NAME, LINK], lines));
        }
        Value::Object(none) if none.is_empty() => {}
        _ => lines.push(format!("{name} should be a list of upstreams")),
    }
}

fn shovel(name: &str, value: &Value, lines: &mut Vec<String>) {
    let protocol = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let (from, to) = (protocol("src-protocol"), protocol("dest-protocol"));
    let has = |key: &str| value.get(key).is_some();
    let is_list = Terms::of(value).is_some();
    if is_list && from != "amqp10" {
        match (has("src-exchange"), has("src-queue")) {
            (true, true) => lines.push("Cannot specify 'src-exchange' and 'src-queue'".to_owned()),
            (false, false) => lines.push("Must specify 'src-exchange' or 'src-queue'".to_owned()),
            _ => {}
        }
    }
    if is_list && to != "amqp10" && has("dest-exchange") && has("dest-queue") {
        lines.push("Cannot specify 'dest-exchange' and 'dest-queue'".to_owned());
    }
    // As with RabbitMQ, a protocol that is unknown gets the errors of the usual one.
    let from = match from {
        "amqp10" => FROM_10,
        "local" => FROM_LOCAL,
        _ => FROM_091,
    };
    let to = match to {
        "amqp10" => TO_10,
        "local" => TO_LOCAL,
        _ => TO_091,
    };
    check(name, value, &[SHOVEL, from, to], lines);
}

/// The terms of a value as RabbitMQ takes a list of fields: an object, or a list, of which none is a field.
enum Terms<'a> {
    Fields(&'a Map<String, Value>),
    Others(&'a [Value]),
}

impl<'a> Terms<'a> {
    fn of(value: &'a Value) -> Option<Terms<'a>> {
        match value {
            Value::Object(fields) => Some(Terms::Fields(fields)),
            Value::Array(items) => Some(Terms::Others(items)),
            _ => None,
        }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        match self {
            Terms::Fields(fields) => fields.get(key),
            Terms::Others(_) => None,
        }
    }

    /// Those whose key is in no table, as they are shown.
    fn strangers(&self, tables: &[&[Key]]) -> Vec<String> {
        match self {
            Terms::Fields(fields) => {
                let is_known = |key: &str| tables.iter().any(|keys| keys.iter().any(|(own, ..)| *own == key));
                let strangers = fields.iter().filter(|(key, _)| !is_known(key));
                strangers.map(|(key, value)| format!("{{<<\"{key}\">>,{}}}", term(value))).collect()
            }
            Terms::Others(items) => items.iter().map(term).collect(),
        }
    }
}

/// Checks `value`, called `name`, by tables of keys.
fn check(name: &str, value: &Value, tables: &[&'static [Key]], lines: &mut Vec<String>) {
    let Some(terms) = Terms::of(value) else {
        return lines.push(format!("{name} not a list {}", term(value)));
    };
    let strangers = terms.strangers(tables);
    if !strangers.is_empty() {
        lines.push(format!("Unrecognised terms [{}] in {name}", broken(&strangers)));
    }
    for (key, is_needed, kind) in tables.iter().rev().flat_map(|keys| keys.iter().rev()) {
        match terms.get(key) {
            Some(value) => kind.check(key, value, lines),
            None if *is_needed => lines.push(format!("Key \"{key}\" not found in {name}")),
            None => {}
        }
    }
}

/// Columns of a line as Erlang prints terms, and those in front of a list of strangers.
const COLUMNS: usize = 80;
const INDENT: usize = "Unrecognised terms [".len();

/// Terms on one line where they fit, else each on its own.
fn broken(terms: &[String]) -> String {
    let line = terms.join(",");
    match INDENT + line.chars().count() < COLUMNS {
        true => line,
        false => terms.join(&format!(",\n{:INDENT$}", "")),
    }
}

impl Kind {
    fn check(self, key: &str, value: &Value, lines: &mut Vec<String>) {
        let mut should =
            |what: &str| lines.push(format!("{key} should be {what}, actually was {}", term(value)));
        match (self, value) {
            (Text, Value::String(_)) | (Number, Value::Number(_)) | (Flag, Value::Bool(_)) => {}
            (Text, _) => should("binary"),
            (Number, _) => should("a number"),
            (Flag, _) => should("boolean"),
            (OneOf(words), Value::String(word)) if words.contains(&word.as_str()) => {}
            (OneOf(words), Value::String(_)) => {
                let words: Vec<String> = words.iter().map(|word| format!("<<\"{word}\">>")).collect();
                should(&format!("one of [{}]", words.join(",")));
            }
            (OneOf(_), _) => should("binary"),
            (Count(words, _), Value::String(word)) if words.contains(&word.as_str()) => {}
            (Count(_, what), value) if !value.is_u64() => should(what),
            (Seconds, value) if value.as_u64().unwrap_or(0) == 0 => should("a positive integer (seconds)"),
            (Count(..) | Seconds, _) => {}
            (Uri, Value::Array(items)) => items.iter().for_each(|item| uri::check(key, item, lines)),
            (Uri, one) => uri::check(key, one, lines),
            (Any, value) => {
                let is_list = value.as_array().is_some_and(Vec::is_empty) || value.is_object();
                if !is_list {
                    lines.push(format!("{key} not a list {}", term(value)));
                }
            }
            (Texts, Value::Object(fields)) => {
                fields.iter().rev().for_each(|(key, value)| Text.check(key, value, lines));
            }
            (Texts, value) => check(key, value, &[], lines),
            (Fields(table), value) => check(key, value, &[table], lines),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RabbitMQ 4.3.6's answers over its HTTP API: component, value, status and reason of each.
    const ANSWERS: &str = include_str!("kept/answers.json");

    /// Erlang's terms of where an address is wrong, which nobody reads: that it is refused is the same.
    const UNREAD: [&str; 4] = ["malformed_uri", "case_clause", "invalid_amqp_params", "invalid_ssl"];

    #[test]
    fn values_are_taken_and_refused_as_by_rabbitmq() {
        let answers: Vec<(String, Value, u16, String)> = serde_json::from_str(ANSWERS).unwrap();
        assert!(answers.len() > 300, "{}", answers.len());
        let mut differ = Vec::new();
        for (component, value, status, reason) in &answers {
            let own = wrong(component, "n", value);
            let is_same = match status {
                200..300 => own.is_empty(),
                // RabbitMQ crashes.
                500 => own.lines().count() >= 1,
                _ if UNREAD.iter().any(|word| reason.contains(word)) => own.contains("not a valid URI: "),
                _ => own == *reason,
            };
            if !is_same {
                differ.push(format!("{component} {value}\n  RabbitMQ: {status} {reason:?}\n  here: {own:?}"));
            }
        }
        assert!(differ.is_empty(), "{} of {} differ\n{}", differ.len(), answers.len(), differ.join("\n"));
    }

    #[test]
    fn others_are_not_looked_at() {
        assert_eq!(wrong("somebody", "n", &Value::Null), "");
        assert!(is_known("shovel") && !is_known("somebody"));
    }
}
