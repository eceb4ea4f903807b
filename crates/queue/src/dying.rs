//! Messages that died and stay until their copy is safe elsewhere.
//!
//! Volatile: after a restart they are ready, and may die again. The goal of dead letters is the owner's rule.
//! Invariant: a dying message is ready nowhere and held by nobody.

use crate::effect::Effects;
use base::RangeSet;
use base::ranges::Range;
use message::record::{DeathReason, Kind, Outcome};

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Dying {
    positions: RangeSet,
}

impl Dying {
    pub(crate) fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    pub(crate) fn count(&self) -> u64 {
        self.positions.count()
    }

    /// Positions that are ready nowhere and held by nobody are to be taken elsewhere.
    pub(crate) fn die(&mut self, range: Range, reason: DeathReason, effects: &mut Effects) {
        self.positions.insert(range);
        effects.dead_letter(range, reason);
    }

    /// The dead are safe elsewhere: their end is to be recorded.
    pub(crate) fn dead_lettered(&mut self, range: Range, effects: &mut Effects) {
        self.positions.remove(range, |part| effects.append(Kind::DeadLetter, Outcome::Rejected, part));
    }

    /// Positions are gone.
    pub(crate) fn leave(&mut self, part: Range) {
        self.positions.remove(part, |_| {});
    }

    /// Another owner begins.
    pub(crate) fn forget(&mut self) {
        self.positions.clear();
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.positions.heap_bytes()
    }
}

/// Positions that are ready nowhere and held by nobody end here, as nobody takes the dead.
pub(crate) fn end(range: Range, reason: DeathReason, effects: &mut Effects) {
    match reason {
        DeathReason::Rejected | DeathReason::Undeliverable => {
            effects.append(Kind::Settle, Outcome::Rejected, range);
        }
        DeathReason::Expired => effects.append(Kind::Expire, Outcome::Released, range),
        DeathReason::MaxLength => effects.append(Kind::Drop, Outcome::Released, range),
        DeathReason::DeliveryLimit => effects.append(Kind::Drop, Outcome::Failed, range),
    }
}
