//! Output of the machine, as data: flat lists that the caller owns and uses again.

use crate::command::ConsumerId;
use crate::places::Run;
use base::id::{LogIndex, QueueSeq};
use base::ranges::Range;
use message::record::{DeathReason, Kind, Outcome, SeqRange};

/// One thing that should happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Hand positions to a consumer.
    Deliver {
        /// The consumer.
        consumer: ConsumerId,
        /// The first position.
        first: QueueSeq,
        /// How many, following on without a gap.
        count: u32,
        /// They may have been handed out before.
        redelivered: bool,
        /// How many deliveries of each failed, where the queue counts; else 0.
        delivery_count: u32,
        /// How often each was handed out and came back, where the queue counts; else 0.
        acquired_count: u32,
    },
    /// As [`Effect::Deliver`], of messages that have annotations ([`crate::Fifo::annotations`]).
    DeliverAnnotated {
        /// The consumer.
        consumer: ConsumerId,
        /// The first position.
        first: QueueSeq,
        /// How many, following on without a gap.
        count: u32,
        /// They may have been handed out before.
        redelivered: bool,
        /// How many deliveries of each failed.
        delivery_count: u32,
        /// How often each was handed out and came back.
        acquired_count: u32,
    },
    /// Hand a barrier to a consumer, settled in advance: it is in no consumer's hands, and what becomes of it there is nothing
    /// to the machine.
    DeliverBarrier {
        /// The consumer.
        consumer: ConsumerId,
        /// The position.
        seq: QueueSeq,
        /// It may have been handed out before, by an owner before this one or to a get.
        redelivered: bool,
        /// As of [`Effect::Deliver`].
        delivery_count: u32,
        /// As of [`Effect::Deliver`].
        acquired_count: u32,
    },
    /// A barrier is over; these had no room for it and never were given it.
    PassedOver {
        /// How many.
        consumers: u32,
    },
    /// Write a record of this queue to its log; the machine wants to see it come back.
    Append {
        /// Settle, return, purge, expire, drop or dead-letter.
        kind: Kind,
        /// The positions.
        range: SeqRange,
        /// Why.
        outcome: Outcome,
    },
    /// Write a record of this queue to its log that delays positions; the machine wants to see it come back.
    Postpone {
        /// The positions.
        range: SeqRange,
        /// As of [`crate::Record::Postpone`].
        outcome: Outcome,
        /// Until when, milliseconds since 1970.
        due_at_ms: u64,
    },
    /// Give this consumer some of the 64 messages from `block` on, lowest first: those whose bits are set, two at least, the
    /// lowest bit being that of `block`. None of them was ever out.
    DeliverScattered {
        /// The consumer that gets them.
        consumer: ConsumerId,
        /// The position of the lowest bit.
        block: QueueSeq,
        /// Which of the positions.
        bits: u64,
    },
    /// As [`Effect::Postpone`], until so long after now.
    Retry {
        /// The positions.
        range: SeqRange,
        /// As of [`crate::Record::Postpone`].
        outcome: Outcome,
        /// How long from now, milliseconds.
        after_ms: u64,
    },
    /// A draining consumer got all there was: its credit is 0 now.
    Drained {
        /// Its id.
        consumer: ConsumerId,
        /// Credit that was left.
        unused: u32,
    },
    /// There was nothing to take.
    Empty {
        /// The one that asked.
        consumer: ConsumerId,
    },
    /// Positions died. They stay until [`crate::Command::DeadLettered`] says that they are safe elsewhere; told once, and after
    /// a restart perhaps again.
    DeadLetter {
        /// Which.
        range: SeqRange,
        /// Why.
        reason: DeathReason,
    },
    /// Of a queue with a single active consumer: this one is given messages from here on, or is no more.
    Active {
        /// Its id.
        consumer: ConsumerId,
        /// It is.
        active: bool,
    },
}

/// Positions that are settled as they are handed out: one record for those that follow on, for any consumers.
#[derive(Default)]
pub(crate) struct Accepted {
    range: Option<Range>,
}

impl Accepted {
    #[inline]
    pub(crate) fn add(&mut self, range: Range, effects: &mut Effects) {
        match &mut self.range {
            Some(last) if last.last + 1 == range.first => last.last = range.last,
            _ => self.range.replace(range).into_iter().for_each(|range| {
                effects.append(Kind::Settle, Outcome::Accepted, range);
            }),
        }
    }

    /// Nothing more is handed out.
    #[inline]
    pub(crate) fn finish(self, effects: &mut Effects) {
        if let Some(range) = self.range {
            effects.append(Kind::Settle, Outcome::Accepted, range);
        }
    }
}

/// The positions of [`Effect::DeliverScattered`], lowest first.
#[inline]
pub fn scattered(block: QueueSeq, bits: u64) -> impl Iterator<Item = QueueSeq> {
    let mut rest = bits;
    std::iter::from_fn(move || {
        let bit = (rest != 0).then(|| rest.trailing_zeros())?;
        rest &= rest - 1;
        Some(QueueSeq(block.0 + u64::from(bit)))
    })
}

/// Things that one queue wants done, in order. Carry it out and clear it before another queue gets it: records of one queue
/// that follow on are merged.
#[derive(Debug, Default)]
pub struct Effects {
    /// Deliveries, records to write, answers.
    pub list: Vec<Effect>,
    /// Places in the log whose message left the queue, in order of position.
    pub left: Vec<LogIndex>,
    /// Blocks of segments that nothing of this queue is left in.
    pub runs_left: Vec<Run>,
    /// Positions that consumers were to settle, but do not hold.
    pub ignored: u64,
}

impl Effects {
    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        self.list.clear();
        self.left.clear();
        self.runs_left.clear();
        self.ignored = 0;
    }

    /// Nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.left.is_empty() && self.runs_left.is_empty()
    }

    /// Asks for a record; one that follows on the last becomes part of it.
    #[inline]
    pub(crate) fn append(&mut self, kind: Kind, outcome: Outcome, range: Range) {
        if let Some(Effect::Append { kind: last_kind, range: last, outcome: last_outcome }) =
            self.list.last_mut()
            && *last_kind == kind
            && *last_outcome == outcome
            && last.last.0 + 1 == range.first
        {
            last.last = QueueSeq(range.last);
            return;
        }
        self.list.push(Effect::Append { kind, range: crate::ranges::positions(range), outcome });
    }

    /// Tells of the dead; those that follow on the last of the same kind become part of it.
    #[cold]
    pub(crate) fn dead_letter(&mut self, range: Range, reason: DeathReason) {
        if let Some(Effect::DeadLetter { range: last, reason: last_reason }) = self.list.last_mut()
            && *last_reason == reason
            && last.last.0 + 1 == range.first
        {
            last.last = QueueSeq(range.last);
            return;
        }
        self.list.push(Effect::DeadLetter { range: crate::ranges::positions(range), reason });
    }
}
