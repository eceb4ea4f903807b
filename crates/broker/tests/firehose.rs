//! Messages at the firehose of a virtual host, over one shard and over two.

use crate::node;

use broker::TRACED;
use broker::catalog::{Op, VhostId};
use message::amqp091::Properties;
use message::record::{Enqueue, Format, NewEnqueue, flag};
use node::Node;
use routing::Arguments;

fn request(node: &mut Node, op: Op) -> Vec<String> {
    node.shards[0].request(node.now, node.ports[0], 1, op);
    node.settle();
    let mut seen = node.take_seen();
    let at = seen.iter().position(|line| line == "0: Done" || line == "0: Unchanged").expect("an answer");
    seen.remove(at);
    seen
}

fn trace(node: &mut Node, on: bool) -> Vec<String> {
    request(node, Op::Trace { vhost: "/".into(), on })
}

/// The deliveries that were seen.
fn seen(node: &mut Node) -> Vec<String> {
    node.settle();
    let seen = node.take_seen().into_iter();
    seen.filter(|line| line.contains(" gets ")).collect()
}

/// One shard, or a second where consumers and a publisher are; `told` hears all that is told, and is consumed from. Nothing
/// is traced.
fn nodes() -> [(Node, usize); 2] {
    [(Node::new(1), 0), (Node::new(2), 1)].map(|(mut node, far)| {
        node.declare(0, "q", true);
        node.declare(0, "told", true);
        let bind = Op::BindQueue {
            queue: "told".into(),
            exchange: "amq.rabbitmq.trace".into(),
            key: "#".into(),
            arguments: Arguments::default(),
        };
        request(&mut node, bind);
        node.consume(far, "q", 7, 0);
        node.consume(0, "told", 9, 0);
        node.settle();
        node.take_seen();
        (node, far)
    })
}

fn introduce(node: &mut Node) {
    for (at, port) in node.ports.clone().into_iter().enumerate() {
        node.shards[at].introduce(port, &format!("connection {at}"));
    }
}

#[test]
fn connections_are_asked_who_they_are_once() {
    for (mut node, far) in nodes() {
        let asked: Vec<String> = (0..=far).map(|at| format!("{at}: Introduce")).collect();
        assert_eq!(trace(&mut node, true), asked);
        introduce(&mut node);
        assert_eq!(trace(&mut node, true), Vec::<String>::new());
        trace(&mut node, false);
        assert_eq!(trace(&mut node, true), Vec::<String>::new());
    }
}

#[test]
fn publishes_are_told_while_it_is_on() {
    for (mut node, far) in nodes() {
        let mut publisher = node.publisher(far);
        let mut send = |node: &mut Node, body: &str| {
            node.publish(far, &mut publisher, "q", body, true);
            let mut seen = seen(node);
            seen.sort();
            seen
        };
        assert_eq!(send(&mut node, "a"), [format!("{far}: 7 gets a@0")]);
        trace(&mut node, true);
        introduce(&mut node);
        let traced = |handle: u32| handle | TRACED;
        let mut expected = [format!("{far}: {} gets b@1", traced(7)), format!("0: {} gets b@0", traced(9))];
        expected.sort();
        assert_eq!(send(&mut node, "b"), expected);
        trace(&mut node, false);
        assert_eq!(send(&mut node, "c"), [format!("{far}: 7 gets c@2")]);
    }
}

#[test]
fn who_has_not_said_its_name_is_not_told_of() {
    for (mut node, far) in nodes() {
        trace(&mut node, true);
        let mut publisher = node.publisher(far);
        node.publish(far, &mut publisher, "q", "a", true);
        assert_eq!(seen(&mut node), [format!("{far}: {} gets a@0", 7 | TRACED)]);
    }
}

/// A stored message, as a delivery has it.
fn stored(exchange: &str) -> Vec<u8> {
    let message = NewEnqueue {
        flags: flag::DURABLE,
        format: Format::Amqp091,
        priority: 0,
        received_at_ms: 1,
        expires_at_ms: 0,
        due_at_ms: 0,
        keys: None,
        exchange: exchange.as_bytes(),
        routing_key: b"k",
        head: &[b"\0\0"],
        body: &[b"x"],
    };
    let mut record = base::Buffer::default();
    message.write(&[], &mut record);
    record.bytes().to_vec()
}

#[test]
fn deliveries_are_told_but_not_of_what_was_told() {
    for (mut node, far) in nodes() {
        trace(&mut node, true);
        introduce(&mut node);
        let (now, port) = (node.now, node.ports[far]);
        let queue = node.shards[far].catalog().queue_by_name(VhostId(0), b"q").unwrap().id;
        for exchange in ["e", "amq.rabbitmq.trace"] {
            let record = stored(exchange);
            let message = Enqueue::read(&record).unwrap();
            node.shards[far].trace_delivery(now, (port, 3), queue, &message, true);
        }
        assert_eq!(seen(&mut node), [format!("0: {} gets x@0", 9 | TRACED)]);
    }
}

#[test]
fn a_late_consumer_and_a_new_queue_are_traced_too() {
    for (mut node, far) in nodes() {
        trace(&mut node, true);
        introduce(&mut node);
        node.declare(0, "new", false);
        node.consume(far, "new", 5, 0);
        node.settle();
        node.take_seen();
        let mut publisher = node.publisher(0);
        node.publish(0, &mut publisher, "new", "a", true);
        assert!(seen(&mut node).contains(&format!("{far}: {} gets a@0", 5 | TRACED)));
    }
}

#[test]
fn a_restart_ends_it() {
    let mut node = Node::new(1);
    trace(&mut node, true);
    assert!(node.shards[0].catalog().is_traced(VhostId(0)));
    assert!(!node.restarted().catalog().is_traced(VhostId(0)));
}

#[test]
fn headers_as_deep_as_may_be_are_left_out() {
    // Tables within each other, as deep as a client may nest them.
    let mut depth = Vec::new();
    let mut deepest = None;
    loop {
        let mut table = (depth.len() as u32).to_be_bytes().to_vec();
        table.extend_from_slice(&depth);
        let head = [&[0x20, 0][..], &table].concat();
        if Properties::read(&head).is_err() {
            break;
        }
        deepest = Some(head);
        depth = [&b"\x01tF"[..], &table].concat();
    }
    let head = deepest.expect("one that is not nested at all");
    let (mut node, _) = nodes().into_iter().next().unwrap();
    trace(&mut node, true);
    introduce(&mut node);
    let queue = node.shards[0].catalog().queue_by_name(VhostId(0), b"q").unwrap().id;
    let mut record = base::Buffer::default();
    let whole = stored("e");
    let message = Enqueue::read(&whole).unwrap();
    let deep = NewEnqueue {
        flags: 0,
        format: Format::Amqp091,
        priority: 0,
        received_at_ms: 1,
        expires_at_ms: 0,
        due_at_ms: 0,
        keys: None,
        exchange: message.exchange,
        routing_key: message.routing_key,
        head: &[&head],
        body: &[b"deep"],
    };
    deep.write(&[], &mut record);
    let message = Enqueue::read(record.bytes()).unwrap();
    let (now, port) = (node.now, node.ports[0]);
    node.shards[0].trace_delivery(now, (port, 3), queue, &message, false);
    assert_eq!(seen(&mut node), [format!("0: {} gets deep@0", 9 | TRACED)]);
}
