//! Requests of a queue's owner: consumers, handing out, and messages that are given back or thrown away.

use super::Fifo;
use crate::command::{Command, Consume, ConsumerId, Refused};
use crate::consumer_timeout::{Late, Over};
use crate::consumers::Consumers;
use crate::dispatch::{hand_out, hand_out_featured};
use crate::effect::{Effect, Effects};
use crate::line::Line;
use crate::pick::choices;
use crate::priority_blocks::Block;
use crate::ranges::{numbers, positions};
use crate::returns::ReturnLimits;
use crate::settings::{Fairness, Rules};
use crate::settle_many::{Some64, by_block};
use base::RangeSet;
use base::id::QueueSeq;
use base::ranges::Range;
use message::record::{DeathReason, Kind, Outcome, SeqRange};

impl Fifo {
    /// Carries out a command of the owner.
    #[inline]
    pub fn apply(&mut self, command: Command, effects: &mut Effects) {
        match command {
            Command::Cancel { consumer } => self.with_consumers(|all| all.cancel(consumer)),
            Command::Close { consumer } => self.close(consumer, effects),
            Command::Credit { consumer, credit, drain } => {
                self.with_consumers(|all| all.credit(consumer, credit, drain))
            }
            Command::Prefetch { consumer, prefetch } => {
                self.with_consumers(|all| all.prefetch(consumer, prefetch))
            }
            Command::Pause { consumer, paused } => self.with_consumers(|all| all.pause(consumer, paused)),
            Command::HoldUp { consumer, held_up } => {
                self.with_consumers(|all| all.hold_up(consumer, held_up))
            }
            Command::Claim { consumer, range } => self.claim_for(consumer, range),
            Command::Settle { consumer, range, outcome } => self.settle(consumer, range, outcome, effects),
            Command::Purge => self.purge(effects),
            Command::CancelDelayed { range } => {
                if let Some((features, range)) = self.features.as_mut().zip(numbers(range)) {
                    features.delays.cancel(range, features.weights.sizes(), effects);
                }
            }
            Command::Discard { range } => {
                if let Some(range) = numbers(range) {
                    let (features, line) = self.with_features();
                    features.discard(range, line, effects);
                    self.tidy();
                }
            }
            Command::Reject { range } => {
                if let Some(range) = numbers(range) {
                    let (features, line) = self.with_features();
                    features.kill(range, DeathReason::Rejected, line, effects);
                    self.tidy();
                }
            }
            Command::DeadLettered { range } => {
                if let Some((features, range)) = self.features.as_mut().zip(numbers(range)) {
                    features.dying.dead_lettered(range, effects);
                }
            }
        }
    }

    /// From now on the owner goes by these; things that they forbid end at once. An owner that recovers does so first.
    pub fn set_rules(&mut self, rules: Rules, effects: &mut Effects) {
        if self.rules().single_active && !rules.single_active {
            self.with_consumers(Consumers::end_election);
        }
        self.line.returns.set_limits(ReturnLimits::of(&rules));
        self.with_consumers(|all| all.set_fairness(rules.fairness));
        if self.rules().lease_ms != rules.lease_ms {
            self.with_consumers(|all| all.lease_all(rules.lease_ms));
        }
        self.with_features().0.rules = rules;
        self.drop_failed(effects);
        let (features, line) = self.with_features();
        features.drop_over(line, effects);
        self.tidy();
    }

    /// Messages that come from here on may be in groups ([`crate::Arrival::group`]): the queue keeps more of its messages
    /// than their places ([`Fifo::has_features`]) though none is. Not recorded.
    pub fn group(&mut self) {
        self.with_features().0.is_grouped = true;
    }

    /// The owner asks for a record that gives these positions annotations of so many bytes.
    pub fn will_annotate(&mut self, range: SeqRange, bytes: usize) {
        let Some(range) = numbers(range) else { return };
        self.with_features().0.annotations.will_come(bytes as u64 * range.len());
    }

    // Consumers.

    /// Opens a consumer, or says why not. Panics where its slot is taken.
    pub fn consume(&mut self, new: Consume) -> Result<(), Refused> {
        if let Some(consumers) = &self.consumers {
            consumers.admit(new.exclusive)?;
        }
        self.consumers_or_new().consume(new);
        self.lease(new.consumer);
        Ok(())
    }

    /// Adds a holder of messages that [`Fifo::take`] and [`Fifo::pick`] give it (AMQP 0-9-1 basic.get); it is no
    /// consumer. Panics where its slot is taken.
    pub fn add_getter(&mut self, id: ConsumerId) {
        self.consumers_or_new().add_holder(id);
        self.lease(id);
    }

    /// A consumer that is new holds its messages for as long as the rules say.
    fn lease(&mut self, id: ConsumerId) {
        if let Some(features) = &self.features
            && let Some(lease_ms) = features.rules.lease_ms
        {
            self.with_consumers(|all| all.lease(id, Some(lease_ms)));
        }
    }

    /// The consumers, of whom there may be none so far.
    fn consumers_or_new(&mut self) -> &mut Consumers {
        let fairness =
            self.features.as_ref().map_or(Fairness::RoundRobin, |features| features.rules.fairness);
        self.consumers.get_or_insert_with(|| {
            let mut consumers = Box::<Consumers>::default();
            consumers.set_fairness(fairness);
            consumers
        })
    }

    #[inline]
    fn with_consumers(&mut self, change: impl FnOnce(&mut Consumers)) {
        if let Some(consumers) = &mut self.consumers {
            change(consumers);
        }
    }

    fn close(&mut self, id: ConsumerId, effects: &mut Effects) {
        let Some(consumers) = &mut self.consumers else { return };
        let held = consumers.remove(id);
        if consumers.is_empty() {
            self.consumers = None;
            let barriers = self.features.as_mut().and_then(|features| features.barriers.as_mut());
            barriers.into_iter().for_each(|barriers| barriers.forget_consumers());
        }
        for range in held.iter() {
            self.give_back(range, Outcome::Failed, effects);
        }
    }

    #[inline]
    fn settle(&mut self, id: ConsumerId, range: SeqRange, outcome: Outcome, effects: &mut Effects) {
        let Some(range) = numbers(range) else { return };
        let Some(consumers) = &mut self.consumers else {
            effects.ignored += range.len();
            return;
        };
        let count = match outcome {
            Outcome::Rejected | Outcome::Undeliverable if self.features.is_some() => {
                let mut parts = RangeSet::new();
                let count = consumers.let_go(id, range, |part| _ = parts.insert(part));
                let is_failure = outcome == Outcome::Rejected;
                self.reject(
                    &parts,
                    if is_failure { DeathReason::Rejected } else { DeathReason::Undeliverable },
                    effects,
                );
                count
            }
            Outcome::Accepted | Outcome::Rejected | Outcome::Undeliverable => {
                let recorded = if outcome == Outcome::Accepted { outcome } else { Outcome::Rejected };
                consumers.let_go(id, range, |part| effects.append(Kind::Settle, recorded, part))
            }
            Outcome::Released | Outcome::Failed => {
                let parts = consumers.give_back(id, range);
                parts.iter().for_each(|part| self.give_back(part, outcome, effects));
                parts.count()
            }
        };
        effects.ignored += range.len() - count;
    }

    /// `id` accepts each of `ranges`, in the order of positions ([`Command::Settle`](crate::Command::Settle)).
    #[cold]
    #[inline(never)]
    pub fn accept_together(
        &mut self,
        id: ConsumerId,
        ranges: impl Iterator<Item = SeqRange>,
        effects: &mut Effects,
    ) {
        by_block(ranges, |some| match some {
            Some64::Range(range) => self.settle(id, positions(range), Outcome::Accepted, effects),
            Some64::Bits(block, bits) => {
                let consumers = self.consumers.as_mut();
                let taken = consumers.map_or(0, |consumers| consumers.let_go_bits(id, block, bits));
                Block::runs_of(block, taken, &mut |run| {
                    effects.append(Kind::Settle, Outcome::Accepted, run);
                });
                effects.ignored += u64::from((bits & !taken).count_ones());
            }
        });
    }

    // Timeouts.

    /// From now on messages that this consumer holds for longer than `timeout_ms` are taken back ([`Fifo::look`]), until it
    /// is closed; where the queue leases them ([`Rules::lease_ms`]), once it ceases to. Passed over where there is no such
    /// consumer.
    pub fn watch(&mut self, consumer: ConsumerId, timeout_ms: u64) {
        self.with_consumers(|all| all.watch(consumer, timeout_ms));
    }

    /// The messages that watched consumers hold for too long at `now_ms`, of a clock that never goes back: their positions.
    /// Where they are not leased they are taken back, and the consumers are given nothing until [`Fifo::settle_late`] has
    /// named all of them; they count as acquired, and not as failed. Those whose leases are over stay until
    /// [`Fifo::lease_over`]. Consumers that hold something are looked at, and those with longer timeouts than others not at
    /// each look.
    #[cold]
    #[inline(never)]
    pub fn look(&mut self, now_ms: u64, effects: &mut Effects) -> Vec<Late> {
        let over = self.consumers.as_mut().map_or_else(Vec::new, |consumers| consumers.look(now_ms));
        for part in over.iter().filter(|over| !over.is_leased).flat_map(|over| over.held.iter()) {
            self.give_back(part, Outcome::Released, effects);
        }
        let late = |over: Over| {
            let Over { consumer, held, is_leased } = over;
            Late { consumer, ranges: held.iter().map(positions).collect(), is_leased }
        };
        over.into_iter().map(late).collect()
    }

    /// The leases that [`Fifo::look`] told of are over, of those messages of `ranges` that the consumer holds: they come
    /// back as failed. `is_late`: it may settle them yet, by [`Fifo::settle_over`], and they take room of its prefetch until it
    /// has. How many messages. [`Fifo::lease_on`] is to follow.
    #[cold]
    #[inline(never)]
    pub fn lease_over(
        &mut self,
        consumer: ConsumerId,
        ranges: &[SeqRange],
        is_late: bool,
        effects: &mut Effects,
    ) -> u64 {
        let Some(consumers) = &mut self.consumers else { return 0 };
        let over = consumers.lease_over(consumer, ranges, is_late);
        over.iter().for_each(|part| self.give_back(part, Outcome::Failed, effects));
        over.count()
    }

    /// The answer to [`Fifo::look`] has come for the leases of `range`: those of messages that the consumer holds all the same
    /// begin anew.
    #[cold]
    #[inline(never)]
    pub fn lease_on(&mut self, consumer: ConsumerId, ranges: &[SeqRange]) {
        self.with_consumers(|all| all.lease_on(consumer, ranges));
    }

    /// A consumer settles, in whatever way, deliveries whose leases are over, one of each position: that changes nothing but its
    /// room. Positions of which none is over are passed over.
    #[cold]
    #[inline(never)]
    pub fn settle_over(&mut self, consumer: ConsumerId, range: SeqRange) {
        self.with_consumers(|all| all.settle_over(consumer, range));
    }

    /// The leases of the messages of `range` that a consumer holds begin anew. Those that are over are passed over.
    #[cold]
    #[inline(never)]
    pub fn renew(&mut self, consumer: ConsumerId, range: SeqRange) {
        self.with_consumers(|all| all.renew(consumer, range));
    }

    /// A consumer settles, too late and with any outcome, messages that were taken back from it. Once these are all of
    /// them, it is given messages again. Positions that are not late are passed over.
    #[cold]
    #[inline(never)]
    pub fn settle_late(&mut self, consumer: ConsumerId, range: SeqRange) {
        self.with_consumers(|all| all.settle_late(consumer, range));
    }

    /// Messages that were taken back from a consumer had never been sent to it: its link's credit was not used for so many.
    #[cold]
    #[inline(never)]
    pub fn restore_credit(&mut self, consumer: ConsumerId, count: u32) {
        self.with_consumers(|all| all.restore_credit(consumer, count));
    }

    // Messages that come back or go.

    /// A barrier that was handed to a consumer ([`crate::Effect::DeliverBarrier`]) was never sent to it, and the consumer is about
    /// to go. True: others were sent it, and its end, which was asked for, is to be recorded if it is not; else it is to be
    /// recorded no more.
    #[cold]
    pub fn barrier_unsent(&mut self, seq: QueueSeq) -> bool {
        let Fifo { line, features: Some(features), .. } = self else { return false };
        features.barrier_unsent(seq.0, line)
    }

    /// Positions that were handed to one that settles them at once, and that it was never sent, are ready again, or will be when
    /// their record comes back. That they were settled must not be on record.
    pub fn unsent(&mut self, range: SeqRange, effects: &mut Effects) {
        if let Some(range) = numbers(range) {
            self.give_back(range, Outcome::Released, effects);
        }
    }

    /// Messages of `range` that `consumer` holds are given back and delayed until `due_at_ms` (milliseconds since 1970), once the
    /// record of that comes back. Positions that it does not hold are counted in [`Effects::ignored`].
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
        let held = consumers.map_or_else(RangeSet::new, |consumers| consumers.give_back(consumer, range));
        effects.ignored += range.len() - held.count();
        // Messages that were settled by a record while they were held are gone.
        let live: Vec<Range> = held.iter().flat_map(|part| self.line.live.parts(part)).collect();
        for part in live {
            let (features, line) = self.with_features();
            features.postpone(part, outcome, due_at_ms, &mut line.returns, effects);
        }
    }

    /// Positions nobody holds any more are ready again, or will be when their record comes back.
    fn give_back(&mut self, range: Range, outcome: Outcome, effects: &mut Effects) {
        let Some(live) = self.line.live.clip(positions(range)) else { return };
        let parts: Vec<Range> = self.line.live.parts(live).collect();
        for part in parts {
            let returns = &mut self.line.returns;
            let features = self.features.as_mut();
            let waits = features.is_some_and(|features| features.give_back(part, outcome, returns, effects));
            if !waits && returns.give_back(part, outcome, effects) {
                self.put_back(part);
            }
        }
    }

    /// Positions nobody holds any more were refused.
    #[cold]
    fn reject(&mut self, parts: &RangeSet, reason: DeathReason, effects: &mut Effects) {
        for part in parts.iter() {
            // Messages that were settled by a record while they were held are gone.
            let live: Vec<Range> = self.line.live.parts(part).collect();
            live.into_iter().for_each(|part| self.die(part, reason, effects));
        }
    }

    fn purge(&mut self, effects: &mut Effects) {
        if let Some(features) = &mut self.features {
            return features.discard(Range { first: 0, last: u64::MAX - 1 }, &mut self.line, effects);
        }
        let Line { live, ready, .. } = &mut self.line;
        ready.purge(live, effects);
    }

    /// Somebody looks at the queue before the next dispatch: messages over a limit go now, unless a consumer could be
    /// given of them.
    pub fn cut(&mut self, effects: &mut Effects) {
        if !self.has_taker()
            && let Some(features) = &mut self.features
        {
            features.drop_over(&mut self.line, effects);
        }
    }

    // Handing out.

    /// Hands out at most `budget` messages, one each in turn among the consumers of the highest priority that can take
    /// any; how many it were. Then tells draining consumers that there was no more, if so. Before and after, messages
    /// that are due at `now_ms` (since 1970) end: none does that was not offered once, and after come the limits.
    pub fn dispatch(&mut self, now_ms: u64, budget: u32, effects: &mut Effects) -> u32 {
        if self.features.is_some() {
            return self.dispatch_featured(now_ms, budget, effects);
        }
        let Fifo { line, consumers: Some(consumers), .. } = self else { return 0 };
        let given = hand_out(consumers, budget, effects, |count_max| line.next(count_max));
        if consumers.is_draining() {
            consumers.drain(line.ready_count() == 0, false, |_| false, effects);
        }
        given
    }

    #[inline(never)]
    fn dispatch_featured(&mut self, now_ms: u64, budget: u32, effects: &mut Effects) -> u32 {
        self.before_dispatch(now_ms, effects);
        let Fifo { line, consumers, features: Some(features), .. } = self else { return 0 };
        features.groups.iter_mut().for_each(|groups| groups.begin(budget));
        let mut given = 0;
        if features.barriers.is_some() {
            let consumers = consumers.as_deref_mut();
            given = features.hand_out_barrier(consumers, (now_ms, budget), line, effects);
        }
        if let Some(consumers) = consumers {
            given += hand_out_featured(consumers, budget - given, features, line, effects);
            if consumers.is_draining() {
                let may_choose = features.groups.is_some() || features.selectors.is_some();
                let may_choose = may_choose || features.barriers.is_some();
                let is_kept_back = may_choose || features.may_hold_more(consumers) == 0;
                let is_over = given < budget && is_kept_back && !features.is_on_the_way();
                let selectors = features.selectors.as_ref();
                let is_behind = |id| selectors.is_some_and(|all| all.is_behind(id, &line.live));
                consumers.drain(features.ready_count(line) == 0, is_over, is_behind, effects);
            }
        }
        let is_done = (given < budget || budget == 0) && !features.is_on_the_way();
        features.after_dispatch(now_ms, is_done, line, effects);
        self.tidy();
        given
    }

    /// In front of handing out: one consumer is active where only one is, and messages that are due end.
    fn before_dispatch(&mut self, now_ms: u64, effects: &mut Effects) {
        let Fifo { line, consumers, features: Some(features), .. } = self else { return };
        if features.rules.single_active
            && let Some(consumers) = consumers
        {
            consumers.elect(line.returns.counts(), effects);
        }
        features.before_dispatch(now_ms, line, effects);
    }

    /// Gives one message to `id` at any credit (AMQP 0-9-1 basic.get), settled at once or held; false, and
    /// [`Effect::Empty`], where none is ready. Messages that are due at `now_ms` (since 1970) and were offered before
    /// end first.
    /// Panics where `id` was never added.
    pub fn take(&mut self, id: ConsumerId, settled: bool, now_ms: u64, effects: &mut Effects) -> bool {
        self.before_dispatch(now_ms, effects);
        let Fifo { line, features, .. } = self;
        let consumers = self.consumers.as_mut().filter(|consumers| consumers.get(id).is_some());
        assert!(consumers.is_some(), "{id:?} was not added");
        let next = match features {
            Some(features) => {
                let is_consumed = consumers.as_ref().is_some_and(|consumers| consumers.consumers() > 0);
                features.next_one(id, line, is_consumed)
            }
            None => line.next(1),
        };
        let Some(delivery) = next else {
            effects.list.push(Effect::Empty { consumer: id });
            return false;
        };
        effects.list.push(delivery.to(id));
        if let Some(features) = features {
            features.mark(line.returns.counts(), effects);
            if !settled {
                features.hold(delivery.range, id);
            }
        }
        if settled {
            effects.append(Kind::Settle, Outcome::Accepted, delivery.range);
        } else if let Some(consumers) = consumers {
            consumers.hold(id, delivery.range);
            consumers.got(id);
        }
        true
    }

    /// Messages whose delay is over at `now_ms` (since 1970) are ready, and may be claimed: an owner before may have given them
    /// out, which is recorded nowhere.
    pub fn end_delays(&mut self, now_ms: u64) {
        let Fifo { line, features, .. } = self;
        if let Some(features) = features {
            features.end_delays(now_ms, line);
        }
    }

    /// `id` holds the ready messages of `range`: it was given them by an owner before.
    #[cold]
    fn claim_for(&mut self, id: ConsumerId, range: SeqRange) {
        let Some(range) = numbers(range) else { return };
        self.with_features();
        let Fifo { line, consumers: Some(consumers), features: Some(features), .. } = self else { return };
        if consumers.get(id).is_none() {
            return;
        }
        for part in features.ready_within(range, line).iter() {
            features.hand_out_chosen(part, line);
            consumers.hold(id, part);
            features.hold(part, id);
        }
        consumers.got(id);
        self.tidy();
    }

    /// Gives `id` the ready messages of `range`, in order of arrival and at any credit, to be settled; how many
    /// messages. Positions that are not ready are passed over, and those of a group that another consumer has. Messages
    /// that are due at `now_ms` (since 1970) and were offered before end first. Panics where `id` was never added.
    #[cold]
    pub fn pick(&mut self, id: ConsumerId, range: SeqRange, now_ms: u64, effects: &mut Effects) -> u64 {
        let is_there = self.consumers.as_ref().is_some_and(|consumers| consumers.get(id).is_some());
        assert!(is_there, "{id:?} was not added");
        self.before_dispatch(now_ms, effects);
        let Some(range) = numbers(range) else { return 0 };
        self.with_features();
        let Fifo { line, consumers: Some(consumers), features: Some(features), .. } = self else { return 0 };
        let mut count = 0;
        for (part, came_back) in choices(features, line, id, range) {
            features.hand_out_chosen(part, line);
            let mut first = part.first;
            while first <= part.last {
                let rest = Range { first, last: part.last };
                let delivery = if came_back { line.again(rest) } else { line.fresh(rest) };
                effects.list.push(delivery.to(id));
                first = delivery.range.last + 1;
            }
            consumers.hold(id, part);
            features.hold(part, id);
            count += part.len();
        }
        features.mark(line.returns.counts(), effects);
        consumers.got(id);
        self.tidy();
        count
    }
}
