//! Messages that consumers give back with annotations: what a quorum queue keeps, and how much.

use crate::node;

use base::id::QueueSeq;
use broker::{Credit, Held, Limits, Modified, NewConsumer, QueueCommand};
use message::amqp10::Encoder;
use message::record::{Outcome, SeqRange};
use node::Node;
use routing::Value;

const DEAD: &str = "dead";

/// The encoding of annotations, text all of them.
fn annotations(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    let mut map = encoder.map();
    for text in pairs.iter().flat_map(|(name, text)| [name, text]) {
        match text.starts_with("x-") {
            true => encoder.symbol(text),
            false => encoder.string(text),
        }
        map.field(&encoder);
    }
    encoder.close(map);
    bytes
}

/// The consumer 9 of `queue` gives positions back with a note.
fn modify(
    node: &mut Node,
    port: usize,
    queue: &str,
    (first, last): (u64, u64),
    outcome: Outcome,
    note: &str,
) {
    let range = SeqRange { first: QueueSeq(first), last: QueueSeq(last) };
    let annotations = annotations(&[("x-note", note)]).into();
    let modified = Modified { handle: 9, range, outcome, annotations, due_at_ms: None };
    node.command(port, queue, QueueCommand::Modify(Box::new(modified)));
    node.settle();
}

/// A node with a queue of that type, some messages in it, and a consumer that has them. The queue is the port's.
fn node(shards: u16, port: usize, queue_type: &'static str, messages: u64) -> Node {
    let mut node = Node::new(shards);
    node.declare(0, DEAD, true);
    let arguments = [
        ("x-queue-type", Value::text(queue_type)),
        ("x-dead-letter-exchange", Value::text("")),
        ("x-dead-letter-routing-key", Value::text(DEAD)),
        ("x-delivery-limit", Value::long(5)),
    ];
    let arguments = if queue_type == "quorum" { &arguments[..] } else { &arguments[..3] };
    node.declare_with(port, "q", true, arguments);
    let mut publisher = node.publisher(0);
    (0..messages).for_each(|_| _ = node.publish(0, &mut publisher, "q", "m", true));
    node.settle();
    node.consume(0, "q", 9, 0);
    node.settle();
    node.take_seen();
    node
}

fn deliveries(node: &mut Node) -> Vec<String> {
    node.take_seen().into_iter().filter(|line| line.contains(" gets ") || line.contains(" takes ")).collect()
}

#[test]
fn notes_come_with_every_later_delivery() {
    for (shards, port) in [(1, 0), (2, 1)] {
        let mut node = node(shards, port, "quorum", 4);
        modify(&mut node, 0, "q", (1, 2), Outcome::Released, "one");
        assert_eq!(deliveries(&mut node), ["0: 9 gets m@1 again noted one", "0: 9 gets m@2 again noted one"]);
        modify(&mut node, 0, "q", (2, 2), Outcome::Failed, "two");
        assert_eq!(deliveries(&mut node), ["0: 9 gets m@2 again noted two"]);
        node.settled(0, "q", 9, (0, 3), Outcome::Released);
        node.settle();
        let expected = [
            "0: 9 gets m@0 again",
            "0: 9 gets m@1 again noted one",
            "0: 9 gets m@2 again noted two",
            "0: 9 gets m@3 again",
        ];
        let mut seen = deliveries(&mut node);
        seen.sort_unstable();
        assert_eq!(seen, expected);
    }
}

#[test]
fn a_classic_queue_keeps_none() {
    let mut node = node(1, 0, "classic", 1);
    modify(&mut node, 0, "q", (0, 0), Outcome::Failed, "one");
    assert_eq!(deliveries(&mut node), ["0: 9 gets m@0 again"]);
}

/// A message that nobody holds is nobody's to write on.
#[test]
fn only_what_is_held_is_noted() {
    let mut node = node(1, 0, "quorum", 2);
    node.settled(0, "q", 9, (0, 0), Outcome::Accepted);
    modify(&mut node, 0, "q", (0, 7), Outcome::Released, "one");
    assert_eq!(deliveries(&mut node), ["0: 9 gets m@1 again noted one"]);
}

#[test]
fn a_get_has_them_too() {
    let mut node = node(1, 0, "quorum", 1);
    let cancel = QueueCommand::Cancel { token: None, handle: 9, held: Held::Kept };
    node.command(0, "q", cancel);
    modify(&mut node, 0, "q", (0, 0), Outcome::Released, "one");
    node.command(
        0,
        "q",
        QueueCommand::Get { token: 7, handle: 8, settled: false, behind: false, by_node: false },
    );
    node.settle();
    assert_eq!(deliveries(&mut node), ["0: 8 takes m@0 again noted one, 0 left"]);
}

#[test]
fn who_browses_sees_them() {
    let mut node = node(1, 0, "quorum", 1);
    node.command(0, "q", QueueCommand::Cancel { token: None, handle: 9, held: Held::Kept });
    modify(&mut node, 0, "q", (0, 0), Outcome::Released, "one");
    let credit = Credit::Prefetch(0);
    let consumer = NewConsumer {
        credit,
        settled: true,
        exclusive: false,
        priority: 0,
        browses: Some(QueueSeq(0).into()),
        timeout_ms: None,
    };
    node.command(0, "q", QueueCommand::Consume { token: 2, handle: 7, consumer });
    node.settle();
    assert_eq!(deliveries(&mut node), ["0: 7 gets m@0 again noted one"]);
}

#[test]
fn the_dead_take_them_along() {
    for (shards, port) in [(1, 0), (2, 1)] {
        let mut node = node(shards, port, "quorum", 3);
        modify(&mut node, 0, "q", (1, 2), Outcome::Released, "one");
        modify(&mut node, 0, "q", (2, 2), Outcome::Rejected, "last");
        node.settled(0, "q", 9, (0, 1), Outcome::Rejected);
        node.settle();
        node.take_seen();
        node.consume(0, DEAD, 4, 0);
        node.settle();
        let mut seen: Vec<String> =
            deliveries(&mut node).iter().map(|line| line.replace(['@', '0', '1', '2'], "")).collect();
        seen.sort_unstable();
        assert_eq!(seen, [": 4 gets m again", ": 4 gets m again noted last", ": 4 gets m again noted one"]);
    }
}

/// Each limit, reached and passed: what is too much is not kept, and what was there stays.
#[test]
fn only_so_much_is_kept() {
    let limits = Limits::default();
    let empty = annotations(&[("x-note", &"a".repeat(1000))]).len() - 1000;
    let fits = "f".repeat(limits.annotations_bytes_max - empty);
    let mut node = node(1, 0, "quorum", 400);
    modify(&mut node, 0, "q", (0, 0), Outcome::Released, &fits);
    assert_eq!(deliveries(&mut node), [format!("0: 9 gets m@0 again noted {} bytes", fits.len())]);
    modify(&mut node, 0, "q", (0, 0), Outcome::Released, &format!("{fits}f"));
    assert_eq!(
        deliveries(&mut node),
        [format!("0: 9 gets m@0 again noted {} bytes", fits.len())],
        "as before"
    );
    let all = limits.queue_annotations_bytes_max / limits.annotations_bytes_max as u64;
    for seq in 1..all + 2 {
        modify(&mut node, 0, "q", (seq, seq), Outcome::Released, &fits);
        let noted = if seq < all { format!(" noted {} bytes", fits.len()) } else { String::new() };
        assert_eq!(deliveries(&mut node), [format!("0: 9 gets m@{seq} again{noted}")]);
    }
    // Where one goes there is room for another.
    node.settled(0, "q", 9, (0, 0), Outcome::Accepted);
    node.settle();
    modify(&mut node, 0, "q", (all, all), Outcome::Released, &fits);
    assert_eq!(deliveries(&mut node), [format!("0: 9 gets m@{all} again noted {} bytes", fits.len())]);
    // A message that dies takes no more along than that.
    modify(&mut node, 0, "q", (all + 1, all + 1), Outcome::Rejected, &fits);
    node.take_seen();
    node.consume(0, DEAD, 4, 0);
    node.settle();
    assert_eq!(deliveries(&mut node), ["0: 4 gets m@0 again"]);
}

#[test]
fn they_survive_a_crash() {
    let mut node = node(1, 0, "quorum", 2);
    let cancel = QueueCommand::Cancel { token: None, handle: 9, held: Held::Kept };
    node.command(0, "q", cancel);
    modify(&mut node, 0, "q", (1, 1), Outcome::Released, "one");
    // Something that is waited for is written, and what comes back with it.
    let mut publisher = node.publisher(0);
    node.publish(0, &mut publisher, "q", "m", true);
    node.settle();
    let mut shard = node.restarted();
    assert!(shard.finish_recovery(node.now).is_empty());
    node.shards[0] = shard;
    let port = node.ports[0];
    node.shards[0].open_port(port, Node::actor(port));
    node.take_seen();
    node.consume(0, "q", 9, 0);
    node.settle();
    // One batch after the other.
    (0..3).for_each(|_| node.read());
    let mut seen = deliveries(&mut node);
    seen.sort_unstable();
    assert_eq!(
        seen,
        ["0: 9 gets m@0 again", "0: 9 gets m@1 again noted one", "0: 9 gets m@2 again"],
        "read back from disk"
    );
}
