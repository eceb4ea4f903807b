//! Stamps that a node writes on messages when they come in, where its operator wants that: the time, and the node's
//! name.
//!
//! In AMQP 1.0 both are annotations, `x-opt-rabbitmq-received-time` and `x-routed-by`; in 0-9-1 headers, `timestamp_in_ms` and
//! `x-routed-by`, and the time is the property `timestamp` as well, in seconds. Names and types are RabbitMQ's.
//! A conversion has to know which of the times are the node's word, for over 1.0 the property is nobody's creation
//! time. A 0-9-1 message has a flag for it ([`crate::record::flag::STAMPED`]), and the header stands in front of all
//! others where the property is the node's too. Of a 1.0 message it is the node's where it is the time its record says
//! it came at.

use crate::amqp10::section::descriptor;
use crate::amqp10::{Encoder, Message, Value};
use crate::amqp091::{self, NewProperties, Properties, Table, TableWriter};

/// When it came, in 0-9-1: milliseconds since 1970, a signed number of 64 bits.
pub const TIME_HEADER: &str = "timestamp_in_ms";

/// When it came, in 1.0: a timestamp.
pub const TIME_ANNOTATION: &str = "x-opt-rabbitmq-received-time";

/// To which node, in both.
pub const NODE: &str = "x-routed-by";

/// Bytes that stamps take at most, but for the name of the node.
const BYTES: usize = 128;

/// The stamps to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// The time it came, and whether it takes the place of the publisher's.
    pub time: Option<bool>,
    /// The node's name, and whether it takes the place of one already there.
    pub node: Option<(Box<str>, bool)>,
}

/// The properties of a 0-9-1 message with stamps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// As in a content header.
    pub head: Vec<u8>,
    /// The time in the header is the node's.
    pub has_time: bool,
}

impl Stamps {
    /// Nothing is written.
    pub fn is_empty(&self) -> bool {
        self.time.is_none() && self.node.is_none()
    }

    /// The properties of a message that came at `at_ms`, milliseconds since 1970; `None`: as they are.
    #[cold]
    pub fn on_amqp091(&self, properties: &Properties<'_>, at_ms: u64) -> Option<Stamped> {
        let headers = properties.headers().unwrap_or_default();
        let writes = |overwrites: bool, name: &str| overwrites || headers.get(name.as_bytes()).is_none();
        let has_time = self.time.is_some_and(|overwrites| writes(overwrites, TIME_HEADER));
        let is_timestamp = self.time.is_some_and(|overwrites| overwrites || properties.timestamp().is_none());
        let node = self.node.as_ref().filter(|(_, overwrites)| writes(*overwrites, NODE));
        let goes = |name: &[u8]| {
            has_time && name == TIME_HEADER.as_bytes() || node.is_some() && name == NODE.as_bytes()
        };
        let time = amqp091::Value::I64(i64::try_from(at_ms).unwrap_or(i64::MAX));
        let fields = TableWriter::fields(|table| {
            if has_time && is_timestamp {
                table.put(TIME_HEADER.as_bytes(), time);
            }
            if let Some((node, _)) = node {
                table.put(NODE.as_bytes(), amqp091::Value::Text(node.as_bytes()));
            }
            for (name, encoding) in headers.encodings().filter(|(name, _)| !goes(name)) {
                table.encoding(name, encoding);
            }
            if has_time && !is_timestamp {
                table.put(TIME_HEADER.as_bytes(), time);
            }
        });
        let headers = if fields.is_empty() { None } else { Some(Table::new(&fields).ok()?) };
        let timestamp = if is_timestamp { Some(at_ms / 1000) } else { properties.timestamp() };
        let mut head = Vec::with_capacity(properties.raw().len() + BYTES);
        NewProperties { headers, timestamp, ..properties.to_new() }.write(&mut head);
        Properties::read(&head).is_ok().then_some(Stamped { head, has_time })
    }

    /// A 1.0 message that came at `at_ms`, milliseconds since 1970, whole; `None`: as it is.
    #[cold]
    pub fn on_amqp10(&self, message: &Message<'_>, at_ms: u64) -> Option<Vec<u8>> {
        let theirs = message.message_annotations;
        let node = self.node.as_ref();
        let node = node.filter(|(_, overwrites)| *overwrites || theirs.get(NODE).is_none());
        let goes =
            |name: &str| self.time.is_some() && name == TIME_ANNOTATION || node.is_some() && name == NODE;
        let time = Value::Timestamp(i64::try_from(at_ms).unwrap_or(i64::MAX));
        let [header, delivery_annotations, _] = Message::head_sections(message.head).ok()?;
        let mut whole = Vec::with_capacity(message.head.len() + message.bare.len() + BYTES);
        whole.extend_from_slice(header);
        whole.extend_from_slice(delivery_annotations);
        let mut encoder = Encoder::new(&mut whole);
        encoder.descriptor(descriptor::MESSAGE_ANNOTATIONS.into());
        let mut map = encoder.map();
        let mut put = |encoder: &mut Encoder<'_>, name: &str, value: Value<'_>| {
            encoder.symbol(name);
            map.field(encoder);
            encoder.value(value);
            map.field(encoder);
        };
        if self.time.is_some() {
            put(&mut encoder, TIME_ANNOTATION, time);
        }
        if let Some((node, _)) = node {
            put(&mut encoder, NODE, Value::String(node));
        }
        for ((name, _), (key, value)) in theirs.iter().zip(theirs.encodings()) {
            if !name.as_str().is_some_and(goes) {
                encoder.encoding(key);
                map.field(&encoder);
                encoder.encoding(value);
                map.field(&encoder);
            }
        }
        encoder.close(map);
        whole.extend_from_slice(message.bare);
        Message::read(&whole).is_ok().then_some(whole)
    }
}

/// The time of a 0-9-1 message's stamp, where its record has the flag, and whether the property is the node's too.
pub(crate) fn time_of(properties: &Properties<'_>) -> Option<(i64, bool)> {
    let headers = properties.headers()?;
    let amqp091::Value::I64(ms) = headers.get(TIME_HEADER.as_bytes())? else { return None };
    let is_first = headers.iter().next().is_some_and(|(name, _)| name == TIME_HEADER.as_bytes());
    Some((ms, is_first && properties.timestamp().map(|s| s as i64) == Some(ms / 1000)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::{Amqp10, Amqp091};
    use crate::record::flag;

    const AT_MS: u64 = 1_795_703_738_016;

    fn stamps(time: Option<bool>, node: Option<bool>) -> Stamps {
        Stamps { time, node: node.map(|overwrites| ("n@h".into(), overwrites)) }
    }

    /// Header fields and timestamp of a 0-9-1 message.
    fn told091(head: &[u8]) -> (Vec<String>, Option<u64>) {
        let properties = Properties::read(head).unwrap();
        let fields = properties.headers().unwrap_or_default();
        let mut fields: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{} {value:?}", String::from_utf8_lossy(name)))
            .collect();
        fields.sort();
        (fields, properties.timestamp())
    }

    fn head091(fields: &[(&str, amqp091::Value<'_>)], timestamp: Option<u64>) -> Vec<u8> {
        let fields = TableWriter::fields(|table| {
            fields.iter().for_each(|(name, value)| table.put(name.as_bytes(), *value));
        });
        let headers = (!fields.is_empty()).then(|| Table::new(&fields).unwrap());
        let mut head = Vec::new();
        NewProperties { headers, timestamp, ..Default::default() }.write(&mut head);
        head
    }

    /// Annotations, application-properties and creation time of a 1.0 message.
    fn told10(whole: &[u8]) -> (Vec<String>, Vec<String>, Option<i64>) {
        let message = Message::read(whole).unwrap();
        let list = |map: crate::amqp10::Map<'_>| {
            let mut list: Vec<String> =
                map.iter().map(|(name, value)| format!("{} {value:?}", name.as_str().unwrap())).collect();
            list.sort();
            list
        };
        let created = message.properties.creation_time_ms();
        (list(message.message_annotations), list(message.application_properties), created)
    }

    /// A stamped 0-9-1 message as 1.0.
    fn converted(stamped: &Stamped) -> Vec<u8> {
        let properties = Properties::read(&stamped.head).unwrap();
        let mut to = Amqp10::default();
        to.convert(&properties, b"b", if stamped.has_time { flag::STAMPED } else { 0 });
        let mut whole = Vec::new();
        let map = crate::amqp10::Map::new(to.annotations_count, &to.annotations);
        crate::amqp10::section::write_map(descriptor::MESSAGE_ANNOTATIONS, map, &mut whole);
        whole.extend_from_slice(&to.bare);
        whole.extend_from_slice(b"b");
        whole
    }

    #[test]
    fn a_message_of_0_9_1_gets_what_rabbitmq_writes() {
        use amqp091::Value::{I32, Text};
        let second = Some(AT_MS / 1000);
        let (time, node) =
            (format!("timestamp_in_ms I64({AT_MS})"), "x-routed-by Text([110, 64, 104])".to_owned());
        let both = vec![time.clone(), node.clone()];
        let own = [("timestamp_in_ms", I32(5)), ("x-routed-by", I32(7))];
        let kept = vec!["timestamp_in_ms I32(5)".to_owned(), "x-routed-by I32(7)".to_owned()];
        for (stamps, fields, timestamp, expected) in [
            (stamps(Some(false), Some(false)), &[][..], None, (both.clone(), second)),
            (stamps(Some(false), Some(false)), &[][..], Some(1000), (both.clone(), Some(1000))),
            (stamps(Some(false), Some(false)), &own[..], Some(1000), (kept.clone(), Some(1000))),
            (stamps(Some(false), Some(false)), &own[..], None, (kept, second)),
            (stamps(Some(true), Some(true)), &own[..], Some(1000), (both.clone(), second)),
            (stamps(Some(true), None), &[][..], None, (vec![time.clone()], second)),
            (stamps(None, Some(false)), &[][..], Some(1000), (vec![node], Some(1000))),
            (
                stamps(Some(false), None),
                &[("a", Text(b"b"))][..],
                None,
                (vec!["a Text([98])".into(), time], second),
            ),
        ] {
            let head = head091(fields, timestamp);
            let stamped = stamps.on_amqp091(&Properties::read(&head).unwrap(), AT_MS).unwrap();
            assert_eq!(told091(&stamped.head), expected, "{stamps:?} {fields:?}");
        }
    }

    #[test]
    fn over_1_0_the_time_is_an_annotation_and_nobodys_creation_time() {
        use amqp091::Value::{I32, Text};
        let time = format!("x-opt-rabbitmq-received-time Timestamp({AT_MS})");
        let node = "x-routed-by String(\"n@h\")".to_owned();
        for (stamps, fields, timestamp, annotations, properties, created) in [
            (stamps(Some(false), Some(false)), &[][..], None, vec![time.clone(), node.clone()], vec![], None),
            (
                stamps(Some(false), None),
                &[("a", Text(b"b"))][..],
                Some(1000),
                vec![time.clone()],
                vec!["a String(\"b\")".to_owned()],
                Some(1_000_000),
            ),
            (stamps(Some(false), None), &[][..], Some(1000), vec![time.clone()], vec![], Some(1_000_000)),
            // Their own word stays theirs; RabbitMQ shows no creation time here, which is the node's as well.
            (
                stamps(Some(false), None),
                &[("timestamp_in_ms", I32(5))][..],
                Some(1000),
                vec![],
                vec!["timestamp_in_ms Int(5)".to_owned()],
                Some(1_000_000),
            ),
            (stamps(Some(true), None), &[("timestamp_in_ms", I32(5))][..], None, vec![time], vec![], None),
        ] {
            let head = head091(fields, timestamp);
            let stamped = stamps.on_amqp091(&Properties::read(&head).unwrap(), AT_MS).unwrap();
            assert_eq!(
                told10(&converted(&stamped)),
                (annotations, properties, created),
                "{stamps:?} {fields:?}"
            );
        }
    }

    #[test]
    fn without_the_flag_a_header_of_that_name_is_a_property_like_others() {
        let head = head091(&[("timestamp_in_ms", amqp091::Value::I64(AT_MS as i64))], Some(AT_MS / 1000));
        let told = told10(&converted(&Stamped { head, has_time: false }));
        let property = vec![format!("timestamp_in_ms Long({AT_MS})")];
        assert_eq!(told, (vec![], property, Some(AT_MS as i64 / 1000 * 1000)));
    }

    #[test]
    fn a_message_of_1_0_gets_annotations_and_0_9_1_headers_of_them() {
        let head = |pairs: &[(&str, Value<'_>)]| {
            let mut whole = Vec::new();
            let mut encoder = Encoder::new(&mut whole);
            encoder.descriptor(descriptor::MESSAGE_ANNOTATIONS.into());
            let mut map = encoder.map();
            for (name, value) in pairs {
                encoder.symbol(name);
                map.field(&encoder);
                encoder.value(*value);
                map.field(&encoder);
            }
            encoder.close(map);
            // null, as a value section.
            whole.extend_from_slice(b"\0\x53\x77\x40");
            whole
        };
        let time = format!("x-opt-rabbitmq-received-time Timestamp({AT_MS})");
        let header = format!("timestamp_in_ms I64({AT_MS})");
        let node = "x-routed-by String(\"n@h\")".to_owned();
        let own = [("x-routed-by", Value::String("me")), (TIME_ANNOTATION, Value::Timestamp(77_000))];
        let theirs = "x-routed-by String(\"me\")".to_owned();
        for (stamps, pairs, annotations) in [
            (stamps(Some(false), Some(false)), &[][..], vec![time.clone(), node.clone()]),
            (stamps(Some(false), Some(false)), &own[..], vec![time.clone(), theirs]),
            (stamps(Some(true), Some(true)), &own[..], vec![time.clone(), node]),
        ] {
            let whole = head(pairs);
            let stamped = stamps.on_amqp10(&Message::read(&whole).unwrap(), AT_MS).unwrap();
            assert_eq!(told10(&stamped).0, annotations, "{pairs:?}");
            let mut to = Amqp091::default();
            to.convert_at(&Message::read(&stamped).unwrap(), AT_MS);
            let (fields, timestamp) = told091(&to.properties);
            assert_eq!((&fields[0], timestamp), (&header, Some(AT_MS / 1000)), "{pairs:?}");
        }
        // Somebody else's, as RabbitMQ tells it without having written it.
        let whole = head(&own);
        let mut to = Amqp091::default();
        to.convert_at(&Message::read(&whole).unwrap(), AT_MS);
        let (fields, timestamp) = told091(&to.properties);
        assert_eq!((&*fields[0], timestamp), ("timestamp_in_ms I64(77000)", None));
    }
}
