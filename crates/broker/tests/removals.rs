//! Removals that are much work go in parts: what goes in one turn is bounded, and nobody waits for the whole.

use crate::node;

use base::id::{PortId, ShardId};
use base::{Now, Quantum};
use broker::catalog::{Op, VhostId};
use broker::{Event, Events, Limits, Reply, Shard};
use node::Node;
use routing::{Arguments, Value};

/// Bindings, or queues with a consumer each, that go.
const COUNT: usize = 100;

/// As many go in one turn.
const AT_ONCE: usize = 12;

fn node(shards: u16) -> Node {
    let limits = Limits {
        removed_at_once_max: AT_ONCE,
        removed_by_each_min: 4,
        left_at_once_max: AT_ONCE,
        expired_at_once_max: AT_ONCE,
        ..Limits::default()
    };
    Node::with_limits(shards, limits)
}

/// The requests of a port, all of which are granted.
fn must(node: &mut Node, port: PortId, op: Op) {
    let at = usize::from(port.shard.0);
    let now = node.now;
    node.shards[at].request(now, port, 1, op);
    node.settle();
    let seen = node.take_seen();
    assert!(seen.len() == 1 && !seen[0].contains("refused"), "{seen:?}");
}

fn bind(node: &mut Node, queue: &str, key: &str) {
    let (exchange, key) = ("amq.topic".into(), key.into());
    let port = node.ports[0];
    must(node, port, Op::BindQueue { queue: queue.into(), exchange, key, arguments: Arguments::new() });
}

/// Queues `q0`, `q1`, ... of a connection, each with a binding.
fn declare_all(node: &mut Node, port: PortId, exclusive: bool, auto_delete: bool) {
    for number in 0..COUNT {
        let name = format!("q{number}");
        must(
            node,
            port,
            Op::DeclareQueue {
                name: name.clone().into(),
                passive: false,
                durable: false,
                exclusive,
                auto_delete,
                arguments: Arguments::new(),
                random: [0; 16],
            },
        );
        let (exchange, key) = ("amq.topic".into(), name.clone().into());
        must(node, port, Op::BindQueue { queue: name.into(), exchange, key, arguments: Arguments::new() });
    }
}

/// Another connection of the first shard.
fn open(node: &mut Node) -> PortId {
    let port = PortId::here(ShardId(0), 9, 1);
    node.shards[0].open_port(port, Node::actor(port));
    port
}

fn bindings(shard: &Shard) -> usize {
    let exchange = shard.catalog().exchange(VhostId(0), b"amq.topic").expect("it is always there");
    exchange.exchange.bindings_count()
}

/// The answers that have come to the first shard's connections, by token.
fn answers(node: &mut Node) -> Vec<(u32, String)> {
    let mut events = Events::default();
    node.shards[0].take_events(&mut events);
    let replies = events.list.into_iter().filter_map(|(_, event)| match event {
        Event::Reply { token, reply: Ok(Reply::Deleted { messages }) } => {
            Some((token, format!("{messages}")))
        }
        Event::Reply { token, reply } => Some((token, if reply.is_ok() { "ok" } else { "no" }.to_owned())),
        _ => None,
    });
    replies.collect()
}

/// Turns of the only shard until nothing is left of what `count` counts: it loses no more than so much in each. A queue that
/// somebody else declares in each of them is there at the end of the next one.
fn goes_in_turns(node: &mut Node, count: impl Fn(&Shard) -> usize, at_once: usize) -> Vec<(u32, String)> {
    let (mut found, mut asked) = (Vec::new(), Vec::new());
    let all = count(&node.shards[0]);
    let mut before = all;
    for turns in 0..3 * COUNT {
        let token = 1000 + turns as u32;
        let declaration = Node::declaration(&format!("b{turns}"), false, &[]);
        node.shards[0].request(node.now, node.ports[0], token, declaration);
        asked.push(token);
        node.turn_of(0);
        node.write();
        let (theirs, own): (Vec<_>, Vec<_>) =
            answers(node).into_iter().partition(|(token, _)| *token >= 1000);
        asked.retain(|token| theirs.iter().all(|(answered, _)| answered != token));
        assert!(asked.len() <= 1, "somebody waits for what goes: {asked:?}");
        found.extend(own);
        let now = count(&node.shards[0]);
        assert!(before - now <= at_once, "{} in turn {turns}", before - now);
        before = now;
        if now == 0 {
            assert!(turns + 1 >= all / at_once && all > COUNT / 2, "{turns} turns for {all}");
            for _ in 0..3 {
                node.turn_of(0);
                node.write();
                found.extend(answers(node).into_iter().filter(|(token, _)| *token < 1000));
            }
            return found;
        }
    }
    panic!("{before} are left");
}

#[test]
fn a_queue_with_many_bindings_goes_in_many_turns() {
    let mut node = node(1);
    node.declare(0, "q", true);
    (0..COUNT).for_each(|number| bind(&mut node, "q", &format!("a.{number}.*")));
    let id = node.shards[0].catalog().queue_by_name(VhostId(0), b"q").unwrap().id;
    node.shards[0].request(node.now, node.ports[0], 7, Op::DeleteQueue { id });
    node.turn_of(0);
    assert_eq!(answers(&mut node), [], "the queue is still there");
    assert_eq!(goes_in_turns(&mut node, bindings, AT_ONCE), [(7, "ok".to_owned())]);
    assert!(node.shards[0].catalog().queue(id).is_none());
}

#[test]
fn exclusive_queues_go_in_many_turns_with_their_connection() {
    let mut node = node(1);
    let port = open(&mut node);
    declare_all(&mut node, port, true, false);
    node.shards[0].close_port(node.now, port);
    assert_eq!(goes_in_turns(&mut node, bindings, AT_ONCE), []);
    assert!(node.shards[0].catalog().queue_by_name(VhostId(0), b"q99").is_none());
}

#[test]
fn consumers_leave_in_many_turns_with_their_connection() {
    let mut node = node(1);
    let by = node.ports[0];
    declare_all(&mut node, by, false, true);
    let port = open(&mut node);
    let first = std::mem::replace(&mut node.ports[0], port);
    (0..COUNT).for_each(|number| node.consume(0, &format!("q{number}"), number as u32, 0));
    node.ports[0] = first;
    node.settle();
    node.take_seen();
    node.shards[0].close_port(node.now, port);
    assert_eq!(goes_in_turns(&mut node, bindings, AT_ONCE), []);
}

#[test]
fn queues_expire_in_many_turns() {
    let mut node = node(1);
    for number in 0..COUNT {
        let name = format!("q{number}");
        node.declare_with(0, &name, false, &[("x-expires", Value::long(1000))]);
        bind(&mut node, &name, &name);
    }
    node.now = Now { mono_ns: node.now.after_ms(1_100), wall_ms: node.now.wall_ms + 1_100 };
    assert_eq!(goes_in_turns(&mut node, bindings, AT_ONCE), []);
}

#[test]
fn every_shard_has_the_parts() {
    let mut node = node(2);
    node.declare(0, "q", true);
    (0..COUNT).for_each(|number| bind(&mut node, "q", &format!("a.{number}.*")));
    let id = node.shards[1].catalog().queue_by_name(VhostId(0), b"q").unwrap().id;
    let now = node.now;
    let port = node.ports[1];
    node.shards[1].request(now, port, 7, Op::DeleteQueue { id });
    node.settle();
    assert_eq!(node.take_seen(), ["1: Done"]);
    assert_eq!(node.shards.iter().map(bindings).collect::<Vec<_>>(), [0, 0]);
    let gone = |shard: &Shard| shard.catalog().queue(id).is_none();
    assert!(node.shards.iter().all(gone));
}

#[test]
fn a_virtual_host_with_much_in_it_goes_in_many_turns() {
    let mut node = node(1);
    (0..COUNT).for_each(|number| _ = node.declare(0, &format!("q{number}"), false));
    (0..COUNT).for_each(|number| bind(&mut node, &format!("q{number}"), "k"));
    let port = node.ports[0];
    must(&mut node, port, Op::AddVhost { name: "other".into(), defaults: Default::default() });
    let other = node.shards[0].catalog().vhost("other").unwrap();
    let mut actor = Node::actor(PortId::here(ShardId(0), 11, 1));
    actor.vhost = other;
    actor.is_internal = true;
    node.ports[0] = actor.port;
    node.shards[0].open_port(actor.port, actor);
    let count = |shard: &Shard| shard.catalog().vhost_queues(VhostId(0)).count();
    node.shards[0].request(node.now, node.ports[0], 7, Op::DeleteVhost { name: "/".into() });
    assert_eq!(goes_in_turns(&mut node, count, AT_ONCE), [(7, "ok".to_owned())]);
    assert!(node.shards[0].catalog().vhost("/").is_none());
}

/// An exchange that is to go along is bound anew before it goes: it stays, and the request is answered as what it was.
#[test]
fn what_is_bound_anew_meanwhile_is_no_refusal() {
    let mut node = node(1);
    let port = node.ports[0];
    node.declare(0, "q", true);
    let exchange = Op::DeclareExchange {
        name: "x".into(),
        kind: "fanout".into(),
        passive: false,
        durable: true,
        auto_delete: true,
        internal: false,
        arguments: Arguments::new(),
    };
    must(&mut node, port, exchange);
    let bind = |key: &str| Op::BindQueue {
        queue: "q".into(),
        exchange: "x".into(),
        key: key.into(),
        arguments: Arguments::new(),
    };
    must(&mut node, port, bind("1"));
    for number in 0..COUNT {
        let (source, destination) = ("amq.topic".into(), "x".into());
        let (key, arguments) = (number.to_string().into(), Arguments::new());
        must(&mut node, port, Op::BindExchange { source, destination, key, arguments });
    }
    let (queue, exchange, key) = ("q".into(), "x".into(), "1".into());
    let unbind = Op::UnbindQueue { queue, exchange, key, arguments: Arguments::new() };
    node.shards[0].request(node.now, port, 7, unbind);
    node.shards[0].request(node.now, port, 8, bind("2"));
    let mut found = Vec::new();
    for _ in 0..COUNT {
        node.turn_of(0);
        node.write();
        found.extend(answers(&mut node));
    }
    found.sort();
    assert_eq!(found, [(7, "ok".to_owned()), (8, "ok".to_owned())]);
    assert!(node.shards[0].catalog().exchange(VhostId(0), b"x").is_some());
}

/// A queue and a stream that are deleted are in no list from the moment on in which their owner lets go of them, though their
/// log knows them until the record of their end is on disk. Lists are asked for by definitions that were true a moment before.
#[test]
fn what_its_owner_let_go_of_is_in_no_list() {
    for queue_type in ["classic", "quorum", "stream"] {
        let mut node = node(1);
        let arguments = [("x-queue-type", Value::text(queue_type))];
        node.declare_with(0, "q", true, &arguments);
        let definition =
            node.shards[0].catalog().queue_by_name(VhostId(0), b"q").expect("it is declared").clone();
        let rows = |node: &Node| {
            let mut rows = Vec::new();
            let listing = node.shards[0].listing();
            let next =
                listing.rows_of(std::slice::from_ref(&definition), 0, &mut Quantum::of(100), &mut rows);
            assert!(next.is_none());
            assert_eq!(listing.pulse(VhostId(0), "q").is_some(), !rows.is_empty(), "{queue_type}");
            rows.len()
        };
        assert_eq!(rows(&node), 1);
        let (now, port) = (node.now, node.ports[0]);
        node.shards[0].request(now, port, 1, Op::DeleteQueue { id: definition.id });
        let mut told = vec![rows(&node)];
        for _ in 0..4 {
            node.turn();
            told.push(rows(&node));
            node.write();
            told.push(rows(&node));
        }
        assert!(told.is_sorted_by(|before, after| before >= after), "{queue_type}: {told:?}");
        assert_eq!(told.last(), Some(&0), "{queue_type}");
    }
}
