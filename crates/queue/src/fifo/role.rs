//! A queue gets an owner, and loses it: everything live is ready, and nothing that is recorded changes but at a restart.
//!
//! Records are applied in any role: where nobody owns the queue, nothing is handed out, and nothing that a record
//! brings back was asked for here.

use super::Fifo;
use crate::effect::Effects;
use crate::ranges::positions;
use crate::returns::ReturnLimits;
use crate::settings::Rules;
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
    /// This owner begins: everything live is ready. Recorded state stays as it is, transient messages included: an
    /// owner that follows on another is no restart. Messages that failed too often under rules that were set before
    /// die.
    ///
    /// # Panics
    /// When somebody consumes.
    pub fn claim(&mut self, recovery: Recovery, effects: &mut Effects) {
        self.own(recovery);
        self.drop_failed(effects);
    }

    /// The owner is another from now on, or nobody: its consumers, its rules and all it asked for are forgotten.
    /// Everything live is ready, which records may say otherwise about: those that this owner asked for, too.
    pub fn resign(&mut self) {
        self.consumers = None;
        self.line.returns.set_limits(ReturnLimits::default());
        if let Some(features) = &mut self.features {
            features.rules = Rules::default();
        }
        self.own(Recovery::Dirty);
        self.tidy();
    }

    /// As [`Fifo::claim`], at a start of the node, when its records have been replayed: transient messages are gone, of
    /// which the log is told.
    pub fn recover(&mut self, recovery: Recovery, effects: &mut Effects) {
        self.own(recovery);
        for range in self.line.live.take_transient().iter() {
            effects.append(Kind::Purge, Outcome::Released, range);
            self.settled(positions(range), effects);
        }
        self.drop_failed(effects);
    }

    /// Nothing has been asked for, and everything live is ready.
    fn own(&mut self, recovery: Recovery) {
        assert!(self.consumers.is_none(), "a queue has an owner before anybody consumes");
        self.line.returns.forget();
        self.line.ready.forget(match recovery {
            Recovery::Dirty => self.line.live.next_seq(),
            Recovery::Clean(cursor) => cursor.0.min(self.line.live.next_seq()),
        });
        self.begin();
    }

    /// Everything live is ready.
    pub(crate) fn begin(&mut self) {
        self.line.begin();
        if let Some(features) = &mut self.features {
            features.forget(&mut self.line);
        }
    }

    /// Ready messages that failed, or came back, too often die.
    pub(super) fn drop_failed(&mut self, effects: &mut Effects) {
        let all = Range { first: 0, last: u64::MAX - 1 };
        let failed = self.line.returns.over_limit(std::iter::once(all));
        for part in failed.iter() {
            let (features, line) = self.with_features();
            features.kill(part, DeathReason::DeliveryLimit, line, effects);
        }
    }
}
