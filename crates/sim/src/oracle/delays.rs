//! Rules of delayed messages: none comes before its time, and none still waits when that is over.

use super::{Check, Copy, Oracle, Presence, Queue, Target, number_of, whole::LATE_MS_MAX};
use crate::client::Held;
use crate::rules::{Delay, Rules};
use broker::QueueRow;

/// When a delayed message may come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// Nobody gets it before.
    pub(super) not_before_ms: u64,
    /// It is ready from then on. None: nobody knows yet when the node took it.
    ready_by_ms: Option<u64>,
    delay: Delay,
}

impl Due {
    pub(super) fn new(delay: Delay, now_ms: u64) -> Due {
        let (not_before_ms, ready_by_ms) = match delay {
            Delay::For(ms) => (now_ms + ms, None),
            Delay::Until(ms) => (ms, Some(ms)),
        };
        Due { not_before_ms, ready_by_ms, delay }
    }

    /// The node has taken it by now: when it is ready.
    pub(super) fn taken(&mut self, now_ms: u64) -> u64 {
        let ready_by_ms = match self.delay {
            Delay::For(ms) => now_ms + ms,
            Delay::Until(ms) => ms.max(now_ms),
        };
        *self.ready_by_ms.insert(ready_by_ms)
    }

    fn may_wait(&self, now_ms: u64) -> bool {
        self.ready_by_ms.is_none_or(|at| at + LATE_MS_MAX > now_ms)
    }
}

/// A copy that somebody gave back to come later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Postponed {
    queue: usize,
    message: u64,
    until_ms: u64,
}

impl Copy {
    /// How many milliseconds it comes before its time, if it does.
    pub(super) fn is_early(&self, due: Option<Due>, now_ms: u64) -> Option<u64> {
        let certain_ms = self.certain_ms.filter(|_| !self.is_letter);
        let not_before_ms = due.map(|due| due.not_before_ms).max(certain_ms)?;
        not_before_ms.checked_sub(now_ms).filter(|early| *early > 0)
    }

    /// In a queue that delays what comes back anything may have come back unseen.
    fn may_wait(&self, rules: &Rules, due: Option<Due>, now_ms: u64) -> bool {
        self.presence != Presence::Gone
            && (rules.retry.is_some()
                || due.is_some_and(|due| due.may_wait(now_ms))
                || self.postponed_ms.is_some_and(|at| at + LATE_MS_MAX > now_ms))
    }
}

impl Oracle {
    /// Whether a message to there waits if it asks for it.
    pub fn delays(&self, target: Target) -> bool {
        matches!(target, Target::Exchange(exchange) if self.exchanges[exchange].delays)
    }

    /// A message is given back, to come later.
    pub(super) fn postponing(&mut self, client: u64, held: &Held, until_ms: u64) {
        let (queue, message) = (held.queue, held.message);
        let Some(copy) = self.queues[queue].copies.get_mut(&message) else { return };
        copy.postponed_ms = copy.postponed_ms.max(Some(until_ms));
        self.postponed.entry(client).or_default().push(Postponed { queue, message, until_ms });
    }

    /// The node has handled every command: messages given back to come later do so.
    pub(super) fn postpones_are_done(&mut self) -> Check {
        for Postponed { queue, message, until_ms } in
            std::mem::take(&mut self.postponed).into_values().flatten()
        {
            let is_damaged = self.is_damaged(queue);
            let Queue { copies, rules, .. } = &mut self.queues[queue];
            let Some(copy) = copies.get_mut(&message) else { continue };
            if is_damaged || copy.is_letter || copy.may_be_late(rules, self.now_ms) {
                continue;
            }
            if copy.heard_ms > copy.available_ms && copy.heard_ms < until_ms {
                return Err(format!(
                    "message {message} from queue {queue} came {} ms too early after it was given back",
                    until_ms - copy.heard_ms
                ));
            }
            copy.certain_ms = Some(until_ms);
        }
        Ok(())
    }

    /// Delayed messages of a queue were thrown away: `cancelled` of those it `listed`, which all were asked for.
    pub fn cancelled_delayed(&mut self, number: usize, listed: u64, cancelled: u64) -> Check {
        if listed != cancelled && !self.is_damaged(number) {
            return Err(format!(
                "queue {number} listed {listed} delayed messages and threw {cancelled} away"
            ));
        }
        let now_ms = self.now_ms;
        let Queue { copies, rules, .. } = &mut self.queues[number];
        let messages = &self.messages;
        let waiting = || {
            let waits =
                |(id, copy): &(&u64, &Copy)| copy.may_wait(rules, messages[**id as usize].due, now_ms);
            copies.iter().filter(waits)
        };
        let all: Vec<u64> = waiting().map(|(id, _)| *id).collect();
        let surely = |(id, copy): &(&u64, &Copy)| {
            copy.holders.is_empty()
                && messages[**id as usize].due.is_some_and(|due| due.not_before_ms > now_ms)
        };
        let are_known = waiting().filter(surely).count() == all.len() && all.len() as u64 == cancelled;
        for id in all {
            if let Some(copy) = copies.get_mut(&id) {
                copy.is_ended = true;
                if copy.presence == Presence::Must {
                    copy.presence = Presence::May;
                }
                if are_known && !copy.is_letter {
                    self.ended.entry(0).or_default().push((number, id));
                }
            }
        }
        Ok(())
    }

    /// At rest those wait whose time has not come, and no others.
    pub(super) fn check_delayed(&self, rows: &[QueueRow]) -> Check {
        for row in rows {
            let Some(number) = number_of(&row.definition.name).filter(|number| !self.is_damaged(*number))
            else {
                continue;
            };
            let Queue { copies, rules, .. } = &self.queues[number];
            if copies.values().any(|copy| copy.is_letter) {
                continue;
            }
            let due = |id: &u64| self.messages[*id as usize].due;
            let must = copies.iter().filter(|(id, copy)| {
                let certain_ms = copy.certain_ms.filter(|_| !rules.limits_returns());
                let until_ms = due(id).map(|due| due.not_before_ms).max(certain_ms);
                copy.presence == Presence::Must
                    && copy.due_at_ms.is_none_or(|at| at > self.now_ms)
                    && until_ms.is_some_and(|at| at > self.now_ms)
            });
            let may = copies.iter().filter(|(id, copy)| copy.may_wait(rules, due(id), self.now_ms));
            let (must, may) = (must.count() as u64, may.count() as u64);
            if row.delayed < must || row.delayed > may {
                return Err(format!(
                    "queue {number} says {} delayed; {must} must wait and {may} may",
                    row.delayed
                ));
            }
        }
        Ok(())
    }
}
