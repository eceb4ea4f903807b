//! Length limits: when a queue has too many messages, or too many bytes, and what goes then.
//!
//! What waits for its time is promised a place: publishers are refused for its sake, and nothing that is ready is dropped
//! for it unless it was ready before and came back.

use crate::effect::Effects;
use crate::fifo::Fifo;
use crate::settings::Rules;
use message::record::DeathReason;

impl Fifo {
    /// Whether a limit is reached, counting `coming` messages of `coming_bytes` that are under way and have not arrived:
    /// with one message more there would be too many. What is delayed is promised a place and counts. False where the
    /// queue makes room by itself ([`Rules::drops_head`]).
    pub fn is_full(&self, coming: u64, coming_bytes: u64) -> bool {
        self.vacancy(coming, coming_bytes) == 0
    }

    /// Messages that a queue which refuses them has room for, as far as their number goes; of one that does not, any.
    pub fn vacancy(&self, coming: u64, coming_bytes: u64) -> u64 {
        let Some(features) = &self.features else { return u64::MAX };
        let Rules { length_max, bytes_max, drops_head, .. } = features.rules;
        let left =
            |max: Option<u64>, now: u64, coming| max.map_or(u64::MAX, |max| max.saturating_sub(now + coming));
        if drops_head || left(bytes_max, features.ready_bytes + features.delays.bytes, coming_bytes) == 0 {
            return if drops_head { u64::MAX } else { 0 };
        }
        left(length_max, self.ready() + features.delays.count(), coming)
    }

    /// Somebody looks at the queue before the next dispatch: what is over a limit goes now, unless a consumer could be given of it.
    pub fn cut(&mut self, effects: &mut Effects) {
        if self.features.is_some() && !self.has_taker() {
            self.drop_over(effects);
        }
    }

    /// While a limit is passed, what would be handed out next goes.
    pub(crate) fn drop_over(&mut self, effects: &mut Effects) {
        let Some(Rules { length_max, bytes_max, drops_head: true, .. }) =
            self.features.as_ref().map(|features| features.rules)
        else {
            return;
        };
        // What came back and waits is counted, and spared.
        let (back, back_bytes) = self.features.as_ref().map_or((0, 0), |features| features.delays.back());
        let mut over = length_max.map_or(0, |length_max| (self.ready() + back).saturating_sub(length_max));
        loop {
            let is_large = bytes_max.is_some_and(|bytes_max| self.ready_bytes() + back_bytes > bytes_max);
            if over == 0 && !is_large {
                return;
            }
            let handed_below = self.features.as_ref().map_or(0, |features| features.handed_below);
            let Some(ready) = self.next_featured(over.max(1)) else { return };
            self.features_mut().handed_below = handed_below;
            over = over.saturating_sub(ready.range.len());
            self.die(ready.range, DeathReason::MaxLength, effects);
        }
    }
}
