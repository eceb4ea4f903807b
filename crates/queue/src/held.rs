//! The messages that consumers hold, as they are listed and found.

use crate::command::ConsumerId;
use crate::consumers::Consumers;
use base::id::QueueSeq;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A message that a consumer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldAt {
    /// Its position.
    pub seq: QueueSeq,
    /// Its holder.
    pub consumer: ConsumerId,
    /// Since when at least, milliseconds on the clock of [`crate::Fifo::look`]; none: nobody looks at what that consumer
    /// holds, or nobody did yet.
    pub since_ms: Option<u64>,
}

impl Consumers {
    /// The first `count_max` messages that are held from `from` on, lowest position first. It costs a step for each consumer,
    /// and for each message as many as the logarithm of their number.
    pub(crate) fn held_list(&self, from: QueueSeq, count_max: usize) -> Vec<HeldAt> {
        let held = |id: ConsumerId, from: u64| {
            let consumer = self.slots.get(id.0 as usize)?.as_ref()?;
            Some((consumer, consumer.unsettled.next_present(from)?))
        };
        // Each holder with its next position: the lowest is the next of all.
        let first = self.iter().filter_map(|(id, _)| Some(Reverse((held(id, from.0)?.1, id.0))));
        let mut next: BinaryHeap<Reverse<(u64, u32)>> = first.collect();
        let mut list = Vec::new();
        while list.len() < count_max
            && let Some(Reverse((seq, id))) = next.pop()
        {
            let id = ConsumerId(id);
            let Some((consumer, _)) = held(id, seq) else { continue };
            let since_ms = consumer.watch.as_ref().and_then(|watch| watch.since_ms(seq));
            list.push(HeldAt { seq: QueueSeq(seq), consumer: id, since_ms });
            next.extend(held(id, seq + 1).map(|(_, more)| Reverse((more, id.0))));
        }
        list
    }

    /// Those of `positions`, which are in order, that consumers hold, and their holders, in the same order. It costs a step for
    /// each consumer, and for each position that it holds or that lies between two of those the logarithm of how many they are.
    pub(crate) fn held_among(&self, positions: &[QueueSeq]) -> Vec<(QueueSeq, ConsumerId)> {
        let mut found = Vec::new();
        for (id, consumer) in self.iter() {
            let mut rest = positions;
            while let Some(first) = rest.first()
                && let Some(held) = consumer.unsettled.next_present(first.0)
            {
                rest = &rest[rest.partition_point(|position| position.0 < held)..];
                if let Some((first, behind)) = rest.split_first()
                    && first.0 == held
                {
                    found.push((*first, id));
                    rest = behind;
                }
            }
        }
        found.sort_unstable_by_key(|(position, _)| *position);
        found
    }

    /// The last position that one of the consumers holds of which `counts` is true.
    pub(crate) fn last_held(&self, counts: impl Fn(ConsumerId) -> bool) -> Option<QueueSeq> {
        let theirs = self.iter().filter(|(id, _)| counts(*id));
        let last = theirs.filter_map(|(_, consumer)| Some(consumer.unsettled.last()?.last)).max();
        last.map(QueueSeq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ranges::Range;

    /// 0 holds 10, 11, 13 and 14, 1 holds 2 and 3, 2 holds 12 and 30.
    fn three() -> Consumers {
        let mut consumers = Consumers::default();
        for (id, first, last) in [(0, 10, 11), (0, 13, 14), (1, 2, 3), (2, 12, 12), (2, 30, 30), (4, 20, 20)]
        {
            let id = ConsumerId(id);
            if consumers.slots.get(id.0 as usize).is_none_or(Option::is_none) {
                consumers.add_holder(id);
            }
            consumers.hold(id, Range { first, last });
        }
        consumers.remove(ConsumerId(4));
        consumers
    }

    #[test]
    fn the_first_that_are_held_are_listed_whoever_holds_them() {
        let consumers = three();
        let told = |from: u64, most: usize| -> Vec<(u64, u32)> {
            let list = consumers.held_list(QueueSeq(from), most);
            list.iter().map(|held| (held.seq.0, held.consumer.0)).collect()
        };
        assert_eq!(told(0, 0), []);
        assert_eq!(told(0, 3), [(2, 1), (3, 1), (10, 0)]);
        assert_eq!(told(11, 3), [(11, 0), (12, 2), (13, 0)]);
        assert_eq!(told(14, 100), [(14, 0), (30, 2)]);
    }
    #[test]
    fn holders_are_found_by_position() {
        let consumers = three();
        let check = |positions: &[u64], expected: &[(u64, u32)]| {
            let positions: Vec<QueueSeq> = positions.iter().map(|position| QueueSeq(*position)).collect();
            let found = consumers.held_among(&positions);
            let found: Vec<(u64, u32)> = found.iter().map(|(position, id)| (position.0, id.0)).collect();
            assert_eq!(found, expected, "{positions:?}");
        };
        check(&[], &[]);
        check(&[0, 1, 4, 9, 15, 20, 31, u64::MAX], &[]);
        check(&[0, 2, 11, 12, 13, 20, 30], &[(2, 1), (11, 0), (12, 2), (13, 0), (30, 2)]);
        check(&[3, 14], &[(3, 1), (14, 0)]);
        let last = |of: &[u32]| consumers.last_held(|id| of.contains(&id.0)).map(|last| last.0);
        assert_eq!(
            (last(&[0, 1, 2]), last(&[0, 1]), last(&[1]), last(&[4])),
            (Some(30), Some(14), Some(3), None)
        );
    }
}
