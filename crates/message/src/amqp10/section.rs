//! The sections of a message (§3.2), and where its head ends.
//!
//! ```text
//!   | header | delivery-annotations | message-annotations | properties | application-properties | body ... | footer |
//!   '---------------------- head ------------------------'------------------ bare message ------------------'
//! ```
//!
//! A log keeps the head and the rest apart: the part intermediaries may change, and the part they may not. The footer
//! stays with the rest. Sections must come in this order, each at most once, except data and amqp-sequence, of which
//! there may be many.

use super::properties::Properties;
use super::value::{Decoder, Fields, List, Malformed, Map, Value, code};
use super::write::Encoder;

/// Descriptor codes of sections (§3.2).
pub mod descriptor {
    #![allow(missing_docs)]
    pub const HEADER: u8 = 0x70;
    pub const DELIVERY_ANNOTATIONS: u8 = 0x71;
    pub const MESSAGE_ANNOTATIONS: u8 = 0x72;
    pub const PROPERTIES: u8 = 0x73;
    pub const APPLICATION_PROPERTIES: u8 = 0x74;
    pub const DATA: u8 = 0x75;
    pub const SEQUENCE: u8 = 0x76;
    pub const VALUE: u8 = 0x77;
    pub const FOOTER: u8 = 0x78;
}

/// Their names, for peers that write those.
const NAMES: [(&str, u8); 9] = [
    ("amqp:header:list", descriptor::HEADER),
    ("amqp:delivery-annotations:map", descriptor::DELIVERY_ANNOTATIONS),
    ("amqp:message-annotations:map", descriptor::MESSAGE_ANNOTATIONS),
    ("amqp:properties:list", descriptor::PROPERTIES),
    ("amqp:application-properties:map", descriptor::APPLICATION_PROPERTIES),
    ("amqp:data:binary", descriptor::DATA),
    ("amqp:amqp-sequence:list", descriptor::SEQUENCE),
    ("amqp:amqp-value:*", descriptor::VALUE),
    ("amqp:footer:map", descriptor::FOOTER),
];

/// The header section (§3.2.1). An absent header is [`Header::default`]; RabbitMQ 4.2 made that mean not durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Survives a restart.
    pub durable: bool,
    /// 0..=255; `None`: 4, by the specification.
    pub priority: Option<u8>,
    /// Milliseconds to live.
    pub ttl_ms: Option<u32>,
    /// Nobody acquired it before.
    pub first_acquirer: bool,
    /// Deliveries that failed before.
    pub delivery_count: u32,
}

impl Header {
    fn read(list: List<'_>) -> Result<Header, Malformed> {
        let mut fields = Fields::new(list);
        Ok(Header {
            durable: fields.boolean()?.unwrap_or(false),
            priority: fields.ubyte()?,
            ttl_ms: fields.uint()?,
            first_acquirer: fields.boolean()?.unwrap_or(false),
            delivery_count: fields.uint()?.unwrap_or(0),
        })
    }

    /// Reads the header at the start of `bytes` if it is written the way most are; answers the bytes behind it. Says
    /// the same as [`Header::read`], in registers.
    #[inline]
    fn read_plain(bytes: &[u8]) -> Option<(Header, &[u8])> {
        let [code::LIST8, size, count @ 0..=5, rest @ ..] = bytes else { return None };
        let (mut fields, after) = rest.split_at_checked(usize::from(*size).checked_sub(1)?)?;
        let mut header = Header::default();
        if *count > 0 {
            header.durable = flag(&mut fields)?;
        }
        if *count > 1 {
            let (priority, rest) = match fields {
                [code::NULL, rest @ ..] => (None, rest),
                [code::UBYTE, priority, rest @ ..] => (Some(*priority), rest),
                _ => return None,
            };
            (header.priority, fields) = (priority, rest);
        }
        if *count > 2 {
            header.ttl_ms = number(&mut fields)?;
        }
        if *count > 3 {
            header.first_acquirer = flag(&mut fields)?;
        }
        if *count > 4 {
            header.delivery_count = number(&mut fields)?.unwrap_or(0);
        }
        fields.is_empty().then_some((header, after))
    }

    /// Appends the section. Always states `durable`, which peers disagree about when it is absent.
    #[inline]
    pub fn write(&self, into: &mut Vec<u8>) {
        // code, size and count of a list8 around at most 2 + 5 + 1 + 5 + 1 bytes.
        let mut bytes = [0; 20];
        bytes[..3].copy_from_slice(&[code::DESCRIBED, code::SMALL_ULONG, descriptor::HEADER]);
        bytes[3] = code::LIST8;
        bytes[6] = if self.durable { code::TRUE } else { code::FALSE };
        let (mut at, mut count) = (7, 1);
        // Fields up to the last that says something.
        let last = if self.delivery_count > 0 {
            5
        } else if self.first_acquirer {
            4
        } else if self.ttl_ms.is_some() {
            3
        } else if self.priority.is_some() {
            2
        } else {
            1
        };
        while count < last {
            count += 1;
            let number = match count {
                2 => {
                    match self.priority {
                        Some(priority) => {
                            bytes[at..at + 2].copy_from_slice(&[code::UBYTE, priority]);
                            at += 2;
                        }
                        None => {
                            bytes[at] = code::NULL;
                            at += 1;
                        }
                    }
                    continue;
                }
                3 => self.ttl_ms,
                4 => {
                    bytes[at] = if self.first_acquirer { code::TRUE } else { code::FALSE };
                    at += 1;
                    continue;
                }
                _ => Some(self.delivery_count),
            };
            match number {
                Some(number) => {
                    bytes[at] = code::UINT;
                    bytes[at + 1..at + 5].copy_from_slice(&number.to_be_bytes());
                    at += 5;
                }
                None => {
                    bytes[at] = code::NULL;
                    at += 1;
                }
            }
        }
        bytes[4] = (at - 5) as u8;
        bytes[5] = count;
        into.extend_from_slice(&bytes[..at]);
    }
}

#[inline]
fn flag(fields: &mut &[u8]) -> Option<bool> {
    let (&code, rest) = fields.split_first()?;
    *fields = rest;
    match code {
        code::TRUE => Some(true),
        code::FALSE | code::NULL => Some(false),
        _ => None,
    }
}

#[inline]
fn number(fields: &mut &[u8]) -> Option<Option<u32>> {
    let (number, rest) = match **fields {
        [code::NULL, ref rest @ ..] => (None, rest),
        [code::UINT0, ref rest @ ..] => (Some(0), rest),
        [code::SMALL_UINT, number, ref rest @ ..] => (Some(number.into()), rest),
        [code::UINT, a, b, c, d, ref rest @ ..] => (Some(u32::from_be_bytes([a, b, c, d])), rest),
        _ => return None,
    };
    *fields = rest;
    Some(number)
}

/// The sections of a body (§3.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// One or more data sections.
    Data,
    /// One or more amqp-sequence sections.
    Sequence,
    /// One amqp-value section.
    Value,
}

/// The body sections of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body<'a> {
    /// The kind of these sections.
    pub kind: BodyKind,
    bytes: &'a [u8],
}

impl<'a> Body<'a> {
    /// All sections as they came, with their descriptors.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The content of each section: binary, lists, or one value.
    pub fn sections(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let mut decoder = Decoder::new(self.bytes);
        std::iter::from_fn(move || match decoder.value().ok()? {
            Value::Described(described) => Some(described.value()),
            _ => None,
        })
    }

    /// The content of a single data section.
    pub fn single_data(&self) -> Option<&'a [u8]> {
        let mut sections = self.sections();
        match (self.kind, sections.next(), sections.next()) {
            (BodyKind::Data, Some(Value::Binary(data)), None) => Some(data),
            _ => None,
        }
    }
}

/// The parts used of a message that has nothing but a short header, at most, and one short data or string section: most
/// small messages are such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain<'a> {
    /// It survives a restart; all else of the header is at its default.
    pub durable: bool,
    /// The header section as it came, or nothing.
    pub head: &'a [u8],
    /// The body section as it came.
    pub bare: &'a [u8],
}

impl<'a> Plain<'a> {
    /// Reads a message as it comes in a transfer; `None` where there is more to it, or something is wrong with it: ask
    /// [`Message::read`].
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Option<Plain<'a>> {
        const HEADER: usize = 7;
        let (durable, head_len) = match bytes {
            [
                code::DESCRIBED,
                code::SMALL_ULONG,
                descriptor::HEADER,
                code::LIST8,
                2,
                1,
                durable @ (code::TRUE | code::FALSE),
                ..,
            ] => (*durable == code::TRUE, HEADER),
            _ => (false, 0),
        };
        let (head, bare) = bytes.split_at(head_len);
        Plain::is_body(bare).then_some(Plain { durable, head, bare })
    }

    /// As [`Plain::read`], of a message with any header.
    pub fn read_with_header(bytes: &'a [u8]) -> Option<(Header, Plain<'a>)> {
        let [code::DESCRIBED, code::SMALL_ULONG, descriptor::HEADER, list @ ..] = bytes else { return None };
        let (header, bare) = Header::read_plain(list)?;
        let head = &bytes[..bytes.len() - bare.len()];
        Plain::is_body(bare).then_some((header, Plain { durable: header.durable, head, bare }))
    }

    /// One short data or string section, and nothing else.
    #[inline(always)]
    pub fn is_body(bare: &[u8]) -> bool {
        match bare {
            [code::DESCRIBED, code::SMALL_ULONG, descriptor::DATA, code::BINARY8, len, data @ ..] => {
                data.len() == usize::from(*len)
            }
            [code::DESCRIBED, code::SMALL_ULONG, descriptor::VALUE, code::STRING8, len, text @ ..] => {
                text.len() == usize::from(*len) && str::from_utf8(text).is_ok()
            }
            _ => false,
        }
    }
}

/// A message, its sections found and checked, nothing copied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message<'a> {
    /// The header, or the defaults its absence means.
    pub header: Header,
    /// The delivery-annotations (§3.2.2).
    pub delivery_annotations: Map<'a>,
    /// The message-annotations (§3.2.3).
    pub message_annotations: Map<'a>,
    /// The properties (§3.2.4).
    pub properties: Properties<'a>,
    /// The application-properties (§3.2.5).
    pub application_properties: Map<'a>,
    /// The body.
    pub body: Body<'a>,
    /// The footer (§3.2.9).
    pub footer: Map<'a>,
    /// Header, delivery-annotations and message-annotations as they came.
    pub head: &'a [u8],
    /// Bare message and footer as they came.
    pub bare: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads a message as it comes in a transfer. The content of sections is checked too, bodies of data excepted,
    /// which have no inside.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let mut message = Message::empty();
        let bare = read_head(&mut message, bytes)?;
        message.head = &bytes[..bytes.len() - bare.len()];
        read_bare(&mut message, bare)?;
        Ok(message)
    }

    /// Reads a message as a log keeps it.
    #[inline]
    pub fn read_parts(head: &'a [u8], bare: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let mut message = Message::empty();
        let rest = read_head(&mut message, head)?;
        if let Some(code) = rest.get(2) {
            return Err(Malformed::SectionOrder(*code));
        }
        message.head = head;
        read_bare(&mut message, bare)?;
        Ok(message)
    }

    /// The body sections and the footer behind them, as they came.
    pub fn body_and_footer(&self) -> &'a [u8] {
        // Both are slices of the same bytes.
        let start = self.body.bytes.as_ptr() as usize - self.bare.as_ptr() as usize;
        &self.bare[start..]
    }

    /// Reads a head as a log keeps it: header, delivery-annotations, message-annotations.
    #[inline]
    pub fn read_head(head: &'a [u8]) -> Result<(Header, Map<'a>, Map<'a>), Malformed> {
        let mut message = Message::empty();
        read_head(&mut message, head)?;
        Ok((message.header, message.delivery_annotations, message.message_annotations))
    }

    /// The sections of a head as they came: header, delivery-annotations, message-annotations; empty where one is absent.
    pub fn head_sections(head: &'a [u8]) -> Result<[&'a [u8]; 3], Malformed> {
        // All that is in them is looked at here.
        Message::read_head(head)?;
        let mut sections: [&[u8]; 3] = [&[]; 3];
        let mut rest = head;
        while !rest.is_empty() {
            let (code, mut decoder) = section(rest)?;
            decoder.skip()?;
            let (bytes, after) = rest.split_at(rest.len() - decoder.rest().len());
            let known = sections.get_mut(usize::from(code.wrapping_sub(descriptor::HEADER)));
            *known.ok_or(Malformed::SectionOrder(code))? = bytes;
            rest = after;
        }
        Ok(sections)
    }

    fn empty() -> Message<'a> {
        Message {
            header: Header::default(),
            delivery_annotations: Map::default(),
            message_annotations: Map::default(),
            properties: Properties::default(),
            application_properties: Map::default(),
            body: Body { kind: BodyKind::Data, bytes: &[] },
            footer: Map::default(),
            head: &[],
            bare: &[],
        }
    }
}

/// Reads the section at the start of `bytes`: its descriptor's code, and a decoder in front of its value.
#[inline]
fn section(bytes: &[u8]) -> Result<(u8, Decoder<'_>), Malformed> {
    if let [code::DESCRIBED, code::SMALL_ULONG, section, value @ ..] = bytes {
        return Ok((*section, Decoder::new(value)));
    }
    section_by_any_name(bytes)
}

#[cold]
fn section_by_any_name(bytes: &[u8]) -> Result<(u8, Decoder<'_>), Malformed> {
    let (&first, value) = bytes.split_first().ok_or(Malformed::Short)?;
    if first != code::DESCRIBED {
        return Err(Malformed::WrongType(first));
    }
    let mut decoder = Decoder::new(value);
    let section = match decoder.value()? {
        Value::Ulong(number) => u8::try_from(number).ok(),
        Value::Symbol(name) => NAMES.iter().find(|(known, _)| *known == name).map(|(_, section)| *section),
        _ => None,
    };
    section.map(|section| (section, decoder)).ok_or(Malformed::WrongType(first))
}

#[inline]
fn map<'a>(decoder: &mut Decoder<'a>) -> Result<Map<'a>, Malformed> {
    let first = decoder.rest().first().copied().unwrap_or(code::NULL);
    match decoder.checked_value()? {
        Value::Map(map) => Ok(map),
        _ => Err(Malformed::WrongType(first)),
    }
}

#[inline]
fn list<'a>(decoder: &mut Decoder<'a>) -> Result<List<'a>, Malformed> {
    let first = decoder.rest().first().copied().unwrap_or(code::NULL);
    match decoder.checked_value()? {
        Value::List(list) => Ok(list),
        _ => Err(Malformed::WrongType(first)),
    }
}

/// Reads the sections that belong to the head; answers the bytes behind them.
#[inline]
fn read_head<'a>(message: &mut Message<'a>, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
    let mut rest = bytes;
    let mut earliest = descriptor::HEADER;
    while !rest.is_empty() {
        let (code, mut decoder) = section(rest)?;
        if code > descriptor::MESSAGE_ANNOTATIONS {
            break;
        }
        if code < earliest {
            return Err(Malformed::SectionOrder(code));
        }
        match code {
            descriptor::HEADER => message.header = header(&mut decoder)?,
            descriptor::DELIVERY_ANNOTATIONS => message.delivery_annotations = map(&mut decoder)?,
            _ => message.message_annotations = map(&mut decoder)?,
        }
        earliest = code + 1;
        rest = decoder.rest();
    }
    Ok(rest)
}

#[inline]
fn header(decoder: &mut Decoder<'_>) -> Result<Header, Malformed> {
    if let Some((header, rest)) = Header::read_plain(decoder.rest()) {
        *decoder = Decoder::new(rest);
        return Ok(header);
    }
    Header::read(list(decoder)?)
}

#[inline]
fn read_bare<'a>(message: &mut Message<'a>, bytes: &'a [u8]) -> Result<(), Malformed> {
    message.bare = bytes;
    // The message of most senders: one short data section and nothing else.
    if let [code::DESCRIBED, code::SMALL_ULONG, descriptor::DATA, code::BINARY8, len, data @ ..] = bytes
        && data.len() == usize::from(*len)
    {
        message.body = Body { kind: BodyKind::Data, bytes };
        return Ok(());
    }
    read_sections(message, bytes)
}

fn read_sections<'a>(message: &mut Message<'a>, bytes: &'a [u8]) -> Result<(), Malformed> {
    let mut rest = bytes;
    let mut earliest = descriptor::PROPERTIES;
    let mut body = None;
    while !rest.is_empty() {
        let (code, mut decoder) = section(rest)?;
        if code < earliest || code > descriptor::FOOTER {
            return Err(Malformed::SectionOrder(code));
        }
        earliest = code + 1;
        match code {
            descriptor::PROPERTIES => message.properties = Properties::new(list(&mut decoder)?),
            descriptor::APPLICATION_PROPERTIES => message.application_properties = map(&mut decoder)?,
            descriptor::DATA | descriptor::SEQUENCE | descriptor::VALUE => {
                let first = decoder.rest().first().copied().unwrap_or(code::NULL);
                let kind = match (code, first) {
                    (descriptor::DATA, code::BINARY8 | code::BINARY32) => BodyKind::Data,
                    (descriptor::SEQUENCE, code::LIST0 | code::LIST8 | code::LIST32) => BodyKind::Sequence,
                    (descriptor::VALUE, _) => BodyKind::Value,
                    _ => return Err(Malformed::WrongType(first)),
                };
                decoder.check()?;
                match &mut body {
                    None => body = Some((kind, rest, decoder.rest())),
                    Some((before, _, end)) if *before == kind => *end = decoder.rest(),
                    Some(_) => return Err(Malformed::SectionOrder(code)),
                }
                if code != descriptor::VALUE {
                    earliest = code;
                }
            }
            descriptor::FOOTER => message.footer = map(&mut decoder)?,
            unknown => return Err(Malformed::SectionOrder(unknown)),
        }
        rest = decoder.rest();
    }
    let (kind, start, end) = body.ok_or(Malformed::NoBody)?;
    message.body = Body { kind, bytes: &start[..start.len() - end.len()] };
    Ok(())
}

/// Appends a section that is a map of the given encodings: annotations, application-properties or footer.
pub fn write_map(section: u8, map: Map<'_>, into: &mut Vec<u8>) {
    let mut encoder = Encoder::new(into);
    encoder.descriptor(section.into());
    encoder.whole_map(map);
}

/// The content of the data section that is all there is in `bytes`.
#[inline]
pub fn data_alone(bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [code::DESCRIBED, code::SMALL_ULONG, descriptor::DATA, code::BINARY8, len, data @ ..] => {
            (data.len() == usize::from(*len)).then_some(data)
        }
        [code::DESCRIBED, code::SMALL_ULONG, descriptor::DATA, code::BINARY32, a, b, c, d, data @ ..] => {
            (data.len() == u32::from_be_bytes([*a, *b, *c, *d]) as usize).then_some(data)
        }
        _ => None,
    }
}

/// Bytes that go in front of the content of a data section of `len` bytes, and how many of them count.
#[inline]
pub fn data_prefix(len: usize) -> ([u8; 8], usize) {
    let mut prefix =
        [code::DESCRIBED, code::SMALL_ULONG, descriptor::DATA, code::BINARY8, len as u8, 0, 0, 0];
    if len < 256 {
        return (prefix, 5);
    }
    prefix[3] = code::BINARY32;
    prefix[4..].copy_from_slice(&(len as u32).to_be_bytes());
    (prefix, 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DATA: [u8; 7] = [0, 0x53, 0x75, 0xa0, 2, b'h', b'i'];

    fn check(sections: &[&[u8]], expected: Result<usize, Malformed>) {
        let bytes = sections.concat();
        let read = Message::read(&bytes);
        assert_eq!(
            read.as_ref().map(|message| message.head.len()),
            expected.as_ref().map(|len| *len),
            "{bytes:02x?}"
        );
        if let Ok(message) = read {
            assert_eq!([message.head, message.bare].concat(), bytes);
            let mut again = Message::read_parts(message.head, message.bare).unwrap();
            (again.head, again.bare) = (message.head, message.bare);
            assert_eq!(again, message);
        }
    }

    #[test]
    fn a_plain_message_is_read_as_any_other() {
        let check = |bytes: &[u8], is_plain: bool| {
            if let Some((header, plain)) = Plain::read_with_header(bytes) {
                let message = Message::read(bytes).unwrap();
                assert_eq!((header, plain.head, plain.bare), (message.header, message.head, message.bare));
                assert_eq!(plain.durable, header.durable);
            }
            let plain = Plain::read(bytes);
            assert_eq!(plain.is_some(), is_plain, "{bytes:x?}");
            let Some(plain) = plain else { return };
            let message = Message::read(bytes).unwrap();
            assert_eq!((plain.head, plain.bare), (message.head, message.bare));
            assert_eq!(Header { durable: plain.durable, ..Header::default() }, message.header);
            assert!(message.application_properties.is_empty() && message.message_annotations.is_empty());
        };
        check(b"\0\x53\x75\xa0\x02hi", true);
        check(b"\0\x53\x77\xa1\x02hi", true);
        check(b"\0\x53\x70\xc0\x02\x01\x41\0\x53\x75\xa0\x02hi", true);
        check(b"\0\x53\x70\xc0\x02\x01\x42\0\x53\x77\xa1\x00", true);
        check(b"\0\x53\x70\xc0\x02\x01\x41\0\x53\x75\xa0\x02h", false);
        check(b"\0\x53\x70\xc0\x02\x01\x41\0\x53\x75\xa0\x02hi\0\x53\x78\xc1\x01\0", false);
        check(b"\0\x53\x70\xc0\x04\x02\x41\x50\x05\0\x53\x75\xa0\x02hi", false);
        check(b"\0\x53\x77\xa1\x02\xff\xff", false);
        check(b"", false);
        let with_header = |bytes: &[u8]| Plain::read_with_header(bytes).map(|(header, _)| header.priority);
        assert_eq!(with_header(b"\0\x53\x70\xc0\x04\x02\x41\x50\x05\0\x53\x75\xa0\x02hi"), Some(Some(5)));
        assert_eq!(with_header(b"\0\x53\x70\xc0\x04\x02\x41\x50\x05\0\x53\x75\xa0\x02h"), None);
        assert_eq!(with_header(b"\0\x53\x70\xc0\x05\x02\x41\x50\x05\0\x53\x75\xa0\x02hi"), None);
    }

    #[test]
    fn sections_in_order_and_a_body() {
        let header: &[u8] = &[0, 0x53, 0x70, 0xc0, 2, 1, 0x41];
        let named: &[u8] = b"\0\xa3\x10amqp:header:list\x45";
        let wide: &[u8] = &[0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x70, 0x45];
        let annotations: &[u8] = &[0, 0x53, 0x72, 0xc1, 1, 0];
        let properties: &[u8] = &[0, 0x53, 0x73, 0x45];
        let sequence: &[u8] = &[0, 0x53, 0x76, 0x45];
        let value: &[u8] = &[0, 0x53, 0x77, 0x40];
        let footer: &[u8] = &[0, 0x53, 0x78, 0xc1, 1, 0];
        check(&[&DATA], Ok(0));
        check(&[header, &DATA], Ok(7));
        check(&[named, &DATA], Ok(20));
        check(&[wide, &DATA], Ok(11));
        check(&[header, annotations, properties, &DATA, &DATA, footer], Ok(13));
        check(&[sequence, sequence], Ok(0));
        check(&[value], Ok(0));
        check(&[value, value], Err(Malformed::SectionOrder(0x77)));
        check(&[&DATA, value], Err(Malformed::SectionOrder(0x77)));
        check(&[annotations, header, &DATA], Err(Malformed::SectionOrder(0x70)));
        check(&[header, header, &DATA], Err(Malformed::SectionOrder(0x70)));
        check(&[&DATA, properties], Err(Malformed::SectionOrder(0x73)));
        check(&[header, properties], Err(Malformed::NoBody));
        check(&[], Err(Malformed::NoBody));
        check(&[&[0, 0x53, 0x75, 0xa1, 0]], Err(Malformed::WrongType(0xa1)));
        check(&[&[0, 0x53, 0x79, 0x45]], Err(Malformed::SectionOrder(0x79)));
        check(&[&[0, 0x53, 0xff, 0x45]], Err(Malformed::SectionOrder(0xff)));
        check(&[&[0, 0x53, 0x70, 0xc0, 3, 1, 0x50, 1], &DATA], Err(Malformed::WrongType(0x50)));
    }

    #[test]
    fn header_comes_back() {
        for durable in [false, true] {
            for priority in [None, Some(9)] {
                for ttl_ms in [None, Some(60_000)] {
                    for first_acquirer in [false, true] {
                        for delivery_count in [0, 3] {
                            let header = Header { durable, priority, ttl_ms, first_acquirer, delivery_count };
                            let mut bytes = Vec::new();
                            header.write(&mut bytes);
                            bytes.extend(DATA);
                            assert_eq!(Message::read(&bytes).unwrap().header, header);
                        }
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn plain_headers_are_read_alike(count in 0u8..7, fields in prop::collection::vec(
            prop_oneof![Just(0x40u8), Just(0x41), Just(0x42), Just(0x43), Just(0x50), Just(0x52), any::<u8>()], 0..12,
        )) {
            let bytes = [&[code::LIST8, fields.len() as u8 + 1, count][..], &fields].concat();
            if let Some((plain, rest)) = Header::read_plain(&bytes) {
                let mut decoder = Decoder::new(&bytes);
                prop_assert_eq!(list(&mut decoder).and_then(Header::read), Ok(plain));
                prop_assert_eq!(rest, decoder.rest());
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(
            sections in prop::collection::vec((0x70u8..0x7a, prop::collection::vec(any::<u8>(), 0..20)), 0..6),
        ) {
            let mut bytes = Vec::new();
            for (section, content) in sections {
                bytes.extend([0, 0x53, section]);
                bytes.extend(content);
            }
            if let Ok(message) = Message::read(&bytes) {
                prop_assert_eq!(&[message.head, message.bare].concat(), &bytes);
                message.body.sections().count();
            }
        }
    }
}
