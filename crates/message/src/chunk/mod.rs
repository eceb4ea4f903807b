//! Chunks: the form in which a stream is stored, replicated and delivered, byte for byte as RabbitMQ's streams have it.
//!
//! ```text
//!   0       1      2         4         8           16      24             32    36         40            44          48
//!   | 5 | 0 | kind | entries | records | timestamp | epoch | first offset | crc | data len | trailer len | bloom len | 0
//!   | Bloom filter | data: entries behind each other | trailer: tracking |
//! ```
//!
//! Numbers are big-endian. An *entry* is one message, or a batch that its publisher put together and perhaps compressed
//! ([`Entry`]); a *record* is a message, so a batch has one entry and many records, and the chunk takes as many offsets as
//! it has records. The checksum (CRC-32) covers the data alone. [`Writer`] writes chunks where they are delivered from;
//! [`Filter`] tells from the Bloom filter which of them a consumer can skip; [`Tracking`] reads the publishing ids and
//! offsets that publishers and consumers are known to have reached.
//!
//! Not here: where chunks lie, and when one is finished. It is on this floor, not in the protocol's crate, because queues
//! store chunks and know no protocol.

mod bloom;
mod entry;
mod tracking;
mod writer;

pub use bloom::{FILTER_LEN_DEFAULT, FILTER_LEN_MIN, Filter};
pub use entry::{BATCH_HEAD, BatchFault, Compression, Content, Entries, Entry, MESSAGE_HEAD, SubBatch};
pub use tracking::{ID_MAX, Tracked, Tracking, TrackingEntry, put_tracking};
pub use writer::{Place, Writer};

use base::crc::crc32;

/// Bytes of a chunk in front of its Bloom filter.
pub const HEADER_LEN: usize = 48;

/// The first byte of each chunk: magic 5 and version 0.
pub const FIRST_BYTE: u8 = 0x50;

/// The content of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Messages.
    User = 0,
    /// Changes of tracked values, when no messages were there to carry them in a trailer.
    TrackingDelta = 1,
    /// All that is tracked; the first chunk of a segment.
    TrackingSnapshot = 2,
}

/// The fixed part of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of the data.
    pub kind: Kind,
    /// Entries in the data.
    pub entries: u16,
    /// Offsets that the chunk takes.
    pub records: u32,
    /// When it was written, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The term of the leader that wrote it.
    pub epoch: u64,
    /// The offset of its first record; also the chunk's id.
    pub first_offset: u64,
    /// CRC-32 of the data.
    pub crc: u32,
    /// Bytes of data.
    pub data_len: u32,
    /// Bytes of tracking behind the data.
    pub trailer_len: u32,
    /// Bytes of the Bloom filter; 0: no entry has a filter value.
    pub bloom_len: u8,
}

/// Why bytes are no chunk, or not the one they seem to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They end before the chunk does.
    Short,
    /// They do not begin as chunks of this version do.
    NoChunk,
    /// A kind that nobody knows.
    UnknownKind(u8),
    /// The data has another checksum than the header says.
    Checksum {
        /// The header's.
        stated: u32,
        /// The data's.
        found: u32,
    },
    /// The data is not entries behind each other, or not as many as the header says.
    Entries,
    /// The trailer is not in the form of tracking.
    Tracking,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Malformed::Short => f.write_str("the chunk is cut short"),
            Malformed::NoChunk => f.write_str("no chunk begins here"),
            Malformed::UnknownKind(kind) => write!(f, "unknown kind of chunk {kind}"),
            Malformed::Checksum { stated, found } => {
                write!(f, "the chunk's checksum is {found:08x} and should be {stated:08x}")
            }
            Malformed::Entries => f.write_str("the chunk's entries do not add up"),
            Malformed::Tracking => f.write_str("the chunk's tracking is malformed"),
        }
    }
}

impl std::error::Error for Malformed {}

impl Header {
    /// Reads a header. The reserved bytes are not looked at.
    ///
    /// # Errors
    /// [`Malformed::NoChunk`] and [`Malformed::UnknownKind`].
    pub fn read(bytes: &[u8; HEADER_LEN]) -> Result<Header, Malformed> {
        let number = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| bytes[at + i]));
        let short = |at: usize| u32::from_be_bytes(std::array::from_fn(|i| bytes[at + i]));
        if bytes[0] != FIRST_BYTE {
            return Err(Malformed::NoChunk);
        }
        let kind = match bytes[1] {
            0 => Kind::User,
            1 => Kind::TrackingDelta,
            2 => Kind::TrackingSnapshot,
            other => return Err(Malformed::UnknownKind(other)),
        };
        Ok(Header {
            kind,
            entries: u16::from_be_bytes([bytes[2], bytes[3]]),
            records: short(4),
            timestamp_ms: number(8) as i64,
            epoch: number(16),
            first_offset: number(24),
            crc: short(32),
            data_len: short(36),
            trailer_len: short(40),
            bloom_len: bytes[44],
        })
    }

    /// The header as it is stored and sent.
    pub fn write(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = FIRST_BYTE;
        bytes[1] = self.kind as u8;
        bytes[2..4].copy_from_slice(&self.entries.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.records.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.timestamp_ms.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.first_offset.to_be_bytes());
        bytes[32..36].copy_from_slice(&self.crc.to_be_bytes());
        bytes[36..40].copy_from_slice(&self.data_len.to_be_bytes());
        bytes[40..44].copy_from_slice(&self.trailer_len.to_be_bytes());
        bytes[44] = self.bloom_len;
        bytes
    }

    /// Bytes of the whole chunk as it is stored.
    pub fn stored_len(&self) -> u64 {
        HEADER_LEN as u64 + u64::from(self.bloom_len) + u64::from(self.data_len) + u64::from(self.trailer_len)
    }

    /// Where the data begins in a stored chunk.
    pub fn data_at(&self) -> usize {
        HEADER_LEN + usize::from(self.bloom_len)
    }

    /// The offset behind its last record.
    pub fn next_offset(&self) -> u64 {
        self.first_offset.saturating_add(self.records.into())
    }
}

/// A chunk in some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Its fixed part.
    pub header: Header,
    /// Its Bloom filter; empty if it has none, and in chunks that are delivered.
    pub bloom: &'a [u8],
    /// Its entries, not yet checked.
    pub data: &'a [u8],
    /// The values tracked with it, not yet checked; left out of messages that are delivered.
    pub trailer: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// The stored chunk that `bytes` begin with, and the bytes behind it.
    ///
    /// # Errors
    /// [`Malformed::Short`] and those of [`Header::read`].
    pub fn read(bytes: &'a [u8]) -> Result<(Chunk<'a>, &'a [u8]), Malformed> {
        let (header, rest) = split_header(bytes)?;
        let (bloom, rest) = split(rest, header.bloom_len.into())?;
        let (data, rest) = split(rest, header.data_len)?;
        let (trailer, rest) = split(rest, header.trailer_len)?;
        Ok((Chunk { header, bloom, data, trailer }, rest))
    }

    /// The chunk that `bytes` are, as it is delivered: the header as stored, but neither the Bloom filter nor, behind
    /// messages, the trailer that it tells of.
    ///
    /// # Errors
    /// [`Malformed::Short`] and those of [`Header::read`].
    pub fn read_delivered(bytes: &'a [u8]) -> Result<Chunk<'a>, Malformed> {
        let (header, rest) = split_header(bytes)?;
        let (data, trailer) = split(rest, header.data_len)?;
        Ok(Chunk { header, bloom: &[], data, trailer })
    }

    /// Its entries, in order.
    pub fn entries(&self) -> Entries<'a> {
        Entries::new(self.data)
    }

    /// Whether the data is as it was written.
    ///
    /// # Errors
    /// [`Malformed::Checksum`].
    pub fn check_crc(&self) -> Result<(), Malformed> {
        let found = crc32(self.data);
        if found == self.header.crc {
            Ok(())
        } else {
            Err(Malformed::Checksum { stated: self.header.crc, found })
        }
    }

    /// Whether the data is as it was written and, for messages, entries and records are as many as the header says.
    ///
    /// # Errors
    /// [`Malformed::Checksum`] and [`Malformed::Entries`].
    pub fn check(&self) -> Result<(), Malformed> {
        self.check_crc()?;
        if self.header.kind != Kind::User {
            return Ok(());
        }
        let mut tally = (0u64, 0u64);
        for entry in self.entries() {
            tally = (tally.0 + 1, tally.1 + u64::from(entry?.records()));
        }
        let stated = (u64::from(self.header.entries), u64::from(self.header.records));
        if tally == stated { Ok(()) } else { Err(Malformed::Entries) }
    }
}

fn split_header(bytes: &[u8]) -> Result<(Header, &[u8]), Malformed> {
    let (header, rest) = bytes.split_first_chunk().ok_or(Malformed::Short)?;
    Ok((Header::read(header)?, rest))
}

fn split(bytes: &[u8], count: u32) -> Result<(&[u8], &[u8]), Malformed> {
    bytes.split_at_checked(count as usize).ok_or(Malformed::Short)
}

#[cfg(test)]
mod tests;
