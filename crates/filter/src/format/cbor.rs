//! CBOR (RFC 8949), read lazily. Keys of maps may be texts, byte strings or integers.
//!
//! Tags: 1 is a time, as milliseconds since 1970; 2 and 3 are large integers; a decimal fraction, a bigfloat or a rational
//! number is there, and unknown; of all others the value under the tag counts. `undefined` is null, simple values without
//! a meaning are there and unknown. Texts need not be UTF-8.

mod number;

use super::octets::Octets;
use crate::found::{Found, Room};
use crate::path::Paths;
use crate::tree::Key;
use crate::value::Value;
use crate::walk::{self, Ended, Fault, Kind};

/// The first bytes of a document that says itself that it is CBOR, section 3.4.6.
pub(super) const SELF_DESCRIBED: [u8; 3] = [0xD9, 0xD9, 0xF7];

/// Values that are looked at in a unit of [work](crate::Program::price).
const VALUES_A_UNIT: usize = 2;

/// Maps and lists of indefinite length in each other that are passed over; others may be in each other without a bound.
const INDEFINITE_DEPTH_MAX: usize = 64;

/// The end of something of indefinite length.
const BREAK: u8 = 0xFF;

// Major types, section 3.1.
const UNSIGNED: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const LIST: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;
const SIMPLE: u8 = 7;

// Tags, section 3.4, and rational numbers of the registry.
const EPOCH: u64 = 1;
const BIG_UNSIGNED: u64 = 2;
const BIG_NEGATIVE: u64 = 3;
const DECIMAL_FRACTION: u64 = 4;
const BIGFLOAT: u64 = 5;
const RATIONAL: u64 = 30;
const DECIMAL_FRACTION_LARGE: u64 = 264;
const BIGFLOAT_LARGE: u64 = 265;

/// Looks for paths in a document, of which at most the first `bytes_max` bytes are looked at. Returns units of work, and
/// whether all that was needed could be read.
pub(super) fn find<'a>(
    document: &'a [u8],
    paths: &Paths,
    bytes_max: usize,
    found: &mut Found<'a>,
) -> (usize, bool) {
    let seen = &document[..document.len().min(bytes_max)];
    let mut cursor = Cursor { octets: Octets::new(seen), tag: None, has_indefinite: false };
    let (_, ended) = walk::find(&mut cursor, paths, bytes_max, found);
    if cursor.has_indefinite {
        // A value that is passed may be too deep, and not so once a path leads into it.
        found.ends_otherwise();
    }
    let is_whole = ended == Ended::Whole && (found.is_complete() || cursor.octets.is_at_end());
    (cursor.octets.heads() / VALUES_A_UNIT, is_whole)
}

struct Cursor<'a> {
    octets: Octets<'a>,
    /// The tag before the value here, of several the last.
    tag: Option<u64>,
    /// A list or map of a length that is not said was passed.
    has_indefinite: bool,
}

/// The first bytes of a value: its major type, and the number behind.
#[derive(Clone, Copy)]
struct Head {
    major: u8,
    /// The number, or the bits of a float.
    argument: Argument,
}

#[derive(Clone, Copy)]
enum Argument {
    /// In the first byte.
    Short(u8),
    /// In so many bytes behind it.
    Long(u64, u8),
    Indefinite,
}

impl Argument {
    /// The number; none where there is none.
    #[inline]
    fn number(self) -> Option<u64> {
        match self {
            Argument::Short(number) => Some(number.into()),
            Argument::Long(number, _) => Some(number),
            Argument::Indefinite => None,
        }
    }
}

/// Bytes behind the first one of values that have no others in them and say their length in it; of others [`LONG`].
const SHORT: [u8; 256] = {
    let mut short = [LONG; 256];
    let mut byte = 0;
    while byte < 256 {
        let (major, number) = (byte as u8 >> 5, byte as u8 & 0x1F);
        short[byte] = match (major, number) {
            (UNSIGNED | NEGATIVE | SIMPLE, 0..24) => 0,
            (BYTES | TEXT, 0..24) => number,
            (UNSIGNED | NEGATIVE | SIMPLE, 24..28) => 1 << (number - 24),
            _ => LONG,
        };
        byte += 1;
    }
    short
};

const LONG: u8 = u8::MAX;

impl<'a> Cursor<'a> {
    #[inline]
    fn head(&mut self) -> Result<Head, Fault> {
        let first = self.octets.head()?;
        let argument = match first & 0x1F {
            number @ 0..=23 => Argument::Short(number),
            width @ 24..=27 => {
                let width = 1 << (width - 24);
                Argument::Long(self.octets.unsigned(width)?, width as u8)
            }
            31 => Argument::Indefinite,
            _ => return Err(Fault),
        };
        Ok(Head { major: first >> 5, argument })
    }

    fn is_break(&self) -> Result<bool, Fault> {
        Ok(self.octets.peek()? == BREAK)
    }

    /// Passes so many values, with all that is in them: counted down, and recursed into only where their number is not
    /// said.
    fn pass(&mut self, mut values: u64, depth: usize) -> Result<(), Fault> {
        while values > 0 {
            values -= 1;
            // Short ones are most.
            let content = SHORT[usize::from(self.octets.peek()?)];
            if content != LONG {
                self.octets.head()?;
                self.octets.take(usize::from(content))?;
                continue;
            }
            let Head { major, argument } = self.head()?;
            let inside = match (major, argument.number()) {
                (BYTES | TEXT, Some(length)) => {
                    self.take(length)?;
                    0
                }
                (BYTES | TEXT, None) => {
                    while let Some(_chunk) = self.chunk(major)? {}
                    0
                }
                (LIST, Some(count)) => count,
                (MAP, Some(count)) => count.saturating_mul(2),
                (LIST | MAP, None) => {
                    self.has_indefinite = true;
                    let depth = depth.checked_sub(1).ok_or(Fault)?;
                    while !self.is_break()? {
                        self.pass(1, depth)?;
                    }
                    self.octets.head()?;
                    0
                }
                (TAG, Some(_)) => 1,
                // A break where nothing is to end.
                (_, None) => return Err(Fault),
                (_, Some(_)) => 0,
            };
            values = values.saturating_add(inside);
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self, length: u64) -> Result<&'a [u8], Fault> {
        self.octets.take(usize::try_from(length).map_err(|_| Fault)?)
    }

    /// The next chunk of a text or byte string of indefinite length.
    fn chunk(&mut self, of_major: u8) -> Result<Option<&'a [u8]>, Fault> {
        if self.is_break()? {
            self.octets.head()?;
            return Ok(None);
        }
        let Head { major, argument } = self.head()?;
        match argument.number() {
            Some(length) if major == of_major => self.take(length).map(Some),
            _ => Err(Fault),
        }
    }

    /// A text or byte string; its chunks are joined in the room.
    fn string(&mut self, major: u8, length: Option<u64>, room: &'a Room) -> Result<&'a [u8], Fault> {
        if let Some(length) = length {
            return self.take(length);
        }
        let Some(first) = self.chunk(major)? else { return Ok(b"") };
        let Some(second) = self.chunk(major)? else { return Ok(first) };
        let mut whole = bumpalo::collections::Vec::new_in(room.bump());
        append(&mut whole, first)?;
        append(&mut whole, second)?;
        while let Some(part) = self.chunk(major)? {
            append(&mut whole, part)?;
        }
        Ok(whole.into_bump_slice())
    }

    /// Passes the tags before a value: the last of them counts.
    #[inline]
    fn tags(&mut self) -> Result<(), Fault> {
        self.tag = None;
        while self.octets.peek()? >> 5 == TAG {
            self.tag = Some(self.head()?.argument.number().ok_or(Fault)?);
        }
        Ok(())
    }

    /// Whether the value here is a number that is written as a list.
    fn is_list_for_number(&self) -> bool {
        matches!(
            self.tag,
            Some(DECIMAL_FRACTION | BIGFLOAT | RATIONAL | DECIMAL_FRACTION_LARGE | BIGFLOAT_LARGE)
        )
    }
}

fn append(whole: &mut bumpalo::collections::Vec<'_, u8>, part: &[u8]) -> Result<(), Fault> {
    whole.try_reserve(part.len()).map_err(|_| Fault)?;
    whole.extend_from_slice(part);
    Ok(())
}

/// A float or a simple value, section 3.3.
fn simple(argument: Argument) -> Result<Value<'static>, Fault> {
    Ok(match argument {
        Argument::Short(20) => Value::Bool(false),
        Argument::Short(21) => Value::Bool(true),
        Argument::Short(22 | 23) => Value::Null,
        Argument::Short(_) => Value::Composite,
        // Those that one byte has room for are not written in two.
        Argument::Long(0..32, 1) => return Err(Fault),
        Argument::Long(_, 1) => Value::Composite,
        Argument::Long(bits, 2) => Value::Float(number::half(bits as u16)),
        Argument::Long(bits, 4) => Value::Float(f32::from_bits(bits as u32).into()),
        Argument::Long(bits, _) => Value::Float(f64::from_bits(bits)),
        Argument::Indefinite => return Err(Fault),
    })
}

impl<'a> walk::Cursor<'a> for Cursor<'a> {
    /// Values that are to come, where their number is known; a key is one.
    type Within = Option<u64>;

    #[inline]
    fn at(&self) -> usize {
        self.octets.at()
    }

    fn go_back(&mut self, at: usize) {
        self.octets.go_back(at);
    }

    #[inline]
    fn kind(&mut self) -> Result<Kind, Fault> {
        self.tags()?;
        Ok(match self.octets.peek()? >> 5 {
            MAP => Kind::Map,
            LIST if self.is_list_for_number() => Kind::Scalar,
            LIST => Kind::List,
            _ => Kind::Scalar,
        })
    }

    fn open(&mut self) -> Result<Option<u64>, Fault> {
        self.tags()?;
        let Head { major, argument } = self.head()?;
        Ok(argument.number().map(|count| if major == MAP { count.saturating_mul(2) } else { count }))
    }

    #[inline]
    fn next_member(&mut self, within: &mut Option<u64>, room: &'a Room) -> Result<Option<Key<'a>>, Fault> {
        match within {
            Some(0) => return Ok(None),
            // An odd number is there only where the true one is too large for any document.
            Some(left) => *left = left.saturating_sub(2),
            None if self.is_break()? => return self.octets.head().map(|_| None),
            None => {}
        }
        let head = self.octets.peek()?;
        if let 0x60..=0x77 = head {
            self.octets.head()?;
            return self.octets.take(usize::from(head & 0x1F)).map(|name| Some(Key::Name(name)));
        }
        if self.kind()? != Kind::Scalar {
            return self.pass(1, INDEFINITE_DEPTH_MAX).map(|()| Some(Key::Other));
        }
        Ok(Some(match self.scalar(room)? {
            Value::Bytes(name) => Key::Name(name),
            Value::Integer(number) => Key::Number(number),
            _ => Key::Other,
        }))
    }

    #[inline]
    fn next_element(&mut self, within: &mut Option<u64>) -> Result<bool, Fault> {
        match within {
            Some(0) => Ok(false),
            Some(left) => {
                *left -= 1;
                Ok(true)
            }
            None if self.is_break()? => self.octets.head().map(|_| false),
            None => Ok(true),
        }
    }

    /// Behind the tags of the value.
    #[inline]
    fn scalar(&mut self, room: &'a Room) -> Result<Value<'a>, Fault> {
        let tag = self.tag.take();
        let Head { major, argument } = self.head()?;
        let value = match (major, argument.number()) {
            (UNSIGNED, Some(number)) => Value::Integer(number.into()),
            (NEGATIVE, Some(number)) => Value::Integer(-1 - i128::from(number)),
            (BYTES | TEXT, length) => Value::Bytes(self.string(major, length, room)?),
            (LIST, length) => {
                // The parts of a number.
                self.pass_rest(length)?;
                Value::Composite
            }
            (UNSIGNED | NEGATIVE | MAP | TAG, _) => return Err(Fault),
            _ => simple(argument)?,
        };
        Ok(match (tag, value) {
            (None, value) => value,
            (Some(EPOCH), value) => number::time_ms(value),
            (Some(BIG_UNSIGNED), Value::Bytes(bytes)) if major == BYTES => number::big(bytes, false),
            (Some(BIG_NEGATIVE), Value::Bytes(bytes)) if major == BYTES => number::big(bytes, true),
            (Some(_), value) => value,
        })
    }

    #[inline]
    fn pass_scalar(&mut self) -> Result<(), Fault> {
        self.pass(1, INDEFINITE_DEPTH_MAX)
    }

    #[inline]
    fn pass_value(&mut self) -> Result<(), Fault> {
        self.pass(1, INDEFINITE_DEPTH_MAX)
    }

    fn pass_rest(&mut self, within: Option<u64>) -> Result<(), Fault> {
        if let Some(values) = within {
            return self.pass(values, INDEFINITE_DEPTH_MAX);
        }
        while !self.is_break()? {
            self.pass(1, INDEFINITE_DEPTH_MAX)?;
        }
        self.octets.head().map(|_| ())
    }
}
