//! A log knows its queues: by its records alone, on any node, and whenever a node went down.

use crate::node;

use base::id::{LogId, LogIndex};
use base::{Now, Pieces};
use broker::catalog::Op;
use broker::{CATALOG_LOG, CommitRule, LogSnapshot, QueueCommand, Shard};
use node::{NOW, Node};
use routing::Value;

/// Replays what is on disk of some logs, in the order in which it was written.
fn replay(node: &Node, shard: &mut Shard, is_wanted: impl Fn(LogId, usize) -> bool) {
    for (at, (_, sealed, place)) in node.written.iter().enumerate() {
        if is_wanted(sealed.log, at) {
            shard.replay(sealed.log, sealed.base, sealed.records(), *place).unwrap();
        }
    }
}

fn snapshot(shard: &Shard, log: LogId) -> Pieces {
    let LogSnapshot { bytes, .. } = shard.snapshot(log, false).expect("it is not stopped");
    bytes
}

/// Puts the node's only shard in the place of `shard` after a start.
fn start(node: &mut Node, mut shard: Shard) {
    node.unwritten.clear();
    assert!(shard.finish_recovery(node.now).is_empty());
    shard.open_port(node.ports[0], Node::actor(node.ports[0]));
    node.shards[0] = shard;
    node.work();
    node.take_seen();
}

fn ready(node: &mut Node, queue: &str) -> Vec<String> {
    node.command(0, queue, QueueCommand::Counts { token: 3 });
    node.work();
    node.take_seen()
}

fn text(text: &str) -> Value {
    Value::text(text)
}

/// One shard, a log of its own for the catalog, and queues of all kinds in the other.
fn of_all_kinds() -> (Node, LogId) {
    let mut node = Node::with_logs(1, 2, broker::Limits::default());
    let stream = [("x-queue-type", text("stream")), ("x-stream-max-segment-size-bytes", Value::long(1))];
    let quorum = [("x-queue-type", text("quorum")), ("x-message-ttl", Value::long(1_000_000))];
    let grouped = [("x-group-key", text("group"))];
    let unique = [("x-message-deduplication", Value::Bool(true))];
    let log = node.declare(0, "plain", true);
    for (name, arguments) in
        [("stream", &stream[..]), ("quorum", &quorum), ("grouped", &grouped), ("unique", &unique)]
    {
        assert_eq!(node.declare_with(0, name, true, arguments), log);
    }
    assert_ne!(log, CATALOG_LOG);
    let mut publisher = node.publisher(0);
    for body in ["a", "b", "c"] {
        for queue in ["plain", "quorum", "stream", "grouped", "unique"] {
            node.publish(0, &mut publisher, queue, body, true);
        }
        node.work();
    }
    node.pass(1_000);
    node.work();
    node.take_seen();
    (node, log)
}

/// A node that has the records of a log, and nothing of the catalog.
#[test]
fn records_alone_make_the_same_state() {
    let (mut node, log) = of_all_kinds();
    node.command(0, "plain", QueueCommand::Purge { token: 8 });
    node.command(0, "unique", QueueCommand::Delete { token: 5, if_unused: false, if_empty: false });
    node.work();
    node.pass(1_000);
    node.work();
    let mut other = Node::fresh_with_logs(2);
    replay(&node, &mut other, |of, _| of == log);
    assert_eq!(snapshot(&other, log).to_vec(), snapshot(&node.shards[0], log).to_vec());
    // Its queues have no owner there: nobody sees them, and nothing is handed out.
    assert_eq!(other.catalog().queues().count(), 0);
}

/// The node went down when the declaration was on disk, and no record that opens the queue.
#[test]
fn a_queue_that_the_catalog_alone_knew_is_opened() {
    let mut node = Node::with_logs(1, 2, broker::Limits::default());
    let stream = [("x-queue-type", text("stream")), ("x-stream-first-chunk-messages", Value::long(7))];
    let log = node.declare_with(0, "s", true, &stream);
    assert_eq!(node.declare_with(0, "q", true, &[("x-max-priority", Value::long(3))]), log);
    assert!(node.written.iter().any(|(_, sealed, _)| sealed.log == log), "it was opened at first");
    for restarts in 0..2 {
        let mut shard = Node::fresh_with_logs(2);
        // The second start has the records that the first one appended.
        node.written.retain(|(_, sealed, _)| restarts > 0 || sealed.log == CATALOG_LOG);
        replay(&node, &mut shard, |_, _| true);
        start(&mut node, shard);
        let mut publisher = node.publisher(0);
        for queue in ["q", "s"] {
            node.publish(0, &mut publisher, queue, "a", true);
        }
        node.work();
        assert_eq!(node.take_seen(), ["0: 5 confirmed 1-2"]);
        let expected = restarts + 1;
        assert_eq!(ready(&mut node, "q"), [format!("0: declared q {expected} 0")]);
        assert_eq!(ready(&mut node, "s"), [format!("0: declared s {expected} 0")]);
    }
}

/// The node went down when the deletion was on disk, and no record that closes the queue.
#[test]
fn a_queue_that_the_log_alone_knew_is_closed() {
    for keeps_snapshot in [false, true] {
        let (mut node, log) = of_all_kinds();
        let kept: Vec<_> = [CATALOG_LOG, log]
            .into_iter()
            .filter(|_| keeps_snapshot)
            .map(|log| node.shards[0].snapshot(log, false).unwrap())
            .collect();
        let jobs = node.shards[0].logs_mut().take_stream_syncs(log);
        for job in jobs {
            node.shards[0].stream_done(node.now, job.carry_out(&node.disk));
        }
        let before = node.written.len();
        for queue in ["plain", "stream", "grouped"] {
            node.command(0, queue, QueueCommand::Delete { token: 5, if_unused: false, if_empty: false });
        }
        node.work();
        node.pass(1_000);
        let mut shard = Node::fresh_with_logs(2);
        for LogSnapshot { log, covered, bytes } in &kept {
            shard.restore(*log, *covered, &bytes.to_vec()).unwrap();
        }
        replay(&node, &mut shard, |of, at| at < before || of == CATALOG_LOG);
        node.written.retain({
            let mut at = 0;
            move |(_, sealed, _)| {
                at += 1;
                at <= before || sealed.log == CATALOG_LOG
            }
        });
        start(&mut node, shard);
        node.pass(1_000);
        node.work();
        let names: Vec<_> = node.shards[0].catalog().queues().map(|queue| queue.name.clone()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        // One of the same name is another one.
        node.declare(0, "plain", true);
        assert_eq!(ready(&mut node, "plain"), ["0: declared plain 0 0"]);
        assert_eq!(ready(&mut node, "quorum"), ["0: declared quorum 3 0"]);
        // And the log has no other.
        let mut other = Node::fresh_with_logs(2);
        for LogSnapshot { log, covered, bytes } in &kept {
            other.restore(*log, *covered, &bytes.to_vec()).unwrap();
        }
        node.pass(1_000);
        replay(&node, &mut other, |of, _| of == log);
        // is clean, then the number of queues: plain, quorum and unique.
        assert_eq!(snapshot(&other, log).to_vec()[4..12], 3u64.to_le_bytes());
    }
}

/// A consumer that comes before the record that opens its queue is committed has what is published behind it.
#[test]
fn a_queue_is_used_before_the_record_of_it_is_committed() {
    let mut node = Node::with_logs(1, 2, broker::Limits::default());
    let log = node.declare(0, "first", true);
    // The log is busy: what is appended now is committed with the next batch.
    let mut publisher = node.publisher(0);
    node.publish(0, &mut publisher, "first", "a", true);
    node.turn();
    let busy = node.unwritten.iter().position(|(_, sealed)| sealed.log == log).expect("it is being written");
    let busy = node.unwritten.remove(busy);
    assert_eq!(node.declare(0, "second", true), log);
    node.consume(0, "second", 4, 0);
    node.settle();
    assert_eq!(node.take_seen(), ["0: Consuming"]);
    node.publish(0, &mut publisher, "second", "b", true);
    node.settle();
    assert_eq!(node.take_seen(), [""; 0], "it is not committed");
    // Deleted again before anything of it was committed, and another one that stays.
    assert_eq!(node.declare(0, "third", true), log);
    node.command(0, "third", QueueCommand::Delete { token: 5, if_unused: false, if_empty: false });
    node.settle();
    assert_eq!(node.take_seen(), [""; 0], "a publish of the same connection may be on its way to it");
    node.unwritten.push(busy);
    node.settle();
    let expected =
        ["0: 5 confirmed 1-1", "0: 5 confirmed 2-2", "0: 4 gets b@0", "0: Deleted { messages: 0 }"];
    assert_eq!(node.take_seen(), expected);
    node.pass(1_000);
    assert_eq!(snapshot(&node.shards[0], log).to_vec()[4..12], 2u64.to_le_bytes());
}

/// One shard hears of a queue before the one that the queue lives on, and its clients use it.
#[test]
fn a_queue_is_used_before_its_own_shard_has_heard_of_it() {
    let mut node = Node::new(3);
    let port = node.ports[1];
    node.shards[1].request(node.now, port, 1, Node::declaration("q", true, &[]));
    let to_planner = node.turn_of(1).swap_remove(0);
    node.receive(0, to_planner);
    node.turn_of(0);
    node.write();
    let mut of_planner = node.turn_of(0);
    let (to_other, to_owner) = (of_planner.swap_remove(2), of_planner.swap_remove(1));
    node.receive(2, to_other);
    let mut publisher = node.publisher(2);
    node.publish(2, &mut publisher, "q", "a", true);
    node.consume(2, "q", 4, 0);
    let mut of_other = node.turn_of(2);
    node.receive(1, of_other.swap_remove(1));
    node.receive(0, of_other.swap_remove(0));
    node.turn_of(1);
    node.write();
    node.receive(1, to_owner);
    node.settle();
    let seen = node.take_seen();
    assert_eq!(seen, ["2: Consuming", "1: declared q 0 0", "2: 5 confirmed 1-1", "2: 4 gets a@0"]);
}

/// The copy of a dead message is safe when its queue is deleted, and its log does not know of that yet.
#[test]
fn a_queue_is_deleted_while_its_dead_are_published() {
    let mut node = Node::with_logs(1, 3, broker::Limits::default());
    let to = node.declare(0, "dead", true);
    let rules = [
        ("x-queue-type", text("quorum")),
        ("x-message-ttl", Value::long(10)),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dead")),
        ("x-dead-letter-strategy", text("at-least-once")),
        ("x-overflow", text("reject-publish")),
    ];
    assert_ne!(node.declare_with(0, "q", true, &rules), to);
    let mut publisher = node.publisher(0);
    node.publish(0, &mut publisher, "q", "a", true);
    node.settle();
    node.now = Now { mono_ns: node.now.after_ms(20), wall_ms: node.now.wall_ms + 20 };
    node.turn();
    assert!(node.unwritten.iter().any(|(_, sealed)| sealed.log == to), "the copy is being written");
    node.command(0, "q", QueueCommand::Delete { token: 5, if_unused: false, if_empty: false });
    node.turn();
    // The catalog's batch, and the copy, at once.
    node.write();
    node.settle();
    node.pass(1_000);
    assert_eq!(node.take_seen(), ["0: 5 confirmed 1-1", "0: Deleted { messages: 0 }"]);
    assert_eq!(ready(&mut node, "dead"), ["0: declared dead 1 0"]);
    assert_eq!(node.shards[0].catalog().queues().count(), 1);
}

#[test]
fn what_is_deleted_while_nobody_leads_its_log_is_closed_by_the_next_who_does() {
    for kind in ["classic", "stream"] {
        let (mut node, log, everything) = (Node::new(2), LogId(1), LogIndex(1 << 20));
        node.shards[1].logs_mut().set_commit_rule(log, CommitRule::Quorum);
        node.shards[1].lead(NOW, log);
        assert_eq!(node.declare_with(1, "it", true, &[("x-queue-type", Value::text(kind))]), log);
        let mut publisher = node.publisher(1);
        node.publish(1, &mut publisher, "it", "one", true);
        node.settle();
        node.shards[1].commit_outside(NOW, log, everything);
        node.settle();
        // Beside machines there are the origins of the log.
        let machines = |node: &Node| node.shards[1].logs().canonical(log, LogIndex(0)).len() - 1;
        assert_eq!((machines(&node), node.shards[1].listing().rows().count()), (1, 1), "{kind}");
        node.shards[1].resign(NOW, log);
        let id = node.shards[1].catalog().queues().next().unwrap().id;
        let port = node.ports[1];
        node.shards[1].request(NOW, port, 7, Op::DeleteQueue { id });
        node.settle();
        assert_eq!(node.shards[1].catalog().queues().count(), 0);
        assert_eq!(node.shards[1].listing().rows().count(), 0, "{kind}");
        node.shards[1].lead(NOW, log);
        for _ in 0..3 {
            node.pass(2_000);
            node.shards[1].commit_outside(node.now, log, everything);
            node.settle();
        }
        assert_eq!((machines(&node), node.shards[1].listing().rows().count()), (0, 0), "{kind}");
    }
}
