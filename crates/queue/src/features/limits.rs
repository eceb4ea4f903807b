//! Length limits: when a queue has too many messages, or too many bytes, and which go then.
//!
//! A message that waits for its time is promised a place: publishers are refused for its sake, and nothing that is ready is dropped
//! for it unless it was ready before and came back.

use super::Features;
use crate::effect::Effects;
use crate::line::Line;
use crate::settings::Rules;
use message::record::DeathReason;

impl Features {
    /// As [`crate::Fifo::vacancy`].
    pub(crate) fn vacancy(&self, coming: u64, coming_bytes: u64, line: &Line) -> u64 {
        let Rules { length_max, bytes_max, drops_head, .. } = self.rules;
        let left =
            |max: Option<u64>, now: u64, coming| max.map_or(u64::MAX, |max| max.saturating_sub(now + coming));
        let bytes = self.weights.ready_bytes() + self.delays.bytes();
        if drops_head || left(bytes_max, bytes, coming_bytes) == 0 {
            return if drops_head { u64::MAX } else { 0 };
        }
        left(length_max, self.ready_count(line) + self.delays.count(), coming)
    }

    /// While a limit is passed, the messages that would be handed out next go.
    pub(crate) fn drop_over(&mut self, line: &mut Line, effects: &mut Effects) {
        let Rules { length_max, bytes_max, drops_head: true, .. } = self.rules else { return };
        // Messages that came back and wait are counted, and spared.
        let (back, back_bytes) = self.delays.back();
        let count = self.ready_count(line) + back;
        let mut over = length_max.map_or(0, |length_max| count.saturating_sub(length_max));
        loop {
            let bytes = self.weights.ready_bytes() + back_bytes;
            let is_large = bytes_max.is_some_and(|bytes_max| bytes > bytes_max);
            if over == 0 && !is_large {
                return;
            }
            let handed_below = self.handed_below;
            let Some(dropped) = self.next(line, over.max(1)) else { return };
            self.handed_below = handed_below;
            over = over.saturating_sub(dropped.range.len());
            self.die(dropped.range, DeathReason::MaxLength, effects);
        }
    }
}
