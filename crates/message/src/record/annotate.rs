//! The record of annotations that positions are handed out with: of kind [`Kind::Annotate`].

use super::{HEADER, Kind, SeqRange};
use base::cursor::Reader;
use base::id::{QueueId, QueueSeq};
use base::memory::Buffer;

/// Positions of a queue have these annotations from now on, and none they had before.
///
/// ```text
///   0        4    5   6   8          16        24      32     40                  44
///   | length | 11 | 0 | 0 | queue id | at (ms) | first | last | annotations length | annotations | zeros to a multiple of 8
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotate<'a> {
    /// The queue.
    pub queue: QueueId,
    /// The positions.
    pub range: SeqRange,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// The annotations, as [`crate::annotations::merge`] answers them; below 4 GiB.
    pub annotations: &'a [u8],
}

/// Bytes of an annotate record in front of its annotations.
const ANNOTATE: usize = 44;

impl<'a> Annotate<'a> {
    /// Reads a record of kind [`Kind::Annotate`]. A range that runs backwards makes it `None`.
    pub fn read(record: &'a [u8]) -> Option<Annotate<'a>> {
        let mut reader = Reader::new(record);
        let _length_and_kind = reader.take(HEADER).ok()?;
        let (queue, at_ms) = (QueueId(reader.u64_le().ok()?), reader.u64_le().ok()?);
        let (first, last) = (QueueSeq(reader.u64_le().ok()?), QueueSeq(reader.u64_le().ok()?));
        let len = reader.u32_le().ok()? as usize;
        let annotations = reader.take(len).ok()?;
        let range = SeqRange { first, last };
        (first <= last).then_some(Annotate { queue, range, at_ms, annotations })
    }

    /// Appends the record.
    pub fn write(&self, into: &mut Buffer) {
        let len = (ANNOTATE + self.annotations.len()).next_multiple_of(8);
        let mut fixed = [0; ANNOTATE];
        fixed[0..4].copy_from_slice(&(len as u32).to_le_bytes());
        fixed[4] = Kind::Annotate as u8;
        fixed[8..16].copy_from_slice(&self.queue.0.to_le_bytes());
        fixed[16..24].copy_from_slice(&self.at_ms.to_le_bytes());
        fixed[24..32].copy_from_slice(&self.range.first.0.to_le_bytes());
        fixed[32..40].copy_from_slice(&self.range.last.0.to_le_bytes());
        fixed[40..44].copy_from_slice(&(self.annotations.len() as u32).to_le_bytes());
        into.extend(&fixed);
        into.extend(self.annotations);
        into.pad_to(8);
    }
}

#[cfg(test)]
mod tests {
    use super::super::split;
    use super::*;

    #[test]
    fn annotate_comes_back() {
        for annotations in [&b""[..], b"1234", b"12345"] {
            let range = SeqRange { first: QueueSeq(7), last: QueueSeq(9) };
            let new = Annotate { queue: QueueId(3), range, at_ms: 5, annotations };
            let mut buffer = Buffer::default();
            new.write(&mut buffer);
            let (kind, record, rest) = split(buffer.bytes()).unwrap();
            assert_eq!((kind, Annotate::read(record), rest), (Kind::Annotate, Some(new), &[][..]));
            buffer.bytes_mut()[24] = 10;
            assert_eq!(Annotate::read(buffer.bytes()), None, "backwards");
        }
    }
}
