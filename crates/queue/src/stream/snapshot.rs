//! The recorded state of a stream as bytes: `docs/formats/stream-snapshot.md`.
//!
//! The same state gives the same bytes. Chunks are not in it: they are in files, which are durable before the snapshot is
//! ([`Stream::take_sync`]). Reading takes any bytes; what it makes costs at most 32 times their number.

use super::machine::{EPOCH, Stream};
use super::tracking::Sequence;
use super::{FILE_HEADER_LEN, Place, Segment, Settings};
use crate::snapshot::{SnapshotError, put};
use base::Sink;
use base::cursor::Reader;

/// First bytes of every snapshot.
const MAGIC: [u8; 4] = *b"LvSs";

/// The version this writes, and the only one there is.
const VERSION: u8 = 1;

/// Higher numbers are never reached: counting on from here does not overflow.
const COUNT_MAX: u64 = u64::MAX / 2;

impl Stream {
    /// Appends the recorded state to `out`.
    ///
    /// # Panics
    /// When a chunk is open.
    pub fn write_snapshot(&self, out: &mut impl Sink) {
        assert!(!self.is_open(), "a snapshot is taken between batches");
        out.put(&MAGIC);
        out.put(&[VERSION, 0, 0, 0]);
        let (last, last_first) = self.last_chunk.unwrap_or_default();
        let numbers = [EPOCH, self.next_offset, self.last_timestamp_ms as u64];
        numbers
            .into_iter()
            .chain([last.segment, last.position, last_first])
            .for_each(|number| put(out, number));
        put(out, self.segments.count() as u64);
        for segment in self.segments.iter() {
            for number in [
                segment.number,
                segment.first_offset,
                segment.next_offset,
                segment.first_timestamp_ms as u64,
                segment.last_timestamp_ms as u64,
                segment.bytes,
                segment.indexed_at,
            ] {
                put(out, number);
            }
            out.put(&segment.chunks.to_le_bytes());
            out.put(&segment.indexed.to_le_bytes());
        }
        put(out, self.tracked.sequences.len() as u64);
        for (reference, sequence) in &self.tracked.sequences {
            put_reference(out, reference);
            put(out, sequence.id);
            put(out, sequence.chunk_id);
        }
        put(out, self.tracked.offsets.len() as u64);
        for (reference, offset) in &self.tracked.offsets {
            put_reference(out, reference);
            put(out, *offset);
        }
    }

    /// The stream whose recorded state [`Stream::write_snapshot`] wrote. All its chunks are in its files.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn read_snapshot(bytes: &[u8], settings: Settings) -> Result<Stream, SnapshotError> {
        let mut reader = Reader::new(bytes);
        if reader.take(4)? != MAGIC {
            return Err(SnapshotError::Magic);
        }
        let version = reader.u8()?;
        if version != VERSION {
            return Err(SnapshotError::Version(version));
        }
        if reader.take(3)? != [0; 3] || reader.u64_le()? != EPOCH {
            return Err(SnapshotError::Broken("epoch"));
        }
        let mut stream = Stream::new(settings);
        stream.next_offset = reader.u64_le()?;
        stream.is_durable_to(stream.next_offset);
        stream.last_timestamp_ms = reader.i64_le()?;
        let last = Place { segment: reader.u64_le()?, position: reader.u64_le()? };
        let last_first = reader.u64_le()?;
        if last == Place::default() && last_first != 0 {
            return Err(SnapshotError::Broken("last chunk"));
        }
        stream.last_chunk = (last != Place::default()).then_some((last, last_first));
        stream.read_segments(&mut reader)?;
        for _ in 0..reader.u64_le()? {
            let reference = reference(&mut reader)?;
            let sequence = Sequence { id: reader.u64_le()?, chunk_id: reader.u64_le()? };
            if stream.tracked.sequences.last_key_value().is_some_and(|(before, _)| **before >= *reference) {
                return Err(SnapshotError::Broken("sequences"));
            }
            stream.tracked.sequences.insert(reference.into(), sequence);
        }
        for _ in 0..reader.u64_le()? {
            let reference = reference(&mut reader)?;
            let offset = reader.u64_le()?;
            if stream.tracked.offsets.last_key_value().is_some_and(|(before, _)| **before >= *reference) {
                return Err(SnapshotError::Broken("offsets"));
            }
            stream.tracked.offsets.insert(reference.into(), offset);
        }
        if reader.is_empty() { Ok(stream) } else { Err(SnapshotError::Long) }
    }

    fn read_segments(&mut self, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        for _ in 0..reader.u64_le()? {
            let segment = Segment {
                number: reader.u64_le()?,
                first_offset: reader.u64_le()?,
                next_offset: reader.u64_le()?,
                first_timestamp_ms: reader.i64_le()?,
                last_timestamp_ms: reader.i64_le()?,
                bytes: reader.u64_le()?,
                indexed_at: reader.u64_le()?,
                chunks: reader.u32_le()?,
                indexed: reader.u32_le()?,
            };
            let follows = match self.segments.last() {
                Some(before) => {
                    before.number < segment.number
                        && before.next_offset == segment.first_offset
                        && before.last_timestamp_ms <= segment.first_timestamp_ms
                }
                None => segment.number > 0,
            };
            let is_counted = [segment.number, segment.bytes].iter().all(|number| *number <= COUNT_MAX);
            let is_sound = segment.first_offset <= segment.next_offset
                && segment.first_timestamp_ms <= segment.last_timestamp_ms
                && segment.bytes >= FILE_HEADER_LEN
                && (segment.chunks > 0) == (segment.bytes > FILE_HEADER_LEN)
                && segment.indexed <= segment.chunks
                && segment.indexed_at <= segment.bytes;
            if !follows || !is_sound || !is_counted {
                return Err(SnapshotError::Broken("segments"));
            }
            self.segments.restore(segment);
        }
        let ends = self.segments.last().map_or(0, |last| last.next_offset);
        let is_last_there = self.last_chunk.is_none_or(|(place, first_offset)| {
            self.segments
                .find(place.segment)
                .is_some_and(|segment| place.position < segment.bytes && first_offset < segment.next_offset)
        });
        if ends != self.next_offset || !is_last_there || self.next_offset > COUNT_MAX {
            return Err(SnapshotError::Broken("last chunk"));
        }
        Ok(())
    }
}

fn put_reference(out: &mut impl Sink, reference: &[u8]) {
    let len = u16::try_from(reference.len())
        .expect("a reference came in a record that counts its bytes in 16 bits");
    out.put(&len.to_le_bytes());
    out.put(reference);
}

fn reference<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], SnapshotError> {
    let len = reader.u16_le()?;
    Ok(reader.take(len.into())?)
}
