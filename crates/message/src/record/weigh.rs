//! The record that says how large messages are that came before their queue kept sizes: of kind [`Kind::Configure`] and with
//! a flag of its own, as [`super::Deduplicate`].

use super::Kind;
use base::cursor::Reader;
use base::id::{QueueId, QueueSeq};
use base::memory::Buffer;

use super::SeqRange;

/// Live positions of a queue are so large; those of the range that are not named are gone, or count as empty.
///
/// ```text
///   0        4   5    6   8          16        24      32     40      44
///   | length | 9 | 16 | 0 | queue id | at (ms) | first | last | count | per message: positions passed over, size | zeros
/// ```
///
/// The numbers of a message have seven bits a byte, lowest first; the top bit says that more follow. Positions passed over
/// are counted from the first of the range, or from behind the message before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weigh<'a> {
    /// The queue.
    pub queue: QueueId,
    /// The positions.
    pub range: SeqRange,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    count: u32,
    sizes: &'a [u8],
}

/// Bytes of the record in front of its sizes.
const WEIGH: usize = 44;
const IS_WEIGHT: u8 = 16;

impl<'a> Weigh<'a> {
    /// Reads a record of kind [`Kind::Configure`]; one of another flag, or that no version of ours writes, makes it `None`.
    pub fn read(record: &'a [u8]) -> Option<Weigh<'a>> {
        let mut reader = Reader::new(record);
        let _length_and_kind = reader.take(5).ok()?;
        let (flags, zero) = (reader.u8().ok()?, reader.u16_le().ok()?);
        let (queue, at_ms) = (QueueId(reader.u64_le().ok()?), reader.u64_le().ok()?);
        let (first, last) = (QueueSeq(reader.u64_le().ok()?), QueueSeq(reader.u64_le().ok()?));
        let count = reader.u32_le().ok()?;
        let weigh = Weigh { queue, range: SeqRange { first, last }, at_ms, count, sizes: reader.rest() };
        let is_known = flags == IS_WEIGHT && zero == 0 && first <= last;
        // All of them are there, in order, and within the range.
        (is_known && weigh.sizes().count() == count as usize).then_some(weigh)
    }

    /// The messages and their sizes, in order of position.
    pub fn sizes(&self) -> impl Iterator<Item = (QueueSeq, u32)> + use<'a> {
        let mut reader = Reader::new(self.sizes);
        let (mut next, last) = (Some(self.range.first.0), self.range.last.0);
        let mut one = move || {
            let seq = next?.checked_add(number(&mut reader)?).filter(|seq| *seq <= last)?;
            next = seq.checked_add(1);
            Some((QueueSeq(seq), u32::try_from(number(&mut reader)?).ok()?))
        };
        (0..self.count).map_while(move |_| one())
    }

    /// Appends the record. Panics where positions are out of order or not in the range.
    pub fn write(queue: QueueId, range: SeqRange, at_ms: u64, sizes: &[(QueueSeq, u32)], into: &mut Buffer) {
        let mut said = Vec::with_capacity(sizes.len() * 4);
        let mut next = range.first.0;
        for (seq, bytes) in sizes {
            assert!(next <= seq.0 && seq.0 <= range.last.0, "sizes are of positions of the range, in order");
            put(seq.0 - next, &mut said);
            put(u64::from(*bytes), &mut said);
            next = seq.0 + 1;
        }
        let len = (WEIGH + said.len()).next_multiple_of(8);
        let mut fixed = [0; WEIGH];
        fixed[0..4].copy_from_slice(&(len as u32).to_le_bytes());
        fixed[4..6].copy_from_slice(&[Kind::Configure as u8, IS_WEIGHT]);
        fixed[8..16].copy_from_slice(&queue.0.to_le_bytes());
        fixed[16..24].copy_from_slice(&at_ms.to_le_bytes());
        fixed[24..32].copy_from_slice(&range.first.0.to_le_bytes());
        fixed[32..40].copy_from_slice(&range.last.0.to_le_bytes());
        fixed[40..44].copy_from_slice(&(sizes.len() as u32).to_le_bytes());
        into.extend(&fixed);
        into.extend(&said);
        into.extend(&[0; 8][..len - WEIGH - said.len()]);
    }
}

fn put(mut number: u64, into: &mut Vec<u8>) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// None where the bytes end, or say more than a number holds.
fn number(reader: &mut Reader<'_>) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = reader.u8().ok()?;
        let bits = u64::from(byte & 0x7f);
        if (bits << shift) >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Configure, Deduplicate, split};

    fn check(first: u64, last: u64, sizes: &[(u64, u32)]) {
        let range = SeqRange { first: QueueSeq(first), last: QueueSeq(last) };
        let sizes: Vec<_> = sizes.iter().map(|(seq, bytes)| (QueueSeq(*seq), *bytes)).collect();
        let mut buffer = Buffer::default();
        Weigh::write(QueueId(7), range, 5, &sizes, &mut buffer);
        let (kind, bytes, rest) = split(buffer.bytes()).unwrap();
        let read = Weigh::read(bytes).unwrap();
        assert_eq!((kind, rest.len(), read.queue, read.at_ms), (Kind::Configure, 0, QueueId(7), 5));
        assert_eq!((read.range, read.sizes().collect::<Vec<_>>()), (range, sizes));
        assert_eq!((Configure::read(bytes), Deduplicate::read(bytes)), (None, None));
        // Cut short it is none, but for the zeros at the end.
        for len in 0..bytes.len() - 7 {
            assert!(Weigh::read(&bytes[..len]).is_none_or(|cut| cut == read || len >= WEIGH), "{len}");
        }
        for (at, bit) in [(5, 1), (6, 1), (7, 1), (24 + 7, 128), (40, 255)] {
            let mut other = bytes.to_vec();
            other[at] ^= bit;
            assert_eq!(Weigh::read(&other), None, "byte {at}");
        }
    }

    #[test]
    fn reads_back() {
        check(0, 0, &[]);
        check(3, 9, &[(3, 0), (4, 1), (9, u32::MAX)]);
        check(100, u64::MAX - 1, &[(1 << 40, 127), (u64::MAX - 1, 128)]);
    }
}
