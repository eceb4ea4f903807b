//! The time for which this node leads a catalog that nodes agree on: it plans the wishes of all, its own among them.
//!
//! The planner begins with the catalog as it is agreed on, and is gone with the lead, with everything that it planned and
//! nobody agreed on. Nodes then say again what they want.

use super::{CATALOG_LOG, Shard};
use crate::catalog::{Actor, Change, Op, VhostId};
use crate::mail::own_port;
use crate::peers::{Asked, CatalogWord, Lead, Outcome, Reign, Wish};
use crate::planner::{self, Departure, Planner};
use crate::request::Reply;
use base::Now;
use base::id::{LogIndex, NodeNo};
use base::time::NS_PER_MS;

impl Shard {
    /// All that was agreed on is applied: this node plans from here on.
    pub(super) fn begin_planning(&mut self, now: Now) {
        self.apply_catalog(now);
        let next = self.logs.get(CATALOG_LOG).map_or(LogIndex(0), |log| log.commons.pipeline.next());
        let Some(peers) = &mut self.peers else { return };
        let mut planner = Planner::new(0);
        planner.begin_shared(self.catalog.clone());
        planner.set_low_on_memory(self.is_low_on_memory);
        self.planner = Some(planner);
        let reign = Reign { incarnation: peers.incarnation, tenure: peers.tenure };
        peers.lead = Some(Lead::new(reign));
        peers.led_by = Some((peers.me, reign));
        peers.others.iter_mut().for_each(|peer| peer.heard_at = now.mono_ns);
        peers.tell_all(&CatalogWord::Leads { reign, incarnation: 0, call: 0, at: next });
        let (me, incarnation) = (peers.me, peers.incarnation);
        self.note_start(now, me, incarnation);
    }

    /// Another node leads the catalog from now on, or none: what was planned and not agreed on is gone. Nodes say again what they
    /// want of whoever leads.
    pub(super) fn end_planning(&mut self) {
        if let Some(log) = self.logs.get_mut(CATALOG_LOG) {
            log.commons.pipeline.forget_own();
        }
        self.planner = None;
        let Some(peers) = &mut self.peers else { return };
        if peers.lead.take().is_some() {
            peers.tenure += 1;
            peers.led_by = None;
        }
    }

    /// While this node leads and the catalog is empty: it comes to have this content, all of it or nothing.
    pub fn found(&mut self, now: Now, content: impl FnOnce() -> Vec<Op>) {
        let is_empty = |planner: &Planner| planner.catalog.vhosts().next().is_none();
        if !self.planner.as_ref().is_some_and(is_empty) {
            return;
        }
        for op in content() {
            let actor = Actor::internal(VhostId::default(), own_port(self.settings.id));
            self.plan_now(now, Departure { actor, answer: None, asked: None, op, goes_along: false });
        }
    }

    /// A node is there, in a start of which the catalog may not know. What belongs to an earlier one goes.
    pub(super) fn note_start(&mut self, now: Now, node: NodeNo, incarnation: u64) {
        let Some(planner) = &self.planner else { return };
        if planner.catalog.incarnation_of(node).is_some_and(|known| known >= incarnation) {
            return;
        }
        for change in planner.catalog.plan_node_up(node, incarnation) {
            self.make_change(now, change, Vec::new());
        }
    }

    /// Nodes of which nothing was heard for long have no connections any more, as far as others can tell.
    pub(super) fn drop_lost(&mut self, now: Now) {
        let lost_ns = self.settings.limits.node_lost_ms * NS_PER_MS;
        let (Some(peers), Some(planner)) = (&mut self.peers, &self.planner) else { return };
        let mut changes = Vec::new();
        for peer in &mut peers.others {
            if peer.heard_at + lost_ns <= now.mono_ns {
                peer.heard_at = now.mono_ns;
                changes.extend(planner.catalog.plan_node_down(peer.node));
            }
        }
        changes.into_iter().for_each(|change| self.make_change(now, change, Vec::new()));
    }

    pub(super) fn take_wish(&mut self, now: Now, from: NodeNo, wish: Box<Wish>) {
        let most = self.settings.limits.wishes_max;
        let (Some(peers), Some(planner)) = (&mut self.peers, &self.planner) else { return };
        let Some(lead) = &mut peers.lead else { return };
        let known = planner.catalog.incarnation_of(from);
        if let Some(known) = known.filter(|known| *known > wish.incarnation) {
            let me = peers.me;
            return self.tell(now, me, from, CatalogWord::Outdated { incarnation: known });
        }
        if wish.reign != lead.reign {
            let word = CatalogWord::Leads { reign: lead.reign, incarnation: 0, call: 0, at: LogIndex(0) };
            return peers.tell(from, word);
        }
        let has_outcome = planner.catalog.has_outcome(wish.id(from));
        let incarnation = wish.incarnation;
        if let Some(again) = lead.take(from, wish, has_outcome, most) {
            let me = peers.me;
            self.tell(now, me, from, again);
        }
        self.note_start(now, from, incarnation);
        self.plan_wishes(now);
    }

    /// Wishes wait to be planned in a later turn.
    pub(super) fn has_wishes_to_plan(&self) -> bool {
        self.peers.as_ref().and_then(|peers| peers.lead.as_ref()).is_some_and(Lead::has_waiting)
    }

    /// Plans wishes that came, as long as what they add can be held against policies at once.
    pub(super) fn plan_wishes(&mut self, now: Now) {
        while let (Some(peers), Some(planner)) = (&mut self.peers, &self.planner)
            && planner.reviews.has_steps()
            && let Some((from, wish)) = peers.lead.as_mut().and_then(Lead::next)
        {
            let id = wish.id(from);
            let Wish { below, mut actor, is_asked, led, mut op, .. } = *wish;
            // Connections of two nodes have the same numbers otherwise.
            actor.port = actor.port.of(from);
            if let Op::DeleteExclusive { port } = &mut op {
                *port = port.of(from);
            }
            let asked = Some(Box::new(Asked { wish: id, below, is_asked, led, has_begun: false }));
            self.plan_now(now, Departure { actor, answer: None, asked, op, goes_along: false });
        }
        self.release_answers(now);
    }

    /// A wish is planned to its end.
    pub(super) fn end_wish(&mut self, now: Now, asked: Asked, content: planner::Content) {
        use planner::Content::{Counts, Reply as Replied};
        let Asked { wish, below, has_begun, .. } = asked;
        let outcome = match content {
            Replied(Ok(Reply::Declared { queue, .. })) => Err(Some(queue.id)),
            Replied(Ok(Reply::Done)) => Err(None),
            Replied(Ok(_)) if has_begun => Err(None),
            Replied(Ok(_)) => Ok(Outcome::Unchanged),
            Replied(Err(refusal)) => Ok(Outcome::Refused(refusal)),
            Counts { queue, .. } => Ok(Outcome::There(queue)),
        };
        match outcome {
            // The log tells all nodes that it is done.
            Err(queue) => self.make_change(now, Change::WishDone { wish, below, queue }, Vec::new()),
            Ok(outcome) => {
                let log = self.logs.get(CATALOG_LOG).expect("the planner has the catalog's log");
                let at = log.commons.pipeline.next();
                let (incarnation, number) = (wish.incarnation, wish.number);
                let word = CatalogWord::Answer { incarnation, number, at, outcome };
                if let Some(lead) = self.peers.as_mut().and_then(|peers| peers.lead.as_mut()) {
                    lead.hold(at, wish, word);
                }
            }
        }
    }

    /// Gives the answers whose grounds are agreed on.
    pub(super) fn release_answers(&mut self, now: Now) {
        let Some(committed) = self.logs.committed(CATALOG_LOG) else { return };
        while let Some(peers) = &mut self.peers
            && let Some((to, word)) = peers.lead.as_mut().and_then(|lead| lead.release(committed))
        {
            let me = peers.me;
            self.tell(now, me, to, word);
        }
    }
}
