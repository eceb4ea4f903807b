//! Selectors: some consumers want only messages of which an expression is true.
//!
//! The machine knows an expression as a number. Its owner reads the messages, in order of position, and tells which selectors
//! are true of each: that is their *class*. All of it is volatile. A selector that is opened while there are messages
//! is *behind*: those are read for it, and meanwhile its consumers are given what lies in front of the first that was not,
//! so that order holds. Messages that come are read at once for all.
//!
//! Of each selector the positions that are ready are kept by priority, so that its next message is found in O(log n),
//! whatever lies in front of it for others.
//! Invariant: a position is among the ready ones of a selector exactly while it is ready and its class has the selector.

use crate::live::Live;
use crate::priority_blocks::BLOCK;
use crate::ready_line::ReadyLine;
use crate::selector_sets::{SELECTORS_MAX, SelectorId, SelectorSet, SelectorSets};
use base::ranges::Range;

/// Positions of one priority that are ready.
type Level = (u8, ReadyLine);

/// A selector.
#[derive(Debug, Default)]
struct Selector {
    /// Highest priority first; none is empty.
    ready: Vec<Level>,
    /// Positions that were there before it, and were not read for it.
    behind: Option<Range>,
}

impl Selector {
    fn insert(&mut self, level: u8, range: Range) {
        let at = self.ready.binary_search_by(|(other, _)| level.cmp(other)).unwrap_or_else(|at| {
            self.ready.insert(at, (level, ReadyLine::default()));
            at
        });
        self.ready[at].1.insert(range);
    }

    fn remove(&mut self, range: Range) {
        for at in (0..self.ready.len()).rev() {
            self.ready[at].1.remove(range);
            if self.ready[at].1.is_empty() {
                self.ready.remove(at);
            }
        }
    }

    /// Positions from `head` on that were not read for it.
    #[inline]
    fn rest(&self, head: u64) -> Option<Range> {
        let behind = self.behind.filter(|behind| behind.last >= head)?;
        Some(Range { first: behind.first.max(head), ..behind })
    }

    /// The first stretch of what is next, as far as it was read, and below `bar`.
    #[inline]
    fn next(&self, head: u64, bar: u64) -> Option<Range> {
        let end = self.rest(head).map_or(bar, |rest| rest.first.min(bar));
        let firsts = self.ready.iter().filter_map(|(_, ready)| ready.first());
        let first = firsts.into_iter().find(|range| range.first < end)?;
        Some(Range { last: first.last.min(end - 1), ..first })
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Selectors {
    /// By number.
    all: Vec<Option<Box<Selector>>>,
    open: SelectorSet,
    sets: SelectorSets,
    /// Positions below it were read when they came, or before.
    read_to: u64,
}

impl Selectors {
    /// None, of a queue whose messages were not read.
    pub(crate) fn new(live: &Live) -> Selectors {
        Selectors { read_to: live.next_seq(), ..Selectors::default() }
    }

    /// Whether there is this selector.
    pub(crate) fn has(&self, id: SelectorId) -> bool {
        self.open.contains(id)
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// From now on messages are read for this one too. Panics where it is there.
    pub(crate) fn open(&mut self, id: SelectorId, live: &Live) {
        assert!(!self.has(id), "{id:?} is there");
        let at = usize::from(id.0);
        if self.all.len() <= at {
            self.all.resize_with(at + 1, || None);
        }
        let (first, end) = (live.head(), self.read_to);
        let behind = (first < end).then(|| Range { first, last: end - 1 });
        self.all[at] = Some(Box::new(Selector { behind, ..Selector::default() }));
        self.open.insert(id);
    }

    /// Messages are read for it no more.
    pub(crate) fn close(&mut self, id: SelectorId) {
        if let Some(selector) = self.all.get_mut(usize::from(id.0)) {
            *selector = None;
        }
        self.open.remove(id);
        self.sets.forget(id);
    }

    // Reading.

    /// Positions that are to be read next: those that came, then those that were there before. Some may be gone.
    pub(crate) fn to_read(&self, live: &Live) -> Option<Range> {
        let (head, end) = (live.head(), live.next_seq());
        if self.read_to.max(head) < end {
            return Some(Range { first: self.read_to.max(head), last: end - 1 });
        }
        let rests = self.all.iter().flatten().filter_map(|selector| selector.rest(head));
        rests.min_by_key(|rest| (rest.first, u64::MAX - rest.last))
    }

    /// The class of a live message, which is ready at this priority, or not.
    pub(crate) fn classify(&mut self, seq: u64, class: SelectorSet, ready_at: Option<u8>) {
        let class = class.and(&self.open);
        let one = Range { first: seq, last: seq };
        if let Some(before) = self.sets.put(seq, class)
            && before != class
        {
            each(&mut self.all, before, |selector| selector.remove(one));
        }
        if let Some(level) = ready_at {
            each(&mut self.all, class, |selector| selector.insert(level, one));
        }
    }

    /// All live positions of `range`, which is the beginning of what was [to be read](Selectors::to_read), have their class.
    pub(crate) fn was_read(&mut self, range: Range, live: &Live) {
        self.read_to = self.read_to.max(range.last + 1);
        for selector in self.all.iter_mut().flatten() {
            let rest = selector.rest(live.head());
            let left = rest.map(|rest| match (range.first..=range.last).contains(&rest.first) {
                true => Range { first: range.last + 1, ..rest },
                false => rest,
            });
            selector.behind = left.filter(|left| left.first <= left.last);
        }
    }

    // Ready positions.

    /// Positions of a priority are ready.
    pub(crate) fn add_ready(&mut self, level: u8, range: Range) {
        let Selectors { all, sets, .. } = self;
        sets.runs(range, |class, run| each(all, class, |selector| selector.insert(level, run)));
    }

    /// Positions are ready no more.
    pub(crate) fn take_ready(&mut self, range: Range) {
        let Selectors { all, sets, .. } = self;
        if range.len() > BLOCK {
            return all.iter_mut().flatten().for_each(|selector| selector.remove(range));
        }
        sets.runs(range, |class, run| each(all, class, |selector| selector.remove(run)));
    }

    /// Positions are gone, of which none was ready or some may have been.
    pub(crate) fn leave(&mut self, range: Range, may_be_ready: bool) {
        if may_be_ready {
            self.take_ready(range);
        }
        self.sets.leave(range);
    }

    /// The first stretch of positions that a consumer with this selector is to be given next, of those below `bar`.
    #[inline]
    pub(crate) fn next(&self, id: SelectorId, head: u64, bar: u64) -> Option<Range> {
        self.all.get(usize::from(id.0))?.as_ref()?.next(head, bar)
    }

    // Questions.

    /// Not all messages that were there before it were read for this one.
    pub(crate) fn is_behind(&self, id: SelectorId, live: &Live) -> bool {
        let selector = self.all.get(usize::from(id.0)).and_then(Option::as_ref);
        let is_behind = selector.is_some_and(|selector| selector.rest(live.head()).is_some());
        is_behind || self.read_to < live.next_seq()
    }

    /// How many messages there are of which none of these is true, among those that were read.
    pub(crate) fn count_without(&self, some: &SelectorSet) -> u64 {
        self.sets.count_without(some)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let of_each = |selector: &Selector| {
            let sets: usize = selector.ready.iter().map(|(_, ready)| ready.heap_bytes()).sum();
            size_of::<Selector>() + selector.ready.capacity() * size_of::<Level>() + sets
        };
        self.all.capacity() * size_of::<Option<Box<Selector>>>()
            + self.all.iter().flatten().map(|selector| of_each(selector)).sum::<usize>()
            + self.sets.heap_bytes()
    }
}

/// Changes the selectors of a class.
#[inline]
fn each(all: &mut [Option<Box<Selector>>], class: SelectorSet, mut change: impl FnMut(&mut Selector)) {
    for id in class.iter() {
        if let Some(Some(selector)) = all.get_mut(usize::from(id.0)) {
            change(selector);
        }
    }
}

const _: () = assert!(SELECTORS_MAX == u8::MAX as usize + 1, "each number is one of a selector");
