//! Consumers of a queue that go on at another owner, which is told what they hold.

use super::at::AtQueue;
use super::owned::{Member, Notice, OwnedQueue};
use crate::event::Event;
use crate::log::Kept;
use crate::post::Post;
use crate::request::{Credit, NewConsumer};
use crate::turn::Turn;
use crate::word::Claim;
use base::id::{NodeNo, PortId, QueueSeq};
use message::record::SeqRange;
use queue::Command;

impl AtQueue<'_> {
    /// A consumer goes on as it was with the owner before: it holds what it held, as far as that is ready. A browser does not.
    pub(crate) fn go_on(&mut self, turn: &mut Turn<'_>, claim: &Claim) {
        let member = Member { port: claim.port, handle: claim.handle };
        if self.queue.find(member).is_some() {
            return;
        }
        let opened = match claim.consumer {
            Some(NewConsumer { browses: Some(_), .. }) => false,
            Some(consumer) => self.open_again(turn, member, claim, consumer),
            None if claim.held.is_empty() => return,
            None => {
                self.add_getter(turn, member, false);
                true
            }
        };
        let Some(id) = self.queue.find(member).filter(|_| opened) else {
            let queue = self.queue.definition().clone();
            return turn.post.event(claim.port, Event::Cancelled { consumer: claim.handle, queue });
        };
        self.queue.fifo.end_delays(turn.now.wall_ms);
        for range in &claim.held {
            let command = Command::Claim { consumer: id, range: *range };
            self.queue.fifo.apply(command, &mut self.commons.effects);
        }
        self.carry_out(turn, None);
        self.mark_dirty();
    }

    fn open_again(
        &mut self,
        turn: &mut Turn<'_>,
        member: Member,
        claim: &Claim,
        consumer: NewConsumer,
    ) -> bool {
        let answer = self.consume(turn.now, member, consumer, claim.selector.as_ref(), turn.limits);
        let Some(id) = self.queue.find(member).filter(|_| answer.is_ok()) else { return false };
        if !consumer.settled {
            self.tell_lease(member, turn.post);
        }
        self.queue.set_delivered(id, claim.delivered);
        if let (Credit::Link, Some(limit)) = (consumer.credit, claim.limit) {
            let credit = self.queue.credit(id, limit);
            let command = Command::Credit { consumer: id, credit, drain: false };
            self.queue.fifo.apply(command, &mut self.commons.effects);
        }
        if claim.is_paused {
            let command = Command::Pause { consumer: id, paused: true };
            self.queue.fifo.apply(command, &mut self.commons.effects);
        }
        true
    }

    /// The consumers of a connection are given nothing from now on, or something again, whatever the connection says.
    pub(crate) fn hold_up(&mut self, port: PortId, held_up: bool) {
        for consumer in self.queue.members_of(port) {
            self.queue.fifo.apply(Command::HoldUp { consumer, held_up }, &mut self.commons.effects);
        }
        self.mark_dirty();
    }
}

impl OwnedQueue {
    /// The consumers of this node's connections. Of what waits to be read nothing counts as delivered.
    pub(crate) fn kept_members(&self) -> impl Iterator<Item = Kept> + '_ {
        let active = self.fifo.active_consumer();
        let own = self.all_seats().filter(|(_, member, _)| member.port.node == NodeNo::ONLY);
        own.map(move |(id, Member { port, handle }, delivered)| {
            let waiting: Vec<_> = self.waiting_of(id).collect();
            let mut held: Vec<SeqRange> = Vec::new();
            for range in self.fifo.held(id) {
                let mut first = range.first;
                for seq in waiting.iter().filter(|seq| (range.first..=range.last).contains(seq)) {
                    if first < *seq {
                        held.push(SeqRange { first, last: QueueSeq(seq.0 - 1) });
                    }
                    first = QueueSeq(seq.0 + 1);
                }
                if first <= range.last {
                    held.push(SeqRange { first, last: range.last });
                }
            }
            let is_told = self.left_notices(id).any(|notice| matches!(notice, Notice::Drained { .. }));
            // Its credit counts as used up, as it is told.
            let in_vain = if is_told { 0 } else { waiting.len() as u32 };
            let drains = self.fifo.is_draining(id) && !is_told;
            let (delivered, is_active) = (delivered.wrapping_sub(in_vain), active == Some(id));
            Kept { port, handle, delivered, is_active, drains, held }
        })
    }

    /// Tells consumers of this node's connections what was to come behind deliveries that do not come from here any more.
    pub(super) fn tell_left(&self, post: &mut Post) {
        let own = self.all_seats().filter(|(_, member, _)| member.port.node == NodeNo::ONLY);
        for (id, Member { port, handle }, _) in own {
            for notice in self.left_notices(id) {
                let notice = match notice {
                    Notice::Drained { unused } => {
                        let in_vain = self.waiting_of(id).count() as u32;
                        Notice::Drained { unused: unused.wrapping_add(in_vain) }
                    }
                    notice @ Notice::Available { .. } => notice,
                };
                post.event(port, notice.event(handle));
            }
        }
    }
}
