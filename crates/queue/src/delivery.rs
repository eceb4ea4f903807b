//! Positions that are handed out together because all that is told of them is the same.

use crate::command::ConsumerId;
use crate::effect::Effect;
use base::id::QueueSeq;
use base::ranges::Range;

/// How often a message came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Deliveries that failed.
    pub delivery_count: u32,
    /// Deliveries.
    pub acquired_count: u32,
}

impl Counts {
    /// Of a message that failed so often before it came, and never was out.
    pub(crate) fn failed_before(failures: u64) -> Counts {
        Counts { delivery_count: failures as u32, acquired_count: 0 }
    }

    /// As consumers are told them: before it first comes back, a message was out as often as it failed elsewhere.
    pub(crate) fn shown(self) -> Counts {
        match self.acquired_count {
            0 => Counts { acquired_count: self.delivery_count, ..self },
            _ => self,
        }
    }
}

/// Ready positions that are alike.
#[derive(Clone, Copy)]
pub(crate) struct Delivery {
    pub(crate) range: Range,
    pub(crate) redelivered: bool,
    pub(crate) counts: Counts,
}

impl Delivery {
    /// Positions that were never handed out.
    #[inline(always)]
    pub(crate) fn first_time(range: Range) -> Delivery {
        Delivery { range, redelivered: false, counts: Counts::default() }
    }

    /// A consumer gets it.
    #[inline]
    pub(crate) fn to(self, consumer: ConsumerId) -> Effect {
        Effect::Deliver {
            consumer,
            first: QueueSeq(self.range.first),
            count: self.range.len() as u32,
            redelivered: self.redelivered,
            delivery_count: self.counts.delivery_count,
            acquired_count: self.counts.acquired_count,
        }
    }
}
