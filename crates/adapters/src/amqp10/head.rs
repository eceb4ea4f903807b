//! The head that goes out in front of a stored message's bare part: the header, and annotations of the publisher's and ours.
//!
//! Ours take the place of the publisher's of the same name: where the message was published to, and, in a queue that
//! counts, how often it was handed out before (`x-acquired-count`) and how often that failed (`x-delivery-count`, where
//! it did), as RabbitMQ says it.
//! Not here: the rest of the message, which goes out as it was stored.

use broker::Item;
use message::amqp10::section::descriptor::MESSAGE_ANNOTATIONS;
use message::amqp10::{Encoder, Header, Map, Message, Value};
use message::convert::Amqp10;
use message::record::{Enqueue, Format, flag};

/// Annotations we set on every delivery.
const EXCHANGE: &str = "x-exchange";
const ROUTING_KEY: &str = "x-routing-key";

/// Annotations we set on messages that came back to a queue that counts.
const ACQUIRED_COUNT: &str = "x-acquired-count";
const DELIVERY_COUNT: &str = "x-delivery-count";

/// The annotation that says until when a leased message is its receiver's.
const LOCKED_UNTIL: &str = "x-opt-locked-until";

/// Memory that heads are written in, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    plain: PlainHead,
    /// Sections being written.
    bytes: Vec<u8>,
    /// A message being made one of AMQP 1.0.
    converted: Amqp10,
}

impl Heads {
    /// The sections in front of the stored body of a message. A call of it would be 10 of 1,750 instructions of a message.
    #[inline(always)]
    pub(super) fn of<'s>(&'s mut self, message: &Enqueue<'s>, item: &Item) -> &'s [u8] {
        match message.format {
            Format::Amqp10 => {
                // A head that is a header alone, or nothing, has no annotations: ours stand alone, and are mostly those of
                // the message before.
                let has_annotations = match message.head {
                    [] => false,
                    [0, 0x53, 0x70, 0xC0, size, ..] => message.head.len() > 5 + usize::from(*size),
                    [0, 0x53, 0x70, 0x45] => false,
                    _ => true,
                };
                if !has_annotations {
                    return self.plain.sections(message, item);
                }
                if message.flags & flag::SHOWN != 0 {
                    return message.head;
                }
            }
            Format::Amqp091 => {}
        }
        self.whole(message, item, None)
    }

    /// As [`Heads::of`], of a message that says until when it is its receiver's, milliseconds since 1970.
    #[cold]
    #[inline(never)]
    pub(super) fn leased<'s>(
        &'s mut self,
        message: &Enqueue<'s>,
        item: &Item,
        locked_until_ms: u64,
    ) -> &'s [u8] {
        self.whole(message, item, Some(locked_until_ms))
    }

    #[inline]
    fn whole<'s>(&'s mut self, message: &Enqueue<'s>, item: &Item, locked_until_ms: Option<u64>) -> &'s [u8] {
        match message.format {
            Format::Amqp10 => {
                let bytes = &mut self.bytes;
                bytes.clear();
                header(message, item, ttl_ms(message)).write(bytes);
                let theirs = Message::read_head(message.head).expect("it was read when it came").2;
                annotate(message, item, locked_until_ms, theirs, bytes);
            }
            Format::Amqp091 => {
                let properties =
                    message::amqp091::Properties::read(message.head).expect("it was read when it came");
                let converted = &mut self.converted;
                converted.convert(&properties, message.body, message.flags);
                let durable = converted.header.durable;
                let bytes = &mut self.bytes;
                bytes.clear();
                Header { durable, ..header(message, item, ttl_ms(message)) }.write(bytes);
                let theirs = Map::new(converted.annotations_count, &converted.annotations);
                annotate(message, item, locked_until_ms, theirs, bytes);
                bytes.extend_from_slice(&converted.bare);
            }
        }
        &self.bytes
    }
}

/// The time to live that was left when it came.
#[inline]
fn ttl_ms(message: &Enqueue<'_>) -> Option<u32> {
    (message.expires_at_ms != 0).then(|| {
        u32::try_from(message.expires_at_ms.saturating_sub(message.received_at_ms)).unwrap_or(u32::MAX)
    })
}

#[inline]
fn header(message: &Enqueue<'_>, item: &Item, ttl_ms: Option<u32>) -> Header {
    // A queue that counts went on from a dead letter's count, and tells how often it was out.
    let before = if item.acquired_count() > 0 { 0 } else { u32::from(message.failures()) };
    Header {
        durable: message.is_durable(),
        priority: (message.flags & flag::PRIORITY != 0).then_some(message.priority),
        ttl_ms,
        first_acquirer: !item.is_redelivered() && message.flags & flag::DEATHS == 0,
        delivery_count: item.delivery_count() + before,
    }
}

/// Header and annotations of a message that has no annotations but ours, as they were last made: the next message mostly
/// has the same.
#[derive(Debug, Default)]
struct PlainHead {
    /// [`Item::marks`]: the counts of its queue.
    marks: u32,
    flags: u8,
    priority: u8,
    ttl_ms: Option<u32>,
    exchange: Vec<u8>,
    routing_key: Vec<u8>,
    sections: Vec<u8>,
}

impl PlainHead {
    #[inline(always)]
    fn sections(&mut self, message: &Enqueue<'_>, item: &Item) -> &[u8] {
        let ttl_ms = ttl_ms(message);
        let is_same = self.marks == item.marks
            && self.flags == message.flags
            && self.priority == message.priority
            && self.ttl_ms == ttl_ms
            && base::copy::equal(&self.routing_key, message.routing_key)
            && base::copy::equal(&self.exchange, message.exchange);
        if !is_same || self.sections.is_empty() {
            self.make(message, item, ttl_ms);
        }
        &self.sections
    }

    #[cold]
    fn make(&mut self, message: &Enqueue<'_>, item: &Item, ttl_ms: Option<u32>) {
        self.marks = item.marks;
        self.flags = message.flags;
        self.priority = message.priority;
        self.ttl_ms = ttl_ms;
        self.exchange.clear();
        self.exchange.extend_from_slice(message.exchange);
        self.routing_key.clear();
        self.routing_key.extend_from_slice(message.routing_key);
        self.sections.clear();
        header(message, item, ttl_ms).write(&mut self.sections);
        annotate(message, item, None, Map::default(), &mut self.sections);
    }
}

/// Writes the message-annotations: the publisher's and ours, which take the place of the publisher's of the same name.
fn annotate(
    message: &Enqueue<'_>,
    item: &Item,
    locked_until_ms: Option<u64>,
    theirs: Map<'_>,
    bytes: &mut Vec<u8>,
) {
    // Quorum queues alone count; a message that never failed has no count of failures, as in RabbitMQ.
    let counts = [(ACQUIRED_COUNT, item.acquired_count()), (DELIVERY_COUNT, item.delivery_count())];
    let counts = if item.acquired_count() > 0 { &counts[..] } else { &[] };
    let counts = counts.iter().filter(|(_, count)| *count > 0);
    let is_ours = |name: &str| {
        matches!(name, EXCHANGE | ROUTING_KEY)
            || counts.clone().any(|(ours, _)| *ours == name)
            || (locked_until_ms.is_some() && name == LOCKED_UNTIL)
    };
    let mut encoder = Encoder::new(bytes);
    encoder.descriptor(MESSAGE_ANNOTATIONS.into());
    let mut map = encoder.map();
    for ((name, _), (key, value)) in theirs.iter().zip(theirs.encodings()) {
        if !name.as_str().is_some_and(is_ours) {
            encoder.encoding(key);
            map.field(&encoder);
            encoder.encoding(value);
            map.field(&encoder);
        }
    }
    for (name, value) in [(ROUTING_KEY, message.routing_key), (EXCHANGE, message.exchange)] {
        encoder.symbol(name);
        map.field(&encoder);
        // Names came as text in every protocol.
        encoder.string(str::from_utf8(value).unwrap_or_default());
        map.field(&encoder);
    }
    for (name, count) in counts.clone() {
        encoder.symbol(name);
        map.field(&encoder);
        encoder.value(Value::Long((*count).into()));
        map.field(&encoder);
    }
    if let Some(until_ms) = locked_until_ms {
        encoder.symbol(LOCKED_UNTIL);
        map.field(&encoder);
        encoder.value(Value::Timestamp(i64::try_from(until_ms).unwrap_or(i64::MAX)));
        map.field(&encoder);
    }
    encoder.close(map);
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::QueueSeq;
    use message::record::NewEnqueue;

    /// An item with [`Item::marks`] of these: whether it was delivered before, and the two counts.
    fn item(redelivered: bool, acquired: u32, failed: u32) -> Item {
        let marks = u32::from(redelivered) << 31 | acquired << 16 | failed;
        let item = Item { seq: QueueSeq(0), offset: 0, marks };
        assert_eq!((item.acquired_count(), item.delivery_count()), (acquired, failed));
        item
    }

    /// Header and annotations, by name, of a message with this head.
    fn told(format: Format, head: &[u8], item: &Item, heads: &mut Heads) -> (Header, Vec<String>) {
        let new = NewEnqueue {
            flags: flag::DURABLE,
            format,
            priority: 0,
            received_at_ms: 0,
            expires_at_ms: 0,
            due_at_ms: 0,
            keys: None,
            exchange: b"",
            routing_key: b"q",
            head: &[head],
            // null, as a value section.
            body: &[b"\0\x53\x77\x40"],
        };
        let mut buffer = base::Buffer::default();
        new.write(&[], &mut buffer);
        let record = Enqueue::read(buffer.bytes()).unwrap();
        let whole = [heads.of(&record, item), record.body].concat();
        let message = Message::read(&whole).unwrap();
        let annotations = message.message_annotations.iter();
        let mut named: Vec<String> =
            annotations.map(|(name, value)| format!("{} {value:?}", name.as_str().unwrap())).collect();
        named.sort();
        (message.header, named)
    }

    fn annotated(pairs: &[(&str, Value<'_>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes);
        encoder.descriptor(MESSAGE_ANNOTATIONS.into());
        let mut map = encoder.map();
        for (name, value) in pairs {
            encoder.symbol(name);
            map.field(&encoder);
            encoder.value(*value);
            map.field(&encoder);
        }
        encoder.close(map);
        bytes
    }

    const OURS: [&str; 2] = ["x-exchange String(\"\")", "x-routing-key String(\"q\")"];

    #[test]
    fn counts_are_told_where_a_queue_counts() {
        let heads = &mut Heads::default();
        let theirs = annotated(&[
            ("x-a", Value::Null),
            ("x-acquired-count", Value::String("theirs")),
            ("x-delivery-count", Value::String("theirs")),
        ]);
        for (head, kept, acquired, delivered) in [
            (&b""[..], &[][..], None, None),
            (&theirs[..], &["x-a Null"][..], Some("theirs"), Some("theirs")),
        ] {
            for (item, acquired, delivered) in [
                (item(false, 0, 0), acquired.map(String::from), delivered),
                (item(true, 0, 1), acquired.map(String::from), delivered),
                (item(true, 1, 0), Some("1".into()), delivered),
                (item(true, 3, 2), Some("3".into()), Some("2")),
                // The last one again, and back to none: bytes kept from one message for the next are not kept too long.
                (item(true, 3, 2), Some("3".into()), Some("2")),
                (item(false, 0, 0), acquired.map(String::from), delivered),
            ] {
                let shown = |name: &str, value: &str| match value {
                    "theirs" => format!("{name} String(\"theirs\")"),
                    number => format!("{name} Long({number})"),
                };
                let mut expected: Vec<String> =
                    kept.iter().chain(&OURS).map(|text| text.to_string()).collect();
                expected.extend(acquired.map(|value: String| shown("x-acquired-count", &value)));
                expected.extend(delivered.map(|value| shown("x-delivery-count", value)));
                expected.sort();
                let (header, annotations) = told(Format::Amqp10, head, &item, heads);
                assert_eq!(annotations, expected, "{item:?}");
                assert_eq!(header.delivery_count, item.delivery_count());
                assert_eq!(header.first_acquirer, !item.is_redelivered());
                assert!(header.durable);
            }
        }
    }

    #[test]
    fn a_message_of_0_9_1_is_told_of_too() {
        let heads = &mut Heads::default();
        let (header, annotations) = told(Format::Amqp091, b"\0\0", &item(true, 2, 1), heads);
        let mut expected = vec!["x-acquired-count Long(2)", "x-delivery-count Long(1)"];
        expected.extend(OURS);
        assert_eq!(
            (annotations, header.delivery_count),
            (expected.into_iter().map(String::from).collect(), 1)
        );
    }
}
