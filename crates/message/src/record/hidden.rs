//! Keys that a message was routed by and that nobody is to see (BCC): behind the body, which is where a delivery ends.
//!
//! ```text
//!   | body | count 4 | length 4, key, per key ... | zeros to a multiple of 8
//! ```

use super::enqueue::{ENQUEUE, LEN_MAX};
use super::keys::digests_len;
use super::{Enqueue, Kind, NewEnqueue, flag, split};
use base::cursor::Reader;
use base::id::QueueId;
use base::memory::Buffer;

/// Bytes that hidden keys add to a record.
fn hidden_len(keys: &[&[u8]]) -> usize {
    4 + keys.iter().map(|key| 4 + key.len()).sum::<usize>()
}

impl NewEnqueue<'_> {
    /// As [`NewEnqueue::record_len`], with hidden keys.
    pub fn hiding_len(&self, queues: usize, keys: &[&[u8]]) -> Option<usize> {
        let len = self.record_len(queues)?.checked_add(hidden_len(keys))?;
        (len - digests_len(self.keys) <= LEN_MAX).then(|| len.next_multiple_of(8))
    }

    /// Appends the record for `queues`, with hidden keys, to a buffer that ends at a multiple of eight bytes. Panics where
    /// [`NewEnqueue::hiding_len`] is `None`: ask it first.
    pub fn write_hiding(&self, keys: &[&[u8]], queues: &[QueueId], into: &mut Buffer) {
        assert!(self.hiding_len(queues.len(), keys).is_some(), "asked hiding_len before");
        let at = into.len();
        self.write(queues, into);
        let end = Enqueue::read(&into.bytes()[at..]).map(|written| written.body_end());
        into.truncate(at + end.expect("it was just written"));
        into.extend(&(keys.len() as u32).to_le_bytes());
        for key in keys {
            into.extend(&(key.len() as u32).to_le_bytes());
            into.extend(key);
        }
        into.pad_to(8);
        let len = into.len() - at;
        let record = &mut into.bytes_mut()[at..];
        record[0..4].copy_from_slice(&(len as u32).to_le_bytes());
        record[5] |= flag::HIDDEN_KEYS;
    }
}

impl Enqueue<'_> {
    /// Where its body ends, from the beginning of its record.
    fn body_end(&self) -> usize {
        let parts = [self.digests, self.queues, self.exchange, self.routing_key, self.head, self.body];
        ENQUEUE + parts.into_iter().map(<[u8]>::len).sum::<usize>()
    }
}

/// The hidden keys of the message whose record `bytes` begin with; none where it has none, or is not as it was written.
pub fn hidden_keys(bytes: &[u8]) -> Vec<&[u8]> {
    read(bytes).unwrap_or_default()
}

fn read(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let (Kind::Enqueue, record, _) = split(bytes)? else { return None };
    let message = Enqueue::read(record).filter(|message| message.flags & flag::HIDDEN_KEYS != 0)?;
    let mut reader = Reader::new(record.get(message.body_end()..)?);
    let count = reader.u32_le().ok()? as usize;
    let mut keys = Vec::new();
    for _ in 0..count {
        let len = reader.u32_le().ok()? as usize;
        keys.push(reader.take(len).ok()?);
    }
    Some(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Format;
    use proptest::prelude::*;

    fn message<'a>(body: &'a [&'a [u8]]) -> NewEnqueue<'a> {
        NewEnqueue {
            flags: flag::DURABLE,
            format: Format::Amqp091,
            priority: 0,
            received_at_ms: 1,
            expires_at_ms: 0,
            due_at_ms: 0,
            keys: None,
            exchange: b"amq.direct",
            routing_key: b"key",
            head: &[b"\0\0"],
            body,
        }
    }

    #[test]
    fn they_come_back_and_the_rest_is_as_without() {
        for body in [&b""[..], b"1", b"1234567", b"12345678"] {
            for keys in [&[][..], &[&b"one"[..]], &[&b""[..], b"two", &[7; 300]]] {
                let mut buffer = Buffer::default();
                buffer.extend(&[9; 16]);
                let bodies = [body];
                let new = message(&bodies);
                new.write_hiding(keys, &[QueueId(3), QueueId(4)], &mut buffer);
                let written = &buffer.bytes()[16..];
                assert!(written.len() <= new.hiding_len(2, keys).unwrap() && written.len().is_multiple_of(8));
                let (kind, record, rest) = split(written).unwrap();
                assert_eq!((kind, rest), (Kind::Enqueue, &b""[..]));
                assert_eq!(hidden_keys(written), keys);
                let read = Enqueue::read(record).unwrap();
                assert_eq!((read.body, read.flags), (body, flag::DURABLE | flag::HIDDEN_KEYS));
                let mut plain = Buffer::default();
                new.write(&[QueueId(3), QueueId(4)], &mut plain);
                assert!(hidden_keys(plain.bytes()).is_empty());
                let flags = read.flags;
                assert_eq!(Some(read), Enqueue::read(plain.bytes()).map(|plain| Enqueue { flags, ..plain }));
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200),
            count in any::<u32>(),
        ) {
            hidden_keys(&bytes);
            let mut buffer = Buffer::default();
            message(&[]).write_hiding(&[b"key"], &[], &mut buffer);
            let end = Enqueue::read(buffer.bytes()).unwrap().body_end();
            buffer.bytes_mut()[end..end + 4].copy_from_slice(&count.to_le_bytes());
            hidden_keys(buffer.bytes());
            bytes.splice(..0, buffer.bytes().iter().copied());
            hidden_keys(&bytes);
        }
    }
}
