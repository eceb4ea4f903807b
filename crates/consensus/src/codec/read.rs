//! Bytes to messages, whose rules are checked afterwards.

use super::{Fault, Limits, appended, body, content, transferred};
use crate::entry::{Content, Entry, EntryId, Members, ReplicaId, Vote};
use crate::mark::{MembersFault, REPLICAS_MAX, Seat, members_of};
use crate::message::{Answer, Append, Appended, Body, Candidacy, Install, Message, Request, SnapshotName};
use crate::message::{Transfer, TransferRefused, Voted};
use base::crc::crc32c;
use base::id::{LogId, LogIndex};
use base::memory::BLOCK;
use base::{Buffer, Reader};
use journal::Sealed;

/// Bytes of the shortest entry.
const ENTRY_MIN: usize = 17;

/// Bytes of a seat.
const SEAT: usize = 9;

pub(super) fn message(bytes: &[u8], limits: &Limits) -> Result<Message, Fault> {
    let mut reader = Reader::new(bytes);
    let log = LogId(reader.u32_le()?);
    let (from, to) = (replica(&mut reader)?, replica(&mut reader)?);
    let call = reader.u64_le()?;
    let body = self::body(log, &mut reader, limits)?;
    match reader.len() {
        0 => Ok(Message { log, from, to, call, body }),
        more => Err(Fault::Trailing(more)),
    }
}

fn body(log: LogId, reader: &mut Reader<'_>, limits: &Limits) -> Result<Body, Fault> {
    let ask = match reader.u8()? {
        body::APPEND => Request::Append(append(log, reader, limits)?),
        body::VOTE => Request::Vote(candidacy(reader)?),
        body::PRE_VOTE => Request::PreVote(candidacy(reader)?),
        body::TRANSFER => {
            let (vote, to, last) = (vote(reader)?, replica(reader)?, maybe(reader)?);
            Request::Transfer(Transfer { vote, to, last })
        }
        body::INSTALL => Request::Install(install(reader, limits)?),
        answer => return self::answer(answer, reader).map(Body::Answer),
    };
    Ok(Body::Ask(ask))
}

fn answer(kind: u8, reader: &mut Reader<'_>) -> Result<Answer, Fault> {
    Ok(match kind {
        body::APPENDED => Answer::Append(match reader.u8()? {
            appended::ALL => Appended::All,
            appended::UP_TO => Appended::UpTo(maybe(reader)?),
            appended::CONFLICT => Appended::Conflict,
            appended::HIGHER_VOTE => Appended::HigherVote(vote(reader)?),
            unknown => return Err(Fault::Appended(unknown)),
        }),
        body::VOTED => {
            let (vote, is_granted, last) = (vote(reader)?, flag(reader)?, maybe(reader)?);
            Answer::Vote(Voted { vote, is_granted, last })
        }
        body::TRANSFERRED => Answer::Transfer(match reader.u8()? {
            transferred::LEADS => Ok(()),
            transferred::VOTE_CHANGED => {
                Err(TransferRefused::VoteChanged { expected: vote(reader)?, actual: vote(reader)? })
            }
            transferred::NOT_FLUSHED => {
                Err(TransferRefused::NotFlushed { expected: maybe(reader)?, actual: maybe(reader)? })
            }
            unknown => return Err(Fault::Transferred(unknown)),
        }),
        body::INSTALLED => Answer::Installed(vote(reader)?),
        body::UNABLE => Answer::Unable,
        unknown => return Err(Fault::Body(unknown)),
    })
}

fn append(log: LogId, reader: &mut Reader<'_>, limits: &Limits) -> Result<Append, Fault> {
    let (vote, before, agreed) = (vote(reader)?, maybe(reader)?, maybe(reader)?);
    let count = reader.u32_le()? as usize;
    if count > limits.entries_max {
        return Err(Fault::Entries(count));
    }
    let mut entries = Vec::with_capacity(count.min(reader.len() / ENTRY_MIN));
    for _ in 0..count {
        entries.push(entry(log, reader)?);
    }
    Ok(Append { vote, before, entries, agreed })
}

fn entry(log: LogId, reader: &mut Reader<'_>) -> Result<Entry, Fault> {
    let kind = reader.u8()?;
    let id = id(reader)?;
    let content = match kind {
        content::BATCH => Content::Batch(batch(log, reader)?),
        content::BLANK => Content::Blank,
        content::MEMBERS => Content::Members(members_of(&seats(reader)?)?),
        unknown => return Err(Fault::Content(unknown)),
    };
    Ok(Entry { id, content })
}

fn batch(log: LogId, reader: &mut Reader<'_>) -> Result<Sealed, Fault> {
    let base = LogIndex(reader.u64_le()?);
    let committed_at_ms = reader.u64_le()?;
    let len = reader.u32_le()? as usize;
    let crc = reader.u32_le()?;
    let records = reader.take(len)?;
    if crc32c(records) != crc {
        return Err(Fault::Sum(base));
    }
    let mut buffer = Buffer::with_capacity(len);
    buffer.extend(records);
    buffer.pad_to(BLOCK);
    Ok(Sealed { memory: buffer.seal(), log, base, len, crc, committed_at_ms, mark: None })
}

fn candidacy(reader: &mut Reader<'_>) -> Result<Candidacy, Fault> {
    Ok(Candidacy { vote: vote(reader)?, last: maybe(reader)?, is_transfer: flag(reader)? })
}

fn install(reader: &mut Reader<'_>, limits: &Limits) -> Result<Install, Fault> {
    let (vote, snapshot) = (vote(reader)?, snapshot(reader)?);
    let len = reader.u32_le()? as usize;
    if len > limits.manifest_bytes_max {
        return Err(Fault::Manifest(len));
    }
    Ok(Install { vote, snapshot, manifest: reader.take(len)?.to_vec() })
}

fn snapshot(reader: &mut Reader<'_>) -> Result<SnapshotName, Fault> {
    let (last, end) = (maybe(reader)?, LogIndex(reader.u64_le()?));
    let members = match &seats(reader)?[..] {
        [] => Members::default(),
        seats => members_of(seats)?,
    };
    Ok(SnapshotName { last, end, members, members_at: maybe(reader)? })
}

pub(super) fn standing(bytes: &[u8]) -> Result<(SnapshotName, Option<Vote>), Fault> {
    let mut reader = Reader::new(bytes);
    let name = snapshot(&mut reader)?;
    let vote = if flag(&mut reader)? { Some(vote(&mut reader)?) } else { None };
    match reader.len() {
        0 => Ok((name, vote)),
        more => Err(Fault::Trailing(more)),
    }
}

fn seats(reader: &mut Reader<'_>) -> Result<Vec<Seat>, Fault> {
    let count = usize::from(reader.u16_le()?);
    if count > REPLICAS_MAX {
        return Err(Fault::Members(MembersFault::TooMany(count)));
    }
    let mut seats = Vec::with_capacity(count.min(reader.len() / SEAT));
    for _ in 0..count {
        seats.push(Seat { replica: replica(reader)?, roles: reader.u8()? });
    }
    Ok(seats)
}

fn vote(reader: &mut Reader<'_>) -> Result<Vote, Fault> {
    Ok(Vote { term: reader.u64_le()?, candidate: replica(reader)?, is_won: flag(reader)? })
}

fn maybe(reader: &mut Reader<'_>) -> Result<Option<EntryId>, Fault> {
    if flag(reader)? { id(reader).map(Some) } else { Ok(None) }
}

fn id(reader: &mut Reader<'_>) -> Result<EntryId, Fault> {
    Ok(EntryId { term: reader.u64_le()?, index: reader.u64_le()? })
}

fn replica(reader: &mut Reader<'_>) -> Result<ReplicaId, Fault> {
    Ok(ReplicaId(reader.u64_le()?))
}

fn flag(reader: &mut Reader<'_>) -> Result<bool, Fault> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Fault::Flag(other)),
    }
}
