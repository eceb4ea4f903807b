//! A log that is stopped because it is damaged: nothing is taken from it and nothing is put into it, whatever is set, said
//! or due.

use crate::node;

use base::id::LogId;
use broker::catalog::{Op, PolicyKind};
use broker::{Held, QueueCommand};
use message::record::Outcome;
use node::Node;

use routing::Value;

/// A queue with nine messages, of which a consumer has taken one and may have no more.
fn node(arguments: &[(&str, Value)]) -> (Node, LogId) {
    let mut node = Node::new(2);
    node.declare(0, "dead", true);
    let more = [
        arguments,
        &[("x-dead-letter-exchange", Value::text("")), ("x-dead-letter-routing-key", Value::text("dead"))],
    ]
    .concat();
    let log = node.declare_with(1, "q", true, &more);
    let mut publisher = node.publisher(0);
    for number in 0..9 {
        node.publish(0, &mut publisher, "q", &format!("{number:0100}"), true);
    }
    node.settle();
    node.consume(0, "q", 7, 1);
    node.settle();
    node.take_seen();
    (node, log)
}

/// A policy for the queue.
fn rule(node: &mut Node, key: &str, value: i64) {
    let (kind, vhost, name) = (PolicyKind::User, "/".into(), "p".into());
    let definition = [(key.as_bytes(), Value::long(value))].into_iter().collect();
    let (pattern, apply_to) = ("^q$".into(), "queues".into());
    let op = Op::SetPolicy { kind, vhost, name, pattern, apply_to, priority: 0, definition };
    node.shards[0].request(node.now, node.ports[0], 1, op);
}

/// The messages that are ready, and those that are held.
fn holds(node: &Node) -> (u64, u64) {
    let rows = node
        .shards
        .iter()
        .flat_map(|shard| shard.listing().rows().filter(|row| &*row.definition.name == "q"));
    rows.fold((0, 0), |(ready, unsettled), row| (ready + row.ready, unsettled + row.unsettled))
}

#[test]
fn whatever_happens_it_keeps_what_it_holds() {
    type Case = (&'static str, &'static [(&'static str, i64)], fn(&mut Node));
    let cases: [Case; 8] = [
        ("a limit in messages", &[], |node| rule(node, "max-length", 2)),
        ("a limit in bytes", &[], |node| rule(node, "max-length-bytes", 300)),
        ("a time to live", &[], |node| rule(node, "message-ttl", 10)),
        ("time passes", &[("x-message-ttl", 1000)], |_| {}),
        ("a message is settled", &[], |node| node.settled(0, "q", 7, (0, 0), Outcome::Accepted)),
        ("a message comes back", &[], |node| node.settled(0, "q", 7, (0, 0), Outcome::Released)),
        ("a message dies", &[], |node| node.settled(0, "q", 7, (0, 0), Outcome::Rejected)),
        ("a consumer goes", &[], |node| {
            node.command(0, "q", QueueCommand::Cancel { token: None, handle: 7, held: Held::GoesBack })
        }),
    ];
    for (case, arguments, happens) in cases {
        for is_stopped in [false, true] {
            let arguments: Vec<_> =
                arguments.iter().map(|(name, value)| (*name, Value::long(*value))).collect();
            let (mut node, log) = node(&arguments);
            let written =
                |node: &Node| node.written.iter().filter(|(_, sealed, _)| sealed.log == log).count();
            let before = (holds(&node), written(&node));
            if is_stopped {
                node.shards.iter_mut().for_each(|shard| shard.stop_log(log));
            }
            happens(&mut node);
            node.settle();
            node.pass(10_000);
            let after = (holds(&node), written(&node));
            let is_delivered = node.take_seen().iter().any(|line| line.contains(" gets "));
            let has_moved = after != before || is_delivered;
            assert_eq!(
                has_moved, !is_stopped,
                "{case}: {before:?}, then {after:?}, delivered: {is_delivered}"
            );
            assert!(
                !is_stopped || node.shards.iter().all(|shard| !shard.has_work()),
                "{case}: it comes to rest"
            );
            let is_due = |shard: &broker::Shard| shard.deadline().is_some_and(|at| at <= node.now.mono_ns);
            assert!(!node.shards.iter().any(is_due), "{case}: nothing is due for ever");
        }
    }
}

/// A consumer that drains waits for no answer with a token; it hears that the log is stopped all the same.
#[test]
fn a_consumer_that_drains_is_not_left_waiting() {
    for is_stopped in [false, true] {
        for (drain, echo) in [(true, false), (false, true)] {
            let (mut node, log) = node(&[]);
            if is_stopped {
                node.shards.iter_mut().for_each(|shard| shard.stop_log(log));
            }
            node.command(0, "q", QueueCommand::Credit { handle: 7, limit: 3, drain, echo });
            node.settle();
            let seen = node.take_seen();
            let closes = seen.iter().any(|line| line.contains("reason: Damaged"));
            assert_eq!((closes, seen.is_empty()), (is_stopped, false), "{drain} {echo}: {seen:?}");
        }
    }
}
