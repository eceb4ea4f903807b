//! `REGEXP_REPLACE`: a text with another in place of each part that a regular expression matches, from left to right.
//!
//! Of alternatives the first that matches is taken, as in Rust's crate `regex`, and an empty match right behind another
//! match is none. The replacement is a text and no more: a reference to a group is refused, so that it can mean
//! something one day.

use crate::automaton::{self, Room as Bytes, TooDear};
use crate::found::Room;
use crate::regexp::TEXT_BYTES_MAX;
use crate::spans::{Spans, Steps, Work};
use crate::steps;
use crate::value::Value;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a text that are walked through in a unit of work, where no step is new.
const BYTES_A_UNIT: usize = 6;

/// A regular expression, and the text in place of what it matches.
#[derive(Clone)]
pub struct Replacement {
    text: String,
    ignores_case: bool,
    with: String,
    /// For texts of ASCII, and for others.
    spans: [Arc<Spans>; 2],
}

impl fmt::Debug for Replacement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Replacement({:?}, {:?}, {})", self.text, self.with, self.ignores_case)
    }
}

impl PartialEq for Replacement {
    fn eq(&self, other: &Replacement) -> bool {
        (&self.text, &self.with, self.ignores_case) == (&other.text, &other.with, other.ignores_case)
    }
}

/// Where a replacement refers to a group: `$1`, `$name`, `${name}`, `\1` or `\&`.
pub(crate) fn reference(with: &str) -> Option<Range<usize>> {
    let is_name = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '{' | '}');
    with.match_indices(['$', '\\']).find_map(|(at, sign)| {
        let behind = &with[at + 1..];
        let length = match sign {
            "$" => behind.find(|character| !is_name(character)).unwrap_or(behind.len()),
            _ => usize::from(behind.starts_with(|next: char| next.is_ascii_digit() || next == '&')),
        };
        (length > 0).then_some(at..at + 1 + length)
    })
}

impl Replacement {
    /// Compiles a pattern, of which letters match in both cases if that is said.
    ///
    /// # Errors
    /// In words: it is no regular expression, or one of its four automata takes more than so many bytes.
    pub fn new(
        (text, ignores_case): (String, bool),
        with: String,
        bytes_max: usize,
    ) -> Result<Replacement, String> {
        let room = Bytes { program: bytes_max, steps: bytes_max };
        let [ascii, other] = automaton::parsed(&text, ignores_case)?;
        let spans = [Arc::new(Spans::new(&ascii, room)?), Arc::new(Spans::new(&other, room)?)];
        Ok(Replacement { text, ignores_case, with, spans })
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether letters match in both cases.
    pub fn ignores_case(&self) -> bool {
        self.ignores_case
    }

    /// The text in place of each match.
    pub fn with(&self) -> &str {
        &self.with
    }

    /// Bytes it keeps on the heap; its steps are its [threads'](crate::steps_bytes).
    pub(crate) fn memory(&self) -> usize {
        self.text.len() + self.with.len() + self.spans.iter().map(|spans| spans.memory()).sum::<usize>()
    }

    /// A text with its replacements: unknown if the value is no text, if it or the outcome is longer than
    /// [`TEXT_BYTES_MAX`], or if that takes more work or room than is left.
    pub(crate) fn of<'a>(&self, value: Value<'a>, room: &'a Room) -> Value<'a> {
        let text = match value.first() {
            Value::Bytes(text) if text.len() <= TEXT_BYTES_MAX => str::from_utf8(text).ok(),
            _ => None,
        };
        let Some(text) = text.filter(|_| room.affords(1)) else { return Value::Null };
        // A state that a new step passes over is a unit.
        let all = room.left().saturating_mul(BYTES_A_UNIT);
        let mut work = Work { left: all, bytes_a_state: BYTES_A_UNIT };
        let replaced = self.replaced(text, &mut work);
        room.spend((all - work.left).div_ceil(BYTES_A_UNIT));
        let kept = match replaced {
            Ok(Some(replaced)) => room.keep(replaced.as_bytes()),
            Ok(None) => None,
            Err(TooDear) => {
                room.spend(room.left());
                None
            }
        };
        kept.map_or(Value::Null, Value::Bytes)
    }

    /// The text; none if it gets too long.
    fn replaced(&self, text: &str, work: &mut Work) -> Result<Option<String>, TooDear> {
        let spans = &self.spans[usize::from(!text.is_ascii())];
        steps::with(spans, |steps| self.replaced_with(spans, steps, text, work))
    }

    fn replaced_with(
        &self,
        spans: &Spans,
        steps: &mut Steps,
        text: &str,
        work: &mut Work,
    ) -> Result<Option<String>, TooDear> {
        let mut replaced = String::new();
        let (mut from, mut copied, mut last_end) = (0, 0, None);
        while from <= text.len() {
            let Some(found) = spans.next(steps, text.as_bytes(), from, work)? else { break };
            let Range { start, end } = found;
            // An empty match behind another one is none, nor is one in a character.
            if start == end && (last_end == Some(end) || !text.is_char_boundary(end)) {
                from = text.ceil_char_boundary(end + 1).max(end + 1);
                continue;
            }
            if replaced.len() + (start - copied) + self.with.len() > TEXT_BYTES_MAX {
                return Ok(None);
            }
            replaced.push_str(&text[copied..start]);
            replaced.push_str(&self.with);
            (from, copied, last_end) = (end, end, Some(end));
        }
        replaced.push_str(&text[copied..]);
        Ok((replaced.len() <= TEXT_BYTES_MAX).then_some(replaced))
    }
}
