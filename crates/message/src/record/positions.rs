//! The records of positions that left a queue, came back to it or are to go: of kind [`Kind::Settle`] and its kin.

use super::Kind;
use base::cursor::Reader;
use base::id::{QueueId, QueueSeq};
use base::memory::Buffer;

/// A range of positions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeqRange {
    /// The first position.
    pub first: QueueSeq,
    /// The last position, not before the first.
    pub last: QueueSeq,
}

/// Why positions left or came back, in AMQP 1.0's words (§3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// Consumed.
    Accepted = 0,
    /// Refused by the consumer: dead-lettered or dropped.
    Rejected = 1,
    /// Given back untouched.
    Released = 2,
    /// Given back as a failed delivery: counts towards the delivery limit.
    Failed = 3,
    /// Refused by the consumer as not for it, which is no failed delivery: else as rejected, and recorded so.
    Undeliverable = 4,
}

impl Outcome {
    fn read(byte: u8) -> Option<Outcome> {
        Some(match byte {
            0 => Outcome::Accepted,
            1 => Outcome::Rejected,
            2 => Outcome::Released,
            3 => Outcome::Failed,
            _ => return None,
        })
    }
}

/// Why a message dies, and goes to where its queue sends the dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DeathReason {
    /// A consumer refused it, which counts as a failed delivery.
    Rejected = 0,
    /// Its time was over.
    Expired = 1,
    /// The queue was full.
    MaxLength = 2,
    /// Its delivery failed too often.
    DeliveryLimit = 3,
    /// A consumer refused it, which does not count.
    Undeliverable = 4,
}

impl DeathReason {
    /// As `x-death` has it.
    pub const fn name(self) -> &'static str {
        match self {
            DeathReason::Rejected | DeathReason::Undeliverable => "rejected",
            DeathReason::Expired => "expired",
            DeathReason::MaxLength => "maxlen",
            DeathReason::DeliveryLimit => "delivery_limit",
        }
    }

    /// A consumer refused it, however that counts.
    pub fn is_refusal(self) -> bool {
        matches!(self, DeathReason::Rejected | DeathReason::Undeliverable)
    }
}

/// A settle, return, purge, expire, drop, dead-letter or postpone record: positions of one queue. Of the last, what is
/// `delivered at` in others says when they are due.
///
/// ```text
///   0        4      5         6        8          16        24             32
///   | length | kind | outcome | ranges | queue id | at (ms) | delivered at | first, last: 8 bytes each, per range ...
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positions<'a> {
    /// The queue.
    pub queue: QueueId,
    /// Why.
    pub outcome: Outcome,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// When the first of them was delivered, milliseconds since 1970; 0 where nobody measured it. Of a postpone record:
    /// when they are due.
    pub delivered_at_ms: u64,
    ranges: &'a [u8],
}

/// Bytes of a positions record in front of its ranges.
const POSITIONS: usize = 32;

/// Ranges one positions record may hold.
pub const RANGES_MAX: usize = u16::MAX as usize;

impl<'a> Positions<'a> {
    /// Reads a record of positions. Ranges that run backwards make it `None`.
    pub fn read(record: &'a [u8]) -> Option<Positions<'a>> {
        let mut reader = Reader::new(record);
        let _length_and_kind = reader.take(5).ok()?;
        let outcome = Outcome::read(reader.u8().ok()?)?;
        let count = reader.u16_le().ok()? as usize;
        let queue = QueueId(reader.u64_le().ok()?);
        let at_ms = reader.u64_le().ok()?;
        let delivered_at_ms = reader.u64_le().ok()?;
        let ranges = reader.take(count * 16).ok()?;
        let positions = Positions { queue, outcome, at_ms, delivered_at_ms, ranges };
        positions.ranges().all(|range| range.first <= range.last).then_some(positions)
    }

    /// The ranges, in the order they were written.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = SeqRange> + use<'a> {
        self.ranges.as_chunks::<16>().0.iter().map(|range| {
            let (first, last) = range.split_at(8);
            let number = |bytes: &[u8]| u64::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0; 8]));
            SeqRange { first: QueueSeq(number(first)), last: QueueSeq(number(last)) }
        })
    }

    /// Appends a positions record; at most [`RANGES_MAX`] ranges.
    pub fn write(
        kind: Kind,
        queue: QueueId,
        outcome: Outcome,
        at_ms: u64,
        delivered_at_ms: u64,
        ranges: &[SeqRange],
        into: &mut Buffer,
    ) {
        assert!(ranges.len() <= RANGES_MAX && kind.is_positions());
        let len = POSITIONS + ranges.len() * 16;
        let mut fixed = [0; POSITIONS];
        fixed[0..4].copy_from_slice(&(len as u32).to_le_bytes());
        fixed[4] = kind as u8;
        fixed[5] = outcome as u8;
        fixed[6..8].copy_from_slice(&(ranges.len() as u16).to_le_bytes());
        fixed[8..16].copy_from_slice(&queue.0.to_le_bytes());
        fixed[16..24].copy_from_slice(&at_ms.to_le_bytes());
        fixed[24..32].copy_from_slice(&delivered_at_ms.to_le_bytes());
        into.extend(&fixed);
        for range in ranges {
            into.extend(&range.first.0.to_le_bytes());
            into.extend(&range.last.0.to_le_bytes());
        }
    }

    /// Makes the last range of the positions record at `record` in `bytes` end at `last`: how a settle that follows on
    /// the one just written becomes part of it. True if it did (same queue and outcome, and `first` follows on).
    pub fn extend_last(
        record: &mut [u8],
        kind: Kind,
        queue: QueueId,
        outcome: Outcome,
        range: SeqRange,
    ) -> bool {
        let is_same = record.len() >= POSITIONS + 16
            && record[4] == kind as u8
            && record[5] == outcome as u8
            && record[8..16] == queue.0.to_le_bytes();
        let Some(last) = record.last_chunk_mut::<8>().filter(|_| is_same) else { return false };
        let follows = u64::from_le_bytes(*last).checked_add(1) == Some(range.first.0);
        if follows {
            *last = range.last.0.to_le_bytes();
        }
        follows
    }

    /// Adds a range to the positions record at `at`, which is the last one in `buffer`. False, and nothing is done: it is
    /// of another kind, queue or outcome, or holds [`RANGES_MAX`] ranges.
    pub fn add_range(
        buffer: &mut Buffer,
        at: usize,
        kind: Kind,
        queue: QueueId,
        outcome: Outcome,
        range: SeqRange,
    ) -> bool {
        let record = &buffer.bytes()[at..];
        let is_same = record.len() >= POSITIONS
            && record[4] == kind as u8
            && record[5] == outcome as u8
            && record[8..16] == queue.0.to_le_bytes();
        let count = record.len().saturating_sub(POSITIONS) / 16 + 1;
        let (Ok(count), true) = (u16::try_from(count), is_same) else { return false };
        let len = record.len() as u32 + 16;
        buffer.extend(&range.first.0.to_le_bytes());
        buffer.extend(&range.last.0.to_le_bytes());
        let record = &mut buffer.bytes_mut()[at..];
        record[0..4].copy_from_slice(&len.to_le_bytes());
        record[6..8].copy_from_slice(&count.to_le_bytes());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::split;
    use super::*;

    #[test]
    fn positions_come_back_and_grow() {
        let range = |first, last| SeqRange { first: QueueSeq(first), last: QueueSeq(last) };
        let mut buffer = Buffer::default();
        let ranges = [range(1, 1), range(5, 9)];
        Positions::write(Kind::Settle, QueueId(3), Outcome::Accepted, 10, 0, &ranges, &mut buffer);
        let extend = |bytes: &mut [u8], queue, range| {
            Positions::extend_last(bytes, Kind::Settle, QueueId(queue), Outcome::Accepted, range)
        };
        assert!(extend(buffer.bytes_mut(), 3, range(10, 12)));
        assert!(!extend(buffer.bytes_mut(), 3, range(14, 14)));
        assert!(!extend(buffer.bytes_mut(), 4, range(13, 13)));
        let (kind, record, _) = split(buffer.bytes()).unwrap();
        let read = Positions::read(record).unwrap();
        assert_eq!((kind, read.queue, read.at_ms), (Kind::Settle, QueueId(3), 10));
        assert_eq!(read.ranges().collect::<Vec<_>>(), [range(1, 1), range(5, 12)]);
    }

    #[test]
    fn ranges_are_added_up_to_their_bound() {
        let range = |seq: u64| SeqRange { first: QueueSeq(2 * seq), last: QueueSeq(2 * seq) };
        let mut buffer = Buffer::default();
        buffer.extend(&[7; 8]);
        let (kind, queue, outcome) = (Kind::Settle, QueueId(3), Outcome::Accepted);
        Positions::write(kind, queue, outcome, 10, 0, &[range(0)], &mut buffer);
        let mut add = |kind, queue: u64, outcome, seq| {
            Positions::add_range(&mut buffer, 8, kind, QueueId(queue), outcome, range(seq))
        };
        assert!(!add(Kind::Purge, 3, outcome, 1));
        assert!(!add(kind, 4, outcome, 1));
        assert!(!add(kind, 3, Outcome::Rejected, 1));
        assert!((1..RANGES_MAX as u64).all(|seq| add(kind, 3, outcome, seq)));
        assert!(!add(kind, 3, outcome, RANGES_MAX as u64));
        let (kind, record, rest) = split(&buffer.bytes()[8..]).unwrap();
        let read = Positions::read(record).unwrap();
        assert_eq!((kind, read.queue, read.outcome, rest), (Kind::Settle, queue, outcome, &[][..]));
        assert!(read.ranges().eq((0..RANGES_MAX as u64).map(range)));
    }
}
