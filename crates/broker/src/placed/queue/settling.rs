//! Many positions settled at once that do not follow on each other: one look-up of the consumer, one record.

use crate::placed::queue::at::AtQueue;
use crate::placed::queue::commands::NO_CONSUMER;
use crate::placed::queue::owned::Member;
use crate::tally::Count;
use crate::turn::Turn;
use message::record::{Outcome, SeqRange};
use queue::Command;

impl AtQueue<'_> {
    /// `member` accepts all of `ranges`, in the order of a queue's positions.
    #[cold]
    #[inline(never)]
    pub(crate) fn accept_all(&mut self, turn: &mut Turn<'_>, member: Member, ranges: &[SeqRange]) {
        let owned = &*self.queue;
        if let Some(features) = &owned.features
            && owned.is_quorum()
        {
            if features.has_late {
                ranges.iter().for_each(|range| self.settle_late(member, *range));
            }
            self.used(turn.now);
        }
        let owned = &mut *self.queue;
        let accepted = ranges.iter().map(|range| range.last.0 - range.first.0 + 1).sum();
        owned.count(Count::Ack, accepted);
        let held_ns = ranges.iter().find_map(|range| owned.watched(*range, turn.now));
        held_ns
            .into_iter()
            .for_each(|held_ns| self.commons.figures.latencies.deliver_to_settle.add(held_ns, 1));
        let owned = &mut *self.queue;
        let Some(consumer) = owned.find(member) else {
            let outcome = Outcome::Accepted;
            let settle = |range: &SeqRange| Command::Settle { consumer: NO_CONSUMER, range: *range, outcome };
            return ranges.iter().for_each(|range| self.tell_browser(member, settle(range)));
        };
        owned.fifo.accept_together(consumer, ranges.iter().copied(), &mut self.commons.effects);
        self.carry_out(turn, None);
        self.mark_dirty();
    }
}
