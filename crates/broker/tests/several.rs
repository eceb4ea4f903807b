//! Three nodes of one shard each that agree on the catalog, with a stand-in for those who agree: a batch of the leader's is
//! agreed on, and on all disks, when the test says so.

use crate::joined;

use base::Now;
use base::id::{LogIndex, NodeNo, PortId, ShardId};
use broker::catalog::{Actor, FirstContent, Op, VhostId};
use broker::{CATALOG_LOG, CatalogWord, Event, Events, Reply, Shard};
use joined::node_no;
use journal::{FileId, FileKind, FileName, Place, Sealed};

const PORT: PortId = PortId::here(ShardId(0), 0, 1);

struct Nodes {
    shards: Vec<Shard>,
    leader: usize,
    now: Now,
    /// Nodes whose words are lost.
    deaf: Vec<usize>,
    /// Batches are agreed on.
    agrees: bool,
    proposed: Vec<Sealed>,
    /// Answers, as text.
    seen: Vec<String>,
}

impl Nodes {
    /// Three nodes, of which the first leads, with the first content.
    fn new() -> Nodes {
        let now = Now::at_ms(1_000);
        let shards: Vec<Shard> = (0..3).map(|node| joined::shard(now, node, 5)).collect();
        let (deaf, proposed, seen) = Default::default();
        let mut nodes = Nodes { shards, leader: 0, now, deaf, agrees: true, proposed, seen };
        nodes.lead(0);
        nodes.shards[0].found(now, || FirstContent::guest([1; 4]).requests());
        nodes.pass(10);
        for shard in &mut nodes.shards {
            assert!(shard.catalog().user("guest").is_some() && shard.is_caught_up());
            shard.open_port(PORT, Actor::new("guest".into(), VhostId(0), PORT));
        }
        nodes
    }

    fn lead(&mut self, node: usize) {
        self.leader = node;
        self.shards[node].lead(self.now, CATALOG_LOG);
    }

    /// The leader leads no more; what it proposed is never agreed on, or is after all.
    fn resign(&mut self, after_all: bool) {
        let (leader, now) = (self.leader, self.now);
        self.shards[leader].resign(now, CATALOG_LOG);
        self.shards[leader].logs_mut().forget_reports(CATALOG_LOG);
        for batch in std::mem::take(&mut self.proposed).into_iter().filter(|_| after_all) {
            let place = place_of(&batch);
            for shard in &mut self.shards {
                shard.apply_agreed(now, CATALOG_LOG, batch.base, batch.records(), place);
            }
        }
    }

    /// Milliseconds pass, with a round of all nodes in each.
    fn pass(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now.mono_ns += 1_000_000;
            self.now.wall_ms += 1;
            for node in 0..3 {
                self.turn(node);
            }
        }
    }

    fn turn(&mut self, node: usize) {
        let mut batches = Vec::new();
        self.shards[node].end_turn(self.now, &mut batches);
        batches.retain(|batch| batch.log == CATALOG_LOG);
        assert!(batches.is_empty() || node == self.leader, "the leader alone proposes");
        self.proposed.append(&mut batches);
        if self.agrees {
            self.agree();
        }
        let mut words: Vec<(NodeNo, CatalogWord)> = Vec::new();
        self.shards[node].take_words_of_catalog(&mut words);
        for (to, word) in words {
            let to = usize::from(to.0) - 1;
            if !self.deaf.contains(&to) && !self.deaf.contains(&node) {
                self.shards[to].hear_of_catalog(self.now, node_no(node), word);
            }
        }
        let mut events = Events::default();
        self.shards[node].take_events(&mut events);
        for (_, event) in &events.list {
            if let Event::Reply { token, reply } = event {
                let reply = match reply {
                    Ok(Reply::Declared { queue, is_new, .. }) => format!("{} new {is_new}", queue.name),
                    Ok(reply) => format!("{reply:?}"),
                    Err(refusal) => refusal.to_string(),
                };
                self.seen.push(format!("{node}.{token}: {reply}"));
            }
        }
    }

    /// All that is proposed is agreed on, and on all disks.
    fn agree(&mut self) {
        let now = self.now;
        for batch in std::mem::take(&mut self.proposed) {
            let place = place_of(&batch);
            for (node, shard) in self.shards.iter_mut().enumerate() {
                if node == self.leader {
                    shard.written(now, CATALOG_LOG, batch.base, place);
                    shard.commit_outside(now, CATALOG_LOG, batch.next());
                } else {
                    shard.apply_agreed(now, CATALOG_LOG, batch.base, batch.records(), place);
                }
            }
        }
    }

    fn ask(&mut self, node: usize, token: u32, op: Op) {
        self.shards[node].request(self.now, PORT, token, op);
    }

    fn take_seen(&mut self) -> Vec<String> {
        std::mem::take(&mut self.seen)
    }

    /// The nodes that know of a queue.
    fn know(&self, name: &str) -> String {
        let knows = |shard: &Shard| shard.catalog().queue_by_name(VhostId(0), name.as_bytes()).is_some();
        (0..3).map(|node| if knows(&self.shards[node]) { 'k' } else { '-' }).collect()
    }
}

fn place_of(batch: &Sealed) -> Place {
    let name = FileName::new(FileKind::Journal, 1);
    let Sealed { base: LogIndex(offset), len, crc, .. } = *batch;
    Place { file: FileId(1), name, offset, len: len as u64, crc }
}

fn declare(name: &str, passive: bool) -> Op {
    Op::DeclareQueue {
        name: name.into(),
        passive,
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: Default::default(),
        random: [0; 16],
    }
}

fn add_user() -> Op {
    Op::AddUser { name: "u".into(), password: None, tags: Vec::new() }
}

#[test]
fn a_queue_is_declared_at_one_node_and_is_there_at_all() {
    for node in 0..3 {
        let mut nodes = Nodes::new();
        nodes.ask(node, 1, declare("q", false));
        nodes.pass(10);
        assert_eq!(nodes.take_seen(), [format!("{node}.1: q new true")]);
        assert_eq!(nodes.know("q"), "kkk");
        let missing = Op::DeleteUser { name: "nobody".into() };
        nodes.ask(node, 2, missing);
        nodes.ask(node, 3, declare("p", true));
        nodes.pass(10);
        let seen = nodes.take_seen();
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert!(seen.iter().all(|answer| answer.contains("NOT_FOUND")), "{seen:?}");
    }
}

#[test]
fn a_node_that_says_nothing_is_waited_for_once() {
    let mut nodes = Nodes::new();
    nodes.deaf = vec![2];
    nodes.ask(1, 1, declare("q", false));
    nodes.pass(450);
    assert_eq!(nodes.take_seen(), [""; 0], "the third has not said that it has it");
    nodes.pass(100);
    assert_eq!(nodes.take_seen(), ["1.1: q new true"]);
    nodes.ask(1, 2, declare("p", false));
    nodes.pass(10);
    assert_eq!(nodes.take_seen(), ["1.2: p new true"]);
}

#[test]
fn a_wish_is_done_once_whatever_becomes_of_its_leader() {
    // Whether what the first leader planned is agreed on after all.
    for after_all in [true, false] {
        let mut nodes = Nodes::new();
        nodes.agrees = false;
        nodes.ask(2, 1, add_user());
        nodes.pass(5);
        assert_eq!(nodes.proposed.len(), 1, "the leader has planned it");
        // Its node hears nothing for a while, and asks again.
        nodes.deaf = vec![2];
        nodes.resign(after_all);
        nodes.lead(1);
        nodes.agrees = true;
        nodes.pass(50);
        nodes.deaf.clear();
        nodes.pass(300);
        assert_eq!(nodes.take_seen(), ["2.1: Done"], "{after_all}");
        nodes.ask(0, 2, add_user());
        nodes.pass(200);
        let seen = nodes.take_seen();
        assert!(seen.len() == 1 && seen[0].contains("already exists"), "{seen:?}");
    }
}

#[test]
fn what_was_planned_and_not_agreed_on_is_gone_with_the_lead() {
    let mut nodes = Nodes::new();
    nodes.agrees = false;
    nodes.ask(0, 1, declare("q", false));
    nodes.pass(5);
    nodes.resign(false);
    assert_eq!(nodes.shards[0].logs().proposed(CATALOG_LOG).count(), 0);
    nodes.agrees = true;
    // It leads again itself, and does what is still wished for, under the same number of a queue.
    nodes.lead(0);
    nodes.pass(300);
    assert_eq!((nodes.take_seen(), &*nodes.know("q")), (vec!["0.1: q new true".to_owned()], "kkk"));
}

#[test]
fn nobody_leads_and_clients_are_told_after_a_while() {
    let mut nodes = Nodes::new();
    nodes.ask(1, 1, declare("there", false));
    nodes.pass(10);
    nodes.take_seen();
    nodes.resign(false);
    nodes.ask(1, 2, declare("q", false));
    nodes.ask(2, 3, declare("p", true));
    nodes.ask(0, 4, declare("there", true));
    nodes.pass(4_900);
    assert_eq!(nodes.take_seen(), [""; 0]);
    nodes.pass(200);
    let mut seen = nodes.take_seen();
    seen.sort();
    let expected = [
        "0.4: there new false",
        "1.2: INTERNAL_ERROR - Could not declare queue 'q' in vhost '/' on node 'rabbit@test' because the metadata store \
         operation timed out",
        "2.3: NOT_FOUND - no queue 'p' in vhost '/'",
    ];
    assert_eq!(seen, expected);
}

/// Connections of all nodes have the same number here.
#[test]
fn an_exclusive_queue_is_of_a_connection_of_one_node() {
    let exclusive = |name: &str| match declare(name, false) {
        Op::DeclareQueue { name, passive, durable, auto_delete, arguments, random, .. } => {
            Op::DeclareQueue { name, passive, durable, exclusive: true, auto_delete, arguments, random }
        }
        op => op,
    };
    let mut nodes = Nodes::new();
    let actor = Actor::new("guest".into(), VhostId(0), PORT);
    nodes.ask(1, 1, exclusive("q"));
    nodes.ask(2, 2, exclusive("p"));
    nodes.pass(10);
    nodes.take_seen();
    nodes.ask(2, 4, exclusive("q"));
    nodes.ask(0, 5, declare("q", true));
    nodes.pass(10);
    let mut seen = nodes.take_seen();
    seen.sort();
    let locked = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally \
                  declared on another connection or the exclusive property value does not match that of the original \
                  declaration.";
    assert_eq!(seen, [format!("0.5: {locked}"), format!("2.4: {locked}")]);
    let is_open = |nodes: &Nodes, name: &str| {
        nodes.shards.iter().map(|shard| shard.catalog().open_queue(&actor, name).is_ok()).collect::<Vec<_>>()
    };
    assert_eq!(is_open(&nodes, "q"), [false, true, false]);
    assert_eq!(is_open(&nodes, "p"), [false, false, true]);
    // It takes its own along, and nobody else's.
    nodes.shards[2].close_port(nodes.now, PORT);
    nodes.pass(10);
    assert_eq!((&*nodes.know("q"), &*nodes.know("p")), ("kkk", "---"));
    // Nobody answers when the leader is gone: the same is said of what is there.
    nodes.take_seen();
    nodes.resign(false);
    nodes.ask(1, 6, declare("q", true));
    nodes.ask(0, 7, declare("q", true));
    nodes.pass(5_100);
    let mut seen = nodes.take_seen();
    seen.sort();
    assert_eq!(seen, [format!("0.7: {locked}"), "1.6: q new false".to_owned()]);
}

#[test]
fn a_look_waits_for_a_copy_that_is_new_enough() {
    let mut nodes = Nodes::new();
    nodes.shards[1].ask_to_look_again(nodes.now, PORT, 9);
    nodes.pass(5);
    assert_eq!(nodes.take_seen(), ["1.9: Done"]);
    nodes.deaf = vec![1];
    nodes.shards[1].ask_to_look_again(nodes.now, PORT, 9);
    nodes.pass(4_900);
    assert_eq!(nodes.take_seen(), [""; 0]);
    nodes.pass(200);
    assert_eq!(nodes.take_seen(), ["1.9: Done"], "nobody could say");
}
