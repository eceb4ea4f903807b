//! Messages with one value of the header that a queue groups by are with one consumer at a time.

use crate::node;

use broker::{Publish, Publisher};
use message::record::{Format, Outcome};
use node::Node;
use routing::{NoHeaders, Value};

/// Publishes a message whose header `key` is this text; empty: without.
fn publish(node: &mut Node, publisher: &mut Publisher, key: &str, body: &str) {
    append(node, publisher, key, body);
    node.settle();
}

/// As [`publish`], and lets it wait to be written.
fn append(node: &mut Node, publisher: &mut Publisher, key: &str, body: &str) {
    let mut head = vec![0x20, 0, 0, 0, 0, 0];
    if !key.is_empty() {
        head.extend(b"\x03keyS");
        head.extend((key.len() as u32).to_be_bytes());
        head.extend(key.as_bytes());
    }
    let len = head.len() as u32 - 6;
    head[2..6].copy_from_slice(&len.to_be_bytes());
    let publish = Publish {
        exchange: b"",
        routing_key: b"q",
        more: None,
        headers: &NoHeaders,
        format: Format::Amqp091,
        durable: true,
        priority: None,
        ttl_ms: None,
        head: &[&head],
        body: &[body.as_bytes()],
        confirm: true,
    };
    node.shards[0].publish(node.now, publisher, &publish).unwrap();
}

/// The events that were seen but confirms, without the port.
fn seen(node: &mut Node) -> String {
    node.settle();
    (0..3).for_each(|_| node.read());
    node.settle();
    let seen = node.take_seen().into_iter().filter(|line| !line.contains("confirmed"));
    seen.map(|line| line.split_once(": ").unwrap().1.to_owned()).collect::<Vec<_>>().join(", ")
}

fn filled(kind: &str, messages: &[(&str, &str)]) -> Node {
    let mut node = Node::new(1);
    let arguments = [("x-queue-type", Value::text(kind)), ("x-group-key", Value::text("key"))];
    node.declare_with(0, "q", true, &arguments);
    let mut publisher = node.publisher(0);
    messages.iter().for_each(|(key, body)| publish(&mut node, &mut publisher, key, body));
    seen(&mut node);
    node
}

#[test]
fn a_group_is_with_one_consumer() {
    for kind in ["classic", "quorum"] {
        let mut node = filled(kind, &[("a", "0"), ("a", "1"), ("", "2"), ("b", "3"), ("a", "4")]);
        node.consume(0, "q", 7, 1);
        assert_eq!(seen(&mut node), "Consuming, 7 gets 0@0");
        node.consume(0, "q", 9, 5);
        assert_eq!(seen(&mut node), "Consuming, 9 gets 2@2, 9 gets 3@3");
        node.settled(0, "q", 7, (0, 0), Outcome::Released);
        // The consumer whose turn it is gets it now, and the messages that follow with it.
        let told = seen(&mut node);
        assert!(told.starts_with("9 gets 0@0") || told.starts_with("7 gets 0@0"), "{told}");
        let (one, other) = if told.starts_with('9') { (9, 7) } else { (7, 9) };
        assert!(!told.contains(&format!("{other} gets")), "{told}");
        node.settled(0, "q", one, (0, 4), Outcome::Accepted);
        let mut publisher = node.publisher(0);
        seen(&mut node);
        publish(&mut node, &mut publisher, "a", "5");
        assert!(!seen(&mut node).is_empty());
    }
}

#[test]
fn a_restart_knows_the_groups() {
    for kind in ["classic", "quorum"] {
        let mut node = filled(kind, &[("a", "0"), ("b", "1"), ("a", "2"), ("b", "3")]);
        let mut shard = node.restarted();
        assert!(shard.finish_recovery(node.now).is_empty());
        node.shards[0] = shard;
        let port = node.ports[0];
        node.shards[0].open_port(port, Node::actor(port));
        node.consume(0, "q", 7, 1);
        let told = seen(&mut node);
        assert!(told.starts_with("Consuming, 7 gets 0@0") && !told.contains("@1"), "{told}");
        node.consume(0, "q", 9, 5);
        let told = seen(&mut node);
        assert!(told.contains("@1") && told.contains("@3") && !told.contains("@2"), "{told}");
        // Messages that come now are told apart as those that were there.
        let mut publisher = node.publisher(0);
        publish(&mut node, &mut publisher, "a", "4");
        publish(&mut node, &mut publisher, "b", "5");
        let told = seen(&mut node);
        assert!(told.contains("@5") && !told.contains("@4"), "{told}");
    }
}

/// Of a queue whose argument is of no other use, messages need not be looked into.
#[test]
fn without_the_argument_there_are_none() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    let mut publisher = node.publisher(0);
    ["a", "a"].iter().for_each(|key| publish(&mut node, &mut publisher, key, "x"));
    node.consume(0, "q", 7, 1);
    node.consume(0, "q", 9, 1);
    let told = seen(&mut node);
    assert!(told.contains("7 gets x@0") && told.contains("9 gets x@1"), "{told}");
}

/// A long backlog of a group that somebody has is gone through in parts, though nothing else happens.
#[test]
fn who_comes_gets_what_lies_behind_a_long_group() {
    let mut node = filled("classic", &[("a", "0")]);
    node.consume(0, "q", 7, 1);
    assert_eq!(seen(&mut node), "Consuming, 7 gets 0@0");
    let mut publisher = node.publisher(0);
    let count = 3 * queue::PASSED_AT_ONCE_MAX;
    for number in 0..count {
        append(&mut node, &mut publisher, "a", "x");
        if number % 100 == 0 {
            node.settle();
        }
    }
    publish(&mut node, &mut publisher, "b", "last");
    seen(&mut node);
    node.consume(0, "q", 9, 1);
    assert_eq!(seen(&mut node), format!("Consuming, 9 gets last@{}", count + 1));
}
