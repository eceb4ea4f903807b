//! Parts that only some queues need: time, priorities, sizes, annotations, limits, dead letters. A queue without has none of this.
//!
//! Recorded are the settings, and of live messages the priority, the deadline, the size, the annotations and the group.
//! The rules, and the dying messages, are the owner's.
//! Here are steps that concern several of the parts: messages that arrive, are withdrawn, come back and leave. The
//! order of handing out stands in `order`, what consumers choose in `choosing`, the effects of time in `time`, those of
//! limits in `limits`.

mod choosing;
mod limits;
mod order;
mod time;

pub(crate) use order::Given;

use crate::ahead::Ahead;
use crate::annotations::Annotations;
use crate::barrier::Barriers;
use crate::command::ConsumerId;
use crate::consumers::Consumers;
use crate::deadlines::Deadlines;
use crate::dedup_window::Window;
use crate::delays::Delays;
use crate::dying::{self, Dying};
use crate::effect::Effects;
use crate::groups::Groups;
use crate::levels::Levels;
use crate::line::Line;
use crate::prior_failures::PriorFailures;
use crate::priority_blocks::BLOCK;
use crate::returns::Returns;
use crate::selectors::Selectors;
use crate::settings::{Arrival, Priorities, Rules, Settings};
use crate::weights::Weights;
use base::RangeSet;
use base::id::QueueSeq;
use base::ranges::Range;
use message::record::{DeathReason, Kind, Outcome, SeqRange};

/// State of queues with features, absent in others.
#[derive(Debug, Default)]
pub(crate) struct Features {
    // Recorded.
    pub(crate) settings: Settings,
    pub(crate) levels: Levels,
    pub(crate) deadlines: Deadlines,
    pub(crate) weights: Weights,
    pub(crate) annotations: Annotations,
    /// Where duplicates are passed over.
    pub(crate) window: Option<Box<Window>>,
    // Recorded and volatile.
    pub(crate) delays: Delays,
    pub(crate) prior: PriorFailures,
    /// Where live messages are in groups.
    pub(crate) groups: Option<Box<Groups>>,
    /// Where live messages are barriers.
    pub(crate) barriers: Option<Box<Barriers>>,
    // Volatile.
    /// Messages that come may be in groups.
    pub(crate) is_grouped: bool,
    pub(crate) rules: Rules,
    pub(crate) ahead: Ahead,
    pub(crate) dying: Dying,
    /// Where consumers choose.
    pub(crate) selectors: Option<Box<Selectors>>,
    /// Positions below it had their chance to be handed out.
    offered_below: u64,
    /// Above every position that was handed out of another level than the usual, or by choice.
    handed_below: u64,
}

impl Features {
    /// Of a queue that had none. Nothing that came before has a deadline: nothing was offered that could be due.
    pub(crate) fn new(settings: Settings) -> Features {
        Features { settings, ..Features::default() }
    }

    /// Nothing recorded but the properties of a plain queue, and nothing the owner needs.
    pub(crate) fn is_plain(&self) -> bool {
        self.settings == Settings::plain(self.settings.counts)
            && self.rules.are_plain()
            && self.window.is_none()
            && !self.is_grouped
            && self.groups.is_none()
            && self.barriers.is_none()
            && self.levels.is_empty()
            && self.deadlines.is_empty()
            && self.delays.is_empty()
            && self.annotations.is_empty()
            && self.prior.is_empty()
            && self.ahead.is_empty()
            && self.dying.is_empty()
            && self.selectors.is_none()
    }

    /// Parts go with their last user.
    pub(crate) fn tidy(&mut self) {
        self.selectors.take_if(|selectors| selectors.is_empty());
        self.groups.take_if(|groups| groups.is_empty());
        self.barriers.take_if(|barriers| barriers.is_empty());
    }

    // Records.

    /// A message that just arrived has more to it than its place ([`Arrival::is_plain`]).
    pub(crate) fn arrive(&mut self, seq: u64, arrival: &Arrival, line: &mut Line) {
        let Settings { ttl_ms, priorities, .. } = self.settings;
        let range = Range { first: seq, last: seq };
        let level = arrival.level(priorities);
        if level != priorities.usual() {
            self.levels.insert(level, range);
            line.ready.hide(1);
        }
        if let Some(group) = arrival.group {
            self.groups.get_or_insert_default().join(seq, group, &line.live);
        }
        if arrival.barrier && !arrival.is_delayed() {
            self.barriers.get_or_insert_default().mark(seq);
        }
        if let Some(deadline_ms) = arrival.deadline_ms(ttl_ms) {
            self.deadlines.push(seq, deadline_ms);
            self.deadlines.tidy(line.live.count(), &line.live);
        }
        if self.settings.keeps_sizes() {
            self.weights.push(seq, arrival.bytes, &line.live, !arrival.is_delayed());
            if arrival.is_delayed() {
                self.delays.push_bytes(arrival.bytes);
            }
        }
        if arrival.is_delayed() {
            self.levels.withdraw(range);
            self.delays.push(seq, arrival.due_at_ms);
            if self.levels.next_usual(seq) == seq {
                self.ahead.hide(range, &mut line.ready);
            }
        }
        if arrival.failures > 0 {
            self.prior.push(seq, arrival.failures);
        }
    }

    /// A message is about to arrive that has a priority at most. False, and nothing is done: the queue keeps more of its messages.
    pub(crate) fn arrive_simply(&mut self, priority: Option<u8>, line: &mut Line) -> bool {
        let Settings { ttl_ms, priorities, .. } = self.settings;
        let keeps_more = ttl_ms.is_some() || self.settings.keeps_sizes();
        if keeps_more || self.is_grouped || self.window.is_some() {
            return false;
        }
        let level = priorities.level(priority);
        if level != priorities.usual() {
            self.levels.insert_one(level, line.live.next_seq());
            line.ready.hide(1);
        }
        true
    }

    /// From now on messages that come are kept so.
    pub(crate) fn configure(&mut self, settings: Settings, line: &Line) {
        let before = std::mem::replace(&mut self.settings, settings);
        self.weights.keep(before.sizes, settings.sizes, &line.live, &mut self.delays);
    }

    /// Positions are so large ([`Weights::weigh`]).
    pub(crate) fn weigh(
        &mut self,
        range: SeqRange,
        sizes: impl Iterator<Item = (QueueSeq, u32)>,
        line: &Line,
    ) {
        if let Some(part) = self.weights.next_unweighed(range) {
            let ready = self.ready_within(part, line);
            self.weights.weigh(part, sizes, &ready, &line.live, &mut self.delays);
        }
    }

    // Ready positions.

    /// Positions are ready from now on.
    fn add_ready(&mut self, range: Range) {
        self.weights.add_ready(range);
        if let Some(selectors) = &mut self.selectors {
            let usual = self.settings.priorities.usual();
            self.levels.by_level(range, usual, |level, part| selectors.add_ready(level, part));
        }
    }

    /// Positions are ready no more.
    #[inline]
    fn take_ready(&mut self, range: Range) {
        self.weights.take_ready(range);
        if let Some(selectors) = &mut self.selectors {
            selectors.take_ready(range);
        }
    }

    /// It is ready, and was out.
    pub(crate) fn came_back(&self, seq: u64) -> bool {
        self.ahead.back().contains(seq)
            || self.levels.came_back(seq)
            || self.groups.as_ref().is_some_and(|groups| groups.came_back(seq))
    }

    /// Ready, and out before, but for those of the usual level below the cursor.
    pub(crate) fn ready_returned(&self) -> u64 {
        self.ahead.back().count()
            + self.levels.ready_returned()
            + self.groups.as_ref().map_or(0, |groups| groups.came_back_count())
    }

    /// Ready, but neither through the cursor nor because they came back.
    pub(crate) fn ready_elsewhere(&self) -> u64 {
        let passed = self.groups.as_ref().map_or(0, |groups| groups.passed().count());
        self.levels.ready() + self.delays.lined().count() + passed
    }

    /// All that are ready.
    pub(crate) fn ready_count(&self, line: &Line) -> u64 {
        line.ready_count() + self.ready_elsewhere()
    }

    /// Ready positions of `range`.
    pub(crate) fn ready_within(&self, range: Range, line: &Line) -> RangeSet {
        let mut ready = RangeSet::new();
        line.ready.returned().within(range).for_each(|part| _ = ready.insert(part));
        self.levels.ready_within(range, |part| _ = ready.insert(part));
        self.delays.lined().within(range).for_each(|part| _ = ready.insert(part));
        let passed = self.groups.iter().flat_map(|groups| groups.passed().within(range));
        passed.for_each(|part| _ = ready.insert(part));
        let cursor = line.ready.cursor();
        let ahead = line.live.next_seq().checked_sub(1).filter(|last| cursor <= *last);
        let ahead = ahead.and_then(|last| range.overlap(Range { first: cursor, last }));
        for part in ahead.into_iter().flat_map(|ahead| line.live.parts(ahead)) {
            self.ahead.ready_within(part, &self.levels, |part| _ = ready.insert(part));
        }
        ready
    }

    /// Whether a live position is ready: as [`Features::ready_within`] of one.
    pub(crate) fn is_ready(&self, seq: u64, line: &Line) -> bool {
        let one = Range { first: seq, last: seq };
        if line.ready.returned().contains(seq)
            || self.delays.lined().contains(seq)
            || self.groups.as_ref().is_some_and(|groups| groups.passed().contains(seq))
        {
            return true;
        }
        let is_ahead = seq >= line.ready.cursor() && !self.ahead.elsewhere().contains(seq);
        if self.levels.is_empty() {
            return is_ahead;
        }
        let mut is_ready = is_ahead && self.levels.usual_within(one).next().is_some();
        self.levels.ready_within(one, |_| is_ready = true);
        is_ready
    }

    /// Ready positions of `range` are ready no more: which they were.
    pub(crate) fn withdraw(&mut self, range: Range, line: &mut Line) -> RangeSet {
        let withdrawn = self.ready_within(range, line);
        withdrawn.iter().for_each(|part| self.withdraw_ready(part, line));
        withdrawn
    }

    /// Positions that are ready are ready no more.
    fn withdraw_ready(&mut self, part: Range, line: &mut Line) {
        line.ready.take_returned(part);
        self.ahead.withdraw(part, &mut line.ready, &self.levels);
        self.levels.withdraw(part);
        self.delays.withdraw(part);
        self.groups.iter_mut().for_each(|groups| groups.withdraw(part));
        self.take_ready(part);
    }

    /// Positions were chosen, which are ready, and are handed out.
    pub(crate) fn hand_out_chosen(&mut self, part: Range, line: &mut Line) {
        debug_assert!(self.ready_within(part, line).count() == part.len(), "what is chosen is ready");
        self.withdraw_ready(part, line);
        self.was_handed(part);
    }

    /// Positions were handed out, though not through the cursor.
    pub(crate) fn was_handed(&mut self, part: Range) {
        self.handed_below = self.handed_below.max(part.last + 1);
    }

    /// Positions above this were never handed out but through the cursor.
    pub(crate) fn handed_below(&self) -> u64 {
        self.handed_below
    }

    /// Positions were handed out to be settled; those in groups are of groups that are this consumer's now.
    pub(crate) fn hold(&mut self, range: Range, id: ConsumerId) {
        self.groups.iter_mut().for_each(|groups| groups.hold(range, id));
    }

    /// How many messages more all consumers may hold.
    pub(crate) fn may_hold_more(&self, consumers: &Consumers) -> u64 {
        self.rules.unsettled_max.map_or(u64::MAX, |max| max.saturating_sub(consumers.unsettled))
    }

    /// It was not seen yet whether some consumer can be given a message behind those that groups keep back.
    pub(crate) fn is_on_the_way(&self) -> bool {
        self.groups.as_ref().is_some_and(|groups| groups.is_on_the_way())
    }

    /// Positions are ready again.
    #[cold]
    #[inline(never)]
    pub(crate) fn put_back(&mut self, range: Range, line: &mut Line) {
        self.deadlines.come_back(range);
        self.add_ready(range);
        match &mut self.groups {
            Some(groups) => {
                let others = groups.rejoin(range, true, &mut line.ready, &mut self.ahead);
                others.iter().for_each(|part| self.come_back(part, line));
            }
            None => self.come_back(range, line),
        }
    }

    /// Positions in no group go before those that never were out; those that were chosen, and are behind others of
    /// their level that never were, go where they were.
    fn come_back(&mut self, range: Range, line: &mut Line) {
        let Features { levels, ahead, settings, .. } = self;
        let is_strict = settings.priorities == Priorities::Strict;
        levels.come_back(range, is_strict, |part| ahead.come_back(part, &mut line.ready));
    }

    /// Live positions nobody holds any more are to wait if this queue has them wait: whether it has.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_back(
        &mut self,
        range: Range,
        outcome: Outcome,
        returns: &mut Returns,
        effects: &mut Effects,
    ) -> bool {
        self.prior.count(range, returns);
        self.groups.iter_mut().for_each(|groups| groups.give_back(range));
        self.retry_later(range, outcome, returns, effects)
    }

    // The end.

    /// Positions that are ready nowhere and held by nobody end: dying where somebody takes the dead.
    pub(crate) fn die(&mut self, range: Range, reason: DeathReason, effects: &mut Effects) {
        self.groups.iter_mut().for_each(|groups| _ = groups.let_go(range));
        if self.rules.takes_dead {
            self.dying.die(range, reason, effects);
        } else {
            dying::end(range, reason, effects);
        }
    }

    /// Ready positions of `range` die.
    pub(crate) fn kill(&mut self, range: Range, reason: DeathReason, line: &mut Line, effects: &mut Effects) {
        for part in self.withdraw(range, line).iter() {
            self.die(part, reason, effects);
        }
    }

    /// Ready and delayed positions of `range` are thrown away.
    #[cold]
    pub(crate) fn discard(&mut self, range: Range, line: &mut Line, effects: &mut Effects) {
        let withdrawn = self.withdraw(range, line);
        withdrawn.iter().for_each(|part| effects.append(Kind::Purge, Outcome::Released, part));
        self.delays.cancel(range, self.weights.sizes(), effects);
    }

    /// Everything this knows about live positions that leave; before all else about them changes.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave(&mut self, part: Range, line: &mut Line) {
        if !self.weights.sizes().is_empty() {
            let ready = self.ready_within(part, line);
            ready.iter().for_each(|part| self.weights.take_ready(part));
        }
        if self.selectors.is_some() {
            // Most that leave were handed out before.
            let may_be_ready = part.first < part.last || self.is_ready(part.first, line);
            self.selectors.iter_mut().for_each(|selectors| selectors.leave(part, may_be_ready));
        }
        let sizes = self.weights.sizes();
        self.delays.leave(part, |part| sizes.sum(part));
        self.weights.leave(part);
        self.ahead.leave(part, &mut line.ready);
        line.ready.show(self.levels.leave(part, line.ready.cursor()));
        self.dying.leave(part);
        self.deadlines.leave(part);
        self.annotations.leave(part);
        self.prior.leave(part);
        self.groups.iter_mut().for_each(|groups| groups.leave(part));
        self.barriers.iter_mut().for_each(|barriers| barriers.leave(part));
    }

    /// As [`Features::leave`] and [`Line::leave`], of some positions of the block that begins at `block`; false, and nothing is
    /// done: more is known of messages than their priorities.
    pub(crate) fn leave_bits(&mut self, block: u64, bits: u64, line: &mut Line) -> bool {
        let Line { live, ready, returns } = line;
        let knows_more = returns.knows_any() || !ready.returned().is_empty() || !live.transient().is_empty();
        if knows_more || !self.knows_levels_alone() {
            return false;
        }
        let cursor = ready.cursor();
        ready.show(self.levels.leave_bits(block, bits, cursor));
        let ahead = match cursor.saturating_sub(block) {
            by if by < BLOCK => bits & u64::MAX << by,
            _ => 0,
        };
        ready.hide(u64::from(ahead.count_ones()));
        true
    }

    /// Messages are handed out as those of a queue without features are, until something more is known of one.
    pub(crate) fn is_line(&self) -> bool {
        self.levels.is_empty() && self.knows_levels_alone()
    }

    /// All that is known of a message that leaves is its priority.
    fn knows_levels_alone(&self) -> bool {
        self.weights.sizes().is_empty()
            && self.delays.is_empty()
            && self.dying.is_empty()
            && self.ahead.is_empty()
            && self.deadlines.is_empty()
            && self.annotations.has_none()
            && self.prior.is_empty()
            && self.groups.is_none()
            && self.barriers.is_none()
            && self.selectors.is_none()
            && self.levels.is_all_mixed()
    }

    /// Everything live is ready: the owner's knowledge is forgotten, but for the rules. The line has done so.
    pub(crate) fn forget(&mut self, line: &mut Line) {
        self.selectors = None;
        self.dying.forget();
        self.ahead.forget();
        self.deadlines.forget();
        self.annotations.forget();
        self.levels.forget();
        if !line.returns.counts() {
            self.prior = PriorFailures::default();
        }
        let Features { levels, ahead, delays, .. } = self;
        let Line { live, ready, .. } = line;
        delays.forget(live, |part| {
            levels.withdraw(part);
            levels.usual_within(part).for_each(|part| ahead.hide(part, ready));
        });
        ready.hide(levels.count());
        if let Some(groups) = &mut self.groups {
            groups.forget(self.delays.back_ranges());
        }
        self.barriers.iter_mut().for_each(|barriers| barriers.forget());
        self.offered_below = live.next_seq();
        self.handed_below = 0;
        self.weights.forget(live, &mut self.delays);
    }

    /// Heap bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let window = self.window.as_ref().map_or(0, |window| size_of::<Window>() + window.heap_bytes());
        let groups = self.groups.as_ref().map_or(0, |groups| size_of::<Groups>() + groups.heap_bytes());
        let barriers = self.barriers.as_ref();
        let barriers = barriers.map_or(0, |barriers| size_of::<Barriers>() + barriers.heap_bytes());
        let selectors = self.selectors.as_ref();
        let selectors = selectors.map_or(0, |selectors| size_of::<Selectors>() + selectors.heap_bytes());
        window
            + groups
            + barriers
            + selectors
            + self.ahead.heap_bytes()
            + self.dying.heap_bytes()
            + self.levels.heap_bytes()
            + self.deadlines.heap_bytes()
            + self.weights.heap_bytes()
            + self.delays.heap_bytes()
            + self.annotations.heap_bytes()
            + self.prior.heap_bytes()
    }
}
