//! Messages that full queues refused and that are to be dead-lettered: in no log yet, so that they are in memory alone.

use crate::limits::Limits;
use crate::placed::queue::dead_letters::DeadLetter;
use std::collections::VecDeque;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    letters: VecDeque<DeadLetter>,
    /// Bytes of memory of them.
    bytes: usize,
}

impl Refused {
    pub(crate) fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    /// There are so many, or so large ones, that publishers wait.
    pub(crate) fn is_much(&self, limits: &Limits) -> bool {
        self.letters.len() > limits.refused_waiting_max || self.bytes > limits.dead_lettering_bytes_max
    }

    pub(crate) fn push(&mut self, letter: DeadLetter) {
        self.bytes += letter.memory.capacity();
        self.letters.push_back(letter);
    }

    /// Takes the oldest.
    pub(crate) fn pop(&mut self) -> Option<DeadLetter> {
        let letter = self.letters.pop_front()?;
        self.bytes -= letter.memory.capacity();
        Some(letter)
    }
}
