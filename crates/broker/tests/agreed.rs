//! Logs that others have to agree on: nothing counts before they do, and a leader may come and go.

use crate::node;

use base::id::{LogId, LogIndex};
use broker::{CommitRule, Limits, QueueCommand};
use journal::{FileId, FileKind, FileName, Place};
use message::record::Outcome;
use node::{NOW, Node};
use routing::Value;

/// A node of two shards that leads the second one's log, which others have to agree on; and an index behind all of it.
fn agreed_on() -> (Node, LogId, LogIndex) {
    let (mut node, log) = (Node::new(2), LogId(1));
    node.shards[1].logs_mut().set_commit_rule(log, CommitRule::Quorum);
    node.shards[1].lead(NOW, log);
    (node, log, LogIndex(1 << 20))
}

/// The same with a queue that is open; its leader has resigned.
fn led_no_more() -> (Node, LogId, LogIndex) {
    let (mut node, log, everything) = agreed_on();
    node.declare(1, "q", true);
    node.pass(1_000);
    node.shards[1].commit_outside(node.now, log, everything);
    node.settle();
    node.shards[1].resign(node.now, log);
    (node, log, everything)
}

#[test]
fn a_quorum_commit_comes_from_outside() {
    // The catalog's log is the first; the second shard's own log is under the other rule.
    let (mut node, log, everything) = agreed_on();
    assert_eq!(node.declare(1, "q", true), log);
    node.consume(1, "q", 9, 0);
    let mut publisher = node.publisher(1);
    node.publish(1, &mut publisher, "q", "one", true);
    node.settle();
    assert_eq!(node.take_seen(), ["1: Consuming"], "on this disk alone is not enough");
    node.shards[1].commit_outside(NOW, log, LogIndex(8));
    node.turn();
    assert_eq!(node.take_seen(), [""; 0], "agreed on, but not up to there");
    node.shards[1].commit_outside(NOW, log, everything);
    node.turn();
    assert_eq!(node.take_seen(), ["1: 5 confirmed 1-1", "1: 9 gets one@0"]);
    // Agreed on before it is on this disk: not enough either.
    node.publish(1, &mut publisher, "q", "two", true);
    node.turn();
    node.shards[1].commit_outside(NOW, log, everything);
    node.turn();
    assert_eq!(node.take_seen(), [""; 0]);
    node.settle();
    assert_eq!(node.take_seen(), ["1: 5 confirmed 2-2", "1: 9 gets two@1"]);
}

#[test]
fn a_command_waits_for_a_leader_though_nothing_else_does() {
    let (mut node, log, _) = led_no_more();
    node.consume(1, "q", 9, 0);
    node.command(1, "q", QueueCommand::Counts { token: 3 });
    node.settle();
    assert_eq!(node.take_seen(), [""; 0]);
    node.shards[1].lead(node.now, log);
    node.settle();
    assert_eq!(node.take_seen(), ["1: Consuming", "1: declared q 0 1"]);
}

#[test]
fn a_leader_that_resigns_proposes_again_when_it_leads() {
    let (mut node, log, everything) = agreed_on();
    node.declare(1, "q", true);
    node.consume(1, "q", 9, 0);
    let mut publisher = node.publisher(1);
    node.publish(1, &mut publisher, "q", "one", true);
    node.settle();
    node.shards[1].commit_outside(NOW, log, everything);
    node.settle();
    assert_eq!(node.take_seen(), ["1: Consuming", "1: 5 confirmed 1-1", "1: 9 gets one@0"]);
    // One is on the disk and not agreed on, one comes while nobody leads; so does a command.
    node.publish(1, &mut publisher, "q", "two", true);
    node.settle();
    node.shards[1].resign(NOW, log);
    node.publish(1, &mut publisher, "q", "three", true);
    node.consume(1, "q", 8, 0);
    node.settle();
    assert_eq!(node.take_seen(), ["1: Cancelled { consumer: 9 }"]);
    assert_eq!(node.shards[1].logs().proposed(log).count(), 0);
    node.shards[1].commit_outside(NOW, log, everything);
    node.settle();
    assert_eq!(node.take_seen(), [""; 0], "nobody proposes");
    node.shards[1].lead(NOW, log);
    node.settle();
    assert_eq!(node.take_seen(), [""; 0], "what comes first is not agreed on");
    node.shards[1].commit_outside(NOW, log, everything);
    node.settle();
    let again = [
        "1: 5 confirmed 2-3",
        "1: Consuming",
        "1: 8 gets one@0 again",
        "1: 8 gets two@1 again",
        "1: 8 gets three@2 again",
    ];
    assert_eq!(node.take_seen(), again);
}

#[test]
fn what_was_taken_back_and_is_agreed_on_after_all_is_there_once() {
    let (mut node, log, everything) = agreed_on();
    node.declare(1, "q", true);
    let mut publisher = node.publisher(1);
    node.settle();
    node.shards[1].commit_outside(NOW, log, everything);
    node.settle();
    node.publish(1, &mut publisher, "q", "one", true);
    node.settle();
    let batch = {
        let (batch, is_written) = node.shards[1].logs().proposed(log).next().expect("it is proposed");
        assert!(is_written);
        batch.clone()
    };
    let (base, len) = (batch.base, batch.len as u64);
    node.shards[1].resign(NOW, log);
    node.publish(1, &mut publisher, "q", "two", true);
    node.settle();
    assert_eq!(node.take_seen(), [""; 0]);
    // The others had the first, and another leader has it agreed on.
    let place =
        Place { file: FileId(1), name: FileName::new(FileKind::Journal, 1), offset: base.0, len, crc: 0 };
    node.shards[1].apply_agreed(NOW, log, base, batch.records(), place);
    node.settle();
    assert_eq!(node.take_seen(), ["1: 5 confirmed 1-1"]);
    node.shards[1].lead(NOW, log);
    node.settle();
    node.shards[1].commit_outside(NOW, log, everything);
    node.settle();
    assert_eq!(node.take_seen(), ["1: 5 confirmed 2-2"]);
    let ready: Vec<u64> = node.shards[1].listing().rows().map(|row| row.ready).collect();
    assert_eq!(ready, [2]);
}

#[test]
fn a_dead_letter_of_an_owner_before_is_no_business_of_the_next() {
    let (mut node, log, everything) = agreed_on();
    assert_ne!(node.declare(0, "grave", true), log);
    let dead =
        [("x-dead-letter-exchange", Value::text("")), ("x-dead-letter-routing-key", Value::text("grave"))];
    assert_eq!(node.declare_with(1, "q", true, &dead), log);
    let mut publisher = node.publisher(1);
    node.publish(1, &mut publisher, "q", "one", true);
    node.publish(1, &mut publisher, "q", "two", true);
    node.consume(1, "q", 9, 0);
    node.settle();
    node.shards[1].commit_outside(NOW, log, everything);
    node.settle();
    let row = |node: &Node, name: &str| {
        let mut rows = node.shards.iter().flat_map(|shard| shard.listing().rows());
        let row = rows.find(|row| &*row.definition.name == name).expect("it is there");
        (row.ready, row.unsettled, row.dying)
    };
    // The copy of one is on its way to the disk when the leader resigns.
    node.settled(1, "q", 9, (0, 0), Outcome::Rejected);
    node.turn();
    node.turn();
    assert_eq!((row(&node, "q"), row(&node, "grave")), ((0, 1, 1), (0, 0, 0)));
    node.shards[1].resign(NOW, log);
    node.shards[1].lead(NOW, log);
    node.settle();
    assert_eq!((row(&node, "q"), row(&node, "grave")), ((2, 0, 0), (1, 0, 0)), "one is there again");
    // Both die, and their ends are agreed on.
    node.consume(1, "q", 8, 0);
    node.settle();
    node.settled(1, "q", 8, (0, 1), Outcome::Rejected);
    node.settle();
    node.pass(1_000);
    node.settle();
    node.shards[1].commit_outside(node.now, log, everything);
    node.settle();
    assert_eq!((row(&node, "q"), row(&node, "grave")), ((0, 0, 0), (3, 0, 0)));
}

/// The bound of a move is the end of a batch that was taken back, in place of which came a larger one.
#[test]
fn a_batch_is_moved_as_a_whole_or_not() {
    let (mut node, log, everything) = agreed_on();
    node.declare(1, "q", true);
    let mut publisher = node.publisher(1);
    node.publish(1, &mut publisher, "q", "one", true);
    node.settle();
    node.shards[1].commit_outside(NOW, log, everything);
    node.settle();
    let applied = node.shards[1].logs().applied(log).unwrap();
    node.publish(1, &mut publisher, "q", "two", true);
    node.settle();
    let taken_back = node.shards[1].logs().proposed(log).last().unwrap().0.next();
    node.shards[1].resign(NOW, log);
    node.publish(1, &mut publisher, "q", "three", true);
    node.shards[1].lead(NOW, log);
    node.settle();
    node.shards[1].commit_outside(NOW, log, everything);
    node.settle();
    let moved = node.shards[1].logs().begin_move(log, taken_back).unwrap();
    let moved = moved.carry_out(&node.disk, u64::MAX, || 77).unwrap();
    assert_eq!((moved.bound, moved.damaged.len()), (applied, 0));
    node.shards[1].finish_move(&moved);
    let rest = node.shards[1].logs().begin_move(log, LogIndex(u64::MAX)).unwrap();
    let rest = rest.carry_out(&node.disk, u64::MAX, || 78).unwrap();
    assert_eq!(rest.damaged, []);
}

/// The record that opens a queue gathers with its messages, and is gone with the node. The catalog is not.
#[test]
fn a_queue_is_open_before_what_gathered_for_it() {
    let (mut node, log) = (Node::with_logs(1, 2, Limits::default()), LogId(1));
    node.shards[0].logs_mut().set_commit_rule(log, CommitRule::Quorum);
    let mut number = 0;
    // Logs take turns.
    while node.declare(0, &format!("q{number}"), true) != log {
        number += 1;
    }
    let queue = format!("q{number}");
    let mut shard = Node::fresh_with_logs(2);
    shard.logs_mut().set_commit_rule(log, CommitRule::Quorum);
    for (_, sealed, place) in &node.written {
        assert_eq!(sealed.log, LogId(0), "nobody leads the other");
        shard.replay(LogId(0), sealed.base, sealed.records(), *place).unwrap();
    }
    shard.end_replay();
    assert!(shard.finish_recovery(NOW).is_empty());
    shard.open_port(node.ports[0], Node::actor(node.ports[0]));
    node.shards[0] = shard;
    let mut publisher = node.publisher(0);
    node.publish(0, &mut publisher, &queue, "one", true);
    node.settle();
    node.shards[0].lead(NOW, log);
    node.settle();
    node.shards[0].commit_outside(NOW, log, LogIndex(1 << 20));
    node.settle();
    node.consume(0, &queue, 9, 0);
    node.settle();
    assert_eq!(node.take_seen(), ["0: 5 confirmed 1-1", "0: Consuming", "0: 9 gets one@0 again"]);
}

/// Commands wait for a leader, also that of a connection to consume; nothing is handed to one that is gone.
#[test]
fn nobody_consumes_who_is_gone_before_somebody_leads() {
    let (mut node, log, everything) = led_no_more();
    node.consume(0, "q", 9, 0);
    node.settle();
    let port = node.ports[0];
    node.shards[0].close_port(node.now, port);
    node.settle();
    let mut publisher = node.publisher(1);
    node.publish(1, &mut publisher, "q", "one", true);
    node.settle();
    node.shards[1].lead(node.now, log);
    node.settle();
    node.shards[1].commit_outside(node.now, log, everything);
    node.settle();
    node.consume(1, "q", 8, 0);
    node.settle();
    assert_eq!(node.take_seen(), ["1: 5 confirmed 1-1", "1: Consuming", "1: 8 gets one@0 again"]);
}
