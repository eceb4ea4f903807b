//! The single active consumer: the one of all that is given messages, where only one is.
//!
//! The highest priority is next, and of these the consumer that came first. The active one stays so until it goes; in
//! queues that count it makes room for a higher priority: it is given nothing more, and is relieved once it holds
//! nothing. A consumer that has not settled messages taken back from it cannot be active.
//!
//! Invariant: once elected, nobody else receives.

use crate::command::ConsumerId;
use crate::consumers::{Consumer, Consumers};
use crate::effect::{Effect, Effects};
use std::cmp::Reverse;

/// The active consumer, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Active {
    consumer: Option<ConsumerId>,
    /// Somebody came or went since the last election, or the active one is to make room.
    pub(crate) is_open: bool,
}

impl Active {
    /// It is a consumer no more: the next to get its slot is another.
    pub(crate) fn leave(&mut self, id: ConsumerId) {
        self.consumer = self.consumer.filter(|active| *active != id);
        self.is_open = true;
    }

    pub(crate) fn consumer(&self) -> Option<ConsumerId> {
        self.consumer
    }
}

impl Consumers {
    /// Sees to it that one consumer is active; it makes room for a higher priority where that is so here.
    pub(crate) fn elect(&mut self, makes_room: bool, effects: &mut Effects) {
        if !std::mem::take(&mut self.active.is_open) {
            return;
        }
        let rank = |consumer: &Consumer| (consumer.priority, Reverse(consumer.joined));
        let may_be = |consumer: &Consumer| consumer.is_consumer() && !consumer.is_late();
        let consumers = self.iter().filter(|(_, consumer)| may_be(consumer));
        let best = consumers.max_by_key(|(_, consumer)| rank(consumer));
        let best = best.map(|(id, consumer)| (id, consumer.priority));
        let before = self.active.consumer;
        let stays = before.filter(|id| self.get(*id).is_some_and(may_be));
        let mut next = stays.or(best.map(|(id, _)| id));
        let mut is_leaving = false;
        if let (true, Some(active), Some((best, priority))) =
            (makes_room, stays.and_then(|id| self.get(id)), best)
            && priority > active.priority
        {
            is_leaving = !active.unsettled.is_empty();
            next = if is_leaving { stays } else { Some(best) };
        }
        self.active.is_open = is_leaving;
        let receives = next.filter(|_| !is_leaving);
        self.let_receive(|id| Some(id) == receives);
        if before == next {
            return;
        }
        self.active.consumer = next;
        let changes = [(before, false), (next, true)];
        effects.list.extend(
            changes.into_iter().filter_map(|(consumer, active)| {
                consumer.map(|consumer| Effect::Active { consumer, active })
            }),
        );
    }

    /// Nobody is the active one: all are given messages, or nobody until the next election.
    pub(crate) fn end_election(&mut self) {
        self.active = Active { consumer: None, is_open: true };
        self.let_receive(|_| true);
    }

    fn let_receive(&mut self, receives: impl Fn(ConsumerId) -> bool) {
        let slots: Vec<ConsumerId> = self.iter().map(|(id, _)| id).collect();
        for id in slots {
            if let Some(consumer) = self.get_mut(id) {
                consumer.receives = consumer.is_consumer() && receives(id);
                self.refresh(id);
            }
        }
    }
}
