//! A log's relations with the same log on other nodes: this one visits the node that leads it, or is visited.

use super::claims::{self, Claims};
use super::edge::{Edge, Over};
use super::guests::{Came, Gone, Guests};
use super::origins::Origins;
use super::outbox::{Content, Outbox, Parcel};
use super::pipeline::Pipeline;
use super::visit::{Heard, Visit};
use crate::catalog::QueueDefinition;
use crate::event::Event;
use crate::limits::Limits;
use crate::post::Post;
use crate::request::QueueCommand;
use crate::stopped::{answer_stopped, refuse_stopped};
use crate::turn::Turn;
use crate::word::{Claim, Item, LogWord, Said, Tenure};
use base::Now;
use base::id::{LogId, LogIndex, NodeNo, PortId, QueueId};
use message::record::Stamp;
use std::sync::Arc;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Peers {
    others: Vec<NodeNo>,
    visit: Visit,
    pub(crate) guests: Guests,
    pub(crate) edge: Edge,
    claims: Claims,
    /// Connections of guests that are gone, and queues at which they may have something.
    gone: Vec<Gone>,
    /// Consumers of this node's connections that end here.
    over: Vec<Over>,
    /// Records up to this number are in the log, and the leader did not say that they are in their queues. When they are done with
    /// all the same, monotonic nanoseconds.
    unsaid: Option<(u64, u64)>,
}

/// The meaning of a word for a log, besides what is between its nodes.
#[derive(Debug)]
pub(crate) enum Brought {
    /// Nothing.
    Nothing,
    /// A guest's item that comes next.
    Item(Item),
}

impl Peers {
    /// Those of a log that `others` have too.
    pub(crate) fn new(log: LogId, others: Vec<NodeNo>) -> Peers {
        Peers {
            others,
            visit: Visit::new(log),
            guests: Guests::new(log),
            edge: Edge::default(),
            claims: Claims::default(),
            gone: Vec::new(),
            over: Vec::new(),
            unsaid: None,
        }
    }

    /// The node that leads is visited, and says what is done.
    pub(crate) fn visits(&self) -> bool {
        self.visit.is_there()
    }

    /// Another node leads the log, as far as is known here; none: nobody, or this one.
    pub(crate) fn heed_leader(&mut self, leader: Option<NodeNo>) {
        self.visit.heed_leader(leader);
    }

    /// This node begins to lead: it visits nobody, and others are called.
    pub(crate) fn lead(&mut self, now: Now, pipeline: &Pipeline, limits: &Limits) {
        self.visit.end();
        let life = pipeline.outbox().origin().incarnation;
        self.guests.set_tenure(Tenure { life, number: pipeline.tenure() });
        self.claims.begin(now, limits);
    }

    /// This node leads no more.
    pub(crate) fn resign(&mut self, post: &mut Post) {
        self.guests.leave(post);
        self.claims.end();
        self.gone.clear();
    }

    /// It waits for what others claim.
    pub(crate) fn waits_for_claims(&self, now: Now) -> bool {
        self.claims.waits(now, &self.guests, &self.others)
    }

    /// Takes the claims of other nodes' connections and of this one's, in the order in which they are taken up. Guests bring
    /// again what was not taken so far.
    pub(crate) fn take_claims(&mut self) -> Vec<Claim> {
        let mut all = self.claims.end();
        self.over.extend(self.edge.end_browsers());
        all.extend(self.edge.claims());
        claims::sort(&mut all);
        self.guests.ask_again();
        all
    }

    /// Takes what connections of guests that are gone may have.
    pub(crate) fn take_gone(&mut self) -> Vec<Gone> {
        std::mem::take(&mut self.gone)
    }

    /// Takes the consumers of this node's connections that end here.
    pub(crate) fn take_over(&mut self) -> Vec<Over> {
        std::mem::take(&mut self.over)
    }

    /// A queue is gone while another node leads: consumers of this node's connections hear so, whether or not that tells them.
    pub(crate) fn forget_queue(&mut self, queue: &QueueDefinition, post: &mut Post) {
        let over = self.edge.forget_queue(queue.id);
        let queue = Arc::new(queue.clone());
        for Over { port, handle, .. } in over {
            post.event(port, Event::Cancelled { consumer: handle, queue: queue.clone() });
        }
    }

    /// Something is to be said at once.
    pub(crate) fn is_pressing(&self, pipeline: &Pipeline) -> bool {
        if !pipeline.follows() {
            return self.guests.has_news(pipeline.applied());
        }
        let has_some = || pipeline.has_gathered() || !self.edge.is_empty() || self.visit.is_wanted();
        self.visit.owes() || (self.visit.may_begin() && has_some())
    }

    /// When something is to be said though nothing comes, monotonic nanoseconds.
    pub(crate) fn deadline(&self, pipeline: &Pipeline, limits: &Limits) -> Option<u64> {
        match pipeline.follows() {
            true => {
                let visit = self.visit.deadline(!self.edge.is_empty());
                [visit, self.unsaid.map(|(_, due)| due)].into_iter().flatten().min()
            }
            false => [self.guests.deadline(limits), self.claims.deadline()].into_iter().flatten().min(),
        }
    }

    /// Says what is to be said at the end of a turn. Records of this node are in the log up to `recorded`.
    pub(crate) fn turn(
        &mut self,
        now: Now,
        catalog: LogIndex,
        (pipeline, recorded): (&mut Pipeline, u64),
        (limits, post): (&Limits, &mut Post),
    ) {
        self.visit.heed_catalog(catalog);
        if !pipeline.follows() {
            self.claims.call(now, &self.guests, &self.others, limits, post);
            self.guests.dismiss_lost(now, limits, post, &mut self.gone);
            return self.guests.turn(now, pipeline.applied(), limits, post);
        }
        self.look_at_recorded(now, (pipeline.outbox_mut(), recorded), limits, post);
        // It is charged to those it is of once it is a parcel, wherever it can go now.
        if pipeline.outbox().len() < limits.outbox_parcels_max {
            pipeline.cut();
        }
        let has_some = pipeline.has_gathered() || !self.edge.is_empty();
        self.visit.turn(now, (pipeline.outbox_mut(), has_some), limits, &mut post.words);
    }

    /// This node may see records in the log earlier than the leader has them in their queues, as its disk is the slowest: a publisher
    /// that was told would find less there than it put in. So the leader tells. Where its words are lost, what is in the log is
    /// done with some time later.
    fn look_at_recorded(
        &mut self,
        now: Now,
        (outbox, recorded): (&mut Outbox, u64),
        limits: &Limits,
        post: &mut Post,
    ) {
        if !outbox.has_recorded(recorded) {
            self.unsaid = None;
            return;
        }
        let visits = self.visits();
        let (number, due) = *self.unsaid.get_or_insert((recorded, now.after_ms(limits.visit_again_ms)));
        if !visits || due <= now.mono_ns {
            self.unsaid = None;
            let done = outbox.take_recorded(if visits { number } else { recorded });
            self.are_done(done, post);
        }
    }

    /// Hears a word of the node that leads.
    pub(crate) fn hear_leader(
        &mut self,
        turn: &mut Turn<'_>,
        (from, word): (NodeNo, &LogWord),
        pipeline: &mut Pipeline,
    ) {
        let Peers { visit, edge, over, .. } = self;
        let outbox = pipeline.outbox_mut();
        let claims = || edge.claims().map(|claim| Item::Claim(claim.into())).collect();
        let words = &mut turn.post.words;
        let heard = visit.hear(turn.now, (from, word), (&mut *outbox, claims), turn.limits, words);
        let done = match heard {
            Heard::Nothing => Vec::new(),
            Heard::Past(life) => {
                turn.post.outlived = turn.post.outlived.max(Some(life));
                Vec::new()
            }
            Heard::Welcome(recorded) => {
                over.extend(edge.end_browsers());
                outbox.take_recorded(recorded)
            }
            Heard::Done(at) => outbox.take_done(at),
            Heard::Events(at, events) => {
                are_done(edge, outbox.take_done(at), turn.post);
                turn.post.bring(&events, |port, event| edge.hear(port, event, &events));
                outbox.take_answered(&events)
            }
            Heard::Stopped => return refuse_all(word.log, pipeline, turn.post),
        };
        self.are_done(done, turn.post);
    }

    /// These parcels are done with: those that wait for what is recorded hear so.
    pub(crate) fn are_done(&mut self, parcels: Vec<Parcel>, post: &mut Post) {
        are_done(&mut self.edge, parcels, post);
    }

    /// Hears a word of a node that follows; `begins`: nothing is handed out here so far.
    pub(crate) fn hear_guest(
        &mut self,
        turn: &mut Turn<'_>,
        (from, word): (NodeNo, LogWord),
        origins: &Origins,
        begins: bool,
    ) -> Brought {
        let Some(known) = known(origins, from, word.life, turn.limits) else { return Brought::Nothing };
        let surroundings = (turn.limits, &mut *turn.post);
        match self.guests.hear(turn.now, (from, &word), known, surroundings, &mut self.gone) {
            Came::Nothing => Brought::Nothing,
            Came::Answer(said) => {
                let answer = self.guests.answer(&word, said);
                turn.post.words.push((from, answer));
                Brought::Nothing
            }
            Came::Next => {
                let Said::Bring { item, .. } = word.said else { return Brought::Nothing };
                self.bring(from, item, begins)
            }
        }
    }

    fn bring(&mut self, from: NodeNo, item: Item, begins: bool) -> Brought {
        match item {
            Item::Nothing => self.guests.took(from, LogIndex(0)),
            Item::Claimed => {
                self.guests.claimed(from);
                self.guests.took(from, LogIndex(0));
            }
            Item::Claim(claim) => {
                let Some(port) = self.guests.port_of(from, claim.port) else { return Brought::Nothing };
                self.guests.uses(from, port, claim.queue, true);
                let claim = Claim { port, ..(*claim).clone() };
                if begins {
                    self.claims.add(claim);
                    self.guests.took(from, LogIndex(0));
                } else {
                    return Brought::Item(Item::Claim(claim.into()));
                }
            }
            // They come again once this node hands out.
            _ if begins => {}
            Item::Command { queue, port, command } => {
                let Some(port) = self.guests.port_of(from, port) else { return Brought::Nothing };
                if command.asks_for_messages() {
                    self.guests.uses(from, port, queue, true);
                } else if matches!(*command, QueueCommand::Leave) {
                    self.guests.uses(from, port, queue, false);
                }
                return Brought::Item(Item::Command { queue, port, command });
            }
            Item::Ask { number, memory, waiter, needs_flush } => {
                let port_of = |port| self.guests.port_of(from, port);
                let waiter = waiter
                    .and_then(|waiter| Some(crate::mail::Waiter { port: port_of(waiter.port)?, ..waiter }));
                return Brought::Item(Item::Ask { number, memory, waiter, needs_flush });
            }
            records => return Brought::Item(records),
        }
        Brought::Nothing
    }

    /// A connection of this node has a command for a queue, and the node that leads is asked, or the next. Those of others
    /// bring theirs there.
    pub(crate) fn command(
        &mut self,
        outbox: &mut Outbox,
        (port, queue): (PortId, QueueId),
        command: QueueCommand,
    ) {
        if port.node == NodeNo::ONLY {
            self.edge.asked(port, queue, &command, false);
            let is_known = match command {
                QueueCommand::Credit { handle, .. } => self.edge.has(port, handle),
                _ => true,
            };
            outbox.put_command(port, queue, command, is_known);
        }
    }

    /// This node carries a command out.
    pub(crate) fn carries(&mut self, port: PortId, queue: QueueId, command: &QueueCommand) {
        if port.node == NodeNo::ONLY {
            self.edge.asked(port, queue, command, true);
            self.edge.done(port, queue, command);
        }
    }
}

fn are_done(edge: &mut Edge, parcels: Vec<Parcel>, post: &mut Post) {
    for Parcel { content, waiters, .. } in parcels {
        match content {
            Content::Records(_) => waiters.iter().for_each(|waiter| post.confirm(waiter)),
            // The leader has said so.
            Content::Ask { .. } => {}
            Content::Command { port, queue, command, .. } => edge.done(port, queue, &command),
        }
    }
}

/// A log is stopped, here or where it is led: those that wait for it hear so, as those do that come afterwards.
pub(crate) fn refuse_all(log: LogId, pipeline: &mut Pipeline, post: &mut Post) {
    refuse_stopped(post, log, &pipeline.take_waiting());
    for (port, _, command) in pipeline.outbox_mut().take_commands() {
        answer_stopped(post, log, port, &command);
    }
}

/// The latest life of a node that a log knows, and how far the records of this life are in it. None: it is to know no more
/// nodes.
fn known(origins: &Origins, node: NodeNo, life: u64, limits: &Limits) -> Option<(u64, u64)> {
    match origins.of(node) {
        Some(Stamp { origin, number }) if origin.incarnation == life => Some((life, number)),
        Some(Stamp { origin, .. }) => Some((origin.incarnation, 0)),
        None => (origins.count() < limits.origins_max).then_some((0, 0)),
    }
}

#[cfg(test)]
mod tests;
