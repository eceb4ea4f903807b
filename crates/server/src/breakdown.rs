//! Use of memory by pool, in RabbitMQ's names.
//!
//! Each pool is measured by itself: the broker's own are counted where they are, the rest the kernel and the C library
//! tell. None is what the others leave, so that what nothing accounts for can be seen: it is `other_system`. The broker's
//! are asked for a few things at a time, and shards go on between.

use crate::alarm::Meter;
use crate::clock::Clock;
use crate::config::Config;
use crate::door::{Door, Room};
use crate::heap;
use crate::manager::LOOK_NS;
use crate::pages;
use base::Quantum;
use broker::ListedTo;
use broker::catalog::Weighed;
use std::collections::BTreeMap;
use std::time::Duration;

/// Connections, and queues, of which a shard counts the memory in one turn.
const COUNTED_TURN: usize = 500;

/// The pool of memory that no other pool accounts for.
const REST: &str = "other_system";

/// The pool of filters, compiled: of bindings, and of consumers; and of the steps that regular expressions met.
pub const FILTERS: &str = "filters";

/// Bytes by their use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// By pool, [`REST`] among them.
    pub pools: BTreeMap<&'static str, u64>,
    /// Bytes in use by the broker and the program, as far as they are accounted for.
    pub in_use: u64,
    /// The same, with the free bytes in heaps.
    pub allocated: u64,
    /// Bytes of the process that are resident.
    pub resident: u64,
}

/// How far a shard is with counting.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The memory of the shard itself, counted once.
    Shard,
    Connections(u32),
    Queues(ListedTo),
    /// Filters of bindings: each shard has its own, of so many exchanges.
    Filters(usize),
    /// The memory of definitions is shared by all shards: the first shard counts it.
    Catalog(Weighed),
}

/// Measures memory by pool. `more` are pools counted outside of shards. None: a shard did not answer in time.
pub fn measure(
    doors: &[Door],
    config: &Config,
    (clock, patience): (Clock, Duration),
    more: &[(&'static str, u64)],
) -> Option<Breakdown> {
    let mut pools = BTreeMap::new();
    let mut add = |counted: &[(&'static str, u64)]| {
        counted.iter().for_each(|(pool, bytes)| *pools.entry(*pool).or_default() += bytes);
    };
    add(more);
    for door in doors {
        let mut next = Some(Step::Shard);
        while let Some(step) = next {
            let (counted, then) = door.visit(patience, move |room| count(room, step, clock))?;
            add(&counted);
            next = then;
        }
    }
    let resident = pages::resident();
    add(&[("code", resident.files), ("other_proc", resident.stacks)]);
    let in_use = pools.values().sum();
    // Some free pages were given back to the system, which the C library does not take off: what is in memory counts.
    pools.insert("allocated_unused", resident.heaps.saturating_sub(heap::in_use_bytes()));
    let allocated = pools.values().sum();
    let resident = Meter::new(&config.data_dir).sample().map_or(0, |sample| sample.memory_used);
    pools.insert(REST, resident.saturating_sub(allocated));
    Some(Breakdown { pools, in_use, allocated, resident })
}

/// A part of a shard's memory, and where to go on.
fn count(room: &Room<'_>, step: Step, clock: Clock) -> (Vec<(&'static str, u64)>, Option<Step>) {
    let now = || clock.mono_ns();
    let quantum = &mut Quantum::new(COUNTED_TURN, LOOK_NS, &now);
    match step {
        Step::Shard => {
            let mut pools = room.shard.memory_pools().to_vec();
            pools.push(("connection_readers", room.loop_bytes as u64));
            (pools, Some(Step::Connections(0)))
        }
        Step::Connections(from) => {
            let (bytes, next) = room.front.memory_from(from, quantum);
            let to = next.map_or(room.sockets.len(), |next| next as usize);
            let sockets = room.sockets.get(from as usize..to).unwrap_or_default().iter().flatten();
            let tails: usize = sockets.map(|socket| socket.heap_bytes()).sum();
            let pools = vec![
                ("connection_readers", tails as u64),
                ("connection_writers", bytes.output as u64),
                ("connection_channels", bytes.own as u64),
            ];
            (pools, Some(next.map_or(Step::Queues(ListedTo::default()), Step::Connections)))
        }
        Step::Queues(from) => {
            let (bytes, next) = room.shard.listing().bytes_from(from, quantum);
            let then = match next {
                Some(next) => Step::Queues(next),
                None => Step::Filters(0),
            };
            (vec![("queue_procs", bytes as u64)], Some(then))
        }
        Step::Filters(from) => {
            let (bytes, next) = room.shard.filters_bytes_from(from, quantum);
            let then = next.map_or(Step::Catalog(Weighed::default()), Step::Filters);
            (vec![(FILTERS, bytes as u64)], Some(then))
        }
        Step::Catalog(_) if room.id.0 != 0 => {
            (vec![("metadata_store", room.shard.catalog().tables_bytes() as u64)], None)
        }
        Step::Catalog(from) => {
            let (bytes, next) = room.shard.catalog().memory_bytes_from(from, quantum);
            let planned = if next.is_none() { room.shard.planned_bytes() } else { 0 };
            (vec![("metadata_store", (bytes + planned) as u64)], next.map(Step::Catalog))
        }
    }
}
