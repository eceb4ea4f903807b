//! Bytes of a binary format, read one behind the other.

use crate::walk::Fault;

/// A place among bytes.
pub(super) struct Octets<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Heads of values that were read, those twice that were read twice.
    heads: usize,
}

impl<'a> Octets<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Octets<'a> {
        Octets { bytes, at: 0, heads: 0 }
    }

    #[inline]
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn go_back(&mut self, at: usize) {
        self.at = at;
    }

    pub(super) fn heads(&self) -> usize {
        self.heads
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    #[inline]
    pub(super) fn peek(&self) -> Result<u8, Fault> {
        self.bytes.get(self.at).copied().ok_or(Fault)
    }

    /// The first byte of a value.
    #[inline]
    pub(super) fn head(&mut self) -> Result<u8, Fault> {
        let head = self.peek()?;
        self.at += 1;
        self.heads += 1;
        Ok(head)
    }

    /// The next bytes.
    #[inline]
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let taken = self.bytes[self.at..].get(..length).ok_or(Fault)?;
        self.at += length;
        Ok(taken)
    }

    /// The next bytes, as many as a type has.
    #[inline]
    pub(super) fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], Fault> {
        let taken = *self.bytes[self.at..].first_chunk().ok_or(Fault)?;
        self.at += LENGTH;
        Ok(taken)
    }

    /// A number without sign, of so many bytes up to 8, the highest first.
    #[inline]
    pub(super) fn unsigned(&mut self, length: usize) -> Result<u64, Fault> {
        Ok(match length {
            1 => self.array::<1>()?[0].into(),
            2 => u16::from_be_bytes(self.array()?).into(),
            4 => u32::from_be_bytes(self.array()?).into(),
            _ => u64::from_be_bytes(self.array()?),
        })
    }
}
