//! The rule of barriers: each consumer is given one once in a life of the node, when all before it was settled, and nothing
//! behind it was handed out before.
//!
//! Before and behind are messages of one publisher, whose order in a queue is known. Barriers that were delayed, or sent
//! twice, are passed over: nobody knows whether they are any, or which of the two came.
//! A barrier is settled as it is sent: one that was under way to a consumer that left may be lost with it.

use super::{Check, Oracle, Presence, Publisher};
use crate::client::Delivery;
use crate::rules::is_barrier;
use std::collections::{BTreeMap, BTreeSet};

/// Events since the node, or its leader, began.
#[derive(Debug, Default)]
pub(super) struct Barriers {
    /// By queue and barrier: consumers that were given it.
    given: BTreeMap<(usize, u64), BTreeSet<(u64, u32)>>,
    /// By connection, queue and publisher: the last message that came for the first time.
    last: BTreeMap<(u64, usize, Publisher), u64>,
    /// Consumers of AMQP 0-9-1 that have room whenever they hold nothing, with their queues and the first message that was
    /// published when they were there.
    open: BTreeMap<(u64, u32), (usize, u64)>,
    /// Barriers of which something behind them came.
    over: BTreeSet<(usize, u64)>,
    /// Queues whose messages may go in another way than to consumers.
    otherwise: BTreeSet<usize>,
    /// Barriers that nobody has been given, and the message behind them that came.
    passed: Vec<(usize, u64, u64)>,
}

impl Oracle {
    /// A message is a barrier of a queue, or may be one.
    pub fn is_barrier(&self, number: usize, id: u64) -> bool {
        let message = &self.messages[id as usize];
        self.queues[number].rules.bars && message.queues.contains(&number) && is_barrier(message.len)
    }

    /// Something is known of its place.
    pub fn has_place(&self, id: u64) -> bool {
        let message = &self.messages[id as usize];
        message.due.is_none() && !message.is_twice
    }

    /// A barrier came to a consumer.
    pub(super) fn barrier_came(&mut self, client: u64, delivery: &Delivery, id: u64) -> Result<u64, String> {
        let Delivery { queue: number, consumer: Some(handle), redelivered, .. } = *delivery else {
            return Ok(id);
        };
        let what = format!("barrier {id} of queue {number}");
        let is_checked = self.has_place(id) && !self.is_damaged(number);
        let publisher = self.messages[id as usize].publisher;
        let Some(copy) = self.queues[number].copies.get_mut(&id) else {
            return Err(format!("{what} was never sent there"));
        };
        if is_checked && copy.presence == Presence::Gone {
            return Err(format!("{what} came back after its end"));
        }
        let lost_leader = copy.lost_leader;
        if copy.presence == Presence::Must {
            copy.presence = Presence::May;
        }
        (copy.is_ended, copy.was_delivered, copy.was_drained) = (true, true, true);
        self.barriers_came += 1;
        let is_first = self.barriers.given.entry((number, id)).or_default().insert((client, handle));
        if !is_checked || lost_leader {
            return Ok(id);
        }
        if !is_first {
            return Err(format!("{what} came to consumer {handle} of {client} twice"));
        }
        let last = self.barriers.last.get(&(client, number, publisher)).copied();
        if last.is_some_and(|last| last > id) && !redelivered {
            return Err(format!("{what} came behind message {last:?} of the same publisher"));
        }
        let Oracle { queues, messages, suspects, now_ms, .. } = self;
        let queue = &queues[number];
        for (before, copy) in queue.copies.range(..id) {
            let message = &messages[*before as usize];
            let is_in_place =
                message.due.is_none() && !message.is_twice && !copy.is_letter && !copy.lost_leader;
            let is_held = !queue.may_be_settled(copy) && !copy.may_be_late(&queue.rules, *now_ms);
            let is_same = message.publisher == publisher && message.queues.contains(&number);
            if !is_in_place || !is_same || !is_held {
                continue;
            }
            for holder in &copy.holders {
                let text =
                    format!("{what} came to {client}, and {before} in front of it is held by {holder}");
                suspects.entry((*holder, client)).or_insert(text);
            }
        }
        Ok(id)
    }

    /// A message that is no barrier came, or one to a get.
    pub(super) fn comes_beside_barriers(&mut self, client: u64, delivery: &Delivery, id: u64) -> Check {
        let Delivery { queue: number, consumer, redelivered, settled, .. } = *delivery;
        let rules = self.queues[number].rules;
        if !rules.bars || !self.has_place(id) || self.is_damaged(number) || delivery.chosen {
            return Ok(());
        }
        let publisher = self.messages[id as usize].publisher;
        let Some(copy) = self.queues[number].copies.get(&id) else { return Ok(()) };
        // One that another settled while it was under way holds up no barrier.
        let may_be_over = self.queues[number].may_be_settled(copy) || copy.may_be_late(&rules, self.now_ms);
        if copy.is_letter || copy.lost_leader || may_be_over {
            return Ok(());
        }
        let behind =
            self.barriers.given.range((number, id + 1)..(number + 1, 0)).map(|((_, barrier), _)| *barrier);
        let mut behind = behind.filter(|barrier| {
            self.has_place(*barrier) && self.messages[*barrier as usize].publisher == publisher
        });
        // One that is settled as it is sent may be on its way for long.
        if let Some(barrier) = behind.next_back().filter(|_| !settled) {
            // Unless it was sent before, and its connection is closed behind it.
            let text =
                format!("message {id} of queue {number} came, and barrier {barrier} behind it had come");
            self.suspects.entry((client, client)).or_insert(text);
        }
        if redelivered || consumer.is_none() {
            return Ok(());
        }
        self.note_over(number, id);
        let last = self.barriers.last.entry((client, number, publisher)).or_default();
        *last = id.max(*last);
        // Where messages are dropped to make room, barriers are too.
        if rules.makes_room() {
            return Ok(());
        }
        let before = self.queues[number].copies.range(..id);
        let passed = before.filter(|(before, copy)| {
            let is_pending = copy.presence == Presence::Must && !copy.was_delivered;
            let is_same = self.messages[**before as usize].publisher == publisher;
            is_pending && is_same && self.is_barrier(number, **before) && self.has_place(**before)
        });
        let passed: Vec<_> = passed.map(|(before, _)| (number, *before, id)).collect();
        self.barriers.passed.extend(passed);
        Ok(())
    }

    /// A consumer is there from now on.
    pub fn opened(&mut self, client: u64, handle: u32, queue: usize) {
        if queue < self.queues.len() && self.queues[queue].rules.bars {
            self.barriers.open.insert((client, handle), (queue, self.messages.len() as u64));
        }
    }

    /// A consumer is to go.
    pub fn closed(&mut self, client: u64, handle: u32) {
        self.barriers.open.remove(&(client, handle));
    }

    /// Somebody asked for messages of a queue by position, or to have them gone: barriers may go in another way from now on.
    pub(super) fn go_otherwise(&mut self, number: usize) {
        self.barriers.otherwise.insert(number);
    }

    /// A message came: barriers in front of it are over.
    fn note_over(&mut self, number: usize, id: u64) {
        let queue = &self.queues[number];
        if queue.rules.makes_room()
            || self.barriers.otherwise.contains(&number)
            || queue.rules.holding_ms().is_some()
        {
            return;
        }
        let publisher = self.messages[id as usize].publisher;
        let given = self.barriers.given.range((number, 0)..(number, id)).map(|((_, barrier), _)| *barrier);
        let over = given.filter(|barrier| {
            let is_known =
                self.has_place(*barrier) && self.messages[*barrier as usize].publisher == publisher;
            let copy = queue.copies.get(barrier);
            is_known && copy.is_some_and(|copy| copy.due_at_ms.is_none() && !copy.lost_leader)
        });
        let over: Vec<u64> = over.collect();
        self.barriers.over.extend(over.into_iter().map(|barrier| (number, barrier)));
    }

    /// Everything has come that is under way: consumers that were there when a barrier was published that is over were given it.
    fn check_reached(&self) -> Check {
        for (number, barrier) in self.barriers.over.iter().filter(|(number, _)| !self.is_damaged(*number)) {
            let open = self.barriers.open.iter();
            let open = open.filter(|(_, (of, since))| of == number && *since <= *barrier);
            let given = self.barriers.given.get(&(*number, *barrier));
            for (taker, _) in open {
                if given.is_some_and(|given| !given.contains(taker)) {
                    return Err(format!(
                        "barrier {barrier} of queue {number} is over, and consumer {} of {} was not given it",
                        taker.1, taker.0
                    ));
                }
            }
        }
        Ok(())
    }

    /// Barriers that others were handed out before have come since, or may have been under way to consumers that left.
    pub(super) fn check_barriers(&mut self) -> Check {
        self.check_reached()?;
        self.barriers.over.clear();
        for (number, barrier, behind) in std::mem::take(&mut self.barriers.passed) {
            let copy = self.queues[number].copies.get(&barrier).filter(|_| !self.is_damaged(number));
            let is_pending = copy.is_some_and(|copy| {
                let is_due = copy.due_at_ms.is_some_and(|at| at <= self.now_ms);
                copy.presence == Presence::Must && !copy.was_delivered && !is_due
            });
            if is_pending {
                return Err(format!(
                    "message {behind} of queue {number} came, and never barrier {barrier} before it"
                ));
            }
        }
        Ok(())
    }

    /// The node, or its leader, is another: all begins anew.
    pub(super) fn barriers_begin_anew(&mut self) {
        let otherwise = std::mem::take(&mut self.barriers.otherwise);
        self.barriers = Barriers { otherwise, ..Barriers::default() };
        let queues = (0..self.queues.len()).filter(|number| !self.queues[*number].takers.is_empty());
        queues.collect::<Vec<_>>().into_iter().for_each(|number| self.taker_left(number));
    }

    /// A connection is over that may have consumed.
    pub(super) fn connection_left(&mut self, client: u64) {
        self.barriers.open.retain(|(of, _), _| *of != client);
        let queues = (0..self.queues.len()).filter(|number| self.queues[*number].takers.contains(&client));
        queues.collect::<Vec<_>>().into_iter().for_each(|number| self.taker_left(number));
    }

    /// A consumer of a queue leaves: barriers may have been under way to it.
    pub fn taker_left(&mut self, number: usize) {
        if number >= self.queues.len() || !self.queues[number].rules.bars {
            return;
        }
        let ids: Vec<u64> = self.queues[number].copies.keys().copied().collect();
        for id in ids.into_iter().filter(|id| self.is_barrier(number, *id)).collect::<Vec<_>>() {
            if let Some(copy) = self.queues[number].copies.get_mut(&id) {
                copy.is_ended = true;
                if copy.presence == Presence::Must {
                    copy.presence = Presence::May;
                }
            }
        }
    }
}
