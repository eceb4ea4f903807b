//! A queue: first in, first out; what comes back goes first, at its original position; what was chosen stays behind older ones.
//!
//! Two kinds of state. *Recorded* state changes only by records, in the order of the log: the next position, the
//! head, what above it is settled, which positions are transient, the counts of returned messages, and where the
//! bytes are. It is what a snapshot holds. *Volatile* state is the owner's: who consumes, who holds what, how far
//! delivery has come. After a restart or a change of owner everything that is not settled is ready again.
//!
//! Invariants, for every position from the head on that is not settled (it is *live*):
//! - it is ready (in `returned`, or from the cursor on), or held by one consumer, or on its way (a record about it was
//!   asked for and has not come back), or waits for its time ([`crate::delays`]);
//! - positions below the head are gone; `settled` holds positions above the head alone, and neither the head nor
//!   the next position.

use crate::command::{Command, Consume, ConsumerId, Credit, Record, Refused};
use crate::consumers::{Audience, PAUSED};
use crate::effect::Effects;
use crate::failures::Failures;
use crate::features::Features;
use crate::places::{Place, Places, Run, Stretch};
use crate::settings::{Priorities, Settings};
use crate::{numbers, positions};
use base::RangeSet;
use base::id::{LogIndex, QueueSeq};
use base::ranges::Range;
use message::record::{DeathReason, Kind, Outcome, SeqRange};
use std::collections::BTreeMap;

/// How often a message came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Deliveries that failed.
    pub delivery_count: u32,
    /// Deliveries.
    pub acquired_count: u32,
}

/// How the owner before ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Nobody knows: anything may have been delivered.
    Dirty,
    /// In order; delivery had come so far ([`Fifo::cursor`]).
    Clean(QueueSeq),
}

/// State of queues that count, absent in others.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    /// Recorded. Only messages that came back.
    pub(crate) counts: BTreeMap<u64, Counts>,
    /// Volatile: positions whose return was asked for and has not come back.
    returning: RangeSet,
    /// Volatile: failed deliveries of a message at most.
    pub(crate) delivery_limit: Option<u32>,
}

/// The machine of one queue.
#[derive(Debug, Default)]
pub struct Fifo {
    // Recorded.
    pub(crate) next_seq: u64,
    pub(crate) head: u64,
    pub(crate) settled: RangeSet,
    pub(crate) transient: RangeSet,
    pub(crate) places: Places,
    pub(crate) counting: Option<Box<Counting>>,
    // Volatile.
    /// Positions below it were handed out, or are gone.
    pub(crate) cursor: u64,
    /// Settled positions at or above the cursor.
    pub(crate) gone_ahead: u64,
    /// Came back from consumers.
    pub(crate) returned: RangeSet,
    /// Positions below it may have been handed out by an owner before.
    pub(crate) redelivered_below: u64,
    /// How often messages failed that came back, where that is not recorded.
    pub(crate) failures: Option<Box<Failures>>,
    pub(crate) unsettled: u64,
    pub(crate) audience: Option<Box<Audience>>,
    // Recorded and volatile.
    /// What only some queues need.
    pub(crate) features: Option<Box<Features>>,
}

/// Which positions are live.
#[derive(Clone, Copy)]
pub(crate) struct Live<'a> {
    head: u64,
    next_seq: u64,
    settled: &'a RangeSet,
}

impl<'a> Live<'a> {
    /// The live parts of `range`, lowest first.
    pub(crate) fn parts(self, range: Range) -> impl Iterator<Item = Range> + use<'a> {
        let last = self.next_seq.checked_sub(1).filter(|last| self.head <= *last);
        let within = last.and_then(|last| range.overlap(Range { first: self.head, last }));
        within.into_iter().flat_map(move |within| self.settled.gaps(within))
    }
}

impl Fifo {
    /// An empty queue that never had a message. Panics where one that does not count is to have strict priorities.
    pub fn new(settings: Settings) -> Fifo {
        let mut fifo = Fifo { counting: settings.counts.then(Box::default), ..Fifo::default() };
        fifo.configure(settings);
        fifo
    }

    /// What it keeps of the messages that come now.
    pub fn settings(&self) -> Settings {
        match &self.features {
            Some(features) => features.settings,
            None => Settings::plain(self.counting.is_some()),
        }
    }

    pub(crate) fn live(&self) -> Live<'_> {
        Live { head: self.head, next_seq: self.next_seq, settled: &self.settled }
    }

    // Records.

    /// Does what a record of the log says. At-least-once: a record may come again, and after a snapshot that has it.
    pub fn record(&mut self, record: Record, effects: &mut Effects) {
        match record {
            Record::Enqueue { place, transient } => {
                self.enqueue(place, transient);
            }
            Record::Settle { range } => self.settled(range, effects),
            Record::Return { range, outcome } => self.returned(range, outcome, effects),
            Record::Purge { range } => self.purged(range, effects),
            Record::Arrive { place, arrival } => {
                self.arrive(place, &arrival);
            }
            Record::Expire { range } | Record::Drop { range } | Record::DeadLetter { range } => {
                self.settled(range, effects);
            }
            Record::Postpone { range, outcome, due_at_ms } => {
                self.postponed(range, outcome, due_at_ms, effects);
            }
            Record::Configure { settings } => self.configure(settings),
            Record::Weigh { range, sizes } => self.weigh(range, sizes.iter().copied()),
            Record::Annotate { range, annotations } => self.annotated(range, &annotations),
        }
    }

    /// A message arrived, its record is at `place`: its position.
    #[inline]
    pub fn enqueue(&mut self, place: LogIndex, transient: bool) -> QueueSeq {
        let seq = self.next_seq;
        self.next_seq = seq + 1;
        self.places.push(seq, place);
        if transient {
            self.transient.insert(Range { first: seq, last: seq });
        }
        QueueSeq(seq)
    }

    /// Positions are done with. Those already gone, and those that never were, are passed over.
    #[inline]
    pub fn settled(&mut self, range: SeqRange, effects: &mut Effects) {
        let Some(live) = self.clip(range) else { return };
        if self.settled.is_empty() {
            self.leave(live, effects);
        } else {
            let mut from = live.first;
            while let Some(part) = self.live_part(Range { first: from, last: live.last }) {
                self.leave(part, effects);
                from = part.last + 1;
                if from > live.last {
                    break;
                }
            }
        }
        if live.first > self.head {
            self.settled.insert(live);
            return;
        }
        self.head = live.last + 1;
        while let Some(first) = self.settled.first().filter(|first| first.first <= self.head) {
            self.settled.pop_first(u64::MAX);
            self.head = self.head.max(first.last + 1);
        }
        if self.cursor < self.head {
            // All of this was settled at or above the cursor.
            self.gone_ahead -= self.head - self.cursor;
            self.cursor = self.head;
        }
    }

    /// Positions were thrown away while ready; the same as settled but for the reason. So are those that expired, were
    /// dropped or went to the dead letters.
    pub fn purged(&mut self, range: SeqRange, effects: &mut Effects) {
        self.settled(range, effects);
    }

    /// Positions came back: they count, and those whose return this owner asked for are ready, or die where that was
    /// once too often. Nothing in queues that do not count.
    pub fn returned(&mut self, range: SeqRange, outcome: Outcome, effects: &mut Effects) {
        let Some(clipped) = self.clip(range) else { return };
        self.count_return(clipped, outcome);
        let Some(counting) = &mut self.counting else { return };
        let mut back = RangeSet::new();
        counting.returning.remove(clipped, |part| _ = back.insert(part));
        let mut failed = RangeSet::new();
        for part in back.iter() {
            counting.over_limit(part, |seq| _ = failed.insert(Range { first: seq, last: seq }));
        }
        for part in back.iter().flat_map(|part| failed.gaps(part)) {
            self.put_back(part);
        }
        for part in failed.iter() {
            self.die(part, DeathReason::DeliveryLimit, effects);
        }
    }

    /// Positions came back: where the queue counts, they are counted.
    pub(crate) fn count_return(&mut self, clipped: Range, outcome: Outcome) {
        if self.features.is_some() {
            self.count_tried(clipped);
        }
        let Some(counting) = &mut self.counting else { return };
        for part in self.settled.gaps(clipped) {
            for seq in part.first..=part.last {
                let counts = counting.counts.entry(seq).or_default();
                counts.acquired_count = counts.acquired_count.saturating_add(1);
                if outcome == Outcome::Failed {
                    counts.delivery_count = counts.delivery_count.saturating_add(1);
                }
            }
        }
    }

    /// The part of `range` from the head on, and below the next position.
    #[inline]
    pub(crate) fn clip(&self, range: SeqRange) -> Option<Range> {
        let range = numbers(range)?;
        range.overlap(Range { first: self.head, last: self.next_seq.checked_sub(1)? })
    }

    /// The first stretch of `range` that is not settled.
    #[inline]
    fn live_part(&self, range: Range) -> Option<Range> {
        let first = self.settled.next_absent(range.first);
        if first > range.last {
            return None;
        }
        let last = self.settled.next_present(first).map_or(range.last, |next| range.last.min(next - 1));
        Some(Range { first, last })
    }

    /// Everything about live positions but their being settled.
    #[inline]
    fn leave(&mut self, part: Range, effects: &mut Effects) {
        if self.features.is_some() {
            self.leave_features(part);
        }
        if part.last >= self.cursor {
            self.gone_ahead += part.last + 1 - part.first.max(self.cursor);
        }
        if !self.returned.is_empty() {
            self.returned.remove(part, |_| {});
        }
        if !self.transient.is_empty() {
            self.transient.remove(part, |_| {});
        }
        if let Some(counting) = &mut self.counting {
            counting.leave(part);
        }
        if let Some(failures) = &mut self.failures
            && failures.leave(part)
        {
            self.failures = None;
        }
        self.places.remove(part, &mut effects.left, &mut effects.runs_left);
    }

    /// Records have been replayed: this owner begins. Everything live is ready; transient messages are gone, of which
    /// the log is told.
    pub fn recover(&mut self, recovery: Recovery, effects: &mut Effects) {
        assert!(self.audience.is_none(), "a queue recovers before anybody consumes");
        self.unsettled = 0;
        self.failures = None;
        self.returned.clear();
        if let Some(counting) = &mut self.counting {
            counting.returning.clear();
        }
        self.begin();
        for range in std::mem::take(&mut self.transient).iter() {
            effects.append(Kind::Purge, Outcome::Released, range);
            self.settled(positions(range), effects);
        }
        self.drop_failed(effects);
        self.redelivered_below = match recovery {
            Recovery::Dirty => self.next_seq,
            Recovery::Clean(cursor) => cursor.0.min(self.next_seq),
        };
    }

    /// Everything live is ready.
    pub(crate) fn begin(&mut self) {
        self.cursor = self.head;
        self.gone_ahead = self.settled.count();
        self.forget_features();
    }

    // Commands.

    /// Does what the owner asks.
    #[inline]
    pub fn apply(&mut self, command: Command, effects: &mut Effects) {
        match command {
            Command::Cancel { consumer } => self.cancel(consumer),
            Command::Close { consumer } => self.close(consumer, effects),
            Command::Credit { consumer, credit, drain } => self.credit(consumer, credit, drain),
            Command::Prefetch { consumer, prefetch } => self.prefetch(consumer, prefetch),
            Command::Pause { consumer, paused } => self.pause(consumer, paused),
            Command::Settle { consumer, range, outcome } => self.settle(consumer, range, outcome, effects),
            Command::Purge => self.purge(effects),
            Command::CancelDelayed { range } => {
                if let Some(range) = numbers(range) {
                    self.cancel_delayed(range, effects);
                }
            }
            Command::Discard { range } => {
                if let Some(range) = numbers(range) {
                    self.discard(range, effects);
                }
            }
            Command::Buried { range } => {
                if let Some(range) = numbers(range) {
                    self.buried(range, effects);
                }
            }
        }
    }

    /// Opens a consumer, or says why not. Panics where its slot is taken.
    pub fn consume(&mut self, new: Consume) -> Result<(), Refused> {
        if let Some(audience) = &self.audience {
            audience.admit(new.exclusive)?;
        }
        self.audience.get_or_insert_default().consume(new);
        Ok(())
    }

    /// Adds one that holds what [`Fifo::take`] and [`Fifo::pick`] give it (AMQP 0-9-1 basic.get); it is no consumer. Panics where its slot
    /// is taken.
    pub fn add_getter(&mut self, id: ConsumerId) {
        self.audience.get_or_insert_default().add_holder(id);
    }

    fn cancel(&mut self, id: ConsumerId) {
        if let Some(audience) = &mut self.audience {
            audience.cancel(id);
        }
    }

    fn close(&mut self, id: ConsumerId, effects: &mut Effects) {
        let Some(audience) = &mut self.audience else { return };
        let unsettled = audience.remove(id);
        if audience.is_empty() {
            self.audience = None;
        }
        self.unsettled -= unsettled.count();
        for range in unsettled.iter() {
            self.give_back(range, Outcome::Failed, effects);
        }
    }

    fn credit(&mut self, id: ConsumerId, credit: u32, drain: bool) {
        let Some(audience) = &mut self.audience else { return };
        let Some(consumer) = audience.get_mut(id) else { return };
        consumer.credit = Credit::Link(credit);
        let was_draining = std::mem::replace(&mut consumer.drain, drain);
        match (was_draining, drain) {
            (false, true) => audience.draining.push(id),
            (true, false) => audience.draining.retain(|draining| *draining != id),
            _ => {}
        }
        audience.refresh(id);
    }

    fn prefetch(&mut self, id: ConsumerId, prefetch: u32) {
        let Some(audience) = &mut self.audience else { return };
        let Some(consumer) = audience.get_mut(id) else { return };
        consumer.credit = Credit::Prefetch(prefetch);
        if std::mem::take(&mut consumer.drain) {
            audience.draining.retain(|draining| *draining != id);
        }
        audience.refresh(id);
    }

    fn pause(&mut self, id: ConsumerId, paused: bool) {
        let Some(audience) = &mut self.audience else { return };
        if let Some(consumer) = audience.get_mut(id) {
            consumer.held_up = (consumer.held_up & !PAUSED) | if paused { PAUSED } else { 0 };
            audience.refresh(id);
        }
    }

    #[inline]
    fn settle(&mut self, id: ConsumerId, range: SeqRange, outcome: Outcome, effects: &mut Effects) {
        let Some(range) = numbers(range) else { return };
        let Some(audience) = &mut self.audience else {
            effects.ignored += range.len();
            return;
        };
        let Some(consumer) = audience.get_mut(id) else {
            effects.ignored += range.len();
            return;
        };
        let count = match outcome {
            Outcome::Rejected | Outcome::Undeliverable if self.features.is_some() => {
                let mut parts = RangeSet::new();
                let count = consumer.unsettled.remove(range, |part| _ = parts.insert(part));
                audience.refresh(id);
                self.unsettled -= count;
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
                let count =
                    consumer.unsettled.remove(range, |part| effects.append(Kind::Settle, recorded, part));
                audience.refresh(id);
                self.unsettled -= count;
                count
            }
            Outcome::Released | Outcome::Failed => {
                let mut parts = RangeSet::new();
                let count = consumer.unsettled.remove(range, |part| {
                    parts.insert(part);
                });
                if let Some(watch) = &mut consumer.watch {
                    watch.forget(range);
                }
                audience.refresh(id);
                self.unsettled -= count;
                parts.iter().for_each(|part| self.give_back(part, outcome, effects));
                count
            }
        };
        effects.ignored += range.len() - count;
    }

    /// Positions that were handed to one that settles them at once, and that it was never sent, are ready again, or will be when
    /// their record comes back. That they were settled must not be on record.
    pub fn unsent(&mut self, range: SeqRange, effects: &mut Effects) {
        if let Some(range) = numbers(range) {
            self.give_back(range, Outcome::Released, effects);
        }
    }

    /// Positions nobody holds any more are ready again, or will be when their record comes back.
    pub(crate) fn give_back(&mut self, range: Range, outcome: Outcome, effects: &mut Effects) {
        let Some(live) = self.clip(positions(range)) else { return };
        let parts: Vec<Range> = self.settled.gaps(live).collect();
        for part in parts {
            if self.features.is_some() && self.retry_later(part, outcome, effects) {
                continue;
            }
            match &mut self.counting {
                Some(counting) => {
                    effects.append(Kind::Return, outcome, part);
                    counting.returning.insert(part);
                }
                None => {
                    self.put_back(part);
                    if outcome == Outcome::Failed {
                        self.failures.get_or_insert_default().add(part);
                    }
                }
            }
        }
    }

    /// Positions nobody holds any more were refused.
    #[cold]
    fn reject(&mut self, parts: &RangeSet, reason: DeathReason, effects: &mut Effects) {
        for part in parts.iter() {
            // What was settled by a record while it was held is gone.
            let live: Vec<Range> = self.live().parts(part).collect();
            live.into_iter().for_each(|part| self.die(part, reason, effects));
        }
    }

    fn purge(&mut self, effects: &mut Effects) {
        if self.features.is_some() {
            self.purge_features(effects);
            return;
        }
        for range in std::mem::take(&mut self.returned).iter() {
            effects.append(Kind::Purge, Outcome::Released, range);
        }
        if self.cursor < self.next_seq {
            let ahead = Range { first: self.cursor, last: self.next_seq - 1 };
            self.settled.gaps(ahead).for_each(|part| effects.append(Kind::Purge, Outcome::Released, part));
        }
        self.cursor = self.next_seq;
        self.gone_ahead = 0;
    }

    // Questions.

    /// Messages that could be handed out now.
    #[inline]
    pub fn ready(&self) -> u64 {
        let elsewhere = self.features.as_ref().map_or(0, |features| features.ready_elsewhere());
        self.returned.count() + (self.next_seq - self.cursor) - self.gone_ahead + elsewhere
    }

    /// Messages consumers hold.
    #[inline]
    pub fn unsettled(&self) -> u64 {
        self.unsettled
    }

    /// All live messages: ready, delayed, held, and on their way.
    #[inline]
    pub fn total(&self) -> u64 {
        self.next_seq - self.head - self.settled.count()
    }

    /// Messages that are gone after a restart.
    pub fn transient(&self) -> u64 {
        self.transient.count()
    }

    /// Whether a message that is out would be in line with those of its priority that were never out if it came back now, and not
    /// in front of them. Of one in a group nothing is said.
    pub fn comes_back_in_line(&self, seq: QueueSeq) -> bool {
        match &self.features {
            Some(features) if features.levels.next_usual(seq.0) != seq.0 => {
                features.settings.priorities != Priorities::Strict || features.levels.is_passed_over(seq.0)
            }
            _ => seq.0 >= self.cursor,
        }
    }

    /// Messages that are ready, and were out before.
    pub fn ready_returned(&self) -> u64 {
        let elsewhere = self.features.as_ref().map_or(0, |features| features.ready_returned());
        self.returned.count() + elsewhere
    }

    /// Messages that are ready and were not out before, by priority, lowest first: of priorities that any has.
    pub fn ready_by_priority(&self) -> Vec<(u8, u64)> {
        let mut all = self.features.as_ref().map_or_else(Vec::new, |features| features.levels.fresh());
        let others: u64 = all.iter().map(|(_, count)| count).sum();
        let of_usual = self.ready() - self.ready_returned() - others;
        if of_usual > 0 {
            let usual = self.settings().priorities.usual();
            let at = all.partition_point(|(level, _)| *level < usual);
            all.insert(at, (usual, of_usual));
        }
        all
    }

    /// Consumers; cancelled ones and those that stand for gets do not count.
    pub fn consumers(&self) -> u32 {
        self.audience.as_ref().map_or(0, |audience| audience.consumers())
    }

    /// Messages came back and are ready, or delayed, when that is recorded.
    pub fn is_returning(&self) -> bool {
        self.counting.as_ref().is_some_and(|counting| !counting.returning.is_empty())
            || self.features.as_ref().is_some_and(|features| features.delays.is_postponing())
    }

    /// Somebody could be given a message now.
    pub fn has_taker(&self) -> bool {
        self.audience.as_ref().is_some_and(|audience| audience.has_taker())
    }

    /// Messages that consumers could be given now, counted until there are `most`.
    pub fn room(&self, most: u64) -> u64 {
        self.audience.as_ref().map_or(0, |audience| audience.room(most))
    }

    /// The position the next message gets.
    #[inline]
    pub fn next_seq(&self) -> QueueSeq {
        QueueSeq(self.next_seq)
    }

    /// Every position below it is gone.
    #[inline]
    pub fn head(&self) -> QueueSeq {
        QueueSeq(self.head)
    }

    /// Nothing from here on was ever handed out, by this owner or one before: what a clean end saves for
    /// [`Recovery::Clean`].
    pub fn cursor(&self) -> QueueSeq {
        let handed_below = self.features.as_ref().map_or(0, |features| features.handed_below);
        QueueSeq(self.cursor.max(self.redelivered_below).max(handed_below))
    }

    /// How often the message came back; only where the queue counts.
    pub fn counts(&self, seq: QueueSeq) -> Counts {
        let Some(counting) = &self.counting else { return Counts::default() };
        let counted = counting.counts.get(&seq.0).copied();
        counted.or_else(|| self.tried_counts(seq)).unwrap_or_default()
    }

    /// What a consumer holds, lowest first.
    pub fn held(&self, consumer: ConsumerId) -> impl Iterator<Item = SeqRange> + '_ {
        let consumer = self.audience.as_ref().and_then(|audience| audience.get(consumer));
        consumer.into_iter().flat_map(|consumer| consumer.unsettled.iter().map(positions))
    }

    /// What a consumer holds of `range`, lowest first.
    pub fn held_within(&self, consumer: ConsumerId, range: SeqRange) -> impl Iterator<Item = SeqRange> + '_ {
        let consumer = self.audience.as_ref().and_then(|audience| audience.get(consumer));
        let within = numbers(range).zip(consumer);
        within.into_iter().flat_map(|(range, consumer)| consumer.unsettled.within(range).map(positions))
    }

    /// How many a consumer holds.
    pub fn held_count(&self, consumer: ConsumerId) -> u64 {
        let consumer = self.audience.as_ref().and_then(|audience| audience.get(consumer));
        consumer.map_or(0, |consumer| consumer.unsettled.count())
    }

    /// Whether the message is still in the queue, in whatever state.
    #[inline]
    pub fn is_live(&self, seq: QueueSeq) -> bool {
        let is_within = self.head <= seq.0 && seq.0 < self.next_seq;
        is_within && (self.settled.is_empty() || !self.settled.contains(seq.0))
    }

    /// Where a message is, if it is live.
    #[inline]
    pub fn place(&self, seq: QueueSeq) -> Option<Place<'_>> {
        if self.is_live(seq) { self.places.get(seq.0) } else { None }
    }

    /// Where a message is that is known to be live, as one that is being handed out; of another nothing is said.
    #[inline]
    pub fn place_of_live(&self, seq: QueueSeq) -> Option<Place<'_>> {
        debug_assert!(self.is_live(seq), "{seq:?} is gone");
        self.places.get(seq.0)
    }

    /// Where the live messages of `range` are, in order: cheaper than asking one by one.
    pub fn stretches(&self, range: SeqRange) -> impl Iterator<Item = Stretch<'_>> + '_ {
        let clipped = self.clip(range);
        let parts = clipped.into_iter().flat_map(|clipped| self.settled.gaps(clipped));
        parts.flat_map(|part| self.places.stretches(part))
    }

    /// Where a live message is, and the positions behind it that lie there too, of which some may be gone.
    pub fn stretch_from(&self, seq: QueueSeq) -> Option<Stretch<'_>> {
        let behind = Range { first: seq.0, last: self.next_seq.checked_sub(1)? };
        self.is_live(seq).then(|| self.places.stretches(behind).next()).flatten()
    }

    // Moving.

    /// Live messages whose record is in the log below `bound`, in order of position.
    pub fn live_below(&self, bound: LogIndex) -> impl Iterator<Item = (QueueSeq, LogIndex)> + '_ {
        self.places.live_below(bound, self.head, &self.settled)
    }

    /// Messages were copied to segments: `runs`, in order of position, hold every live message up to the last of them
    /// that was in the log. Their places in the log are forgotten, without being told as left. Runs nothing is left of
    /// meanwhile are told at once. Panics where a live message is in no run.
    pub fn move_out(&mut self, runs: &[Run], effects: &mut Effects) {
        let Some(last) = runs.last().map(|run| run.last.0) else { return };
        let live_in = |range: SeqRange| {
            let clipped = self.clip(range);
            clipped.map_or(0, |range| range.len() - self.settled.count_within(range))
        };
        let logs_from = self.places.runs().last().map_or(0, |run| run.last.0 + 1);
        let all = live_in(SeqRange { first: QueueSeq(logs_from), last: QueueSeq(last) });
        let lives: u64 = runs.iter().map(|run| live_in(SeqRange { first: run.first, last: run.last })).sum();
        assert!(all == lives, "{} live messages are in no run", all.abs_diff(lives));
        for run in runs {
            let range = SeqRange { first: run.first, last: run.last };
            let clipped = self.clip(range);
            match clipped.map_or(0, |range| range.len() - self.settled.count_within(range)) {
                0 => effects.runs_left.push(*run),
                live => self.places.push_run(*run, live),
            }
        }
        self.places.forget_logs(last, self.head, &self.settled);
    }

    /// Blocks of segments it still has something in, lowest first.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = &Run> {
        self.places.runs()
    }

    /// Bytes of memory, the machine's own included.
    pub fn memory_bytes(&self) -> usize {
        let sets = [&self.settled, &self.transient, &self.returned];
        let counting = self.counting.as_ref().map_or(0, |counting| {
            size_of::<Counting>() + counting.returning.heap_bytes() + counting.counts.len() * 32
        });
        size_of::<Fifo>()
            + sets.iter().map(|set| set.heap_bytes()).sum::<usize>()
            + self.places.heap_bytes()
            + counting
            + self.features.as_ref().map_or(0, |features| size_of::<Features>() + features.heap_bytes())
            + self.failures.as_ref().map_or(0, |failures| size_of::<Failures>() + failures.heap_bytes())
            + self.audience.as_ref().map_or(0, |audience| size_of::<Audience>() + audience.heap_bytes())
    }
}

impl Counting {
    /// Tells `over` of positions in `range` that came back and failed more often than is allowed. One that had failed too
    /// often before it came is given one more chance.
    pub(crate) fn over_limit(&self, range: Range, mut over: impl FnMut(u64)) {
        let Some(delivery_limit) = self.delivery_limit else { return };
        for (&seq, counts) in self.counts.range(range.first..=range.last) {
            if counts.delivery_count > delivery_limit && counts.acquired_count > 0 {
                over(seq);
            }
        }
    }

    /// Something is to be forgotten of what leaves.
    pub(crate) fn has_counted(&self) -> bool {
        !self.counts.is_empty() || !self.returning.is_empty()
    }

    #[inline]
    fn leave(&mut self, part: Range) {
        if !self.counts.is_empty() {
            while let Some((&seq, _)) = self.counts.range(part.first..=part.last).next() {
                self.counts.remove(&seq);
            }
        }
        if !self.returning.is_empty() {
            self.returning.remove(part, |_| {});
        }
    }
}
