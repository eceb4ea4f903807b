//! Consumers of queues that choose: each is given what it asked for, in order, wherever it lies and whenever it came.

use crate::node;

use base::id::QueueSeq;
use broker::ledger::Kind;
use broker::{Browse, Credit, Held, Limits, NewConsumer, QueueCommand, QueueRow, ReadBytes, Selector};
use filter::{Asker, Macros, Names};
use message::record::Outcome;
use node::Node;
use routing::Value;

const ANN: Asker<'_> = Asker { user: "ann", vhost: "/", client_id: None, claims: &[] };

/// The deliveries and answers that were seen, confirms apart, without the port.
fn seen(node: &mut Node) -> Vec<String> {
    node.settle();
    let seen = node.take_seen().into_iter().filter(|line| !line.contains("confirmed"));
    seen.map(|line| line.split_once(": ").unwrap().1.to_owned()).collect()
}

fn select(node: &mut Node, port: usize, (handle, text): (u32, &str), credit: Credit) {
    choose(node, port, (handle, text), credit, None);
}

fn choose(
    node: &mut Node,
    port: usize,
    (handle, text): (u32, &str),
    credit: Credit,
    browses: Option<Browse>,
) {
    let selector = Selector::parse(text.as_bytes(), Names::Own, Macros::none(), &ANN).unwrap();
    let (settled, exclusive) = (false, false);
    let consumer = NewConsumer { credit, settled, exclusive, priority: 0, browses, timeout_ms: None };
    node.command(port, "q", QueueCommand::Select { token: 2, handle, consumer, selector });
}

/// Publishes messages `first..end` to `q`, each with its number and what is left of it by 10.
fn fill(node: &mut Node, first: u64, end: u64) {
    let mut publisher = node.publisher(0);
    for number in first..end {
        let body = format!("{{\"n\":{number},\"k\":{}}}", number % 10);
        node.publish(0, &mut publisher, "q", &body, true);
    }
    node.settle();
}

/// A drain gets all that its connection published before it, confirmed or not, for one that chooses and for others.
#[test]
fn a_drain_waits_for_what_was_published_before() {
    let credit = |limit, drain| QueueCommand::Credit { handle: 7, limit, drain, echo: false };
    let publish = |node: &mut Node, bodies: &[&str]| {
        let mut publisher = node.publisher(0);
        bodies.iter().for_each(|body| _ = node.publish(0, &mut publisher, "q", body, true));
    };
    for (text, gets, unused) in [("body.k = 9", "7 gets {\"k\":9}", 9), ("body.k > 0", "7 gets {\"k\":1}", 8)]
    {
        let mut node = Node::new(1);
        node.declare(0, "q", true);
        select(&mut node, 0, (7, text), Credit::Link);
        publish(&mut node, &["{\"k\":1}"]);
        seen(&mut node);
        publish(&mut node, &["{\"k\":9}"]);
        node.command(0, "q", credit(10, true));
        let told = seen(&mut node);
        assert!(told[0].starts_with(gets), "{told:?}");
        assert_eq!(told.last().unwrap(), &format!("Drained {{ consumer: 7, unused: {unused} }}"), "{told:?}");
    }
    for (credits, expected) in [
        // There is as much as it wants.
        (&[credit(1, true)][..], &["gets a", "Drained unused: 0"][..]),
        (&[credit(3, true)], &["gets a", "gets b", "Drained unused: 1"]),
        // The last word counts, and is the only one that is answered.
        (&[credit(3, true), credit(5, false)], &["gets a", "gets b"]),
        (&[credit(3, true), credit(5, true)], &["gets a", "gets b", "Drained unused: 3"]),
    ] {
        let mut node = Node::new(1);
        node.declare(0, "q", true);
        let (settled, exclusive, browses) = (false, false, None);
        let consumer =
            NewConsumer { credit: Credit::Link, settled, exclusive, priority: 0, browses, timeout_ms: None };
        node.command(0, "q", QueueCommand::Consume { token: 2, handle: 7, consumer });
        publish(&mut node, &["a"]);
        assert_eq!(seen(&mut node), ["Consuming"]);
        publish(&mut node, &["b"]);
        credits.iter().for_each(|credit| node.command(0, "q", credit.clone()));
        let told = seen(&mut node);
        let words = told.iter().map(|line| match line.split_once("unused: ") {
            Some((_, unused)) => format!("Drained unused: {}", unused.trim_end_matches(" }")),
            None => line["7 ".len()..].split('@').next().unwrap().to_owned(),
        });
        assert_eq!(words.collect::<Vec<_>>(), expected, "{credits:?}");
    }
    // Whoever cancels is told nothing any more, nor is the next one under that number.
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    select(&mut node, 0, (7, "body.k = 9"), Credit::Link);
    seen(&mut node);
    publish(&mut node, &["a"]);
    node.command(0, "q", credit(3, true));
    node.command(0, "q", QueueCommand::Cancel { token: Some(3), handle: 7, held: Held::GoesBack });
    select(&mut node, 0, (7, "body.k = 9"), Credit::Link);
    assert_eq!(seen(&mut node), ["Cancelled", "Consuming"]);
}

/// The node comes up again: nothing is in memory.
fn come_up_again(node: &mut Node, limits: Limits) {
    let mut shard = node.restarted_with(limits);
    assert!(shard.finish_recovery(node.now).is_empty());
    shard.open_port(node.ports[0], Node::actor(node.ports[0]));
    node.shards[0] = shard;
    node.turn();
    node.take_seen();
}

/// Carries out the reads that wait: how many bytes they brought.
fn read_on(node: &mut Node) -> usize {
    let (mut reads, mut bytes) = (Vec::new(), 0);
    node.shards[0].take_reads(&mut reads);
    for mut read in reads {
        let brought: Vec<_> =
            read.carry_out(&node.disk).into_iter().map(|part| part.ok().flatten()).collect();
        bytes += brought.iter().flatten().map(ReadBytes::len).sum::<usize>();
        node.shards[0].read_done(node.now, read, brought);
        node.settle();
    }
    bytes
}

fn row(node: &Node) -> QueueRow {
    node.shards[0].listing().rows().find(|row| &*row.definition.name == "q").expect("it is there")
}

/// The numbers in what a consumer was given.
fn given(seen: &[String], handle: u32) -> Vec<u64> {
    let of = format!("{handle} gets {{\"n\":");
    let numbers = seen.iter().filter_map(|line| line.strip_prefix(&of)?.split(',').next()?.parse().ok());
    numbers.collect()
}

#[test]
fn each_is_given_its_own_in_order() {
    // One shard, or the consumers on another than the queue.
    for (mut node, far) in [(Node::new(1), 0), (Node::new(2), 1)] {
        node.declare(0, "q", true);
        fill(&mut node, 0, 20);
        select(&mut node, far, (7, "body.k = 3"), Credit::Prefetch(0));
        select(&mut node, far, (8, "body.k IN (3, 5)"), Credit::Prefetch(1));
        select(&mut node, 0, (9, "body.k = 11"), Credit::Prefetch(0));
        let first = seen(&mut node);
        let (mut three, five) = (given(&first, 7), given(&first, 8));
        assert_eq!(five.len(), 1, "{first:?}");
        three.extend(&five);
        three.retain(|number| number % 10 == 3);
        three.sort_unstable();
        assert_eq!(three, [3, 13], "{first:?}");
        assert!(given(&first, 9).is_empty());
        fill(&mut node, 20, 40);
        assert_eq!(given(&seen(&mut node), 7), [23, 33]);
        // 3s are gone, so what is left of the second's are 5s, one at a time.
        let next = five.iter().copied().filter(|number| *number == 5);
        let next: Vec<u64> =
            next.chain([5, 15, 25, 35]).skip(five.iter().filter(|n| **n == 5).count()).collect();
        let mut held = five;
        for expected in next {
            if held == [expected] {
                continue;
            }
            node.settled(far, "q", 8, (held[0], held[0]), Outcome::Accepted);
            held = given(&seen(&mut node), 8);
            assert_eq!(held, [expected]);
        }
        let row = row(&node);
        assert_eq!((row.selectors, row.unmatched, row.consumers), (3, 32, 3), "{row:?}");
        // One that takes everything takes what nobody wants; then nothing is unwanted.
        node.consume(0, "q", 10, 3);
        let rest = given(&seen(&mut node), 10);
        assert_eq!((rest, self::row(&node).unmatched), (vec![0, 1, 2], 0));
    }
}

#[test]
fn what_comes_back_is_at_its_place_and_what_goes_is_gone() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    fill(&mut node, 0, 30);
    select(&mut node, 0, (7, "body.k = 4"), Credit::Prefetch(2));
    assert_eq!(given(&seen(&mut node), 7), [4, 14]);
    node.command(0, "q", QueueCommand::Cancel { token: None, handle: 7, held: Held::GoesBack });
    select(&mut node, 0, (8, "body.k = 4"), Credit::Prefetch(0));
    assert_eq!(given(&seen(&mut node), 8), [4, 14, 24]);
    node.settled(0, "q", 8, (14, 14), Outcome::Released);
    assert_eq!(given(&seen(&mut node), 8), [14]);
    node.command(0, "q", QueueCommand::Purge { token: 3 });
    node.command(0, "q", QueueCommand::Cancel { token: None, handle: 8, held: Held::GoesBack });
    select(&mut node, 0, (9, "body.k <> 4"), Credit::Prefetch(0));
    assert!(given(&seen(&mut node), 9).is_empty());
}

#[test]
fn a_connection_that_goes_holds_nothing() {
    for (mut node, far) in [(Node::new(1), 0), (Node::new(2), 1)] {
        node.declare(0, "q", true);
        fill(&mut node, 0, 30);
        select(&mut node, far, (7, "body.k = 4"), Credit::Prefetch(2));
        assert_eq!(given(&seen(&mut node), 7), [4, 14]);
        let (now, port) = (node.now, node.ports[far]);
        node.shards[far].close_port(now, port);
        seen(&mut node);
        assert_eq!((row(&node).unsettled, row(&node).ready, row(&node).consumers), (0, 30, 0));
    }
}

#[test]
fn a_browser_is_shown_what_it_chooses() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    fill(&mut node, 0, 30);
    choose(&mut node, 0, (7, "body.k = 6"), Credit::Prefetch(0), Some(QueueSeq(5).into()));
    assert_eq!(given(&seen(&mut node), 7), [6, 16, 26]);
    fill(&mut node, 30, 40);
    assert_eq!(given(&seen(&mut node), 7), [36]);
    assert_eq!((row(&node).ready, row(&node).selectors), (40, 0));
}

#[test]
fn what_was_there_before_is_read_in_the_background() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    fill(&mut node, 0, 3000);
    come_up_again(&mut node, Limits::default());
    select(&mut node, 0, (7, "body.n >= 2990"), Credit::Prefetch(0));
    // Messages that come meanwhile stay behind those that are there.
    fill(&mut node, 3000, 3002);
    assert!(given(&seen(&mut node), 7).is_empty());
    let mut all = Vec::new();
    while read_on(&mut node) > 0 {
        all.extend(given(&seen(&mut node), 7));
    }
    assert_eq!(all, (2990..3002).collect::<Vec<u64>>());
    assert_eq!(row(&node).unmatched, 2990);
}

/// Ten consumers at ten places of a queue on disk, each of which settles what it is given and then has the next.
#[test]
fn what_was_read_is_for_all_who_wait_for_it() {
    let limits = Limits {
        loaded_bytes_max: 16 << 10,
        loaded_for_passes_bytes_max: 16 << 10,
        read_bytes_max: 8 << 10,
        ..Limits::default()
    };
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    for batch in 0..50 {
        fill(&mut node, batch * 100, (batch + 1) * 100);
    }
    come_up_again(&mut node, limits);
    for handle in 0..10 {
        let expression = format!("body.k = {handle} AND body.n >= {}", u64::from(handle) * 400);
        select(&mut node, 0, (handle, &expression), Credit::Prefetch(4));
    }
    let mut all: Vec<Vec<u64>> = vec![Vec::new(); 10];
    let mut bytes = 0;
    loop {
        let seen = seen(&mut node);
        let mut has_news = false;
        for handle in 0..10 {
            for number in given(&seen, handle) {
                node.settled(0, "q", handle, (number, number), Outcome::Accepted);
                all[handle as usize].push(number);
                has_news = true;
            }
        }
        let read = read_on(&mut node);
        if read == 0 && !has_news {
            break;
        }
        bytes += read;
    }
    for (handle, all) in (0..).zip(all) {
        let expected = (handle * 400..5000).filter(|number| number % 10 == handle);
        assert_eq!(all, expected.collect::<Vec<u64>>(), "of {handle}");
    }
    // Records of 80 bytes: all of them once, to find out who wants what, and each way from its beginning on, of which 16 KiB do
    // not hold two ends. A batch that is read for each message of a consumer would be five times as much.
    let (whole, ways) = (5000 * 80, (0..10).map(|handle| 5000 - handle * 400).sum::<usize>() * 80);
    let most = whole + ways + ways / 5;
    assert!(bytes <= most, "{bytes} bytes were read of {whole}, {most} allowed");
}

#[test]
fn a_selector_stays_for_a_while_and_only_so_many_do() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    for number in 0..256 {
        select(&mut node, 0, (100 + number, &format!("body.k = {number}")), Credit::Prefetch(0));
    }
    // The same once more is no other.
    select(&mut node, 0, (99, "body.k = 7"), Credit::Prefetch(0));
    seen(&mut node);
    assert_eq!(row(&node).selectors, 256);
    select(&mut node, 0, (98, "body.k = 256"), Credit::Prefetch(0));
    let refused = seen(&mut node);
    assert!(refused.iter().any(|line| line.contains("has 256 selectors, which is the most")), "{refused:?}");
    // One that nobody has makes room, the one that was used longest ago.
    node.command(0, "q", QueueCommand::Cancel { token: None, handle: 105, held: Held::GoesBack });
    select(&mut node, 0, (98, "body.k = 256"), Credit::Prefetch(0));
    assert_eq!((seen(&mut node), row(&node).selectors), (vec!["Consuming".to_owned()], 256));
    for handle in (98..=99).chain(100..356) {
        node.command(0, "q", QueueCommand::Cancel { token: None, handle, held: Held::GoesBack });
    }
    seen(&mut node);
    node.pass(500_000);
    assert_eq!(row(&node).selectors, 256);
    node.pass(200_000);
    assert_eq!(row(&node).selectors, 0);
}

/// Each consumer's connection holds what its selector takes; those that nobody has stay while there is room.
#[test]
fn selectors_that_nobody_has_stay_where_there_is_room() {
    for (most, stay) in [(0, 0..1), (20_000, 0..60), (1 << 20, 100..101)] {
        let limits = Limits { selectors_bytes_max: most, ..Limits::default() };
        let mut node = Node::with_limits(1, limits);
        node.declare(0, "q", true);
        let held =
            |node: &Node| node.shards[0].holding(node.ports[0]).expect("it is open").held_of(Kind::Filters);
        for number in 0..100 {
            select(&mut node, 0, (number, &format!("body.k = {number}")), Credit::Prefetch(0));
            assert_eq!(seen(&mut node), ["Consuming"]);
        }
        assert_eq!(row(&node).selectors, 100);
        assert!((100 * 1024..100 * 4000).contains(&held(&node)), "{}", held(&node));
        for handle in 0..100 {
            node.command(0, "q", QueueCommand::Cancel { token: Some(9), handle, held: Held::GoesBack });
        }
        seen(&mut node);
        assert!(stay.contains(&row(&node).selectors), "{} of {most} bytes", row(&node).selectors);
        for handle in 0..100 {
            let port = node.ports[0];
            node.shards[0].forget_consumer(port, handle);
        }
        assert_eq!(held(&node), 0);
    }
}

#[test]
fn a_queue_with_groups_takes_none() {
    let mut node = Node::new(1);
    node.declare_with(0, "q", true, &[("x-group-key", Value::text("properties.group_id"))]);
    select(&mut node, 0, (7, "body.k = 1"), Credit::Prefetch(0));
    let refused = seen(&mut node);
    assert!(refused.iter().any(|line| line.contains("whose messages are in groups")), "{refused:?}");
    assert_eq!(Limits::default().choosing_work_max, 200_000);
}
