//! MessagePack, read lazily. Keys of maps may be strings, binaries or integers. A timestamp (extension type -1) is
//! milliseconds since 1970; a value of another extension type is there, and unknown. Strings need not be UTF-8.

use super::octets::Octets;
use crate::found::{Found, Room};
use crate::path::Paths;
use crate::tree::Key;
use crate::value::Value;
use crate::walk::{self, Ended, Fault, Kind};

/// Values that are looked at in a unit of [work](crate::Program::price).
const VALUES_A_UNIT: usize = 2;

/// The extension type of timestamps.
const TIMESTAMP: u8 = -1_i8 as u8;

/// Looks for paths in a document, of which at most the first `bytes_max` bytes are looked at. Returns units of work, and
/// whether all that was needed could be read.
pub(super) fn find<'a>(
    document: &'a [u8],
    paths: &Paths,
    bytes_max: usize,
    found: &mut Found<'a>,
) -> (usize, bool) {
    let seen = &document[..document.len().min(bytes_max)];
    let mut cursor = Cursor { octets: Octets::new(seen) };
    let (_, ended) = walk::find(&mut cursor, paths, bytes_max, found);
    let is_whole = ended == Ended::Whole && (found.is_complete() || cursor.octets.is_at_end());
    (cursor.octets.heads() / VALUES_A_UNIT, is_whole)
}

struct Cursor<'a> {
    octets: Octets<'a>,
}

/// The form of a value, by its first byte.
#[derive(Clone, Copy)]
enum Form {
    /// A head and content of this many bytes in all.
    Fixed(u8),
    /// A length of this many bytes, content, and this many bytes between the two.
    Long(u8, u8),
    /// A map or list whose count is in the first byte.
    Few(u8),
    /// A map or list with a count of this many bytes.
    Many(u8),
    /// 0xC1, which is never used.
    Never,
}

/// The forms of all first bytes; maps count twice, their keys and values.
const FORMS: [Form; 256] = {
    let mut forms = [Form::Fixed(1); 256];
    let mut byte = 0;
    while byte < 256 {
        forms[byte] = match byte as u8 {
            head @ 0x80..=0x8F => Form::Few(2 * (head & 0x0F)),
            head @ 0x90..=0x9F => Form::Few(head & 0x0F),
            head @ 0xA0..=0xBF => Form::Fixed(1 + (head & 0x1F)),
            0xC1 => Form::Never,
            0xC4 | 0xD9 => Form::Long(1, 0),
            0xC5 | 0xDA => Form::Long(2, 0),
            0xC6 | 0xDB => Form::Long(4, 0),
            0xC7 => Form::Long(1, 1),
            0xC8 => Form::Long(2, 1),
            0xC9 => Form::Long(4, 1),
            0xCC | 0xD0 => Form::Fixed(2),
            0xCD | 0xD1 | 0xD4 => Form::Fixed(3),
            0xCA | 0xCE | 0xD2 => Form::Fixed(5),
            0xD5 => Form::Fixed(4),
            0xD6 => Form::Fixed(6),
            0xCB | 0xCF | 0xD3 => Form::Fixed(9),
            0xD7 => Form::Fixed(10),
            0xD8 => Form::Fixed(18),
            0xDC | 0xDE => Form::Many(2),
            0xDD | 0xDF => Form::Many(4),
            _ => Form::Fixed(1),
        };
        byte += 1;
    }
    forms
};

impl<'a> Cursor<'a> {
    /// Passes so many values, with all that is in them: counted down, not recursed into.
    fn pass(&mut self, mut values: u64) -> Result<(), Fault> {
        while values > 0 {
            values -= 1;
            let head = self.octets.head()?;
            match FORMS[usize::from(head)] {
                Form::Fixed(length) => _ = self.octets.take(usize::from(length) - 1)?,
                Form::Long(width, between) => {
                    let length = self.octets.unsigned(usize::from(width))? as usize;
                    self.octets.take(length + usize::from(between))?;
                }
                Form::Few(count) => values += u64::from(count),
                Form::Many(width) => {
                    let count = self.octets.unsigned(usize::from(width))?;
                    values += if is_map(head) { 2 * count } else { count };
                }
                Form::Never => return Err(Fault),
            }
        }
        Ok(())
    }

    /// Bytes whose length is in so many bytes.
    fn long(&mut self, width: usize) -> Result<&'a [u8], Fault> {
        let length = self.octets.unsigned(width)?;
        self.octets.take(length as usize)
    }

    /// An extension, from its type on.
    fn extension(&mut self, length: usize) -> Result<Value<'a>, Fault> {
        let [kind] = self.octets.array()?;
        let content = self.octets.take(length)?;
        let time = if kind == TIMESTAMP { timestamp_ms(content) } else { None };
        Ok(time.map_or(Value::Composite, Value::Integer))
    }
}

fn is_map(head: u8) -> bool {
    matches!(head, 0x80..=0x8F | 0xDE | 0xDF)
}

/// Milliseconds since 1970: seconds of 32 bits, of 34 bits with nanoseconds before them, or of 64 bits with nanoseconds
/// before them.
fn timestamp_ms(content: &[u8]) -> Option<i128> {
    let (seconds, nanoseconds) = match content.len() {
        4 => (i128::from(u32::from_be_bytes(content.try_into().ok()?)), 0),
        8 => {
            let both = u64::from_be_bytes(content.try_into().ok()?);
            (i128::from(both & ((1 << 34) - 1)), (both >> 34) as u32)
        }
        12 => {
            let (nanoseconds, seconds) = content.split_at(4);
            let seconds = i64::from_be_bytes(seconds.try_into().ok()?);
            (seconds.into(), u32::from_be_bytes(nanoseconds.try_into().ok()?))
        }
        _ => return None,
    };
    (nanoseconds < 1_000_000_000).then(|| seconds * 1000 + i128::from(nanoseconds / 1_000_000))
}

impl<'a> walk::Cursor<'a> for Cursor<'a> {
    /// Values that are to come; a key is one.
    type Within = u64;

    #[inline]
    fn at(&self) -> usize {
        self.octets.at()
    }

    fn go_back(&mut self, at: usize) {
        self.octets.go_back(at);
    }

    #[inline]
    fn kind(&mut self) -> Result<Kind, Fault> {
        Ok(match self.octets.peek()? {
            0x80..=0x8F | 0xDE | 0xDF => Kind::Map,
            0x90..=0x9F | 0xDC | 0xDD => Kind::List,
            _ => Kind::Scalar,
        })
    }

    fn open(&mut self) -> Result<u64, Fault> {
        let head = self.octets.head()?;
        Ok(match FORMS[usize::from(head)] {
            Form::Few(count) => count.into(),
            Form::Many(width) => {
                let count = self.octets.unsigned(usize::from(width))?;
                if is_map(head) { 2 * count } else { count }
            }
            Form::Fixed(_) | Form::Long(..) | Form::Never => return Err(Fault),
        })
    }

    #[inline]
    fn next_member(&mut self, within: &mut u64, room: &'a Room) -> Result<Option<Key<'a>>, Fault> {
        if *within == 0 {
            return Ok(None);
        }
        *within -= 2;
        let head = self.octets.peek()?;
        if let 0xA0..=0xBF = head {
            self.octets.head()?;
            return self.octets.take(usize::from(head & 0x1F)).map(|name| Some(Key::Name(name)));
        }
        if self.kind()? != Kind::Scalar {
            return self.pass(1).map(|()| Some(Key::Other));
        }
        Ok(Some(match self.scalar(room)? {
            Value::Bytes(name) => Key::Name(name),
            Value::Integer(number) => Key::Number(number),
            _ => Key::Other,
        }))
    }

    #[inline]
    fn next_element(&mut self, within: &mut u64) -> Result<bool, Fault> {
        let has_more = *within > 0;
        *within -= u64::from(has_more);
        Ok(has_more)
    }

    fn scalar(&mut self, _room: &'a Room) -> Result<Value<'a>, Fault> {
        let head = self.octets.head()?;
        Ok(match head {
            0x00..=0x7F => Value::Integer(head.into()),
            0xE0..=0xFF => Value::Integer((head as i8).into()),
            0xA0..=0xBF => Value::Bytes(self.octets.take(usize::from(head & 0x1F))?),
            0xC0 => Value::Null,
            0xC2 => Value::Bool(false),
            0xC3 => Value::Bool(true),
            0xC4 | 0xD9 => Value::Bytes(self.long(1)?),
            0xC5 | 0xDA => Value::Bytes(self.long(2)?),
            0xC6 | 0xDB => Value::Bytes(self.long(4)?),
            0xC7..=0xC9 => {
                let length = self.octets.unsigned(1 << (head - 0xC7))?;
                return self.extension(length as usize);
            }
            0xCA => Value::Float(f32::from_be_bytes(self.octets.array()?).into()),
            0xCB => Value::Float(f64::from_be_bytes(self.octets.array()?)),
            0xCC..=0xCF => Value::Integer(self.octets.unsigned(1 << (head - 0xCC))?.into()),
            0xD0 => Value::Integer(i8::from_be_bytes(self.octets.array()?).into()),
            0xD1 => Value::Integer(i16::from_be_bytes(self.octets.array()?).into()),
            0xD2 => Value::Integer(i32::from_be_bytes(self.octets.array()?).into()),
            0xD3 => Value::Integer(i64::from_be_bytes(self.octets.array()?).into()),
            0xD4..=0xD8 => return self.extension(1 << (head - 0xD4)),
            // Maps and lists are no scalars.
            0x80..=0x9F | 0xC1 | 0xDC..=0xDF => return Err(Fault),
        })
    }

    #[inline]
    fn pass_scalar(&mut self) -> Result<(), Fault> {
        self.pass(1)
    }

    #[inline]
    fn pass_value(&mut self) -> Result<(), Fault> {
        self.pass(1)
    }

    fn pass_rest(&mut self, within: u64) -> Result<(), Fault> {
        self.pass(within)
    }
}
