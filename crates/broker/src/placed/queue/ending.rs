//! Messages that end otherwise than by being settled, counted: by the type of queue, by what becomes of them, by why.

use crate::placed::queue::at::AtQueue;
use crate::tally::{DeadLetterStrategy, End, type_index};
use message::record::{DeathReason, Kind, Outcome, SeqRange};

impl AtQueue<'_> {
    fn count_end(&mut self, range: SeqRange, strategy: DeadLetterStrategy, end: End) {
        let of = type_index(self.queue.definition().queue_type);
        self.commons.figures.ends[of][strategy as usize][end as usize] += range.last.0 - range.first.0 + 1;
    }

    /// Positions died that are to be published anew.
    #[cold]
    #[inline(never)]
    pub(crate) fn count_dead(&mut self, range: SeqRange, reason: DeathReason) {
        let features = self.queue.features.as_ref();
        let dead_letter = features.and_then(|features| features.rules.dead_letter.as_ref());
        let strategy = match dead_letter {
            Some(dead_letter) if dead_letter.at_least_once => DeadLetterStrategy::AtLeastOnce,
            Some(_) => DeadLetterStrategy::AtMostOnce,
            None => DeadLetterStrategy::Disabled,
        };
        let end = match reason {
            DeathReason::MaxLength => End::MaxLength,
            DeathReason::Expired => End::Expired,
            DeathReason::DeliveryLimit => End::DeliveryLimit,
            DeathReason::Rejected | DeathReason::Undeliverable => End::Rejected,
        };
        self.count_end(range, strategy, end);
    }

    /// Positions are recorded as gone without being accepted or sent anywhere.
    #[cold]
    #[inline(never)]
    pub(crate) fn count_gone(&mut self, kind: Kind, range: SeqRange, outcome: Outcome) {
        let end = match (kind, outcome) {
            (Kind::Expire, _) => End::Expired,
            (Kind::Drop, Outcome::Failed) => End::DeliveryLimit,
            (Kind::Drop, _) => End::MaxLength,
            (Kind::Settle, Outcome::Rejected | Outcome::Undeliverable) => End::Rejected,
            _ => return,
        };
        self.count_end(range, DeadLetterStrategy::Disabled, end);
    }
}
