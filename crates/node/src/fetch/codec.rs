//! [`Fetch`] as bytes, described in `docs/formats/fetch-message.md`. A word has one form: what is read and written again has
//! the same bytes.

use super::{Fetch, Gift, PIECE_BYTES_MAX, Part, SEGMENTS_MAX, What};
use base::id::LogId;
use base::{Reader, Short};
use consensus::EntryId;
use consensus::standing::Standing;
use std::fmt;

/// The fault of bytes that are no word. A peer that sends such bytes runs another program; its connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The bytes end before the word does.
    Short,
    /// So many bytes are behind the word.
    Trailing(usize),
    /// No word has this number.
    Kind(u8),
    /// No part of a gift has this number.
    Part(u8),
    /// The name of a state is none.
    Name(consensus::codec::Fault),
    /// A name that has a vote is none.
    Vote,
    /// A gift has more segments than the limit, a piece more bytes.
    Long(usize),
    /// A gift is not within its bounds, or says of a segment more than once what it says.
    Gift,
}

impl From<Short> for Fault {
    fn from(_: Short) -> Fault {
        Fault::Short
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Short => f.write_str("the word ends early"),
            Fault::Trailing(bytes) => write!(f, "{bytes} bytes are behind the word"),
            Fault::Kind(kind) => write!(f, "no word has the number {kind}"),
            Fault::Part(part) => write!(f, "no part has the number {part}"),
            Fault::Name(fault) => write!(f, "the name of a state: {fault}"),
            Fault::Vote => f.write_str("the name of a state has a vote"),
            Fault::Long(count) => write!(f, "{count} is more than there may be"),
            Fault::Gift => f.write_str("a gift that nobody could have"),
        }
    }
}

mod kind {
    pub const ASK: u8 = 1;
    pub const GIFT: u8 = 2;
    pub const READ: u8 = 3;
    pub const PIECE: u8 = 4;
    pub const GONE: u8 = 5;
}

mod part {
    pub const STATE: u8 = 0;
    pub const SEGMENT: u8 = 1;
}

/// Appends a word.
pub fn write(Fetch { log, what }: &Fetch, out: &mut Vec<u8>) {
    out.extend_from_slice(&log.0.to_le_bytes());
    match what {
        What::Ask { least } => {
            out.push(kind::ASK);
            words(&[least.term, least.index], out);
        }
        What::Gift(gift) => {
            out.push(kind::GIFT);
            let Gift { number, name, len, segments, moved } = &**gift;
            let name = Standing { name: name.clone(), vote: None }.write();
            words(&[*number, *len], out);
            out.extend_from_slice(&(name.len() as u16).to_le_bytes());
            out.extend_from_slice(&name);
            out.extend_from_slice(&(segments.len() as u32).to_le_bytes());
            segments.iter().for_each(|(number, len)| words(&[*number, *len], out));
            out.extend_from_slice(&(moved.len() as u32).to_le_bytes());
            words(moved, out);
        }
        What::Read { number, part, offset } => {
            out.push(kind::READ);
            place(*number, *part, *offset, out);
        }
        What::Piece { number, part, offset, bytes } => {
            out.push(kind::PIECE);
            place(*number, *part, *offset, out);
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        }
        What::Gone { number } => {
            out.push(kind::GONE);
            words(&[*number], out);
        }
    }
}

fn words(words: &[u64], out: &mut Vec<u8>) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

fn place(number: u64, part: Part, offset: u64, out: &mut Vec<u8>) {
    words(&[number, offset], out);
    match part {
        Part::State => out.push(part::STATE),
        Part::Segment(number) => {
            out.push(part::SEGMENT);
            words(&[number], out);
        }
    }
}

/// Reads a word that is all of `bytes`. Any bytes may come.
///
/// # Errors
/// It is none that [`write()`] writes.
pub fn read(bytes: &[u8]) -> Result<Fetch, Fault> {
    let mut reader = Reader::new(bytes);
    let log = LogId(reader.u32_le()?);
    let what = match reader.u8()? {
        kind::ASK => What::Ask { least: EntryId { term: reader.u64_le()?, index: reader.u64_le()? } },
        kind::GIFT => What::Gift(Box::new(gift(&mut reader)?)),
        kind::READ => {
            let (number, part, offset) = read_place(&mut reader)?;
            What::Read { number, part, offset }
        }
        kind::PIECE => {
            let (number, part, offset) = read_place(&mut reader)?;
            let len = reader.u32_le()?;
            if len > PIECE_BYTES_MAX {
                return Err(Fault::Long(len as usize));
            }
            What::Piece { number, part, offset, bytes: reader.take(len as usize)?.to_vec() }
        }
        kind::GONE => What::Gone { number: reader.u64_le()? },
        unknown => return Err(Fault::Kind(unknown)),
    };
    match reader.len() {
        0 => Ok(Fetch { log, what }),
        more => Err(Fault::Trailing(more)),
    }
}

fn read_place(reader: &mut Reader<'_>) -> Result<(u64, Part, u64), Fault> {
    let (number, offset) = (reader.u64_le()?, reader.u64_le()?);
    let part = match reader.u8()? {
        part::STATE => Part::State,
        part::SEGMENT => Part::Segment(reader.u64_le()?),
        unknown => return Err(Fault::Part(unknown)),
    };
    Ok((number, part, offset))
}

fn gift(reader: &mut Reader<'_>) -> Result<Gift, Fault> {
    let (number, len) = (reader.u64_le()?, reader.u64_le()?);
    let name = usize::from(reader.u16_le()?);
    let Standing { name, vote } = Standing::read(reader.take(name)?).map_err(Fault::Name)?;
    if vote.is_some() {
        return Err(Fault::Vote);
    }
    let segments = list(reader, 16, |reader| Ok((reader.u64_le()?, reader.u64_le()?)))?;
    let moved = list(reader, 8, Reader::u64_le)?;
    let gift = Gift { number, name, len, segments, moved };
    if gift.is_sound() { Ok(gift) } else { Err(Fault::Gift) }
}

/// As many as are counted first, each of which takes so many bytes.
fn list<'a, T>(
    reader: &mut Reader<'a>,
    bytes: usize,
    mut one: impl FnMut(&mut Reader<'a>) -> Result<T, Short>,
) -> Result<Vec<T>, Fault> {
    let count = reader.u32_le()? as usize;
    if count > SEGMENTS_MAX {
        return Err(Fault::Long(count));
    }
    // Memory is taken for what is there.
    let mut all = Vec::with_capacity(count.min(reader.len() / bytes));
    for _ in 0..count {
        all.push(one(reader)?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::LogIndex;
    use consensus::{Members, ReplicaId, SnapshotName};

    #[test]
    fn words_come_back_as_they_were() {
        let last = Some(EntryId { term: 3, index: 9 });
        let members = Members::voting([1, 2].map(ReplicaId));
        let name = SnapshotName { last, end: LogIndex(64), members, members_at: last };
        let gift = Gift { number: 7, name, len: 100, segments: vec![(1, 2), (3, 4)], moved: vec![3] };
        let (number, offset) = (7, 1 << 40);
        let all = [
            What::Ask { least: EntryId { term: 1, index: 2 } },
            What::Gift(Box::new(gift.clone())),
            What::Read { number, part: Part::State, offset },
            What::Read { number, part: Part::Segment(5), offset },
            What::Piece { number, part: Part::State, offset, bytes: b"piece".to_vec() },
            What::Gone { number },
        ];
        for what in all {
            let fetch = Fetch { log: LogId(4), what };
            let mut bytes = Vec::new();
            write(&fetch, &mut bytes);
            assert_eq!(format!("{:?}", read(&bytes)), format!("{:?}", Ok::<_, Fault>(fetch)));
            for len in 0..bytes.len() {
                assert!(read(&bytes[..len]).is_err(), "{len} bytes");
            }
            assert_eq!(read(&[&bytes[..], b"x"].concat()).unwrap_err(), Fault::Trailing(1));
        }
        let refused = |what: What| {
            let mut bytes = Vec::new();
            write(&Fetch { log: LogId(4), what }, &mut bytes);
            read(&bytes).unwrap_err()
        };
        assert_eq!(refused(What::Gift(Box::new(Gift { moved: vec![2], ..gift }))), Fault::Gift);
        let bytes = vec![0; PIECE_BYTES_MAX as usize + 1];
        let long = What::Piece { number, part: Part::State, offset, bytes };
        assert_eq!(refused(long), Fault::Long(PIECE_BYTES_MAX as usize + 1));
        assert_eq!(read(&[0, 0, 0, 0, 6]).unwrap_err(), Fault::Kind(6));
    }
}
