//! Random operations of a replica, written to batches and read back from any of them to any other, against a model that
//! keeps the entries themselves.

use super::tests::{at, batch, blank, id, read, vote, words};
use super::{At, Start};
use crate::entry::{Content, Entry, EntryId, Members, ReplicaId, Vote};
use base::id::LogIndex;
use journal::Sealed;
use proptest::prelude::*;

/// An entry of the model.
#[derive(Clone, Debug)]
struct Kept {
    id: EntryId,
    end: u64,
    words: String,
    /// The first batch of it, counted from 0.
    from: usize,
}

/// A replica that forgets nothing.
#[derive(Clone, Debug, Default)]
struct Replica {
    term: u64,
    /// The snapshot that was installed last.
    start: Start,
    entries: Vec<Kept>,
    vote: Option<Vote>,
    /// The purges and hints so far, each with its batch.
    purged: Vec<(usize, EntryId)>,
    agreed: Vec<(usize, u64)>,
}

/// The batches so far, and the replica after as many of them.
#[derive(Debug, Default)]
struct History {
    batches: Vec<Sealed>,
    replicas: Vec<Replica>,
}

impl Replica {
    fn first(&self) -> u64 {
        self.start.last.map_or(0, |last| last.index + 1)
    }

    fn next(&self) -> u64 {
        self.first() + self.entries.len() as u64
    }

    fn end(&self) -> u64 {
        self.entries.last().map_or(self.start.end.0, |entry| entry.end)
    }

    fn at(&self) -> At {
        at(self.end())
    }

    /// The first entry that may be taken away.
    fn open(&self) -> u64 {
        let agreed = self.agreed.iter().map(|(_, index)| index + 1).max().unwrap_or(0);
        agreed.max(self.first()).max(self.purged.last().map_or(0, |(_, id)| id.index + 1))
    }

    /// Takes away so many entries of those that may be, or fewer.
    fn cut(&mut self, count: u8) {
        let most = self.next() - self.open();
        self.entries.truncate(self.entries.len() - most.min(count.into()) as usize);
    }
}

/// The sets of voters and learners of an entry, by a number.
fn members(how: u8) -> Members {
    let set = |from: u64, count: u8| (from..from + u64::from(count)).map(ReplicaId).collect();
    let mut members = Members::voting(set(1, 1 + how % 3));
    if how & 4 != 0 {
        members.voters.push(set(2, 1 + how % 2));
    }
    members.learners = set(100, how >> 6);
    members
}

impl History {
    fn replica(&self) -> Replica {
        self.replicas.last().cloned().unwrap_or_default()
    }

    /// The batches were written, and the replica is this after each of them.
    fn wrote(&mut self, batches: Vec<Sealed>, replica: Replica) {
        self.replicas.resize(self.replicas.len() + batches.len(), replica);
        self.batches.extend(batches);
    }

    fn append(&mut self, back: u8, entry: impl FnOnce(u64, u64, u64) -> Entry) {
        let mut replica = self.replica();
        replica.cut(back);
        let entry = entry(replica.term, replica.next(), replica.end());
        let mut batches = Vec::new();
        let end = replica.at().append(std::slice::from_ref(&entry), &mut batches).0;
        let last = batches.pop().expect("the entry");
        let from = self.batches.len();
        self.wrote(batches, replica.clone());
        replica.entries.push(Kept { id: entry.id, end, words: words(&entry), from });
        self.wrote(vec![last], replica);
    }

    fn apply(&mut self, (kind, a, b): (u8, u8, u8)) {
        let mut replica = self.replica();
        let from = self.batches.len();
        // Every second operation is a usual one, and replaces nothing.
        let back = if b & 3 == 0 { b >> 2 & 3 } else { 0 };
        match kind {
            0..5 => self.append(back, |term, index, _| blank(term, index)),
            5..12 => {
                self.append(back, |term, index, base| batch(term, index, base, 8 * (1 + usize::from(a % 4))))
            }
            12..15 => self.append(back, |term, index, _| Entry {
                id: id(term, index),
                content: Content::Members(members(a)),
            }),
            15 => {
                replica.cut(a % 4);
                let batch = replica.at().truncated(replica.next());
                self.wrote(vec![batch], replica);
            }
            16 | 17 => {
                let promised = replica.vote.unwrap_or_default();
                replica.term = promised.term + u64::from(a % 2);
                let candidate = if a % 2 == 0 { promised.candidate.0 } else { b.into() };
                let new = vote(replica.term, candidate, (a % 2 == 0 && promised.is_won) || b % 2 == 0);
                replica.vote = Some(new);
                self.wrote(vec![replica.at().vote(new)], replica);
            }
            18 => {
                let past = replica.purged.last().map_or(0, |(_, id)| id.index);
                let kept = replica.entries.iter().map(|entry| entry.id).rev();
                let Some(id) = kept.filter(|id| id.index >= past).nth(a.into()) else { return };
                replica.purged.push((from, id));
                self.wrote(vec![replica.at().purged(id)], replica);
            }
            19 if replica.next() > 0 => {
                let index = replica.next() - 1 - u64::from(a).min(replica.next() - 1);
                replica.agreed.push((from, index));
                self.wrote(vec![replica.at().agreed(index)], replica);
            }
            20 if a % 4 == 0 => {
                let last = id(replica.term, replica.next() + u64::from(b % 4));
                replica.start = Start { last: Some(last), end: LogIndex(u64::from(b) * 8), vote: None };
                replica.entries.clear();
                replica.purged.push((from, last));
                self.wrote(vec![replica.at().purged(last)], replica);
            }
            _ => {}
        }
    }

    /// Reads the batches from one to before another, with the snapshot that the replica may have taken behind `covered` of
    /// the entries it has.
    fn check(&self, from: usize, to: usize, covered: usize) {
        let replica = &self.replicas[to - 1];
        let (front, entries) = replica.entries.split_at(covered);
        let last = front.last();
        let vote = from.checked_sub(1).and_then(|at| self.replicas[at].vote);
        let start = Start {
            last: last.map(|entry| entry.id).or(replica.start.last),
            end: last.map_or(replica.start.end, |entry| LogIndex(entry.end)),
            vote,
        };
        let found = read(start, &self.batches[from..to]).unwrap_or_else(|fault| {
            panic!("{from}..{to} of {covered}: {fault}");
        });
        let again = found.entries.iter().map(|found| words(&found.to_entry()));
        assert!(again.eq(entries.iter().map(|entry| entry.words.clone())), "{from}..{to} of {covered}");
        assert_eq!(found.last, entries.last().map(|entry| entry.id).or(start.last));
        assert_eq!(found.end, LogIndex(replica.end()));
        assert_eq!(found.vote, replica.vote);
        assert_eq!(found.purged, replica.purged.iter().rev().find(|(at, _)| *at >= from).map(|(_, id)| *id));
        let agreed = replica.agreed.iter().filter(|(at, _)| *at >= from).map(|(_, index)| *index).max();
        assert_eq!(found.agreed, agreed);
    }
}

proptest! {
    #[test]
    fn a_replica_is_read_back_from_any_batch_to_any_other(
        operations in prop::collection::vec((0..21u8, any::<u8>(), any::<u8>()), 1..40),
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 8),
    ) {
        let mut history = History::default();
        operations.into_iter().for_each(|operation| history.apply(operation));
        for to in 1..=history.batches.len() {
            history.check(0, to, 0);
            let replica = &history.replicas[to - 1];
            for (covered, from) in &picks {
                // Only what cannot be taken away any more is in a snapshot.
                let fixed = (replica.open() - replica.first()) as usize;
                let covered = covered.index(fixed + 1);
                let needed = replica.entries.get(covered).map_or(to, |entry| entry.from);
                history.check(from.index(needed + 1), to, covered);
            }
        }
    }
}
