//! When something is due in a queue though nothing happens: a message whose time is over, a queue unused for too long,
//! dead letters to be tried again, a look at what consumers hold.
//!
//! A queue has at most one timer, and one for looking, in its log's list. It may ring early, and is then set anew; never
//! late.

use std::collections::BTreeSet;

/// The timers of a log's queues: monotonic nanoseconds, and the queue's slot.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: BTreeSet<(u64, u32)>,
    /// When it is to be looked at what consumers of a queue hold.
    looks: BTreeSet<(u64, u32)>,
    /// When the first of all rings.
    first: Option<u64>,
}

impl Timers {
    /// When the first one rings.
    #[inline]
    pub(crate) fn first(&self) -> Option<u64> {
        self.first
    }

    /// A queue is gone.
    pub(crate) fn forget(&mut self, slot: u32, timer: Option<u64>) {
        if let Some(at) = timer {
            self.set.remove(&(at, slot));
            self.find_first();
        }
    }

    /// It is to be looked at a queue no more.
    pub(crate) fn forget_look(&mut self, slot: u32, look: Option<u64>) {
        if let Some(at) = look {
            self.looks.remove(&(at, slot));
            self.find_first();
        }
    }

    pub(crate) fn set(&mut self, at: u64, slot: u32) {
        self.set.insert((at, slot));
        self.find_first();
    }

    pub(crate) fn set_look(&mut self, at: u64, slot: u32) {
        self.looks.insert((at, slot));
        self.find_first();
    }

    /// Takes out the first timer that is due.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<u32> {
        let (at, slot) = self.set.first().copied().filter(|(at, _)| *at <= now_ns)?;
        self.forget(slot, Some(at));
        Some(slot)
    }

    /// Takes out the first look that is due.
    pub(crate) fn take_look(&mut self, now_ns: u64) -> Option<(u64, u32)> {
        let (at, slot) = self.looks.first().copied().filter(|(at, _)| *at <= now_ns)?;
        self.forget_look(slot, Some(at));
        Some((at, slot))
    }

    fn find_first(&mut self) {
        let firsts = [&self.set, &self.looks].map(|all| all.first().map(|(at, _)| *at));
        self.first = firsts.into_iter().flatten().min();
    }
}
