//! Questions that a queue answers; none changes it.

use super::Fifo;
use crate::browse;
use crate::command::ConsumerId;
use crate::dedup_window::WindowSettings;
use crate::delivery::Counts;
use crate::held::HeldAt;
use crate::places::{Place, Stretch};
use crate::ranges::{numbers, positions};
use crate::settings::{GroupKey, Priorities, Rules, Settings};
use base::id::QueueSeq;
use base::ranges::Range;
use message::record::{SeqRange, SizesKept};
use std::sync::Arc;

impl Fifo {
    /// Messages that could be handed out now.
    #[inline]
    pub fn ready(&self) -> u64 {
        let elsewhere = self.features.as_ref().map_or(0, |features| features.ready_elsewhere());
        self.line.ready_count() + elsewhere
    }

    /// Bytes of ready messages, where sizes are kept; else 0.
    pub fn ready_bytes(&self) -> u64 {
        self.features.as_ref().map_or(0, |features| features.weights.ready_bytes())
    }

    /// Messages consumers hold.
    #[inline]
    pub fn unsettled(&self) -> u64 {
        self.consumers.as_ref().map_or(0, |consumers| consumers.unsettled)
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

    /// Messages that died; their end is not recorded yet.
    pub fn dying(&self) -> u64 {
        self.features.as_ref().map_or(0, |features| features.dying.count())
    }

    /// Messages that wait for their time.
    pub fn delayed(&self) -> u64 {
        self.features.as_ref().map_or(0, |features| features.delays.count())
    }

    /// How many messages wait for their time in `range`.
    pub fn delayed_within(&self, range: SeqRange) -> u64 {
        let delays = self.features.as_ref().map(|features| &features.delays);
        delays.zip(numbers(range)).map_or(0, |(delays, range)| delays.count_within(range))
    }

    /// The first `count_max` of those that wait for their time: when each is due, milliseconds since 1970, and its
    /// position; in that order.
    pub fn delayed_list(&self, count_max: usize) -> Vec<(u64, QueueSeq)> {
        let delays = self.features.as_ref().map(|features| &features.delays);
        delays.map_or_else(Vec::new, |delays| delays.list(count_max, &self.line.live))
    }

    /// Whether a limit is reached, counting `coming` messages of `coming_bytes` that are under way and have not arrived:
    /// with one message more there would be too many. Delayed messages are promised a place and count. False where the
    /// queue makes room by itself ([`Rules::drops_head`]).
    pub fn is_full(&self, coming: u64, coming_bytes: u64) -> bool {
        self.vacancy(coming, coming_bytes) == 0
    }

    /// Messages that a queue which refuses them has room for, as far as their number goes; of one that does not, any.
    pub fn vacancy(&self, coming: u64, coming_bytes: u64) -> u64 {
        let features = self.features.as_ref();
        features.map_or(u64::MAX, |features| features.vacancy(coming, coming_bytes, &self.line))
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

    /// The first position from `from` on that could be handed out, in order of arrival, at any priority.
    pub fn next_ready_at(&self, from: QueueSeq) -> Option<QueueSeq> {
        browse::next_ready(&self.line, self.features.as_deref(), from.0).map(QueueSeq)
    }

    /// How many messages could be handed out from `from` on, as far as `most`.
    pub fn ready_from(&self, from: QueueSeq, most: u64) -> u64 {
        let mut at = from;
        for count in 0..most {
            let Some(seq) = self.next_ready_at(at) else { return count };
            at = QueueSeq(seq.0 + 1);
        }
        most
    }

    /// The last position from which on so many messages could be handed out, or the head where there are not so many. It
    /// costs as many steps as the logarithm of the queue's length, each of at most `count` messages.
    pub fn last_ready(&self, count: u64) -> QueueSeq {
        let (head, end) = (self.head().0, self.next_seq().0);
        if count == 0 || head == end {
            return QueueSeq(end);
        }
        let has = |from: u64| self.ready_from(QueueSeq(from), count) == count;
        // From `low` on there are so many, or it is the head; from `high` on there are not.
        let (mut high, mut step) = (end, count);
        let mut low = loop {
            let at = end.saturating_sub(step).max(head);
            if at == head || has(at) {
                break at;
            }
            (high, step) = (at, step.saturating_mul(2));
        };
        if low == head && !has(head) {
            return QueueSeq(head);
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match has(middle) {
                true => low = middle,
                false => high = middle,
            }
        }
        QueueSeq(low)
    }

    /// Messages of the priority that is handed out next that are ready from `from` on, in order of arrival.
    pub fn coming(&self, from: QueueSeq) -> impl Iterator<Item = QueueSeq> + '_ {
        browse::coming(&self.line, self.features.as_deref(), from.0).map(QueueSeq)
    }

    /// When [`Fifo::dispatch`] is due again though nothing happens, milliseconds since 1970. May be early, never late.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.features.as_ref()?.next_deadline_ms()
    }

    // How it is kept.

    /// How messages are kept that come now.
    pub fn settings(&self) -> Settings {
        match &self.features {
            Some(features) => features.settings,
            None => Settings::plain(self.line.returns.counts()),
        }
    }

    /// The priority of a message without one.
    #[inline]
    pub fn usual_priority(&self) -> u8 {
        self.settings().priorities.usual()
    }

    /// It counts what became of its messages: see [`Settings::counts`].
    #[inline]
    pub fn is_counting(&self) -> bool {
        self.line.returns.counts()
    }

    /// The rules it goes by.
    pub fn rules(&self) -> Rules {
        let rules = self.features.as_ref().map_or_else(Rules::default, |features| features.rules);
        let limits = self.line.returns.limits();
        Rules { delivery_limit: limits.failed, cancel_limit: limits.cancelled, ..rules }
    }

    /// The settings of its window, if it has one.
    pub fn window(&self) -> Option<WindowSettings> {
        Some(self.features.as_ref()?.window.as_ref()?.settings())
    }

    /// It keeps more of its messages than their places, or goes by rules of its own.
    #[inline]
    pub fn has_features(&self) -> bool {
        self.features.is_some()
    }

    /// It has messages of another priority than the usual one: the next to be handed out need not be the first.
    pub fn has_levels(&self) -> bool {
        self.features.as_ref().is_some_and(|features| !features.levels.is_empty())
    }

    /// Messages that are barriers.
    pub fn barriers(&self) -> u64 {
        let barriers = self.features.as_ref().and_then(|features| features.barriers.as_ref());
        barriers.map_or(0, |barriers| barriers.count())
    }

    /// Whether a live message is a barrier.
    pub fn is_barrier(&self, seq: QueueSeq) -> bool {
        let barriers = self.features.as_ref().and_then(|features| features.barriers.as_ref());
        barriers.is_some_and(|barriers| barriers.marks().contains(seq.0))
    }

    /// Whether messages that come may be in groups.
    pub fn is_grouped(&self) -> bool {
        self.features.as_ref().is_some_and(|features| features.is_grouped)
    }

    /// Whether a message without a priority, or with the usual one, and without an expiry may come through
    /// [`Fifo::enqueue`]; else it comes through [`Fifo::arrive`].
    #[inline]
    pub fn takes_plain(&self) -> bool {
        self.features
            .as_ref()
            .is_none_or(|features| features.settings.ttl_ms.is_none() && !features.settings.keeps_sizes())
    }

    /// Messages to be weighed, some of which may be gone or have a size already ([`crate::Record::Weigh`]).
    #[inline]
    pub fn to_weigh(&self) -> Option<SeqRange> {
        self.features.as_ref()?.weights.unweighed().map(positions)
    }

    /// The size of everything in it is known.
    pub fn knows_sizes(&self) -> bool {
        self.settings().sizes == SizesKept::All && self.to_weigh().is_none()
    }

    // Consumers.

    /// The active consumer, where one at a time is; told at the dispatch after a change ([`crate::Effect::Active`]).
    pub fn active(&self) -> Option<ConsumerId> {
        let is_single = self.features.as_ref().is_some_and(|features| features.rules.single_active);
        self.consumers.as_ref().filter(|_| is_single)?.active.consumer()
    }

    /// Consumers; cancelled ones and those that stand for gets do not count.
    pub fn consumers(&self) -> u32 {
        self.consumers.as_ref().map_or(0, |consumers| consumers.consumers())
    }

    /// A consumer is to hear when nothing is left for its credit.
    pub fn is_draining(&self, id: ConsumerId) -> bool {
        let consumer = self.consumers.as_ref().and_then(|consumers| consumers.get(id));
        consumer.is_some_and(|consumer| consumer.drain)
    }

    /// The active consumer, where one at a time is.
    pub fn active_consumer(&self) -> Option<ConsumerId> {
        self.consumers.as_ref()?.active.consumer()
    }

    /// The first `count_max` messages that consumers hold from `from` on, lowest position first. It costs a step for each
    /// consumer, and for each message as many as the logarithm of their number.
    pub fn held_list(&self, from: QueueSeq, count_max: usize) -> Vec<HeldAt> {
        let consumers = self.consumers.as_ref();
        consumers.map_or_else(Vec::new, |consumers| consumers.held_list(from, count_max))
    }

    /// Those of `positions`, which are in order, that consumers hold, and their holders. It costs a step for each consumer, and
    /// a few for each position.
    pub fn held_among(&self, positions: &[QueueSeq]) -> Vec<(QueueSeq, ConsumerId)> {
        let consumers = self.consumers.as_ref();
        consumers.map_or_else(Vec::new, |consumers| consumers.held_among(positions))
    }

    /// The last position that one of the consumers holds of which `counts` is true. It costs a step for each consumer.
    pub fn last_held(&self, counts: impl Fn(ConsumerId) -> bool) -> Option<QueueSeq> {
        self.consumers.as_ref()?.last_held(counts)
    }

    /// Consumers, holders that are none, and slots between them: what a look at each of them costs.
    pub fn slots(&self) -> usize {
        self.consumers.as_ref().map_or(0, |consumers| consumers.slots.len())
    }

    /// Messages came back and are ready, or delayed, when that is recorded.
    pub fn is_returning(&self) -> bool {
        self.line.returns.is_returning()
            || self.features.as_ref().is_some_and(|features| features.delays.is_postponing())
    }

    /// Messages came back, and are ready in front of others when that is recorded.
    #[inline]
    pub fn is_coming_back(&self) -> bool {
        self.line.returns.is_returning()
    }

    /// Somebody could be given a message now.
    pub fn has_taker(&self) -> bool {
        let Some(consumers) = self.consumers.as_ref().filter(|consumers| consumers.has_taker()) else {
            return false;
        };
        let features = self.features.as_ref();
        consumers.has_settling() || features.is_none_or(|features| features.may_hold_more(consumers) > 0)
    }

    /// Messages that consumers could be given now, counted until there are `most`.
    pub fn room(&self, most: u64) -> u64 {
        let Some(consumers) = &self.consumers else { return 0 };
        let may_hold = self.features.as_ref().map_or(u64::MAX, |features| features.may_hold_more(consumers));
        let most = if consumers.has_settling() { most } else { most.min(may_hold) };
        consumers.room(most)
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

    /// Nothing from here on was ever handed out, by this owner or one before: a clean end saves this position for
    /// [`Recovery::Clean`].
    pub fn cursor(&self) -> QueueSeq {
        let handed_below = self.features.as_ref().map_or(0, |features| features.handed_below());
        QueueSeq(self.line.ready.cursor().max(self.line.ready.redelivered_below()).max(handed_below))
    }

    /// How often the message came back; only where the queue counts.
    pub fn counts(&self, seq: QueueSeq) -> Counts {
        if !self.line.returns.counts() {
            return Counts::default();
        }
        let failed_before = || self.failed_before(seq).map(Counts::failed_before);
        self.line.returns.recorded(seq.0).or_else(failed_before).unwrap_or_default()
    }

    /// How often the message failed before it came, if it did and has not come back since.
    fn failed_before(&self, seq: QueueSeq) -> Option<u64> {
        self.features.as_ref()?.prior.of(seq.0)
    }

    /// How often deliveries of a message failed: where the queue counts with those before it came, else those that this
    /// owner saw.
    pub fn failed(&self, seq: QueueSeq) -> u32 {
        match self.line.returns.seen_failures(Range { first: seq.0, last: seq.0 }) {
            Some((failures, _)) => failures,
            None => self.counts(seq).delivery_count,
        }
    }

    /// Whether a ready message may have been out before, and how often it was and failed: as its next consumer will be
    /// told, unless it was delayed from before this owner until after: then that knows that it was never out.
    pub fn past(&self, seq: QueueSeq) -> (bool, Counts) {
        let mut counts = self.counts(seq).shown();
        if let Some((failures, _)) = self.line.returns.seen_failures(Range { first: seq.0, last: seq.0 }) {
            counts.delivery_count = failures;
        }
        let ready = &self.line.ready;
        let came_back = ready.returned().contains(seq.0)
            || self.features.as_ref().is_some_and(|features| features.came_back(seq.0));
        (came_back || seq.0 < ready.redelivered_below() || self.failed_before(seq).is_some(), counts)
    }

    /// The annotations of a message.
    pub fn annotations(&self, seq: QueueSeq) -> Option<&Arc<[u8]>> {
        self.features.as_ref()?.annotations.get(seq.0)
    }

    /// The first of `range` that has annotations.
    pub fn next_annotated(&self, range: SeqRange) -> Option<QueueSeq> {
        self.features.as_ref()?.annotations.next_within(numbers(range)?)
    }

    /// Bytes of all annotations, those asked for included, as if no two messages shared any.
    pub fn annotations_bytes(&self) -> u64 {
        self.features.as_ref().map_or(0, |features| features.annotations.bytes())
    }

    /// The group a live message is in.
    pub fn group_of(&self, seq: QueueSeq) -> Option<GroupKey> {
        let groups = self.features.as_ref()?.groups.as_ref().filter(|_| self.is_live(seq))?;
        groups.key(seq.0)
    }

    /// How many milliseconds lie between two looks ([`Fifo::look`]), if anybody is watched. Of a timeout they are a sixty-fourth
    /// part, and never less than ten.
    pub fn look_every_ms(&self) -> Option<u64> {
        self.consumers.as_ref()?.look_every_ms()
    }

    /// Some consumer has not settled messages that were taken back from it.
    pub fn has_late(&self) -> bool {
        self.consumers.as_ref().is_some_and(|consumers| consumers.has_late())
    }

    /// Positions that a consumer holds, lowest first.
    pub fn held(&self, consumer: ConsumerId) -> impl Iterator<Item = SeqRange> + '_ {
        let consumer = self.consumers.as_ref().and_then(|consumers| consumers.get(consumer));
        consumer.into_iter().flat_map(|consumer| consumer.unsettled.iter().map(positions))
    }

    /// Positions of `range` that a consumer holds, lowest first.
    pub fn held_within(&self, consumer: ConsumerId, range: SeqRange) -> impl Iterator<Item = SeqRange> + '_ {
        let consumer = self.consumers.as_ref().and_then(|consumers| consumers.get(consumer));
        let within = numbers(range).zip(consumer);
        within.into_iter().flat_map(|(range, consumer)| consumer.unsettled.within(range).map(positions))
    }

    // Positions and places.

    /// The live positions of `range`, in order.
    pub fn live_within(&self, range: SeqRange) -> impl Iterator<Item = QueueSeq> + '_ {
        self.line.live.each_within(range).map(QueueSeq)
    }

    /// Whether the message is still in the queue, in any state.
    #[inline]
    pub(crate) fn is_live(&self, seq: QueueSeq) -> bool {
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
}
