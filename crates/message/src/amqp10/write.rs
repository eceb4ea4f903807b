//! Writing AMQP 1.0 values: the shortest encoding of each, appended to a vector.
//!
//! Compound values are opened and closed by hand ([`Encoder::list`], [`Encoder::close`]): their size is filled in when
//! they are closed, and a small one is moved up against its short header.

use super::value::{Array, Described, List, Map, Value, code};

/// Appends values to a vector.
#[derive(Debug)]
pub struct Encoder<'v> {
    into: &'v mut Vec<u8>,
}

/// A compound value being written; give it back to [`Encoder::close`].
#[derive(Debug)]
#[must_use]
pub struct Scope {
    /// Where its format code stands.
    start: usize,
    short: u8,
    count: u32,
    /// Fields written since the last that was not null, and where that one ended: trailing nulls of a composite are
    /// left out (§1.4).
    solid_count: u32,
    solid_end: usize,
}

/// Bytes in front of the content of a compound value: code, size, count, four bytes each of the latter two.
const WIDE: usize = 9;

impl<'v> Encoder<'v> {
    /// An encoder at the end of `into`.
    #[inline]
    pub fn new(into: &'v mut Vec<u8>) -> Encoder<'v> {
        Encoder { into }
    }

    /// Null.
    #[inline]
    pub fn null(&mut self) {
        self.into.push(code::NULL);
    }

    /// A boolean.
    #[inline]
    pub fn boolean(&mut self, boolean: bool) {
        self.into.push(if boolean { code::TRUE } else { code::FALSE });
    }

    /// A ubyte.
    #[inline]
    pub fn ubyte(&mut self, number: u8) {
        self.into.extend_from_slice(&[code::UBYTE, number]);
    }

    /// A ushort.
    #[inline]
    pub fn ushort(&mut self, number: u16) {
        self.fixed(code::USHORT, number.to_be_bytes());
    }

    /// A uint.
    #[inline]
    pub fn uint(&mut self, number: u32) {
        match number {
            0 => self.into.push(code::UINT0),
            1..=255 => self.into.extend_from_slice(&[code::SMALL_UINT, number as u8]),
            _ => self.fixed(code::UINT, number.to_be_bytes()),
        }
    }

    /// A ulong.
    #[inline]
    pub fn ulong(&mut self, number: u64) {
        match number {
            0 => self.into.push(code::ULONG0),
            1..=255 => self.into.extend_from_slice(&[code::SMALL_ULONG, number as u8]),
            _ => self.fixed(code::ULONG, number.to_be_bytes()),
        }
    }

    /// An int.
    pub fn int(&mut self, number: i32) {
        match i8::try_from(number) {
            Ok(small) => self.into.extend_from_slice(&[code::SMALL_INT, small as u8]),
            Err(_) => self.fixed(code::INT, number.to_be_bytes()),
        }
    }

    /// A long.
    pub fn long(&mut self, number: i64) {
        match i8::try_from(number) {
            Ok(small) => self.into.extend_from_slice(&[code::SMALL_LONG, small as u8]),
            Err(_) => self.fixed(code::LONG, number.to_be_bytes()),
        }
    }

    /// A timestamp, milliseconds since 1970.
    #[inline]
    pub fn timestamp(&mut self, ms: i64) {
        self.fixed(code::TIMESTAMP, ms.to_be_bytes());
    }

    /// A uuid.
    pub fn uuid(&mut self, uuid: &[u8; 16]) {
        self.fixed(code::UUID, *uuid);
    }

    /// Binary, below 4 GiB.
    #[inline]
    pub fn binary(&mut self, bytes: &[u8]) {
        self.sized(code::BINARY8, code::BINARY32, bytes);
    }

    /// A string, below 4 GiB.
    #[inline]
    pub fn string(&mut self, text: &str) {
        self.sized(code::STRING8, code::STRING32, text.as_bytes());
    }

    /// A symbol, below 4 GiB. Should be ASCII (§1.6.21).
    #[inline]
    pub fn symbol(&mut self, text: &str) {
        self.sized(code::SYMBOL8, code::SYMBOL32, text.as_bytes());
    }

    /// Appends bytes that already are an encoding.
    #[inline]
    pub fn encoding(&mut self, encoding: &[u8]) {
        self.into.extend_from_slice(encoding);
    }

    /// The constructor of a described value; the value itself is to follow.
    #[inline]
    pub fn descriptor(&mut self, descriptor: u64) {
        self.into.push(code::DESCRIBED);
        self.ulong(descriptor);
    }

    /// Any value as it was read.
    pub fn value(&mut self, value: Value<'_>) {
        match value {
            Value::Null => self.null(),
            Value::Boolean(boolean) => self.boolean(boolean),
            Value::Ubyte(number) => self.ubyte(number),
            Value::Ushort(number) => self.ushort(number),
            Value::Uint(number) => self.uint(number),
            Value::Ulong(number) => self.ulong(number),
            Value::Byte(number) => self.into.extend_from_slice(&[code::BYTE, number as u8]),
            Value::Short(number) => self.fixed(code::SHORT, number.to_be_bytes()),
            Value::Int(number) => self.int(number),
            Value::Long(number) => self.long(number),
            Value::Float(number) => self.fixed(code::FLOAT, number.to_bits().to_be_bytes()),
            Value::Double(number) => self.fixed(code::DOUBLE, number.to_bits().to_be_bytes()),
            Value::Decimal32(bytes) => self.fixed(code::DECIMAL32, *bytes),
            Value::Decimal64(bytes) => self.fixed(code::DECIMAL64, *bytes),
            Value::Decimal128(bytes) => self.fixed(code::DECIMAL128, *bytes),
            Value::Char(unit) => self.fixed(code::CHAR, unit.to_be_bytes()),
            Value::Timestamp(ms) => self.timestamp(ms),
            Value::Uuid(uuid) => self.uuid(uuid),
            Value::Binary(bytes) => self.binary(bytes),
            Value::String(text) => self.string(text),
            Value::Symbol(text) => self.symbol(text),
            Value::List(list) => self.whole_list(list),
            Value::Map(map) => self.whole_map(map),
            Value::Array(array) => self.array(array),
            Value::Described(described) => self.described(described),
        }
    }

    /// Opens a list. Count the elements written into it with [`Scope::field`] or [`Scope::skip`].
    #[inline]
    pub fn list(&mut self) -> Scope {
        self.open(code::LIST8)
    }

    /// Opens a map. Count keys and values alike.
    #[inline]
    pub fn map(&mut self) -> Scope {
        self.open(code::MAP8)
    }

    /// A whole list.
    pub fn whole_list(&mut self, list: List<'_>) {
        self.compound(code::LIST8, list.len() as u32, list.bytes());
    }

    /// A whole map.
    pub fn whole_map(&mut self, map: Map<'_>) {
        self.compound(code::MAP8, map.len() as u32 * 2, map.bytes());
    }

    /// An array of symbols, as `multiple` fields have them (§1.4).
    pub fn symbols<'s>(&mut self, symbols: impl Iterator<Item = &'s str>) {
        let mut scope = self.open(code::ARRAY8);
        self.into.push(code::SYMBOL32);
        for symbol in symbols {
            scope.count += 1;
            self.into.extend_from_slice(&(symbol.len() as u32).to_be_bytes());
            self.into.extend_from_slice(symbol.as_bytes());
        }
        scope.solid_count = scope.count;
        scope.solid_end = self.into.len();
        self.close(scope);
    }

    /// Closes a compound value. Trailing nulls that were counted with [`Scope::skip`] are taken back.
    #[inline]
    pub fn close(&mut self, scope: Scope) {
        let content = scope.start + WIDE;
        let end = scope.solid_end.max(content);
        self.into.truncate(end);
        let (short, count) = (scope.short, scope.solid_count);
        if count == 0 && short == code::LIST8 {
            self.into.truncate(scope.start);
            self.into.push(code::LIST0);
        } else if end - content < 255 && count <= 255 {
            let size = (end - content + 1) as u8;
            self.into[scope.start..scope.start + 3].copy_from_slice(&[short, size, count as u8]);
            self.into.copy_within(content.., scope.start + 3);
            self.into.truncate(end - (WIDE - 3));
        } else {
            let size = (end - content + 4) as u32;
            self.into[scope.start] = short + (code::LIST32 - code::LIST8);
            self.into[scope.start + 1..scope.start + 5].copy_from_slice(&size.to_be_bytes());
            self.into[scope.start + 5..content].copy_from_slice(&count.to_be_bytes());
        }
    }

    #[inline]
    fn open(&mut self, short: u8) -> Scope {
        let start = self.into.len();
        self.into.extend_from_slice(&[0; WIDE]);
        Scope { start, short, count: 0, solid_count: 0, solid_end: 0 }
    }

    #[inline]
    fn fixed<const N: usize>(&mut self, code: u8, bytes: [u8; N]) {
        self.into.push(code);
        self.into.extend_from_slice(&bytes);
    }

    #[inline]
    fn sized(&mut self, short: u8, long: u8, bytes: &[u8]) {
        if bytes.len() < 256 {
            self.into.extend_from_slice(&[short, bytes.len() as u8]);
        } else {
            self.into.push(long);
            self.into.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        }
        self.into.extend_from_slice(bytes);
    }

    fn compound(&mut self, short: u8, count: u32, content: &[u8]) {
        if content.len() < 255 && count < 256 {
            self.into.extend_from_slice(&[short, content.len() as u8 + 1, count as u8]);
        } else {
            self.into.push(short + (code::LIST32 - code::LIST8));
            self.into.extend_from_slice(&(content.len() as u32 + 4).to_be_bytes());
            self.into.extend_from_slice(&count.to_be_bytes());
        }
        self.into.extend_from_slice(content);
    }

    fn array(&mut self, array: Array<'_>) {
        let descriptor = array.descriptor_encoding();
        let constructor = if descriptor.is_empty() { 1 } else { descriptor.len() + 2 };
        let size = constructor + array.bytes().len();
        if size < 255 && array.len() < 256 {
            self.into.extend_from_slice(&[code::ARRAY8, size as u8 + 1, array.len() as u8]);
        } else {
            self.into.push(code::ARRAY32);
            self.into.extend_from_slice(&(size as u32 + 4).to_be_bytes());
            self.into.extend_from_slice(&(array.len() as u32).to_be_bytes());
        }
        if !descriptor.is_empty() {
            self.into.push(code::DESCRIBED);
            self.into.extend_from_slice(descriptor);
        }
        self.into.push(array.code());
        self.into.extend_from_slice(array.bytes());
    }

    fn described(&mut self, described: Described<'_>) {
        self.into.push(code::DESCRIBED);
        self.into.extend_from_slice(described.descriptor_encoding());
        self.into.extend_from_slice(described.encoding());
    }
}

impl Scope {
    /// A field is being written through `encoder`: call it right after writing.
    #[inline]
    pub fn field(&mut self, encoder: &Encoder<'_>) {
        self.count += 1;
        self.solid_count = self.count;
        self.solid_end = encoder.into.len();
    }

    /// A null field; left out if only nulls follow.
    #[inline]
    pub fn skip(&mut self, encoder: &mut Encoder<'_>) {
        self.count += 1;
        encoder.null();
    }

    /// Writes a field, or null where there is none.
    #[inline]
    pub fn option<T>(
        &mut self,
        encoder: &mut Encoder<'_>,
        field: Option<T>,
        write: impl FnOnce(&mut Encoder<'_>, T),
    ) {
        match field {
            Some(field) => {
                write(encoder, field);
                self.field(encoder);
            }
            None => self.skip(encoder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp10::value::Decoder;
    use proptest::prelude::*;

    #[test]
    fn trailing_nulls_are_left_out() {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes);
        let mut list = encoder.list();
        list.skip(&mut encoder);
        list.option(&mut encoder, Some(7), |encoder, number| encoder.uint(number));
        list.option(&mut encoder, None, |encoder, number| encoder.uint(number));
        encoder.close(list);
        let mut list = encoder.list();
        list.skip(&mut encoder);
        encoder.close(list);
        let map = encoder.map();
        encoder.close(map);
        assert_eq!(bytes, [0xc0, 4, 2, 0x40, 0x52, 7, 0x45, 0xc1, 1, 0]);
    }

    #[test]
    fn long_compounds_have_long_headers() {
        for len in [250, 251, 252, 253, 300] {
            let mut bytes = Vec::new();
            let mut encoder = Encoder::new(&mut bytes);
            let mut list = encoder.list();
            encoder.binary(&vec![7; len]);
            list.field(&encoder);
            encoder.close(list);
            let mut decoder = Decoder::new(&bytes);
            assert_eq!(decoder.check(), Ok(()));
            let Ok(Value::List(list)) = Decoder::new(&bytes).value() else { panic!() };
            assert_eq!(list.iter().collect::<Vec<_>>(), [Value::Binary(&vec![7; len])]);
        }
    }

    #[test]
    fn symbols_come_back() {
        let mut bytes = Vec::new();
        Encoder::new(&mut bytes).symbols(["PLAIN", "ANONYMOUS"].into_iter());
        let value = Decoder::new(&bytes).value().unwrap();
        assert_eq!(
            value.multiple().filter_map(|value| value.as_str()).collect::<Vec<_>>(),
            ["PLAIN", "ANONYMOUS"]
        );
    }

    proptest! {
        #[test]
        fn what_was_read_is_written_the_same(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut decoder = Decoder::new(&bytes);
            if decoder.check().is_ok() {
                let value = Decoder::new(&bytes).value().unwrap();
                let mut again = Vec::new();
                Encoder::new(&mut again).value(value);
                let mut decoder = Decoder::new(&again);
                prop_assert_eq!(decoder.check(), Ok(()));
                prop_assert!(decoder.is_empty());
                // A second pass is byte for byte the same: every encoding has one shortest form of ours.
                let mut third = Vec::new();
                Encoder::new(&mut third).value(Decoder::new(&again).value().unwrap());
                prop_assert_eq!(again, third);
            }
        }
    }
}
