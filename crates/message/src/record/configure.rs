//! The record of the settings by which a queue keeps its messages: of kind [`Kind::Configure`].

use super::Kind;
use base::cursor::Reader;
use base::id::QueueId;
use base::memory::Buffer;

/// Which messages' sizes a queue keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SizesKept {
    /// None's.
    #[default]
    None,
    /// Sizes of those that come: a limit in bytes asked for these before [`super::Weigh`] could say more.
    Coming,
    /// Of those that come, and, once [`super::Weigh`] says them, of those that are there.
    All,
}

/// The settings by which a queue keeps its messages, from this record on.
///
/// ```text
///   0        4   5       6              7   8          16        24           32
///   | length | 9 | flags | priority max | 0 | queue id | at (ms) | ttl (ms) |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configure {
    /// The queue.
    pub queue: QueueId,
    /// How long a message lives in it at most, milliseconds.
    pub ttl_ms: Option<u64>,
    /// The highest priority that counts, where any does by declaration.
    pub priority_max: Option<u8>,
    /// Which messages' sizes are kept.
    pub sizes: SizesKept,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
}

/// Bytes of a configure record.
const CONFIGURE: usize = 32;
const HAS_TTL: u8 = 1;
const HAS_PRIORITY: u8 = 2;
const HAS_SIZES: u8 = 4;
/// Goes with [`HAS_SIZES`] alone.
const WEIGHS: u8 = 32;

impl Configure {
    /// Reads a record of kind [`Kind::Configure`]; flags no version of ours writes make it `None`.
    pub fn read(record: &[u8]) -> Option<Configure> {
        let mut reader = Reader::new(record);
        let _length_and_kind = reader.take(5).ok()?;
        let (flags, priority_max, zero) = (reader.u8().ok()?, reader.u8().ok()?, reader.u8().ok()?);
        let queue = QueueId(reader.u64_le().ok()?);
        let (at_ms, ttl_ms) = (reader.u64_le().ok()?, reader.u64_le().ok()?);
        let is_known = flags & !(HAS_TTL | HAS_PRIORITY | HAS_SIZES | WEIGHS) == 0 && zero == 0;
        let is_known = is_known && flags & (HAS_SIZES | WEIGHS) != WEIGHS;
        is_known.then_some(Configure {
            queue,
            ttl_ms: (flags & HAS_TTL != 0).then_some(ttl_ms),
            priority_max: (flags & HAS_PRIORITY != 0).then_some(priority_max),
            sizes: match flags & (HAS_SIZES | WEIGHS) {
                0 => SizesKept::None,
                HAS_SIZES => SizesKept::Coming,
                _ => SizesKept::All,
            },
            at_ms,
        })
    }

    /// Appends the record.
    pub fn write(&self, into: &mut Buffer) {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.ttl_ms.is_some(), HAS_TTL)
            | flag(self.priority_max.is_some(), HAS_PRIORITY)
            | flag(self.sizes != SizesKept::None, HAS_SIZES)
            | flag(self.sizes == SizesKept::All, WEIGHS);
        let mut record = [0; CONFIGURE];
        record[0..4].copy_from_slice(&(CONFIGURE as u32).to_le_bytes());
        record[4..7].copy_from_slice(&[Kind::Configure as u8, flags, self.priority_max.unwrap_or(0)]);
        record[8..16].copy_from_slice(&self.queue.0.to_le_bytes());
        record[16..24].copy_from_slice(&self.at_ms.to_le_bytes());
        record[24..32].copy_from_slice(&self.ttl_ms.unwrap_or(0).to_le_bytes());
        into.extend(&record);
    }
}

#[cfg(test)]
mod tests {
    use super::super::split;
    use super::*;

    #[test]
    fn configure_comes_back() {
        let some = [None, Some(0), Some(7)];
        for (ttl_ms, priority_max) in some.into_iter().flat_map(|ttl| some.map(|max| (ttl, max))) {
            for sizes in [SizesKept::None, SizesKept::Coming, SizesKept::All] {
                let priority_max = priority_max.map(|max| max as u8);
                let new = Configure { queue: QueueId(9), ttl_ms, priority_max, sizes, at_ms: 5 };
                let mut buffer = Buffer::default();
                new.write(&mut buffer);
                let (kind, record, rest) = split(buffer.bytes()).unwrap();
                assert_eq!((kind, Configure::read(record), rest), (Kind::Configure, Some(new), &[][..]));
            }
        }
        let mut buffer = Buffer::default();
        let sizes = SizesKept::None;
        Configure { queue: QueueId(9), ttl_ms: None, priority_max: None, sizes, at_ms: 5 }.write(&mut buffer);
        for unknown in [8, WEIGHS, 64] {
            buffer.bytes_mut()[5] = unknown;
            assert_eq!(Configure::read(buffer.bytes()), None);
        }
    }
}
