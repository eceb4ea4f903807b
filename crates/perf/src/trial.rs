//! Trials: demands on some loads beyond their messages, judged from looks at the run ten times a second.
//!
//! A value: looks go in, the next step and at last a verdict come out. The looks are taken by [`crate::load`].

use serde::Serialize;

/// Seconds that memory has to settle.
pub const SETTLE_SECONDS: u32 = 20;

/// How much memory may vary afterwards, of the least that was seen.
const SPAN_MAX: f64 = 0.05;

/// The share of their rate that the publishers must keep while a backlog is drained.
const SHARE_MIN: f64 = 0.95;

/// A drain may last so many times as long as the backlog was built.
const DRAIN_FACTOR: u32 = 10;

/// So many seconds of publishing behind, the consumers have caught up: these messages are under way, no backlog.
const CAUGHT_UP_SECONDS: f64 = 0.5;

/// The demand on a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trial {
    /// Its messages alone.
    None,
    /// The broker's resident memory varies by less than 5 % after the first 20 seconds.
    FlatMemory,
    /// So many seconds there are no consumers; while they then drain the backlog, the publishers keep 95 % of their rate.
    Drain {
        /// How long the backlog is built.
        build_seconds: u32,
    },
    /// Its messages, as many of them as are published in so many seconds.
    Timed {
        /// How long the publishers are needed for.
        seconds: u32,
    },
}

impl Trial {
    /// The longest that publishers are needed for, seconds; none: as long as their messages last.
    pub fn seconds_max(self) -> Option<u32> {
        match self {
            Trial::Drain { build_seconds } => Some(build_seconds.saturating_mul(1 + DRAIN_FACTOR)),
            Trial::Timed { seconds } => Some(seconds),
            Trial::None | Trial::FlatMemory => None,
        }
    }

    /// Whether the publishers are told when they have published enough, so that nobody knows before how many messages come.
    pub fn ends_publishing(self) -> bool {
        matches!(self, Trial::Drain { .. } | Trial::Timed { .. })
    }
}

/// One look at a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    /// Since the publishers were let go.
    pub seconds: f64,
    /// Messages published so far.
    pub published: u64,
    /// Messages delivered so far.
    pub consumed: u64,
    /// The broker's resident memory, bytes, where its process is known.
    pub resident: Option<u64>,
}

/// The step after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    GoOn,
    /// The consumers come.
    StartConsumers,
    /// The publishers have published enough.
    EndPublishing,
}

/// Whether the load met its demand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The figures, for people.
    pub text: String,
    /// None: it cannot be judged, because the broker's process is not known.
    pub is_held: Option<bool>,
}

/// Looks at one run and judges it.
#[derive(Debug)]
pub struct Witness {
    trial: Trial,
    /// Least and most resident memory since it has settled.
    span: Option<(u64, u64)>,
    /// The first look, from which the rate of building is counted.
    first: Option<Look>,
    /// When the consumers came.
    begin: Option<Look>,
    /// When they had caught up, or had long enough, and which of both.
    end: Option<(Look, bool)>,
    /// Where the second began that is being counted, and the fewest messages per second published in one.
    second: Look,
    slowest: f64,
}

impl Witness {
    /// One that has seen nothing.
    pub fn new(trial: Trial) -> Witness {
        let second = Look::default();
        Witness { trial, span: None, first: None, begin: None, end: None, second, slowest: f64::MAX }
    }

    /// Takes in a look; the step to take now.
    pub fn see(&mut self, look: Look) -> Step {
        match self.trial {
            Trial::None => Step::GoOn,
            Trial::FlatMemory => {
                if look.seconds >= f64::from(SETTLE_SECONDS)
                    && let Some(resident) = look.resident
                {
                    let (least, most) = self.span.unwrap_or((resident, resident));
                    self.span = Some((least.min(resident), most.max(resident)));
                }
                Step::GoOn
            }
            Trial::Drain { build_seconds } => self.see_drain(look, f64::from(build_seconds)),
            Trial::Timed { seconds } if look.seconds >= f64::from(seconds) => Step::EndPublishing,
            Trial::Timed { .. } => Step::GoOn,
        }
    }

    fn see_drain(&mut self, look: Look, build_seconds: f64) -> Step {
        let first = *self.first.get_or_insert(look);
        let Some(begin) = self.begin else {
            if look.seconds < build_seconds {
                return Step::GoOn;
            }
            self.begin = Some(look);
            self.second = look;
            return Step::StartConsumers;
        };
        if self.end.is_some() {
            return Step::GoOn;
        }
        let passed = look.seconds - self.second.seconds;
        if passed >= 1.0 {
            self.slowest = self.slowest.min((look.published - self.second.published) as f64 / passed);
            self.second = look;
        }
        let rate = per_second(first, begin);
        let is_drained = (look.published.saturating_sub(look.consumed) as f64) < rate * CAUGHT_UP_SECONDS;
        let is_over = look.seconds - begin.seconds >= build_seconds * f64::from(DRAIN_FACTOR);
        if !is_drained && !is_over {
            return Step::GoOn;
        }
        self.end = Some((look, is_drained));
        Step::EndPublishing
    }

    /// The verdict; none where nothing was to be judged.
    pub fn verdict(&self) -> Option<Verdict> {
        match self.trial {
            Trial::None | Trial::Timed { .. } => None,
            Trial::FlatMemory => Some(self.judge_memory()),
            Trial::Drain { .. } => Some(self.judge_drain()),
        }
    }

    fn judge_memory(&self) -> Verdict {
        let Some((least, most)) = self.span else {
            let text = "memory: not judged, the broker's process is not known (--broker-pid)".to_owned();
            return Verdict { text, is_held: None };
        };
        let share = (most - least) as f64 / least.max(1) as f64;
        let mb = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let text = format!(
            "memory: {:.1} to {:.1} MB after the first {SETTLE_SECONDS} s, varies by {:.1} % (less than {:.0} %)",
            mb(least),
            mb(most),
            share * 100.0,
            SPAN_MAX * 100.0,
        );
        Verdict { text, is_held: Some(share < SPAN_MAX) }
    }

    fn judge_drain(&self) -> Verdict {
        let (Some(first), Some(begin), Some((end, is_drained))) = (self.first, self.begin, self.end) else {
            let text = "drain: the run ended before the backlog was drained".to_owned();
            return Verdict { text, is_held: Some(false) };
        };
        let (before, during) = (per_second(first, begin), per_second(begin, end));
        let share = during / before.max(1.0);
        let slowest = if self.slowest < f64::MAX { self.slowest } else { during };
        let text = format!(
            "drain: {} behind, {} in {:.1} s at {:.0}/s; published {before:.0}/s before and {during:.0}/s meanwhile, \
             {:.1} % (at least {:.0} %), {slowest:.0}/s in the slowest second",
            begin.published.saturating_sub(begin.consumed),
            if is_drained { "drained" } else { "not drained" },
            end.seconds - begin.seconds,
            (end.consumed - begin.consumed) as f64 / (end.seconds - begin.seconds).max(1e-9),
            share * 100.0,
            SHARE_MIN * 100.0,
        );
        Verdict { text, is_held: Some(is_drained && share >= SHARE_MIN) }
    }
}

fn per_second(from: Look, to: Look) -> f64 {
    (to.published - from.published) as f64 / (to.seconds - from.seconds).max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_memory(looks: &[(f64, u64)], expected: Option<bool>) {
        let mut witness = Witness::new(Trial::FlatMemory);
        for &(seconds, mb) in looks {
            let look = Look { seconds, resident: (mb > 0).then_some(mb << 20), ..Look::default() };
            assert_eq!(witness.see(look), Step::GoOn);
        }
        let verdict = witness.verdict().unwrap();
        assert_eq!(verdict.is_held, expected, "{looks:?}: {}", verdict.text);
    }

    #[test]
    fn memory_may_grow_only_while_it_settles() {
        check_memory(&[(1.0, 10), (20.0, 100), (25.0, 104), (30.0, 101)], Some(true));
        check_memory(&[(1.0, 10), (20.0, 100), (25.0, 105), (30.0, 100)], Some(false));
        check_memory(&[(20.0, 100), (25.0, 94)], Some(false));
        check_memory(&[(25.0, 0)], None);
    }

    /// Looks as (second, published, consumed); the last of them is where publishing is to end.
    fn check_drain(looks: &[(f64, u64, u64)], expected: bool) {
        let mut witness = Witness::new(Trial::Drain { build_seconds: 10 });
        let mut steps = Vec::new();
        for &(seconds, published, consumed) in looks {
            steps.push(witness.see(Look { seconds, published, consumed, resident: None }));
        }
        assert_eq!(steps.pop(), Some(Step::EndPublishing), "{looks:?}");
        assert_eq!(steps.iter().filter(|step| **step == Step::StartConsumers).count(), 1, "{looks:?}");
        assert_eq!(witness.see(Look::default()), Step::GoOn, "it ends once");
        let verdict = witness.verdict().unwrap();
        assert_eq!(verdict.is_held, Some(expected), "{looks:?}: {}", verdict.text);
    }

    #[test]
    fn publishers_keep_their_rate_while_a_backlog_is_drained() {
        check_drain(&[(0.0, 0, 0), (10.0, 1000, 0), (15.0, 1480, 900), (20.0, 1960, 1950)], true);
        check_drain(&[(0.0, 0, 0), (10.0, 1000, 0), (15.0, 1400, 900), (20.0, 1900, 1890)], false);
        // It never ends, and is given up after ten times as long.
        check_drain(&[(0.0, 0, 0), (10.0, 1000, 0), (60.0, 6000, 4000), (110.0, 11_000, 9000)], false);
        let nothing = Witness::new(Trial::Drain { build_seconds: 10 }).verdict();
        assert_eq!(nothing.and_then(|verdict| verdict.is_held), Some(false));
        assert_eq!(Witness::new(Trial::None).verdict(), None);
    }
}
