//! Samples of counters at the last moments, and how fast they grow.
//!
//! Counters come from outside, every [`SAMPLE_MS`] while somebody asks; rates are differences. A series is kept for
//! each object with counters, a longer one for the node and its virtual hosts. Objects that are gone are forgotten with
//! the next round. What is kept whether somebody asks or not is the [past](crate::past). Bounds are
//! [`Limits::sampled_objects_max`] and the lengths below.

use crate::Limits;
use crate::counters::Counters;
use crate::past::{Past, Samples, latest};
pub use crate::whose::Whose;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Milliseconds between two samples.
pub const SAMPLE_MS: u64 = 5000;

/// Samples that are kept of the node and of virtual hosts: ten minutes.
const SAMPLES_WHOLE: usize = 122;

/// Samples that are kept of each other thing: a minute.
const SAMPLES_EACH: usize = 14;

/// Points that one answer shows of one counter.
const POINTS_MAX: u64 = 500;

/// Figures of the node's use of the machine that may shrink: the last of them.
pub(crate) const MACHINE_GAUGES: usize = 5;

/// One thing's counters at several moments, oldest first: milliseconds since 1970.
#[derive(Debug, Default)]
struct Series {
    samples: VecDeque<(u64, Counters)>,
    /// When a sample was last another than the one before; none: it never was while samples were taken.
    changed_ms: Option<u64>,
}

/// See the module's head.
#[derive(Debug, Default)]
pub struct History {
    series: BTreeMap<Whose, Series>,
    now_ms: u64,
    /// The last round had all things there are.
    is_complete: bool,
    past: Past,
}

impl History {
    /// A round of counters: of all things there are of which something was counted.
    pub fn add(&mut self, now_ms: u64, round: Vec<(Whose, Counters)>, limits: &Limits) {
        self.now_ms = now_ms;
        let was_complete = std::mem::replace(&mut self.is_complete, true);
        for (whose, counters) in round {
            if self.series.len() >= limits.sampled_objects_max && !self.series.contains_key(&whose) {
                self.is_complete = false;
                continue;
            }
            // An object that is new in a round after a complete one had no counters before.
            let new = Series { changed_ms: was_complete.then_some(now_ms), ..Series::default() };
            let series = self.series.entry(whose).or_insert(new);
            if series.samples.back().is_some_and(|(_, last)| *last != counters) {
                series.changed_ms = Some(now_ms);
            }
            // Counters that begin anew are another thing's; and among times to come, after a clock was set back, none is
            // found by its time.
            let is_other = |(at, last): &(u64, Counters)| *at > now_ms || is_less(&counters, last, whose);
            if series.samples.back().is_some_and(is_other) {
                series.samples.clear();
            }
            series.samples.push_back((now_ms, counters));
            let most = match whose {
                Whose::Node | Whose::Machine | Whose::Vhost(_) => SAMPLES_WHOLE,
                _ => SAMPLES_EACH,
            };
            while series.samples.len() > most {
                series.samples.pop_front();
            }
        }
        self.series.retain(|_, series| series.samples.back().is_some_and(|(at, _)| *at == now_ms));
    }

    /// A round of counters for the past: of the node, and of all queues of which something was counted.
    pub fn keep(&mut self, now_ms: u64, round: &[(Whose, Counters)], limits: &Limits) {
        self.past.add(now_ms, round, limits);
        self.now_ms = now_ms;
    }

    /// Nobody asks any more: what is left is the past.
    pub fn forget_recent(&mut self) {
        self.series = BTreeMap::new();
        self.is_complete = false;
    }

    /// The growth of one object's counters.
    pub(crate) fn of(&self, whose: Whose) -> Growth<'_> {
        Growth { series: self.series.get(&whose), past: self.past.of(whose), now_ms: self.now_ms }
    }

    /// The newest counters of a thing, where there are any.
    pub(crate) fn newest(&self, whose: Whose) -> Option<&Counters> {
        let sample = self.series.get(&whose).and_then(|series| series.samples.back());
        sample.map(|(_, counters)| counters).or_else(|| self.past.newest(whose))
    }

    /// Samples of durations, oldest first, of the last hour.
    pub(crate) fn durations(&self) -> impl Iterator<Item = &(u64, Counters)> {
        self.past.durations()
    }

    /// Since when nothing was counted of a thing, milliseconds since 1970; none: something was in the last round, or nobody
    /// knows.
    pub(crate) fn idle_since_ms(&self, whose: Whose) -> Option<u64> {
        self.series.get(&whose)?.changed_ms.filter(|changed_ms| *changed_ms < self.now_ms)
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        let counters = |(_, counters): &(u64, Counters)| counters.heap_bytes();
        let series = |series: &Series| {
            series.samples.capacity() * size_of::<(u64, Counters)>()
                + series.samples.iter().map(counters).sum::<usize>()
        };
        self.series.len() * size_of::<(Whose, Series)>()
            + self.series.values().map(series).sum::<usize>()
            + self.past.memory_bytes()
    }

    /// Things that are sampled.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Nothing was sampled.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }
}

/// Lengths of queues and the like may shrink; they come last.
fn is_less(counters: &[u64], last: &[u64], whose: Whose) -> bool {
    let lengths = match whose {
        Whose::Node | Whose::Vhost(_) | Whose::Queue(_) => 2,
        Whose::Machine => MACHINE_GAUGES,
        Whose::Durations | Whose::Exchange(_) | Whose::Connection(_) | Whose::Channel(..) => 0,
    };
    let counted = counters.len().saturating_sub(lengths);
    counters.len() != last.len() || counters[..counted].iter().zip(last).any(|(new, old)| new < old)
}

/// Over how long, and how closely, samples are to be shown; seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub age_s: u64,
    pub incr_s: u64,
    /// Moments of which nobody knows anything are left out; RabbitMQ shows the first sample for them.
    pub is_known: bool,
}

impl Span {
    /// None where that would be no points, or more of them than one answer shows.
    pub(crate) fn new(age_s: u64, incr_s: u64, is_known: bool) -> Option<Span> {
        (incr_s > 0 && age_s / incr_s <= POINTS_MAX).then_some(Span { age_s, incr_s, is_known })
    }
}

/// How one thing's counters grow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth<'a> {
    series: Option<&'a Series>,
    past: Option<Samples<'a>>,
    now_ms: u64,
}

impl Growth<'_> {
    fn value(&self, at: usize, from_last: usize) -> Option<(u64, f64)> {
        let samples = &self.series?.samples;
        let (time, counters) = samples.get(samples.len().checked_sub(1 + from_last)?)?;
        Some((*time, *counters.get(at)? as f64))
    }

    /// A second, between the last two samples.
    pub(crate) fn rate(&self, at: usize) -> f64 {
        let (Some((after, last)), Some((before, first))) = (self.value(at, 0), self.value(at, 1)) else {
            return 0.0;
        };
        if after <= before { 0.0 } else { (last - first) * 1000.0 / (after - before) as f64 }
    }

    /// The latest value at a moment; moments before the first sample have that of the first.
    pub(crate) fn at_moment(&self, at: usize, moment_ms: u64) -> Option<u64> {
        let samples = self.series.map(|series| &series.samples).filter(|samples| !samples.is_empty());
        let begin_ms = samples.and_then(|samples| samples.front()).map(|(begin, _)| *begin);
        // The past is looked at where it is longer: its samples are farther apart.
        let is_past = begin_ms.is_none_or(|begin| moment_ms < begin);
        let past = self.past.filter(|past| is_past && past.begin_ms() < begin_ms.or(Some(u64::MAX)));
        past.and_then(|past| past.at_moment(at, moment_ms))
            .or_else(|| latest(samples?, moment_ms)?.1.get(at).copied())
    }

    /// When the first sample was taken that is there.
    pub(crate) fn begin_ms(&self) -> u64 {
        let recent = self.series.and_then(|series| series.samples.front()).map(|(begin, _)| *begin);
        recent.into_iter().chain(self.past.and_then(Samples::begin_ms)).min().unwrap_or(u64::MAX)
    }

    /// As `X_details` of the counter at a place shows it.
    pub(crate) fn details(&self, at: usize, span: Option<Span>) -> Value {
        let mut details = json!({ "rate": self.rate(at) });
        let Some(Span { age_s, incr_s, is_known }) = span else { return details };
        let step = incr_s * 1000;
        let last = self.now_ms / step * step;
        let begin = if is_known { self.begin_ms() } else { 0 };
        let moments = (0..=age_s / incr_s).filter_map(|back| last.checked_sub(back * step));
        let moments = moments.filter(|moment| *moment >= begin);
        let points: Vec<(u64, u64)> =
            moments.filter_map(|moment| Some((moment, self.at_moment(at, moment)?))).collect();
        if let (Some((end, newest)), Some((begin, oldest))) = (points.first(), points.last()) {
            let count = points.len() as f64;
            let sum: f64 = points.iter().map(|(_, value)| *value as f64).sum();
            let seconds = (end - begin) as f64 / 1000.0;
            let grown = *newest as f64 - *oldest as f64;
            details["avg"] = (sum / count).into();
            details["avg_rate"] = if seconds > 0.0 { grown / seconds } else { 0.0 }.into();
        }
        let point = |(moment, value): &(u64, u64)| json!({ "sample": value, "timestamp": moment });
        details["samples"] = points.iter().map(point).collect();
        details
    }
}

/// Adds a counter and how it grows to an object.
pub(crate) fn put(into: &mut Map<String, Value>, name: &str, value: u64, details: Value) {
    into.insert(name.to_owned(), value.into());
    into.insert(format!("{name}_details"), details);
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::QueueId;
    use broker::catalog::VhostId;

    fn queue(number: u64) -> Whose {
        Whose::Queue(QueueId(number))
    }

    fn round(of: &[(Whose, &[u64])]) -> Vec<(Whose, Counters)> {
        of.iter().map(|(whose, counters)| (*whose, (*counters).into())).collect()
    }

    #[test]
    fn rates_are_between_the_last_two() {
        let (mut history, limits) = (History::default(), Limits::default());
        history.add(10_000, round(&[(queue(1), &[100, 5])]), &limits);
        assert_eq!(history.of(queue(1)).rate(0), 0.0);
        history.add(15_000, round(&[(queue(1), &[150, 5])]), &limits);
        history.add(20_000, round(&[(queue(1), &[250, 5])]), &limits);
        let growth = history.of(queue(1));
        assert_eq!((growth.rate(0), growth.rate(1), growth.rate(2)), (20.0, 0.0, 0.0));
        assert_eq!(history.of(queue(2)).details(0, None), json!({ "rate": 0.0 }));
        let details = growth.details(0, Span::new(10, 5, false));
        assert_eq!(
            details,
            json!({ "rate": 20.0, "avg": 500.0 / 3.0, "avg_rate": 15.0, "samples": [
                { "sample": 250, "timestamp": 20_000 },
                { "sample": 150, "timestamp": 15_000 },
                { "sample": 100, "timestamp": 10_000 },
            ] })
        );
    }

    #[test]
    fn the_past_is_shown_before_the_first_sample_that_somebody_asked_for() {
        let (mut history, limits) = (History::default(), Limits::default());
        let counters = |count: u64| round(&[(Whose::Node, &[count, 0, 0])]);
        history.keep(10_000, &counters(10), &limits);
        history.keep(20_000, &counters(20), &limits);
        let samples = |history: &History, age_s: u64| {
            let details = history.of(Whose::Node).details(0, Span::new(age_s, 10, false));
            let samples = details["samples"].as_array().unwrap();
            samples.iter().map(|own| own["sample"].as_u64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(samples(&history, 10), [20, 10]);
        history.keep(30_000, &counters(30), &limits);
        history.add(30_000, counters(30), &limits);
        history.add(35_000, counters(35), &limits);
        history.add(40_000, counters(41), &limits);
        assert_eq!(samples(&history, 30), [41, 30, 20, 10]);
        assert_eq!(samples(&history, 40), [41, 30, 20, 10, 10]);
        let known = history.of(Whose::Node).details(0, Span::new(40, 10, true));
        assert_eq!(known["samples"].as_array().unwrap().len(), 4, "before that nobody knows");
        let unknown = history.of(queue(7)).details(0, Span::new(40, 10, true));
        assert_eq!(unknown["samples"], json!([]));
        history.forget_recent();
        assert_eq!(samples(&history, 30), [30, 30, 20, 10], "what nobody kept is gone");
    }

    #[test]
    fn what_is_gone_or_begins_anew_is_forgotten() {
        let (mut history, limits) = (History::default(), Limits::default());
        history.add(5_000, round(&[(queue(1), &[100, 0, 0]), (queue(2), &[7, 0, 0])]), &limits);
        history.add(10_000, round(&[(queue(1), &[5, 0, 0])]), &limits);
        assert_eq!((history.len(), history.of(queue(1)).rate(0)), (1, 0.0));
        history.add(15_000, round(&[(queue(1), &[10, 0, 0])]), &limits);
        assert_eq!(history.of(queue(1)).rate(0), 1.0);
        // A clock is set back.
        history.add(12_000, round(&[(queue(1), &[20, 0, 0])]), &limits);
        history.add(13_000, round(&[(queue(1), &[30, 0, 0])]), &limits);
        assert_eq!((history.of(queue(1)).rate(0), history.series[&queue(1)].samples.len()), (10.0, 2));
        // Lengths shrink.
        for whose in [Whose::Node, Whose::Vhost(VhostId::default()), queue(3)] {
            history.add(20_000, round(&[(whose, &[5, 10, 10])]), &limits);
            history.add(25_000, round(&[(whose, &[10, 0, 0])]), &limits);
            let growth = history.of(whose);
            assert_eq!((growth.rate(0), growth.rate(1)), (1.0, -2.0), "{whose:?}");
        }
    }

    #[test]
    fn what_is_idle_is_so_since_it_last_changed() {
        let (mut history, limits) =
            (History::default(), Limits { sampled_objects_max: 3, ..Limits::default() });
        let mut check = |at_ms: u64, of: &[(Whose, &[u64])], expected: [Option<u64>; 4]| {
            history.add(at_ms, round(of), &limits);
            let since = [1, 2, 3, 4].map(|number| history.idle_since_ms(queue(number)));
            assert_eq!(since, expected, "{at_ms}");
        };
        let (one, two, three, four) = (queue(1), queue(2), queue(3), queue(4));
        check(5_000, &[(one, &[1, 0, 0])], [None; 4]);
        // Nobody knows how long the first one has been so.
        check(10_000, &[(one, &[1, 0, 0]), (two, &[1, 1, 0])], [None; 4]);
        check(15_000, &[(one, &[1, 0, 0]), (two, &[1, 1, 0])], [None, Some(10_000), None, None]);
        check(20_000, &[(one, &[2, 0, 0]), (two, &[1, 0, 1])], [None; 4]);
        check(25_000, &[(one, &[2, 0, 0]), (two, &[1, 0, 1])], [Some(20_000), Some(20_000), None, None]);
        // One too many: it may be old when there is room for it.
        check(
            30_000,
            &[(one, &[2, 0, 0]), (two, &[2, 0, 1]), (three, &[1, 0, 0]), (four, &[1, 0, 0])],
            [Some(20_000), None, None, None],
        );
        check(35_000, &[(one, &[2, 0, 0]), (four, &[1, 0, 0])], [Some(20_000), None, None, None]);
        check(40_000, &[(one, &[2, 0, 0]), (four, &[1, 0, 0])], [Some(20_000), None, None, None]);
    }

    #[test]
    fn so_many_things_are_sampled_and_so_long() {
        let (mut history, limits) =
            (History::default(), Limits { sampled_objects_max: 3, ..Limits::default() });
        for time in 1..200 {
            let all: Vec<_> = (0..5).map(|number| (queue(number), Counters::from([time]))).collect();
            let node = (Whose::Node, Counters::from([time, 0, 0]));
            history.add(time * SAMPLE_MS, [vec![node], all].concat(), &limits);
        }
        assert_eq!(history.len(), 3);
        assert_eq!(history.series[&Whose::Node].samples.len(), SAMPLES_WHOLE);
        assert_eq!(history.series[&queue(0)].samples.len(), SAMPLES_EACH);
    }
}
