//! Routes that a publisher remembers are bounded in bytes, and counted for its connection.

use crate::node;

use broker::catalog::{Op, UserLimits};
use broker::ledger::Kind;
use broker::{Limits, Publish, Published, Publisher};
use message::record::Format;
use node::Node;
use routing::{Arguments, NoHeaders};

/// Queues that each message goes to.
const QUEUES: usize = 50;

/// Bytes of a route at least, with its queues.
const ROUTE_BYTES: usize = QUEUES * 8;

/// Bytes of routes that are not counted.
const FREE: usize = 4 << 10;

fn ask(node: &mut Node, op: Op) {
    let (now, port) = (node.now, node.ports[0]);
    node.shards[0].request(now, port, 5, op);
    node.settle();
    assert_eq!(node.take_seen(), ["0: Done"]);
}

fn node(routes_bytes_max: usize) -> (Node, Publisher) {
    let mut node = Node::with_limits(1, Limits { routes_bytes_max, ..Limits::default() });
    for number in 0..QUEUES {
        let queue = format!("q{number}");
        node.declare(0, &queue, false);
        let (exchange, key) = ("amq.fanout".into(), "".into());
        ask(&mut node, Op::BindQueue { queue: queue.into(), exchange, key, arguments: Arguments::new() });
    }
    let publisher = node.publisher(0);
    (node, publisher)
}

fn publish(node: &mut Node, publisher: &mut Publisher, key: &str) {
    let publish = Publish {
        exchange: b"amq.fanout",
        routing_key: key.as_bytes(),
        more: None,
        headers: &NoHeaders,
        format: Format::Amqp091,
        durable: false,
        priority: None,
        ttl_ms: None,
        head: &[b"\0\0"],
        body: &[b"x"],
        confirm: false,
    };
    let published = node.shards[0].publish(node.now, publisher, &publish);
    assert_eq!(published, Ok(Published::Done));
}

fn counted(node: &Node) -> usize {
    node.shards[0].holding(node.ports[0]).map_or(0, |holding| holding.held_of(Kind::Caches) as usize)
}

/// The number of messages by exchange, and to the first queue.
fn seen(publisher: &Publisher) -> u64 {
    publisher.exchanges().iter().map(|(_, messages)| messages).sum()
}

#[test]
fn the_bytes_of_routes_are_bounded_and_counted() {
    let most = 50 * ROUTE_BYTES;
    let (mut node, mut publisher) = node(most);
    let mut highest = 0;
    for number in 0..500 {
        publish(&mut node, &mut publisher, &format!("k{}", number % 100));
        let now = counted(&node);
        assert!(now <= most - FREE, "{now} bytes");
        highest = highest.max(now);
    }
    assert!(highest > most / 2, "{highest} bytes at most");
    assert!(publisher.heap_bytes() < 4 * most, "{} bytes", publisher.heap_bytes());
    assert_eq!(seen(&publisher), 500, "messages of routes that are forgotten count too");
    node.shards[0].forget_routes(&mut publisher);
    assert_eq!((counted(&node), seen(&publisher)), (0, 500));
}

#[test]
fn a_route_that_is_too_large_is_for_one_message() {
    let (mut node, mut publisher) = node(ROUTE_BYTES);
    for number in 0..10 {
        publish(&mut node, &mut publisher, "k");
        assert_eq!((counted(&node), seen(&publisher)), (0, number + 1));
    }
}

#[test]
fn where_the_account_has_no_room_messages_go_all_the_same() {
    let (mut node, mut publisher) = node(1 << 20);
    let limits = UserLimits { memory_bytes_max: Some(10 * ROUTE_BYTES as u64), ..UserLimits::default() };
    ask(&mut node, Op::SetUserLimits { user: "guest".into(), limits });
    let mut highest = 0;
    for number in 0..100 {
        publish(&mut node, &mut publisher, &format!("k{number}"));
        highest = highest.max(counted(&node));
    }
    assert!((ROUTE_BYTES..=10 * ROUTE_BYTES).contains(&highest), "{highest} bytes at most");
    assert_eq!(seen(&publisher), 100);
}
