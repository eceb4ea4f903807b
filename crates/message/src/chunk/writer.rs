//! Writes a chunk where it will be stored and delivered from, message by message.
//!
//! The bytes go behind those that a [`Buffer`] holds already, so several chunks share one. Nothing is allocated but by
//! the buffer. While a chunk is written, nothing else may be appended to its buffer. Invariant: the bytes written are a
//! chunk but for its header, which [`Writer::finish`] fills in.

use super::bloom::{self, FILTER_LEN_MIN};
use super::entry::{BATCH_HEAD, Entry, MESSAGE_HEAD, message_head};
use super::{HEADER_LEN, Header, Kind};
use base::Buffer;
use base::crc::crc32;

/// Where and when a chunk stands in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// When it was written, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The term of the leader that writes it.
    pub epoch: u64,
    /// The offset of its first record.
    pub first_offset: u64,
}

/// A chunk under way.
#[derive(Debug)]
pub struct Writer {
    /// Where it begins in the buffer.
    start: usize,
    kind: Kind,
    entries: u16,
    records: u32,
    /// Bytes that its Bloom filter will have if it needs one.
    filter_len: u8,
    /// Bytes that its Bloom filter has: none until an entry with a value comes.
    bloom_len: u8,
}

impl Writer {
    /// Begins a chunk behind the bytes of `buffer`; its Bloom filter will have `filter_len` bytes, if any.
    ///
    /// # Panics
    /// When `filter_len` is below [`FILTER_LEN_MIN`].
    pub fn new(buffer: &mut Buffer, kind: Kind, filter_len: u8) -> Writer {
        assert!(filter_len >= FILTER_LEN_MIN, "a Bloom filter has at least {FILTER_LEN_MIN} bytes");
        let start = buffer.len();
        buffer.extend_zeroed(HEADER_LEN);
        Writer { start, kind, entries: 0, records: 0, filter_len, bloom_len: 0 }
    }

    /// Entries so far.
    pub fn entries(&self) -> u16 {
        self.entries
    }

    /// Records so far: the offset of the next one, counted from the chunk's first.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// Whether an entry with `len` bytes of body and `records` messages still fits, by the range of the header's
    /// counts.
    pub fn has_room(&self, buffer: &Buffer, len: usize, records: u16) -> bool {
        let data_len = buffer.len() - self.data_at() + BATCH_HEAD + len;
        self.entries < u16::MAX
            && self.records.checked_add(records.into()).is_some()
            && u32::try_from(data_len).is_ok()
    }

    /// Appends an entry as it came. An empty `filter_value` is none.
    ///
    /// # Panics
    /// When there is no room.
    #[inline]
    pub fn push(&mut self, buffer: &mut Buffer, entry: &Entry<'_>, filter_value: &[u8]) {
        self.note(buffer, entry.bytes().len(), entry.records(), filter_value);
        buffer.extend(entry.bytes());
    }

    /// Appends a message. An empty `filter_value` is none.
    ///
    /// # Panics
    /// When there is no room, or the message has more than 2^31 - 1 bytes.
    #[inline]
    pub fn push_message(&mut self, buffer: &mut Buffer, message: &[u8], filter_value: &[u8]) {
        self.push_parts(buffer, &[message], filter_value);
    }

    /// Appends a message whose parts follow each other. An empty `filter_value` is none.
    ///
    /// # Panics
    /// As [`Writer::push_message`].
    #[inline]
    pub fn push_parts(&mut self, buffer: &mut Buffer, parts: &[&[u8]], filter_value: &[u8]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.note(buffer, MESSAGE_HEAD + len, 1, filter_value);
        let entry = buffer.extend_stale(MESSAGE_HEAD + len);
        let (head, mut rest) = entry.split_at_mut(MESSAGE_HEAD);
        head.copy_from_slice(&message_head(len));
        for part in parts {
            let (to, behind) = rest.split_at_mut(part.len());
            base::copy::copy(to, part);
            rest = behind;
        }
    }

    /// Fills the header in, with `trailer` behind the data, and answers it.
    pub fn finish(self, buffer: &mut Buffer, place: Place, trailer: &[u8]) -> Header {
        let data = &buffer.bytes()[self.data_at()..];
        let header = Header {
            kind: self.kind,
            entries: self.entries,
            records: self.records,
            timestamp_ms: place.timestamp_ms,
            epoch: place.epoch,
            first_offset: place.first_offset,
            crc: crc32(data),
            data_len: u32::try_from(data.len()).expect("there was room for each entry"),
            trailer_len: u32::try_from(trailer.len()).expect("a trailer has at most 2^32 - 1 bytes"),
            bloom_len: self.bloom_len,
        };
        buffer.extend(trailer);
        buffer.bytes_mut()[self.start..self.start + HEADER_LEN].copy_from_slice(&header.write());
        header
    }

    fn data_at(&self) -> usize {
        self.start + HEADER_LEN + usize::from(self.bloom_len)
    }

    /// Counts an entry of `len` bytes, its head included.
    #[inline]
    fn note(&mut self, buffer: &mut Buffer, len: usize, records: u16, filter_value: &[u8]) {
        let head = MESSAGE_HEAD.min(len);
        assert!(self.has_room(buffer, len - head, records), "the chunk is full");
        if self.bloom_len != 0 || !filter_value.is_empty() {
            self.note_filter(buffer, filter_value);
        }
        self.entries += 1;
        self.records += u32::from(records);
    }

    #[cold]
    #[inline(never)]
    fn note_filter(&mut self, buffer: &mut Buffer, filter_value: &[u8]) {
        if self.bloom_len == 0 {
            // The data there already moves back, once a chunk: mostly nothing, since publishers that filter do so
            // always.
            let (from, to) = (self.data_at(), buffer.len());
            let len = usize::from(self.filter_len);
            buffer.extend_zeroed(len);
            let bytes = buffer.bytes_mut();
            bytes.copy_within(from..to, from + len);
            bytes[from..from + len].fill(0);
            self.bloom_len = self.filter_len;
            if self.entries > 0 {
                self.set_bloom(buffer, b"");
            }
        }
        self.set_bloom(buffer, filter_value);
    }

    fn set_bloom(&self, buffer: &mut Buffer, filter_value: &[u8]) {
        let from = self.start + HEADER_LEN;
        bloom::insert(&mut buffer.bytes_mut()[from..from + usize::from(self.bloom_len)], filter_value);
    }
}
