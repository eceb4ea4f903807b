//! Messages are leased to consumers: when the time is over they are another's, once the connection has said so.

use crate::node;

use broker::catalog::{Op, PolicyKind};
use broker::{LEASED, LeaseOver, QueueCommand};
use message::record::{Outcome, SeqRange};
use node::Node;
use routing::Value;

/// The events that were seen, confirms apart.
fn seen(node: &mut Node) -> Vec<String> {
    node.take_seen().into_iter().filter(|line| !line.contains("confirmed")).collect()
}

fn range(first: u64, last: u64) -> SeqRange {
    SeqRange { first: base::id::QueueSeq(first), last: base::id::QueueSeq(last) }
}

/// As time passes, the node waking when a shard wants to, until something is seen; and after how many milliseconds.
fn wait(node: &mut Node) -> (Vec<String>, u64) {
    let begin = node.now.mono_ns;
    for _ in 0..200 {
        let wake = node.shards.iter().filter_map(broker::Shard::deadline).min().expect("a lease runs");
        node.pass((wake.saturating_sub(node.now.mono_ns)).div_ceil(1_000_000));
        let told = seen(node);
        if !told.is_empty() {
            return (told, (node.now.mono_ns - begin) / 1_000_000);
        }
    }
    panic!("nothing happens")
}

fn answer(node: &mut Node, port: usize, handle: u32, asked: SeqRange, over: &[SeqRange], is_late: bool) {
    let (asked, over) = ([asked].into(), over.into());
    let over = LeaseOver { handle, asked, over, is_late };
    node.command(port, "q", QueueCommand::LeaseOver(Box::new(over)));
    node.settle();
}

fn over(port: usize, handle: u32, position: u64) -> String {
    let range = format!("SeqRange {{ first: QueueSeq({position}), last: QueueSeq({position}) }}");
    format!("{port}: LeaseOver {{ consumer: {handle}, ranges: [{range}] }}")
}

/// One shard, or a consumer on another than the queue.
fn nodes() -> [(Node, usize); 2] {
    [(Node::new(1), 0), (Node::new(2), 1)]
}

fn leased(queue_type: &'static str) -> [(&'static str, Value); 2] {
    [("x-queue-type", Value::text(queue_type)), ("x-lease", Value::long(2000))]
}

#[test]
fn a_message_goes_to_another_when_its_lease_is_over() {
    for queue_type in ["classic", "quorum"] {
        for (mut node, far) in nodes() {
            node.declare_with(0, "q", true, &leased(queue_type));
            let mut publisher = node.publisher(0);
            node.consume(far, "q", 9, 1);
            node.publish(0, &mut publisher, "q", "a", true);
            node.settle();
            let told = seen(&mut node);
            assert!(
                told.contains(&format!("{far}: Leased {{ consumer: 9, lease_ms: Some(2000) }}")),
                "{told:?}"
            );
            assert!(told.contains(&format!("{far}: {} gets a@0", 9 | LEASED)), "{told:?}");
            node.consume(0, "q", 8, 1);
            node.settle();
            seen(&mut node);
            let (told, held_ms) = wait(&mut node);
            assert!((2000..=2250).contains(&held_ms), "{queue_type}: {held_ms} ms");
            assert_eq!(told, [over(far, 9, 0)], "it is the consumer's until its connection has answered");
            answer(&mut node, far, 9, range(0, 0), &[range(0, 0)], true);
            assert_eq!(seen(&mut node), [format!("0: {} gets a@0 again", 8 | LEASED)]);
            node.publish(0, &mut publisher, "q", "b", true);
            node.settle();
            assert_eq!(seen(&mut node), [""; 0], "there is room for neither");
            node.settled(far, "q", 9, (0, 0), Outcome::Accepted);
            node.settle();
            assert_eq!(seen(&mut node), [""; 0], "that changes nothing");
            node.command(far, "q", QueueCommand::SettleOver { handle: 9, range: range(0, 0) });
            node.settle();
            assert_eq!(seen(&mut node), [format!("{far}: {} gets b@1", 9 | LEASED)], "it goes on");
            node.settled(0, "q", 8, (0, 0), Outcome::Accepted);
            node.settled(far, "q", 9, (1, 1), Outcome::Accepted);
            node.settle();
            node.command(0, "q", QueueCommand::Counts { token: 8 });
            node.settle();
            assert_eq!(seen(&mut node), ["0: declared q 0 2"]);
        }
    }
}

#[test]
fn a_receiver_at_work_has_it_for_longer() {
    let mut node = Node::new(1);
    node.declare_with(0, "q", true, &leased("quorum"));
    let mut publisher = node.publisher(0);
    node.consume(0, "q", 9, 1);
    node.publish(0, &mut publisher, "q", "a", true);
    node.settle();
    seen(&mut node);
    for _ in 0..20 {
        for _ in 0..10 {
            node.pass(100);
        }
        assert_eq!(seen(&mut node), [""; 0]);
        node.command(0, "q", QueueCommand::Renew { handle: 9, range: range(0, 0) });
        node.settle();
    }
    let (told, held_ms) = wait(&mut node);
    assert_eq!(told, [over(0, 9, 0)]);
    assert!((2000..=2250).contains(&held_ms), "{held_ms} ms");
    // Settled just before: what the client has done counts, and what is left begins anew.
    answer(&mut node, 0, 9, range(0, 0), &[], true);
    let (told, held_ms) = wait(&mut node);
    assert_eq!(told, [over(0, 9, 0)]);
    assert!((2000..=2250).contains(&held_ms), "{held_ms} ms");
    answer(&mut node, 0, 9, range(0, 0), &[range(0, 0)], false);
    assert_eq!(seen(&mut node), [format!("0: {} gets a@0 again", 9 | LEASED)], "nothing is late");
}

#[test]
fn a_policy_says_so_of_consumers_that_are_there() {
    let mut node = Node::new(1);
    node.declare_with(0, "q", true, &[("x-queue-type", Value::text("classic"))]);
    let mut publisher = node.publisher(0);
    node.consume(0, "q", 9, 9);
    node.publish(0, &mut publisher, "q", "a", true);
    node.settle();
    assert!(seen(&mut node).contains(&"0: 9 gets a@0".to_owned()));
    let (kind, vhost, name, pattern) = (PolicyKind::User, "/".into(), "p".into(), "^q$".into());
    let definition = [(&b"lease"[..], Value::long(500))].into_iter().collect();
    let apply_to = "queues".into();
    let policy = Op::SetPolicy { kind, vhost, name, pattern, apply_to, priority: 0, definition };
    node.shards[0].request(node.now, node.ports[0], 1, policy);
    node.settle();
    let told = seen(&mut node);
    assert!(told.contains(&"0: Leased { consumer: 9, lease_ms: Some(500) }".to_owned()), "{told:?}");
    let (told, held_ms) = wait(&mut node);
    assert_eq!(told, [over(0, 9, 0)]);
    assert!((500..=550).contains(&held_ms), "{held_ms} ms");
    answer(&mut node, 0, 9, range(0, 0), &[range(0, 0)], true);
    assert_eq!(seen(&mut node), [format!("0: {} gets a@0 again", 9 | LEASED)]);
    let row = node.shards[0].listing().rows().find(|row| &*row.definition.name == "q");
    assert_eq!(row.map(|row| row.leases_over), Some(Some(1)));
}
