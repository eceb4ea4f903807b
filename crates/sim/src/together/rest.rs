//! Several nodes at rest: all are up, all links carry, and each led each log for a while if anything waits for that.

use crate::cluster::Cluster;
use crate::oracle::Check;
use crate::seat::replica_of;
use crate::world::World;
use broker::QueueRow;

/// Rounds for which a node leads what clients of it wait for.
const LEADS_ROUNDS: u64 = 40;

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
            self.hand_on();
        }
        self.compare()?;
        Ok(true)
    }

    /// In a rest each node leads each log in turn, so that what waits at it is done; or one leads all of them.
    fn hand_on(&mut self) {
        let World { cluster: Some(cluster), now, node, .. } = self else { return };
        if !cluster.rounds.is_multiple_of(LEADS_ROUNDS) {
            return;
        }
        let turn = (cluster.rounds / LEADS_ROUNDS) as usize % cluster.nodes();
        let to = cluster.wanted.unwrap_or(turn);
        for log in cluster.logs.iter().filter(|_| to != cluster.here.number) {
            if node.leads(*log) {
                node.transfer(*now, *log, replica_of(to));
            }
        }
        self.send_messages();
        self.note_roles();
    }

    /// Why the nodes do not rest; none: none has anything to do, and all have applied the same.
    pub fn unrest(&mut self) -> Option<String> {
        let Some(cluster) = &self.cluster else {
            return (!self.node.is_idle(self.now)).then(|| "it has work".to_owned());
        };
        let (nodes, logs, wanted) = (cluster.nodes(), cluster.logs.clone(), cluster.wanted);
        for number in 0..nodes {
            self.visit(number);
            let may_lead = wanted.is_none_or(|wanted| wanted == number);
            let reasons = [
                (!self.node.is_idle(self.now), "has work"),
                // Where one node leads, what others noted last stays with them: that something expired, or came back.
                (may_lead && self.node.has_unwritten(), "has records that are not agreed on"),
                (self.node.has_parked(), "has commands that wait"),
                (!self.node.has_quiet_replicas(), "has replicas that wait for it"),
            ];
            if let Some((_, reason)) = reasons.iter().find(|(holds, _)| *holds) {
                return Some(format!("n{number} {reason}"));
            }
        }
        logs.iter().find_map(|log| {
            let all: Vec<_> = self.all_nodes().map(|(node, _)| node.agreed(*log)).collect();
            let leaders: Vec<_> =
                self.all_nodes().filter(|(node, _)| node.leads(*log)).map(|(_, it)| it.number).collect();
            let is_led = leaders.len() == 1 && wanted.is_none_or(|wanted| leaders[0] == wanted);
            let is_same = all.windows(2).all(|two| two[0] == two[1]);
            (!is_led || !is_same).then(|| format!("{log:?} is led by {leaders:?}, and goes to {all:?}"))
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

    /// This node is to lead all logs; none: each in turn, as it comes.
    pub fn want_leader(&mut self, number: Option<usize>) {
        if let Some(cluster) = &mut self.cluster {
            cluster.wanted = number;
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
