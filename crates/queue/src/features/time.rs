//! Effects of time: messages that expire, and messages whose delay is over or begins.

use super::Features;
use crate::deadlines::Due;
use crate::effect::{Effect, Effects};
use crate::line::Line;
use crate::ranges::positions;
use crate::returns::Returns;
use base::RangeSet;
use base::ranges::Range;
use message::record::{DeathReason, Outcome};

impl Features {
    /// When something is due though nothing happens, milliseconds since 1970. May be early, never late.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        if self.is_on_the_way() {
            return Some(0);
        }
        let barrier = self.barriers.as_ref().and_then(|barriers| barriers.deadline_ms());
        let messages = self.deadlines.next_ms().into_iter().chain(self.delays.dues().next_ms());
        messages.chain(barrier).min()
    }

    /// In front of handing out: messages that were offered before and are due end.
    #[cold]
    #[inline(never)]
    pub(crate) fn before_dispatch(&mut self, now_ms: u64, line: &mut Line, effects: &mut Effects) {
        let (back, new) = self.delays.take_due(now_ms, &line.live, self.weights.sizes());
        // A message that came back had its chance already; one that was delayed when it came has it after the others' are over.
        back.into_iter().for_each(|part| self.put_back(part, line));
        self.expire(now_ms, self.offered_below, line, effects);
        new.into_iter().for_each(|due| self.line_up(due, line));
    }

    /// Messages whose delay is over are ready; none ends.
    pub(crate) fn end_delays(&mut self, now_ms: u64, line: &mut Line) {
        let (back, new) = self.delays.take_due(now_ms, &line.live, self.weights.sizes());
        back.into_iter().for_each(|part| self.put_back(part, line));
        new.into_iter().for_each(|due| self.line_up(due, line));
    }

    /// Behind handing out. Where it `is_done`, everything was offered to every consumer that would have it.
    #[cold]
    #[inline(never)]
    pub(crate) fn after_dispatch(
        &mut self,
        now_ms: u64,
        is_done: bool,
        line: &mut Line,
        effects: &mut Effects,
    ) {
        self.mark(line.returns.counts(), effects);
        if is_done {
            self.offered_below = line.live.next_seq();
            self.expire(now_ms, self.offered_below, line, effects);
            self.drop_over(line, effects);
        }
        self.deadlines.tidy(line.live.count(), &line.live);
        self.delays.tidy(&line.live);
    }

    /// Marks deliveries that are told with more than others.
    pub(crate) fn mark(&self, counts: bool, effects: &mut Effects) {
        self.prior.mark(counts, effects);
        self.annotations.mark(effects);
    }

    fn expire(&mut self, now_ms: u64, below: u64, line: &mut Line, effects: &mut Effects) {
        let mut due = RangeSet::new();
        self.deadlines.take_due(now_ms, below, &line.live, |part| _ = due.insert(part.range));
        due.iter().for_each(|part| self.kill(part, DeathReason::Expired, line, effects));
    }

    /// Positions that were delayed when they came, and wait no more, are ready.
    fn line_up(&mut self, due: Due, line: &mut Line) {
        self.add_ready(due.range);
        self.deadlines.come_back(due.range);
        let others: Vec<Range> = match &mut self.groups {
            Some(groups) => {
                groups.rejoin(due.range, false, &mut line.ready, &mut self.ahead).iter().collect()
            }
            None => vec![due.range],
        };
        for range in others {
            self.delays.line_up(Due { range, ..due }, line.live.next_seq(), &mut self.levels);
        }
    }

    /// The record of a delay came back, of live and other positions: those whose delay this owner asked for wait, or die where
    /// that was once too often. Others get their time, for the owner that comes after.
    pub(crate) fn postponed(&mut self, range: Range, due_at_ms: u64, line: &Line, effects: &mut Effects) {
        line.live.parts(range).for_each(|part| self.delays.change(part, due_at_ms));
        let asked = self.delays.take_asked(range);
        let failed = line.returns.over_limit(asked.iter());
        for part in asked.iter().flat_map(|part| failed.gaps(part)) {
            self.delays.wait(part, self.weights.sizes());
        }
        failed.iter().for_each(|part| self.die(part, DeathReason::DeliveryLimit, effects));
    }

    /// Live positions nobody holds any more are to be delayed.
    pub(crate) fn postpone(
        &mut self,
        part: Range,
        outcome: Outcome,
        due_at_ms: u64,
        returns: &mut Returns,
        effects: &mut Effects,
    ) {
        self.groups.iter_mut().for_each(|groups| groups.give_back(part));
        self.delays.postpone(part);
        returns.note(part, outcome);
        effects.list.push(Effect::Postpone { range: positions(part), outcome, due_at_ms });
    }

    /// Live positions nobody holds any more are to wait if this queue has them wait: whether it has.
    pub(super) fn retry_later(
        &mut self,
        range: Range,
        outcome: Outcome,
        returns: &Returns,
        effects: &mut Effects,
    ) -> bool {
        let Some(retry) = self.rules.retry.filter(|retry| returns.counts() && retry.delays(outcome)) else {
            return false;
        };
        self.delays.postpone(range);
        let mut first = range.first;
        while first <= range.last {
            let (failed, last) = returns.recorded_failures(Range { first, ..range });
            let failed = failed.saturating_add(u32::from(outcome == Outcome::Failed));
            let range = positions(Range { first, last });
            effects.list.push(Effect::Retry { range, outcome, after_ms: retry.after_ms(failed) });
            first = last + 1;
        }
        true
    }
}
