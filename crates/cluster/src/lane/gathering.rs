//! Bodies as they come: whole in one frame, or gathered from several.
//!
//! Memory for a body under way grows with the bytes that came, never with those that are announced.

use super::error::Error;
use super::frame::{Frame, Kind};
use super::window::{Charge, Intake};
use base::{Buffer, Memory};

/// A body that came.
#[derive(Clone, Debug)]
pub enum Body<'i> {
    /// It lies in the input.
    Whole(&'i [u8]),
    /// It came in several frames.
    Gathered(Memory),
}

impl std::ops::Deref for Body<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Body::Whole(bytes) => bytes,
            Body::Gathered(memory) => memory,
        }
    }
}

/// The body under way, if any.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    under_way: Option<UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    kind: Kind,
    buffer: Buffer,
    /// Bytes of its frames that count against the window.
    counted: u32,
}

impl Gathering {
    /// Takes a counted frame; answers the body once it is whole.
    #[inline]
    pub fn take<'i>(
        &mut self,
        frame: Frame<'i>,
        entry_bytes_max: u32,
        intake: &mut Intake,
    ) -> Result<Option<(Body<'i>, Charge)>, Error> {
        intake.receive(frame.wire_bytes())?;
        if !frame.has_more && self.under_way.is_none() {
            if frame.body.len() > entry_bytes_max as usize {
                return Err(Error::EntryLength { len_max: entry_bytes_max });
            }
            // A frame is at most a quarter of a window.
            return Ok(Some((Body::Whole(frame.body), Charge(frame.wire_bytes() as u32))));
        }
        self.take_piece(frame, entry_bytes_max, intake)
    }

    fn take_piece<'i>(
        &mut self,
        frame: Frame<'i>,
        entry_bytes_max: u32,
        intake: &mut Intake,
    ) -> Result<Option<(Body<'i>, Charge)>, Error> {
        let fresh = || UnderWay { kind: frame.kind, buffer: Buffer::default(), counted: 0 };
        let body = self.under_way.get_or_insert_with(fresh);
        if frame.kind != body.kind {
            return Err(Error::Unexpected(frame.kind));
        }
        if frame.has_more && frame.body.is_empty() {
            return Err(Error::EmptyPiece);
        }
        if frame.body.len() > entry_bytes_max as usize - body.buffer.len() {
            return Err(Error::EntryLength { len_max: entry_bytes_max });
        }
        body.buffer.extend(frame.body);
        let counted = body.counted + frame.wire_bytes() as u32;
        body.counted = counted.min(intake.gathered_max());
        intake.release(counted - body.counted);
        if frame.has_more {
            return Ok(None);
        }
        let whole = self.under_way.take();
        Ok(whole.map(|body| (Body::Gathered(body.buffer.seal()), Charge(body.counted))))
    }

    /// Forgets the body under way.
    pub fn clear(&mut self) {
        self.under_way = None;
    }

    /// Bytes of memory.
    pub fn capacity(&self) -> usize {
        self.under_way.as_ref().map_or(0, |body| body.buffer.capacity())
    }
}
