//! Wishes of this node for changes of a catalog that nodes agree on: sent to the node that leads it until their outcomes are
//! known, and answered once all nodes have them.

use super::{CATALOG_LOG, Shard};
use crate::catalog::{Actor, Op, QueueDefinition, Reason, Refusal, ReplyCode};
use crate::mail::Answering;
use crate::peers::{CatalogWord, Content, Outcome, Peers, Settling, Wished};
use crate::planner::{self, Answer};
use crate::request::Reply;
use base::Now;
use base::id::{LogId, LogIndex, NodeNo, PortId};
use base::time::NS_PER_MS;
use std::sync::Arc;

impl Shard {
    /// A change is wanted: it goes to the node that leads the catalog.
    pub(super) fn wish(
        &mut self,
        now: Now,
        actor: Actor,
        answer: Option<Answering>,
        op: Op,
        led: Box<[LogId]>,
    ) {
        if let Some(peers) = &mut self.peers {
            peers.wishes.add(Wished::new(now, actor, answer, op, led));
        }
    }

    /// Sends what is due, asks for what is not known, and answers what is.
    #[cold]
    #[inline(never)]
    pub(super) fn tend_peers(&mut self, now: Now) {
        let limits = self.settings.limits;
        let Some(peers) = &mut self.peers else { return };
        for late in peers.wishes.take_late(now, &limits) {
            self.give_up(late);
        }
        let Some(peers) = &mut self.peers else { return };
        peers.wishes.open_waiting(&limits);
        let is_overdue = peers.wishes.has_overdue(now, peers.led_by.is_some(), &limits);
        if let Some((leader, reign)) = peers.led_by {
            let (me, incarnation) = (peers.me, peers.incarnation);
            for wish in peers.wishes.due(now, incarnation, reign, &limits) {
                self.tell(now, me, leader, CatalogWord::Wish(Box::new(wish)));
            }
        }
        self.ask_who_leads(now, is_overdue);
        self.drop_lost(now);
        self.plan_wishes(now);
        self.settle_wishes(now);
    }

    /// A word goes to a node, which may be this one, `me`.
    pub(super) fn tell(&mut self, now: Now, me: NodeNo, to: NodeNo, word: CatalogWord) {
        if to == me {
            self.hear_of_catalog(now, me, word);
        } else if let Some(peers) = &mut self.peers {
            peers.tell(to, word);
        }
    }

    pub(super) fn ask_who_leads(&mut self, now: Now, is_overdue: bool) {
        let limits = &self.settings.limits;
        let next = self.logs.get(CATALOG_LOG).map_or(LogIndex(0), |log| log.commons.pipeline.next());
        let Some(peers) = &mut self.peers else { return };
        let call = peers.calls.latest().unwrap_or(0);
        if peers.lead.is_some() {
            // All that was agreed on before this is applied here.
            return peers.calls.answer(call, next);
        }
        let is_new = peers.asked.is_none_or(|(_, asked)| call > asked);
        let wants = call > 0 || is_overdue;
        let ms = if wants { limits.wish_again_ms } else { limits.pulse_ms };
        if is_new || peers.asked.is_some_and(|(at, _)| at + ms * NS_PER_MS <= now.mono_ns) {
            peers.asked = Some((now.mono_ns, call.max(peers.asked.map_or(0, |(_, asked)| asked))));
            peers.tell_all(&CatalogWord::Ask { incarnation: peers.incarnation, call });
        }
    }

    /// Nobody led the catalog for as long as somebody waits. What is there can be said all the same, as RabbitMQ does.
    pub(super) fn give_up(&mut self, wished: Wished) {
        let Wished { mut actor, answer, op, .. } = wished;
        actor.port = actor.port.of(self.catalog.home());
        let Some(Answering { port, token, .. }) = answer else { return };
        let passive =
            matches!(op, Op::DeclareQueue { passive: true, .. } | Op::DeclareExchange { passive: true, .. });
        let declares = matches!(op, Op::DeclareQueue { .. } | Op::DeclareExchange { .. });
        let local = declares.then(|| self.catalog.plan(&actor, &op, Default::default()));
        let reply = match local {
            Some(Ok(plan)) if plan.changes.is_empty() => match plan.queue {
                Some(queue) => Ok(Reply::Declared { queue, is_new: false, ready: 0, consumers: 0 }),
                None => Ok(Reply::Unchanged),
            },
            Some(Err(refusal)) if passive => Err(refusal),
            _ => Err(self.catalog.timed_out(&self.settings.node, &actor, &op)),
        };
        self.post.reply(port, token, reply);
    }

    /// The outcome of a wish of this node that changed nothing.
    pub(super) fn wish_answered(&mut self, now: Now, number: u64, at: LogIndex, outcome: Outcome) {
        let Some(peers) = &mut self.peers else { return };
        let Some(wished) = peers.wishes.end(number) else { return };
        let Some(Answering { port, token, instead }) = wished.answer.clone() else { return };
        let content = match (outcome, instead) {
            (Outcome::Refused(refusal), _) => Content::Reply(Err(refusal)),
            (_, Some(instead)) => Content::Reply(Ok(instead)),
            (Outcome::Unchanged, None) => Content::Reply(Ok(Reply::Unchanged)),
            (Outcome::There(queue), None) => Content::There(queue, Box::new(wished)),
        };
        let (since, asked) = (now.mono_ns, None);
        peers.settling.push(Settling { at, to: (port, token), content, since, asked });
    }

    /// A wish of this node is done by changes that end at `at` in the log.
    pub(super) fn wish_done(
        &mut self,
        now: Now,
        number: u64,
        at: LogIndex,
        queue: Option<Arc<QueueDefinition>>,
    ) {
        let Some(peers) = &mut self.peers else { return };
        let Some(wished) = peers.wishes.end(number) else { return };
        let Some(Answering { port, token, instead }) = wished.answer else { return };
        let reply = match (instead, queue) {
            (Some(instead), _) => instead,
            (None, Some(queue)) => Reply::Declared { queue, is_new: true, ready: 0, consumers: 0 },
            (None, None) => Reply::Done,
        };
        // Each node says by itself that it has applied it.
        let asked = Some(now.mono_ns);
        let content = Content::Reply(Ok(reply));
        peers.settling.push(Settling { at, to: (port, token), content, since: now.mono_ns, asked });
    }

    /// Gives the answers that need not wait any more.
    pub(super) fn settle_wishes(&mut self, now: Now) {
        let limits = self.settings.limits;
        let Some(peers) = &mut self.peers else { return };
        peers.tell_seen();
        let seen = peers.spread.seen_at();
        for (port, token) in peers.calls.take_due(now, seen, &limits) {
            self.post.reply(port, token, Ok(Reply::Done));
        }
        let Peers { settling, others, .. } = &mut **peers;
        let due: Vec<Settling> =
            settling.extract_if(.., |answer| answer.is_due(now, seen, others, &limits)).collect();
        let most_ns = limits.wish_wait_ms_max * NS_PER_MS;
        let late: Vec<Settling> =
            settling.extract_if(.., |answer| answer.since + most_ns <= now.mono_ns).collect();
        let asks = settling.iter_mut().filter_map(|answer| answer.asks(now, &limits).then_some(answer.at));
        if let Some(at) = asks.max() {
            let behind: Vec<NodeNo> = peers
                .others
                .iter()
                .filter(|peer| !peer.is_silent && peer.seen < at)
                .map(|peer| peer.node)
                .collect();
            behind.into_iter().for_each(|node| peers.tell(node, CatalogWord::HaveSeen { at }));
        }
        for Settling { to: (port, token), content, .. } in due {
            self.give_answer(now, (port, token), content);
        }
        for Settling { to: (port, token), .. } in late {
            let text = "the metadata store operation timed out";
            let refusal = Refusal::new(ReplyCode::InternalError, Reason::NoLeader, text);
            self.post.reply(port, token, Err(refusal));
        }
    }

    pub(super) fn give_answer(&mut self, now: Now, (port, token): (PortId, u32), content: Content) {
        match content {
            Content::Reply(reply) => self.post.reply(port, token, reply),
            Content::There(id, wished) => match (self.catalog.queue(id), &mut self.peers) {
                (Some(queue), _) => {
                    let content = planner::Content::Counts { log: queue.log, queue: id };
                    self.answer(now, Answer { port, token, content });
                }
                // It went meanwhile.
                (None, Some(peers)) => peers.wishes.add(*wished),
                (None, None) => {}
            },
        }
    }
}
