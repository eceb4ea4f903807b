//! Rules over several copies: transactions are whole, dead letters are in the queue they go to, and queues at rest keep
//! their limits.

use super::{Check, Copy, Oracle, Presence, Queue, Stage, number_of};
use base::id::LogId;
use broker::QueueRow;
use std::collections::BTreeMap;

/// Milliseconds after its time was over within which a message is gone from a queue that rests.
pub(super) const LATE_MS_MAX: u64 = 200;

impl Oracle {
    /// A transaction's messages in the queues of one log are there as a whole, or none of them is.
    pub(super) fn check_whole(&self, published: &[u64]) -> Check {
        let mut found: BTreeMap<LogId, [Option<(u64, usize)>; 2]> = BTreeMap::new();
        for id in published {
            let message = &self.messages[*id as usize];
            for number in &message.queues {
                let queue = &self.queues[*number];
                let is_kept = queue.is_durable && (queue.is_quorum || message.is_durable);
                // One that may be there as a dead letter tells nothing: its original was in another queue.
                let copy = queue.copies.get(id);
                let copy = copy.filter(|copy| is_kept && !copy.is_letter && !self.is_damaged(*number));
                let (Some(copy), Some(log)) = (copy, queue.log) else { continue };
                let [seen, missing] = found.entry(log).or_default();
                if copy.was_drained || copy.was_delivered {
                    *seen = Some((*id, *number));
                } else if copy.presence == Presence::May
                    && !copy.is_ended
                    && !queue.lost_silently
                    && !queue.was_auto_settled
                    && queue.rules.is_plain()
                    && copy.due_at_ms.is_none()
                    && queue.stage == Stage::There
                {
                    *missing = Some((*id, *number));
                }
            }
        }
        for (log, halves) in found {
            if let [Some((seen, here)), Some((missing, there))] = halves {
                return Err(format!(
                    "a transaction is torn in {log:?}: message {seen} was in queue {here} and {missing} not in queue {there}"
                ));
            }
        }
        Ok(())
    }

    /// Rules of queues at rest: none is too long, no expired message lies in one, and messages that died are in their
    /// dead-letter queue. With faults a dead letter may have been passed over, like any message that cannot be read,
    /// until the next start.
    pub(super) fn check_rules(&self, rows: &[QueueRow], has_faults: bool) -> Check {
        let mut held: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for row in rows {
            let Some(number) = number_of(&row.definition.name).filter(|number| !self.is_damaged(*number))
            else {
                continue;
            };
            let Queue { copies, rules, stage, .. } = &self.queues[number];
            if rules.length_max.is_some_and(|most| row.ready > most) && !rules.refuses {
                return Err(format!(
                    "queue {number} says {} ready and holds {:?}",
                    row.ready, rules.length_max
                ));
            }
            let is_overdue = |copy: &&Copy| copy.overdue_at_ms.is_some_and(|at| at < self.now_ms);
            let there = copies.values().filter(|copy| copy.presence != Presence::Gone);
            let timely = there.filter(|copy| !is_overdue(copy) || !copy.holders.is_empty()).count() as u64;
            if !copies.values().any(|copy| copy.is_letter) && row.ready > timely {
                return Err(format!("queue {number} says {} ready; {timely} are not overdue", row.ready));
            }
            let grave = rules.grave.unwrap_or(number);
            if *stage == Stage::There && self.buries(grave) {
                let is_due = |copy: &&Copy| rules.grave.is_none() && copy.due_at_ms.is_some();
                let must = |(id, copy): &(&u64, &Copy)| {
                    copy.presence == Presence::Must && !is_due(copy) && self.is_to_be_buried(grave, **id)
                };
                let sum = held.entry(grave).or_default();
                sum.0 += row.ready + row.unsettled + row.delayed;
                sum.1 += copies.iter().filter(must).count() as u64;
            }
        }
        for (grave, (has, must)) in held {
            if has < must && !has_faults {
                return Err(format!(
                    "queue {grave} and those that bury in it hold {has}; {must} must be there"
                ));
            }
        }
        Ok(())
    }

    /// No queue at rest has more in it than its limit in bytes lets it, and none does not know.
    pub fn check_bytes(&self, limited: &[(QueueRow, u64)]) -> Check {
        for (row, most) in limited {
            let number = number_of(&row.definition.name);
            let is_theirs = number.is_some_and(|number| !self.is_damaged(number));
            if is_theirs && row.ready_bytes.is_none_or(|bytes| bytes > *most) {
                let QueueRow { ready, ready_bytes, definition, .. } = row;
                let name = &definition.name;
                return Err(format!(
                    "{name} has {ready} messages, {ready_bytes:?} bytes, and may have {most}"
                ));
            }
        }
        Ok(())
    }

    /// A dead letter that comes into this queue stays there until a client takes it.
    fn buries(&self, grave: usize) -> bool {
        let queue = &self.queues[grave];
        queue.stage == Stage::There && !queue.lost_silently && !self.is_damaged(grave)
    }

    /// A message that dies is to be found in its grave, and nobody has had it from there.
    fn is_to_be_buried(&self, grave: usize, id: u64) -> bool {
        let Queue { copies, is_quorum, .. } = &self.queues[grave];
        let is_kept = *is_quorum || self.messages[id as usize].is_durable;
        is_kept && copies.get(&id).is_some_and(|copy| !copy.is_ended)
    }

    /// A message that died in a queue is where its dead go, or somebody has had it from there.
    pub(super) fn check_buried(&self, number: usize, id: u64) -> Check {
        let Some(grave) = self.queues[number].rules.grave else { return Ok(()) };
        let came = self.queues[grave].copies.get(&id).is_some_and(|copy| copy.was_drained);
        if self.buries(grave) && self.is_to_be_buried(grave, id) && !came {
            return Err(format!("message {id} died in queue {number} and is not in queue {grave}"));
        }
        Ok(())
    }
}
