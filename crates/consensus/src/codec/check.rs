//! Rules that every message keeps, whoever has made it.

use super::{Fault, Limits, TERM_MAX};
use crate::entry::{Content, Entry, EntryId, Members, Vote};
use crate::mark::{follows, seats_of};
use crate::message::{Answer, Append, Appended, Body, Candidacy, Install, Message};
use crate::message::{Request, Transfer, TransferRefused, Voted};
use base::id::{LogId, LogIndex};
use journal::Sealed;

pub(super) fn message(message: &Message, limits: &Limits) -> Result<(), Fault> {
    match &message.body {
        Body::Ask(Request::Append(append)) => self::append(message.log, append, limits),
        Body::Ask(Request::Vote(candidacy) | Request::PreVote(candidacy)) => {
            let Candidacy { vote, last, is_transfer: _ } = *candidacy;
            self::vote(vote)?;
            maybe(last)
        }
        Body::Ask(Request::Transfer(Transfer { vote, to: _, last })) => {
            self::vote(*vote)?;
            maybe(*last)
        }
        Body::Ask(Request::Install(install)) => self::install(install, limits),
        Body::Answer(Answer::Append(answer)) => match *answer {
            Appended::All | Appended::Conflict => Ok(()),
            Appended::UpTo(last) => maybe(last),
            Appended::HigherVote(vote) => self::vote(vote),
        },
        Body::Answer(Answer::Vote(Voted { vote, is_granted: _, last })) => {
            self::vote(*vote)?;
            maybe(*last)
        }
        Body::Answer(Answer::Transfer(answer)) => match *answer {
            Ok(()) => Ok(()),
            Err(TransferRefused::VoteChanged { expected, actual }) => {
                self::vote(expected)?;
                self::vote(actual)
            }
            Err(TransferRefused::NotFlushed { expected, actual }) => {
                maybe(expected)?;
                maybe(actual)
            }
        },
        Body::Answer(Answer::Installed(vote)) => self::vote(*vote),
        Body::Answer(Answer::Unable) => Ok(()),
    }
}

fn append(log: LogId, append: &Append, limits: &Limits) -> Result<(), Fault> {
    let Append { vote, before, entries, agreed } = append;
    self::vote(*vote)?;
    maybe(*before)?;
    maybe(*agreed)?;
    if entries.len() > limits.entries_max {
        return Err(Fault::Entries(entries.len()));
    }
    let (mut before, mut end) = (*before, None);
    for Entry { id, content } in entries {
        let id = *id;
        maybe(Some(id))?;
        let expected = before.map_or(0, |before| before.index + 1);
        if id.index != expected {
            return Err(Fault::Gap { expected, found: id.index });
        }
        if let Some(before) = before.filter(|before| follows(*before, id).is_err()) {
            return Err(Fault::Order { before, id });
        }
        before = Some(id);
        match content {
            Content::Blank => {}
            Content::Batch(sealed) => end = Some(batch(log, sealed, end)?),
            Content::Members(members) => drop(seats_of(members)?),
        }
    }
    Ok(())
}

/// Checks a batch of a message of `log`, the batch before which ended at `end`. Returns where it ends.
fn batch(log: LogId, sealed: &Sealed, end: Option<LogIndex>) -> Result<LogIndex, Fault> {
    let Sealed { base, len, .. } = *sealed;
    if len == 0 || !len.is_multiple_of(8) {
        return Err(Fault::Records(len));
    }
    if sealed.log != log {
        return Err(Fault::Log(sealed.log));
    }
    if let Some(expected) = end.filter(|end| *end != base) {
        return Err(Fault::Base { expected, found: base });
    }
    base.0.checked_add(len as u64).map(LogIndex).ok_or(Fault::End(base))
}

fn install(install: &Install, limits: &Limits) -> Result<(), Fault> {
    let Install { vote, snapshot, manifest } = install;
    self::vote(*vote)?;
    maybe(snapshot.last)?;
    maybe(snapshot.members_at)?;
    // That of an empty log names nobody.
    if snapshot.members != Members::default() {
        seats_of(&snapshot.members)?;
    }
    match manifest.len() {
        len if len > limits.manifest_bytes_max => Err(Fault::Manifest(len)),
        _ => Ok(()),
    }
}

fn vote(vote: Vote) -> Result<(), Fault> {
    term(vote.term)
}

fn maybe(id: Option<EntryId>) -> Result<(), Fault> {
    match id {
        Some(id) if id.index == u64::MAX => Err(Fault::Index),
        Some(id) => term(id.term),
        None => Ok(()),
    }
}

fn term(term: u64) -> Result<(), Fault> {
    if term > TERM_MAX { Err(Fault::Term(term)) } else { Ok(()) }
}
