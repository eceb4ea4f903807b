//! A node with a stream `s`, and what is said to it.

use crate::node::Node;
use base::id::LogId;
use broker::catalog::VhostId;
use broker::{Credit, NewConsumer, NewMessages, QueueCommand, StreamCommand, StreamFilter, StreamFrom};
use message::amqp10::section::data_prefix;
use message::chunk::Entry;
use message::record::{Appended, Format};
use routing::Value;

/// A node of so many shards whose first log has the stream.
pub fn node(shards: u16) -> Node {
    let mut node = Node::new(shards);
    let log = node.declare_with(0, "s", true, &[("x-queue-type", Value::text("stream"))]);
    assert_eq!(log, LogId(0));
    node
}

pub fn ask(node: &mut Node, port: usize, command: StreamCommand) -> Vec<String> {
    node.command(port, "s", QueueCommand::Stream(Box::new(command)));
    node.work();
    node.take_seen()
}

/// An entry of a chunk: an AMQP 1.0 message of one data section.
pub fn entry(body: &str) -> Vec<u8> {
    let (prefix, len) = data_prefix(body.len());
    let message = [&prefix[..len], body.as_bytes()].concat();
    [&(message.len() as u32).to_be_bytes()[..], &message].concat()
}

/// Appends messages with these publishing ids, filter values and bodies.
pub fn append(
    node: &mut Node,
    port: usize,
    first: u64,
    reference: Option<&str>,
    messages: &[(u64, &str, &str)],
) {
    let entries: Vec<Vec<u8>> = messages.iter().map(|(_, _, body)| entry(body)).collect();
    append_entries(node, port, first, reference, messages, &entries);
}

pub fn append_entries(
    node: &mut Node,
    port: usize,
    first: u64,
    reference: Option<&str>,
    messages: &[(u64, &str, &str)],
    entries: &[Vec<u8>],
) {
    append_unwritten(node, port, first, reference, messages, entries);
    node.work();
}

/// As [`append_entries`], and nothing of it is on disk.
pub fn append_unwritten(
    node: &mut Node,
    port: usize,
    first: u64,
    reference: Option<&str>,
    messages: &[(u64, &str, &str)],
    entries: &[Vec<u8>],
) {
    let all = messages.iter().zip(entries).map(|((publishing_id, filter_value, _), entry)| Appended {
        publishing_id: *publishing_id,
        filter_value: filter_value.as_bytes(),
        entry: Entry::split(entry).unwrap().0,
    });
    let has_filters = messages.iter().any(|(_, filter_value, _)| !filter_value.is_empty());
    let reference = reference.map(str::as_bytes);
    let new = NewMessages { publisher: 9, first, reference, has_filters, messages: all };
    let (now, id) = (node.now, node.ports[port]);
    let shard = &mut node.shards[port];
    let stream = shard.catalog().queue_by_name(VhostId(0), b"s").unwrap().clone();
    shard.append(now, id, stream.log, stream.id, new).unwrap();
}

pub fn consume_filtered(
    node: &mut Node,
    port: usize,
    handle: u32,
    credit: Credit,
    from: StreamFrom,
    filter: StreamFilter,
) -> Vec<String> {
    let (settled, exclusive, browses) = (false, false, None);
    let consumer = NewConsumer { credit, settled, exclusive, priority: 0, browses, timeout_ms: None };
    let format = Format::Amqp10;
    ask(
        node,
        port,
        StreamCommand::Consume {
            token: 2,
            handle,
            consumer,
            format,
            from,
            filter,
            rate: None,
            user: 0,
            name: None,
        },
    )
}
