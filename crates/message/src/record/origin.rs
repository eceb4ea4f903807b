//! The record that says where the records behind it come from: which node sent them, in which of its lives, and under which
//! number.

use super::{HEADER, Kind};
use base::cursor::Reader;
use base::id::NodeNo;
use base::memory::Buffer;

/// A node in one of its lives. Of two lives of a node the later one has the higher number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The node.
    pub node: NodeNo,
    /// The number of its life.
    pub incarnation: u64,
}

/// The records behind it, up to the next of these or to the end of their batch, come from this origin, under this number.
/// Numbers of an origin rise along a log: records under one that does not are there for the second time, and have no effect.
///
/// ```text
///   0        4    5       6      8           16            24       32
///   | length | 16 | 0     | node | 0         | incarnation | number |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Where they come from.
    pub origin: Origin,
    /// Under which number; the first is 1.
    pub number: u64,
}

impl Stamp {
    /// Bytes of the record.
    pub const LEN: usize = 32;

    /// Reads a record of kind [`Kind::Origin`]; `None` where no version of ours wrote it.
    pub fn read(record: &[u8]) -> Option<Stamp> {
        let mut reader = Reader::new(record);
        let _length_and_kind = reader.take(5).ok()?;
        let zero = *reader.take(1).ok()?.first()?;
        let node = NodeNo(reader.u16_le().ok()?);
        let zeros = reader.u64_le().ok()?;
        let incarnation = reader.u64_le().ok()?;
        let number = reader.u64_le().ok()?;
        let is_ours = zero == 0 && zeros == 0 && reader.is_empty();
        is_ours.then_some(Stamp { origin: Origin { node, incarnation }, number })
    }

    /// Appends the record.
    pub fn write(&self, into: &mut Buffer) {
        let Stamp { origin: Origin { node, incarnation }, number } = *self;
        into.reserve(Stamp::LEN);
        into.extend(&(Stamp::LEN as u32).to_le_bytes());
        into.extend(&[Kind::Origin as u8, 0]);
        into.extend(&node.0.to_le_bytes());
        into.extend(&[0; HEADER]);
        into.extend(&incarnation.to_le_bytes());
        into.extend(&number.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::split;

    #[test]
    fn a_stamp_comes_back() {
        let origin = Origin { node: NodeNo(3), incarnation: 1 << 60 | 7 };
        let stamp = Stamp { origin, number: 9 };
        let mut records = Buffer::default();
        stamp.write(&mut records);
        let (kind, record, rest) = split(records.bytes()).unwrap();
        assert_eq!((kind, record.len(), rest.len()), (Kind::Origin, Stamp::LEN, 0));
        assert_eq!(Stamp::read(record), Some(stamp));
    }

    #[test]
    fn another_length_or_something_in_its_gaps_is_none_of_ours() {
        let mut records = Buffer::default();
        Stamp { origin: Origin::default(), number: 1 }.write(&mut records);
        let check = |at: Option<usize>, len: usize| {
            let mut bytes = records.bytes().to_vec();
            bytes.resize(len, 0);
            at.into_iter().for_each(|at| bytes[at] = 1);
            Stamp::read(&bytes).is_some()
        };
        assert!(check(None, Stamp::LEN));
        assert!(check(Some(6), Stamp::LEN) && check(Some(16), Stamp::LEN) && check(Some(24), Stamp::LEN));
        for at in [5, 8, 15] {
            assert!(!check(Some(at), Stamp::LEN), "{at}");
        }
        for len in [0, 8, Stamp::LEN - 8, Stamp::LEN + 8] {
            assert!(!check(None, len), "{len}");
        }
    }
}
