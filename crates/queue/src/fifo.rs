//! A queue: first in, first out; messages that come back go first, at their original position; those that were chosen
//! stay behind older ones.
//!
//! Two kinds of state. *Recorded* state changes only by records, in the order of the log: the next position, the head,
//! the settled positions above it, the transient positions, the counts of returned messages, and where the bytes are.
//! It is the contents of a snapshot. *Volatile* state is the owner's: consumers, the messages that each holds, how far
//! delivery has come. After a restart or a change of owner everything that is not settled is ready again.
//!
//! Invariant: each live position ([`crate::live`]) is ready ([`crate::ready`], or in a way that [`crate::features`] knows), or
//! held by one consumer, or on its way (a record about it was asked for and has not come back), or waits for its time
//! ([`crate::delays`]).

mod choosing;
mod owner;
mod questions;
mod role;

pub use role::Recovery;

use crate::command::Record;
use crate::consumers::Consumers;
use crate::dedup_window::{MessageKey, Window, WindowSettings};
use crate::dying;
use crate::effect::Effects;
use crate::features::Features;
use crate::line::Line;
use crate::places::{Places, Run};
use crate::priority_blocks::{BLOCK, Block};
use crate::ranges::{numbers, positions};
use crate::returns::Returns;
use crate::settings::{Arrival, Settings};
use crate::settle_many::{Some64, by_block};
use base::id::{LogIndex, QueueSeq};
use base::ranges::Range;
use message::record::{DeathReason, Outcome, SeqRange};
use std::sync::Arc;

/// The machine of one queue.
#[derive(Debug, Default)]
pub struct Fifo {
    pub(crate) line: Line,
    /// Recorded.
    pub(crate) places: Places,
    /// Volatile.
    pub(crate) consumers: Option<Box<Consumers>>,
    /// Parts that only some queues need.
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

    // Records.

    /// Carries out a record of the log. At-least-once: a record may come again, and after a snapshot that has it.
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

    /// As [`Fifo::enqueue`], of a message of which more is to be known.
    #[cold]
    #[inline(never)]
    pub fn arrive(&mut self, place: LogIndex, arrival: &Arrival) -> QueueSeq {
        let seq = self.enqueue(place, arrival.transient);
        if !arrival.is_plain(self.settings()) {
            let (features, line) = self.with_features();
            features.arrive(seq.0, arrival, line);
        }
        seq
    }

    /// As [`Fifo::arrive`], of a message that has a priority at most. False, and nothing is done: the queue keeps more of its
    /// messages.
    #[cold]
    #[inline(never)]
    pub fn arrive_simply(&mut self, place: LogIndex, transient: bool, priority: Option<u8>) -> bool {
        let Some(features) = &mut self.features else { return false };
        let is_simple = features.arrive_simply(priority, &mut self.line);
        if is_simple {
            self.enqueue(place, transient);
        }
        is_simple
    }

    /// A message with a key arrives that was received at that time, milliseconds since 1970. False: it is a duplicate and
    /// is to be passed over; else it is to arrive next. `ttl_ms`: how long its key stays, where the message says so itself.
    /// Part of the record of its arrival.
    #[cold]
    pub fn admit(&mut self, key: MessageKey, received_at_ms: u64, ttl_ms: Option<u64>) -> bool {
        let window = self.features.as_mut().and_then(|features| features.window.as_mut());
        window.is_none_or(|window| window.admit(key, received_at_ms, ttl_ms))
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

    /// Each of `ranges` is settled ([`Fifo::settled`]).
    #[cold]
    #[inline(never)]
    pub fn settled_together(&mut self, ranges: impl Iterator<Item = SeqRange>, effects: &mut Effects) {
        by_block(ranges, |some| match some {
            Some64::Range(range) => self.settled(positions(range), effects),
            Some64::Bits(block, bits) => self.settled_bits(block, bits, effects),
        });
    }

    fn settled_bits(&mut self, block: u64, bits: u64, effects: &mut Effects) {
        let of_block = Range { first: block, last: block + (BLOCK - 1) };
        let Some(range) = self.line.live.clip(positions(of_block)) else { return };
        let live = bits & Block::bits_within(block, range) & !self.line.live.settled().bits(block);
        if live == 0 {
            return;
        }
        let Fifo { line, places, features, .. } = self;
        let is_simple = features.as_mut().is_some_and(|features| features.leave_bits(block, live, line));
        if !is_simple {
            return Block::runs_of(block, live, &mut |run| self.settled(positions(run), effects));
        }
        places.remove_bits(block, live, &mut effects.left, &mut effects.runs_left);
        line.settle_bits(block, live);
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
    fn count_return(&mut self, clipped: Range, outcome: Outcome) {
        let Line { live, returns, .. } = &mut self.line;
        if let Some(features) = &mut self.features {
            features.prior.count(clipped, returns);
        }
        returns.count(live.parts(clipped), outcome);
    }

    /// Positions came back and are delayed until `due_at_ms`: they count, and those whose delay this owner asked for wait,
    /// or die where that was once too often. Others get their time, for the owner that comes after.
    pub fn postponed(&mut self, range: SeqRange, outcome: Outcome, due_at_ms: u64, effects: &mut Effects) {
        let Some(clipped) = self.line.live.clip(range) else { return };
        self.count_return(clipped, outcome);
        let (features, line) = self.with_features();
        features.postponed(clipped, due_at_ms, line, effects);
    }

    /// From now on messages that come are kept so; `counts` stays as it is, and where the queue counts the meaning of
    /// priorities does from the first message on. Sizes that are no longer kept are
    /// forgotten; where all are to be kept, those of the messages there are asked for ([`Fifo::to_weigh`]).
    pub fn configure(&mut self, settings: Settings) {
        let counts = self.line.returns.counts();
        let is_fixed = counts && self.line.live.next_seq() > 0;
        let priorities = if is_fixed { self.settings().priorities } else { settings.priorities };
        let settings = Settings { counts, priorities, ..settings }.normal();
        if settings != self.settings() {
            let (features, line) = self.with_features();
            features.configure(settings, line);
            self.tidy();
        }
    }

    /// From here on messages with a key go through [`Fifo::admit`]. A record: keys that are there stay, as many as there is
    /// room for. Panics where the window has no size, or more than the largest.
    pub fn deduplicate(&mut self, settings: WindowSettings) {
        assert!((1..=WindowSettings::KEYS_MAX).contains(&settings.keys_max), "{settings:?}");
        match &mut self.with_features().0.window {
            Some(window) => window.configure(settings),
            window => *window = Some(Box::new(Window::new(settings))),
        }
    }

    /// Positions are so large, those of `range` that `sizes` does not name are empty or gone. Passed over where they are not
    /// next to be weighed; sizes that are known stay.
    #[cold]
    pub fn weigh(&mut self, range: SeqRange, sizes: impl Iterator<Item = (QueueSeq, u32)>) {
        if let Some(features) = &mut self.features {
            features.weigh(range, sizes, &self.line);
        }
    }

    /// Positions have these annotations, in place of those they had. Nothing in queues that do not count.
    #[cold]
    pub fn annotated(&mut self, range: SeqRange, annotations: &Arc<[u8]>) {
        let Some(range) = numbers(range).filter(|_| self.line.returns.counts()) else { return };
        let (features, Line { live, returns, .. }) = self.with_features();
        features.prior.count(range, returns);
        for seq in live.parts(range).flat_map(|part| part.first..=part.last) {
            features.annotations.put(seq, annotations.clone());
            returns.touch(seq);
        }
        features.annotations.came((annotations.len() as u64).saturating_mul(range.len()));
        self.tidy();
    }

    /// Everything about live positions but their being settled.
    #[inline]
    fn leave(&mut self, part: Range, effects: &mut Effects) {
        if let Some(features) = &mut self.features {
            features.leave(part, &mut self.line);
        }
        self.line.leave(part);
        self.places.remove(part, &mut effects.left, &mut effects.runs_left);
    }

    /// The parts that only some queues need, from now on.
    fn with_features(&mut self) -> (&mut Features, &mut Line) {
        let settings = Settings::plain(self.line.returns.counts());
        let features = self.features.get_or_insert_with(|| Box::new(Features::new(settings)));
        (features, &mut self.line)
    }

    /// Features that are not used any more go.
    fn tidy(&mut self) {
        if let Some(features) = &mut self.features {
            features.tidy();
            if features.is_plain() {
                self.features = None;
            }
        }
    }

    /// Positions are ready again.
    fn put_back(&mut self, range: Range) {
        match &mut self.features {
            Some(features) => features.put_back(range, &mut self.line),
            None => self.line.ready.put_back(range),
        }
    }

    /// Positions that are ready nowhere and held by nobody end.
    fn die(&mut self, range: Range, reason: DeathReason, effects: &mut Effects) {
        match &mut self.features {
            Some(features) => features.die(range, reason, effects),
            None => dying::end(range, reason, effects),
        }
    }

    // Moving.

    /// Live messages whose record is in the log below `bound`, in order of position.
    pub fn live_below(&self, bound: LogIndex) -> impl Iterator<Item = (QueueSeq, LogIndex)> + '_ {
        self.places.live_below(bound, self.line.live.head(), self.line.live.settled())
    }

    /// Whether `runs`, in order of position, hold every live message up to the last of them that is in the log.
    pub fn may_move_out(&self, runs: &[Run]) -> bool {
        let Some(last) = runs.last().map(|run| run.last.0) else { return true };
        let follows = |two: &[Run]| two[0].first <= two[0].last && two[0].last < two[1].first;
        let are_in_order = runs.windows(2).all(follows) && runs[0].first.0 >= self.logs_from();
        are_in_order && self.not_in(runs, last) == 0
    }

    /// The first position that may be in the log.
    fn logs_from(&self) -> u64 {
        self.places.runs().last().map_or(0, |run| run.last.0 + 1)
    }

    /// How many live messages up to a position are in the log and in none of `runs`.
    fn not_in(&self, runs: &[Run], last: u64) -> u64 {
        let live = &self.line.live;
        let live_in = |run: &Run| live.count_within(SeqRange { first: run.first, last: run.last });
        let all = live.count_within(SeqRange { first: QueueSeq(self.logs_from()), last: QueueSeq(last) });
        all.abs_diff(runs.iter().map(live_in).sum())
    }

    /// Messages were copied to segments: `runs`, in order of position, hold every live message up to the last of them
    /// that was in the log. Their places in the log are forgotten, without being told as left. Runs nothing is left of
    /// meanwhile are told at once. Panics where a live message is in no run.
    pub fn move_out(&mut self, runs: &[Run], effects: &mut Effects) {
        let Some(last) = runs.last().map(|run| run.last.0) else { return };
        let lost = self.not_in(runs, last);
        assert!(lost == 0, "{lost} live messages are in no run");
        let live = &self.line.live;
        let live_in = |run: &Run| live.count_within(SeqRange { first: run.first, last: run.last });
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
            + self.consumers.as_ref().map_or(0, |consumers| size_of::<Consumers>() + consumers.heap_bytes())
    }
}
