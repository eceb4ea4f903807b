//! A whole node in one thread, from one seed: shards, journal, disk, network, clients and clock, each moved on only when
//! the dice say so, under an oracle that knows what was confirmed.
//!
//! [`run`] is a pure function of seed and [`Plan`]: there is no clock but the one it keeps, no randomness but the seed's.
//! The subject of a run is the broker as the server drives it, over [`journal::FaultyDisk`]; not sockets, threads and
//! signals, which are tested with the real server.

pub mod agreement;
mod berth;
mod books;
mod client;
mod cluster;
mod course;
mod double;
mod machine;
mod makeup;
mod net;
mod oracle;
mod patience;
mod plan;
mod replica;
mod rotten;
mod rules;
mod seat;
mod shape;
mod streams;
mod tenancy;
mod tenant;
mod together;
mod trace;
mod workload;
mod world;

pub use plan::{Failure, Outcome, Plan, Tally};

use std::panic::{AssertUnwindSafe, catch_unwind};
use world::World;

/// Runs `seed`. A panic of what is simulated is a failure like any other.
pub fn run(seed: u64, plan: Plan) -> Outcome {
    let mut world = match catch_unwind(|| World::new(seed, plan)) {
        Ok(Ok(world)) => world,
        Ok(Err(why)) => return failed_at_once(seed, why),
        Err(panic) => return failed_at_once(seed, words(&*panic)),
    };
    let checked = catch_unwind(AssertUnwindSafe(|| course::run(&mut world)));
    let checked = checked.unwrap_or_else(|panic| Err(words(&*panic)));
    let (trace_hash, tally) = (world.trace.hash(), world.tally);
    let failure = checked.err().map(|why| Failure { why, trace: world.trace.into_lines() });
    Outcome { seed, trace_hash, tally, failure }
}

fn failed_at_once(seed: u64, why: String) -> Outcome {
    let failure = Some(Failure { why, trace: Vec::new() });
    Outcome { seed, trace_hash: 0, tally: Tally::default(), failure }
}

/// The message of a panic.
fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("without words"))
}
