//! Messages that wait for their time: live, not ready, held by nobody.
//!
//! Recorded is when each live message is due that ever was delayed. Volatile is the rest: who is still waiting, and the
//! line of those whose time has come. Becoming ready is no record: time alone does it.
//!
//! A message that was delayed when it came takes its place in the queue when it is due: behind what was there
//! then, before what comes after. One that came back and was delayed is then as any other that came back.
//!
//! Invariants: what is `waiting` or in `lined` is in no other state; both are [elsewhere](crate::features) where the
//! cursor has not passed them; `line` names all of `lined`, and may name what left it, which never comes back to it.

use crate::command::ConsumerId;
use crate::deadlines::{Deadlines, Due};
use crate::delivery::Delivery;
use crate::effect::{Effect, Effects};
use crate::features::Features;
use crate::fifo::Fifo;
use crate::ranges::{numbers, positions};
use crate::sizes::Sizes;
use base::RangeSet;
use base::id::QueueSeq;
use base::ranges::Range;
use message::record::{DeathReason, Kind, Outcome, SeqRange};
use std::collections::VecDeque;

/// Positions of the usual level whose time has come.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// It is theirs when the cursor is here.
    behind: u64,
    range: Range,
    /// They cannot have been handed out before.
    is_new: bool,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    // Recorded.
    pub(crate) dues: Deadlines,
    // Volatile.
    waiting: RangeSet,
    /// Those of them that came back: a limit counts them as if they were ready.
    back: RangeSet,
    /// Of what came back and is waiting.
    back_bytes: u64,
    /// Their record was asked for and has not come back.
    pub(crate) postponing: RangeSet,
    pub(crate) lined: RangeSet,
    line: VecDeque<Turn>,
    /// Of what is waiting.
    pub(crate) bytes: u64,
    /// What is due later than this was not due for any owner before, milliseconds since 1970.
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

    /// What of `range` waits, and what of that came back, in bytes.
    pub(crate) fn bytes_within(&self, range: Range, sizes: &Sizes) -> (u64, u64) {
        let weigh = |set: &RangeSet| set.within(range).map(|part| sizes.sum(part)).sum();
        (weigh(&self.waiting), weigh(&self.back))
    }

    /// What waits is so many bytes more, and what of that came back.
    pub(crate) fn grow(&mut self, (bytes, back_bytes): (u64, u64)) {
        self.bytes += bytes;
        self.back_bytes += back_bytes;
    }

    /// What came back of `range` waits no more; `bytes` tells sizes.
    fn leave_back(&mut self, range: Range, bytes: impl Fn(Range) -> u64) {
        let gone = &mut self.back_bytes;
        self.back.remove(range, |part| *gone -= bytes(part));
    }

    /// What is next in line, and whether it cannot have been out; the cursor is there.
    fn next(&mut self) -> Option<(Turn, Range)> {
        while let Some(turn) = self.line.front().copied() {
            if let Some(range) = self.lined.within(turn.range).next() {
                return Some((turn, range));
            }
            self.line.pop_front();
        }
        None
    }

    /// Where the cursor is to stop for who is next in line.
    pub(crate) fn next_behind(&mut self) -> Option<u64> {
        if self.lined.is_empty() {
            return None;
        }
        self.next().map(|(turn, _)| turn.behind)
    }

    /// What is ready through the line goes from it.
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

    fn tidy(&mut self) {
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
}

impl Fifo {
    // Records.

    /// A message that just arrived, ready nowhere, waits.
    #[cold]
    pub(crate) fn delay_new(&mut self, seq: u64, due_at_ms: u64) {
        let features = self.features_mut();
        let range = Range { first: seq, last: seq };
        features.levels.withdraw(range);
        features.delays.dues.push(seq, due_at_ms);
        features.delays.waiting.insert(range);
        if features.levels.next_usual(seq) == seq {
            let is_new = features.elsewhere.insert(range);
            self.line.ready.hide(is_new);
        }
    }

    /// Positions came back and are delayed until `due_at_ms`: they count, and those whose delay this owner asked for wait,
    /// or die where that was once too often. Others get their time, for the owner that comes after.
    pub fn postponed(&mut self, range: SeqRange, outcome: Outcome, due_at_ms: u64, effects: &mut Effects) {
        let Some(clipped) = self.line.live.clip(range) else { return };
        self.count_return(clipped, outcome);
        let live: Vec<Range> = self.line.live.parts(clipped).collect();
        for part in live {
            self.features_mut().delays.dues.change(due_at_ms, part);
        }
        let mut asked = RangeSet::new();
        self.features_mut().delays.postponing.remove(clipped, |part| _ = asked.insert(part));
        let failed = self.line.returns.over_limit(asked.iter());
        let features = self.features_mut();
        for part in asked.iter().flat_map(|part| failed.gaps(part)) {
            let bytes = features.sizes.sum(part);
            features.delays.bytes += bytes;
            features.delays.back_bytes += bytes;
            features.delays.waiting.insert(part);
            features.delays.back.insert(part);
        }
        for part in failed.iter() {
            self.die(part, DeathReason::DeliveryLimit, effects);
        }
    }

    // The owner.

    /// What `consumer` holds of `range` is given back and delayed until `due_at_ms` (milliseconds since 1970), once the
    /// record of that comes back. What it does not hold is counted in [`Effects::ignored`].
    #[cold]
    pub fn postpone(
        &mut self,
        consumer: ConsumerId,
        range: SeqRange,
        outcome: Outcome,
        due_at_ms: u64,
        effects: &mut Effects,
    ) {
        let Some(range) = numbers(range) else { return };
        let consumers = self.consumers.as_mut();
        let parts = consumers.map_or_else(RangeSet::new, |consumers| consumers.give_back(consumer, range));
        effects.ignored += range.len() - parts.count();
        for part in parts.iter() {
            self.delay_back(part, outcome, due_at_ms, effects);
        }
    }

    /// Positions nobody holds any more are to be delayed.
    pub(crate) fn delay_back(
        &mut self,
        range: Range,
        outcome: Outcome,
        due_at_ms: u64,
        effects: &mut Effects,
    ) {
        // What was settled by a record while it was held is gone.
        let live: Vec<Range> = self.line.live.parts(range).collect();
        for part in live {
            self.given_back(part);
            self.features_mut().delays.postponing.insert(part);
            self.line.returns.note(part, outcome);
            effects.list.push(Effect::Postpone { range: positions(part), outcome, due_at_ms });
        }
    }

    /// Messages that wait for their time.
    pub fn delayed(&self) -> u64 {
        self.features.as_ref().map_or(0, |features| features.delays.count())
    }

    /// The first `count_max` of those that wait for their time: when each is due, milliseconds since 1970, and its
    /// position; in that order.
    pub fn delayed_list(&self, count_max: usize) -> Vec<(u64, QueueSeq)> {
        let Some(features) = &self.features else { return Vec::new() };
        let dues = features.delays.dues.in_order(&self.line.live);
        let waiting = dues.flat_map(|Due { at_ms, range, .. }| {
            let parts = features.delays.waiting.within(range);
            parts.flat_map(move |part| (part.first..=part.last).map(move |seq| (at_ms, QueueSeq(seq))))
        });
        waiting.take(count_max).collect()
    }

    /// How many messages wait for their time in `range`.
    pub fn delayed_within(&self, range: SeqRange) -> u64 {
        let waiting = self.features.as_ref().map(|features| &features.delays.waiting);
        waiting.zip(numbers(range)).map_or(0, |(waiting, range)| waiting.count_within(range))
    }

    /// What waits of `range` is thrown away.
    #[cold]
    pub(crate) fn cancel_delayed(&mut self, range: Range, effects: &mut Effects) {
        let Some(features) = &mut self.features else { return };
        let mut gone = 0;
        features.delays.waiting.remove(range, |part| {
            gone += features.sizes.sum(part);
            effects.append(Kind::Purge, Outcome::Released, part);
        });
        features.delays.bytes -= gone;
        let Features { delays, sizes, .. } = &mut **features;
        delays.leave_back(range, |part| sizes.sum(part));
    }

    /// Of those whose time has come what came back is ready, and is as what came back. The others are told, which wait no
    /// more: they are for [`Fifo::line_up`].
    pub(crate) fn come_back_of_age(&mut self, now_ms: u64) -> Vec<Due> {
        let Some(features) = &mut self.features else { return Vec::new() };
        features.delays.began_ms.get_or_insert(now_ms);
        if features.delays.dues.next_ms().is_none_or(|next_ms| next_ms > now_ms) {
            return Vec::new();
        }
        let Some(mut features) = self.features.take() else { return Vec::new() };
        let mut due = Vec::new();
        features.delays.dues.take_due(now_ms, u64::MAX, &self.line.live, |part| due.push(part));
        let Features { delays, sizes, .. } = &mut *features;
        let (mut back, mut new) = (Vec::new(), Vec::new());
        for Due { at_ms, range, is_changed } in due {
            delays.waiting.remove(range, |range| {
                delays.bytes -= sizes.sum(range);
                if is_changed { back.push(range) } else { new.push(Due { at_ms, range, is_changed }) }
            });
        }
        back.iter().for_each(|part| delays.leave_back(*part, |part| sizes.sum(part)));
        self.features = Some(features);
        back.into_iter().for_each(|part| self.put_back(part));
        new
    }

    /// What was delayed when it came, and waits no more, is ready.
    pub(crate) fn line_up(&mut self, new: Vec<Due>) {
        let new = self.line_up_groups(new);
        let Some(features) = self.features.as_deref_mut().filter(|_| !new.is_empty()) else { return };
        let Features { delays, sizes, ready_bytes, deadlines, levels, .. } = features;
        let (behind, began_ms) = (self.line.live.next_seq(), delays.began_ms.unwrap_or(0));
        for Due { at_ms, range, .. } in new {
            *ready_bytes += sizes.sum(range);
            deadlines.come_back(range);
            levels.come_of_age(range, |range| {
                delays.lined.insert(range);
                delays.line.push_back(Turn { behind, range, is_new: at_ms > began_ms });
            });
        }
    }

    /// Who is next in line is handed out.
    pub(crate) fn next_in_line(&self, delays: &mut Delays, count_max: u64) -> Option<Delivery> {
        let (turn, Range { first, last }) = delays.next()?;
        let range = Range { first, last: last.min(first.saturating_add(count_max - 1)) };
        let ready = if turn.is_new { Delivery::first_time(range) } else { self.line.fresh(range) };
        delays.lined.remove(ready.range, |_| {});
        Some(ready)
    }

    /// Everything that ever was delayed waits, for an owner that begins; tells of it.
    pub(crate) fn forget_delays(&self, delays: &mut Delays, mut waits: impl FnMut(Range)) {
        delays.dues.forget();
        let Delays { waiting, back, postponing, lined, line, .. } = delays;
        [&mut *waiting, &mut *back, postponing, lined].into_iter().for_each(RangeSet::clear);
        line.clear();
        delays.began_ms = None;
        for due in delays.dues.in_order(&self.line.live) {
            delays.waiting.insert(due.range);
            if due.is_changed {
                delays.back.insert(due.range);
            }
            waits(due.range);
        }
    }

    pub(crate) fn tidy_delays(&mut self) {
        let Some(mut features) = self.features.take() else { return };
        features.delays.dues.tidy(self.total(), &self.line.live);
        features.delays.tidy();
        self.features = Some(features);
    }
}
