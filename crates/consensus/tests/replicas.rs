//! Replicas by what goes into them and comes out, without a disk and a network.

use base::id::{LogId, LogIndex, NodeNo};
use base::{Buffer, Now};
use consensus::codec;
use consensus::message::{Append, Candidacy, Install, Request, Transfer};
use consensus::{Body, Consensus, Entry, EntryId, Members, Message, Output, Recovered, ReplicaId, Role};
use consensus::{Content, Settings, SnapshotName, Vote, Write};
use journal::Batch;
use std::collections::{BTreeSet, VecDeque};

const LOG: LogId = LogId(7);
const MS: u64 = 1_000_000;

fn replica(node: u16) -> ReplicaId {
    ReplicaId::new(NodeNo(node), 0)
}

fn id(term: u64, index: u64) -> EntryId {
    EntryId { term, index }
}

fn voters(nodes: u16) -> BTreeSet<ReplicaId> {
    (1..=nodes).map(replica).collect()
}

/// Replicas on nodes from 1 on.
struct Bed {
    now_ms: u64,
    nodes: Vec<Consensus>,
    /// The messages on their way.
    messages: Vec<Message>,
    /// The messages so far.
    sent: Vec<Message>,
    /// Entries that each node was told to be agreed on.
    agreed: Vec<Vec<Entry>>,
    /// Where the records of each node end in its journal.
    ends: Vec<LogIndex>,
    /// The writes of this node take so many milliseconds.
    slow: Option<(usize, u64)>,
    /// Writes of that node, and when they are on disk.
    flushing: VecDeque<(u64, usize)>,
}

impl Bed {
    fn new(nodes: u16) -> Bed {
        let mut bed = Bed {
            now_ms: 1,
            nodes: Vec::new(),
            messages: Vec::new(),
            sent: Vec::new(),
            agreed: vec![Vec::new(); nodes.into()],
            ends: vec![LogIndex(0); nodes.into()],
            slow: None,
            flushing: VecDeque::new(),
        };
        for node in 1..=nodes {
            let mut consensus = Consensus::new(Settings::default(), node.into(), false, bed.now());
            consensus.open(LOG, replica(node), Recovered::default()).unwrap();
            bed.nodes.push(consensus);
        }
        bed.pass(0);
        bed
    }

    fn now(&self) -> Now {
        Now { mono_ns: self.now_ms * MS, wall_ms: self.now_ms }
    }

    /// All is done that there is to do for so many milliseconds; messages and writes take no time.
    fn pass(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        loop {
            while self.turns() {}
            if self.now_ms >= end {
                break;
            }
            self.now_ms += 1;
        }
    }

    fn turns(&mut self) -> bool {
        let mut is_any = false;
        for message in std::mem::take(&mut self.messages) {
            is_any = true;
            let node = usize::from(message.to.node().0) - 1;
            if let Some(consensus) = self.nodes.get(node) {
                consensus.receive(message);
            }
        }
        let now = self.now();
        for (node, consensus) in self.nodes.iter_mut().enumerate() {
            let mut output = Output::default();
            consensus.turn(now, &mut output);
            is_any |= !output.writes.is_empty();
            for (log, write) in &output.writes {
                self.ends[node] = write.batches(*log, self.ends[node], now.wall_ms, &mut Vec::new());
            }
            match self.slow {
                Some((slow, ms)) if slow == node => {
                    self.flushing.push_back((self.now_ms + ms, output.writes.len()));
                    while let Some((_, count)) = self.flushing.pop_front_if(|(at, _)| *at <= self.now_ms) {
                        consensus.written(LOG, count);
                    }
                }
                _ => consensus.written(LOG, output.writes.len()),
            }
            self.agreed[node].extend(output.agreed.into_iter().map(|(_, entry)| entry));
            self.sent.extend(output.messages.iter().cloned());
            self.messages.extend(output.messages);
        }
        is_any
    }

    /// The first one leads.
    fn led(nodes: u16) -> Bed {
        let mut bed = Bed::new(nodes);
        assert!(bed.nodes[0].found(LOG, voters(nodes)));
        bed.pass(0);
        for _ in 0..100 {
            if matches!(bed.nodes[0].role(LOG), Some(Role::Leads { .. })) {
                return bed;
            }
            bed.nodes[0].elect(LOG);
            bed.pass(100);
        }
        panic!("nobody leads");
    }

    fn term(&self) -> u64 {
        match self.nodes[0].role(LOG) {
            Some(Role::Leads { term }) => term,
            role => panic!("the first is {role:?}"),
        }
    }

    fn propose(&mut self, base: LogIndex, bytes: usize) -> LogIndex {
        let mut batch = Batch::new(LOG, base, Buffer::default());
        batch.records().extend(&vec![1; bytes]);
        let sealed = batch.seal(self.now_ms);
        let end = sealed.next();
        self.nodes[0].propose(LOG, self.term(), sealed);
        end
    }

    fn members(&self, node: usize) -> Members {
        let mut entries = self.agreed[node].iter().rev();
        let members = entries.find_map(|entry| match &entry.content {
            Content::Members(members) => Some(members.clone()),
            _ => None,
        });
        members.unwrap_or_default()
    }
}

fn vote(term: u64, node: u16, is_won: bool) -> Vote {
    Vote { term, candidate: replica(node), is_won }
}

#[test]
fn questions_that_no_replica_asks_are_passed_over() {
    // The replica of node 1 is asked by that of node 2.
    let check = |request: Request, is_answered: bool| {
        let mut bed = Bed::led(1);
        let words = format!("{request:?}");
        let body = Body::Ask(request);
        bed.nodes[0].receive(Message { log: LOG, from: replica(2), to: replica(1), call: 1, body });
        bed.sent.clear();
        bed.pass(3000);
        let answers = bed.sent.iter().filter(|message| matches!(message.body, Body::Answer(_)));
        assert_eq!(answers.count() > 0, is_answered, "{words}");
    };
    let append = |vote: Vote, before: Option<EntryId>, terms: &[u64], agreed: Option<EntryId>| {
        let first = before.map_or(0, |before| before.index + 1);
        let entries = (first..).zip(terms);
        let entries = entries.map(|(index, term)| Entry { id: id(*term, index), content: Content::Blank });
        Request::Append(Append { vote, before, entries: entries.collect(), agreed })
    };
    check(append(vote(9, 2, true), Some(id(9, 90)), &[9], None), true);
    check(append(vote(9, 1, true), Some(id(9, 90)), &[9], None), false);
    check(append(vote(9, 3, true), Some(id(9, 90)), &[9], None), false);
    check(append(vote(9, 2, false), Some(id(9, 90)), &[9], None), false);
    check(append(vote(9, 2, true), Some(id(10, 90)), &[], None), false);
    check(append(vote(9, 2, true), Some(id(9, 90)), &[10], None), false);
    check(append(vote(9, 2, true), Some(id(9, 90)), &[8], None), false);
    check(append(vote(9, 2, true), Some(id(9, 90)), &[], Some(id(10, 1))), false);
    let candidacy = |vote, last| Candidacy { vote, last, is_transfer: true };
    check(Request::Vote(candidacy(vote(9, 2, false), Some(id(8, 90)))), true);
    check(Request::PreVote(candidacy(vote(9, 2, false), Some(id(8, 90)))), true);
    check(Request::Vote(candidacy(vote(9, 1, false), Some(id(8, 90)))), false);
    check(Request::Vote(candidacy(vote(9, 2, true), Some(id(8, 90)))), false);
    check(Request::Vote(candidacy(vote(9, 2, false), Some(id(10, 90)))), false);
    check(Request::PreVote(candidacy(vote(9, 3, false), Some(id(8, 90)))), false);
    let transfer = |vote, last| Request::Transfer(Transfer { vote, to: replica(1), last });
    check(transfer(vote(9, 2, true), Some(id(9, 90))), true);
    check(transfer(vote(9, 1, true), Some(id(9, 90))), false);
    let install = |vote, last, members_at| {
        let (members, end) = (Members::voting(voters(2)), LogIndex(800));
        let snapshot = SnapshotName { last: Some(last), end, members, members_at: Some(members_at) };
        Request::Install(Install { vote, snapshot, manifest: Vec::new() })
    };
    check(install(vote(9, 1, true), id(9, 90), id(1, 0)), false);
    check(install(vote(9, 2, true), id(10, 90), id(1, 0)), false);
    check(install(vote(9, 2, true), id(9, 90), id(9, 91)), false);
}

#[test]
fn terms_behind_the_largest_of_a_message_are_journaled() {
    let mut bed = Bed::led(1);
    let vote = vote(codec::TERM_MAX, 2, true);
    let append = Append { vote, before: None, entries: Vec::new(), agreed: None };
    let body = Body::Ask(Request::Append(append));
    bed.nodes[0].receive(Message { log: LOG, from: replica(2), to: replica(1), call: 1, body });
    bed.pass(2000);
    assert!(bed.term() > codec::TERM_MAX);
}

#[test]
fn a_message_has_so_many_bytes_of_records_or_one_entry() {
    let mut bed = Bed::led(2);
    let most = Settings::default().message_bytes_max;
    let mut end = LogIndex(0);
    for bytes in [8, most / 2, most / 2 - 8, 8, most * 2, most, 8] {
        end = bed.propose(end, bytes);
    }
    bed.sent.clear();
    bed.pass(1000);
    let lens = |append: &Append| -> Vec<usize> {
        let lens = append.entries.iter().map(|entry| match &entry.content {
            Content::Batch(batch) => batch.len,
            _ => 0,
        });
        lens.collect()
    };
    let lens: Vec<Vec<usize>> = bed
        .sent
        .iter()
        .filter_map(|message| match &message.body {
            Body::Ask(Request::Append(append)) if !append.entries.is_empty() => Some(lens(append)),
            _ => None,
        })
        .collect();
    assert!(lens.iter().all(|lens| lens.len() == 1 || lens.iter().sum::<usize>() <= most), "{lens:?}");
    assert!(lens.iter().any(|lens| lens.len() > 1), "{lens:?}");
    assert_eq!(lens.concat(), [8, most / 2, most / 2 - 8, 8, most * 2, most, 8]);
}

#[test]
fn an_answer_takes_as_long_as_a_flush() {
    let mut bed = Bed::led(2);
    bed.propose(LogIndex(0), 8);
    bed.sent.clear();
    // The follower's disk takes longer than a heartbeat.
    bed.slow = Some((1, 300));
    bed.pass(1000);
    let asked = bed.sent.iter().filter(
        |message| matches!(&message.body, Body::Ask(Request::Append(append)) if !append.entries.is_empty()),
    );
    assert_eq!(asked.count(), 1);
    assert!(matches!(bed.agreed[0].last().unwrap().content, Content::Batch(_)));
}

#[test]
fn a_snapshot_waits_until_what_it_covers_is_on_disk() {
    let mut bed = Bed::led(1);
    bed.pass(100);
    bed.slow = Some((0, 50));
    let (begun, end) = (bed.agreed[0].len(), bed.propose(LogIndex(0), 8));
    let last = bed.agreed[0].last().unwrap().id;
    bed.pass(10);
    assert!(bed.nodes[0].is_on_disk(LOG, last.index) && !bed.nodes[0].is_on_disk(LOG, last.index + 1));
    let members = Members::voting(voters(1));
    let last = Some(EntryId { index: last.index + 1, ..last });
    let name = SnapshotName { last, end, members, members_at: Some(id(0, 0)) };
    assert!(bed.nodes[0].snapshot_made(LOG, &name, Vec::new(), None).is_err());
    bed.pass(100);
    assert_eq!(bed.agreed[0].len(), begun + 1);
    assert_eq!(bed.nodes[0].snapshot_made(LOG, &name, Vec::new(), None), Ok(()));
}

#[test]
fn a_snapshot_is_installed_behind_what_it_replaces() {
    check_install(true);
}

#[test]
fn a_replica_ends_over_a_snapshot_that_cannot_be_had() {
    check_install(false);
}

fn check_install(is_had: bool) {
    let mut bed = Bed::led(2);
    bed.slow = Some((1, 50));
    bed.pass(10);
    // The second one has an entry of an earlier leader that nobody agreed on, in the place of the snapshot's last.
    let ask = |call, request| {
        let body = Body::Ask(request);
        Message { log: LOG, from: replica(3), to: replica(2), call, body }
    };
    let before = bed.agreed[1].last().map(|entry| entry.id);
    let next = before.unwrap().index + 1;
    let entries = vec![Entry { id: id(90, next), content: Content::Blank }];
    let append = Append { vote: vote(90, 3, true), before, entries, agreed: None };
    bed.nodes.remove(0);
    bed.nodes[0].receive(ask(1, Request::Append(append)));
    let installs = |bed: &mut Bed, ms: u64| {
        bed.now_ms += ms;
        let (mut output, now) = (Output::default(), bed.now());
        bed.nodes[0].turn(now, &mut output);
        (output.writes, output.installs.len())
    };
    let mut writes = 0;
    for _ in 0..3 {
        let (new, count) = installs(&mut bed, 1);
        writes += new.len();
        assert_eq!(count, 0);
        bed.nodes[0].written(LOG, std::mem::take(&mut writes));
    }
    let (members, end) = (Members::voting(voters(3)), LogIndex(800));
    let snapshot = SnapshotName { last: Some(id(91, next)), end, members, members_at: Some(id(91, next)) };
    let install = Install { vote: vote(91, 3, true), snapshot, manifest: Vec::new() };
    bed.nodes[0].receive(ask(2, Request::Install(install)));
    let (mut output, now) = (Output::default(), bed.now());
    bed.nodes[0].turn(now, &mut output);
    let [(LOG, offer)] = &output.offers[..] else { panic!("{output:?}") };
    assert!(output.writes.is_empty() && offer.from == replica(3) && !bed.nodes[0].is_installing(LOG));
    // It has another answer before it is here.
    let is_unable =
        |message: &Message| matches!(message.body, Body::Answer(consensus::message::Answer::Unable));
    assert!(output.messages.iter().any(is_unable));
    let (vote, installing) = (offer.vote, offer.installing.clone());
    assert!(bed.nodes[0].install(LOG, vote, installing.clone()));
    assert!(!bed.nodes[0].install(LOG, vote, installing), "one after the other");
    let (new, count) = installs(&mut bed, 1);
    assert!(matches!(&new[..], [(_, Write::Vote(_))]) && count == 0, "{new:?}");
    bed.nodes[0].written(LOG, 1);
    let (new, count) = installs(&mut bed, 1);
    assert!(matches!(&new[..], [(_, Write::Truncate(..))]) && count == 0, "{new:?} {count}");
    bed.nodes[0].written(LOG, 1);
    let (new, count) = installs(&mut bed, 1);
    assert!(new.is_empty() && count == 1 && bed.nodes[0].is_installing(LOG), "{new:?} {count}");
    if !is_had {
        bed.nodes[0].refuse_install(LOG);
        installs(&mut bed, 1);
        assert_eq!((bed.nodes[0].role(LOG), bed.nodes[0].is_installing(LOG)), (Some(Role::Mute), false));
        return;
    }
    bed.nodes[0].installed(LOG);
    let (new, _) = installs(&mut bed, 1);
    assert!(matches!(&new[..], [(_, Write::Purge(..))]) && !bed.nodes[0].is_installing(LOG), "{new:?}");
}

#[test]
fn members_become_those_that_were_asked_for() {
    let mut bed = Bed::led(3);
    let mut check = |voters: &[u16], learners: &[u16]| {
        let set = |nodes: &[u16]| nodes.iter().map(|node| replica(*node)).collect::<BTreeSet<_>>();
        let members = Members { learners: set(learners), ..Members::voting(set(voters)) };
        assert!(bed.nodes[0].change_members(LOG, members.clone()));
        bed.pass(2000);
        assert_eq!(bed.members(0), members);
    };
    check(&[1, 2], &[]);
    check(&[1, 2], &[3]);
    check(&[1, 2, 3], &[]);
    check(&[1, 2], &[3]);
    check(&[1], &[2]);
    check(&[1], &[]);
    check(&[1, 3], &[2]);
}

#[test]
fn another_leads_when_it_is_to() {
    let mut bed = Bed::led(3);
    bed.pass(300);
    bed.propose(LogIndex(0), 8);
    bed.pass(50);
    assert!(bed.nodes[0].transfer(LOG, replica(3)));
    bed.pass(100);
    let roles: Vec<Role> = bed.nodes.iter().filter_map(|node| node.role(LOG)).collect();
    assert!(matches!(roles[..], [Role::Follows, Role::Follows, Role::Leads { .. }]), "{roles:?}");
    assert_eq!(bed.nodes[1].leader(LOG), Some(replica(3)));
    assert!(bed.nodes[2].heard_ns(LOG) > bed.nodes[0].heard_ns(LOG));
}

#[test]
fn a_leader_that_is_to_vote_no_more_goes() {
    let mut bed = Bed::led(3);
    let members = Members { learners: [replica(1)].into(), ..Members::voting([replica(2), replica(3)]) };
    // The leader of the time is asked until it is so.
    for _ in 0..50 {
        bed.nodes.iter().for_each(|node| _ = node.change_members(LOG, members.clone()));
        bed.nodes.iter().for_each(|node| _ = node.change_members(LOG, members.clone()));
        bed.pass(100);
    }
    assert_eq!(bed.members(1), members);
    assert_eq!(bed.members(0), members);
}
