//! A queue without features as a line: first in, first out; messages that come back go first, at their original
//! position.
//!
//! Not here: the choice of consumers, where bytes are, and anything about a message but how often it came back.

use crate::delivery::Delivery;
use crate::live::Live;
use crate::ready::Ready;
use crate::returns::Returns;
use base::ranges::Range;

/// The parts that every queue has. See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Line {
    pub(crate) live: Live,
    pub(crate) ready: Ready,
    pub(crate) returns: Returns,
}

impl Line {
    /// Takes up to `count_max` positions that are ready and alike.
    #[inline(always)]
    pub(crate) fn next(&mut self, count_max: u64) -> Option<Delivery> {
        if let Some(first) = self.ready.returned().first() {
            return Some(self.next_returned(first, count_max));
        }
        let mut end = self.live.next_seq();
        if self.ready.has_gone_ahead() {
            let first = self.live.settled().next_absent(self.ready.cursor());
            self.ready.pass(first);
            end = self.live.settled().next_present(first).unwrap_or(end);
        }
        let first = self.ready.cursor();
        if first == self.live.next_seq() {
            return None;
        }
        end = end.min(first.saturating_add(count_max));
        let delivery = self.fresh(Range { first, last: end - 1 });
        self.ready.hand_out(delivery.range.last + 1);
        Some(delivery)
    }

    /// The first of `range`, which this owner never handed out, and those behind it that are alike.
    #[inline(always)]
    pub(crate) fn fresh(&self, range: Range) -> Delivery {
        let mut delivery = Delivery::first_time(range);
        let redelivered_below = self.ready.redelivered_below();
        if range.first < redelivered_below {
            delivery.redelivered = true;
            delivery.range.last = delivery.range.last.min(redelivered_below - 1);
            self.returns.fill_in(&mut delivery);
        }
        delivery
    }

    /// The first of `range`, which came back, and those behind it that are alike.
    pub(crate) fn again(&self, range: Range) -> Delivery {
        let mut delivery = Delivery { redelivered: true, ..Delivery::first_time(range) };
        self.returns.fill_in(&mut delivery);
        delivery
    }

    /// Takes up to `count_max` positions of those that came back.
    #[cold]
    pub(crate) fn next_returned(&mut self, of: Range, count_max: u64) -> Delivery {
        let last = of.last.min(of.first.saturating_add(count_max - 1));
        let delivery = self.again(Range { first: of.first, last });
        self.ready.take_returned(delivery.range);
        delivery
    }

    /// Positions that are ready in this line.
    #[inline]
    pub(crate) fn ready_count(&self) -> u64 {
        self.ready.count(self.live.next_seq())
    }

    /// Everything about live positions but their being settled.
    #[inline]
    pub(crate) fn leave(&mut self, part: Range) {
        self.ready.leave(part);
        self.live.leave(part);
        self.returns.leave(part);
    }

    /// Positions that have left are settled.
    #[inline]
    pub(crate) fn settle(&mut self, range: Range) {
        self.live.settle(range);
        self.ready.keep_up(self.live.head());
    }

    /// As [`Line::settle`], of some positions of the block that begins at `block`.
    pub(crate) fn settle_bits(&mut self, block: u64, bits: u64) {
        self.live.settle_bits(block, bits);
        self.ready.keep_up(self.live.head());
    }

    /// Everything live is ready.
    pub(crate) fn begin(&mut self) {
        self.ready.begin(&self.live);
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.live.heap_bytes() + self.ready.heap_bytes() + self.returns.heap_bytes()
    }
}
