//! Ceilings on the cost of a message: user instructions and system calls, counted on the real broker under a bounded
//! load.
//!
//! Not a benchmark: it tells nothing about time, so that it says the same on a busy machine. A cost is the difference
//! between two numbers of messages, which cancels the cost of starting, logging in and stopping. The share of the
//! moment's batches and of rare chores is taken off by measuring again, [`TRIES`] times at most: the smallest counts,
//! and the first under its ceiling ends the row.
//!
//! Instructions are those of the busiest thread under callgrind, with one shard that does its flushes itself: that is
//! the shard, and what the house thread does now and then stays out. They hang on the compiler, so the code of another
//! than [`COMPILER`] is not held to them. System calls are those of all threads under strace, with two shards.

use crate::report::Report;
use crate::traced::{Load, Tool};
use std::path::Path;
use std::process::Command;

/// The compiler with which the ceilings for instructions were made, as `rustc -V` begins.
const COMPILER: &str = "rustc 1.95.";

/// How often a cost is measured before it counts as too high.
const TRIES: usize = 5;

/// The kind of cost that is counted, and how much of it a message may take.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ceiling {
    /// User instructions of the shard, by the profile that the broker was built with.
    Instructions { release: f64, quick: f64 },
    /// System calls of the process.
    SystemCalls(f64),
}
use Ceiling::{Instructions, SystemCalls};

/// One load and the ceiling for a message of it.
struct Guard {
    scenario: &'static str,
    options: &'static [&'static str],
    /// Messages of the short and of the long run.
    messages: [u64; 2],
    ceiling: Ceiling,
}

/// So slow that each message pays its own flush and wake-ups, also under strace. Were a machine too busy even for that,
/// messages would share them and cost less.
const SLOW: [&[&str]; 2] = [
    &["--rate", "250", "--protocol", "amqp091", "--queue-type", "classic"],
    &["--rate", "250", "--protocol", "amqp10", "--queue-type", "quorum"],
];

/// The consumer follows closely: the cost of a backlog of the moment is not in the next run.
const CLOSE: [&[&str]; 2] = [&["--lead", "1000"], &["--lead", "10000"]];

/// The table. A ceiling is the smallest of a dozen runs and 3 % for instructions; for system calls, whose number hangs
/// on how batches meet, it is the largest. Raise one only with the reason in the commit.
const GUARDS: &[Guard] = &[
    instructions("classic-amqp091", CLOSE[0], Instructions { release: 1979.0, quick: 1968.0 }),
    instructions("classic-amqp10", CLOSE[0], Instructions { release: 1927.0, quick: 2086.0 }),
    instructions("quorum-amqp091", CLOSE[1], Instructions { release: 2036.0, quick: 2003.0 }),
    instructions("quorum-amqp10", CLOSE[1], Instructions { release: 1885.0, quick: 2019.0 }),
    instructions("stream-amqp091", CLOSE[1], Instructions { release: 2660.0, quick: 2660.0 }),
    instructions("stream-amqp10", CLOSE[1], Instructions { release: 2600.0, quick: 2600.0 }),
    instructions("stream-native", CLOSE[1], Instructions { release: 570.0, quick: 570.0 }),
    system_calls("classic-amqp091", 0.055),
    system_calls("classic-amqp10", 0.028),
    system_calls("quorum-amqp091", 0.009),
    system_calls("quorum-amqp10", 0.009),
    system_calls("stream-amqp10", 0.009),
    Guard { scenario: "trickle", options: SLOW[0], messages: [200, 600], ceiling: SystemCalls(9.6) },
    Guard { scenario: "trickle", options: SLOW[1], messages: [200, 600], ceiling: SystemCalls(9.6) },
];

const fn instructions(scenario: &'static str, options: &'static [&'static str], ceiling: Ceiling) -> Guard {
    Guard { scenario, options, messages: [10_000, 60_000], ceiling }
}

/// Of so many messages that files made ahead, which begin with the load and are no part of it, are lost among them.
const fn system_calls(scenario: &'static str, most: f64) -> Guard {
    Guard { scenario, options: &[], messages: [10_000, 210_000], ceiling: SystemCalls(most) }
}

impl Guard {
    fn name(&self) -> String {
        let what = match self.ceiling {
            Instructions { .. } => "instructions",
            SystemCalls(_) => "system-calls",
        };
        // Of the options, words tell rows apart, numbers do not.
        let words = self.options.iter().filter(|word| word.starts_with(|first: char| first.is_alphabetic()));
        let words: Vec<&str> = std::iter::once(self.scenario).chain(words.copied()).collect();
        format!("guard.{what}.{}", words.join("-"))
    }

    fn tool(&self) -> Tool {
        match self.ceiling {
            Instructions { .. } => Tool::Callgrind,
            SystemCalls(_) => Tool::Strace,
        }
    }

    fn most(&self, profile: &str) -> f64 {
        match self.ceiling {
            Instructions { release, .. } if profile == "release" => release,
            Instructions { quick, .. } => quick,
            SystemCalls(most) => most,
        }
    }

    /// The cost of a message, measured once.
    fn measure(&self, broker: &Path) -> Result<f64, String> {
        let settings: &[&str] = match self.ceiling {
            Instructions { .. } => &["leveret.shards=1", "leveret.inline_flush_us=1000000"],
            SystemCalls(_) => &["leveret.shards=2", "leveret.inline_flush_us=1000000"],
        };
        let mut counts = [0; 2];
        for (count, messages) in counts.iter_mut().zip(self.messages) {
            let load = Load { scenario: self.scenario, options: self.options, messages };
            *count = self.tool().count(broker, settings, &load)?;
        }
        Ok(per_message(counts, self.messages))
    }
}

fn per_message(counts: [u64; 2], messages: [u64; 2]) -> f64 {
    (counts[1] as f64 - counts[0] as f64) / (messages[1] - messages[0]) as f64
}

/// The smallest result of `measure`, called until that is at most `most`, [`TRIES`] times at most.
fn smallest(most: f64, mut measure: impl FnMut() -> Result<f64, String>) -> Result<f64, String> {
    let mut least = f64::INFINITY;
    for _ in 0..TRIES {
        least = least.min(measure()?);
        if least <= most {
            break;
        }
    }
    Ok(least)
}

/// Holds the broker, built with `profile`, to the table.
pub fn check(report: &mut Report, profile: &str, broker: &Path) {
    let absent = [Tool::Callgrind, Tool::Strace].map(|tool| (tool, why_absent(tool)));
    for guard in GUARDS {
        let name = guard.name();
        if let Some((_, Some(why))) = absent.iter().find(|(tool, _)| *tool == guard.tool()) {
            report.skip(&name, why);
            continue;
        }
        let most = guard.most(profile);
        match smallest(most, || guard.measure(broker)) {
            Ok(cost) if cost <= most => {
                println!("{name}: {} a message, at most {}", number(cost), number(most));
                report.pass(&name);
            }
            Ok(cost) => {
                let why = format!("{} a message, where {} are allowed", number(cost), number(most));
                report.fail(&name, &format!("{why}, in the best of {TRIES} runs"));
            }
            Err(why) => report.fail(&name, &why),
        }
    }
}

/// Why rows that need `tool` cannot be measured here.
fn why_absent(tool: Tool) -> Option<String> {
    tool.why_absent().or_else(|| match tool {
        Tool::Callgrind => why_other_code(),
        Tool::Strace => None,
    })
}

/// Why the ceilings for instructions say nothing about the code that was built here.
fn why_other_code() -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return Some("the ceilings are those of x86-64".to_owned());
    }
    let output = Command::new("rustc").arg("-V").output();
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    match version {
        Ok(version) if version.starts_with(COMPILER) => None,
        Ok(version) => Some(format!("the ceilings are those of {COMPILER}x, this is {version}")),
        Err(error) => Some(format!("rustc: {error}")),
    }
}

/// Four digits that count.
fn number(cost: f64) -> String {
    if cost >= 100.0 { format!("{cost:.0}") } else { format!("{cost:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_smallest_counts_and_the_first_that_fits_is_enough() {
        let check = |costs: &[f64], expected: f64, calls: usize| {
            let mut rest = costs.iter();
            let least = smallest(10.0, || rest.next().copied().ok_or_else(|| "no more".to_owned()));
            assert_eq!((least, costs.len() - rest.len()), (Ok(expected), calls), "{costs:?}");
        };
        check(&[9.0, 1.0], 9.0, 1);
        check(&[12.0, 10.0, 1.0], 10.0, 2);
        check(&[12.0, 14.0, 11.0, 13.0, 15.0, 1.0], 11.0, TRIES);
        assert!(smallest(10.0, || Err("broken".to_owned())).is_err());
    }

    #[test]
    fn a_difference_is_told_per_message() {
        assert_eq!(per_message([1000, 6000], [100, 600]), 10.0);
        assert!(per_message([1000, 900], [100, 600]) < 0.0);
    }

    #[test]
    fn rows_have_names_of_their_own_and_grow() {
        let names: BTreeSet<String> = GUARDS.iter().map(Guard::name).collect();
        assert_eq!(names.len(), GUARDS.len(), "{names:?}");
        assert!(names.contains("guard.system-calls.trickle-amqp091-classic"), "{names:?}");
        assert!(GUARDS.iter().all(|guard| guard.messages[0] < guard.messages[1]));
    }

    #[test]
    fn each_profile_has_its_ceiling() {
        let guard = instructions("x", &[], Instructions { release: 1.0, quick: 2.0 });
        assert_eq!((guard.most("release"), guard.most("quick")), (1.0, 2.0));
        assert_eq!(system_calls("x", 3.0).most("quick"), 3.0);
    }
}
