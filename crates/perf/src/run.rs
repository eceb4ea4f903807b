//! The figures of one run, and which of several runs speaks for all.

use crate::process::Usage;
use crate::stamp::Findings;
use crate::trial::Verdict;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// A distribution of latencies, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Half were faster.
    pub p50_us: u64,
    /// 99 % were faster.
    pub p99_us: u64,
    /// 99.9 % were faster.
    pub p999_us: u64,
    /// The slowest.
    pub max_us: u64,
}

impl Latency {
    /// The distribution in `histogram`; `None` where nothing was recorded.
    pub fn of(histogram: &Histogram<u64>) -> Option<Latency> {
        (!histogram.is_empty()).then(|| Latency {
            p50_us: histogram.value_at_quantile(0.5),
            p99_us: histogram.value_at_quantile(0.99),
            p999_us: histogram.value_at_quantile(0.999),
            max_us: histogram.max(),
        })
    }
}

/// CPU time of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cpu {
    /// Nanoseconds per message (per delivery where messages are copied).
    pub ns_per_message: f64,
    /// The part of it that was user time, 0 to 1; exact to some 10 ms of the run.
    pub user_share: f64,
    /// All of it, nanoseconds.
    pub total_ns: u64,
}

impl Cpu {
    /// The use between two looks, over `messages`.
    pub fn between(before: Usage, after: Usage, messages: u64) -> Cpu {
        let total_ns = after.cpu_ns.saturating_sub(before.cpu_ns);
        let user = after.user_ticks.saturating_sub(before.user_ticks) as f64;
        let system = after.system_ticks.saturating_sub(before.system_ticks) as f64;
        Cpu {
            ns_per_message: total_ns as f64 / messages.max(1) as f64,
            user_share: if user + system > 0.0 { user / (user + system) } else { 0.0 },
            total_ns,
        }
    }
}

/// Resident memory of the broker, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Resident {
    /// Before the first message, with the connections there.
    pub before: u64,
    /// The most that was seen, looking ten times a second.
    pub peak: u64,
    /// After the last message.
    pub after: u64,
}

/// The processors in use while the publishers were at work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Writing {
    /// How long that was.
    pub seconds: f64,
    /// Processors that the broker used.
    pub broker_cores: f64,
    /// Processors that the load generator used.
    pub client_cores: f64,
    /// How much the broker's memory had grown, bytes.
    pub grown: u64,
}

impl Writing {
    /// The use between two looks at the broker, so far apart, and that of this process meanwhile.
    pub fn between(lasted: Duration, before: Usage, after: Usage, client_ns: u64) -> Writing {
        let ns = lasted.as_nanos().max(1) as f64;
        Writing {
            seconds: lasted.as_secs_f64(),
            broker_cores: after.cpu_ns.saturating_sub(before.cpu_ns) as f64 / ns,
            client_cores: client_ns as f64 / ns,
            grown: after.rss.saturating_sub(before.rss),
        }
    }
}

/// The figures of one run of a case.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Which part of the case, where it has several.
    pub part: &'static str,
    /// Messages published.
    pub published: u64,
    /// Messages confirmed.
    pub confirmed: u64,
    /// Messages delivered.
    pub consumed: u64,
    /// From the first publish to the last confirm.
    pub publish_seconds: f64,
    /// From the first publish to the last delivery; in a drain, from the first delivery.
    pub consume_seconds: f64,
    /// Messages published per second.
    pub in_per_second: f64,
    /// Messages delivered per second.
    pub out_per_second: f64,
    /// Bytes of a body.
    pub body_bytes: u32,
    /// From the publisher's write to the consumer's read.
    pub delivery: Option<Latency>,
    /// From the publisher's write to the reading of the confirm.
    pub confirm: Option<Latency>,
    /// The broker's CPU time, where its process is known.
    pub cpu: Option<Cpu>,
    /// The broker's memory, where its process is known.
    pub resident: Option<Resident>,
    /// The processors in use while messages were published, where several readers read them.
    pub writing: Option<Writing>,
    /// CPU time of the load generator's threads, nanoseconds per message.
    pub client_ns_per_message: f64,
    /// Broken promises.
    pub findings: Findings,
    /// The first reason the broker gave for refusing a message.
    pub refusal: Option<String>,
    /// The verdict of the trial, where there was one.
    pub verdict: Option<Verdict>,
}

/// Per second; 0 where no time passed.
pub fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

impl Figures {
    /// Whether a promise was broken, or the demand of the trial missed.
    pub fn is_violation(&self) -> bool {
        let is_missed = self.verdict.as_ref().is_some_and(|verdict| verdict.is_held == Some(false));
        self.findings.is_violation() || is_missed
    }

    /// Body bytes per second in the direction that has messages; the consumer's where both have.
    pub fn bytes_per_second(&self) -> f64 {
        let messages = if self.consumed > 0 { self.out_per_second } else { self.in_per_second };
        messages * f64::from(self.body_bytes)
    }

    /// The cost that runs are ordered by: CPU per message, or time per message where that is not known.
    fn cost(&self) -> f64 {
        let seconds = self.publish_seconds.max(self.consume_seconds);
        self.cpu.map_or(seconds / self.published.max(self.consumed).max(1) as f64, |cpu| cpu.ns_per_message)
    }
}

/// The run in the middle, by cost; of an even number the dearer of the two. Panics where there are no runs.
pub fn median(runs: &[Figures]) -> &Figures {
    let mut sorted: Vec<&Figures> = runs.iter().collect();
    base::brief::sort_by(&mut sorted, |a, b| a.cost().total_cmp(&b.cost()));
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(cpu: Option<f64>, seconds: f64) -> Figures {
        Figures {
            part: "",
            published: 1000,
            confirmed: 1000,
            consumed: 1000,
            in_per_second: rate(1000, seconds),
            out_per_second: rate(1000, seconds),
            publish_seconds: seconds,
            consume_seconds: seconds,
            body_bytes: 12,
            delivery: None,
            confirm: None,
            cpu: cpu.map(|ns| Cpu { ns_per_message: ns, user_share: 0.5, total_ns: 0 }),
            resident: None,
            writing: None,
            client_ns_per_message: 0.0,
            findings: Findings::default(),
            refusal: None,
            verdict: None,
        }
    }

    #[test]
    fn the_middle_run_speaks() {
        let runs = [900.0, 500.0, 700.0].map(|ns| figures(Some(ns), 1.0));
        assert_eq!(median(&runs).cpu.unwrap().ns_per_message, 700.0);
        let runs = [3.0, 1.0, 2.0, 4.0].map(|seconds| figures(None, seconds));
        assert_eq!(median(&runs).publish_seconds, 3.0);
    }

    #[test]
    fn rates() {
        let figures = figures(None, 0.5);
        assert_eq!((figures.in_per_second, figures.bytes_per_second()), (2000.0, 24_000.0));
        assert_eq!(rate(5, 0.0), 0.0);
    }

    #[test]
    fn cpu_is_told_per_message() {
        let usage = |cpu_ns, user_ticks, system_ticks| Usage { cpu_ns, user_ticks, system_ticks, rss: 0 };
        let cpu = Cpu::between(usage(1000, 10, 10), usage(5000, 13, 11), 4);
        assert_eq!((cpu.ns_per_message, cpu.user_share), (1000.0, 0.75));
    }
}
