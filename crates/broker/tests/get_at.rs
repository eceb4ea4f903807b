//! Messages chosen by position: taken as by a get, or thrown away.

use crate::node;

use base::id::QueueSeq;
use broker::QueueCommand;
use message::record::Outcome;
use node::Node;
use routing::Value;

/// The deliveries and answers that were seen, confirms apart, without the port.
fn seen(node: &mut Node) -> String {
    node.settle();
    let seen = node.take_seen().into_iter().filter(|line| !line.contains("confirmed"));
    seen.map(|line| line.split_once(": ").unwrap().1.to_owned()).collect::<Vec<_>>().join(", ")
}

fn pick(node: &mut Node, port: usize, position: u64) -> String {
    node.command(port, "q", QueueCommand::Pick { token: 3, handle: 7, position: QueueSeq(position) });
    seen(node)
}

fn discard(node: &mut Node, port: usize, position: u64) -> String {
    node.command(port, "q", QueueCommand::Discard { token: 4, position: QueueSeq(position) });
    seen(node)
}

fn counts(node: &mut Node, port: usize) -> String {
    node.command(port, "q", QueueCommand::Counts { token: 8 });
    seen(node)
}

/// One shard, or the chooser on another than the queue, with four messages in `q`; classic, quorum, and that with one active
/// consumer.
fn filled() -> Vec<(Node, usize)> {
    let kinds: [&[(&str, Value)]; 3] = [
        &[],
        &[("x-queue-type", Value::Text((*b"quorum").into()))],
        &[
            ("x-queue-type", Value::Text((*b"quorum").into())),
            ("x-single-active-consumer", Value::Bool(true)),
        ],
    ];
    let filled = |shards: u16, arguments: &[(&str, Value)]| {
        let mut node = Node::new(shards);
        node.declare_with(0, "q", true, arguments);
        let mut publisher = node.publisher(0);
        ["a", "b", "c", "d"].iter().for_each(|body| _ = node.publish(0, &mut publisher, "q", body, true));
        seen(&mut node);
        (node, usize::from(shards - 1))
    };
    kinds.into_iter().flat_map(|kind| [filled(1, kind), filled(2, kind)]).collect()
}

#[test]
fn what_is_picked_is_held_until_it_is_settled_or_goes_back() {
    for (mut node, far) in filled() {
        assert_eq!(pick(&mut node, far, 2), "7 takes c@2, 3 left");
        assert_eq!(pick(&mut node, far, 2), "Empty");
        assert_eq!(pick(&mut node, far, 9), "Empty");
        assert_eq!(pick(&mut node, far, 1), "7 takes b@1, 2 left");
        node.settled(far, "q", 7, (2, 2), Outcome::Accepted);
        node.settled(far, "q", 7, (1, 1), Outcome::Released);
        assert_eq!(seen(&mut node), "");
        assert_eq!(counts(&mut node, 0), "declared q 3 0");
        node.consume(0, "q", 9, 0);
        let shown = seen(&mut node);
        assert!(
            shown.contains("9 gets a@0") && shown.contains("b@1 again") && shown.contains("9 gets d@3"),
            "{shown}"
        );
        assert!(!shown.contains("c@2"), "{shown}");
    }
}

#[test]
fn one_that_is_on_its_way_back_is_waited_for() {
    for (mut node, far) in filled() {
        assert_eq!(pick(&mut node, far, 2), "7 takes c@2, 3 left");
        node.settled(far, "q", 7, (2, 2), Outcome::Released);
        let again = pick(&mut node, far, 2);
        assert!(again.starts_with("7 takes c@2 again"), "{again}");
    }
}

#[test]
fn what_is_thrown_away_stays_away() {
    for (mut node, far) in filled() {
        assert_eq!(pick(&mut node, far, 0), "7 takes a@0, 3 left");
        let told: Vec<_> = [0, 2, 2, 9].map(|position| discard(&mut node, far, position)).into();
        assert_eq!(told, [0, 1, 0, 0].map(|messages| format!("Purged {{ messages: {messages} }}")));
        assert_eq!(counts(&mut node, 0), "declared q 2 0");
        node.settle();
        if far > 0 {
            continue;
        }
        // A message that was held is back, and one that went is gone.
        let now = node.now;
        let mut again = node.restarted();
        assert!(again.finish_recovery(now).is_empty());
        assert_eq!(again.listing().rows().map(|row| row.ready).collect::<Vec<_>>(), [3]);
    }
}

#[test]
fn with_its_channel_what_was_picked_goes_back() {
    for (mut node, far) in filled() {
        pick(&mut node, far, 3);
        let (now, port) = (node.now, node.ports[far]);
        node.shards[far].close_port(now, port);
        node.settle();
        node.take_seen();
        assert_eq!(counts(&mut node, 0), "declared q 4 0");
    }
}

#[test]
fn who_asks_a_queue_that_is_gone_is_told_so() {
    for (mut node, far) in filled() {
        let definition = {
            let catalog = node.shards[far].catalog();
            catalog.queue_by_name(broker::catalog::VhostId(0), b"q").unwrap().clone()
        };
        node.command(0, "q", QueueCommand::Delete { token: 5, if_unused: false, if_empty: false });
        seen(&mut node);
        let (now, port) = (node.now, node.ports[far]);
        for command in [
            QueueCommand::Pick { token: 3, handle: 7, position: QueueSeq(0) },
            QueueCommand::Discard { token: 4, position: QueueSeq(0) },
        ] {
            node.shards[far].command(now, port, definition.log, definition.id, command);
            let told = seen(&mut node);
            assert!(told.contains("the queue has just been deleted"), "{told}");
        }
    }
}
