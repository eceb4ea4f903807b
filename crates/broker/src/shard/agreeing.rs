//! The planning shard where several nodes agree on the catalog: words of the others, and what comes out of the catalog's log.
//!
//! Wishes go to the node that leads the catalog ([`super::wishing`]), which plans them ([`super::leading`]). Everything that is
//! planned is logged, also what is transient: it takes effect when it comes out of the log, in this node as in all others.

use super::{CATALOG_LOG, Shard};
use crate::catalog::Change;
use crate::event_exchange;
use crate::mail::Mail;
use crate::peers::{CatalogWord, Lead, Membership, Peers, Spreading};
use crate::request::Reply;
use base::Now;
use base::id::{LogId, LogIndex, NodeNo, PortId};
use base::time::NS_PER_MS;
use message::record::{self, Origin};
use routing::ExchangeId;

impl Shard {
    /// The node is one of several that agree on the catalog, and on all its logs. Before anything is recovered.
    ///
    /// # Panics
    /// Where there is no log but the catalog's.
    pub fn join(&mut self, membership: Membership) {
        assert!(self.settings.placement.logs > 1, "queues of several nodes are not on the catalog's log");
        self.is_shared = true;
        let Membership { node, incarnation, others } = &membership;
        self.catalog.set_home(*node);
        self.logs.begin_life(Origin { node: *node, incarnation: *incarnation }, others);
        if self.settings.plans() {
            self.planner = None;
            self.peers = Some(Box::new(Peers::new(membership, self.settings.placement.shards - 1)));
        }
    }

    /// Other nodes know of a life of this node that is later than the one it lives: it is the state of an earlier time, as of a folder
    /// that was put back, and is to end. The number of that life.
    pub fn outlived(&self) -> Option<u64> {
        self.post.outlived
    }

    /// Several nodes agree on the catalog.
    #[inline]
    pub fn is_one_of_several(&self) -> bool {
        self.is_shared
    }

    /// This shard's copy of a catalog that nodes agree on is that of all of the log before this. A record whose route was worked
    /// out at a later one is for queues of which this shard may not have heard.
    pub fn catalog_at(&self) -> LogIndex {
        self.catalog_covered
    }

    /// This is the planning shard.
    pub fn plans(&self) -> bool {
        self.settings.plans()
    }

    /// On the planning shard: the copies of all shards are no older than the start of the node. Before that a client may be told
    /// that something is not there which is.
    pub fn is_caught_up(&self) -> bool {
        self.peers.as_ref().is_none_or(|peers| peers.calls.is_caught_up())
    }

    /// On the planning shard: no wish of this node waits for its outcome.
    pub fn has_wishes(&self) -> bool {
        self.peers.as_ref().is_some_and(|peers| !peers.wishes.is_empty() || !peers.settling.is_empty())
    }

    /// On the planning shard: since `since`, monotonic nanoseconds, answers did not wait for this node at some time, which had
    /// time to say how far it is and did not.
    pub fn was_silent(&self, node: NodeNo, since: u64) -> bool {
        let mut peers = self.peers.iter().flat_map(|peers| &peers.others);
        peers.any(|peer| peer.node == node && peer.was_silent(since))
    }

    /// Something that a connection looked for is not here. It is answered with [`Reply::Done`] once the copy of this node is no
    /// older than this question, or nobody could say how old it is.
    pub fn ask_to_look_again(&mut self, now: Now, port: PortId, token: u32) {
        match self.settings.plans() {
            true => self.look_again(now, port, token),
            false => self.post.send_to_planner(Mail::LookAgain { port, token }),
        }
    }

    pub(super) fn look_again(&mut self, now: Now, port: PortId, token: u32) {
        match &mut self.peers {
            Some(peers) => peers.calls.add(now, Some((port, token))),
            None => self.post.reply(port, token, Ok(Reply::Done)),
        }
    }

    /// The logs of this shard that this node leads, where nodes agree on the catalog.
    pub(super) fn led_near(&self) -> Box<[LogId]> {
        if !self.is_shared {
            return Box::default();
        }
        let led = self.logs.all.iter().map(|log| &log.commons).filter(|log| {
            log.id != CATALOG_LOG && !log.is_stopped && log.pipeline.is_agreed_on() && log.pipeline.leads()
        });
        led.map(|log| log.id).collect()
    }

    /// The journal is read to its end: what is agreed on goes on from there.
    pub(super) fn begin_sharing(&mut self, now: Now) {
        let applied = self.logs.applied(CATALOG_LOG);
        if let (Some(peers), Some(applied)) = (&mut self.peers, applied) {
            peers.spread.begin_at(applied);
            peers.calls.add(now, None);
            self.catalog_covered = applied;
        }
    }

    // ---- words of other nodes

    /// On the planning shard: takes in a word of another node about the catalog.
    pub fn hear_of_catalog(&mut self, now: Now, from: NodeNo, word: CatalogWord) {
        let next = self.logs.get(CATALOG_LOG).map_or(LogIndex(0), |log| log.commons.pipeline.next());
        let Some(peers) = &mut self.peers else { return };
        if let Some(peer) = peers.other(from) {
            peer.heard(now);
        }
        match word {
            CatalogWord::Wish(wish) => self.take_wish(now, from, wish),
            CatalogWord::Answer { incarnation, number, at, outcome } => {
                if incarnation == peers.incarnation {
                    self.wish_answered(now, number, at, outcome);
                }
            }
            CatalogWord::Ask { incarnation, call } => {
                if let Some(Lead { reign, .. }) = peers.lead {
                    peers.tell(from, CatalogWord::Leads { reign, incarnation, call, at: next });
                    self.note_start(now, from, incarnation);
                }
            }
            CatalogWord::Leads { reign, incarnation, call, at } => {
                if peers.lead.is_none() {
                    peers.led_by = Some((from, reign));
                }
                if incarnation == peers.incarnation {
                    peers.calls.answer(call, at);
                }
            }
            CatalogWord::Outdated { incarnation } => {
                if incarnation > peers.incarnation {
                    self.post.outlived = self.post.outlived.max(Some(incarnation));
                }
            }
            CatalogWord::Seen { at } => {
                if let Some(peer) = peers.other(from) {
                    peer.seen = peer.seen.max(at);
                }
            }
            CatalogWord::Remember { exchanges, record } => {
                if self.planner.is_some() {
                    self.remember(now, &exchanges, &record);
                }
            }
            CatalogWord::HaveSeen { at } => {
                peers.note_want(from, at);
                peers.tell_seen();
            }
        }
    }

    /// A message went through exchanges that remember, and another node plans. That is told once: where it does not come, the
    /// exchanges do not remember it.
    #[cold]
    pub(super) fn pass_on_remembered(&mut self, exchanges: &[ExchangeId], record: &[u8]) {
        let Some(peers) = &mut self.peers else { return };
        if let Some((leader, _)) = peers.led_by.filter(|(leader, _)| *leader != peers.me) {
            peers.tell(leader, CatalogWord::Remember { exchanges: exchanges.into(), record: record.into() });
        }
    }

    /// Moves the words to other nodes about the catalog into `into`.
    pub fn take_words_of_catalog(&mut self, into: &mut Vec<(NodeNo, CatalogWord)>) {
        if let Some(peers) = &mut self.peers {
            peers.take_words(into);
        }
    }

    /// When something is to be done for other nodes though nothing comes.
    #[cold]
    pub(super) fn peers_deadline(&self) -> Option<u64> {
        let limits = &self.settings.limits;
        let peers = self.peers.as_ref()?;
        let wants = peers.calls.latest().is_some() || peers.wishes.has_open();
        let ms = if wants { limits.wish_again_ms } else { limits.pulse_ms };
        let ask = peers.asked.filter(|_| peers.lead.is_none()).map(|(at, _)| at + ms * NS_PER_MS);
        let settling = peers.settling.iter().map(|answer| answer.deadline(limits)).min();
        let all = [peers.wishes.deadline(limits), peers.calls.deadline(limits), settling, ask];
        all.into_iter().flatten().min()
    }

    // ---- what is agreed on

    /// Applies the changes that came out of the catalog's log, and passes them on.
    #[cold]
    pub(super) fn apply_catalog(&mut self, now: Now) {
        let Some(log) = self.logs.get_mut(CATALOG_LOG).filter(|_| self.peers.is_some()) else { return };
        let changes = std::mem::take(&mut log.commons.changes);
        if changes.is_empty() {
            return;
        }
        for (end, record) in changes {
            let change = record::read_catalog(&record).and_then(|bytes| Change::decode(bytes).ok());
            let change = change.expect("what nodes agree on is what one of them wrote");
            self.apply_shared(now, end, change);
        }
        let wave = self.peers.as_mut().and_then(|peers| peers.spread.close());
        self.spread(wave);
        self.release_answers(now);
        self.settle_wishes(now);
    }

    fn apply_shared(&mut self, now: Now, end: LogIndex, change: Change) {
        let is_for_all = !matches!(change, Change::Remember { .. });
        let Some(peers) = &mut self.peers else { return };
        if is_for_all {
            self.post.ahead.reach(peers.spread.number());
        }
        let told = self.planner.as_mut().map(|planner| planner.take_told(end)).unwrap_or_default();
        self.apply_change(Some(now), &change);
        self.catalog_covered = end;
        if let (Change::Bind(binding), Some(planner)) = (&change, &mut self.planner) {
            planner.recalls.add(&self.catalog, binding);
            self.recall(now);
        }
        for announcement in &told {
            event_exchange::publish(&mut self.own(now), announcement);
        }
        let Some(peers) = &mut self.peers else { return };
        if let Change::WishDone { wish, queue, .. } = &change {
            match (wish.node, wish.incarnation) == (peers.me, peers.incarnation) {
                true => {
                    let queue = queue.and_then(|id| self.catalog.queue(id).cloned());
                    self.wish_done(now, wish.number, end, queue);
                }
                false => peers.note_want(wish.node, end),
            }
        }
        // The definition as it is kept here is shared with the other shards.
        let change = match change {
            Change::AddQueue(queue) => {
                Change::AddQueue(self.catalog.queue(queue.id).cloned().unwrap_or(queue))
            }
            change => change,
        };
        let wave = self.peers.as_mut().and_then(|peers| peers.spread.add(change, end, is_for_all));
        self.spread(wave);
    }

    /// Sends a wave to the other shards.
    fn spread(&mut self, wave: Option<Spreading>) {
        let Some(Spreading { number, end, changes }) = wave else { return };
        for shard in self.post.others() {
            self.post.send(shard, Mail::Changes { number, end, changes: changes.clone() });
        }
    }

    /// A shard has applied a wave.
    pub(super) fn wave_seen(&mut self, now: Now, number: u64) {
        if let Some(peers) = &mut self.peers {
            peers.spread.seen(number);
        }
        self.settle_wishes(now);
    }
}
