//! Features that only some queues have: times to live, limits, dead letters, queues that end unused.

use crate::node;

use base::id::LogId;
use broker::catalog::{Op, PolicyKind, VhostId};
use broker::{Publish, Published, Publisher, QueueCommand};
use message::record::{Format, Outcome};
use node::Node;
use routing::{NoHeaders, Value};

/// Arguments of a queue that sends its dead to the queue `dead`.
fn dying(more: &[(&'static str, Value)]) -> Vec<(&'static str, Value)> {
    let mut arguments =
        vec![("x-dead-letter-exchange", Value::text("")), ("x-dead-letter-routing-key", Value::text("dead"))];
    arguments.extend_from_slice(more);
    arguments
}

fn quorum(more: &[(&'static str, Value)]) -> Vec<(&'static str, Value)> {
    let mut arguments = dying(more);
    arguments.push(("x-queue-type", Value::text("quorum")));
    arguments
}

/// The events that were seen, confirms apart.
fn seen(node: &mut Node) -> Vec<String> {
    node.take_seen().into_iter().filter(|line| !line.contains("confirmed")).collect()
}

fn counts(node: &mut Node, port: usize, queue: &str) -> String {
    node.command(port, queue, QueueCommand::Counts { token: 8 });
    node.settle();
    seen(node).join(", ")
}

fn publish_for(node: &mut Node, publisher: &mut Publisher, key: &str, body: &str, ttl_ms: Option<u64>) {
    let publish = Publish {
        exchange: b"",
        routing_key: key.as_bytes(),
        more: None,
        headers: &NoHeaders,
        format: Format::Amqp091,
        durable: true,
        priority: None,
        ttl_ms,
        head: &[b"\0\0"],
        body: &[body.as_bytes()],
        confirm: true,
    };
    node.shards[0].publish(node.now, publisher, &publish).unwrap();
}

/// One shard, or the dead on another than the living.
fn nodes() -> [(Node, usize); 2] {
    [(Node::new(1), 0), (Node::new(2), 1)]
}

#[test]
fn what_is_rejected_is_dead_lettered_and_leaves_when_that_is_safe() {
    for (mut node, far) in nodes() {
        node.declare(far, "dead", true);
        node.declare_with(0, "q", true, &dying(&[]));
        let mut publisher = node.publisher(0);
        node.consume(0, "q", 9, 10);
        for body in ["a", "b", "c"] {
            node.publish(0, &mut publisher, "q", body, true);
        }
        node.settle();
        seen(&mut node);
        node.consume(far, "dead", 7, 0);
        node.settle();
        seen(&mut node);
        node.settled(0, "q", 9, (0, 1), Outcome::Rejected);
        node.turn();
        // Not on disk: nobody gets it.
        assert_eq!(seen(&mut node), [""; 0]);
        node.settle();
        assert_eq!(seen(&mut node), [format!("{far}: 7 gets a@0 again"), format!("{far}: 7 gets b@1 again")]);
        node.settled(0, "q", 9, (2, 2), Outcome::Accepted);
        node.settle();
        assert_eq!(seen(&mut node), [""; 0]);
        let rows: Vec<_> =
            node.shards[0].listing().rows().filter(|row| &*row.definition.name == "q").collect();
        assert_eq!((rows[0].ready, rows[0].unsettled), (0, 0));
    }
}

#[test]
fn the_time_of_a_message_is_over_by_the_queue_or_by_itself() {
    for arguments in
        [dying(&[("x-message-ttl", Value::long(1000))]), quorum(&[("x-message-ttl", Value::long(1000))])]
    {
        for (mut node, far) in nodes() {
            node.declare(far, "dead", true);
            node.declare_with(0, "q", true, &arguments);
            let mut publisher = node.publisher(0);
            publish_for(&mut node, &mut publisher, "q", "long", None);
            publish_for(&mut node, &mut publisher, "q", "short", Some(100));
            publish_for(&mut node, &mut publisher, "q", "longer than the queue's", Some(5000));
            node.settle();
            node.consume(far, "dead", 7, 0);
            node.settle();
            seen(&mut node);
            node.pass(99);
            assert_eq!(seen(&mut node), [""; 0]);
            node.pass(1);
            assert_eq!(seen(&mut node), [format!("{far}: 7 gets short@0")]);
            node.pass(900);
            assert_eq!(
                seen(&mut node),
                [format!("{far}: 7 gets long@1"), format!("{far}: 7 gets longer than the queue's@2")]
            );
            assert_eq!(counts(&mut node, 0, "q"), "0: declared q 0 0");
        }
    }
}

#[test]
fn a_shard_comes_back_when_something_is_due() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    let mut publisher = node.publisher(0);
    publish_for(&mut node, &mut publisher, "q", "short", Some(700));
    node.settle();
    assert_eq!(node.shards[0].deadline(), Some(node.now.after_ms(700)));
    node.pass(700);
    assert_eq!(counts(&mut node, 0, "q"), "0: declared q 0 0");
}

#[test]
fn what_is_too_much_is_dropped_at_the_head_and_dead_lettered() {
    for (mut node, far) in nodes() {
        node.declare(far, "dead", true);
        node.declare_with(0, "q", true, &dying(&[("x-max-length", Value::long(2))]));
        node.consume(far, "dead", 7, 0);
        let mut publisher = node.publisher(0);
        for body in ["a", "b", "c", "d"] {
            node.publish(0, &mut publisher, "q", body, true);
        }
        node.settle();
        assert_eq!(
            seen(&mut node),
            [format!("{far}: Consuming"), format!("{far}: 7 gets a@0"), format!("{far}: 7 gets b@1")]
        );
        assert_eq!(counts(&mut node, 0, "q"), "0: declared q 2 0");
    }
}

#[test]
fn a_full_queue_refuses_and_the_others_of_a_route_do_not() {
    for shards in [1, 2] {
        let mut node = Node::new(shards);
        let far = usize::from(shards) - 1;
        let limits = [("x-max-length", Value::long(1)), ("x-overflow", Value::text("reject-publish"))];
        node.declare_with(far, "q", true, &limits);
        let mut publisher = node.publisher(0);
        for body in ["a", "b"] {
            assert_eq!(node.publish(0, &mut publisher, "q", body, true), Published::Waiting);
        }
        node.settle();
        let mut all = node.take_seen();
        all.sort();
        assert_eq!(all, ["0: 5 confirmed 1-1", "0: 5 refused 2-2"], "{shards} shards");
        assert_eq!(counts(&mut node, 0, "q"), format!("{far}: declared q 1 0").replace("1: ", "0: "));
        // Transient ones are refused as well.
        assert_eq!(node.publish(0, &mut publisher, "q", "c", false), Published::Waiting);
        node.settle();
        assert_eq!(node.take_seen(), ["0: 5 refused 3-3"]);
        // There is room again.
        node.command(
            0,
            "q",
            QueueCommand::Get { token: 1, handle: 3, settled: true, behind: false, by_node: false },
        );
        node.settle();
        assert_eq!(node.take_seen(), ["0: 3 takes a@0, 0 left"]);
        assert_eq!(node.publish(0, &mut publisher, "q", "d", true), Published::Waiting);
        node.settle();
        assert_eq!(node.take_seen(), ["0: 5 confirmed 4-4"]);
        // Of several queues one is full: it has nothing of the message, and the publisher hears of that once.
        node.declare(0, "free", true);
        for queue in ["q", "free"] {
            let op = Op::BindQueue {
                queue: queue.into(),
                exchange: "amq.fanout".into(),
                key: "".into(),
                arguments: Default::default(),
            };
            node.shards[0].request(node.now, node.ports[0], 1, op);
        }
        node.settle();
        node.take_seen();
        let publish = Publish {
            exchange: b"amq.fanout",
            routing_key: b"",
            more: None,
            headers: &NoHeaders,
            format: Format::Amqp091,
            durable: true,
            priority: None,
            ttl_ms: None,
            head: &[b"\0\0"],
            body: &[b"e"],
            confirm: true,
        };
        node.shards[0].publish(node.now, &mut publisher, &publish).unwrap();
        node.settle();
        let (mut refused, mut safe) = (Vec::new(), Vec::new());
        for line in node.take_seen() {
            match line.as_str() {
                "0: 5 confirmed 5-5" => publisher.confirmed(5, 5, |first, _| safe.push(first)),
                "0: 5 refused 5-5" => {
                    publisher.refused(5, 5, |seq| refused.push(seq));
                }
                other => panic!("{other}"),
            }
        }
        assert_eq!((refused, safe), (vec![5], vec![]), "{shards} shards");
        assert_eq!(counts(&mut node, 0, "free"), "0: declared free 1 0");
        assert_eq!(counts(&mut node, 0, "q"), "0: declared q 1 0");
    }
}

#[test]
fn what_a_full_queue_refuses_may_be_dead_lettered() {
    for (mut node, far) in nodes() {
        node.declare(far, "dead", true);
        let limits = [("x-max-length", Value::long(1)), ("x-overflow", Value::text("reject-publish-dlx"))];
        node.declare_with(0, "q", true, &dying(&limits));
        node.consume(far, "dead", 7, 0);
        let mut publisher = node.publisher(0);
        for body in ["a", "b"] {
            node.publish(0, &mut publisher, "q", body, true);
        }
        node.settle();
        let mut all = node.take_seen();
        all.sort();
        let mut expected = vec![
            "0: 5 confirmed 1-1".to_owned(),
            "0: 5 refused 2-2".to_owned(),
            format!("{far}: 7 gets b@0"),
            format!("{far}: Consuming"),
        ];
        expected.sort();
        assert_eq!(all, expected);
    }
}

#[test]
fn a_queue_unused_for_too_long_is_deleted() {
    let mut node = Node::new(1);
    node.declare_with(0, "q", true, &[("x-expires", Value::long(1000))]);
    let is_there = |node: &Node| node.shards[0].catalog().queue_by_name(VhostId(0), b"q").is_some();
    node.pass(900);
    node.command(
        0,
        "q",
        QueueCommand::Get { token: 1, handle: 3, settled: true, behind: false, by_node: false },
    );
    node.pass(900);
    assert!(is_there(&node), "a get is use");
    node.consume(0, "q", 9, 0);
    node.pass(5000);
    assert!(is_there(&node), "it has a consumer");
    node.command(0, "q", QueueCommand::Cancel { token: Some(1), handle: 9, held: broker::Held::Kept });
    node.pass(999);
    assert!(is_there(&node), "not long enough");
    node.pass(1);
    assert!(!is_there(&node));
}

/// Nobody does anything: the shard that plans must come back by itself to write what it has changed.
#[test]
fn that_a_queue_ended_unused_is_known_everywhere_though_nothing_else_happens() {
    let mut node = Node::new(2);
    node.declare_with(0, "q", true, &[("x-expires", Value::long(1000))]);
    node.pass(1000);
    for shard in &node.shards {
        assert!(shard.catalog().queue_by_name(VhostId(0), b"q").is_none());
    }
}

#[test]
fn what_must_arrive_waits_until_it_leads_somewhere() {
    let mut node = Node::new(1);
    let least = [
        ("x-dead-letter-strategy", Value::text("at-least-once")),
        ("x-overflow", Value::text("reject-publish")),
    ];
    node.declare_with(0, "least", true, &quorum(&least));
    node.declare_with(0, "most", true, &quorum(&[]));
    let mut publisher = node.publisher(0);
    for queue in ["least", "most"] {
        node.consume(0, queue, if queue == "least" { 1 } else { 2 }, 0);
        node.publish(0, &mut publisher, queue, queue, true);
    }
    node.settle();
    node.settled(0, "least", 1, (0, 0), Outcome::Rejected);
    node.settled(0, "most", 2, (0, 0), Outcome::Rejected);
    node.settle();
    seen(&mut node);
    node.declare(0, "dead", true);
    node.consume(0, "dead", 7, 0);
    node.pass(2000);
    assert_eq!(seen(&mut node), ["0: Consuming", "0: 7 gets least@0 again"]);
    // And it is gone where it died.
    node.pass(5000);
    assert_eq!(seen(&mut node), [""; 0]);
}

/// However many wait to be placed, only some are tried, and those again in their order.
#[test]
fn the_dead_that_lead_nowhere_wait_in_order() {
    let mut node = Node::new(1);
    let least = [
        ("x-dead-letter-strategy", Value::text("at-least-once")),
        ("x-overflow", Value::text("reject-publish")),
    ];
    node.declare_with(0, "q", true, &quorum(&least));
    let mut publisher = node.publisher(0);
    node.consume(0, "q", 1, 0);
    for number in 0..600 {
        publish_for(&mut node, &mut publisher, "q", &number.to_string(), None);
    }
    node.settle();
    node.settled(0, "q", 1, (0, 599), Outcome::Rejected);
    node.settle();
    seen(&mut node);
    node.declare(0, "dead", true);
    node.consume(0, "dead", 7, 0);
    node.pass(3000);
    let expected: Vec<String> = (0..600).map(|number| format!("0: 7 gets {number}@{number} again")).collect();
    assert_eq!(seen(&mut node)[1..], expected);
}

#[test]
fn the_dead_do_not_go_in_circles() {
    let mut node = Node::new(1);
    let circle = [
        ("x-dead-letter-exchange", Value::text("")),
        ("x-dead-letter-routing-key", Value::text("q")),
        ("x-message-ttl", Value::long(10)),
    ];
    node.declare_with(0, "q", true, &circle);
    let mut publisher = node.publisher(0);
    node.publish(0, &mut publisher, "q", "round", true);
    node.settle();
    node.pass(10);
    assert_eq!(counts(&mut node, 0, "q"), "0: declared q 0 0");
}

/// A message that had died and was not safe elsewhere is in its queue after a crash.
#[test]
fn a_crash_loses_none_of_the_dying() {
    let mut node = Node::new(1);
    node.declare(0, "dead", true);
    node.declare_with(0, "q", true, &dying(&[("x-message-ttl", Value::long(10))]));
    let mut publisher = node.publisher(0);
    node.publish(0, &mut publisher, "q", "x", true);
    node.settle();
    node.take_seen();
    node.now.wall_ms += 10;
    node.now.mono_ns += 10_000_000;
    node.turn();
    // It is published anew, and that is not written.
    assert!(!node.unwritten.is_empty());
    let mut shard = node.restarted();
    assert_eq!(shard.finish_recovery(node.now), [] as [LogId; 0]);
    let ready = |shard: &broker::Shard, name: &str| {
        shard.listing().rows().find(|row| &*row.definition.name == name).map(|row| row.ready)
    };
    assert_eq!((ready(&shard, "q"), ready(&shard, "dead")), (Some(1), Some(0)));
    node.shards[0] = shard;
    node.unwritten.clear();
    node.settle();
    node.read();
    let shard = &node.shards[0];
    assert_eq!((ready(shard, "q"), ready(shard, "dead")), (Some(0), Some(1)));
}

/// A message with a time of its own in a queue that has none ends after a restart too.
#[test]
fn a_time_survives_a_restart() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    let mut publisher = node.publisher(0);
    publish_for(&mut node, &mut publisher, "q", "short", Some(200));
    publish_for(&mut node, &mut publisher, "q", "stays", None);
    node.settle();
    let mut shard = node.restarted();
    assert_eq!(shard.finish_recovery(node.now), [] as [LogId; 0]);
    node.shards[0] = shard;
    node.pass(200);
    node.pass(0);
    let ready = |node: &Node| node.shards[0].listing().rows().map(|row| row.ready).sum::<u64>();
    assert_eq!(ready(&node), 1);
}

#[test]
fn a_quorum_queue_is_used_while_something_of_it_is_held() {
    let mut node = Node::new(1);
    let arguments = [("x-expires", Value::long(1000)), ("x-queue-type", Value::text("quorum"))];
    node.declare_with(0, "q", true, &arguments);
    let mut publisher = node.publisher(0);
    publish_for(&mut node, &mut publisher, "q", "held", None);
    node.settle();
    node.command(
        0,
        "q",
        QueueCommand::Get { token: 1, handle: 3, settled: false, behind: false, by_node: false },
    );
    let is_there = |node: &Node| node.shards[0].catalog().queue_by_name(VhostId(0), b"q").is_some();
    node.pass(5000);
    assert!(is_there(&node));
    node.settled(0, "q", 3, (0, 0), Outcome::Accepted);
    node.settle();
    node.pass(999);
    assert!(is_there(&node), "its time begins when it is settled");
    node.pass(1);
    assert!(!is_there(&node));
}

/// A message that came back to a quorum queue is there for a get that comes after it, although that is recorded first.
#[test]
fn a_get_waits_for_what_came_back_before_it() {
    let mut node = Node::new(1);
    node.declare_with(0, "q", true, &[("x-queue-type", Value::text("quorum"))]);
    let mut publisher = node.publisher(0);
    for body in ["one", "two"] {
        publish_for(&mut node, &mut publisher, "q", body, None);
    }
    node.settle();
    let get = || QueueCommand::Get { token: 1, handle: 3, settled: false, behind: false, by_node: false };
    node.command(0, "q", get());
    node.settle();
    seen(&mut node);
    node.settled(0, "q", 3, (0, 0), Outcome::Failed);
    node.command(0, "q", get());
    node.settle();
    assert_eq!(seen(&mut node), ["0: 3 takes one@0 again, 1 left"]);
}

/// A message with a time to live of 0 goes to a consumer that has room now, or to none.
#[test]
fn no_time_at_all_is_now_or_never() {
    let none: &[(&str, Value)] = &[];
    for (arguments, ttl_ms) in [(none, Some(0)), (&[("x-message-ttl", Value::long(0))], None)] {
        let mut node = Node::new(1);
        node.declare_with(0, "q", true, arguments);
        let mut publisher = node.publisher(0);
        publish_for(&mut node, &mut publisher, "q", "nobody", ttl_ms);
        node.settle();
        assert_eq!(counts(&mut node, 0, "q"), "0: declared q 0 0");
        node.consume(0, "q", 9, 1);
        for body in ["waited for", "one too many"] {
            publish_for(&mut node, &mut publisher, "q", body, ttl_ms);
        }
        node.now.wall_ms += 3;
        node.settle();
        assert_eq!(seen(&mut node), ["0: Consuming", "0: 9 gets waited for@1"], "{arguments:?}");
        assert_eq!(counts(&mut node, 0, "q"), "0: declared q 0 1");
    }
}

#[test]
fn what_fails_too_often_dies_in_its_own_queue() {
    let mut node = Node::new(1);
    let quorum = ("x-queue-type", Value::text("quorum"));
    node.declare_with(0, "fails", true, &[quorum.clone(), ("x-delivery-limit", Value::long(0))]);
    let others: Vec<String> = (0..16).map(|number| format!("other {number}")).collect();
    let mut publisher = node.publisher(0);
    for other in &others {
        node.declare_with(0, other, true, std::slice::from_ref(&quorum));
    }
    node.consume(0, "fails", 9, 10);
    for queue in others.iter().map(String::as_str).chain(["fails"]) {
        (0..3).for_each(|_| _ = node.publish(0, &mut publisher, queue, "m", true));
    }
    node.settle();
    // Something happens to all of them in the turn in which the failures are recorded.
    for other in &others {
        node.publish(0, &mut publisher, other, "m", true);
    }
    node.settled(0, "fails", 9, (0, 2), Outcome::Failed);
    for other in &others {
        node.publish(0, &mut publisher, other, "m", true);
    }
    node.settle();
    seen(&mut node);
    assert_eq!(counts(&mut node, 0, "fails"), "0: declared fails 0 1");
    for other in &others {
        assert_eq!(counts(&mut node, 0, other), format!("0: declared {other} 5 0"));
    }
}

#[test]
fn a_policy_turns_the_delivery_limit_off_and_on_again() {
    for (limits, is_left) in [(&[-1][..], true), (&[3, -1][..], true), (&[-1, 3][..], false)] {
        let mut node = Node::new(1);
        node.declare_with(0, "q", true, &[("x-queue-type", Value::text("quorum"))]);
        for limit in limits {
            let (kind, vhost, name, pattern) = (PolicyKind::User, "/".into(), "p".into(), "^q$".into());
            let definition = [(&b"delivery-limit"[..], Value::long(*limit))].into_iter().collect();
            let apply_to = "queues".into();
            let policy = Op::SetPolicy { kind, vhost, name, pattern, apply_to, priority: 0, definition };
            node.shards[0].request(node.now, node.ports[0], 1, policy);
            node.settle();
        }
        let mut publisher = node.publisher(0);
        node.consume(0, "q", 9, 1);
        node.publish(0, &mut publisher, "q", "m", true);
        node.settle();
        for _ in 0..25 {
            node.settled(0, "q", 9, (0, 0), Outcome::Failed);
            node.settle();
        }
        seen(&mut node);
        node.command(0, "q", QueueCommand::Cancel { token: None, handle: 9, held: broker::Held::GoesBack });
        node.settle();
        let expected = format!("0: declared q {} 0", u64::from(is_left));
        assert_eq!(counts(&mut node, 0, "q"), expected, "{limits:?}");
    }
}

/// A message that a consumer holds for too long is given to others: as the queue says, or the node. One waking looks at all.
#[test]
fn what_is_held_for_too_long_is_taken_back() {
    let of_queue = [("x-queue-type", Value::text("quorum")), ("x-consumer-timeout", Value::long(6400))];
    for (arguments, timeout_ms, late_ms) in
        [(&of_queue[..1], 1_800_000, 2 * 28_125), (&of_queue[..], 6400, 200)]
    {
        for (mut node, far) in nodes() {
            node.declare_with(0, "q", true, arguments);
            let mut publisher = node.publisher(0);
            node.consume(far, "q", 9, 1);
            node.publish(0, &mut publisher, "q", "a", true);
            node.settle();
            node.consume(0, "q", 8, 2);
            node.settle();
            seen(&mut node);
            // As time passes: the node wakes when a shard wants to.
            let begin = node.now.mono_ns;
            let mut told = Vec::new();
            let mut wakings = 0;
            while told.is_empty() {
                let wake = node.shards.iter().filter_map(broker::Shard::deadline).min().unwrap();
                node.pass((wake.saturating_sub(node.now.mono_ns)).div_ceil(1_000_000));
                told = seen(&mut node);
                wakings += 1;
            }
            let held_ms = (node.now.mono_ns - begin) / 1_000_000;
            assert!((timeout_ms..=timeout_ms + late_ms).contains(&held_ms), "{held_ms} ms");
            assert!(wakings < 80, "{wakings} wakings");
            let late = "TimedOut { consumer: 9, range: SeqRange { first: QueueSeq(0), last: QueueSeq(0) }, has_more: false }";
            assert_eq!(told[0], format!("{far}: {late}"));
            node.settle();
            told.extend(seen(&mut node));
            assert_eq!(told[1..], ["0: 8 gets a@0 again"]);
            node.publish(0, &mut publisher, "q", "b", true);
            node.publish(0, &mut publisher, "q", "c", true);
            node.settle();
            assert_eq!(seen(&mut node), ["0: 8 gets b@1"], "9 has not settled");
            node.settled(far, "q", 9, (0, 0), Outcome::Accepted);
            node.settle();
            assert_eq!(seen(&mut node), [format!("{far}: 9 gets c@2")]);
            node.settled(0, "q", 8, (0, 1), Outcome::Accepted);
            node.settle();
            assert_eq!(counts(&mut node, 0, "q"), "0: declared q 0 2");
        }
    }
}

#[test]
fn in_a_classic_queue_a_consumer_holds_what_it_has() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    let mut publisher = node.publisher(0);
    node.consume(0, "q", 9, 1);
    node.publish(0, &mut publisher, "q", "a", true);
    node.settle();
    seen(&mut node);
    assert_eq!(node.shards[0].deadline(), None);
    node.pass(10_000_000);
    node.pass(10_000_000);
    assert_eq!(seen(&mut node), [""; 0]);
}
