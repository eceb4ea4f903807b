//! Rules of queues whose consumers may hold messages for some time only, by a timeout or a lease: a message that is held
//! for longer goes to others, and never earlier. What a consumer settles after its lease is over changes nothing.

use super::{Check, Copy, Oracle, number_of, whole::LATE_MS_MAX};
use crate::rules::Rules;
use broker::QueueRow;

impl Copy {
    /// Its holder may have had it for too long by now: another may have it as well.
    pub(super) fn may_be_late(&self, rules: &Rules, now_ms: u64) -> bool {
        rules.holding_ms().is_some_and(|holding_ms| self.available_ms + holding_ms <= now_ms)
    }

    /// Its holder gives it back: nobody has it before now, unless that comes too late.
    pub(super) fn given_back(&mut self, rules: &Rules, now_ms: u64) {
        if !self.may_be_late(rules, now_ms) {
            self.available_ms = now_ms;
        }
    }
}

impl Oracle {
    /// The rules of a queue.
    pub fn rules_of(&self, queue: usize) -> &Rules {
        &self.queues[queue].rules
    }

    /// Whether anybody may lose what it holds because it took too long.
    pub fn has_timeouts(&self) -> bool {
        self.queues.iter().any(|queue| queue.rules.lease_ms.is_none() && queue.rules.timeout_ms.is_some())
    }

    /// Whether something of a queue that leases its messages cannot be read.
    pub fn leases_what_is_lost(&self) -> bool {
        let leases = |number: &usize| self.queues[*number].rules.lease_ms.is_some();
        (0..self.queues.len()).filter(leases).any(|number| self.is_damaged(number))
    }

    /// At rest nobody holds anything for too long, as far as queues know.
    pub(super) fn check_late(&self, rows: &[QueueRow]) -> Check {
        for row in rows {
            let Some(number) = number_of(&row.definition.name).filter(|number| !self.is_damaged(*number))
            else {
                continue;
            };
            let queue = &self.queues[number];
            let Some(holding_ms) = queue.rules.holding_ms() else { continue };
            if queue.copies.values().any(|copy| copy.is_letter) {
                continue;
            }
            let is_held = |(id, copy): &(&u64, &Copy)| {
                // A leader counts from the moment in which it took up what is held, which is any where it did not wait for that.
                let since_ms = copy.heard_ms.max(self.led_ms);
                let is_timely = copy.lost_leader || since_ms + holding_ms + LATE_MS_MAX > self.now_ms;
                let is_known = !copy.holders.is_empty() && is_timely;
                // A barrier that is delayed is none, and is held as any message.
                is_known || copy.was_delivered && self.is_barrier(number, **id) && !self.has_place(**id)
            };
            let held = queue.copies.iter().filter(is_held).count() as u64;
            if row.unsettled > held {
                return Err(format!(
                    "queue {number} says {} unsettled; {held} are held, and not for too long",
                    row.unsettled
                ));
            }
        }
        Ok(())
    }
}
