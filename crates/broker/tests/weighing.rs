//! A limit in bytes that comes to a queue with messages in it: what is there is weighed, wherever it lies.

use crate::node;

use broker::catalog::{Op, PolicyKind};
use broker::{Limits, QueueCommand, Shard};
use journal::Disk;
use node::Node;
use routing::Value;
use std::io::IoSlice;

/// Bytes of a body: a thousand.
fn body(number: u64) -> String {
    format!("{number:01000}")
}

/// Publishes messages `first..end` to `q`, each in a batch of its own.
fn fill(node: &mut Node, first: u64, end: u64) {
    let mut publisher = node.publisher(0);
    for number in first..end {
        node.publish(0, &mut publisher, "q", &body(number), true);
        node.settle();
    }
    node.take_seen();
}

fn request(node: &mut Node, op: Op) {
    node.shards[0].request(node.now, node.ports[0], 1, op);
    node.settle();
    let seen = node.take_seen();
    assert!(seen.iter().any(|line| line.contains("Done")), "{seen:?}");
}

/// At most so many bytes are to be in `q`; none: any number.
fn limit(node: &mut Node, bytes: Option<i64>, overflow: &str) {
    let (kind, vhost, name) = (PolicyKind::User, "/".into(), "p".into());
    let Some(bytes) = bytes else { return request(node, Op::ClearPolicy { kind, vhost, name }) };
    let definition = [("max-length-bytes", Value::long(bytes)), ("overflow", Value::text(overflow))];
    let definition = definition.into_iter().map(|(name, value)| (name.as_bytes(), value)).collect();
    let (pattern, apply_to) = ("^q$".into(), "queues".into());
    request(node, Op::SetPolicy { kind, vhost, name, pattern, apply_to, priority: 0, definition });
}

/// Messages that nobody holds.
fn ready(shard: &Shard) -> u64 {
    shard.listing().rows().map(|row| row.ready).sum()
}

/// The node's shard, ended and begun again: nothing is in memory.
fn restart(node: &mut Node) {
    let mut shard = node.restarted();
    assert!(shard.finish_recovery(node.now).is_empty());
    shard.open_port(node.ports[0], Node::actor(node.ports[0]));
    node.shards[0] = shard;
    node.turn();
    node.take_seen();
}

/// Answers reads until none is asked for: how many there were.
fn read_all(node: &mut Node) -> usize {
    let mut count = 0;
    loop {
        let mut reads = Vec::new();
        node.shards[0].take_reads(&mut reads);
        if reads.is_empty() {
            return count;
        }
        for mut read in reads {
            count += 1;
            let brought = read.carry_out(&node.disk).into_iter().map(|part| part.ok().flatten()).collect();
            node.shards[0].read_done(node.now, read, brought);
            node.settle();
        }
    }
}

fn node_with(count: u64) -> Node {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    fill(&mut node, 0, count);
    node
}

#[test]
fn what_is_in_memory_counts_at_once() {
    let mut node = node_with(9);
    limit(&mut node, Some(4500), "drop-head");
    assert_eq!((ready(&node.shards[0]), read_all(&mut node)), (4, 0));
    node.command(
        0,
        "q",
        QueueCommand::Get { token: 3, handle: 4, settled: true, behind: false, by_node: false },
    );
    node.settle();
    assert_eq!(node.take_seen(), [format!("0: 4 takes {}@5, 3 left", body(5))]);
    // The limit goes, and comes back.
    limit(&mut node, None, "");
    fill(&mut node, 9, 20);
    assert_eq!(ready(&node.shards[0]), 14);
    limit(&mut node, Some(2000), "drop-head");
    assert_eq!(ready(&node.shards[0]), 2);
}

#[test]
fn what_is_on_disk_is_read_and_counts_then() {
    let mut node = node_with(9);
    restart(&mut node);
    limit(&mut node, Some(4500), "drop-head");
    // Nobody knows yet, and nothing goes.
    assert_eq!(ready(&node.shards[0]), 9);
    assert_eq!((read_all(&mut node), ready(&node.shards[0])), (9, 4));
}

/// Messages that come meanwhile count at once, and those that go for them are the oldest, weighed or not.
#[test]
fn what_comes_meanwhile_drops_no_more_than_it_should() {
    let mut node = node_with(9);
    restart(&mut node);
    limit(&mut node, Some(4500), "drop-head");
    fill(&mut node, 9, 13);
    assert_eq!(ready(&node.shards[0]), 13);
    fill(&mut node, 13, 14);
    assert_eq!(ready(&node.shards[0]), 4);
    read_all(&mut node);
    assert_eq!(ready(&node.shards[0]), 4);
}

#[test]
fn a_restart_in_the_middle_goes_on_where_it_was() {
    for stop in 0..9 {
        let mut node = node_with(9);
        restart(&mut node);
        limit(&mut node, Some(4500), "drop-head");
        for _ in 0..stop {
            let mut reads = Vec::new();
            node.shards[0].take_reads(&mut reads);
            for mut read in reads {
                let brought =
                    read.carry_out(&node.disk).into_iter().map(|part| part.ok().flatten()).collect();
                node.shards[0].read_done(node.now, read, brought);
                node.settle();
            }
        }
        restart(&mut node);
        let read = read_all(&mut node);
        assert_eq!((read <= 9 - stop, ready(&node.shards[0])), (true, 4), "{stop}: {read}");
    }
}

#[test]
fn what_is_purged_deleted_or_unlimited_meanwhile_is_weighed_no_more() {
    let commands: [fn(&mut Node); 3] = [
        |node| node.command(0, "q", QueueCommand::Purge { token: 8 }),
        |node| {
            node.command(0, "q", QueueCommand::Delete { token: 8, if_unused: false, if_empty: false });
        },
        |node| limit(node, None, ""),
    ];
    for (at, command) in commands.into_iter().enumerate() {
        let mut node = node_with(9);
        restart(&mut node);
        limit(&mut node, Some(4500), "drop-head");
        command(&mut node);
        node.settle();
        // The one that was asked for already.
        assert!(read_all(&mut node) <= 1, "{at}");
        assert_eq!(ready(&node.shards[0]), if at == 2 { 9 } else { 0 });
        if at == 0 {
            fill(&mut node, 9, 18);
            assert_eq!(ready(&node.shards[0]), 4);
        }
        if at == 2 {
            limit(&mut node, Some(4500), "drop-head");
            read_all(&mut node);
            assert_eq!(ready(&node.shards[0]), 4);
        }
    }
}

#[test]
fn damaged_messages_weigh_nothing() {
    let mut node = node_with(9);
    restart(&mut node);
    let place = node.written[node.written.len() - 3].2;
    node.disk.write_at(place.name, place.offset + 100, &[IoSlice::new(b"rot")]).unwrap();
    limit(&mut node, Some(4500), "drop-head");
    read_all(&mut node);
    assert_eq!(ready(&node.shards[0]), 5);
}

/// A queue that refuses does so once it knows, and takes messages again when enough is gone.
#[test]
fn a_queue_that_refuses_counts_what_is_there() {
    let mut node = node_with(9);
    limit(&mut node, Some(4500), "reject-publish");
    assert_eq!(ready(&node.shards[0]), 9);
    let mut publisher = node.publisher(0);
    let mut outcome = |node: &mut Node| {
        node.publish(0, &mut publisher, "q", &body(9), true);
        node.settle();
        let seen = node.take_seen();
        seen.iter().any(|line| line.contains("confirmed"))
    };
    assert!(!outcome(&mut node));
    for _ in 0..6 {
        node.command(
            0,
            "q",
            QueueCommand::Get { token: 3, handle: 4, settled: true, behind: false, by_node: false },
        );
    }
    node.settle();
    assert!(outcome(&mut node));
}

/// A limit that goes and comes back before the log has said so is there.
#[test]
fn a_limit_that_goes_for_a_moment_is_back() {
    let mut node = node_with(9);
    limit(&mut node, Some(100_000), "drop-head");
    let (kind, vhost, name) = (PolicyKind::User, "/".into(), "p".into());
    let clear = Op::ClearPolicy { kind, vhost, name };
    node.shards[0].request(node.now, node.ports[0], 1, clear);
    limit(&mut node, Some(4500), "drop-head");
    assert_eq!(ready(&node.shards[0]), 4);
    fill(&mut node, 9, 20);
    assert_eq!(ready(&node.shards[0]), 4);
}

/// More than is weighed at once, in a few batches.
#[test]
fn a_long_queue_is_weighed_in_pieces() {
    let count = 3 * Limits::default().weighed_at_once_max as u64 / 2;
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    let mut publisher = node.publisher(0);
    for number in 0..count {
        node.publish(0, &mut publisher, "q", "12345678", true);
        if number % 1000 == 0 {
            node.settle();
        }
    }
    node.settle();
    limit(&mut node, Some(8 * 100), "drop-head");
    let sealed: usize = node.written.iter().map(|(_, sealed, _)| sealed.len).sum();
    assert_eq!(ready(&node.shards[0]), 100);
    node.pass(200);
    // Two bytes a message and not much more, and each was named once.
    let more = node.written.iter().map(|(_, sealed, _)| sealed.len).sum::<usize>() - sealed;
    assert!((2 * count as usize..3 * count as usize).contains(&more), "{more} bytes");
    restart(&mut node);
    limit(&mut node, Some(8 * 50), "drop-head");
    assert_eq!(ready(&node.shards[0]), 50);
}
