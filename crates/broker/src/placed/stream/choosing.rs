//! Chunks for a subscription that wants only those that hold a message of which an expression is true. A chunk goes out whole
//! or not at all; one that is not sent costs the subscription no credit.

use super::cursor::{Budget, Cursor, Expected, Sink, Unpacked};
use super::messages::{Converter, Entry};
use super::request::Wanted;
use super::verdicts::Verdicts;
use crate::catalog::QueueDefinition;
use base::Buffer;
use filter::Counts;
use queue::stream::Chunk;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Choosing {
    pub(super) cursor: Cursor,
    /// The chunk that is being looked at.
    held: Option<Chunk>,
    /// Something in it cannot be looked at.
    is_opaque: bool,
}

/// The fate of the chunk that is being looked at.
#[derive(Debug)]
pub(crate) enum Choice {
    /// It has a message that is wanted, or may have one.
    Send(Chunk),
    /// Nothing in it is wanted.
    Skip,
    /// Others have their turn first.
    Later,
}

impl Choosing {
    pub(crate) fn new(wanted: Wanted) -> Choosing {
        Choosing { cursor: Cursor::new(Some(wanted)), held: None, is_opaque: false }
    }

    /// It is in the midst of a chunk.
    pub(crate) fn holds(&self) -> bool {
        self.held.is_some()
    }

    /// The next chunk is looked at.
    pub(crate) fn hold(&mut self, chunk: Chunk) {
        self.is_opaque = false;
        self.cursor.enter(chunk.clone());
        self.held = Some(chunk);
    }

    /// Counts of its filter since they were taken last.
    pub(crate) fn take_filtered(&mut self) -> Counts {
        self.cursor.take_filtered()
    }

    /// Looks at the messages of the chunk, as far as the budget goes: to the first one that is wanted.
    pub(crate) fn look(
        &mut self,
        stream: &QueueDefinition,
        now_ms: u64,
        budget: Budget<'_>,
        verdicts: Option<&mut Verdicts>,
        converter: &mut Converter,
    ) -> Choice {
        let mut looks = Looks { converter, is_opaque: &mut self.is_opaque };
        let mut nothing = Buffer::default();
        let (unpacked, wanted) =
            self.cursor.unpack(stream, now_ms, budget, verdicts, &mut looks, &mut nothing);
        if wanted == 0 && unpacked == Unpacked::Enough {
            return Choice::Later;
        }
        self.cursor.leave();
        match self.held.take() {
            Some(chunk) if wanted > 0 || self.is_opaque => Choice::Send(chunk),
            _ => Choice::Skip,
        }
    }
}

/// Takes nothing, and says of what it is shown whether it is wanted.
struct Looks<'a> {
    converter: &'a mut Converter,
    is_opaque: &'a mut bool,
}

impl Sink for Looks<'_> {
    fn take(&mut self, (_, entry): (&[u8], Entry<'_>), wanted: Expected<'_>, _into: &mut Buffer) -> bool {
        self.converter.is_wanted(entry, wanted)
    }

    fn converter(&mut self) -> &mut Converter {
        self.converter
    }

    fn pass_compressed(&mut self) {
        *self.is_opaque = true;
    }
}
