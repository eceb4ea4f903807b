//! The load generator alone, for brokers that run already: `leveret bench` without building the broker.

use clap::Parser;
use std::process::ExitCode;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    bench: perf::Bench,
}

fn main() -> ExitCode {
    perf::main(&Line::parse().bench)
}
