//! When something happens to messages by itself: positions by time, in runs of positions that have the same. A queue
//! keeps two of these: when messages end, and when delayed ones are due.
//!
//! Recorded are the times of live messages; how they are spread over the parts below is not, nor the remains of
//! messages that left (cleaned lazily: when due, or when there are more runs than messages).
//! A million messages with one time to live that came a thousand a millisecond are a thousand runs; a million with a
//! time each are a few bytes each ([`Schedule`]).
//!
//! A position's time is the last it was given: by [`Deadlines::change`], or else when it came.

use crate::live::Live;
use crate::schedule::{Run, Schedule};
use crate::spans::{Spans, pieces};
use base::ranges::Range;

/// Runs looked at in one go: further runs that are due wait for the next.
pub(crate) const DUE_MAX: usize = 4096;

/// Positions of one time that are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    pub(crate) at_ms: u64,
    pub(crate) range: Range,
    /// The time is one it was given later.
    pub(crate) is_changed: bool,
}

/// Times of the positions of one queue.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// The one that grows.
    open: Run,
    /// The next one first. May name a position with a time that is not its own any more.
    pending: Schedule,
    /// Those that were due and are not to be looked for again unless they come back: on their way, or held.
    overdue: Spans,
    /// The times of messages that were given them later.
    changed: Spans,
}

impl Deadlines {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.count == 0 && self.pending.is_empty() && self.overdue.is_empty() && self.changed.is_empty()
    }

    /// The next position, which is above all others.
    pub(crate) fn push(&mut self, seq: u64, at_ms: u64) {
        let open = &mut self.open;
        let goes_on = open.at_ms == at_ms
            && seq == open.first.wrapping_add(u64::from(open.count))
            && open.count < u32::MAX;
        if goes_on && open.count > 0 {
            open.count += 1;
            return;
        }
        self.close();
        self.open = Run { at_ms, first: seq, count: 1 };
    }

    /// Any positions that are in no run.
    pub(crate) fn insert(&mut self, at_ms: u64, range: Range) {
        pieces(range, |first, count| self.add(Run { at_ms, first, count }));
    }

    /// Positions that may have a time get this one.
    pub(crate) fn change(&mut self, at_ms: u64, range: Range) {
        self.overdue.cut(range, |_, _| {});
        self.changed.set(at_ms, range);
        self.insert(at_ms, range);
    }

    fn add(&mut self, run: Run) {
        self.pending.push(run);
    }

    fn close(&mut self) {
        let open = std::mem::take(&mut self.open);
        if open.count > 0 {
            self.add(open);
        }
    }

    /// When something may be due; never late.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        let open = (self.open.count > 0).then_some(self.open.at_ms);
        let pending = self.pending.first().map(|first| first.at_ms);
        open.into_iter().chain(pending).min()
    }

    /// Tells `each` of the parts of a run that are live and have its time.
    fn parts(&self, run: Run, live: &Live, mut each: impl FnMut(Due)) {
        let Run { at_ms, .. } = run;
        for part in live.parts(run.range()) {
            let mut first = part.first;
            for (of_ms, changed) in self.changed.within(part) {
                if first < changed.first {
                    let range = Range { first, last: changed.first - 1 };
                    each(Due { at_ms, range, is_changed: false });
                }
                if of_ms == at_ms {
                    each(Due { at_ms, range: changed, is_changed: true });
                }
                first = changed.last + 1;
            }
            if first <= part.last {
                each(Due { at_ms, range: Range { first, last: part.last }, is_changed: false });
            }
        }
    }

    fn has_part(&self, run: Run, live: &Live) -> bool {
        let mut has_any = false;
        self.parts(run, live, |_| has_any = true);
        has_any
    }

    /// Tells `due` of live positions below `below` that are due. They are overdue from here on.
    pub(crate) fn take_due(&mut self, now_ms: u64, below: u64, live: &Live, mut due: impl FnMut(Due)) {
        if self.next_ms().is_none_or(|next_ms| next_ms > now_ms) {
            return;
        }
        self.close();
        let (mut spared, mut parts) = (Vec::new(), Vec::new());
        for _ in 0..DUE_MAX {
            let Some(run) = self.pending.first().filter(|run| run.at_ms <= now_ms) else { break };
            self.pending.pop();
            let Range { first, last } = run.range();
            if last >= below {
                spared.push((run.at_ms, Range { first: first.max(below), last }));
            }
            if first < below {
                let count = (last.min(below - 1) - first + 1) as u32;
                self.parts(Run { count, ..run }, live, |part| parts.push(part));
                for part in parts.drain(..) {
                    self.overdue.set(part.at_ms, part.range);
                    due(part);
                }
            }
        }
        spared.into_iter().for_each(|(at_ms, range)| self.insert(at_ms, range));
        self.pending.shrink();
    }

    /// Positions are ready again: those that are overdue are due.
    pub(crate) fn come_back(&mut self, range: Range) {
        if !self.overdue.is_empty() {
            let mut back = Vec::new();
            self.overdue.cut(range, |at_ms, part| back.push((at_ms, part)));
            back.into_iter().for_each(|(at_ms, part)| self.insert(at_ms, part));
        }
    }

    /// Positions are gone.
    pub(crate) fn leave(&mut self, range: Range) {
        self.overdue.cut(range, |_, _| {});
        self.changed.cut(range, |_, _| {});
    }

    /// Everything may be due again.
    pub(crate) fn forget(&mut self) {
        let overdue = std::mem::take(&mut self.overdue);
        overdue.iter().for_each(|(at_ms, part)| self.insert(at_ms, part));
    }

    /// Throws away runs of messages that left, once there are twice as many as messages, of which there are `total`.
    pub(crate) fn tidy(&mut self, total: u64, live: &Live) {
        if self.pending.len() as u64 > total.saturating_mul(2) {
            let mut pending = std::mem::take(&mut self.pending);
            pending.retain(|run| self.has_part(run, live));
            self.pending = pending;
            self.pending.shrink();
        }
        if self.open.count > 0 && live.parts(self.open.range()).next().is_none() {
            self.open = Run::default();
        }
    }

    /// Runs that nobody waits for, but the one that grows.
    fn others(&self) -> impl Iterator<Item = Run> + '_ {
        let overdue = self.overdue.iter().map(|(at_ms, range)| Run {
            at_ms,
            first: range.first,
            count: range.len() as u32,
        });
        overdue.chain((self.open.count > 0).then_some(self.open))
    }

    /// A live message has a time.
    pub(crate) fn has_any(&self, live: &Live) -> bool {
        self.pending.iter().chain(self.others()).any(|run| self.has_part(run, live))
    }

    /// Times of live messages: by time, then position, those alike that follow on as one. Positions of one time are
    /// gathered before they are told; beyond that it takes no memory to speak of.
    pub(crate) fn in_order<'a>(&'a self, live: &'a Live) -> impl Iterator<Item = Due> + 'a {
        let mut runs = self.pending.in_order(self.others()).peekable();
        let mut alike = Vec::new().into_iter();
        std::iter::from_fn(move || {
            loop {
                if let Some(due) = alike.next() {
                    return Some(due);
                }
                let at_ms = runs.peek()?.at_ms;
                let mut list = Vec::new();
                while let Some(run) = runs.next_if(|run| run.at_ms == at_ms) {
                    self.parts(run, live, |part| list.push(part));
                }
                join(&mut list);
                alike = list.into_iter();
            }
        })
    }

    /// Heap bytes, as far as they can be known.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.pending.heap_bytes() + self.overdue.heap_bytes() + self.changed.heap_bytes()
    }
}

/// Puts parts of one time in order, and those alike that overlap or follow on together.
fn join(list: &mut Vec<Due>) {
    list.sort_unstable();
    list.dedup_by(|next, before| {
        let follows = next.is_changed == before.is_changed && next.range.first <= before.range.last + 1;
        if follows {
            before.range.last = before.range.last.max(next.range.last);
        }
        follows
    });
}
