//! One and two shards: durability, delivery, recovery, and what connections are told.

use crate::node;

use base::Now;
use base::id::{LogId, LogIndex, PortId, ShardId};
use broker::catalog::{Op, VhostId};
use broker::{
    Credit, Events, Held, Limits, Mail, More, NewConsumer, Publish, Published, QueueCommand, Shard,
};
use journal::{Disk, FileId, FileKind, FileName, Place};
use message::record::{Format, Outcome};
use node::{NOW, Node};
use routing::{Arguments, NoHeaders, Value};
use std::io::IoSlice;

#[test]
fn a_durable_message_is_confirmed_and_delivered_when_it_is_written_and_not_before() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    node.consume(0, "q", 9, 10);
    let mut publisher = node.publisher(0);
    assert_eq!(node.publish(0, &mut publisher, "q", "one", true), Published::Waiting);
    assert_eq!(node.publish(0, &mut publisher, "q", "two", true), Published::Waiting);
    node.turn();
    assert_eq!(node.take_seen(), ["0: Consuming"]);
    node.write();
    node.turn();
    assert_eq!(node.take_seen(), ["0: 5 confirmed 1-2", "0: 9 gets one@0", "0: 9 gets two@1"]);
    assert_eq!(node.publish(0, &mut publisher, "nobody", "x", true), Published::Unroutable);
}

#[test]
fn a_transient_message_waits_for_nobody_but_those_before_it() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    node.consume(0, "q", 9, 0);
    node.settle();
    node.take_seen();
    let mut publisher = node.publisher(0);
    assert_eq!(node.publish(0, &mut publisher, "q", "light", false), Published::Done);
    node.turn();
    assert_eq!(node.take_seen(), ["0: 9 gets light@0"]);
    assert_eq!(node.publish(0, &mut publisher, "q", "heavy", true), Published::Waiting);
    node.turn();
    assert_eq!(node.publish(0, &mut publisher, "q", "light too", false), Published::Done);
    node.turn();
    assert_eq!(node.take_seen(), [""; 0]);
    node.settle();
    assert_eq!(node.take_seen(), ["0: 5 confirmed 2-2", "0: 9 gets heavy@1", "0: 9 gets light too@2"]);
}

#[test]
fn publisher_queue_and_consumer_may_be_on_three_shards() {
    let mut node = Node::new(3);
    node.declare(1, "q", true);
    node.consume(2, "q", 9, 2);
    node.settle();
    assert_eq!(node.take_seen(), ["2: Consuming"]);
    let mut publisher = node.publisher(0);
    for body in ["a", "b", "c"] {
        node.publish(0, &mut publisher, "q", body, true);
    }
    node.settle();
    let mut seen = node.take_seen();
    seen.sort();
    assert_eq!(seen, ["0: 5 confirmed 1-3", "2: 9 gets a@0", "2: 9 gets b@1"]);
    node.settled(2, "q", 9, (0, 0), Outcome::Accepted);
    node.settle();
    assert_eq!(node.take_seen(), ["2: 9 gets c@2"]);
    node.settled(2, "q", 9, (1, 1), Outcome::Released);
    node.settle();
    assert_eq!(node.take_seen(), ["2: 9 gets b@1 again"]);
    node.shards[2].close_port(NOW, node.ports[2]);
    node.settle();
    node.command(
        0,
        "q",
        QueueCommand::Get { token: 3, handle: 1, settled: true, behind: false, by_node: false },
    );
    node.settle();
    assert_eq!(node.take_seen(), ["0: 1 takes b@1 again, 1 left"]);
    node.command(1, "q", QueueCommand::Purge { token: 4 });
    node.settle();
    assert_eq!(node.take_seen(), ["1: Purged { messages: 1 }"]);
}

/// A message that is published and not yet in the queue counts for a get, a purge and a delete that come after it.
#[test]
fn a_get_a_purge_and_a_delete_wait_for_what_was_published_before_them() {
    let get = |handle| QueueCommand::Get { token: 1, handle, settled: true, behind: false, by_node: false };
    let delete = |if_empty| QueueCommand::Delete { token: 1, if_unused: false, if_empty };
    let purge = || QueueCommand::Purge { token: 1 };
    // Shards, whether the queue is durable, the command, what it answers.
    let rows = [
        (1, true, get(9), "0: 9 takes x@0, 0 left"),
        (1, false, get(9), "0: 9 takes x@0, 0 left"),
        (2, true, get(9), "0: 9 takes x@0, 0 left"),
        (2, false, get(9), "0: 9 takes x@0, 0 left"),
        (1, true, purge(), "0: Purged { messages: 1 }"),
        (2, false, purge(), "0: Purged { messages: 1 }"),
        (1, true, delete(false), "0: Deleted { messages: 1 }"),
        (2, true, delete(true), "0: PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"),
    ];
    for (shards, is_durable, command, expected) in rows {
        let mut node = Node::new(shards);
        node.declare(usize::from(shards) - 1, "q", is_durable);
        node.take_seen();
        let mut publisher = node.publisher(0);
        node.publish(0, &mut publisher, "q", "x", true);
        node.command(0, "q", command.clone());
        node.settle();
        let seen: Vec<String> =
            node.take_seen().into_iter().filter(|line| !line.contains("confirmed")).collect();
        assert_eq!(seen, [expected], "{command:?}, {shards} shards, durable: {is_durable}");
    }
}

/// A connection that declares a queue again is told of messages published before, and of those that another was told are safe.
#[test]
fn counts_wait_for_what_was_published_before_them() {
    for (shards, is_durable) in [(1, true), (1, false), (2, true), (2, false)] {
        let mut node = Node::new(shards);
        node.declare(usize::from(shards) - 1, "q", is_durable);
        node.take_seen();
        let mut publisher = node.publisher(0);
        node.publish(0, &mut publisher, "q", "x", true);
        node.command(0, "q", QueueCommand::Counts { token: 1 });
        node.settle();
        let seen = node.take_seen();
        let is_told = seen.iter().any(|line| line == "0: declared q 1 0");
        assert!(is_told, "{shards} shards, durable: {is_durable}: {seen:?}");
    }
}

#[test]
fn a_get_that_waits_goes_with_its_connection() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    let mut publisher = node.publisher(0);
    node.publish(0, &mut publisher, "q", "x", true);
    node.command(
        0,
        "q",
        QueueCommand::Get { token: 1, handle: 9, settled: true, behind: false, by_node: false },
    );
    node.shards[0].close_port(NOW, node.ports[0]);
    node.settle();
    let port = node.ports[0];
    node.shards[0].open_port(port, Node::actor(port));
    node.take_seen();
    node.command(0, "q", QueueCommand::Counts { token: 2 });
    node.settle();
    assert_eq!(node.take_seen(), ["0: declared q 1 0"]);
}

/// A get waits for what came before it, not for all that comes after: an empty queue is said to be empty although the
/// log is never at rest.
#[test]
fn a_get_from_an_empty_queue_of_a_busy_log_is_answered() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    node.declare(0, "busy", true);
    node.take_seen();
    let mut publisher = node.publisher(0);
    node.publish(0, &mut publisher, "busy", "x", true);
    node.turn();
    node.command(
        0,
        "q",
        QueueCommand::Get { token: 1, handle: 9, settled: true, behind: false, by_node: false },
    );
    assert_eq!(node.take_seen(), [""; 0]);
    node.publish(0, &mut publisher, "busy", "x", true);
    node.write();
    node.publish(0, &mut publisher, "busy", "x", true);
    node.turn();
    let seen: Vec<String> = node.take_seen().into_iter().filter(|line| !line.contains("confirmed")).collect();
    assert_eq!(seen, ["0: Empty"]);
}

#[test]
fn a_fan_out_is_confirmed_when_all_logs_have_it() {
    let mut node = Node::new(2);
    node.declare(0, "a", true);
    node.declare(1, "b", true);
    for queue in ["a", "b"] {
        let op = Op::BindQueue {
            queue: queue.into(),
            exchange: "amq.fanout".into(),
            key: "".into(),
            arguments: Default::default(),
        };
        node.shards[0].request(NOW, node.ports[0], 7, op);
        node.settle();
        assert_eq!(node.take_seen(), ["0: Done"]);
    }
    let mut publisher = node.publisher(0);
    let publish = Publish {
        exchange: b"amq.fanout",
        routing_key: b"",
        more: None,
        headers: &NoHeaders,
        format: Format::Amqp091,
        durable: true,
        priority: None,
        ttl_ms: None,
        head: &[],
        body: &[b"both"],
        confirm: true,
    };
    for _ in 0..3 {
        assert_eq!(node.shards[0].publish(NOW, &mut publisher, &publish).unwrap(), Published::Waiting);
    }
    node.settle();
    let mut safe = Vec::new();
    for _ in node.take_seen() {
        publisher.confirmed(1, 3, |first, last| safe.push((first, last)));
    }
    assert_eq!(safe, [(1, 1), (2, 2), (3, 3)], "each once, at the second confirm");
}

#[test]
fn what_is_asked_of_a_queue_that_is_gone_is_answered() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    let queue = node.shards[0].catalog().queue_by_name(VhostId(0), b"q").unwrap().clone();
    node.consume(0, "q", 9, 0);
    node.command(0, "q", QueueCommand::Delete { token: 3, if_unused: true, if_empty: false });
    node.settle();
    assert_eq!(node.take_seen(), ["0: Consuming", "0: PRECONDITION_FAILED - queue 'q' in vhost '/' in use"]);
    node.command(0, "q", QueueCommand::Delete { token: 4, if_unused: false, if_empty: false });
    node.settle();
    let mut seen = node.take_seen();
    seen.sort();
    assert_eq!(seen, ["0: Cancelled { consumer: 9 }", "0: Deleted { messages: 0 }"]);
    let purge = QueueCommand::Purge { token: 5 };
    node.shards[0].command(NOW, node.ports[0], queue.log, queue.id, purge);
    node.settle();
    assert_eq!(node.take_seen(), ["0: NOT_FOUND - the queue has just been deleted"]);
}

#[test]
fn a_restart_brings_back_what_was_written_and_marks_it() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    let mut publisher = node.publisher(0);
    for body in ["one", "two", "three"] {
        node.publish(0, &mut publisher, "q", body, true);
    }
    node.publish(0, &mut publisher, "q", "light", false);
    node.settle();
    let mut shard = node.restarted();
    assert_eq!(shard.finish_recovery(NOW), []);
    let mut again = Node::new(1);
    shard.open_port(again.ports[0], Node::actor(again.ports[0]));
    again.shards[0] = shard;
    again.unwritten.clear();
    again.take_seen();
    again.command(0, "q", QueueCommand::Counts { token: 1 });
    again.settle();
    assert_eq!(again.take_seen(), ["0: declared q 3 0"], "the transient one is gone");
}

#[test]
fn a_log_whose_live_records_are_nowhere_is_stopped_and_stays_as_it_is() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    let mut publisher = node.publisher(0);
    for (body, is_durable) in [("one", true), ("light", false), ("two", true)] {
        node.publish(0, &mut publisher, "q", body, is_durable);
        node.settle();
    }
    // All batches but the first with a message are found.
    let lost =
        node.written.iter().position(|(_, sealed, _)| sealed.records().windows(3).any(|part| part == b"one"));
    node.written.remove(lost.unwrap());
    let mut shard = node.restarted();
    assert_eq!(shard.finish_recovery(NOW), [LogId(0)]);
    assert_eq!((shard.logs().stopped(), shard.snapshot(LogId(0), true)), (&[LogId(0)][..], None));
    let mut sealed = Vec::new();
    shard.end_turn(Now { mono_ns: NOW.mono_ns + 3_600_000_000_000, ..NOW }, &mut sealed);
    assert!(sealed.is_empty(), "nothing is written to it");
}

#[test]
fn a_log_with_records_missing_is_stopped_and_the_others_go_on() {
    let mut node = Node::new(2);
    let log = node.declare(1, "hurt", true);
    node.declare(0, "well", true);
    let mut batch = journal::Batch::new(log, LogIndex(800), Default::default());
    message::record::write_catalog(b"x", batch.records());
    let sealed = batch.seal(1);
    let place = Place {
        file: FileId(1),
        name: FileName::new(FileKind::Journal, 1),
        offset: 4096,
        len: sealed.len as u64,
        crc: sealed.crc,
    };
    let gap = node.shards[1].replay(log, sealed.base, sealed.records(), place);
    assert_eq!(gap, Err(broker::RecoveryError::Gap(log)));
    node.shards.iter_mut().for_each(|shard| shard.stop_log(log));
    node.consume(0, "hurt", 9, 0);
    node.settle();
    let refusal = "INTERNAL_ERROR - the queue is on log 1, which is damaged on disk; see the node's log";
    assert_eq!(node.take_seen(), [format!("0: {refusal}")]);
    let mut publisher = node.publisher(0);
    let publish = |key: &'static [u8]| Publish {
        exchange: b"",
        routing_key: key,
        more: None,
        headers: &NoHeaders,
        format: Format::Amqp091,
        durable: true,
        priority: None,
        ttl_ms: None,
        head: &[],
        body: &[b"x"],
        confirm: true,
    };
    let refused = node.shards[0].publish(NOW, &mut publisher, &publish(b"hurt"));
    assert_eq!(refused.unwrap_err().to_string(), refusal);
    assert_eq!(node.shards[0].publish(NOW, &mut publisher, &publish(b"well")), Ok(Published::Waiting));
    assert!(
        node.shards[1].snapshot(log, false).is_none()
            && node.shards[1].logs().begin_move(log, LogIndex(9)).is_none()
    );
}

#[test]
fn no_new_queue_is_placed_on_a_log_that_is_stopped() {
    let mut node = Node::with_logs(1, 3, Limits::default());
    let placed = |node: &mut Node, names: &[&str]| {
        names.iter().map(|name| node.declare(0, name, true).0).collect::<Vec<_>>()
    };
    assert_eq!(placed(&mut node, &["a", "b"]), [1, 2]);
    node.shards[0].stop_log(LogId(1));
    assert_eq!(placed(&mut node, &["c", "d"]), [2, 2]);
    node.shards[0].stop_log(LogId(2));
    assert_eq!(placed(&mut node, &["e"]), [0], "that of the catalog is left");
}

/// A publisher to it before it was known, and one afterwards, from any shard, hears no confirm.
#[test]
fn a_log_that_is_found_damaged_while_the_node_runs_is_stopped_for_all_shards() {
    let refusal = "INTERNAL_ERROR - the queue is on log 1, which is damaged on disk; see the node's log";
    let check = |arguments: &[(&str, Value)]| {
        let mut node = Node::new(3);
        let log = node.declare_with(1, "hurt", true, arguments);
        assert_eq!(log, LogId(1));
        let well = node.declare(0, "well", true);
        let mut publisher = node.publisher(0);
        node.publish(0, &mut publisher, "hurt", "rots", true);
        node.settle();
        let (_, _, place) = *node.written.last().unwrap();
        node.take_seen();
        // One is on its way to the log when the damage is found, and one to another log.
        node.publish(0, &mut publisher, "hurt", "on its way", true);
        node.disk.write_at(place.name, place.offset + place.len / 2, &[IoSlice::new(b"rot")]).unwrap();
        let job = node.shards[1].logs().begin_move(log, LogIndex(u64::MAX)).unwrap();
        let moved = job.carry_out(&node.disk, u64::MAX, || 77).unwrap();
        assert_eq!(moved.damaged.len(), 1);
        node.shards[1].finish_move(&moved);
        let mut other = node.publisher(2);
        node.publish(2, &mut other, "well", "as ever", true);
        node.settle();
        let seen = node.take_seen();
        let (closed, others): (Vec<String>, Vec<String>) =
            seen.into_iter().partition(|text| text.starts_with("0: Close") && text.contains("is on log 1"));
        assert_eq!((closed.len(), &others[..]), (1, &["2: 5 confirmed 1-1".to_owned()][..]), "{arguments:?}");
        for shard in &node.shards {
            assert_eq!(shard.logs().stopped(), [log]);
        }
        for port in [0, 1, 2] {
            let mut publisher = node.publisher(port);
            assert_eq!(node.try_publish(port, &mut publisher, "hurt").unwrap_err().to_string(), refusal);
            assert_eq!(node.try_publish(port, &mut publisher, "well"), Ok(Published::Waiting));
        }
        assert_ne!(well, log);
    };
    check(&[]);
    // One that is asked for each message.
    check(&[("x-max-length", Value::long(9)), ("x-overflow", Value::text("reject-publish"))]);
}

/// Also what the log has already and has not committed: given out to be written, and in the batch that is open.
#[test]
fn nothing_is_confirmed_of_a_log_that_is_known_to_be_damaged() {
    for is_given_out in [false, true] {
        let mut node = Node::new(2);
        let log = node.declare(1, "hurt", true);
        let mut first = node.publisher(0);
        let mut second = node.publisher(1);
        node.publish(1, &mut second, "hurt", "rots", true);
        node.settle();
        let (_, _, place) = *node.written.last().unwrap();
        node.take_seen();
        if is_given_out {
            node.publish(0, &mut first, "hurt", "is written", true);
            node.publish(1, &mut second, "hurt", "is written", true);
            node.turn();
            assert_eq!(node.unwritten.len(), 1);
        }
        node.publish(1, &mut second, "hurt", "waits for the disk", true);
        node.publish(0, &mut first, "hurt", "is on its way", true);
        node.disk.write_at(place.name, place.offset + place.len / 2, &[IoSlice::new(b"rot")]).unwrap();
        let job = node.shards[1].logs().begin_move(log, LogIndex(u64::MAX)).unwrap();
        let moved = job.carry_out(&node.disk, u64::MAX, || 77).unwrap();
        node.shards[1].finish_move(&moved);
        node.settle();
        let seen = node.take_seen();
        assert!(seen.iter().all(|line| !line.contains("confirmed")), "{is_given_out}: {seen:?}");
        for port in ["0: Close", "1: Close"] {
            assert!(seen.iter().any(|line| line.starts_with(port)), "{is_given_out}: {seen:?}");
        }
        // The node's log tells of dropped publishes, whether or not anybody waits for them.
        let told =
            "log 1: publishes that were on their way to it when it was stopped are dropped, 1 of them. ";
        let damages = node.damages(1);
        assert!(damages.len() == 1 && damages[0].starts_with(told), "{damages:?}");
        assert_eq!(node.damages(1), [""; 0]);
        // No batch is left behind.
        assert!(node.unwritten.is_empty() && !node.shards[1].is_congested());
    }
}

#[test]
fn a_turn_with_more_than_a_batch_holds_is_written_in_several() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    node.consume(0, "q", 9, 0);
    node.settle();
    node.take_seen();
    let mut publisher = node.publisher(0);
    let large = "x".repeat(1 << 20);
    for _ in 0..10 {
        node.publish(0, &mut publisher, "q", &large, true);
    }
    node.turn();
    assert!(node.unwritten.len() > 2 && node.unwritten.iter().all(|(_, sealed)| sealed.len <= 5 << 20));
    node.settle();
    let seen = node.take_seen();
    assert_eq!(seen.iter().filter(|line| line.contains("gets")).count(), 10);
    assert!(
        seen.contains(&"0: 5 confirmed 1-4".to_owned()),
        "{:?}",
        seen.iter().map(|s| &s[..20]).collect::<Vec<_>>()
    );
}

#[test]
fn a_return_is_counted_once_however_it_is_written() {
    let mut node = Node::new(1);
    node.declare_with(0, "q", true, &[("x-queue-type", routing::Value::text("quorum"))]);
    let mut publisher = node.publisher(0);
    node.publish(0, &mut publisher, "q", "one", true);
    node.consume(0, "q", 9, 1);
    node.settle();
    node.take_seen();
    // Applied in place, as nobody waits for it, and sealed later together with a message.
    node.settled(0, "q", 9, (0, 0), Outcome::Failed);
    node.turn();
    node.publish(0, &mut publisher, "q", "two", true);
    node.settle();
    node.take_seen();
    node.settled(0, "q", 9, (0, 0), Outcome::Failed);
    let mut sealed = Vec::new();
    node.shards[0].end_turn(NOW, &mut sealed);
    let mut events = Events::default();
    node.shards[0].take_events(&mut events);
    let counts: Vec<u32> = events.items.iter().map(|item| item.delivery_count()).collect();
    assert_eq!(counts, [2]);
}

#[test]
fn what_the_shard_does_not_know_the_place_of_is_not_moved() {
    let mut node = Node::new(1);
    let log = node.declare(0, "q", true);
    let mut publisher = node.publisher(0);
    // Applied at once, written later: the journal may have it, and say so, before the shard hears of it.
    node.publish(0, &mut publisher, "q", "transient", false);
    node.turn();
    let end = LogIndex(u64::MAX);
    let unwritten = node.unwritten.iter().map(|(_, sealed)| sealed.base).max().unwrap();
    let job = node.shards[0].logs().begin_move(log, end).unwrap();
    assert!(job.bound <= unwritten && job.is_empty(), "{job:?}");
    node.write();
    // Waited for: not applied before it is written.
    node.publish(0, &mut publisher, "q", "durable", true);
    node.turn();
    let unwritten = node.unwritten.iter().map(|(_, sealed)| sealed.base).max().unwrap();
    let job = node.shards[0].logs().begin_move(log, end).unwrap();
    assert!(job.bound <= unwritten && !job.is_empty(), "{job:?}");
}

const HELD: [Held; 3] = [Held::Kept, Held::Fails, Held::GoesBack];

#[test]
fn what_waits_for_bytes_goes_back_when_its_consumer_cancels() {
    for kind in [&b"classic"[..], b"quorum"] {
        for (settled, held) in [true, false].into_iter().flat_map(|settled| HELD.map(|held| (settled, held)))
        {
            let mut node = Node::new(1);
            node.declare_with(0, "q", true, &[("x-queue-type", Value::Text(kind.into()))]);
            let mut publisher = node.publisher(0);
            // Far more than stays in memory.
            let body = "x".repeat(1 << 20);
            for _ in 0..20 {
                node.publish(0, &mut publisher, "q", &body, true);
                node.settle();
            }
            let consumer = NewConsumer {
                credit: Credit::Prefetch(0),
                settled,
                exclusive: false,
                priority: 0,
                browses: None,
                timeout_ms: None,
            };
            node.take_seen();
            node.command(0, "q", QueueCommand::Consume { token: 1, handle: 1, consumer });
            node.turn();
            node.command(0, "q", QueueCommand::Cancel { token: Some(2), handle: 1, held });
            node.settle();
            let to = |seen: &[String], handle: u32| {
                let start = format!("{handle} gets");
                seen.iter().filter(|line| line.contains(&start)).count()
            };
            let first = to(&node.take_seen(), 1);
            node.consume(0, "q", 2, 0);
            (0..20).for_each(|_| node.read());
            let rest = to(&node.take_seen(), 2);
            assert!(first < 20, "some have to be read back");
            // A message that was sent and is not settled comes back too, but where its consumer may still settle it.
            let comes_back = if settled || held == Held::Kept { 0 } else { first };
            assert_eq!(first + rest, 20 + comes_back, "{settled} {held:?}");
        }
    }
}

#[test]
fn a_get_that_waits_for_bytes_is_answered_when_its_queue_goes() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    let mut publisher = node.publisher(0);
    // Far more than stays in memory.
    let body = "x".repeat(1 << 20);
    for _ in 0..20 {
        node.publish(0, &mut publisher, "q", &body, true);
        node.settle();
    }
    for handle in 0..20 {
        node.command(
            0,
            "q",
            QueueCommand::Get { token: 100 + handle, handle, settled: false, behind: false, by_node: false },
        );
        node.turn();
    }
    let answered = node.take_seen().iter().filter(|line| line.contains("takes")).count();
    assert!(answered < 20, "some have to be read back");
    node.command(0, "q", QueueCommand::Delete { token: 9, if_unused: false, if_empty: false });
    node.settle();
    let seen = node.take_seen();
    let told = seen.iter().filter(|line| line.contains("the queue has just been deleted")).count();
    assert_eq!((answered > 0, told), (true, 20 - answered), "{seen:?}");
}

/// A request to declare a queue.
fn declaration(name: &str, durable: bool) -> Op {
    Op::DeclareQueue {
        name: name.into(),
        passive: false,
        durable,
        exclusive: false,
        auto_delete: false,
        arguments: Default::default(),
        random: [0; 16],
    }
}

/// Names of the queues that a shard's catalog has.
fn queues_of(shard: &Shard) -> Vec<&str> {
    let mut names: Vec<_> = shard.catalog().queues().map(|queue| &*queue.name).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_change_takes_effect_once_it_is_committed() {
    let mut node = Node::with_logs(2, 4, Limits::default());
    node.declare(0, "one", true);
    let snapshot = |node: &Node, log: usize| {
        let snapshot = node.shards[log % 2].snapshot(LogId(log as u32), false).expect("at any time");
        (snapshot.covered, snapshot.bytes.to_vec())
    };
    let before = [0, 1, 2, 3].map(|log| snapshot(&node, log));
    // The second rests on the first, which nobody but the planner knows of yet; the third is not logged, and comes behind.
    let ops = [declaration("two", true), declaration("two", true)];
    for (token, op) in (2..).zip(ops.into_iter().chain([declaration("three", false)])) {
        node.shards[0].request(NOW, node.ports[0], token, op);
    }
    for _ in 0..2 {
        assert_eq!([0, 1].map(|at| queues_of(&node.shards[at])), [["one"], ["one"]]);
        assert_eq!([0, 1, 2, 3].map(|log| snapshot(&node, log)), before, "it knows what the disk knows");
        node.turn();
    }
    assert_eq!(node.take_seen(), Vec::<String>::new());
    let [(covered, catalog), ..] = before;
    node.settle();
    assert_eq!(node.take_seen(), ["0: declared two 0 0", "0: declared two 0 0", "0: declared three 0 0"]);
    for shard in &node.shards {
        assert_eq!(queues_of(shard), ["one", "three", "two"]);
    }
    let mut shard = Node::fresh();
    shard.restore(LogId(0), covered, &catalog).unwrap();
    for (_, sealed, place) in node.written.iter().filter(|(_, sealed, _)| sealed.log == LogId(0)) {
        shard.replay(LogId(0), sealed.base, sealed.records(), *place).unwrap();
    }
    assert_eq!(queues_of(&shard), ["one", "two"]);
}

/// Its owner, another shard than the planner's, hears of the queue when the declaration is committed.
#[test]
fn a_queue_that_is_declared_twice_at_once_is_there_for_both() {
    let mut node = Node::new(2);
    for token in [2, 3] {
        node.shards[1].request(NOW, node.ports[1], token, declaration("q", true));
    }
    node.settle();
    assert_eq!(node.take_seen(), ["1: declared q 0 0", "1: declared q 0 0"]);
}

#[test]
fn a_wave_has_a_thousand_changes_at_most() {
    let mut node = Node::new(2);
    for number in 0..2500 {
        let op = declaration(&format!("q{number}"), false);
        node.shards[0].request(NOW, node.ports[0], 1, op);
    }
    // Numbers of queues are reserved on disk.
    let (mut sealed, mut mail) = (Vec::new(), Vec::new());
    node.shards[0].end_turn(NOW, &mut sealed);
    node.unwritten.extend(sealed.into_iter().map(|sealed| (0, sealed)));
    node.write();
    node.shards[0].take_mail(ShardId(1), &mut mail);
    let sizes: Vec<_> = mail
        .iter()
        .filter_map(|mail| if let Mail::Changes { changes, .. } = mail { Some(changes.len()) } else { None })
        .collect();
    assert_eq!((sizes.iter().sum::<usize>() >= 2500, sizes.iter().max()), (true, Some(&1000)), "{sizes:?}");
    assert_eq!(queues_of(&node.shards[1]).len(), 0);
    for mail in mail {
        node.shards[1].receive(NOW, mail);
    }
    assert_eq!(queues_of(&node.shards[1]).len(), 2500);
}

#[test]
fn a_deleted_queue_lets_its_segments_go() {
    let mut node = Node::new(1);
    let log = node.declare(0, "q", true);
    let mut publisher = node.publisher(0);
    for _ in 0..3 {
        node.publish(0, &mut publisher, "q", "moved", true);
    }
    node.settle();
    let job = node.shards[0].logs().begin_move(log, LogIndex(u64::MAX)).unwrap();
    let moved = job.carry_out(&node.disk, u64::MAX, || 77).unwrap();
    node.shards[0].finish_move(&moved);
    assert_eq!(node.shards[0].logs().segments_in_use().collect::<Vec<_>>(), [77]);
    assert_eq!(node.shards[0].logs_mut().take_dead_segments(), []);
    node.command(0, "q", QueueCommand::Delete { token: 9, if_unused: false, if_empty: false });
    node.settle();
    assert_eq!(node.shards[0].logs_mut().take_dead_segments(), [77]);
    assert_eq!(node.shards[0].logs().segments_in_use().count(), 0);
}

#[test]
fn what_is_not_moved_for_want_of_space_leaves_nothing_behind() {
    let mut node = Node::new(1);
    let log = node.declare(0, "q", true);
    let mut publisher = node.publisher(0);
    for _ in 0..3 {
        node.publish(0, &mut publisher, "q", "moved", true);
    }
    node.settle();
    let job = node.shards[0].logs().begin_move(log, LogIndex(u64::MAX)).unwrap();
    let check = |room: u64, fits: bool| {
        assert_eq!(job.carry_out(&node.disk, room, || 77).is_ok(), fits, "{room} bytes");
        let left = node.disk.list(FileKind::Segment).unwrap().len();
        assert_eq!(left, usize::from(fits), "{room} bytes");
    };
    check(0, false);
    check(16, false);
    check(4096, true);
}

#[test]
fn a_message_with_several_keys_goes_to_each_queue_once() {
    let mut node = Node::new(1);
    for name in ["a", "b", "c"] {
        node.declare(0, name, true);
    }
    (1..).zip(["a", "b", "c"]).for_each(|(handle, name)| node.consume(0, name, handle, 0));
    let reply = node.shards[0].open_reply(node.ports[0], 9, Credit::Prefetch(0)).name();
    node.settle();
    node.take_seen();
    let mut publisher = node.publisher(0);
    for keys in [&[b"b".as_slice(), b"a", b"b", b"none", reply.as_bytes()][..], &[]] {
        let more = More { keys: keys.to_vec(), ..More::default() };
        let publish = Publish {
            exchange: b"",
            routing_key: b"a",
            more: Some(&more),
            headers: &NoHeaders,
            format: Format::Amqp091,
            durable: true,
            priority: None,
            ttl_ms: None,
            head: &[b"\0\0"],
            body: &[b"x"],
            confirm: true,
        };
        node.shards[0].publish(NOW, &mut publisher, &publish).unwrap();
    }
    node.settle();
    assert_eq!(
        node.take_seen(),
        ["0: 9 gets x@0", "0: 5 confirmed 1-2", "0: 1 gets x@0", "0: 1 gets x@1", "0: 2 gets x@0"]
    );
}

#[test]
fn what_the_node_asks_for_itself_is_no_connection() {
    let mut node = Node::with_limits(1, Limits { connections_max: Some(2), ..Limits::default() });
    for generation in 1..9 {
        let port = PortId::here(ShardId(0), u32::MAX, generation);
        node.shards[0].open_port(port, Node::actor(port));
    }
    let ask = |node: &mut Node, slot: u32| {
        let port = PortId::here(ShardId(0), slot, 1);
        node.shards[0].ask_port(port, Node::actor(port), 7);
        node.settle();
        node.take_seen()
    };
    node.take_seen();
    // One is there already.
    assert_eq!(ask(&mut node, 1), ["0: Done"]);
    let refused = ask(&mut node, 2);
    assert!(refused[0].contains("node connection limit (2) is reached"), "{refused:?}");
    let port = PortId::here(ShardId(0), u32::MAX, 1);
    node.shards[0].close_port(NOW, port);
    let refused = ask(&mut node, 3);
    assert!(refused[0].contains("(2) is reached"), "nobody has gone: {refused:?}");
}

/// A queue like this, and nobody's but for a durable one the connection's alone.
fn queue_like(name: &str, durable: bool) -> Op {
    Op::DeclareQueue {
        name: name.into(),
        passive: false,
        durable,
        exclusive: !durable,
        auto_delete: false,
        arguments: Arguments::default(),
        random: [0; 16],
    }
}

#[test]
fn without_room_nothing_that_is_kept_is_newly_made_and_all_else_goes_on() {
    let mut node = Node::new(2);
    let ask = |node: &mut Node, op: Op| {
        let to = node.ports[1];
        node.shards[1].request(NOW, to, 1, op);
        node.settle();
        node.take_seen().concat()
    };
    let exchange = |name: &str, durable: bool| Op::DeclareExchange {
        name: name.into(),
        kind: "fanout".into(),
        passive: false,
        durable,
        auto_delete: false,
        internal: false,
        arguments: Arguments::default(),
    };
    let bind = |queue: &str, exchange: &str| Op::BindQueue {
        queue: queue.into(),
        exchange: exchange.into(),
        key: "k".into(),
        arguments: Arguments::default(),
    };
    let super_stream = Op::MakeSuperStream {
        name: "s".into(),
        partitions: vec![("s-0".into(), "0".into())],
        arguments: Arguments::default(),
    };
    let vhost = Op::AddVhost { name: "v".into(), defaults: Default::default() };
    node.declare(0, "there", true);
    assert_eq!(ask(&mut node, exchange("e", true)), "1: Done");
    assert_eq!(ask(&mut node, bind("there", "e")), "1: Done");
    node.shards.iter_mut().for_each(|shard| shard.set_short(true));
    for op in [
        queue_like("new", true),
        exchange("new", true),
        bind("there", "amq.fanout"),
        super_stream.clone(),
        vhost.clone(),
    ] {
        let refused = ask(&mut node, op.clone());
        let text = "PRECONDITION_FAILED - no disk space is left for what is newly declared";
        assert!(refused.contains(text), "{op:?}: {refused}");
    }
    assert_eq!(ask(&mut node, queue_like("there", true)), "1: declared there 0 0");
    assert_eq!(ask(&mut node, exchange("e", true)), "1: Unchanged");
    assert_eq!(ask(&mut node, bind("there", "e")), "1: Unchanged");
    // An object that is not kept needs no room.
    assert_eq!(ask(&mut node, queue_like("own", false)), "1: declared own 0 0");
    assert_eq!(ask(&mut node, bind("own", "e")), "1: Done");
    assert_eq!(ask(&mut node, exchange("passing", false)), "1: Done");
    assert_eq!(ask(&mut node, Op::DeleteExchange { name: "e".into(), if_unused: false }), "1: Done");
    node.shards.iter_mut().for_each(|shard| shard.set_short(false));
    assert_eq!(ask(&mut node, queue_like("new", true)), "1: declared new 0 0");
    assert_eq!(ask(&mut node, super_stream), "1: Done");
    assert_eq!(ask(&mut node, vhost), "1: Done");
}
