//! A value of an argument as it is read: borrowed from the bytes that keep it.
//!
//! Arguments are kept in one encoding, some bytes shorter or longer than in a protocol's table:
//!
//! ```text
//! value    a tag; after it, by the tag: a varint, 8 bytes, or a varint of a length and so many bytes
//! integer  a varint, zigzag: small numbers of any type take two bytes
//! list     nothing where it is empty; else a varint of the number of values, then the values
//! table    nothing where it is empty; else u32 count, u32 offset of each field, the fields sorted by name;
//!          a field is a varint of the length of its name, the name, the value
//! ```
//!
//! Equal values have equal bytes, and no others: comparing and hashing need not decode. The bytes never leave the
//! process, and are only those that [`put`] wrote.

use crate::arguments::{Arguments, List};
use crate::value::{Float, IntType, Value};
use base::put_varint;
use std::fmt;

/// Bytes that do not hold what they were written with are a fault of this crate.
const WHOLE: &str = "arguments are kept as they were written";

const VOID: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const UNSIGNED: u8 = 3;
const FLOAT: u8 = 4;
const DECIMAL: u8 = 5;
const TEXT: u8 = 6;
const BYTES: u8 = 7;
const TIMESTAMP: u8 = 8;
const LIST: u8 = 9;
const TABLE: u8 = 10;
/// Plus the number of the type.
const INT: u8 = 16;

/// The value of an argument, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Argument<'a> {
    /// No value.
    Void,
    /// A boolean.
    Bool(bool),
    /// An integer of up to 64 bits, signed.
    Int(IntType, i64),
    /// An unsigned integer of 64 bits.
    Unsigned(u64),
    /// A floating-point number, of 32 or 64 bits.
    Float(Float),
    /// `value` divided by ten to the power of `scale`.
    Decimal {
        /// Decimal places.
        scale: u8,
        /// The digits.
        value: u32,
    },
    /// Text; not promised to be UTF-8.
    Text(&'a [u8]),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A moment, in seconds since 1970.
    Timestamp(u64),
    /// Values in order.
    List(Items<'a>),
    /// Named values.
    Table(Fields<'a>),
}

/// The values of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Items<'a>(pub(crate) &'a [u8]);

/// Named values, sorted by name; each name once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fields<'a>(pub(crate) &'a [u8]);

/// The values of a list that are left to read.
#[derive(Clone, Debug)]
pub struct ItemsLeft<'a> {
    left: usize,
    bytes: &'a [u8],
}

/// The named values that are left to read.
#[derive(Clone, Debug)]
pub struct FieldsLeft<'a> {
    left: usize,
    bytes: &'a [u8],
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(len);
    *bytes = rest;
    taken
}

#[inline]
fn take_byte(bytes: &mut &[u8]) -> u8 {
    let (first, rest) = bytes.split_first().expect(WHOLE);
    *bytes = rest;
    *first
}

#[inline]
fn take_varint(bytes: &mut &[u8]) -> u64 {
    let first = take_byte(bytes);
    if first < 0x80 {
        return u64::from(first);
    }
    let (mut number, mut shift) = (u64::from(first & 0x7f), 7);
    loop {
        let byte = take_byte(bytes);
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return number;
        }
        shift += 7;
    }
}

#[inline]
fn take_counted<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let len = take_varint(bytes) as usize;
    take(bytes, len)
}

fn put_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn from_zigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Appends a value.
pub(crate) fn put(out: &mut Vec<u8>, value: Argument<'_>) {
    let mut varint = |tag, number| {
        out.push(tag);
        put_varint(out, number);
    };
    match value {
        Argument::Void => out.push(VOID),
        Argument::Bool(false) => out.push(FALSE),
        Argument::Bool(true) => out.push(TRUE),
        Argument::Int(of_type, number) => varint(INT + of_type as u8, zigzag(number)),
        Argument::Unsigned(number) => varint(UNSIGNED, number),
        Argument::Timestamp(seconds) => varint(TIMESTAMP, seconds),
        Argument::Float(number) => {
            out.push(FLOAT);
            out.extend(number.0.to_bits().to_le_bytes());
        }
        Argument::Decimal { scale, value } => {
            out.extend([DECIMAL, scale]);
            put_varint(out, u64::from(value));
        }
        Argument::Text(bytes) => {
            out.push(TEXT);
            put_counted(out, bytes);
        }
        Argument::Bytes(bytes) => {
            out.push(BYTES);
            put_counted(out, bytes);
        }
        Argument::List(Items(bytes)) => {
            out.push(LIST);
            put_counted(out, bytes);
        }
        Argument::Table(Fields(bytes)) => {
            out.push(TABLE);
            put_counted(out, bytes);
        }
    }
}

/// Appends fields, which are sorted by name.
pub(crate) fn put_fields(out: &mut Vec<u8>, fields: &[(Box<[u8]>, Value)]) {
    if fields.is_empty() {
        return;
    }
    let start = out.len();
    out.extend((fields.len() as u32).to_le_bytes());
    out.resize(out.len() + fields.len() * 4, 0);
    for (number, (name, value)) in fields.iter().enumerate() {
        let (offset, at) = ((out.len() - start) as u32, start + 4 + number * 4);
        out[at..at + 4].copy_from_slice(&offset.to_le_bytes());
        put_counted(out, name);
        put(out, value.view());
    }
}

fn int_type(number: u8) -> IntType {
    match number {
        0 => IntType::Byte,
        1 => IntType::UnsignedByte,
        2 => IntType::Short,
        3 => IntType::UnsignedShort,
        4 => IntType::SignedInt,
        5 => IntType::UnsignedInt,
        _ => IntType::Long,
    }
}

impl<'a> Argument<'a> {
    #[inline]
    fn take(bytes: &mut &'a [u8]) -> Argument<'a> {
        match take_byte(bytes) {
            VOID => Argument::Void,
            FALSE => Argument::Bool(false),
            TRUE => Argument::Bool(true),
            UNSIGNED => Argument::Unsigned(take_varint(bytes)),
            TIMESTAMP => Argument::Timestamp(take_varint(bytes)),
            FLOAT => {
                let bits = take(bytes, 8).try_into().expect(WHOLE);
                Argument::Float(Float(f64::from_bits(u64::from_le_bytes(bits))))
            }
            DECIMAL => {
                let scale = take_byte(bytes);
                Argument::Decimal { scale, value: take_varint(bytes) as u32 }
            }
            TEXT => Argument::Text(take_counted(bytes)),
            BYTES => Argument::Bytes(take_counted(bytes)),
            LIST => Argument::List(Items(take_counted(bytes))),
            TABLE => Argument::Table(Fields(take_counted(bytes))),
            int => Argument::Int(int_type(int - INT), from_zigzag(take_varint(bytes))),
        }
    }

    /// The number, if it is an integer of any type and fits.
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Argument::Int(_, number) => Some(number),
            Argument::Unsigned(number) => i64::try_from(number).ok(),
            _ => None,
        }
    }

    /// The text, if it is text in UTF-8.
    pub fn as_str(self) -> Option<&'a str> {
        match self {
            Argument::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    /// The boolean, if it is one.
    pub fn as_bool(self) -> Option<bool> {
        match self {
            Argument::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// Its type as RabbitMQ names it in error texts.
    pub fn type_name(self) -> &'static str {
        match self {
            Argument::Void => "void",
            Argument::Bool(_) => "bool",
            Argument::Int(IntType::Byte, _) => "byte",
            Argument::Int(IntType::UnsignedByte, _) => "unsignedbyte",
            Argument::Int(IntType::Short, _) => "short",
            Argument::Int(IntType::UnsignedShort, _) => "unsignedshort",
            Argument::Int(IntType::SignedInt, _) => "signedint",
            Argument::Int(IntType::UnsignedInt, _) => "unsignedint",
            Argument::Int(IntType::Long, _) => "long",
            Argument::Unsigned(_) => "long",
            Argument::Float(_) => "double",
            Argument::Decimal { .. } => "decimal",
            Argument::Text(_) => "longstr",
            Argument::Bytes(_) => "binary",
            Argument::Timestamp(_) => "timestamp",
            Argument::List(_) => "array",
            Argument::Table(_) => "table",
        }
    }

    /// Whether both mean the same: integers of different types compare by value (and so they do within lists and
    /// tables), text and bytes by their bytes.
    pub fn is_equivalent(self, other: Argument<'_>) -> bool {
        match (self, other) {
            // To RabbitMQ a time is a number too.
            (
                Argument::Int(..) | Argument::Unsigned(_) | Argument::Timestamp(_),
                Argument::Int(..) | Argument::Unsigned(_) | Argument::Timestamp(_),
            ) => self.as_i128() == other.as_i128(),
            (Argument::Text(a) | Argument::Bytes(a), Argument::Text(b) | Argument::Bytes(b)) => a == b,
            (Argument::Float(a), Argument::Float(b)) => a.0 == b.0 || a == b,
            (Argument::List(a), Argument::List(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.is_equivalent(b))
            }
            (Argument::Table(a), Argument::Table(b)) => {
                a.len() == b.len()
                    && a.iter().zip(b.iter()).all(|((a, x), (b, y))| a == b && x.is_equivalent(y))
            }
            _ => self == other,
        }
    }

    pub(crate) fn as_i128(self) -> Option<i128> {
        match self {
            Argument::Int(_, number) => Some(i128::from(number)),
            Argument::Unsigned(number) | Argument::Timestamp(number) => Some(i128::from(number)),
            _ => None,
        }
    }

    /// Bytes that a comparison may have to look at beyond a number's.
    pub(crate) fn extent(self) -> usize {
        match self {
            Argument::Text(bytes) | Argument::Bytes(bytes) => bytes.len(),
            Argument::List(items) => items.0.len(),
            Argument::Table(fields) => fields.0.len(),
            _ => 0,
        }
    }

    /// A copy of its own.
    pub fn to_value(self) -> Value {
        match self {
            Argument::Void => Value::Void,
            Argument::Bool(value) => Value::Bool(value),
            Argument::Int(of_type, number) => Value::Int(of_type, number),
            Argument::Unsigned(number) => Value::Unsigned(number),
            Argument::Float(number) => Value::Float(number),
            Argument::Decimal { scale, value } => Value::Decimal { scale, value },
            Argument::Text(text) => Value::Text(text.into()),
            Argument::Bytes(bytes) => Value::Bytes(bytes.into()),
            Argument::Timestamp(seconds) => Value::Timestamp(seconds),
            Argument::List(items) => Value::List(List(items.0.into())),
            Argument::Table(fields) => Value::Table(fields.to_arguments()),
        }
    }
}

impl fmt::Display for Argument<'_> {
    /// As in RabbitMQ's error texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Argument::Void => f.write_str("undefined"),
            Argument::Bool(value) => value.fmt(f),
            Argument::Int(_, number) => number.fmt(f),
            Argument::Unsigned(number) | Argument::Timestamp(number) => number.fmt(f),
            Argument::Float(number) => write!(f, "{:?}", number.0),
            Argument::Decimal { scale, value } => write!(f, "{{{scale},{value}}}"),
            Argument::Text(bytes) | Argument::Bytes(bytes) => String::from_utf8_lossy(bytes).fmt(f),
            Argument::List(items) => {
                let typed = |value: Argument<'_>| format!("{{{},{value}}}", value.type_name());
                let values: Vec<String> = items.iter().map(typed).collect();
                write!(f, "[{}]", values.join(","))
            }
            Argument::Table(fields) => {
                let pairs = fields.iter().map(|(name, value)| {
                    format!("{{{},{},{value}}}", String::from_utf8_lossy(name), value.type_name())
                });
                write!(f, "[{}]", pairs.collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl<'a> Items<'a> {
    /// How many values.
    pub fn len(self) -> usize {
        self.iter().len()
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The values in order.
    pub fn iter(self) -> ItemsLeft<'a> {
        let mut bytes = self.0;
        let left = if bytes.is_empty() { 0 } else { take_varint(&mut bytes) as usize };
        ItemsLeft { left, bytes }
    }
}

impl<'a> Iterator for ItemsLeft<'a> {
    type Item = Argument<'a>;

    fn next(&mut self) -> Option<Argument<'a>> {
        self.left = self.left.checked_sub(1)?;
        Some(Argument::take(&mut self.bytes))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for ItemsLeft<'_> {}

impl<'a> Fields<'a> {
    /// How many there are.
    #[inline]
    pub fn len(self) -> usize {
        if self.is_empty() { 0 } else { self.number(0) }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The number of 32 bits at `at`, counted in such.
    #[inline]
    fn number(self, at: usize) -> usize {
        let bytes = self.0[at * 4..][..4].try_into().expect(WHOLE);
        u32::from_le_bytes(bytes) as usize
    }

    /// The value of `name`.
    #[inline]
    pub fn get(self, name: &[u8]) -> Option<Argument<'a>> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            let mut bytes = &self.0[self.number(1 + middle)..];
            match take_counted(&mut bytes).cmp(name) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(Argument::take(&mut bytes)),
            }
        }
        None
    }

    /// All of them, sorted by name.
    #[inline]
    pub fn iter(self) -> FieldsLeft<'a> {
        let left = self.len();
        FieldsLeft { left, bytes: if left == 0 { &[] } else { &self.0[4 + left * 4..] } }
    }

    /// A copy of its own.
    pub fn to_arguments(self) -> Arguments {
        Arguments((!self.is_empty()).then(|| self.0.into()))
    }
}

impl<'a> Iterator for FieldsLeft<'a> {
    type Item = (&'a [u8], Argument<'a>);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], Argument<'a>)> {
        self.left = self.left.checked_sub(1)?;
        let name = take_counted(&mut self.bytes);
        Some((name, Argument::take(&mut self.bytes)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for FieldsLeft<'_> {}
