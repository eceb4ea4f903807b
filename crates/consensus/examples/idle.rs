//! Elections among three idle replicas, in hours of virtual time: there should be none.
//!
//! `idle HOURS LOGS SEED`. Messages take 50 us to 20 ms, and overtake each other; what is journaled is on disk 200 us to 20 ms
//! later.

use base::id::{LogId, NodeNo};
use base::{Now, Random};
use consensus::{Consensus, Message, Output, Recovered, ReplicaId, Role, Settings, Write};
use std::collections::{BTreeMap, BTreeSet};

const HOUR_US: u64 = 3_600_000_000;

/// The time in which leaders come to be.
const BEGIN_US: u64 = 10_000_000;

enum Event {
    Arrives(usize, Box<Message>),
    Written(usize, LogId),
}

struct Bed {
    nodes: Vec<Consensus>,
    now_us: u64,
    dice: Random,
    events: BTreeMap<(u64, u64), Event>,
    numbers: u64,
    /// When the writes of each node that are under way are on disk: one after the other.
    disk_at: Vec<u64>,
    wakes: Vec<u64>,
    votes: u64,
    leaders: u64,
    messages: u64,
}

fn replica(node: usize) -> ReplicaId {
    ReplicaId::new(NodeNo(node as u16 + 1), 0)
}

impl Bed {
    fn new(logs: u32, seed: u64) -> Bed {
        let now = Now::at_ms(0);
        let of = |node| Consensus::new(Settings::default(), seed * 3 + node, true, now);
        let mut nodes: Vec<Consensus> = (0..3).map(of).collect();
        for (at, node) in nodes.iter_mut().enumerate() {
            for log in 0..logs {
                node.open(LogId(log), replica(at), Recovered::default()).expect("a new log");
            }
        }
        Bed {
            nodes,
            now_us: 0,
            dice: Random::new(seed),
            events: BTreeMap::new(),
            numbers: 0,
            disk_at: vec![0; 3],
            wakes: vec![0; 3],
            votes: 0,
            leaders: 0,
            messages: 0,
        }
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.numbers += 1;
        self.events.insert((at, self.numbers), event);
    }

    fn turn(&mut self, at: usize) {
        let now = Now { mono_ns: self.now_us * 1000, wall_ms: self.now_us / 1000 };
        let mut output = Output::default();
        self.nodes[at].turn(now, &mut output);
        for message in output.messages {
            self.messages += 1;
            let delay = self.dice.between(50, 20_000);
            let to = usize::from(message.to.node().0) - 1;
            self.schedule(self.now_us + delay, Event::Arrives(to, Box::new(message)));
        }
        for (log, write) in output.writes {
            self.votes += u64::from(matches!(write, Write::Vote(_)));
            let begin = self.disk_at[at].max(self.now_us);
            self.disk_at[at] = begin + self.dice.between(200, 20_000);
            self.schedule(self.disk_at[at], Event::Written(at, log));
        }
        let leads = output.roles.iter().filter(|(_, role)| matches!(role, Role::Leads { .. }));
        self.leaders += leads.count() as u64;
        let deadline = self.nodes[at].deadline().map_or(u64::MAX, |ns| ns.div_ceil(1000));
        self.wakes[at] = deadline.max(self.now_us + 1);
    }

    fn run_to(&mut self, end_us: u64) {
        while self.now_us < end_us {
            let (waker, wakes) =
                (0..3).map(|at| (at, self.wakes[at])).min_by_key(|(_, at)| *at).expect("three");
            let next = self.events.first_key_value().map(|((at, _), _)| *at);
            match next.filter(|at| *at <= wakes) {
                Some(at) => {
                    self.now_us = at;
                    let Some((_, event)) = self.events.pop_first() else { return };
                    let node = match event {
                        Event::Arrives(node, message) => {
                            self.nodes[node].receive(*message);
                            node
                        }
                        Event::Written(node, log) => {
                            self.nodes[node].written(log, 1);
                            node
                        }
                    };
                    self.turn(node);
                }
                None => {
                    self.now_us = wakes;
                    self.turn(waker);
                }
            }
        }
    }
}

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let mut next = |instead| words.next().and_then(Result::ok).unwrap_or(instead);
    let (hours, logs, seed) = (next(1), next(1) as u32, next(1));
    let mut bed = Bed::new(logs, seed);
    (0..3).for_each(|at| bed.turn(at));
    let voters: BTreeSet<ReplicaId> = (0..3).map(replica).collect();
    for log in 0..logs {
        bed.nodes[log as usize % 3].found(LogId(log), voters.clone());
    }
    (0..3).for_each(|at| bed.turn(at));
    bed.run_to(BEGIN_US);
    let (votes, leaders) = (bed.votes, bed.leaders);
    println!("{leaders} leaders of {logs} logs after {} s", BEGIN_US / 1_000_000);
    bed.run_to(BEGIN_US + hours * HOUR_US);
    let (votes, leaders) = (bed.votes - votes, bed.leaders - leaders);
    println!("{hours} hours, {} messages: {votes} promises, {leaders} leaders", bed.messages);
    assert!(votes == 0 && leaders == 0, "there were elections");
}
