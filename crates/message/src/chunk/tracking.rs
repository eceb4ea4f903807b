//! A stream's memory of its publishers and consumers: publishing ids reached, offsets and timestamps stored.
//!
//! ```text
//!   | kind | id len | id | value: u64 |      in a trailer, and in the data of a delta
//!   | kind | id len | id | chunk id: u64, value: u64 for sequences, else value: u64 |     in the data of a snapshot
//! ```

use super::{Kind, Malformed};
use base::{Reader, Short};

/// The most bytes of an id: its length is one byte. (RabbitMQ takes a reference of 256 and stores it wrongly.)
pub const ID_MAX: usize = 255;

/// A value that is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracked {
    /// A publisher's highest publishing id.
    Sequence {
        /// The chunk that reached it.
        chunk_id: u64,
        /// The id.
        publishing_id: u64,
    },
    /// A consumer's offset.
    Offset(u64),
    /// A consumer's timestamp, in milliseconds since 1970.
    Timestamp(i64),
}

/// The value remembered of one publisher or consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackingEntry<'a> {
    /// Its reference.
    pub id: &'a [u8],
    /// The publishing id, offset or timestamp it reached.
    pub value: Tracked,
}

/// Entries behind each other, one after the other; an error is the last that comes.
#[derive(Clone, Debug)]
pub struct Tracking<'a> {
    reader: Reader<'a>,
    /// Snapshots tell for each sequence which chunk reached it; elsewhere it is this one.
    chunk_id: Option<u64>,
}

impl<'a> Tracking<'a> {
    /// The tracking in `bytes`: the trailer of the chunk with messages, or the data of one of the others.
    pub fn new(kind: Kind, chunk_id: u64, bytes: &'a [u8]) -> Tracking<'a> {
        let chunk_id = (kind != Kind::TrackingSnapshot).then_some(chunk_id);
        Tracking { reader: Reader::new(bytes), chunk_id }
    }

    fn entry(&mut self) -> Result<TrackingEntry<'a>, Malformed> {
        let reader = &mut self.reader;
        let short = |Short| Malformed::Tracking;
        let kind = reader.u8().map_err(short)?;
        let len = reader.u8().map_err(short)?;
        let id = reader.take(len.into()).map_err(short)?;
        let value = match kind {
            0 => {
                let chunk_id = self.chunk_id.map_or_else(|| reader.u64(), Ok).map_err(short)?;
                Tracked::Sequence { chunk_id, publishing_id: reader.u64().map_err(short)? }
            }
            1 => Tracked::Offset(reader.u64().map_err(short)?),
            2 => Tracked::Timestamp(reader.i64().map_err(short)?),
            _ => return Err(Malformed::Tracking),
        };
        Ok(TrackingEntry { id, value })
    }
}

impl<'a> Iterator for Tracking<'a> {
    type Item = Result<TrackingEntry<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(entry)
    }
}

/// Appends an entry as it stands in a chunk of this kind (in its trailer, if it has messages).
///
/// # Panics
/// When the id has more than [`ID_MAX`] bytes.
pub fn put_tracking(out: &mut Vec<u8>, kind: Kind, entry: &TrackingEntry<'_>) {
    let (number, chunk_id, value) = match entry.value {
        Tracked::Sequence { chunk_id, publishing_id } => (0, Some(chunk_id), publishing_id),
        Tracked::Offset(offset) => (1, None, offset),
        Tracked::Timestamp(timestamp_ms) => (2, None, timestamp_ms as u64),
    };
    let len = u8::try_from(entry.id.len()).expect("a reference has at most 255 bytes");
    out.extend([number, len]);
    out.extend_from_slice(entry.id);
    if let (Kind::TrackingSnapshot, Some(chunk_id)) = (kind, chunk_id) {
        out.extend(chunk_id.to_be_bytes());
    }
    out.extend(value.to_be_bytes());
}
