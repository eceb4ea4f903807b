//! Positions of the usual priority that are ready: those that came back, and those from the cursor on.
//!
//! Volatile. Some positions at or above the cursor are *gone ahead*: settled, or ready in another way than through the cursor.
//! How many there are stands here, which they are does not.
//! Invariant: a position that came back is live and below the cursor.

use crate::effect::Effects;
use crate::live::Live;
use base::RangeSet;
use base::ranges::Range;
use message::record::{Kind, Outcome};

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// Positions below it were handed out, or are gone.
    cursor: u64,
    /// Positions at or above the cursor that are not ready through it.
    gone_ahead: u64,
    /// Positions that came back from consumers.
    returned: RangeSet,
    /// Positions below it may have been handed out by an owner before.
    redelivered_below: u64,
}

impl Ready {
    /// Positions below it were handed out, or are gone.
    #[inline]
    pub(crate) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Positions that came back from consumers.
    #[inline]
    pub(crate) fn returned(&self) -> &RangeSet {
        &self.returned
    }

    /// Positions below it may have been handed out by an owner before.
    #[inline]
    pub(crate) fn redelivered_below(&self) -> u64 {
        self.redelivered_below
    }

    /// Some position at or above the cursor is not ready through it.
    #[inline]
    pub(crate) fn has_gone_ahead(&self) -> bool {
        self.gone_ahead > 0
    }

    /// Ready positions, in a queue whose next position this is.
    #[inline]
    pub(crate) fn count(&self, next_seq: u64) -> u64 {
        self.returned.count() + (next_seq - self.cursor) - self.gone_ahead
    }

    /// Everything live is ready.
    pub(crate) fn begin(&mut self, live: &Live) {
        self.cursor = live.head();
        self.gone_ahead = live.settled().count();
    }

    /// Another owner begins: nothing came back to it, and positions below that one may have been handed out.
    pub(crate) fn forget(&mut self, redelivered_below: u64) {
        self.returned.clear();
        self.redelivered_below = redelivered_below;
    }

    /// So many positions at or above the cursor are ready through it no more.
    #[inline]
    pub(crate) fn hide(&mut self, count: u64) {
        self.gone_ahead += count;
    }

    /// So many of those are ready through it again, or gone.
    #[inline]
    pub(crate) fn show(&mut self, count: u64) {
        self.gone_ahead -= count;
    }

    /// Live positions are about to be settled, none of which is hidden.
    #[inline]
    pub(crate) fn leave(&mut self, part: Range) {
        if part.last >= self.cursor {
            self.gone_ahead += part.last + 1 - part.first.max(self.cursor);
        }
        if !self.returned.is_empty() {
            self.returned.remove(part, |_| {});
        }
    }

    /// The cursor is not below the head.
    #[inline]
    pub(crate) fn keep_up(&mut self, head: u64) {
        if self.cursor < head {
            // All of this was settled at or above the cursor.
            self.pass(head);
        }
    }

    /// The cursor moves over positions that are gone ahead, all of them.
    #[inline]
    pub(crate) fn pass(&mut self, to: u64) {
        self.gone_ahead -= to - self.cursor;
        self.cursor = to;
    }

    /// The cursor moves over positions that are handed out, all of them.
    #[inline]
    pub(crate) fn hand_out(&mut self, to: u64) {
        self.cursor = to;
    }

    /// Positions below the cursor are ready again.
    #[inline]
    pub(crate) fn put_back(&mut self, range: Range) {
        self.returned.insert(range);
    }

    /// Positions that came back are ready no more.
    #[inline]
    pub(crate) fn take_returned(&mut self, range: Range) {
        self.returned.remove(range, |_| {});
    }

    /// Everything that is ready is to be thrown away.
    pub(crate) fn purge(&mut self, live: &Live, effects: &mut Effects) {
        for range in std::mem::take(&mut self.returned).iter() {
            effects.append(Kind::Purge, Outcome::Released, range);
        }
        if self.cursor < live.next_seq() {
            let ahead = Range { first: self.cursor, last: live.next_seq() - 1 };
            live.parts(ahead).for_each(|part| effects.append(Kind::Purge, Outcome::Released, part));
        }
        self.cursor = live.next_seq();
        self.gone_ahead = 0;
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.returned.heap_bytes()
    }
}
