//! A message for a queue that stays where it is: in a segment of a stream of the same log.
//!
//! Readers take any bytes. The checksum tells whether the message lies there.

use super::Kind;
use base::cursor::Reader;
use base::id::QueueId;
use base::memory::Buffer;

/// Bytes of a refer record in front of the name.
pub const REFER: usize = 80;

/// There is a priority.
const HAS_PRIORITY: u8 = 1;

/// A message in a segment of a stream, for one queue.
///
/// ```text
///   0        4    5       6          7          8          16          24              32       40
///   | length | 15 | flags | priority | name len | queue id | stream id | received at   | offset | segment |
///   48         56    60      64         68         72      76  80
///   | position | len | crc   | head len | body len | zeros     | name | zeros to a multiple of 8
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refer<'a> {
    /// The queue.
    pub queue: QueueId,
    /// The stream.
    pub stream: QueueId,
    /// When it came to the queue, milliseconds since 1970.
    pub received_at_ms: u64,
    /// As its publisher gave it.
    pub priority: Option<u8>,
    /// In the stream.
    pub offset: u64,
    /// The stream's segment that it lies in.
    pub segment: u64,
    /// Where in the segment's file it begins.
    pub position: u64,
    /// Its bytes there.
    pub len: u32,
    /// CRC32C of those.
    pub crc: u32,
    /// Bytes of its head, as a record for the queue has it.
    pub head_len: u32,
    /// Bytes of its body there.
    pub body_len: u32,
    /// The stream's name, where the message does not say where it was published to; at most 255 bytes.
    pub name: &'a [u8],
}

impl<'a> Refer<'a> {
    /// Reads a record of kind [`Kind::Refer`]; any other is `None`.
    #[inline]
    pub fn read(record: &'a [u8]) -> Option<Refer<'a>> {
        if *record.get(4)? != Kind::Refer as u8 {
            return None;
        }
        let mut reader = Reader::new(record);
        let _length_and_kind = reader.take(5).ok()?;
        let (flags, priority, name_len) = (reader.u8().ok()?, reader.u8().ok()?, reader.u8().ok()?);
        let (queue, stream) = (QueueId(reader.u64_le().ok()?), QueueId(reader.u64_le().ok()?));
        let (received_at_ms, offset) = (reader.u64_le().ok()?, reader.u64_le().ok()?);
        let (segment, position) = (reader.u64_le().ok()?, reader.u64_le().ok()?);
        let (len, crc) = (reader.u32_le().ok()?, reader.u32_le().ok()?);
        let (head_len, body_len) = (reader.u32_le().ok()?, reader.u32_le().ok()?);
        let zeros = reader.u64_le().ok()?;
        let name = reader.take(name_len.into()).ok()?;
        let priority = match flags {
            0 if priority == 0 => None,
            HAS_PRIORITY => Some(priority),
            _ => return None,
        };
        (zeros == 0).then_some(Refer {
            queue,
            stream,
            received_at_ms,
            priority,
            offset,
            segment,
            position,
            len,
            crc,
            head_len,
            body_len,
            name,
        })
    }

    /// Appends the record.
    ///
    /// # Panics
    /// Where the name is too long.
    pub fn write(&self, into: &mut Buffer) {
        let name_len = u8::try_from(self.name.len()).expect("a name has at most 255 bytes");
        let len = (REFER + self.name.len()).next_multiple_of(8);
        let mut fixed = [0; REFER];
        fixed[0..4].copy_from_slice(&(len as u32).to_le_bytes());
        fixed[4] = Kind::Refer as u8;
        fixed[5] = if self.priority.is_some() { HAS_PRIORITY } else { 0 };
        fixed[6] = self.priority.unwrap_or(0);
        fixed[7] = name_len;
        let numbers = [
            self.queue.0,
            self.stream.0,
            self.received_at_ms,
            self.offset,
            self.segment,
            self.position,
            u64::from(self.crc) << 32 | u64::from(self.len),
            u64::from(self.body_len) << 32 | u64::from(self.head_len),
        ];
        for (place, number) in fixed[HEADER_LEN..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        into.extend(&fixed);
        into.extend(self.name);
        into.pad_to(8);
    }
}

const HEADER_LEN: usize = super::HEADER;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::split;
    use proptest::prelude::*;

    #[test]
    fn it_comes_back_as_written() {
        for (name, priority) in [(&b""[..], None), (b"orders", Some(0)), (&[7; 255], Some(255))] {
            let refer = Refer {
                queue: QueueId(1),
                stream: QueueId(2),
                received_at_ms: 3,
                priority,
                offset: 4,
                segment: 5,
                position: 6,
                len: 7,
                crc: 8,
                head_len: 9,
                body_len: 10,
                name,
            };
            let mut buffer = Buffer::default();
            refer.write(&mut buffer);
            let (kind, record, rest) = split(buffer.bytes()).unwrap();
            assert_eq!((kind, Refer::read(record), rest.len()), (Kind::Refer, Some(refer), 0));
            for len in 0..REFER + name.len() {
                assert_eq!(Refer::read(&record[..len]), None);
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Refer::read(&bytes);
            if let Some(kind) = bytes.get_mut(4) {
                *kind = Kind::Refer as u8;
            }
            let _ = Refer::read(&bytes);
        }
    }
}
