//! Messages of a publisher: read where they lie in a frame, and written message by message.
//!
//! ```text
//!   version 1   | publisher id | count | publishing id, entry ... |
//!   version 2   | publisher id | count | publishing id, filter value, entry ... |
//! ```
//!
//! An entry is, byte for byte, the [`Entry`] of a chunk, so it is stored as it came. The count is not looked at, as in
//! RabbitMQ. In version 2 an entry must be a message: RabbitMQ fails on sub-batches there.

use crate::error::Malformed;
use crate::frame;
use crate::key::Key;
use crate::wire::{nullable_string, put_null_string, put_string};
use base::Reader;
use message::chunk::{self, Content, Entry};

/// A frame of messages. Invariant: its bytes are `len` of them and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// The publisher of the messages.
    pub publisher_id: u8,
    has_filter_values: bool,
    has_batches: bool,
    len: u32,
    messages: &'a [u8],
}

/// A message in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedMessage<'a> {
    /// The id its confirm will carry.
    pub publishing_id: u64,
    /// The value that consumers filter by; `None` in version 1 and for null.
    pub filter_value: Option<&'a [u8]>,
    /// The message, or messages put together.
    pub entry: Entry<'a>,
}

impl<'a> Publish<'a> {
    /// Reads publisher and messages, all that is left.
    pub(crate) fn read(reader: &mut Reader<'a>, has_filter_values: bool) -> Result<Publish<'a>, Malformed> {
        let publisher_id = reader.u8()?;
        reader.u32()?;
        let messages = reader.take(reader.len())?;
        let (mut len, mut rest, mut has_batches) = (0, messages, false);
        while !rest.is_empty() {
            let (message, behind) = if has_filter_values { split_filtered(rest)? } else { split(rest)? };
            has_batches |= message.entry.is_batch();
            rest = behind;
            len += 1;
        }
        Ok(Publish { publisher_id, has_filter_values, has_batches, len, messages })
    }

    /// Number of messages, a sub-batch being one.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes of the messages as they are in the frame, without their ids and lengths, which are 12 bytes each.
    #[inline]
    pub fn payload_bytes(&self) -> usize {
        self.messages.len() - 12 * self.len as usize
    }

    /// Without messages.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// It is of version 2: messages may have filter values.
    #[inline]
    pub fn has_filter_values(&self) -> bool {
        self.has_filter_values
    }

    /// Some entries are sub-batches.
    #[inline]
    pub fn has_batches(&self) -> bool {
        self.has_batches
    }

    /// The messages, in order.
    #[inline]
    pub fn messages(&self) -> impl Iterator<Item = PublishedMessage<'a>> + Clone + use<'a> {
        let (mut rest, has_filter_values) = (self.messages, self.has_filter_values);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let read = if has_filter_values { split_filtered(rest) } else { split(rest) };
            let (message, behind) = read.expect("it was read before");
            rest = behind;
            Some(message)
        })
    }
}

#[inline]
fn split(bytes: &[u8]) -> Result<(PublishedMessage<'_>, &[u8]), Malformed> {
    let (publishing_id, rest) = bytes.split_first_chunk().ok_or(Malformed::Short)?;
    let (entry, rest) = Entry::split(rest)?;
    let publishing_id = u64::from_be_bytes(*publishing_id);
    Ok((PublishedMessage { publishing_id, filter_value: None, entry }, rest))
}

fn split_filtered(bytes: &[u8]) -> Result<(PublishedMessage<'_>, &[u8]), Malformed> {
    let mut reader = Reader::new(bytes);
    let publishing_id = reader.u64()?;
    let filter_value = nullable_string(&mut reader)?;
    let (entry, rest) = Entry::split(reader.rest())?;
    if matches!(entry.content(), Content::Batch(_)) {
        return Err(Malformed::Chunk(chunk::Malformed::Entries));
    }
    Ok((PublishedMessage { publishing_id, filter_value, entry }, rest))
}

/// Where the count lies in a frame.
const COUNT_AT: usize = frame::COMMAND_HEAD + 1;

/// Client: writes messages into frames, none larger than agreed on. The frames in the output are always whole.
#[derive(Debug)]
pub struct PublishFrames<'o> {
    out: &'o mut Vec<u8>,
    publisher_id: u8,
    has_filter_values: bool,
    /// Bytes of a frame behind its size.
    frame_max: usize,
    /// Where the frame begins that messages go into; `None`: the next begins one.
    start: Option<usize>,
    count: u32,
}

impl<'o> PublishFrames<'o> {
    pub(crate) fn new(
        out: &'o mut Vec<u8>,
        publisher_id: u8,
        has_filter_values: bool,
        frame_max: u32,
    ) -> PublishFrames<'o> {
        let frame_max = frame_max as usize;
        PublishFrames { out, publisher_id, has_filter_values, frame_max, start: None, count: 0 }
    }

    /// Appends a message. `false`: it is too large for a frame of its own, and nothing was appended.
    #[inline]
    pub fn message(&mut self, publishing_id: u64, filter_value: Option<&[u8]>, body: &[u8]) -> bool {
        let Ok(len) = i32::try_from(body.len()) else { return false };
        self.put(publishing_id, filter_value, &(len as u32).to_be_bytes(), body)
    }

    /// Appends messages that were put together. `false`: they are too large for a frame of its own, and nothing was
    /// appended.
    ///
    /// # Panics
    /// In frames with filter values.
    pub fn batch(&mut self, publishing_id: u64, batch: &chunk::SubBatch<'_>) -> bool {
        assert!(!self.has_filter_values, "a sub-batch has no filter value");
        self.put(publishing_id, None, &batch.head(), batch.body)
    }

    fn put(&mut self, publishing_id: u64, filter_value: Option<&[u8]>, head: &[u8], body: &[u8]) -> bool {
        assert!(
            self.has_filter_values || filter_value.is_none(),
            "frames of version 1 have no filter values"
        );
        let filter_len = if self.has_filter_values { 2 + filter_value.map_or(0, <[u8]>::len) } else { 0 };
        let len = 8 + filter_len + head.len() + body.len();
        let start = match self.start {
            Some(start) if self.out.len() - start - 4 + len <= self.frame_max => start,
            _ if COUNT_AT + 4 - 4 + len > self.frame_max => return false,
            _ => self.begin(),
        };
        self.out.extend(publishing_id.to_be_bytes());
        if self.has_filter_values {
            match filter_value {
                None => put_null_string(self.out),
                Some(value) => put_string(self.out, value),
            }
        }
        self.out.extend_from_slice(head);
        self.out.extend_from_slice(body);
        self.count += 1;
        let size = (self.out.len() - start - 4) as u32;
        self.out[start..start + 4].copy_from_slice(&size.to_be_bytes());
        self.out[start + COUNT_AT..start + COUNT_AT + 4].copy_from_slice(&self.count.to_be_bytes());
        true
    }

    #[cold]
    fn begin(&mut self) -> usize {
        let start = self.out.len();
        let version = if self.has_filter_values { 2 } else { 1 };
        self.out.extend_from_slice(&frame::command_head(0, Key::Publish as u16, version));
        self.out.push(self.publisher_id);
        self.out.extend([0; 4]);
        (self.start, self.count) = (Some(start), 0);
        start
    }
}
