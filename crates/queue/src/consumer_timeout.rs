//! Deliveries held for too long: taken back from their consumer, which is given nothing more until it has settled them.
//!
//! Nothing is noted when a message is handed out. The owner looks now and then ([`crate::Fifo::look`]): messages that a
//! consumer holds and did not hold at the look before are noted with the time of this one. So a message is taken back
//! at the first look that comes its timeout after the first that saw it: never early, and late by two looks at most.
//! Turns to be looked at stand in `crate::timeout_rounds`.
//! Volatile, as the holders of messages: a new owner counts from the beginning.
//!
//! Invariant: a position noted as held is held, since then, by that consumer; one that is late is not held by it.

use crate::command::{ConsumerId, Credit};
use crate::consumers::Consumers;
use crate::lease::Lease;
use crate::ranges::numbers;
use base::RangeSet;
use base::ranges::Range;
use message::record::SeqRange;
use std::collections::VecDeque;

/// Positions that a consumer held at former looks.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) timeout_ms: u64,
    /// Positions that it holds since that time, milliseconds, oldest first; none is empty.
    since: VecDeque<(u64, RangeSet)>,
    /// Taken back from it and not settled by it.
    late: RangeSet,
    /// Where the queue leases its messages, for `timeout_ms`: no timeout then counts.
    pub(crate) lease: Option<Box<Lease>>,
}

impl Watch {
    /// Positions are held no more.
    pub(crate) fn forget(&mut self, range: Range) {
        self.begin_anew(range);
        self.lease.iter_mut().for_each(|lease| lease.forget(range));
    }

    /// Positions are held from the next look on.
    pub(crate) fn begin_anew(&mut self, range: Range) {
        self.since.iter_mut().for_each(|(_, held)| _ = held.remove(range, |_| {}));
    }

    /// It is given nothing for now.
    pub(crate) fn is_late(&self) -> bool {
        !self.late.is_empty() || self.lease.as_ref().is_some_and(|lease| lease.is_stuck())
    }

    /// Notes positions of `held` that are new, and hands out those that were held for too long.
    fn look(&mut self, now_ms: u64, held: &RangeSet) -> RangeSet {
        let mut fresh = held.clone();
        for (_, since) in &mut self.since {
            let still: Vec<Range> = since.iter().flat_map(|part| held.within(part)).collect();
            since.clear();
            for part in still {
                since.insert(part);
                fresh.remove(part, |_| {});
            }
        }
        self.lease.iter_mut().for_each(|lease| lease.look(held, &mut fresh));
        if !fresh.is_empty() {
            self.since.push_back((now_ms, fresh));
        }
        self.since.retain(|(_, held)| !held.is_empty());
        let mut over = RangeSet::new();
        while let Some((_, held)) =
            self.since.pop_front_if(|(since, _)| since.saturating_add(self.timeout_ms) <= now_ms)
        {
            held.iter().for_each(|part| _ = over.insert(part));
        }
        over
    }

    /// Since when it holds a position, at least, milliseconds; none: no look saw it yet.
    pub(crate) fn since_ms(&self, seq: u64) -> Option<u64> {
        let (since, _) = self.since.iter().find(|(_, held)| held.contains(seq))?;
        Some(*since)
    }

    /// Heap bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let held: usize = self.since.iter().map(|(_, held)| held.heap_bytes()).sum();
        let lease = self.lease.as_ref().map_or(0, |lease| size_of::<Lease>() + lease.heap_bytes());
        held + self.since.capacity() * size_of::<(u64, RangeSet)>() + self.late.heap_bytes() + lease
    }
}

/// Messages that a consumer held for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// The consumer.
    pub consumer: ConsumerId,
    /// Which positions, lowest first.
    pub ranges: Vec<SeqRange>,
    /// Their leases are over: they are with it until [`crate::Fifo::lease_over`]. Else they were taken back.
    pub is_leased: bool,
}

/// As [`Late`], in the numbers of the machine.
pub(crate) struct Over {
    pub(crate) consumer: ConsumerId,
    pub(crate) held: RangeSet,
    pub(crate) is_leased: bool,
}

impl Consumers {
    /// How many milliseconds lie between two looks, if anybody is watched.
    pub(crate) fn look_every_ms(&self) -> Option<u64> {
        self.rounds.as_ref()?.every_ms()
    }

    /// Takes back the messages that watched consumers hold for too long, or tells that their leases are over.
    pub(crate) fn look(&mut self, now_ms: u64) -> Vec<Over> {
        let Some(rounds) = &mut self.rounds else { return Vec::new() };
        let due = rounds.begin(now_ms);
        let over = due.into_iter().filter_map(|id| self.look_at(id, now_ms));
        over.filter(|over| !over.held.is_empty()).collect()
    }

    /// Takes from this consumer the messages that it holds for too long, or tells that their leases are over.
    fn look_at(&mut self, id: ConsumerId, now_ms: u64) -> Option<Over> {
        let found = self.slots.get_mut(id.0 as usize)?.as_mut()?;
        let (Some(watch), Some(rounds)) = (&mut found.watch, &mut self.rounds) else { return None };
        let over = watch.look(now_ms, &found.unsettled);
        if let Some(lease) = &mut watch.lease {
            lease.tell(&over);
            if found.unsettled.is_empty() {
                rounds.unmark(id, watch.timeout_ms);
                found.is_unmarked = true;
            }
            return Some(Over { consumer: id, held: over, is_leased: true });
        }
        let mut count = 0;
        for part in over.iter() {
            watch.late.insert(part);
            count += found.unsettled.remove(part, |_| {});
        }
        if found.unsettled.is_empty() {
            rounds.unmark(id, watch.timeout_ms);
            found.is_unmarked = true;
        }
        self.unsettled -= count;
        if !over.is_empty() {
            self.weigh_late(id);
        }
        Some(Over { consumer: id, held: over, is_leased: false })
    }

    /// A consumer settles messages that were taken back from it. Positions that are not late are passed over.
    pub(crate) fn settle_late(&mut self, id: ConsumerId, range: SeqRange) {
        let found = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut);
        if let Some(found) = found
            && let Some(watch) = &mut found.watch
            && let Some(range) = numbers(range)
            && watch.late.remove(range, |_| {}) > 0
            && watch.late.is_empty()
        {
            self.weigh_late(id);
        }
    }

    /// Its link's credit was not used for so many.
    pub(crate) fn restore_credit(&mut self, id: ConsumerId, count: u32) {
        if let Some(found) = self.get_mut(id)
            && let Credit::Link(credit) = &mut found.credit
        {
            *credit = credit.saturating_add(count);
            self.may_take(id);
        }
    }

    /// Some consumer has not settled messages that were taken back from it.
    pub(crate) fn has_late(&self) -> bool {
        self.rounds.as_ref().is_some_and(|rounds| rounds.late > 0)
    }

    /// A consumer may be given more or less than before.
    pub(crate) fn may_take(&mut self, id: ConsumerId) {
        // A late consumer makes room for another active one, and may come back as one.
        self.active.is_open = true;
        self.refresh(id);
    }

    /// From now on messages that it holds for longer are taken back from it, unless they are leased.
    pub(crate) fn watch(&mut self, id: ConsumerId, timeout_ms: u64) {
        if self.set_timeout(id, timeout_ms) {
            return;
        }
        self.end_watch(id);
        let Some(consumer) = self.get_mut(id) else { return };
        consumer.watch = Some(Box::new(Watch { timeout_ms, ..Watch::default() }));
        self.enter_rounds(id, timeout_ms);
    }

    /// It is watched no more, and the messages that were taken back from it are forgotten.
    pub(crate) fn end_watch(&mut self, id: ConsumerId) {
        let Some(consumer) = self.get_mut(id) else { return };
        let Some(timeout_ms) = consumer.watch.as_ref().map(|watch| watch.timeout_ms) else { return };
        consumer.watch = None;
        self.weigh_late(id);
        self.leave_rounds(id, timeout_ms);
    }

    /// Looks are at it from now on, once it holds something.
    pub(crate) fn enter_rounds(&mut self, id: ConsumerId, timeout_ms: u64) {
        let Some(consumer) = self.get_mut(id) else { return };
        consumer.is_unmarked = true;
        let holds = !consumer.unsettled.is_empty();
        self.rounds.get_or_insert_default().enter(id, timeout_ms);
        if holds {
            self.mark(id);
        }
    }

    /// No look is at it any more.
    pub(crate) fn leave_rounds(&mut self, id: ConsumerId, timeout_ms: u64) {
        if let Some(consumer) = self.get_mut(id) {
            consumer.is_unmarked = false;
        }
        if let Some(rounds) = &mut self.rounds {
            rounds.leave(id, timeout_ms);
            if rounds.is_empty() {
                self.rounds = None;
            }
        }
    }

    /// It was given something to hold: the next looks are at it, too. Called where [`Consumer::is_unmarked`].
    #[cold]
    #[inline(never)]
    pub(crate) fn mark(&mut self, id: ConsumerId) {
        let Some(consumer) = self.get_mut(id) else { return };
        consumer.is_unmarked = false;
        let timeout_ms = consumer.watch.as_ref().map(|watch| watch.timeout_ms);
        if let (Some(timeout_ms), Some(rounds)) = (timeout_ms, &mut self.rounds) {
            rounds.mark(id, timeout_ms);
        }
    }
}
