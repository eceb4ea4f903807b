//! The state of a node at one moment, as metrics are written from it.

use super::figures::Figures;
use crate::node::{Node, Turns, Which, Writing};
use crate::response::Response;
use base::id::QueueId;
use broker::catalog::QueueDefinition;
use broker::{ConnectionRow, ConnectionSums, DEAD_LETTER_STRATEGIES, OpenSums, Opened, Survey};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Strategies for dead letters, as labels have them.
pub(super) const STRATEGIES: [&str; DEAD_LETTER_STRATEGIES] = ["disabled", "at_most_once", "at_least_once"];

/// Where objects are told of one by one, or added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    Sums,
    Each,
}

/// The state of a node at one moment.
pub(super) struct Facts {
    pub(super) survey: Survey,
    /// Each queue, where each is told of; so are these.
    pub(super) queues: Vec<(Arc<QueueDefinition>, Figures)>,
    pub(super) connections: Vec<ConnectionRow>,
    pub(super) opened: Vec<(u16, Opened)>,
    /// All of them together.
    pub(super) sums: Sums,
    pub(super) writing: Writing,
    pub(super) turns: Vec<Turns>,
    pub(super) detail: Detail,
}

/// All queues and connections together.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) queues: usize,
    pub(super) of_queues: Figures,
    /// Of streams, the offsets that come next.
    pub(super) ends: BTreeMap<QueueId, u64>,
    pub(super) open: OpenSums,
}

impl Sums {
    fn add_queue(&mut self, id: QueueId, own: &Figures) {
        self.queues += 1;
        self.of_queues.add(own);
        if let Some([_, end]) = own.stream {
            self.ends.insert(id, end);
        }
    }
}

/// The share of one connection in the sums.
pub(super) fn of_connection(row: &ConnectionRow) -> ConnectionSums {
    let ConnectionRow { channels, received, sent, calls, .. } = *row;
    ConnectionSums { connections: 1, channels, received, sent, calls }
}

impl Facts {
    pub(super) fn gather<N: Node>(node: &N, detail: Detail) -> Result<Facts, Response> {
        let mut facts = Facts {
            survey: node.survey()?,
            queues: Vec::new(),
            connections: Vec::new(),
            opened: Vec::new(),
            sums: Sums::default(),
            writing: node.writing(),
            turns: node.turns()?,
            detail,
        };
        match detail {
            Detail::Sums => {
                let sums = &mut facts.sums;
                node.each_queue(Which::All, |row| sums.add_queue(row.definition.id, &Figures::of(row)))?;
                sums.open = node.open_sums()?;
            }
            Detail::Each => {
                let queues = &mut facts.queues;
                node.each_queue(Which::All, |row| queues.push((row.definition.clone(), Figures::of(row))))?;
                facts.connections = node.connections()?;
                facts.connections.retain(|row| !row.user.is_empty());
                facts.opened = node.opened()?;
                facts.add_up();
            }
        }
        Ok(facts)
    }

    /// Sums are those of the objects that are told one by one.
    pub(super) fn add_up(&mut self) {
        let mut sums = Sums::default();
        self.queues.iter().for_each(|(queue, own)| sums.add_queue(queue.id, own));
        self.connections.iter().for_each(|row| sums.open.connections.merge(&of_connection(row)));
        self.opened.iter().for_each(|(_, opened)| sums.open.add(opened));
        self.sums = sums;
    }
}
