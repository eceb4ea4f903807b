//! Positions that mostly come in order and go from the front: those of a selector that are ready.
//!
//! What came last stands in a line of its own, at most [`LINE_MAX`] stretches, whose ends cost a few instructions; a set
//! takes some 300 for each change. What comes or goes in between is the set's.
//! Invariant: all in the set is in front of all in the line; stretches of the line are in order and apart.

use base::RangeSet;
use base::ranges::Range;
use std::collections::VecDeque;

/// Stretches that stand in line.
const LINE_MAX: usize = 512;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ReadyLine {
    set: RangeSet,
    line: VecDeque<Range>,
}

impl ReadyLine {
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty() && self.set.is_empty()
    }

    /// A stretch that nothing is in front of.
    #[inline]
    pub(crate) fn first(&self) -> Option<Range> {
        self.set.first().or_else(|| self.line.front().copied())
    }

    /// Positions that are not in it come.
    pub(crate) fn insert(&mut self, range: Range) {
        let last = self.line.back_mut();
        if let Some(last) = last {
            if last.last < range.first {
                if last.last + 1 == range.first {
                    last.last = range.last;
                    return;
                }
                if self.line.len() == LINE_MAX {
                    self.line.drain(..LINE_MAX / 2).for_each(|range| _ = self.set.insert(range));
                }
                self.line.push_back(range);
                return;
            }
        } else if self.set.last().is_none_or(|last| last.last < range.first) {
            self.line.push_back(range);
            return;
        }
        if self.line.front().is_some_and(|front| front.first < range.first) {
            self.give_up_line();
        }
        self.set.insert(range);
    }

    /// Positions go, those of them that are in it.
    pub(crate) fn remove(&mut self, range: Range) {
        if let Some(front) = self.line.front_mut()
            && front.first <= range.last
        {
            if front.first < range.first || front.last < range.last {
                // Somewhere in the midst of it, if at all.
                if self.has_in_line(range) {
                    self.give_up_line();
                }
            } else if front.last == range.last {
                self.line.pop_front();
            } else {
                front.first = range.last + 1;
            }
        }
        if !self.set.is_empty() {
            self.set.remove(range, |_| {});
        }
    }

    fn has_in_line(&self, range: Range) -> bool {
        let at = self.line.partition_point(|other| other.last < range.first);
        self.line.get(at).is_some_and(|other| other.first <= range.last)
    }

    #[cold]
    #[inline(never)]
    fn give_up_line(&mut self) {
        for range in std::mem::take(&mut self.line) {
            self.set.insert(range);
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.set.heap_bytes() + self.line.capacity() * size_of::<Range>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a set that has no line, whatever comes and goes.
    #[test]
    fn it_is_a_set() {
        for seed in 1..=200 {
            let mut dice: u64 = seed;
            let mut draw = |below: u64| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (dice >> 33) % below
            };
            let (mut line, mut set, mut next) = (ReadyLine::default(), RangeSet::new(), 0);
            for step in 0..3000 {
                match draw(10) {
                    0..4 => {
                        next += draw(3);
                        let range = Range { first: next, last: next + draw(2) };
                        next = range.last + 1;
                        line.insert(range);
                        set.insert(range);
                    }
                    4..7 => {
                        if let Some(first) = set.first() {
                            let last = first.last.min(first.first + draw(2));
                            line.remove(Range { last, ..first });
                            set.remove(Range { last, ..first }, |_| {});
                        }
                    }
                    7 => {
                        let first = draw(next + 1);
                        let range = Range { first, last: first + draw(4) };
                        line.remove(range);
                        set.remove(range, |_| {});
                    }
                    _ => {
                        let first = draw(next + 1);
                        let range = Range { first, last: (first + draw(3)).min(next.max(1) - 1) };
                        if next > 0 && range.first <= range.last && !set.intersects(range) {
                            line.insert(range);
                            set.insert(range);
                        }
                    }
                }
                let firsts = (line.first().map(|range| range.first), set.first().map(|range| range.first));
                assert_eq!(firsts.0, firsts.1, "seed {seed}, step {step}");
                assert_eq!(line.is_empty(), set.is_empty(), "seed {seed}, step {step}");
                assert!(line.line.len() <= LINE_MAX, "seed {seed}, step {step}");
                let behind = line.set.last().zip(line.line.front());
                assert!(behind.is_none_or(|(set, line)| set.last < line.first), "seed {seed}, step {step}");
            }
            while let Some(first) = line.first() {
                assert!(set.remove(first, |_| {}) == first.len(), "seed {seed}");
                line.remove(first);
            }
            assert!(set.is_empty(), "seed {seed}");
        }
    }
}
