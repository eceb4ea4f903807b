//! A browser is shown all that is in a queue; nobody else notices.

use crate::node;

use base::id::QueueSeq;
use broker::{Credit, Held, NewConsumer, QueueCommand};
use message::record::{Outcome, SeqRange};
use node::Node;

/// The deliveries and answers that were seen, confirms apart, without the port.
fn seen(node: &mut Node) -> String {
    node.settle();
    let seen = node.take_seen().into_iter().filter(|line| !line.contains("confirmed"));
    seen.map(|line| line.split_once(": ").unwrap().1.to_owned()).collect::<Vec<_>>().join(", ")
}

fn browse(node: &mut Node, port: usize, handle: u32, credit: Credit, settled: bool) {
    browse_from(node, (port, handle), credit, settled, 0);
}

fn browse_from(node: &mut Node, (port, handle): (usize, u32), credit: Credit, settled: bool, position: u64) {
    let browses = Some(QueueSeq(position).into());
    let consumer = NewConsumer { credit, settled, exclusive: false, priority: 0, browses, timeout_ms: None };
    node.command(port, "q", QueueCommand::Consume { token: 2, handle, consumer });
}

fn credit(node: &mut Node, port: usize, limit: u32, drain: bool, echo: bool) {
    node.command(port, "q", QueueCommand::Credit { handle: 7, limit, drain, echo });
}

fn counts(node: &mut Node, port: usize) -> String {
    node.command(port, "q", QueueCommand::Counts { token: 8 });
    seen(node)
}

/// One shard, or the browser on another than the queue, with three messages in `q`.
fn filled() -> [(Node, usize); 2] {
    [(Node::new(1), 0), (Node::new(2), 1)].map(|(mut node, far)| {
        node.declare(0, "q", true);
        let mut publisher = node.publisher(0);
        ["a", "b", "c"].iter().for_each(|body| _ = node.publish(0, &mut publisher, "q", body, true));
        seen(&mut node);
        (node, far)
    })
}

#[test]
fn a_browser_begins_where_it_is_told() {
    for (mut node, far) in filled() {
        browse_from(&mut node, (far, 7), Credit::Prefetch(0), true, 1);
        assert_eq!(seen(&mut node), "Consuming, 7 gets b@1, 7 gets c@2");
        browse_from(&mut node, (far, 8), Credit::Prefetch(0), true, 4);
        assert_eq!(seen(&mut node), "Consuming");
        let mut publisher = node.publisher(0);
        ["d", "e"].iter().for_each(|body| _ = node.publish(0, &mut publisher, "q", body, true));
        let told = seen(&mut node);
        assert!(
            told.contains("7 gets d@3") && told.contains("8 gets e@4") && !told.contains("8 gets d@3"),
            "{told}"
        );
    }
}

#[test]
fn all_is_shown_and_stays() {
    for (mut node, far) in filled() {
        browse(&mut node, far, 7, Credit::Prefetch(0), true);
        assert_eq!(seen(&mut node), "Consuming, 7 gets a@0, 7 gets b@1, 7 gets c@2");
        assert_eq!(counts(&mut node, 0), "declared q 3 0");
        let mut publisher = node.publisher(0);
        node.publish(0, &mut publisher, "q", "d", true);
        assert_eq!(seen(&mut node), "7 gets d@3");
        node.consume(0, "q", 9, 0);
        assert_eq!(seen(&mut node), "Consuming, 9 gets a@0, 9 gets b@1, 9 gets c@2, 9 gets d@3");
        node.settled(0, "q", 9, (0, 3), Outcome::Accepted);
        seen(&mut node);
        assert_eq!(counts(&mut node, 0), "declared q 0 1");
    }
}

#[test]
fn prefetch_bounds_what_is_not_settled() {
    for (mut node, far) in filled() {
        browse(&mut node, far, 7, Credit::Prefetch(2), false);
        assert_eq!(seen(&mut node), "Consuming, 7 gets a@0, 7 gets b@1");
        for outcome in [Outcome::Accepted, Outcome::Rejected] {
            node.settled(far, "q", 7, (0, 0), outcome);
            let expected = if outcome == Outcome::Accepted { "7 gets c@2" } else { "" };
            assert_eq!(seen(&mut node), expected);
        }
        assert_eq!(counts(&mut node, 0), "declared q 3 0");
    }
}

#[test]
fn a_link_drains_to_the_end_of_the_queue() {
    for (mut node, far) in filled() {
        browse(&mut node, far, 7, Credit::Link, false);
        credit(&mut node, far, 2, false, true);
        assert_eq!(seen(&mut node), "Consuming, 7 gets a@0, 7 gets b@1, Available { consumer: 7, ready: 1 }");
        credit(&mut node, far, 9, true, false);
        assert_eq!(seen(&mut node), "7 gets c@2, Drained { consumer: 7, unused: 6 }");
        credit(&mut node, far, 9, false, true);
        assert_eq!(seen(&mut node), "Available { consumer: 7, ready: 0 }");
    }
}

#[test]
fn what_was_not_sent_is_shown_again() {
    for (mut node, far) in filled() {
        browse(&mut node, far, 7, Credit::Link, false);
        credit(&mut node, far, 3, false, false);
        seen(&mut node);
        let range = SeqRange { first: QueueSeq(1), last: QueueSeq(2) };
        node.command(far, "q", QueueCommand::Unsent { handle: 7, range });
        assert_eq!(seen(&mut node), "");
        credit(&mut node, far, 2, false, false);
        assert_eq!(seen(&mut node), "7 gets b@1");
    }
}

#[test]
fn a_pause_holds_it_up() {
    for (mut node, far) in filled() {
        browse(&mut node, far, 7, Credit::Link, true);
        node.command(far, "q", QueueCommand::Pause { handle: 7, paused: true });
        credit(&mut node, far, 9, true, false);
        assert_eq!(seen(&mut node), "Consuming");
        node.command(far, "q", QueueCommand::Pause { handle: 7, paused: false });
        assert_eq!(seen(&mut node), "7 gets a@0, 7 gets b@1, 7 gets c@2, Drained { consumer: 7, unused: 6 }");
    }
}

#[test]
fn it_comes_and_goes_unnoticed() {
    for (mut node, far) in filled() {
        let exclusive = NewConsumer {
            credit: Credit::Link,
            settled: false,
            exclusive: true,
            priority: 0,
            browses: None,
            timeout_ms: None,
        };
        browse(&mut node, far, 6, Credit::Link, true);
        node.command(0, "q", QueueCommand::Consume { token: 2, handle: 9, consumer: exclusive });
        browse(&mut node, far, 7, Credit::Prefetch(0), true);
        assert_eq!(seen(&mut node), "Consuming, Consuming, Consuming, 7 gets a@0, 7 gets b@1, 7 gets c@2");
        let cancel = |handle| QueueCommand::Cancel { token: Some(3), handle, held: Held::Kept };
        node.command(far, "q", cancel(7));
        assert_eq!(seen(&mut node), "Cancelled");
        let mut publisher = node.publisher(0);
        node.publish(0, &mut publisher, "q", "d", true);
        assert_eq!(seen(&mut node), "");
        let now = node.now;
        let port = node.ports[far];
        node.shards[far].close_port(now, port);
        assert_eq!(seen(&mut node), "");
        // Where that was the consumer's connection too, it went along.
        assert_eq!(counts(&mut node, 0), format!("declared q 4 {far}"));
    }
}

#[test]
fn it_hears_that_the_queue_is_gone() {
    for (mut node, far) in filled() {
        browse(&mut node, far, 7, Credit::Link, true);
        seen(&mut node);
        node.command(0, "q", QueueCommand::Delete { token: 4, if_unused: true, if_empty: false });
        let mut told: Vec<_> = seen(&mut node).split(", ").map(str::to_owned).collect();
        told.sort();
        assert_eq!(told, ["Cancelled { consumer: 7 }", "Deleted { messages: 3 }"]);
    }
}
