//! Queues that are filled from a stream refer to what is on disk there: it is not copied, is as it would be if it were, and stays
//! as long as a queue needs it.

use crate::node;

use base::Random;
use base::id::{LogId, LogIndex, QueueSeq};
use broker::catalog::VhostId;
use broker::{Credit, Limits, NewConsumer, NewMessages, QueueCommand, ReadWhat, StreamCommand};
use journal::{Disk, FileKind, FileName};
use message::chunk::Entry;
use message::record::{self, Appended, Kind, Outcome};
use node::Node;
use routing::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use stream_files::{Strays, stream_files};

const LOG: LogId = LogId(0);

/// Bytes of a body.
const BODY: usize = 4000;

fn body(number: usize) -> String {
    format!("{number}:{}", "x".repeat(BODY))
}

fn long(number: i64) -> Value {
    Value::long(number)
}

/// A node with a stream `s` of small segments.
fn node_with(limits: Limits) -> Node {
    let mut node = Node::with_limits(1, limits);
    let arguments =
        [("x-queue-type", Value::text("stream")), ("x-stream-max-segment-size-bytes", long(20_000))];
    node.declare_with(0, "s", true, &arguments);
    node
}

fn node() -> Node {
    node_with(Limits::default())
}

fn declare(node: &mut Node, name: &str, more: &[(&str, Value)]) {
    node.declare_with(0, name, true, &[&[("x-source-stream", Value::text("s"))], more].concat());
    node.work();
}

/// Appends messages to the stream, in one chunk: as they are, with what makes them entries in front.
fn append(node: &mut Node, messages: &[Vec<u8>]) {
    let entry = |message: &Vec<u8>| [&(message.len() as u32).to_be_bytes()[..], message].concat();
    let entries: Vec<Vec<u8>> = messages.iter().map(entry).collect();
    let messages = entries.iter().map(|entry| Appended {
        publishing_id: 0,
        filter_value: b"",
        entry: Entry::split(entry).unwrap().0,
    });
    let new = NewMessages { publisher: 9, first: 1, reference: None, has_filters: false, messages };
    let (now, port) = (node.now, node.ports[0]);
    let stream = node.shards[0].catalog().queue_by_name(VhostId(0), b"s").unwrap().clone();
    node.shards[0].append(now, port, stream.log, stream.id, new).unwrap();
}

/// A message of one data section.
fn data(body: &str) -> Vec<u8> {
    let len = (body.len() as u32).to_be_bytes();
    [&b"\0\x53\x75\xB0"[..], &len, body.as_bytes()].concat()
}

/// Appends these messages, each in a chunk of its own.
fn fill(node: &mut Node, numbers: std::ops::Range<usize>) {
    for number in numbers {
        append(node, &[data(&body(number))]);
        node.work();
    }
    node.take_seen();
}

/// The content of a snapshot, and the index it reaches to.
type Snapshot = (LogIndex, Vec<u8>);

/// Everything is on disk for good.
fn snapshot(node: &mut Node) -> Snapshot {
    one_snapshot(node);
    one_snapshot(node)
}

fn one_snapshot(node: &mut Node) -> Snapshot {
    node.work();
    let snapshot = node.shards[0].snapshot(LOG, false).unwrap();
    for job in node.shards[0].logs_mut().take_stream_syncs(LOG) {
        let done = job.carry_out(&node.disk);
        assert!(done.is_durable() && done.failure().is_none());
        node.shards[0].stream_done(node.now, done);
    }
    node.shards[0].logs_mut().snapshot_written(LOG);
    node.take_seen();
    (snapshot.covered, snapshot.bytes.to_vec())
}

/// The node goes down at once and comes up from what is on disk.
fn kill(node: &mut Node, snapshot: Option<&Snapshot>) {
    let mut shard = Node::fresh();
    if let Some((covered, bytes)) = snapshot {
        shard.restore(LOG, *covered, bytes).unwrap();
    }
    let kept = shard.logs_mut().recover_streams(LOG, &stream_files(&node.disk, LOG).unwrap());
    let mut strays = Strays::set_aside(&node.disk, &BTreeMap::from([(LOG, kept)])).unwrap();
    let mut jobs = Vec::new();
    for (_, sealed, place) in &node.written {
        shard.replay(LOG, sealed.base, sealed.records(), *place).unwrap();
        shard.take_stream_jobs(&mut jobs);
        for job in jobs.drain(..) {
            shard.stream_done(node.now, job.carry_out(&node.disk));
        }
    }
    node.unwritten.clear();
    strays.note_made(&node.disk, LOG, &shard.logs().stream_segments(LOG)).unwrap();
    assert!(shard.finish_recovery(node.now).is_empty());
    assert_eq!(strays.end(&node.disk, true, |_| false), Ok(Vec::new()));
    shard.open_port(node.ports[0], Node::actor(node.ports[0]));
    node.shards[0] = shard;
    node.take_seen();
}

/// Works and reads until nothing comes any more.
fn rest(node: &mut Node) {
    loop {
        let before = (node.seen.len(), node.written.len());
        node.work();
        for _ in 0..6 {
            node.read();
        }
        node.work();
        if (node.seen.len(), node.written.len()) == before {
            return;
        }
    }
}

/// The numbers of the messages that were handed out since.
fn came(node: &mut Node) -> Vec<usize> {
    rest(node);
    let seen = node.take_seen();
    let number = |line: &String| {
        let at = line.find(":x")?;
        let digits = line.as_bytes()[..at].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        line[at - digits..at].parse().ok()
    };
    seen.iter()
        .filter(|line| line.contains(" gets ") || line.contains(" takes "))
        .filter_map(number)
        .collect()
}

/// All that is in a queue: a consumer takes it and gives it back.
fn holds(node: &mut Node, queue: &str) -> Vec<usize> {
    node.look_into(queue, came)
}

/// Somebody looks at all of the queue and takes nothing.
fn browse(node: &mut Node) {
    let consumer = NewConsumer {
        credit: Credit::Prefetch(0),
        settled: true,
        exclusive: false,
        priority: 0,
        browses: Some(QueueSeq(0).into()),
        timeout_ms: None,
    };
    node.command(0, "q", QueueCommand::Consume { token: 2, handle: 9, consumer });
}

/// Bytes of records that were written from this batch on.
fn written(node: &Node, from: usize) -> usize {
    node.written[from..].iter().map(|(_, sealed, _)| sealed.len).sum()
}

/// Messages that were written from this batch on as references.
fn referred(node: &Node, from: usize) -> usize {
    let count = |mut records: &[u8]| {
        let mut count = 0;
        while let Some((kind, _, rest)) = record::split(records) {
            count += usize::from(kind == Kind::Refer);
            records = rest;
        }
        count
    };
    node.written[from..].iter().map(|(_, sealed, _)| count(sealed.records())).sum()
}

/// The first messages of the stream are let go of.
fn truncate(node: &mut Node, before: u64) {
    let command = StreamCommand::Truncate { token: 3, before };
    node.command(0, "s", QueueCommand::Stream(Box::new(command)));
    node.work();
    let seen = node.take_seen();
    assert!(seen.iter().any(|line| line.contains("Truncated")), "{seen:?}");
}

/// Segments with a file.
fn files(node: &Node) -> usize {
    stream_files(&node.disk, LOG).unwrap().len()
}

fn delete(node: &mut Node, queue: &str) {
    node.command(0, queue, QueueCommand::Delete { token: 5, if_unused: false, if_empty: false });
    node.work();
    // The record that ends a queue is written before long, and waits for no other.
    node.pass(1_000);
    node.work();
    node.take_seen();
}

/// Twenty messages in five segments on disk, which `q` is fed without a copy.
fn fed() -> Node {
    let mut node = node();
    fill(&mut node, 0..20);
    snapshot(&mut node);
    let from = node.written.len();
    declare(&mut node, "q", &[]);
    assert!(written(&node, from) < 20 * 120, "{}", written(&node, from));
    node
}

#[test]
fn bodies_are_not_in_the_log() {
    let mut node = fed();
    assert_eq!(holds(&mut node, "q"), (0..20).collect::<Vec<_>>());
    // A message that is not on disk for good is copied; so is a small one.
    let from = node.written.len();
    fill(&mut node, 20..22);
    assert!(written(&node, from) > 4 * BODY);
    assert_eq!(holds(&mut node, "q"), (0..22).collect::<Vec<_>>());
    append(&mut node, &[data("22:x"), data(&body(23))]);
    let kept = snapshot(&mut node);
    let from = node.written.len();
    declare(&mut node, "r", &[("x-source-offset", long(22))]);
    assert!(written(&node, from) < 1000);
    assert_eq!(holds(&mut node, "r"), [22, 23]);
    kill(&mut node, Some(&kept));
    assert_eq!(holds(&mut node, "r"), [22, 23]);
    assert_eq!(holds(&mut node, "q"), (0..24).collect::<Vec<_>>());
}

/// Which messages are barriers is not in a reference.
#[test]
fn a_queue_with_barriers_is_fed_copies() {
    let mut node = node();
    fill(&mut node, 0..4);
    snapshot(&mut node);
    let from = node.written.len();
    declare(&mut node, "q", &[("x-barrier-expression", Value::text("SIZE() > 0"))]);
    assert_eq!(referred(&node, from), 0);
    assert!(written(&node, from) > 4 * BODY);
    let row = node.shards[0].listing().rows().find(|row| &*row.definition.name == "q");
    assert_eq!(row.and_then(|row| row.barriers), Some((4, 0)));
    node.consume(0, "q", 7, 9);
    node.consume(0, "q", 8, 9);
    rest(&mut node);
    let told = node.take_seen();
    let told: Vec<(&str, &str)> = told
        .iter()
        .filter_map(|line| Some((line.split_once(" barrier ")?.0, line.rsplit_once('@')?.1)))
        .collect();
    let expected: Vec<_> =
        ["0", "1", "2", "3"].iter().flat_map(|at| [("0: 7 gets", *at), ("0: 8 gets", *at)]).collect();
    assert_eq!(told, expected);
}

/// A message that has just come is flushed for a queue that is behind by much, and not copied.
#[test]
fn a_queue_that_is_behind_has_the_stream_flushed() {
    for (behind, copies) in [(1, true), (4, false)] {
        let mut node = node_with(Limits { feed_sync_bytes_min: 10_000, ..Limits::default() });
        // Snapshots know the segment; what comes is in it.
        fill(&mut node, 100..101);
        snapshot(&mut node);
        declare(&mut node, "q", &[("x-source-offset", Value::text("next"))]);
        node.shards[0].logs_mut().hold_feeds(true);
        fill(&mut node, 0..behind);
        node.shards[0].logs_mut().hold_feeds(false);
        let from = node.written.len();
        assert_eq!(holds(&mut node, "q"), (0..behind).collect::<Vec<_>>());
        assert_eq!(written(&node, from) > BODY, copies);
    }
}

/// Memory that holds a message's record, or the message, and not both.
#[test]
fn little_memory_is_enough() {
    let limits =
        Limits { resident_bytes_max: 0, loaded_bytes_max: 0, read_bytes_max: 0, ..Limits::default() };
    let mut node = node_with(limits);
    fill(&mut node, 0..20);
    snapshot(&mut node);
    declare(&mut node, "q", &[]);
    declare(&mut node, "r", &[]);
    node.consume(0, "q", 4, 0);
    node.consume(0, "r", 5, 0);
    let mut came = came(&mut node);
    came.sort_unstable();
    assert_eq!(came, (0..40).map(|at| at / 2).collect::<Vec<_>>());
}

/// With any content of the stream, and any kind of queue.
#[test]
fn what_is_handed_out_does_not_differ_in_a_byte() {
    let run = |limits: Limits, more: &[(&str, Value)]| {
        let mut node = node_with(limits);
        let mut publisher = node.publisher(0);
        node.publish(0, &mut publisher, "s", &body(0), true);
        node.publish(0, &mut publisher, "s", "small", true);
        node.work();
        let annotated = [&b"\0\x53\x70\xC0\x06\x03\x40\x50\x07\x52\x64\x40"[..], &data(&body(1))].concat();
        append(&mut node, &[data(&body(2)), vec![7; 5000], annotated, Vec::new()]);
        let kept = snapshot(&mut node);
        let from = node.written.len();
        declare(&mut node, "q", more);
        let bytes = written(&node, from);
        node.consume(0, "q", 4, 3);
        rest(&mut node);
        node.settled(0, "q", 4, (0, 1), Outcome::Accepted);
        node.settled(0, "q", 4, (2, 2), Outcome::Released);
        rest(&mut node);
        kill(&mut node, Some(&kept));
        node.consume(0, "q", 4, 0);
        rest(&mut node);
        (std::mem::take(&mut node.handed), bytes)
    };
    let rows: [&[(&str, Value)]; 4] = [
        &[],
        &[("x-queue-type", Value::text("quorum"))],
        &[("x-max-priority", long(9))],
        &[("x-max-length-bytes", long(1 << 20)), ("x-message-ttl", long(1 << 30))],
    ];
    for more in rows {
        let copied = run(Limits { referred_bytes_min: usize::MAX, ..Limits::default() }, more);
        let referred = run(Limits::default(), more);
        assert_eq!(referred.0, copied.0, "{more:?}");
        assert!(referred.0.len() > 8 && referred.1 + 3 * BODY < copied.1, "{more:?}");
    }
}

#[test]
fn it_is_got_browsed_and_dead_lettered() {
    let mut node = fed();
    for number in 0..3 {
        node.command(
            0,
            "q",
            QueueCommand::Get { token: 7, handle: 8, settled: true, behind: false, by_node: false },
        );
        assert_eq!(came(&mut node), [number]);
    }
    browse(&mut node);
    assert_eq!(came(&mut node), (3..20).collect::<Vec<_>>());

    node.declare(0, "dead", true);
    let more = [
        ("x-dead-letter-exchange", Value::text("")),
        ("x-dead-letter-routing-key", Value::text("dead")),
        ("x-queue-type", Value::text("quorum")),
    ];
    declare(&mut node, "r", &more);
    node.consume(0, "r", 4, 5);
    assert_eq!(came(&mut node), [0, 1, 2, 3, 4]);
    node.settled(0, "r", 4, (1, 2), Outcome::Rejected);
    assert_eq!(came(&mut node), [5, 6]);
    assert_eq!(holds(&mut node, "dead"), [1, 2]);
}

/// Messages of such a queue and others, in turn.
#[test]
fn what_is_published_to_it_is_in_its_place() {
    let mut node = fed();
    let mut publisher = node.publisher(0);
    node.publish(0, &mut publisher, "q", &body(100), true);
    fill(&mut node, 20..21);
    let kept = snapshot(&mut node);
    declare(&mut node, "r", &[]);
    node.publish(0, &mut publisher, "r", &body(101), true);
    let expected: Vec<usize> = (0..20).chain([100, 20]).collect();
    assert_eq!(holds(&mut node, "q"), expected);
    kill(&mut node, Some(&kept));
    assert_eq!(holds(&mut node, "q"), expected);
    assert_eq!(holds(&mut node, "r"), (0..21).chain([101]).collect::<Vec<_>>());
}

#[test]
fn what_lives_in_old_journal_files_is_moved_as_a_reference() {
    let mut node = fed();
    let job = node.shards[0].logs().begin_move(LOG, LogIndex(u64::MAX)).unwrap();
    let moved = job.carry_out(&node.disk, 20 * 200, || 1).unwrap();
    node.shards[0].finish_move(&moved);
    assert_eq!(holds(&mut node, "q"), (0..20).collect::<Vec<_>>());
    let kept = snapshot(&mut node);
    node.written.clear();
    kill(&mut node, Some(&kept));
    assert_eq!(holds(&mut node, "q"), (0..20).collect::<Vec<_>>());
}

#[test]
fn segments_stay_while_a_queue_needs_them() {
    for restarts in [false, true] {
        let mut node = fed();
        let all = files(&node);
        assert!(all >= 4);
        let kept = snapshot(&mut node);
        truncate(&mut node, 19);
        if restarts {
            kill(&mut node, Some(&kept));
            node.work();
        }
        assert_eq!(files(&node), all);
        assert_eq!(holds(&mut node, "q"), (0..20).collect::<Vec<_>>());
        let kept = snapshot(&mut node);
        if restarts {
            kill(&mut node, Some(&kept));
        }
        // A message that is taken and settled lets go of the segments it was in.
        node.consume(0, "q", 4, 10);
        rest(&mut node);
        node.settled(0, "q", 4, (0, 9), Outcome::Accepted);
        node.pass(1_000);
        rest(&mut node);
        assert_eq!((files(&node), all), (2, 4));
        node.command(0, "q", QueueCommand::Cancel { token: None, handle: 4, held: broker::Held::GoesBack });
        node.command(0, "q", QueueCommand::Purge { token: 8 });
        node.pass(1_000);
        rest(&mut node);
        assert_eq!(files(&node), 1);
        kill(&mut node, Some(&kept));
        node.work();
        assert_eq!(files(&node), 1);
        assert!(holds(&mut node, "q").is_empty());
    }
}

/// In the middle of what a queue holds.
#[test]
fn a_segment_between_others_goes_when_a_snapshot_is_made() {
    let mut node = fed();
    truncate(&mut node, 19);
    let all = files(&node);
    node.consume(0, "q", 4, 0);
    rest(&mut node);
    node.settled(0, "q", 4, (1, 15), Outcome::Accepted);
    node.pass(1_000);
    rest(&mut node);
    assert_eq!(files(&node), all);
    snapshot(&mut node);
    node.work();
    assert!(files(&node) < all);
    let left = files(&node);
    node.settled(0, "q", 4, (0, 0), Outcome::Accepted);
    node.pass(1_000);
    rest(&mut node);
    assert!(files(&node) < left);
}

/// A crash may lose the record that a message was settled: until it is on disk, the message must be.
#[test]
fn a_segment_stays_until_it_is_on_disk_that_nobody_needs_it() {
    let mut node = fed();
    let kept = snapshot(&mut node);
    truncate(&mut node, 19);
    node.consume(0, "q", 4, 0);
    rest(&mut node);
    let all = files(&node);
    node.settled(0, "q", 4, (0, 18), Outcome::Accepted);
    // Applied, and not written.
    node.turn();
    let mut jobs = Vec::new();
    node.shards[0].take_stream_jobs(&mut jobs);
    assert!(jobs.is_empty(), "{jobs:?}");
    kill(&mut node, Some(&kept));
    assert_eq!(files(&node), all);
    assert_eq!(holds(&mut node, "q"), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_limit_of_the_queue_bounds_what_it_holds() {
    let mut node = node();
    fill(&mut node, 0..20);
    snapshot(&mut node);
    let all = files(&node);
    declare(&mut node, "q", &[("x-max-length", long(2))]);
    truncate(&mut node, 20);
    rest(&mut node);
    assert!(files(&node) <= 2 && all > 3);
    assert_eq!(holds(&mut node, "q"), [18, 19]);
}

#[test]
fn a_stream_that_is_deleted_takes_nothing_from_the_queue() {
    for restarts in [false, true] {
        let mut node = fed();
        let kept = snapshot(&mut node);
        delete(&mut node, "s");
        let all = files(&node);
        assert!(all >= 4);
        if restarts {
            kill(&mut node, Some(&kept));
            node.work();
            assert_eq!(files(&node), all);
            let kept = snapshot(&mut node);
            kill(&mut node, Some(&kept));
        }
        assert_eq!(holds(&mut node, "q"), (0..20).collect::<Vec<_>>());
        // A new stream takes no file of the one before.
        node.declare_with(0, "s", true, &[("x-queue-type", Value::text("stream"))]);
        fill(&mut node, 50..52);
        assert_eq!(holds(&mut node, "q"), (0..20).collect::<Vec<_>>());
        if restarts {
            // From before the other was deleted: its segments and theirs are told apart.
            kill(&mut node, Some(&kept));
            assert_eq!(holds(&mut node, "q"), (0..20).collect::<Vec<_>>());
        }
        delete(&mut node, "q");
        rest(&mut node);
        // The new stream is not written yet.
        assert_eq!(files(&node), 0);
    }
}

/// Of which version a snapshot's part is that is about streams.
fn version(node: &Node, (_, bytes): &Snapshot) -> u8 {
    let stream = node.shards[0].catalog().queue_by_name(VhostId(0), b"s").unwrap().id;
    let head = [1u64.to_le_bytes(), stream.0.to_le_bytes()].concat();
    // | version (4) | next file (8) | one stream | its id | length (4) | the stream's snapshot
    let is_head = |window: &[u8]| window[..16] == head && window[20..] == *b"LvSs";
    let mut found = bytes
        .windows(24)
        .enumerate()
        .filter(|(at, window)| is_head(window) && matches!(bytes[at - 12..at - 8], [1 | 2, 0, 0, 0]));
    let (at, _) = found.next().unwrap();
    assert_eq!(found.next(), None);
    bytes[at - 12]
}

/// A folder of a version that copied all is gone on with; and is like one again where nothing refers any more.
#[test]
fn what_was_copied_stays_and_what_comes_is_referred_to() {
    let mut node = node_with(Limits { referred_bytes_min: usize::MAX, ..Limits::default() });
    fill(&mut node, 0..10);
    declare(&mut node, "q", &[]);
    let kept = snapshot(&mut node);
    assert_eq!(version(&node, &kept), 1);
    fill(&mut node, 10..12);
    assert_eq!(referred(&node, 0), 0);
    // It comes up with the limits that there are by default.
    kill(&mut node, Some(&kept));
    node.work();
    node.shards[0].logs_mut().hold_feeds(true);
    fill(&mut node, 12..20);
    snapshot(&mut node);
    node.shards[0].logs_mut().hold_feeds(false);
    node.work();
    assert_eq!(referred(&node, 0), 8);
    let kept = snapshot(&mut node);
    assert_eq!(version(&node, &kept), 2);
    kill(&mut node, Some(&kept));
    assert_eq!(holds(&mut node, "q"), (0..20).collect::<Vec<_>>());
    node.command(0, "q", QueueCommand::Purge { token: 8 });
    node.pass(1_000);
    let kept = snapshot(&mut node);
    assert_eq!(version(&node, &kept), 1);
}

/// The node goes down at every step of a stream's end, while its messages are on their way to a queue.
#[test]
fn a_stream_is_deleted_and_the_node_killed_right_then() {
    let mut outcomes = BTreeSet::new();
    for steps in 0..8 {
        let mut node = node();
        fill(&mut node, 0..20);
        let kept = snapshot(&mut node);
        node.shards[0].logs_mut().hold_feeds(true);
        declare(&mut node, "q", &[]);
        let from = node.written.len();
        node.shards[0].logs_mut().hold_feeds(false);
        if steps % 2 == 0 {
            // It is read, and taken out of the stream, and not on disk.
            node.turn();
            let mut jobs = Vec::new();
            node.shards[0].take_stream_jobs(&mut jobs);
            for job in jobs {
                node.shards[0].stream_done(node.now, job.carry_out(&node.disk));
            }
            node.turn();
            assert!(!node.unwritten.is_empty());
        }
        node.command(0, "s", QueueCommand::Delete { token: 5, if_unused: false, if_empty: false });
        for step in 0..steps / 2 {
            node.turn();
            if step > 0 {
                node.write();
            }
        }
        let mut jobs = Vec::new();
        node.shards[0].take_stream_jobs(&mut jobs);
        for job in jobs {
            job.carry_out(&node.disk);
        }
        let referred = referred(&node, from);
        outcomes.insert(referred > 0);
        kill(&mut node, Some(&kept));
        node.work();
        let is_there = node.shards[0].catalog().queue_by_name(VhostId(0), b"s").is_some();
        let held = holds(&mut node, "q");
        assert!(held.iter().copied().eq(0..held.len()), "{steps}: {held:?}");
        assert_eq!(held.len(), if is_there { 20 } else { referred }, "{steps}: {held:?}");
        if is_there {
            delete(&mut node, "s");
        }
        assert_eq!(holds(&mut node, "q"), held, "{steps}");
        // Messages that were not fed before are fed as copies: after a start no segment is known to two snapshots.
        assert_eq!(files(&node) > 0, referred > 0, "{steps}");
        delete(&mut node, "q");
        rest(&mut node);
        assert_eq!(files(&node), 0, "{steps}");
    }
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
}

/// The files go with the queue; what was to be read of them is asked for by nobody any more.
#[test]
fn a_queue_is_deleted_while_what_it_needs_is_read() {
    let mut node = node_with(Limits { resident_bytes_max: 0, ..Limits::default() });
    fill(&mut node, 0..20);
    snapshot(&mut node);
    declare(&mut node, "q", &[]);
    node.consume(0, "q", 4, 0);
    node.settle();
    let mut reads = Vec::new();
    for _ in 0..4 {
        node.shards[0].take_reads(&mut reads);
        if reads.iter().any(|read| read.parts.iter().any(|part| matches!(part, ReadWhat::Stretch(_)))) {
            break;
        }
        for mut read in reads.drain(..) {
            let brought = read.carry_out(&node.disk).into_iter().map(Result::unwrap).collect();
            node.shards[0].read_done(node.now, read, brought);
        }
        node.settle();
    }
    assert!(!reads.is_empty());
    delete(&mut node, "s");
    delete(&mut node, "q");
    node.work();
    assert_eq!(files(&node), 0);
    // Another in its place, and a stream of the same name.
    let mut publisher = node.publisher(0);
    node.declare(0, "r", true);
    node.publish(0, &mut publisher, "r", &body(100), true);
    node.work();
    node.consume(0, "r", 5, 0);
    node.settle();
    node.take_seen();
    for mut read in reads {
        let brought = read.carry_out(&node.disk).into_iter().map(|part| part.ok().flatten()).collect();
        node.shards[0].read_done(node.now, read, brought);
    }
    assert_eq!(came(&mut node), [100]);
}

/// One of the messages does not come, whoever asks for it; the others do.
#[test]
fn what_is_damaged_is_passed_over() {
    let damage = |node: &Node| {
        let name = FileName::of_log(FileKind::Stream, LOG, 1);
        let mut bytes = vec![0; node.disk.len(name).unwrap() as usize];
        node.disk.read_at(name, 0, &mut bytes).unwrap();
        let second = bytes.windows(3).position(|window| window == b"1:x").unwrap();
        node.disk.write_at(name, second as u64 + 9, &[IoSlice::new(b"y")]).unwrap();
    };
    let but_one = |numbers: std::ops::Range<usize>| numbers.filter(|at| *at != 1).collect::<Vec<_>>();
    let mut node = fed();
    damage(&node);
    node.consume(0, "q", 4, 0);
    assert_eq!(came(&mut node), but_one(0..20));
    let told = node.damages(0);
    let start =
        "queue 'q' in vhost '/', log 0: what is in streams/00000000-0000000000000001.stream from byte ";
    assert!(told.len() == 1 && told[0].starts_with(start), "{told:?}");

    let mut node = fed();
    damage(&node);
    browse(&mut node);
    assert_eq!(came(&mut node), but_one(0..20));
    for _ in 0..3 {
        node.command(
            0,
            "q",
            QueueCommand::Get { token: 7, handle: 8, settled: true, behind: false, by_node: false },
        );
    }
    assert_eq!(came(&mut node), [0, 2]);

    let mut node = fed();
    node.declare(0, "dead", true);
    let more = [
        ("x-dead-letter-exchange", Value::text("")),
        ("x-dead-letter-routing-key", Value::text("dead")),
        ("x-message-ttl", long(10_000)),
    ];
    declare(&mut node, "r", &more);
    damage(&node);
    node.pass(20_000);
    rest(&mut node);
    assert_eq!(holds(&mut node, "dead"), but_one(0..20));
}

/// In any order of events the content of the queue can be read, in order, once.
#[test]
fn nothing_is_lost_however_the_node_ends() {
    for seed in 0..40 {
        let mut dice = Random::new(seed);
        let mut node = node();
        declare(&mut node, "q", &[]);
        let (mut next, mut kept, mut settled) = (0, None, 0);
        for _ in 0..60 {
            match dice.below(12) {
                0..=3 => {
                    let numbers = next..next + 1 + dice.below(3) as usize;
                    next = numbers.end;
                    let messages: Vec<_> = numbers.map(|number| data(&body(number))).collect();
                    append(&mut node, &messages);
                }
                4..=5 => node.turn(),
                6..=7 => {
                    node.turn();
                    node.write();
                }
                8 => kept = Some(snapshot(&mut node)),
                // Messages that are on disk are fed from there.
                9 => {
                    node.shards[0].logs_mut().hold_feeds(true);
                    node.work();
                    kept = Some(snapshot(&mut node));
                    node.shards[0].logs_mut().hold_feeds(false);
                }
                10 => {
                    let held = holds(&mut node, "q");
                    assert!(held.iter().copied().eq(settled..settled + held.len()), "seed {seed}: {held:?}");
                    if held.len() > 1 {
                        node.consume(0, "q", 4, 1);
                        rest(&mut node);
                        let at = settled as u64;
                        node.settled(0, "q", 4, (at, at), Outcome::Accepted);
                        node.command(
                            0,
                            "q",
                            QueueCommand::Cancel { token: None, handle: 4, held: broker::Held::GoesBack },
                        );
                        node.work();
                        node.pass(1_000);
                        settled += 1;
                        // Only what was fed is let go of.
                        truncate(&mut node, (settled + held.len() - 1) as u64);
                    }
                }
                _ => {
                    kill(&mut node, kept.as_ref());
                    node.work();
                    let stream = holds(&mut node, "q");
                    next = stream.last().map_or(settled, |last| last + 1);
                }
            }
        }
        node.work();
        let held = holds(&mut node, "q");
        assert!(held.iter().copied().eq(settled..next), "seed {seed}: {held:?} {settled} {next}");
    }
}

/// No queue has the number that stands for none: a snapshot that says so was not written here.
#[test]
fn a_snapshot_in_which_nobody_refers_is_refused() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    let whole = snapshot(&mut node).1;
    let catalog_len = u32::from_le_bytes(*whole.first_chunk().unwrap()) as usize;
    let restore = |queue: u64| {
        // No queue; of streams the version, the next file and none; one that refers to one message; no doomed file.
        let numbers = [[9, 0], [1, queue], [1, 0], [0, 12], [0, 0]].concat();
        let mut bytes = [&whole[..4 + catalog_len], &[0; 12], &[2, 0, 0, 0]].concat();
        numbers[..9].iter().for_each(|number: &u64| bytes.extend(number.to_le_bytes()));
        Node::fresh().restore(LogId(0), LogIndex(7), &bytes)
    };
    assert_eq!(restore(5), Ok(()));
    assert_eq!(restore(u64::MAX), Err(broker::RecoveryError::Snapshot(LogId(0))));
}
