//! A place in a document, and the ways on from there.

use super::text;
use crate::found::Room;
use crate::number;
use crate::tree::Key;
use crate::value::Value;
use crate::walk::{self, Fault, Kind};
use wide::u8x16;

/// Bytes of a vector.
const LANES: usize = 16;

/// Bytes whose brackets and quotation marks are looked at together.
const BLOCK: usize = 64;

pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    #[inline]
    fn peek(&self) -> Result<u8, Fault> {
        self.bytes.get(self.at).copied().ok_or(Fault)
    }

    #[inline]
    pub(super) fn pass_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    /// Whether nothing but spaces comes any more.
    pub(super) fn is_at_end(&mut self) -> bool {
        self.pass_space();
        self.at == self.bytes.len()
    }

    /// From the opening bracket of a map or list, or from behind a member or element, to the next. False: to behind the
    /// closing one.
    #[inline]
    fn next(&mut self, within: &mut IsFirst, closing: u8) -> Result<bool, Fault> {
        if std::mem::replace(&mut within.0, false) {
            self.at += 1;
            self.pass_space();
            if self.peek()? == closing {
                self.at += 1;
                return Ok(false);
            }
            return Ok(true);
        }
        self.pass_space();
        let next = self.peek()?;
        self.at += 1;
        match next {
            b',' => {
                self.pass_space();
                Ok(true)
            }
            next if next == closing => Ok(false),
            _ => Err(Fault),
        }
    }

    /// The bytes from here up to a comma, a bracket or a space.
    #[inline]
    fn atom(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// From a quotation mark to behind the next one that no backslash stands before: what is between them, and whether there
    /// are backslashes. Control characters and escapes are held to the grammar.
    #[inline]
    fn string(&mut self) -> Result<(&'a [u8], bool), Fault> {
        let start = self.at + 1;
        let mut at = start;
        let mut has_escapes = false;
        loop {
            at += match self.bytes.get(at..).and_then(|rest| rest.first_chunk::<LANES>()) {
                Some(lanes) => match ends_of_text(lanes) {
                    0 => {
                        at += LANES;
                        continue;
                    }
                    mask => mask.trailing_zeros() as usize,
                },
                None => {
                    let rest = self.bytes.get(at..).ok_or(Fault)?;
                    let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..b' '));
                    end.ok_or_else(|| self.fault_at_end())?
                }
            };
            match self.bytes[at] {
                b'"' => {
                    self.at = at + 1;
                    return Ok((&self.bytes[start..at], has_escapes));
                }
                b'\\' => {
                    has_escapes = true;
                    at += text::escape_length(&self.bytes[at..]).ok_or(Fault)?;
                }
                _ => return Err(Fault),
            }
        }
    }

    /// From within a map or a list, outside of texts, to behind its closing bracket. Brackets are counted, whichever they
    /// are.
    fn pass_to_closing(&mut self) -> Result<(), Fault> {
        let mut skip = Skip { depth: 1, in_text: 0, is_escaped: 0 };
        while let Some(block) = self.bytes[self.at..].first_chunk::<BLOCK>() {
            if let Some(place) = skip.block(block) {
                self.at += place + 1;
                return Ok(());
            }
            self.at += BLOCK;
        }
        // Blanks behind the end close nothing.
        let rest = &self.bytes[self.at..];
        let mut block = [b' '; BLOCK];
        block[..rest.len()].copy_from_slice(rest);
        let place = skip.block(&block).ok_or_else(|| self.fault_at_end())?;
        self.at += place + 1;
        Ok(())
    }

    /// All was looked at, and something is open.
    #[cold]
    fn fault_at_end(&mut self) -> Fault {
        self.at = self.bytes.len();
        Fault
    }
}

/// Whether no member or element was met so far.
#[derive(Clone, Copy)]
pub(super) struct IsFirst(bool);

impl<'a> walk::Cursor<'a> for Cursor<'a> {
    type Within = IsFirst;

    #[inline]
    fn at(&self) -> usize {
        self.at
    }

    #[inline]
    fn go_back(&mut self, at: usize) {
        self.at = at;
    }

    #[inline]
    fn kind(&mut self) -> Result<Kind, Fault> {
        Ok(match self.peek()? {
            b'{' => Kind::Map,
            b'[' => Kind::List,
            _ => Kind::Scalar,
        })
    }

    #[inline]
    fn open(&mut self) -> Result<IsFirst, Fault> {
        Ok(IsFirst(true))
    }

    #[inline]
    fn next_member(&mut self, within: &mut IsFirst, room: &'a Room) -> Result<Option<Key<'a>>, Fault> {
        if !self.next(within, b'}')? {
            return Ok(None);
        }
        if self.peek()? != b'"' {
            return Err(Fault);
        }
        let (raw, has_escapes) = self.string()?;
        let key = if has_escapes { text::plain(raw, room)? } else { raw };
        self.pass_space();
        if self.peek()? != b':' {
            return Err(Fault);
        }
        self.at += 1;
        self.pass_space();
        Ok(Some(Key::Name(key)))
    }

    #[inline]
    fn next_element(&mut self, within: &mut IsFirst) -> Result<bool, Fault> {
        self.next(within, b']')
    }

    #[inline]
    fn scalar(&mut self, room: &'a Room) -> Result<Value<'a>, Fault> {
        if self.peek()? == b'"' {
            let (raw, has_escapes) = self.string()?;
            return text::checked(raw, has_escapes, room).map(Value::Bytes);
        }
        match self.atom() {
            b"true" => Ok(Value::Bool(true)),
            b"false" => Ok(Value::Bool(false)),
            b"null" => Ok(Value::Null),
            digits => number::value(digits).ok_or(Fault),
        }
    }

    #[inline]
    fn pass_scalar(&mut self) -> Result<(), Fault> {
        if self.peek()? == b'"' {
            return self.string().map(|_| ());
        }
        match self.atom() {
            b"true" | b"false" | b"null" => Ok(()),
            digits if number::is_number(digits) => Ok(()),
            _ => Err(Fault),
        }
    }

    #[inline]
    fn pass_value(&mut self) -> Result<(), Fault> {
        match self.peek()? {
            b'{' | b'[' => {
                self.at += 1;
                self.pass_to_closing()
            }
            _ => self.pass_scalar(),
        }
    }

    fn pass_rest(&mut self, _within: IsFirst) -> Result<(), Fault> {
        self.pass_to_closing()
    }
}

/// A container that is passed over, block by block.
struct Skip {
    /// Brackets that are open.
    depth: u32,
    /// All bits set: a text goes on from the block before.
    in_text: u64,
    /// 1: the first byte has a backslash before it.
    is_escaped: u64,
}

impl Skip {
    /// Where in a block the bracket is closed that was opened first.
    #[inline(always)]
    fn block(&mut self, block: &[u8; BLOCK]) -> Option<usize> {
        let marks = Marks::of(block);
        let quotes = if marks.escapes | self.is_escaped == 0 {
            marks.quotes
        } else {
            let (escaped, goes_on) = escaped(marks.escapes, self.is_escaped);
            self.is_escaped = goes_on;
            marks.quotes & !escaped
        };
        let inside = odd_before(quotes) ^ self.in_text;
        self.in_text = if inside >> 63 == 1 { u64::MAX } else { 0 };
        let mut brackets = marks.brackets & !inside;
        while brackets != 0 {
            let place = brackets.trailing_zeros() as usize;
            brackets &= brackets - 1;
            if block[place] & CLOSING == CLOSING {
                self.depth -= 1;
                if self.depth == 0 {
                    return Some(place);
                }
            } else {
                self.depth += 1;
            }
        }
        None
    }
}

/// The bits that closing brackets have and opening ones do not.
const CLOSING: u8 = 0b101;

/// A bit for each byte that is this one.
#[inline]
fn bits(lanes: u8x16, byte: u8) -> u64 {
    u64::from(lanes.simd_eq(u8x16::splat(byte)).to_bitmask())
}

/// A bit for each byte that is no plain part of a text: quotation marks, backslashes, control characters.
#[inline]
fn ends_of_text(lanes: &[u8; LANES]) -> u64 {
    let lanes = u8x16::new(*lanes);
    let controls = lanes.min(u8x16::splat(b' ' - 1)).simd_eq(lanes);
    let marks = lanes.simd_eq(u8x16::splat(b'"')) | lanes.simd_eq(u8x16::splat(b'\\'));
    u64::from((marks | controls).to_bitmask())
}

/// A bit for each byte of a block that may have a meaning.
#[derive(Default)]
struct Marks {
    quotes: u64,
    escapes: u64,
    brackets: u64,
}

impl Marks {
    #[inline(always)]
    fn of(block: &[u8; BLOCK]) -> Marks {
        let mut marks = Marks::default();
        for (number, lanes) in block.as_chunks::<LANES>().0.iter().enumerate() {
            let lanes = u8x16::new(*lanes);
            let shift = number * LANES;
            marks.quotes |= bits(lanes, b'"') << shift;
            marks.escapes |= bits(lanes, b'\\') << shift;
            // The brackets of lists and maps are this bit apart, and nothing else becomes one by it.
            let lower = lanes | u8x16::splat(b'{' ^ b'[');
            let brackets = lower.simd_eq(u8x16::splat(b'{')) | lower.simd_eq(u8x16::splat(b'}'));
            marks.brackets |= u64::from(brackets.to_bitmask()) << shift;
        }
        marks
    }
}

/// The bytes that a backslash stands before which counts, and whether the first one of the next block is one of them.
#[inline]
fn escaped(escapes: u64, is_escaped: u64) -> (u64, u64) {
    let mut escaped = is_escaped;
    let mut rest = escapes & !escaped;
    let mut goes_on = 0;
    while rest != 0 {
        let place = rest.trailing_zeros();
        let next = 2 << place;
        goes_on = u64::from(place == 63);
        escaped |= next;
        rest &= !(next | (1 << place));
    }
    (escaped, goes_on)
}

/// A bit for each byte before which an odd number of these stands, itself counted.
#[inline]
fn odd_before(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}
