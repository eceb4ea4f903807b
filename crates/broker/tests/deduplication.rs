//! A message whose key came before is confirmed and not in the queue.

use crate::node;

use broker::catalog::Op;
use broker::{Limits, Publish, Publisher, QueueCommand};
use message::amqp10::Encoder;
use message::record::Format;
use node::Node;
use routing::{NoHeaders, Value};

const HEADER: &str = "x-deduplication-header";

/// A header of a message, as 0-9-1 or 1.0 has it.
#[derive(Clone, Copy)]
enum Header {
    Text091(&'static str),
    Int091(i32),
    Text10(&'static str),
    Long10(i64),
}
use Header::{Int091, Long10, Text10, Text091};

/// Head and body of a message with these headers.
fn parts(headers: &[(&str, Header)], body: &str) -> (Format, Vec<u8>, Vec<u8>) {
    if matches!(headers.first(), Some((_, Text10(_) | Long10(_)))) {
        let mut bare = Vec::new();
        let mut encoder = Encoder::new(&mut bare);
        encoder.descriptor(0x74);
        let mut map = encoder.map();
        for (name, value) in headers {
            encoder.string(name);
            map.field(&encoder);
            match value {
                Text10(text) => encoder.string(text),
                Long10(number) => encoder.long(*number),
                Text091(_) | Int091(_) => unreachable!("one protocol at a time"),
            }
            map.field(&encoder);
        }
        encoder.close(map);
        encoder.descriptor(0x75);
        encoder.binary(body.as_bytes());
        return (Format::Amqp10, Vec::new(), bare);
    }
    let mut table = Vec::new();
    for (name, value) in headers {
        table.push(name.len() as u8);
        table.extend(name.as_bytes());
        match value {
            Text091(text) => {
                table.push(b'S');
                table.extend((text.len() as u32).to_be_bytes());
                table.extend(text.as_bytes());
            }
            Int091(number) => {
                table.push(b'I');
                table.extend(number.to_be_bytes());
            }
            Text10(_) | Long10(_) => unreachable!("one protocol at a time"),
        }
    }
    let mut head = vec![0x20, 0];
    head.extend((table.len() as u32).to_be_bytes());
    head.extend(table);
    (Format::Amqp091, head, body.as_bytes().to_vec())
}

fn publish(node: &mut Node, publisher: &mut Publisher, headers: &[(&str, Header)], body: &str) {
    publish_to(node, publisher, b"", headers, body);
}

fn publish_to(
    node: &mut Node,
    publisher: &mut Publisher,
    exchange: &[u8],
    headers: &[(&str, Header)],
    body: &str,
) {
    let (format, head, body) = parts(headers, body);
    let publish = Publish {
        exchange,
        routing_key: b"q",
        more: None,
        headers: &NoHeaders,
        format,
        durable: true,
        priority: None,
        ttl_ms: None,
        head: &[&head],
        body: &[&body],
        confirm: true,
    };
    node.shards[0].publish(node.now, publisher, &publish).unwrap();
    node.settle();
}

fn with(more: &[(&'static str, Value)]) -> Vec<(&'static str, Value)> {
    let mut arguments = vec![("x-message-deduplication", Value::Bool(true))];
    arguments.extend_from_slice(more);
    arguments
}

fn ready(node: &mut Node) -> u64 {
    ready_in(node, "q")
}

fn ready_in(node: &mut Node, queue: &str) -> u64 {
    node.settle();
    let rows: Vec<_> = node.shards[0].listing().rows().filter(|row| &*row.definition.name == queue).collect();
    rows[0].ready
}

fn count(node: &mut Node) -> String {
    node.take_seen();
    node.command(0, "q", QueueCommand::Counts { token: 8 });
    node.settle();
    node.take_seen().join(", ")
}

#[test]
fn duplicates_are_confirmed_and_not_there() {
    for kind in ["classic", "quorum"] {
        let mut node = Node::new(1);
        node.declare_with(0, "q", true, &with(&[("x-queue-type", Value::text(kind))]));
        let mut publisher = node.publisher(0);
        for body in ["a", "b", "c"] {
            publish(&mut node, &mut publisher, &[(HEADER, Text091("k"))], body);
        }
        assert_eq!(node.take_seen(), ["0: 5 confirmed 1-1", "0: 5 confirmed 2-2", "0: 5 confirmed 3-3"]);
        assert_eq!(count(&mut node), "0: declared q 1 0");
        // Neither its end in the queue nor a purge makes room for another.
        node.command(0, "q", QueueCommand::Purge { token: 1 });
        node.settle();
        publish(&mut node, &mut publisher, &[(HEADER, Text091("k"))], "d");
        assert_eq!(count(&mut node), "0: declared q 0 0");
        publish(&mut node, &mut publisher, &[], "no key");
        publish(&mut node, &mut publisher, &[], "no key");
        publish(&mut node, &mut publisher, &[("other", Text091("k"))], "no key");
        assert_eq!(count(&mut node), "0: declared q 3 0");
    }
}

#[test]
fn the_same_value_is_the_same_key_over_both_protocols() {
    let rows: &[(&[Header], u64)] = &[
        (&[Text091("k"), Text10("k")], 1),
        (&[Text091("7"), Int091(7)], 2),
        (&[Int091(7), Long10(7), Int091(-7)], 2),
        (&[Text091(""), Text10("")], 1),
    ];
    for (headers, expected) in rows {
        let mut node = Node::new(1);
        node.declare_with(0, "q", true, &with(&[]));
        let mut publisher = node.publisher(0);
        for header in *headers {
            publish(&mut node, &mut publisher, &[(HEADER, *header)], "x");
        }
        assert_eq!(ready(&mut node), *expected);
    }
}

#[test]
fn the_window_is_as_was_asked_for() {
    let mut node = Node::new(1);
    let arguments =
        [("x-cache-size", Value::long(2)), ("x-cache-ttl", Value::long(1000)), (HEADER, Value::text("id"))];
    node.declare_with(0, "q", true, &with(&arguments));
    let mut publisher = node.publisher(0);
    let mut send = |node: &mut Node, headers: &[(&str, Header)], expected: u64| {
        publish(node, &mut publisher, headers, "x");
        assert_eq!(ready(node), expected);
    };
    send(&mut node, &[(HEADER, Text091("a"))], 1);
    send(&mut node, &[(HEADER, Text091("a"))], 2);
    send(&mut node, &[("id", Text091("a"))], 3);
    send(&mut node, &[("id", Text091("b")), ("x-cache-ttl", Int091(5000))], 4);
    send(&mut node, &[("id", Text091("a"))], 4);
    node.pass(1000);
    send(&mut node, &[("id", Text091("a"))], 5);
    send(&mut node, &[("id", Text091("b"))], 5);
    // The third key takes the room of the first.
    send(&mut node, &[("id", Text091("c"))], 6);
    send(&mut node, &[("id", Text091("b"))], 7);
}

#[test]
fn a_restart_remembers() {
    let mut node = Node::new(1);
    node.declare_with(0, "q", true, &with(&[]));
    let mut publisher = node.publisher(0);
    for key in ["a", "b", "a"] {
        publish(&mut node, &mut publisher, &[(HEADER, Text091(key))], key);
    }
    let mut shard = node.restarted();
    assert!(shard.finish_recovery(node.now).is_empty());
    node.shards[0] = shard;
    let port = node.ports[0];
    node.shards[0].open_port(port, Node::actor(port));
    let mut publisher = node.publisher(0);
    for key in ["a", "b", "c", "c"] {
        publish(&mut node, &mut publisher, &[(HEADER, Text091(key))], key);
    }
    assert_eq!(ready(&mut node), 3);
}

/// A queue, its arguments, and how many messages are in it.
type Filled<'a> = (&'a str, &'a [(&'static str, Value)], u64);

/// Queues of one log that these messages go to, of which each has so many records.
fn check_together(queues: &[Filled<'_>], messages: &[&[(&str, Header)]], records: usize) {
    let mut node = Node::with_logs(1, 1, Limits::default());
    for (name, arguments, _) in queues {
        node.declare_with(0, name, true, arguments);
        let (queue, exchange) = ((*name).into(), "amq.fanout".into());
        let bind = Op::BindQueue { queue, exchange, key: "".into(), arguments: Default::default() };
        node.shards[0].request(node.now, node.ports[0], 1, bind);
        node.settle();
        node.take_seen();
    }
    let mut publisher = node.publisher(0);
    for headers in messages {
        publish_to(&mut node, &mut publisher, b"amq.fanout", headers, "x");
    }
    let confirms =
        (1..=messages.len()).map(|number| vec![format!("0: 5 confirmed {number}-{number}"); records]);
    assert_eq!(node.take_seen(), confirms.collect::<Vec<_>>().concat());
    for (name, arguments, expected) in queues {
        assert_eq!(ready_in(&mut node, name), *expected, "{name} {arguments:?}");
    }
}

#[test]
fn queues_of_one_log_go_by_their_own_headers() {
    let by = |header: &str| with(&[(HEADER, Value::text(header))]);
    let (usual, one, other) = (with(&[]), by("one"), by("other"));
    let grouped = with(&[("x-group-key", Value::text("one"))]);
    let messages: &[&[(&str, Header)]] = &[
        &[("one", Text091("a")), ("other", Text091("a")), (HEADER, Text091("a"))],
        &[("one", Text091("a")), ("other", Text091("b"))],
        &[("one", Text10("b")), ("other", Text10("b")), (HEADER, Text10("a"))],
        &[],
    ];
    check_together(&[("p", &[], 4), ("q", &one, 3), ("r", &other, 3), ("s", &usual, 3)], messages, 3);
    check_together(&[("q", &usual, 3), ("r", &usual, 3), ("s", &grouped, 3)], messages, 2);
    check_together(&[("p", &[], 4), ("q", &grouped, 3)], messages, 1);
}
