//! How long things took, by time: `GET /api/x/latency`.
//!
//! Durations are counted in groups since the node started; a sample of all groups is kept each ten seconds, for an hour,
//! and differences of samples say what came in between.

use crate::call::Call;
use crate::counters::Counters;
use crate::history::History;
use crate::node::{FLUSH_BOUNDS_US, Node, TURN_BOUNDS_US, Turns, Writing};
use crate::response::{Answer, Response};
use broker::{LATENCY_BOUNDS_US, Latencies};
use serde_json::{Map, Value, json};

/// The kinds of durations, and the bounds of the groups of each, microseconds; what is longer than the last is in one more.
const KINDS: [(&str, &[u64]); 5] = [
    ("publish_to_commit", &LATENCY_BOUNDS_US),
    ("commit_to_deliver", &LATENCY_BOUNDS_US),
    ("deliver_to_settle", &LATENCY_BOUNDS_US),
    ("flush", &FLUSH_BOUNDS_US),
    ("turn", &TURN_BOUNDS_US),
];

/// Seconds that are told of where nothing else is asked for, and at most.
const AGE_S: u64 = 600;
const AGE_S_MAX: u64 = 3600;

/// Steps of time in one answer.
const STEPS_MAX: u64 = 120;

/// The groups of all kinds, one kind behind the other: what is sampled.
pub fn durations(latencies: &Latencies, writing: &Writing, turns: &[Turns]) -> Counters {
    let mut all_turns = [0; TURN_BOUNDS_US.len() + 1];
    for shard in turns {
        all_turns.iter_mut().zip(shard.groups).for_each(|(all, own)| *all += own);
    }
    let Latencies { publish_to_commit, commit_to_deliver, deliver_to_settle } = latencies;
    let of_messages = [publish_to_commit, commit_to_deliver, deliver_to_settle];
    let of_messages = of_messages.into_iter().flat_map(|own| own.groups);
    of_messages.chain(writing.flushes).chain(all_turns).collect()
}

/// `GET /api/x/latency`.
pub(crate) fn latency<N: Node>(call: &Call<'_, N>) -> Answer {
    let age_s = match call.request.asked("age") {
        None => AGE_S,
        Some(text) => text.parse().ok().filter(|age| (1..=AGE_S_MAX).contains(age)).ok_or_else(|| {
            Response::bad_request(format!("age is no number of 1 to {AGE_S_MAX} seconds: {text}"))
        })?,
    };
    let now_ms = call.node.now_ms();
    let (begin_ms, gap_ms) = (now_ms.saturating_sub(age_s * 1000), age_s * 1000 / STEPS_MAX);
    let mut samples: Vec<(u64, Counters)> = Vec::new();
    call.node.history(|history| {
        for (at_ms, own) in history.durations() {
            // The last one before is what the first step is counted from.
            if *at_ms < begin_ms {
                samples.clear();
            }
            if samples.last().is_none_or(|(last_ms, _)| at_ms - last_ms.min(at_ms) >= gap_ms) {
                samples.push((*at_ms, own.clone()));
            }
        }
    });
    let mut kinds = Map::new();
    for (name, _) in KINDS {
        let (bounds, first) = place(name);
        let groups = first..first + bounds.len() + 1;
        kinds.insert(
            name.to_owned(),
            told(bounds, &samples, |own| own.get(groups.clone()).unwrap_or_default()),
        );
    }
    Ok(Response::ok(&json!({ "age": age_s, "kinds": kinds })))
}

/// Of the last ten seconds or so: the bounds that 99 of a hundred flushes, and turns, were not above; none: there were none, or
/// they were above all bounds.
pub(crate) fn lately(history: &History) -> [Option<u64>; 2] {
    let mut last: [Option<&Counters>; 2] = [None, None];
    history.durations().for_each(|(_, own)| last = [last[1], Some(own)]);
    let [Some(before), Some(now)] = last else { return [None, None] };
    ["flush", "turn"].map(|wanted| {
        let (bounds, first) = place(wanted);
        let grown = |at: usize| Some(now.get(at)?.saturating_sub(*before.get(at)?));
        let counts: Vec<u64> = (first..=first + bounds.len()).map_while(grown).collect();
        quantile(bounds, &counts, 99)
    })
}

/// The bounds of a kind, and where its groups begin.
fn place(name: &str) -> (&'static [u64], usize) {
    let mut first = 0;
    for (own, bounds) in KINDS {
        if own == name {
            return (bounds, first);
        }
        first += bounds.len() + 1;
    }
    (&[], first)
}

/// One kind: its steps in time, each with how many there were in each group, and the whole.
fn told(bounds: &[u64], samples: &[(u64, Counters)], of: impl Fn(&Counters) -> &[u64]) -> Value {
    let mut whole = vec![0; bounds.len() + 1];
    let steps = samples.windows(2).map(|pair| {
        let [(_, before), (at_ms, now)] = pair else { return Value::Null };
        let counts: Vec<u64> =
            of(now).iter().zip(of(before)).map(|(now, own)| now.saturating_sub(*own)).collect();
        whole.iter_mut().zip(&counts).for_each(|(all, own)| *all += own);
        json!({ "timestamp": at_ms, "counts": counts })
    });
    let steps: Vec<Value> = steps.collect();
    json!({
        "bounds_us": bounds,
        "count": whole.iter().sum::<u64>(),
        "p50_us": quantile(bounds, &whole, 50),
        "p99_us": quantile(bounds, &whole, 99),
        "samples": steps,
    })
}

/// The bound that so many of a hundred are not above; none: there are none, or it is above all bounds.
fn quantile(bounds: &[u64], counts: &[u64], percent: u64) -> Option<u64> {
    let wanted = (counts.iter().sum::<u64>() * percent).div_ceil(100);
    let mut sum = 0;
    let groups = counts.iter().zip(bounds).find(|(count, _)| {
        sum += **count;
        wanted > 0 && sum >= wanted
    });
    groups.map(|(_, bound)| *bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_where_they_are_looked_for() {
        let mut latencies = Latencies::default();
        latencies.publish_to_commit.groups[0] = 1;
        latencies.commit_to_deliver.groups[1] = 2;
        latencies.deliver_to_settle.groups[16] = 3;
        let mut writing = Writing::default();
        writing.flushes[12] = 4;
        let mut turns = [Turns::default(); 2];
        turns.iter_mut().for_each(|shard| shard.groups[10] = 5);
        let now = durations(&latencies, &writing, &turns);
        assert_eq!(now.len(), KINDS.iter().map(|(_, bounds)| bounds.len() + 1).sum::<usize>());
        for (at, expected) in [(0, 1), (18, 2), (50, 3), (63, 4), (74, 10)] {
            assert_eq!(now[at], expected, "{at}");
        }
    }

    #[test]
    fn a_step_is_what_came_since_the_one_before() {
        let sample = |at, counts: [u64; 3]| (at, Counters::from(&counts[..]));
        let samples = [sample(10, [1, 1, 1]), sample(20, [4, 1, 1]), sample(30, [4, 3, 2])];
        let told = told(&[50, 100], &samples, |own| own);
        assert_eq!(
            told,
            json!({ "bounds_us": [50, 100], "count": 6, "p50_us": 50, "p99_us": null, "samples": [
                { "timestamp": 20, "counts": [3, 0, 0] }, { "timestamp": 30, "counts": [0, 2, 1] },
            ] })
        );
    }

    #[test]
    fn a_quantile_is_a_bound() {
        let check = |counts: &[u64], percent: u64, expected: Option<u64>| {
            assert_eq!(quantile(&[50, 100], counts, percent), expected, "{counts:?} {percent}");
        };
        check(&[0, 0, 0], 50, None);
        check(&[1, 0, 0], 99, Some(50));
        check(&[50, 50, 0], 50, Some(50));
        check(&[50, 50, 0], 51, Some(100));
        check(&[1, 0, 99], 99, None);
    }
}
