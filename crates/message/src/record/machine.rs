//! The records by which a log knows its machines: one begins, one ends, a stream goes by other settings.
//!
//! Settings of what a queue keeps of its messages follow its beginning as any later change of that does ([`super::Configure`],
//! [`super::Deduplicate`]), and the settings of a stream as [`StreamSettings`].

use super::Kind;
use crate::chunk::FILTER_LEN_MIN;
use base::cursor::Reader;
use base::id::QueueId;
use base::memory::Buffer;

/// The machine that a record opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// A queue. `counts`: it counts the failed deliveries of its messages, and orders them strictly. `groups`: its
    /// messages may be in groups.
    Queue {
        /// See the variant.
        counts: bool,
        /// See the variant.
        groups: bool,
    },
    /// A stream.
    Stream,
}

/// A machine begins: records that name it have an effect from here on.
///
/// ```text
///   0        4    5       6      7   8    16        24
///   | length | 17 | flags | type | 0 | id | at (ms) |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// The id of the machine, which no other ever had.
    pub id: QueueId,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// Its kind, with its first settings.
    pub machine: Machine,
}

/// A machine ends, with all that is in it.
///
/// ```text
///   0        4    5   8    16        24
///   | length | 18 | 0 | id | at (ms) |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// The machine.
    pub id: QueueId,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
}

/// The settings that a stream goes by from here on, all of them.
///
/// ```text
///   0        4    5       6          7   8    16        24              32          40           48            50  56
///   | length | 19 | flags | filter   | 0 | id | at (ms) | segment bytes | bytes max | age (ms)   | first chunk | 0 |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamSettings {
    /// The stream.
    pub stream: QueueId,
    /// When, milliseconds since 1970: segments that are too old at that time go.
    pub at_ms: u64,
    /// Bytes of a chunk's Bloom filter.
    pub filter_len: u8,
    /// Entries of the first chunk of a batch, at most.
    pub chunk_entries_first: u16,
    /// A segment with so many bytes is followed by another.
    pub segment_bytes_max: u64,
    /// Bytes of all segments, at most.
    pub bytes_max: Option<u64>,
    /// The age of a segment's last chunk, at most, in milliseconds.
    pub age_max_ms: Option<u64>,
}

/// Bytes of an open and of a close record.
const PLAIN: usize = 24;
/// Bytes of a record of a stream's settings.
const SETTINGS: usize = 56;

/// The types of machine.
const QUEUE: u8 = 0;
const COUNTING_QUEUE: u8 = 1;
const STREAM: u8 = 2;

/// Flag of an open record: its messages may be in groups.
const GROUPS: u8 = 1;

/// Flags of a stream's settings: there is a bound in bytes, and one in age.
const HAS_BYTES: u8 = 1;
const HAS_AGE: u8 = 2;

/// The part that all these records begin with: length, kind, three bytes, id, time.
fn head(len: usize, kind: Kind, bytes: [u8; 3], id: QueueId, at_ms: u64, into: &mut Buffer) {
    into.extend(&(len as u32).to_le_bytes());
    into.extend(&[kind as u8]);
    into.extend(&bytes);
    into.extend(&id.0.to_le_bytes());
    into.extend(&at_ms.to_le_bytes());
}

/// As [`head`] wrote it, without length and kind.
fn read_head(reader: &mut Reader<'_>) -> Option<([u8; 3], QueueId, u64)> {
    let _length_and_kind = reader.take(5).ok()?;
    let bytes = *reader.take(3).ok()?.first_chunk()?;
    Some((bytes, QueueId(reader.u64_le().ok()?), reader.u64_le().ok()?))
}

impl Open {
    /// Reads a record of kind [`Kind::Open`]; a type or flags that no version of ours writes make it `None`.
    pub fn read(record: &[u8]) -> Option<Open> {
        let mut reader = Reader::new(record);
        let ([flags, machine, zero], id, at_ms) = read_head(&mut reader)?;
        let machine = match (machine, flags) {
            (QUEUE | COUNTING_QUEUE, 0 | GROUPS) => {
                Machine::Queue { counts: machine == COUNTING_QUEUE, groups: flags == GROUPS }
            }
            (STREAM, 0) => Machine::Stream,
            _ => return None,
        };
        (zero == 0 && reader.is_empty()).then_some(Open { id, at_ms, machine })
    }

    /// Appends the record.
    pub fn write(&self, into: &mut Buffer) {
        let (flags, machine) = match self.machine {
            Machine::Queue { counts, groups } => {
                (if groups { GROUPS } else { 0 }, if counts { COUNTING_QUEUE } else { QUEUE })
            }
            Machine::Stream => (0, STREAM),
        };
        head(PLAIN, Kind::Open, [flags, machine, 0], self.id, self.at_ms, into);
    }
}

impl Close {
    /// Reads a record of kind [`Kind::Close`].
    pub fn read(record: &[u8]) -> Option<Close> {
        let mut reader = Reader::new(record);
        let (zeros, id, at_ms) = read_head(&mut reader)?;
        (zeros == [0; 3] && reader.is_empty()).then_some(Close { id, at_ms })
    }

    /// Appends the record.
    pub fn write(&self, into: &mut Buffer) {
        head(PLAIN, Kind::Close, [0; 3], self.id, self.at_ms, into);
    }
}

impl StreamSettings {
    /// Reads a record of kind [`Kind::StreamSettings`]; flags that no version of ours writes, and settings that no stream
    /// can have, make it `None`.
    pub fn read(record: &[u8]) -> Option<StreamSettings> {
        let mut reader = Reader::new(record);
        let ([flags, filter_len, zero], stream, at_ms) = read_head(&mut reader)?;
        let segment_bytes_max = reader.u64_le().ok()?;
        let (bytes_max, age_max_ms) = (reader.u64_le().ok()?, reader.u64_le().ok()?);
        let chunk_entries_first = reader.u16_le().ok()?;
        let zeros = reader.take(6).ok()?;
        let is_known =
            flags & !(HAS_BYTES | HAS_AGE) == 0 && zero == 0 && zeros == [0; 6] && reader.is_empty();
        let can_be = filter_len >= FILTER_LEN_MIN && chunk_entries_first > 0;
        let bounds = [(HAS_BYTES, bytes_max), (HAS_AGE, age_max_ms)];
        let are_zero = bounds.iter().all(|(flag, number)| flags & flag != 0 || *number == 0);
        (is_known && can_be && are_zero).then_some(StreamSettings {
            stream,
            at_ms,
            filter_len,
            chunk_entries_first,
            segment_bytes_max,
            bytes_max: (flags & HAS_BYTES != 0).then_some(bytes_max),
            age_max_ms: (flags & HAS_AGE != 0).then_some(age_max_ms),
        })
    }

    /// Appends the record.
    pub fn write(&self, into: &mut Buffer) {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.bytes_max.is_some(), HAS_BYTES) | flag(self.age_max_ms.is_some(), HAS_AGE);
        let bytes = [flags, self.filter_len, 0];
        head(SETTINGS, Kind::StreamSettings, bytes, self.stream, self.at_ms, into);
        for number in [self.segment_bytes_max, self.bytes_max.unwrap_or(0), self.age_max_ms.unwrap_or(0)] {
            into.extend(&number.to_le_bytes());
        }
        into.extend(&self.chunk_entries_first.to_le_bytes());
        into.extend(&[0; 6]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::split;
    use super::*;
    use proptest::prelude::*;

    /// The one record that `write` writes, of this kind and length.
    fn written(kind: Kind, len: usize, write: impl FnOnce(&mut Buffer)) -> Vec<u8> {
        let mut buffer = Buffer::default();
        write(&mut buffer);
        let (found, record, rest) = split(buffer.bytes()).expect("a whole record");
        assert_eq!((found, record.len(), rest.len()), (kind, len, 0));
        record.to_vec()
    }

    #[test]
    fn machines_of_all_types_come_back() {
        let queues = [(false, false), (false, true), (true, false), (true, true)];
        let queues = queues.map(|(counts, groups)| Machine::Queue { counts, groups });
        for machine in queues.into_iter().chain([Machine::Stream]) {
            let open = Open { id: QueueId(7 << 40 | 9), at_ms: 5, machine };
            let record = written(Kind::Open, PLAIN, |into| open.write(into));
            assert_eq!(Open::read(&record), Some(open));
            assert!((0..PLAIN).all(|len| Open::read(&record[..len]).is_none()));
        }
        let close = Close { id: QueueId(3), at_ms: 4 };
        let record = written(Kind::Close, PLAIN, |into| close.write(into));
        assert_eq!(Close::read(&record), Some(close));
        assert!((0..PLAIN).all(|len| Close::read(&record[..len]).is_none()));
    }

    #[test]
    fn what_no_version_writes_is_no_record() {
        let open = Open { id: QueueId(1), at_ms: 2, machine: Machine::Stream };
        let record = written(Kind::Open, PLAIN, |into| open.write(into));
        for (at, byte) in [(5, 1), (5, 2), (6, 3), (7, 1)] {
            let mut other = record.clone();
            other[at] = byte;
            assert_eq!(Open::read(&other), None, "{at}: {byte}");
        }
        let settings = StreamSettings {
            stream: QueueId(9),
            at_ms: 5,
            filter_len: 16,
            chunk_entries_first: 1,
            segment_bytes_max: 7,
            bytes_max: None,
            age_max_ms: None,
        };
        let record = written(Kind::StreamSettings, SETTINGS, |into| settings.write(into));
        // Bounds that are not there are zero, and so is the end.
        for (at, is_record) in [(5, false), (24, true), (32, false), (40, false), (48, true), (50, false)] {
            let mut other = record.clone();
            other[at] |= 1 << 3;
            assert_eq!(StreamSettings::read(&other).is_some(), is_record, "{at}");
        }
    }

    proptest! {
        #[test]
        fn settings_come_back(
            (filter_len, chunk_entries_first, segment_bytes_max) in (16u8.., 1u16.., any::<u64>()),
            bytes_max in any::<Option<u64>>(),
            age_max_ms in any::<Option<u64>>(),
        ) {
            let settings = StreamSettings {
                stream: QueueId(9), at_ms: 5, filter_len, chunk_entries_first, segment_bytes_max, bytes_max, age_max_ms,
            };
            let record = written(Kind::StreamSettings, SETTINGS, |into| settings.write(into));
            prop_assert_eq!(StreamSettings::read(&record), Some(settings));
            prop_assert!((0..SETTINGS).all(|len| StreamSettings::read(&record[..len]).is_none()));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = (Open::read(&bytes), Close::read(&bytes), StreamSettings::read(&bytes));
        }
    }
}
