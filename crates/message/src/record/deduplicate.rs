//! The record from which on a queue passes over messages whose key it has seen: of kind [`Kind::Configure`] and with a
//! flag of its own, so that there are no more kinds of records to tell apart.

use super::Kind;
use base::cursor::Reader;
use base::id::QueueId;
use base::memory::Buffer;

/// From here on a queue passes over messages whose key is in its window.
///
/// ```text
///   0        4   5       6   8          16        24         32         36  40
///   | length | 9 | flags | 0 | queue id | at (ms) | ttl (ms) | keys max | 0 |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deduplicate {
    /// The queue.
    pub queue: QueueId,
    /// Keys the window has at most, above 0.
    pub keys_max: u32,
    /// How long a key stays in it, milliseconds.
    pub ttl_ms: Option<u64>,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
}

const LEN: usize = 40;
const HAS_TTL: u8 = 1;
const IS_WINDOW: u8 = 8;

impl Deduplicate {
    /// Reads a record of kind [`Kind::Configure`]; one of another flag, or that no version of ours writes, makes it `None`.
    pub fn read(record: &[u8]) -> Option<Deduplicate> {
        let mut reader = Reader::new(record);
        let _length_and_kind = reader.take(5).ok()?;
        let (flags, zero) = (reader.u8().ok()?, reader.u16_le().ok()?);
        let queue = QueueId(reader.u64_le().ok()?);
        let (at_ms, ttl_ms) = (reader.u64_le().ok()?, reader.u64_le().ok()?);
        let (keys_max, reserved) = (reader.u32_le().ok()?, reader.u32_le().ok()?);
        let is_known = flags & !HAS_TTL == IS_WINDOW && zero == 0 && reserved == 0 && keys_max > 0;
        let ttl_ms = (flags & HAS_TTL != 0).then_some(ttl_ms);
        is_known.then_some(Deduplicate { queue, keys_max, ttl_ms, at_ms })
    }

    /// Appends the record.
    pub fn write(&self, into: &mut Buffer) {
        let flags = IS_WINDOW | if self.ttl_ms.is_some() { HAS_TTL } else { 0 };
        let mut record = [0; LEN];
        record[0..4].copy_from_slice(&(LEN as u32).to_le_bytes());
        record[4..6].copy_from_slice(&[Kind::Configure as u8, flags]);
        record[8..16].copy_from_slice(&self.queue.0.to_le_bytes());
        record[16..24].copy_from_slice(&self.at_ms.to_le_bytes());
        record[24..32].copy_from_slice(&self.ttl_ms.unwrap_or(0).to_le_bytes());
        record[32..36].copy_from_slice(&self.keys_max.to_le_bytes());
        into.extend(&record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Configure, split};

    #[test]
    fn reads_back() {
        for ttl_ms in [None, Some(0), Some(u64::MAX)] {
            let record = Deduplicate { queue: QueueId(7), keys_max: 128, ttl_ms, at_ms: 5 };
            let mut buffer = Buffer::default();
            record.write(&mut buffer);
            let (kind, bytes, rest) = split(buffer.bytes()).unwrap();
            assert_eq!((kind, Deduplicate::read(bytes), rest.len()), (Kind::Configure, Some(record), 0));
            assert_eq!(Configure::read(bytes), None);
            for len in 0..bytes.len() {
                assert_eq!(Deduplicate::read(&bytes[..len]), None);
            }
            for at in [5, 6, 7, 36, 39] {
                let mut other = bytes.to_vec();
                other[at] |= 2;
                assert_eq!(Deduplicate::read(&other), None, "byte {at}");
            }
        }
    }
}
