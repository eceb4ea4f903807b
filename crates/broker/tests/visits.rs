//! Three nodes of one shard each that agree on the catalog and on a log with queues, which different nodes lead: clients are at
//! any of them. A stand-in for those who agree has a batch of the leader's agreed on, and on all disks, at once.

use crate::joined;

use base::Now;
use base::id::{LogId, LogIndex, NodeNo, PortId, QueueSeq, ShardId};
use broker::access::AccessCache;
use broker::catalog::{Actor, FirstContent, Op, VhostId};
use broker::ledger::Kind;
use broker::{
    Browse, CATALOG_LOG, CatalogWord, Credit, Event, Events, LogWord, NewConsumer, Publish, Publisher,
    QueueCommand, Reply, Shard, StreamCommand,
};
use joined::{LOG, node_no};
use journal::{Disk, FaultyDisk, FileId, FileKind, FileName, Place, Sealed};
use message::record::{Format, Outcome, SeqRange};
use routing::{Arguments, NoHeaders, Value};
use std::collections::BTreeMap;
use std::io::IoSlice;

const PORT: PortId = PortId::here(ShardId(0), 0, 1);

struct Nodes {
    shards: Vec<Shard>,
    publishers: Vec<Publisher>,
    leaders: BTreeMap<LogId, usize>,
    now: Now,
    /// Nodes whose words are lost.
    deaf: Vec<usize>,
    proposed: Vec<Sealed>,
    /// Nothing is agreed on in this log.
    stands: Option<LogId>,
    /// The disk of the node that leads the queues is slow: what is agreed on is on those of the others.
    is_late: bool,
    late: Vec<(LogIndex, LogIndex, Place)>,
    seen: Vec<String>,
    /// All nodes have the same on their disks.
    disk: FaultyDisk,
    disk_end: u64,
}

impl Nodes {
    /// Three nodes, of which the first leads the catalog and the second the queues; there is the queue `q`.
    fn new() -> Nodes {
        let now = Now::at_ms(1_000);
        let shards: Vec<Shard> = (0..3).map(|node| joined::shard(now, node, 5)).collect();
        let (publishers, leaders, deaf, proposed, stands, is_late, late, seen) = Default::default();
        let (disk, disk_end) = (FaultyDisk::new(0), 0);
        disk.create(FILE, FILE_BYTES).expect("there is room");
        let mut nodes = Nodes {
            shards,
            publishers,
            leaders,
            now,
            deaf,
            proposed,
            stands,
            is_late,
            late,
            seen,
            disk,
            disk_end,
        };
        nodes.lead(CATALOG_LOG, 0);
        nodes.lead(LOG, 1);
        nodes.shards[0].found(now, || FirstContent::guest([1; 4]).requests());
        nodes.pass(20);
        let actor = || Actor::new("guest".into(), VhostId(0), PORT);
        for shard in &mut nodes.shards {
            assert!(shard.catalog().user("guest").is_some() && shard.is_caught_up());
            shard.open_port(PORT, actor());
            nodes.publishers.push(Publisher::new(PORT, 5, AccessCache::new(actor())));
        }
        nodes.declare(2, "q");
        nodes.pass(20);
        assert_eq!(nodes.take_seen(), ["2: declared q 0"]);
        nodes
    }

    fn lead(&mut self, log: LogId, node: usize) {
        self.leaders.insert(log, node);
        self.shards[node].lead(self.now, log);
        for (at, shard) in self.shards.iter_mut().enumerate() {
            shard.logs_mut().heed_leader(log, Some(node_no(node)).filter(|_| at != node));
        }
    }

    /// The leader of the queues leads no more, and this node does. Nothing is agreed on meanwhile.
    fn move_to(&mut self, node: usize) {
        let before = self.leaders[&LOG];
        self.shards[before].resign(self.now, LOG);
        self.shards[before].logs_mut().forget_reports(LOG);
        self.proposed.retain(|batch| batch.log != LOG);
        self.lead(LOG, node);
    }

    /// Milliseconds pass, with a round of all nodes in each.
    fn pass(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now.mono_ns += 1_000_000;
            self.now.wall_ms += 1;
            (0..3).for_each(|node| self.turn(node));
        }
    }

    fn turn(&mut self, node: usize) {
        let mut batches = Vec::new();
        self.shards[node].end_turn(self.now, &mut batches);
        batches.retain(|batch| [CATALOG_LOG, LOG].contains(&batch.log));
        assert!(batches.iter().all(|batch| self.leaders[&batch.log] == node), "a leader alone proposes");
        self.proposed.append(&mut batches);
        self.agree();
        self.read(node);
        let is_lost = |deaf: &[usize], to| deaf.contains(&to) || deaf.contains(&node);
        let mut words: Vec<(NodeNo, CatalogWord)> = Vec::new();
        self.shards[node].take_words_of_catalog(&mut words);
        for (to, word) in words {
            let to = usize::from(to.0) - 1;
            if !is_lost(&self.deaf, to) {
                self.shards[to].hear_of_catalog(self.now, node_no(node), word);
            }
        }
        let mut words: Vec<(NodeNo, LogWord)> = Vec::new();
        self.shards[node].take_words(&mut words);
        for (to, word) in words {
            let to = usize::from(to.0) - 1;
            if !is_lost(&self.deaf, to) {
                self.shards[to].hear(self.now, node_no(node), word);
            }
        }
        let mut events = Events::default();
        self.shards[node].take_events(&mut events);
        events.list.iter().for_each(|(_, event)| self.see(node, event, &events));
    }

    fn see(&mut self, node: usize, event: &Event, events: &Events) {
        let body = |memory: u32, item: &broker::Item| {
            let again = if item.is_redelivered() { " again" } else { "" };
            format!("{}{again}", String::from_utf8_lossy(events.message(memory, item).body))
        };
        match event {
            Event::Reply { reply: Ok(Reply::Declared { queue, ready, .. }), .. } => {
                self.seen.push(format!("{node}: declared {} {ready}", queue.name));
            }
            Event::Reply { reply: Ok(reply), .. } => self.seen.push(format!("{node}: {reply:?}")),
            Event::Reply { reply: Err(refusal), .. } => self.seen.push(format!("{node}: {refusal}")),
            Event::Confirmed { first, last, .. } => {
                self.seen.push(format!("{node}: confirmed {first}-{last}"));
            }
            Event::Deliver { memory, items, .. } => {
                let items = &events.items[items.start as usize..items.end as usize];
                self.seen.extend(items.iter().map(|item| format!("{node}: gets {}", body(*memory, item))));
            }
            Event::Got { memory, item, .. } => {
                let item = &events.items[*item as usize];
                self.seen.push(format!("{node}: got {}", body(*memory, item)));
            }
            Event::Cancelled { consumer, queue } => {
                self.seen.push(format!("{node}: {consumer} of {} is cancelled", queue.name));
            }
            Event::Close { refusal } => self.seen.push(format!("{node}: closes, {refusal}")),
            Event::Leased { .. } | Event::Active { .. } => {}
            other => panic!("{node} hears {other:?}"),
        }
    }

    /// All that is proposed is agreed on, and on all disks.
    fn agree(&mut self) {
        let now = self.now;
        let (stay, agreed): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.proposed).into_iter().partition(|batch| self.stands == Some(batch.log));
        self.proposed = stay;
        if !self.is_late {
            for (base, next, place) in std::mem::take(&mut self.late) {
                let leader = &mut self.shards[self.leaders[&LOG]];
                leader.written(now, LOG, base, place);
                leader.commit_outside(now, LOG, next);
            }
        }
        for batch in agreed {
            let (log, leader, place) = (batch.log, self.leaders[&batch.log], self.write(&batch));
            for (node, shard) in self.shards.iter_mut().enumerate() {
                if node == leader && log == LOG && self.is_late {
                    self.late.push((batch.base, batch.next(), place));
                } else if node == leader {
                    shard.written(now, log, batch.base, place);
                    shard.commit_outside(now, log, batch.next());
                } else {
                    shard.apply_agreed(now, log, batch.base, batch.records(), place);
                }
            }
        }
    }

    fn write(&mut self, batch: &Sealed) -> Place {
        let (offset, len) = (self.disk_end, batch.len as u64);
        self.disk.write_at(FILE, offset, &[IoSlice::new(batch.records())]).expect("there is room");
        self.disk_end += len;
        Place { file: FileId(1), name: FILE, offset, len, crc: batch.crc }
    }

    /// Reads the messages that a node hands out and has no more in memory.
    fn read(&mut self, node: usize) {
        let mut reads = Vec::new();
        self.shards[node].take_reads(&mut reads);
        for mut read in reads {
            let brought = read.carry_out(&self.disk).into_iter().map(Result::unwrap).collect();
            self.shards[node].read_done(self.now, read, brought);
        }
    }

    fn declare(&mut self, node: usize, name: &str) {
        self.declare_with(node, name, Arguments::new());
    }

    fn declare_with(&mut self, node: usize, name: &str, arguments: Arguments) {
        let op = Op::DeclareQueue {
            name: name.into(),
            passive: false,
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments,
            random: [0; 16],
        };
        self.shards[node].request(self.now, PORT, 1, op);
    }

    fn publish(&mut self, node: usize, body: &str) {
        self.publish_to(node, "q", body);
    }

    fn publish_to(&mut self, node: usize, queue: &str, body: &str) {
        let publish = Publish {
            exchange: b"",
            routing_key: queue.as_bytes(),
            more: None,
            headers: &NoHeaders,
            format: Format::Amqp091,
            durable: true,
            priority: None,
            ttl_ms: None,
            head: &[b"\0\0"],
            body: &[body.as_bytes()],
            confirm: true,
        };
        let now = self.now;
        self.shards[node].publish(now, &mut self.publishers[node], &publish).expect("it goes to the queue");
    }

    fn command(&mut self, node: usize, command: QueueCommand) {
        self.command_to(node, "q", command);
    }

    fn command_to(&mut self, node: usize, name: &str, command: QueueCommand) {
        let catalog = self.shards[node].catalog();
        let queue = catalog.queue_by_name(VhostId(0), name.as_bytes()).expect("it is there").clone();
        self.shards[node].command(self.now, PORT, queue.log, queue.id, command);
    }

    fn consume(&mut self, node: usize, handle: u32, browses: bool) {
        let browses = browses.then_some(Browse { from: QueueSeq(0), held: false });
        let credit = if browses.is_some() { Credit::Link } else { Credit::Prefetch(10) };
        self.consume_from(node, "q", handle, NewConsumer { browses, ..consumer(credit) });
    }

    fn consume_from(&mut self, node: usize, name: &str, handle: u32, consumer: NewConsumer) {
        self.command_to(node, name, QueueCommand::Consume { token: 2, handle, consumer });
    }

    fn accept(&mut self, node: usize, handle: u32, position: u64) {
        let range = SeqRange { first: QueueSeq(position), last: QueueSeq(position) };
        self.command(node, QueueCommand::Settle { handle, range, outcome: Outcome::Accepted });
    }

    /// The ready messages of the queue as the node has it that leads.
    fn ready(&self) -> u64 {
        self.shards[self.leaders[&LOG]].listing().rows().map(|row| row.ready).sum()
    }

    fn take_seen(&mut self) -> Vec<String> {
        std::mem::take(&mut self.seen)
    }

    #[track_caller]
    fn check(&mut self, expected: &[&str]) {
        self.pass(20);
        assert_eq!(self.take_seen(), expected);
    }

    /// As [`Nodes::check`], of which nothing says what comes first: a message is handed out and its publisher told by words of their
    /// own.
    fn check_in_any_order(&mut self, expected: &[&str]) {
        self.pass(20);
        let mut seen = self.take_seen();
        seen.sort();
        assert_eq!(seen, expected);
    }
}

/// The arguments of a queue of this type.
fn of_type(word: &str) -> Arguments {
    [(b"x-queue-type".to_vec(), Value::text(word))].into_iter().collect()
}

/// A consumer that is like most.
fn consumer(credit: Credit) -> NewConsumer {
    NewConsumer { credit, settled: false, exclusive: false, priority: 0, browses: None, timeout_ms: None }
}

/// The file that has all batches.
const FILE: FileName = FileName::new(FileKind::Journal, 1);
const FILE_BYTES: u64 = 1 << 20;

const DELETE: QueueCommand = QueueCommand::Delete { token: 3, if_unused: false, if_empty: false };

#[test]
fn a_client_reaches_a_queue_wherever_it_is() {
    for node in 0..3 {
        let mut nodes = Nodes::new();
        nodes.publish(node, "one");
        nodes.check(&[&format!("{node}: confirmed 1-1")]);
        nodes.consume(node, 7, false);
        nodes.check(&[&format!("{node}: Consuming"), &format!("{node}: gets one")]);
        nodes.accept(node, 7, 0);
        nodes.pass(200);
        // Settled for good.
        nodes.command(node, QueueCommand::Cancel { token: Some(4), handle: 7, held: broker::Held::GoesBack });
        nodes.check(&[&format!("{node}: Cancelled")]);
        let get = QueueCommand::Get { token: 5, handle: 9, settled: true, behind: true, by_node: false };
        nodes.command(node, get.clone());
        nodes.check(&[&format!("{node}: Empty")]);
        nodes.publish(node, "two");
        nodes.command(node, get);
        nodes.check_in_any_order(&[&format!("{node}: confirmed 2-2"), &format!("{node}: got two")]);
        assert_eq!(nodes.ready(), 0);
    }
}

/// Else a client that asks for what it put in would be told that nothing is there.
#[test]
fn a_publish_is_confirmed_once_its_queue_has_it_where_that_is_led() {
    let mut nodes = Nodes::new();
    nodes.publish(2, "one");
    nodes.check(&["2: confirmed 1-1"]);
    nodes.is_late = true;
    nodes.publish(2, "two");
    nodes.check(&[]);
    nodes.is_late = false;
    nodes.check(&["2: confirmed 2-2"]);
    // The leader says so, and is not heard.
    nodes.is_late = true;
    nodes.publish(2, "three");
    nodes.check(&[]);
    (nodes.deaf, nodes.is_late) = (vec![1], false);
    nodes.pass(100);
    nodes.check(&[]);
    nodes.pass(200);
    nodes.check(&["2: confirmed 3-3"]);
    assert_eq!(nodes.ready(), 3);
}

/// A quorum queue counts what comes back, on which nodes agree first.
#[test]
fn messages_that_come_back_are_in_front_of_others() {
    for node in 0..3 {
        let mut nodes = Nodes::new();
        nodes.declare_with(node, "t", of_type("quorum"));
        nodes.pass(20);
        for body in ["one", "two", "three"] {
            nodes.publish_to(node, "t", body);
        }
        nodes.pass(20);
        nodes.take_seen();
        nodes.consume_from(node, "t", 7, consumer(Credit::Prefetch(1)));
        nodes.check(&[&format!("{node}: Consuming"), &format!("{node}: gets one")]);
        let range = SeqRange { first: QueueSeq(0), last: QueueSeq(0) };
        let back = QueueCommand::Settle { handle: 7, range, outcome: Outcome::Failed };
        nodes.command_to(node, "t", back);
        nodes.check(&[&format!("{node}: gets one again")]);
    }
}

/// A leader tells that it was given back and that it comes again in one breath.
#[test]
fn what_is_held_for_the_second_time_stays_its_holders_when_another_leads() {
    for node in [0, 2] {
        let mut nodes = Nodes::new();
        let other = 2 - node;
        nodes.consume(node, 7, false);
        nodes.publish(1, "one");
        nodes.pass(20);
        nodes.take_seen();
        let range = SeqRange { first: QueueSeq(0), last: QueueSeq(0) };
        nodes.command(node, QueueCommand::Settle { handle: 7, range, outcome: Outcome::Failed });
        nodes.check(&[&format!("{node}: gets one again")]);
        nodes.move_to(other);
        nodes.consume(other, 8, false);
        nodes.pass(200);
        assert_eq!(nodes.take_seen(), [format!("{other}: Consuming")]);
        nodes.accept(node, 7, 0);
        nodes.pass(200);
        [node, other].iter().for_each(|node| nodes.shards[*node].close_port(nodes.now, PORT));
        nodes.pass(200);
        assert_eq!((nodes.ready(), nodes.take_seen()), (0, Vec::new()));
    }
}

#[test]
fn a_client_deletes_a_queue_wherever_it_is() {
    for node in 0..3 {
        let mut nodes = Nodes::new();
        nodes.consume((node + 1) % 3, 7, false);
        nodes.pass(20);
        nodes.take_seen();
        nodes.command(node, QueueCommand::Delete { token: 3, if_unused: true, if_empty: false });
        nodes.pass(20);
        let seen = nodes.take_seen();
        assert!(seen.len() == 1 && seen[0].contains("PRECONDITION_FAILED"), "{seen:?}");
        nodes.command(node, DELETE);
        nodes.pass(20);
        let mut seen = nodes.take_seen();
        seen.sort();
        let mut expected = [
            format!("{node}: Deleted {{ messages: 0 }}"),
            format!("{}: 7 of q is cancelled", (node + 1) % 3),
        ];
        expected.sort();
        assert_eq!(seen, expected);
        for shard in &nodes.shards {
            assert!(shard.catalog().queue_by_name(VhostId(0), b"q").is_none());
        }
    }
}

#[test]
fn what_consumers_hold_stays_theirs_when_another_leads() {
    for next in [0, 2] {
        let mut nodes = Nodes::new();
        (0..3).for_each(|node| nodes.consume(node, 7, false));
        nodes.pass(20);
        ["one", "two", "three"].iter().for_each(|body| nodes.publish(1, body));
        nodes.pass(20);
        let mut seen = nodes.take_seen();
        seen.retain(|line| line.contains("gets"));
        assert_eq!(seen.len(), 3);
        nodes.move_to(next);
        nodes.check(&[]);
        // Each settles what it has, and it is gone for good. One is gone, and what it has comes to another.
        nodes.shards[0].close_port(nodes.now, PORT);
        nodes.pass(200);
        let seen = nodes.take_seen();
        assert!(seen.len() == 1 && seen[0].ends_with(" again") && !seen[0].starts_with('0'), "{seen:?}");
        for node in [1, 2] {
            (0..3).for_each(|position| nodes.accept(node, 7, position));
        }
        nodes.pass(200);
        nodes.move_to(1);
        nodes.check(&[]);
        [1, 2].iter().for_each(|node| nodes.shards[*node].close_port(nodes.now, PORT));
        nodes.pass(200);
        assert_eq!(nodes.ready(), 0);
    }
}

#[test]
fn what_nobody_claims_in_time_is_ready() {
    let mut nodes = Nodes::new();
    nodes.consume(2, 7, false);
    nodes.check(&["2: Consuming"]);
    nodes.publish(0, "one");
    nodes.check_in_any_order(&["0: confirmed 1-1", "2: gets one"]);
    nodes.deaf = vec![2];
    nodes.move_to(0);
    nodes.consume(1, 8, false);
    nodes.check(&[]);
    nodes.pass(600);
    assert_eq!(nodes.take_seen(), ["1: Consuming", "1: gets one again"]);
    // It claims what is another's by now: it gets what comes.
    nodes.deaf.clear();
    nodes.publish(0, "two");
    nodes.pass(400);
    assert_eq!(nodes.take_seen(), ["0: confirmed 2-2", "1: gets two"]);
    nodes.shards[1].close_port(nodes.now, PORT);
    nodes.pass(200);
    let mut seen = nodes.take_seen();
    seen.sort();
    assert_eq!(seen, ["2: gets one again", "2: gets two again"]);
}

#[test]
fn what_was_proposed_is_recorded_once_whoever_leads() {
    let mut nodes = Nodes::new();
    nodes.stands = Some(LOG);
    nodes.publish(1, "of the leader");
    nodes.publish(2, "of another");
    nodes.check(&[]);
    nodes.move_to(0);
    nodes.check(&[]);
    nodes.stands = None;
    nodes.pass(20);
    let mut seen = nodes.take_seen();
    seen.sort();
    assert_eq!(seen, ["1: confirmed 1-1", "2: confirmed 1-1"]);
    assert_eq!(nodes.ready(), 2);
    nodes.move_to(2);
    nodes.check(&[]);
    assert_eq!(nodes.ready(), 2);
}

#[test]
fn browsers_end_with_their_leader() {
    let mut nodes = Nodes::new();
    (0..3).for_each(|node| nodes.consume(node, 7, true));
    nodes.pass(20);
    assert_eq!(nodes.take_seen().len(), 3);
    nodes.move_to(2);
    nodes.pass(20);
    let mut seen = nodes.take_seen();
    seen.sort();
    assert_eq!(seen, ["0: 7 of q is cancelled", "1: 7 of q is cancelled", "2: 7 of q is cancelled"]);
}

#[test]
fn a_queue_that_is_deleted_while_nobody_leads_has_no_consumers_left() {
    let mut nodes = Nodes::new();
    nodes.consume(2, 7, false);
    nodes.check(&["2: Consuming"]);
    nodes.shards[1].resign(nodes.now, LOG);
    nodes.shards[1].logs_mut().forget_reports(LOG);
    let catalog = nodes.shards[0].catalog();
    let id = catalog.queue_by_name(VhostId(0), b"q").expect("it is there").id;
    nodes.shards[0].request(nodes.now, PORT, 9, Op::DeleteQueue { id });
    nodes.pass(20);
    let mut seen = nodes.take_seen();
    seen.sort();
    assert_eq!(seen, ["0: Done", "2: 7 of q is cancelled"]);
    nodes.lead(LOG, 0);
    nodes.check(&[]);
}

#[test]
fn clients_hear_that_a_log_is_stopped_here_or_where_it_is_led() {
    for stopped in [1, 2] {
        let mut nodes = Nodes::new();
        nodes.deaf = vec![2];
        nodes.command(2, QueueCommand::Purge { token: 4 });
        nodes.publish(2, "one");
        nodes.check(&[]);
        let mail = broker::Mail::Stopped { log: LOG };
        assert!(nodes.shards[stopped].receive(nodes.now, mail).is_none());
        nodes.deaf.clear();
        nodes.pass(400);
        let seen = nodes.take_seen();
        assert_eq!(seen.len(), 2, "{stopped}: {seen:?}");
        assert!(seen.iter().all(|line| line.starts_with("2: ") && line.contains("damage")), "{seen:?}");
    }
}

#[test]
fn nothing_is_taken_that_rests_on_a_later_catalog() {
    let mut nodes = Nodes::new();
    // The leader of the queues does not hear of the queue, and the client's node does.
    nodes.stands = Some(CATALOG_LOG);
    nodes.declare(2, "p");
    nodes.pass(20);
    let batch = nodes.proposed.pop().expect("it is proposed");
    let (now, place) = (nodes.now, nodes.write(&batch));
    nodes.shards[0].written(now, CATALOG_LOG, batch.base, place);
    nodes.shards[0].commit_outside(now, CATALOG_LOG, batch.next());
    nodes.shards[2].apply_agreed(now, CATALOG_LOG, batch.base, batch.records(), place);
    nodes.pass(600);
    assert_eq!(nodes.take_seen(), ["2: declared p 0"]);
    let queue = nodes.shards[2].catalog().queue_by_name(VhostId(0), b"p").expect("it is there").clone();
    let counts = QueueCommand::Counts { token: 4 };
    nodes.shards[2].command(now, PORT, queue.log, queue.id, counts);
    nodes.check(&[]);
    nodes.shards[1].apply_agreed(now, CATALOG_LOG, batch.base, batch.records(), place);
    nodes.pass(400);
    assert_eq!(nodes.take_seen(), ["2: declared p 0"]);
}

#[test]
fn a_node_that_others_know_a_later_life_of_is_to_end() {
    for at in [CATALOG_LOG, LOG] {
        let mut nodes = Nodes::new();
        nodes.publish(2, "one");
        nodes.check(&["2: confirmed 1-1"]);
        let mut early = joined::shard(nodes.now, 2, 4);
        early.open_port(PORT, Actor::new("guest".into(), VhostId(0), PORT));
        assert_eq!(early.outlived(), None);
        early.logs_mut().heed_leader(LOG, Some(node_no(1)));
        nodes.shards[2] = early;
        // It hears of it from whoever leads the one or the other.
        nodes.deaf = if at == LOG { vec![0] } else { vec![1] };
        if at == CATALOG_LOG {
            nodes.shards[2].request(
                nodes.now,
                PORT,
                9,
                Op::AddUser { name: "u".into(), password: None, tags: Vec::new() },
            );
        }
        nodes.pass(600);
        assert_eq!(nodes.shards[2].outlived(), Some(5), "{at:?}");
    }
}

#[test]
fn what_waits_for_other_nodes_is_charged_to_its_connection() {
    let mut nodes = Nodes::new();
    let held = |nodes: &Nodes| {
        let holding = nodes.shards[2].holding(PORT).expect("it is open");
        (holding.held_of(Kind::Outbox), holding.held())
    };
    assert_eq!(held(&nodes), (0, 0));
    nodes.deaf = vec![2];
    nodes.publish(2, "one");
    nodes.pass(5);
    let of_message = held(&nodes).0;
    assert!(of_message > 50, "{of_message}");
    nodes.command(2, QueueCommand::Purge { token: 4 });
    nodes.pass(5);
    assert!(held(&nodes).0 > of_message);
    nodes.deaf.clear();
    nodes.pass(400);
    assert_eq!(nodes.take_seen().len(), 2);
    assert_eq!(held(&nodes), (0, 0));
}

#[test]
fn a_node_of_which_nothing_is_heard_for_long_has_no_consumers() {
    let mut nodes = Nodes::new();
    nodes.consume(2, 7, false);
    nodes.publish(1, "one");
    nodes.pass(20);
    nodes.take_seen();
    nodes.consume(0, 8, false);
    nodes.check(&["0: Consuming"]);
    nodes.deaf = vec![2];
    nodes.pass(14_000);
    assert_eq!(nodes.take_seen(), [""; 0]);
    nodes.pass(1_500);
    assert_eq!(nodes.take_seen(), ["0: gets one again"]);
    // It claims what nobody has by then, and settles it.
    nodes.shards[0].close_port(nodes.now, PORT);
    nodes.pass(200);
    nodes.deaf.clear();
    nodes.pass(1_500);
    assert_eq!((nodes.take_seen(), nodes.ready()), (Vec::new(), 0));
    nodes.accept(2, 7, 0);
    nodes.pass(200);
    nodes.shards[2].close_port(nodes.now, PORT);
    nodes.pass(200);
    assert_eq!(nodes.ready(), 0);
}

/// A reader of a stream at a node that does not lead it is refused, as nothing goes to the node that does; but for how much is
/// in it, and for its end.
#[test]
fn readers_of_streams_are_refused_where_their_log_is_not_led() {
    for node in 0..3 {
        let mut nodes = Nodes::new();
        nodes.declare_with(node, "s", of_type("stream"));
        nodes.check(&[&format!("{node}: declared s 0")]);
        nodes.command_to(node, "s", QueueCommand::Stream(Box::new(StreamCommand::Stats { token: 3 })));
        nodes.command_to(node, "s", QueueCommand::Counts { token: 4 });
        nodes.command_to(node, "s", DELETE);
        nodes.pass(40);
        let seen = nodes.take_seen();
        let is_refused = seen[0].contains("streams are read at the node that leads their log alone");
        assert_eq!(is_refused, node != 1, "{seen:?}");
        assert_eq!(
            seen[1..],
            [format!("{node}: declared s 0"), format!("{node}: Deleted {{ messages: 0 }}")]
        );
    }
}

/// The owner of a stream stays at a node that ceases to lead: readers there go on.
#[test]
fn readers_of_streams_go_on_where_their_log_was_led() {
    let mut nodes = Nodes::new();
    nodes.declare_with(1, "s", of_type("stream"));
    nodes.check(&["1: declared s 0"]);
    nodes.move_to(2);
    nodes.pass(700);
    nodes.command_to(1, "s", QueueCommand::Stream(Box::new(StreamCommand::Stats { token: 3 })));
    nodes.command_to(0, "s", QueueCommand::Stream(Box::new(StreamCommand::Stats { token: 4 })));
    nodes.pass(20);
    let mut seen = nodes.take_seen();
    seen.sort();
    assert!(seen.len() == 2 && seen[0].contains("NOT_IMPLEMENTED"), "{seen:?}");
    assert!(seen[1].starts_with("1: Stream(Stats("), "{seen:?}");
}
