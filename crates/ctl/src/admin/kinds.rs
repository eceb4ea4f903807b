//! Kinds of objects, their properties as `KEY=VALUE`, and the requests to the HTTP API that they come to.

use crate::exit;
use crate::request::Refusal;
use crate::session::bad_word;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The form of a property's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Flag,
    Number,
    Json,
}
use Form::{Flag, Json, Number, Text};

/// Whether a property is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// It has to be named.
    Must,
    /// It is left out unless it is named.
    May,
    /// It has this value unless it is named.
    Usual(&'static str),
}
use Need::{May, Must, Usual};

/// A property.
type Key = (&'static str, Form, Need);

/// A kind of object.
pub(super) struct Kind {
    /// As it is typed.
    pub name: &'static str,
    /// Its properties.
    pub keys: &'static [Key],
    /// The path of the request; a segment with `:` is a property's value.
    path: &'static [&'static str],
    /// It is made by POST, to a path that does not name it.
    pub is_posted: bool,
    /// Properties that name it where that is more than the path.
    names: &'static [Key],
}

const fn kind(name: &'static str, path: &'static [&'static str], keys: &'static [Key]) -> Kind {
    Kind { name, keys, path, is_posted: false, names: &[] }
}

/// An object's name alone.
pub(super) const NAME: &[Key] = &[("name", Text, Must)];

const KINDS: &[Kind] = &[
    kind(
        "queue",
        &["queues", ":vhost", ":name"],
        &[
            ("name", Text, Must),
            ("durable", Flag, Usual("true")),
            ("auto_delete", Flag, Usual("false")),
            ("arguments", Json, Usual("{}")),
            ("queue_type", Text, May),
        ],
    ),
    kind(
        "exchange",
        &["exchanges", ":vhost", ":name"],
        &[
            ("name", Text, Must),
            ("type", Text, Must),
            ("durable", Flag, Usual("true")),
            ("auto_delete", Flag, Usual("false")),
            ("internal", Flag, Usual("false")),
            ("arguments", Json, Usual("{}")),
        ],
    ),
    Kind {
        name: "binding",
        keys: &[
            ("source", Text, Must),
            ("destination", Text, Must),
            ("destination_type", Text, Usual("queue")),
            ("routing_key", Text, Usual("")),
            ("arguments", Json, Usual("{}")),
        ],
        path: &["bindings", ":vhost", "e", ":source", ":destination_type", ":destination", ":properties_key"],
        is_posted: true,
        names: &[
            ("source", Text, Must),
            ("destination", Text, Must),
            ("destination_type", Text, Usual("queue")),
            ("properties_key", Text, Usual("~")),
        ],
    },
    kind(
        "vhost",
        &["vhosts", ":name"],
        &[
            ("name", Text, Must),
            ("tracing", Flag, May),
            ("description", Text, May),
            ("tags", Text, May),
            ("default_queue_type", Text, May),
        ],
    ),
    kind(
        "vhost_limit",
        &["vhost-limits", ":vhost", ":name"],
        &[("vhost", Text, Must), ("name", Text, Must), ("value", Number, Must)],
    ),
    kind(
        "user",
        &["users", ":name"],
        &[
            ("name", Text, Must),
            ("password", Text, May),
            ("password_hash", Text, May),
            ("hashing_algorithm", Text, May),
            ("tags", Text, Must),
        ],
    ),
    kind(
        "user_limit",
        &["user-limits", ":user", ":name"],
        &[("user", Text, Must), ("name", Text, Must), ("value", Number, Must)],
    ),
    kind(
        "permission",
        &["permissions", ":vhost", ":user"],
        &[
            ("vhost", Text, Must),
            ("user", Text, Must),
            ("configure", Text, Must),
            ("write", Text, Must),
            ("read", Text, Must),
        ],
    ),
    kind(
        "parameter",
        &["parameters", ":component", ":vhost", ":name"],
        &[("component", Text, Must), ("name", Text, Must), ("value", Json, Must)],
    ),
    kind("policy", &["policies", ":vhost", ":name"], POLICY),
    kind("operator_policy", &["operator-policies", ":vhost", ":name"], POLICY),
];

const POLICY: &[Key] = &[
    ("name", Text, Must),
    ("pattern", Text, Must),
    ("definition", Json, Must),
    ("priority", Number, Usual("0")),
    ("apply-to", Text, May),
];

/// Properties of a message to publish.
pub(super) const PUBLISH: &[Key] = &[
    ("routing_key", Text, Must),
    ("payload", Text, May),
    ("exchange", Text, Usual("")),
    ("properties", Json, Usual("{}")),
    ("payload_encoding", Text, May),
];

/// Properties of a question for messages.
pub(super) const GET: &[Key] = &[
    ("queue", Text, Must),
    ("count", Number, Usual("1")),
    ("ackmode", Text, Usual("ack_requeue_true")),
    ("encoding", Text, Usual("auto")),
];

/// Lists: the name, the place in the API, and the columns that are shown unasked.
pub(super) const LISTS: &[(&str, &str, &[&str])] = &[
    ("users", "users", &["name", "tags"]),
    ("vhosts", "vhosts", &["name", "messages"]),
    ("connections", "connections", &["name", "user", "channels"]),
    ("channels", "channels", &["name", "user", "consumer_count"]),
    ("exchanges", "exchanges", &["vhost", "name", "type"]),
    ("queues", "queues", &["vhost", "name", "messages"]),
    ("bindings", "bindings", &["source", "destination", "routing_key"]),
    ("consumers", "consumers", &["consumer_tag", "ack_required", "prefetch_count"]),
    ("permissions", "permissions", &["vhost", "user", "configure", "write", "read"]),
    ("parameters", "parameters", &["component", "vhost", "name", "value"]),
    ("policies", "policies", &["vhost", "name", "pattern", "definition", "priority", "apply-to"]),
    ("operator_policies", "operator-policies", &["vhost", "name", "pattern", "definition", "priority"]),
    ("vhost_limits", "vhost-limits", &["vhost", "value"]),
    ("nodes", "nodes", &["name", "type", "mem_used"]),
];

/// Places of the API with one list for all virtual hosts.
pub(super) const OF_ALL: [&str; 7] =
    ["users", "vhosts", "nodes", "connections", "channels", "permissions", "parameters"];

/// The kind of this name.
///
/// # Errors
/// There is none; those that there are.
pub(super) fn find(name: &str) -> Result<&'static Kind, Refusal> {
    let known = || KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
    let found = KINDS.iter().find(|kind| kind.name == name);
    found.ok_or_else(|| bad_word(exit::USAGE, format!("no object is called {name}; there are {}", known())))
}

impl Kind {
    /// The properties by which one is deleted: those of its path.
    pub(super) fn named_by(&self) -> &'static [Key] {
        if !self.names.is_empty() {
            return self.names;
        }
        // Those that the path needs come first in every list.
        let in_path = |key: &&Key| self.path.iter().any(|part| part.strip_prefix(':') == Some(key.0));
        &self.keys[..self.keys.iter().take_while(in_path).count()]
    }

    /// The path of a request about one. Its virtual host is `vhost` where no property says so.
    ///
    /// # Errors
    /// The type of a binding's destination.
    pub(super) fn path(&self, pairs: &Pairs, vhost: &str) -> Result<Vec<String>, Refusal> {
        let mut path = Vec::new();
        for part in self.path {
            match part.strip_prefix(':') {
                None => path.push((*part).to_owned()),
                Some("vhost") if !pairs.has("vhost") => path.push(vhost.to_owned()),
                // The API has a letter for each.
                Some("destination_type") => match pairs.text("destination_type")?.as_str() {
                    "queue" => path.push("q".to_owned()),
                    "exchange" => path.push("e".to_owned()),
                    other => {
                        let why = format!("destination_type={other}: queue or exchange");
                        return Err(bad_word(exit::USAGE, why));
                    }
                },
                Some("properties_key") if !pairs.has("properties_key") => {}
                Some(key) => path.push(pairs.text(key)?),
            }
        }
        Ok(path)
    }

    /// The body of the request that makes one: the properties that its path does not have.
    pub(super) fn body(&self, pairs: &Pairs) -> Value {
        let in_path = |key: &str| self.path.iter().any(|part| part.strip_prefix(':') == Some(key));
        let own = pairs.0.iter().filter(|(key, _)| !in_path(key));
        let mut body: Map<String, Value> =
            base::brief::collect(own.map(|(key, value)| (key.to_string(), value.clone())));
        // A property of the tool alone, which stands for an argument.
        if let Some(queue_type) = body.remove("queue_type")
            && let Some(Value::Object(arguments)) = body.get_mut("arguments")
        {
            arguments.insert("x-queue-type".to_owned(), queue_type);
        }
        body.into()
    }
}

/// Properties and their values.
#[derive(Debug, PartialEq)]
pub(super) struct Pairs(BTreeMap<&'static str, Value>);

impl Pairs {
    /// Reads `KEY=VALUE` words against the properties that there are.
    ///
    /// # Errors
    /// A word that is none, a property that is missing, or a value of another form.
    pub(super) fn read(words: &[String], keys: &'static [Key]) -> Result<Pairs, Refusal> {
        let refuse = |why: String| bad_word(exit::USAGE, why);
        let mut given = BTreeMap::new();
        for word in words {
            let (key, value) =
                word.split_once('=').ok_or_else(|| refuse(format!("{word} is no KEY=VALUE")))?;
            let Some((key, form, _)) = keys.iter().find(|(own, ..)| *own == key) else {
                let known: Vec<&str> = keys.iter().map(|(own, ..)| *own).collect();
                return Err(refuse(format!("{key} is unknown here; there are {}", known.join(", "))));
            };
            given
                .insert(*key, value_of(*form, value).map_err(|why| refuse(format!("{key}={value}: {why}")))?);
        }
        for (key, form, need) in keys {
            match need {
                Must if !given.contains_key(key) => return Err(refuse(format!("{key}=... is missing"))),
                Usual(value) if !given.contains_key(key) => {
                    given.insert(*key, value_of(*form, value).map_err(&refuse)?);
                }
                Must | May | Usual(_) => {}
            }
        }
        Ok(Pairs(given))
    }

    fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// The value of a property; nothing where it is not there.
    pub(super) fn value(&self, key: &str) -> &Value {
        self.0.get(key).unwrap_or(&Value::Null)
    }

    /// The text of a property.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn text(&self, key: &str) -> Result<String, Refusal> {
        let text = self.value(key).as_str().map(str::to_owned);
        text.ok_or_else(|| bad_word(exit::USAGE, format!("{key}=... is missing")))
    }
}

fn value_of(form: Form, text: &str) -> Result<Value, String> {
    match form {
        Text => Ok(text.into()),
        Flag => match text {
            "true" | "True" => Ok(true.into()),
            "false" | "False" => Ok(false.into()),
            _ => Err("true or false".to_owned()),
        },
        Number => text.parse::<i64>().map(Value::from).map_err(|_| "no whole number".to_owned()),
        Json => serde_json::from_str(text).map_err(|error| format!("no JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A declaration's path and body, or the reason why it is none.
    fn check(line: &[&str], expected: Result<(&str, Value), &str>) {
        let words: Vec<String> = line[1..].iter().map(|word| (*word).to_owned()).collect();
        let made = find(line[0]).and_then(|kind| {
            let pairs = Pairs::read(&words, kind.keys)?;
            Ok((kind.path(&pairs, "/")?.join(" "), kind.body(&pairs)))
        });
        match (made, expected) {
            (Ok((path, body)), Ok(expected)) => assert_eq!((path.as_str(), body), expected, "{line:?}"),
            (Err(refusal), Err(why)) => assert!(refusal.message.contains(why), "{refusal:?}"),
            (made, _) => panic!("{line:?}: {made:?}"),
        }
    }

    #[test]
    fn declarations_are_requests() {
        let body = json!({ "durable": true, "auto_delete": false, "arguments": {} });
        check(&["queue", "name=q"], Ok(("queues / q", body)));
        let body = json!({ "durable": false, "auto_delete": true, "arguments": { "x-max-length": 1 } });
        let line =
            ["queue", "name=q=r", "durable=false", "auto_delete=True", "arguments={\"x-max-length\":1}"];
        check(&line, Ok(("queues / q=r", body)));
        let body =
            json!({ "durable": true, "auto_delete": false, "arguments": { "x-queue-type": "quorum" } });
        check(&["queue", "name=q", "queue_type=quorum"], Ok(("queues / q", body)));
        let body = json!({ "routing_key": "k", "arguments": {} });
        let line = ["binding", "source=x", "destination=q", "routing_key=k"];
        check(&line, Ok(("bindings / e x q q", body)));
        check(&["vhost", "name=v", "tracing=true"], Ok(("vhosts v", json!({ "tracing": true }))));
        let body = json!({ "password": "p", "tags": "" });
        check(&["user", "name=u", "password=p", "tags="], Ok(("users u", body)));
        let line = ["permission", "vhost=v", "user=u", "configure=.*", "write=", "read=r"];
        let body = json!({ "configure": ".*", "write": "", "read": "r" });
        check(&line, Ok(("permissions v u", body)));
        let line = ["vhost_limit", "vhost=v", "name=max-queues", "value=5"];
        check(&line, Ok(("vhost-limits v max-queues", json!({ "value": 5 }))));
    }

    #[test]
    fn words_that_fit_nothing_are_refused() {
        check(&["queue"], Err("name=... is missing"));
        check(&["queue", "name=q", "size=1"], Err("size is unknown here; there are name, durable"));
        check(&["queue", "q"], Err("q is no KEY=VALUE"));
        check(&["queue", "name=q", "durable=yes"], Err("true or false"));
        check(&["queue", "name=q", "arguments={"], Err("no JSON"));
        check(&["binding", "source=x", "destination=q", "destination_type=moon"], Err("queue or exchange"));
        check(&["planet", "name=x"], Err("no object is called planet; there are queue"));
    }

    #[test]
    fn objects_are_deleted_by_their_names() {
        let check = |kind: &str, words: &[&str], expected: &str| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let kind = find(kind).expect("is one");
            let pairs = Pairs::read(&words, kind.named_by()).expect("fit");
            assert_eq!(kind.path(&pairs, "/").expect("a path").join(" "), expected);
        };
        check("queue", &["name=q"], "queues / q");
        check("permission", &["vhost=v", "user=u"], "permissions v u");
        check("parameter", &["component=c", "name=n"], "parameters c / n");
        check("binding", &["source=x", "destination=q"], "bindings / e x q q ~");
    }
}
