//! A queue's owner begins: everything live is ready.

use super::Fifo;
use crate::effect::Effects;
use crate::ranges::positions;
use base::id::QueueSeq;
use base::ranges::Range;
use message::record::{DeathReason, Kind, Outcome};

/// How the owner before ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Nobody knows: anything may have been delivered.
    Dirty,
    /// In order; delivery had come so far ([`Fifo::cursor`]).
    Clean(QueueSeq),
}

impl Fifo {
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
        if let Some(features) = &mut self.features {
            features.forget(&mut self.line);
        }
    }

    /// Ready messages that failed too often die.
    pub(super) fn drop_failed(&mut self, effects: &mut Effects) {
        let all = Range { first: 0, last: u64::MAX - 1 };
        let failed = self.line.returns.over_limit(std::iter::once(all));
        for part in failed.iter() {
            let (features, line) = self.with_features();
            features.kill(part, DeathReason::DeliveryLimit, line, effects);
        }
    }
}
