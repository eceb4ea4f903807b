//! Deaths in the message-annotations of AMQP 1.0.

use super::forgotten::{self, Forgotten, Sieve};
use super::{Death, Entry, FIRST, HISTORY_MAX, History, LAST};
use crate::amqp10::section::{descriptor, write_map};
use crate::amqp10::value::code;
use crate::amqp10::{Encoder, Header, Map, Message, Value};

use crate::record::{Enqueue, flag};

const DEATHS: &str = super::ANNOTATION;
const FORGOTTEN: &str = forgotten::ANNOTATION;

/// Bytes of a map in an array in front of its pairs: size and count.
const MAP: usize = 8;

/// Appends the keys in `x-cc`.
pub(super) fn more_keys<'a>(head: &'a [u8], keys: &mut Vec<&'a [u8]>) {
    let annotations = Message::read_head(head).map(|(_, _, annotations)| annotations);
    if let Some(Value::List(more)) = annotations.unwrap_or_default().get("x-cc") {
        keys.extend(
            more.iter().filter_map(
                |key| {
                    if let Value::String(key) = key { Some(key.as_bytes()) } else { None }
                },
            ),
        );
    }
}

/// The deaths that a head tells of.
pub(super) fn history(head: &[u8]) -> History<'_> {
    let annotations = Message::read_head(head).map(|(_, _, annotations)| annotations).unwrap_or_default();
    let deaths = maps(annotations).filter_map(|map| key(&map)).collect();
    History { deaths, forgotten: Forgotten::read(forgotten(annotations)) }
}

/// The count of the newest death.
pub(super) fn count_of_newest(head: &[u8]) -> Option<u64> {
    let (_, _, annotations) = Message::read_head(head).ok()?;
    maps(annotations).next()?.get("count")?.as_u64()
}

/// The queues of which the list says nothing any more.
fn forgotten(annotations: Map<'_>) -> &[u8] {
    match annotations.get(FORGOTTEN) {
        Some(Value::Binary(digests)) => digests,
        _ => &[],
    }
}

fn maps(annotations: Map<'_>) -> impl Iterator<Item = Map<'_>> {
    let array = match annotations.get(DEATHS) {
        Some(Value::Array(array)) => Some(array),
        _ => None,
    };
    array.into_iter().flat_map(|array| array.iter()).filter_map(|death| match death {
        Value::Map(map) => Some(map),
        _ => None,
    })
}

/// The key of a death: queue and reason.
fn key<'a>(map: &Map<'a>) -> Option<(&'a [u8], &'a [u8])> {
    Some((map.get("queue")?.as_str()?.as_bytes(), map.get("reason")?.as_str()?.as_bytes()))
}

/// Appends the head of `message` with one more death and without its time to live.
pub(super) fn write(message: &Enqueue<'_>, keys: &[&[u8]], death: &Death<'_>, into: &mut Vec<u8>) {
    let (Ok([header_bytes, delivery_annotations, _]), Ok((header, _, annotations))) =
        (Message::head_sections(message.head), Message::read_head(message.head))
    else {
        return into.extend_from_slice(message.head);
    };
    match header.ttl_ms {
        None => into.extend_from_slice(header_bytes),
        Some(_) => Header { ttl_ms: None, ..header }.write(into),
    }
    into.extend_from_slice(delivery_annotations);
    let known = if message.flags & flag::DEATHS == 0 { Map::default() } else { annotations };
    let is_first = maps(known).next().is_none();
    let goes = |name: Value<'_>| {
        name.as_str().is_some_and(|name| {
            [DEATHS, FORGOTTEN].contains(&name) || LAST.contains(&name) || is_first && FIRST.contains(&name)
        })
    };
    let mut pairs = Vec::with_capacity(annotations.bytes().len() + 512);
    let mut count = 0;
    let mut encoder = Encoder::new(&mut pairs);
    for ((name, _), (key, value)) in annotations.iter().zip(annotations.encodings()) {
        if !goes(name) {
            encoder.encoding(key);
            encoder.encoding(value);
            count += 2;
        }
    }
    let values = [death.queue.as_bytes(), death.reason.name().as_bytes(), message.exchange];
    let texts = if is_first { &[FIRST, LAST][..] } else { &[LAST][..] };
    for (name, value) in texts.iter().flat_map(|names| names.iter().zip(values)) {
        encoder.symbol(name);
        encoder.string(&String::from_utf8_lossy(value));
        count += 2;
    }
    let entry = Entry::new(death, message.exchange, keys, header.ttl_ms.map(u64::from));
    let (list, forgotten) = List::of(&entry, known);
    if !forgotten.bytes().is_empty() {
        encoder.symbol(FORGOTTEN);
        encoder.binary(forgotten.bytes());
        count += 2;
    }
    encoder.symbol(DEATHS);
    list.write(&mut pairs);
    write_map(descriptor::MESSAGE_ANNOTATIONS, Map::new(count + 2, &pairs), into);
}

/// Appends an array of `count` elements whose encodings without their constructor follow each other.
fn array(constructor: u8, count: u32, elements: &[u8], into: &mut Vec<u8>) {
    into.push(code::ARRAY32);
    into.extend_from_slice(&(elements.len() as u32 + 5).to_be_bytes());
    into.extend_from_slice(&count.to_be_bytes());
    into.push(constructor);
    into.extend_from_slice(elements);
}

/// All deaths, as elements of an array.
#[derive(Default)]
struct List {
    maps: Vec<u8>,
    count: u32,
}

impl List {
    /// `newest`, then those `known` before there is room for; and the queues of the others.
    fn of<'k>(newest: &Entry<'_>, known: Map<'k>) -> (List, Forgotten<'k>) {
        let is_again = |map: &Map<'_>| key(map) == Some((newest.queue, newest.reason));
        let mut list = List::default();
        match maps(known).find(is_again) {
            Some(before) => list.once_more(before, newest.last_ms),
            None => list.tell(newest),
        }
        let mut sieve = Sieve::new(newest.reason, forgotten(known));
        for map in maps(known).filter(|map| !is_again(map)) {
            let fits = list.maps.len() + MAP + map.bytes().len() <= HISTORY_MAX;
            if sieve.keeps(key(&map), fits) {
                list.put(map.len() as u32 * 2, map.bytes());
            }
        }
        (list, sieve.forgotten)
    }

    /// Appends the array.
    fn write(&self, into: &mut Vec<u8>) {
        array(code::MAP32, self.count, &self.maps, into);
    }

    fn put(&mut self, count: u32, pairs: &[u8]) {
        self.maps.extend_from_slice(&(pairs.len() as u32 + 4).to_be_bytes());
        self.maps.extend_from_slice(&count.to_be_bytes());
        self.maps.extend_from_slice(pairs);
        self.count += 1;
    }

    /// One more death.
    fn tell(&mut self, entry: &Entry<'_>) {
        let mut pairs = Vec::new();
        let mut encoder = Encoder::new(&mut pairs);
        let text = String::from_utf8_lossy;
        let (queue, reason, exchange) = (text(entry.queue), text(entry.reason), text(entry.exchange));
        let fields = [
            ("queue", Value::String(&queue)),
            ("reason", Value::Symbol(&reason)),
            ("count", Value::Ulong(entry.count)),
            ("first-time", timestamp(entry.first_ms)),
            ("last-time", timestamp(entry.last_ms)),
            ("exchange", Value::String(&exchange)),
        ];
        let ttl = entry.ttl_ms.map(|ms| ("ttl", Value::Uint(u32::try_from(ms).unwrap_or(u32::MAX))));
        for (name, value) in ttl.into_iter().chain(fields) {
            encoder.symbol(name);
            encoder.value(value);
        }
        encoder.symbol("routing-keys");
        let mut strings = Vec::new();
        for key in &entry.keys {
            let key = text(key);
            strings.extend_from_slice(&(key.len() as u32).to_be_bytes());
            strings.extend_from_slice(key.as_bytes());
        }
        array(code::STRING32, entry.keys.len() as u32, &strings, &mut pairs);
        self.put(2 * (ttl.is_some() as u32 + fields.len() as u32 + 1), &pairs);
    }

    /// A death that came again.
    fn once_more(&mut self, before: Map<'_>, at_ms: u64) {
        let mut pairs = Vec::with_capacity(before.bytes().len() + 16);
        let mut encoder = Encoder::new(&mut pairs);
        for ((name, value), (key, encoding)) in before.iter().zip(before.encodings()) {
            encoder.encoding(key);
            match name.as_str() {
                Some("count") => encoder.ulong(value.as_u64().unwrap_or(0).saturating_add(1)),
                Some("last-time") => encoder.value(timestamp(at_ms)),
                _ => encoder.encoding(encoding),
            }
        }
        self.put(before.len() as u32 * 2, &pairs);
    }
}

fn timestamp<'a>(ms: u64) -> Value<'a> {
    Value::Timestamp(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// Appends an array of deaths.
pub(super) fn write_list<'a>(deaths: impl Iterator<Item = Entry<'a>>, into: &mut Vec<u8>) {
    let mut list = List::default();
    deaths.for_each(|entry| list.tell(&entry));
    list.write(into);
}

/// Reads one entry of the output of [`write_list`].
pub(super) fn read<'a>(map: &Map<'a>) -> Option<Entry<'a>> {
    let (queue, reason) = key(map)?;
    let time = |name| match map.get(name) {
        Some(Value::Timestamp(ms)) => ms.try_into().ok(),
        _ => None,
    };
    let Some(Value::Array(keys)) = map.get("routing-keys") else { return None };
    Some(Entry {
        queue,
        reason,
        count: map.get("count")?.as_u64()?,
        first_ms: time("first-time")?,
        last_ms: time("last-time")?,
        ttl_ms: map.get("ttl").and_then(|ttl| ttl.as_u64()),
        exchange: map.get("exchange")?.as_str()?.as_bytes(),
        keys: keys.iter().filter_map(|key| key.as_str()).map(str::as_bytes).collect(),
    })
}
