//! How far the records of other nodes, and of this one, have come into a log: the last number of each node.
//!
//! Part of the recorded state of a log: the same in each replica that applied as much. Numbers of one life of a node rise along
//! the log, and lives of a node follow on each other, so one number a node is enough: what is not above it is in the log for
//! the second time, or of a life that has ended, of which nobody waits for anything.

use base::cursor::{Reader, Short};
use base::id::NodeNo;
use base::{Pieces, Sink};
use message::record::{Origin, Stamp};

/// See the module's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origins {
    /// By their nodes, one of each.
    last: Vec<Stamp>,
}

impl Origins {
    /// Nothing came from anybody.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// Nodes of which something came.
    pub(crate) fn count(&self) -> usize {
        self.last.len()
    }

    /// The last number of a node, in its last life.
    pub(crate) fn of(&self, node: NodeNo) -> Option<Stamp> {
        let at = self.find(node).ok()?;
        Some(self.last[at])
    }

    /// The last number that is recorded of an origin; 0: none.
    pub(crate) fn recorded(&self, origin: Origin) -> u64 {
        self.of(origin.node).filter(|last| last.origin == origin).map_or(0, |last| last.number)
    }

    /// Records under this number come next in the log. False: they have come before.
    pub(crate) fn take(&mut self, stamp: Stamp) -> bool {
        match self.find(stamp.origin.node) {
            Ok(at) => {
                let last = &mut self.last[at];
                let is_new =
                    (stamp.origin.incarnation, stamp.number) > (last.origin.incarnation, last.number);
                if is_new {
                    *last = stamp;
                }
                is_new
            }
            Err(at) => {
                self.last.insert(at, stamp);
                true
            }
        }
    }

    fn find(&self, node: NodeNo) -> Result<usize, usize> {
        self.last.binary_search_by_key(&node, |last| last.origin.node)
    }

    /// ```text
    ///   0       4
    ///   | count | for each: node (4) | incarnation (8) | number (8) |
    /// ```
    pub(crate) fn write(&self, bytes: &mut impl Sink) {
        bytes.put(&(self.last.len() as u32).to_le_bytes());
        for Stamp { origin: Origin { node, incarnation }, number } in &self.last {
            bytes.put(&u32::from(node.0).to_le_bytes());
            bytes.put(&incarnation.to_le_bytes());
            bytes.put(&number.to_le_bytes());
        }
    }

    /// Reads what [`Origins::write`] wrote.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Origins, Short> {
        let mut origins = Origins::default();
        for _ in 0..reader.u32_le()? {
            let node = NodeNo(u16::try_from(reader.u32_le()?).map_err(|_| Short)?);
            let origin = Origin { node, incarnation: reader.u64_le()? };
            let stamp = Stamp { origin, number: reader.u64_le()? };
            if origins.last.last().is_some_and(|last| last.origin.node >= node) {
                return Err(Short);
            }
            origins.last.push(stamp);
        }
        Ok(origins)
    }
}

/// The number that a snapshot of a log begins with where origins follow; else it begins as before there were any.
const HAS_ORIGINS: u32 = 2;

impl Origins {
    /// The part of a log's snapshot in front of all others; nothing where nothing came from anybody.
    pub(crate) fn write_part(&self, bytes: &mut Pieces) {
        if !self.is_empty() {
            bytes.put(&HAS_ORIGINS.to_le_bytes());
            self.write(bytes);
        }
    }

    /// Splits what [`Origins::write_part`] wrote off a snapshot.
    pub(crate) fn split(bytes: &[u8]) -> Result<(Origins, &[u8]), Short> {
        let mut reader = Reader::new(bytes);
        if reader.u32_le()? != HAS_ORIGINS {
            return Ok((Origins::default(), bytes));
        }
        let origins = Origins::read(&mut reader)?;
        if origins.is_empty() { Err(Short) } else { Ok((origins, reader.rest())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(node: u16, incarnation: u64, number: u64) -> Stamp {
        Stamp { origin: Origin { node: NodeNo(node), incarnation }, number }
    }

    #[test]
    fn numbers_of_a_node_rise() {
        let mut origins = Origins::default();
        let mut check = |node, incarnation, number, expected, recorded| {
            let stamp = stamp(node, incarnation, number);
            assert_eq!(origins.take(stamp), expected, "{stamp:?}");
            assert_eq!(origins.recorded(stamp.origin), recorded, "{stamp:?}");
        };
        check(2, 5, 1, true, 1);
        check(2, 5, 1, false, 1);
        check(2, 5, 4, true, 4);
        check(2, 5, 3, false, 4);
        check(1, 9, 1, true, 1);
        check(3, 1, 2, true, 2);
        check(3, 1, 1, false, 2);
        // Its next life, and what is late of the one before.
        check(2, 6, 1, true, 1);
        check(2, 5, 5, false, 0);
        check(2, 6, 1, false, 1);
        assert_eq!(origins.count(), 3);
    }

    #[test]
    fn they_come_back_out_of_a_snapshot() {
        let mut origins = Origins::default();
        let mut written = Pieces::default();
        origins.write_part(&mut written);
        assert_eq!(written.size(), 0, "a log of one node has no such part");
        assert!([stamp(7, 1, 2), stamp(1, u64::MAX, 3)].into_iter().all(|stamp| origins.take(stamp)));
        origins.write_part(&mut written);
        written.put(b"rest");
        let written = written.to_vec();
        assert_eq!(Origins::split(&written), Ok((origins, &b"rest"[..])));
        for len in 4..written.len() - 4 {
            assert_eq!(Origins::split(&written[..len]), Err(Short), "{len}");
        }
        // None at all, and one twice.
        assert_eq!(Origins::split(&[2, 0, 0, 0, 0, 0, 0, 0]), Err(Short));
        let twice = [&written[..4], &[2, 0, 0, 0], &written[8..28], &written[8..28]].concat();
        assert_eq!(Origins::split(&twice), Err(Short));
        let other = [1, 0, 0, 0, 9];
        assert_eq!(Origins::split(&other), Ok((Origins::default(), &other[..])));
    }
}
