//! Barriers of queues: each goes to every consumer, settled in advance, between all before it and all behind it.

use crate::node;

use base::id::{LogId, QueueSeq};
use broker::{Credit, Held, Limits, NewConsumer, QueueCommand};
use message::record::{Outcome, SeqRange};
use node::Node;
use routing::Value;

/// The events that were seen, but for confirms and answers.
fn seen(node: &mut Node) -> Vec<String> {
    let mut seen = node.take_seen();
    seen.retain(|line| line.contains(" gets ") || line.contains(" takes ") || line.contains("Empty"));
    seen
}

fn barred(queue_type: &'static str) -> [(&'static str, Value); 2] {
    [("x-queue-type", Value::text(queue_type)), ("x-barrier-expression", Value::text("body.end = TRUE"))]
}

const END: &str = r#"{"end":true}"#;

fn publish(node: &mut Node, bodies: &[&str]) {
    let mut publisher = node.publisher(0);
    for body in bodies {
        node.publish(0, &mut publisher, "q", body, true);
    }
    node.settle();
}

fn pause(node: &mut Node, port: usize, handle: u32, paused: bool) {
    node.command(port, "q", QueueCommand::Pause { handle, paused });
    node.settle();
}

fn leave(node: &mut Node, handle: u32) {
    node.command(0, "q", QueueCommand::Cancel { token: None, handle, held: Held::Fails });
    node.settle();
}

/// Barriers there are, and consumers passed over.
fn row(node: &Node) -> Option<(u64, u64)> {
    let row = node.shards[0].listing().rows().find(|row| &*row.definition.name == "q");
    row.and_then(|row| row.barriers)
}

/// Consumers of different shards; what they say of it is nothing.
#[test]
fn reaches_each_consumer_in_its_place() {
    for queue_type in ["classic", "quorum"] {
        for (mut node, far) in [(Node::new(1), 0), (Node::new(2), 1)] {
            node.declare_with(0, "q", true, &barred(queue_type));
            for (port, handle) in [(0, 7), (far, 8), (0, 9)] {
                node.consume(port, "q", handle, 1);
                node.settle();
            }
            publish(&mut node, &["a", "b", END, "c", "d"]);
            assert_eq!(seen(&mut node), ["0: 7 gets a@0".to_owned(), format!("{far}: 8 gets b@1")]);
            assert_eq!(row(&node), Some((1, 0)));
            node.settled(far, "q", 8, (1, 1), Outcome::Accepted);
            node.settle();
            assert_eq!(seen(&mut node), [""; 0]);
            node.settled(0, "q", 7, (0, 0), Outcome::Accepted);
            node.settle();
            // They stand in turn as before, and it takes no room.
            let told = seen(&mut node);
            let of = |port: usize| {
                told.iter().filter(|line| line.starts_with(&format!("{port}:"))).collect::<Vec<_>>()
            };
            let barrier = |port: usize, handle| format!("{port}: {handle} gets barrier {END}@2");
            let all = [
                barrier(0, 7),
                barrier(far, 8),
                barrier(0, 9),
                "0: 9 gets c@3".to_owned(),
                format!("{far}: 8 gets d@4"),
            ];
            for port in [0, far] {
                let expected: Vec<_> =
                    all.iter().filter(|line| line.starts_with(&format!("{port}:"))).collect();
                assert_eq!(of(port), expected);
            }
            assert_eq!(row(&node), Some((0, 0)));
            node.settled(0, "q", 7, (2, 2), Outcome::Accepted);
            node.settled(far, "q", 8, (2, 2), Outcome::Rejected);
            let range = SeqRange { first: QueueSeq(2), last: QueueSeq(2) };
            node.command(0, "q", QueueCommand::SettleOver { handle: 9, range });
            node.settled(0, "q", 9, (3, 3), Outcome::Accepted);
            node.settled(far, "q", 8, (4, 4), Outcome::Accepted);
            node.settle();
            assert_eq!(seen(&mut node), [""; 0]);
            node.command(0, "q", QueueCommand::Counts { token: 8 });
            node.settle();
            assert_eq!(node.take_seen(), ["0: declared q 0 3"]);
        }
    }
}

#[test]
fn one_that_has_no_room_is_passed_over() {
    let mut node = Node::new(1);
    node.declare_with(0, "q", true, &barred("quorum"));
    node.consume(0, "q", 7, 9);
    node.consume(0, "q", 8, 9);
    pause(&mut node, 0, 8, true);
    publish(&mut node, &[END, "a"]);
    assert_eq!(seen(&mut node), [format!("0: 7 gets barrier {END}@0")]);
    node.pass(29_999);
    assert_eq!(seen(&mut node), [""; 0]);
    let wake = node.shards[0].deadline().expect("somebody is waited for");
    assert!(wake <= node.now.after_ms(1));
    node.pass(1);
    node.pass(1000);
    assert_eq!(seen(&mut node), ["0: 7 gets a@1"]);
    assert_eq!(row(&node), Some((0, 1)));
    pause(&mut node, 0, 8, false);
    assert_eq!(seen(&mut node), [""; 0]);
}

#[test]
fn a_get_takes_it_where_nobody_consumes() {
    let mut node = Node::new(1);
    node.declare_with(0, "q", true, &barred("classic"));
    publish(&mut node, &[END, "a"]);
    let get = |node: &mut Node| {
        node.command(
            0,
            "q",
            QueueCommand::Get { token: 4, handle: 5, settled: true, behind: false, by_node: false },
        );
        node.settle();
        seen(node)
    };
    node.consume(0, "q", 7, 9);
    pause(&mut node, 0, 7, true);
    assert_eq!(get(&mut node), ["0: Empty"]);
    leave(&mut node, 7);
    assert_eq!(get(&mut node), [format!("0: 5 takes {END}@0, 1 left")]);
    assert_eq!(get(&mut node), ["0: 5 takes a@1, 0 left"]);
}

/// Its bytes are read for all; its end is on record behind the last delivery.
#[test]
fn from_disk_it_reaches_those_that_stay() {
    for leaving in [&[][..], &[7], &[8], &[7, 8]] {
        let limits = || Limits { resident_bytes_max: 0, loaded_bytes_max: 0, ..Limits::default() };
        let mut node = Node::with_limits(1, limits());
        node.declare_with(0, "q", true, &barred("quorum"));
        publish(&mut node, &[END, "a"]);
        node.consume(0, "q", 7, 9);
        node.consume(0, "q", 8, 9);
        node.settle();
        assert_eq!(seen(&mut node), [""; 0], "it is read first");
        leaving.iter().for_each(|handle| leave(&mut node, *handle));
        (0..3).for_each(|_| node.read());
        let staying: Vec<u32> = [7, 8].into_iter().filter(|handle| !leaving.contains(handle)).collect();
        let barriers: Vec<_> =
            staying.iter().map(|handle| format!("0: {handle} gets barrier {END}@0")).collect();
        let told = seen(&mut node);
        assert_eq!(told[..barriers.len()], barriers, "{leaving:?}");
        if staying.is_empty() {
            assert_eq!(row(&node), Some((1, 0)), "nobody was sent it");
            node.consume(0, "q", 6, 9);
            node.settle();
            (0..3).for_each(|_| node.read());
            assert_eq!(
                seen(&mut node),
                [format!("0: 6 gets barrier {END}@0 again"), "0: 6 gets a@1".to_owned()]
            );
        } else {
            assert_eq!(told[barriers.len()..], [format!("0: {} gets a@1", staying[0])], "{leaving:?}");
        }
        assert_eq!(row(&node), Some((0, 0)), "{leaving:?}");
    }
}

/// Its end was on no record: it goes to all again.
#[test]
fn comes_up_again_as_a_barrier() {
    for queue_type in ["classic", "quorum"] {
        for is_begun in [false, true] {
            let mut node = Node::new(1);
            node.declare_with(0, "q", true, &barred(queue_type));
            publish(&mut node, &["a", END, "b"]);
            if is_begun {
                node.consume(0, "q", 7, 9);
                node.consume(0, "q", 8, 9);
                pause(&mut node, 0, 8, true);
                assert_eq!(seen(&mut node), ["0: 7 gets a@0"]);
                node.settled(0, "q", 7, (0, 0), Outcome::Accepted);
                node.settle();
                assert_eq!(seen(&mut node), [format!("0: 7 gets barrier {END}@1")]);
                node.pass(1000);
            }
            let mut shard = node.restarted();
            assert_eq!(shard.finish_recovery(node.now), [] as [LogId; 0]);
            node.shards[0] = shard;
            node.unwritten.clear();
            assert_eq!(row(&node), Some((1, 0)));
            node.settle();
            node.take_seen();
            node.consume(0, "q", 7, 9);
            node.consume(0, "q", 8, 9);
            node.settle();
            node.read();
            if !is_begun {
                assert_eq!(seen(&mut node), ["0: 7 gets a@0 again"]);
                node.settled(0, "q", 7, (0, 0), Outcome::Accepted);
                node.settle();
                node.read();
            }
            let told = seen(&mut node);
            let barriers = [7, 8].map(|handle| format!("0: {handle} gets barrier {END}@1 again"));
            assert_eq!(told[..2], barriers, "{told:?}");
            assert!(told[2..].iter().all(|line| line.contains("gets b@2")), "{told:?}");
        }
    }
}

/// Queues without the argument see nothing of it.
#[test]
fn is_a_message_as_any_other_elsewhere() {
    let mut node = Node::new(1);
    node.declare_with(0, "q", true, &barred("classic"));
    node.declare(0, "r", true);
    let credit = Credit::Prefetch(1);
    let consumer = NewConsumer {
        credit,
        settled: false,
        exclusive: false,
        priority: 0,
        browses: None,
        timeout_ms: None,
    };
    node.command(0, "r", QueueCommand::Consume { token: 2, handle: 3, consumer });
    let mut publisher = node.publisher(0);
    node.publish(0, &mut publisher, "r", END, true);
    node.settle();
    assert_eq!(seen(&mut node), [format!("0: 3 gets {END}@0")]);
}
