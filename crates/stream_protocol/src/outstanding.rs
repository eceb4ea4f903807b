//! Requests of this end that wait for their answers, the oldest first.

use crate::key::Key;
use std::collections::VecDeque;

/// Invariant: deadlines do not fall from front to back.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    requests: VecDeque<Waiting>,
    last_id: u32,
}

#[derive(Debug)]
struct Waiting {
    correlation_id: u32,
    key: Key,
    deadline_ns: u64,
}

impl Outstanding {
    /// Notes a request and answers its correlation id, unless `most` wait already.
    pub fn push(&mut self, key: Key, deadline_ns: u64, most: u16) -> Option<u32> {
        if self.requests.len() >= usize::from(most) {
            return None;
        }
        self.last_id = self.last_id.wrapping_add(1);
        self.requests.push_back(Waiting { correlation_id: self.last_id, key, deadline_ns });
        Some(self.last_id)
    }

    /// Forgets a request that was answered. `false`: nobody asked this.
    pub fn take(&mut self, correlation_id: u32, key: Key) -> bool {
        // Mostly it is the first.
        let asked = |waiting: &Waiting| (waiting.correlation_id, waiting.key) == (correlation_id, key);
        let found = self.requests.iter().position(asked);
        found.is_some_and(|at| self.requests.remove(at).is_some())
    }

    /// Forgets a request whose answer matters to nobody any more.
    pub fn forget(&mut self, correlation_id: u32) {
        self.requests.retain(|waiting| waiting.correlation_id != correlation_id);
    }

    /// When the first is overdue, in monotonic nanoseconds; `u64::MAX`: nothing waits.
    pub fn deadline(&self) -> u64 {
        self.requests.front().map_or(u64::MAX, |waiting| waiting.deadline_ns)
    }

    /// So much time did not count.
    pub fn postpone(&mut self, ns: u64) {
        for waiting in &mut self.requests {
            waiting.deadline_ns = waiting.deadline_ns.saturating_add(ns);
        }
    }

    pub fn clear(&mut self) {
        self.requests = VecDeque::new();
    }

    pub fn capacity(&self) -> usize {
        self.requests.capacity() * size_of::<Waiting>()
    }
}
