//! Processor time that replicas take: idle, by how many logs there are, and for each entry, one at a time and many.
//!
//! Three nodes in this thread; messages and flushes take no time of their own, so what is told is the engine's, with all three
//! nodes together.

#![allow(clippy::disallowed_methods, reason = "what is measured is real time")]

use base::id::{LogId, LogIndex, NodeNo};
use base::{Buffer, Now};
use consensus::{Consensus, Content, Output, Recovered, ReplicaId, Role, Settings};
use journal::Batch;
use std::collections::BTreeSet;
use std::time::Instant;

/// Milliseconds that idle replicas are watched.
const IDLE_MS: u64 = 60_000;

struct Bed {
    nodes: Vec<Consensus>,
    now_ms: u64,
    messages: u64,
    turns: u64,
    /// Where the records of the first log end, as its leader proposes them, and how many entries with records are agreed on there.
    end: LogIndex,
    agreed: u64,
}

impl Bed {
    fn new(logs: u32) -> Bed {
        let now = Now::at_ms(0);
        let replica = |node: usize| ReplicaId::new(NodeNo(node as u16 + 1), 0);
        let mut nodes: Vec<Consensus> =
            (0..3).map(|node| Consensus::new(Settings::default(), node + 1, false, now)).collect();
        for (at, node) in nodes.iter_mut().enumerate() {
            for log in 0..logs {
                node.open(LogId(log), replica(at), Recovered::default()).expect("a new log");
            }
        }
        let mut bed = Bed { nodes, now_ms: 0, messages: 0, turns: 0, end: LogIndex(0), agreed: 0 };
        bed.settle();
        let voters: BTreeSet<ReplicaId> = (0..3).map(replica).collect();
        for log in 0..logs {
            bed.nodes[log as usize % 3].found(LogId(log), voters.clone());
        }
        while bed.nodes.iter().flat_map(|node| (0..logs).filter(|log| leads(node, *log))).count()
            < logs as usize
        {
            bed.pass(20);
        }
        bed
    }

    /// All that can be done at this time.
    fn settle(&mut self) {
        loop {
            let mut is_still = true;
            for at in 0..self.nodes.len() {
                let mut output = Output::default();
                self.nodes[at].turn(Now::at_ms(self.now_ms), &mut output);
                self.turns += 1;
                is_still &= output.messages.is_empty() && output.writes.is_empty();
                self.messages += output.messages.len() as u64;
                for message in output.messages {
                    self.nodes[usize::from(message.to.node().0) - 1].receive(message);
                }
                for (log, _) in output.writes {
                    self.nodes[at].written(log, 1);
                }
                let batches = output
                    .agreed
                    .iter()
                    .filter(|(log, entry)| *log == LogId(0) && matches!(entry.content, Content::Batch(_)));
                self.agreed += batches.count() as u64;
            }
            if is_still {
                return;
            }
        }
    }

    fn pass(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        while self.now_ms < end {
            let next = self.nodes.iter().filter_map(Consensus::deadline).min().unwrap_or(u64::MAX);
            self.now_ms = (next / 1_000_000).clamp(self.now_ms + 1, end);
            self.settle();
        }
    }

    /// Proposes so many entries of 1 KiB at once, and waits until all have them.
    fn propose(&mut self, count: u64) {
        let leader = self.nodes.iter().position(|node| leads(node, 0)).expect("a leader");
        let Some(Role::Leads { term }) = self.nodes[leader].role(LogId(0)) else { return };
        for _ in 0..count {
            let mut batch = Batch::new(LogId(0), self.end, Buffer::default());
            batch.records().extend(&[7; 1024]);
            let sealed = batch.seal(0);
            self.end = sealed.next();
            self.nodes[leader].propose(LogId(0), term, sealed);
        }
        let wanted = self.agreed + 3 * count;
        while self.agreed < wanted {
            self.settle();
            if self.agreed < wanted {
                self.pass(20);
            }
        }
    }
}

fn leads(node: &Consensus, log: u32) -> bool {
    matches!(node.role(LogId(log)), Some(Role::Leads { .. }))
}

fn main() {
    for logs in [1, 12, 24, 64, 96] {
        let mut bed = Bed::new(logs);
        bed.pass(1000);
        (bed.messages, bed.turns) = (0, 0);
        let began = Instant::now();
        bed.pass(IDLE_MS);
        let seconds = IDLE_MS as f64 / 1000.0;
        let part = began.elapsed().as_secs_f64() / seconds / 3.0 * 100.0;
        let (messages, turns) = (bed.messages as f64 / seconds, bed.turns as f64 / seconds / 3.0);
        println!(
            "{logs:3} logs idle: {part:.2} % of a core each node; {messages:.0} messages, {turns:.0} turns of a node a second"
        );
    }
    for at_once in [1, 4, 64] {
        let mut bed = Bed::new(1);
        bed.propose(1000);
        let (began, rounds) = (Instant::now(), 20_000 / at_once);
        (0..rounds).for_each(|_| bed.propose(at_once));
        let us = began.elapsed().as_secs_f64() * 1e6 / (rounds * at_once) as f64;
        println!("{at_once:3} entries at once: {us:.1} us an entry on three nodes together");
    }
}
