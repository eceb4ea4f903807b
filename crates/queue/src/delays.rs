//! Messages that wait for their time: live, not ready, held by nobody.
//!
//! Recorded is when each live message is due that ever was delayed. Volatile is the rest: the messages that still wait,
//! and the line of those that are due. Becoming ready is no record: time alone does it.
//!
//! A message that was delayed when it came takes its place in the queue when it is due: behind the messages that were
//! there then, before those that come after. One that came back and was delayed is then as any other that came back.
//!
//! Invariants: a position that is `waiting` or in `lined` is in no other state; both are [elsewhere](crate::ahead)
//! where the cursor has not passed them; `line` names all of `lined`, and may name positions that left it, which never
//! come back to it.

use crate::deadlines::{Deadlines, Due};
use crate::delivery::Delivery;
use crate::effect::Effects;
use crate::levels::Levels;
use crate::line::Line;
use crate::live::Live;
use crate::sizes::Sizes;
use base::RangeSet;
use base::id::QueueSeq;
use base::ranges::Range;
use message::record::{Kind, Outcome};
use std::collections::VecDeque;

/// Positions of the usual level that are due.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// It is theirs when the cursor is here.
    behind: u64,
    range: Range,
    /// They cannot have been handed out before.
    is_new: bool,
}

/// Positions in line that go together.
#[derive(Clone, Copy)]
pub(crate) struct Lined {
    range: Range,
    /// They cannot have been handed out before.
    is_new: bool,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    // Recorded.
    dues: Deadlines,
    // Volatile.
    waiting: RangeSet,
    /// Those of them that came back: a limit counts them as if they were ready.
    back: RangeSet,
    /// Bytes of messages that came back and are waiting.
    back_bytes: u64,
    /// Their record was asked for and has not come back.
    postponing: RangeSet,
    lined: RangeSet,
    line: VecDeque<Turn>,
    /// Bytes of messages that are waiting.
    bytes: u64,
    /// Messages that are due later than this were not due for any owner before, milliseconds since 1970.
    began_ms: Option<u64>,
}

impl Delays {
    pub(crate) fn is_empty(&self) -> bool {
        self.dues.is_empty() && self.waiting.is_empty() && self.postponing.is_empty() && self.lined.is_empty()
    }

    /// Messages that wait for their time.
    pub(crate) fn count(&self) -> u64 {
        self.waiting.count()
    }

    /// A record is to come back that delays messages.
    pub(crate) fn is_postponing(&self) -> bool {
        !self.postponing.is_empty()
    }

    /// Messages that came back and wait for their time, and their size.
    pub(crate) fn back(&self) -> (u64, u64) {
        (self.back.count(), self.back_bytes)
    }

    /// Which those are.
    pub(crate) fn back_ranges(&self) -> impl Iterator<Item = Range> + '_ {
        self.back.iter()
    }

    /// Sizes are known now, of which there may have been none before.
    pub(crate) fn weigh(&mut self, sizes: &Sizes) {
        let weigh = |set: &RangeSet| set.iter().map(|part| sizes.sum(part)).sum();
        (self.bytes, self.back_bytes) = (weigh(&self.waiting), weigh(&self.back));
    }

    /// Bytes of `range` that wait, and those of them that came back.
    pub(crate) fn bytes_within(&self, range: Range, sizes: &Sizes) -> (u64, u64) {
        let weigh = |set: &RangeSet| set.within(range).map(|part| sizes.sum(part)).sum();
        (weigh(&self.waiting), weigh(&self.back))
    }

    /// Waiting messages have so many bytes more, and those of them that came back.
    pub(crate) fn grow(&mut self, (bytes, back_bytes): (u64, u64)) {
        self.bytes += bytes;
        self.back_bytes += back_bytes;
    }

    /// Positions of `range` that came back wait no more; `bytes` tells sizes.
    fn leave_back(&mut self, range: Range, bytes: impl Fn(Range) -> u64) {
        let gone = &mut self.back_bytes;
        self.back.remove(range, |part| *gone -= bytes(part));
    }

    /// The next in line, and whether it cannot have been out; the cursor is there.
    fn next(&mut self) -> Option<(Turn, Range)> {
        while let Some(turn) = self.line.front().copied() {
            if let Some(range) = self.lined.within(turn.range).next() {
                return Some((turn, range));
            }
            self.line.pop_front();
        }
        None
    }

    /// Where the cursor is to stop for the next in line.
    pub(crate) fn next_behind(&mut self) -> Option<u64> {
        if self.lined.is_empty() {
            return None;
        }
        self.next().map(|(turn, _)| turn.behind)
    }

    /// Positions that are ready through the line go from it.
    pub(crate) fn withdraw(&mut self, range: Range) {
        self.lined.remove(range, |_| {});
    }

    /// Positions are gone; `bytes` tells the size of those that were waiting.
    pub(crate) fn leave(&mut self, range: Range, bytes: impl Fn(Range) -> u64) {
        if self.is_empty() {
            return;
        }
        let mut gone = 0;
        self.waiting.remove(range, |part| gone += bytes(part));
        self.bytes -= gone;
        self.leave_back(range, bytes);
        self.lined.remove(range, |_| {});
        self.postponing.remove(range, |_| {});
        self.dues.leave(range);
    }

    /// Memory of positions that left goes where they are the most.
    pub(crate) fn tidy(&mut self, live: &Live) {
        self.dues.tidy(live.count(), live);
        if self.lined.is_empty() {
            self.line = VecDeque::new();
        } else if self.line.len() as u64 > self.lined.count().saturating_mul(2) {
            let lined = &self.lined;
            self.line.retain(|turn| lined.intersects(turn.range));
            self.line.shrink_to(self.line.len() * 2);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let sets = [&self.waiting, &self.back, &self.postponing, &self.lined];
        sets.iter().map(|set| set.heap_bytes()).sum::<usize>()
            + self.dues.heap_bytes()
            + self.line.capacity() * size_of::<Turn>()
    }

    /// Bytes of all messages that are waiting.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When messages are due.
    pub(crate) fn dues(&self) -> &Deadlines {
        &self.dues
    }

    /// When messages are due, as read.
    pub(crate) fn dues_mut(&mut self) -> &mut Deadlines {
        &mut self.dues
    }

    /// Positions that are due and are ready through the line.
    pub(crate) fn lined(&self) -> &RangeSet {
        &self.lined
    }

    /// A message that just arrived waits.
    pub(crate) fn push(&mut self, seq: u64, due_at_ms: u64) {
        self.dues.push(seq, due_at_ms);
        self.waiting.insert(Range { first: seq, last: seq });
    }

    /// A message of that size arrived, and waits.
    pub(crate) fn push_bytes(&mut self, bytes: u32) {
        self.bytes += u64::from(bytes);
    }

    /// A record is asked for that delays positions.
    pub(crate) fn postpone(&mut self, range: Range) {
        self.postponing.insert(range);
    }

    /// The record came back, of live positions: they have that time from here on.
    pub(crate) fn change(&mut self, range: Range, due_at_ms: u64) {
        self.dues.change(due_at_ms, range);
    }

    /// Which of `range` this owner asked a record for, that has come back.
    pub(crate) fn take_asked(&mut self, range: Range) -> RangeSet {
        let mut asked = RangeSet::new();
        self.postponing.remove(range, |part| _ = asked.insert(part));
        asked
    }

    /// Positions that came back wait from here on.
    pub(crate) fn wait(&mut self, range: Range, sizes: &Sizes) {
        let bytes = sizes.sum(range);
        self.bytes += bytes;
        self.back_bytes += bytes;
        self.waiting.insert(range);
        self.back.insert(range);
    }

    /// The first `count_max` of those that wait for their time: when each is due, and its position; in that order.
    pub(crate) fn list(&self, count_max: usize, live: &Live) -> Vec<(u64, QueueSeq)> {
        let waiting = self.dues.in_order(live).flat_map(|Due { at_ms, range, .. }| {
            let parts = self.waiting.within(range);
            parts.flat_map(move |part| (part.first..=part.last).map(move |seq| (at_ms, QueueSeq(seq))))
        });
        waiting.take(count_max).collect()
    }

    /// How many messages wait for their time in `range`.
    pub(crate) fn count_within(&self, range: Range) -> u64 {
        self.waiting.count_within(range)
    }

    /// Waiting positions of `range` are thrown away.
    #[cold]
    pub(crate) fn cancel(&mut self, range: Range, sizes: &Sizes, effects: &mut Effects) {
        let mut gone = 0;
        self.waiting.remove(range, |part| {
            gone += sizes.sum(part);
            effects.append(Kind::Purge, Outcome::Released, part);
        });
        self.bytes -= gone;
        self.leave_back(range, |part| sizes.sum(part));
    }

    /// Positions that are due wait no more: those that came back, and those that were delayed when they came.
    pub(crate) fn take_due(&mut self, now_ms: u64, live: &Live, sizes: &Sizes) -> (Vec<Range>, Vec<Due>) {
        self.began_ms.get_or_insert(now_ms);
        let mut due = Vec::new();
        self.dues.take_due(now_ms, u64::MAX, live, |part| due.push(part));
        let (mut back, mut new) = (Vec::new(), Vec::new());
        for Due { at_ms, range, is_changed } in due {
            let bytes = &mut self.bytes;
            self.waiting.remove(range, |range| {
                *bytes -= sizes.sum(range);
                if is_changed { back.push(range) } else { new.push(Due { at_ms, range, is_changed }) }
            });
        }
        back.iter().for_each(|part| self.leave_back(*part, |part| sizes.sum(part)));
        (back, new)
    }

    /// Positions that wait no more, of those delayed when they came, are ready: behind the messages there now, but for
    /// those of other priorities.
    pub(crate) fn line_up(&mut self, due: Due, behind: u64, levels: &mut Levels) {
        let is_new = due.at_ms > self.began_ms.unwrap_or(0);
        levels.come_of_age(due.range, |range| {
            self.lined.insert(range);
            self.line.push_back(Turn { behind, range, is_new });
        });
    }

    /// The next in line is handed out.
    pub(crate) fn take_next(&mut self, line: &Line, count_max: u64) -> Option<Delivery> {
        let (turn, Range { first, last }) = self.next()?;
        let range = Range { first, last: last.min(first.saturating_add(count_max - 1)) };
        let delivery = if turn.is_new { Delivery::first_time(range) } else { line.fresh(range) };
        self.lined.remove(delivery.range, |_| {});
        Some(delivery)
    }

    /// The first in line of `front`, and where the cursor is to stop for them. It costs a step for each that is in front of
    /// them in line, where there are any.
    #[cold]
    pub(crate) fn next_within(&self, front: Range) -> Option<(u64, Lined)> {
        self.lined.within(front).next()?;
        let within = |turn: &Turn| {
            let range = turn.range.overlap(front)?;
            Some((turn.behind, Lined { range: self.lined.within(range).next()?, is_new: turn.is_new }))
        };
        self.line.iter().find_map(within)
    }

    /// Those are handed out, whatever is in front of them in line.
    #[cold]
    pub(crate) fn take_within(&mut self, next: Lined, line: &Line, count_max: u64) -> Delivery {
        let Lined { range: Range { first, last }, is_new } = next;
        let range = Range { first, last: last.min(first.saturating_add(count_max - 1)) };
        let delivery = if is_new { Delivery::first_time(range) } else { line.fresh(range) };
        self.lined.remove(delivery.range, |_| {});
        delivery
    }

    /// Everything that ever was delayed waits, for an owner that begins; tells of it.
    pub(crate) fn forget(&mut self, live: &Live, mut waits: impl FnMut(Range)) {
        self.dues.forget();
        let Delays { waiting, back, postponing, lined, line, .. } = self;
        [&mut *waiting, &mut *back, postponing, lined].into_iter().for_each(RangeSet::clear);
        line.clear();
        self.began_ms = None;
        for due in self.dues.in_order(live) {
            self.waiting.insert(due.range);
            if due.is_changed {
                self.back.insert(due.range);
            }
            waits(due.range);
        }
    }
}
