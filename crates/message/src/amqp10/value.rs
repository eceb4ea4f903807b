//! Values of the AMQP 1.0 type system (§1), read out of borrowed bytes.
//!
//! Nothing is copied and nothing is built: a compound value is the bytes it came in, read when somebody walks it.
//! Bytes from outside go through [`Decoder::check`] once: it walks everything inside in linear time, to a depth of
//! [`DEPTH_MAX`], so that the lazy walks afterwards meet no surprise (a walk over unchecked bytes ends early).

use base::cursor::{Reader, Short};

/// Constructors nested deeper than this are refused.
pub const DEPTH_MAX: usize = 32;

/// Why bytes are not a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The bytes ended inside a value.
    Short,
    /// No type has this format code (§1.2).
    UnknownType(u8),
    /// A value of another type was expected; the code is the one found.
    WrongType(u8),
    /// The size or count of a compound value does not fit its content.
    Size,
    /// Nested deeper than [`DEPTH_MAX`].
    Depth,
    /// A string or symbol is not UTF-8.
    Utf8,
    /// A mandatory field is missing.
    Missing(&'static str),
    /// A section that may not stand where it stands, or stands twice (§3.2).
    SectionOrder(u8),
    /// The message has no body section (§3.2).
    NoBody,
}

impl From<Short> for Malformed {
    fn from(_: Short) -> Malformed {
        Malformed::Short
    }
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Malformed::Short => write!(f, "bytes end inside a value"),
            Malformed::UnknownType(code) => write!(f, "unknown format code 0x{code:02x}"),
            Malformed::WrongType(code) => write!(f, "unexpected format code 0x{code:02x}"),
            Malformed::Size => write!(f, "size or count does not fit"),
            Malformed::Depth => write!(f, "nested deeper than {DEPTH_MAX}"),
            Malformed::Utf8 => write!(f, "not UTF-8"),
            Malformed::Missing(field) => write!(f, "missing field {field}"),
            Malformed::SectionOrder(code) => write!(f, "section 0x{code:02x} out of order"),
            Malformed::NoBody => write!(f, "message without body section"),
        }
    }
}

impl std::error::Error for Malformed {}

/// One value. Compound ones are borrowed and read lazily.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// §1.6.1
    Null,
    /// §1.6.2
    Boolean(bool),
    /// §1.6.3
    Ubyte(u8),
    /// §1.6.4
    Ushort(u16),
    /// §1.6.5
    Uint(u32),
    /// §1.6.6
    Ulong(u64),
    /// §1.6.7
    Byte(i8),
    /// §1.6.8
    Short(i16),
    /// §1.6.9
    Int(i32),
    /// §1.6.10
    Long(i64),
    /// §1.6.11
    Float(f32),
    /// §1.6.12
    Double(f64),
    /// §1.6.13, the encoding as it came.
    Decimal32(&'a [u8; 4]),
    /// §1.6.14, the encoding as it came.
    Decimal64(&'a [u8; 8]),
    /// §1.6.15, the encoding as it came.
    Decimal128(&'a [u8; 16]),
    /// §1.6.16: a UTF-32 code unit, not checked to be a character.
    Char(u32),
    /// §1.6.17: milliseconds since 1970.
    Timestamp(i64),
    /// §1.6.18
    Uuid(&'a [u8; 16]),
    /// §1.6.19
    Binary(&'a [u8]),
    /// §1.6.20
    String(&'a str),
    /// §1.6.21
    Symbol(&'a str),
    /// §1.6.22
    List(List<'a>),
    /// §1.6.23
    Map(Map<'a>),
    /// §1.6.24
    Array(Array<'a>),
    /// §1.1.2
    Described(Described<'a>),
}

impl<'a> Value<'a> {
    /// The text of a string or symbol.
    pub fn as_str(&self) -> Option<&'a str> {
        match *self {
            Value::String(text) | Value::Symbol(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number that is not negative, of any width.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::Ubyte(number) => Some(number.into()),
            Value::Ushort(number) => Some(number.into()),
            Value::Uint(number) => Some(number.into()),
            Value::Ulong(number) => Some(number),
            _ => self.as_i64().and_then(|number| number.try_into().ok()),
        }
    }

    /// A whole number of any width that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Value::Byte(number) => Some(number.into()),
            Value::Short(number) => Some(number.into()),
            Value::Int(number) => Some(number.into()),
            Value::Long(number) | Value::Timestamp(number) => Some(number),
            Value::Ubyte(number) => Some(number.into()),
            Value::Ushort(number) => Some(number.into()),
            Value::Uint(number) => Some(number.into()),
            Value::Ulong(number) => number.try_into().ok(),
            _ => None,
        }
    }

    /// The elements of a `multiple` field (§1.4): an array's, or the value itself where there is one, or none.
    pub fn multiple(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let (array, single) = match *self {
            Value::Array(array) => (Some(array), None),
            Value::Null => (None, None),
            single => (None, Some(single)),
        };
        array.into_iter().flat_map(|array| array.iter()).chain(single)
    }
}

/// A list: its elements' bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List<'a> {
    /// Elements it says it has, at most one per byte.
    count: u32,
    bytes: &'a [u8],
}

impl<'a> List<'a> {
    /// A list of the `count` elements whose encodings follow each other in `bytes`.
    pub fn new(count: u32, bytes: &'a [u8]) -> List<'a> {
        List { count: count.min(bytes.len() as u32), bytes }
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// No element.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The encodings of the elements, one after the other.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The elements, up to the first malformed one.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let mut decoder = Decoder::new(self.bytes);
        (0..self.count).map_while(move |_| decoder.value().ok())
    }

    /// A decoder at the first element, and how many there are.
    #[inline]
    pub fn decoder(&self) -> (Decoder<'a>, u32) {
        (Decoder::new(self.bytes), self.count)
    }
}

/// A map: its keys' and values' bytes, in turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Map<'a> {
    /// Keys and values together: an even number.
    count: u32,
    bytes: &'a [u8],
}

impl<'a> Map<'a> {
    /// A map of the `count` keys and values (together) whose encodings follow each other in `bytes`.
    pub fn new(count: u32, bytes: &'a [u8]) -> Map<'a> {
        Map { count: count.min(bytes.len() as u32) & !1, bytes }
    }

    /// Pairs.
    pub fn len(&self) -> usize {
        self.count as usize / 2
    }

    /// No pair.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The encodings of keys and values, one after the other.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The pairs, up to the first malformed one.
    pub fn iter(&self) -> impl Iterator<Item = (Value<'a>, Value<'a>)> + use<'a> {
        let mut decoder = Decoder::new(self.bytes);
        (0..self.count / 2).map_while(move |_| Some((decoder.value().ok()?, decoder.value().ok()?)))
    }

    /// The pairs as encodings, up to the first malformed one.
    pub fn encodings(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut decoder = Decoder::new(self.bytes);
        (0..self.count / 2).map_while(move |_| Some((decoder.encoding().ok()?, decoder.encoding().ok()?)))
    }

    /// The value under a string or symbol key.
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
    }
}

/// An array: one constructor and the elements' bytes without theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array<'a> {
    count: u32,
    /// The descriptor's encoding where elements are described, without the 0x00 in front; else empty.
    descriptor: &'a [u8],
    code: u8,
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// Elements by its own count. **Not bounded by its bytes** where elements have no width: bound your use of it.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// No element.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether its elements take no bytes: all are the same.
    pub fn is_of_no_width(&self) -> bool {
        width(self.code) == Width::Fixed(0)
    }

    /// The format code all elements share.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// The elements without their descriptor, up to the first malformed one. Elements of no width are repeated at most
    /// [`EMPTY_ELEMENTS_MAX`] times: a few bytes may claim four thousand million of them.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let code = self.code;
        let count = if self.is_of_no_width() { self.count.min(EMPTY_ELEMENTS_MAX) } else { self.count };
        let mut decoder = Decoder::new(self.bytes);
        (0..count).map_while(move |_| decoder.data(code).ok())
    }

    /// The descriptor all elements share.
    pub fn descriptor(&self) -> Option<Descriptor<'a>> {
        (!self.descriptor.is_empty()).then(|| Descriptor::read(self.descriptor))
    }

    /// The encoding of the descriptor all elements share; empty where there is none.
    pub fn descriptor_encoding(&self) -> &'a [u8] {
        self.descriptor
    }

    /// The elements' bytes, without constructors.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn read(count: u32, content: &'a [u8]) -> Result<Array<'a>, Malformed> {
        let mut decoder = Decoder::new(content);
        let mut code = decoder.reader.u8()?;
        let mut descriptor: &[u8] = &[];
        if code == code::DESCRIBED {
            descriptor = decoder.encoding()?;
            code = decoder.reader.u8()?;
        }
        let bytes = decoder.reader.rest();
        match width(code) {
            Width::Unknown => return Err(Malformed::UnknownType(code)),
            Width::Fixed(width) if width * count as usize != bytes.len() => return Err(Malformed::Size),
            Width::Sized8 | Width::Sized32 if count as usize > bytes.len() => return Err(Malformed::Size),
            _ => {}
        }
        Ok(Array { count, descriptor, code, bytes })
    }
}

/// Elements of no width that a walk over an array repeats at most.
pub const EMPTY_ELEMENTS_MAX: u32 = 64;

/// A described value (§1.1.2): both parts as encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described<'a> {
    descriptor: &'a [u8],
    value: &'a [u8],
}

impl<'a> Described<'a> {
    /// The descriptor.
    pub fn descriptor(&self) -> Descriptor<'a> {
        Descriptor::read(self.descriptor)
    }

    /// The value behind the descriptor; `Null` where it was not checked and is malformed.
    pub fn value(&self) -> Value<'a> {
        Decoder::new(self.value).value().unwrap_or(Value::Null)
    }

    /// The encoding of the value behind the descriptor.
    pub fn encoding(&self) -> &'a [u8] {
        self.value
    }

    /// The encoding of the descriptor.
    pub fn descriptor_encoding(&self) -> &'a [u8] {
        self.descriptor
    }
}

/// The descriptor of a value: a numeric code or a name (§1.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor<'a> {
    /// A ulong.
    Code(u64),
    /// A symbol.
    Name(&'a str),
    /// Something else, which the specification reserves.
    Other,
}

impl<'a> Descriptor<'a> {
    fn read(encoding: &'a [u8]) -> Descriptor<'a> {
        match Decoder::new(encoding).value() {
            Ok(Value::Ulong(code)) => Descriptor::Code(code),
            Ok(Value::Symbol(name)) => Descriptor::Name(name),
            _ => Descriptor::Other,
        }
    }
}

/// Format codes (§1.6).
pub mod code {
    #![allow(missing_docs)]
    pub const DESCRIBED: u8 = 0x00;
    pub const NULL: u8 = 0x40;
    pub const TRUE: u8 = 0x41;
    pub const FALSE: u8 = 0x42;
    pub const UINT0: u8 = 0x43;
    pub const ULONG0: u8 = 0x44;
    pub const LIST0: u8 = 0x45;
    pub const UBYTE: u8 = 0x50;
    pub const BYTE: u8 = 0x51;
    pub const SMALL_UINT: u8 = 0x52;
    pub const SMALL_ULONG: u8 = 0x53;
    pub const SMALL_INT: u8 = 0x54;
    pub const SMALL_LONG: u8 = 0x55;
    pub const BOOLEAN: u8 = 0x56;
    pub const USHORT: u8 = 0x60;
    pub const SHORT: u8 = 0x61;
    pub const UINT: u8 = 0x70;
    pub const INT: u8 = 0x71;
    pub const FLOAT: u8 = 0x72;
    pub const CHAR: u8 = 0x73;
    pub const DECIMAL32: u8 = 0x74;
    pub const ULONG: u8 = 0x80;
    pub const LONG: u8 = 0x81;
    pub const DOUBLE: u8 = 0x82;
    pub const TIMESTAMP: u8 = 0x83;
    pub const DECIMAL64: u8 = 0x84;
    pub const DECIMAL128: u8 = 0x94;
    pub const UUID: u8 = 0x98;
    pub const BINARY8: u8 = 0xa0;
    pub const STRING8: u8 = 0xa1;
    pub const SYMBOL8: u8 = 0xa3;
    pub const BINARY32: u8 = 0xb0;
    pub const STRING32: u8 = 0xb1;
    pub const SYMBOL32: u8 = 0xb3;
    pub const LIST8: u8 = 0xc0;
    pub const MAP8: u8 = 0xc1;
    pub const LIST32: u8 = 0xd0;
    pub const MAP32: u8 = 0xd1;
    pub const ARRAY8: u8 = 0xe0;
    pub const ARRAY32: u8 = 0xf0;
}

#[derive(PartialEq, Eq)]
enum Width {
    Fixed(usize),
    Sized8,
    Sized32,
    Unknown,
}

/// How many bytes follow a format code. Codes that no type has are unknown, though §1.2 gives them a width.
#[inline]
fn width(code: u8) -> Width {
    match code {
        code::NULL..=code::LIST0 => Width::Fixed(0),
        code::UBYTE..=code::BOOLEAN => Width::Fixed(1),
        code::USHORT | code::SHORT => Width::Fixed(2),
        code::UINT..=code::DECIMAL32 => Width::Fixed(4),
        code::ULONG..=code::DECIMAL64 => Width::Fixed(8),
        code::DECIMAL128 | code::UUID => Width::Fixed(16),
        code::BINARY8 | code::STRING8 | code::SYMBOL8 | code::LIST8 | code::MAP8 | code::ARRAY8 => {
            Width::Sized8
        }
        code::BINARY32 | code::STRING32 | code::SYMBOL32 | code::LIST32 | code::MAP32 | code::ARRAY32 => {
            Width::Sized32
        }
        _ => Width::Unknown,
    }
}

/// A position in encoded values.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    reader: Reader<'a>,
}

impl<'a> Decoder<'a> {
    /// A decoder at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { reader: Reader::new(bytes) }
    }

    /// The bytes that have not been read.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    /// Nothing is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.reader.is_empty()
    }

    /// The next value. Compound values are not looked into.
    #[inline]
    pub fn value(&mut self) -> Result<Value<'a>, Malformed> {
        let code = self.reader.u8()?;
        if code == code::DESCRIBED {
            let descriptor = self.encoding()?;
            let value = self.encoding()?;
            return Ok(Value::Described(Described { descriptor, value }));
        }
        self.data(code)
    }

    /// The next value's encoding. Compound values are not looked into.
    pub fn encoding(&mut self) -> Result<&'a [u8], Malformed> {
        let start = self.reader.rest();
        self.skip_nested(0)?;
        Ok(&start[..start.len() - self.reader.len()])
    }

    /// Steps over the next value. Compound values are not looked into.
    pub fn skip(&mut self) -> Result<(), Malformed> {
        self.skip_nested(0)
    }

    fn skip_nested(&mut self, depth: usize) -> Result<(), Malformed> {
        let mut code = self.reader.u8()?;
        while code == code::DESCRIBED {
            if depth >= DEPTH_MAX {
                return Err(Malformed::Depth);
            }
            self.skip_nested(depth + 1)?;
            code = self.reader.u8()?;
        }
        let len = match width(code) {
            Width::Fixed(width) => width,
            Width::Sized8 => self.reader.u8()? as usize,
            Width::Sized32 => self.reader.u32()? as usize,
            Width::Unknown => return Err(Malformed::UnknownType(code)),
        };
        self.reader.take(len)?;
        Ok(())
    }

    /// Steps over the next value and looks at everything inside it: after this no lazy walk over it ends early.
    #[inline]
    pub fn check(&mut self) -> Result<(), Malformed> {
        self.check_nested(0)
    }

    /// The next value, everything inside it looked at.
    #[inline]
    pub fn checked_value(&mut self) -> Result<Value<'a>, Malformed> {
        let start = self.clone();
        let code = self.reader.u8()?;
        if code == code::DESCRIBED {
            *self = start.clone();
            self.check_nested(0)?;
            return start.clone().value();
        }
        let value = self.data(code)?;
        check_inside(value, 0)?;
        Ok(value)
    }

    #[inline]
    fn check_nested(&mut self, depth: usize) -> Result<(), Malformed> {
        if depth >= DEPTH_MAX {
            return Err(Malformed::Depth);
        }
        let code = self.reader.u8()?;
        if code == code::DESCRIBED {
            return self.check_described(depth);
        }
        self.check_data(code, depth)
    }

    #[cold]
    fn check_described(&mut self, mut depth: usize) -> Result<(), Malformed> {
        let mut code = code::DESCRIBED;
        // A descriptor in front of a descriptor's value is as deep as one inside it.
        while code == code::DESCRIBED {
            depth += 1;
            self.check_nested(depth)?;
            code = self.reader.u8()?;
        }
        self.check_data(code, depth)
    }

    #[inline]
    fn check_data(&mut self, code: u8, depth: usize) -> Result<(), Malformed> {
        let bytes = match width(code) {
            Width::Fixed(width) => {
                self.reader.take(width)?;
                return Ok(());
            }
            Width::Sized8 if code < code::LIST8 => sized8(&mut self.reader)?,
            Width::Sized32 if code < code::LIST8 => sized32(&mut self.reader)?,
            _ => return check_inside(self.data(code)?, depth),
        };
        if code != code::BINARY8 && code != code::BINARY32 {
            text(bytes)?;
        }
        Ok(())
    }

    /// The value of a format code already read: an element of an array, or a value behind its constructor.
    #[inline]
    fn data(&mut self, code: u8) -> Result<Value<'a>, Malformed> {
        let reader = &mut self.reader;
        Ok(match code {
            code::NULL => Value::Null,
            code::TRUE => Value::Boolean(true),
            code::FALSE => Value::Boolean(false),
            code::UINT0 => Value::Uint(0),
            code::ULONG0 => Value::Ulong(0),
            code::LIST0 => Value::List(List::default()),
            code::UBYTE => Value::Ubyte(reader.u8()?),
            code::BYTE => Value::Byte(reader.u8()? as i8),
            code::SMALL_UINT => Value::Uint(reader.u8()?.into()),
            code::SMALL_ULONG => Value::Ulong(reader.u8()?.into()),
            code::SMALL_INT => Value::Int((reader.u8()? as i8).into()),
            code::SMALL_LONG => Value::Long((reader.u8()? as i8).into()),
            code::BOOLEAN => Value::Boolean(reader.u8()? != 0),
            code::USHORT => Value::Ushort(reader.u16()?),
            code::SHORT => Value::Short(reader.i16()?),
            code::UINT => Value::Uint(reader.u32()?),
            code::INT => Value::Int(reader.i32()?),
            code::FLOAT => Value::Float(f32::from_bits(reader.u32()?)),
            code::CHAR => Value::Char(reader.u32()?),
            code::DECIMAL32 => Value::Decimal32(array(reader)?),
            code::ULONG => Value::Ulong(reader.u64()?),
            code::LONG => Value::Long(reader.i64()?),
            code::DOUBLE => Value::Double(f64::from_bits(reader.u64()?)),
            code::TIMESTAMP => Value::Timestamp(reader.i64()?),
            code::DECIMAL64 => Value::Decimal64(array(reader)?),
            code::DECIMAL128 => Value::Decimal128(array(reader)?),
            code::UUID => Value::Uuid(array(reader)?),
            code::BINARY8 => Value::Binary(sized8(reader)?),
            code::STRING8 => Value::String(text(sized8(reader)?)?),
            code::SYMBOL8 => Value::Symbol(text(sized8(reader)?)?),
            code::BINARY32 => Value::Binary(sized32(reader)?),
            code::STRING32 => Value::String(text(sized32(reader)?)?),
            code::SYMBOL32 => Value::Symbol(text(sized32(reader)?)?),
            code::LIST8 | code::MAP8 | code::ARRAY8 => {
                let (&count, content) = sized8(reader)?.split_first().ok_or(Malformed::Size)?;
                compound(code, count.into(), content)?
            }
            code::LIST32 | code::MAP32 | code::ARRAY32 => {
                let (count, content) = sized32(reader)?.split_first_chunk().ok_or(Malformed::Size)?;
                compound(code, u32::from_be_bytes(*count), content)?
            }
            code::DESCRIBED => return Err(Malformed::WrongType(code)),
            unknown => return Err(Malformed::UnknownType(unknown)),
        })
    }
}

/// Looks at everything inside a value that was read.
fn check_inside(value: Value<'_>, depth: usize) -> Result<(), Malformed> {
    match value {
        Value::List(List { count, bytes }) | Value::Map(Map { count, bytes }) => {
            let mut inner = Decoder::new(bytes);
            for _ in 0..count {
                inner.check_nested(depth + 1)?;
            }
            if !inner.is_empty() {
                return Err(Malformed::Size);
            }
        }
        Value::Array(array) => {
            if !array.descriptor.is_empty() {
                Decoder::new(array.descriptor).check_nested(depth + 1)?;
            }
            // Elements of a fixed width were counted against the bytes when the array was read.
            if !matches!(width(array.code), Width::Fixed(_)) {
                if depth + 1 >= DEPTH_MAX {
                    return Err(Malformed::Depth);
                }
                let mut inner = Decoder::new(array.bytes);
                for _ in 0..array.count {
                    inner.check_data(array.code, depth + 1)?;
                }
                if !inner.is_empty() {
                    return Err(Malformed::Size);
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn compound(code: u8, count: u32, content: &[u8]) -> Result<Value<'_>, Malformed> {
    let fits = count as usize <= content.len();
    match code {
        code::LIST8 | code::LIST32 if fits => Ok(Value::List(List { count, bytes: content })),
        code::MAP8 | code::MAP32 if fits && count.is_multiple_of(2) => {
            Ok(Value::Map(Map { count, bytes: content }))
        }
        code::ARRAY8 | code::ARRAY32 => Array::read(count, content).map(Value::Array),
        _ => Err(Malformed::Size),
    }
}

#[inline]
fn array<'a, const N: usize>(reader: &mut Reader<'a>) -> Result<&'a [u8; N], Malformed> {
    reader.take(N)?.first_chunk().ok_or(Malformed::Short)
}

#[inline]
fn sized8<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let len = reader.u8()? as usize;
    Ok(reader.take(len)?)
}

#[inline]
fn sized32<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let len = reader.u32()? as usize;
    Ok(reader.take(len)?)
}

#[inline]
fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed::Utf8)
}

/// The fields of a composite (§1.4): a list read field by field (§1.4): absent trailing fields are null.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    decoder: Decoder<'a>,
    left: u32,
}

impl<'a> Fields<'a> {
    /// The fields of `list`.
    #[inline]
    pub fn new(list: List<'a>) -> Fields<'a> {
        Fields { decoder: Decoder::new(list.bytes), left: list.count }
    }

    /// The next field; null where there is none any more.
    #[inline]
    pub fn value(&mut self) -> Result<Value<'a>, Malformed> {
        if self.left == 0 {
            return Ok(Value::Null);
        }
        self.left -= 1;
        self.decoder.value()
    }

    fn typed<T>(&mut self, read: impl FnOnce(Value<'a>) -> Option<T>) -> Result<Option<T>, Malformed> {
        let first = self.decoder.rest().first().copied().unwrap_or(code::NULL);
        match self.value()? {
            Value::Null => Ok(None),
            value => read(value).map(Some).ok_or(Malformed::WrongType(first)),
        }
    }

    /// The next field as a boolean.
    pub fn boolean(&mut self) -> Result<Option<bool>, Malformed> {
        self.typed(|value| if let Value::Boolean(boolean) = value { Some(boolean) } else { None })
    }

    /// The next field as a ubyte.
    pub fn ubyte(&mut self) -> Result<Option<u8>, Malformed> {
        self.typed(|value| if let Value::Ubyte(number) = value { Some(number) } else { None })
    }

    /// The next field as a ushort.
    pub fn ushort(&mut self) -> Result<Option<u16>, Malformed> {
        self.typed(|value| if let Value::Ushort(number) = value { Some(number) } else { None })
    }

    /// The next field as a uint.
    pub fn uint(&mut self) -> Result<Option<u32>, Malformed> {
        self.typed(|value| if let Value::Uint(number) = value { Some(number) } else { None })
    }

    /// The next field as a ulong.
    pub fn ulong(&mut self) -> Result<Option<u64>, Malformed> {
        self.typed(|value| if let Value::Ulong(number) = value { Some(number) } else { None })
    }

    /// The next field as a string.
    pub fn string(&mut self) -> Result<Option<&'a str>, Malformed> {
        self.typed(|value| if let Value::String(text) = value { Some(text) } else { None })
    }

    /// The next field as a symbol.
    pub fn symbol(&mut self) -> Result<Option<&'a str>, Malformed> {
        self.typed(|value| if let Value::Symbol(text) = value { Some(text) } else { None })
    }

    /// The next field as binary.
    pub fn binary(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        self.typed(|value| if let Value::Binary(bytes) = value { Some(bytes) } else { None })
    }

    /// The next field as a map.
    pub fn map(&mut self) -> Result<Option<Map<'a>>, Malformed> {
        self.typed(|value| if let Value::Map(map) = value { Some(map) } else { None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(bytes: &[u8], expected: Result<(), Malformed>) {
        let mut decoder = Decoder::new(bytes);
        assert_eq!(decoder.check(), expected, "{bytes:02x?}");
        assert!(expected.is_err() || decoder.is_empty());
    }

    #[test]
    fn sizes_and_counts_must_fit() {
        check(&[0x45], Ok(()));
        check(&[0xc0, 1, 0], Ok(()));
        check(&[0xc0, 0], Err(Malformed::Size));
        check(&[0xc0, 3, 2, 0x40, 0x40], Ok(()));
        check(&[0xc0, 3, 1, 0x40, 0x40], Err(Malformed::Size));
        check(&[0xc0, 3, 3, 0x40, 0x40], Err(Malformed::Size));
        check(&[0xc1, 2, 1, 0x40], Err(Malformed::Size));
        check(&[0xd0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff], Err(Malformed::Size));
        check(&[0xa1, 1, 0xff], Err(Malformed::Utf8));
        check(&[0xa1, 2, b'a'], Err(Malformed::Short));
        check(&[0x57], Err(Malformed::UnknownType(0x57)));
        check(&[0xe0, 3, 2, 0x52, 7], Err(Malformed::Size));
        check(&[0xe0, 4, 2, 0x52, 7, 8], Ok(()));
        check(&[0xe0, 6, 1, 0x00, 0x53, 1, 0x52, 7], Ok(()));
    }

    #[test]
    fn arrays_of_nothing_cost_nothing() {
        for code in [code::NULL, code::TRUE, code::FALSE, code::UINT0, code::ULONG0, code::LIST0] {
            let bytes = [0xf0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, code];
            check(&bytes, Ok(()));
            let Ok(Value::Array(array)) = Decoder::new(&bytes).value() else { panic!() };
            assert_eq!((array.len(), array.iter().count()), (u32::MAX as usize, EMPTY_ELEMENTS_MAX as usize));
        }
    }

    #[test]
    fn depth_is_capped() {
        let nested = |depth: usize| {
            let mut bytes = vec![0x45];
            for _ in 0..depth {
                let mut outer = vec![0xc0, bytes.len() as u8 + 1, 1];
                outer.extend(&bytes);
                bytes = outer;
            }
            bytes
        };
        check(&nested(DEPTH_MAX - 1), Ok(()));
        check(&nested(DEPTH_MAX), Err(Malformed::Depth));
        check(&vec![0; 100_000], Err(Malformed::Depth));
        assert_eq!(Decoder::new(&vec![0; 100_000]).skip(), Err(Malformed::Depth));
    }

    fn walk(value: Value<'_>, budget: &mut usize) {
        if *budget == 0 {
            return;
        }
        *budget -= 1;
        match value {
            Value::List(list) => list.iter().for_each(|value| walk(value, budget)),
            Value::Map(map) => map.iter().for_each(|(key, value)| {
                walk(key, budget);
                walk(value, budget);
            }),
            Value::Array(array) => array.iter().for_each(|value| walk(value, budget)),
            Value::Described(described) => walk(described.value(), budget),
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut checked = Decoder::new(&bytes);
            let mut skipped = Decoder::new(&bytes);
            if checked.check().is_ok() {
                prop_assert_eq!(skipped.skip(), Ok(()));
                prop_assert_eq!(checked.rest(), skipped.rest());
            }
            if let Ok(value) = Decoder::new(&bytes).value() {
                walk(value, &mut 10_000);
            }
        }
    }
}
