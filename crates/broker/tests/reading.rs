//! Reading back what is on disk alone: neighbours at once, ahead of consumers that read on, and no queue in another's way.

use crate::node;

use base::id::QueueSeq;
use broker::{
    Credit, Held, Limits, NewConsumer, Publish, Publisher, QueueCommand, ReadRequest, ReadWhat, SettleAt,
};
use journal::Disk;
use message::record::{Format, Outcome};
use node::Node;
use routing::{IntType, NoHeaders, Value};
use std::io::IoSlice;

/// Bytes of a body.
const BODY: usize = 16 << 10;

/// A node that has come up again with `count` messages, each in a batch of its own, in each of `queues`, in turn.
fn restarted(queues: &[&str], count: usize) -> Node {
    let turns = (0..count).flat_map(|number| queues.iter().map(move |queue| (number, *queue)));
    restarted_with(queues, turns)
}

/// A node that has come up again with these messages in `queues`, each in a batch of its own.
fn restarted_with<'a>(queues: &[&'a str], messages: impl Iterator<Item = (usize, &'a str)>) -> Node {
    let mut node = Node::new(1);
    for queue in queues {
        node.declare(0, queue, true);
    }
    let mut publisher = node.publisher(0);
    for (number, queue) in messages {
        node.publish(0, &mut publisher, queue, &body(number), true);
        node.settle();
    }
    come_up_again(node)
}

/// The body of message `number`.
fn body(number: usize) -> String {
    format!("{number}:{}", "x".repeat(BODY))
}

/// A queue `q` with so many batches on disk of four messages each, which have the priorities 0 to 3 in turn.
fn with_priorities(batches: usize) -> Node {
    let mut node = Node::new(1);
    node.declare_with(0, "q", true, &[("x-max-priority", Value::Int(IntType::SignedInt, 9))]);
    let mut publisher = node.publisher(0);
    for number in 0..4 * batches {
        publish_as(&mut node, &mut publisher, number, number as u8 % 4);
        if number % 4 == 3 {
            node.settle();
        }
    }
    node
}

/// Publishes message `number` with a priority.
fn publish_as(node: &mut Node, publisher: &mut Publisher, number: usize, priority: u8) {
    let body = body(number);
    let publish = Publish {
        exchange: b"",
        routing_key: b"q",
        more: None,
        headers: &NoHeaders,
        format: Format::Amqp091,
        durable: true,
        priority: Some(priority),
        ttl_ms: None,
        head: &[b"\0\0"],
        body: &[body.as_bytes()],
        confirm: true,
    };
    let now = node.now;
    node.shards[0].publish(now, publisher, &publish).unwrap();
}

fn come_up_again(mut node: Node) -> Node {
    let mut shard = node.restarted();
    assert!(shard.finish_recovery(node.now).is_empty());
    shard.open_port(node.ports[0], Node::actor(node.ports[0]));
    node.shards[0] = shard;
    node.take_seen();
    node
}

fn reads(node: &mut Node) -> Vec<ReadRequest> {
    let mut reads = Vec::new();
    node.shards[0].take_reads(&mut reads);
    reads
}

fn answer(node: &mut Node, mut read: ReadRequest) {
    let brought = read.carry_out(&node.disk).into_iter().map(|part| part.ok().flatten()).collect();
    node.shards[0].read_done(node.now, read, brought);
    node.turn();
}

/// The numbers of the messages that consumer `handle` was given since the last time.
fn given(node: &mut Node, handle: u32) -> Vec<usize> {
    let start = format!("0: {handle} gets ");
    let seen = node.take_seen();
    let bodies = seen.iter().filter_map(|line| line.strip_prefix(&start)?.split_once(':'));
    bodies.map(|(number, _)| number.parse().unwrap()).collect()
}

fn bytes(read: &ReadRequest) -> u64 {
    let len = |what: &ReadWhat| match what {
        ReadWhat::Batch { place, .. } => place.len,
        ReadWhat::Block(key) => key.place.len,
        ReadWhat::Stretch(key) => key.len.into(),
    };
    read.parts.iter().map(len).sum()
}

#[test]
fn reads_grow_while_a_consumer_reads_on() {
    for in_order in [true, false] {
        let mut node = restarted(&["q"], 150);
        node.consume(0, "q", 7, 0);
        node.turn();
        let (mut sizes, mut got) = (Vec::new(), Vec::new());
        let mut pending = reads(&mut node);
        while !pending.is_empty() {
            assert!(pending.len() <= 2, "{} reads at once", pending.len());
            let read = if in_order { pending.remove(0) } else { pending.pop().unwrap() };
            sizes.push(bytes(&read));
            answer(&mut node, read);
            got.extend(given(&mut node, 7));
            pending.extend(reads(&mut node));
        }
        assert_eq!(got, (0..150).collect::<Vec<_>>(), "in order {in_order}");
        assert!(sizes[0] <= 128 << 10, "{sizes:?}");
        let most = Limits::default().read_bytes_max as u64;
        assert!(sizes.iter().all(|size| *size <= most), "{sizes:?}");
        assert!(sizes.iter().any(|size| *size > most / 2), "{sizes:?}");
        assert!(sizes.iter().sum::<u64>() < 151 * (BODY as u64 + 200), "nothing is read twice: {sizes:?}");
    }
}

#[test]
fn a_message_that_is_settled_while_it_is_read_is_never_sent() {
    let mut node = restarted(&["q"], 4);
    node.consume(0, "q", 7, 2);
    node.turn();
    let mut pending = reads(&mut node);
    let settle = SettleAt { token: 4, positions: [QueueSeq(0)].into(), rejects: false };
    node.command(0, "q", QueueCommand::SettleAt(Box::new(settle)));
    node.turn();
    let told = node.take_seen();
    assert!(told.iter().any(|line| line.contains("Settled { missing: [] }")), "{told:?}");
    assert!(!told.iter().any(|line| line.contains("LeaseOver")), "there is nothing to take: {told:?}");
    let mut got = Vec::new();
    while let Some(read) = pending.pop() {
        answer(&mut node, read);
        got.extend(given(&mut node, 7));
        pending.extend(reads(&mut node));
    }
    assert_eq!(got, [1, 2], "there was room for another");
}

#[test]
fn no_more_is_read_than_consumers_have_room_for() {
    let mut node = restarted(&["q"], 20);
    node.consume(0, "q", 7, 3);
    node.turn();
    let first = reads(&mut node);
    assert_eq!(first.iter().map(|read| read.parts.len()).collect::<Vec<_>>(), [3]);
    first.into_iter().for_each(|read| answer(&mut node, read));
    assert_eq!(given(&mut node, 7), [0, 1, 2]);
    assert_eq!(reads(&mut node), []);
}

/// The answer to a link's credit comes behind the deliveries that the credit led to, though those wait for the disk, and in front of
/// those that later credit leads to.
#[test]
fn what_is_told_of_credit_waits_for_the_deliveries_in_front_of_it() {
    for (drain, echo) in [(true, false), (false, true), (true, true)] {
        for goes in [false, true] {
            let mut node = restarted(&["q"], 3);
            let consumer = NewConsumer {
                credit: Credit::Link,
                settled: false,
                exclusive: false,
                priority: 0,
                browses: None,
                timeout_ms: None,
            };
            for handle in [7, 8] {
                node.command(0, "q", QueueCommand::Consume { token: 2, handle, consumer });
            }
            if goes {
                let credit = QueueCommand::Credit { handle: 8, limit: 1, drain: false, echo: false };
                node.command(0, "q", credit);
            }
            node.turn();
            let left = if goes { 2 } else { 3 };
            let limit = 10;
            node.command(0, "q", QueueCommand::Credit { handle: 7, limit, drain, echo });
            node.turn();
            assert!(node.take_seen().iter().all(|line| line == "0: Consuming"), "all is on disk");
            if goes {
                let held = Held::GoesBack;
                node.command(0, "q", QueueCommand::Cancel { token: None, handle: 8, held });
                node.turn();
                assert_eq!(node.take_seen(), [""; 0], "there are two in front of it yet");
            }
            let mut publisher = node.publisher(0);
            node.publish(0, &mut publisher, "q", "later", true);
            node.settle();
            node.command(0, "q", QueueCommand::Credit { handle: 7, limit: 20, drain: false, echo: false });
            node.settle();
            let mut seen = Vec::new();
            loop {
                let pending = reads(&mut node);
                if pending.is_empty() {
                    break;
                }
                pending.into_iter().for_each(|read| answer(&mut node, read));
                node.settle();
                seen.extend(node.take_seen());
            }
            seen.retain(|line| !line.contains("confirmed"));
            let at = |what: &str| seen.iter().position(|line| line.contains(what));
            let gets = seen.iter().take_while(|line| line.contains("7 gets")).count();
            let told =
                [(drain, "Drained { consumer: 7, unused:"), (echo, "Available { consumer: 7, ready: 0 }")];
            for (is_told, what) in told {
                assert_eq!(at(what).is_some(), is_told, "{seen:#?}");
            }
            assert_eq!(gets, left, "goes {goes}: {seen:#?}");
            assert!(at("7 gets later") > at("Drained").max(at("Available")), "{seen:#?}");
            let all = seen.iter().filter(|line| line.contains("7 gets")).count();
            assert_eq!(all, 4, "{seen:#?}");
        }
    }
}

#[test]
fn queues_take_turns() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut node = restarted(&names, 20);
    for (handle, name) in names.iter().enumerate() {
        node.consume(0, name, handle as u32, 0);
    }
    node.turn();
    let mut pending = reads(&mut node);
    assert_eq!(pending.len(), Limits::default().reads_max);
    let mut order = Vec::new();
    while !pending.is_empty() {
        answer(&mut node, pending.remove(0));
        let gets = |line: &String| line.contains(" gets ").then(|| line.chars().nth(3)).flatten();
        order.extend(node.take_seen().iter().filter_map(gets));
        pending.extend(reads(&mut node));
        assert!(pending.len() <= Limits::default().reads_max);
    }
    assert_eq!(order.len(), names.len() * 20);
    // All of them have begun before any is done.
    let first = |handle: char| order.iter().position(|of| *of == handle).unwrap();
    let last = |handle: char| order.iter().rposition(|of| *of == handle).unwrap();
    assert!(('0'..='5').map(first).max() < ('0'..='5').map(last).min(), "{order:?}");
}

#[test]
fn many_queues_read_no_further_ahead_than_what_is_kept() {
    let names: Vec<String> = (0..100).map(|number| format!("q{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let count = 20;
    // One queue's behind each other, so that they could be read at once.
    let messages = names.iter().flat_map(|name| (0..count).map(move |number| (number, *name)));
    let mut node = restarted_with(&names, messages);
    for (handle, name) in names.iter().enumerate() {
        node.consume(0, name, handle as u32, 0);
    }
    node.turn();
    let (mut pending, mut done, mut got) = (reads(&mut node), 0, 0);
    while !pending.is_empty() {
        let read = pending.remove(0);
        // Once all have begun, and while most of them read.
        let share = (Limits::default().loaded_bytes_max / 2 / (names.len() / 2)) as u64;
        let is_crowd = (names.len()..names.len() * 3).contains(&done);
        assert!(!is_crowd || bytes(&read) <= share, "{} bytes are read, {share} could be kept", bytes(&read));
        done += 1;
        answer(&mut node, read);
        got += node.take_seen().iter().filter(|line| line.contains(" gets ")).count();
        pending.extend(reads(&mut node));
    }
    assert_eq!(got, names.len() * count);
    assert!(done > names.len() * 3, "{done} reads");
}

/// The fate of queues that have read from disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// Everything was handed out and settled, the last of it without another read.
    Drained,
    /// The same, and messages have come since that never left memory: more than the consumer has room for.
    Refilled,
    /// The consumer went, and left the rest.
    Left,
    /// The consumer is there, and has not settled what it holds of many.
    Holds,
}

/// How many reads a queue of 150 messages takes where so many others have read from disk before.
fn reads_beside(others: &[(usize, Then)]) -> usize {
    let thens = others.iter().flat_map(|(count, then)| std::iter::repeat_n(*then, *count));
    let names: Vec<(String, Then)> =
        thens.enumerate().map(|(number, then)| (format!("q{number}"), then)).collect();
    let mut node = Node::new(1);
    for name in names.iter().map(|(name, _)| name.as_str()).chain(["long"]) {
        node.declare(0, name, true);
    }
    let mut publisher = node.publisher(0);
    for (name, then) in &names {
        // In one batch, which one read brings.
        for number in 0..3 {
            node.publish(0, &mut publisher, name, &body(number), true);
        }
        node.settle();
        for number in 3..if *then == Then::Holds { 5 } else { 3 } {
            node.publish(0, &mut publisher, name, &body(number), true);
            node.settle();
        }
    }
    for number in 0..150 {
        node.publish(0, &mut publisher, "long", &body(number), true);
        node.settle();
    }
    let mut node = come_up_again(node);
    for (name, then) in &names {
        node.consume(0, name, 7, 1);
        node.turn();
        let read = reads(&mut node);
        assert_eq!(read.len(), 1, "the first is on disk");
        read.into_iter().for_each(|read| answer(&mut node, read));
        let settled = if matches!(then, Then::Left | Then::Holds) { 0 } else { 3 };
        for seq in 0..settled {
            assert_eq!(given(&mut node, 7), [seq]);
            node.settled(0, name, 7, (seq as u64, seq as u64), Outcome::Accepted);
            node.turn();
            node.settle();
        }
        assert_eq!(given(&mut node, 7), if settled > 0 { vec![] } else { vec![0] });
        match then {
            Then::Drained | Then::Holds => {}
            Then::Refilled => {
                let mut publisher = node.publisher(0);
                (0..3).for_each(|_| _ = node.publish(0, &mut publisher, name, "m", true));
                node.settle();
            }
            Then::Left => {
                let held = Held::GoesBack;
                node.command(0, name, QueueCommand::Cancel { token: None, handle: 7, held });
                node.settle();
            }
        }
        assert_eq!(reads(&mut node), []);
    }
    node.take_seen();
    node.consume(0, "long", 8, 0);
    node.turn();
    let (mut pending, mut done, mut got) = (reads(&mut node), 0, Vec::new());
    while !pending.is_empty() {
        answer(&mut node, pending.remove(0));
        done += 1;
        got.extend(given(&mut node, 8));
        pending.extend(reads(&mut node));
    }
    assert_eq!(got, (0..150).collect::<Vec<_>>(), "{others:?}");
    done
}

#[test]
fn who_reads_no_more_has_no_share_of_what_is_read_ahead() {
    let alone = reads_beside(&[]);
    let beside_few = reads_beside(&[(20, Then::Holds)]);
    for then in [Then::Drained, Then::Refilled, Then::Left] {
        let beside = reads_beside(&[(60, then)]);
        assert!(beside <= alone + 6, "{alone} reads alone, {beside} beside those that have {then:?}");
        let beside = reads_beside(&[(20, Then::Holds), (60, then)]);
        assert!(
            beside <= beside_few + 6,
            "{beside_few} reads beside some, {beside} with those that have {then:?}"
        );
    }
    let beside_many = reads_beside(&[(60, Then::Holds)]);
    println!("{alone} {beside_few} {beside_many}");
    assert!(alone + 6 < beside_few && beside_few + 20 < beside_many, "those that read on keep their shares");
}

#[test]
fn one_damaged_batch_costs_its_neighbours_nothing() {
    let mut node = restarted(&["q"], 6);
    let place = node.written[node.written.len() - 3].2;
    node.disk.write_at(place.name, place.offset + 100, &[IoSlice::new(b"rot")]).unwrap();
    assert_eq!(all_given(&mut node), [0, 1, 2, 4, 5]);
    let start = format!(
        "queue 'q' in vhost '/', log {}: what is in {} from byte {} (the batch at ",
        node.written[1].1.log, place.name, place.offset
    );
    let told = node.damages(0);
    assert!(told.len() == 1 && told[0].starts_with(&start), "{start} {told:?}");
    assert!(told[0].contains("restore the data folder from a copy"));
    // The next consumer finds the same.
    give_back(&mut node);
    assert_eq!(all_given(&mut node), [0, 1, 2, 4, 5]);
    assert_eq!(node.damages(0), [""; 0]);
}

/// A disk that rots as a whole does not fill the log.
#[test]
fn of_damaged_places_a_few_are_told() {
    let mut node = restarted(&["q"], 100);
    let places: Vec<_> = node.written.iter().map(|(_, _, place)| *place).collect();
    for place in places {
        node.disk.write_at(place.name, place.offset + 100, &[IoSlice::new(b"rot")]).unwrap();
    }
    let mut told = Vec::new();
    for _ in 0..2 {
        assert_eq!(all_given(&mut node), [0; 0]);
        told.extend(node.damages(0));
        give_back(&mut node);
    }
    let last = told.iter().position(|line| line.ends_with("are not told until the node starts again"));
    assert_eq!((told.len(), last), (64, Some(63)), "{told:?}");
}

/// All that a consumer of `q` is given.
fn all_given(node: &mut Node) -> Vec<usize> {
    node.consume(0, "q", 7, 0);
    node.turn();
    let mut got = Vec::new();
    loop {
        let pending = reads(node);
        if pending.is_empty() {
            return got;
        }
        for read in pending {
            answer(node, read);
            got.extend(given(node, 7));
        }
    }
}

/// The consumer of `q` goes, and what it held comes back.
fn give_back(node: &mut Node) {
    node.command(0, "q", QueueCommand::Cancel { token: None, handle: 7, held: Held::GoesBack });
    node.settle();
    node.take_seen();
}

#[test]
fn a_queue_that_goes_leaves_what_others_wait_for() {
    let mut node = restarted(&["a", "b"], 4);
    node.consume(0, "a", 1, 0);
    node.consume(0, "b", 2, 0);
    node.turn();
    let mut pending = reads(&mut node);
    node.command(0, "a", QueueCommand::Delete { token: 9, if_unused: false, if_empty: false });
    node.settle();
    let mut got = Vec::new();
    while !pending.is_empty() {
        answer(&mut node, pending.remove(0));
        got.extend(given(&mut node, 2));
        pending.extend(reads(&mut node));
    }
    assert_eq!(got, [0, 1, 2, 3]);
}

#[test]
fn where_there_are_priorities_it_is_read_ahead_by_priority() {
    let mut node = come_up_again(with_priorities(20));
    node.consume(0, "q", 7, 5);
    node.turn();
    for (first, last) in [(3, 19), (23, 39), (43, 59), (63, 79), (2, 18)] {
        let (mut parts, mut got) = (0, Vec::new());
        loop {
            let pending = reads(&mut node);
            if pending.is_empty() {
                break;
            }
            for read in pending {
                parts += read.parts.len();
                answer(&mut node, read);
                got.extend(given(&mut node, 7));
            }
        }
        // Bytes read for one priority are still there for the next.
        assert_eq!(parts, if first == 3 { 20 } else { 0 }, "{first}");
        got.extend(given(&mut node, 7));
        assert_eq!(got, (first..=last).step_by(4).collect::<Vec<_>>());
        for seq in got {
            node.settled(0, "q", 7, (seq as u64, seq as u64), Outcome::Accepted);
        }
        node.turn();
    }
}

#[test]
fn where_there_are_priorities_what_is_kept_is_still_there_for_the_next_of_them() {
    let most = Limits::default().loaded_for_passes_bytes_max;
    let batches = 2 * most / (4 * BODY);
    let mut node = come_up_again(with_priorities(batches));
    node.consume(0, "q", 7, 0);
    node.turn();
    let (mut pending, mut parts, mut got, mut held) = (reads(&mut node), Vec::new(), Vec::new(), 0);
    while !pending.is_empty() {
        let read = pending.remove(0);
        parts.resize(1 + got.len() / batches, 0);
        parts[got.len() / batches] += read.parts.len();
        answer(&mut node, read);
        got.extend(given(&mut node, 7));
        pending.extend(reads(&mut node));
        let pools = node.shards[0].memory_pools();
        held = pools.iter().find(|(name, _)| *name == "binary").unwrap().1.max(held);
    }
    assert_eq!(got, (0..4).rev().flat_map(|first| (first..4 * batches).step_by(4)).collect::<Vec<_>>());
    // Half of it is kept, and that half does not go when the other half comes by.
    assert_eq!(parts[0], batches);
    assert!(parts[1..].iter().all(|again| *again < batches * 5 / 8), "of {batches}: {parts:?}");
    assert!((most as u64 * 7 / 8..most as u64 * 5 / 4).contains(&held), "{held} bytes were held");
}

#[test]
fn where_there_are_priorities_nothing_is_read_ahead_that_drives_out_what_comes_before_it() {
    let kept = 8 * BODY;
    let limits = Limits {
        loaded_bytes_max: kept,
        loaded_for_passes_bytes_max: kept,
        read_bytes_max: 2 * BODY,
        ..Limits::default()
    };
    let mut node = Node::with_limits(1, limits);
    node.declare_with(0, "q", true, &[("x-max-priority", Value::Int(IntType::SignedInt, 9))]);
    let mut publisher = node.publisher(0);
    // A small batch, and one that is all that is kept.
    for (batch, count) in [(0, 2), (1, kept / BODY)] {
        for number in 0..count {
            publish_as(&mut node, &mut publisher, batch * 100 + number, 1);
        }
        node.settle();
    }
    let mut shard = node.restarted_with(limits);
    assert!(shard.finish_recovery(node.now).is_empty());
    shard.open_port(node.ports[0], Node::actor(node.ports[0]));
    node.shards[0] = shard;
    node.take_seen();
    node.consume(0, "q", 7, 1);
    node.turn();
    let (mut pending, mut parts, mut got) = (reads(&mut node), 0, Vec::new());
    while !pending.is_empty() {
        parts += pending[0].parts.len();
        assert!(parts < 40, "what was read goes again before it is needed");
        let read = pending.remove(0);
        answer(&mut node, read);
        got.extend(given(&mut node, 7));
        pending.extend(reads(&mut node));
    }
    assert_eq!(got, [0], "it has room for one");
    assert_eq!(parts, 1, "and what comes behind it is not read");
}

#[test]
fn where_there_are_priorities_what_came_last_stays_in_memory() {
    let limits = Limits::default();
    let fit = limits.resident_bytes_max / (4 * BODY);
    let mut node = with_priorities(2 * fit);
    let mut publisher = node.publisher(0);
    for (number, priority) in [(1000, 7), (1001, 0), (1002, 8), (1003, 1)] {
        publish_as(&mut node, &mut publisher, number, priority);
        node.settle();
    }
    node.take_seen();
    node.consume(0, "q", 7, 2);
    node.turn();
    assert_eq!(given(&mut node, 7), [1002, 1000]);
    assert_eq!(reads(&mut node), []);
}
