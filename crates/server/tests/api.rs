//! The management API of a running node: the cost of an import of definitions, and requests with a client's rights.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of the shell, where these live"
)]

mod harness;

use harness::http::{GUEST, ask};
use harness::{Client, DURABLE, Folder, Node, ctl, frame, long, method, short};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// `own:own`.
const OWN: &str = "b3duOm93bg==";

/// A node that serves the API.
fn start(folder: &Folder, more: &[&str]) -> (Node, u16) {
    let api = ["management.tcp.ip=127.0.0.1", "management.tcp.port=0"];
    let node = Node::start(&folder.0, &[&api, more].concat());
    let line = node.log.iter().find_map(|line| line.split_once("started HTTP listener on 127.0.0.1:"));
    let port = line.expect("listens").1.parse().expect("a port");
    (node, port)
}

fn queue(name: &str) -> Value {
    json!({"name": name, "vhost": "/", "durable": true})
}

fn binding(number: usize, queue: &str) -> Value {
    json!({"source": "amq.topic", "vhost": "/", "destination": queue, "destination_type": "queue",
           "routing_key": format!("k.{number}"), "arguments": {}})
}

/// Flushes of the journal so far.
fn flushes(port: u16) -> u64 {
    let (_, nodes) = ask(port, GUEST, "GET nodes", &Value::Null);
    nodes[0]["io_sync_count"].as_u64().expect("a count")
}

#[test]
fn a_refusal_that_ends_the_connection_is_told_at_once() {
    let folder = Folder::new();
    let (_node, port) = start(&folder, &["deprecated_features.permit.transient_nonexcl_queues=false"]);
    let begin = Instant::now();
    let (status, answer) = ask(port, GUEST, "PUT queues/%2F/q", &json!({"durable": false}));
    let reason = answer["reason"].as_str().expect("a text");
    assert!(status == 500 && reason.starts_with("541 INTERNAL_ERROR - Feature"), "{status} {answer}");
    // A reader that waits for more from a connection that is over gives up after ten seconds.
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
}

#[test]
fn a_thousand_bindings_share_few_flushes() {
    let folder = Folder::new();
    let (_node, port) = start(&folder, &[]);
    let bindings: Vec<Value> = (0..1000).map(|number| binding(number, "q")).collect();
    let all = json!({"queues": [queue("q")], "bindings": bindings});
    let before = flushes(port);
    let (status, answer) = ask(port, GUEST, "POST definitions", &all);
    assert_eq!(status, 204, "{answer}");
    let took = flushes(port) - before;
    // Each waited for one of its own before: 1,001.
    assert!((2..=250).contains(&took), "{took} flushes");
    let count = |port| {
        ask(port, GUEST, "GET queues/%2F/q/bindings", &Value::Null).1.as_array().expect("a list").len()
    };
    assert_eq!(count(port), 1001);
    // The tool's own way, and nothing is new.
    let file = folder.0.join("all.json");
    std::fs::write(&file, all.to_string()).expect("written");
    let done = ctl(&folder.0, &["import_definitions", file.to_str().expect("text")]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(count(port), 1001);
}

#[test]
fn what_fails_in_the_middle_is_told_and_nothing_is_imported() {
    let folder = Folder::new();
    let (_node, port) = start(&folder, &[]);
    let mut bindings: Vec<Value> = (0..1000).map(|number| binding(number, "q")).collect();
    bindings[500] = binding(0, "none");
    bindings[510] = binding(0, "later");
    let (status, answer) =
        ask(port, GUEST, "POST definitions", &json!({"queues": [queue("q")], "bindings": bindings}));
    let line = |name: &str| {
        format!(
            "bindings: from 'amq.topic' to queue '{name}' with key 'k.0' in vhost '/': no queue '{name}' in vhost '/'"
        )
    };
    let told = format!("{}\n{}", line("none"), line("later"));
    assert_eq!((status, answer["reason"].as_str()), (400, Some(told.as_str())), "{answer}");
    assert_eq!(ask(port, GUEST, "GET queues/%2F/q", &Value::Null).0, 404);
}

#[test]
fn a_limit_that_only_the_node_knows_is_told_with_what_it_stops() {
    let folder = Folder::new();
    let (_node, port) = start(&folder, &[]);
    for line in ["PUT queues/%2F/a", "PUT queues/%2F/b"] {
        assert_eq!(ask(port, GUEST, line, &json!({"durable": true})).0, 201);
    }
    assert_eq!(ask(port, GUEST, "PUT vhost-limits/%2F/max-queues", &json!({"value": 3})).0, 204);
    let queues = ["c", "d", "e"].map(queue);
    let (status, answer) = ask(port, GUEST, "POST definitions", &json!({ "queues": queues }));
    assert_eq!(
        (status, &answer["imported"], &answer["refused_count"]),
        (400, &json!(true), &json!(2)),
        "{answer}"
    );
    assert!(answer["reason"].as_str().expect("a text").starts_with("queues: '"), "{answer}");
}

#[test]
fn who_imports_has_the_rights_and_refusals_of_a_client() {
    let folder = Folder::new();
    let (_node, port) = start(&folder, &["deprecated_features.permit.transient_nonexcl_queues=false"]);
    let must = |line: &str, body: Value| {
        let (status, answer) = ask(port, GUEST, line, &body);
        assert!((200..300).contains(&status), "{line}: {status} {answer}");
    };
    must("PUT users/own", json!({"password": "own", "tags": "administrator"}));
    must("PUT permissions/%2F/own", json!({"configure": "^a", "write": "^a", "read": "^a"}));
    must("PUT vhosts/closed", Value::Null);
    must("PUT queues/%2F/b", json!({"durable": true}));
    // The status of a request by itself, and of the same in an import.
    let check = |line: &str, body: Value, kind: &str, expected: u16| {
        let (method, path) = line.split_once(' ').expect("a method");
        let alone = ask(port, OWN, &format!("{method} {path}"), &body);
        let (status, imported) = ask(port, OWN, "POST definitions", &json!({ kind: [body] }));
        assert_eq!(alone.0, expected, "{line}: {}", alone.1);
        if expected < 300 || expected == 500 || line.contains("amq.") {
            // Reserved names, and queues that the operator has forbidden, are left out of definitions.
            assert_eq!(status, 204, "{line}: {imported}");
        } else {
            assert_eq!((status, &imported["refused"][0]["list"]), (400, &json!(kind)), "{line}: {imported}");
        }
    };
    let in_vhost = |name: &str, vhost: &str| json!({"name": name, "vhost": vhost, "durable": true});
    check("PUT queues/%2F/a1", in_vhost("a1", "/"), "queues", 201);
    check("PUT queues/%2F/b1", in_vhost("b1", "/"), "queues", 401);
    check("PUT queues/%2F/amq.b", in_vhost("amq.b", "/"), "queues", 401);
    check("PUT queues/closed/a", in_vhost("a", "closed"), "queues", 400);
    let transient = json!({"name": "a2", "vhost": "/", "durable": false});
    check("PUT queues/%2F/a2", transient, "queues", 500);
    let exchange = |name: &str, kind: &str| json!({"name": name, "vhost": "/", "type": kind});
    check("PUT exchanges/%2F/ax", exchange("ax", "fanout"), "exchanges", 201);
    check("PUT exchanges/%2F/bx", exchange("bx", "fanout"), "exchanges", 401);
    let bind = |source: &str, queue: &str| {
        json!({"source": source, "vhost": "/", "destination": queue, "destination_type": "queue",
               "routing_key": "k", "arguments": {}})
    };
    check("POST bindings/%2F/e/ax/q/a1", bind("ax", "a1"), "bindings", 201);
    check("POST bindings/%2F/e/ax/q/b", bind("ax", "b"), "bindings", 401);
    check("POST bindings/%2F/e/bx/q/a1", bind("bx", "a1"), "bindings", 401);
    check("POST bindings/%2F/e/ax/q/a9", bind("ax", "a9"), "bindings", 404);
}

#[test]
fn messages_with_large_heads_are_shown() {
    let folder = Folder::new();
    let (node, port) = start(&folder, &[]);
    let mut client = Client::open(&node);
    client.declare("q", DURABLE, b"");
    // As large as a client may send it: what tells of its position makes it larger than any frame of a client's.
    let headers = [&short("h")[..], b"S", &long(&vec![b'x'; 131_040])].concat();
    let properties = [&[0x20, 0][..], &long(&headers)].concat();
    let header = [&60u16.to_be_bytes()[..], &[0; 2], &4u64.to_be_bytes(), &properties].concat();
    for head in [header, [&60u16.to_be_bytes()[..], &[0; 2], &4u64.to_be_bytes(), &[0, 0]].concat()] {
        let to = [&[0, 0][..], &short(""), &short("q"), &[0]].concat();
        client.send(&[method(60, 40, &to), frame(2, &head), frame(3, b"body")].concat());
    }
    assert_eq!(client.declare("q", DURABLE, b""), 2);
    let (status, shown) = ask(port, GUEST, "GET x/queues/%2F/q/messages", &Value::Null);
    assert_eq!(status, 200, "{shown}");
    let text = shown.to_string();
    assert!(text.len() > 131_000 && text.matches("\"payload\":\"body\"").count() == 2, "{}", text.len());
}
