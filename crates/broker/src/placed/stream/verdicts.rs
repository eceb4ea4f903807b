//! Verdicts on the last messages of a stream, for all readers that choose among them.
//!
//! Readers at the end look at the same messages one after the other. Their filters are in one index, which is asked once for
//! a message; whoever comes next finds the answers. They are kept for the last [`MESSAGES_MAX`] messages.
//! A filter is run by itself where it hangs on more than the message as it is stored, where no index can look it up, while
//! its reader is further behind, and where there is no other.
//! Invariant: the answers are of messages that follow each other, by all filters that are in the index now.

use super::messages::{Converter, Entry};
use filter::{Access, Class, Expression, Filed, Index, Program};
use std::collections::VecDeque;

/// Messages whose answers are kept, at most.
const MESSAGES_MAX: usize = 8192;

/// Filters that are in the index, at most; the bit below theirs says that a body could not be read.
const FILTERS_MAX: usize = 255;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    index: Index,
    /// Readers whose filters are in it.
    readers: usize,
    cursor: filter::Cursor,
    hits: Vec<Filed>,
    /// A message that is half asked, by its offset.
    half: Option<u64>,
    /// The offset of the first message with answers.
    first: u64,
    /// Of each message so many words: a bit for each filter.
    words: VecDeque<u64>,
    width: usize,
}

/// The answer about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Whether it is wanted, and whether its body could not be read as far as some filter needs it.
    Known { is_wanted: bool, is_unreadable: bool },
    /// There was not enough work left: the next one who asks goes on.
    Later,
    /// The filter is to be run.
    Unknown,
}

impl Verdicts {
    /// A reader comes: its filter's place, if it is one of those that are asked together.
    pub(crate) fn join(&mut self, expression: &Expression, program: &Program) -> Option<Filed> {
        if program.class() != Class::Stable {
            return None;
        }
        let filed = self.index.add(expression).ok()?;
        let is_lookup = !matches!(self.index.explain(expression), Access::Always);
        if !is_lookup || filed.number() >= FILTERS_MAX {
            self.index.remove(filed);
            return None;
        }
        self.readers += 1;
        self.width = self.width.max((filed.number() + 1) / 64 + 1);
        self.forget();
        Some(filed)
    }

    /// A reader that joined goes.
    pub(crate) fn leave(&mut self, filed: Filed) {
        self.index.remove(filed);
        self.readers -= 1;
        self.forget();
        match self.readers {
            0 => *self = Verdicts::default(),
            // It is asked alone.
            1 => self.words = VecDeque::new(),
            _ => {}
        }
    }

    /// There are fewer filters or more: nothing is known.
    fn forget(&mut self) {
        self.words.clear();
        self.half = None;
        self.cursor.reset();
    }

    /// The verdict of the filter in this place on a message, within `left` units of work, of which it adds those it took to `spent`.
    pub(crate) fn on(
        &mut self,
        filed: Filed,
        entry: Entry<'_>,
        (now_ms, left): (u64, usize),
        spent: &mut usize,
        converter: &mut Converter,
    ) -> Verdict {
        if self.readers < 2 {
            return Verdict::Unknown;
        }
        let count = self.words.len() / self.width;
        let at = match entry.offset.checked_sub(self.first) {
            None if count > 0 || self.half.is_some() => return Verdict::Unknown,
            Some(at) if at as usize <= count && (count > 0 || self.half.is_some()) => at as usize,
            // The first that is asked, or one far ahead.
            _ => {
                self.forget();
                self.first = entry.offset;
                0
            }
        };
        if at * self.width == self.words.len() {
            if self.half.replace(entry.offset) != Some(entry.offset) {
                self.cursor.reset();
                self.hits.clear();
            }
            let Verdicts { index, cursor, hits, .. } = self;
            let readable = converter.search(entry, index, now_ms, cursor, left, hits);
            *spent = spent.saturating_add(cursor.spent().max(1));
            let Some(is_unreadable) = readable else { return Verdict::Later };
            self.half = None;
            self.keep(is_unreadable);
        }
        let at = ((entry.offset - self.first) as usize) * self.width;
        let bit = |number: usize| self.words[at + number / 64] & 1 << (number % 64) != 0;
        Verdict::Known { is_wanted: bit(filed.number() + 1), is_unreadable: bit(0) }
    }

    /// Keeps the answers about the next message.
    fn keep(&mut self, is_unreadable: bool) {
        let at = self.words.len();
        self.words.extend(std::iter::repeat_n(0, self.width));
        self.words[at] |= u64::from(is_unreadable);
        for filed in self.hits.drain(..) {
            let number = filed.number() + 1;
            self.words[at + number / 64] |= 1 << (number % 64);
        }
        if self.words.len() > MESSAGES_MAX * self.width {
            self.words.drain(..self.width);
            self.first += 1;
        }
    }

    /// Bytes on the heap, without the index, which is its readers' ([`super::StreamFilter::bytes`]).
    pub(crate) fn heap_bytes(&self) -> usize {
        self.cursor.memory() + self.words.capacity() * size_of::<u64>()
    }
}
