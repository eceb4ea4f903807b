//! Runs seeds by hand: `sim SEED [COUNT]`, `sim --seeds COUNT`, for longer runs `--operations NUMBER`, `--wide` for
//! those of many kinds, `--still` for those in which no log goes from shard to shard, `--rich` for clients that use more
//! of the broker, `--barriers` for barriers and many consumers, `--rich --crowds` for many names of stored offsets, `--hostile` for a tenant whose commands are dear,
//! `--double` for logs that others have to agree on. A seed that fails is printed with the end of its trace.

use sim::{Outcome, Plan, Tally};
use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

thread_local! {
    /// The seed that runs on this thread, for a program that a panic ends at once.
    static SEED: Cell<u64> = const { Cell::new(0) };
}

const USAGE: &str = "usage: sim [SEED [COUNT]] [--seeds COUNT] [--wide] [--still] [--rich [--crowds]] [--barriers] [--hostile] [--double] [--operations NUMBER] [--trace LINES] [--threads NUMBER]";

struct Wanted {
    first: u64,
    count: u64,
    threads: usize,
    plan: Plan,
}

fn read(arguments: impl Iterator<Item = String>) -> Option<Wanted> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let mut wanted =
        Wanted { first: 1, count: 1, threads: cores, plan: Plan { hands: true, ..Plan::default() } };
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
    let (started, mut tally, mut failed) = (Instant::now(), Tally::default(), 0);
    each(&wanted, |outcome| {
        tally.add(&outcome.tally);
        if let Some(failure) = &outcome.failure {
            failed += 1;
            for line in &failure.trace {
                println!("  {line}");
            }
            let rotten = outcome.tally.rotten;
            println!("FAILED seed {} ({rotten} bits rotten): {}", outcome.seed, failure.why);
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    println!("{} seeds in {seconds:.1} s: {tally:?}", wanted.count);
    println!("{} passed, {failed} failed, 0 skipped", wanted.count - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the seeds on as many threads as are wanted and shows each outcome.
fn each(wanted: &Wanted, mut show: impl FnMut(&Outcome)) {
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
                    if sender.send(sim::run(seed, wanted.plan)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        receiver.iter().for_each(|outcome| show(&outcome));
    });
}
