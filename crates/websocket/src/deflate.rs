//! Compression of messages, RFC 7692, without memory between messages.
//!
//! Neither side keeps its window from one message to the next (`..._no_context_takeover`), so an idle connection holds
//! no state: while a message comes in, one of the [`Workshop`]'s inflaters is lent to its connection.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// The end of every compressed message, which its sender leaves out, §7.2.1.
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// Inflaters kept for the next message.
const SPARE_MAX: usize = 4;

/// Inflaters and the deflater of all connections of a thread, made when first needed.
#[derive(Default)]
pub struct Workshop {
    spare: Vec<Decompress>,
    deflater: Option<Compress>,
}

impl std::fmt::Debug for Workshop {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Workshop").field("spare", &self.spare.len()).finish_non_exhaustive()
    }
}

impl Workshop {
    /// Appends `message`, compressed, to `out`.
    pub fn deflate(&mut self, message: &[u8], out: &mut Vec<u8>) {
        let deflater = self.deflater.get_or_insert_with(|| Compress::new(Compression::fast(), false));
        deflater.reset();
        let begin = out.len();
        // An incompressible message grows by five bytes in 16 KiB or so, and the flush adds a few.
        out.reserve(message.len() + message.len() / 1024 + 64);
        loop {
            let taken = deflater.total_in() as usize;
            let done = deflater.compress_vec(&message[taken..], out, FlushCompress::Sync);
            assert!(done.is_ok(), "compression knows no wrong input");
            // A flush is complete when it leaves room.
            if deflater.total_in() as usize == message.len() && out.len() < out.capacity() {
                break;
            }
            out.reserve(1024);
        }
        debug_assert!(out.len() >= begin + TAIL.len() && out.ends_with(&TAIL));
        out.truncate(out.len() - TAIL.len());
    }

    pub(crate) fn lend(&mut self) -> Inflater {
        let inner = self.spare.pop().unwrap_or_else(|| Decompress::new(false));
        Inflater { inner: Box::new(inner), tail_done: 0, produced: 0 }
    }

    pub(crate) fn take_back(&mut self, inflater: Inflater) {
        if self.spare.len() < SPARE_MAX {
            let mut inner = *inflater.inner;
            inner.reset(false);
            self.spare.push(inner);
        }
    }
}

/// The inflation of one message.
pub(crate) struct Inflater {
    inner: Box<Decompress>,
    /// Bytes of [`TAIL`] that went in.
    tail_done: usize,
    produced: u64,
}

impl std::fmt::Debug for Inflater {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Inflater").field("produced", &self.produced).finish_non_exhaustive()
    }
}

/// The compressed bytes are none.
pub(crate) struct Garbled;

impl Inflater {
    /// Bytes the message inflated to so far.
    pub(crate) fn produced(&self) -> u64 {
        self.produced
    }

    /// Inflates until `bytes` are used up or `into` is full: bytes used and bytes made.
    pub(crate) fn inflate(&mut self, bytes: &[u8], into: &mut [u8]) -> Result<(usize, usize), Garbled> {
        let (mut used, mut made) = (0, 0);
        loop {
            let (before_in, before_out) = (self.inner.total_in(), self.inner.total_out());
            let status = self.inner.decompress(&bytes[used..], &mut into[made..], FlushDecompress::Sync);
            let step_in = (self.inner.total_in() - before_in) as usize;
            let step_out = (self.inner.total_out() - before_out) as usize;
            used += step_in;
            made += step_out;
            self.produced += step_out as u64;
            match status {
                Err(_) => return Err(Garbled),
                // A sender may end the stream and go on with another, §7.2.3.5.
                Ok(Status::StreamEnd) => self.inner.reset(false),
                Ok(Status::Ok | Status::BufError) if step_in + step_out == 0 => return Ok((used, made)),
                Ok(_) => {}
            }
            // With input used up there may still be output inside, for which another call is made while there is room.
            if made == into.len() {
                return Ok((used, made));
            }
        }
    }

    /// All of the message went in: puts in the tail that its sender left out. Bytes made, and whether that was all.
    pub(crate) fn finish(&mut self, into: &mut [u8]) -> Result<(usize, bool), Garbled> {
        let (used, made) = self.inflate(&TAIL[self.tail_done..], into)?;
        self.tail_done += used;
        Ok((made, self.tail_done == TAIL.len() && made < into.len()))
    }
}
