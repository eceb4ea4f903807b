//! The order in which a queue with features hands out: finds the next positions, and takes them.
//!
//! Higher priorities go first; messages that came back go before those that never were out, unless older ones of their
//! priority were never out. A message that was delayed when it came is in line behind those that were there when it was
//! due. Of messages in groups a consumer is given those it may have, others are passed. Behind a barrier nothing is
//! handed out.
//!
//! Where priorities take turns, the next messages are one position here and one there. To a consumer that can take
//! several go all positions of one priority in a block, as bits. Positions that are not that simple (came back, wait in
//! line, are of a long stretch of one priority, or may have been out before) are handed out by ranges.

use super::Features;
use crate::command::ConsumerId;
use crate::delivery::Delivery;
use crate::levels::Next;
use crate::line::Line;
use crate::priority_blocks::{BLOCK, Block, block_of};
use crate::settings::Priorities;
use base::ranges::Range;

/// Positions that are handed out at once.
pub(crate) enum Given {
    /// They follow on each other.
    Range(Delivery),
    /// These of the block that begins there.
    Scattered(u64, u64),
}

impl Given {
    fn new(block: u64, bits: u64) -> Given {
        let run = Block::run_of(block, bits);
        if run.len() == u64::from(bits.count_ones()) {
            return Given::Range(Delivery::first_time(run));
        }
        Given::Scattered(block, bits)
    }
}

impl Features {
    /// Takes up to `count_max` positions that are ready and alike.
    pub(crate) fn next(&mut self, line: &mut Line, count_max: u64) -> Option<Delivery> {
        let next = self.next_in_front(line, count_max);
        let next = next.or_else(|| self.next_passed(line)).or_else(|| self.next_behind(line, count_max));
        next.inspect(|delivery| self.take_ready(delivery.range))
    }

    /// Takes one position for `id`, out of turn; `is_consumed`: there are consumers besides.
    pub(crate) fn next_one(
        &mut self,
        id: ConsumerId,
        line: &mut Line,
        is_consumed: bool,
    ) -> Option<Delivery> {
        if let Some(groups) = &mut self.groups {
            groups.begin_one();
            return self.next_for(id, line);
        }
        if self.barriers.is_some() {
            return self.next_barred(line, is_consumed);
        }
        self.next(line, 1)
    }

    /// As [`Features::next`], of positions in front of the first barrier.
    pub(crate) fn next_unbarred(&mut self, line: &mut Line, count_max: u64) -> Option<Delivery> {
        match self.bar() {
            u64::MAX => self.next(line, count_max),
            bar => self.next_below(bar, line, count_max),
        }
    }

    /// Nothing from this position on is handed out, for a barrier's sake.
    #[inline]
    pub(crate) fn bar(&self) -> u64 {
        self.barriers.as_ref().map_or(u64::MAX, |barriers| barriers.first())
    }

    /// As [`Features::next`], of positions below `bar` in a queue without other priorities than the usual one. Positions that
    /// wait in line there go even where their place would be behind `bar`, which waits for them.
    #[cold]
    #[inline(never)]
    pub(crate) fn next_below(&mut self, bar: u64, line: &mut Line, count_max: u64) -> Option<Delivery> {
        let front = Range { first: 0, last: bar.checked_sub(1)? };
        let next = self.find_below(front, line, count_max);
        next.inspect(|delivery| self.take_ready(delivery.range))
    }

    fn find_below(&mut self, front: Range, line: &mut Line, count_max: u64) -> Option<Delivery> {
        let returned = line.ready.returned().within(front).next();
        if let Some(first) = returned {
            return Some(line.next_returned(first, count_max));
        }
        self.ahead.move_cursor(line, &self.levels);
        let cursor = line.ready.cursor();
        let is_through = cursor > front.last || cursor == line.live.next_seq();
        let lined = self.delays.next_within(front);
        if let Some((_, lined)) = lined.filter(|(behind, _)| is_through || *behind <= cursor) {
            return Some(self.delays.take_within(lined, line, count_max));
        }
        if is_through {
            return None;
        }
        let behind = lined.map(|(behind, _)| behind);
        let ends = [line.live.settled().next_present(cursor), behind, self.ahead.find(cursor).end];
        let end = ends.into_iter().flatten().fold(line.live.next_seq().min(front.last + 1), u64::min);
        let range = Range { first: cursor, last: end.min(cursor.saturating_add(count_max)) - 1 };
        let came_back = self.ahead.find(cursor).came_back;
        let delivery = if came_back { line.again(range) } else { line.fresh(range) };
        if came_back {
            self.ahead.take_back(delivery.range);
        }
        line.ready.hand_out(delivery.range.last + 1);
        Some(delivery)
    }

    /// Takes positions that go before all that never was out and is of the usual level.
    fn next_in_front(&mut self, line: &mut Line, count_max: u64) -> Option<Delivery> {
        let priorities = self.settings.priorities;
        let usual = priorities.usual();
        let is_strict = priorities == Priorities::Strict;
        if is_strict && let Some(next) = self.levels.first_returned(|level| level > usual) {
            return Some(self.next_of_level(line, next, count_max));
        }
        if is_strict && let Some(first) = line.ready.returned().first() {
            return Some(line.next_returned(first, count_max));
        }
        if is_strict && let Some(next) = self.levels.first_returned(|level| level < usual) {
            return Some(self.next_of_level(line, next, count_max));
        }
        if let Some(next) = self.levels.first(|level| level > usual) {
            return Some(self.next_of_level(line, next, count_max));
        }
        let first = line.ready.returned().first()?;
        Some(line.next_returned(first, count_max))
    }

    /// Takes positions that are ready through the cursor, or go behind those.
    fn next_behind(&mut self, line: &mut Line, count_max: u64) -> Option<Delivery> {
        self.ahead.move_cursor(line, &self.levels);
        let behind = self.delays.next_behind();
        let first = line.ready.cursor();
        if behind.is_some_and(|behind| behind <= first) {
            return self.delays.take_next(line, count_max);
        }
        if first < line.live.next_seq() {
            let found = self.ahead.find(first);
            let settled = line.live.settled().next_present(first);
            let ends = [settled, behind, found.end, self.levels.next_member(first)];
            let end = ends.into_iter().flatten().fold(line.live.next_seq(), u64::min);
            let range = Range { first, last: end.min(first.saturating_add(count_max)) - 1 };
            let delivery = if found.came_back { line.again(range) } else { line.fresh(range) };
            if found.came_back {
                self.ahead.take_back(delivery.range);
            }
            line.ready.hand_out(delivery.range.last + 1);
            return Some(delivery);
        }
        let usual = self.settings.priorities.usual();
        let next = self.levels.first(|level| level < usual)?;
        Some(self.next_of_level(line, next, count_max))
    }

    fn next_of_level(&mut self, line: &Line, next: Next, count_max: u64) -> Delivery {
        let Range { first, last } = next.range;
        let range = Range { first, last: last.min(first.saturating_add(count_max - 1)) };
        let delivery = if next.is_returned() { line.again(range) } else { line.fresh(range) };
        self.levels.take(next, delivery.range);
        self.handed_below = self.handed_below.max(delivery.range.last + 1);
        delivery
    }

    // Groups.

    /// Takes the first ready position that this consumer may have.
    pub(crate) fn next_for(&mut self, id: ConsumerId, line: &mut Line) -> Option<Delivery> {
        let next = self.find_for(id, line);
        next.inspect(|delivery| self.weights.take_ready(delivery.range))
    }

    fn find_for(&mut self, id: ConsumerId, line: &mut Line) -> Option<Delivery> {
        if let Some(delivery) = self.next_in_front(line, 1) {
            return Some(delivery);
        }
        loop {
            let behind = self.delays.next_behind().unwrap_or(u64::MAX);
            let groups = self.groups.as_ref()?;
            if let Some(seq) = groups.first_for(id).filter(|seq| *seq < behind) {
                return self.take_passed(seq, line);
            }
            self.ahead.move_cursor(line, &self.levels);
            let cursor = line.ready.cursor();
            let groups = self.groups.as_mut()?;
            if behind <= cursor || groups.key(cursor).is_none() {
                return self.next_behind(line, 1);
            }
            if groups.is_full() || !groups.pass_another(cursor) {
                return None;
            }
            line.ready.hand_out(cursor + 1);
        }
    }

    /// Takes the first of all that were passed, for any consumer.
    fn next_passed(&mut self, line: &Line) -> Option<Delivery> {
        let behind = self.delays.next_behind().unwrap_or(u64::MAX);
        let first = self.groups.as_ref()?.passed().first()?.first;
        if first < behind { self.take_passed(first, line) } else { None }
    }

    fn take_passed(&mut self, seq: u64, line: &Line) -> Option<Delivery> {
        let groups = self.groups.as_mut()?;
        let came_back = groups.came_back(seq);
        let range = Range { first: seq, last: seq };
        groups.withdraw(range);
        Some(if came_back { line.again(range) } else { line.fresh(range) })
    }

    // Levels.

    /// Deliveries may be told in bits: no part looks at each message by itself.
    pub(crate) fn may_scatter(&self) -> bool {
        self.weights.sizes().is_empty()
            && self.prior.is_empty()
            && self.annotations.has_none()
            && self.delays.lined().is_empty()
            && self.selectors.is_none()
    }

    /// Takes up to `count_max` positions of one block and priority that go next, if it is as simple as that.
    pub(crate) fn next_scattered(&mut self, line: &mut Line, count_max: u32) -> Option<Given> {
        let has_back = !line.ready.returned().is_empty() || !self.ahead.back().is_empty();
        if self.levels.has_ready_ranges() || has_back {
            return None;
        }
        let usual = self.settings.priorities.usual();
        if let Some(given) = self.scattered_of_level(line, count_max, |level| level > usual) {
            return given;
        }
        self.ahead.move_cursor(line, &self.levels);
        if line.ready.cursor() < line.live.next_seq() {
            return self.scattered_of_usual(line, count_max);
        }
        self.scattered_of_level(line, count_max, |level| level < usual)?
    }

    /// Of the highest level that `is_asked` for and has any; within, none where that is not so simple.
    fn scattered_of_level(
        &mut self,
        line: &Line,
        count_max: u32,
        is_asked: impl Fn(u8) -> bool,
    ) -> Option<Option<Given>> {
        let some = self.levels.first_scattered(is_asked)?;
        if some.lowest() < line.ready.redelivered_below() {
            return Some(None);
        }
        let bits = lowest(some.bits, count_max);
        let last = self.levels.take_scattered(some, bits);
        self.handed_below = self.handed_below.max(last + 1);
        Some(Some(Given::new(some.block, bits)))
    }

    /// The scattered positions that are ready through the cursor, which is at one of them.
    fn scattered_of_usual(&mut self, line: &mut Line, count_max: u32) -> Option<Given> {
        let cursor = line.ready.cursor();
        if cursor < line.ready.redelivered_below() {
            return None;
        }
        let block = block_of(cursor);
        let mut others = self.levels.bits(block) | line.live.settled().bits(block);
        let elsewhere = self.ahead.elsewhere();
        if !elsewhere.is_empty() {
            others |= elsewhere.bits(block);
        }
        let last = (line.live.next_seq() - 1).min(block + (BLOCK - 1));
        let bits = lowest(!others & Block::bits_within(block, Range { first: cursor, last }), count_max);
        let end = block + BLOCK - u64::from(bits.leading_zeros());
        let passed = end - cursor - u64::from(bits.count_ones());
        if passed > 0 {
            self.ahead.pass(Range { first: cursor, last: end - 1 });
            line.ready.show(passed);
        }
        line.ready.hand_out(end);
        Some(Given::new(block, bits))
    }
}

/// The `count_max` lowest of `bits`.
fn lowest(bits: u64, count_max: u32) -> u64 {
    if count_max >= bits.count_ones() {
        return bits;
    }
    bits & !(0..count_max).fold(bits, |rest, _| rest & (rest - 1))
}
