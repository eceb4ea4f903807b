//! Bytes of a socket, as a connection machine reads them: frame by frame, with the rest left for the next time.

/// Bytes from a socket, and how far they have been read.
///
/// The bytes left when no more events come, an incomplete frame, are the caller's to keep and to present again with
/// more bytes behind it.
#[derive(Clone, Debug, Default)]
pub struct Input<'i> {
    bytes: &'i [u8],
    consumed: usize,
}

impl<'i> Input<'i> {
    /// All of `bytes`, unread.
    #[inline]
    pub fn new(bytes: &'i [u8]) -> Input<'i> {
        Input { bytes, consumed: 0 }
    }

    /// The bytes that have not been read.
    #[inline]
    pub fn rest(&self) -> &'i [u8] {
        self.bytes
    }

    /// Bytes read so far.
    #[inline]
    pub fn consumed(&self) -> usize {
        self.consumed
    }

    /// Reads `count` bytes, all there are if there are fewer.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        let (taken, rest) = self.bytes.split_at(count.min(self.bytes.len()));
        self.consumed += taken.len();
        self.bytes = rest;
    }
}
