//! The machine against a plain model, over random commands from a seed.

use crate::bench;

use bench::{Bench, replay, snapshot};
use queue::Fifo;

/// How many messages were delivered, how many died, how many were held for too long, how many passed others that were for
/// somebody else, how many were picked, how many were settled by position while they were held, how many went to another
/// consumer than the one in turn, how many to one that chose them, and how many barriers came to their end.
fn run(seed: u64, steps: u64) -> [u64; 9] {
    println!("seed {seed}");
    let mut bench = Bench::new(seed);
    for _ in 0..steps {
        bench.step();
    }
    bench.finish();
    let mut again = Fifo::new(bench.first_settings);
    replay(&mut again, &bench.history);
    assert_eq!(snapshot(&again), snapshot(&bench.fifo));
    [
        bench.delivered,
        bench.died,
        bench.taken_back,
        bench.kept_apart,
        bench.picked,
        bench.settled_for_others,
        bench.out_of_turn,
        bench.chosen,
        bench.barriers_over,
    ]
}

fn run_all(seeds: std::ops::Range<u64>, steps: u64) {
    let lives = seeds.map(|seed| run(seed, steps));
    let all = lives.fold([0; 9], |sum, life| std::array::from_fn(|at| sum[at] + life[at]));
    let [delivered, died, taken_back, kept_apart, picked, for_others, out_of_turn, chosen, barriers] = all;
    let is_much = delivered > 100_000 && died > 10_000 && taken_back > 10_000 && kept_apart > 5000;
    let is_much = is_much
        && picked > 5000
        && for_others > 1000
        && out_of_turn > 5000
        && chosen > 5000
        && barriers > 400;
    assert!(is_much, "the bench does little: {all:?}");
}

/// Short lives: many beginnings and ends.
#[test]
fn behaves_as_the_model_short() {
    run_all(0..4000, 200);
}

/// Longer lives: blocks, runs and many returns.
#[test]
fn behaves_as_the_model_long() {
    run_all(10_000..10_100, 2500);
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
