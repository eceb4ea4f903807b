//! AMQP 0-9-1 to AMQP 1.0.

use super::{OWN_ANNOTATIONS, text};
use crate::amqp10::section::{data_prefix, descriptor};
use crate::amqp10::{Encoder, Header, Message, Value, properties};
use crate::amqp091::{self, Properties, Table};
use crate::record::flag;
use crate::{deaths, stamps};
use base::percent;

/// A 0-9-1 message as 1.0 sections. Keep one and convert many into it: its vectors are reused.
///
/// The message is: `header`, the annotations with any that are to be added, `bare`, then the body's bytes as they were.
#[derive(Clone, Debug, Default)]
pub struct Amqp10 {
    /// The header.
    pub header: Header,
    /// Encoded keys and values of message-annotations.
    pub annotations: Vec<u8>,
    /// Keys and values in `annotations`, together.
    pub annotations_count: u32,
    /// Properties, application-properties, and the bytes in front of the body that make it a section.
    pub bare: Vec<u8>,
    /// Room for a reply-to address.
    address: Vec<u8>,
}

impl Amqp10 {
    /// Converts a message; the earlier content is forgotten. `flags` are its record's: they tell whose word on deaths
    /// is in it. True: its body is sections already, and `bare` ends without the bytes that make a body one.
    pub fn convert(&mut self, from: &Properties<'_>, body: &[u8], flags: u8) -> bool {
        self.annotations.clear();
        self.annotations_count = 0;
        self.bare.clear();
        let ttl_ms = from.expiration_ms().ok().flatten();
        self.header = Header {
            durable: from.is_persistent(),
            priority: from.priority(),
            ttl_ms: ttl_ms.map(|ms| ms.min(u32::MAX.into()) as u32),
            ..Header::default()
        };
        let stamp = if flags & flag::STAMPED != 0 { stamps::time_of(from) } else { None };
        self.write_properties(from, stamp.is_some_and(|(_, is_timestamp)| is_timestamp));
        if let Some(headers) = from.headers() {
            self.write_headers(headers, flags & flag::DEATHS != 0, stamp.is_some());
        }
        if let Some((ms, _)) = stamp {
            self.annotate(stamps::TIME_ANNOTATION, Value::Timestamp(ms));
        }
        if let Some(kind) = from.message_type() {
            self.annotate("x-basic-type", text_value(kind));
        }
        // The body of a message that was 1.0 before is sections already, if its type tells the truth.
        let is_sections = from.names_sections()
            && Message::read_parts(&[], body)
                .is_ok_and(|message| message.body_and_footer().len() == body.len());
        if !is_sections {
            let (prefix, len) = data_prefix(body.len());
            self.bare.extend_from_slice(&prefix[..len]);
        }
        is_sections
    }

    /// `is_stamped`: when it came is no word of its publisher's.
    fn write_properties(&mut self, from: &Properties<'_>, is_stamped: bool) {
        let [message_uuid, correlation_uuid] =
            [from.message_id(), from.correlation_id()].map(|id| id.and_then(text::uuid));
        let id = |text: Option<_>| text.map_or(Value::Null, text_value);
        let symbol = |text: Option<_>| match text.map(std::str::from_utf8) {
            Some(Ok(text)) if text.is_ascii() => Value::Symbol(text),
            _ => Value::Null,
        };
        let mut fields = [Value::Null; 13];
        fields[0] = message_uuid.as_ref().map_or_else(|| id(from.message_id()), Value::Uuid);
        fields[1] = from.user_id().map_or(Value::Null, Value::Binary);
        if let Some(queue) = from.reply_to() {
            self.address.clear();
            self.address.extend_from_slice(b"/queues/");
            percent::encode(queue, &mut self.address);
            fields[4] = text_value(&self.address);
        }
        fields[5] = correlation_uuid.as_ref().map_or_else(|| id(from.correlation_id()), Value::Uuid);
        fields[6] = symbol(from.content_type());
        fields[7] = symbol(from.content_encoding());
        if let Some(seconds) = from.timestamp().filter(|_| !is_stamped) {
            fields[9] = Value::Timestamp(milliseconds(seconds));
        }
        fields[10] = match from.app_id().map(std::str::from_utf8) {
            Some(Ok(app)) => Value::String(app),
            _ => Value::Null,
        };
        properties::write(&fields, &mut self.bare);
    }

    /// Headers `x-...` become annotations, others application-properties, which hold simple values only (§3.2.5).
    fn write_headers(&mut self, headers: Table<'_>, is_dead: bool, is_stamped: bool) {
        let mut encoder = Encoder::new(&mut self.bare);
        let mut map = None;
        for (name, value) in headers.iter() {
            let Ok(name) = std::str::from_utf8(name) else { continue };
            let is_compound = matches!(value, amqp091::Value::Array(_) | amqp091::Value::Table(_));
            let is_stamp = is_stamped && name == stamps::TIME_HEADER;
            if is_annotation(name) || is_compound || name == "BCC" || is_stamp {
                continue;
            }
            let map = map.get_or_insert_with(|| {
                encoder.descriptor(descriptor::APPLICATION_PROPERTIES.into());
                encoder.map()
            });
            encoder.string(name);
            map.field(&encoder);
            write_value(value, &mut encoder);
            map.field(&encoder);
        }
        if let Some(map) = map {
            encoder.close(map);
        }
        for (name, value) in headers.iter() {
            match (std::str::from_utf8(name), value) {
                (Ok(deaths::HEADER), amqp091::Value::Array(list)) if is_dead => {
                    Encoder::new(&mut self.annotations).symbol(deaths::ANNOTATION);
                    deaths::as_annotation(&list, &mut self.annotations);
                    self.annotations_count += 2;
                }
                (Ok("CC"), amqp091::Value::Array(_)) => self.annotate_with("x-cc", value),
                (Ok(stamps::TIME_ANNOTATION), _) if is_stamped => {}
                (Ok(name), _) if is_annotation(name) && !OWN_ANNOTATIONS.contains(&name) => {
                    self.annotate_with(name, value);
                }
                _ => {}
            }
        }
    }

    fn annotate(&mut self, name: &str, value: Value<'_>) {
        let mut encoder = Encoder::new(&mut self.annotations);
        encoder.symbol(name);
        encoder.value(value);
        self.annotations_count += 2;
    }

    fn annotate_with(&mut self, name: &str, value: amqp091::Value<'_>) {
        let mut encoder = Encoder::new(&mut self.annotations);
        encoder.symbol(name);
        write_value(value, &mut encoder);
        self.annotations_count += 2;
    }
}

/// A header that becomes an annotation. Symbols are ASCII (§1.6.21): clients break on others.
fn is_annotation(name: &str) -> bool {
    name.starts_with("x-") && name.is_ascii()
}

/// Seconds count on below zero as two's complement, and numbers that do not fit wrap, as in RabbitMQ: so times before
/// 1970 survive both ways.
fn milliseconds(seconds: u64) -> i64 {
    (seconds as i64).wrapping_mul(1000)
}

/// Text by right, binary where it is not.
fn text_value(bytes: &[u8]) -> Value<'_> {
    std::str::from_utf8(bytes).map_or(Value::Binary(bytes), Value::String)
}

/// Nested as deep as tables may be, which were checked when they came in.
fn write_value(value: amqp091::Value<'_>, encoder: &mut Encoder<'_>) {
    use amqp091::Value as From;
    encoder.value(match value {
        From::Bool(value) => Value::Boolean(value),
        From::I8(value) => Value::Byte(value),
        From::U8(value) => Value::Ubyte(value),
        From::I16(value) => Value::Short(value),
        From::U16(value) => Value::Ushort(value),
        From::I32(value) => Value::Int(value),
        From::U32(value) => Value::Uint(value),
        From::I64(value) => Value::Long(value),
        // As RabbitMQ reads it: a signed number under either letter.
        From::U64(value) => Value::Long(value as i64),
        From::F32(value) => Value::Float(value),
        From::F64(value) => Value::Double(value),
        From::Decimal { scale, value } => Value::Double(f64::from(value) / 10f64.powi(scale.into())),
        From::Text(text) => text_value(text),
        From::Bytes(bytes) => Value::Binary(bytes),
        From::Timestamp(seconds) => Value::Timestamp(milliseconds(seconds)),
        From::Void => Value::Null,
        From::Array(array) => {
            let mut list = encoder.list();
            for value in array.iter() {
                write_value(value, encoder);
                list.field(encoder);
            }
            return encoder.close(list);
        }
        From::Table(table) => {
            let mut map = encoder.map();
            for (name, value) in table.iter() {
                match std::str::from_utf8(name) {
                    Ok(name) if name.is_ascii() => encoder.symbol(name),
                    _ => encoder.value(text_value(name)),
                }
                map.field(encoder);
                write_value(value, encoder);
                map.field(encoder);
            }
            return encoder.close(map);
        }
    });
}
