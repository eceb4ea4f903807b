//! Records of streams: what publishers of the stream protocol appended, where consumers say they stand, and what somebody
//! let go of.
//!
//! Messages that reach a stream in other ways are [`super::Enqueue`] records like any queue's. Readers take any bytes:
//! lengths are checked when a record is read, entries while they are gone through.

use super::Kind;
use crate::chunk::Entry;
use base::cursor::Reader;
use base::id::QueueId;
use base::memory::Buffer;
use base::{Digest, DigestKey, Digester};

/// Longest reference of a publisher or of a consumer that records hold, bytes.
pub const REFERENCE_MAX: usize = u16::MAX as usize;

/// Bytes of an append record in front of the reference.
const APPEND: usize = 40;
/// The publisher has a reference, and each message a publishing id.
const HAS_REFERENCE: u8 = 1;
/// Messages have filter values.
const HAS_FILTERS: u8 = 2;

/// Messages for one stream, as they stand in one frame of a publisher.
///
/// ```text
///   0        4    5       6               8           16        24         28            32            36  40
///   | length | 12 | flags | reference len | stream id | at (ms) | messages | entries len | filters len | 0 |
///   reference | publishing ids 8 bytes each | filter values: length 2, bytes, each | entries | zeros to a multiple of 8
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Append<'a> {
    /// The stream.
    pub stream: QueueId,
    /// When the broker received it, milliseconds since 1970.
    pub at_ms: u64,
    /// Messages, a sub-batch being one.
    pub messages: u32,
    /// By what its publisher is known: what was published under it before is not stored again.
    pub reference: Option<&'a [u8]>,
    ids: &'a [u8],
    filters: Option<&'a [u8]>,
    entries: &'a [u8],
}

/// One message of an [`Append`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended<'a> {
    /// Its number at its publisher; 0 where the publisher has no reference.
    pub publishing_id: u64,
    /// The value that readers filter by; empty: none.
    pub filter_value: &'a [u8],
    /// The message, or messages put together.
    pub entry: Entry<'a>,
}

impl<'a> Append<'a> {
    /// Reads a record of kind [`Kind::Append`].
    pub fn read(record: &'a [u8]) -> Option<Append<'a>> {
        let (fixed, rest) = record.split_first_chunk::<APPEND>()?;
        let u32_at = |at: usize| u32::from_le_bytes(*fixed[at..].first_chunk().unwrap_or(&[0; 4]));
        let u64_at = |at: usize| u64::from_le_bytes(*fixed[at..].first_chunk().unwrap_or(&[0; 8]));
        let (flags, messages) = (fixed[5], u32_at(24));
        let (has_reference, has_filters) = (flags & HAS_REFERENCE != 0, flags & HAS_FILTERS != 0);
        let reference_len = usize::from(u16::from_le_bytes([fixed[6], fixed[7]]));
        let (reference, rest) = rest.split_at_checked(reference_len)?;
        let ids_len = if has_reference { (messages as usize).checked_mul(8)? } else { 0 };
        let (ids, rest) = rest.split_at_checked(ids_len)?;
        let (filters, rest) = rest.split_at_checked(u32_at(32) as usize)?;
        let (entries, _padding) = rest.split_at_checked(u32_at(28) as usize)?;
        let is_known = flags & !(HAS_REFERENCE | HAS_FILTERS) == 0;
        is_known.then_some(Append {
            stream: QueueId(u64_at(8)),
            at_ms: u64_at(16),
            messages,
            reference: has_reference.then_some(reference),
            ids,
            filters: has_filters.then_some(filters),
            entries,
        })
    }

    /// The messages, in order; they end where something is not as it was written.
    #[inline]
    pub fn messages(&self) -> impl Iterator<Item = Appended<'a>> + use<'a> {
        let Append { ids, mut filters, entries, .. } = *self;
        let (mut ids, mut rest) = (ids.as_chunks::<8>().0.iter(), entries);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (entry, behind) = Entry::split(rest).ok()?;
            rest = behind;
            let publishing_id = ids.next().map_or(0, |id| u64::from_le_bytes(*id));
            let mut filter_value: &[u8] = &[];
            if let Some(values) = &mut filters {
                let (len, behind) = values.split_first_chunk()?;
                let value = behind.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
                (filter_value, *values) = value;
            }
            Some(Appended { publishing_id, filter_value, entry })
        })
    }
}

/// Messages that [`NewAppend::write`] writes.
#[derive(Clone, Copy, Debug)]
pub struct NewAppend<'a> {
    /// The stream.
    pub stream: QueueId,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// At most [`REFERENCE_MAX`] bytes.
    pub reference: Option<&'a [u8]>,
    /// Filter values are written; else they are passed over.
    pub has_filters: bool,
}

impl NewAppend<'_> {
    /// Appends the record and says how many messages are in it.
    ///
    /// # Panics
    /// When the reference or a filter value is longer than 65,535 bytes, or the whole is not below 4 GiB.
    pub fn write<'a>(&self, messages: impl Iterator<Item = Appended<'a>> + Clone, into: &mut Buffer) -> u32 {
        let start = into.len();
        let reference = self.reference.unwrap_or_default();
        let reference_len = u16::try_from(reference.len()).expect("a reference is a short string");
        into.extend_zeroed(APPEND);
        into.extend(reference);
        let mut flags = 0;
        if self.reference.is_some() {
            flags |= HAS_REFERENCE;
            messages.clone().for_each(|message| into.extend(&message.publishing_id.to_le_bytes()));
        }
        let filters_at = into.len();
        if self.has_filters {
            flags |= HAS_FILTERS;
            for message in messages.clone() {
                let len =
                    u16::try_from(message.filter_value.len()).expect("a filter value is a short string");
                into.extend(&len.to_le_bytes());
                into.extend(message.filter_value);
            }
        }
        let (entries_at, mut count) = (into.len(), 0u32);
        for message in messages {
            into.extend(message.entry.bytes());
            count += 1;
        }
        let end = into.len();
        into.pad_to(8);
        let len = u32::try_from(into.len() - start).expect("a frame is below 4 GiB");
        let fixed = &mut into.bytes_mut()[start..start + APPEND];
        fixed[0..4].copy_from_slice(&len.to_le_bytes());
        fixed[4..6].copy_from_slice(&[Kind::Append as u8, flags]);
        fixed[6..8].copy_from_slice(&reference_len.to_le_bytes());
        fixed[8..16].copy_from_slice(&self.stream.0.to_le_bytes());
        fixed[16..24].copy_from_slice(&self.at_ms.to_le_bytes());
        fixed[24..28].copy_from_slice(&count.to_le_bytes());
        fixed[28..32].copy_from_slice(&((end - entries_at) as u32).to_le_bytes());
        fixed[32..36].copy_from_slice(&((entries_at - filters_at) as u32).to_le_bytes());
        count
    }
}

/// Bytes of a track record in front of the reference.
const TRACK: usize = 32;

/// The form of a track record that names an owner.
const WITH_OWNER: u8 = 1;

/// Bytes of the owner.
const OWNER: usize = 8;

/// A consumer says how far it has come in a stream.
///
/// ```text
///   0        4    5   6               8           16        24       32
///   | length | 13 | 0 | reference len | stream id | at (ms) | offset | reference | zeros to a multiple of 8
///   | length | 13 | 1 | reference len | stream id | at (ms) | offset | user 4 | connection 4 | reference | zeros
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track<'a> {
    /// The stream.
    pub stream: QueueId,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// How far.
    pub offset: u64,
    /// The owner of the offset; none: it is the broker's own, or of before owners were told.
    pub owner: Option<Owner>,
    /// The name of the consumer, at most [`REFERENCE_MAX`] bytes.
    pub reference: &'a [u8],
}

/// Numbers of the user and connection that stored an offset, by which users, and connections of a user, share the room there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The user; 0: one that is not known by a name.
    pub user: u32,
    /// The connection.
    pub connection: u32,
}

impl Owner {
    /// The number of the user of this name.
    pub fn user_of(name: &str) -> u32 {
        let mut digester = Digester::new(&DigestKey::FIXED);
        digester.write(name.as_bytes());
        let Digest([low, _]) = digester.finish();
        low as u32
    }
}

impl<'a> Track<'a> {
    /// Reads a record of kind [`Kind::Track`].
    pub fn read(record: &'a [u8]) -> Option<Track<'a>> {
        let mut reader = Reader::new(record);
        let _length_and_kind = reader.take(5).ok()?;
        let (form, reference_len) = (reader.u8().ok()?, reader.u16_le().ok()?);
        let stream = QueueId(reader.u64_le().ok()?);
        let (at_ms, offset) = (reader.u64_le().ok()?, reader.u64_le().ok()?);
        let owner = match form {
            0 => None,
            WITH_OWNER => Some(Owner { user: reader.u32_le().ok()?, connection: reader.u32_le().ok()? }),
            _ => return None,
        };
        let reference = reader.take(reference_len.into()).ok()?;
        Some(Track { stream, at_ms, offset, owner, reference })
    }

    /// Appends the record.
    ///
    /// # Panics
    /// When the reference is longer than [`REFERENCE_MAX`].
    pub fn write(&self, into: &mut Buffer) {
        let reference_len = u16::try_from(self.reference.len()).expect("a reference is a short string");
        let owner_len = if self.owner.is_some() { OWNER } else { 0 };
        let len = (TRACK + owner_len + self.reference.len()).next_multiple_of(8);
        let mut fixed = [0; TRACK];
        fixed[0..4].copy_from_slice(&(len as u32).to_le_bytes());
        fixed[4] = Kind::Track as u8;
        fixed[5] = if self.owner.is_some() { WITH_OWNER } else { 0 };
        fixed[6..8].copy_from_slice(&reference_len.to_le_bytes());
        fixed[8..16].copy_from_slice(&self.stream.0.to_le_bytes());
        fixed[16..24].copy_from_slice(&self.at_ms.to_le_bytes());
        fixed[24..32].copy_from_slice(&self.offset.to_le_bytes());
        into.extend(&fixed);
        if let Some(Owner { user, connection }) = self.owner {
            into.extend(&user.to_le_bytes());
            into.extend(&connection.to_le_bytes());
        }
        into.extend(self.reference);
        into.pad_to(8);
    }
}

/// Bytes of a truncate record.
const TRUNCATE: usize = 32;

/// Somebody lets go of the beginning of a stream.
///
/// ```text
///   0        4    5   8           16        24       32
///   | length | 14 | 0 | stream id | at (ms) | before |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncate {
    /// The stream.
    pub stream: QueueId,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// Offsets below it are to go.
    pub before: u64,
}

impl Truncate {
    /// Reads a record of kind [`Kind::Truncate`].
    pub fn read(record: &[u8]) -> Option<Truncate> {
        let mut reader = Reader::new(record);
        let _length_and_kind = reader.take(5).ok()?;
        let zeros = reader.take(3).ok()?;
        let stream = QueueId(reader.u64_le().ok()?);
        let (at_ms, before) = (reader.u64_le().ok()?, reader.u64_le().ok()?);
        (zeros == [0; 3] && reader.is_empty()).then_some(Truncate { stream, at_ms, before })
    }

    /// Appends the record.
    pub fn write(&self, into: &mut Buffer) {
        let mut record = [0; TRUNCATE];
        record[0..4].copy_from_slice(&(TRUNCATE as u32).to_le_bytes());
        record[4] = Kind::Truncate as u8;
        record[8..16].copy_from_slice(&self.stream.0.to_le_bytes());
        record[16..24].copy_from_slice(&self.at_ms.to_le_bytes());
        record[24..32].copy_from_slice(&self.before.to_le_bytes());
        into.extend(&record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::SubBatch;
    use crate::record::split;

    fn entry(bytes: &[u8]) -> Entry<'_> {
        Entry::split(bytes).unwrap().0
    }

    fn check(reference: Option<&[u8]>, values: &[&[u8]], has_filters: bool) {
        let bytes: Vec<Vec<u8>> =
            (0..values.len()).map(|len| [&[0, 0, 0, len as u8], &vec![7; len][..]].concat()).collect();
        let messages: Vec<Appended<'_>> = values
            .iter()
            .zip(&bytes)
            .enumerate()
            .map(|(at, (filter_value, bytes))| Appended {
                publishing_id: if reference.is_some() { 100 + at as u64 } else { 0 },
                filter_value: if has_filters { filter_value } else { b"" },
                entry: entry(bytes),
            })
            .collect();
        let new = NewAppend { stream: QueueId(9), at_ms: 5, reference, has_filters };
        let mut buffer = Buffer::default();
        assert_eq!(new.write(messages.iter().copied(), &mut buffer), values.len() as u32);
        let (kind, record, rest) = split(buffer.bytes()).unwrap();
        assert_eq!((kind, rest.len()), (Kind::Append, 0));
        let read = Append::read(record).unwrap();
        assert_eq!((read.stream, read.at_ms, read.reference), (QueueId(9), 5, reference));
        assert_eq!(read.messages as usize, values.len());
        assert_eq!(read.messages().collect::<Vec<_>>(), messages);
        // Reading never panics, however the bytes are cut short or changed.
        for at in 0..record.len() {
            if let Some(read) = Append::read(&record[..at]) {
                assert!(read.messages().count() <= values.len());
            }
            let mut other = record.to_vec();
            other[at] ^= 0xFF;
            if let Some(read) = Append::read(&other) {
                let _ = read.messages().count();
            }
        }
    }

    #[test]
    fn appends_come_back_as_written() {
        check(None, &[], false);
        check(None, &[b"", b""], false);
        check(Some(b"me"), &[b"", b"", b""], false);
        check(None, &[b"blue", b"", b"green"], true);
        check(Some(b""), &[b"blue"], true);
    }

    #[test]
    fn tracks_come_back_as_written() {
        let owner = Some(Owner { user: u32::MAX, connection: 7 });
        let references = [&b""[..], b"app-1", &[7; 300]];
        for (reference, owner) in
            references.into_iter().flat_map(|reference| [(reference, None), (reference, owner)])
        {
            let track = Track { stream: QueueId(3), at_ms: 4, offset: u64::MAX, owner, reference };
            let mut buffer = Buffer::default();
            track.write(&mut buffer);
            let (kind, record, rest) = split(buffer.bytes()).unwrap();
            assert_eq!((kind, Track::read(record), rest.len()), (Kind::Track, Some(track), 0));
            for len in 0..TRACK + owner.map_or(0, |_| OWNER) + reference.len() {
                assert_eq!(Track::read(&record[..len]), None);
            }
        }
    }

    #[test]
    fn truncates_come_back_as_written() {
        let truncate = Truncate { stream: QueueId(3), at_ms: 4, before: u64::MAX };
        let mut buffer = Buffer::default();
        truncate.write(&mut buffer);
        let (kind, record, rest) = split(buffer.bytes()).unwrap();
        assert_eq!((kind, Truncate::read(record), rest.len()), (Kind::Truncate, Some(truncate), 0));
        assert!((0..TRUNCATE).all(|len| Truncate::read(&record[..len]).is_none()));
    }

    use proptest::prelude::*;

    /// The parts of a message that a publisher may send: its id, its filter value, and the message or a batch.
    fn published() -> impl Strategy<Value = (u64, Vec<u8>, Vec<u8>)> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..40);
        let message = bytes().prop_map(|body| [&(body.len() as u32).to_be_bytes()[..], &body].concat());
        let batch = (bytes(), any::<u16>(), 0..5u8).prop_map(|(body, records, compression)| {
            let batch = SubBatch { compression, records, uncompressed_len: 7, body: &body };
            [&batch.head()[..], &body].concat()
        });
        (any::<u64>(), bytes(), prop_oneof![message, batch])
    }

    proptest! {
        #[test]
        fn any_append_comes_back(
            reference in prop::option::of(prop::collection::vec(any::<u8>(), 0..300)),
            all in prop::collection::vec(published(), 0..20),
            has_filters in any::<bool>(),
        ) {
            let messages: Vec<Appended<'_>> = all
                .iter()
                .map(|(publishing_id, filter_value, bytes)| Appended {
                    publishing_id: reference.as_ref().map_or(0, |_| *publishing_id),
                    filter_value: if has_filters { filter_value } else { b"" },
                    entry: entry(bytes),
                })
                .collect();
            let new = NewAppend { stream: QueueId(1), at_ms: 2, reference: reference.as_deref(), has_filters };
            let mut buffer = Buffer::default();
            prop_assert_eq!(new.write(messages.iter().copied(), &mut buffer) as usize, messages.len());
            let (_, record, _) = split(buffer.bytes()).unwrap();
            let read = Append::read(record).unwrap();
            prop_assert_eq!(read.reference, reference.as_deref());
            prop_assert_eq!(read.messages().collect::<Vec<_>>(), messages);
        }

        #[test]
        fn any_bytes_are_at_most_a_record(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            if let Some(append) = Append::read(&bytes) {
                let len: usize = append.messages().map(|message| message.entry.bytes().len()).sum();
                prop_assert!(len <= bytes.len());
            }
            if let Some(truncate) = Truncate::read(&bytes) {
                let mut buffer = Buffer::default();
                truncate.write(&mut buffer);
                prop_assert_eq!(Truncate::read(buffer.bytes()), Some(truncate));
            }
            if let Some(track) = Track::read(&bytes) {
                let mut buffer = Buffer::default();
                track.write(&mut buffer);
                let (_, record, _) = split(buffer.bytes()).unwrap();
                prop_assert_eq!(Track::read(record), Some(track));
            }
        }
    }
}
