//! The wishes of this node: each goes to the node that leads the catalog, again and again until its outcome is known.
//!
//! Those of one connection go one after the other, as words may overtake each other. Invariant: the numbers under way lie
//! within [`Limits::wishes_max`] of each other, so that whoever leads has to remember no more.

use super::word::{Reign, Wish};
use crate::catalog::{Actor, Op};
use crate::limits::Limits;
use crate::mail::Answering;
use crate::planner::is_client;
use base::Now;
use base::id::{LogId, PortId};
use base::time::NS_PER_MS;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A wish of this node.
#[derive(Clone, Debug)]
pub(crate) struct Wished {
    pub(crate) actor: Actor,
    /// The address of the answer, where one is wanted.
    pub(crate) answer: Option<Answering>,
    pub(crate) op: Op,
    pub(crate) led: Box<[LogId]>,
    /// When it was asked for, monotonic nanoseconds.
    pub(crate) since: u64,
    /// When it was sent last, and for which time of which leader.
    sent: Option<(u64, Reign)>,
}

impl Wished {
    pub(crate) fn new(
        now: Now,
        actor: Actor,
        answer: Option<Answering>,
        op: Op,
        led: Box<[LogId]>,
    ) -> Wished {
        Wished { actor, answer, op, led, since: now.mono_ns, sent: None }
    }

    /// The connection whose other wishes come behind this one.
    fn line(&self) -> Option<PortId> {
        Some(self.actor.port).filter(|port| is_client(*port))
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Wishes {
    next: u64,
    /// By number: those whose outcomes are not known.
    open: BTreeMap<u64, Wished>,
    /// Connections that have one of them.
    busy: BTreeSet<PortId>,
    waiting: VecDeque<Wished>,
}

impl Wishes {
    pub(crate) fn new() -> Wishes {
        Wishes { next: 1, open: BTreeMap::new(), busy: BTreeSet::new(), waiting: VecDeque::new() }
    }

    pub(crate) fn add(&mut self, wished: Wished) {
        self.waiting.push_back(wished);
    }

    /// There are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.waiting.is_empty()
    }

    /// Some have been sent, or are to be.
    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The outcomes of all below this are known.
    fn below(&self) -> u64 {
        self.open.first_key_value().map_or(self.next, |(number, _)| *number)
    }

    /// Those that may go now have numbers from now on.
    pub(crate) fn open_waiting(&mut self, limits: &Limits) {
        if self.waiting.is_empty() {
            return;
        }
        let mut behind = VecDeque::new();
        let mut passed = BTreeSet::new();
        while let Some(wished) = self.waiting.pop_front() {
            let line = wished.line();
            let has_room = self.next < self.below() + limits.wishes_max;
            let is_behind = line.is_some_and(|line| self.busy.contains(&line) || passed.contains(&line));
            if !has_room || is_behind {
                passed.extend(line);
                behind.push_back(wished);
                if !has_room {
                    break;
                }
                continue;
            }
            self.busy.extend(line);
            self.open.insert(self.next, wished);
            self.next += 1;
        }
        behind.append(&mut self.waiting);
        self.waiting = behind;
    }

    /// Those that are to be sent now to a leader of this time.
    pub(crate) fn due(&mut self, now: Now, incarnation: u64, reign: Reign, limits: &Limits) -> Vec<Wish> {
        let below = self.below();
        let again_ns = limits.wish_again_ms * NS_PER_MS;
        let is_due = |sent: Option<(u64, Reign)>| {
            sent.is_none_or(|(at, of)| of != reign || at + again_ns <= now.mono_ns)
        };
        let due = self.open.iter_mut().filter(|(_, wished)| is_due(wished.sent));
        due.map(|(number, wished)| {
            wished.sent = Some((now.mono_ns, reign));
            Wish {
                incarnation,
                number: *number,
                below,
                reign,
                actor: wished.actor.clone(),
                is_asked: wished.answer.is_some(),
                led: wished.led.clone(),
                op: wished.op.clone(),
            }
        })
        .collect()
    }

    /// Some were sent so long ago that their leader may be none any more, or cannot be sent, as nobody knows of one.
    pub(crate) fn has_overdue(&self, now: Now, knows_leader: bool, limits: &Limits) -> bool {
        let again_ns = limits.wish_again_ms * NS_PER_MS;
        let is_overdue = |wished: &Wished| match wished.sent {
            Some((at, _)) => at + again_ns <= now.mono_ns,
            None => !knows_leader,
        };
        self.open.values().any(is_overdue)
    }

    /// The outcome of one is known: takes it out.
    pub(crate) fn end(&mut self, number: u64) -> Option<Wished> {
        let wished = self.open.remove(&number)?;
        wished.line().iter().for_each(|line| _ = self.busy.remove(line));
        Some(wished)
    }

    /// Takes out those that somebody has waited for too long.
    pub(crate) fn take_late(&mut self, now: Now, limits: &Limits) -> Vec<Wished> {
        let most_ns = limits.wish_wait_ms_max * NS_PER_MS;
        let is_late = |wished: &Wished| wished.answer.is_some() && wished.since + most_ns <= now.mono_ns;
        let late: Vec<u64> =
            self.open.iter().filter(|(_, wished)| is_late(wished)).map(|(number, _)| *number).collect();
        let mut taken: Vec<Wished> = late.into_iter().filter_map(|number| self.end(number)).collect();
        let (late, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(is_late);
        self.waiting = waiting;
        taken.extend::<VecDeque<Wished>>(late);
        taken
    }

    /// When something is to be done though nothing comes, monotonic nanoseconds.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<u64> {
        let again_ns = limits.wish_again_ms * NS_PER_MS;
        let most_ns = limits.wish_wait_ms_max * NS_PER_MS;
        let again = self.open.values().filter_map(|wished| wished.sent).map(|(at, _)| at + again_ns).min();
        let all = self.open.values().chain(&self.waiting);
        let late = all.filter(|wished| wished.answer.is_some()).map(|wished| wished.since + most_ns).min();
        [again, late].into_iter().flatten().min()
    }
}
