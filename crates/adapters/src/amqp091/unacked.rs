//! What a channel was sent and has not settled: delivery tags in order, each with its consumer and queue position.
//!
//! Tags rise by one, so the list is a ring indexed by tag: settling the oldest, or all up to a tag, is O(1) a message.
//! One settled out of order leaves a gap that goes when the oldest reaches it. Empty, it holds no memory.

use base::id::QueueSeq;
use std::collections::VecDeque;

/// A delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    /// Its consumer's handle.
    pub(super) consumer: u32,
    /// Its position in the consumer's queue.
    pub(super) seq: QueueSeq,
}

/// No consumer: the delivery was settled out of order, or needs no settling.
const GAP: u32 = u32::MAX;

/// The deliveries a channel has not settled.
#[derive(Debug, Default)]
pub(super) struct Unacked {
    /// The tag of the ring's first entry.
    first_tag: u64,
    ring: VecDeque<Delivery>,
    len: usize,
}

impl Unacked {
    /// Deliveries not settled.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.ring.capacity() * size_of::<Delivery>()
    }

    /// A delivery with this tag, higher than all before; tags between that need no settling are gaps.
    #[inline]
    pub(super) fn push(&mut self, tag: u64, delivery: Delivery) {
        if self.ring.is_empty() {
            self.first_tag = tag;
        }
        while self.first_tag + (self.ring.len() as u64) < tag {
            self.ring.push_back(Delivery { consumer: GAP, seq: QueueSeq(0) });
        }
        self.ring.push_back(delivery);
        self.len += 1;
    }

    /// Settles one delivery; `None`: there is none with this tag.
    #[inline]
    pub(super) fn take(&mut self, tag: u64) -> Option<Delivery> {
        let at = usize::try_from(tag.checked_sub(self.first_tag)?).ok()?;
        let entry = self.ring.get_mut(at).filter(|entry| entry.consumer != GAP)?;
        let taken = *entry;
        entry.consumer = GAP;
        self.len -= 1;
        self.drop_gaps();
        Some(taken)
    }

    /// Settles all deliveries up to `tag`, 0: all; false: there is none with this tag.
    #[inline]
    pub(super) fn take_through(&mut self, tag: u64, mut each: impl FnMut(Delivery)) -> bool {
        let count = if tag == 0 {
            self.ring.len()
        } else {
            let at = tag.checked_sub(self.first_tag).and_then(|at| usize::try_from(at).ok());
            match at.filter(|at| self.ring.get(*at).is_some_and(|entry| entry.consumer != GAP)) {
                Some(at) => at + 1,
                None => return false,
            }
        };
        for entry in self.ring.drain(..count) {
            if entry.consumer != GAP {
                self.len -= 1;
                each(entry);
            }
        }
        self.first_tag += count as u64;
        self.drop_gaps();
        true
    }

    #[inline]
    fn drop_gaps(&mut self) {
        while self.ring.front().is_some_and(|entry| entry.consumer == GAP) {
            self.ring.pop_front();
            self.first_tag += 1;
        }
        if self.ring.is_empty() && self.ring.capacity() > 1024 {
            self.ring = VecDeque::new();
        }
    }

    /// Whether something this consumer was sent is not settled.
    pub(super) fn holds(&self, consumer: u32) -> bool {
        self.ring.iter().any(|entry| entry.consumer == consumer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(seq: u64) -> Delivery {
        Delivery { consumer: 1, seq: QueueSeq(seq) }
    }

    fn through(unacked: &mut Unacked, tag: u64) -> Option<Vec<u64>> {
        let mut taken = Vec::new();
        unacked.take_through(tag, |delivery| taken.push(delivery.seq.0)).then_some(taken)
    }

    #[test]
    fn settles_in_any_order_once() {
        let mut unacked = Unacked::default();
        (1..=6).for_each(|tag| unacked.push(tag, delivery(10 + tag)));
        assert_eq!(unacked.take(3), Some(delivery(13)));
        assert_eq!(unacked.take(3), None);
        assert_eq!(through(&mut unacked, 3), None);
        assert_eq!(through(&mut unacked, 4), Some(vec![11, 12, 14]));
        assert_eq!(through(&mut unacked, 2), None);
        assert_eq!(unacked.take(7), None);
        assert_eq!(through(&mut unacked, 0), Some(vec![15, 16]));
        assert_eq!(through(&mut unacked, 0), Some(vec![]));
        unacked.push(9, delivery(9));
        assert_eq!((unacked.take(7), unacked.take(9), unacked.len()), (None, Some(delivery(9)), 0));
    }

    #[test]
    fn tags_that_need_no_settling_are_gaps() {
        let mut unacked = Unacked::default();
        unacked.push(1, delivery(1));
        unacked.push(4, delivery(4));
        assert_eq!((unacked.take(2), unacked.len()), (None, 2));
        assert_eq!(through(&mut unacked, 4), Some(vec![1, 4]));
    }

    #[test]
    fn knows_whose_deliveries_are_left() {
        let mut unacked = Unacked::default();
        unacked.push(1, delivery(1));
        unacked.push(2, Delivery { consumer: 2, seq: QueueSeq(5) });
        assert!(unacked.holds(1) && unacked.take(1).is_some() && !unacked.holds(1) && unacked.holds(2));
    }
}
