//! The machine against a plain model, over random commands from a seed.

mod bench;

use bench::{Bench, replay, snapshot};
use queue::{Fifo, Settings};

fn run(seed: u64, steps: u64) -> u64 {
    println!("seed {seed}");
    let mut bench = Bench::new(seed);
    for _ in 0..steps {
        bench.step();
    }
    bench.finish();
    let mut again = Fifo::new(Settings { counts: bench.counts(), ..Settings::default() });
    replay(&mut again, &bench.history);
    assert_eq!(snapshot(&again), snapshot(&bench.fifo));
    bench.delivered
}

/// Short lives: many beginnings and ends.
#[test]
fn behaves_as_the_model_short() {
    let delivered: u64 = (0..4000).map(|seed| run(seed, 200)).sum();
    assert!(delivered > 100_000, "the bench does little: {delivered}");
}

/// Longer lives: blocks, runs and many returns.
#[test]
fn behaves_as_the_model_long() {
    let delivered: u64 = (10_000..10_100).map(|seed| run(seed, 2500)).sum();
    assert!(delivered > 100_000, "the bench does little: {delivered}");
}

/// `QUEUE_SEED` and `QUEUE_STEPS` run one life, or, with `QUEUE_LIVES`, as many from that seed on.
#[test]
#[ignore = "by hand, for as long as one likes"]
fn behaves_as_the_model_by_hand() {
    let number = |name, or| std::env::var(name).map_or(or, |text: String| text.parse().unwrap());
    let seed = number("QUEUE_SEED", 0);
    for seed in seed..seed + number("QUEUE_LIVES", 1) {
        run(seed, number("QUEUE_STEPS", 1000));
    }
}
