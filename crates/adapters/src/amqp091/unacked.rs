//! Unacknowledged deliveries of a channel: delivery tags in order, each with its consumer and queue position.
//!
//! Settling the oldest, or all up to a tag, is O(1) a message; another is found by a guess that holds while tags follow
//! on each other, else by halving. One settled out of order leaves a gap, which goes when the oldest reaches it or when
//! gaps are the most: so the memory is that of the unsettled ones, however many went by. Empty, it holds none.
//!
//! Invariant: the first entry is no gap.

use base::id::QueueSeq;
use std::collections::VecDeque;

/// A delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    /// Its consumer's handle, marked where its lease is over ([`Delivery::holder`]).
    pub(super) consumer: u32,
    /// Its position in the consumer's queue.
    pub(super) seq: QueueSeq,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    tag: u64,
    delivery: Delivery,
}

/// The bit of a consumer's handle that says that the delivery's lease is over. It is part of no handle.
const OVER: u32 = broker::LEASED;

impl Delivery {
    /// Its lease is over from now on.
    pub(super) fn over(self) -> Delivery {
        Delivery { consumer: self.consumer | OVER, ..self }
    }

    /// Its consumer's handle, be its lease over or not.
    pub(super) fn holder(&self) -> u32 {
        self.consumer & !OVER
    }
}

/// The handle without its mark, if it is that of a delivery whose lease is over.
pub(super) fn whose_is_over(handle: u32) -> Option<u32> {
    (handle & OVER != 0).then_some(handle & !OVER)
}

/// No consumer: the delivery was settled out of order.
const GAP: u32 = u32::MAX;

/// Gaps that are left alone, however few the others are.
const GAPS_MIN: usize = 64;

/// Entries whose memory is kept when nothing is left, and is not counted in the ledger.
const KEPT_MAX: usize = 1024;

/// The deliveries a channel has not settled.
#[derive(Debug, Default)]
pub(super) struct Unacked {
    ring: VecDeque<Entry>,
    gaps: u32,
    /// Entries that its counted memory had room for when that was asked last.
    told: u32,
}

impl Unacked {
    pub(super) fn heap_bytes(&self) -> usize {
        self.ring.capacity() * size_of::<Entry>()
    }

    /// Bytes of memory that are to be counted in the ledger.
    pub(super) fn counted_bytes(&self) -> usize {
        if self.ring.capacity() > KEPT_MAX { self.heap_bytes() } else { 0 }
    }

    /// Whether they have changed since this was asked last.
    #[inline]
    pub(super) fn take_resized(&mut self) -> bool {
        let counted = (self.counted_bytes() / size_of::<Entry>()) as u32;
        std::mem::replace(&mut self.told, counted) != counted
    }

    /// Deliveries that are not settled.
    pub(super) fn len(&self) -> usize {
        self.ring.len() - self.gaps as usize
    }

    /// They, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = Delivery> {
        self.ring.iter().map(|entry| entry.delivery).filter(|delivery| delivery.consumer != GAP)
    }

    /// A delivery with this tag, higher than all before.
    #[inline]
    pub(super) fn push(&mut self, tag: u64, delivery: Delivery) {
        debug_assert!(self.ring.back().is_none_or(|last| last.tag < tag));
        self.ring.push_back(Entry { tag, delivery });
    }

    /// Where the delivery with this tag is, unless it is settled.
    #[inline]
    fn find(&self, tag: u64) -> Option<usize> {
        let guess = usize::try_from(tag.checked_sub(self.ring.front()?.tag)?).ok()?;
        let at = match self.ring.get(guess) {
            Some(entry) if entry.tag == tag => guess,
            _ => self.ring.binary_search_by_key(&tag, |entry| entry.tag).ok()?,
        };
        (self.ring[at].delivery.consumer != GAP).then_some(at)
    }

    /// Settles one delivery; `None`: there is none with this tag.
    #[inline]
    pub(super) fn take(&mut self, tag: u64) -> Option<Delivery> {
        let at = self.find(tag)?;
        let taken = self.ring[at].delivery;
        self.ring[at].delivery.consumer = GAP;
        self.gaps += 1;
        self.drop_gaps();
        Some(taken)
    }

    /// Settles all deliveries up to `tag`, 0: all; false: there is none with this tag.
    #[inline]
    pub(super) fn take_through(&mut self, tag: u64, mut each: impl FnMut(u64, Delivery)) -> bool {
        let count = match (tag, self.find(tag)) {
            (0, _) => self.ring.len(),
            (_, Some(at)) => at + 1,
            (_, None) => return false,
        };
        for Entry { tag, delivery } in self.ring.drain(..count) {
            if delivery.consumer == GAP {
                self.gaps -= 1;
            } else {
                each(tag, delivery);
            }
        }
        self.drop_gaps();
        true
    }

    /// Leases are over of those that are meant, by consumer and position, of which there are `most` at most: they are marked,
    /// and told. It costs a step for each entry up to the last of them.
    pub(super) fn end_leases(
        &mut self,
        most: u64,
        is_meant: impl Fn(Delivery) -> bool,
        mut each: impl FnMut(Delivery),
    ) {
        let mut left = most;
        for Entry { delivery, .. } in &mut self.ring {
            if left == 0 {
                break;
            }
            if whose_is_over(delivery.consumer).is_none() && is_meant(*delivery) {
                each(*delivery);
                *delivery = delivery.over();
                left -= 1;
            }
        }
    }

    /// Takes back taken deliveries, which were not settled after all.
    pub(super) fn put_back(&mut self, taken: impl Iterator<Item = (u64, Delivery)>) {
        let mut entries: Vec<Entry> = std::mem::take(&mut self.ring).into();
        entries.retain(|entry| entry.delivery.consumer != GAP);
        entries.extend(taken.map(|(tag, delivery)| Entry { tag, delivery }));
        entries.sort_by_key(|entry| entry.tag);
        self.ring = entries.into();
        self.gaps = 0;
    }

    #[inline]
    fn drop_gaps(&mut self) {
        while self.gaps > 0 && self.ring.front().is_some_and(|entry| entry.delivery.consumer == GAP) {
            self.ring.pop_front();
            self.gaps -= 1;
        }
        let gaps = self.gaps as usize;
        if gaps > GAPS_MIN && gaps > self.ring.len() / 2 {
            self.close_gaps();
        }
        if self.ring.is_empty() && self.ring.capacity() > KEPT_MAX {
            self.ring = VecDeque::new();
        }
    }

    #[cold]
    fn close_gaps(&mut self) {
        self.ring.retain(|entry| entry.delivery.consumer != GAP);
        self.ring.shrink_to(2 * self.ring.len());
        self.gaps = 0;
    }

    /// The last tag up to `most` of this consumer's unsettled deliveries. Asked again with its own answer, it goes on
    /// from there: nothing is looked at twice.
    pub(super) fn newest_of(&self, consumer: u32, most: u64) -> Option<u64> {
        let guess = usize::try_from(most.checked_sub(self.ring.front()?.tag)?).unwrap_or(usize::MAX);
        let len = match self.ring.get(guess) {
            Some(entry) if entry.tag == most => guess + 1,
            _ => self.ring.partition_point(|entry| entry.tag <= most),
        };
        let is_its = |entry: &&Entry| entry.delivery.holder() == consumer;
        self.ring.range(..len).rev().find(is_its).map(|entry| entry.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn delivery(seq: u64) -> Delivery {
        Delivery { consumer: 1, seq: QueueSeq(seq) }
    }

    fn through(unacked: &mut Unacked, tag: u64) -> Option<Vec<u64>> {
        let mut taken = Vec::new();
        unacked.take_through(tag, |_, delivery| taken.push(delivery.seq.0)).then_some(taken)
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
        assert_eq!((unacked.take(7), unacked.take(9), unacked.take(9)), (None, Some(delivery(9)), None));
    }

    #[test]
    fn tags_that_need_no_settling_are_not_there() {
        let mut unacked = Unacked::default();
        [1, 4, 5].into_iter().for_each(|tag| unacked.push(tag, delivery(tag)));
        assert_eq!((unacked.take(2), unacked.take(5)), (None, Some(delivery(5))));
        assert_eq!(through(&mut unacked, 3), None);
        assert_eq!(through(&mut unacked, 4), Some(vec![1, 4]));
    }

    #[test]
    fn one_held_for_long_costs_no_more_than_itself() {
        let mut unacked = Unacked::default();
        unacked.push(1, delivery(1));
        for tag in 2..100_000 {
            unacked.push(tag, delivery(tag));
            assert_eq!(unacked.take(tag), Some(delivery(tag)));
        }
        assert!(unacked.heap_bytes() < 16 << 10, "{} bytes", unacked.heap_bytes());
        assert_eq!(through(&mut unacked, 0), Some(vec![1]));
    }

    #[test]
    fn marks_those_whose_leases_are_over_once() {
        let mut unacked = Unacked::default();
        (1..=4).for_each(|tag| unacked.push(tag, delivery(10 + tag)));
        unacked.take(2);
        let end = |unacked: &mut Unacked, most: u64, seqs: &[u64]| {
            let mut told = Vec::new();
            let is_meant = |delivery: Delivery| seqs.contains(&delivery.seq.0);
            unacked.end_leases(most, is_meant, |delivery| told.push(delivery.seq.0));
            told
        };
        assert_eq!(end(&mut unacked, 3, &[12, 13]), [13], "one is settled");
        assert_eq!(end(&mut unacked, 9, &[13]), [], "it is marked");
        assert_eq!(end(&mut unacked, 1, &[11, 14]), [11], "no further than it is asked for");
        let taken = unacked.take(3).unwrap();
        assert_eq!((whose_is_over(taken.consumer), taken.holder()), (Some(1), 1));
        assert_eq!(unacked.newest_of(1, u64::MAX), Some(4));
        assert_eq!(unacked.newest_of(1, 3), Some(1), "what is over is its holder's");
        assert_eq!(unacked.take(4).map(|taken| whose_is_over(taken.consumer)), Some(None));
    }

    #[test]
    fn what_is_put_back_is_in_its_place() {
        let mut unacked = Unacked::default();
        (1..=6).for_each(|tag| unacked.push(tag, delivery(10 + tag)));
        let taken: Vec<_> = [5, 2, 1].into_iter().map(|tag| (tag, unacked.take(tag).unwrap())).collect();
        assert_eq!(through(&mut unacked, 3), Some(vec![13]));
        unacked.put_back(taken.into_iter());
        assert_eq!(unacked.take(3), None);
        assert_eq!(through(&mut unacked, 4), Some(vec![11, 12, 14]));
        assert_eq!(through(&mut unacked, 0), Some(vec![15, 16]));
    }

    proptest! {
        #[test]
        fn no_change_of_what_is_counted_is_untold(
            steps in prop::collection::vec((0u8..5, 1usize..3000), 0..40),
        ) {
            let mut unacked = Unacked::default();
            let (mut last, mut noted) = (0, 0);
            for (step, number) in steps {
                let oldest = last + 1 - (unacked.len() as u64).min(last);
                for at in 0..number as u64 {
                    match step {
                        0 | 1 => {
                            last += 1;
                            unacked.push(last, delivery(last));
                        }
                        2 => drop(unacked.take(oldest + 2 * at)),
                        _ => {
                            unacked.take_through(if step == 3 { oldest + at } else { 0 }, |_, _| ());
                        }
                    }
                    if unacked.take_resized() {
                        noted = unacked.counted_bytes();
                    }
                    prop_assert_eq!(noted, unacked.counted_bytes());
                }
            }
        }

        #[test]
        fn knows_whose_deliveries_are_left(
            steps in prop::collection::vec((0u8..8, 1u64..40, 1u32..4), 0..400),
        ) {
            let mut unacked = Unacked::default();
            // A model of which consumer's the tags are; the consumer that was found last is handed no more.
            let mut model = std::collections::BTreeMap::new();
            let (mut last, mut known) = (0u64, None::<(u32, u64)>);
            for (step, number, consumer) in steps {
                match step {
                    0 => {
                        let at = last.saturating_sub(number);
                        let is_there = at == 0 || model.contains_key(&at);
                        prop_assert_eq!(unacked.take_through(at, |_, _| ()), is_there);
                        if is_there {
                            model.retain(|tag, _| at > 0 && *tag > at);
                        }
                    }
                    1 | 2 => {
                        let at = last.saturating_sub(number);
                        prop_assert_eq!(unacked.take(at).is_some(), model.remove(&at).is_some());
                    }
                    3 => known = Some(known.filter(|(of, _)| *of == consumer).unwrap_or((consumer, u64::MAX))),
                    _ => {
                        // Of some there is nothing to settle.
                        last += 1 + number / 38;
                        // A cancelled consumer is sent nothing.
                        let consumer = if known.is_some_and(|(of, _)| of == consumer) { 9 } else { consumer };
                        unacked.push(last, Delivery { consumer, seq: QueueSeq(last) });
                        model.insert(last, consumer);
                    }
                }
                if let Some((of, most)) = &mut known {
                    let left = model.iter().rev().find(|(_, consumer)| *consumer == of).map(|(tag, _)| *tag);
                    prop_assert_eq!(unacked.newest_of(*of, *most), left);
                    *most = left.unwrap_or(*most);
                }
            }
        }
    }
}
