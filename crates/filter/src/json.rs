//! JSON (RFC 8259) read lazily: one pass over the bytes, led by the paths that are wanted, without a tree and, but for
//! texts with escapes and values of lists, without memory. It ends where all is found.
//!
//! What no path leads into is passed over without a look at its inside: a fault there is not seen. All else is held to the
//! grammar.

mod cursor;
mod text;

use crate::format::Format;
use crate::found::{Found, Room};
use crate::path::Paths;
use crate::value::{Field, Fields, Value};
use crate::walk::{self, Cursor as _, Ended};
use cursor::Cursor;

/// Bytes that are looked at in a unit of [work](crate::Program::price).
pub(crate) const BYTES_A_UNIT: usize = 8;

/// A message that is a body of JSON, and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Document<'d>(pub &'d [u8]);

impl Fields for Document<'_> {
    fn field(&self, _field: Field<'_>) -> Option<Value<'_>> {
        None
    }

    fn body<'a>(&'a self, paths: &Paths, found: &mut Found<'a>) -> bool {
        Format::Json.find(self.0, paths, found)
    }
}

/// A text without the escapes in it; none where one of them is none.
pub(crate) fn unescaped(raw: &str) -> Option<String> {
    let room = Room::default();
    let plain = text::plain(raw.as_bytes(), &room).ok()?;
    str::from_utf8(plain).ok().map(str::to_owned)
}

/// Looks for paths in a document, of which at most the first `bytes_max` bytes are looked at. Returns how many bytes were
/// looked at (those that were looked at twice count twice), and whether all that was needed could be read.
pub fn find<'a>(document: &'a [u8], paths: &Paths, bytes_max: usize, found: &mut Found<'a>) -> (usize, bool) {
    let seen = &document[..document.len().min(bytes_max)];
    let mut cursor = Cursor::new(seen);
    cursor.pass_space();
    let (again, ended) = walk::find(&mut cursor, paths, bytes_max, found);
    // A container that is open at the end is so whatever is looked for.
    let is_open = matches!(seen.trim_ascii_start().first(), Some(b'{' | b'[') | None);
    if ended == Ended::Fault && cursor.is_at_end() && is_open {
        found.ends_alike();
    }
    let is_whole = ended == Ended::Whole && (found.is_complete() || cursor.is_at_end());
    (cursor.at() + again, is_whole)
}
