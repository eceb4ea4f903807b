//! Marks written to batches and read back.

use super::*;
use crate::entry::{Content, Entry, EntryId, Members, ReplicaId, Vote};
use base::Buffer;
use base::id::{LogId, LogIndex};
use journal::{Batch, FileId, FileKind, FileName, Mark, Place, RecoveredBatch, Sealed};

pub(super) const LOG: LogId = LogId(5);

pub(super) fn id(term: u64, index: u64) -> EntryId {
    EntryId { term, index }
}

pub(super) fn at(end: u64) -> At {
    At { log: LOG, end: LogIndex(end), now_ms: 77 }
}

pub(super) fn blank(term: u64, index: u64) -> Entry {
    Entry { id: id(term, index), content: Content::Blank }
}

pub(super) fn batch(term: u64, index: u64, base: u64, len: usize) -> Entry {
    let mut batch = Batch::new(LOG, LogIndex(base), Buffer::default());
    batch.records().extend_zeroed(len).fill(index as u8);
    Entry { id: id(term, index), content: Content::Batch(batch.seal(9)) }
}

fn members(term: u64, index: u64, voters: &[u64]) -> Entry {
    let members = Members::voting(voters.iter().map(|id| ReplicaId(*id)));
    Entry { id: id(term, index), content: Content::Members(members) }
}

pub(super) fn vote(term: u64, candidate: u64, is_won: bool) -> Vote {
    Vote { term, candidate: ReplicaId(candidate), is_won }
}

/// The batch as the journal gives it back: its records lie among others.
fn recovered(sealed: &Sealed) -> RecoveredBatch {
    let Sealed { log, base, len, crc, committed_at_ms, mark, .. } = *sealed;
    let mut buffer = Buffer::default();
    buffer.extend(&[1; 16]);
    buffer.extend(sealed.records());
    buffer.extend(&[2; 8]);
    let place = Place {
        file: FileId(1),
        name: FileName::new(FileKind::Journal, 1),
        offset: 4096,
        len: len as u64,
        crc,
    };
    let records = 16..16 + len;
    RecoveredBatch { log, base, memory: buffer.seal(), records, place, committed_at_ms, mark, void_to: None }
}

pub(super) fn read(start: Start, batches: &[Sealed]) -> Result<Recovered, Fault> {
    let mut recovery = Recovery::new(start);
    batches.iter().try_for_each(|batch| recovery.visit(recovered(batch)))?;
    recovery.finish()
}

/// All of an entry that can be compared.
pub(super) fn words(entry: &Entry) -> String {
    let content = match &entry.content {
        Content::Batch(sealed) => {
            let Sealed { log, base, crc, committed_at_ms, .. } = sealed;
            format!("{log} {base} {crc} {committed_at_ms} {:?}", sealed.records())
        }
        other => format!("{other:?}"),
    };
    format!("{:?} {content}", entry.id)
}

/// The state that a reader finds: the indices of the entries and the log's end.
#[track_caller]
fn check(start: Start, batches: &[Sealed], entries: &[u64], end: u64) -> Recovered {
    let found = read(start, batches).expect("a state");
    assert_eq!(found.entries.iter().map(|entry| entry.id.index).collect::<Vec<_>>(), entries);
    assert_eq!(found.end, LogIndex(end));
    found
}

#[track_caller]
fn check_fault(start: Start, batches: &[Sealed], expected: Fault) {
    let found = read(start, batches).map(|_| ());
    assert_eq!(found, Err(expected), "{expected}");
}

fn append(end: u64, entries: &[Entry]) -> Vec<Sealed> {
    let mut batches = Vec::new();
    at(end).append(entries, &mut batches);
    batches
}

/// Batches one behind the other.
fn join(parts: &[&[Sealed]]) -> Vec<Sealed> {
    parts.concat()
}

fn snapshot(term: u64, index: u64, end: u64) -> Start {
    Start { last: Some(id(term, index)), end: LogIndex(end), vote: None }
}

#[test]
fn entries_come_back_with_their_content() {
    let entries =
        [blank(1, 0), batch(1, 1, 0, 16), members(1, 2, &[1, 2, 3]), batch(2, 3, 16, 4096), blank(3, 4)];
    let mut batches = Vec::new();
    assert_eq!(at(0).append(&entries, &mut batches), LogIndex(4112));
    assert_eq!(batches.len(), 5 + 3);
    for batch in &batches {
        assert!(
            batch.memory.len().is_multiple_of(4096)
                && batch.memory[batch.len..].iter().all(|byte| *byte == 0)
        );
        assert_eq!(base::crc::crc32c(batch.records()), batch.crc);
    }
    let found = check(Start::default(), &batches, &[0, 1, 2, 3, 4], 4112);
    assert_eq!(found.last, Some(id(3, 4)));
    assert_eq!((found.vote, found.purged, found.agreed), (None, None, None));
    let bases: Vec<u64> = found.entries.iter().map(|entry| entry.base.0).collect();
    assert_eq!(bases, [0, 0, 16, 16, 4112]);
    let again = found.entries.iter().map(|found| words(&found.to_entry()));
    assert!(again.eq(entries.iter().map(words)));
}

#[test]
fn an_empty_journal_leaves_the_words_of_the_snapshot() {
    check(Start::default(), &[], &[], 0);
    let start = Start { vote: Some(vote(4, 1, true)), ..snapshot(3, 9, 800) };
    let found = check(start, &[], &[], 800);
    assert_eq!((found.last, found.vote), (start.last, start.vote));
}

#[test]
fn a_tail_is_taken_away_by_a_truncation_or_by_what_replaces_it() {
    let three = append(0, &[blank(1, 0), batch(1, 1, 0, 16), batch(1, 2, 16, 8), blank(1, 3)]);
    let with = |more: &[Sealed], entries: &[u64], end| {
        check(Start::default(), &join(&[&three, more]), entries, end);
    };
    with(&[at(24).truncated(4)], &[0, 1, 2, 3], 24);
    with(&[at(24).truncated(3)], &[0, 1, 2], 24);
    with(&[at(16).truncated(2)], &[0, 1], 16);
    with(&[at(0).truncated(1)], &[0], 0);
    with(&[at(0).truncated(0)], &[], 0);
    with(&append(16, &[batch(2, 2, 16, 64)]), &[0, 1, 2], 80);
    with(&append(16, &[blank(2, 2)]), &[0, 1, 2], 16);
    with(&append(0, &[blank(2, 0)]), &[0], 0);
    with(&append(16, &[members(2, 2, &[1])]), &[0, 1, 2], 16);
    // The end came between the members and their entry.
    with(&append(16, &[members(2, 2, &[1])])[..1], &[0, 1], 16);
    with(
        &join(&[&[at(16).truncated(2), at(16).vote(vote(2, 2, false))], &append(16, &[blank(2, 2)])]),
        &[0, 1, 2],
        16,
    );
}

#[test]
fn places_that_no_batch_has_are_refused() {
    let two = append(0, &[batch(1, 0, 0, 16), batch(1, 1, 16, 8)]);
    let with = |more: &[Sealed], expected| {
        check_fault(Start::default(), &join(&[&two, more]), expected);
    };
    let base = |expected, found| Fault::Base { expected: LogIndex(expected), found: LogIndex(found) };
    with(&append(32, &[batch(1, 2, 32, 8)]), base(24, 32));
    with(&append(16, &[blank(1, 2)]), base(24, 16));
    with(&append(24, &[blank(2, 1)]), base(16, 24));
    with(&append(16, &[blank(2, 0)]), base(0, 16));
    with(&append(16, &[members(1, 2, &[1])]), base(24, 16));
    with(&[at(16).truncated(2)], base(24, 16));
    with(&[at(24).truncated(1)], base(16, 24));
    with(&[at(16).vote(vote(1, 1, false))], base(24, 16));
    with(&[at(32).agreed(0)], base(24, 32));
    with(&[at(16).purged(id(1, 0))], base(24, 16));
    with(&append(24, &[blank(1, 3)]), Fault::Missing { from: 2, found: 3 });
    with(&append(24, &[members(1, 3, &[1])]), Fault::Missing { from: 2, found: 3 });
    with(&[at(24).truncated(3)], Fault::Missing { from: 2, found: 3 });
    check_fault(Start::default(), &append(0, &[blank(1, 1)]), Fault::Missing { from: 0, found: 1 });
}

#[test]
fn terms_votes_and_agreement_do_not_go_back() {
    let two = append(0, &[blank(2, 0), batch(2, 1, 0, 16)]);
    let with = |more: &[Sealed], expected| {
        check_fault(Start::default(), &join(&[&two, more]), expected);
    };
    with(&append(16, &[blank(1, 2)]), Fault::TermGoesBack { before: id(2, 1), id: id(1, 2) });
    for (promised, found) in [
        (vote(2, 1, false), vote(1, 1, false)),
        (vote(2, 1, false), vote(2, 2, false)),
        (vote(2, 1, true), vote(2, 1, false)),
        (vote(2, 1, true), vote(2, 2, true)),
    ] {
        with(&[at(16).vote(promised), at(16).vote(found)], Fault::VoteGoesBack { promised, found });
    }
    // Those who voted for another follow the one who won.
    for found in [vote(2, 1, true), vote(2, 2, true)] {
        let batches = join(&[&two, &[at(16).vote(vote(2, 1, false)), at(16).vote(found)]]);
        assert_eq!(read(Start::default(), &batches).expect("a state").vote, Some(found));
    }
    with(&[at(16).agreed(2)], Fault::AgreedBeyond { index: 2 });
    with(&[at(16).agreed(1), at(0).truncated(1)], Fault::TakesBackAgreed { index: 1 });
    with(&[at(16).agreed(1), at(16).agreed(0), at(0).truncated(1)], Fault::TakesBackAgreed { index: 1 });
    with(&[at(16).purged(id(2, 1)), at(0).truncated(0)], Fault::TakesBackAgreed { index: 0 });
    with(&[at(16).purged(id(1, 1))], Fault::Purged { id: id(1, 1) });
    with(&[at(16).purged(id(2, 1)), at(16).purged(id(2, 0))], Fault::Purged { id: id(2, 0) });
    let all =
        [at(16).agreed(0), at(0).truncated(1), at(0).vote(vote(3, 7, false)), at(0).vote(vote(3, 7, true))];
    let found = check(Start::default(), &join(&[&two, &all, &append(0, &[blank(3, 1)])]), &[0, 1], 0);
    assert_eq!((found.vote, found.agreed), (Some(vote(3, 7, true)), Some(0)));
}

#[test]
fn batches_without_the_records_of_their_kind_are_refused() {
    let marked = |note: Note, base: u64, len: usize| {
        let mut batch = Batch::new(LOG, LogIndex(base), Buffer::default());
        batch.records().extend_zeroed(len);
        Sealed { mark: Some(note.mark()), ..batch.seal(1) }
    };
    let check = |sealed: Sealed, expected| check_fault(Start::default(), &[sealed], expected);
    check(marked(Note::Batch(id(1, 0)), 0, 0), Fault::Records { len: 0 });
    check(marked(Note::Blank(id(1, 0)), 0, 8), Fault::Records { len: 8 });
    check(marked(Note::Agreed(0), 0, 8), Fault::Records { len: 8 });
    check(marked(Note::Batch(id(1, 0)), 0, 9), Fault::Length { len: 9 });
    check(marked(Note::Batch(id(1, 0)), u64::MAX - 7, 8), Fault::End { base: LogIndex(u64::MAX - 7) });
    let none = Sealed { mark: Some(Mark([0; 24])), ..at(0).agreed(0) };
    check(none, Fault::Malformed(Malformed::Kind(0)));
    check(
        Sealed { mark: None, ..marked(Note::Batch(id(1, 0)), 16, 8) },
        Fault::Unmarked { base: LogIndex(16) },
    );
}

#[test]
fn members_are_whole_or_refused() {
    let whole = append(0, &[members(1, 0, &[1, 2, 3])]);
    check(Start::default(), &whole[..3], &[], 0);
    check(Start::default(), &join(&[&whole[..2], &append(0, &[blank(2, 0)])]), &[0], 0);
    check(Start::default(), &join(&[&whole[..2], &whole]), &[0], 0);
    let check = |batches: &[Sealed], expected| check_fault(Start::default(), batches, expected);
    check(&whole[1..], Fault::Parts { index: 0 });
    check(&whole[3..], Fault::Parts { index: 0 });
    check(&join(&[&whole[..2], &whole[3..]]), Fault::Parts { index: 0 });
    check(&join(&[&whole[..1], &whole[2..]]), Fault::Parts { index: 0 });
    check(&join(&[&whole[..3], &[at(0).vote(vote(1, 1, true))], &whole[3..]]), Fault::Parts { index: 0 });
    let two = append(0, &[members(1, 0, &[1, 2])]);
    check(&join(&[&whole[..1], &two[1..]]), Fault::Parts { index: 0 });
    let part = |number, replica, roles| {
        let part = Part { index: 0, number, count: 2, replica: ReplicaId(replica), roles };
        Sealed { mark: Some(Note::Part(part).mark()), ..at(0).agreed(0) }
    };
    for (seats, fault) in [
        ([part(0, 2, 1), part(1, 1, 1)], MembersFault::Order(ReplicaId(1))),
        ([part(0, 1, 1), part(1, 1, 1)], MembersFault::Order(ReplicaId(1))),
        ([part(0, 1, 4), part(1, 2, 2)], MembersFault::NoVoter),
    ] {
        check(&join(&[&seats, &two[2..]]), Fault::Members { index: 0, fault });
    }
}

#[test]
fn entries_go_on_behind_the_snapshot() {
    let all = append(
        0,
        &[blank(1, 0), batch(1, 1, 0, 16), members(1, 2, &[1, 2]), batch(2, 3, 16, 8), blank(2, 4)],
    );
    // Files are let go of: the first batches that are read are anywhere before the first entry that is needed.
    for from in 0..=all.len() {
        let read = |start| check(start, &all[from..], &[3, 4], 24);
        if from <= 5 {
            assert_eq!(read(snapshot(1, 2, 16)).entries[0].base, LogIndex(16));
        }
        check(snapshot(2, 4, 24), &all[from..], &[], 24);
    }
    let check = |start: Start, batches: &[Sealed], expected| check_fault(start, batches, expected);
    let other = |end| Fault::OtherSnapshot { end: LogIndex(end) };
    check(snapshot(2, 2, 16), &all, other(16));
    check(snapshot(1, 2, 8), &all, other(8));
    check(snapshot(1, 2, 8), &all[5..], other(8));
    check(snapshot(3, 2, 16), &all[5..], Fault::TermGoesBack { before: id(3, 2), id: id(2, 3) });
    check(snapshot(1, 1, 16), &all[5..], Fault::Missing { from: 2, found: 3 });
    check(snapshot(2, 9, 16), &[at(24).vote(vote(2, 2, false))], other(16));
    check(Start::default(), &all[1..], Fault::Missing { from: 0, found: 1 });
    // The entries read first were taken away later, and do not fit the snapshot.
    let stale = append(96, &[batch(1, 3, 96, 32)]);
    let later = join(&[&stale, &[at(0).truncated(2)], &append(0, &[batch(2, 2, 0, 16), batch(2, 3, 16, 8)])]);
    self::check(snapshot(2, 2, 16), &later, &[3], 24);
}

#[test]
fn a_log_begins_anew_behind_an_installed_snapshot() {
    let old = append(0, &[blank(1, 0), batch(1, 1, 0, 1600)]);
    let start = snapshot(5, 9, 800);
    // The end came before the purge was written.
    check(start, &old, &[], 800);
    let purged = [at(800).purged(id(5, 9))];
    let new = append(800, &[blank(5, 10), batch(5, 11, 800, 8)]);
    let found = check(start, &join(&[&old, &purged, &new]), &[10, 11], 808);
    assert_eq!(found.purged, Some(id(5, 9)));
    check(start, &join(&[&purged, &new]), &[10, 11], 808);
    check(start, &join(&[&[at(1600).vote(vote(5, 5, true))], &purged, &new]), &[10, 11], 808);
    check(snapshot(5, 10, 800), &join(&[&[at(1600).vote(vote(5, 5, true))], &purged, &new]), &[11], 808);
    let all = join(&[&old, &purged, &new]);
    check_fault(Start::default(), &all, Fault::Missing { from: 0, found: 10 });
    check_fault(snapshot(1, 1, 1600), &all, Fault::Missing { from: 2, found: 10 });
    check_fault(snapshot(6, 9, 800), &all, Fault::OtherSnapshot { end: LogIndex(800) });
    check_fault(snapshot(5, 9, 808), &all, Fault::OtherSnapshot { end: LogIndex(808) });
    let back = append(800, &[blank(4, 10)]);
    check_fault(start, &join(&[&purged, &back]), Fault::TermGoesBack { before: id(5, 9), id: id(4, 10) });
}

#[test]
fn votes_of_the_snapshot_and_of_the_journal_become_one() {
    let check = |promised: Vote, found: Vote, expected: Result<Vote, Fault>| {
        let start = Start { vote: Some(promised), ..Start::default() };
        let vote = read(start, &[at(0).vote(found)]).map(|found| found.vote.expect("one"));
        assert_eq!(vote, expected);
    };
    let (early, late) = (vote(2, 1, true), vote(3, 2, false));
    check(early, late, Ok(late));
    check(late, early, Ok(late));
    check(late, vote(3, 2, true), Ok(vote(3, 2, true)));
    check(vote(3, 2, true), late, Ok(vote(3, 2, true)));
    let other = vote(3, 1, false);
    check(late, other, Err(Fault::VoteGoesBack { promised: late, found: other }));
}

#[test]
fn batches_of_a_log_that_had_one_member_are_covered() {
    let alone = |base: u64| match batch(0, 0, base, 16).content {
        Content::Batch(sealed) => sealed,
        _ => unreachable!(),
    };
    let old = [alone(0), alone(16)];
    let start = Start { end: LogIndex(32), ..Start::default() };
    check(start, &old, &[], 32);
    check(start, &join(&[&old, &append(32, &[blank(1, 0), batch(1, 1, 32, 8)])]), &[0, 1], 40);
    let early = Start { end: LogIndex(24), ..start };
    check_fault(early, &old, Fault::Unmarked { base: LogIndex(16) });
}
