//! FIX (`tag=value`) and NVFIX (`name=value`), read in one pass to the end: a field may come again.
//!
//! Each field ends with SOH (0x01), the last one of NVFIX with the body too. In a FIX body that begins with `8=`, fields end
//! with the byte that ends the first one, SOH or `|`: so the form is read that people write for the eye. In all others `|` is part
//! of a value. White space behind the last field is passed over.
//!
//! Values are [untyped](Untyped). A tag that comes again, as in groups, has several values, of which a number in the path is
//! one: `/448[1]` is the second, `/448[0]` the first, even if it is the only one.

mod data;

use crate::found::{Found, Room, VALUES_MAX};
use crate::path::{Node, Paths};
use crate::untyped::Untyped;
use crate::value::Value;
use crate::walk::{Fault, Keys};
use bumpalo::collections::Vec as BumpVec;
use wide::u8x16;

/// Bytes that are looked at in a unit of [work](crate::Program::price).
const BYTES_A_UNIT: usize = 16;

/// The end of a field.
const SOH: u8 = 1;

/// Digits of a tag at most.
const TAG_DIGITS_MAX: usize = 9;

/// The forms of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Tags are numbers, and some values may hold any byte.
    Fix,
    /// Names are any bytes but `=` and SOH.
    NameValue,
}

/// Looks for paths in a document, of which at most the first `bytes_max` bytes are looked at. Returns units of work, and
/// whether all that was needed could be read.
pub(super) fn find<'a>(
    dialect: Dialect,
    document: &'a [u8],
    paths: &Paths,
    bytes_max: usize,
    found: &mut Found<'a>,
) -> (usize, bool) {
    let seen = &document[..document.len().min(bytes_max)];
    let mut fields = Fields {
        dialect,
        bytes: seen,
        at: 0,
        end: if dialect == Dialect::Fix { end_of_fields(seen) } else { SOH },
        is_cut: seen.len() < document.len(),
        data: None,
    };
    let mut keys = Keys::new(found.room());
    let outcome = walk(&mut fields, paths, &mut keys, found);
    if outcome.is_err() {
        // Those that were found may come again.
        (0..paths.slots()).for_each(|slot| found.begin_several(slot));
    }
    keys.spend(found.room());
    (fields.at / BYTES_A_UNIT, outcome.is_ok())
}

fn walk<'a>(
    fields: &mut Fields<'a>,
    paths: &Paths,
    keys: &mut Keys,
    found: &mut Found<'a>,
) -> Result<(), Fault> {
    let mut wanted = Wanted::new(paths, found.room()).ok_or(Fault)?;
    while let Some((key, value)) = fields.next()? {
        keys.compare(wanted.fields.len())?;
        wanted.take(key, value, paths, found);
        if found.is_complete() {
            break;
        }
    }
    Ok(())
}

/// The byte that ends the first field, where that is the one with the version.
fn end_of_fields(bytes: &[u8]) -> u8 {
    let is_end = |byte: &u8| *byte == b'|' || *byte == SOH;
    let first = bytes.iter().copied().find(is_end).filter(|_| bytes.starts_with(b"8="));
    first.unwrap_or(SOH)
}

/// The key of a field: its bytes, and the number they are, without zeros before it.
#[derive(Clone, Copy)]
struct Key<'a> {
    name: &'a [u8],
    number: Option<u32>,
}

impl<'a> Key<'a> {
    /// The key of a name.
    fn new(name: &'a [u8]) -> Key<'a> {
        let digits = digits(name);
        Key {
            name,
            number: digits.filter(|(length, _)| *length == name.len()).and_then(|(_, number)| number),
        }
    }
}

/// How many digits there are at the start, one at least and [`TAG_DIGITS_MAX`] at most, and their number; none of it if
/// there are zeros before it.
#[inline]
fn digits(bytes: &[u8]) -> Option<(usize, Option<u32>)> {
    let mut number = 0;
    let mut length = 0;
    while length < TAG_DIGITS_MAX
        && let Some(digit @ b'0'..=b'9') = bytes.get(length)
    {
        number = number * 10 + u32::from(digit - b'0');
        length += 1;
    }
    let first = bytes.first()?;
    (length > 0).then_some((length, (*first != b'0' || length == 1).then_some(number)))
}

/// The fields of a body.
struct Fields<'a> {
    dialect: Dialect,
    bytes: &'a [u8],
    at: usize,
    /// The byte behind each field.
    end: u8,
    /// The body goes on where its bytes end here.
    is_cut: bool,
    /// The tag of the next field if it holds any bytes, and how many.
    data: Option<(u32, usize)>,
}

impl<'a> Fields<'a> {
    /// The next field; none at the end.
    #[inline]
    fn next(&mut self) -> Result<Option<(Key<'a>, &'a [u8])>, Fault> {
        if self.is_at_end() {
            return if self.is_cut { Err(Fault) } else { Ok(None) };
        }
        let key = self.key()?;
        let value = self.value(key)?;
        Ok(Some((key, value)))
    }

    #[inline]
    fn is_at_end(&self) -> bool {
        self.bytes[self.at..].iter().all(u8::is_ascii_whitespace)
    }

    #[inline]
    fn key(&mut self) -> Result<Key<'a>, Fault> {
        let rest = &self.bytes[self.at..];
        let key = match self.dialect {
            Dialect::Fix => {
                let (length, number) = digits(rest).ok_or(Fault)?;
                Key { name: &rest[..length], number }
            }
            Dialect::NameValue => {
                let length = rest.iter().position(|byte| matches!(byte, b'=' | &SOH)).ok_or(Fault)?;
                Key::new(&rest[..length])
            }
        };
        let length = key.name.len();
        if rest.get(length) != Some(&b'=') {
            return Err(Fault);
        }
        self.at += length + 1;
        Ok(key)
    }

    #[inline]
    fn value(&mut self, key: Key<'_>) -> Result<&'a [u8], Fault> {
        let rest = &self.bytes[self.at..];
        let length = match self.data.take() {
            Some((tag, length)) if key.number == Some(tag) => {
                // It ends where its length says, or the length is wrong.
                (rest.get(length) == Some(&self.end)).then_some(length).ok_or(Fault)?
            }
            _ => match position(rest, self.end) {
                Some(length) => length,
                // FIX is cut off there.
                None if self.dialect == Dialect::Fix || self.is_cut => return Err(Fault),
                None => rest.trim_ascii_end().len(),
            },
        };
        let value = &rest[..length];
        self.at = (self.at + length + 1).min(self.bytes.len());
        if self.dialect == Dialect::Fix
            && let Some(tag) = key.number.and_then(data::tag_behind)
        {
            let length = str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
            self.data = Some((tag, length.ok_or(Fault)?));
        }
        Ok(value)
    }
}

/// Where a byte is first.
#[inline]
fn position(bytes: &[u8], byte: u8) -> Option<usize> {
    let (blocks, rest) = bytes.as_chunks::<16>();
    let wanted = u8x16::splat(byte);
    for (number, block) in blocks.iter().enumerate() {
        let mask = u8x16::new(*block).simd_eq(wanted).to_bitmask();
        if mask != 0 {
            return Some(16 * number + mask.trailing_zeros() as usize);
        }
    }
    let place = rest.iter().position(|other| *other == byte)?;
    Some(bytes.len() - rest.len() + place)
}

/// The fields that are wanted.
struct Wanted<'w> {
    fields: BumpVec<'w, WantedField<'w>>,
    /// A bit for the [mark] of each: most others have none of them.
    marks: u64,
}

struct WantedField<'w> {
    key: WantedKey<'w>,
    node: usize,
    /// How often it was there.
    times: u32,
}

enum WantedKey<'w> {
    Name(&'w [u8]),
    Number(u32),
}

impl<'w> Wanted<'w> {
    /// None where there is no room for them.
    fn new(paths: &'w Paths, room: &'w Room) -> Option<Wanted<'w>> {
        let (mut fields, mut marks) = (BumpVec::new_in(room.bump()), 0);
        // The body is no list, so it is the one element of a step to each.
        for node in chain(paths, 0) {
            fields.try_reserve(node.names.len() + node.numbers.len()).ok()?;
            node.names.iter().for_each(|(name, _)| marks |= mark(name));
            node.numbers.iter().for_each(|(number, _)| marks |= mark_of_number(*number));
            let names = node.names.iter().map(|(name, node)| (WantedKey::Name(name), *node));
            let numbers = node.numbers.iter().map(|(number, node)| (WantedKey::Number(*number), *node));
            fields.extend(names.chain(numbers).map(|(key, node)| WantedField { key, node, times: 0 }));
        }
        Some(Wanted { fields, marks })
    }

    #[inline]
    fn take<'a>(&mut self, key: Key<'a>, value: &'a [u8], paths: &Paths, found: &mut Found<'a>) {
        if self.marks & mark(key.name) == 0 {
            return;
        }
        let mut read = None;
        for field in &mut self.fields {
            let is_wanted = match field.key {
                WantedKey::Name(name) => *name == *key.name,
                WantedKey::Number(number) => key.number == Some(number),
            };
            if !is_wanted {
                continue;
            }
            let numbers = &paths.node(field.node).numbers;
            let numbered = numbers.iter().find(|(number, _)| *number == field.times);
            field.times = field.times.saturating_add(1);
            if numbered.is_none() && field.times as usize > VALUES_MAX + 1 {
                // No more of them count.
                continue;
            }
            let value = *read.get_or_insert_with(|| Untyped::value(value, found.room()));
            put(paths, field.node, value, found);
            if let Some((_, node)) = numbered {
                put(paths, *node, value, found);
                found.close(&paths.node(*node).below);
            }
            if field.times == 2 {
                // A list, in whose elements nothing is.
                found.open_list(&paths.node(field.node).several);
            }
        }
    }
}

/// One of 64 bits for a name.
#[inline]
fn mark(name: &[u8]) -> u64 {
    let [.., last] = name else { return 1 };
    let last_but_one = name.len().checked_sub(2).map_or(0, |place| name[place]);
    1 << (last.wrapping_add(last_but_one.wrapping_mul(10)).wrapping_add(name.len() as u8) % 64)
}

/// That of a name of digits.
fn mark_of_number(number: u32) -> u64 {
    let length = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let digit = |rest: u32| b'0' + (rest % 10) as u8;
    let mut name = [digit(number / 10); TAG_DIGITS_MAX + 1];
    let name = &mut name[..length];
    name[length - 1] = digit(number);
    mark(name)
}

/// A node, and those that steps to each lead to from there.
fn chain(paths: &Paths, number: usize) -> impl Iterator<Item = &Node> {
    std::iter::successors(Some(paths.node(number)), |node| node.each.map(|each| paths.node(each)))
}

fn put<'a>(paths: &Paths, number: usize, value: Value<'a>, found: &mut Found<'a>) {
    for slot in chain(paths, number).filter_map(|node| node.slot) {
        found.begin_several(slot);
        found.put(slot, value);
    }
}
