//! Questions that a queue answers; none changes it.

use super::Fifo;
use crate::command::ConsumerId;
use crate::delivery::Counts;
use crate::places::{Place, Stretch};
use crate::ranges::{numbers, positions};
use crate::settings::Priorities;
use base::id::QueueSeq;
use base::ranges::Range;
use message::record::SeqRange;

impl Fifo {
    /// Messages that could be handed out now.
    #[inline]
    pub fn ready(&self) -> u64 {
        let elsewhere = self.features.as_ref().map_or(0, |features| features.ready_elsewhere());
        self.line.ready_count() + elsewhere
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
        self.consumers.as_ref().map_or(0, |consumers| consumers.consumers())
    }

    /// Messages came back and are ready, or delayed, when that is recorded.
    pub fn is_returning(&self) -> bool {
        self.line.returns.is_returning()
            || self.features.as_ref().is_some_and(|features| features.delays.is_postponing())
    }

    /// Somebody could be given a message now.
    pub fn has_taker(&self) -> bool {
        self.consumers.as_ref().is_some_and(|consumers| consumers.has_taker())
    }

    /// Messages that consumers could be given now, counted until there are `most`.
    pub fn room(&self, most: u64) -> u64 {
        self.consumers.as_ref().map_or(0, |consumers| consumers.room(most))
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

    /// How many milliseconds lie between two looks ([`Fifo::look`]), if anybody is watched. Of a timeout they are a sixty-fourth
    /// part, and never less than ten.
    pub fn look_every_ms(&self) -> Option<u64> {
        self.consumers.as_ref()?.look_every_ms()
    }

    /// Somebody has not settled what was taken back from it.
    pub fn has_late(&self) -> bool {
        self.consumers.as_ref().is_some_and(|consumers| consumers.has_late())
    }

    /// What a consumer holds, lowest first.
    pub fn held(&self, consumer: ConsumerId) -> impl Iterator<Item = SeqRange> + '_ {
        let consumer = self.consumers.as_ref().and_then(|consumers| consumers.get(consumer));
        consumer.into_iter().flat_map(|consumer| consumer.unsettled.iter().map(positions))
    }

    /// What a consumer holds of `range`, lowest first.
    pub fn held_within(&self, consumer: ConsumerId, range: SeqRange) -> impl Iterator<Item = SeqRange> + '_ {
        let consumer = self.consumers.as_ref().and_then(|consumers| consumers.get(consumer));
        let within = numbers(range).zip(consumer);
        within.into_iter().flat_map(|(range, consumer)| consumer.unsettled.within(range).map(positions))
    }

    /// How many a consumer holds.
    pub fn held_count(&self, consumer: ConsumerId) -> u64 {
        let consumer = self.consumers.as_ref().and_then(|consumers| consumers.get(consumer));
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
}
