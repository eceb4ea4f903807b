//! The recorded state of a stream as bytes: `docs/formats/stream-snapshot.md`.
//!
//! The same state gives the same bytes. Chunks are not in it: they are in files, which are durable before the snapshot is
//! ([`Stream::take_sync`]). Reading takes any bytes; the stream that it makes costs at most 32 times their number.

use super::chunk::Place;
use super::machine::{EPOCH, Stream};
use super::offsets::Stored;
use super::segments::Segment;
use super::settings::{FILE_HEADER_LEN, Settings};
use super::tracking::{FEED, Sequence};
use crate::snapshot_fields::{SnapshotError, put};
use base::Sink;
use base::cursor::Reader;
use message::chunk::FILTER_LEN_MIN;
use message::record::Owner;

/// First bytes of every snapshot.
const MAGIC: [u8; 4] = *b"LvSs";

/// The version this writes.
const VERSION: u8 = 3;

/// Flags of the settings: there is a bound in bytes, and one in age.
const HAS_BYTES: u8 = 1;
const HAS_AGE: u8 = 2;

/// Higher numbers are never reached: counting on from here does not overflow.
const COUNT_MAX: u64 = u64::MAX / 2;

impl Stream {
    /// Appends the recorded state to `out`.
    ///
    /// # Panics
    /// When a chunk is open.
    pub fn write_snapshot(&self, out: &mut impl Sink) {
        self.write_head(out);
        let (last, last_first) = self.last_chunk.unwrap_or_default();
        [last.segment, last.position, last_first].into_iter().for_each(|number| put(out, number));
        put(out, self.segments.count() as u64);
        for segment in self.segments.iter() {
            put(out, segment.number);
            segment.write(out);
        }
        self.write_tracked(out);
    }

    /// Appends what is the same in each replica that applied the same batches, whoever read there. As
    /// [`Stream::write_snapshot`], but without the numbers of segments, which name the files of one node. A stream that
    /// lost a file and went on in another is not the same any more: its chunks are in other segments, and retention
    /// takes others.
    ///
    /// # Panics
    /// When a chunk is open.
    pub fn write_canonical(&self, out: &mut impl Sink) {
        self.write_head(out);
        let (last, last_first) = self.last_chunk.unwrap_or_default();
        [last.position, last_first].into_iter().for_each(|number| put(out, number));
        put(out, self.segments.count() as u64);
        self.segments.iter().for_each(|segment| segment.write(out));
        self.write_tracked(out);
    }

    fn write_head(&self, out: &mut impl Sink) {
        assert!(!self.is_open(), "a snapshot is taken between batches");
        out.put(&MAGIC);
        out.put(&[VERSION, 0, 0, 0]);
        self.write_settings(out);
        [EPOCH, self.next_offset, self.last_timestamp_ms as u64]
            .into_iter()
            .for_each(|number| put(out, number));
    }

    fn write_tracked(&self, out: &mut impl Sink) {
        put(out, self.tracked.sequences.len() as u64);
        for (reference, sequence) in &self.tracked.sequences {
            put_reference(out, reference);
            put(out, sequence.id);
            put(out, sequence.chunk_id);
        }
        put(out, self.tracked.offsets.len() as u64);
        put(out, self.tracked.offsets.next_turn);
        for (reference, Stored { offset, owner, turn }) in self.tracked.offsets.iter() {
            put_reference(out, reference);
            put(out, *offset);
            out.put(&owner.user.to_le_bytes());
            out.put(&owner.connection.to_le_bytes());
            put(out, *turn);
        }
    }

    /// The stream of a snapshot by [`Stream::write_snapshot`]. All its chunks are in its files.
    ///
    /// # Errors
    /// The fault of the bytes.
    pub fn read_snapshot(bytes: &[u8]) -> Result<Stream, SnapshotError> {
        let mut reader = Reader::new(bytes);
        if reader.take(4)? != MAGIC {
            return Err(SnapshotError::Magic);
        }
        let version = reader.u8()?;
        if version != VERSION {
            return Err(SnapshotError::Version(version));
        }
        if reader.take(3)? != [0; 3] {
            return Err(SnapshotError::Broken("version"));
        }
        let mut stream = Stream::new(read_settings(&mut reader)?);
        if reader.u64_le()? != EPOCH {
            return Err(SnapshotError::Broken("epoch"));
        }
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
        let mut before = None;
        let count = reader.u64_le()?;
        let next_turn = reader.u64_le()?;
        stream.tracked.offsets.next_turn = next_turn;
        if next_turn > COUNT_MAX {
            return Err(SnapshotError::Broken("offsets"));
        }
        for _ in 0..count {
            let reference = reference(&mut reader)?;
            let offset = reader.u64_le()?;
            let owner = Owner { user: reader.u32_le()?, connection: reader.u32_le()? };
            let stored = Stored { offset, owner, turn: reader.u64_le()? };
            let follows = before.is_none_or(|before| before < reference)
                && (reference.starts_with(FEED) || stored.turn < next_turn);
            if !follows || !stream.tracked.offsets.insert(reference, stored) {
                return Err(SnapshotError::Broken("offsets"));
            }
            before = Some(reference);
        }
        if reader.is_empty() { Ok(stream) } else { Err(SnapshotError::Long) }
    }

    fn write_settings(&self, out: &mut impl Sink) {
        let Settings { filter_len, chunk_entries_first, segment_bytes_max, bytes_max, age_max_ms } =
            self.settings;
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(bytes_max.is_some(), HAS_BYTES) | flag(age_max_ms.is_some(), HAS_AGE);
        out.put(&[flags, filter_len]);
        out.put(&chunk_entries_first.to_le_bytes());
        out.put(&[0; 4]);
        for number in [segment_bytes_max, bytes_max.unwrap_or(0), age_max_ms.unwrap_or(0)] {
            put(out, number);
        }
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

fn read_settings(reader: &mut Reader<'_>) -> Result<Settings, SnapshotError> {
    let (flags, filter_len, chunk_entries_first) = (reader.u8()?, reader.u8()?, reader.u16_le()?);
    let zeros = reader.take(4)?;
    let (segment_bytes_max, bytes_max, age_max_ms) = (reader.u64_le()?, reader.u64_le()?, reader.u64_le()?);
    let bounds = [(HAS_BYTES, bytes_max), (HAS_AGE, age_max_ms)];
    let are_zero = bounds.iter().all(|(flag, number)| flags & flag != 0 || *number == 0);
    let is_known = flags & !(HAS_BYTES | HAS_AGE) == 0 && zeros == [0; 4];
    if !is_known || !are_zero || filter_len < FILTER_LEN_MIN || chunk_entries_first == 0 {
        return Err(SnapshotError::Broken("settings"));
    }
    Ok(Settings {
        filter_len,
        chunk_entries_first,
        segment_bytes_max,
        bytes_max: (flags & HAS_BYTES != 0).then_some(bytes_max),
        age_max_ms: (flags & HAS_AGE != 0).then_some(age_max_ms),
    })
}

impl Segment {
    /// All of it but its number.
    fn write(&self, out: &mut impl Sink) {
        for number in [
            self.first_offset,
            self.next_offset,
            self.first_timestamp_ms as u64,
            self.last_timestamp_ms as u64,
            self.bytes,
            self.indexed_at,
        ] {
            put(out, number);
        }
        out.put(&self.chunks.to_le_bytes());
        out.put(&self.indexed.to_le_bytes());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{Common, Limits, Storing};

    const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

    fn written(stream: &Stream) -> Vec<u8> {
        let mut bytes = Vec::new();
        stream.write_snapshot(&mut bytes);
        bytes
    }

    #[test]
    fn settings_come_back() {
        for (bytes_max, age_max_ms) in
            [(None, None), (Some(0), None), (None, Some(7)), (Some(u64::MAX), Some(0))]
        {
            let (filter_len, chunk_entries_first, segment_bytes_max) = (255, 1, 9);
            let settings =
                Settings { filter_len, chunk_entries_first, segment_bytes_max, bytes_max, age_max_ms };
            let bytes = written(&Stream::new(settings));
            assert_eq!(*Stream::read_snapshot(&bytes).unwrap().settings(), settings);
            for (at, byte) in [(8, 4), (9, 15), (12, 1)] {
                let mut other = bytes.clone();
                other[at] = byte;
                assert!(Stream::read_snapshot(&other).is_err(), "{at}");
            }
        }
    }

    /// Names that were stored in another order than theirs, by two connections.
    fn stream(common: &Common) -> Stream {
        let mut stream = Stream::new(Settings::default());
        for (at, connection) in [(2, 1), (0, 1), (3, 2), (1, 1)] {
            let owner = Some(Owner { user: 5, connection });
            assert_eq!(stream.store_offset(NAMES[at], at as u64, owner, common), Storing::Stored);
        }
        stream
    }

    #[test]
    fn who_stored_offsets_and_when_comes_back() {
        let common = Common::new(Limits { offsets_max: NAMES.len(), ..Limits::default() });
        let before = stream(&common);
        let bytes = written(&before);
        let mut after = Stream::read_snapshot(&bytes).unwrap();
        assert_eq!(written(&after), bytes);
        let more = Some(Owner { user: 9, connection: 9 });
        let gone = |reference: &[u8], offset| Storing::InPlaceOf { reference: reference.into(), offset };
        assert_eq!(after.store_offset(b"e", 0, more, &common), gone(b"c", 2));
        for len in 0..bytes.len() {
            assert!(Stream::read_snapshot(&bytes[..len]).is_err(), "{len}");
        }
        // Two at one turn of one connection.
        let entry = 2 + 1 + 8 + 8 + 8;
        let mut twice = bytes.clone();
        let (a, b) = (bytes.len() - 4 * entry, bytes.len() - 3 * entry);
        twice.copy_within(a + entry - 8..a + entry, b + entry - 8);
        assert!(Stream::read_snapshot(&twice).is_err());
    }
}
