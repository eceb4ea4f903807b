//! How often messages came back: recorded where the queue counts, else the failures that this owner saw.
//!
//! Not here: messages that came back and are ready (`crate::ready`), and failures from before a message came
//! (`crate::prior_failures`).

use crate::delivery::{Counts, Delivery};
use crate::effect::Effects;
use crate::failures::Failures;
use crate::settings::Rules;
use base::RangeSet;
use base::ranges::Range;
use message::record::{Kind, Outcome};
use std::collections::BTreeMap;

/// State of queues that count, absent in others.
#[derive(Debug, Default)]
struct Counting {
    /// Recorded. Only messages that came back.
    counts: BTreeMap<u64, Counts>,
    /// Volatile: positions with a return that was asked for and has not come back.
    returning: RangeSet,
    /// Volatile.
    limits: ReturnLimits,
}

/// How often a message may come back at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReturnLimits {
    /// As failed.
    pub(crate) failed: Option<u32>,
    /// Otherwise.
    pub(crate) cancelled: Option<u32>,
}

impl ReturnLimits {
    pub(crate) fn of(rules: &Rules) -> ReturnLimits {
        ReturnLimits { failed: rules.delivery_limit, cancelled: rules.cancel_limit }
    }

    /// A message came back too often. One that had failed too often before it came is given one more chance, and of its
    /// first returns so many are not told from those failures.
    fn are_passed(self, counts: &Counts) -> bool {
        let cancelled = counts.acquired_count.saturating_sub(counts.delivery_count);
        let is_over = |limit: Option<u32>, count| limit.is_some_and(|limit| count > limit);
        counts.acquired_count > 0
            && (is_over(self.failed, counts.delivery_count) || is_over(self.cancelled, cancelled))
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Returns {
    counting: Option<Box<Counting>>,
    /// Volatile: how often messages failed that came back, where that is not recorded.
    failures: Option<Box<Failures>>,
}

impl Returns {
    pub(crate) fn new(counts: bool) -> Returns {
        Returns { counting: counts.then(Box::default), failures: None }
    }

    /// The queue counts.
    #[inline]
    pub(crate) fn counts(&self) -> bool {
        self.counting.is_some()
    }

    /// How often a message may come back; without end where the queue does not count.
    pub(crate) fn limits(&self) -> ReturnLimits {
        self.counting.as_ref().map_or_else(ReturnLimits::default, |counting| counting.limits)
    }

    /// Nothing where the queue does not count.
    pub(crate) fn set_limits(&mut self, limits: ReturnLimits) {
        if let Some(counting) = &mut self.counting {
            counting.limits = limits;
        }
    }

    /// The recorded counts of a message.
    pub(crate) fn recorded(&self, seq: u64) -> Option<Counts> {
        self.counting.as_ref()?.counts.get(&seq).copied()
    }

    /// All recorded counts, in order of position.
    pub(crate) fn all_recorded(&self) -> impl Iterator<Item = (u64, Counts)> + '_ {
        let counted = self.counting.as_ref().into_iter().flat_map(|counting| &counting.counts);
        counted.map(|(seq, counts)| (*seq, *counts))
    }

    /// The recorded counts of `range`, in order of position.
    pub(crate) fn recorded_within(&self, range: Range) -> impl Iterator<Item = (u64, Counts)> + '_ {
        let counting = self.counting.as_ref().into_iter();
        let counted = counting.flat_map(move |counting| counting.counts.range(range.first..=range.last));
        counted.map(|(seq, counts)| (*seq, *counts))
    }

    /// How many have recorded counts.
    pub(crate) fn recorded_len(&self) -> u64 {
        self.counting.as_ref().map_or(0, |counting| counting.counts.len() as u64)
    }

    /// The counts as read; false where there are some and the queue does not count.
    pub(crate) fn fill(&mut self, counts: BTreeMap<u64, Counts>) -> bool {
        match &mut self.counting {
            Some(counting) => counting.counts = counts,
            None => return counts.is_empty(),
        }
        true
    }

    /// Keeps the recorded counts that `is_kept` says yes to.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(u64, Counts) -> bool) {
        if let Some(counting) = &mut self.counting {
            counting.counts.retain(|seq, counts| is_kept(*seq, *counts));
        }
    }

    /// Messages failed so often before they came. Nothing where the queue does not count.
    pub(crate) fn add_failed_before(&mut self, failures: u64, range: Range) {
        if let Some(counting) = &mut self.counting {
            let counts = Counts::failed_before(failures);
            counting.counts.extend((range.first..=range.last).map(|seq| (seq, counts)));
        }
    }

    /// A message has counts from here on, be they 0. Nothing where the queue does not count.
    pub(crate) fn touch(&mut self, seq: u64) {
        if let Some(counting) = &mut self.counting {
            counting.counts.entry(seq).or_default();
        }
    }

    /// Live positions came back: they are counted where the queue counts.
    pub(crate) fn count(&mut self, parts: impl Iterator<Item = Range>, outcome: Outcome) {
        let Some(counting) = &mut self.counting else { return };
        for seq in parts.flat_map(|part| part.first..=part.last) {
            let counts = counting.counts.entry(seq).or_default();
            counts.acquired_count = counts.acquired_count.saturating_add(1);
            if outcome == Outcome::Failed {
                counts.delivery_count = counts.delivery_count.saturating_add(1);
            }
        }
    }

    /// The record of a return came back: which of `range` this owner asked for.
    pub(crate) fn take_asked(&mut self, range: Range) -> RangeSet {
        let mut asked = RangeSet::new();
        if let Some(counting) = &mut self.counting {
            counting.returning.remove(range, |part| _ = asked.insert(part));
        }
        asked
    }

    /// Those of `parts` that came back, or failed, more often than is allowed.
    pub(crate) fn over_limit(&self, parts: impl Iterator<Item = Range>) -> RangeSet {
        let mut over = RangeSet::new();
        let Some(counting) = &self.counting else { return over };
        if counting.limits == ReturnLimits::default() {
            return over;
        }
        for (&seq, counts) in parts.flat_map(|part| counting.counts.range(part.first..=part.last)) {
            if counting.limits.are_passed(counts) {
                over.insert(Range { first: seq, last: seq });
            }
        }
        over
    }

    /// Live positions are given back: true, they are ready; false, they will be when the record comes back that is asked for.
    pub(crate) fn give_back(&mut self, part: Range, outcome: Outcome, effects: &mut Effects) -> bool {
        if let Some(counting) = &mut self.counting {
            effects.append(Kind::Return, outcome, part);
            counting.returning.insert(part);
            return false;
        }
        self.note(part, outcome);
        true
    }

    /// Positions came back so, of a queue that does not count.
    pub(crate) fn note(&mut self, part: Range, outcome: Outcome) {
        if self.counting.is_none() && outcome == Outcome::Failed {
            self.failures.get_or_insert_default().add(part);
        }
    }

    /// Messages came back and are not ready before that is recorded.
    pub(crate) fn is_returning(&self) -> bool {
        self.counting.as_ref().is_some_and(|counting| !counting.returning.is_empty())
    }

    /// There is something to forget of messages that leave.
    pub(crate) fn knows_any(&self) -> bool {
        let is_counted = |counting: &Counting| !counting.counts.is_empty() || !counting.returning.is_empty();
        self.failures.is_some() || self.counting.as_deref().is_some_and(is_counted)
    }

    /// Positions are gone.
    #[inline]
    pub(crate) fn leave(&mut self, part: Range) {
        if let Some(counting) = &mut self.counting {
            counting.leave(part);
        }
        if let Some(failures) = &mut self.failures
            && failures.leave(part)
        {
            self.failures = None;
        }
    }

    /// Another owner begins.
    pub(crate) fn forget(&mut self) {
        self.failures = None;
        if let Some(counting) = &mut self.counting {
            counting.returning.clear();
        }
    }

    /// How often a message failed as this owner saw it, and up to where in `range` the same holds; none where nothing did that
    /// is not recorded.
    pub(crate) fn seen_failures(&self, range: Range) -> Option<(u32, u64)> {
        Some(self.failures.as_ref()?.count(range))
    }

    /// How often the first of `range` failed by the records, and up to where the same holds.
    pub(crate) fn recorded_failures(&self, range: Range) -> (u32, u64) {
        let Some(counting) = &self.counting else { return (0, range.last) };
        let count = counting.counts.get(&range.first).map_or(0, |counts| counts.delivery_count);
        // Those without an entry never failed.
        let mut end = range.first;
        for (&seq, counts) in counting.counts.range(range.first..=range.last) {
            let is_alike = counts.delivery_count == count && (count == 0 || seq == end);
            if !is_alike {
                return (count, if count == 0 { seq - 1 } else { end - 1 });
            }
            end = seq + 1;
        }
        (count, if count == 0 { range.last } else { end - 1 })
    }

    /// Fills in how often the first position was out and failed, and ends the range where that changes.
    #[inline(never)]
    pub(crate) fn fill_in(&self, delivery: &mut Delivery) {
        if let Some(failures) = &self.failures {
            (delivery.counts.delivery_count, delivery.range.last) = failures.count(delivery.range);
        }
        let Some(counting) = &self.counting else { return };
        let Range { first, last } = delivery.range;
        let of_first = counting.counts.get(&first).copied().unwrap_or_default();
        delivery.counts = of_first.shown();
        // Those without an entry were never out.
        let has_entry = of_first != Counts::default();
        let mut next = first;
        for (&seq, counts) in counting.counts.range(first..=last) {
            if has_entry && seq > next {
                break;
            }
            if *counts != of_first {
                delivery.range.last = seq - 1;
                return;
            }
            next = seq + 1;
        }
        if has_entry {
            delivery.range.last = last.min(next - 1);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let counting = self.counting.as_ref().map_or(0, |counting| {
            size_of::<Counting>() + counting.returning.heap_bytes() + counting.counts.len() * 32
        });
        let failures =
            self.failures.as_ref().map_or(0, |failures| size_of::<Failures>() + failures.heap_bytes());
        counting + failures
    }
}

impl Counting {
    #[inline]
    fn leave(&mut self, part: Range) {
        if !self.counts.is_empty() {
            while let Some((&seq, _)) = self.counts.range(part.first..=part.last).next() {
                self.counts.remove(&seq);
            }
        }
        if !self.returning.is_empty() {
            self.returning.remove(part, |_| {});
        }
    }
}
