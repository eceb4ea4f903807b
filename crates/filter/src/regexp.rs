//! Regular expressions over texts of messages.

use crate::automaton::{Automata, Room as Bytes, Steps, TooDear};
use crate::found::Room;
use crate::steps;
use crate::value::Value;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// Bytes of a text that patterns see: whether one matches a longer text is unknown.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// Bytes of a text that are walked through in a unit of work, where no step is new.
const BYTES_A_UNIT: usize = 6;

/// A regular expression in the syntax of Rust's crate `regex`, which has no references to groups and no look ahead; `\w` and
/// its like are of ASCII. It matches texts of which it matches a part. One that is too dear for a text is given up.
#[derive(Clone)]
pub struct Regexp {
    text: String,
    ignores_case: bool,
    automata: Arc<Automata>,
}

impl fmt::Debug for Regexp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Regexp({:?}, {})", self.text, self.ignores_case)
    }
}

impl PartialEq for Regexp {
    fn eq(&self, other: &Regexp) -> bool {
        (&self.text, self.ignores_case) == (&other.text, other.ignores_case)
    }
}

impl Regexp {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// In words: it is no regular expression, or takes more than so many bytes.
    pub fn new(text: String, ignores_case: bool, bytes_max: usize) -> Result<Regexp, String> {
        let automata = Automata::new(&text, ignores_case, Bytes { program: bytes_max, steps: bytes_max })?;
        Ok(Regexp { text, ignores_case, automata: Arc::new(automata) })
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether letters match in both cases.
    pub fn ignores_case(&self) -> bool {
        self.ignores_case
    }

    /// Bytes it keeps on the heap; its steps are its [threads'](crate::steps_bytes).
    pub(crate) fn memory(&self) -> usize {
        self.text.len() + self.automata.memory()
    }

    /// Whether a value matches: unknown if it is no text, a long one, or one that takes more work than is left.
    pub(crate) fn matches(&self, subject: Value<'_>, room: &Room) -> Value<'static> {
        steps::with(&self.automata, |steps| self.matches_with(steps, subject, room))
    }

    fn matches_with(&self, steps: &mut Steps, subject: Value<'_>, room: &Room) -> Value<'static> {
        let steps = RefCell::new(steps);
        let is_in = |text: &str| {
            if !room.affords(1 + text.len() / BYTES_A_UNIT) {
                return None;
            }
            // A state that a new step passes over is a unit.
            let most = room.left();
            let mut work = most as u64;
            let found = self.automata.is_in(&mut steps.borrow_mut(), text, &mut work);
            room.spend(if let Err(TooDear) = found { most } else { most - work as usize });
            found.ok()
        };
        subject.ask(|subject| {
            let text = subject.text().filter(|text| text.len() <= TEXT_BYTES_MAX)?;
            is_in(str::from_utf8(text).ok()?)
        })
    }
}
