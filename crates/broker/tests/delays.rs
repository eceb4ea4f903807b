//! Messages that wait for their time: from the exchange, or the publisher's request, to the consumer.

use crate::node;

use base::id::QueueSeq;
use broker::catalog::Op;
use broker::fields::Fields091;
use broker::{Limits, Modified, More, Publish, Published, Publisher, QueueCommand};
use message::amqp10::Encoder;
use message::amqp091::{NewProperties, Properties, Table, TableWriter, Value as Field};
use message::record::{Format, Outcome, SeqRange};
use node::Node;
use routing::Value;

/// The events that were seen, confirms apart.
fn seen(node: &mut Node) -> Vec<String> {
    node.take_seen().into_iter().filter(|line| !line.contains("confirmed")).collect()
}

/// A queue on each of two shards, or both on one: `near`, and `far`, which an exchange that delays leads to.
fn nodes(more: &[(&'static str, Value)]) -> [Node; 2] {
    [(1, 0), (2, 1)].map(|(shards, far)| {
        let mut node = Node::new(shards);
        node.declare_with(0, "near", true, more);
        node.declare_with(far, "far", true, more);
        let arguments = [("x-delayed-type", Value::text("fanout"))];
        let declare = Op::DeclareExchange {
            name: "later".into(),
            kind: "x-delayed-message".into(),
            passive: false,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: arguments.iter().map(|(name, value)| (name.as_bytes(), value.clone())).collect(),
        };
        let bind = Op::BindQueue {
            queue: "far".into(),
            exchange: "later".into(),
            key: "".into(),
            arguments: Default::default(),
        };
        for op in [declare, bind] {
            node.shards[0].request(node.now, node.ports[0], 1, op);
            node.settle();
        }
        seen(&mut node);
        node.consume(0, "near", 5, 0);
        node.consume(far, "far", 6, 0);
        node.settle();
        seen(&mut node);
        node
    })
}

/// Publishes with the header x-delay, and the wish to be delivered then.
fn publish(
    node: &mut Node,
    publisher: &mut Publisher,
    (exchange, body): (&str, &str),
    delay: Option<i32>,
    due_at_ms: u64,
) -> Published {
    let fields = TableWriter::fields(|table| {
        delay.into_iter().for_each(|delay| table.put(b"x-delay", Field::I32(delay)));
    });
    let headers = Some(Table::new(&fields).unwrap());
    let mut head = Vec::new();
    NewProperties { headers, ..Default::default() }.write(&mut head);
    let more = More { due_at_ms, ..More::default() };
    let publish = Publish {
        exchange: exchange.as_bytes(),
        routing_key: b"near",
        more: more.some(),
        headers: &Fields091(&Properties::read(&head).unwrap()),
        format: Format::Amqp091,
        durable: true,
        priority: None,
        ttl_ms: None,
        head: &[&head],
        body: &[body.as_bytes()],
        confirm: true,
    };
    node.shards[0].publish(node.now, publisher, &publish).unwrap()
}

fn bodies(node: &mut Node) -> Vec<String> {
    let lines = seen(node);
    lines.iter().map(|line| line.split_whitespace().last().unwrap_or_default().to_owned()).collect()
}

#[test]
fn is_delivered_when_it_is_due() {
    for mut node in nodes(&[]) {
        let mut publisher = node.publisher(0);
        let begin_ms = node.now.wall_ms;
        let wishes = [
            ("later", "a300", Some(300), 0),
            ("later", "b100", Some(100), 0),
            ("later", "c0", None, 0),
            ("later", "d0", Some(-100), 0),
            ("", "e0", Some(100), 0),
            ("", "f200", None, begin_ms + 200),
            ("", "g0", None, begin_ms),
        ];
        for (exchange, body, delay, due_at_ms) in wishes {
            let published = publish(&mut node, &mut publisher, (exchange, body), delay, due_at_ms);
            assert_eq!(published, Published::Waiting, "{body}");
        }
        node.settle();
        let all = node.take_seen();
        assert_eq!(all.iter().filter(|line| line.contains("confirmed")).count().min(1), 1, "{all:?}");
        let mut came: Vec<char> = Vec::new();
        let mut note = |lines: Vec<String>| {
            let bodies = lines.iter().filter(|line| !line.contains("confirmed"));
            let mut some: Vec<char> = bodies
                .filter_map(|line| wishes.iter().find(|(_, body, ..)| line.contains(body)))
                .filter_map(|(_, body, ..)| body.chars().next())
                .collect();
            some.sort_unstable();
            came.append(&mut some);
            came.push('|');
        };
        note(all);
        for _ in 0..7 {
            node.pass(50);
            note(node.take_seen());
        }
        // A message that is to wait for so long has waited for longer: nobody knows how old the millisecond was in which it came.
        assert_eq!(came.iter().collect::<String>(), "cdeg|||b|f|||a|");
    }
}

#[test]
fn comes_back_when_a_consumer_says() {
    for mut node in nodes(&[]) {
        let mut publisher = node.publisher(0);
        publish(&mut node, &mut publisher, ("", "x"), None, 0);
        node.settle();
        assert_eq!(seen(&mut node).len(), 1);
        let (first, last) = (QueueSeq(0), QueueSeq(0));
        let range = SeqRange { first, last };
        let due_at_ms = node.now.wall_ms + 100;
        let mut annotations = Vec::new();
        let mut encoder = Encoder::new(&mut annotations);
        let map = encoder.map();
        encoder.close(map);
        let (outcome, annotations, due_at_ms) = (Outcome::Failed, annotations.into(), Some(due_at_ms));
        let modified = Modified { handle: 5, range, outcome, annotations, due_at_ms };
        node.command(0, "near", QueueCommand::Modify(Box::new(modified)));
        node.settle();
        node.pass(99);
        assert_eq!(bodies(&mut node), Vec::<String>::new());
        node.pass(1);
        assert_eq!(seen(&mut node).len(), 1);
    }
}

/// A queue that refuses publishers counts the room it has promised; the delay ends all the same.
#[test]
fn is_asked_for_room_when_it_comes() {
    let more = [("x-max-length", Value::long(1)), ("x-overflow", Value::text("reject-publish"))];
    for mut node in nodes(&more) {
        let mut publisher = node.publisher(0);
        publish(&mut node, &mut publisher, ("later", "first"), Some(100), 0);
        node.settle();
        seen(&mut node);
        publish(&mut node, &mut publisher, ("later", "second"), Some(100), 0);
        node.settle();
        assert!(node.take_seen().iter().any(|line| line.contains("refused")), "it was full");
        node.pass(100);
        assert_eq!(seen(&mut node).len(), 0, "early");
        node.pass(1);
        assert_eq!(seen(&mut node).len(), 1);
    }
}

#[test]
fn is_listed_cancelled_and_there_after_a_restart() {
    let [mut node, _] = nodes(&[]);
    let mut publisher = node.publisher(0);
    let begin_ms = node.now.wall_ms;
    for delay in [300, 100, 200] {
        publish(&mut node, &mut publisher, ("later", "x"), Some(delay), 0);
    }
    node.settle();
    let listed = |shard: &broker::Shard, count_max| shard.listing().delayed("/", "far", count_max);
    let due = |later_ms: u64, seq| (begin_ms + later_ms + 1, QueueSeq(seq));
    assert_eq!(listed(&node.shards[0], 2), Some(vec![due(100, 1), due(200, 2)]));
    assert_eq!(node.shards[0].listing().delayed("/", "nowhere", 9), None);
    let now = node.now;
    assert_eq!(node.shards[0].cancel_delayed(now, "/", "far", &[1, 7]), Some(1));
    assert_eq!(node.shards[0].cancel_delayed(now, "/", "nowhere", &[1]), None);
    node.settle();
    let rows: Vec<_> = node.shards[0].listing().rows().map(|row| (row.delayed, row.ready)).collect();
    assert!(rows.contains(&(2, 0)), "{rows:?}");
    let mut again = node.restarted();
    assert!(again.finish_recovery(now).is_empty());
    assert_eq!(listed(&again, 9), Some(vec![due(200, 2), due(300, 0)]));
}

#[test]
fn little_of_what_is_delayed_is_in_memory() {
    let most = 1 << 20;
    let mut node = Node::with_limits(1, Limits { resident_delayed_bytes_max: most, ..Limits::default() });
    node.declare(0, "near", true);
    let mut publisher = node.publisher(0);
    let body = "x".repeat(60 << 10);
    let mut send = |node: &mut Node, due_at_ms| {
        for _ in 0..50 {
            publish(node, &mut publisher, ("", &body), None, due_at_ms);
            node.settle();
        }
        let pools = node.shards[0].memory_pools();
        pools.into_iter().find(|(name, _)| *name == "binary").map_or(0, |(_, bytes)| bytes as usize)
    };
    let due_at_ms = node.now.wall_ms + 1_000;
    let resident = send(&mut node, due_at_ms);
    assert!((most / 2..=most).contains(&resident), "{resident}");
    let resident = send(&mut node, 0);
    assert!(resident > 2 * most, "what can be handed out at once is kept: {resident}");
    node.consume(0, "near", 5, 0);
    node.pass(1_001);
    for _ in 0..200 {
        node.read();
    }
    assert_eq!(seen(&mut node).iter().filter(|line| line.contains(" gets ")).count(), 100);
}
