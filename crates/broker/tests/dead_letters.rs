//! Messages that die in a queue are in the queue its dead go to, however the node ends: more of them than are under way at
//! once, in memory and read back, behind snapshots and without.

use crate::node;

use base::Random;
use base::id::{LogId, LogIndex};
use node::Node;
use routing::{IntType, Value};
use std::collections::BTreeSet;

const LENGTH: i64 = 20;

/// Messages published at once at most: more than dead letters of a queue are under way.
const BURST: u64 = 700;

struct Story {
    node: Node,
    publisher: broker::Publisher,
    /// The number of the first message of this publisher.
    first: u64,
    next: u64,
    confirmed: BTreeSet<u64>,
    /// The content of a snapshot, and the index it reaches to.
    kept: Option<(LogIndex, Vec<u8>)>,
}

impl Story {
    fn begin() -> Story {
        let mut node = Node::new(1);
        node.declare(0, "dead", true);
        let text = Value::text;
        let rules = [
            ("x-max-length", Value::Int(IntType::SignedInt, LENGTH)),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text("dead")),
        ];
        node.declare_with(0, "q", true, &rules);
        let publisher = node.publisher(0);
        Story { node, publisher, first: 0, next: 0, confirmed: BTreeSet::new(), kept: None }
    }

    fn publish(&mut self, count: u64) {
        for _ in 0..count {
            self.node.publish(0, &mut self.publisher, "q", &self.next.to_string(), true);
            self.next += 1;
        }
    }

    fn hear(&mut self) {
        for line in self.node.take_seen() {
            let Some((_, range)) = line.split_once(" confirmed ") else { continue };
            let (first, last) = range.split_once('-').unwrap();
            let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
            // Numbers of a publisher begin with 1.
            self.confirmed.extend((first..=last).map(|seq| self.first + seq - 1));
        }
    }

    fn snapshot(&mut self) {
        let snapshot = self.node.shards[0].snapshot(LogId(0), false);
        self.kept = snapshot.map(|snapshot| (snapshot.covered, snapshot.bytes.to_vec())).or(self.kept.take());
    }

    /// The node is killed and comes up from what is on disk.
    fn kill(&mut self) {
        self.hear();
        kill(&mut self.node, self.kept.as_ref());
        self.publisher = self.node.publisher(0);
        self.first = self.next;
    }

    /// The content of a queue when nothing moves any more; it stays there.
    fn holds(&mut self, queue: &str, handle: u32) -> Vec<u64> {
        self.node.consume(0, queue, handle, 0);
        let (mut all, mut quiet) = (Vec::new(), 0);
        while quiet < 3 {
            self.node.settle();
            self.node.read();
            let seen = self.node.take_seen();
            let came = seen.iter().filter_map(|line| line.split_once(" gets ")?.1.split('@').next());
            let before = all.len();
            all.extend(came.map(|body| body.parse::<u64>().unwrap()));
            quiet = if all.len() == before { quiet + 1 } else { 0 };
        }
        all
    }

    /// Nothing is on its way.
    fn rest(&mut self) {
        let mut ready = Vec::new();
        while ready.len() < 4 || ready[ready.len() - 4..].iter().any(|line| *line != ready[ready.len() - 1]) {
            self.node.settle();
            self.node.read();
            self.hear();
            for queue in ["q", "dead"] {
                self.node.command(0, queue, broker::QueueCommand::Counts { token: 3 });
            }
            self.node.settle();
            ready.push(self.node.take_seen().join(", "));
        }
    }
}

/// The only shard goes down at once and comes up from what is on disk.
fn kill(node: &mut Node, snapshot: Option<&(LogIndex, Vec<u8>)>) {
    let mut shard = Node::fresh();
    if let Some((covered, bytes)) = snapshot {
        shard.restore(LogId(0), *covered, bytes).unwrap();
    }
    for (_, sealed, place) in &node.written {
        shard.replay(LogId(0), sealed.base, sealed.records(), *place).unwrap();
    }
    node.unwritten.clear();
    assert!(shard.finish_recovery(node.now).is_empty());
    shard.open_port(node.ports[0], Node::actor(node.ports[0]));
    node.shards[0] = shard;
    node.take_seen();
}

#[test]
fn what_died_is_in_the_queue_it_goes_to_however_the_node_ends() {
    let mut many = 0;
    for seed in 0..15 {
        let mut dice = Random::new(seed);
        let mut story = Story::begin();
        for _ in 0..40 {
            match dice.below(12) {
                0..=2 => story.publish(dice.below(BURST)),
                3 => story.publish(dice.below(20)),
                4..=5 => story.node.turn(),
                6..=7 => {
                    story.node.turn();
                    story.node.write();
                }
                8 => story.node.read(),
                9 => story.snapshot(),
                10 => story.node.settle(),
                _ => story.kill(),
            }
        }
        story.node.settle();
        story.kill();
        story.rest();
        let dead: BTreeSet<u64> = story.holds("dead", 78).into_iter().collect();
        let alive = story.holds("q", 77);
        assert!(alive.len() as i64 <= LENGTH, "seed {seed}: {} are left", alive.len());
        assert!(alive.is_sorted());
        let there: BTreeSet<u64> = dead.iter().chain(&alive).copied().collect();
        let lost: Vec<&u64> = story.confirmed.difference(&there).collect();
        assert!(
            lost.is_empty(),
            "seed {seed}: {} of {} are lost, first {:?}",
            lost.len(),
            story.confirmed.len(),
            lost.first()
        );
        many += u64::from(dead.len() > BURST as usize);
    }
    assert!(many > 4, "{many}");
}

/// A dead letter waits for the disk like all else, and those that wait are bounded by their bytes, however large each is.
#[test]
fn large_ones_wait_until_the_disk_has_those_before() {
    const BYTES: usize = 512 << 10;
    const MESSAGES: u64 = 120;
    let mut node = Node::new(1);
    node.declare(0, "dead", true);
    let rules = [
        ("x-message-ttl", Value::Int(IntType::SignedInt, 1000)),
        ("x-dead-letter-exchange", Value::text("")),
        ("x-dead-letter-routing-key", Value::text("dead")),
    ];
    node.declare_with(0, "q", true, &rules);
    let (mut publisher, body) = (node.publisher(0), "x".repeat(BYTES));
    for _ in 0..MESSAGES {
        node.publish(0, &mut publisher, "q", &body, true);
        node.settle();
    }
    node.now = base::Now { mono_ns: node.now.after_ms(2000), wall_ms: node.now.wall_ms + 2000 };
    let most = node.shards[0].limits().dead_lettering_bytes_max / BYTES;
    let mut reads = Vec::new();
    let mut read = 0;
    // The disk reads, and does not write.
    loop {
        node.turn();
        node.shards[0].take_reads(&mut reads);
        if reads.is_empty() {
            break;
        }
        for mut request in reads.drain(..) {
            read += request.parts.len();
            let brought = request.carry_out(&node.disk).into_iter().map(Result::unwrap).collect();
            node.shards[0].read_done(node.now, request, brought);
        }
    }
    assert!(read <= most + 10, "{read} were read");
    assert!(read > 0 && !node.shards[0].has_work());
    for _ in 0..2 * MESSAGES {
        node.settle();
        node.read();
    }
    node.take_seen();
    node.command(0, "dead", broker::QueueCommand::Counts { token: 3 });
    node.settle();
    assert_eq!(node.take_seen(), [format!("0: declared dead {MESSAGES} 0")]);
}

/// Where what is read back of one queue drives out what was read of another, the other does not wait until the one is done.
#[test]
fn each_queue_gets_on_with_what_is_read_of_it() {
    let mut node = Node::new(1);
    node.declare(0, "dead", true);
    // Two of them are more than is kept.
    let body = "x".repeat(node.shards[0].limits().loaded_bytes_max * 3 / 4);
    let rules = [
        ("x-message-ttl", Value::Int(IntType::SignedInt, 1000)),
        ("x-dead-letter-exchange", Value::text("")),
        ("x-dead-letter-routing-key", Value::text("dead")),
    ];
    let mut publisher = node.publisher(0);
    for (queue, messages) in [("few", 1), ("many", 8)] {
        node.declare_with(0, queue, true, &rules);
        for _ in 0..messages {
            node.publish(0, &mut publisher, queue, &body, true);
            node.settle();
            node.take_seen();
        }
    }
    kill(&mut node, None);
    node.pass(2000);
    for _ in 0..3 {
        node.read();
    }
    let left = |name: &str| {
        let row = node.shards[0].listing().rows().find(|row| *row.definition.name == *name).unwrap();
        row.end - row.head
    };
    assert_eq!(left("few"), 0);
    assert!(left("many") > 0, "it was done first");
}

/// A log is found damaged while dead letters are on their way to it: there they come to nothing, and they stay where they were,
/// whatever the strategy.
#[test]
fn what_is_on_its_way_to_a_log_that_is_stopped_stays_where_it_was() {
    // In the shard's own log, given out and not written; in another shard's; in the mail.
    for (port, turns) in [(0, 1), (1, 1), (1, 0)] {
        let mut node = Node::with_logs(2, 6, broker::Limits::default());
        let dead = node.declare(port, "dead", true);
        let rules = [
            ("x-message-ttl", Value::Int(IntType::SignedInt, 1000)),
            ("x-dead-letter-exchange", Value::text("")),
            ("x-dead-letter-routing-key", Value::text("dead")),
        ];
        let other = node.declare_with(0, "q", true, &rules);
        assert_ne!(dead, other);
        let mut publisher = node.publisher(0);
        node.publish(0, &mut publisher, "q", "m", true);
        node.settle();
        let left = |node: &Node| {
            let row = node.shards[0].listing().rows().find(|row| *row.definition.name == *"q").unwrap();
            row.end - row.head
        };
        node.now = base::Now { mono_ns: node.now.after_ms(2000), wall_ms: node.now.wall_ms + 2000 };
        match turns {
            0 => node.shards[0].end_turn(node.now, &mut Vec::new()),
            _ => node.turn(),
        };
        assert_eq!(left(&node), 1, "it waits for the disk");
        node.shards.iter_mut().for_each(|shard| shard.stop_log(dead));
        node.settle();
        assert_eq!(left(&node), 1, "{port} {turns}");
    }
}

/// Turns until 300 dead letters are in their queue, where turns have so many units of work.
fn turns_with(units: u32) -> usize {
    let mut story = Story::begin();
    story.node.shards[0].set_turn_work(units);
    story.publish(300 + LENGTH as u64);
    let mut turns = 0;
    loop {
        turns += 1;
        story.node.turn_of(0);
        story.node.write();
        let rows = || story.node.shards[0].listing().rows();
        let dead = rows().find(|row| &*row.definition.name == "dead").map_or(0, |row| row.ready);
        if dead == 300 {
            break;
        }
        assert!(turns < 100_000, "{dead} letters came");
    }
    story.node.settle();
    let came = story.node.look_into("dead", |node| {
        node.settle();
        vec![node.take_seen().iter().filter(|line| line.contains(" gets ")).count()]
    });
    assert_eq!(came, [300], "with {units} units");
    turns
}

#[test]
fn fewer_units_of_work_take_more_turns_to_the_same_end() {
    let turns = [1_000, 10_000, 400_000].map(turns_with);
    // A letter takes some 420 units, of half as many as turns have.
    assert!(turns[0] > 100 && turns[0] > 3 * turns[1] && turns[1] > 5 && turns[2] < turns[1], "{turns:?}");
}
