//! Policies are worked out in slices: what a turn may cost is bounded, and nothing is left out.

use crate::node;

use base::id::{PortId, ShardId};
use broker::catalog::{Actor, Op, PolicyKind, QueueDefinition, VhostId};
use broker::{Event, Events, Limits, Shard};
use node::Node;
use routing::Value;
use std::collections::BTreeMap;

/// A turn looks at one object.
fn tiny() -> Limits {
    Limits { policy_steps_max: 1, ..Limits::default() }
}

fn set(name: &str, pattern: &str, priority: i64) -> Op {
    let definition = [("max-length", Value::long(7)), ("alternate-exchange", Value::text("amq.fanout"))];
    Op::SetPolicy {
        kind: PolicyKind::User,
        vhost: "/".into(),
        name: name.into(),
        pattern: pattern.into(),
        apply_to: "all".into(),
        priority,
        definition: definition.into_iter().map(|(key, value)| (key.as_bytes(), value)).collect(),
    }
}

fn clear(name: &str) -> Op {
    Op::ClearPolicy { kind: PolicyKind::User, vhost: "/".into(), name: name.into() }
}

/// The policies of queues and exchanges that have some, by name.
fn governed(shard: &Shard) -> BTreeMap<String, String> {
    let catalog = shard.catalog();
    let queues = catalog.queues().map(|queue| (queue.name.to_string(), catalog.queue_policies(queue)));
    let exchanges = catalog.exchanges(VhostId(0)).into_iter();
    let exchanges =
        exchanges.map(|exchange| (exchange.name.to_string(), catalog.exchange_policies(exchange)));
    let all =
        queues.chain(exchanges).filter_map(|(name, matched)| Some((name, matched.user?.name.to_string())));
    all.collect()
}

fn length_max(shard: &Shard, queue: &str) -> Option<u64> {
    let queue: &QueueDefinition = shard.catalog().queue_by_name(VhostId(0), queue.as_bytes()).unwrap();
    shard.catalog().rules(queue).length_max
}

fn ask(node: &mut Node, op: Op) {
    node.shards[0].request(node.now, node.ports[0], 1, op);
}

/// The tokens of the answers that came.
fn answers(node: &mut Node) -> Vec<u32> {
    let mut events = Events::default();
    node.shards[0].take_events(&mut events);
    let tokens = events.list.into_iter().filter_map(|(_, event)| match event {
        Event::Reply { token, .. } => Some(token),
        _ => None,
    });
    tokens.collect()
}

#[test]
fn a_turn_looks_at_so_much() {
    let mut node = Node::with_limits(1, tiny());
    for number in 0..50 {
        node.declare(0, &format!("q{number:02}"), true);
    }
    ask(&mut node, set("p", "^q", 0));
    let mut turns = 0;
    // The disk answers after each turn.
    loop {
        node.turn_of(0);
        node.write();
        answers(&mut node);
        let found = governed(&node.shards[0]).len();
        assert!(found <= turns, "{found} queues in {turns} turns");
        turns += 1;
        if !node.shards[0].has_work() && found == 50 {
            break;
        }
        assert!(turns < 200, "{found} queues have it");
    }
    assert!(turns > 50, "exchanges are looked at too");
    assert_eq!((length_max(&node.shards[0], "q00"), length_max(&node.shards[0], "q49")), (Some(7), Some(7)));
}

/// A pattern that takes milliseconds for a name is held against one name a turn, with the bounds in force.
#[test]
fn a_dear_pattern_is_held_against_few_names_a_turn() {
    let mut node = Node::new(1);
    for number in 0..8 {
        node.declare(0, &format!("{number:05}{}", "abcd".repeat(62)), true);
    }
    ask(&mut node, set("p", "(a?b?c?d?){255}(a|b|c|d|e){240}$", 0));
    let mut before = 0;
    for _ in 0..40 {
        node.turn_of(0);
        node.write();
        answers(&mut node);
        let found = governed(&node.shards[0]).len();
        assert!(found - before <= 1, "{} names in one turn", found - before);
        before = found;
    }
    assert_eq!(before, 8);
}

/// The answer does not wait for what is many, and what is little is there when it comes.
#[test]
fn the_answer_comes_when_the_policy_is_known() {
    for (limits, is_there) in [(tiny(), false), (Limits::default(), true)] {
        let mut node = Node::with_limits(1, limits);
        (0..20).for_each(|number| _ = node.declare(0, &format!("q{number}"), true));
        ask(&mut node, set("p", "^q", 0));
        while answers(&mut node).is_empty() {
            node.turn_of(0);
            node.write();
        }
        assert_eq!(governed(&node.shards[0]).len() == 20, is_there);
        node.settle();
        assert_eq!(governed(&node.shards[0]).len(), 20);
    }
}

/// Policies that change faster than a lap takes leave nothing out.
#[test]
fn a_lap_begins_anew_where_it_stands() {
    let mut node = Node::with_limits(2, tiny());
    (0..20).for_each(|number| _ = node.declare(0, &format!("q{number:02}"), true));
    for round in 0..30 {
        let op = if round % 3 == 2 { clear("p") } else { set("p", ["^q", "^q0"][round % 2], round as i64) };
        ask(&mut node, op);
        for _ in 0..round {
            let mail = node.turn_of(0);
            mail.into_iter().enumerate().for_each(|(to, mail)| node.receive(to, mail));
        }
        node.write();
    }
    ask(&mut node, set("last", "^q1", 99));
    node.settle();
    let expected = (10..20).map(|number| (format!("q{number}"), "last".to_owned())).collect();
    assert_eq!(governed(&node.shards[0]), expected);
    assert_eq!(governed(&node.shards[1]), expected, "each shard knows the same");
}

/// The answer to a declaration waits until the queue goes by its policies, however many come at once.
#[test]
fn what_is_declared_goes_by_its_policies_from_the_start() {
    let mut node = Node::with_limits(1, tiny());
    ask(&mut node, set("p", "^(q|amq.fan)", 0));
    node.settle();
    node.take_seen();
    for number in 0..10 {
        let declaration = Node::declaration(&format!("q{number}"), true, &[]);
        node.shards[0].request(node.now, node.ports[0], number, declaration);
    }
    let mut answered = 0;
    for _ in 0..100 {
        node.turn_of(0);
        node.write();
        for token in answers(&mut node) {
            assert_eq!(length_max(&node.shards[0], &format!("q{token}")), Some(7));
            answered += 1;
        }
    }
    assert_eq!(answered, 10);
}

/// Many declarations in one virtual host do not hold up one in another.
#[test]
fn virtual_hosts_take_turns() {
    let mut node = Node::with_limits(1, tiny());
    ask(&mut node, set("p", "^q", 0));
    ask(&mut node, Op::AddVhost { name: "other".into(), defaults: Default::default() });
    node.settle();
    let Op::SetPolicy { kind, name, pattern, apply_to, priority, definition, .. } = set("p", "^q", 0) else {
        unreachable!("it is one");
    };
    let vhost = "other".into();
    ask(&mut node, Op::SetPolicy { kind, vhost, name, pattern, apply_to, priority, definition });
    node.settle();
    answers(&mut node);
    let vhost = node.shards[0].catalog().vhost("other").unwrap();
    let other = PortId::here(ShardId(0), 9, 1);
    node.shards[0].open_port(other, Actor::internal(vhost, other));
    for number in 0..20 {
        let declaration = Node::declaration(&format!("q{number}"), true, &[]);
        node.shards[0].request(node.now, node.ports[0], number, declaration);
    }
    node.shards[0].request(node.now, other, 99, Node::declaration("q", true, &[]));
    let mut answered = Vec::new();
    while !answered.contains(&99) {
        node.turn_of(0);
        node.write();
        answered.extend(answers(&mut node));
        assert!(answered.len() < 20, "{answered:?}");
    }
    assert!(answered.len() <= 4, "{answered:?}");
}

/// A start has all policies in force, whatever was under way.
#[test]
fn a_start_finds_the_policies_in_force() {
    let mut node = Node::with_limits(1, tiny());
    (0..20).for_each(|number| _ = node.declare(0, &format!("q{number:02}"), true));
    ask(&mut node, set("p", "^q0", 0));
    node.turn_of(0);
    node.write();
    assert!(governed(&node.shards[0]).len() < 10);
    let mut shard = node.restarted();
    assert!(shard.finish_recovery(node.now).is_empty());
    assert_eq!(
        (governed(&shard).len(), length_max(&shard, "q09"), length_max(&shard, "q10")),
        (10, Some(7), None)
    );
}
