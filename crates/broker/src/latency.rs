//! How long messages take from one step to the next, counted in groups.
//!
//! Nothing is kept for a message. A batch of a log knows when it was begun and when it was committed: its messages count
//! with the times of the batch, all at once. Of deliveries one a queue is watched at a time, until it is settled.

use base::id::QueueSeq;
use message::record::SeqRange;

/// Microseconds that durations are told apart by; longer ones are in a last group.
pub const LATENCY_BOUNDS_US: [u64; 16] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    10_000_000, 60_000_000,
];

/// Nanoseconds after which a delivery that is watched counts with its age, and another is watched.
const WATCH_NS: u64 = 60_000_000_000;

/// Durations counted by how long they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// By group: see [`LATENCY_BOUNDS_US`].
    pub groups: [u64; LATENCY_BOUNDS_US.len() + 1],
    /// Nanoseconds of all.
    pub sum_ns: u64,
}

impl Durations {
    /// So many more that took so long.
    #[inline]
    pub(crate) fn add(&mut self, took_ns: u64, count: u64) {
        let is_longer = |bound: &u64| *bound * 1000 < took_ns;
        let group = LATENCY_BOUNDS_US.iter().take_while(|bound| is_longer(bound)).count();
        self.groups[group] += count;
        self.sum_ns += took_ns * count;
    }

    fn merge(&mut self, other: &Durations) {
        self.groups.iter_mut().zip(other.groups).for_each(|(own, more)| *own += more);
        self.sum_ns += other.sum_ns;
    }
}

/// How long messages took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// From the turn in which a batch's first message came to the batch being on disk, for each of its messages.
    pub publish_to_commit: Durations,
    /// From that to being handed to a consumer for the first time, of messages that are in memory.
    pub commit_to_deliver: Durations,
    /// From being handed to a consumer to being settled, of one message a queue at a time.
    pub deliver_to_settle: Durations,
}

impl Latencies {
    pub(crate) fn merge(&mut self, other: &Latencies) {
        self.publish_to_commit.merge(&other.publish_to_commit);
        self.commit_to_deliver.merge(&other.commit_to_deliver);
        self.deliver_to_settle.merge(&other.deliver_to_settle);
    }
}

/// The delivery of a queue that is watched, if one is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    seq: u64,
    /// When it was handed out, monotonic nanoseconds; 0: none is watched.
    since: u64,
}

impl Watch {
    /// A message was handed out: it is watched unless another one is. How long that was watched already where it was given up.
    #[inline]
    pub(crate) fn handed(&mut self, seq: QueueSeq, now_ns: u64) -> Option<u64> {
        let age = now_ns.saturating_sub(self.since);
        if self.since != 0 && age < WATCH_NS {
            return None;
        }
        let given_up = (self.since != 0).then_some(age);
        *self = Watch { seq: seq.0, since: now_ns };
        given_up
    }

    /// Since when a message is held that is watched, monotonic nanoseconds, if one is.
    pub(crate) fn any_since(&self) -> Option<u64> {
        (self.since != 0).then_some(self.since)
    }

    /// Since when a message was held, monotonic nanoseconds, where it is the one that is watched.
    pub(crate) fn since(&self, seq: QueueSeq) -> Option<u64> {
        (self.since != 0 && self.seq == seq.0).then_some(self.since)
    }

    /// Positions are settled: how long the one that was watched was held, if it is among them.
    #[inline]
    pub(crate) fn settled(&mut self, range: SeqRange, now_ns: u64) -> Option<u64> {
        let is_it = self.since != 0 && (range.first.0..=range.last.0).contains(&self.seq);
        is_it.then(|| now_ns.saturating_sub(std::mem::take(&mut self.since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_in_their_groups() {
        for (took_us, group) in [(0, 0), (50, 0), (51, 1), (1_000, 4), (60_000_000, 15), (60_000_001, 16)] {
            let mut durations = Durations::default();
            durations.add(took_us * 1000, 3);
            let mut groups = [0; 17];
            groups[group] = 3;
            assert_eq!(durations, Durations { groups, sum_ns: took_us * 3000 }, "{took_us}");
        }
    }

    #[test]
    fn one_delivery_is_watched_until_it_is_settled_or_too_old() {
        let mut watch = Watch::default();
        let range = |first, last| SeqRange { first: QueueSeq(first), last: QueueSeq(last) };
        assert_eq!(watch.settled(range(0, 9), 5), None);
        assert_eq!(watch.handed(QueueSeq(7), 10), None);
        assert_eq!(watch.handed(QueueSeq(8), 20), None);
        assert_eq!(watch.settled(range(8, 9), 30), None);
        assert_eq!(watch.settled(range(0, 7), 40), Some(30));
        assert_eq!(watch.settled(range(0, 7), 50), None);
        assert_eq!(watch.handed(QueueSeq(9), 60), None);
        assert_eq!(watch.handed(QueueSeq(10), 60 + WATCH_NS), Some(WATCH_NS));
        assert_eq!(watch.settled(range(10, 10), 61 + WATCH_NS), Some(1));
    }
}
