//! Where a search stands.

use super::Index;
use super::predicate::{ALWAYS, Answer};
use super::quick::Item;
use crate::found::Room;

/// Where a search stands, and what it needs meanwhile. One is used again and again: it keeps its room. It is of one
/// index, and of one message until that is done with.
#[derive(Debug, Default)]
pub struct Cursor {
    /// A message is being searched for.
    pub(super) is_open: bool,
    /// That of the index when the answers were given.
    pub(super) version: u64,
    pub(super) candidates: Vec<Candidate>,
    /// The first one that was not looked at.
    pub(super) next: usize,
    /// Numbers answers and marks: those of messages before do not count.
    pub(super) epoch: u32,
    /// Answers of predicates.
    pub(super) answers: Vec<u32>,
    /// Filters that are candidates.
    pub(super) marks: Vec<u32>,
    pub(super) buckets: Vec<u32>,
    /// Values of places as short forms of programs have them, with their epochs.
    pub(super) items: Vec<(u32, Item)>,
    /// Room for the values that one program makes.
    pub(super) work: Room,
    pub(super) spent: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) filter: u32,
    pub(super) how: How,
}

/// The work that is left about a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Its entry is true, and so are its guards.
    Checks,
    /// Its program says.
    Program,
    /// Its program, which reads the message for itself.
    Alone,
}

/// Epochs, each in three answers and none.
const EPOCHS: u32 = u32::MAX / 4;

impl Cursor {
    /// A cursor of no message.
    pub fn new() -> Cursor {
        Cursor::default()
    }

    /// Gives up the message that is being searched for, if there is one.
    pub fn reset(&mut self) {
        self.is_open = false;
    }

    /// Gives back the memory of what programs made, and of candidates, where that is more than so many bytes each. A message
    /// that is being searched for has candidates: [`Cursor::reset`] first.
    pub fn trim(&mut self, bytes_max: usize) {
        self.work.trim(bytes_max);
        if !self.is_open && self.candidates.capacity() * size_of::<Candidate>() > bytes_max {
            self.candidates = Vec::new();
        }
    }

    /// Units of work of the last call of [`Index::search`], of some 60 instructions.
    pub fn spent(&self) -> usize {
        self.spent
    }

    /// Filters that the last message was a candidate of, so that they were looked at, or will be.
    pub fn candidates(&self) -> usize {
        self.candidates.len()
    }

    /// Bytes it keeps on the heap.
    pub fn memory(&self) -> usize {
        self.candidates.capacity() * size_of::<Candidate>()
            + (self.answers.capacity() + self.marks.capacity() + self.buckets.capacity()) * size_of::<u32>()
            + self.items.capacity() * size_of::<(u32, Item)>()
            + self.work.memory()
    }

    /// Forgets all answers and marks.
    pub(super) fn renew(&mut self, index: &Index) {
        self.version = index.version;
        self.epoch += 1;
        if self.epoch >= EPOCHS {
            self.epoch = 1;
            self.answers.clear();
            self.marks.clear();
            self.items.clear();
        }
        self.answers.resize(index.predicates.end(), 0);
        self.answers[ALWAYS as usize] = self.epoch << 2 | Answer::Yes as u32;
        self.marks.resize(index.filters.len(), 0);
        self.items.resize(index.places.end(), (0, Item::Unknown));
    }
}
