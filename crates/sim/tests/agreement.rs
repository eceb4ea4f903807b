//! Replicas that agree, without a broker: some hundred seeds, that a seed gives the same run twice, and that faults built in on
//! purpose are found.

use sim::agreement::{AgreementOutcome, AgreementTally, Planted, run};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds that run with every test run; by hand it runs as many as one likes (`sim --agreement`).
const SEEDS: u64 = 150;

/// Seeds within which each planted fault must be found.
const PLANTED_SEEDS: u64 = 500;

/// Runs seeds from 1 on, until one is enough.
fn each(seeds: u64, planted: Option<Planted>, show: impl Fn(AgreementOutcome) -> bool + Sync) {
    let (next, is_over) = (AtomicU64::new(1), AtomicU64::new(0));
    std::thread::scope(|threads| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |cores| cores.get()) {
            threads.spawn(|| {
                while is_over.load(Ordering::Relaxed) == 0 {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > seeds || show(run(seed, planted, 60)) {
                        is_over.store(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}

#[test]
fn replicas_agree_whatever_fails() {
    let (sum, complaints) = (Mutex::new(AgreementTally::default()), Mutex::new(Vec::new()));
    each(SEEDS, None, |outcome| {
        sum.lock().unwrap().add(&outcome.tally);
        if let Some(failure) = outcome.failure {
            let trace = failure.trace.join("\n");
            complaints.lock().unwrap().push(format!("{trace}\nseed {}: {}", outcome.seed, failure.why));
        }
        false
    });
    let complaints = complaints.into_inner().unwrap();
    assert!(complaints.is_empty(), "{}\n{} seeds failed", complaints[0], complaints.len());
    // Each of these is a way to have seen nothing.
    let sum = sum.into_inner().unwrap();
    let AgreementTally {
        confirmed,
        leaders,
        crashes,
        lost_writes,
        cuts,
        snapshots,
        installs,
        changes,
        truncations,
        ..
    } = sum;
    let counts = [confirmed, leaders, crashes, lost_writes, cuts, snapshots, installs, changes, truncations];
    let least = [100_000, 1000, 1000, 1000, 500, 500, 50, 50, 50];
    assert!(counts.iter().zip(least).all(|(count, least)| *count > least), "{sum:?}");
}

#[test]
fn a_seed_of_replicas_gives_the_same_run_again() {
    for seed in 1..20 {
        let (one, other) = (run(seed, None, 0), run(seed, None, 0));
        assert_eq!((one.trace_hash, one.tally), (other.trace_hash, other.tally), "seed {seed}");
    }
}

#[test]
fn planted_faults_of_replicas_are_found() {
    for (name, planted) in Planted::ALL {
        let found = AtomicU64::new(0);
        each(PLANTED_SEEDS, Some(planted), |outcome| {
            if outcome.failure.is_some() {
                found.store(outcome.seed, Ordering::Relaxed);
            }
            found.load(Ordering::Relaxed) > 0
        });
        assert!(found.into_inner() > 0, "{name} is not found within {PLANTED_SEEDS} seeds");
    }
}
