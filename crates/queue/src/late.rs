//! Deliveries held for too long: taken back from who holds them, who is given nothing more until it has settled them.
//!
//! Nothing is noted when a message is handed out. The owner looks now and then ([`Fifo::look`]): what a consumer holds and
//! did not hold at the look before is noted with the time of this one. So a message is taken back at the first look that
//! comes its timeout after the first that saw it: never early, and late by two looks at most.
//! Volatile, as who holds what: a new owner counts from the beginning.
//!
//! Invariant: what is noted as held is held, since then, by that consumer; what is late is not held by it.

use crate::audience::LATE;
use crate::command::{ConsumerId, Credit};
use crate::effect::Effects;
use crate::fifo::Fifo;
use crate::{numbers, positions};
use base::RangeSet;
use base::ranges::Range;
use message::record::{Outcome, SeqRange};
use std::collections::VecDeque;

/// A timeout is told this much apart from others by the looks at it.
const LOOKS: u64 = 64;

/// Milliseconds between two looks at least.
const LOOK_MS_MIN: u64 = 10;

/// What a consumer held at former looks.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    timeout_ms: u64,
    /// What it holds since that time, milliseconds, oldest first; none is empty.
    since: VecDeque<(u64, RangeSet)>,
    /// Taken back from it and not settled by it.
    late: RangeSet,
}

impl Watch {
    /// Positions are held no more, or not since when it is noted.
    pub(crate) fn forget(&mut self, range: Range) {
        self.since.iter_mut().for_each(|(_, held)| _ = held.remove(range, |_| {}));
    }

    /// Notes what of `held` is new, and hands out what was held for too long.
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

    /// Heap bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let held: usize = self.since.iter().map(|(_, held)| held.heap_bytes()).sum();
        held + self.since.capacity() * size_of::<(u64, RangeSet)>() + self.late.heap_bytes()
    }
}

/// What was taken back from a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// Who held it for too long.
    pub consumer: ConsumerId,
    /// Which positions, lowest first.
    pub ranges: Vec<SeqRange>,
}

impl Fifo {
    /// What this consumer holds for longer than `timeout_ms` milliseconds is taken back from it ([`Fifo::look`]), until it
    /// is closed. Passed over where there is no such consumer.
    pub fn watch(&mut self, consumer: ConsumerId, timeout_ms: u64) {
        if let Some(consumer) = self.audience.as_mut().and_then(|audience| audience.get_mut(consumer)) {
            consumer.watch = Some(Box::new(Watch { timeout_ms, ..Watch::default() }));
        }
    }

    /// How many milliseconds lie between two looks, if anybody is watched. Of a timeout they are a sixty-fourth part, and
    /// never less than ten.
    pub fn look_every_ms(&self) -> Option<u64> {
        let audience = self.audience.as_ref()?;
        let timeouts = audience.iter().filter_map(|(_, consumer)| Some(consumer.watch.as_ref()?.timeout_ms));
        timeouts.min().map(|timeout_ms| (timeout_ms / LOOKS).max(LOOK_MS_MIN))
    }

    /// Takes back what watched consumers hold for too long at `now_ms`, of a clock that never goes back: what that was.
    /// They are given nothing until [`Fifo::settle_late`] has named all of it. It counts as acquired, and not as failed.
    #[cold]
    #[inline(never)]
    pub fn look(&mut self, now_ms: u64, effects: &mut Effects) -> Vec<Late> {
        let Some(audience) = &mut self.audience else { return Vec::new() };
        let ids: Vec<ConsumerId> = audience.iter().map(|(id, _)| id).collect();
        let mut all = Vec::new();
        for consumer in ids {
            let Some(found) = self.audience.as_mut().and_then(|audience| audience.get_mut(consumer)) else {
                continue;
            };
            let Some(watch) = &mut found.watch else { continue };
            let over = watch.look(now_ms, &found.unsettled);
            if over.is_empty() {
                continue;
            }
            for part in over.iter() {
                watch.late.insert(part);
                self.unsettled -= found.unsettled.remove(part, |_| {});
            }
            found.held_up |= LATE;
            self.may_take(consumer);
            over.iter().for_each(|part| self.give_back(part, Outcome::Released, effects));
            all.push(Late { consumer, ranges: over.iter().map(positions).collect() });
        }
        all
    }

    /// A consumer settles, too late and however, what was taken back from it. Once that is all of it, it is given messages
    /// again. What is not late is passed over.
    #[cold]
    #[inline(never)]
    pub fn settle_late(&mut self, consumer: ConsumerId, range: SeqRange) {
        let found = self.audience.as_mut().and_then(|audience| audience.get_mut(consumer));
        if let Some(found) = found
            && let Some(watch) = &mut found.watch
            && let Some(range) = numbers(range)
            && watch.late.remove(range, |_| {}) > 0
            && watch.late.is_empty()
        {
            found.held_up &= !LATE;
            self.may_take(consumer);
        }
    }

    /// What was taken back from a consumer had never been sent to it: its link's credit was not used for so many.
    #[cold]
    #[inline(never)]
    pub fn restore_credit(&mut self, consumer: ConsumerId, count: u32) {
        let found = self.audience.as_mut().and_then(|audience| audience.get_mut(consumer));
        if let Some(found) = found
            && let Credit::Link(credit) = &mut found.credit
        {
            *credit = credit.saturating_add(count);
            self.may_take(consumer);
        }
    }

    /// Somebody has not settled what was taken back from it.
    pub fn has_late(&self) -> bool {
        let consumers = self.audience.iter().flat_map(|audience| audience.iter());
        consumers.into_iter().any(|(_, consumer)| consumer.is_late())
    }

    /// What a consumer may be given has changed.
    fn may_take(&mut self, id: ConsumerId) {
        if let Some(audience) = &mut self.audience {
            // Who is late makes room for another active one, and may come back as one.
            audience.active.is_open = true;
            audience.refresh(id);
        }
    }
}
