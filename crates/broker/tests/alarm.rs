//! While the memory alarm holds nothing new is kept, and what gives memory back goes on.

use crate::node;

use base::id::{PortId, ShardId};
use broker::catalog::{Actor, Op, PolicyKind, UserLimits, VhostDefaults, VhostId};
use broker::ledger::Kind;
use broker::{Event, Events, Limits};
use node::Node;
use routing::{Arguments, Value};

/// A client's port.
fn client() -> PortId {
    PortId::here(ShardId(0), 0, 1)
}

/// A port by which the tools ask in the name of the same user.
fn tool() -> PortId {
    PortId::here(ShardId(0), u32::MAX, 9)
}

/// The error text of the answer, if it is a refusal.
fn ask(node: &mut Node, port: PortId, op: Op) -> Option<String> {
    node.shards[0].request(node.now, port, 5, op);
    for _ in 0..100 {
        let mut sealed = Vec::new();
        node.shards[0].end_turn(node.now, &mut sealed);
        node.unwritten.extend(sealed.into_iter().map(|sealed| (0, sealed)));
        let mut events = Events::default();
        node.shards[0].take_events(&mut events);
        for (_, event) in events.list {
            if let Event::Reply { reply, .. } = event {
                return reply.err().map(|refusal| refusal.reply_text());
            }
        }
        node.write();
    }
    panic!("there is no answer");
}

fn declare(queue: &str) -> Op {
    Node::declaration(queue, false, &[])
}

fn bind(key: &str) -> Op {
    let (queue, exchange) = ("q".into(), "amq.topic".into());
    Op::BindQueue { queue, exchange, key: key.into(), arguments: Arguments::new() }
}

fn policy(name: &str, most: i64) -> Op {
    Op::SetPolicy {
        kind: PolicyKind::User,
        vhost: "/".into(),
        name: name.into(),
        pattern: ".*".into(),
        apply_to: "all".into(),
        priority: 0,
        definition: [(&b"max-length"[..], Value::long(most))].into_iter().collect(),
    }
}

fn exchange(name: &str) -> Op {
    Op::DeclareExchange {
        name: name.into(),
        kind: "fanout".into(),
        passive: false,
        durable: false,
        auto_delete: false,
        internal: false,
        arguments: Arguments::new(),
    }
}

fn node_with(limits: Limits) -> Node {
    let mut node = Node::with_limits(1, limits);
    node.shards[0].open_port(tool(), Actor::new("guest".into(), VhostId(0), tool()));
    for op in [declare("q"), exchange("e"), bind("k"), policy("p", 7)] {
        assert_eq!(ask(&mut node, client(), op), None);
    }
    node.shards[0].alarm_changed(node.now, "memory", true);
    node
}

#[test]
fn what_would_be_kept_is_refused_to_clients() {
    let mut node = node_with(Limits::default());
    let vhost = || Op::AddVhost { name: "v".into(), defaults: VhostDefaults::default() };
    let rows = [
        (declare("new"), "a new queue"),
        (exchange("new"), "a new exchange"),
        (bind("new"), "a new binding"),
        (policy("new", 7), "a new policy"),
        (vhost(), "a new virtual host"),
    ];
    for (op, what) in &rows {
        let text = format!(
            "PRECONDITION_FAILED - no memory for {what} while the memory alarm holds: consume, purge or delete, or ask \
             again once it is over (leveret.alarm_refuses_growth)"
        );
        assert_eq!(ask(&mut node, client(), op.clone()), Some(text));
    }
    let limits = UserLimits { connections_max: Some(5), ..UserLimits::default() };
    let there = [
        declare("q"),
        exchange("e"),
        bind("k"),
        policy("p", 5),
        Op::SetUserLimits { user: "guest".into(), limits },
        Op::DeleteExchange { name: "e".into(), if_unused: false },
    ];
    for op in there {
        assert_eq!(ask(&mut node, client(), op.clone()), None, "{op:?}");
    }
    // Changes that an administrator makes with the tools may end the alarm.
    for (op, _) in &rows {
        assert_eq!(ask(&mut node, tool(), op.clone()), None, "{op:?}");
    }
    node.shards[0].alarm_changed(node.now, "disk", true);
    node.shards[0].alarm_changed(node.now, "memory", false);
    assert_eq!(ask(&mut node, client(), declare("later")), None);
}

#[test]
fn it_can_be_turned_off() {
    let mut node = node_with(Limits { alarm_refuses_growth: false, ..Limits::default() });
    assert_eq!(ask(&mut node, client(), declare("new")), None);
}

#[test]
fn arguments_of_consumers_are_counted_and_bounded() {
    let mut node = node_with(Limits::default());
    let of = |bytes: usize| -> Arguments {
        [(&b"text"[..], Value::Bytes(vec![0; bytes].into()))].into_iter().collect()
    };
    let held =
        |node: &Node| node.shards[0].holding(client()).map_or(0, |holding| holding.held_of(Kind::Arguments));
    let take = |node: &mut Node, bytes| {
        node.shards[0].take_arguments(client(), &of(bytes)).err().map(|refusal| refusal.reply_text())
    };
    assert_eq!((take(&mut node, 4000), held(&node)), (None, of(4000).heap_bytes() as u64));
    node.shards[0].give_arguments(client(), &of(4000));
    assert_eq!(held(&node), 0);
    let refused = take(&mut node, 5000).expect("it is much while the alarm holds");
    assert!(refused.contains("leveret.alarm_refuses_growth"), "{refused}");
    node.shards[0].alarm_changed(node.now, "memory", false);
    assert_eq!(take(&mut node, 5000), None);
    let refused = take(&mut node, 70_000).expect("it is too much at any time");
    assert!(refused.ends_with("bytes: at most 65536 are allowed (leveret.arguments_bytes_max)"), "{refused}");
    assert_eq!(
        (take(&mut node, 0), held(&node)),
        (None, (of(5000).heap_bytes() + of(0).heap_bytes()) as u64)
    );
}
