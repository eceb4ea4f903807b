//! Runs seeds by hand: `sim SEED [COUNT]`, `sim --seeds COUNT`, for longer runs `--operations NUMBER`, `--wide` for
//! those of many kinds, `--still` for those in which no log goes from shard to shard, `--rich` for clients that use more
//! of the broker, `--barriers` for barriers and many consumers, `--rich --crowds` for many names of stored offsets, `--hostile` for a tenant whose commands are dear,
//! `--double` for logs that others have to agree on. A seed that fails is printed with the end of its trace.
//! `--nodes NUMBER` runs brokers on several nodes that agree on their logs.
//! `--agreement` runs replicas of logs on several nodes, without a broker; `--plant NAME` builds a fault in, which is to be found.

use sim::agreement::{self, AgreementTally, Planted};
use sim::{Failure, Plan, Tally};
use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

thread_local! {
    /// The seed that runs on this thread, for a program that a panic ends at once.
    static SEED: Cell<u64> = const { Cell::new(0) };
}

const USAGE: &str = "usage: sim [SEED [COUNT]] [--seeds COUNT] [--wide] [--still] [--rich [--crowds]] [--barriers] [--hostile] [--double] [--agreement [--plant NAME]] [--nodes NUMBER] [--operations NUMBER] [--trace LINES] [--threads NUMBER]";

struct Wanted {
    first: u64,
    count: u64,
    threads: usize,
    plan: Plan,
    /// Replicas alone.
    is_agreement: bool,
    planted: Option<Planted>,
}

fn read(arguments: impl Iterator<Item = String>) -> Option<Wanted> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let plan = Plan { hands: true, ..Plan::default() };
    let mut wanted = Wanted { first: 1, count: 1, threads: cores, plan, is_agreement: false, planted: None };
    let mut place = 0;
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|value| value.parse::<u64>().ok());
        match argument.as_str() {
            "--seeds" => wanted.count = number()?,
            "--wide" => wanted.plan.wide = true,
            "--still" => wanted.plan.hands = false,
            "--rich" => {
                let Plan { rich, limits, streams, picks, .. } = &mut wanted.plan;
                (*rich, *limits, *streams, *picks) = (true, true, true, true);
            }
            "--double" => wanted.plan.double = true,
            "--hostile" => wanted.plan.hostile = true,
            "--barriers" => wanted.plan.barriers = true,
            "--crowds" => wanted.plan.crowds = true,
            "--agreement" => wanted.is_agreement = true,
            "--plant" => {
                let name = arguments.next()?;
                let planted = Planted::ALL.iter().find(|(of, _)| *of == name)?;
                wanted.planted = Some(planted.1);
            }
            "--nodes" => wanted.plan.nodes = number().filter(|nodes| (3..=9).contains(nodes))? as usize,
            "--operations" => wanted.plan.operations = number()? as u32,
            "--trace" => wanted.plan.trace_lines = number()? as usize,
            "--threads" => wanted.threads = number()?.max(1) as usize,
            value => {
                let value = value.parse().ok()?;
                match place {
                    0 => wanted.first = value,
                    1 => wanted.count = value,
                    _ => return None,
                }
                place += 1;
            }
        }
    }
    Some(wanted)
}

#[allow(clippy::disallowed_methods, reason = "how long a run may take is real time; what runs knows none")]
fn main() -> ExitCode {
    let Some(wanted) = read(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if wanted.count > 1 {
        // Panics are failures of a seed and are told with it; where there is one seed, so is where it panicked.
        std::panic::set_hook(Box::new(|panic| {
            if cfg!(panic = "abort") {
                println!("FAILED seed {}: {panic}", SEED.get());
            }
        }));
    }
    let (started, mut counts, mut failed) = (Instant::now(), Counts::new(&wanted), 0);
    // Of all traces, in any order: two processes that run the same seeds say the same.
    let mut hash = 0u64;
    each(&wanted, |ran| {
        counts.add(&ran.counts);
        hash = hash.wrapping_add(ran.hash);
        if let Some(failure) = &ran.failure {
            failed += 1;
            for line in &failure.trace {
                println!("  {line}");
            }
            println!("FAILED seed {}{}: {}", ran.seed, ran.counts.beside(), failure.why);
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    println!("{} seeds in {seconds:.1} s, traces {hash:016x}: {counts:?}", wanted.count);
    println!("{} passed, {failed} failed, 0 skipped", wanted.count - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Counts of runs, of either kind.
enum Counts {
    Broker(Box<Tally>),
    Agreement(AgreementTally),
}

impl std::fmt::Debug for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Counts::Broker(tally) => tally.fmt(f),
            Counts::Agreement(tally) => tally.fmt(f),
        }
    }
}

impl Counts {
    fn new(wanted: &Wanted) -> Counts {
        match wanted.is_agreement {
            true => Counts::Agreement(AgreementTally::default()),
            false => Counts::Broker(Box::default()),
        }
    }

    fn add(&mut self, other: &Counts) {
        match (self, other) {
            (Counts::Broker(tally), Counts::Broker(other)) => tally.add(other),
            (Counts::Agreement(tally), Counts::Agreement(other)) => tally.add(other),
            _ => {}
        }
    }

    /// Counts that are told beside a failure.
    fn beside(&self) -> String {
        match self {
            Counts::Broker(tally) => format!(" ({} bits rotten)", tally.rotten),
            Counts::Agreement(_) => String::new(),
        }
    }
}

/// The outcome of a seed, of either kind.
struct Ran {
    seed: u64,
    /// Of its trace.
    hash: u64,
    counts: Counts,
    failure: Option<Failure>,
}

fn run(seed: u64, wanted: &Wanted) -> Ran {
    if wanted.is_agreement {
        let outcome = agreement::run(seed, wanted.planted, wanted.plan.trace_lines);
        let (hash, counts) = (outcome.trace_hash, Counts::Agreement(outcome.tally));
        return Ran { seed, hash, counts, failure: outcome.failure };
    }
    let outcome = sim::run(seed, wanted.plan);
    let (hash, counts) = (outcome.trace_hash, Counts::Broker(Box::new(outcome.tally)));
    Ran { seed, hash, counts, failure: outcome.failure }
}

/// Runs the seeds on as many threads as are wanted and shows each outcome.
fn each(wanted: &Wanted, mut show: impl FnMut(&Ran)) {
    let next = AtomicU64::new(wanted.first);
    let end = wanted.first.saturating_add(wanted.count);
    let (sender, receiver) = channel();
    std::thread::scope(|threads| {
        for _ in 0..wanted.threads {
            let (next, sender) = (&next, sender.clone());
            threads.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    SEED.set(seed);
                    if sender.send(run(seed, wanted)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        receiver.iter().for_each(|outcome| show(&outcome));
    });
}
