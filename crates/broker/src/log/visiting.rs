//! A log's part in visits between nodes: words come and go, and what guests bring is taken.

use super::foreign::Records;
use super::peers::{Brought, Peers};
use super::{Commons, Log};
use crate::limits::Limits;
use crate::mail::Waiter;
use crate::post::Post;
use crate::shard::CATALOG_LOG;
use crate::turn::Turn;
use crate::word::{Claim, Item, LogWord, Said};
use base::id::{LogIndex, NodeNo, PortId, QueueId};
use base::{Buffer, Now};
use message::record::{Origin, Stamp};

/// The log is on other nodes too, if it is on disk. They know this one by its origin.
pub(crate) fn begin_life(log: &mut Log, origin: Origin, others: &[NodeNo]) {
    if log.commons.pipeline.is_durable() {
        log.commons.pipeline.outbox_mut().begin(origin);
        // Changes of the catalog go other ways.
        if log.commons.id != CATALOG_LOG {
            log.commons.peers = Some(Box::new(Peers::new(log.commons.id, others.to_vec())));
            log.commons.pipeline.outbox_mut().begin_to_charge();
        }
    }
}

/// Says to other nodes what is to be said at the end of a turn; the catalog here is that of all of its log before `catalog`.
pub(crate) fn call(log: &mut Log, now: Now, catalog: LogIndex, (limits, post): (&Limits, &mut Post)) {
    let Commons { pipeline, origins, peers: Some(peers), is_stopped, .. } = &mut log.commons else { return };
    if *is_stopped {
        return;
    }
    let recorded = origins.recorded(pipeline.outbox().origin());
    peers.turn(now, catalog, (pipeline, recorded), (limits, post));
    let held_up = peers.guests.held_up(limits);
    for (port, queue, is_held_up) in held_up {
        hold_up(log, port, queue, is_held_up);
    }
}

fn hold_up(log: &mut Log, port: PortId, queue: QueueId, is_held_up: bool) {
    if let Some(slot) = log.machines.slot(queue)
        && let Some(mut at) = log.queue_at(slot)
    {
        at.hold_up(port, is_held_up);
    }
}

/// Hears a word of another node about this log: what of it is still to be done.
pub(crate) fn hear(log: &mut Log, turn: &mut Turn<'_>, from: NodeNo, word: LogWord) -> Brought {
    let Commons { pipeline, origins, peers: Some(peers), is_stopped, .. } = &mut log.commons else {
        return Brought::Nothing;
    };
    if *is_stopped {
        if matches!(word.said, Said::Come | Said::Bring { .. }) {
            turn.post.words.push((from, LogWord { said: Said::Stopped, ..word }));
        }
        return Brought::Nothing;
    }
    if pipeline.follows() {
        peers.hear_leader(turn, (from, &word), pipeline);
        return Brought::Nothing;
    }
    let begins = !pipeline.leads();
    let origin = Origin { node: from, incarnation: word.life };
    let brought = peers.hear_guest(turn, (from, word), origins, begins);
    match brought {
        Brought::Item(Item::Records { number, memory, range }) => {
            let until = take_records(log, turn, Stamp { origin, number }, Records { memory, range });
            took(log, from, until);
            Brought::Nothing
        }
        Brought::Item(Item::Claim(claim)) => {
            take_up(log, turn, &claim);
            took(log, from, LogIndex(0));
            Brought::Nothing
        }
        other => other,
    }
}

/// A message that a queue may refuse is asked for where the log is led, and is `None` then.
pub(crate) fn ask_elsewhere(
    log: &mut Log,
    record: Buffer,
    waiter: Option<Waiter>,
    needs_flush: bool,
) -> Option<Buffer> {
    let Commons { pipeline, peers, .. } = &mut log.commons;
    if peers.is_none() || !pipeline.follows() {
        return Some(record);
    }
    pipeline.cut();
    let records = Records { range: 0..record.len(), memory: record.seal() };
    pipeline.outbox_mut().put_ask(records, waiter, needs_flush);
    None
}

/// The item that a guest brought last is taken, and done once everything before `until` is applied.
pub(crate) fn took(log: &mut Log, from: NodeNo, until: LogIndex) {
    log.commons.peers.iter_mut().for_each(|peers| peers.guests.took(from, until));
}

/// A guest's records come under this number. False: they have come before.
pub(crate) fn is_new(log: &mut Log, stamp: Stamp) -> bool {
    let recorded = log.commons.origins.recorded(stamp.origin);
    let Some(peers) = &mut log.commons.peers else { return false };
    peers.guests.is_new(stamp.origin.node, stamp.number) && stamp.number > recorded
}

/// Records of a guest come into the log, unless they are there: where the records end that are applied once they are.
fn take_records(log: &mut Log, turn: &Turn<'_>, stamp: Stamp, records: Records) -> LogIndex {
    match is_new(log, stamp) {
        true => log.commons.take_in(turn.now, stamp, records),
        false => log.commons.pipeline.next(),
    }
}

/// Consumers go on as they were with the leader before.
pub(crate) fn take_up_claims(log: &mut Log, turn: &mut Turn<'_>) {
    let claims = log.commons.peers.as_mut().map(|peers| peers.take_claims()).unwrap_or_default();
    claims.iter().for_each(|claim| take_up(log, turn, claim));
}

fn take_up(log: &mut Log, turn: &mut Turn<'_>, claim: &Claim) {
    if let Some(slot) = log.machines.slot(claim.queue)
        && let Some(mut at) = log.queue_at(slot)
    {
        at.go_on(turn, claim);
    }
}
