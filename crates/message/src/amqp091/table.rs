//! Field tables and arrays, borrowed from the bytes they came in (AMQP 0-9-1 §4.2.5.5).
//!
//! A [`Table`] or [`Array`] holds bytes that were checked when it was made, so going through it cannot fail. Names may
//! occur twice; the first one counts, as in RabbitMQ. Not a map: a look-up walks the table.

use base::cursor::{Reader, Short};

/// Tables and arrays may lie in each other this deep.
pub const DEPTH_MAX: u32 = 32;

/// Bytes that are no field table, array or property list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A length points past the end of its table, array or value.
    Short,
    /// A type letter that nobody uses.
    UnknownType(u8),
    /// More than [`DEPTH_MAX`] tables and arrays in each other.
    TooDeep,
    /// Bytes are left behind the last property.
    Trailing,
    /// The property flags announce further flags, which no basic property uses.
    UnknownFlags,
    /// A short string of a method that is not UTF-8 (§4.2.5.3).
    NotText,
}

impl From<Short> for Malformed {
    fn from(_: Short) -> Malformed {
        Malformed::Short
    }
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Malformed::Short => f.write_str("a length points past the end"),
            Malformed::UnknownType(letter) => {
                write!(f, "unknown field type '{}'", std::ascii::escape_default(*letter))
            }
            Malformed::TooDeep => write!(f, "tables nested more than {DEPTH_MAX} deep"),
            Malformed::Trailing => f.write_str("bytes behind the last property"),
            Malformed::UnknownFlags => f.write_str("unknown property flags"),
            Malformed::NotText => f.write_str("a short string that is not UTF-8"),
        }
    }
}

/// A field's value; the letter of each variant's documentation is its type on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// `t`
    Bool(bool),
    /// `b`
    I8(i8),
    /// `B`
    U8(u8),
    /// `s`
    I16(i16),
    /// `u`
    U16(u16),
    /// `I`
    I32(i32),
    /// `i`
    U32(u32),
    /// `l`
    I64(i64),
    /// `L`
    U64(u64),
    /// `f`
    F32(f32),
    /// `d`
    F64(f64),
    /// `D`: the number is `value` / 10^`scale`.
    Decimal {
        /// Digits behind the point.
        scale: u8,
        /// All digits.
        value: u32,
    },
    /// `S`: text by custom, any bytes by right; up to 4 GiB.
    Text(&'a [u8]),
    /// `x`
    Bytes(&'a [u8]),
    /// `A`
    Array(Array<'a>),
    /// `T`: seconds since 1970.
    Timestamp(u64),
    /// `F`
    Table(Table<'a>),
    /// `V`
    Void,
}

impl<'a> Value<'a> {
    /// The next value: a type letter and its payload. Nested bytes were checked before or are checked here.
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Value<'a>, Malformed> {
        Ok(match reader.u8()? {
            b't' => Value::Bool(reader.u8()? != 0),
            b'b' => Value::I8(reader.u8()? as i8),
            b'B' => Value::U8(reader.u8()?),
            b's' => Value::I16(reader.i16()?),
            b'u' => Value::U16(reader.u16()?),
            b'I' => Value::I32(reader.i32()?),
            b'i' => Value::U32(reader.u32()?),
            b'l' => Value::I64(reader.i64()?),
            b'L' => Value::U64(reader.u64()?),
            b'f' => Value::F32(f32::from_bits(reader.u32()?)),
            b'd' => Value::F64(f64::from_bits(reader.u64()?)),
            b'D' => Value::Decimal { scale: reader.u8()?, value: reader.u32()? },
            b'S' => Value::Text(read_long(reader)?),
            b'x' => Value::Bytes(read_long(reader)?),
            b'A' => Value::Array(Array { bytes: read_long(reader)? }),
            b'T' => Value::Timestamp(reader.u64()?),
            b'F' => Value::Table(Table { bytes: read_long(reader)? }),
            b'V' => Value::Void,
            letter => return Err(Malformed::UnknownType(letter)),
        })
    }

    /// The value that [`Table::encodings`] answered.
    pub fn of_encoding(encoding: &'a [u8]) -> Option<Value<'a>> {
        Value::read(&mut Reader::new(encoding)).ok()
    }

    /// Appends the type letter and the value.
    ///
    /// # Panics
    /// When text, bytes, an array or a table is 4 GiB or longer.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Value::Bool(value) => out.extend_from_slice(&[b't', value.into()]),
            Value::I8(value) => out.extend_from_slice(&[b'b', value as u8]),
            Value::U8(value) => out.extend_from_slice(&[b'B', value]),
            Value::I16(value) => put(out, b's', value.to_be_bytes()),
            Value::U16(value) => put(out, b'u', value.to_be_bytes()),
            Value::I32(value) => put(out, b'I', value.to_be_bytes()),
            Value::U32(value) => put(out, b'i', value.to_be_bytes()),
            Value::I64(value) => put(out, b'l', value.to_be_bytes()),
            Value::U64(value) => put(out, b'L', value.to_be_bytes()),
            Value::F32(value) => put(out, b'f', value.to_bits().to_be_bytes()),
            Value::F64(value) => put(out, b'd', value.to_bits().to_be_bytes()),
            Value::Decimal { scale, value } => {
                out.extend_from_slice(&[b'D', scale]);
                out.extend_from_slice(&value.to_be_bytes());
            }
            Value::Text(bytes) => put_long(out, b'S', bytes),
            Value::Bytes(bytes) => put_long(out, b'x', bytes),
            Value::Array(array) => put_long(out, b'A', array.bytes),
            Value::Timestamp(seconds) => put(out, b'T', seconds.to_be_bytes()),
            Value::Table(table) => put_long(out, b'F', table.bytes),
            Value::Void => out.push(b'V'),
        }
    }

    /// The number, of any width; nothing for values that are no whole number. `L` counts as signed, as it does in
    /// RabbitMQ.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Value::I8(value) => Some(value.into()),
            Value::U8(value) => Some(value.into()),
            Value::I16(value) => Some(value.into()),
            Value::U16(value) => Some(value.into()),
            Value::I32(value) => Some(value.into()),
            Value::U32(value) => Some(value.into()),
            Value::I64(value) => Some(value),
            Value::U64(value) => Some(value as i64),
            _ => None,
        }
    }

    /// The bytes of text (`S`) or bytes (`x`).
    pub fn as_bytes(&self) -> Option<&'a [u8]> {
        match *self {
            Value::Text(bytes) | Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The truth value.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The table.
    pub fn as_table(&self) -> Option<Table<'a>> {
        match *self {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The array.
    pub fn as_array(&self) -> Option<Array<'a>> {
        match *self {
            Value::Array(array) => Some(array),
            _ => None,
        }
    }
}

fn read_long<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Short> {
    let len = reader.u32()? as usize;
    reader.take(len)
}

fn read_short<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Short> {
    let len = reader.u8()?.into();
    reader.take(len)
}

fn put<const N: usize>(out: &mut Vec<u8>, letter: u8, bytes: [u8; N]) {
    out.push(letter);
    out.extend_from_slice(&bytes);
}

fn put_long(out: &mut Vec<u8>, letter: u8, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).expect("a field value is shorter than 4 GiB");
    put(out, letter, len.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// The kind of nested bytes.
#[derive(Clone, Copy)]
enum Nest {
    Table,
    Array,
}

/// Walks all of `bytes` once, nested values included: linear in their length, `DEPTH_MAX` stack frames at most.
fn check(bytes: &[u8], nest: Nest, depth: u32) -> Result<(), Malformed> {
    if depth > DEPTH_MAX {
        return Err(Malformed::TooDeep);
    }
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        if let Nest::Table = nest {
            read_short(&mut reader)?;
        }
        match Value::read(&mut reader)? {
            Value::Table(table) => check(table.bytes, Nest::Table, depth + 1)?,
            Value::Array(array) => check(array.bytes, Nest::Array, depth + 1)?,
            _ => {}
        }
    }
    Ok(())
}

/// A field table: names of up to 255 bytes, each with a value.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Table<'a> {
    /// Without the length in front; checked.
    bytes: &'a [u8],
}

impl<'a> Table<'a> {
    /// The table with nothing in it.
    pub const EMPTY: Table<'static> = Table { bytes: &[] };

    /// The fields that `bytes` hold, without a length in front.
    pub fn new(bytes: &'a [u8]) -> Result<Table<'a>, Malformed> {
        check(bytes, Nest::Table, 1)?;
        Ok(Table { bytes })
    }

    /// Fields that were checked before as part of the value around them.
    #[inline]
    pub(super) fn new_checked(bytes: &'a [u8]) -> Table<'a> {
        Table { bytes }
    }

    /// The next table of `reader`: a length of four bytes, then the fields.
    #[inline]
    pub fn read(reader: &mut Reader<'a>) -> Result<Table<'a>, Malformed> {
        Table::new(read_long(reader)?)
    }

    /// Appends the length and the fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        let len = u32::try_from(self.bytes.len()).expect("a table is shorter than 4 GiB");
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(self.bytes);
    }

    /// The fields as they lie on the wire, without the length in front.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// No field.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The fields in the order of the wire.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], Value<'a>)> + use<'a> {
        let mut reader = Reader::new(self.bytes);
        std::iter::from_fn(move || {
            let name = read_short(&mut reader).ok()?;
            Some((name, Value::read(&mut reader).ok()?))
        })
    }

    /// The fields in the order of the wire, each with the bytes of its type letter and value.
    pub fn encodings(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut reader = Reader::new(self.bytes);
        std::iter::from_fn(move || {
            let name = read_short(&mut reader).ok()?;
            let rest = reader.rest();
            Value::read(&mut reader).ok()?;
            Some((name, &rest[..rest.len() - reader.len()]))
        })
    }

    /// The first field of this name.
    pub fn get(&self, name: &[u8]) -> Option<Value<'a>> {
        self.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }
}

impl std::fmt::Debug for Table<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(name, value)| (String::from_utf8_lossy(name), value)))
            .finish()
    }
}

/// A field array.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Array<'a> {
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// The values that `bytes` hold, without a length in front.
    pub fn new(bytes: &'a [u8]) -> Result<Array<'a>, Malformed> {
        check(bytes, Nest::Array, 1)?;
        Ok(Array { bytes })
    }

    /// The values as they lie on the wire, without the length in front.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// No value.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The values in order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let mut reader = Reader::new(self.bytes);
        std::iter::from_fn(move || Value::read(&mut reader).ok())
    }
}

impl std::fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Appends fields to a table under way.
#[derive(Debug)]
pub struct TableWriter<'v> {
    out: &'v mut Vec<u8>,
}

impl TableWriter<'_> {
    /// Appends a table with its length to `out`; `fill` puts the fields.
    pub fn write(out: &mut Vec<u8>, fill: impl FnOnce(&mut TableWriter<'_>)) {
        with_length(out, |out| fill(&mut TableWriter { out }));
    }

    /// The fields alone, as [`Table::new`] takes them.
    pub fn fields(fill: impl FnOnce(&mut TableWriter<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        fill(&mut TableWriter { out: &mut out });
        out
    }

    /// Appends a field.
    ///
    /// # Panics
    /// When `name` is longer than 255 bytes.
    pub fn put(&mut self, name: &[u8], value: Value<'_>) {
        self.name(name);
        value.write(self.out);
    }

    /// Appends a field as [`Table::encodings`] answers it.
    ///
    /// # Panics
    /// When `name` is longer than 255 bytes.
    pub fn encoding(&mut self, name: &[u8], encoding: &[u8]) {
        self.name(name);
        self.out.extend_from_slice(encoding);
    }

    /// Appends a field that is a table; `fill` puts its fields.
    ///
    /// # Panics
    /// When `name` is longer than 255 bytes.
    pub fn table(&mut self, name: &[u8], fill: impl FnOnce(&mut TableWriter<'_>)) {
        self.name(name);
        self.out.push(b'F');
        TableWriter::write(self.out, fill);
    }

    /// Appends a field that is an array of `values`.
    ///
    /// # Panics
    /// When `name` is longer than 255 bytes.
    pub fn array<'a>(&mut self, name: &[u8], values: impl IntoIterator<Item = Value<'a>>) {
        self.name(name);
        self.out.push(b'A');
        with_length(self.out, |out| values.into_iter().for_each(|value| value.write(out)));
    }

    /// Appends a field that is an array of tables: `fill` puts the fields of each of `items`.
    ///
    /// # Panics
    /// When `name` is longer than 255 bytes.
    pub fn tables<T>(
        &mut self,
        name: &[u8],
        items: impl IntoIterator<Item = T>,
        mut fill: impl FnMut(T, &mut TableWriter<'_>),
    ) {
        self.name(name);
        self.out.push(b'A');
        with_length(self.out, |out| {
            for item in items {
                out.push(b'F');
                TableWriter::write(out, |table| fill(item, table));
            }
        });
    }

    fn name(&mut self, name: &[u8]) {
        self.out.push(u8::try_from(name.len()).expect("a field name has at most 255 bytes"));
        self.out.extend_from_slice(name);
    }
}

fn with_length(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    let len = u32::try_from(out.len() - at - 4).expect("a table is shorter than 4 GiB");
    out[at..at + 4].copy_from_slice(&len.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check_value(wire: &[u8], value: Value<'_>) {
        let mut bytes = b"\x01a".to_vec();
        bytes.extend_from_slice(wire);
        let table = Table::new(&bytes).unwrap();
        assert_eq!(table.get(b"a"), Some(value));
        assert_eq!(TableWriter::fields(|table| table.put(b"a", value)), bytes);
        for len in 2..bytes.len() {
            assert!(Table::new(&bytes[..len]).is_err(), "{len} bytes of {wire:?}");
        }
    }

    #[test]
    fn each_type_is_read_and_written() {
        check_value(b"t\x01", Value::Bool(true));
        check_value(b"b\xff", Value::I8(-1));
        check_value(b"B\xff", Value::U8(255));
        check_value(b"s\xff\xfe", Value::I16(-2));
        check_value(b"u\xff\xfe", Value::U16(65534));
        check_value(b"I\xff\xff\xff\xfe", Value::I32(-2));
        check_value(b"i\xff\xff\xff\xfe", Value::U32(u32::MAX - 1));
        check_value(b"l\xff\xff\xff\xff\xff\xff\xff\xfe", Value::I64(-2));
        check_value(b"L\xff\xff\xff\xff\xff\xff\xff\xfe", Value::U64(u64::MAX - 1));
        check_value(b"f\x3f\x80\0\0", Value::F32(1.0));
        check_value(b"d\x3f\xf0\0\0\0\0\0\0", Value::F64(1.0));
        check_value(b"D\x02\0\0\x01\0", Value::Decimal { scale: 2, value: 256 });
        check_value(b"S\0\0\0\x02hi", Value::Text(b"hi"));
        check_value(b"x\0\0\0\x02\xff\0", Value::Bytes(b"\xff\0"));
        check_value(b"T\0\0\0\0\0\0\0\x07", Value::Timestamp(7));
        check_value(b"V", Value::Void);
        check_value(b"A\0\0\0\x03t\x01V", Value::Array(Array::new(b"t\x01V").unwrap()));
        check_value(b"F\0\0\0\x03\x01zV", Value::Table(Table::new(b"\x01zV").unwrap()));
    }

    #[test]
    fn whole_numbers_of_any_width() {
        let all = [
            (Value::I8(-1), -1),
            (Value::U8(255), 255),
            (Value::I16(-1), -1),
            (Value::U16(65535), 65535),
            (Value::I32(-1), -1),
            (Value::U32(u32::MAX), u32::MAX.into()),
            (Value::I64(-1), -1),
            (Value::U64(u64::MAX), -1),
        ];
        for (value, number) in all {
            assert_eq!(value.as_i64(), Some(number), "{value:?}");
        }
        assert_eq!(Value::F64(1.0).as_i64(), None);
    }

    #[test]
    fn unknown_types_are_named() {
        for letter in 0..=u8::MAX {
            let known = b"tbBsuIilLfdDSxATFV".contains(&letter);
            let is_unknown =
                Table::new(&[1, b'a', letter, 0, 0, 0, 0]) == Err(Malformed::UnknownType(letter));
            assert_eq!(is_unknown, !known, "{letter}");
        }
    }

    #[test]
    fn depth_has_a_bound() {
        let nested = |depth: u32| {
            let mut bytes = Vec::new();
            for level in 1..depth {
                bytes = match level % 2 {
                    0 => TableWriter::fields(|table| table.put(b"a", Value::Table(Table { bytes: &bytes }))),
                    _ => TableWriter::fields(|table| {
                        table.put(b"a", Value::Array(Array::default()));
                        table.put(b"a", Value::Table(Table { bytes: &bytes }));
                    }),
                };
            }
            bytes
        };
        assert!(Table::new(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(Table::new(&nested(DEPTH_MAX + 2)), Err(Malformed::TooDeep));
    }

    #[test]
    fn the_first_of_two_equal_names_counts() {
        let bytes = TableWriter::fields(|table| {
            table.put(b"a", Value::U8(1));
            table.put(b"a", Value::U8(2));
            table.tables(b"list", [3, 4], |number, table| table.put(b"n", Value::U8(number)));
            table.array(b"array", [Value::Void, Value::U8(9)]);
            table.table(b"inner", |table| table.put(b"b", Value::Bool(false)));
        });
        let table = Table::new(&bytes).unwrap();
        assert_eq!(table.get(b"a"), Some(Value::U8(1)));
        assert_eq!(table.get(b"list").unwrap().as_array().unwrap().iter().count(), 2);
        assert_eq!(table.get(b"array").unwrap().as_array().unwrap().iter().nth(1), Some(Value::U8(9)));
        assert_eq!(table.get(b"inner").unwrap().as_table().unwrap().get(b"b"), Some(Value::Bool(false)));
        assert_eq!(table.iter().count(), 5);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(table) = Table::new(&bytes) {
                let again = TableWriter::fields(|writer| table.iter().for_each(|(name, value)| writer.put(name, value)));
                // A truth value may be any byte on the wire and is written as 0 or 1; all else comes back as it was.
                prop_assert_eq!(again.len(), bytes.len());
            }
            let _ = Array::new(&bytes);
        }

        #[test]
        fn plausible_bytes_are_read_without_panic(
            bytes in prop::collection::vec(prop::sample::select(&b"\0\x01\x02\x04AFSxtV"[..]), 0..100)
        ) {
            if let Ok(table) = Table::new(&bytes) {
                let _ = format!("{table:?}");
            }
        }
    }
}
