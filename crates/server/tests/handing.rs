//! Logs go from shard to shard in a running node, under load: nothing is lost or doubled, order is kept, and the pauses are
//! those of a flush.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of the shell, where these live"
)]

mod harness;

use harness::{Client, DURABLE, Folder, Node, ctl, frame, long, method, short};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Moves in all.
const MOVES: u32 = 100;

/// Shards, and as many publishers with a queue each. The catalog's log is one more.
const SHARDS: u32 = 3;

/// Publishes that are not confirmed yet, at most.
const WINDOW: u64 = 200;

/// A pause that a move may cost, besides a flush. A build that is not optimised runs beside all other tests and waits for a
/// processor too: it is held to a time in which a move that waits for a signal nobody gives is still found.
const GAP_MAX: Duration = Duration::from_millis(if cfg!(debug_assertions) { 250 } else { 20 });

fn number(bytes: &[u8]) -> u64 {
    bytes[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A persistent message with this number as its body.
fn message(queue: &str, number: u64) -> Vec<u8> {
    let header = [&[0, 60, 0, 0][..], &8u64.to_be_bytes(), &[0x10, 0], &[2]].concat();
    let publish = method(60, 40, &[&[0, 0], &short("")[..], &short(queue), &[0]].concat());
    [publish, frame(2, &header), frame(3, &number.to_be_bytes())].concat()
}

/// The longest time between two of something.
struct Gaps {
    last: Instant,
    longest: Duration,
}

impl Gaps {
    fn new() -> Gaps {
        Gaps { last: Instant::now(), longest: Duration::ZERO }
    }

    fn came(&mut self) {
        self.longest = self.longest.max(self.last.elapsed());
        self.last = Instant::now();
    }
}

/// Publishes without a pause until it is to stop; how many messages, all confirmed, and the longest time between confirms.
fn publish(client: &mut Client, queue: &str, is_over: &AtomicBool) -> (u64, Duration) {
    client.send(&method(85, 10, &[0]));
    client.until(85, 11);
    let (mut sent, mut confirmed, mut gaps) = (0, 0, Gaps::new());
    while confirmed < sent || !is_over.load(Ordering::Relaxed) {
        while sent - confirmed < WINDOW && !is_over.load(Ordering::Relaxed) {
            client.send(&message(queue, sent));
            sent += 1;
        }
        if confirmed < sent {
            let told = number(&client.until(60, 80));
            assert!(
                told > confirmed && told <= sent,
                "{queue}: {told} is confirmed, of {confirmed} to {sent}"
            );
            confirmed = told;
            gaps.came();
        }
    }
    (sent, gaps.longest)
}

/// The next delivery of a consumer: its tag, whether it was delivered before, and its number.
fn delivery(client: &mut Client) -> (u64, bool, u64) {
    let told = client.until(60, 60);
    let tag = 1 + usize::from(told[0]);
    let again = told[tag + 8] != 0;
    client.next();
    (number(&told[tag..]), again, number(&client.next()))
}

/// Consumes from a queue from here on; `arguments` and a prefetch of its own.
fn consumer(node: &Node, queue: &str, prefetch: u16, arguments: &[u8]) -> Client {
    let mut client = Client::open(node);
    client.send(&method(60, 10, &[&[0; 4], &prefetch.to_be_bytes()[..], &[0]].concat()));
    client.until(60, 11);
    let consume = [&[0, 0], &short(queue)[..], &short("tag"), &[0], &long(arguments)].concat();
    client.send(&method(60, 20, &consume));
    client.until(60, 21);
    client
}

/// Takes all messages of a queue, in order, until so many came as `last` says once it is known.
fn consume(client: &mut Client, queue: &str, last: &dyn Fn() -> Option<u64>) -> Duration {
    let (mut expected, mut gaps) = (0, Gaps::new());
    while last().is_none_or(|last| expected < last) {
        let (tag, again, number) = delivery(client);
        assert_eq!((number, again), (expected, false), "{queue}: in order, and each once");
        expected += 1;
        gaps.came();
        if expected % 16 == 0 || last().is_some() {
            client.send(&method(60, 80, &[&tag.to_be_bytes()[..], &[1]].concat()));
        }
    }
    gaps.longest
}

/// Publishes in transactions until it is to stop; how many messages.
fn transact(client: &mut Client, queue: &str, is_over: &AtomicBool) -> u64 {
    client.send(&method(90, 10, &[]));
    client.until(90, 11);
    let mut sent = 0;
    while !is_over.load(Ordering::Relaxed) {
        for _ in 0..5 {
            client.send(&message(queue, sent));
            sent += 1;
        }
        client.send(&method(90, 20, &[]));
        client.until(90, 21);
    }
    sent
}

/// The longest flush so far.
fn longest_flush(port: u16) -> Duration {
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connects");
    client.write_all(b"GET /metrics HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").expect("sends");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("answers");
    let name = "rabbitmq_leveret_flush_longest_seconds ";
    let told = answer.lines().find_map(|line| line.strip_prefix(name)).expect("a metric");
    Duration::from_secs_f64(told.parse().expect("a number"))
}

#[test]
fn logs_go_round_under_load() {
    let folder = Folder::new();
    let logs = format!("leveret.logs={}", SHARDS + 1);
    let shards = format!("leveret.shards={SHARDS}");
    let metrics = ["prometheus.tcp.ip=127.0.0.1", "prometheus.tcp.port=0"];
    let node = Node::start(&folder.0, &[&metrics[..], &[&*logs, &*shards]].concat());
    let http = node.log.iter().find_map(|line| line.split_once("started Prometheus listener on 127.0.0.1:"));
    let http = http.expect("listens").1.parse().expect("a port");
    // Each is accepted by the shard whose turn it is, and its queue is placed there.
    let queues: Vec<String> = (0..SHARDS).map(|number| format!("q{number}")).collect();
    let publishers: Vec<Client> = queues
        .iter()
        .map(|queue| {
            let mut client = Client::open(&node);
            client.declare(queue, DURABLE, b"");
            client
        })
        .collect();
    let mut others = Client::open(&node);
    others.declare("held", DURABLE, b"");
    others.declare("tx", DURABLE, b"");
    let kind = [&short("x-queue-type")[..], b"S", &long(b"stream")].concat();
    others.declare("s", DURABLE, &kind);
    (0..20).for_each(|number| others.send(&message("held", number)));
    (0..5000).for_each(|number| others.send(&message("s", number)));
    let mut holder = consumer(&node, "held", 20, b"");
    let held: Vec<_> = (0..20).map(|_| delivery(&mut holder)).collect();
    let is_over = AtomicBool::new(false);
    let ends: Vec<std::sync::OnceLock<u64>> = queues.iter().map(|_| std::sync::OnceLock::new()).collect();
    let mut gaps = Vec::new();
    let transacted = std::thread::scope(|threads| {
        let is_over = &is_over;
        let (queues, ends, node) = (&queues, &ends, &node);
        let mut works = Vec::new();
        for (at, mut client) in publishers.into_iter().enumerate() {
            works.push(threads.spawn(move || {
                let (sent, longest) = publish(&mut client, &queues[at], is_over);
                ends[at].set(sent).expect("once");
                // One more, so that the consumer is not waiting when it learns how many there are.
                client.send(&message(&queues[at], sent));
                client.until(60, 80);
                longest
            }));
            works.push(threads.spawn(move || {
                let mut client = consumer(node, &queues[at], 100, b"");
                consume(&mut client, &queues[at], &|| ends[at].get().map(|last| last + 1))
            }));
        }
        let transaction = threads.spawn(move || transact(&mut Client::open(node), "tx", is_over));
        let reader = threads.spawn(move || {
            // From the first message on, a few at a time: it is far behind all the while.
            let from = [&short("x-stream-offset")[..], b"S", &long(b"first")].concat();
            let mut client = consumer(node, "s", 10, &from);
            for expected in 0..5000 {
                let (tag, _, number) = delivery(&mut client);
                assert_eq!(number, expected, "of the stream");
                client.send(&method(60, 80, &[&tag.to_be_bytes()[..], &[0]].concat()));
            }
        });
        for number in 0..MOVES {
            let (log, shard) = (1 + number % SHARDS, (number + number / SHARDS) % SHARDS);
            let moved = ctl(&folder.0, &["move_log", &log.to_string(), &shard.to_string()]);
            assert!(moved.status.success(), "{moved:?}");
        }
        is_over.store(true, Ordering::Relaxed);
        gaps.extend(works.into_iter().map(|work| work.join().expect("no mistake")));
        reader.join().expect("no mistake");
        transaction.join().expect("no mistake")
    });
    // Messages that were held all the while are settled now, and do not come again.
    holder.send(&method(60, 80, &[&held[19].0.to_be_bytes()[..], &[1]].concat()));
    let mut taker = consumer(&node, "tx", 0, b"");
    (0..transacted).for_each(|expected| assert_eq!(delivery(&mut taker).2, expected));
    let counts: Vec<u32> = queues.iter().map(|queue| others.declare(queue, DURABLE, b"")).collect();
    assert_eq!(counts, [0, 0, 0]);
    let longest = gaps.iter().max().expect("some");
    let flush = longest_flush(http);
    println!(
        "{MOVES} moves; messages {ends:?}, {transacted} in transactions; longest gap {longest:?}, longest flush {flush:?}"
    );
    drop((taker, holder));
    assert_eq!(node.stop().code(), Some(0));
    let node = Node::start(&folder.0, &[&*logs, &*shards]);
    let mut client = Client::open(&node);
    assert_eq!(client.declare("held", DURABLE, b""), 0);
    assert_eq!(u64::from(client.declare("tx", DURABLE, b"")), transacted, "they were never settled");
    assert!(*longest <= GAP_MAX + flush, "{longest:?}, the longest flush {flush:?}");
}
