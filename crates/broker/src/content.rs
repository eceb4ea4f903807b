//! A message on its way through exchanges, as filters of bindings see it.

use crate::placed::stream::{Envelope, look, read, size};
use filter::{BODY_BYTES_MAX, Field, Fields, Found, MessageField, Paths, Value};
use message::amqp10::{Map, Message};
use message::amqp091::Properties;
use message::convert::Amqp10;
use message::deaths;
use message::record::Format;
use std::borrow::Cow;
use std::cell::OnceCell;

/// A message in either encoding, seen as it would be over AMQP 1.0. Nothing of it is read before a filter asks.
pub struct Content<'a> {
    format: Format,
    flags: u8,
    /// Exchange and routing key.
    way: (&'a [u8], &'a [u8]),
    head: &'a [&'a [u8]],
    body: &'a [&'a [u8]],
    parts: OnceCell<Parts<'a>>,
}

/// Head and body, each in one piece.
struct Parts<'a> {
    head: Cow<'a, [u8]>,
    body: Cow<'a, [u8]>,
    /// Of a message of AMQP 0-9-1: its sections; true: its body is sections already.
    sections: OnceCell<(Amqp10, bool)>,
}

impl<'a> Content<'a> {
    /// A message of these pieces of head and body; `flags`: those of its record; `way`: its exchange and routing key.
    pub fn new(
        (format, flags): (Format, u8),
        way: (&'a [u8], &'a [u8]),
        (head, body): (&'a [&'a [u8]], &'a [&'a [u8]]),
    ) -> Content<'a> {
        Content { format, flags, way, head, body, parts: OnceCell::new() }
    }

    /// The facts of it beside its sections.
    fn envelope(&self, message: &Message<'_>) -> Envelope<'_> {
        let size = match self.format {
            Format::Amqp091 => self.body.iter().map(|piece| piece.len()).sum(),
            Format::Amqp10 => size(message.body),
        };
        let (exchange, routing_key) = self.way;
        let (exchange, routing_key) = (Some(exchange), Some(routing_key));
        Envelope { exchange, routing_key, size: Some(size), ..Envelope::default() }
    }

    fn parts(&self) -> &Parts<'a> {
        self.parts.get_or_init(|| {
            let most = match self.format {
                // That there is more is seen by one byte more.
                Format::Amqp091 => BODY_BYTES_MAX + 1,
                Format::Amqp10 => usize::MAX,
            };
            Parts {
                head: joined(self.head, usize::MAX),
                body: joined(self.body, most),
                sections: OnceCell::new(),
            }
        })
    }

    /// The sections of a message, and the bytes that are its body where it has no section for them; none of one that cannot
    /// be read.
    fn message(&self) -> Option<(Message<'_>, Option<&[u8]>)> {
        let Parts { head, body, sections } = self.parts();
        if self.format == Format::Amqp10 {
            return Some((Message::read_parts(head, body).ok()?, None));
        }
        let properties = Properties::read(head).ok()?;
        let (converted, is_sections) = sections.get_or_init(|| {
            let mut converted = Amqp10::default();
            let is_sections = properties.names_sections() && converted.convert(&properties, body, self.flags);
            if !is_sections {
                // Without the body, which is shown as it came.
                converted.convert(&properties, &[], self.flags);
            }
            (converted, is_sections)
        });
        let mut message = Message::read_parts(&[], &converted.bare).ok()?;
        message.header = converted.header;
        message.message_annotations = Map::new(converted.annotations_count, &converted.annotations);
        if *is_sections {
            message.body = Message::read_parts(&[], body).ok()?.body;
        }
        Some((message, (!is_sections).then_some(&**body)))
    }
}

impl Fields for Content<'_> {
    fn field(&self, field: Field<'_>) -> Option<Value<'_>> {
        if field == Field::Message(MessageField::Deaths) {
            let count = deaths::count_of_newest(self.format, self.flags, &self.parts().head);
            return Some(Value::Integer(count.into()));
        }
        let (message, _) = self.message()?;
        read(&message, &self.envelope(&message), field)
    }

    fn body<'f>(&'f self, paths: &Paths, found: &mut Found<'f>) -> bool {
        if self.format == Format::Amqp091 {
            let Parts { head, body, .. } = self.parts();
            let Ok(properties) = Properties::read(head) else { return false };
            // Unless it is sections, the body is shown as it came, and nothing has to be converted.
            if !properties.names_sections() {
                // Over AMQP 1.0 they are symbols, which others are no part of.
                let symbol = |text: Option<&'f [u8]>| text.filter(|text| text.is_ascii());
                let (said, encoding) =
                    (symbol(properties.content_type()), symbol(properties.content_encoding()));
                let format = filter::Format::of(said, encoding, body);
                return format.is_some_and(|format| format.find(body, paths, found));
            }
        }
        let Some((message, data)) = self.message() else { return false };
        look(&message, data, paths, found)
    }
}

/// Pieces as one, as far as `most` bytes where there are several.
fn joined<'a>(pieces: &[&'a [u8]], most: usize) -> Cow<'a, [u8]> {
    match pieces {
        [] => Cow::Borrowed(&[]),
        [only] => Cow::Borrowed(only),
        _ => Cow::Owned(pieces.iter().copied().flatten().take(most).copied().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use filter::{Expression, Known, Limits, Macros, Names, Program, Room, Site};
    use message::amqp10::{Encoder, section::descriptor};
    use message::amqp091::{NewProperties, Table, TableWriter, Value as Wire};
    use message::record::flag;

    fn verdict(content: &Content<'_>, text: &str) -> Option<bool> {
        let site =
            Site { limits: Limits::content(), known: Known::ALL, names: Names::Own, macros: Macros::none() };
        let program = Program::compile(&Expression::parse_at(text, &site).unwrap()).unwrap();
        program.verdict(content, &mut Room::default(), 1000)
    }

    #[test]
    fn a_message_of_either_protocol_is_asked_in_pieces_or_in_one() {
        let headers = TableWriter::fields(|table| {
            table.put(b"region", Wire::Text(b"eu"));
            table.put(b"total", Wire::I32(120));
            table.put(b"x-own", Wire::I32(1));
        });
        let mut head = Vec::new();
        let table = Table::new(&headers).ok();
        NewProperties { headers: table, priority: Some(7), ..NewProperties::default() }.write(&mut head);
        let mut sections = Vec::new();
        let mut encoder = Encoder::new(&mut sections);
        encoder.descriptor(descriptor::APPLICATION_PROPERTIES.into());
        let mut map = encoder.map();
        for (name, value) in [("region", None), ("total", Some(120))] {
            encoder.string(name);
            map.field(&encoder);
            match value {
                None => encoder.string("eu"),
                Some(number) => encoder.value(message::amqp10::Value::Int(number)),
            }
            map.field(&encoder);
        }
        encoder.close(map);
        encoder.descriptor(descriptor::DATA.into());
        encoder.value(message::amqp10::Value::Binary(br#"{"a":{"b":5}}"#));
        let rows: [(Format, &[u8], &[u8]); 2] =
            [(Format::Amqp091, &head, br#"{"a":{"b":5}}"#), (Format::Amqp10, &[], &sections)];
        for (format, head, body) in rows {
            for at in 0..body.len() {
                let (first, second) = body.split_at(at);
                let (head, body) = ([head], [first, second]);
                let content = Content::new(
                    (format, 0),
                    (b"e", b"a.b"),
                    (&head, if at == 0 { &body[1..] } else { &body }),
                );
                for (text, expected) in [
                    ("body.a.b = 5 AND region = 'eu'", Some(true)),
                    ("body.a.b > 5 OR total < 100", Some(false)),
                    ("body.a.c = 5", None),
                    ("region LIKE 'e%' AND total BETWEEN 120 AND 120", Some(true)),
                    ("EXCHANGE() = 'e' AND TOPIC_MATCH('*.b') AND SIZE() = 13 AND NOT DURABLE()", Some(true)),
                    ("OFFSET() IS NULL", Some(true)),
                ] {
                    assert_eq!(verdict(&content, text), expected, "{format:?} {at} {text}");
                }
            }
        }
        let (heads, bodies) = ([&head[..]], [&b""[..]]);
        let content = Content::new((Format::Amqp091, 0), (b"", b""), (&heads, &bodies));
        assert_eq!(verdict(&content, "header.priority = 7 AND annotations['x-own'] = 1"), Some(true));
    }

    #[test]
    fn the_properties_say_how_a_body_is_read() {
        let check = |content_type: Option<&[u8]>, encoding: Option<&[u8]>, body: &[u8], expected| {
            let mut head = Vec::new();
            NewProperties { content_type, content_encoding: encoding, ..NewProperties::default() }
                .write(&mut head);
            let (heads, bodies) = ([&head[..]], [body]);
            let content = Content::new((Format::Amqp091, 0), (b"", b""), (&heads, &bodies));
            assert_eq!(verdict(&content, "body.a = 1"), expected, "{content_type:?} {encoding:?} {body:?}");
        };
        check(None, None, br#"{"a":1}"#, Some(true));
        check(Some(b"application/json"), None, br#" {"a":1}"#, Some(true));
        check(Some(b"application/msgpack"), None, b"\x81\xa1a\x01", Some(true));
        check(Some(b"application/msgpack"), None, br#"{"a":1}"#, None);
        // No symbol, so nothing that is said.
        check(Some("application/msgpack; \u{f6}".as_bytes()), None, br#"{"a":1}"#, Some(true));
        check(Some(b"application/json"), Some(b"gzip"), br#"{"a":1}"#, None);
    }

    #[test]
    fn deaths_count_where_a_broker_wrote_them() {
        let headers = TableWriter::fields(|table| {
            table.tables(b"x-death", [5, 1], |count, table| table.put(b"count", Wire::I64(count)));
        });
        let mut head = Vec::new();
        NewProperties { headers: Table::new(&headers).ok(), ..NewProperties::default() }.write(&mut head);
        for (flags, expected) in [(flag::DEATHS, "DEATHS() = 5"), (0, "DEATHS() = 0")] {
            let (heads, bodies) = ([&head[..]], [&b""[..]]);
            let content = Content::new((Format::Amqp091, flags), (b"", b""), (&heads, &bodies));
            assert_eq!(verdict(&content, expected), Some(true), "{expected}");
        }
    }

    #[test]
    fn a_message_that_cannot_be_read_is_unknown() {
        for format in [Format::Amqp091, Format::Amqp10] {
            let (head, body) = ([&b"\xff\xff\xff\xff"[..]], [&b"\x00\x53"[..]]);
            let content = Content::new((format, 0), (b"", b""), (&head, &body));
            assert_eq!(verdict(&content, "body.a = 1"), None);
            assert_eq!(verdict(&content, "a = 1"), None);
        }
    }

    #[test]
    fn a_body_that_is_too_long_is_unknown_beyond_its_bound() {
        let mut body = br#"{"a":1,"b":""#.to_vec();
        body.resize(BODY_BYTES_MAX + 10, b' ');
        body.extend_from_slice(br#"","c":1}"#);
        let (first, second) = body.split_at(7);
        let pieces = [first, second];
        let content = Content::new((Format::Amqp091, 0), (b"", b""), (&[&[0, 0]], &pieces));
        assert_eq!(verdict(&content, "body.a = 1"), Some(true));
        assert_eq!(verdict(&content, "body.c IS NULL"), None);
    }
}
