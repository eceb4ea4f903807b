//! The breakdown of memory that the real binary reports under load: nearly all memory is in it.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of the shell, where these live"
)]

mod harness;

use harness::{Client, DURABLE, Folder, Node, ctl, frame, long, method, short};
use serde_json::Value;
use std::path::Path;

/// Percents of resident memory that may be accounted for by nothing, or counted and not there.
const UNACCOUNTED_MAX: u64 = 10;

/// The breakdown as the tool tells it, which is nearly all of the resident memory.
fn checked(folder: &Path, what: &str) -> Value {
    let told = ctl(folder, &["status", "--formatter", "json"]);
    let status: Value = serde_json::from_slice(&told.stdout).expect("json");
    let memory = status["memory"].clone();
    let number = |value: &Value| value.as_u64().expect("a number");
    let [resident, allocated] = ["rss", "allocated"].map(|name| number(&memory["total"][name]));
    let unaccounted = resident.abs_diff(allocated);
    assert!(unaccounted * 100 <= resident * UNACCOUNTED_MAX, "{what}: {unaccounted} of {memory:#}");
    memory
}

fn pool(memory: &Value, name: &str) -> u64 {
    memory[name].as_u64().unwrap_or_else(|| panic!("there is no {name} in {memory:#}"))
}

/// Messages of a size to a queue, which are all confirmed.
fn publish(client: &mut Client, queue: &str, count: u32, bytes: usize) {
    client.send(&method(85, 10, &[0]));
    client.until(85, 11);
    // Not persistent: these stay in memory.
    let length = (bytes as u64).to_be_bytes();
    let header = [&[0, 60, 0, 0][..], &length, &[0x10, 0], &[1]].concat();
    let publish = method(60, 40, &[&[0, 0], &short("")[..], &short(queue), &[0]].concat());
    let message = [publish, frame(2, &header), frame(3, &vec![b'x'; bytes])].concat();
    let mut confirmed = 0;
    for sent in (1..=count).map(u64::from) {
        client.send(&message);
        while sent == u64::from(count) && confirmed < sent || sent - confirmed > 1000 {
            let told = client.until(60, 80);
            confirmed = told[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        }
    }
}

#[test]
fn nearly_all_memory_is_accounted_for() {
    let folder = Folder::new();
    let node = Node::start(&folder.0, &["leveret.shards=2"]);
    let mut client = Client::open(&node);

    let idle: Vec<Client> = (0..3000).map(|_| Client::open(&node)).collect();
    let memory = checked(&folder.0, "3,000 connections");
    assert!(pool(&memory, "connection_channels") > 3000 * 500, "{memory:#}");

    client.declare("q", DURABLE, b"");
    publish(&mut client, "q", 50_000, 1000);
    let memory = checked(&folder.0, "and 50,000 messages");
    // Most have left memory for the disk.
    assert!(pool(&memory, "binary") + pool(&memory, "msg_index") > 1_000_000, "{memory:#}");

    let mut consumer = Client::open(&node);
    consumer.send(&method(60, 20, &[&[0, 0], &short("q")[..], &short("tag"), &[0], &long(b"")].concat()));
    consumer.until(60, 21);
    checked(&folder.0, "on their way to a consumer that reads nothing");
    drop(consumer);

    for number in 0..5000 {
        client.declare(&format!("queue-{number}"), DURABLE, b"");
    }
    let memory = checked(&folder.0, "and 5,000 queues");
    assert!(
        pool(&memory, "metadata_store") > 5000 * 200 && pool(&memory, "queue_procs") > 5000 * 200,
        "{memory:#}"
    );

    drop((idle, client));
    let memory = checked(&folder.0, "the connections have gone");
    assert!(pool(&memory, "connection_channels") < 3000 * 200, "{memory:#}");
    assert_eq!(node.stop().code(), Some(0));
}
