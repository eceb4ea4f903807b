//! Questions how far the catalog is, so that a node says that something is not there only if its copy is no older than the
//! question.
//!
//! The leader's answer names an index; once this node has applied everything before that, whoever asked may look again.

use crate::limits::Limits;
use base::Now;
use base::id::{LogIndex, PortId};
use base::time::NS_PER_MS;

#[derive(Debug)]
struct Call {
    number: u64,
    /// The connection and token that wait for it; none: the node itself does, as it has just come up.
    by: Option<(PortId, u32)>,
    since: u64,
    /// Of the leader's answer.
    at: Option<LogIndex>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    last: u64,
    waiting: Vec<Call>,
    /// The node has applied what was agreed on when it came up.
    is_caught_up: bool,
}

impl Calls {
    /// A connection asks, or the node itself.
    pub(crate) fn add(&mut self, now: Now, by: Option<(PortId, u32)>) {
        self.last += 1;
        self.waiting.push(Call { number: self.last, by, since: now.mono_ns, at: None });
    }

    /// The number of the latest question that somebody waits for. It is asked again also where an answer came: that may name what
    /// its leader planned, and nobody agreed on.
    pub(crate) fn latest(&self) -> Option<u64> {
        self.waiting.last().map(|call| call.number)
    }

    /// The leader answers a question, and with it those before: the catalog's log is at `at`. The lowest answer counts.
    pub(crate) fn answer(&mut self, number: u64, at: LogIndex) {
        for call in self.waiting.iter_mut().filter(|call| call.number <= number) {
            call.at = Some(call.at.map_or(at, |other| other.min(at)));
        }
    }

    /// Takes out the connections that may look now, as this node has applied everything before `seen`, and those that have waited
    /// for too long.
    pub(crate) fn take_due(&mut self, now: Now, seen: LogIndex, limits: &Limits) -> Vec<(PortId, u32)> {
        let most_ns = limits.wish_wait_ms_max * NS_PER_MS;
        let is_done = |call: &Call| call.at.is_some_and(|at| at <= seen);
        self.is_caught_up |= self.waiting.iter().any(is_done);
        let is_over =
            |call: &mut Call| is_done(call) || call.by.is_some() && call.since + most_ns <= now.mono_ns;
        self.waiting.extract_if(.., is_over).filter_map(|call| call.by).collect()
    }

    /// The node has applied what was agreed on when it came up.
    pub(crate) fn is_caught_up(&self) -> bool {
        self.is_caught_up
    }

    /// When somebody has waited for too long, monotonic nanoseconds.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<u64> {
        let asked = self.waiting.iter().filter(|call| call.by.is_some());
        asked.map(|call| call.since + limits.wish_wait_ms_max * NS_PER_MS).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: PortId = PortId::here(base::id::ShardId(0), 3, 1);

    #[test]
    fn a_look_waits_for_an_answer_and_for_what_it_names() {
        let limits = Limits { wish_wait_ms_max: 5000, ..Limits::default() };
        let mut calls = Calls::default();
        calls.add(Now::at_ms(1), None);
        calls.add(Now::at_ms(1), Some((PORT, 7)));
        assert_eq!((calls.latest(), calls.is_caught_up()), (Some(2), false));
        calls.answer(1, LogIndex(8));
        assert_eq!(calls.latest(), Some(2));
        assert!(calls.take_due(Now::at_ms(1), LogIndex(7), &limits).is_empty() && !calls.is_caught_up());
        assert!(calls.take_due(Now::at_ms(1), LogIndex(8), &limits).is_empty() && calls.is_caught_up());
        calls.answer(2, LogIndex(24));
        calls.answer(2, LogIndex(16));
        calls.answer(2, LogIndex(20));
        assert!(calls.take_due(Now::at_ms(1), LogIndex(15), &limits).is_empty());
        assert_eq!(calls.take_due(Now::at_ms(1), LogIndex(16), &limits), [(PORT, 7)]);
        calls.add(Now::at_ms(1), Some((PORT, 8)));
        assert!(calls.take_due(Now::at_ms(5000), LogIndex(16), &limits).is_empty());
        assert_eq!(calls.take_due(Now::at_ms(5001), LogIndex(16), &limits), [(PORT, 8)]);
    }
}
