//! A queue: first in, first out; what comes back goes first, at its original position; what was chosen stays behind older ones.
//!
//! Two kinds of state. *Recorded* state changes only by records, in the order of the log: the next position, the
//! head, what above it is settled, which positions are transient, the counts of returned messages, and where the
//! bytes are. It is what a snapshot holds. *Volatile* state is the owner's: who consumes, who holds what, how far
//! delivery has come. After a restart or a change of owner everything that is not settled is ready again.
//!
//! Invariant: each live position ([`crate::live`]) is ready ([`crate::ready`], or in a way that [`crate::features`] knows), or
//! held by one consumer, or on its way (a record about it was asked for and has not come back), or waits for its time
//! ([`crate::delays`]).

use crate::command::{Command, Consume, ConsumerId, Credit, Record, Refused};
use crate::consumers::{Audience, PAUSED};
use crate::delivery::Counts;
use crate::effect::Effects;
use crate::features::Features;
use crate::line::Line;
use crate::places::{Place, Places, Run, Stretch};
use crate::ranges::{numbers, positions};
use crate::returns::Returns;
use crate::settings::{Priorities, Settings};
use base::RangeSet;
use base::id::{LogIndex, QueueSeq};
use base::ranges::Range;
use message::record::{DeathReason, Kind, Outcome, SeqRange};

/// How the owner before ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Nobody knows: anything may have been delivered.
    Dirty,
    /// In order; delivery had come so far ([`Fifo::cursor`]).
    Clean(QueueSeq),
}

/// The machine of one queue.
#[derive(Debug, Default)]
pub struct Fifo {
    pub(crate) line: Line,
    /// Recorded.
    pub(crate) places: Places,
    /// Volatile.
    pub(crate) unsettled: u64,
    /// Volatile.
    pub(crate) audience: Option<Box<Audience>>,
    /// What only some queues need.
    pub(crate) features: Option<Box<Features>>,
}

impl Fifo {
    /// An empty queue that never had a message. Panics where one that does not count is to have strict priorities.
    pub fn new(settings: Settings) -> Fifo {
        let line = Line { returns: Returns::new(settings.counts), ..Line::default() };
        let mut fifo = Fifo { line, ..Fifo::default() };
        fifo.configure(settings);
        fifo
    }

    /// What it keeps of the messages that come now.
    pub fn settings(&self) -> Settings {
        match &self.features {
            Some(features) => features.settings,
            None => Settings::plain(self.line.returns.counts()),
        }
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
        let seq = self.line.live.push(transient);
        self.places.push(seq, place);
        QueueSeq(seq)
    }

    /// Positions are done with. Those already gone, and those that never were, are passed over.
    #[inline]
    pub fn settled(&mut self, range: SeqRange, effects: &mut Effects) {
        let Some(range) = self.line.live.clip(range) else { return };
        if self.line.live.settled().is_empty() {
            self.leave(range, effects);
        } else {
            let mut from = range.first;
            while let Some(part) = self.line.live.first_part(Range { first: from, last: range.last }) {
                self.leave(part, effects);
                from = part.last + 1;
                if from > range.last {
                    break;
                }
            }
        }
        self.line.settle(range);
    }

    /// Positions were thrown away while ready; the same as settled but for the reason. So are those that expired, were
    /// dropped or went to the dead letters.
    pub fn purged(&mut self, range: SeqRange, effects: &mut Effects) {
        self.settled(range, effects);
    }

    /// Positions came back: they count, and those whose return this owner asked for are ready, or die where that was
    /// once too often. Nothing in queues that do not count.
    pub fn returned(&mut self, range: SeqRange, outcome: Outcome, effects: &mut Effects) {
        let Some(clipped) = self.line.live.clip(range) else { return };
        self.count_return(clipped, outcome);
        let back = self.line.returns.take_asked(clipped);
        let failed = self.line.returns.over_limit(back.iter());
        back.iter().flat_map(|part| failed.gaps(part)).for_each(|part| self.put_back(part));
        failed.iter().for_each(|part| self.die(part, DeathReason::DeliveryLimit, effects));
    }

    /// Positions came back: where the queue counts, they are counted.
    pub(crate) fn count_return(&mut self, clipped: Range, outcome: Outcome) {
        if self.features.is_some() {
            self.count_tried(clipped);
        }
        let Line { live, returns, .. } = &mut self.line;
        returns.count(live.parts(clipped), outcome);
    }

    /// Everything about live positions but their being settled.
    #[inline]
    fn leave(&mut self, part: Range, effects: &mut Effects) {
        if self.features.is_some() {
            self.leave_features(part);
        }
        self.line.leave(part);
        self.places.remove(part, &mut effects.left, &mut effects.runs_left);
    }

    /// Records have been replayed: this owner begins. Everything live is ready; transient messages are gone, of which
    /// the log is told.
    pub fn recover(&mut self, recovery: Recovery, effects: &mut Effects) {
        assert!(self.audience.is_none(), "a queue recovers before anybody consumes");
        self.unsettled = 0;
        self.line.returns.forget();
        self.line.ready.forget(match recovery {
            Recovery::Dirty => self.line.live.next_seq(),
            Recovery::Clean(cursor) => cursor.0.min(self.line.live.next_seq()),
        });
        self.begin();
        for range in self.line.live.take_transient().iter() {
            effects.append(Kind::Purge, Outcome::Released, range);
            self.settled(positions(range), effects);
        }
        self.drop_failed(effects);
    }

    /// Everything live is ready.
    pub(crate) fn begin(&mut self) {
        self.line.begin();
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
        let Some(live) = self.line.live.clip(positions(range)) else { return };
        let parts: Vec<Range> = self.line.live.parts(live).collect();
        for part in parts {
            if self.features.is_some() && self.retry_later(part, outcome, effects) {
                continue;
            }
            if self.line.returns.give_back(part, outcome, effects) {
                self.put_back(part);
            }
        }
    }

    /// Positions nobody holds any more were refused.
    #[cold]
    fn reject(&mut self, parts: &RangeSet, reason: DeathReason, effects: &mut Effects) {
        for part in parts.iter() {
            // What was settled by a record while it was held is gone.
            let live: Vec<Range> = self.line.live.parts(part).collect();
            live.into_iter().for_each(|part| self.die(part, reason, effects));
        }
    }

    fn purge(&mut self, effects: &mut Effects) {
        if self.features.is_some() {
            self.purge_features(effects);
            return;
        }
        let Line { live, ready, .. } = &mut self.line;
        ready.purge(live, effects);
    }

    // Questions.

    /// Messages that could be handed out now.
    #[inline]
    pub fn ready(&self) -> u64 {
        let elsewhere = self.features.as_ref().map_or(0, |features| features.ready_elsewhere());
        self.line.ready_count() + elsewhere
    }

    /// Messages consumers hold.
    #[inline]
    pub fn unsettled(&self) -> u64 {
        self.unsettled
    }

    /// All live messages: ready, delayed, held, and on their way.
    #[inline]
    pub fn total(&self) -> u64 {
        self.line.live.count()
    }

    /// Messages that are gone after a restart.
    pub fn transient(&self) -> u64 {
        self.line.live.transient().count()
    }

    /// Whether a message that is out would be in line with those of its priority that were never out if it came back now, and not
    /// in front of them. Of one in a group nothing is said.
    pub fn comes_back_in_line(&self, seq: QueueSeq) -> bool {
        match &self.features {
            Some(features) if features.levels.next_usual(seq.0) != seq.0 => {
                features.settings.priorities != Priorities::Strict || features.levels.is_passed_over(seq.0)
            }
            _ => seq.0 >= self.line.ready.cursor(),
        }
    }

    /// Messages that are ready, and were out before.
    pub fn ready_returned(&self) -> u64 {
        let elsewhere = self.features.as_ref().map_or(0, |features| features.ready_returned());
        self.line.ready.returned().count() + elsewhere
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
        self.line.returns.is_returning()
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
        QueueSeq(self.line.live.next_seq())
    }

    /// Every position below it is gone.
    #[inline]
    pub fn head(&self) -> QueueSeq {
        QueueSeq(self.line.live.head())
    }

    /// Nothing from here on was ever handed out, by this owner or one before: what a clean end saves for
    /// [`Recovery::Clean`].
    pub fn cursor(&self) -> QueueSeq {
        let handed_below = self.features.as_ref().map_or(0, |features| features.handed_below);
        QueueSeq(self.line.ready.cursor().max(self.line.ready.redelivered_below()).max(handed_below))
    }

    /// How often the message came back; only where the queue counts.
    pub fn counts(&self, seq: QueueSeq) -> Counts {
        if !self.line.returns.counts() {
            return Counts::default();
        }
        self.line.returns.recorded(seq.0).or_else(|| self.tried_counts(seq)).unwrap_or_default()
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
        self.line.live.contains(seq.0)
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
        let parts = numbers(range).into_iter().flat_map(|range| self.line.live.parts(range));
        parts.flat_map(|part| self.places.stretches(part))
    }

    /// Where a live message is, and the positions behind it that lie there too, of which some may be gone.
    pub fn stretch_from(&self, seq: QueueSeq) -> Option<Stretch<'_>> {
        let behind = Range { first: seq.0, last: self.line.live.next_seq().checked_sub(1)? };
        self.is_live(seq).then(|| self.places.stretches(behind).next()).flatten()
    }

    // Moving.

    /// Live messages whose record is in the log below `bound`, in order of position.
    pub fn live_below(&self, bound: LogIndex) -> impl Iterator<Item = (QueueSeq, LogIndex)> + '_ {
        self.places.live_below(bound, self.line.live.head(), self.line.live.settled())
    }

    /// Messages were copied to segments: `runs`, in order of position, hold every live message up to the last of them
    /// that was in the log. Their places in the log are forgotten, without being told as left. Runs nothing is left of
    /// meanwhile are told at once. Panics where a live message is in no run.
    pub fn move_out(&mut self, runs: &[Run], effects: &mut Effects) {
        let Some(last) = runs.last().map(|run| run.last.0) else { return };
        let live = &self.line.live;
        let live_in = |run: &Run| live.count_within(SeqRange { first: run.first, last: run.last });
        let logs_from = self.places.runs().last().map_or(0, |run| run.last.0 + 1);
        let all = live.count_within(SeqRange { first: QueueSeq(logs_from), last: QueueSeq(last) });
        let lives: u64 = runs.iter().map(live_in).sum();
        assert!(all == lives, "{} live messages are in no run", all.abs_diff(lives));
        for run in runs {
            match live_in(run) {
                0 => effects.runs_left.push(*run),
                live => self.places.push_run(*run, live),
            }
        }
        self.places.forget_logs(last, live.head(), live.settled());
    }

    /// Blocks of segments it still has something in, lowest first.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = &Run> {
        self.places.runs()
    }

    /// Bytes of memory, the machine's own included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Fifo>()
            + self.line.heap_bytes()
            + self.places.heap_bytes()
            + self.features.as_ref().map_or(0, |features| size_of::<Features>() + features.heap_bytes())
            + self.audience.as_ref().map_or(0, |audience| size_of::<Audience>() + audience.heap_bytes())
    }
}
