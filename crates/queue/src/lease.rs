//! Leases: a message that a consumer has not settled for some time is another's, and the consumer goes on.
//!
//! How long messages are held is noted as for timeouts (`crate::consumer_timeout`), by the same looks: a lease ends at the
//! first look that comes its time after the first that saw the message, never early, and late by two looks at most.
//!
//! It ends in two steps. A look *tells* which leases are over; the messages stay with their holder. The holder's
//! connection answers which of them it has not settled: these come back as failed. Settles that were on their way when
//! the lease ended arrive before that answer, and count; those that come after it are about a delivery that is over,
//! though the same message may be with the same consumer again.
//!
//! A delivery that is over and that its holder may still settle is *late*. It takes room of the consumer's prefetch, and
//! [`LATE_MAX`] of them take all of it where that has no end: a consumer that hangs is not fed for ever.
//! Volatile, as the holders of messages: after a restart all that is not settled is ready.
//!
//! Invariant: positions that are told are held by the consumer.

use crate::command::{ConsumerId, Credit};
use crate::consumers::{Consumers, LATE};
use crate::ranges::numbers;
use base::RangeSet;
use base::ranges::Range;
use message::record::SeqRange;
use std::collections::BTreeMap;

/// Late deliveries of a consumer at which it is given nothing more, at any prefetch.
pub const LATE_MAX: u64 = 2_000;

/// The lease of what a consumer holds.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    /// Its consumer timeout, which counts where the queue ceases to lease, milliseconds.
    timeout_ms: Option<u64>,
    /// Over, and the answer to that is on its way.
    told: RangeSet,
    /// Late deliveries, by position: a message may be with the same consumer several times. None is 0.
    late: BTreeMap<u64, u32>,
    /// The sum of those.
    late_count: u64,
    /// The prefetch that the consumer asked for, where it has one; late deliveries are taken off it.
    prefetch: Option<u32>,
}

impl Lease {
    /// Of the positions that are held those that are not told are left to be looked at.
    pub(crate) fn look(&mut self, held: &RangeSet, fresh: &mut RangeSet) {
        let told: Vec<Range> = self.told.iter().flat_map(|part| held.within(part)).collect();
        self.told.clear();
        for part in told {
            self.told.insert(part);
            fresh.remove(part, |_| {});
        }
    }

    /// The consumer's connection is told that these are over.
    pub(crate) fn tell(&mut self, over: &RangeSet) {
        over.iter().for_each(|part| _ = self.told.insert(part));
    }

    /// Positions are held no more.
    pub(crate) fn forget(&mut self, range: Range) {
        self.told.remove(range, |_| {});
    }

    /// It is given nothing until it has settled something late.
    pub(crate) fn is_stuck(&self) -> bool {
        let most = self.prefetch.map_or(LATE_MAX, |prefetch| match prefetch {
            0 => LATE_MAX,
            prefetch => LATE_MAX.min(prefetch.into()),
        });
        self.late_count >= most
    }

    /// The prefetch that counts.
    fn room(&self) -> Option<Credit> {
        let prefetch = self.prefetch?;
        let late: u32 = self.late_count.try_into().unwrap_or(u32::MAX);
        // 0 is any number; one that is stuck is held up in another way.
        Some(Credit::Prefetch(if prefetch == 0 { 0 } else { prefetch.saturating_sub(late).max(1) }))
    }

    /// Heap bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.told.heap_bytes() + self.late.len() * size_of::<(u64, u32)>() * 3 / 2
    }
}

impl Consumers {
    /// From now on messages that this consumer holds are leased for so long, or not any more. Passed over where it settles at
    /// once.
    pub(crate) fn lease(&mut self, id: ConsumerId, lease_ms: Option<u64>) {
        let Some(consumer) = self.get_mut(id).filter(|consumer| !consumer.settled) else { return };
        let prefetch = match consumer.credit {
            Credit::Prefetch(prefetch) => Some(prefetch),
            Credit::Link(_) => None,
        };
        let mut watch = consumer.watch.take();
        self.weigh_late(id);
        let is_watched = watch.as_ref().map(|watch| watch.timeout_ms);
        is_watched.iter().for_each(|before_ms| self.leave_rounds(id, *before_ms));
        let timeout_ms = watch.as_ref().and_then(|watch| match &watch.lease {
            Some(lease) => lease.timeout_ms,
            None => Some(watch.timeout_ms),
        });
        match lease_ms {
            Some(lease_ms) => {
                let watch = watch.get_or_insert_default();
                watch.timeout_ms = lease_ms;
                let new = || Box::new(Lease { prefetch, timeout_ms, ..Lease::default() });
                watch.lease.get_or_insert_with(new);
            }
            None => {
                // Late deliveries take no room any more, and their settles are passed over.
                let lease = watch.as_mut().and_then(|watch| watch.lease.take());
                if let Some(consumer) = self.get_mut(id)
                    && let Some(prefetch) = lease.and_then(|lease| lease.prefetch)
                {
                    consumer.credit = Credit::Prefetch(prefetch);
                }
                watch = watch.zip(timeout_ms).map(|(mut watch, timeout_ms)| {
                    watch.timeout_ms = timeout_ms;
                    watch
                });
            }
        }
        if let Some(watch) = watch {
            let after_ms = watch.timeout_ms;
            if let Some(consumer) = self.get_mut(id) {
                consumer.watch = Some(watch);
            }
            self.enter_rounds(id, after_ms);
        }
        self.weigh_late(id);
    }

    /// As [`Consumers::lease`], of all.
    pub(crate) fn lease_all(&mut self, lease_ms: Option<u64>) {
        let all: Vec<ConsumerId> = self.iter().map(|(id, _)| id).collect();
        all.into_iter().for_each(|id| self.lease(id, lease_ms));
    }

    fn lease_of(&mut self, id: ConsumerId) -> Option<&mut Lease> {
        self.get_mut(id)?.watch.as_mut()?.lease.as_deref_mut()
    }

    /// A consumer's timeout where its messages are leased: it does not count for now. False: they are not.
    pub(crate) fn set_timeout(&mut self, id: ConsumerId, timeout_ms: u64) -> bool {
        let lease = self.lease_of(id);
        lease.map(|lease| lease.timeout_ms = Some(timeout_ms)).is_some()
    }

    /// A consumer asked for this prefetch.
    pub(crate) fn set_prefetch(&mut self, id: ConsumerId, prefetch: Option<u32>) {
        if let Some(lease) = self.lease_of(id) {
            lease.prefetch = prefetch;
            self.weigh_late(id);
        }
    }

    /// Its connection says that leases are over of messages that it has not settled: those of `ranges` that it holds come
    /// back. `is_late`: it may settle them yet.
    pub(crate) fn lease_over(&mut self, id: ConsumerId, ranges: &[SeqRange], is_late: bool) -> RangeSet {
        let mut over = RangeSet::new();
        for range in ranges.iter().filter_map(|range| numbers(*range)) {
            self.give_back(id, range).iter().for_each(|part| _ = over.insert(part));
        }
        if is_late && let Some(lease) = self.lease_of(id) {
            for seq in over.iter().flat_map(|part| part.first..=part.last) {
                *lease.late.entry(seq).or_default() += 1;
            }
            lease.late_count += over.count();
            self.weigh_late(id);
        }
        over
    }

    /// Its connection has answered: leases of messages that it holds all the same begin anew.
    pub(crate) fn lease_on(&mut self, id: ConsumerId, ranges: &[SeqRange]) {
        if let Some(lease) = self.lease_of(id) {
            ranges.iter().filter_map(|range| numbers(*range)).for_each(|range| lease.forget(range));
        }
    }

    /// A consumer settles deliveries that are over, one at each position of `range`. Others are passed over.
    pub(crate) fn settle_over(&mut self, id: ConsumerId, range: SeqRange) {
        let Some((lease, range)) = self.lease_of(id).zip(numbers(range)) else { return };
        let late: Vec<u64> = lease.late.range(range.first..=range.last).map(|(seq, _)| *seq).collect();
        for seq in &late {
            match lease.late.get_mut(seq) {
                Some(count) if *count > 1 => *count -= 1,
                _ => _ = lease.late.remove(seq),
            }
        }
        lease.late_count -= late.len() as u64;
        self.weigh_late(id);
    }

    /// The leases of what a consumer holds of `range` begin anew, unless they are over.
    pub(crate) fn renew(&mut self, id: ConsumerId, range: SeqRange) {
        let Some(range) = numbers(range) else { return };
        if let Some(watch) = self.get_mut(id).and_then(|consumer| consumer.watch.as_mut())
            && watch.lease.is_some()
        {
            watch.begin_anew(range);
        }
    }

    /// Sets what late deliveries leave of a consumer's room, and whether they leave any.
    pub(crate) fn weigh_late(&mut self, id: ConsumerId) {
        let Some(consumer) = self.get_mut(id) else { return };
        let (mut is_late, was_late) = (false, consumer.is_late());
        if let Some(watch) = &consumer.watch {
            is_late = watch.is_late();
            if let Some(room) = watch.lease.as_ref().and_then(|lease| lease.room()) {
                consumer.credit = room;
            }
        }
        consumer.held_up = (consumer.held_up & !LATE) | if is_late { LATE } else { 0 };
        if let Some(rounds) = &mut self.rounds {
            rounds.late = rounds.late + u32::from(is_late) - u32::from(was_late);
        }
        self.may_take(id);
    }
}
