//! Records: the content of a log, in the order in which its machines apply it.
//!
//! Every record begins with the same eight bytes, is a multiple of eight bytes long and starts at a multiple of eight
//! in its batch. Numbers are little-endian. The journal checks sums; these readers still take any bytes and answer
//! `None` for bytes that no writer of ours wrote.
//!
//! ```text
//!   0        4      5       6       8
//!   | length | kind | flags | count |  kind's own part ...
//! ```

mod annotate;
mod configure;
mod deduplicate;
mod enqueue;
mod failures;
mod hidden;
mod keys;
mod machine;
mod origin;
mod positions;
mod refer;
mod stream;
mod weigh;

pub use annotate::Annotate;
pub use configure::{Configure, SizesKept};
pub use deduplicate::Deduplicate;
pub use enqueue::{Enqueue, Format, NOBODY, NewEnqueue, QUEUE_BYTES, Sizes, flag, leave_out};
pub use failures::due_with_failures;
pub use hidden::hidden_keys;
pub use keys::Keys;
pub use machine::{Close, Machine, Open, StreamSettings};
pub use origin::{Origin, Stamp};
pub use positions::{DeathReason, Outcome, Positions, RANGES_MAX, SeqRange};
pub use refer::{REFER, Refer};
pub use stream::{Append, Appended, NewAppend, Owner, REFERENCE_MAX, Track, Truncate};
pub use weigh::Weigh;

use base::cursor::Reader;
use base::id::QueueId;
use base::memory::Buffer;

/// Bytes of the part all records share.
pub const HEADER: usize = 8;

/// The kind of a record: what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A message arrived, for the queues it names.
    Enqueue = 1,
    /// Positions of a queue are done with.
    Settle = 2,
    /// Positions came back from a consumer, with their counts.
    Return = 3,
    /// All ready positions of a queue up to one are gone.
    Purge = 4,
    /// A change of the catalog; only in its log.
    Catalog = 5,
    /// Positions of a queue are gone: their time was over.
    Expire = 6,
    /// Positions of a queue are gone: a limit was passed.
    Drop = 7,
    /// Positions of a queue are gone: where they were dead-lettered to, they are safe.
    DeadLetter = 8,
    /// The settings by which a queue keeps the messages that come from here on.
    Configure = 9,
    /// Positions came back from a consumer, with their counts, and are delayed.
    Postpone = 10,
    /// Positions of a queue are handed out with annotations from here on.
    Annotate = 11,
    /// Messages for one stream, from a publisher of the stream protocol.
    Append = 12,
    /// A consumer of a stream says how far it has come.
    Track = 13,
    /// The beginning of a stream is let go of.
    Truncate = 14,
    /// A message arrived for one queue, and lies in a segment of a stream.
    Refer = 15,
    /// The records behind it come from a node, under a number.
    Origin = 16,
    /// A machine begins.
    Open = 17,
    /// A machine ends.
    Close = 18,
    /// The settings that a stream goes by from here on.
    StreamSettings = 19,
}

impl Kind {
    /// It lists positions of one queue.
    #[inline]
    pub fn is_positions(self) -> bool {
        !matches!(
            self,
            Kind::Enqueue
                | Kind::Catalog
                | Kind::Configure
                | Kind::Annotate
                | Kind::Append
                | Kind::Track
                | Kind::Truncate
                | Kind::Refer
                | Kind::Origin
                | Kind::Open
                | Kind::Close
                | Kind::StreamSettings
        )
    }
}

/// Splits the first record off `bytes`: its kind and its bytes; `None` where there is none.
#[inline]
pub fn split(bytes: &[u8]) -> Option<(Kind, &[u8], &[u8])> {
    let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    if length < HEADER || !length.is_multiple_of(8) {
        return None;
    }
    let (record, rest) = bytes.split_at_checked(length)?;
    let kind = match record[4] {
        1 => Kind::Enqueue,
        2 => Kind::Settle,
        3 => Kind::Return,
        4 => Kind::Purge,
        5 => Kind::Catalog,
        6 => Kind::Expire,
        7 => Kind::Drop,
        8 => Kind::DeadLetter,
        9 => Kind::Configure,
        10 => Kind::Postpone,
        11 => Kind::Annotate,
        12 => Kind::Append,
        13 => Kind::Track,
        14 => Kind::Truncate,
        15 => Kind::Refer,
        16 => Kind::Origin,
        17 => Kind::Open,
        18 => Kind::Close,
        19 => Kind::StreamSettings,
        _ => return None,
    };
    Some((kind, record, rest))
}

/// The queue or stream that a record of any kind but [`Kind::Enqueue`], [`Kind::Catalog`] and [`Kind::Origin`] names: all of
/// them have it in the same place. `None`: the record is too short.
#[inline]
pub fn named(record: &[u8]) -> Option<QueueId> {
    Some(QueueId(u64::from_le_bytes(*record.get(8..)?.first_chunk()?)))
}

/// Appends a catalog record around `change`, an encoding that is the catalog's own.
///
/// ```text
///   0        4   5   6   8               12
///   | length | 5 | 0 | 0 | change length | change | zeros to a multiple of 8
/// ```
pub fn write_catalog(change: &[u8], into: &mut Buffer) {
    let len = (12 + change.len()).next_multiple_of(8);
    into.reserve(len);
    into.extend(&(len as u32).to_le_bytes());
    into.extend(&[Kind::Catalog as u8, 0, 0, 0]);
    into.extend(&(change.len() as u32).to_le_bytes());
    into.extend(change);
    into.pad_to(8);
}

/// The change in a record of kind [`Kind::Catalog`].
pub fn read_catalog(record: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(record);
    let _header = reader.take(HEADER).ok()?;
    let len = reader.u32_le().ok()? as usize;
    reader.take(len).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::QueueSeq;
    use proptest::prelude::*;

    #[test]
    fn catalog_comes_back() {
        let mut buffer = Buffer::default();
        write_catalog(b"change", &mut buffer);
        let (kind, record, _) = split(buffer.bytes()).unwrap();
        assert_eq!((kind, read_catalog(record)), (Kind::Catalog, Some(&b"change"[..])));
    }

    #[test]
    fn all_records_name_their_machine_in_one_place() {
        let (queue, stream) = (QueueId(7 << 40 | 9), QueueId(7 << 40 | 9));
        let range = SeqRange { first: QueueSeq(1), last: QueueSeq(2) };
        let mut records = Buffer::default();
        for kind in [Kind::Settle, Kind::Return, Kind::Purge, Kind::Expire, Kind::Drop, Kind::DeadLetter] {
            Positions::write(kind, queue, Outcome::Accepted, 5, 0, &[range], &mut records);
        }
        Positions::write(Kind::Postpone, queue, Outcome::Released, 5, 6, &[range], &mut records);
        let sizes = SizesKept::All;
        Configure { queue, ttl_ms: Some(1), priority_max: None, sizes, at_ms: 5 }.write(&mut records);
        Deduplicate { queue, keys_max: 128, ttl_ms: None, at_ms: 5 }.write(&mut records);
        Weigh::write(queue, range, 5, &[(QueueSeq(1), 3)], &mut records);
        Annotate { queue, range, at_ms: 5, annotations: b"123" }.write(&mut records);
        NewAppend { stream, at_ms: 5, reference: Some(b"me"), has_filters: false }
            .write(std::iter::empty(), &mut records);
        Track { stream, at_ms: 5, offset: 1, owner: None, reference: b"me" }.write(&mut records);
        Truncate { stream, at_ms: 5, before: 1 }.write(&mut records);
        Refer {
            queue,
            stream: QueueId(1),
            received_at_ms: 2,
            priority: None,
            offset: 3,
            segment: 4,
            position: 5,
            len: 6,
            crc: 7,
            head_len: 8,
            body_len: 9,
            name: b"s",
        }
        .write(&mut records);
        Open { id: queue, at_ms: 5, machine: Machine::Stream }.write(&mut records);
        Close { id: queue, at_ms: 5 }.write(&mut records);
        let (filter_len, chunk_entries_first, segment_bytes_max) = (16, 1, 2);
        let (bytes_max, age_max_ms) = (None, None);
        StreamSettings {
            stream,
            at_ms: 5,
            filter_len,
            chunk_entries_first,
            segment_bytes_max,
            bytes_max,
            age_max_ms,
        }
        .write(&mut records);
        let mut rest = records.bytes();
        let mut kinds = Vec::new();
        while let Some((kind, record, after)) = split(rest) {
            assert_eq!(named(record), Some(queue), "{kind:?}");
            kinds.push(kind);
            rest = after;
        }
        assert_eq!((kinds.len(), rest.len()), (18, 0));
        assert_eq!(named(&records.bytes()[..15]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some((_, record, _)) = split(&bytes) {
                let _ = (Enqueue::read(record).map(|read| read.keys()), Positions::read(record), read_catalog(record), Configure::read(record), Stamp::read(record));
            }
            let _ = (Enqueue::read(&bytes), Positions::read(&bytes), read_catalog(&bytes), Annotate::read(&bytes));
        }
    }
}
