//! Reading numbers and slices from bytes one does not trust.

/// The input ended before the value did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short;

/// A position in a byte slice. Network (big-endian) order unless a name says `le`.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

macro_rules! number {
    ($($name:ident $le:ident $type:ty;)*) => {$(
        /// The next number, in network order.
        #[inline]
        pub fn $name(&mut self) -> Result<$type, Short> {
            self.array().map(<$type>::from_be_bytes)
        }

        /// The next number, in little-endian order.
        #[inline]
        pub fn $le(&mut self) -> Result<$type, Short> {
            self.array().map(<$type>::from_le_bytes)
        }
    )*};
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// The bytes that have not been read.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Bytes not yet read.
    #[inline]
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Nothing is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Short> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Short)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// The next byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Short> {
        self.array().map(|[byte]| byte)
    }

    number! {
        u16 u16_le u16;
        u32 u32_le u32;
        u64 u64_le u64;
        i16 i16_le i16;
        i32 i32_le i32;
        i64 i64_le i64;
    }
}

#[cfg(test)]
mod tests {
    use super::{Reader, Short};

    #[test]
    fn reads_in_order_and_stops_short() {
        let mut reader = Reader::new(&[1, 0, 2, 3, 0, 0, 0, 9]);
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(reader.u16(), Ok(2));
        assert_eq!(reader.u32_le(), Ok(3));
        assert_eq!(reader.u16(), Err(Short));
        assert_eq!(reader.take(1), Ok(&[9][..]));
        assert!(reader.is_empty());
    }
}
