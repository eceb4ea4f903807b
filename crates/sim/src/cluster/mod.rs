//! Several nodes that agree on all logs: the others beside the one that is looked at, and what is under way
//! between them. The world looks at one node at a time; the others wait here.

mod links;
mod users;

use crate::machine::{Machine, Makeup};
use crate::seat::Seat;
use base::Random;
use base::id::LogId;
use consensus::Vote;
use journal::FaultyDisk;
use links::Links;
pub use links::{Brought, Sent};
use std::collections::BTreeMap;
use users::Users;

/// How it is with a node, besides what is on its disk and in its memory.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// Its number, from 0.
    pub number: usize,
    /// It is down, and comes up then; monotonic nanoseconds.
    pub up_at: Option<u64>,
    /// It does nothing before; monotonic nanoseconds.
    pub still_until: u64,
    /// How often it began to lead a log, or ceased to, in this life.
    pub changes: u64,
    /// The logs that it hands messages out of: a bit for each, in the order of [`Cluster::logs`].
    pub leading: u64,
    /// The number of this life.
    pub life: u64,
}

impl Standing {
    /// That of a node that has just come up, for the first time.
    pub fn new(number: usize) -> Standing {
        Standing { number, up_at: None, still_until: 0, changes: 0, leading: 0, life: 1 }
    }
}

/// A node that is not looked at.
#[derive(Debug)]
pub struct Site {
    /// Its disk.
    pub disk: FaultyDisk,
    /// The node.
    pub node: Machine,
    /// Something on its disk may fail from here to its next crash.
    pub has_faults: bool,
    /// How it is with it.
    pub standing: Standing,
}

/// See the module.
#[derive(Debug)]
pub struct Cluster {
    /// The node that is looked at.
    pub here: Standing,
    /// The others.
    pub others: Vec<Site>,
    /// Between all of them.
    pub links: Links,
    /// Logs there are.
    pub logs: Vec<LogId>,
    /// How fast time goes by: fast, and leaders come and go; slowly, and much is done under each.
    pub pace: u64,
    /// One in so many times something fails that could.
    pub peace: u64,
    /// The latest term in which each log was led.
    pub terms: BTreeMap<LogId, u64>,
    /// The last promise on the disk of each node, of each log.
    pub promises: BTreeMap<(usize, LogId), Vote>,
    /// Rounds of a rest so far.
    pub rounds: u64,
    /// The nodes rest: no start of one fails.
    pub is_calm: bool,
    /// Those that an administrator makes.
    pub users: Users,
    /// When each queue was first declared, by number, monotonic nanoseconds.
    pub declared_at: BTreeMap<usize, u64>,
    /// How often two nodes were compared.
    pub compared: u64,
    /// How often nodes began to lead a log.
    pub led: u64,
}

impl Cluster {
    /// The nodes beside the first, none of which has begun so far.
    ///
    /// # Errors
    /// One does not start.
    pub fn new(makeup: &Makeup, nodes: usize, world: (base::Now, &mut Random)) -> Result<Cluster, String> {
        let (now, dice) = world;
        let mut others = Vec::new();
        for number in 1..nodes {
            let disk = FaultyDisk::new(dice.bits());
            let makeup = Makeup { seat: Some(Seat { number, nodes, life: 1 }), ..makeup.clone() };
            let shards = dice.between(1, 4) as u16;
            let node = Machine::start(&disk, &makeup, shards, now, dice, &mut Vec::new());
            let node = node.map_err(|stop| stop.0)?;
            others.push(Site { disk, node, has_faults: false, standing: Standing::new(number) });
        }
        let here = Standing::new(0);
        let seated = Makeup { seat: Some(Seat { number: 0, nodes, life: 1 }), ..makeup.clone() };
        let (logs, links) = (seated.agreed().collect(), Links::roll(dice));
        Ok(Cluster {
            here,
            others,
            links,
            logs,
            pace: [1, 4, 4, 10][dice.below(4) as usize],
            peace: [1, 2, 6, 20][dice.below(4) as usize],
            terms: BTreeMap::new(),
            promises: BTreeMap::new(),
            rounds: 0,
            is_calm: false,
            users: Users::default(),
            declared_at: BTreeMap::new(),
            compared: 0,
            led: 0,
        })
    }

    /// Nodes there are.
    pub fn nodes(&self) -> usize {
        1 + self.others.len()
    }
}
