//! The messages that consumers hold, as they are listed.

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
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ranges::Range;

    #[test]
    fn the_first_that_are_held_are_listed_whoever_holds_them() {
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
        let told = |from: u64, most: usize| -> Vec<(u64, u32)> {
            let list = consumers.held_list(QueueSeq(from), most);
            list.iter().map(|held| (held.seq.0, held.consumer.0)).collect()
        };
        assert_eq!(told(0, 0), []);
        assert_eq!(told(0, 3), [(2, 1), (3, 1), (10, 0)]);
        assert_eq!(told(11, 3), [(11, 0), (12, 2), (13, 0)]);
        assert_eq!(told(14, 100), [(14, 0), (30, 2)]);
    }
}
