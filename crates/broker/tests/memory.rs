//! Memory follows what is under way: what a burst took is given back, and what goes round is kept.

use crate::node;

use base::Quantum;
use base::hash::MapById;
use base::id::LogIndex;
use base::time::NS_PER_MS;
use broker::{Limits, ListedTo, Publish, Publisher, QueueSums};
use message::record::{Format, Outcome};
use node::Node;
use routing::{NoHeaders, Value};

/// Bytes of spare buffers, and of the little that stands beside them.
fn spare_bytes(node: &Node) -> u64 {
    let pools = node.shards[0].memory_pools();
    pools.into_iter().find(|(name, _)| *name == "msg_index").map_or(0, |(_, bytes)| bytes)
}

/// Publishes `count` messages of `bytes`, each in a batch of its own, and has them taken and settled. Returns the number of
/// all that were published so far.
fn round(node: &mut Node, publisher: &mut Publisher, from: u64, count: u64, bytes: usize) -> u64 {
    let body = "x".repeat(bytes);
    for _ in 0..count {
        node.publish(0, publisher, "q", &body, true);
        node.settle();
    }
    // The shard that wrote them has them no more.
    node.written.clear();
    node.settled(0, "q", 9, (from, from + count - 1), Outcome::Accepted);
    node.settle();
    node.take_seen();
    from + count
}

#[test]
fn what_a_burst_took_is_given_back() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    node.consume(0, "q", 9, 0);
    let mut publisher = node.publisher(0);
    let idle = spare_bytes(&node);
    let mut next = round(&mut node, &mut publisher, 0, 20, 60 << 10);
    let burst = spare_bytes(&node) - idle;
    assert!(burst >= 20 * (60 << 10), "{burst}");
    // A buffer that goes round stays.
    let period_ms = Limits::default().spare_ms_max;
    for _ in 0..10 {
        next = round(&mut node, &mut publisher, next, 2, 100);
        node.pass(period_ms);
    }
    let calm = spare_bytes(&node) - idle;
    assert!((1..=4 * (64 << 10)).contains(&calm), "{calm} after {burst}");
    // Nobody needs anything: the shard comes back by itself for the rest.
    let mut rounds = 0;
    while let Some(at) = node.shards[0].deadline() {
        let ms = at.saturating_sub(node.now.mono_ns).div_ceil(NS_PER_MS);
        node.pass(ms);
        rounds += 1;
        assert!(rounds < 10, "an idle shard is to sleep");
    }
    assert!(spare_bytes(&node) <= idle + 4096, "{} after {idle}", spare_bytes(&node));
}

#[test]
fn no_more_than_the_bound_is_kept() {
    let most = 2 << 20;
    let mut node = Node::with_limits(1, Limits { spare_buffers_max: most, ..Limits::default() });
    node.declare(0, "q", true);
    node.consume(0, "q", 9, 0);
    let mut publisher = node.publisher(0);
    round(&mut node, &mut publisher, 0, 50, 100 << 10);
    let most = most as u64;
    assert!((most / 2..most + 8192).contains(&spare_bytes(&node)), "{}", spare_bytes(&node));
}

/// In memory alone, where nothing is ever moved out of the way.
#[test]
fn one_message_that_stays_keeps_nothing_else() {
    let mut node = Node::new(1);
    for queue in ["stays", "goes", "stays too"] {
        node.declare(0, queue, false);
    }
    node.consume(0, "goes", 9, 0);
    let mut publisher = node.publisher(0);
    let (mut most, mut begin) = (0, 0);
    for number in 0..20_000 {
        if number == 0 || number % 4096 == 2048 {
            let queue = if number == 0 { "stays" } else { "stays too" };
            node.publish(0, &mut publisher, queue, &format!("kept {number}"), false);
            node.turn();
        }
        node.publish(0, &mut publisher, "goes", "gone", false);
        node.turn();
        node.settled(0, "goes", 9, (number, number), Outcome::Accepted);
        node.turn();
        match number {
            2000 => begin = spare_bytes(&node),
            2001.. => most = spare_bytes(&node).max(most),
            _ => {}
        }
        node.take_seen();
    }
    assert!(node.unwritten.is_empty(), "it is in memory alone");
    assert!(most <= begin + 4096, "{most} bytes after {begin}");
    // A message that stays is found where it is now.
    node.consume(0, "stays", 1, 0);
    node.consume(0, "stays too", 2, 0);
    node.turn();
    let seen = node.take_seen();
    let gets: Vec<_> = seen.iter().filter(|line| line.contains(" gets ")).map(String::as_str).collect();
    let too = [2048, 6144, 10_240, 14_336, 18_432].into_iter().enumerate();
    let too = too.map(|(seq, number)| format!("0: 2 gets kept {number}@{seq}"));
    assert_eq!(gets, ["0: 1 gets kept 0@0".to_owned()].into_iter().chain(too).collect::<Vec<_>>());
    let resident = node.shards[0].memory_pools().into_iter().find(|(name, _)| *name == "binary");
    assert!(resident.is_some_and(|(_, bytes)| bytes < 1 << 20), "{resident:?}");
}

/// A disk that stands still, and a publisher of messages that need not be safe.
#[test]
fn what_nobody_waits_for_is_held_to_the_pace_of_the_disk_too() {
    let most = 1 << 20;
    let mut node = Node::with_limits(1, Limits { log_bytes_in_flight_max: most, ..Limits::default() });
    node.declare(0, "q", true);
    node.consume(0, "q", 9, 0);
    let mut publisher = node.publisher(0);
    let body = "x".repeat(60 << 10);
    let mut bytes = 0;
    while !node.shards[0].is_congested() {
        node.publish(0, &mut publisher, "q", &body, false);
        node.turn();
        bytes += body.len();
        assert!(bytes < 2 * most, "{bytes} bytes wait for the disk");
    }
    assert!(bytes > most / 2, "no sooner than the bound says: {bytes}");
    node.settle();
    assert!(!node.shards[0].is_congested(), "all is written");
}

#[test]
fn what_nobody_waits_for_is_in_memory_no_longer_than_there_is_room() {
    let most = 1 << 20;
    let mut node = Node::with_limits(1, Limits { resident_bytes_max: most, ..Limits::default() });
    node.declare(0, "q", true);
    let mut publisher = node.publisher(0);
    let body = "x".repeat(60 << 10);
    for _ in 0..100 {
        node.publish(0, &mut publisher, "q", &body, false);
        node.settle();
        node.written.clear();
    }
    let pools = node.shards[0].memory_pools();
    let resident = pools.into_iter().find(|(name, _)| *name == "binary").map_or(0, |(_, bytes)| bytes);
    assert!(resident < 2 * most as u64, "{resident}");
    node.consume(0, "q", 9, 0);
    for _ in 0..200 {
        node.read();
    }
    let got = node.take_seen().iter().filter(|line| line.contains(" gets ")).count();
    assert_eq!(got, 100, "all of it is read back");
}

#[test]
fn queues_are_listed_a_few_at_a_time() {
    let mut node = Node::new(1);
    for number in 0..7 {
        let kind = if number < 4 { "classic" } else { "stream" };
        node.declare_with(0, &format!("q{number}"), true, &[("x-queue-type", Value::text(kind))]);
    }
    for most in [1, 2, 100] {
        let (mut from, mut names, mut before) = (Some(ListedTo::default()), Vec::new(), 0);
        while let Some(at) = from {
            let mut rows = Vec::new();
            from = node.shards[0].listing().rows_from(
                at,
                &mut Quantum::of(most),
                true,
                |queue| &*queue.name != "q2",
                &mut rows,
            );
            assert!(rows.len() <= most);
            names.extend(rows.iter().map(|row| row.definition.name.to_string()));
            before += 1;
            assert!(before < 100, "it ends");
        }
        names.sort();
        assert_eq!(names, ["q0", "q1", "q3", "q4", "q5", "q6"], "{most} at a time");
    }
}

#[test]
fn sums_over_queues_are_those_of_their_rows_however_few_are_looked_at_in_a_turn() {
    let mut node = Node::new(1);
    for (number, durable) in [true, true, false].into_iter().enumerate() {
        node.declare(0, &format!("q{number}"), durable);
    }
    node.consume(0, "q1", 9, 2);
    let mut publisher = node.publisher(0);
    for queue in ["q0", "q1", "q1", "q1", "q2"] {
        node.publish(0, &mut publisher, queue, "x", true);
        node.settle();
    }
    for most in [1, 2, 100] {
        let (mut from, mut sums) = (Some(ListedTo::default()), MapById::default());
        while let Some(at) = from {
            from = node.shards[0].listing().sums_from(at, &mut Quantum::of(most), &mut sums);
        }
        let sums: Vec<QueueSums> = sums.into_values().collect();
        let expected = QueueSums { queues: 3, ready: 3, unsettled: 2, consumers: 1, written: 4 };
        assert_eq!(sums, [expected], "{most} at a time");
    }
}

#[test]
fn who_lists_queues_ends_its_turn_when_its_time_is_over() {
    let mut node = Node::new(1);
    for number in 0..60 {
        let kind = if number % 2 == 0 { "classic" } else { "stream" };
        node.declare_with(0, &format!("q{number:02}"), true, &[("x-queue-type", Value::text(kind))]);
    }
    let shard = &node.shards[0];
    let names: Vec<String> = (0..60).map(|number| format!("q{number:02}")).collect();
    // Nanoseconds that pass between two readings of the clock, and queues that are looked at in a turn at most.
    for (each_ns, in_turn_max) in [(0, 60), (400_000, 16), (2_000_000, 8)] {
        let passed_ns = std::cell::Cell::new(0);
        let clock = || passed_ns.replace(passed_ns.get() + each_ns);
        let (mut from, mut listed, mut most) = (Some(ListedTo::default()), Vec::new(), 0);
        while let Some(at) = from {
            let mut rows = Vec::new();
            let mut quantum = Quantum::new(500, 500_000, &clock);
            from = shard.listing().rows_from(at, &mut quantum, true, |_| true, &mut rows);
            most = most.max(rows.len());
            listed.extend(rows.iter().map(|row| row.definition.name.to_string()));
        }
        listed.sort();
        assert_eq!(listed, names, "each is listed once");
        assert_eq!(most, in_turn_max, "{each_ns} ns");
        let (mut from, mut bytes) = (Some(ListedTo::default()), 0);
        while let Some(at) = from {
            let (own, next) = shard.listing().bytes_from(at, &mut Quantum::new(500, 500_000, &clock));
            (bytes, from) = (bytes + own, next);
        }
        let (all, _) = shard.listing().bytes_from(ListedTo::default(), &mut Quantum::of(500));
        assert_eq!(bytes, all, "{each_ns} ns");
    }
}

#[test]
fn the_time_of_the_oldest_message_is_told_where_memory_has_it() {
    let mut node = Node::new(1);
    let log = node.declare(0, "q", true);
    let mut publisher = node.publisher(0);
    let mut publish = |node: &mut Node, seconds: u64| {
        let head = [&[0, 0x40][..], &seconds.to_be_bytes()].concat();
        let publish = Publish {
            exchange: b"",
            routing_key: b"q",
            more: None,
            headers: &NoHeaders,
            format: Format::Amqp091,
            durable: true,
            priority: None,
            ttl_ms: None,
            head: &[&head],
            body: &[b"body"],
            confirm: true,
        };
        node.shards[0].publish(node.now, &mut publisher, &publish).unwrap();
        node.settle();
    };
    let told = |node: &Node| {
        let mut rows = Vec::new();
        node.shards[0].listing().rows_from(
            ListedTo::default(),
            &mut Quantum::of(100),
            true,
            |_| true,
            &mut rows,
        );
        rows[0].sample.head_timestamp_s
    };
    assert_eq!(told(&node), None);
    publish(&mut node, 70);
    publish(&mut node, 80);
    assert_eq!(told(&node), Some(70));
    // The oldest ones are moved to a segment, and what is behind them is not the oldest.
    let job = node.shards[0].logs().begin_move(log, LogIndex(u64::MAX)).unwrap();
    let moved = job.carry_out(&node.disk, u64::MAX, || 1).unwrap();
    node.shards[0].finish_move(&moved);
    publish(&mut node, 90);
    assert_eq!(told(&node), None);
    for seconds in 91..110 {
        publish(&mut node, seconds);
    }
    assert_eq!(told(&node), None);
    node.consume(0, "q", 9, 0);
    node.settle();
    node.read();
    node.settled(0, "q", 9, (0, 1), Outcome::Accepted);
    node.settle();
    assert_eq!(told(&node), Some(90));
}
