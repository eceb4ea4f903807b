//! When something is due in a queue though nothing happens: a message whose time is over, a queue unused for too long,
//! dead letters to be tried again.
//!
//! A queue has at most one timer, in its log's list. It may ring early, and is then set anew; never late.

use crate::catalog::QueueDefinition;
use crate::log::Log;
use base::Now;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The timers of a log's queues: monotonic nanoseconds, and the queue's slot.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: BTreeSet<(u64, u32)>,
}

impl Timers {
    /// When the first one rings.
    pub(crate) fn first(&self) -> Option<u64> {
        self.set.first().map(|(at, _)| *at)
    }

    /// A queue is gone.
    pub(crate) fn forget(&mut self, slot: u32, timer: Option<u64>) {
        if let Some(at) = timer {
            self.set.remove(&(at, slot));
        }
    }
}

impl Log {
    /// Sets the queue's timer to when something is due next.
    pub(crate) fn arm(&mut self, now: Now, slot: u32) {
        let queue = &mut self.queues[slot as usize];
        let (deadline, is_used) = (queue.fifo.next_deadline_ms(), queue.is_used());
        let Some(features) = &mut queue.features else {
            if deadline.is_some() {
                queue.features_mut(now);
                self.arm(now, slot);
            }
            return;
        };
        let ends = features.ends_at_ms().filter(|_| !is_used);
        let retry = (!features.unplaced.is_empty()).then_some(features.retry_at_ms);
        let next = [deadline, ends, retry].into_iter().flatten().min();
        let Some(next) = next else { return };
        let at = now.after_ms(next.saturating_sub(now.wall_ms));
        if features.timer.is_none_or(|timer| at < timer) {
            self.timers.forget(slot, features.timer);
            features.timer = Some(at);
            self.timers.set.insert((at, slot));
        }
    }

    /// Does what is due. Queues that were unused for too long are added to `ended`: they are to be deleted.
    pub(crate) fn ring(&mut self, now: Now, ended: &mut Vec<Arc<QueueDefinition>>) {
        while let Some((at, slot)) = self.timers.set.first().copied().filter(|(at, _)| *at <= now.mono_ns) {
            self.timers.set.remove(&(at, slot));
            let queue = &mut self.queues[slot as usize];
            let Some(features) = &mut queue.features else { continue };
            features.timer = None;
            features.try_again(now);
            if features.ends_at_ms().is_some_and(|ends| ends <= now.wall_ms) {
                // Until it is gone: not at every turn.
                features.used_at_ms = now.wall_ms;
                if !queue.is_used() {
                    ended.push(queue.definition.clone());
                }
            }
            self.list_dying(slot);
            // Handing out is also when messages expire, and the timer is set anew after it.
            self.mark_dirty(slot);
        }
    }

    /// The queue was used: it lives for its time from here on.
    pub(crate) fn used(&mut self, now: Now, slot: u32) {
        if let Some(features) = &mut self.queues[slot as usize].features {
            features.used_at_ms = now.wall_ms;
        }
    }
}
