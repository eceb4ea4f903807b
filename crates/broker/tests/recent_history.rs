//! Exchanges that remember, over one shard and over two.

mod node;

use base::id::LogId;
use broker::catalog::{Op, VhostId, Weighed};
use broker::{Publish, Published, Publisher, QueueCommand, Shard};
use message::record::Format;
use node::Node;
use routing::{Arguments, NoHeaders, Value};

fn send(node: &mut Node, port: usize, publisher: &mut Publisher, body: &str) -> Published {
    let publish = Publish {
        exchange: b"h",
        routing_key: b"k",
        more: None,
        headers: &NoHeaders,
        format: Format::Amqp091,
        durable: true,
        priority: None,
        ttl_ms: None,
        head: &[b"\0\0"],
        body: &[body.as_bytes()],
        confirm: true,
    };
    node.shards[port].publish(node.now, publisher, &publish).unwrap()
}

/// An exchange `h` that remembers two messages.
fn declare(node: &mut Node) {
    let arguments = [(&b"x-recent-history-length"[..], Value::long(2))].into_iter().collect();
    let op = Op::DeclareExchange {
        name: "h".into(),
        kind: "x-recent-history".into(),
        passive: false,
        durable: true,
        auto_delete: false,
        internal: false,
        arguments,
    };
    request(node, 0, op);
}

fn request(node: &mut Node, port: usize, op: Op) {
    node.shards[port].request(node.now, node.ports[port], 1, op);
    node.settle();
    assert_eq!(node.take_seen().pop(), Some(format!("{port}: Done")));
}

fn bind(node: &mut Node, port: usize, queue: &str) {
    let (exchange, key, arguments) = ("h".into(), "".into(), Arguments::new());
    request(node, port, Op::BindQueue { queue: queue.into(), exchange, key, arguments });
}

fn ready(shard: &Shard, name: &str) -> Option<u64> {
    shard.listing().rows().find(|row| &*row.definition.name == name).map(|row| row.ready)
}

/// Takes the next message of a queue.
fn take(node: &mut Node, port: usize, queue: &str) -> String {
    node.command(port, queue, QueueCommand::Get { token: 3, handle: 9, settled: true, behind: false });
    node.settle();
    node.take_seen().join(", ")
}

#[test]
fn who_is_bound_gets_what_came_before() {
    for (shards, port) in [(1, 0), (2, 1)] {
        let mut node = Node::new(shards);
        declare(&mut node);
        node.declare(port, "q", true);
        let mut publisher = node.publisher(port);
        for body in ["a", "b", "c"] {
            assert_eq!(send(&mut node, port, &mut publisher, body), Published::Unroutable);
        }
        // The request comes after them on the same way: no turn is needed in between.
        bind(&mut node, port, "q");
        assert_eq!(take(&mut node, port, "q"), format!("{port}: 9 takes b@0, 1 left"));
        assert_eq!(take(&mut node, port, "q"), format!("{port}: 9 takes c@1, 0 left"));
        assert_eq!(send(&mut node, port, &mut publisher, "d"), Published::Waiting);
        node.settle();
        node.take_seen();
        assert_eq!(take(&mut node, port, "q"), format!("{port}: 9 takes d@2, 0 left"));
        assert!(!node.shards[port].is_congested());
    }
}

/// The shards that do not plan have no use for the messages.
#[test]
fn the_planners_shard_alone_remembers() {
    let mut node = Node::new(2);
    declare(&mut node);
    let memory = |node: &Node| {
        let entry = |shard: &Shard| shard.catalog().exchange(VhostId(0), b"h").is_some();
        assert!(node.shards.iter().all(entry));
        [0, 1].map(|at| {
            let shard: &Shard = &node.shards[at];
            let quantum = &mut base::Quantum::of(usize::MAX);
            let (mut bytes, mut from) = (0, Some(Weighed::default()));
            while let Some(at) = from {
                let (more, next) = shard.catalog().memory_bytes_from(at, quantum);
                (bytes, from) = (bytes + more, next);
            }
            bytes
        })
    };
    let before = memory(&node);
    for port in [0, 1] {
        let mut publisher = node.publisher(port);
        send(&mut node, port, &mut publisher, &"x".repeat(10_000));
        node.settle();
    }
    let after = memory(&node);
    assert!(after[0] >= before[0] + 20_000, "{before:?} {after:?}");
    assert_eq!(after[1], before[1]);
}

#[test]
fn what_is_remembered_survives_a_crash() {
    let mut node = Node::new(1);
    declare(&mut node);
    node.declare(0, "q", true);
    let mut publisher = node.publisher(0);
    for body in ["a", "b", "c"] {
        send(&mut node, 0, &mut publisher, body);
    }
    node.settle();
    let mut shard = node.restarted();
    assert_eq!(shard.finish_recovery(node.now), [] as [LogId; 0]);
    shard.open_port(node.ports[0], Node::actor(node.ports[0]));
    node.shards[0] = shard;
    assert!(node.shards[0].catalog().exchange(VhostId(0), b"h").is_some());
    bind(&mut node, 0, "q");
    assert_eq!(ready(&node.shards[0], "q"), Some(2));
    assert_eq!(take(&mut node, 0, "q"), "0: 9 takes b@0, 1 left");
}
