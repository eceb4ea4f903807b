//! The past: figures of the node for a day, its durations and its busiest queues for an hour, a sample each ten seconds, whether
//! somebody asks or not: an operator that is called in the morning wants to see the night.
//!
//! A queue is busy by the messages that came and went. Where more are busy than are kept, the least busy goes for one that
//! does twice as much. Of a queue only five figures are kept, so that an hour of a thousand costs 17 MB; bounds are
//! [`Limits::past_samples_max`], [`Limits::past_queues_max`] and [`Limits::past_queue_samples_max`].

use crate::Limits;
use crate::counters::{Counters, DELIVER_GET, MESSAGES};
use crate::whose::Whose;
use base::id::QueueId;
use broker::Count;
use std::collections::{BTreeMap, VecDeque};

/// Where the figures that are kept of a queue are among its counters: published, acknowledged, delivered and got, ready,
/// held.
const KEPT: [usize; 5] = [Count::Publish as usize, Count::Ack as usize, DELIVER_GET, MESSAGES, MESSAGES + 1];

/// Of these, those that say how busy it is.
const BUSY: [usize; 2] = [0, 2];

/// Figures of a queue at a moment, milliseconds since 1970.
type Brief = (u64, [u64; KEPT.len()]);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Past {
    whole: BTreeMap<Whose, VecDeque<(u64, Counters)>>,
    queues: BTreeMap<QueueId, VecDeque<Brief>>,
    /// Messages that had come and gone at the last round, by queue.
    seen: Vec<(QueueId, u64)>,
    at_ms: u64,
}

/// One thing's samples, oldest first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Samples<'a> {
    Whole(&'a VecDeque<(u64, Counters)>),
    Queue(&'a VecDeque<Brief>),
}

impl Past {
    /// A round of counters, as [`crate::History::add`] has it.
    pub(crate) fn add(&mut self, now_ms: u64, round: &[(Whose, Counters)], limits: &Limits) {
        // A clock that was set back has samples of times to come, among which none is found by its time.
        if now_ms <= self.at_ms {
            self.whole.values_mut().for_each(|samples| samples.retain(|(at, _)| *at < now_ms));
            self.queues.values_mut().for_each(|samples| samples.retain(|(at, _)| *at < now_ms));
        }
        self.at_ms = now_ms;
        let mut seen = Vec::with_capacity(self.seen.len());
        let mut comers = Vec::new();
        for (whose, counters) in round {
            match whose {
                Whose::Node | Whose::Machine => {
                    let samples = self.whole.entry(*whose).or_default();
                    push(samples, (now_ms, counters.clone()), limits.past_samples_max);
                }
                Whose::Durations => {
                    let samples = self.whole.entry(*whose).or_default();
                    push(samples, (now_ms, counters.clone()), limits.past_durations_max);
                }
                Whose::Queue(id) => {
                    let figures = KEPT.map(|at| counters.get(at).copied().unwrap_or(0));
                    let done = busyness(&figures);
                    seen.push((*id, done));
                    if let Some(samples) = self.queues.get_mut(id) {
                        push(samples, (now_ms, figures), limits.past_queue_samples_max);
                        continue;
                    }
                    let before = self.seen.binary_search_by_key(id, |(own, _)| *own);
                    let before = before.map_or(0, |at| self.seen[at].1);
                    if done > before {
                        comers.push((done - before, *id, figures));
                    }
                }
                _ => {}
            }
        }
        seen.sort_unstable();
        self.seen = seen;
        // Queues that are gone.
        self.queues.retain(|_, samples| samples.back().is_some_and(|(at, _)| *at == now_ms));
        self.take_in(comers, limits);
    }

    /// Keeps those that came, the busiest first: each with what they did in the last round.
    fn take_in(&mut self, mut comers: Vec<(u64, QueueId, [u64; KEPT.len()])>, limits: &Limits) {
        if comers.is_empty() {
            return;
        }
        comers.sort_unstable_by(|a, b| b.cmp(a));
        let mean = |samples: &VecDeque<Brief>| match (samples.front(), samples.back()) {
            (Some((_, first)), Some((_, last))) => {
                let rounds = (samples.len() as u64 - 1).max(1);
                busyness(last).saturating_sub(busyness(first)) / rounds
            }
            _ => 0,
        };
        let mut idlest: Vec<(u64, QueueId)> =
            self.queues.iter().map(|(id, samples)| (mean(samples), *id)).collect();
        idlest.sort_unstable();
        let mut idlest = idlest.into_iter();
        for (done, id, figures) in comers {
            if self.queues.len() >= limits.past_queues_max {
                match idlest.next() {
                    Some((mean, other)) if mean.saturating_mul(2) < done => self.queues.remove(&other),
                    _ => break,
                };
            }
            let mut samples = VecDeque::with_capacity(limits.past_queue_samples_max);
            samples.push_back((self.at_ms, figures));
            self.queues.insert(id, samples);
        }
    }

    /// The newest counters of the node.
    pub(crate) fn newest(&self, whose: Whose) -> Option<&Counters> {
        self.whole.get(&whose)?.back().map(|(_, counters)| counters)
    }

    /// Samples of durations, oldest first.
    pub(crate) fn durations(&self) -> impl Iterator<Item = &(u64, Counters)> {
        self.whole.get(&Whose::Durations).into_iter().flatten()
    }

    /// The samples of one thing.
    pub(crate) fn of(&self, whose: Whose) -> Option<Samples<'_>> {
        match whose {
            Whose::Queue(id) => self.queues.get(&id).map(Samples::Queue),
            whose => self.whole.get(&whose).map(Samples::Whole),
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let whole = |samples: &VecDeque<(u64, Counters)>| {
            samples.capacity() * size_of::<(u64, Counters)>()
                + samples.iter().map(|(_, counters)| counters.heap_bytes()).sum::<usize>()
        };
        let queue = |samples: &VecDeque<Brief>| samples.capacity() * size_of::<Brief>();
        self.whole.values().map(whole).sum::<usize>()
            + self.queues.values().map(queue).sum::<usize>()
            + self.queues.len() * size_of::<(QueueId, VecDeque<Brief>)>()
            + self.seen.capacity() * size_of::<(QueueId, u64)>()
    }
}

impl Samples<'_> {
    /// When the first was taken.
    pub(crate) fn begin_ms(self) -> Option<u64> {
        match self {
            Samples::Whole(samples) => samples.front().map(|(at, _)| *at),
            Samples::Queue(samples) => samples.front().map(|(at, _)| *at),
        }
    }

    /// The latest value of a counter at a moment; moments before the first sample have that of the first.
    pub(crate) fn at_moment(self, at: usize, moment_ms: u64) -> Option<u64> {
        match self {
            Samples::Whole(samples) => latest(samples, moment_ms)?.1.get(at).copied(),
            Samples::Queue(samples) => {
                let at = KEPT.iter().position(|own| *own == at)?;
                latest(samples, moment_ms)?.1.get(at).copied()
            }
        }
    }
}

/// The last of some samples at a moment, or the first of all.
pub(crate) fn latest<T>(samples: &VecDeque<(u64, T)>, moment_ms: u64) -> Option<&(u64, T)> {
    let behind = samples.partition_point(|(at, _)| *at <= moment_ms);
    samples.get(behind.saturating_sub(1))
}

fn busyness(figures: &[u64; KEPT.len()]) -> u64 {
    BUSY.iter().map(|at| figures[*at]).sum()
}

fn push<T>(samples: &mut VecDeque<T>, sample: T, most: usize) {
    while samples.len() >= most.max(1) {
        samples.pop_front();
    }
    samples.push_back(sample);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { past_samples_max: 5, past_queues_max: 2, past_queue_samples_max: 3, ..Limits::default() }
    }

    /// Counters of a queue to which so many came, with so many ready.
    fn queue(number: u64, published: u64, ready: u64) -> (Whose, Counters) {
        let mut counters = [0; MESSAGES + 2];
        counters[Count::Publish as usize] = published;
        counters[MESSAGES] = ready;
        (Whose::Queue(QueueId(number)), counters.into())
    }

    fn kept(past: &Past) -> Vec<u64> {
        past.queues.keys().map(|id| id.0).collect()
    }

    #[test]
    fn the_busiest_are_kept() {
        let (mut past, limits) = (Past::default(), limits());
        past.add(10, &[queue(1, 0, 7), queue(2, 0, 0), queue(3, 0, 0)], &limits);
        assert!(kept(&past).is_empty(), "nothing came to any");
        past.add(20, &[queue(1, 5, 7), queue(2, 9, 0), queue(3, 1, 0)], &limits);
        assert_eq!(kept(&past), [1, 2]);
        // One that does more than twice as much as the least busy takes its place, and no other.
        past.add(30, &[queue(1, 10, 7), queue(2, 18, 0), queue(3, 11, 0)], &limits);
        assert_eq!(kept(&past), [1, 2]);
        past.add(40, &[queue(1, 15, 7), queue(2, 27, 0), queue(3, 22, 0)], &limits);
        assert_eq!(kept(&past), [2, 3]);
        // One that is gone leaves its place.
        past.add(50, &[queue(1, 16, 7), queue(3, 22, 0)], &limits);
        assert_eq!(kept(&past), [1, 3]);
    }

    #[test]
    fn so_many_samples_are_kept_and_found() {
        let (mut past, limits) = (Past::default(), limits());
        for time in 1..=20 {
            let node = (Whose::Node, Counters::from([time, 2 * time, 3]));
            let vhost = (Whose::Vhost(broker::catalog::VhostId::default()), Counters::from([1, 2, 3]));
            past.add(10 * time, &[node, vhost, queue(4, 100 * time, time)], &limits);
        }
        let node = past.of(Whose::Node).unwrap();
        assert_eq!(node.begin_ms(), Some(160));
        let found = [0, 160, 175, 200, 900].map(|moment| node.at_moment(1, moment).unwrap());
        assert_eq!(found, [32, 32, 34, 40, 40]);
        let of_queue = past.of(Whose::Queue(QueueId(4))).unwrap();
        assert_eq!(of_queue.begin_ms(), Some(180));
        assert_eq!(of_queue.at_moment(Count::Publish as usize, 195), Some(1900));
        assert_eq!(of_queue.at_moment(MESSAGES, 200), Some(20));
        assert_eq!(of_queue.at_moment(Count::Redeliver as usize, 200), None, "it is not kept");
        assert!(past.of(Whose::Vhost(broker::catalog::VhostId::default())).is_none());
        assert!(past.memory_bytes() > 0);
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_no_samples_of_times_to_come() {
        let (mut past, limits) = (Past::default(), limits());
        for (time, count) in [(1000, 1), (1010, 2), (1020, 3), (1005, 4)] {
            past.add(time, &[(Whose::Node, Counters::from([count, 0, 0])), queue(1, count, 0)], &limits);
        }
        let check = |whose: Whose, moment_ms: u64, expected: u64| {
            assert_eq!(
                past.of(whose).unwrap().at_moment(0, moment_ms),
                Some(expected),
                "{whose:?} {moment_ms}"
            );
        };
        for whose in [Whose::Node, Whose::Queue(QueueId(1))] {
            check(whose, 1004, 1);
            check(whose, 1005, 4);
            check(whose, 2000, 4);
        }
    }

    #[test]
    fn a_thousand_queues_for_an_hour_take_17_mb() {
        let (mut past, limits) = (Past::default(), Limits::default());
        for time in 1..=2 {
            let round: Vec<_> = (0..2000).map(|number| queue(number, time * (number + 1), 0)).collect();
            past.add(10_000 * time, &round, &limits);
        }
        assert_eq!(past.queues.len(), limits.past_queues_max);
        assert!(past.queues.keys().all(|id| id.0 >= 1000), "the busiest");
        assert!((17_000_000..18_500_000).contains(&past.memory_bytes()), "{}", past.memory_bytes());
    }
}
