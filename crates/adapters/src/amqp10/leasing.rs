//! Leases of messages that receivers hold.
//!
//! A delivery says until when it is leased (`x-opt-locked-until`). A receiver that tells the state `received` (§3.4.1) of
//! it has it for another time from there on. Where a lease is over, the delivery is settled by this side, as released:
//! a receiver's outcome that comes after it is about nothing.

use super::Adapter;
use super::link::{ConsumerAt, End};
use crate::context::Context;
use crate::handles::LeasesOver;
use ::amqp10::{LinkId, Outcome as WireOutcome, Run, SessionId};
use base::RangeSet;
use base::id::QueueSeq;
use base::ranges::Range;
use broker::{ConsumerRef, LeaseOver, QueueCommand};
use message::record::SeqRange;
use std::collections::BTreeMap;

impl Adapter {
    /// A receiver has its messages for so long from now on.
    pub(super) fn leased(&mut self, consumer: u32, lease_ms: Option<u64>) {
        let Some(ConsumerAt { session, link, .. }) = self.consumers.get(consumer).copied() else { return };
        if let Some(found) = self.session(session).and_then(|session| session.link(link)) {
            found.particulars.lease_ms = lease_ms;
        }
    }

    /// Until when a message is leased that is sent now, milliseconds since 1970.
    pub(super) fn locked_until_ms(
        &mut self,
        context: &Context<'_>,
        session: SessionId,
        link: LinkId,
    ) -> Option<u64> {
        let link = self.session(session)?.link(link)?;
        Some(context.now.wall_ms.saturating_add(link.particulars.lease_ms?))
    }

    /// A receiver says that it is at work on deliveries.
    #[cold]
    #[inline(never)]
    pub(super) fn renew(&mut self, context: &mut Context<'_>, id: SessionId, first: u32, last: u32) {
        let Some(session) = self.sessions.get(id) else { return };
        let mut held: Vec<(u16, RangeSet)> = Vec::new();
        let mut looked = 0;
        self.machine.look_at(id, first, last, |link, token| {
            looked += 1;
            let token = Range::new(token, token);
            match held.iter_mut().find(|(of, _)| *of == link) {
                Some((_, tokens)) => _ = tokens.insert(token),
                None => {
                    let mut tokens = RangeSet::new();
                    tokens.insert(token);
                    held.push((link, tokens));
                }
            }
        });
        context.shard.work().spend(looked);
        for (link, tokens) in held {
            let found = session.links.iter().find(|it| it.id.0 == link);
            let Some(found) = found.filter(|link| link.particulars.lease_ms.is_some()) else { continue };
            let End::Source { consumer, .. } = found.end else { continue };
            let Some(ConsumerAt { at: Some(at), .. }) = self.consumers.get(consumer).copied() else {
                continue;
            };
            let ConsumerRef { log, queue, handle } = at;
            for range in positions(&tokens) {
                let command = QueueCommand::Renew { handle, range };
                context.shard.command(context.now, context.port, log, queue, command);
            }
        }
    }

    /// Leases are over: the deliveries that receivers have not settled are settled as released, and are the queues' again.
    /// It costs a step for each unsettled delivery of the sessions, once a turn.
    #[cold]
    #[inline(never)]
    pub(super) fn end_leases(&mut self, context: &mut Context<'_>, LeasesOver(leases): LeasesOver) {
        let mut sessions: BTreeMap<u16, BTreeMap<u16, Asked>> = BTreeMap::new();
        for (consumer, ranges) in leases {
            let Some(ConsumerAt { session, link, at: Some(at), .. }) = self.consumers.get(consumer).copied()
            else {
                continue;
            };
            let new = || Asked { at, ranges: Vec::new(), asked: RangeSet::new(), over: RangeSet::new() };
            let asked = sessions.entry(session.0).or_default().entry(link.0).or_insert_with(new);
            ranges.iter().for_each(|range| _ = asked.asked.insert(Range::new(range.first.0, range.last.0)));
            asked.ranges.extend(ranges);
        }
        for (session, mut links) in sessions {
            let mut runs = Vec::new();
            let is_over = |link, token| links.get(&link).is_some_and(|asked| asked.asked.contains(token));
            self.machine
                .settle_where(SessionId(session), is_over, &WireOutcome::Released, |run| runs.push(run));
            for Run { link, token, count, .. } in runs {
                if let Some(asked) = links.get_mut(&link) {
                    asked.over.insert(Range::new(token, token + u64::from(count) - 1));
                }
            }
            for Asked { at, ranges, over, .. } in links.into_values() {
                let ConsumerRef { log, queue, handle } = at;
                let over = positions(&over).collect();
                let answer = LeaseOver { handle, asked: ranges.into(), over, is_late: false };
                let command = QueueCommand::LeaseOver(Box::new(answer));
                context.shard.command(context.now, context.port, log, queue, command);
            }
            self.look_at_room(context, SessionId(session));
        }
    }
}

/// Leases of a consumer that are said to be over.
struct Asked {
    at: ConsumerRef,
    ranges: Vec<SeqRange>,
    /// The same.
    asked: RangeSet,
    /// Those of them that it has not settled.
    over: RangeSet,
}

/// The positions of tokens.
fn positions(tokens: &RangeSet) -> impl Iterator<Item = SeqRange> {
    tokens.iter().map(|part| SeqRange { first: QueueSeq(part.first), last: QueueSeq(part.last) })
}
