//! Input of the machine: records in log order, commands of the owner.

use crate::selector_sets::SelectorId;
use crate::settings::{Arrival, Settings};
use base::id::{LogIndex, QueueSeq};
use message::record::{Outcome, SeqRange};
use std::sync::Arc;

/// A consumer of one queue: a slot its owner chose. Slots are dense: memory grows with the highest one in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(pub u32);

/// A record of a log about a queue. The order of records is the order of the log; nothing else changes recorded state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A message arrived: it takes the next position.
    Enqueue {
        /// Where its record is.
        place: LogIndex,
        /// It is gone after a restart.
        transient: bool,
    },
    /// Positions are done with.
    Settle {
        /// Which; those already gone are passed over.
        range: SeqRange,
    },
    /// Positions came back, with their counts; only where queues count.
    Return {
        /// Which; those already gone are passed over.
        range: SeqRange,
        /// [`Outcome::Failed`] counts as a delivery that failed, others as one that was acquired.
        outcome: Outcome,
    },
    /// Positions were thrown away while ready.
    Purge {
        /// Which; those already gone are passed over.
        range: SeqRange,
    },
    /// A message arrived of which more is to be known: it takes the next position.
    Arrive {
        /// Where its record is.
        place: LogIndex,
        /// Its properties.
        arrival: Arrival,
    },
    /// Positions are gone: their time was over.
    Expire {
        /// Which; those already gone are passed over.
        range: SeqRange,
    },
    /// Positions are gone: a limit was passed.
    Drop {
        /// Which; those already gone are passed over.
        range: SeqRange,
    },
    /// Positions are gone: where they were dead-lettered to, they are safe.
    DeadLetter {
        /// Which; those already gone are passed over.
        range: SeqRange,
    },
    /// Positions came back and are delayed, with their counts where queues count.
    Postpone {
        /// Which; those already gone are passed over.
        range: SeqRange,
        /// As of [`Record::Return`].
        outcome: Outcome,
        /// Until when, milliseconds since 1970.
        due_at_ms: u64,
    },
    /// Messages from here on are kept so.
    Configure {
        /// All of it; [`Settings::counts`] is passed over.
        settings: Settings,
    },
    /// Positions are so large, of which nobody knew ([`crate::Fifo::to_weigh`]).
    Weigh {
        /// Which; those already gone or of known size are passed over.
        range: SeqRange,
        /// Live ones of them, in order; others count as empty.
        sizes: Arc<[(QueueSeq, u32)]>,
    },
    /// Positions have these annotations, in place of those they had; only where queues count.
    Annotate {
        /// Which; those already gone are passed over.
        range: SeqRange,
        /// All of them, opaque to the machine.
        annotations: Arc<[u8]>,
    },
}

/// A request of the owner; costs no write unless an effect says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// No more deliveries; messages that it holds stay with it until settled or closed (AMQP 0-9-1 basic.cancel).
    Cancel {
        /// Its id.
        consumer: ConsumerId,
    },
    /// It is gone: messages that it holds go back, as failed where the queue counts. The slot is free again.
    Close {
        /// Its id.
        consumer: ConsumerId,
    },
    /// Explicit credit, set absolutely (AMQP 1.0 §2.6.7). A consumer with a prefetch trades it in.
    Credit {
        /// Its id.
        consumer: ConsumerId,
        /// Messages it may still be given.
        credit: u32,
        /// Once nothing is ready, the rest of the credit goes ([`crate::Effect::Drained`]).
        drain: bool,
    },
    /// At most so many unsettled; a consumer with explicit credit trades it in.
    Prefetch {
        /// Its id.
        consumer: ConsumerId,
        /// 0: any number.
        prefetch: u32,
    },
    /// Its connection cannot take more for now, or can again.
    Pause {
        /// Its id.
        consumer: ConsumerId,
        /// It cannot.
        paused: bool,
    },
    /// Its connection's node cannot take more for now, or can again, whatever the connection says.
    HoldUp {
        /// Its id.
        consumer: ConsumerId,
        /// It cannot.
        held_up: bool,
    },
    /// It holds ready messages of this, which an owner before gave it: nothing is handed out. Positions that are not ready are
    /// passed over. Its link's credit stays as it is.
    Claim {
        /// Its id.
        consumer: ConsumerId,
        /// Which.
        range: SeqRange,
    },
    /// Positions it holds are done with. Those it does not hold are counted in [`crate::Effects::ignored`].
    Settle {
        /// Its id.
        consumer: ConsumerId,
        /// Which.
        range: SeqRange,
        /// How they ended.
        outcome: Outcome,
    },
    /// Everything ready and everything delayed is thrown away.
    Purge,
    /// Delayed messages of this are thrown away; the rest is passed over.
    CancelDelayed {
        /// Which.
        range: SeqRange,
    },
    /// Ready and delayed messages of this are thrown away; the rest is passed over.
    Discard {
        /// Which.
        range: SeqRange,
    },
    /// Ready messages of this die as rejected ones; the rest is passed over.
    Reject {
        /// Which.
        range: SeqRange,
    },
    /// Dead messages ([`crate::Effect::DeadLetter`]) are safe where they went, or went nowhere for good: they end here.
    /// Those that are not dying are passed over.
    DeadLettered {
        /// Which.
        range: SeqRange,
    },
}

/// A consumer to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consume {
    /// Its slot, a free one.
    pub consumer: ConsumerId,
    /// How it gets credit.
    pub credit: Credit,
    /// Deliveries are settled at once; a prefetch then bounds nothing.
    pub settled: bool,
    /// Nobody else may consume.
    pub exclusive: bool,
    /// Higher goes first, as long as it has credit.
    pub priority: i32,
    /// It is given only messages of which this is true; one that is open ([`crate::Fifo::open_selector`]).
    pub selector: Option<SelectorId>,
}

/// How a consumer gets credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credit {
    /// So many unsettled at once; 0: any number (AMQP 0-9-1 basic.qos).
    Prefetch(u32),
    /// So many messages more, each delivery uses one up (AMQP 1.0 link credit).
    Link(u32),
}

/// Why nobody may consume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Somebody consumes exclusively.
    Exclusive,
    /// It wanted to be the only one, and others consume.
    InUse,
}
