//! The entries of a chunk, which are also those of a publish frame.
//!
//! ```text
//!   message     | 0, len: 31 bits | body |
//!   sub-batch   | 1, compression: 3 bits, 0: 4 bits | records: u16 | uncompressed len: u32 | len: u32 | body |
//! ```
//!
//! The uncompressed body of a sub-batch is messages in this very form. Nothing is decompressed here: a batch is stored and
//! delivered as its publisher sent it.

use super::Malformed;

/// Bytes in front of a message.
pub const MESSAGE_HEAD: usize = 4;
/// Bytes in front of a sub-batch.
pub const BATCH_HEAD: usize = 11;

/// The bit that tells a sub-batch from a message.
const IS_BATCH: u8 = 0x80;

/// One entry; its lengths are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    bytes: &'a [u8],
}

/// The content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// A message's bytes.
    Message(&'a [u8]),
    /// Messages that were put together by their publisher.
    Batch(SubBatch<'a>),
}

/// Messages in one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubBatch<'a> {
    /// How the body is compressed, as a number of [`Compression`], or one of 5 to 7, which mean nothing.
    pub compression: u8,
    /// How many messages its publisher says it holds.
    pub records: u16,
    /// How many bytes the body has when it is uncompressed, says its publisher.
    pub uncompressed_len: u32,
    /// The messages, perhaps compressed.
    pub body: &'a [u8],
}

/// How a sub-batch is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Compression {
    /// Not at all.
    None = 0,
    /// RFC 1952.
    Gzip = 1,
    /// Snappy's framing format.
    Snappy = 2,
    /// LZ4's frame format.
    Lz4 = 3,
    /// RFC 8878.
    Zstd = 4,
}

/// Why a sub-batch is not taken. RabbitMQ's rules, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchFault {
    /// It would be larger than allowed when uncompressed.
    UncompressedTooLarge,
    /// It has no messages.
    Empty,
    /// It cannot hold so many messages: each has [`MESSAGE_HEAD`] bytes at least.
    TooManyRecords,
    /// A compression that nobody knows.
    UnknownCompression,
    /// Nothing is there to be uncompressed.
    NothingCompressed,
}

impl<'a> Entry<'a> {
    /// The entry that `bytes` begin with, and the bytes behind it.
    ///
    /// # Errors
    /// [`Malformed::Entries`] when they end before it does.
    #[inline]
    pub fn split(bytes: &'a [u8]) -> Result<(Entry<'a>, &'a [u8]), Malformed> {
        let entry = Entry::first(bytes).ok_or(Malformed::Entries)?;
        Ok((entry, &bytes[entry.bytes.len()..]))
    }

    /// The entry that `bytes` begin with, unless they end before it does.
    #[inline(always)]
    pub fn first(bytes: &'a [u8]) -> Option<Entry<'a>> {
        let head = u32::from_be_bytes(*bytes.first_chunk()?);
        let len = if head >> 31 == 0 { MESSAGE_HEAD + head as usize } else { batch_len(bytes)? };
        bytes.get(..len).map(|bytes| Entry { bytes })
    }

    /// The entry as it is published, stored and delivered.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// It is messages that were put together.
    #[inline]
    pub fn is_batch(&self) -> bool {
        self.bytes[0] & IS_BATCH != 0
    }

    /// How many offsets it takes: 1, or the number in a sub-batch's head.
    #[inline]
    pub fn records(&self) -> u16 {
        match self.content() {
            Content::Message(_) => 1,
            Content::Batch(batch) => batch.records,
        }
    }

    /// The message, or the sub-batch.
    #[inline(always)]
    pub fn content(&self) -> Content<'a> {
        let bytes = self.bytes;
        if bytes[0] & IS_BATCH == 0 {
            return Content::Message(&bytes[MESSAGE_HEAD..]);
        }
        Content::Batch(SubBatch {
            compression: (bytes[0] >> 4) & 7,
            records: u16::from_be_bytes([bytes[1], bytes[2]]),
            uncompressed_len: u32::from_be_bytes([bytes[3], bytes[4], bytes[5], bytes[6]]),
            body: &bytes[BATCH_HEAD..],
        })
    }
}

#[cold]
fn batch_len(bytes: &[u8]) -> Option<usize> {
    let head = bytes.first_chunk::<BATCH_HEAD>()?;
    Some(BATCH_HEAD + u32::from_be_bytes([head[7], head[8], head[9], head[10]]) as usize)
}

/// The bytes in front of a message of `len` bytes.
///
/// # Panics
/// When `len` needs more than 31 bits.
#[inline]
pub(super) fn message_head(len: usize) -> [u8; MESSAGE_HEAD] {
    assert!(len <= i32::MAX as usize, "a message has at most 2^31 - 1 bytes");
    (len as u32).to_be_bytes()
}

impl SubBatch<'_> {
    /// Whether RabbitMQ takes such a batch whose body may have `uncompressed_max` bytes.
    ///
    /// # Errors
    /// The first fault of the batch.
    pub fn check(&self, uncompressed_max: u32) -> Result<(), BatchFault> {
        if self.uncompressed_len > uncompressed_max {
            return Err(BatchFault::UncompressedTooLarge);
        }
        if self.records == 0 {
            return Err(BatchFault::Empty);
        }
        if u64::from(self.records) * MESSAGE_HEAD as u64 > u64::from(self.uncompressed_len) {
            return Err(BatchFault::TooManyRecords);
        }
        match self.compression() {
            None => Err(BatchFault::UnknownCompression),
            Some(Compression::None) => Ok(()),
            Some(_) if self.body.is_empty() => Err(BatchFault::NothingCompressed),
            Some(_) => Ok(()),
        }
    }

    /// How the body is compressed; `None` where nobody knows.
    pub fn compression(&self) -> Option<Compression> {
        use Compression::{Gzip, Lz4, None, Snappy, Zstd};
        [None, Gzip, Snappy, Lz4, Zstd].into_iter().find(|known| *known as u8 == self.compression)
    }

    /// The bytes in front of the body.
    ///
    /// # Panics
    /// When the body has more than 2^32 - 1 bytes.
    pub fn head(&self) -> [u8; BATCH_HEAD] {
        let len = u32::try_from(self.body.len()).expect("a batch has at most 2^32 - 1 bytes");
        let mut head = [0; BATCH_HEAD];
        head[0] = IS_BATCH | (self.compression & 7) << 4;
        head[1..3].copy_from_slice(&self.records.to_be_bytes());
        head[3..7].copy_from_slice(&self.uncompressed_len.to_be_bytes());
        head[7..].copy_from_slice(&len.to_be_bytes());
        head
    }
}

/// Entries behind each other, one after the other; an error is the last that comes.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    /// The entries in `bytes`: the data of a chunk, or the uncompressed body of a sub-batch.
    pub fn new(bytes: &'a [u8]) -> Entries<'a> {
        Entries { rest: bytes }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match Entry::split(self.rest) {
            Ok((entry, rest)) => {
                self.rest = rest;
                Some(Ok(entry))
            }
            Err(reason) => {
                self.rest = &[];
                Some(Err(reason))
            }
        }
    }
}
