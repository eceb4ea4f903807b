//! Messages of another priority than the usual one, by level.
//!
//! Recorded is the level of each live message. The usual level is not in here: its messages are what is in no other.
//! Where levels take turns, each has a range for every message. Each is then asked for its front first: what is handed
//! out is the front of one level, and what is settled is mostly that too.
//! Invariants: levels are sorted, and none is without members; what is ready is a member; `ready` counts it.

use base::RangeSet;
use base::ranges::Range;

/// The messages of one level.
#[derive(Debug)]
pub(crate) struct Level {
    pub(crate) level: u8,
    /// All live ones.
    pub(crate) members: RangeSet,
    /// Ready, and out before.
    pub(crate) returned: RangeSet,
    /// Ready, and never out while this owner lasts.
    pub(crate) fresh: RangeSet,
}

impl Level {
    /// Its first live message is this one.
    #[inline]
    fn begins_with(&self, seq: u64) -> bool {
        self.members.first().is_some_and(|first| first.first == seq)
    }

    /// Positions are gone: how many of them were ready.
    #[inline]
    fn leave(&mut self, range: Range) -> u64 {
        if self.members.remove(range, |_| {}) == 0 {
            return 0;
        }
        // What leaves was nearly always handed out.
        let is_ready = |set: &RangeSet| set.first().is_some_and(|first| first.first <= range.last);
        match is_ready(&self.returned) || is_ready(&self.fresh) {
            true => self.returned.remove(range, |_| {}) + self.fresh.remove(range, |_| {}),
            false => 0,
        }
    }
}

/// All levels but the usual one.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    list: Vec<Level>,
    ready: u64,
}

/// What could be handed out next of the levels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    at: usize,
    pub(crate) range: Range,
    /// It was out before.
    pub(crate) is_returned: bool,
}

impl Levels {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Level> {
        self.list.iter()
    }

    /// A message of `level` that is ready.
    pub(crate) fn insert(&mut self, level: u8, range: Range) {
        let at = self.list.binary_search_by_key(&level, |level| level.level).unwrap_or_else(|at| {
            let [members, returned, fresh] = [const { RangeSet::new() }; 3];
            self.list.insert(at, Level { level, members, returned, fresh });
            at
        });
        self.list[at].members.insert(range);
        self.ready += self.list[at].fresh.insert(range);
    }

    /// Messages that could be handed out.
    pub(crate) fn ready(&self) -> u64 {
        self.ready
    }

    /// The first that is ready of the highest level that `is_asked` for.
    pub(crate) fn first(&self, is_asked: impl Fn(u8) -> bool) -> Option<Next> {
        if self.ready == 0 {
            return None;
        }
        let mut asked = self.list.iter().enumerate().rev().filter(|(_, level)| is_asked(level.level));
        asked.find_map(|(at, level)| match level.returned.first() {
            Some(range) => Some(Next { at, range, is_returned: true }),
            None => Some(Next { at, range: level.fresh.first()?, is_returned: false }),
        })
    }

    /// What begins with what is `next`, all of which is ready in the same way, is handed out.
    pub(crate) fn take(&mut self, next: Next, range: Range) {
        let level = &mut self.list[next.at];
        let set = if next.is_returned { &mut level.returned } else { &mut level.fresh };
        self.ready -= set.remove(range, |_| {});
    }

    /// The first of `set`, some of all live positions, that are of the highest level any of it is of.
    pub(crate) fn highest_of(&self, set: &RangeSet, usual: u8) -> Option<Range> {
        if self.list.is_empty() || set.is_empty() {
            return set.first();
        }
        let of_level = |level: &Level| set.iter().find_map(|range| level.members.within(range).next());
        let above = self.list.iter().rev().filter(|level| level.level > usual).find_map(of_level);
        above
            .or_else(|| set.iter().find_map(|range| self.usual_within(range)))
            .or_else(|| self.list.iter().rev().filter(|level| level.level < usual).find_map(of_level))
    }

    /// The first of `range` that are of the usual level.
    fn usual_within(&self, range: Range) -> Option<Range> {
        let mut first = range.first;
        while first <= range.last {
            match self.list.iter().find(|level| level.members.contains(first)) {
                Some(level) => first = level.members.next_absent(first),
                None => {
                    let next = self.list.iter().filter_map(|level| level.members.next_present(first)).min();
                    return Some(Range {
                        first,
                        last: next.map_or(range.last, |next| range.last.min(next - 1)),
                    });
                }
            }
        }
        None
    }

    /// The first position from `from` on that could be handed out.
    pub(crate) fn next_ready(&self, from: u64) -> Option<u64> {
        let sets = self.list.iter().flat_map(|level| [&level.returned, &level.fresh]);
        sets.filter_map(|set| set.next_present(from)).min()
    }

    /// It is ready, and was out.
    pub(crate) fn came_back(&self, seq: u64) -> bool {
        self.list.iter().any(|level| level.returned.contains(seq))
    }

    /// Positions that are ready again; tells `usual` of those of the usual level.
    pub(crate) fn come_back(&mut self, range: Range, mut usual: impl FnMut(Range)) {
        let mut others = RangeSet::new();
        for level in &mut self.list {
            for part in level.members.within(range) {
                self.ready += level.returned.insert(part);
                others.insert(part);
            }
        }
        others.gaps(range).for_each(&mut usual);
    }

    /// Positions are ready for the first time; tells `usual` of those of the usual level.
    pub(crate) fn come_of_age(&mut self, range: Range, mut usual: impl FnMut(Range)) {
        let mut others = RangeSet::new();
        for level in &mut self.list {
            for part in level.members.within(range) {
                self.ready += level.fresh.insert(part);
                others.insert(part);
            }
        }
        others.gaps(range).for_each(&mut usual);
    }

    /// Tells `part` of what is ready of `range`.
    pub(crate) fn ready_within(&self, range: Range, mut part: impl FnMut(Range)) {
        for level in &self.list {
            level.returned.within(range).for_each(&mut part);
            level.fresh.within(range).for_each(&mut part);
        }
    }

    /// What is ready of `range` is so no more.
    pub(crate) fn withdraw(&mut self, range: Range) {
        for level in &mut self.list {
            self.ready -= level.returned.remove(range, |_| {}) + level.fresh.remove(range, |_| {});
        }
    }

    /// Positions are gone.
    pub(crate) fn leave(&mut self, range: Range) {
        let mut rest = range;
        // Nearly always one message that is the front of its level, or all that lies in front of several.
        while let Some(front) = self.list.iter_mut().find(|level| level.begins_with(rest.first)) {
            let Range { first, last } = rest;
            let until = front.members.next_absent(first) - 1;
            self.ready -= front.leave(Range { first, last: last.min(until) });
            if front.members.is_empty() {
                self.list.retain(|level| !level.members.is_empty());
            }
            if last <= until {
                return;
            }
            rest.first = until + 1;
        }
        let mut is_any_over = false;
        for level in &mut self.list {
            self.ready -= level.leave(rest);
            is_any_over |= level.members.is_empty();
        }
        if is_any_over {
            self.list.retain(|level| !level.members.is_empty());
        }
    }

    /// Everything is ready, as if it never was out; tells of it.
    pub(crate) fn forget(&mut self, mut members: impl FnMut(Range)) {
        self.ready = 0;
        for level in &mut self.list {
            level.returned.clear();
            level.fresh = level.members.clone();
            self.ready += level.fresh.count();
            level.members.iter().for_each(&mut members);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let sets = |level: &Level| {
            level.members.heap_bytes() + level.returned.heap_bytes() + level.fresh.heap_bytes()
        };
        self.list.capacity() * size_of::<Level>() + self.list.iter().map(sets).sum::<usize>()
    }
}
