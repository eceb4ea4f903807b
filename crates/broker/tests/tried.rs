//! The luggage of a message that dies: how often its delivery failed, and keys nobody is to see.

use crate::node;

use broker::{More, Publish, Publisher};
use message::record::{Format, Outcome};
use node::Node;
use routing::{NoHeaders, Value};

/// The events that were seen, confirms apart.
fn seen(node: &mut Node) -> Vec<String> {
    node.take_seen().into_iter().filter(|line| !line.contains("confirmed")).collect()
}

fn publish_with(node: &mut Node, publisher: &mut Publisher, key: &str, more: &More<'_>) {
    let publish = Publish {
        exchange: b"",
        routing_key: key.as_bytes(),
        more: Some(more),
        headers: &NoHeaders,
        format: Format::Amqp091,
        durable: true,
        priority: None,
        ttl_ms: None,
        head: &[b"\0\0"],
        body: &[b"x"],
        confirm: true,
    };
    node.shards[0].publish(node.now, publisher, &publish).unwrap();
    node.settle();
}

/// One shard, or the dead on another than the living.
fn nodes() -> [(Node, usize); 2] {
    [(Node::new(1), 0), (Node::new(2), 1)]
}

#[test]
fn a_dead_letter_comes_with_its_failures() {
    let counts = ("x-queue-type", Value::text("quorum"));
    for kind in ["classic", "quorum"] {
        for (mut node, far) in nodes() {
            node.declare_with(far, "dead", true, std::slice::from_ref(&counts));
            let arguments = [
                ("x-queue-type", Value::text(kind)),
                ("x-dead-letter-exchange", Value::text("")),
                ("x-dead-letter-routing-key", Value::text("dead")),
            ];
            node.declare_with(0, "q", true, &arguments);
            let mut publisher = node.publisher(0);
            node.consume(0, "q", 9, 0);
            for body in ["a", "b", "c"] {
                node.publish(0, &mut publisher, "q", body, true);
            }
            node.settle();
            node.consume(far, "dead", 7, 0);
            node.settle();
            seen(&mut node);
            node.settled(0, "q", 9, (0, 0), Outcome::Rejected);
            node.settled(0, "q", 9, (1, 1), Outcome::Undeliverable);
            node.settled(0, "q", 9, (2, 2), Outcome::Failed);
            node.settle();
            node.settled(0, "q", 9, (2, 2), Outcome::Undeliverable);
            node.settle();
            let gets = seen(&mut node).into_iter().filter(|line| line.contains(": 7 gets"));
            let expected = ["a@0 again", "b@1", "c@2 again"].map(|got| format!("{far}: 7 gets {got}"));
            assert_eq!(gets.collect::<Vec<_>>(), expected, "{kind}");
        }
    }
}

#[test]
fn hidden_keys_count_for_the_dead_too() {
    for (mut node, far) in nodes() {
        node.declare(far, "blind", true);
        node.declare(0, "shown", true);
        node.declare_with(0, "q", true, &[("x-dead-letter-exchange", Value::text(""))]);
        let mut publisher = node.publisher(0);
        for (queue, handle, port) in [("q", 1, 0), ("shown", 2, 0), ("blind", 3, far)] {
            node.consume(port, queue, handle, 0);
        }
        node.settle();
        seen(&mut node);
        let more = More { keys: vec![b"shown", b"none", b"blind"], hidden: 2, ..More::default() };
        publish_with(&mut node, &mut publisher, "q", &more);
        let sorted = |node: &mut Node| {
            let mut lines = seen(node);
            lines.sort();
            lines
        };
        let came = |at: u64| {
            let mut lines = vec![format!("0: 1 gets x@{at}"), format!("{far}: 3 gets x@{at}")];
            if at == 0 {
                lines.push("0: 2 gets x@0".into());
            }
            lines.sort();
            lines
        };
        assert_eq!(sorted(&mut node), came(0));
        // Each time it dies: what its head does not list is in its record.
        for at in 0..2 {
            node.settled(0, "q", 1, (at, at), Outcome::Undeliverable);
            node.settle();
            assert_eq!(sorted(&mut node), came(at + 1));
        }
    }
}
