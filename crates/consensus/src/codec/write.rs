//! Messages to bytes. They were checked before.

use super::{appended, body, content, transferred};
use crate::entry::{Content, Entry, EntryId, Members, Vote};
use crate::mark::seats_of;
use crate::message::{Answer, Append, Appended, Body, Candidacy, Install, Message, Request, SnapshotName};
use crate::message::{Transfer, TransferRefused, Voted};
use base::Output;
use journal::Sealed;

/// The target of a message's bytes.
pub(super) trait Target {
    /// Takes a copy of `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// Takes the records of a batch.
    fn records(&mut self, batch: &Sealed);
}

impl Target for Output {
    fn put(&mut self, bytes: &[u8]) {
        self.extend(bytes);
    }

    fn records(&mut self, batch: &Sealed) {
        self.extend_from(&batch.memory, 0..batch.len);
    }
}

impl Target for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn records(&mut self, batch: &Sealed) {
        self.extend_from_slice(batch.records());
    }
}

/// Counts the bytes, and forgets them.
#[derive(Debug, Default)]
pub(super) struct Count(pub usize);

impl Target for Count {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn records(&mut self, batch: &Sealed) {
        self.0 += batch.len;
    }
}

/// A message.
///
///   0     4      12   20     28     29
///   | log | from | to | call | body | that of its number ...
pub(super) fn message(message: &Message, out: &mut impl Target) {
    out.put(&message.log.0.to_le_bytes());
    out.put(&message.from.0.to_le_bytes());
    out.put(&message.to.0.to_le_bytes());
    out.put(&message.call.to_le_bytes());
    match &message.body {
        Body::Ask(request) => self::request(request, out),
        Body::Answer(answer) => self::answer(answer, out),
    }
}

fn request(request: &Request, out: &mut impl Target) {
    match request {
        Request::Append(append) => {
            out.put(&[body::APPEND]);
            self::append(append, out);
        }
        Request::Vote(candidacy) => {
            out.put(&[body::VOTE]);
            self::candidacy(candidacy, out);
        }
        Request::PreVote(candidacy) => {
            out.put(&[body::PRE_VOTE]);
            self::candidacy(candidacy, out);
        }
        Request::Transfer(Transfer { vote, to, last }) => {
            out.put(&[body::TRANSFER]);
            self::vote(*vote, out);
            out.put(&to.0.to_le_bytes());
            maybe(*last, out);
        }
        Request::Install(Install { vote, snapshot, manifest }) => {
            out.put(&[body::INSTALL]);
            self::vote(*vote, out);
            self::snapshot(snapshot, out);
            out.put(&(manifest.len() as u32).to_le_bytes());
            out.put(manifest);
        }
    }
}

fn answer(answer: &Answer, out: &mut impl Target) {
    match answer {
        Answer::Append(answer) => {
            out.put(&[body::APPENDED]);
            match *answer {
                Appended::All => out.put(&[appended::ALL]),
                Appended::UpTo(last) => {
                    out.put(&[appended::UP_TO]);
                    maybe(last, out);
                }
                Appended::Conflict => out.put(&[appended::CONFLICT]),
                Appended::HigherVote(vote) => {
                    out.put(&[appended::HIGHER_VOTE]);
                    self::vote(vote, out);
                }
            }
        }
        Answer::Vote(Voted { vote, is_granted, last }) => {
            out.put(&[body::VOTED]);
            self::vote(*vote, out);
            out.put(&[u8::from(*is_granted)]);
            maybe(*last, out);
        }
        Answer::Transfer(answer) => {
            out.put(&[body::TRANSFERRED]);
            match *answer {
                Ok(()) => out.put(&[transferred::LEADS]),
                Err(TransferRefused::VoteChanged { expected, actual }) => {
                    out.put(&[transferred::VOTE_CHANGED]);
                    vote(expected, out);
                    vote(actual, out);
                }
                Err(TransferRefused::NotFlushed { expected, actual }) => {
                    out.put(&[transferred::NOT_FLUSHED]);
                    maybe(expected, out);
                    maybe(actual, out);
                }
            }
        }
        Answer::Installed(vote) => {
            out.put(&[body::INSTALLED]);
            self::vote(*vote, out);
        }
        Answer::Unable => out.put(&[body::UNABLE]),
    }
}

fn append(append: &Append, out: &mut impl Target) {
    let Append { vote, before, entries, agreed } = append;
    self::vote(*vote, out);
    maybe(*before, out);
    maybe(*agreed, out);
    out.put(&(entries.len() as u32).to_le_bytes());
    entries.iter().for_each(|entry| self::entry(entry, out));
}

fn entry(entry: &Entry, out: &mut impl Target) {
    let Entry { id, content } = entry;
    out.put(&[match content {
        Content::Batch(_) => content::BATCH,
        Content::Blank => content::BLANK,
        Content::Members(_) => content::MEMBERS,
    }]);
    self::id(*id, out);
    match content {
        Content::Blank => {}
        Content::Batch(sealed) => {
            out.put(&sealed.base.0.to_le_bytes());
            out.put(&sealed.committed_at_ms.to_le_bytes());
            out.put(&(sealed.len as u32).to_le_bytes());
            out.put(&sealed.crc.to_le_bytes());
            out.records(sealed);
        }
        Content::Members(members) => self::members(members, out),
    }
}

fn candidacy(candidacy: &Candidacy, out: &mut impl Target) {
    let Candidacy { vote, last, is_transfer } = *candidacy;
    self::vote(vote, out);
    maybe(last, out);
    out.put(&[u8::from(is_transfer)]);
}

fn snapshot(snapshot: &SnapshotName, out: &mut impl Target) {
    let SnapshotName { last, end, members, members_at } = snapshot;
    maybe(*last, out);
    out.put(&end.0.to_le_bytes());
    self::members(members, out);
    maybe(*members_at, out);
}

/// The name of a snapshot, and a vote.
pub(super) fn standing(name: &SnapshotName, vote: Option<Vote>, out: &mut impl Target) {
    snapshot(name, out);
    out.put(&[u8::from(vote.is_some())]);
    vote.into_iter().for_each(|vote| self::vote(vote, out));
}

/// Members; those of an empty log are none.
fn members(members: &Members, out: &mut impl Target) {
    let seats = seats_of(members).unwrap_or_default();
    out.put(&(seats.len() as u16).to_le_bytes());
    for seat in seats {
        out.put(&seat.replica.0.to_le_bytes());
        out.put(&[seat.roles]);
    }
}

fn vote(vote: Vote, out: &mut impl Target) {
    out.put(&vote.term.to_le_bytes());
    out.put(&vote.candidate.0.to_le_bytes());
    out.put(&[u8::from(vote.is_won)]);
}

fn maybe(id: Option<EntryId>, out: &mut impl Target) {
    out.put(&[u8::from(id.is_some())]);
    if let Some(id) = id {
        self::id(id, out);
    }
}

fn id(id: EntryId, out: &mut impl Target) {
    out.put(&id.term.to_le_bytes());
    out.put(&id.index.to_le_bytes());
}
