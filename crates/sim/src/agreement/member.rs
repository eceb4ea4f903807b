//! A node of the bed: its replicas, its disk, its clock.

use super::disk::Disk;
use super::state::State;
use base::Now;
use base::id::{LogId, LogIndex, NodeNo};
use consensus::{Consensus, ReplicaId, Role};
use std::collections::{BTreeMap, BTreeSet};

/// A log, as its replica here has it.
#[derive(Debug, Default)]
pub struct Hosted {
    /// Applied.
    pub state: State,
    /// The term in which it leads, and where its next proposal begins.
    pub leads: Option<(u64, LogIndex)>,
    /// Numbers of what it proposed in this life, and nobody was told.
    pub unconfirmed: BTreeSet<u64>,
}

/// See the module.
#[derive(Debug)]
pub struct Member {
    /// Its number.
    pub node: NodeNo,
    /// None: it is down.
    pub consensus: Option<Consensus>,
    /// Its logs, while it is up.
    pub logs: BTreeMap<LogId, Hosted>,
    /// The part that outlives it.
    pub disk: Disk,
    /// How often it came up.
    pub life: u64,
    /// It does nothing before, microseconds of the bed.
    pub still_until: u64,
    /// When it is woken next, microseconds of the bed.
    pub wakes_at: Option<u64>,
    /// Its clock is ahead by so many microseconds, and runs so many millionths faster.
    pub clock: (u64, u64),
}

impl Member {
    /// A node that is down.
    pub fn new(node: NodeNo, clock: (u64, u64), disk: Disk) -> Member {
        Member {
            node,
            consensus: None,
            logs: BTreeMap::new(),
            disk,
            life: 0,
            still_until: 0,
            wakes_at: None,
            clock,
        }
    }

    /// Its replica of any log.
    pub fn replica(&self) -> ReplicaId {
        ReplicaId::new(self.node, 0)
    }

    /// Its time at a time of the bed.
    pub fn time(&self, at: u64) -> Now {
        let (ahead, faster) = self.clock;
        let us = ahead + at + at / 1_000_000 * faster + at % 1_000_000 * faster / 1_000_000;
        Now { mono_ns: us * 1000, wall_ms: us / 1000 }
    }

    /// The time of the bed at which its clock shows so many nanoseconds, or a little later.
    pub fn bed_time(&self, mono_ns: u64, at: u64) -> u64 {
        let now = self.time(at).mono_ns;
        // A slower guess is woken again; the clocks differ by less than this.
        at + mono_ns.saturating_sub(now).div_ceil(1000) + 1
    }

    /// Whether it leads a log, as it knows.
    pub fn leads(&self, log: LogId) -> bool {
        let Some(consensus) = &self.consensus else { return false };
        matches!(consensus.role(log), Some(Role::Leads { .. }))
    }
}
