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

mod owner;
mod questions;

use crate::command::Record;
use crate::consumers::Consumers;
use crate::effect::Effects;
use crate::features::Features;
use crate::line::Line;
use crate::places::{Places, Run};
use crate::ranges::positions;
use crate::returns::Returns;
use crate::settings::Settings;
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
    pub(crate) consumers: Option<Box<Consumers>>,
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
        assert!(self.consumers.is_none(), "a queue recovers before anybody consumes");
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
            + self.consumers.as_ref().map_or(0, |consumers| size_of::<Consumers>() + consumers.heap_bytes())
    }
}
