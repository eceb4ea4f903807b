//! A log's part in visits between nodes: words come and go, and what guests bring is taken.

use super::Log;
use super::foreign::Records;
use super::peers::{Brought, Peers};
use crate::limits::Limits;
use crate::mail::Waiter;
use crate::placed::Placed;
use crate::post::Post;
use crate::request::QueueCommand;
use crate::shard::CATALOG_LOG;
use crate::turn::Turn;
use crate::word::{Claim, Item, LogWord, Said};
use base::id::{LogIndex, NodeNo, PortId, QueueId};
use base::{Buffer, Now};
use message::record::{Origin, Stamp};

impl Log {
    /// The log is on other nodes too, if it is on disk. They know this one by its origin.
    pub(crate) fn begin_life(&mut self, origin: Origin, others: &[NodeNo]) {
        if self.commons.pipeline.is_durable() {
            self.commons.pipeline.outbox_mut().begin(origin);
            // Changes of the catalog go other ways.
            if self.commons.id != CATALOG_LOG {
                self.peers = Some(Box::new(Peers::new(self.commons.id, others.to_vec())));
                self.commons.pipeline.outbox_mut().begin_to_charge();
            }
        }
    }

    /// Says to other nodes what is to be said at the end of a turn; the catalog here is that of all of its log before `catalog`.
    pub(crate) fn call(&mut self, now: Now, catalog: LogIndex, limits: &Limits, post: &mut Post) {
        let Log { commons, peers: Some(peers), .. } = self else { return };
        if commons.is_stopped {
            return;
        }
        peers.turn(now, catalog, &mut commons.pipeline, (limits, post));
        let held_up = peers.guests.held_up(limits);
        for (port, queue, is_held_up) in held_up {
            self.hold_up(port, queue, is_held_up);
        }
    }

    fn hold_up(&mut self, port: PortId, queue: QueueId, is_held_up: bool) {
        if let Some(slot) = self.machines.slot(queue)
            && let Some(mut at) = self.queue_at(slot)
        {
            at.hold_up(port, is_held_up);
        }
    }

    /// Hears a word of another node about this log: what of it is still to be done.
    pub(crate) fn hear(&mut self, turn: &mut Turn<'_>, from: NodeNo, word: LogWord) -> Brought {
        let Log { commons, peers: Some(peers), .. } = self else { return Brought::Nothing };
        if commons.is_stopped {
            if matches!(word.said, Said::Come | Said::Bring { .. }) {
                turn.post.words.push((from, LogWord { said: Said::Stopped, ..word }));
            }
            return Brought::Nothing;
        }
        if commons.pipeline.follows() {
            peers.hear_leader(turn, (from, &word), &mut commons.pipeline);
            return Brought::Nothing;
        }
        let begins = !commons.pipeline.leads();
        let origin = Origin { node: from, incarnation: word.life };
        let brought = peers.hear_guest(turn, (from, word), &commons.origins, begins);
        match brought {
            Brought::Item(Item::Records { number, memory, range }) => {
                let until = self.take_records(turn, Stamp { origin, number }, Records { memory, range });
                self.took(from, until);
                Brought::Nothing
            }
            Brought::Item(Item::Claim(claim)) => {
                self.take_up(turn, &claim);
                self.took(from, LogIndex(0));
                Brought::Nothing
            }
            other => other,
        }
    }

    /// A message that a queue may refuse is asked for where the log is led, and is `None` then.
    pub(crate) fn ask_elsewhere(
        &mut self,
        record: Buffer,
        waiter: Option<Waiter>,
        needs_flush: bool,
    ) -> Option<Buffer> {
        let pipeline = &mut self.commons.pipeline;
        if self.peers.is_none() || !pipeline.follows() {
            return Some(record);
        }
        pipeline.cut();
        let records = Records { range: 0..record.len(), memory: record.seal() };
        pipeline.outbox_mut().put_ask(records, waiter, needs_flush);
        None
    }

    /// The item that a guest brought last is taken, and done once everything before `until` is applied.
    pub(crate) fn took(&mut self, from: NodeNo, until: LogIndex) {
        self.peers.iter_mut().for_each(|peers| peers.guests.took(from, until));
    }

    /// A guest's records come under this number. False: they have come before.
    pub(crate) fn is_new(&mut self, stamp: Stamp) -> bool {
        let recorded = self.commons.origins.recorded(stamp.origin);
        let Some(peers) = &mut self.peers else { return false };
        peers.guests.is_new(stamp.origin.node, stamp.number) && stamp.number > recorded
    }

    /// Records of a guest come into the log, unless they are there: where the records end that are applied once they are.
    fn take_records(&mut self, turn: &Turn<'_>, stamp: Stamp, records: Records) -> LogIndex {
        match self.is_new(stamp) {
            true => self.commons.take_in(turn.now, stamp, records),
            false => self.commons.pipeline.next(),
        }
    }

    /// Consumers go on as they were with the leader before.
    pub(crate) fn take_up_claims(&mut self, turn: &mut Turn<'_>) {
        let claims = self.peers.as_mut().map(|peers| peers.take_claims()).unwrap_or_default();
        claims.iter().for_each(|claim| self.take_up(turn, claim));
    }

    fn take_up(&mut self, turn: &mut Turn<'_>, claim: &Claim) {
        if let Some(slot) = self.machines.slot(claim.queue)
            && let Some(mut at) = self.queue_at(slot)
        {
            at.go_on(turn, claim);
        }
    }

    /// A connection's command is for the node that leads, where that is another. Else it is given back.
    #[cold]
    #[inline(never)]
    pub(super) fn ask_leader(
        &mut self,
        queue: QueueId,
        port: PortId,
        command: QueueCommand,
    ) -> Option<QueueCommand> {
        let is_stream = self.machines.get(queue).is_some_and(Placed::is_stream);
        let Log { commons, peers: Some(peers), .. } = self else { return Some(command) };
        if is_stream || !commons.pipeline.follows() {
            return Some(command);
        }
        // Behind what the connection published before.
        commons.pipeline.cut();
        peers.command(commons.pipeline.outbox_mut(), (port, queue), command);
        None
    }

    /// This node leads no more. What consumers of its connections hold is noted for whoever leads next, if it `led`: had others been
    /// waited for yet, that is known from the time before. Commands that wait go to the next who leads.
    pub(super) fn keep_edge(&mut self, led: bool, post: &mut Post) {
        let Log { commons, machines, peers: Some(peers), .. } = self else { return };
        peers.resign(post);
        let outbox = commons.pipeline.outbox_mut();
        if led {
            let owned = machines.queues().filter(|queue| queue.is_owned());
            let kept = owned.flat_map(|queue| queue.kept_members().map(|kept| (queue.id, kept)));
            for (port, queue, command) in peers.edge.keep(kept) {
                peers.command(outbox, (port, queue), command);
            }
        }
        let stay = commons.agenda.parked.iter().map(|parked| {
            machines.get(parked.queue).is_some_and(Placed::is_stream) && parked.port.node == NodeNo::ONLY
        });
        let stay: Vec<bool> = stay.collect();
        for (parked, stays) in std::mem::take(&mut commons.agenda.parked).into_iter().zip(stay) {
            match stays {
                true => commons.agenda.parked.push_back(parked),
                false => peers.command(outbox, (parked.port, parked.queue), parked.command),
            }
        }
    }
}
