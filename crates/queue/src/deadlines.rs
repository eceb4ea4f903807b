//! When messages end by themselves: positions by deadline, in runs of positions that end together.
//!
//! Recorded are the deadlines of live messages; how they are spread over the parts below is not, nor what is kept of
//! messages that left (cleaned lazily: when due, or when there are more runs than messages).
//! A million messages with one time to live that came a thousand a millisecond are a thousand runs.
//!
//! Invariant: no position is in two runs.

use crate::fifo::Live;
use base::ranges::Range;
use std::collections::BTreeMap;

/// Runs looked at in one go: what is due beyond them is due in the next.
pub(crate) const DUE_MAX: usize = 4096;

/// Positions that end together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) deadline_ms: u64,
    pub(crate) first: u64,
    /// 0: no run at all.
    pub(crate) count: u32,
}

impl Run {
    fn range(self) -> Range {
        Range { first: self.first, last: self.first + u64::from(self.count) - 1 }
    }
}

/// Deadlines of one queue.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// The one that grows.
    open: Run,
    /// By deadline and first position: how many follow on.
    pending: BTreeMap<(u64, u64), u32>,
    /// Those that were due and are not to be looked for again unless they come back: on their way, or held. By first
    /// position.
    overdue: BTreeMap<u64, (u64, u32)>,
}

impl Deadlines {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.count == 0 && self.pending.is_empty() && self.overdue.is_empty()
    }

    /// The next position, which is above all others.
    pub(crate) fn push(&mut self, seq: u64, deadline_ms: u64) {
        let open = &mut self.open;
        let goes_on = open.deadline_ms == deadline_ms
            && seq == open.first.wrapping_add(u64::from(open.count))
            && open.count < u32::MAX;
        if goes_on && open.count > 0 {
            open.count += 1;
            return;
        }
        self.close();
        self.open = Run { deadline_ms, first: seq, count: 1 };
    }

    /// Any positions that are in no run.
    pub(crate) fn insert(&mut self, deadline_ms: u64, range: Range) {
        let mut first = range.first;
        while first <= range.last {
            let count = (range.last - first + 1).min(u64::from(u32::MAX)) as u32;
            self.pending.insert((deadline_ms, first), count);
            first += u64::from(count);
        }
    }

    fn close(&mut self) {
        let open = std::mem::take(&mut self.open);
        if open.count > 0 {
            self.pending.insert((open.deadline_ms, open.first), open.count);
        }
    }

    /// When something may be due; never late.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        let open = (self.open.count > 0).then_some(self.open.deadline_ms);
        let pending = self.pending.first_key_value().map(|((deadline_ms, _), _)| *deadline_ms);
        open.into_iter().chain(pending).min()
    }

    /// Tells `due` of live positions below `below` whose time has come. They are overdue from here on.
    pub(crate) fn take_due(&mut self, now_ms: u64, below: u64, live: Live<'_>, mut due: impl FnMut(Range)) {
        if self.next_ms().is_none_or(|next_ms| next_ms > now_ms) {
            return;
        }
        self.close();
        let mut spared = Vec::new();
        for _ in 0..DUE_MAX {
            let Some(entry) = self.pending.first_entry().filter(|entry| entry.key().0 <= now_ms) else {
                break;
            };
            let ((deadline_ms, first), count) = entry.remove_entry();
            let Range { first, last } = Run { deadline_ms, first, count }.range();
            if last >= below {
                spared.push((deadline_ms, Range { first: first.max(below), last }));
            }
            if first < below {
                for part in live.parts(Range { first, last: last.min(below - 1) }) {
                    self.overdue.insert(part.first, (deadline_ms, part.len() as u32));
                    due(part);
                }
            }
        }
        spared.into_iter().for_each(|(deadline_ms, range)| self.insert(deadline_ms, range));
    }

    /// Positions are ready again: what of them is overdue is due.
    pub(crate) fn come_back(&mut self, range: Range) {
        self.cut(range, |deadlines, deadline_ms, part| deadlines.insert(deadline_ms, part));
    }

    /// Positions are gone.
    pub(crate) fn leave(&mut self, range: Range) {
        self.cut(range, |_, _, _| {});
    }

    /// Takes `range` out of what is overdue, and tells of it.
    fn cut(&mut self, range: Range, mut cut: impl FnMut(&mut Deadlines, u64, Range)) {
        while let Some((&first, &(deadline_ms, count))) = self.overdue.range(..=range.last).next_back() {
            let run = Run { deadline_ms, first, count }.range();
            let Some(part) = run.overlap(range) else { break };
            self.overdue.remove(&first);
            if run.first < part.first {
                self.overdue.insert(run.first, (deadline_ms, (part.first - run.first) as u32));
            }
            if part.last < run.last {
                self.overdue.insert(part.last + 1, (deadline_ms, (run.last - part.last) as u32));
            }
            cut(self, deadline_ms, part);
        }
    }

    /// Everything may be due again.
    pub(crate) fn forget(&mut self) {
        for (first, (deadline_ms, count)) in std::mem::take(&mut self.overdue) {
            self.pending.insert((deadline_ms, first), count);
        }
    }

    /// Throws away runs of what left, once there are twice as many as messages, of which there are `total`.
    pub(crate) fn tidy(&mut self, total: u64, live: Live<'_>) {
        if self.pending.len() as u64 > total.saturating_mul(2) {
            self.pending.retain(|&(deadline_ms, first), count| {
                live.parts(Run { deadline_ms, first, count: *count }.range()).next().is_some()
            });
        }
        if self.open.count > 0 && live.parts(self.open.range()).next().is_none() {
            self.open = Run::default();
        }
    }

    /// Deadlines of live messages: by time, then position, those that follow on as one.
    pub(crate) fn list(&self, live: Live<'_>) -> Vec<(u64, Range)> {
        let pending = self.pending.iter();
        let pending = pending.map(|(&(deadline_ms, first), &count)| Run { deadline_ms, first, count });
        let overdue = self.overdue.iter();
        let overdue = overdue.map(|(&first, &(deadline_ms, count))| Run { deadline_ms, first, count });
        let open = (self.open.count > 0).then_some(self.open);
        let runs = pending.chain(overdue).chain(open);
        let mut list: Vec<(u64, Range)> =
            runs.flat_map(|run| live.parts(run.range()).map(move |part| (run.deadline_ms, part))).collect();
        list.sort_unstable();
        list.dedup_by(|next, before| {
            let follows = next.0 == before.0 && before.1.last + 1 == next.1.first;
            if follows {
                before.1.last = next.1.last;
            }
            follows
        });
        list
    }

    /// Heap bytes, as far as they can be known.
    pub(crate) fn heap_bytes(&self) -> usize {
        // A node has room for eleven; two thirds are in use.
        self.pending.len() * 36 + self.overdue.len() * 36
    }
}
