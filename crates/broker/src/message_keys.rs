//! Keys by which messages are told apart, or put together: the value of a header, read where it lies in either encoding.
//!
//! The same value is the same key over both protocols: text is bytes, whatever kind of text it is, and integers are numbers,
//! whatever their width. A message that comes has its keys read once, before its record is written; the record has their digests,
//! under the catalog's key, and queues go by these alone. Queues that look at different headers have records of their own, as have
//! those with an expression for their messages ([`crate::ranking`]), each expression by itself.

use crate::catalog::{Catalog, QueueDefinition};
use crate::ranking::{self, Ranking, RankingDesk};
use base::{Digest, DigestKey, Digester};
use message::amqp10::{Message, Value};
use message::amqp091::{Properties, Value as Wire};
use message::record::{Enqueue, Format, Keys, NewEnqueue, flag};
use std::borrow::Cow;
use std::sync::Arc;

/// The argument of a queue that passes over duplicates.
const DEDUPLICATION: &str = "x-message-deduplication";

/// The header that says whether a message is a duplicate, unless the queue names another by an argument of this name.
const DEDUPLICATION_HEADER: &str = "x-deduplication-header";

/// The argument of a queue that names the header by which its messages are in groups.
const GROUP_KEY: &str = "x-group-key";

/// The header that says how long a message's key stays, milliseconds.
const CACHE_TTL_HEADER: &str = "x-cache-ttl";

/// A value by which messages can be told apart.
enum Scalar<'a> {
    Bytes(&'a [u8]),
    Number(i128),
    Bool(bool),
    Float(f64),
    /// Seconds since 1970.
    Timestamp(u64),
}

impl Scalar<'_> {
    fn digest(&self, key: &DigestKey) -> Digest {
        let mut digest = Digester::new(key);
        match self {
            Scalar::Bytes(bytes) => {
                digest.write(&[1]);
                digest.write(bytes);
            }
            Scalar::Number(number) => {
                digest.write(&[2]);
                digest.write(&number.to_le_bytes());
            }
            Scalar::Bool(value) => digest.write(&[3, u8::from(*value)]),
            Scalar::Float(value) => {
                digest.write(&[4]);
                digest.write(&value.to_bits().to_le_bytes());
            }
            Scalar::Timestamp(seconds) => {
                digest.write(&[5]);
                digest.write(&seconds.to_le_bytes());
            }
        }
        digest.finish()
    }

    fn number(&self) -> Option<u64> {
        if let Scalar::Number(number) = self { u64::try_from(*number).ok() } else { None }
    }
}

fn scalar091<'a>(value: &Wire<'a>) -> Option<Scalar<'a>> {
    Some(match *value {
        Wire::Bool(value) => Scalar::Bool(value),
        Wire::U64(value) => Scalar::Number(value.into()),
        Wire::F32(value) => Scalar::Float(value.into()),
        Wire::F64(value) => Scalar::Float(value),
        Wire::Text(bytes) | Wire::Bytes(bytes) => Scalar::Bytes(bytes),
        Wire::Timestamp(seconds) => Scalar::Timestamp(seconds),
        Wire::Void | Wire::Decimal { .. } | Wire::Array(_) | Wire::Table(_) => return None,
        Wire::I8(_)
        | Wire::U8(_)
        | Wire::I16(_)
        | Wire::U16(_)
        | Wire::I32(_)
        | Wire::U32(_)
        | Wire::I64(_) => Scalar::Number(value.as_i64()?.into()),
    })
}

fn scalar10<'a>(value: Value<'a>) -> Option<Scalar<'a>> {
    Some(match value {
        Value::Boolean(value) => Scalar::Bool(value),
        Value::Ulong(value) => Scalar::Number(value.into()),
        Value::Float(value) => Scalar::Float(value.into()),
        Value::Double(value) => Scalar::Float(value),
        Value::Timestamp(ms) => Scalar::Timestamp(u64::try_from(ms / 1000).unwrap_or(0)),
        Value::Binary(bytes) => Scalar::Bytes(bytes),
        Value::Uuid(bytes) => Scalar::Bytes(bytes),
        value => match value.as_i64() {
            Some(number) => Scalar::Number(number.into()),
            None => Scalar::Bytes(value.as_str()?.as_bytes()),
        },
    })
}

/// The headers of a stored message.
enum Stored<'a> {
    Amqp091(Properties<'a>),
    Amqp10(Message<'a>),
}

impl<'a> Stored<'a> {
    fn of(format: Format, head: &'a [u8], body: &'a [u8]) -> Option<Stored<'a>> {
        Some(match format {
            Format::Amqp091 => Stored::Amqp091(Properties::read(head).ok()?),
            Format::Amqp10 => Stored::Amqp10(Message::read_parts(head, body).ok()?),
        })
    }

    /// A header; over AMQP 1.0 an annotation, or else an application property.
    fn get(&self, name: &str) -> Option<Scalar<'a>> {
        match self {
            Stored::Amqp091(properties) => scalar091(&properties.headers()?.get(name.as_bytes())?),
            Stored::Amqp10(message) => {
                let annotation = message.message_annotations.get(name);
                scalar10(annotation.or_else(|| message.application_properties.get(name))?)
            }
        }
    }
}

/// The keys of messages for a queue, as digests: of the headers that the queue's arguments name.
#[derive(Clone, Debug)]
pub(crate) struct KeyRule {
    key: DigestKey,
    queue: Arc<QueueDefinition>,
    ranking: Option<Arc<Ranking>>,
}

/// The words by which a queue tells its messages apart, puts them in groups, ranks them, and knows barriers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyWords<'a> {
    /// The header of the key by which duplicates are known.
    message: Option<&'a str>,
    /// The header of the group.
    group: Option<&'a str>,
    /// The expression of the priority.
    ranking: Option<&'a str>,
    /// The expression of barriers.
    barrier: Option<&'a str>,
}

impl KeyWords<'_> {
    /// The keys that a record has of a message by these are for its queues alone.
    pub(crate) fn are_own(&self) -> bool {
        self.ranking.is_some() || self.barrier.is_some()
    }
}

impl KeyRule {
    /// The rule for a queue; none: it goes by no keys.
    pub(crate) fn of(catalog: &Catalog, queue: &Arc<QueueDefinition>) -> Option<KeyRule> {
        queue.key_words()?;
        let key = catalog.digest_key().expect("the first change of a catalog is its key");
        Some(KeyRule { key, queue: queue.clone(), ranking: catalog.ranking(queue.id).cloned() })
    }

    /// The keys of a message that comes; none: it has none of those the queue goes by. Dead letters come back under the key they
    /// came with, and are no duplicates of themselves.
    #[cold]
    pub(crate) fn keys(&self, message: &NewEnqueue<'_>, desk: &mut RankingDesk) -> Option<Keys> {
        let keys = self.digests(message).unwrap_or_default();
        let keys = self.ranking.as_ref().map_or(keys, |ranking| ranking.rank(message, keys, desk));
        (keys != Keys::default()).then_some(keys)
    }

    /// The digests alone.
    fn digests(&self, message: &NewEnqueue<'_>) -> Option<Keys> {
        let KeyWords { message: key, group, .. } = self.queue.key_words()?;
        if key.is_none() && group.is_none() {
            return None;
        }
        let head = whole(message.head);
        let body = if message.format == Format::Amqp10 { whole(message.body) } else { Cow::default() };
        let stored = Stored::of(message.format, &head, &body)?;
        let digest = |name: &str| stored.get(name).map(|value| value.digest(&self.key));
        Some(Keys {
            message: key.filter(|_| message.flags & flag::DEATHS == 0).and_then(digest),
            group: group.and_then(digest),
            ..Keys::default()
        })
    }
}

fn whole<'a>(pieces: &[&'a [u8]]) -> Cow<'a, [u8]> {
    match pieces {
        [only] => Cow::Borrowed(only),
        _ => Cow::Owned(pieces.concat()),
    }
}

/// How long a message's key stays where the message says so, milliseconds.
pub(crate) fn cache_ttl_ms(message: &Enqueue<'_>) -> Option<u64> {
    let stored = Stored::of(message.format, message.head, message.body)?;
    stored.get(CACHE_TTL_HEADER)?.number()
}

impl QueueDefinition {
    /// The words by which it tells its messages apart, puts them in groups, ranks them, and knows barriers; none: it does nothing
    /// of it.
    pub(crate) fn key_words(&self) -> Option<KeyWords<'_>> {
        if self.arguments.is_empty() {
            return None;
        }
        let (message, group) = (self.deduplication_header(), self.group_header());
        let (ranking, barrier) = (ranking::text_of(self), ranking::barrier_text_of(self));
        let words = KeyWords { message, group, ranking, barrier };
        (words != KeyWords::default()).then_some(words)
    }

    fn deduplication_header(&self) -> Option<&str> {
        let deduplicates = self.arguments.get(DEDUPLICATION.as_bytes()).and_then(routing::Argument::as_bool);
        if deduplicates != Some(true) {
            return None;
        }
        let named = self.arguments.get(DEDUPLICATION_HEADER.as_bytes()).and_then(routing::Argument::as_str);
        Some(named.unwrap_or(DEDUPLICATION_HEADER))
    }

    /// The header by which its messages are in groups.
    pub(crate) fn group_header(&self) -> Option<&str> {
        self.arguments.get(GROUP_KEY.as_bytes()).and_then(routing::Argument::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use routing::Value as Argument;

    fn rule(key: u8, arguments: &[(&str, Argument)]) -> KeyRule {
        let queue = QueueDefinition {
            arguments: arguments.iter().map(|(name, value)| (name.as_bytes(), value.clone())).collect(),
            ..QueueDefinition::sample(1)
        };
        let mut catalog = Catalog::default();
        catalog.apply(&crate::catalog::Change::SetDigestKey(DigestKey::new([key; 16])));
        KeyRule::of(&catalog, &queue.into()).expect("it goes by keys")
    }

    fn keys(rule: &KeyRule, flags: u8, format: Format, head: &[&[u8]], body: &[&[u8]]) -> Option<Keys> {
        let message = NewEnqueue {
            flags,
            format,
            priority: 0,
            received_at_ms: 1,
            expires_at_ms: 0,
            due_at_ms: 0,
            keys: None,
            exchange: b"",
            routing_key: b"q",
            head,
            body,
        };
        rule.keys(&message, &mut RankingDesk::default())
    }

    fn both() -> [(&'static str, Argument); 3] {
        [
            (DEDUPLICATION, Argument::Bool(true)),
            (DEDUPLICATION_HEADER, Argument::text("id")),
            (GROUP_KEY, Argument::text("of")),
        ]
    }

    const HEAD091: &[u8] = b"\x20\x00\x00\x00\x00\x0e\x02idS\x00\x00\x00\x01a\x02ofb\x07";
    const BODY10: &[u8] =
        b"\x00\x53\x74\xc1\x0e\x04\xa1\x02id\xa1\x01a\xa1\x02of\x54\x07\x00\x53\x75\xa0\x01x";

    /// Wherever the input ended in between, and over both protocols.
    #[test]
    fn pieces_and_protocols_make_no_difference() {
        let rule = rule(1, &both());
        let whole = keys(&rule, 0, Format::Amqp091, &[HEAD091], &[b"x"]);
        let Some(Keys { message: Some(message), group: Some(group), .. }) = whole else {
            panic!("{whole:?}")
        };
        assert_ne!(message, group);
        for at in 0..=HEAD091.len() {
            let (front, back) = HEAD091.split_at(at);
            assert_eq!(keys(&rule, 0, Format::Amqp091, &[front, back], &[b"x", b""]), whole, "{at}");
        }
        for at in 0..=BODY10.len() {
            let (front, back) = BODY10.split_at(at);
            assert_eq!(keys(&rule, 0, Format::Amqp10, &[], &[front, back]), whole, "{at}");
        }
    }

    #[test]
    fn the_catalogs_key_decides() {
        let [one, again, other] = [1, 1, 2].map(|key| {
            keys(&rule(key, &both()), 0, Format::Amqp091, &[HEAD091], &[]).and_then(|keys| keys.group)
        });
        assert_eq!((one == again, one == other), (true, false));
    }

    fn check(arguments: &[(&str, Argument)], flags: u8, head: &[u8], expected: (bool, bool)) {
        let keys = keys(&rule(1, arguments), flags, Format::Amqp091, &[head], &[]);
        let has = keys.map(|keys| (keys.message.is_some(), keys.group.is_some()));
        assert_eq!(has, Some(expected).filter(|has| *has != (false, false)), "{arguments:?} {flags}");
    }

    #[test]
    fn a_message_has_the_keys_that_its_queue_goes_by() {
        let all = both();
        check(&all, 0, HEAD091, (true, true));
        check(&all[..2], 0, HEAD091, (true, false));
        check(&all[..1], 0, HEAD091, (false, false));
        check(&all[2..], 0, HEAD091, (false, true));
        check(&all, flag::DEATHS, HEAD091, (false, true));
        check(&all, 0, b"\x00\x00", (false, false));
    }
}
