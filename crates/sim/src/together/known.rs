//! The catalogs of several nodes as clients find them.

use crate::client::{Target, exchange_name, queue_name};
use crate::machine::Machine;
use crate::oracle::Check;
use crate::seat::node_no;
use crate::world::World;
use base::time::NS_PER_MS;
use std::collections::BTreeSet;

impl World {
    fn node_of(&self, number: usize) -> Option<&Machine> {
        self.all_nodes().find(|(_, standing)| standing.number == number).map(|(node, _)| node)
    }

    /// The number of the node that the client at `at` is connected to.
    fn home_of(&mut self, at: usize) -> Option<usize> {
        let line = self.clients[at].as_ref()?.line();
        Some(self.net.line(line).home)
    }

    /// A queue is declared for the first time.
    pub fn note_declared(&mut self, queue: usize) {
        let now_ns = self.now.mono_ns;
        if let Some(cluster) = &mut self.cluster {
            cluster.declared_at.entry(queue).or_insert(now_ns);
        }
    }

    /// The node of the client at `at` has heard of all that a message to `target` is for.
    pub fn knows_way(&mut self, at: usize, target: Target) -> bool {
        if self.cluster.is_none() {
            return true;
        }
        let Some(node) = self.home_of(at).and_then(|home| self.node_of(home)) else { return false };
        match target {
            Target::Queue(queue) => node.knows(&queue_name(queue)),
            Target::Exchange(exchange) => {
                let queues = self.oracle.bound_to(exchange);
                queues.iter().all(|queue| node.knows_binding(&exchange_name(exchange), &queue_name(*queue)))
            }
            Target::Stream(_) => true,
        }
    }

    /// The client at `at` hears that a queue is there: all nodes have it that live, unless they had time to come to know of it.
    pub fn is_known(&mut self, at: usize, queue: usize) -> Check {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let Some(since) = cluster.declared_at.get(&queue).copied() else { return Ok(()) };
        let waits_ns = self.makeup.limits.seen_wait_ms_max * NS_PER_MS;
        if since + waits_ns <= self.now.mono_ns {
            return Ok(());
        }
        let Some(home) = self.home_of(at) else { return Ok(()) };
        let Some(asker) = self.node_of(home) else { return Ok(()) };
        for (node, standing) in self.all_nodes() {
            let is_excused = standing.up_at.is_some()
                || !node.planning().is_caught_up()
                || asker.planning().was_silent(node_no(standing.number), since);
            if !is_excused && !node.knows(&queue_name(queue)) {
                let number = standing.number;
                return Err(format!("q{queue} is declared at n{home}, and n{number} does not know of it"));
            }
        }
        Ok(())
    }

    /// Answers to an administrator at the node that is looked at.
    pub fn take_answers(&mut self) -> Check {
        let World { cluster: Some(cluster), node, trace, tally, .. } = self else { return Ok(()) };
        for (token, answer) in node.answers.drain(..) {
            trace.note(format!("n{} answers {token}: {answer:?}", cluster.here.number));
            cluster.users.answered(cluster.here.number, token, &answer)?;
            tally.administered += 1;
        }
        Ok(())
    }

    /// All nodes rest: their catalogs are the same, in all shards, and say what is there.
    pub fn doubts_end(&mut self) -> Check {
        if self.cluster.is_none() {
            return Ok(());
        }
        for (node, standing) in self.all_nodes() {
            if !node.has_one_catalog() {
                return Err(format!("shards of n{} have other catalogs", standing.number));
            }
        }
        let there: BTreeSet<usize> =
            (0..self.oracle.queues.len()).filter(|queue| self.node.knows(&queue_name(*queue))).collect();
        if let Some(cluster) = &mut self.cluster {
            let catalog = self.node.planning().catalog();
            cluster.users.doubts_end(|name| catalog.user(name).is_some())?;
        }
        self.oracle.doubts_end(&there)
    }
}
