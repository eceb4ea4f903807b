//! Messages to bytes and back.

use super::{Fault, Limits, TERM_MAX, read, size, write};
use crate::entry::{Content, Entry, EntryId, Members, ReplicaId, Vote};
use crate::mark::MembersFault;
use crate::message::{Answer, Append, Appended, Body, Candidacy, Install, Message, Request, SnapshotName};
use crate::message::{Transfer, TransferRefused, Voted};
use base::id::{LogId, LogIndex};
use base::{Buffer, Output};
use journal::{Batch, Sealed};
use proptest::prelude::*;

const LOG: LogId = LogId(0x8000_0001);
const LIMITS: Limits = Limits { entries_max: 8, manifest_bytes_max: 64, message_bytes_max: 64 << 10 };
const VOTE: Vote = Vote { term: 3, candidate: ReplicaId(7), is_won: true };

/// Bytes before the content of a body.
const HEAD: usize = 29;

fn id(term: u64, index: u64) -> EntryId {
    EntryId { term, index }
}

fn sealed(base: u64, len: usize) -> Sealed {
    let mut batch = Batch::new(LOG, LogIndex(base), Buffer::default());
    batch.records().extend_zeroed(len).iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8);
    batch.seal(base + 1)
}

fn entry(term: u64, index: u64, content: Content) -> Entry {
    Entry { id: id(term, index), content }
}

fn members(voters: &[&[u64]], learners: &[u64]) -> Members {
    let set = |ids: &[u64]| ids.iter().map(|id| ReplicaId(*id)).collect();
    Members { voters: voters.iter().map(|ids| set(ids)).collect(), learners: set(learners) }
}

fn message(body: Body) -> Message {
    Message { log: LOG, from: ReplicaId(1 << 32), to: ReplicaId(2 << 32 | 5), call: 99, body }
}

fn ask(request: Request) -> Message {
    message(Body::Ask(request))
}

fn answer(answer: Answer) -> Message {
    message(Body::Answer(answer))
}

fn append(before: Option<EntryId>, entries: Vec<Entry>) -> Message {
    ask(Request::Append(Append { vote: VOTE, before, entries, agreed: Some(id(1, 0)) }))
}

fn install(members: Members, manifest: Vec<u8>) -> Message {
    let (last, end, members_at) = (Some(id(2, 9)), LogIndex(800), None);
    let snapshot = SnapshotName { last, end, members, members_at };
    ask(Request::Install(Install { vote: VOTE, snapshot, manifest }))
}

fn written(message: &Message) -> Vec<u8> {
    let mut out = Output::default();
    let bytes = write(message, &LIMITS, &mut out).expect("a message");
    assert_eq!((size(message, &LIMITS), out.len()), (Ok(bytes), bytes));
    out.to_vec()
}

/// A message of each kind, with its bytes.
fn messages() -> Vec<(Message, usize)> {
    let all = vec![
        entry(1, 5, Content::Blank),
        entry(1, 6, Content::Batch(sealed(40, 8))),
        entry(2, 7, Content::Members(members(&[&[1, 2], &[2, 3]], &[9]))),
        entry(2, 8, Content::Batch(sealed(48, 8192))),
        entry(3, 9, Content::Blank),
        entry(3, 10, Content::Batch(sealed(8240, 4088))),
    ];
    let none = Append { vote: VOTE, before: None, entries: vec![], agreed: None };
    let candidacy = Candidacy { vote: VOTE, last: Some(id(2, 4)), is_transfer: true };
    let first = Candidacy { last: None, is_transfer: false, ..candidacy };
    let (before, other) = (id(1, 4), Vote { is_won: false, ..VOTE });
    let changed = TransferRefused::VoteChanged { expected: VOTE, actual: other };
    let flushed = TransferRefused::NotFlushed { expected: Some(before), actual: None };
    let voted = Voted { vote: other, is_granted: false, last: Some(before) };
    let batches = 3 * 24 + 8 + 8192 + 4088;
    [
        (append(Some(before), all), 17 + 17 + 17 + 4 + 6 * 17 + batches + 2 + 4 * 9),
        (append(None, vec![entry(0, 0, Content::Blank)]), 17 + 1 + 17 + 4 + 17),
        (ask(Request::Append(none)), 17 + 1 + 1 + 4),
        (ask(Request::Vote(candidacy)), 17 + 17 + 1),
        (ask(Request::PreVote(first)), 17 + 1 + 1),
        (ask(Request::Transfer(Transfer { vote: VOTE, to: ReplicaId(3), last: Some(before) })), 17 + 8 + 17),
        (install(Members::default(), vec![]), 17 + 17 + 8 + 2 + 1 + 4),
        (install(members(&[&[1, 2]], &[]), vec![7; 64]), 17 + 17 + 8 + 2 + 18 + 1 + 4 + 64),
        (answer(Answer::Append(Appended::All)), 1),
        (answer(Answer::Append(Appended::UpTo(Some(before)))), 1 + 17),
        (answer(Answer::Append(Appended::UpTo(None))), 1 + 1),
        (answer(Answer::Append(Appended::Conflict)), 1),
        (answer(Answer::Append(Appended::HigherVote(VOTE))), 1 + 17),
        (answer(Answer::Vote(voted)), 17 + 1 + 17),
        (answer(Answer::Vote(Voted { is_granted: true, last: None, ..voted })), 17 + 1 + 1),
        (answer(Answer::Transfer(Ok(()))), 1),
        (answer(Answer::Transfer(Err(changed))), 1 + 17 + 17),
        (answer(Answer::Transfer(Err(flushed))), 1 + 17 + 1),
        (answer(Answer::Installed(VOTE)), 17),
        (answer(Answer::Unable), 0),
    ]
    .into()
}

/// All of a message, records too.
fn words(message: &Message) -> String {
    let records: Vec<_> = match &message.body {
        Body::Ask(Request::Append(append)) => {
            append.entries.iter().filter_map(|entry| batch_of(entry).map(|sealed| sealed.records())).collect()
        }
        _ => vec![],
    };
    format!("{message:?} {records:?}")
}

fn batch_of(entry: &Entry) -> Option<&Sealed> {
    match &entry.content {
        Content::Batch(sealed) => Some(sealed),
        _ => None,
    }
}

#[test]
fn every_message_comes_back() {
    for (message, len) in messages() {
        let bytes = written(&message);
        assert_eq!(bytes.len(), HEAD + len, "{message:?}");
        let again = read(&bytes, &LIMITS).expect("what was written");
        assert_eq!(words(&again), words(&message));
        assert!(written(&again) == bytes);
        if let Body::Ask(Request::Append(append)) = &again.body {
            for sealed in append.entries.iter().filter_map(batch_of) {
                assert!(sealed.memory.len().is_multiple_of(base::memory::BLOCK));
                assert!(sealed.memory[sealed.len..].iter().all(|byte| *byte == 0));
            }
        }
    }
}

#[test]
fn long_records_are_not_copied() {
    let sealed = sealed(0, 8192);
    let message = append(None, vec![entry(1, 0, Content::Batch(sealed.clone()))]);
    let mut out = Output::default();
    write(&message, &LIMITS, &mut out).expect("a message");
    let mut slices = Vec::new();
    out.slices(usize::MAX, |slice| slices.push(slice.as_ptr_range()));
    assert_eq!(slices.len(), 2);
    assert_eq!(slices[1], sealed.records().as_ptr_range());
}

#[test]
fn any_end_but_the_right_one_is_refused() {
    for (message, _) in messages() {
        let mut bytes = written(&message);
        for len in (0..bytes.len().min(300)).chain(bytes.len() - 1..bytes.len()) {
            assert_eq!(read(&bytes[..len], &LIMITS).map(|_| ()), Err(Fault::Short), "{len} of {message:?}");
        }
        bytes.extend([0; 3]);
        assert_eq!(read(&bytes, &LIMITS).map(|_| ()), Err(Fault::Trailing(3)), "{message:?}");
    }
}

/// The bytes of a message with others in one place.
#[track_caller]
fn check_bytes(message: &Message, at: usize, over: &[u8], expected: Fault) {
    let mut bytes = written(message);
    bytes[at..at + over.len()].copy_from_slice(over);
    assert_eq!(read(&bytes, &LIMITS).map(|_| ()), Err(expected), "{expected}");
}

#[test]
fn bytes_that_mean_nothing_are_refused_by_name() {
    let blank = append(None, vec![entry(1, 0, Content::Blank)]);
    let body = HEAD - 1;
    for kind in [0, 6, 128, 131, 135, 255] {
        check_bytes(&blank, body, &[kind], Fault::Body(kind));
    }
    let (before, count) = (HEAD + 17, HEAD + 17 + 1 + 17);
    check_bytes(&blank, HEAD, &u64::MAX.to_le_bytes(), Fault::Term(u64::MAX));
    check_bytes(&blank, HEAD + 16, &[2], Fault::Flag(2));
    check_bytes(&blank, before, &[255], Fault::Flag(255));
    check_bytes(&blank, count, &9u32.to_le_bytes(), Fault::Entries(9));
    check_bytes(&blank, count, &u32::MAX.to_le_bytes(), Fault::Entries(u32::MAX as usize));
    check_bytes(&blank, count, &2u32.to_le_bytes(), Fault::Short);
    check_bytes(&blank, count, &0u32.to_le_bytes(), Fault::Trailing(17));
    check_bytes(&blank, count + 4, &[4], Fault::Content(4));
    let batch = append(None, vec![entry(1, 0, Content::Batch(sealed(0, 8)))]);
    let (len, sum) = (count + 4 + 17 + 16, Fault::Sum(LogIndex(0)));
    check_bytes(&batch, len, &9u32.to_le_bytes(), Fault::Short);
    check_bytes(&batch, len, &0u32.to_le_bytes(), sum);
    check_bytes(&batch, len, &[0; 8], Fault::Trailing(8));
    check_bytes(&batch, len + 4, &[0], sum);
    check_bytes(&batch, len + 15, &[0], sum);
    let named = append(None, vec![entry(1, 0, Content::Members(members(&[&[1, 2]], &[])))]);
    let seats = count + 4 + 17;
    check_bytes(&named, seats, &[0, 1], MembersFault::TooMany(256).into());
    check_bytes(&named, seats, &[3], Fault::Short);
    check_bytes(&named, seats + 2 + 8, &[5], MembersFault::Roles(5).into());
    check_bytes(&named, seats + 2 + 8, &[4, 2, 0, 0, 0, 0, 0, 0, 0, 4], MembersFault::NoVoter.into());
    check_bytes(&named, seats + 2, &[2], MembersFault::Order(ReplicaId(2)).into());
    check_bytes(&answer(Answer::Append(Appended::All)), HEAD, &[4], Fault::Appended(4));
    check_bytes(&answer(Answer::Transfer(Ok(()))), HEAD, &[3], Fault::Transferred(3));
    check_bytes(&install(Members::default(), vec![]), HEAD + 17 + 17 + 8 + 2 + 1, &[65], Fault::Manifest(65));
}

/// A message that is written by nobody.
#[track_caller]
fn check_message(message: Message, expected: Fault) {
    let mut out = Output::default();
    assert_eq!(write(&message, &LIMITS, &mut out), Err(expected), "{expected}");
    assert!(out.is_empty());
}

#[test]
fn messages_against_the_rules_are_not_written() {
    let blank = |term, index| entry(term, index, Content::Blank);
    let batch = |index, base, len| entry(3, index, Content::Batch(sealed(base, len)));
    check_message(append(None, vec![blank(1, 1)]), Fault::Gap { expected: 0, found: 1 });
    check_message(append(Some(id(1, 4)), vec![blank(1, 4)]), Fault::Gap { expected: 5, found: 4 });
    check_message(append(None, vec![blank(1, 0), blank(1, 2)]), Fault::Gap { expected: 1, found: 2 });
    let order = |before, id| Fault::Order { before, id };
    check_message(append(Some(id(2, 4)), vec![blank(1, 5)]), order(id(2, 4), id(1, 5)));
    check_message(append(Some(id(1, u64::MAX)), vec![]), Fault::Index);
    check_message(append(Some(id(1, u64::MAX - 1)), vec![blank(1, u64::MAX)]), Fault::Index);
    check_message(append(Some(id(TERM_MAX + 1, 0)), vec![]), Fault::Term(TERM_MAX + 1));
    check_message(append(None, (0..9).map(|index| blank(1, index)).collect()), Fault::Entries(9));
    check_message(append(None, vec![batch(0, 0, 0)]), Fault::Records(0));
    check_message(append(None, vec![batch(0, 0, 12)]), Fault::Records(12));
    let end = Fault::End(LogIndex(u64::MAX - 7));
    check_message(append(None, vec![batch(0, u64::MAX - 7, 8)]), end);
    let base = Fault::Base { expected: LogIndex(8), found: LogIndex(16) };
    check_message(append(None, vec![batch(0, 0, 8), blank(3, 1), batch(2, 16, 8)]), base);
    let foreign = Sealed { log: LogId(1), ..sealed(0, 8) };
    check_message(append(None, vec![entry(1, 0, Content::Batch(foreign))]), Fault::Log(LogId(1)));
    let nobody = entry(1, 0, Content::Members(Members::default()));
    check_message(append(None, vec![nobody]), MembersFault::NoVoter.into());
    check_message(install(members(&[&[1], &[2], &[3]], &[]), vec![]), MembersFault::Sets(3).into());
    check_message(install(Members::default(), vec![0; 65]), Fault::Manifest(65));
    let large = 64 << 10;
    let all = HEAD + 17 + 1 + 17 + 4 + 17 + 24 + large;
    check_message(append(None, vec![batch(0, 0, large)]), Fault::Message(all));
    assert_eq!(read(&vec![0; large + 1], &LIMITS).map(|_| ()), Err(Fault::Message(large + 1)));
}

fn any_id() -> impl Strategy<Value = EntryId> {
    (0..=TERM_MAX, 0..u64::MAX).prop_map(|(term, index)| EntryId { term, index })
}

fn any_maybe() -> impl Strategy<Value = Option<EntryId>> {
    prop::option::of(any_id())
}

fn any_vote() -> impl Strategy<Value = Vote> {
    (0..=TERM_MAX, any::<u64>(), any::<bool>()).prop_map(|(term, candidate, is_won)| Vote {
        term,
        candidate: ReplicaId(candidate),
        is_won,
    })
}

fn any_members() -> impl Strategy<Value = Members> {
    let ids = |from: u64, least| prop::collection::btree_set((from..from + 5).prop_map(ReplicaId), least..4);
    let voters = (ids(0, 1), prop::option::of(ids(3, 1)));
    (voters, ids(20, 0)).prop_map(|((first, second), learners)| {
        let voters = [Some(first), second].into_iter().flatten().collect();
        Members { voters, learners }
    })
}

/// Entries behind one another, by what each is: how long a batch is, or the members.
fn any_append() -> impl Strategy<Value = Request> {
    let contents = prop::collection::vec((0..3u8, 1..600usize, any_members(), 0..2u64), 0..8);
    (any_vote(), any_maybe(), any_maybe(), any::<u32>(), contents).prop_map(
        |(vote, before, agreed, base, contents)| {
            let mut last = before.filter(|id| id.term < TERM_MAX / 2 && id.index < u64::MAX / 2);
            let (before, mut base) = (last, u64::from(base));
            let mut next = |(kind, words, members, terms): (u8, usize, Members, u64)| {
                let id = match last {
                    Some(id) => EntryId { term: id.term + terms, index: id.index + 1 },
                    None => id(1, 0),
                };
                last = Some(id);
                let content = match kind {
                    0 => Content::Blank,
                    1 => Content::Members(members),
                    _ => Content::Batch(sealed(base, 8 * words)),
                };
                base += if kind == 2 { 8 * words as u64 } else { 0 };
                Entry { id, content }
            };
            let entries = contents.into_iter().map(&mut next).collect();
            Request::Append(Append { vote, before, entries, agreed })
        },
    )
}

fn any_request() -> impl Strategy<Value = Request> {
    let candidacy = || {
        (any_vote(), any_maybe(), any::<bool>()).prop_map(|(vote, last, is_transfer)| Candidacy {
            vote,
            last,
            is_transfer,
        })
    };
    let members = prop_oneof![Just(Members::default()), any_members()];
    let name =
        (any_maybe(), any::<u64>(), members, any_maybe()).prop_map(|(last, end, members, members_at)| {
            SnapshotName { last, end: LogIndex(end), members, members_at }
        });
    prop_oneof![
        4 => any_append(),
        1 => candidacy().prop_map(Request::Vote),
        1 => candidacy().prop_map(Request::PreVote),
        1 => (any_vote(), any::<u64>(), any_maybe())
            .prop_map(|(vote, to, last)| Request::Transfer(Transfer { vote, to: ReplicaId(to), last })),
        2 => (any_vote(), name, prop::collection::vec(any::<u8>(), 0..64))
            .prop_map(|(vote, snapshot, manifest)| Request::Install(Install { vote, snapshot, manifest })),
    ]
}

fn any_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        any_maybe().prop_map(|last| Answer::Append(Appended::UpTo(last))),
        any_vote().prop_map(|vote| Answer::Append(Appended::HigherVote(vote))),
        (any_vote(), any::<bool>(), any_maybe()).prop_map(|(vote, is_granted, last)| Answer::Vote(Voted {
            vote,
            is_granted,
            last
        })),
        (any_vote(), any_vote()).prop_map(|(expected, actual)| {
            Answer::Transfer(Err(TransferRefused::VoteChanged { expected, actual }))
        }),
        (any_maybe(), any_maybe()).prop_map(|(expected, actual)| {
            Answer::Transfer(Err(TransferRefused::NotFlushed { expected, actual }))
        }),
        any_vote().prop_map(Answer::Installed),
    ]
}

fn any_message() -> impl Strategy<Value = Message> {
    let body = prop_oneof![3 => any_request().prop_map(Body::Ask), 1 => any_answer().prop_map(Body::Answer)];
    (any::<u64>(), any::<u64>(), any::<u64>(), body).prop_map(|(from, to, call, body)| Message {
        log: LOG,
        from: ReplicaId(from),
        to: ReplicaId(to),
        call,
        body,
    })
}

proptest! {
    #[test]
    fn a_message_is_read_as_it_was_written(message in any_message()) {
        let bytes = written(&message);
        let again = read(&bytes, &LIMITS).expect("what was written");
        prop_assert_eq!(words(&again), words(&message));
        prop_assert!(written(&again) == bytes);
    }

    #[test]
    fn changed_bytes_are_refused_or_the_form_of_another_message(
        message in any_message(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = written(&message);
        for (at, byte) in edits {
            // Heads are short, and records long.
            let at = at.index(bytes.len().min(200));
            bytes[at] = byte;
        }
        bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len())));
        if let Ok(again) = read(&bytes, &LIMITS) {
            prop_assert!(written(&again) == bytes);
        }
    }
}
