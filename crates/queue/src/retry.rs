//! Delayed retry: messages that come back to a queue that counts wait before they are offered again.
//!
//! Volatile, a rule of the owner's: it only decides which record is written, one that delays ([`crate::delays`]) in place of one
//! that returns. So however the rule changes later, messages that wait keep the time they were given.

use message::record::Outcome;

/// Which messages wait when they come back, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Messages that failed.
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
    pub(crate) fn delays(self, outcome: Outcome) -> bool {
        if outcome == Outcome::Failed { self.failed } else { self.released }
    }

    /// How long a message waits that has failed so often, milliseconds.
    pub(crate) fn after_ms(self, delivery_count: u32) -> u64 {
        self.min_ms.saturating_mul(u64::from(delivery_count.max(1))).min(self.max_ms)
    }
}
