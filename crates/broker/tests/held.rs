//! Messages that consumers hold: shown to browsers that ask for them, and settled by others than their holders.

use crate::node;

use base::id::QueueSeq;
use broker::{Browse, Credit, LeaseOver, Limits, NewConsumer, QueueCommand, SettleAt};
use message::record::{Outcome, SeqRange};
use node::Node;
use routing::Value;

/// The events that were seen, confirms apart, without the port.
fn seen(node: &mut Node) -> String {
    node.settle();
    let seen = node.take_seen().into_iter().filter(|line| !line.contains("confirmed"));
    seen.map(|line| line.split_once(": ").unwrap().1.to_owned()).collect::<Vec<_>>().join(", ")
}

fn text(text: &'static str) -> Value {
    Value::text(text)
}

/// The kinds of queue.
const KINDS: [&[(&str, &str)]; 2] = [&[], &[("x-queue-type", "quorum")]];

/// One shard, or one that asks on another than the queue, with messages `a` to `d` in `q`, which has these arguments.
fn filled(arguments: &[(&'static str, &'static str)]) -> [(Node, usize); 2] {
    let arguments: Vec<(&str, Value)> = arguments.iter().map(|(name, value)| (*name, text(value))).collect();
    [1, 2].map(|shards| {
        let mut node = Node::new(shards);
        node.declare(0, "dead", true);
        node.declare_with(0, "q", true, &arguments);
        let mut publisher = node.publisher(0);
        ["a", "b", "c", "d"].iter().for_each(|body| _ = node.publish(0, &mut publisher, "q", body, true));
        seen(&mut node);
        (node, usize::from(shards - 1))
    })
}

/// Asks for these positions to be settled.
fn ask(node: &mut Node, port: usize, positions: &[u64], rejects: bool) {
    let positions = positions.iter().map(|position| QueueSeq(*position)).collect();
    let settle = SettleAt { token: 4, positions, rejects };
    node.command(port, "q", QueueCommand::SettleAt(Box::new(settle)));
}

fn settle_at(node: &mut Node, port: usize, positions: &[u64], rejects: bool) -> String {
    ask(node, port, positions, rejects);
    seen(node)
}

fn missing(positions: &[u64]) -> String {
    let positions: Vec<_> = positions.iter().map(|position| format!("QueueSeq({position})")).collect();
    format!("Settled {{ missing: [{}] }}", positions.join(", "))
}

/// The connection of consumer 9 is told that these are its own no longer.
fn taken(first: u64, last: u64) -> String {
    let range = format!("SeqRange {{ first: QueueSeq({first}), last: QueueSeq({last}) }}");
    format!("LeaseOver {{ consumer: 9, ranges: [{range}] }}")
}

/// All that is in `told`, in any order: what comes from another shard comes later.
fn check_all(told: &str, expected: &[&str]) {
    let mut rest = told.to_owned();
    for part in expected {
        assert!(rest.contains(part), "{told}: {part}");
        rest = rest.replacen(part, "", 1);
    }
    assert!(rest.chars().all(|left| ", ".contains(left)), "{told}: {rest}");
}

fn counts(node: &mut Node, queue: &str) -> String {
    node.command(0, queue, QueueCommand::Counts { token: 8 });
    seen(node)
}

#[test]
fn held_and_ready_ones_are_settled_and_the_holder_goes_on() {
    for (mut node, far) in KINDS.into_iter().flat_map(filled) {
        node.consume(0, "q", 9, 2);
        assert_eq!(seen(&mut node), "Consuming, 9 gets a@0, 9 gets b@1");
        let told = settle_at(&mut node, far, &[9, 1, 2], false);
        check_all(&told, &[&taken(1, 1), &missing(&[9]), "9 gets d@3"]);
        // Its connection says that it had it, and the client settles it in any way: that changes nothing.
        let range = SeqRange { first: QueueSeq(1), last: QueueSeq(1) };
        let over = LeaseOver { handle: 9, asked: [range].into(), over: [range].into(), is_late: true };
        node.command(0, "q", QueueCommand::LeaseOver(Box::new(over)));
        node.command(0, "q", QueueCommand::SettleOver { handle: 9, range });
        for outcome in [Outcome::Accepted, Outcome::Rejected, Outcome::Failed] {
            node.settled(0, "q", 9, (1, 1), outcome);
        }
        assert_eq!(seen(&mut node), "");
        assert_eq!(settle_at(&mut node, far, &[1, 2], true), missing(&[1, 2]), "they are gone");
        assert_eq!(counts(&mut node, "q"), "declared q 0 1");
        node.settled(0, "q", 9, (0, 0), Outcome::Accepted);
        seen(&mut node);
        if far == 0 {
            let mut again = node.restarted();
            assert!(again.finish_recovery(node.now).is_empty());
            let ready = again.listing().rows().map(|row| row.ready);
            assert_eq!(ready.collect::<Vec<_>>(), [0, 1], "it is on record");
        }
    }
}

#[test]
fn rejected_ones_die_wherever_they_are() {
    let dead = [("x-dead-letter-exchange", ""), ("x-dead-letter-routing-key", "dead")];
    for kind in KINDS {
        for (mut node, far) in filled(&[kind, &dead].concat()) {
            node.consume(0, "q", 9, 1);
            seen(&mut node);
            let told = settle_at(&mut node, far, &[2, 0], true);
            check_all(&told, &[&taken(0, 0), &missing(&[]), "9 gets b@1"]);
            assert_eq!(counts(&mut node, "dead"), "declared dead 2 0");
            assert_eq!(counts(&mut node, "q"), "declared q 1 1");
        }
    }
}

#[test]
fn a_get_of_a_client_is_settled_and_that_of_the_node_is_not() {
    for (mut node, far) in KINDS.into_iter().flat_map(filled) {
        for (handle, by_node) in [(5, false), (6, true)] {
            let get = QueueCommand::Get { token: 3, handle, settled: false, behind: false, by_node };
            node.command(0, "q", get);
        }
        node.command(0, "q", QueueCommand::Pick { token: 3, handle: 7, position: QueueSeq(3) });
        let told = seen(&mut node);
        assert!(told.ends_with("5 takes a@0, 3 left, 6 takes b@1, 2 left, 7 takes d@3, 1 left"), "{told}");
        let told = settle_at(&mut node, far, &[0, 1, 3], false);
        check_all(&told, &[&taken(0, 0).replace('9', "5"), &missing(&[1, 3])]);
        let row =
            node.shards.iter().find_map(|shard| shard.listing().held_end(broker::catalog::VhostId(0), "q"));
        assert_eq!(row, Some(0), "no client has anything");
        node.settled(0, "q", 6, (1, 1), Outcome::Accepted);
        node.settled(0, "q", 7, (3, 3), Outcome::Accepted);
        assert_eq!(counts(&mut node, "q"), "declared q 1 0");
    }
}

#[test]
fn one_active_consumer_is_given_the_next() {
    let single = [("x-queue-type", "quorum")];
    for shards in [1, 2] {
        let mut node = Node::new(shards);
        let arguments = single.map(|(name, value)| (name, text(value)));
        let arguments = [&arguments[..], &[("x-single-active-consumer", Value::Bool(true))]].concat();
        node.declare_with(0, "q", true, &arguments);
        node.consume(0, "q", 9, 1);
        node.consume(0, "q", 8, 1);
        let mut publisher = node.publisher(0);
        ["a", "b"].iter().for_each(|body| _ = node.publish(0, &mut publisher, "q", body, true));
        assert!(seen(&mut node).contains("9 gets a@0"));
        let told = settle_at(&mut node, usize::from(shards - 1), &[0], false);
        check_all(&told, &[&taken(0, 0), &missing(&[]), "9 gets b@1"]);
    }
}

fn browse_held(node: &mut Node, port: usize, handle: u32, from: u64) {
    let browses = Some(Browse { from: QueueSeq(from), held: true });
    let (credit, settled, exclusive) = (Credit::Prefetch(0), true, false);
    let consumer = NewConsumer { credit, settled, exclusive, priority: 0, browses, timeout_ms: None };
    node.command(port, "q", QueueCommand::Consume { token: 2, handle, consumer });
}

#[test]
fn a_browser_is_shown_what_is_held_in_its_place() {
    for (mut node, far) in KINDS.into_iter().flat_map(filled) {
        node.consume(0, "q", 9, 2);
        node.command(0, "q", QueueCommand::Pick { token: 3, handle: 6, position: QueueSeq(2) });
        seen(&mut node);
        node.settled(0, "q", 9, (0, 0), Outcome::Rejected);
        let mut publisher = node.publisher(0);
        node.publish(0, &mut publisher, "q", "e", true);
        seen(&mut node);
        browse_held(&mut node, far, 7, 0);
        let expected = "Consuming, 7 is shown b@1, 7 is shown d@3, 7 gets e@4";
        assert_eq!(seen(&mut node), expected, "the node's own is not shown");
        browse_held(&mut node, far, 5, 2);
        assert_eq!(seen(&mut node), "Consuming, 5 is shown d@3, 5 gets e@4");
    }
}

#[test]
fn many_are_shown_a_share_at_a_time() {
    let limits = Limits { dispatch_messages_max: 64, ..Limits::default() };
    let mut node = Node::with_limits(1, limits);
    node.declare(0, "q", true);
    for handle in 100..400 {
        node.consume(0, "q", handle, 2);
    }
    let mut publisher = node.publisher(0);
    for number in 0..1000 {
        node.publish(0, &mut publisher, "q", &number.to_string(), true);
    }
    seen(&mut node);
    // Some in front of others come back, and the node holds many that follow on each other.
    for handle in (100..400).step_by(3) {
        node.command(0, "q", QueueCommand::Cancel { token: None, handle, held: broker::Held::Fails });
    }
    for position in 700..900 {
        node.command(0, "q", QueueCommand::Pick { token: 3, handle: 6, position: QueueSeq(position) });
    }
    seen(&mut node);
    browse_held(&mut node, 0, 7, 0);
    let told = seen(&mut node);
    let shown = told.split(", ").filter_map(|line| line.strip_prefix("7 ")).filter_map(|line| {
        line.strip_prefix("gets ").or(line.strip_prefix("is shown "))?.split_once('@')?.0.parse::<u64>().ok()
    });
    let expected: Vec<u64> = (0..700).chain(900..1000).collect();
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    let held = told.split(", ").filter(|line| line.starts_with("7 is shown")).count();
    assert!((400..700).contains(&held), "{held}");
}
