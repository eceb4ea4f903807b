//! What only some queues need: time, priorities, sizes, annotations, limits, the dying. A queue without has none of this.
//!
//! Recorded are the settings, and of live messages the level, the deadline, the size and the annotations. The rules, and who is dying, are
//! the owner's.
//!
//! The cursor of the queue stays that of the usual level; *elsewhere* are the live positions of that level from the cursor
//! on that are not ready through it, but on their way out or waiting. They, and all of other levels, count as gone ahead.
//! Invariants: nothing elsewhere is below the cursor, settled or of another level; what is back ahead is neither, nor
//! elsewhere; what is dying is ready nowhere and held by nobody.

use crate::annotations::Annotations;
use crate::command::ConsumerId;
use crate::deadlines::Deadlines;
use crate::dedup_window::Window;
use crate::delays::Delays;
use crate::delivery::Delivery;
use crate::effect::Effects;
use crate::fifo::Fifo;
use crate::groups::Groups;
use crate::levels::{Levels, Next};
use crate::prior_failures::Tried;
use crate::settings::{Arrival, Priorities, Rules, Settings};
use crate::sizes::Sizes;
use base::RangeSet;
use base::id::{LogIndex, QueueSeq};
use base::ranges::Range;
use message::record::{DeathReason, Kind, Outcome};

/// State of queues with features, absent in others.
#[derive(Debug, Default)]
pub(crate) struct Features {
    // Recorded.
    pub(crate) settings: Settings,
    pub(crate) levels: Levels,
    pub(crate) deadlines: Deadlines,
    pub(crate) sizes: Sizes,
    /// What is in it has no size yet, but for what came while sizes were kept.
    pub(crate) unweighed: Option<Range>,
    pub(crate) annotations: Annotations,
    /// Where duplicates are passed over.
    pub(crate) window: Option<Box<Window>>,
    // Recorded and volatile.
    pub(crate) delays: Delays,
    pub(crate) tried: Tried,
    /// Where live messages are in groups.
    pub(crate) groups: Option<Box<Groups>>,
    // Volatile.
    /// Messages that come may be in groups.
    pub(crate) is_grouped: bool,
    pub(crate) rules: Rules,
    pub(crate) elsewhere: RangeSet,
    /// What of the positions that are ready through the cursor was out before: chosen by position, and back at its place.
    pub(crate) back_ahead: RangeSet,
    /// Their owner is to see that somebody takes them.
    pub(crate) dying: RangeSet,
    /// Positions below it had their chance to be handed out.
    pub(crate) offered_below: u64,
    /// Above every position of another level than the usual that was handed out.
    pub(crate) handed_below: u64,
    /// Of what is ready.
    pub(crate) ready_bytes: u64,
}

impl Features {
    /// Nothing recorded but what a plain queue is like, and nothing the owner needs.
    fn is_plain(&self) -> bool {
        self.settings == Settings::plain(self.settings.counts)
            && Rules { delivery_limit: None, drops_head: false, ..self.rules } == Rules::default()
            && self.window.is_none()
            && !self.is_grouped
            && self.groups.is_none()
            && self.levels.is_empty()
            && self.deadlines.is_empty()
            && self.delays.is_empty()
            && self.annotations.is_empty()
            && self.tried.is_empty()
            && self.elsewhere.is_empty()
            && self.back_ahead.is_empty()
            && self.dying.is_empty()
    }

    /// Heap bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let sets = self.elsewhere.heap_bytes() + self.back_ahead.heap_bytes() + self.dying.heap_bytes();
        let window = self.window.as_ref().map_or(0, |window| size_of::<Window>() + window.heap_bytes());
        let groups = self.groups.as_ref().map_or(0, |groups| size_of::<Groups>() + groups.heap_bytes());
        window
            + groups
            + sets
            + self.levels.heap_bytes()
            + self.deadlines.heap_bytes()
            + self.sizes.heap_bytes()
            + self.delays.heap_bytes()
            + self.annotations.heap_bytes()
            + self.tried.heap_bytes()
    }

    /// It is ready, and was out.
    pub(crate) fn came_back(&self, seq: u64) -> bool {
        self.back_ahead.contains(seq)
            || self.levels.came_back(seq)
            || self.groups.as_ref().is_some_and(|groups| groups.came_back(seq))
    }

    /// Ready, and out before, but for those of the usual level below the cursor.
    pub(crate) fn ready_returned(&self) -> u64 {
        self.back_ahead.count()
            + self.levels.ready_returned()
            + self.groups.as_ref().map_or(0, |groups| groups.came_back_count())
    }

    /// Ready, but neither through the cursor nor because they came back.
    pub(crate) fn ready_elsewhere(&self) -> u64 {
        let passed = self.groups.as_ref().map_or(0, |groups| groups.passed().count());
        self.levels.ready() + self.delays.lined.count() + passed
    }
}

impl Fifo {
    pub(crate) fn features_mut(&mut self) -> &mut Features {
        let settings = self.settings();
        // Nothing that came before has a deadline: nothing was offered that could be due.
        self.features.get_or_insert_with(|| Box::new(Features { settings, ..Features::default() }))
    }

    // Records.

    /// It keeps more of its messages than their places, or goes by rules of its own.
    #[inline]
    pub fn has_features(&self) -> bool {
        self.features.is_some()
    }

    /// Whether a message without a priority, or with the usual one, and without an expiry may come through
    /// [`Fifo::enqueue`]; else it comes through [`Fifo::arrive`].
    #[inline]
    pub fn takes_plain(&self) -> bool {
        self.features
            .as_ref()
            .is_none_or(|features| features.settings.ttl_ms.is_none() && !features.settings.keeps_sizes())
    }

    /// A message arrived, its record is at `place`: its position.
    #[cold]
    #[inline(never)]
    pub fn arrive(&mut self, place: LogIndex, arrival: &Arrival) -> QueueSeq {
        let seq = self.enqueue(place, arrival.transient);
        let range = Range { first: seq.0, last: seq.0 };
        let settings = self.settings();
        let Settings { ttl_ms, priorities, .. } = settings;
        let level = match arrival.group {
            Some(_) => priorities.usual(),
            None => priorities.level(arrival.priority),
        };
        if level != priorities.usual() {
            let features = self.features_mut();
            features.levels.insert(level, range);
            self.line.ready.hide(1);
        }
        if let Some(group) = arrival.group {
            self.join_group(seq.0, group);
        }
        if let Some(deadline_ms) = arrival.deadline_ms(ttl_ms) {
            self.features_mut().deadlines.push(seq.0, deadline_ms);
            self.tidy_deadlines();
        }
        if settings.keeps_sizes()
            && let Some(mut features) = self.features.take()
        {
            let end = features.sizes.end();
            let between = self.line.live.count_between(end, seq.0);
            features.sizes.push(seq.0, arrival.bytes, between);
            let bytes =
                if arrival.is_delayed() { &mut features.delays.bytes } else { &mut features.ready_bytes };
            *bytes += u64::from(arrival.bytes);
            self.features = Some(features);
        }
        if arrival.is_delayed() {
            self.delay_new(seq.0, arrival.due_at_ms);
        }
        if arrival.failures > 0 {
            self.features_mut().tried.push(seq.0, arrival.failures);
        }
        seq
    }

    /// As [`Fifo::arrive`], of a message that has a priority at most. False, and nothing is done: the queue keeps more of its
    /// messages.
    #[cold]
    #[inline(never)]
    pub fn arrive_simply(&mut self, place: LogIndex, transient: bool, priority: Option<u8>) -> bool {
        let Some(features) = &mut self.features else { return false };
        let Settings { ttl_ms, priorities, .. } = features.settings;
        let keeps_more = ttl_ms.is_some() || features.settings.keeps_sizes();
        if keeps_more || features.is_grouped || features.window.is_some() {
            return false;
        }
        let level = priorities.level(priority);
        if level != priorities.usual() {
            features.levels.insert_one(level, self.line.live.next_seq());
            self.line.ready.hide(1);
        }
        self.enqueue(place, transient);
        true
    }

    /// From now on messages that come are kept so; `counts` stays as it is. Sizes that are no longer kept are forgotten;
    /// where all are to be kept, those of what is there are asked for ([`Fifo::to_weigh`]).
    pub fn configure(&mut self, settings: Settings) {
        let counts = self.line.returns.counts();
        let priorities = if counts { Priorities::Strict } else { settings.priorities };
        let settings = Settings { counts, priorities, ..settings }.normal();
        if settings == self.settings() {
            return;
        }
        let before = std::mem::replace(&mut self.features_mut().settings, settings);
        self.keep_sizes(before.sizes, settings.sizes);
        self.tidy_features();
    }

    // The owner.

    /// From now on the owner goes by these; what they forbid ends at once. An owner that recovers does so first.
    pub fn set_rules(&mut self, rules: Rules, effects: &mut Effects) {
        if self.rules().single_active
            && !rules.single_active
            && let Some(consumers) = &mut self.consumers
        {
            consumers.end_election();
        }
        self.line.returns.set_delivery_limit(rules.delivery_limit);
        self.features_mut().rules = rules;
        self.drop_failed(effects);
        self.drop_over(effects);
        self.tidy_features();
    }

    /// The rules it goes by.
    pub fn rules(&self) -> Rules {
        let rules = self.features.as_ref().map_or_else(Rules::default, |features| features.rules);
        Rules { delivery_limit: self.line.returns.delivery_limit(), ..rules }
    }

    /// Bytes of ready messages, where sizes are kept; else 0.
    pub fn ready_bytes(&self) -> u64 {
        self.features.as_ref().map_or(0, |features| features.ready_bytes)
    }

    /// Messages that died and whose end is not recorded yet.
    pub fn dying(&self) -> u64 {
        self.features.as_ref().map_or(0, |features| features.dying.count())
    }

    /// Who is active, where one consumer at a time is; told at the dispatch after a change ([`crate::Effect::Active`]).
    pub fn active(&self) -> Option<ConsumerId> {
        let is_single = self.features.as_ref().is_some_and(|features| features.rules.single_active);
        self.consumers.as_ref().filter(|_| is_single)?.active.consumer()
    }

    /// When [`Fifo::dispatch`] is due again though nothing happens, milliseconds since 1970. May be early, never late.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let features = self.features.as_ref()?;
        if features.groups.as_ref().is_some_and(|groups| groups.is_on_the_way) {
            return Some(0);
        }
        features.deadlines.next_ms().into_iter().chain(features.delays.dues.next_ms()).min()
    }

    /// In front of handing out: what was offered before and is due ends.
    #[cold]
    #[inline(never)]
    pub(crate) fn before_dispatch(&mut self, now_ms: u64, effects: &mut Effects) {
        let Some(features) = &self.features else { return };
        if features.rules.single_active
            && let Some(consumers) = &mut self.consumers
        {
            consumers.elect(self.line.returns.counts(), effects);
        }
        let offered_below = features.offered_below;
        // What came back had its chance already; what was delayed when it came has it after the others' are over.
        let new = self.come_back_of_age(now_ms);
        self.expire(now_ms, offered_below, effects);
        self.line_up(new);
    }

    /// Behind handing out. Where it `is_done`, everything was offered to whoever would have it.
    #[cold]
    #[inline(never)]
    pub(crate) fn after_dispatch(&mut self, now_ms: u64, is_done: bool, effects: &mut Effects) {
        self.mark_tried(effects);
        self.mark_annotated(effects);
        if is_done {
            self.features_mut().offered_below = self.line.live.next_seq();
            self.expire(now_ms, self.line.live.next_seq(), effects);
            self.drop_over(effects);
        }
        self.tidy_deadlines();
        self.tidy_delays();
        self.tidy_features();
    }

    fn expire(&mut self, now_ms: u64, below: u64, effects: &mut Effects) {
        let Some(mut features) = self.features.take() else { return };
        let mut due = RangeSet::new();
        features.deadlines.take_due(now_ms, below, &self.line.live, |part| _ = due.insert(part.range));
        self.features = Some(features);
        for part in due.iter() {
            self.kill(part, DeathReason::Expired, effects);
        }
    }

    /// Ready messages that failed too often die.
    pub(crate) fn drop_failed(&mut self, effects: &mut Effects) {
        let all = Range { first: 0, last: u64::MAX - 1 };
        let failed = self.line.returns.over_limit(std::iter::once(all));
        for part in failed.iter() {
            self.kill(part, DeathReason::DeliveryLimit, effects);
        }
    }

    /// What is ready of `range` dies.
    fn kill(&mut self, range: Range, reason: DeathReason, effects: &mut Effects) {
        for part in self.withdraw(range).iter() {
            self.die(part, reason, effects);
        }
    }

    /// Positions that are ready nowhere and held by nobody end: dying where somebody takes the dead.
    pub(crate) fn die(&mut self, range: Range, reason: DeathReason, effects: &mut Effects) {
        if let Some(groups) = self.groups_mut() {
            groups.let_go(range);
        }
        match &mut self.features {
            Some(features) if features.rules.takes_dead => {
                features.dying.insert(range);
                effects.dead_letter(range, reason);
            }
            _ => match reason {
                DeathReason::Rejected | DeathReason::Undeliverable => {
                    effects.append(Kind::Settle, Outcome::Rejected, range);
                }
                DeathReason::Expired => effects.append(Kind::Expire, Outcome::Released, range),
                DeathReason::MaxLength => effects.append(Kind::Drop, Outcome::Released, range),
                DeathReason::DeliveryLimit => effects.append(Kind::Drop, Outcome::Failed, range),
            },
        }
    }

    /// The dead are safe elsewhere: their end is to be recorded.
    pub(crate) fn buried(&mut self, range: Range, effects: &mut Effects) {
        let Some(features) = &mut self.features else { return };
        features.dying.remove(range, |part| effects.append(Kind::DeadLetter, Outcome::Rejected, part));
    }

    /// What is ready of `range`.
    pub(crate) fn ready_within(&self, features: &Features, range: Range) -> RangeSet {
        let mut ready = RangeSet::new();
        self.line.ready.returned().within(range).for_each(|part| _ = ready.insert(part));
        features.levels.ready_within(range, |part| _ = ready.insert(part));
        features.delays.lined.within(range).for_each(|part| _ = ready.insert(part));
        let passed = features.groups.iter().flat_map(|groups| groups.passed().within(range));
        passed.for_each(|part| _ = ready.insert(part));
        let ahead = self.line.live.next_seq().checked_sub(1).filter(|last| self.line.ready.cursor() <= *last);
        let ahead = ahead.and_then(|last| range.overlap(Range { first: self.line.ready.cursor(), last }));
        for part in ahead.into_iter().flat_map(|ahead| self.line.live.settled().gaps(ahead)) {
            let usual = features.elsewhere.gaps(part).flat_map(|part| features.levels.usual_within(part));
            usual.for_each(|part| _ = ready.insert(part));
        }
        ready
    }

    /// What is ready of `range` is so no more: what that was.
    pub(crate) fn withdraw(&mut self, range: Range) -> RangeSet {
        self.features_mut();
        let Some(mut features) = self.features.take() else { return RangeSet::new() };
        let ready = self.ready_within(&features, range);
        for part in ready.iter() {
            self.line.ready.take_returned(part);
            features.back_ahead.remove(part, |_| {});
            features.levels.withdraw(part);
            features.delays.withdraw(part);
            features.groups.iter_mut().for_each(|groups| groups.withdraw(part));
            features.ready_bytes -= features.sizes.sum(part);
            if part.last >= self.line.ready.cursor() {
                let ahead = Range { first: part.first.max(self.line.ready.cursor()), last: part.last };
                let usual = features.levels.usual_within(ahead);
                self.line.ready.hide(usual.map(|part| features.elsewhere.insert(part)).sum::<u64>());
            }
        }
        self.features = Some(features);
        ready
    }

    // Handing out.

    /// Takes up to `count_max` positions that are ready and alike: as [`Fifo::next_ready`], for any queue.
    #[cold]
    #[inline(never)]
    pub(crate) fn next_featured(&mut self, count_max: u64) -> Option<Delivery> {
        let mut features = self.features.take()?;
        let ready = self.next_sized(&mut features, count_max);
        self.features = Some(features);
        ready
    }

    pub(crate) fn next_sized(&mut self, features: &mut Features, count_max: u64) -> Option<Delivery> {
        let ready = self.next_of(features, count_max)?;
        if !features.sizes.is_empty() {
            features.ready_bytes -= features.sizes.sum(ready.range);
        }
        Some(ready)
    }

    fn next_of(&mut self, features: &mut Features, count_max: u64) -> Option<Delivery> {
        let ready = self.next_in_front(features, count_max);
        ready.or_else(|| self.next_passed(features)).or_else(|| self.next_behind(features, count_max))
    }

    /// What goes before all that never was out and is of the usual level.
    pub(crate) fn next_in_front(&mut self, features: &mut Features, count_max: u64) -> Option<Delivery> {
        let priorities = features.settings.priorities;
        let usual = priorities.usual();
        let is_strict = priorities == Priorities::Strict;
        if is_strict && let Some(next) = features.levels.first_returned(|level| level > usual) {
            return Some(self.next_of_level(features, next, count_max));
        }
        if is_strict && let Some(first) = self.line.ready.returned().first() {
            return Some(self.line.next_returned(first, count_max));
        }
        if is_strict && let Some(next) = features.levels.first_returned(|level| level < usual) {
            return Some(self.next_of_level(features, next, count_max));
        }
        if let Some(next) = features.levels.first(|level| level > usual) {
            return Some(self.next_of_level(features, next, count_max));
        }
        let first = self.line.ready.returned().first()?;
        Some(self.line.next_returned(first, count_max))
    }

    /// What is ready through the cursor, and what goes behind that.
    pub(crate) fn next_behind(&mut self, features: &mut Features, count_max: u64) -> Option<Delivery> {
        let usual = features.settings.priorities.usual();
        self.pass_elsewhere(features);
        let behind = features.delays.next_behind();
        if behind.is_some_and(|behind| behind <= self.line.ready.cursor()) {
            return self.next_in_line(&mut features.delays, count_max);
        }
        if self.line.ready.cursor() < self.line.live.next_seq() {
            let first = self.line.ready.cursor();
            let not_ready = [features.elsewhere.next_present(first), features.levels.next_member(first)];
            let back = features.back_ahead.next_present(first);
            let came_back = back == Some(first);
            let changes = if came_back { Some(features.back_ahead.next_absent(first)) } else { back };
            let ends =
                [self.line.live.settled().next_present(first), behind, changes].into_iter().chain(not_ready);
            let end = ends.flatten().fold(self.line.live.next_seq(), u64::min);
            let range = Range { first, last: end.min(first.saturating_add(count_max)) - 1 };
            let ready = if came_back { self.line.again(range) } else { self.line.fresh(range) };
            if came_back {
                features.back_ahead.remove(ready.range, |_| {});
            }
            self.line.ready.hand_out(ready.range.last + 1);
            return Some(ready);
        }
        let next = features.levels.first(|level| level < usual)?;
        Some(self.next_of_level(features, next, count_max))
    }

    fn next_of_level(&self, features: &mut Features, next: Next, count_max: u64) -> Delivery {
        let Range { first, last } = next.range;
        let range = Range { first, last: last.min(first.saturating_add(count_max - 1)) };
        let ready = if next.is_returned() { self.line.again(range) } else { self.line.fresh(range) };
        features.levels.take(next, ready.range);
        features.handed_below = features.handed_below.max(ready.range.last + 1);
        ready
    }

    /// Moves the cursor over what is settled or elsewhere.
    pub(crate) fn pass_elsewhere(&mut self, features: &mut Features) {
        while self.line.ready.has_gone_ahead() {
            let to = features.levels.next_usual(self.line.ready.cursor());
            let to = self.line.live.settled().next_absent(features.elsewhere.next_absent(to));
            if to == self.line.ready.cursor() {
                return;
            }
            features.elsewhere.remove(Range { first: self.line.ready.cursor(), last: to - 1 }, |_| {});
            self.line.ready.pass(to);
        }
    }

    // What the plain queue asks for.

    /// Positions are ready again.
    #[cold]
    #[inline(never)]
    pub(crate) fn put_back(&mut self, range: Range) {
        let Some(features) = &mut self.features else {
            self.line.ready.put_back(range);
            return;
        };
        features.deadlines.come_back(range);
        features.ready_bytes += features.sizes.sum(range);
        match features.groups.is_some() {
            true => self.rejoin(range, true).into_iter().for_each(|part| self.come_back(part)),
            false => self.come_back(range),
        }
    }

    /// Positions in no group go before what never was out; those that were chosen, and behind others of their level that never
    /// were, where they were.
    fn come_back(&mut self, range: Range) {
        let Fifo { line, features, .. } = self;
        let (Some(features), ready) = (features, &mut line.ready) else { return };
        let cursor = ready.cursor();
        let Features { levels, elsewhere, back_ahead, settings, .. } = &mut **features;
        levels.come_back(range, settings.priorities == Priorities::Strict, |part| {
            if part.first < cursor {
                ready.put_back(Range { first: part.first, last: part.last.min(cursor - 1) });
            }
            if part.last >= cursor {
                let ahead = Range { first: part.first.max(cursor), last: part.last };
                let count = elsewhere.remove(ahead, |_| {});
                assert!(count == ahead.len(), "what is out is not ready through the cursor");
                ready.show(count);
                back_ahead.insert(ahead);
            }
        });
    }

    /// Everything this knows about live positions that leave; before all else about them changes.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave_features(&mut self, part: Range) {
        let Some(mut features) = self.features.take() else { return };
        if !features.sizes.is_empty() {
            let ready = self.ready_within(&features, part);
            features.ready_bytes -= ready.iter().map(|part| features.sizes.sum(part)).sum::<u64>();
        }
        let sizes = &features.sizes;
        features.delays.leave(part, |part| sizes.sum(part));
        features.sizes.leave(part);
        self.line.ready.show(features.elsewhere.remove(part, |_| {}));
        features.back_ahead.remove(part, |_| {});
        self.line.ready.show(features.levels.leave(part, self.line.ready.cursor()));
        features.dying.remove(part, |_| {});
        features.deadlines.leave(part);
        features.annotations.leave(part);
        features.tried.leave(part);
        features.groups.iter_mut().for_each(|groups| groups.leave(part));
        self.features = Some(features);
    }

    /// Everything ready and everything delayed is thrown away.
    #[cold]
    pub(crate) fn purge_features(&mut self, effects: &mut Effects) {
        let all = Range { first: 0, last: u64::MAX - 1 };
        self.withdraw(all).iter().for_each(|part| effects.append(Kind::Purge, Outcome::Released, part));
        self.cancel_delayed(all, effects);
    }

    /// Everything live is ready: what an owner knew is forgotten, but for the rules. The plain queue has done so.
    pub(crate) fn forget_features(&mut self) {
        let Some(mut features) = self.features.take() else { return };
        features.dying.clear();
        features.elsewhere.clear();
        features.back_ahead.clear();
        features.deadlines.forget();
        features.annotations.forget();
        features.levels.forget();
        if !self.line.returns.counts() {
            features.tried = Tried::default();
        }
        let Features { levels, elsewhere, delays, .. } = &mut *features;
        self.forget_delays(delays, |part| {
            levels.withdraw(part);
            levels.usual_within(part).for_each(|part| _ = elsewhere.insert(part));
        });
        self.line.ready.hide(elsewhere.count() + levels.count());
        if let Some(groups) = &mut features.groups {
            groups.forget(&features.delays);
        }
        features.offered_below = self.line.live.next_seq();
        features.handed_below = 0;
        let live = Range { first: 0, last: u64::MAX - 1 };
        let bytes: u64 = self.line.live.parts(live).map(|part| features.sizes.sum(part)).sum();
        features.delays.weigh(&features.sizes);
        features.ready_bytes = bytes - features.delays.bytes;
        self.features = Some(features);
    }

    /// The rare state goes with its last user.
    pub(crate) fn tidy_features(&mut self) {
        if let Some(features) = &mut self.features {
            features.groups.take_if(|groups| groups.is_empty());
        }
        if self.features.as_ref().is_some_and(|features| features.is_plain()) {
            self.features = None;
        }
    }

    fn tidy_deadlines(&mut self) {
        let Some(mut features) = self.features.take() else { return };
        features.deadlines.tidy(self.total(), &self.line.live);
        self.features = Some(features);
    }
}
