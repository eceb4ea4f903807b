//! Exchanges that remember, over one shard and over two.

use crate::node;

use base::id::LogId;
use broker::catalog::{Op, VhostId, Weighed};
use broker::{Limits, Publish, Published, Publisher, QueueCommand, Shard};
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
    declare_remembering(node, 2);
}

/// An exchange `h` that remembers so many messages.
fn declare_remembering(node: &mut Node, messages: i64) {
    let arguments = [(&b"x-recent-history-length"[..], Value::long(messages))].into_iter().collect();
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
    node.command(
        port,
        queue,
        QueueCommand::Get { token: 3, handle: 9, settled: true, behind: false, by_node: false },
    );
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

/// Each turn gives as many as there is room for, to all who wait in turn.
#[test]
fn what_is_much_comes_piece_by_piece() {
    for shards in [1, 2] {
        let limits = Limits { recalling_work_max: 300, ..Limits::default() };
        let mut node = Node::with_limits(shards, limits);
        declare_remembering(&mut node, 20);
        node.declare(0, "q", true);
        node.declare(0, "r", true);
        let mut publisher = node.publisher(0);
        let bodies: Vec<String> = (0..20).map(|number| format!("m{number}")).collect();
        bodies.iter().for_each(|body| _ = send(&mut node, 0, &mut publisher, body));
        for queue in ["q", "r"] {
            let (exchange, key, arguments) = ("h".into(), "".into(), Arguments::new());
            let op = Op::BindQueue { queue: queue.into(), exchange, key, arguments };
            node.shards[0].request(node.now, node.ports[0], 1, op);
        }
        let all_ready = |node: &Node| {
            let all =
                node.shards.iter().flat_map(|shard| ["q", "r"].map(|name| ready(shard, name).unwrap_or(0)));
            all.sum::<u64>()
        };
        // Over two shards mail goes to and fro, and a turn of the node is many of a shard.
        let mut before = 0;
        for _ in 0..if shards == 1 { 40 } else { 0 } {
            node.turn_of(0);
            node.write();
            let now = all_ready(&node);
            assert!(
                now - before <= 6,
                "{now} after {before}: what two turns give is committed together at most"
            );
            before = now;
        }
        node.settle();
        node.take_seen();
        assert_eq!(all_ready(&node), 40);
        for queue in ["q", "r"] {
            let got: Vec<String> = (0..20).map(|_| take(&mut node, 0, queue)).collect();
            let expected = |number: usize| format!("0: 9 takes m{number}@{number}, {} left", 19 - number);
            assert_eq!(got, (0..20).map(expected).collect::<Vec<_>>());
        }
    }
}

/// A turn gives no more than its units allow, also where each message goes to many queues; and what is gone gets nothing.
#[test]
fn what_goes_to_many_takes_more_turns() {
    let limits = Limits { recalling_work_max: 3_000, ..Limits::default() };
    let mut node = Node::with_limits(1, limits);
    declare_remembering(&mut node, 20);
    let fanout = Op::DeclareExchange {
        name: "f".into(),
        kind: "fanout".into(),
        passive: false,
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Arguments::new(),
    };
    request(&mut node, 0, fanout);
    for at in 0..50 {
        let queue = format!("q{at}");
        node.declare(0, &queue, true);
        let (exchange, key, arguments) = ("f".into(), "".into(), Arguments::new());
        request(&mut node, 0, Op::BindQueue { queue: queue.into(), exchange, key, arguments });
    }
    let mut publisher = node.publisher(0);
    (0..20).for_each(|number| _ = send(&mut node, 0, &mut publisher, &format!("m{number}")));
    let (source, destination) = ("h".into(), "f".into());
    let bind = Op::BindExchange { source, destination, key: "".into(), arguments: Arguments::new() };
    node.shards[0].request(node.now, node.ports[0], 1, bind);
    // A message is some 3,050 units.
    let mut turns = 0;
    while ready(&node.shards[0], "q49") != Some(20) {
        node.turn_of(0);
        node.write();
        turns += 1;
        assert!(turns < 100);
    }
    assert!(turns >= 20, "{turns} turns for 20 messages to 50 queues");
}
