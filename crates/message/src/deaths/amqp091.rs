//! Deaths in the headers of AMQP 0-9-1.

use super::forgotten::{self, Forgotten, Sieve};
use super::{Death, Entry, FIRST, HISTORY_MAX, History, LAST};
use crate::amqp091::{Array, NewProperties, Properties, Table, TableWriter, Value};
use crate::record::{Enqueue, flag};

const DEATHS: &[u8] = super::HEADER.as_bytes();
const FORGOTTEN: &[u8] = forgotten::HEADER.as_bytes();

/// Appends the keys in `CC`; of `BCC` nothing is stored.
pub(super) fn more_keys<'a>(head: &'a [u8], keys: &mut Vec<&'a [u8]>) {
    let headers = Properties::read(head).ok().and_then(|properties| properties.headers());
    if let Some(Value::Array(more)) = headers.and_then(|headers| headers.get(b"CC")) {
        keys.extend(more.iter().filter_map(|key| if let Value::Text(key) = key { Some(key) } else { None }));
    }
}

/// The deaths that a head tells of.
pub(super) fn history(head: &[u8]) -> History<'_> {
    let headers = Properties::read(head).ok().and_then(|properties| properties.headers()).unwrap_or_default();
    let deaths = tables(headers).filter_map(|table| key(&table)).collect();
    History { deaths, forgotten: Forgotten::read(forgotten(headers)) }
}

/// The count of the newest death.
pub(super) fn count_of_newest(head: &[u8]) -> Option<u64> {
    let headers = Properties::read(head).ok()?.headers()?;
    tables(headers).next()?.get(b"count")?.as_i64()?.try_into().ok()
}

/// The queues of which the list says nothing any more.
fn forgotten(headers: Table<'_>) -> &[u8] {
    match headers.get(FORGOTTEN) {
        Some(Value::Bytes(digests)) => digests,
        _ => &[],
    }
}

fn tables(headers: Table<'_>) -> impl Iterator<Item = Table<'_>> {
    let deaths = headers.get(DEATHS).and_then(|deaths| deaths.as_array());
    deaths.into_iter().flat_map(|deaths| deaths.iter()).filter_map(|death| death.as_table())
}

/// The key of a death: queue and reason.
fn key<'a>(table: &Table<'a>) -> Option<(&'a [u8], &'a [u8])> {
    Some((table.get(b"queue")?.as_bytes()?, table.get(b"reason")?.as_bytes()?))
}

/// Appends the head of `message` with one more death and without its expiration.
pub(super) fn write(message: &Enqueue<'_>, keys: &[&[u8]], death: &Death<'_>, into: &mut Vec<u8>) {
    let Ok(properties) = Properties::read(message.head) else { return into.extend_from_slice(message.head) };
    let headers = properties.headers().unwrap_or_default();
    let known = if message.flags & flag::DEATHS == 0 { Table::EMPTY } else { headers };
    let is_first = tables(known).next().is_none();
    let goes = |name: &[u8]| {
        let is_in = |names: [&str; 3]| names.iter().any(|own| own.as_bytes() == name);
        name == DEATHS || name == FORGOTTEN || is_in(LAST) || is_first && is_in(FIRST)
    };
    let values = [death.queue.as_bytes(), death.reason.name().as_bytes(), message.exchange];
    let (list, forgotten) = list(&properties, known, message.exchange, keys, death);
    let fields = TableWriter::fields(|table| {
        for (name, encoding) in headers.encodings().filter(|(name, _)| !goes(name)) {
            table.encoding(name, encoding);
        }
        let texts = if is_first { &[FIRST, LAST][..] } else { &[LAST][..] };
        for (name, value) in texts.iter().flat_map(|names| names.iter().zip(values)) {
            table.put(name.as_bytes(), Value::Text(value));
        }
        table.put(DEATHS, Value::Array(Array::new(&list).expect("it was written as an array")));
        if !forgotten.bytes().is_empty() {
            table.put(FORGOTTEN, Value::Bytes(forgotten.bytes()));
        }
    });
    let headers = Table::new(&fields).expect("fields of tables, nested no deeper than they were");
    NewProperties { headers: Some(headers), expiration: None, ..properties.to_new() }.write(into);
}

/// All deaths there is room for, the values of an array: `death`, then those `known` before; and the queues of the others.
fn list<'k>(
    properties: &Properties<'_>,
    known: Table<'k>,
    exchange: &[u8],
    keys: &[&[u8]],
    death: &Death<'_>,
) -> (Vec<u8>, Forgotten<'k>) {
    let entry = Entry::new(death, exchange, keys, properties.expiration_ms().ok().flatten());
    let is_again = |table: &Table<'_>| key(table) == Some((entry.queue, entry.reason));
    let mut list = Vec::new();
    match tables(known).find(is_again) {
        Some(before) => once_more(before, &mut list),
        None => write_entry(&entry, &mut list),
    }
    let mut sieve = Sieve::new(entry.reason, forgotten(known));
    for table in tables(known).filter(|table| !is_again(table)) {
        let fits = list.len() + TABLE + table.bytes().len() <= HISTORY_MAX;
        if sieve.keeps(key(&table), fits) {
            Value::Table(table).write(&mut list);
        }
    }
    (list, sieve.forgotten)
}

/// Bytes of a table in an array in front of its fields.
const TABLE: usize = 5;

/// Appends a table, the value of an array; `fill` puts its fields.
fn write_table(into: &mut Vec<u8>, fill: impl FnOnce(&mut TableWriter<'_>)) {
    into.push(b'F');
    TableWriter::write(into, fill);
}

/// Appends a death that came again.
fn once_more(before: Table<'_>, into: &mut Vec<u8>) {
    let count = before.get(b"count").and_then(|count| count.as_i64()).unwrap_or(0).saturating_add(1);
    write_table(into, |table| {
        table.put(b"count", Value::I64(count));
        for (name, encoding) in before.encodings().filter(|(name, _)| *name != b"count") {
            table.encoding(name, encoding);
        }
    });
}

/// Appends a death, the value of an array.
pub(super) fn write_entry(entry: &Entry<'_>, into: &mut Vec<u8>) {
    write_table(into, |table| {
        if let Some(ms) = entry.ttl_ms {
            table.put(b"original-expiration", Value::Text(ms.to_string().as_bytes()));
        }
        table.put(b"count", Value::I64(i64::try_from(entry.count).unwrap_or(i64::MAX)));
        table.put(b"reason", Value::Text(entry.reason));
        table.put(b"queue", Value::Text(entry.queue));
        table.put(b"time", Value::Timestamp(entry.first_ms / 1000));
        table.put(b"exchange", Value::Text(entry.exchange));
        table.array(b"routing-keys", entry.keys.iter().copied().map(Value::Text));
    });
}

/// Reads the output of [`write_entry`].
pub(super) fn read<'a>(table: &Table<'a>) -> Option<Entry<'a>> {
    let (queue, reason) = key(table)?;
    let Value::Timestamp(seconds) = table.get(b"time")? else { return None };
    let ttl = table.get(b"original-expiration").and_then(|ttl| ttl.as_bytes());
    Some(Entry {
        queue,
        reason,
        count: table.get(b"count")?.as_i64()?.try_into().ok()?,
        first_ms: seconds.saturating_mul(1000),
        last_ms: seconds.saturating_mul(1000),
        ttl_ms: ttl.and_then(|ttl| str::from_utf8(ttl).ok()?.parse().ok()),
        exchange: table.get(b"exchange")?.as_bytes()?,
        keys: table.get(b"routing-keys")?.as_array()?.iter().filter_map(|key| key.as_bytes()).collect(),
    })
}
