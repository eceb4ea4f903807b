//! Basic properties: the flags and list that follow class, weight and body size in a content header
//! (AMQP 0-9-1 §4.2.6.1), kept as they came.
//!
//! [`Properties`] is a checked view: one walk finds the fields that brokers look at for every message; the rare ones are
//! walked to when asked for. [`NewProperties`] writes.

use super::table::{Malformed, Table};
use crate::convert::SECTIONS_TYPE;
use base::cursor::Reader;

/// The flag of each property, in the order in which present ones follow each other.
mod flag {
    pub const CONTENT_TYPE: u16 = 1 << 15;
    pub const CONTENT_ENCODING: u16 = 1 << 14;
    pub const HEADERS: u16 = 1 << 13;
    pub const DELIVERY_MODE: u16 = 1 << 12;
    pub const PRIORITY: u16 = 1 << 11;
    pub const CORRELATION_ID: u16 = 1 << 10;
    pub const REPLY_TO: u16 = 1 << 9;
    pub const EXPIRATION: u16 = 1 << 8;
    pub const MESSAGE_ID: u16 = 1 << 7;
    pub const TIMESTAMP: u16 = 1 << 6;
    pub const TYPE: u16 = 1 << 5;
    pub const USER_ID: u16 = 1 << 4;
    pub const APP_ID: u16 = 1 << 3;
    pub const CLUSTER_ID: u16 = 1 << 2;
    /// Another word of flags follows.
    pub const MORE: u16 = 1;
}

/// Delivery mode of a message that survives a restart.
pub const PERSISTENT: u8 = 2;

/// The properties of one message, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties<'a> {
    raw: &'a [u8],
    flags: u16,
    delivery_mode: u8,
    priority: u8,
    /// Where the fields of the header table lie in `raw`.
    headers_start: u32,
    headers_end: u32,
    /// Where in `raw` the properties behind `priority` begin.
    rest_start: u32,
}

impl Default for Properties<'_> {
    /// No property set.
    fn default() -> Self {
        Properties {
            raw: &[0, 0],
            flags: 0,
            delivery_mode: 0,
            priority: 0,
            headers_start: 0,
            headers_end: 0,
            rest_start: 2,
        }
    }
}

impl<'a> Properties<'a> {
    /// The properties in `raw`: two bytes of flags, then the properties they announce, and nothing behind them.
    #[inline(always)]
    pub fn read(raw: &'a [u8]) -> Result<Properties<'a>, Malformed> {
        match raw {
            // The properties of most publishers: nothing but a delivery mode.
            &[high, low, delivery_mode] if [high, low] == flag::DELIVERY_MODE.to_be_bytes() => {
                Ok(Properties {
                    raw,
                    flags: flag::DELIVERY_MODE,
                    delivery_mode,
                    priority: 0,
                    headers_start: 0,
                    headers_end: 0,
                    rest_start: 3,
                })
            }
            // Field by field: a call's result that lies in memory and is then copied in parts of other sizes stalls the
            // processor.
            _ => {
                let Walk { flags, delivery_mode, priority, headers_start, headers_end, rest_start, .. } =
                    Walk::of(raw)?;
                Ok(Properties { raw, flags, delivery_mode, priority, headers_start, headers_end, rest_start })
            }
        }
    }

    /// Flags and list as they came; a stored message keeps them as its head.
    #[inline]
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// 1 or 2 by the book; any byte in practice.
    #[inline]
    pub fn delivery_mode(&self) -> Option<u8> {
        (self.flags & flag::DELIVERY_MODE != 0).then_some(self.delivery_mode)
    }

    /// Whether the message is to survive a restart: delivery mode 2.
    #[inline]
    pub fn is_persistent(&self) -> bool {
        self.delivery_mode == PERSISTENT
    }

    /// 0 to 9 by the book; up to 255 in practice.
    #[inline]
    pub fn priority(&self) -> Option<u8> {
        (self.flags & flag::PRIORITY != 0).then_some(self.priority)
    }

    /// Whether any property is present that may ask something of the broker: headers, reply-to, expiration, user-id.
    #[inline]
    pub fn has_wishes(&self) -> bool {
        self.flags & (flag::HEADERS | flag::REPLY_TO | flag::EXPIRATION | flag::USER_ID) != 0
    }

    /// Whether there is a header table, an empty one included.
    #[inline]
    pub fn has_headers(&self) -> bool {
        self.flags & flag::HEADERS != 0
    }

    /// The header table.
    pub fn headers(&self) -> Option<Table<'a>> {
        let fields = &self.raw[self.headers_start as usize..self.headers_end as usize];
        self.has_headers().then(|| Table::new_checked(fields))
    }

    /// MIME type of the body.
    pub fn content_type(&self) -> Option<&'a [u8]> {
        let mut reader = Reader::new(self.raw.get(2..)?);
        (self.flags & flag::CONTENT_TYPE != 0).then(|| short(&mut reader))?
    }

    /// MIME encoding of the body.
    pub fn content_encoding(&self) -> Option<&'a [u8]> {
        let mut reader = Reader::new(self.raw.get(2..)?);
        if self.flags & flag::CONTENT_TYPE != 0 {
            short(&mut reader)?;
        }
        (self.flags & flag::CONTENT_ENCODING != 0).then(|| short(&mut reader))?
    }

    /// The id by which the application relates messages, such as an answer to its request.
    pub fn correlation_id(&self) -> Option<&'a [u8]> {
        self.late_text(flag::CORRELATION_ID)
    }

    /// Where replies go.
    pub fn reply_to(&self) -> Option<&'a [u8]> {
        self.late_text(flag::REPLY_TO)
    }

    /// The time to live as the publisher wrote it; [`Properties::expiration_ms`] reads it.
    pub fn expiration(&self) -> Option<&'a [u8]> {
        self.late_text(flag::EXPIRATION)
    }

    /// The application's name for the message.
    pub fn message_id(&self) -> Option<&'a [u8]> {
        self.late_text(flag::MESSAGE_ID)
    }

    /// When the application made the message, in seconds since 1970.
    pub fn timestamp(&self) -> Option<u64> {
        self.late(flag::TIMESTAMP)?.u64().ok()
    }

    /// The application's kind of message.
    pub fn message_type(&self) -> Option<&'a [u8]> {
        self.late_text(flag::TYPE)
    }

    /// Its type says that the body is AMQP 1.0 sections; the body may say otherwise.
    pub fn names_sections(&self) -> bool {
        self.message_type() == Some(SECTIONS_TYPE.as_bytes())
    }

    /// The user that publishes, which the broker verifies.
    pub fn user_id(&self) -> Option<&'a [u8]> {
        self.late_text(flag::USER_ID)
    }

    /// The application.
    pub fn app_id(&self) -> Option<&'a [u8]> {
        self.late_text(flag::APP_ID)
    }

    /// A property of older versions that some clients still set.
    pub fn cluster_id(&self) -> Option<&'a [u8]> {
        self.late_text(flag::CLUSTER_ID)
    }

    /// The time to live in milliseconds: decimal digits of a number up to [`EXPIRATION_MS_MAX`].
    #[inline]
    pub fn expiration_ms(&self) -> Result<Option<u64>, ExpirationError<'a>> {
        if self.flags & flag::EXPIRATION == 0 {
            return Ok(None);
        }
        self.expiration().map(ExpirationError::check).transpose()
    }

    /// All properties, to be changed and written again.
    pub fn to_new(&self) -> NewProperties<'a> {
        NewProperties {
            content_type: self.content_type(),
            content_encoding: self.content_encoding(),
            headers: self.headers(),
            delivery_mode: self.delivery_mode(),
            priority: self.priority(),
            correlation_id: self.correlation_id(),
            reply_to: self.reply_to(),
            expiration: self.expiration(),
            message_id: self.message_id(),
            timestamp: self.timestamp(),
            message_type: self.message_type(),
            user_id: self.user_id(),
            app_id: self.app_id(),
            cluster_id: self.cluster_id(),
        }
    }

    fn late_text(&self, wanted: u16) -> Option<&'a [u8]> {
        short(&mut self.late(wanted)?)
    }

    /// At the start of a property behind `priority`, if it is present.
    fn late(&self, wanted: u16) -> Option<Reader<'a>> {
        if self.flags & wanted == 0 {
            return None;
        }
        let mut reader = Reader::new(&self.raw[self.rest_start as usize..]);
        let mut bit = flag::CORRELATION_ID;
        while bit != wanted {
            if self.flags & bit != 0 {
                match bit {
                    flag::TIMESTAMP => _ = reader.take(8).ok()?,
                    _ => _ = short(&mut reader)?,
                }
            }
            bit >>= 1;
        }
        Some(reader)
    }
}

fn short<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let len = reader.u8().ok()?.into();
    reader.take(len).ok()
}

fn skip_short(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    short(reader).map(|_| ()).ok_or(Malformed::Short)
}

/// The longest time to live: ten years of 365 days, in milliseconds.
pub const EXPIRATION_MS_MAX: u64 = 10 * 365 * 24 * 60 * 60 * 1000;

/// An expiration that is no number of milliseconds. Shown in the words in which RabbitMQ closes the channel (406).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpirationError<'a> {
    /// Does not begin with a number.
    NoInteger(&'a [u8]),
    /// A number, then something else.
    Leftover {
        /// All of it.
        text: &'a [u8],
        /// The text behind the number.
        rest: &'a [u8],
    },
    /// A number below 0.
    Negative(&'a [u8]),
    /// A number over [`EXPIRATION_MS_MAX`].
    TooBig(&'a [u8]),
}

impl<'a> ExpirationError<'a> {
    fn check(text: &'a [u8]) -> Result<u64, ExpirationError<'a>> {
        let (is_negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        let (digits, rest) = digits.split_at(end);
        let number = digits
            .iter()
            .try_fold(0u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
        match number {
            _ if digits.is_empty() => Err(ExpirationError::NoInteger(text)),
            _ if !rest.is_empty() => Err(ExpirationError::Leftover { text, rest }),
            Some(0) => Ok(0),
            _ if is_negative => Err(ExpirationError::Negative(text)),
            Some(number) if number <= EXPIRATION_MS_MAX => Ok(number),
            _ => Err(ExpirationError::TooBig(text)),
        }
    }
}

impl std::fmt::Display for ExpirationError<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::NoInteger(text) | Self::Leftover { text, .. } | Self::Negative(text) | Self::TooBig(text)) =
            *self;
        let text = String::from_utf8_lossy(text);
        write!(f, "invalid expiration '{text}': ")?;
        match *self {
            Self::NoInteger(_) => f.write_str("no_integer"),
            Self::Leftover { rest, .. } => {
                write!(f, "{{leftover_string,\"{}\"}}", String::from_utf8_lossy(rest))
            }
            Self::Negative(_) => write!(f, "{{value_negative,{text}}}"),
            Self::TooBig(_) => write!(f, "{{value_too_large,{text}}}"),
        }
    }
}

/// Properties to be written. Text is at most 255 bytes long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each field is named and documented as the reading method of `Properties`")]
pub struct NewProperties<'a> {
    pub content_type: Option<&'a [u8]>,
    pub content_encoding: Option<&'a [u8]>,
    pub headers: Option<Table<'a>>,
    pub delivery_mode: Option<u8>,
    pub priority: Option<u8>,
    pub correlation_id: Option<&'a [u8]>,
    pub reply_to: Option<&'a [u8]>,
    pub expiration: Option<&'a [u8]>,
    pub message_id: Option<&'a [u8]>,
    pub timestamp: Option<u64>,
    pub message_type: Option<&'a [u8]>,
    pub user_id: Option<&'a [u8]>,
    pub app_id: Option<&'a [u8]>,
    pub cluster_id: Option<&'a [u8]>,
}

impl NewProperties<'_> {
    /// Appends flags and list.
    ///
    /// # Panics
    /// When a text is longer than 255 bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(&[0; 2]);
        let mut flags = 0;
        let mut text = |out: &mut Vec<u8>, flag, text: Option<&[u8]>| {
            if let Some(text) = text {
                flags |= flag;
                out.push(u8::try_from(text.len()).expect("a property has at most 255 bytes"));
                out.extend_from_slice(text);
            }
        };
        text(out, flag::CONTENT_TYPE, self.content_type);
        text(out, flag::CONTENT_ENCODING, self.content_encoding);
        if let Some(headers) = self.headers {
            headers.write(out);
        }
        out.extend(self.delivery_mode);
        out.extend(self.priority);
        text(out, flag::CORRELATION_ID, self.correlation_id);
        text(out, flag::REPLY_TO, self.reply_to);
        text(out, flag::EXPIRATION, self.expiration);
        text(out, flag::MESSAGE_ID, self.message_id);
        if let Some(seconds) = self.timestamp {
            out.extend_from_slice(&seconds.to_be_bytes());
        }
        text(out, flag::TYPE, self.message_type);
        text(out, flag::USER_ID, self.user_id);
        text(out, flag::APP_ID, self.app_id);
        text(out, flag::CLUSTER_ID, self.cluster_id);
        let present = [
            (flag::HEADERS, self.headers.is_some()),
            (flag::DELIVERY_MODE, self.delivery_mode.is_some()),
            (flag::PRIORITY, self.priority.is_some()),
            (flag::TIMESTAMP, self.timestamp.is_some()),
        ];
        for (flag, is_present) in present {
            flags |= if is_present { flag } else { 0 };
        }
        out[at..at + 2].copy_from_slice(&flags.to_be_bytes());
    }
}

/// The results of one walk through the bytes of properties: see [`Properties`].
struct Walk<'a> {
    raw: &'a [u8],
    flags: u16,
    delivery_mode: u8,
    priority: u8,
    headers_start: u32,
    headers_end: u32,
    rest_start: u32,
}

impl Walk<'_> {
    #[inline(never)]
    fn of(raw: &[u8]) -> Result<Walk<'_>, Malformed> {
        let flags = u16::from_be_bytes(*raw.first_chunk().ok_or(Malformed::Short)?);
        let (headers_start, headers_end, rest_start) = (0, 0, 2);
        let mut walk =
            Walk { raw, flags, delivery_mode: 0, priority: 0, headers_start, headers_end, rest_start };
        walk.walk()?;
        Ok(walk)
    }

    fn walk(&mut self) -> Result<(), Malformed> {
        if self.flags & flag::MORE != 0 {
            return Err(Malformed::UnknownFlags);
        }
        if self.raw.len() > u32::MAX as usize {
            return Err(Malformed::Trailing);
        }
        let mut reader = Reader::new(&self.raw[2..]);
        let at = |reader: &Reader<'_>| (self.raw.len() - reader.len()) as u32;
        for text in [flag::CONTENT_TYPE, flag::CONTENT_ENCODING] {
            if self.flags & text != 0 {
                skip_short(&mut reader)?;
            }
        }
        if self.flags & flag::HEADERS != 0 {
            self.headers_start = at(&reader) + 4;
            Table::read(&mut reader)?;
            self.headers_end = at(&reader);
        }
        if self.flags & flag::DELIVERY_MODE != 0 {
            self.delivery_mode = reader.u8()?;
        }
        if self.flags & flag::PRIORITY != 0 {
            self.priority = reader.u8()?;
        }
        self.rest_start = at(&reader);
        let rest = self.flags & (flag::PRIORITY - 1) & !0b11;
        let mut bit = flag::CORRELATION_ID;
        while rest & (bit | (bit - 1)) != 0 {
            match bit {
                _ if rest & bit == 0 => {}
                flag::TIMESTAMP => _ = reader.take(8)?,
                _ => skip_short(&mut reader)?,
            }
            bit >>= 1;
        }
        if reader.is_empty() { Ok(()) } else { Err(Malformed::Trailing) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp091::{TableWriter, Value};
    use proptest::prelude::*;

    fn check_round_trip(new: NewProperties<'_>) {
        let mut raw = Vec::new();
        new.write(&mut raw);
        let read = Properties::read(&raw).unwrap();
        assert_eq!(read.to_new(), new);
        assert_eq!(read.raw(), raw);
        for len in 0..raw.len() {
            assert!(Properties::read(&raw[..len]).is_err(), "{len} bytes of {raw:?}");
        }
        raw.push(0);
        assert_eq!(Properties::read(&raw), Err(Malformed::Trailing));
    }

    proptest! {
        #[test]
        fn any_set_comes_back(present in any::<u16>(), mode in any::<u8>(), seconds in any::<u64>()) {
            let fields = TableWriter::fields(|table| table.put(b"x", Value::Text(b"y")));
            let text = |bit: u32, text: &'static [u8]| (present >> bit & 1 != 0).then_some(text);
            check_round_trip(NewProperties {
                content_type: text(0, b"text/plain"),
                content_encoding: text(1, b""),
                headers: (present & 4 != 0).then(|| Table::new(&fields).unwrap()),
                delivery_mode: (present & 8 != 0).then_some(mode),
                priority: (present & 16 != 0).then_some(9),
                correlation_id: text(5, b"five"),
                reply_to: text(6, b"six"),
                expiration: text(7, b"77"),
                message_id: text(8, b"eight"),
                timestamp: (present & 512 != 0).then_some(seconds),
                message_type: text(10, b"ten"),
                user_id: text(11, b"guest"),
                app_id: text(12, b"twelve"),
                cluster_id: text(13, &[7; 255]),
            });
        }

        #[test]
        fn any_bytes_are_read_without_panic(raw in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(properties) = Properties::read(&raw) {
                let mut again = Vec::new();
                properties.to_new().write(&mut again);
                // The one bit without a meaning is not written again.
                prop_assert_eq!(&again[2..], &raw[2..]);
                let _ = properties.expiration_ms();
            }
        }
    }

    #[test]
    fn further_flags_are_refused_and_the_unused_bit_ignored() {
        assert_eq!(Properties::read(&[0, 1, 0, 0]), Err(Malformed::UnknownFlags));
        assert_eq!(Properties::read(&[0x10, 2, 2]).unwrap().delivery_mode(), Some(2));
    }

    fn check_expiration(text: &[u8], expected: Result<u64, ExpirationError<'_>>) {
        let mut raw = Vec::new();
        NewProperties { expiration: Some(text), ..NewProperties::default() }.write(&mut raw);
        assert_eq!(Properties::read(&raw).unwrap().expiration_ms(), expected.map(Some));
    }

    #[test]
    fn expirations() {
        use ExpirationError::*;
        check_expiration(b"0", Ok(0));
        check_expiration(b"-0", Ok(0));
        check_expiration(b"+7", Ok(7));
        check_expiration(b"007", Ok(7));
        check_expiration(b"315360000000", Ok(EXPIRATION_MS_MAX));
        check_expiration(b"315360000001", Err(TooBig(b"315360000001")));
        check_expiration(b"99999999999999999999999", Err(TooBig(b"99999999999999999999999")));
        check_expiration(b"-1", Err(Negative(b"-1")));
        check_expiration(b"", Err(NoInteger(b"")));
        check_expiration(b"abc", Err(NoInteger(b"abc")));
        check_expiration(b"10 s", Err(Leftover { text: b"10 s", rest: b" s" }));
        let words = Leftover { text: b"10abc", rest: b"abc" }.to_string();
        assert_eq!(words, r#"invalid expiration '10abc': {leftover_string,"abc"}"#);
    }
}
