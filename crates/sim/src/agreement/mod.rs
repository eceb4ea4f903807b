//! Replicas of a few logs on three or five nodes, by the engine that a cluster agrees with, and nothing of a broker.
//!
//! The dice say how long messages and flushes take, which are lost, who crashes, is cut off, stands still, and whose power goes;
//! a crash keeps any part of what was not flushed. Proposals, elections, changes of members, snapshots and purges come
//! meanwhile. Then all is mended.
//! Invariants looked at: see [`checks`].

mod checks;
mod disk;
pub(crate) mod faults;
mod journaled;
mod member;
mod state;
mod world;

use crate::plan::Failure;
use world::World;

/// A fault built in on purpose, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A write is told to be on disk when it is handed out.
    EarlyFlush,
    /// Promises are told to be on disk, and are not.
    LostVotes,
    /// A leader that comes up again leads on in its term.
    RestoredLeaders,
    /// Entries are let go before the snapshot that covers them is on disk.
    EarlyPurge,
}

impl Planted {
    /// All of them, by name.
    pub const ALL: [(&'static str, Planted); 4] = [
        ("early-flush", Planted::EarlyFlush),
        ("lost-votes", Planted::LostVotes),
        ("restored-leaders", Planted::RestoredLeaders),
        ("early-purge", Planted::EarlyPurge),
    ];
}

/// Counts of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgreementTally {
    /// Proposals that were agreed on while their proposer lived.
    pub confirmed: u64,
    /// Replicas that began to lead.
    pub leaders: u64,
    /// Nodes that crashed, and writes that were lost with them.
    pub crashes: u64,
    /// Writes that were handed out, not flushed, and lost.
    pub lost_writes: u64,
    /// Times that nodes could not reach each other.
    pub cuts: u64,
    /// Snapshots made, and installed from others.
    pub snapshots: u64,
    /// Snapshots that came from another replica.
    pub installs: u64,
    /// Changes of members that were asked for.
    pub changes: u64,
    /// Times that a replica took away entries nobody agreed on.
    pub truncations: u64,
    /// Messages sent.
    pub messages: u64,
    /// The longest time from when all was mended until each log had agreed on something, microseconds.
    pub serving_us: u64,
}

impl AgreementTally {
    /// Adds another.
    pub fn add(&mut self, other: &AgreementTally) {
        self.confirmed += other.confirmed;
        self.leaders += other.leaders;
        self.crashes += other.crashes;
        self.lost_writes += other.lost_writes;
        self.cuts += other.cuts;
        self.snapshots += other.snapshots;
        self.installs += other.installs;
        self.changes += other.changes;
        self.truncations += other.truncations;
        self.messages += other.messages;
        self.serving_us = self.serving_us.max(other.serving_us);
    }
}

/// The outcome of one seed.
#[derive(Debug)]
pub struct AgreementOutcome {
    /// The seed.
    pub seed: u64,
    /// A hash of all that happened, in order.
    pub trace_hash: u64,
    /// Counts.
    pub tally: AgreementTally,
    /// None: it passed.
    pub failure: Option<Failure>,
}

/// Runs a seed. A panic of what is simulated is a failure like any other.
pub fn run(seed: u64, planted: Option<Planted>, trace_lines: usize) -> AgreementOutcome {
    let mut world = World::new(seed, planted, trace_lines);
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run()));
    let checked = checked.unwrap_or_else(|panic| Err(crate::words(&*panic)));
    let (trace_hash, tally) = (world.trace.hash(), world.tally);
    let failure = checked.err().map(|why| Failure { why, trace: world.trace.into_lines() });
    AgreementOutcome { seed, trace_hash, tally, failure }
}
