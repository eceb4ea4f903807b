//! Several nodes at rest: all are up, and all links carry.

use crate::cluster::Cluster;
use crate::oracle::Check;
use crate::world::World;
use broker::QueueRow;

impl World {
    /// All nodes lose their power at once.
    pub fn crash_all(&mut self) -> Check {
        let nodes = self.cluster.as_ref().map_or(1, Cluster::nodes);
        for number in 0..nodes {
            self.visit(number);
            if !self.is_down() {
                self.crash(None)?;
            }
        }
        Ok(())
    }

    /// A round of a world that rests, for each node. False: one went down.
    pub fn round(&mut self, crashes: u64) -> Result<bool, String> {
        let Some(cluster) = &mut self.cluster else { return self.round_of_node(crashes) };
        cluster.rounds += 1;
        let nodes = cluster.nodes();
        for number in 0..nodes {
            self.visit(number);
            self.bring_messages();
            if self.is_down() {
                self.come_up()?;
            }
            if !self.round_of_node(crashes)? {
                return Ok(false);
            }
        }
        self.compare()?;
        Ok(true)
    }

    /// Why the nodes do not rest; none: none has anything to do, and all have applied the same.
    pub fn unrest(&mut self) -> Option<String> {
        let Some(cluster) = &self.cluster else {
            return (!self.node.is_idle(self.now)).then(|| "it has work".to_owned());
        };
        let (nodes, logs) = (cluster.nodes(), cluster.logs.clone());
        for number in 0..nodes {
            self.visit(number);
            if let Some(work) = self.node.work(self.now) {
                return Some(format!("n{number} has {work} ({})", self.node.waiting_in_words()));
            }
            let reasons = [
                (self.node.has_unwritten(), "has records that are not agreed on"),
                (self.node.has_parked(), "has commands that wait"),
                (!self.node.has_quiet_replicas(), "has replicas that wait for it"),
            ];
            if let Some((_, reason)) = reasons.iter().find(|(holds, _)| *holds) {
                return Some(format!("n{number} {reason} ({})", self.node.waiting_in_words()));
            }
        }
        logs.iter().find_map(|log| {
            let all: Vec<_> = self.all_nodes().map(|(node, _)| node.agreed(*log)).collect();
            let leaders: Vec<_> =
                self.all_nodes().filter(|(node, _)| node.leads(*log)).map(|(_, it)| it.number).collect();
            let is_same = all.windows(2).all(|two| two[0] == two[1]);
            (leaders.len() != 1 || !is_same)
                .then(|| format!("{log:?} is led by {leaders:?}, and goes to {all:?}"))
        })
    }

    /// All queues, each as the node that leads it has it.
    pub fn rows(&self) -> Vec<QueueRow> {
        if self.cluster.is_none() {
            return self.node.queues();
        }
        let rows = self.all_nodes().flat_map(|(node, _)| {
            let rows = node.queues().into_iter();
            rows.filter(|row| node.leads(row.definition.log))
        });
        let mut rows: Vec<QueueRow> = rows.collect();
        rows.sort_by(|one, other| one.definition.name.cmp(&other.definition.name));
        rows
    }

    /// All faults of nodes and links end for a rest.
    pub fn heal_all(&mut self) {
        let Some(cluster) = &mut self.cluster else { return self.heal() };
        cluster.links.end_faults();
        cluster.is_calm = true;
        let nodes = cluster.nodes();
        for number in 0..nodes {
            self.visit(number);
            self.heal();
            if let Some(cluster) = &mut self.cluster {
                cluster.here.still_until = 0;
            }
        }
    }

    /// Messages are late and lost again, as before a rest.
    pub fn begin_link_faults(&mut self) {
        if let Some(cluster) = &mut self.cluster {
            cluster.links.begin_faults();
            cluster.is_calm = false;
        }
    }

    /// Some node has faults that end with a crash.
    pub fn end_faults(&mut self) -> Check {
        let nodes = self.cluster.as_ref().map_or(1, Cluster::nodes);
        for number in 0..nodes {
            self.visit(number);
            while self.has_faults && !self.is_lost {
                self.crash(None)?;
                if self.cluster.is_some() {
                    self.come_up()?;
                }
            }
        }
        Ok(())
    }
}
