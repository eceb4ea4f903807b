//! Lists in frames: read where they lie, written from slices; nothing is allocated for either.

use crate::error::Malformed;
use crate::wire;
use base::Reader;
use std::marker::PhantomData;

/// An element of a list.
pub trait Item<'a>: Copy {
    /// Reads one.
    ///
    /// # Errors
    /// When no such thing is there.
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed>;

    /// Appends it.
    fn write(&self, out: &mut Vec<u8>);
}

/// A list, in a frame or in a slice. Invariant: the bytes of one in a frame are `len` items and nothing else.
#[derive(Clone, Copy)]
pub struct List<'a, T> {
    source: Source<'a, T>,
}

#[derive(Clone, Copy)]
enum Source<'a, T> {
    Frame { bytes: &'a [u8], len: u32, items: PhantomData<T> },
    Slice(&'a [T]),
}

impl<'a, T: Item<'a>> List<'a, T> {
    /// A list to be written.
    pub fn new(items: &'a [T]) -> List<'a, T> {
        List { source: Source::Slice(items) }
    }

    /// Reads the list that ends a frame. The number of items in front of it is not looked at, as in RabbitMQ.
    pub(crate) fn read_last(reader: &mut Reader<'a>) -> Result<List<'a, T>, Malformed> {
        reader.u32()?;
        List::read_while(reader, |reader, _| !reader.is_empty())
    }

    /// Reads a list that something follows.
    pub(crate) fn read_counted(reader: &mut Reader<'a>) -> Result<List<'a, T>, Malformed> {
        let count = reader.u32()?;
        List::read_while(reader, |_, len| len < count)
    }

    fn read_while(
        reader: &mut Reader<'a>,
        goes_on: impl Fn(&Reader<'a>, u32) -> bool,
    ) -> Result<List<'a, T>, Malformed> {
        let all = reader.rest();
        let mut len = 0;
        while goes_on(reader, len) {
            // Each item has bytes, so a count that promises more than there are ends here.
            T::read(reader)?;
            len += 1;
        }
        let bytes = &all[..all.len() - reader.len()];
        Ok(List { source: Source::Frame { bytes, len, items: PhantomData } })
    }

    /// Appends the number of items, then the items.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend((self.len() as u32).to_be_bytes());
        match &self.source {
            Source::Frame { bytes, .. } => out.extend_from_slice(bytes),
            Source::Slice(items) => items.iter().for_each(|item| item.write(out)),
        }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        match &self.source {
            Source::Frame { len, .. } => *len as usize,
            Source::Slice(items) => items.len(),
        }
    }

    /// Without items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items, in order.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let (bytes, items) = match self.source {
            Source::Frame { bytes, .. } => (bytes, &[][..]),
            Source::Slice(items) => (&[][..], items),
        };
        let mut reader = Reader::new(bytes);
        let read = move || (!reader.is_empty()).then(|| T::read(&mut reader).expect("it was read before"));
        std::iter::from_fn(read).chain(items.iter().copied())
    }
}

impl<'a> List<'a, Pair<'a>> {
    /// The value of the last pair with this key, which is the one that counts in RabbitMQ.
    pub fn get(&self, key: &[u8]) -> Option<&'a [u8]> {
        self.iter().filter(|pair| pair.key == key).last().map(|pair| pair.value)
    }
}

impl<'a, T: Item<'a>> Default for List<'a, T> {
    fn default() -> List<'a, T> {
        List::new(&[])
    }
}

impl<'a, T: Item<'a> + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &List<'a, T>) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Item<'a> + std::fmt::Debug> std::fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A key and its value: a property, an argument.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Pair<'a> {
    /// Its name.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

impl<'a> Pair<'a> {
    /// A pair to be written.
    pub fn new(key: &'a str, value: &'a str) -> Pair<'a> {
        Pair { key: key.as_bytes(), value: value.as_bytes() }
    }
}

impl std::fmt::Debug for Pair<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.key.escape_ascii(), self.value.escape_ascii())
    }
}

impl<'a> Item<'a> for Pair<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Pair<'a>, Malformed> {
        Ok(Pair { key: wire::string(reader)?, value: wire::string(reader)? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        wire::put_string(out, self.key);
        wire::put_string(out, self.value);
    }
}

impl<'a> Item<'a> for &'a [u8] {
    fn read(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
        wire::string(reader)
    }

    fn write(&self, out: &mut Vec<u8>) {
        wire::put_string(out, self);
    }
}

impl<'a> Item<'a> for u64 {
    fn read(reader: &mut Reader<'a>) -> Result<u64, Malformed> {
        Ok(reader.u64()?)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.to_be_bytes());
    }
}

impl<'a> Item<'a> for u16 {
    fn read(reader: &mut Reader<'a>) -> Result<u16, Malformed> {
        Ok(reader.u16()?)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.to_be_bytes());
    }
}
