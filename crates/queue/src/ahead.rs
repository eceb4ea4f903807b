//! Positions of the usual priority from the cursor on that are not ready through it for the first time.
//!
//! Volatile. *Elsewhere* are those that are on their way out or waiting: they count as gone ahead ([`crate::ready`]), as do all of
//! other priorities. *Back* are those that were out before and are ready through the cursor again.
//! Invariants: nothing elsewhere is below the cursor, settled or of another priority; nothing back is either, nor
//! elsewhere.

use crate::levels::Levels;
use crate::line::Line;
use crate::ready::Ready;
use base::RangeSet;
use base::ranges::Range;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    elsewhere: RangeSet,
    back: RangeSet,
}

/// The state of the position at the cursor.
pub(crate) struct Found {
    /// The position was out before.
    pub(crate) came_back: bool,
    /// Where something else begins.
    pub(crate) end: Option<u64>,
}

impl Ahead {
    pub(crate) fn is_empty(&self) -> bool {
        self.elsewhere.is_empty() && self.back.is_empty()
    }

    /// Positions that are ready through the cursor and were out before.
    pub(crate) fn back(&self) -> &RangeSet {
        &self.back
    }

    /// Positions that are not ready through the cursor.
    pub(crate) fn elsewhere(&self) -> &RangeSet {
        &self.elsewhere
    }

    /// Positions at or above the cursor are on their way out or waiting.
    pub(crate) fn hide(&mut self, range: Range, ready: &mut Ready) {
        ready.hide(self.elsewhere.insert(range));
    }

    /// Positions are ready through the cursor again, or gone.
    pub(crate) fn show(&mut self, range: Range, ready: &mut Ready) {
        ready.show(self.elsewhere.remove(range, |_| {}));
    }

    /// Positions that are handed out need not be looked for; the mover of the cursor counts them.
    pub(crate) fn pass(&mut self, range: Range) {
        self.elsewhere.remove(range, |_| {});
    }

    /// Moves the cursor over positions that are settled or elsewhere.
    pub(crate) fn move_cursor(&mut self, line: &mut Line, levels: &Levels) {
        while line.ready.has_gone_ahead() {
            let cursor = line.ready.cursor();
            let to = levels.next_usual(cursor);
            let to = line.live.settled().next_absent(self.elsewhere.next_absent(to));
            if to == cursor {
                return;
            }
            self.pass(Range { first: cursor, last: to - 1 });
            line.ready.pass(to);
        }
    }

    /// The cursor is at a ready position.
    pub(crate) fn find(&self, cursor: u64) -> Found {
        let elsewhere = self.elsewhere.next_present(cursor);
        let back = self.back.next_present(cursor);
        let came_back = back == Some(cursor);
        let change = if came_back { Some(self.back.next_absent(cursor)) } else { back };
        Found { came_back, end: [elsewhere, change].into_iter().flatten().min() }
    }

    /// Positions that were back are handed out.
    pub(crate) fn take_back(&mut self, range: Range) {
        self.back.remove(range, |_| {});
    }

    /// Tells `each` of the ready parts of `range`, which is live, at or above the cursor, and not all of the usual
    /// priority.
    pub(crate) fn ready_within(&self, range: Range, levels: &Levels, each: impl FnMut(Range)) {
        self.elsewhere.gaps(range).flat_map(|part| levels.usual_within(part)).for_each(each);
    }

    /// Ready positions are ready no more.
    pub(crate) fn withdraw(&mut self, part: Range, ready: &mut Ready, levels: &Levels) {
        self.back.remove(part, |_| {});
        let cursor = ready.cursor();
        if part.last >= cursor {
            let ahead = Range { first: part.first.max(cursor), last: part.last };
            levels.usual_within(ahead).for_each(|part| self.hide(part, ready));
        }
    }

    /// Positions of the usual priority that are out are ready again: before all others, or at their place where the cursor has
    /// not passed it.
    pub(crate) fn come_back(&mut self, part: Range, ready: &mut Ready) {
        let cursor = ready.cursor();
        if part.first < cursor {
            ready.put_back(Range { first: part.first, last: part.last.min(cursor - 1) });
        }
        if part.last >= cursor {
            let ahead = Range { first: part.first.max(cursor), last: part.last };
            let count = self.elsewhere.remove(ahead, |_| {});
            assert!(count == ahead.len(), "what is out is not ready through the cursor");
            ready.show(count);
            self.back.insert(ahead);
        }
    }

    /// Positions are gone.
    pub(crate) fn leave(&mut self, part: Range, ready: &mut Ready) {
        self.show(part, ready);
        self.back.remove(part, |_| {});
    }

    /// Another owner begins.
    pub(crate) fn forget(&mut self) {
        self.elsewhere.clear();
        self.back.clear();
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.elsewhere.heap_bytes() + self.back.heap_bytes()
    }
}
