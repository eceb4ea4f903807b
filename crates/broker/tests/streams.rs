//! Streams at their owner: what publishers append, what readers get, and what is there again after a restart.

use crate::node;
use crate::on_stream;

use base::id::{LogId, LogIndex, QueueSeq};
use broker::catalog::{Op, PolicyKind, VhostId};
use broker::{
    Credit, Event, Events, NewConsumer, NewMessages, QueueCommand, RecoveryError, SingleActive,
    StreamCommand, StreamFilter, StreamFrom, Wanted,
};
use filter::{Limits, Macros};
use message::amqp10::section::data_prefix;
use message::chunk::{Entry, SubBatch};
use message::record::{Appended, Format, Outcome, SeqRange};
use node::{NOW, Node};
use on_stream::{append, append_entries, append_unwritten, ask, consume_filtered, entry, node};
use queue::Fifo;
use queue::stream::Stream;
use routing::Value;
use std::collections::BTreeMap;
use stream_files::{Strays, stream_files};

fn consume(node: &mut Node, port: usize, handle: u32, credit: Credit, from: StreamFrom) -> Vec<String> {
    consume_filtered(node, port, handle, credit, from, StreamFilter::default())
}

/// A delivery to a consumer, as [`Node::seen`] shows it: bodies are data sections.
fn gets(port: usize, handle: u32, offset: u64, body: &str) -> String {
    let (prefix, len) = data_prefix(body.len());
    let body = [&prefix[..len], body.as_bytes()].concat();
    format!("{port}: {handle} gets {}@{offset}", String::from_utf8_lossy(&body))
}

#[test]
fn what_was_published_before_is_confirmed_and_not_stored() {
    // Once at the owner's shard, once by mail.
    for port in 0..2 {
        let mut node = node(2);
        append(&mut node, port, 1, Some("me"), &[(5, "", "a"), (7, "", "b")]);
        assert_eq!(node.take_seen(), [format!("{port}: 9 confirmed 1-2")]);
        append(&mut node, port, 3, Some("me"), &[(7, "", "b"), (8, "", "c"), (8, "", "d")]);
        assert_eq!(node.take_seen(), [format!("{port}: 9 confirmed 3-5")]);
        append(&mut node, port, 6, None, &[(7, "", "e")]);
        assert_eq!(node.take_seen(), [format!("{port}: 9 confirmed 6-6")]);
        let sequence =
            |reference: &str| StreamCommand::Sequence { token: 3, reference: reference.as_bytes().into() };
        assert_eq!(ask(&mut node, port, sequence("me")), [format!("{port}: Stream(Sequence(Some(8)))")]);
        assert_eq!(ask(&mut node, port, sequence("you")), [format!("{port}: Stream(Sequence(None))")]);
        let seen = consume(&mut node, port, 4, Credit::Prefetch(10), StreamFrom::First);
        let expected = [
            format!("{port}: Consuming"),
            gets(port, 4, 0, "a"),
            gets(port, 4, 1, "b"),
            gets(port, 4, 2, "c"),
            gets(port, 4, 3, "e"),
        ];
        assert_eq!(seen, expected);
    }
}

#[test]
fn chunks_come_for_credit() {
    let mut node = node(1);
    append(&mut node, 0, 1, None, &[(0, "", "a"), (0, "", "b")]);
    append(&mut node, 0, 3, None, &[(0, "", "c")]);
    append(&mut node, 0, 4, None, &[(0, "", "d")]);
    node.take_seen();
    let subscribe = StreamCommand::Subscribe {
        token: 2,
        handle: 6,
        from: StreamFrom::Offset(1),
        credit: 2,
        filter: StreamFilter::default(),
        group: None,
    };
    let expected = ["0: Consuming", "0: 6 gets chunk 0+2 of 3", "0: 6 gets chunk 2+1 of 3"];
    assert_eq!(ask(&mut node, 0, subscribe), expected);
    let credit = |chunks| StreamCommand::Credit { handle: 6, chunks };
    assert_eq!(ask(&mut node, 0, credit(5)), ["0: 6 gets chunk 3+1 of 3"]);
    append(&mut node, 0, 5, None, &[(0, "", "e")]);
    assert_eq!(node.take_seen(), ["0: 9 confirmed 5-5", "0: 6 gets chunk 4+1 of 4"]);
    // A paused subscription gets nothing, and later the chunks it missed.
    node.command(0, "s", QueueCommand::Pause { handle: 6, paused: true });
    append(&mut node, 0, 6, None, &[(0, "", "f")]);
    assert_eq!(node.take_seen(), ["0: 9 confirmed 6-6"]);
    node.command(0, "s", QueueCommand::Pause { handle: 6, paused: false });
    node.work();
    assert_eq!(node.take_seen(), ["0: 6 gets chunk 5+1 of 5"]);
    assert_eq!(ask(&mut node, 0, StreamCommand::Unsubscribe { token: 3, handle: 6 }), ["0: Cancelled"]);
    append(&mut node, 0, 7, None, &[(0, "", "g")]);
    assert_eq!(node.take_seen(), ["0: 9 confirmed 7-7"]);
}

#[test]
fn chunks_without_a_message_that_is_wanted_are_not_sent_and_cost_no_credit() {
    let mut node = node(1);
    append(&mut node, 0, 1, None, &[(0, "", "{\"n\":1}"), (0, "", "{\"n\":2}")]);
    append(&mut node, 0, 3, None, &[(0, "", "{\"n\":3}")]);
    append(&mut node, 0, 4, None, &[(0, "", "[{\"n\":1}]"), (0, "", "x")]);
    append(&mut node, 0, 6, None, &[(0, "", "{\"n\":1,")]);
    node.take_seen();
    let messages = Some(Wanted::parse(b"body.n < 3", Macros::none(), None).unwrap());
    let filter = StreamFilter { chunks: None, messages };
    let (from, group) = (StreamFrom::First, None);
    let subscribe = StreamCommand::Subscribe { token: 2, handle: 6, from, credit: 2, filter, group };
    let expected = ["0: Consuming", "0: 6 gets chunk 0+2 of 5", "0: 6 gets chunk 3+2 of 5"];
    assert_eq!(ask(&mut node, 0, subscribe), expected);
    append(&mut node, 0, 7, None, &[(0, "", "{\"n\":7}")]);
    assert_eq!(node.take_seen(), ["0: 9 confirmed 7-7"]);
    let credit = StreamCommand::Credit { handle: 6, chunks: 2 };
    assert_eq!(ask(&mut node, 0, credit), ["0: 6 gets chunk 5+1 of 6"]);
    append(&mut node, 0, 8, None, &[(0, "", "{\"n\":0}")]);
    assert_eq!(node.take_seen(), ["0: 9 confirmed 8-8", "0: 6 gets chunk 7+1 of 7"]);
}

fn subscribe(handle: u32, credit: u16) -> StreamCommand {
    let (filter, group) = (StreamFilter::default(), None);
    StreamCommand::Subscribe { token: 2, handle, from: StreamFrom::First, credit, filter, group }
}

#[test]
fn a_turn_that_a_member_left_behind_is_nobody_elses() {
    let mut node = node(1);
    append(&mut node, 0, 1, None, &[(0, "", "a")]);
    node.take_seen();
    let group = Some(SingleActive { name: "g".into(), partition: None });
    let (from, filter) = (StreamFrom::First, StreamFilter::default());
    let member = StreamCommand::Subscribe { token: 2, handle: 6, from, credit: 1, filter, group };
    // All in one turn: it comes, its turn comes, it leaves, and the next reader has its number.
    let commands = [member, StreamCommand::Unsubscribe { token: 3, handle: 6 }, subscribe(7, 1)];
    for command in commands {
        node.command(0, "s", QueueCommand::Stream(Box::new(command)));
    }
    node.work();
    let expected = ["0: Consuming", "0: Cancelled", "0: Consuming", "0: 7 gets chunk 0+1 of 0"];
    assert_eq!(node.take_seen(), expected);
}

fn in_group(handle: u32, partition: Option<u32>) -> StreamCommand {
    let group = Some(SingleActive { name: "g".into(), partition });
    let (from, filter) = (StreamFrom::First, StreamFilter::default());
    StreamCommand::Subscribe { token: 2, handle, from, credit: 1, filter, group }
}

/// Subscriptions to a stream that is restarted end at once, wherever they are: none has its turn because one before it
/// left.
#[test]
fn of_a_stream_that_is_restarted_nobody_becomes_active() {
    let active = |shard: usize, handle: u32, is| {
        let event = Event::Active { consumer: handle, active: is };
        format!("{shard}: {event:?}")
    };
    // Where members are, at the owner's shard or another, in the order they come; how many are told that they are active, or no
    // longer are, until all are there; and whether those have answered.
    let rows: [(&[usize], Option<u32>, bool); 8] = [
        (&[0, 1], None, true),
        (&[0, 1], None, false),
        (&[1, 0], None, true),
        (&[1, 1, 0], None, true),
        (&[0, 1, 0], Some(1), true),
        (&[0, 1, 0], Some(1), false),
        (&[1, 0, 1, 1], Some(2), true),
        (&[1], Some(0), true),
    ];
    for (members, partition, answers) in rows {
        let mut node = node(2);
        append(&mut node, 0, 1, None, &[(0, "", "a")]);
        let stream = node.shards[0].catalog().queue_by_name(VhostId(0), b"s").unwrap().id;
        let handle = |at: usize| 10 + at as u32;
        for (at, shard) in members.iter().enumerate() {
            node.shards[*shard].watch_queue(node.ports[*shard], stream, 0);
            let seen = ask(&mut node, *shard, in_group(handle(at), partition));
            assert_eq!(seen.iter().filter(|seen| seen.contains("Consuming")).count(), 1, "{seen:?}");
            if answers {
                for (at, shard) in members.iter().enumerate().take(at + 1) {
                    ask(
                        &mut node,
                        *shard,
                        StreamCommand::Continue { handle: handle(at), from: StreamFrom::Next },
                    );
                }
            }
        }
        // Others that read it: one without a group, which ends too, and one of messages, which goes on.
        ask(&mut node, 1, subscribe(5, 1));
        consume(&mut node, 1, 4, Credit::Prefetch(10), StreamFrom::Next);
        assert_eq!(ask(&mut node, 1, StreamCommand::Disband { token: 9 }), ["1: Cancelled"], "{members:?}");
        (0..2).for_each(|shard| node.shards[shard].stream_restarted(stream));
        node.work();
        let mut told: Vec<String> = node.take_seen();
        told.sort_unstable();
        let mut expected: Vec<String> = members
            .iter()
            .map(|shard| format!("{shard}: {:?}", Event::StreamRestarted { queue: stream }))
            .collect();
        expected.sort_unstable();
        assert_eq!(told, expected);
        // Commands they send before they hear of it find no subscription.
        for (at, shard) in members.iter().enumerate() {
            let handle = handle(at);
            assert_eq!(ask(&mut node, *shard, StreamCommand::Credit { handle, chunks: 1 }), [""; 0]);
            let answer = StreamCommand::Continue { handle, from: StreamFrom::First };
            assert_eq!(ask(&mut node, *shard, answer), [""; 0]);
            let leave = StreamCommand::Unsubscribe { token: 3, handle };
            assert_eq!(ask(&mut node, *shard, leave), [format!("{shard}: Cancelled")]);
        }
        append(&mut node, 0, 2, None, &[(0, "", "b")]);
        assert_eq!(node.take_seen(), ["0: 9 confirmed 2-2".to_owned(), gets(1, 4, 1, "b")]);
        // The group begins anew.
        let seen = ask(&mut node, 1, in_group(30, Some(0)));
        assert_eq!(seen, ["1: Consuming".to_owned(), active(1, 30, true)]);
    }
}

#[test]
fn large_chunks_wait_for_room_whatever_the_credit() {
    // Once at the owner's shard, once by mail.
    for port in 0..2 {
        let mut node = node(2);
        let body = "b".repeat(100_000);
        (1..=7).for_each(|first| append(&mut node, port, first, None, &[(0, "", &body)]));
        node.take_seen();
        let got = |chunk, asks| format!("{port}: 6 gets chunk {chunk}+1 of 6{asks}");
        let mut seen = ask(&mut node, port, subscribe(6, 100));
        assert_eq!(seen.remove(0), format!("{port}: Consuming"));
        assert_eq!(seen, [got(0, ""), got(1, ""), got(2, " and asks")]);
        node.work();
        assert_eq!(node.take_seen(), [""; 0]);
        let go_on = |node: &mut Node| {
            node.command(port, "s", QueueCommand::Pause { handle: 6, paused: false });
            node.work();
            node.take_seen()
        };
        assert_eq!(go_on(&mut node), [got(3, ""), got(4, ""), got(5, " and asks")]);
        assert_eq!(go_on(&mut node), [got(6, "")]);
    }
}

#[test]
fn many_readers_have_their_turns_one_after_the_other() {
    let mut node = node(1);
    for handle in 0..7 {
        ask(&mut node, 0, subscribe(handle, 10));
    }
    let body = "b".repeat(200_000);
    append(&mut node, 0, 1, None, &[(0, "", &body)]);
    // Readers that had no turn yet come before those that had theirs.
    append(&mut node, 0, 2, None, &[(0, "", &body)]);
    let seen = node.take_seen();
    for chunk in 0..2 {
        let of_chunk = format!("chunk {chunk}+1");
        let got = |handle: u32| {
            seen.iter()
                .position(|seen| seen.starts_with(&format!("0: {handle} ")) && seen.contains(&of_chunk))
        };
        let places: Vec<usize> =
            (0..7).map(|handle| got(handle).expect("everybody gets everything")).collect();
        assert!(places.is_sorted(), "{seen:?}");
    }
    for handle in 0..7 {
        node.command(0, "s", QueueCommand::Pause { handle, paused: false });
    }
    node.work();
    // Three have 600,000 bytes, which is as much as all get before others have their turn.
    let entry = entry(&body);
    let message = Appended { publishing_id: 0, filter_value: b"", entry: Entry::split(&entry).unwrap().0 };
    let messages = [message].into_iter();
    let new = NewMessages { publisher: 9, first: 3, reference: None, has_filters: false, messages };
    let (now, id) = (node.now, node.ports[0]);
    let shard = &mut node.shards[0];
    let stream = shard.catalog().queue_by_name(VhostId(0), b"s").unwrap().clone();
    shard.append(now, id, stream.log, stream.id, new).unwrap();
    node.turn();
    node.write();
    let mut events = Events::default();
    node.shards[0].take_events(&mut events);
    let handed = events.list.iter().filter(|(_, event)| matches!(event, Event::Chunk { .. })).count();
    assert_eq!(handed, 3);
    node.work();
    assert_eq!(node.take_seen().iter().filter(|seen| seen.contains("gets chunk")).count(), 4);
}

#[test]
fn a_consumer_has_room_again_when_it_settles_however() {
    let mut node = node(1);
    append(&mut node, 0, 1, None, &[(0, "", "a"), (0, "", "b"), (0, "", "c"), (0, "", "d")]);
    node.take_seen();
    let seen = consume(&mut node, 0, 4, Credit::Prefetch(2), StreamFrom::Offset(1));
    assert_eq!(seen, ["0: Consuming".to_owned(), gets(0, 4, 1, "b"), gets(0, 4, 2, "c")]);
    node.settled(0, "s", 4, (1, 1), Outcome::Released);
    node.work();
    // A message given back does not come again.
    assert_eq!(node.take_seen(), [gets(0, 4, 3, "d")]);
    // Messages handed out and not sent do.
    let range = SeqRange { first: QueueSeq(2), last: QueueSeq(3) };
    node.command(0, "s", QueueCommand::Unsent { handle: 4, range });
    node.work();
    assert_eq!(node.take_seen(), [gets(0, 4, 2, "c"), gets(0, 4, 3, "d")]);
}

#[test]
fn link_credit_is_used_up_and_drained() {
    let mut node = node(1);
    append(&mut node, 0, 1, None, &[(0, "", "a"), (0, "", "b"), (0, "", "c")]);
    node.take_seen();
    assert_eq!(consume(&mut node, 0, 4, Credit::Link, StreamFrom::First), ["0: Consuming"]);
    node.command(0, "s", QueueCommand::Credit { handle: 4, limit: 2, drain: false, echo: true });
    node.work();
    let expected =
        [gets(0, 4, 0, "a"), gets(0, 4, 1, "b"), "0: Available { consumer: 4, ready: 0 }".to_owned()];
    assert_eq!(node.take_seen()[..2], expected[..2]);
    node.command(0, "s", QueueCommand::Credit { handle: 4, limit: 5, drain: true, echo: false });
    node.work();
    assert_eq!(node.take_seen(), [gets(0, 4, 2, "c"), "0: Drained { consumer: 4, unused: 2 }".to_owned()]);
}

#[test]
fn filters_leave_out_chunks_and_messages() {
    let mut node = node(1);
    append(&mut node, 0, 1, None, &[(0, "red", "a")]);
    append(&mut node, 0, 2, None, &[(0, "blue", "b")]);
    append(&mut node, 0, 3, None, &[(0, "", "c")]);
    node.take_seen();
    let chunks = |values: &[&str], match_unfiltered| StreamFilter {
        chunks: Some(message::chunk::Filter::new(
            values.iter().map(|value| value.as_bytes()),
            match_unfiltered,
        )),
        messages: None,
    };
    let (credit, from) = (Credit::Prefetch(9), StreamFrom::First);
    let seen = consume_filtered(&mut node, 0, 4, credit, from, chunks(&["blue"], false));
    assert_eq!(seen, ["0: Consuming".to_owned(), gets(0, 4, 1, "b")]);
    let seen = consume_filtered(&mut node, 0, 5, credit, from, chunks(&["red"], true));
    assert_eq!(seen, ["0: Consuming".to_owned(), gets(0, 5, 0, "a"), gets(0, 5, 2, "c")]);
    let never = filter::Expression::parse("1 = 2", &Limits::default()).unwrap();
    let none = StreamFilter { chunks: None, messages: Some(Wanted::new(never).unwrap()) };
    assert_eq!(consume_filtered(&mut node, 0, 6, credit, from, none), ["0: Consuming"]);
}

#[test]
fn sub_batches_are_unpacked_unless_they_are_compressed() {
    let mut node = node(1);
    let inner = [entry("x"), entry("y")].concat();
    let batch = |compression: u8| {
        let batch = SubBatch { compression, records: 2, uncompressed_len: inner.len() as u32, body: &inner };
        [&batch.head()[..], &inner].concat()
    };
    let entries = [batch(1), batch(0), entry("z")];
    append_entries(&mut node, 0, 1, None, &[(0, "", ""), (0, "", ""), (0, "", "")], &entries);
    node.take_seen();
    let seen = consume(&mut node, 0, 4, Credit::Prefetch(9), StreamFrom::Offset(3));
    assert_eq!(seen, ["0: Consuming".to_owned(), gets(0, 4, 3, "y"), gets(0, 4, 4, "z")]);
    // One at a time, in the middle of the batch.
    let seen = consume(&mut node, 0, 5, Credit::Prefetch(1), StreamFrom::First);
    assert_eq!(seen, ["0: Consuming".to_owned(), gets(0, 5, 2, "x")]);
    node.settled(0, "s", 5, (2, 2), Outcome::Accepted);
    node.work();
    assert_eq!(node.take_seen(), [gets(0, 5, 3, "y")]);
}

/// The header of a batch is the truth: everybody counts offsets by it, publishers and chunks too.
#[test]
fn offsets_follow_what_a_batch_says_and_not_what_it_holds() {
    let nested = SubBatch { compression: 0, records: 9, uncompressed_len: 0, body: b"" };
    let (x, y, z, nested) = (entry("x"), entry("y"), entry("z"), nested.head().to_vec());
    // How many messages a batch says it has, its compression and what it holds; which messages there are then. One follows it
    // in its chunk, and one in the next.
    type Row<'a> = (u16, u8, &'a [&'a [u8]], &'a [(u64, &'a str)]);
    let rows: [Row<'_>; 9] = [
        (2, 0, &[&x, &y], &[(0, "x"), (1, "y"), (2, "behind"), (3, "next")]),
        (1, 0, &[&x, &y], &[(0, "x"), (1, "behind"), (2, "next")]),
        (1, 0, &[&x, &y, &z], &[(0, "x"), (1, "behind"), (2, "next")]),
        (3, 0, &[&x], &[(0, "x"), (3, "behind"), (4, "next")]),
        (3, 0, &[], &[(3, "behind"), (4, "next")]),
        (3, 0, &[&x, &[0, 0, 9]], &[(0, "x"), (3, "behind"), (4, "next")]),
        (3, 0, &[&x, &nested, &y], &[(0, "x"), (3, "behind"), (4, "next")]),
        (2, 1, &[&x], &[(2, "behind"), (3, "next")]),
        (2, 1, &[&x, &y, &z], &[(2, "behind"), (3, "next")]),
    ];
    for (records, compression, holds, there_are) in rows {
        let mut node = node(1);
        let inner = holds.concat();
        let batch = SubBatch { compression, records, uncompressed_len: inner.len() as u32, body: &inner };
        let entries = [[&batch.head()[..], &inner].concat(), entry("behind")];
        append_entries(&mut node, 0, 1, None, &[(0, "", ""), (0, "", "")], &entries);
        append(&mut node, 0, 3, None, &[(0, "", "next")]);
        node.take_seen();
        let row = format!("{records} of {compression}: {there_are:?}");
        // Also for consumers that begin in the middle of the batch, or where it said that there is one more.
        for from in 0..=there_are[there_are.len() - 1].0 {
            let wanted = there_are.iter().filter(|(offset, _)| *offset >= from);
            let mut expected = vec!["0: Consuming".to_owned()];
            expected.extend(wanted.clone().map(|(offset, body)| gets(0, 4, *offset, body)));
            let begins = StreamFrom::Offset(from);
            assert_eq!(consume(&mut node, 0, 4, Credit::Prefetch(99), begins), expected, "{row} from {from}");
            ask(&mut node, 0, StreamCommand::Unsubscribe { token: 3, handle: 4 });
            // One at a time, and each is not sent at first.
            let mut seen = consume(&mut node, 0, 4, Credit::Prefetch(1), begins);
            for (offset, _) in wanted {
                let range = SeqRange { first: QueueSeq(*offset), last: QueueSeq(*offset) };
                node.command(0, "s", QueueCommand::Unsent { handle: 4, range });
                node.work();
                assert_eq!(node.take_seen().last(), seen.last(), "{row} from {from}");
                node.settled(0, "s", 4, (*offset, *offset), Outcome::Accepted);
                node.work();
                seen.extend(node.take_seen());
            }
            assert_eq!(seen, expected, "{row} from {from}, one at a time");
            ask(&mut node, 0, StreamCommand::Unsubscribe { token: 3, handle: 4 });
        }
    }
}

/// Subscriptions that end before anything was read for them leave no backlog of reads for later ones to wait behind.
#[test]
fn who_comes_and_goes_has_few_things_read() {
    let blue = || message::chunk::Filter::new([&b"blue"[..]], false);
    // Into the middle of what is on disk, or with a filter, or both.
    for (from, has_filter) in [(4, false), (0, true), (4, true)] {
        let mut node = node(1);
        for body in ["a", "b", "c", "d", "e", "f"] {
            append(&mut node, 0, 1, None, &[(0, "blue", body)]);
        }
        for job in node.shards[0].logs_mut().take_stream_syncs(LogId(0)) {
            let done = job.carry_out(&node.disk);
            node.shards[0].stream_done(NOW, done);
        }
        node.work();
        let subscribe = |handle| StreamCommand::Subscribe {
            token: 1,
            handle,
            from: StreamFrom::Offset(from),
            credit: 9,
            filter: StreamFilter { chunks: has_filter.then(blue), messages: None },
            group: None,
        };
        let mut jobs = Vec::new();
        let put = |node: &mut Node, jobs: &mut Vec<_>, command| {
            node.command(0, "s", QueueCommand::Stream(Box::new(command)));
            node.settle();
            node.shards[0].take_stream_jobs(jobs);
        };
        for _ in 0..10_000 {
            put(&mut node, &mut jobs, subscribe(4));
            put(&mut node, &mut jobs, StreamCommand::Unsubscribe { token: 2, handle: 4 });
        }
        assert!((1..=64).contains(&jobs.len()), "{}: {from} {has_filter}", jobs.len());
        // A subscription that stays has its turn when a read comes back, carried out or given up.
        node.take_seen();
        put(&mut node, &mut jobs, subscribe(5));
        assert_eq!(node.take_seen(), ["0: Consuming"]);
        for (at, job) in jobs.into_iter().enumerate() {
            let done = if at % 2 == 0 { job.give_up() } else { job.carry_out(&node.disk) };
            node.shards[0].stream_done(node.now, done);
        }
        node.work();
        let chunks = node.take_seen().iter().filter(|line| line.contains("5 ")).count() as u64;
        assert_eq!(chunks, 6 - from, "{from} {has_filter}");
    }
}

#[test]
fn a_snapshot_with_a_number_that_nobody_has_is_refused() {
    // A catalog that is empty, a mark, and how many queues there are: none.
    let empty = Node::fresh().snapshot(LogId(0), false).unwrap().bytes.to_vec();
    let (mut stream, mut queue) = (Vec::new(), Vec::new());
    Stream::new(queue::stream::Settings::default()).write_snapshot(&mut stream);
    Fifo::new(queue::Settings::default()).write_snapshot(&mut queue);
    let put = |id: u64| {
        let streams = [&1u32.to_le_bytes()[..], &1u64.to_le_bytes(), &1u64.to_le_bytes(), &id.to_le_bytes()];
        let streams = [&streams.concat()[..], &(stream.len() as u32).to_le_bytes(), &stream];
        let queues = [&1u64.to_le_bytes()[..], &id.to_le_bytes(), &0u64.to_le_bytes(), &[0; 4]];
        let queues = [&queues.concat()[..], &(queue.len() as u32).to_le_bytes(), &queue];
        [[&empty[..], &streams.concat()].concat(), [&empty[..empty.len() - 8], &queues.concat()].concat()]
    };
    for (id, expected) in [(5, Ok(())), (u64::MAX, Err(RecoveryError::Snapshot(LogId(0))))] {
        for snapshot in put(id) {
            assert_eq!(Node::fresh().restore(LogId(0), LogIndex(0), &snapshot), expected, "{id}");
        }
    }
}

#[test]
fn all_is_there_again_after_a_restart() {
    let mut node = node(1);
    append(&mut node, 0, 1, Some("me"), &[(1, "", "a"), (2, "", "b")]);
    let mut publisher = node.publisher(0);
    node.publish(0, &mut publisher, "s", "over AMQP", false);
    node.work();
    // The stream is made durable for a snapshot; the rest is in the journal.
    let snapshot = node.shards[0].snapshot(LogId(0), false).unwrap();
    for job in node.shards[0].logs_mut().take_stream_syncs(LogId(0)) {
        let done = job.carry_out(&node.disk);
        assert!(done.is_durable() && done.failure().is_none());
        node.shards[0].stream_done(NOW, done);
    }
    append(&mut node, 0, 3, Some("me"), &[(3, "", "c")]);
    ask(&mut node, 0, StreamCommand::StoreOffset { user: 0, reference: b"app"[..].into(), offset: 2 });
    let files = stream_files(&node.disk, LogId(0)).unwrap();
    assert_eq!(files.len(), 1);

    let mut shard = Node::fresh();
    shard.restore(LogId(0), snapshot.covered, &snapshot.bytes.to_vec()).unwrap();
    let kept = shard.logs_mut().recover_streams(LogId(0), &files);
    assert!(files.keys().eq(&kept));
    let strays = Strays::set_aside(&node.disk, &BTreeMap::from([(LogId(0), kept)])).unwrap();
    for (_, sealed, place) in &node.written {
        shard.replay(LogId(0), sealed.base, sealed.records(), *place).unwrap();
    }
    assert!(shard.finish_recovery(NOW).is_empty());
    assert_eq!(strays.end(&node.disk, true, |_| false), Ok(Vec::new()));
    shard.open_port(node.ports[0], Node::actor(node.ports[0]));
    node.shards[0] = shard;
    node.take_seen();
    let sequence = StreamCommand::Sequence { token: 3, reference: b"me"[..].into() };
    assert_eq!(ask(&mut node, 0, sequence), ["0: Stream(Sequence(Some(3)))"]);
    let offset = StreamCommand::QueryOffset { token: 3, reference: b"app"[..].into() };
    assert_eq!(ask(&mut node, 0, offset), ["0: Stream(Offset(Some(2)))"]);
    let seen = consume(&mut node, 0, 4, Credit::Prefetch(9), StreamFrom::First);
    let expected = [
        "0: Consuming".to_owned(),
        gets(0, 4, 0, "a"),
        gets(0, 4, 1, "b"),
        gets(0, 4, 2, "over AMQP"),
        gets(0, 4, 3, "c"),
    ];
    assert_eq!(seen, expected);

    // Consumers of a stream that is deleted are told, and its files go.
    node.command(0, "s", QueueCommand::Delete { token: 5, if_unused: true, if_empty: true });
    node.work();
    let seen = node.take_seen();
    assert!(seen.contains(&"0: Cancelled { consumer: 4 }".to_owned()), "{seen:?}");
    assert_eq!(stream_files(&node.disk, LogId(0)).unwrap().len(), 0);
}

#[test]
fn who_asks_for_an_offset_hears_what_was_said_just_before() {
    let mut node = node(1);
    append(&mut node, 0, 1, None, &[(0, "", "a"), (0, "", "b")]);
    node.take_seen();
    let say = |node: &mut Node, command| node.command(0, "s", QueueCommand::Stream(Box::new(command)));
    for offset in [1, 0] {
        say(&mut node, StreamCommand::StoreOffset { user: 0, reference: b"app"[..].into(), offset });
        say(&mut node, StreamCommand::QueryOffset { token: 3, reference: b"app"[..].into() });
        say(&mut node, StreamCommand::QueryOffset { token: 3, reference: b"other"[..].into() });
        node.work();
        let expected = [format!("0: Stream(Offset(Some({offset})))"), "0: Stream(Offset(None))".to_owned()];
        assert_eq!(node.take_seen(), expected);
    }
}

#[test]
fn offsets_that_are_not_on_disk_are_told_of_so_many_consumers_alone() {
    let mut node = node(1);
    let say = |node: &mut Node, command| node.command(0, "s", QueueCommand::Stream(Box::new(command)));
    let store = |name: &str, offset| StreamCommand::StoreOffset {
        user: 0,
        reference: name.as_bytes().into(),
        offset,
    };
    let query = |name: &str| StreamCommand::QueryOffset { token: 3, reference: name.as_bytes().into() };
    let most = broker::Limits::default().stream_offsets_told_max;
    for number in 0..most {
        say(&mut node, store(&number.to_string(), 1));
    }
    say(&mut node, store("one more", 5));
    say(&mut node, store("0", 6));
    for (name, seen) in [("0", "Some(6)"), ("1", "Some(1)"), ("one more", "None")] {
        say(&mut node, query(name));
        node.turn();
        assert_eq!(node.take_seen(), [format!("0: Stream(Offset({seen}))")], "{name}");
    }
    node.work();
    node.take_seen();
    assert_eq!(ask(&mut node, 0, query("one more")), ["0: Stream(Offset(Some(5)))"]);
}

#[test]
fn a_stopped_log_keeps_no_offset() {
    let mut node = node(1);
    append(&mut node, 0, 1, None, &[(0, "", "a")]);
    node.work();
    let written = node.written.len();
    node.shards[0].stop_log(LogId(0));
    ask(&mut node, 0, StreamCommand::StoreOffset { user: 0, reference: b"app"[..].into(), offset: 1 });
    assert_eq!(node.written.len(), written);
}

#[test]
fn where_a_reader_would_stand() {
    let mut node = node(1);
    let resolve = |from| StreamCommand::Resolve { token: 3, from };
    assert_eq!(ask(&mut node, 0, resolve(StreamFrom::First)), ["0: Stream(Offset(None))"]);
    append(&mut node, 0, 1, None, &[(0, "", "a"), (0, "", "b")]);
    append(&mut node, 0, 3, None, &[(0, "", "c")]);
    node.take_seen();
    for (from, offset) in [
        (StreamFrom::First, 0),
        (StreamFrom::Last, 2),
        (StreamFrom::Next, 3),
        (StreamFrom::Offset(1), 0),
        (StreamFrom::LastMessages(1), 2),
    ] {
        let seen = ask(&mut node, 0, resolve(from));
        assert_eq!(seen, [format!("0: Stream(Offset(Some({offset})))")], "{from:?}");
    }
    let stats = ask(&mut node, 0, StreamCommand::Stats { token: 4 });
    let expected = "0: Stream(Stats(StreamStats { first_offset: Some(0), last_chunk_id: Some(2), committed_offset: \
                    Some(2), messages: 3 }))";
    assert_eq!(stats, [expected]);
}

/// Nor is it there when the other stream is gone, and the batch is read again without it.
#[test]
fn the_time_of_a_chunk_is_not_that_of_another_stream() {
    let mut node = node(1);
    assert_eq!(node.declare_with(0, "t", true, &[("x-queue-type", Value::text("stream"))]), LogId(0));
    let began = NOW.wall_ms as i64;
    append_unwritten(&mut node, 0, 1, None, &[(0, "", "a")], &[entry("a")]);
    node.now.wall_ms += 500;
    let mut publisher = node.publisher(0);
    node.publish(0, &mut publisher, "t", "later", false);
    node.work();
    node.now.wall_ms += 500;
    append(&mut node, 0, 2, None, &[(0, "", "b")]);
    node.take_seen();
    for (after, offset) in [(0, 0), (1, 1), (500, 1), (1_000, 1)] {
        let from = StreamFrom::Timestamp(began + after);
        let seen = ask(&mut node, 0, StreamCommand::Resolve { token: 3, from });
        assert_eq!(seen, [format!("0: Stream(Offset(Some({offset})))")], "{after} ms after");
    }
}

#[test]
fn a_consumer_with_a_rate_gets_its_messages_when_they_are_due() {
    let mut node = node(1);
    append(&mut node, 0, 1, None, &[(0, "", "a"), (0, "", "b"), (0, "", "c")]);
    append(&mut node, 0, 4, None, &[(0, "", "d"), (0, "", "e")]);
    node.take_seen();
    let (settled, exclusive, browses) = (false, false, None);
    let credit = Credit::Prefetch(3);
    let consumer = NewConsumer { credit, settled, exclusive, priority: 0, browses, timeout_ms: None };
    let consume = StreamCommand::Consume {
        token: 2,
        handle: 4,
        consumer,
        format: Format::Amqp10,
        from: StreamFrom::First,
        filter: StreamFilter::default(),
        rate: Some(5),
        user: 0,
        name: None,
    };
    assert_eq!(ask(&mut node, 0, consume), ["0: Consuming".to_owned(), gets(0, 4, 0, "a")]);
    for (ms, expected) in [
        (100, vec![]),
        (100, vec![gets(0, 4, 1, "b")]),
        (199, vec![]),
        (1, vec![gets(0, 4, 2, "c")]),
        // It has no room until it settles, and what it missed meanwhile is not made up for.
        (5000, vec![]),
    ] {
        node.pass(ms);
        node.work();
        assert_eq!(node.take_seen(), expected, "{ms}");
    }
    let range = SeqRange { first: QueueSeq(0), last: QueueSeq(2) };
    node.command(0, "s", QueueCommand::Settle { handle: 4, range, outcome: Outcome::Accepted });
    node.work();
    assert_eq!(node.take_seen(), [gets(0, 4, 3, "d")]);
    node.pass(50);
    node.work();
    assert_eq!(node.take_seen(), [""; 0]);
    node.pass(150);
    node.work();
    assert_eq!(node.take_seen(), [gets(0, 4, 4, "e")]);
}

#[test]
fn queues_are_asked_nothing_of_streams() {
    let mut node = Node::new(1);
    node.declare(0, "s", true);
    let seen = ask(&mut node, 0, StreamCommand::Stats { token: 4 });
    assert_eq!(seen, ["0: PRECONDITION_FAILED - queue 's' in vhost '/' is no stream"]);
}

/// The node's only shard goes down at once and comes up again from what is on disk: a snapshot, if there is one, and the
/// journal.
fn kill(node: &mut Node) {
    let mut shard = Node::fresh();
    shard.logs_mut().recover_streams(LogId(0), &stream_files(&node.disk, LogId(0)).unwrap());
    for (_, sealed, place) in &node.written {
        shard.replay(LogId(0), sealed.base, sealed.records(), *place).unwrap();
    }
    node.unwritten.clear();
    assert!(shard.finish_recovery(node.now).is_empty());
    shard.open_port(node.ports[0], Node::actor(node.ports[0]));
    node.shards[0] = shard;
    node.take_seen();
    node.work();
}

#[test]
fn what_is_truncated_stays_away() {
    let mut node = Node::new(1);
    let size = Value::Int(routing::IntType::SignedInt, 1);
    let arguments = [("x-queue-type", Value::text("stream")), ("x-stream-max-segment-size-bytes", size)];
    node.declare_with(0, "s", true, &arguments);
    for (first, body) in [(1, "a"), (2, "b"), (3, "c")] {
        append(&mut node, 0, first, None, &[(0, "", body)]);
    }
    node.take_seen();
    let truncate = |before| StreamCommand::Truncate { token: 3, before };
    for (before, first) in [(1, 1), (0, 1), (2, 2)] {
        let seen = ask(&mut node, 0, truncate(before));
        assert_eq!(seen, [format!("0: Stream(Truncated({first}))")], "{before}");
    }
    // Nobody is told before it is on disk.
    node.command(0, "s", QueueCommand::Stream(Box::new(truncate(9))));
    node.turn();
    assert_eq!(node.take_seen(), [""; 0]);
    node.work();
    assert_eq!(node.take_seen(), ["0: Stream(Truncated(3))"]);
    append(&mut node, 0, 4, None, &[(0, "", "d")]);
    kill(&mut node);
    let stats = "0: Stream(Stats(StreamStats { first_offset: Some(3), last_chunk_id: Some(3), committed_offset: Some(3), \
                 messages: 1 }))";
    assert_eq!(ask(&mut node, 0, StreamCommand::Stats { token: 4 }), [stats]);
    let seen = consume(&mut node, 0, 4, Credit::Prefetch(9), StreamFrom::First);
    assert_eq!(seen, ["0: Consuming".to_owned(), gets(0, 4, 3, "d")]);
    // A request to truncate a stream that is deleted meanwhile is answered.
    node.command(0, "s", QueueCommand::Stream(Box::new(truncate(9))));
    node.command(0, "s", QueueCommand::Delete { token: 5, if_unused: false, if_empty: false });
    node.work();
    let seen = node.take_seen();
    assert!(
        seen.iter().any(|line| line.contains("Truncated") || line.contains("just been deleted")),
        "{seen:?}"
    );
}

/// Carries out what streams want of the disk, without a turn: the numbers of the segments that have a file then.
fn segments_after_jobs(node: &mut Node, log: LogId) -> Vec<u64> {
    let mut jobs = Vec::new();
    node.shards[0].take_stream_jobs(&mut jobs);
    for job in jobs {
        node.shards[0].stream_done(node.now, job.carry_out(&node.disk));
    }
    stream_files(&node.disk, log).unwrap().into_keys().collect()
}

#[test]
fn nothing_goes_by_a_policy_that_is_not_on_disk() {
    let mut node = Node::with_logs(1, 2, broker::Limits::default());
    let size = Value::Int(routing::IntType::SignedInt, 1);
    let arguments = [("x-queue-type", Value::text("stream")), ("x-stream-max-segment-size-bytes", size)];
    // The catalog's changes are in another log than the stream's messages.
    let log = node.declare_with(0, "s", true, &arguments);
    assert_ne!(log, broker::CATALOG_LOG);
    for (first, body) in [(1, "a"), (2, "b"), (3, "c")] {
        append(&mut node, 0, first, None, &[(0, "", body)]);
    }
    for job in node.shards[0].logs_mut().take_stream_syncs(log) {
        node.shards[0].stream_done(node.now, job.carry_out(&node.disk));
    }
    assert_eq!(segments_after_jobs(&mut node, log), [1, 2, 3]);
    let (kind, vhost, name) = (PolicyKind::User, "/".into(), "p".into());
    let definition = [(&b"max-length-bytes"[..], Value::long(1))].into_iter().collect();
    let (pattern, apply_to) = ("^s$".into(), "streams".into());
    let policy = Op::SetPolicy { kind, vhost, name, pattern, apply_to, priority: 0, definition };
    node.shards[0].request(node.now, node.ports[0], 1, policy);
    node.turn();
    assert_eq!(segments_after_jobs(&mut node, log), [1, 2, 3]);
    // A segment begins by then, whose batch is on disk.
    append_unwritten(&mut node, 0, 4, None, &[(0, "", "d")], &[entry("d")]);
    node.turn();
    let (theirs, of_catalog) =
        std::mem::take(&mut node.unwritten).into_iter().partition(|(_, it)| it.log == log);
    node.unwritten = theirs;
    node.write();
    node.unwritten = of_catalog;
    node.turn();
    assert_eq!(segments_after_jobs(&mut node, log), [1, 2, 3]);
    node.take_seen();
    node.write();
    node.turn();
    assert_eq!(node.take_seen(), ["0: Done"]);
    // The stream's log is told of it by a record.
    assert_eq!(segments_after_jobs(&mut node, log), [1, 2, 3]);
    node.work();
    assert_eq!(segments_after_jobs(&mut node, log), [0; 0]);
    let seen = consume(&mut node, 0, 4, Credit::Prefetch(9), StreamFrom::First);
    assert_eq!(seen, ["0: Consuming".to_owned(), gets(0, 4, 3, "d")]);
}

fn consume_as(name: &str, handle: u32, settled: bool, from: StreamFrom) -> StreamCommand {
    let credit = if settled { Credit::Link } else { Credit::Prefetch(9) };
    let consumer =
        NewConsumer { credit, settled, exclusive: false, priority: 0, browses: None, timeout_ms: None };
    let (format, filter, name) = (Format::Amqp10, StreamFilter::default(), Some(name.as_bytes().into()));
    StreamCommand::Consume { token: 2, handle, consumer, format, from, filter, rate: None, user: 0, name }
}

#[test]
fn who_comes_with_its_name_goes_on_behind_what_it_settled() {
    let mut node = node(1);
    append(&mut node, 0, 1, None, &[(0, "", "a"), (0, "", "b"), (0, "", "c"), (0, "", "d")]);
    node.take_seen();
    let query = || StreamCommand::QueryOffset { token: 3, reference: b"app"[..].into() };
    let all: Vec<String> =
        ["a", "b", "c", "d"].iter().zip(0..).map(|(body, at)| gets(0, 4, at, body)).collect();
    let seen = ask(&mut node, 0, consume_as("app", 4, false, StreamFrom::First));
    assert_eq!(seen[1..], all);
    assert_eq!(ask(&mut node, 0, query()), ["0: Stream(Offset(None))"]);
    // Settled messages count up to the first gap; messages given back are for the next consumer.
    node.settled(0, "s", 4, (3, 3), Outcome::Accepted);
    node.settled(0, "s", 4, (0, 0), Outcome::Accepted);
    node.settled(0, "s", 4, (1, 1), Outcome::Rejected);
    node.settled(0, "s", 4, (2, 2), Outcome::Released);
    node.turn();
    assert_eq!(ask(&mut node, 0, query()), ["0: Stream(Offset(Some(1)))"]);
    node.command(0, "s", QueueCommand::Cancel { token: Some(6), handle: 4, held: broker::Held::GoesBack });
    node.work();
    node.take_seen();
    // It costs no flush of its own; what comes next takes it along, and a clean stop does.
    append(&mut node, 0, 5, None, &[(0, "", "e")]);
    kill(&mut node);
    let seen = ask(&mut node, 0, consume_as("app", 4, false, StreamFrom::First));
    let expected = [gets(0, 4, 2, "c"), gets(0, 4, 3, "d"), gets(0, 4, 4, "e")];
    assert_eq!(seen[1..], expected);
    // Another begins where it says.
    let seen = ask(&mut node, 0, consume_as("other", 5, false, StreamFrom::Offset(4)));
    assert_eq!(seen[1..], [gets(0, 5, 4, "e")]);
}

#[test]
fn who_settles_nothing_has_settled_what_it_was_sent() {
    let mut node = node(1);
    append(&mut node, 0, 1, None, &[(0, "", "a"), (0, "", "b"), (0, "", "c")]);
    node.take_seen();
    ask(&mut node, 0, consume_as("app", 4, true, StreamFrom::First));
    node.command(0, "s", QueueCommand::Credit { handle: 4, limit: 2, drain: false, echo: false });
    node.work();
    assert_eq!(node.take_seen(), [gets(0, 4, 0, "a"), gets(0, 4, 1, "b")]);
    let query = StreamCommand::QueryOffset { token: 3, reference: b"app"[..].into() };
    assert_eq!(ask(&mut node, 0, query), ["0: Stream(Offset(Some(1)))"]);
}
