//! Delayed retry: what comes back to a queue that counts waits before it is offered again.
//!
//! Volatile, a rule of the owner's: it only decides which record is written, one that delays ([`crate::delays`]) in place of one
//! that returns. So whatever changes later, what waits keeps the time it was given.

use crate::effect::{Effect, Effects};
use crate::fifo::Fifo;
use crate::ranges::positions;
use base::ranges::Range;
use message::record::Outcome;

/// Which messages wait when they come back, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Those whose delivery failed.
    pub failed: bool,
    /// Those that came back for other reasons.
    pub released: bool,
    /// For each delivery that failed, and for none as for one, milliseconds.
    pub min_ms: u64,
    /// Never longer than this, milliseconds.
    pub max_ms: u64,
}

impl Retry {
    /// Whether those wait that come back so.
    fn delays(self, outcome: Outcome) -> bool {
        if outcome == Outcome::Failed { self.failed } else { self.released }
    }

    /// How long a message waits that has failed so often, milliseconds.
    fn after_ms(self, delivery_count: u32) -> u64 {
        self.min_ms.saturating_mul(u64::from(delivery_count.max(1))).min(self.max_ms)
    }
}

impl Fifo {
    /// Positions nobody holds any more, live all of them, are to wait if this queue has them wait: whether it has.
    #[cold]
    #[inline(never)]
    pub(crate) fn retry_later(&mut self, range: Range, outcome: Outcome, effects: &mut Effects) -> bool {
        self.count_tried(range);
        self.given_back(range);
        let Fifo { features: Some(features), line, .. } = self else { return false };
        if !line.returns.counts() {
            return false;
        }
        let Some(retry) = features.rules.retry.filter(|retry| retry.delays(outcome)) else { return false };
        features.delays.postponing.insert(range);
        let mut first = range.first;
        while first <= range.last {
            let (failed, last) = line.returns.recorded_failures(Range { first, ..range });
            let failed = failed.saturating_add(u32::from(outcome == Outcome::Failed));
            let range = positions(Range { first, last });
            effects.list.push(Effect::Retry { range, outcome, after_ms: retry.after_ms(failed) });
            first = last + 1;
        }
        true
    }
}
