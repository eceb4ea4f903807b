//! The view of a log for those who agree on it between nodes: the batches it proposes, and the state that is the same in each
//! replica.

use super::Logs;
use crate::log::{Commons, NO_QUEUE, visiting};
use base::id::{LogId, LogIndex, NodeNo, QueueId};
use journal::Sealed;
use message::record::Origin;
use std::collections::BTreeMap;

impl Logs {
    /// The batches of a log that this node proposes, in order: written or being written, and not agreed on; and whether each
    /// is on this node's disk.
    pub fn proposed(&self, log: LogId) -> impl Iterator<Item = (&Sealed, bool)> {
        self.get(log).into_iter().flat_map(|log| log.commons.pipeline.proposed())
    }

    /// Everything before this is applied to the machines of a log that lives here.
    pub fn applied(&self, log: LogId) -> Option<LogIndex> {
        self.get(log).map(|log| log.commons.pipeline.applied())
    }

    /// Everything before this is committed in a log that lives here.
    pub fn committed(&self, log: LogId) -> Option<LogIndex> {
        self.get(log).map(|log| log.commons.pipeline.committed())
    }

    /// This node proposes the records of a log that lives here, and owns its queues.
    pub fn leads(&self, log: LogId) -> bool {
        self.get(log).is_some_and(|log| log.commons.pipeline.leads())
    }

    /// Commands wait here for a leader, or for messages in front of them.
    pub fn has_parked(&self) -> bool {
        self.every().any(|log| !log.commons.agenda.parked.is_empty())
    }

    /// This node begins one of its lives, which is later than all before: what it brings to logs of other nodes is known by
    /// that. `others` have its logs on disk too.
    pub fn begin_life(&mut self, origin: Origin, others: &[NodeNo]) {
        self.all.iter_mut().for_each(|log| visiting::begin_life(log, origin, others));
    }

    /// The things that wait here for the nodes that lead logs, in words, for those who look for what went wrong.
    pub fn waiting_in_words(&self) -> String {
        let with =
            self.all.iter().filter(|log| log.commons.peers.is_some() && log.commons.pipeline.bytes() > 0);
        let each = with.map(|log| {
            let Commons { id, pipeline, peers, .. } = &log.commons;
            format!("{id:?}: {} {:?}", pipeline.in_words(), peers)
        });
        each.collect::<Vec<_>>().join("; ")
    }

    /// Another node leads a log that lives here, as far as is known; none: nobody, or this one.
    pub fn heed_leader(&mut self, log: LogId, leader: Option<NodeNo>) {
        if let Some(peers) = self.get_mut(log).and_then(|log| log.commons.peers.as_mut()) {
            peers.heed_leader(leader);
        }
    }

    /// A batch of a log that lives here may be taken back: others have to agree on it.
    pub fn is_agreed_on(&self, log: LogId) -> bool {
        self.get(log).is_some_and(|log| log.commons.pipeline.is_agreed_on())
    }

    /// No message of a log that was moved to a segment came at this index or behind it.
    pub fn moved_below(&self, log: LogId) -> LogIndex {
        let queues = self.get(log).into_iter().flat_map(|log| log.machines.queues());
        let firsts = queues.filter_map(|queue| queue.fifo.live_below(LogIndex(u64::MAX)).next());
        firsts.map(|(_, place)| place).min().unwrap_or(LogIndex(u64::MAX))
    }

    /// The state of each machine of a log that a record has opened, as it is in every replica that applied as much: see
    /// [`queue::Fifo::write_canonical`]. Under an id that no machine has, how far the records of each node have come.
    pub fn canonical(&self, log: LogId, from: LogIndex) -> BTreeMap<QueueId, Vec<u8>> {
        let machines = self.get(log).into_iter().flat_map(|log| log.machines.iter());
        let open = machines.filter(|placed| placed.is_open());
        let bytes = open.map(|placed| {
            let mut bytes = Vec::new();
            placed.write_canonical(from, &mut bytes);
            (placed.id(), bytes)
        });
        let origins = self.get(log).map(|log| {
            let mut bytes = Vec::new();
            log.commons.origins.write(&mut bytes);
            (NO_QUEUE, bytes)
        });
        bytes.chain(origins).collect()
    }
}
