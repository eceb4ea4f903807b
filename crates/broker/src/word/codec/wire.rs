//! Values as bytes: one table for each type, by which it is written and read.
//!
//! Numbers are little-endian, lists counted. What is read may be anybody's bytes: memory is taken for what is there.

use super::Fault;
use base::id::{LogId, LogIndex, NodeNo, PortId, QueueId, QueueSeq, ShardId};
use base::{Output, Reader};
use message::record::SeqRange;
use std::sync::Arc;

/// A value that has bytes.
pub(super) trait Wire: Sized {
    /// Appends it.
    fn put(&self, out: &mut Output);

    /// Reads one.
    fn take(reader: &mut Reader<'_>) -> Result<Self, Fault>;
}

macro_rules! wire_numbers {
    ($($type:ty),*) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Output) {
                out.extend(&self.to_le_bytes());
            }

            fn take(reader: &mut Reader<'_>) -> Result<$type, Fault> {
                let bytes = reader.take(size_of::<$type>())?;
                Ok(<$type>::from_le_bytes(bytes.try_into().map_err(|_| Fault::Short)?))
            }
        }
    )*};
}

wire_numbers!(u8, u16, u32, u64, i32);

macro_rules! wire_ids {
    ($($type:ident),*) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Output) {
                self.0.put(out);
            }

            fn take(reader: &mut Reader<'_>) -> Result<$type, Fault> {
                Wire::take(reader).map($type)
            }
        }
    )*};
}

wire_ids!(LogId, LogIndex, NodeNo, QueueId, QueueSeq, ShardId);

/// A struct: its fields, in this order.
macro_rules! wire_struct {
    ($type:ident { $($field:ident),* $(,)? }) => {
        impl Wire for $type {
            fn put(&self, out: &mut Output) {
                $(self.$field.put(out);)*
            }

            fn take(reader: &mut Reader<'_>) -> Result<$type, Fault> {
                $(let $field = Wire::take(reader)?;)*
                Ok($type { $($field),* })
            }
        }
    };
}

/// An enum: the tag of each variant, then its fields, in this order.
macro_rules! wire_enum {
    ($type:ident {
        $($tag:literal $variant:ident $({ $($field:ident),* $(,)? })? $(($inner:ident))?,)*
    }) => {
        impl Wire for $type {
            fn put(&self, out: &mut Output) {
                match self {
                    $($type::$variant $({ $($field),* })? $(($inner))? => {
                        out.extend(&[$tag]);
                        $($($field.put(out);)*)?
                        $($inner.put(out);)?
                    })*
                }
            }

            fn take(reader: &mut Reader<'_>) -> Result<$type, Fault> {
                Ok(match reader.u8()? {
                    $($tag => {
                        $($(let $field = Wire::take(reader)?;)*)?
                        $(let $inner = Wire::take(reader)?;)?
                        $type::$variant $({ $($field),* })? $(($inner))?
                    })*
                    tag => return Err(Fault::Tag { of: stringify!($type), tag }),
                })
            }
        }
    };
}

pub(super) use {wire_enum, wire_struct};

wire_struct!(PortId { node, shard, slot, generation });

impl Wire for SeqRange {
    fn put(&self, out: &mut Output) {
        self.first.put(out);
        self.last.put(out);
    }

    fn take(reader: &mut Reader<'_>) -> Result<SeqRange, Fault> {
        let (first, last) = (QueueSeq::take(reader)?, QueueSeq::take(reader)?);
        if first > last { Err(Fault::Range) } else { Ok(SeqRange { first, last }) }
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Output) {
        out.extend(&[u8::from(*self)]);
    }

    fn take(reader: &mut Reader<'_>) -> Result<bool, Fault> {
        match reader.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            tag => Err(Fault::Tag { of: "flag", tag }),
        }
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Output) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }

    fn take(reader: &mut Reader<'_>) -> Result<Option<T>, Fault> {
        bool::take(reader)?.then(|| T::take(reader)).transpose()
    }
}

impl<T: Wire> Wire for Box<T> {
    fn put(&self, out: &mut Output) {
        (**self).put(out);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Box<T>, Fault> {
        T::take(reader).map(Box::new)
    }
}

impl<T: Wire> Wire for Arc<T> {
    fn put(&self, out: &mut Output) {
        (**self).put(out);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Arc<T>, Fault> {
        T::take(reader).map(Arc::new)
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Output) {
        put_all(self, out);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Vec<T>, Fault> {
        let count = reader.u32_le()? as usize;
        // Each has a byte at least.
        if count > reader.len() {
            return Err(Fault::Count(count));
        }
        (0..count).map(|_| T::take(reader)).collect()
    }
}

impl<T: Wire> Wire for Box<[T]> {
    fn put(&self, out: &mut Output) {
        put_all(self, out);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Box<[T]>, Fault> {
        Vec::take(reader).map(Vec::into_boxed_slice)
    }
}

impl<T: Wire> Wire for Arc<[T]> {
    fn put(&self, out: &mut Output) {
        put_all(self, out);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Arc<[T]>, Fault> {
        Vec::take(reader).map(Arc::from)
    }
}

fn put_all<T: Wire>(values: &[T], out: &mut Output) {
    (values.len() as u32).put(out);
    values.iter().for_each(|value| value.put(out));
}

impl Wire for Box<str> {
    fn put(&self, out: &mut Output) {
        put_text(self, out);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Box<str>, Fault> {
        take_text(reader).map(Box::from)
    }
}

/// Appends a text: its length, and its bytes.
pub(super) fn put_text(text: &str, out: &mut Output) {
    (text.len() as u32).put(out);
    out.extend(text.as_bytes());
}

/// Reads a text.
pub(super) fn take_text<'a>(reader: &mut Reader<'a>) -> Result<&'a str, Fault> {
    let len = reader.u32_le()? as usize;
    str::from_utf8(reader.take(len)?).map_err(|_| Fault::Text)
}
