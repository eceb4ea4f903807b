use super::*;
use crate::first::make_content;
use crate::first::tests::{NOW, content, declare, publish, start_with};
use crate::start::Recovered;
use base::id::NodeNo;
use broker::CommitRule;
use journal::{FaultyDisk, FileId, FileKind, FileName};
use message::record::Origin;

const LOG: LogId = LogId(1);

/// Three nodes with one log that they agree on, in which is a queue; what they write is on disk at once.
struct Bed {
    nodes: Vec<(Recovered, Replicas)>,
    now: Now,
    under_way: Vec<(NodeNo, Word)>,
    /// One that hears nobody, and is not heard.
    cut: Option<usize>,
}

impl Bed {
    fn new() -> Bed {
        let me = |number: usize| ReplicaId::new(NodeNo(number as u16 + 1), 0);
        let node = |number| {
            let disk = FaultyDisk::new(number as u64);
            let mut node = start_with(&disk, 2, &mut |_| {}).unwrap();
            let logs = node.shards[0].logs_mut();
            let others: Vec<NodeNo> =
                (0..3).filter(|other| *other != number).map(|other| me(other).node()).collect();
            logs.begin_life(Origin { node: me(number).node(), incarnation: 1 }, &others);
            logs.set_commit_rule(LOG, CommitRule::Quorum);
            make_content(&mut node, &disk, &|| NOW, content()).unwrap();
            declare(&mut node, &disk);
            let mut replicas = Replicas::new(Settings::default(), number as u64, false, NOW);
            let (recovered, places) = Default::default();
            let coming =
                Coming { log: LOG, recovered, places, end: LogIndex(0), applied: Applied::default() };
            let founders = (number == 0).then(|| (0..3).map(me).collect());
            replicas.open(me(number), coming, founders).unwrap();
            (node, replicas)
        };
        Bed { nodes: (0..3).map(node).collect(), now: NOW, under_way: Vec::new(), cut: None }
    }

    /// All have a turn, 10 ms later, and hear what was said before.
    fn round(&mut self) {
        let Bed { nodes, now, under_way, cut } = self;
        *now = Now { mono_ns: now.after_ms(10), wall_ms: now.wall_ms + 10 };
        for (_, word) in std::mem::take(under_way) {
            let Word::Replica(message) = word else { continue };
            let node = |replica: ReplicaId| usize::from(replica.node().0) - 1;
            if ![node(message.from), node(message.to)].iter().any(|node| *cut == Some(*node)) {
                nodes[node(message.to)].1.receive(*message);
            }
        }
        for (node, replicas) in nodes {
            let shard = &mut node.shards[0];
            replicas.check_leases(*now, shard);
            let mut batches = Vec::new();
            shard.end_turn(*now, &mut batches);
            replicas.turn(*now, shard, &mut batches, (under_way, &mut Vec::new()));
            for Sealed { log, base, len, crc, .. } in batches {
                let (file, name) = (FileId(1), FileName::new(FileKind::Journal, 1));
                let place = Place { file, name, offset: base.0, len: len as u64, crc };
                match log {
                    LOG => replicas.written(&Written { log, base, place }),
                    _ => shard.written(*now, log, base, place),
                }
            }
            assert_eq!(replicas.take_ended(), []);
        }
    }

    fn rounds(&mut self, count: usize) {
        (0..count).for_each(|_| self.round());
    }

    /// The nodes that lead.
    fn leaders(&self) -> Vec<usize> {
        let leads = |number: &usize| self.nodes[*number].1.leads_in(LOG).is_some();
        (0..self.nodes.len()).filter(leads).collect()
    }

    fn publish(&mut self, number: usize, body: &[u8]) {
        publish(&mut self.nodes[number].0.shards[0], body);
    }

    /// Messages that are ready in the queue, where it is owned.
    fn ready(&self, number: usize) -> u64 {
        self.nodes[number].0.shards[0].listing().rows().map(|row| row.ready).sum()
    }

    /// All have applied the same, and have the same.
    fn check_alike(&self) {
        let state = |(node, replicas): &(Recovered, Replicas)| {
            (replicas.applied(LOG), node.shards[0].logs().canonical(LOG, LogIndex(0)))
        };
        let states: Vec<_> = self.nodes.iter().map(state).collect();
        assert!(states[0].0.is_some() && !states[0].1.is_empty());
        assert!(states.windows(2).all(|two| two[0] == two[1]), "{states:?}");
    }
}

#[test]
fn what_the_leader_is_sent_all_have() {
    let mut bed = Bed::new();
    bed.publish(1, b"before anybody leads");
    bed.rounds(200);
    let [leader] = bed.leaders()[..] else { panic!("one leads") };
    bed.publish(leader, b"one");
    bed.rounds(50);
    assert_eq!(bed.ready(leader), if leader == 1 { 2 } else { 1 });
    bed.check_alike();
    // The others' turn: one that gathered a message before proposes it now.
    let to = bed.nodes[1].1.hosted[&LOG].me;
    let Bed { nodes, now, .. } = &mut bed;
    let (node, replicas) = &mut nodes[leader];
    replicas.transfer(*now, &mut node.shards[0], LOG, to);
    bed.rounds(200);
    assert_eq!((bed.leaders(), bed.ready(1)), (vec![1], 2));
    bed.check_alike();
}

#[test]
fn a_leader_that_hears_no_majority_ceases_before_another_leads() {
    let mut bed = Bed::new();
    bed.rounds(200);
    let [first] = bed.leaders()[..] else { panic!("one leads") };
    bed.rounds(50);
    bed.cut = Some(first);
    bed.publish(first, b"nobody hears of it");
    let mut second = None;
    for _ in 0..200 {
        bed.round();
        let leaders = bed.leaders();
        assert!(leaders.len() <= 1, "{leaders:?} lead");
        second = leaders.first().copied().filter(|leader| *leader != first).or(second);
    }
    let second = second.expect("another leads");
    bed.publish(second, b"all but one hear of it");
    bed.rounds(50);
    assert_eq!(bed.ready(second), 1);
    bed.cut = None;
    bed.rounds(200);
    bed.check_alike();
    // A message that the first gathered is there once that leads again, and once.
    let to = bed.nodes[first].1.hosted[&LOG].me;
    let Bed { nodes, now, .. } = &mut bed;
    let (node, replicas) = &mut nodes[second];
    replicas.transfer(*now, &mut node.shards[0], LOG, to);
    bed.rounds(200);
    assert_eq!((bed.leaders(), bed.ready(first)), (vec![first], 2));
    bed.check_alike();
}

/// A snapshot of a log at rest keeps no file of the journal; one while something is under way keeps that in which it is.
#[test]
fn a_log_at_rest_needs_no_file() {
    let mut bed = Bed::new();
    bed.rounds(200);
    let [leader] = bed.leaders()[..] else { panic!("one leads") };
    let from = |bed: &Bed, number: usize| bed.nodes[number].1.hosted[&LOG].part().from;
    bed.publish(leader, b"one");
    bed.rounds(100);
    (0..3).for_each(|number| assert_eq!(from(&bed, number), None, "node {number}"));
    bed.cut = Some(leader);
    bed.publish(leader, b"nobody hears of it");
    bed.rounds(1);
    assert_eq!(from(&bed, leader), Some(FileId(1)));
    assert_eq!(from(&bed, (leader + 1) % 3), None);
}

/// The state stays as it was, and whoever waits hears that there is none: what came with it is in nobody's use.
#[test]
fn a_state_that_is_none_is_refused() {
    let mut bed = Bed::new();
    bed.rounds(200);
    let [leader] = bed.leaders()[..] else { panic!("one leads") };
    bed.publish(leader, b"one");
    bed.rounds(50);
    let follower = (leader + 1) % 3;
    let before = bed.nodes[follower].0.shards[0].logs().canonical(LOG, LogIndex(0));
    let refused = |bed: &mut Bed| {
        let (node, replicas) = &mut bed.nodes[follower];
        let (shard, now) = (&mut node.shards[0], bed.now);
        let end = LogIndex(1 << 20);
        let name = SnapshotName {
            last: Some(EntryId { term: 9, index: 900 }),
            end,
            ..replicas.hosted[&LOG].applied.name.clone()
        };
        let moved = broker::Moved::of_segments(LOG, end, &[]);
        let arrival = Arrival { log: LOG, name, state: vec![7; 3], moved };
        replicas.hosted.get_mut(&LOG).unwrap().arrival = Some(Box::new(arrival));
        replicas.install(now, shard, LOG);
        assert!(matches!(replicas.take_installed(), Some(None)) && replicas.take_ended().len() == 1);
    };
    refused(&mut bed);
    assert!(bed.nodes[follower].0.shards[0].logs().canonical(LOG, LogIndex(0)) == before);
    // Nor is any put in the place of a log that is stopped.
    bed.nodes[follower].0.shards[0].stop_log(LOG);
    refused(&mut bed);
}
