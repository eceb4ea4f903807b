//! Deaths in the headers of AMQP 0-9-1.

use super::{DEATHS_MAX, Death, FIRST, HISTORY_MAX, LAST, fitting};
use crate::amqp091::{Array, NewProperties, Properties, Table, TableWriter, Value};
use crate::record::{Enqueue, flag};

/// The header that lists them.
pub(super) const DEATHS: &[u8] = b"x-death";

/// Appends the keys in `CC`; of `BCC` nothing is stored.
pub(super) fn more_keys<'a>(head: &'a [u8], keys: &mut Vec<&'a [u8]>) {
    let headers = Properties::read(head).ok().and_then(|properties| properties.headers());
    if let Some(Value::Array(more)) = headers.and_then(|headers| headers.get(b"CC")) {
        keys.extend(more.iter().filter_map(|key| if let Value::Text(key) = key { Some(key) } else { None }));
    }
}

/// Queue and reason of each death, the newest first.
pub(super) fn deaths(head: &[u8]) -> Vec<(&[u8], &[u8])> {
    let headers = Properties::read(head).ok().and_then(|properties| properties.headers());
    tables(headers.unwrap_or_default()).filter_map(|table| key(&table)).collect()
}

fn tables(headers: Table<'_>) -> impl Iterator<Item = Table<'_>> {
    let deaths = headers.get(DEATHS).and_then(|deaths| deaths.as_array());
    deaths.into_iter().flat_map(|deaths| deaths.iter()).filter_map(|death| death.as_table())
}

/// What a death is known by.
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
        name == DEATHS || is_in(LAST) || is_first && is_in(FIRST)
    };
    let values = [death.queue.as_bytes(), death.reason.name().as_bytes(), message.exchange];
    let list = list(&properties, known, message.exchange, keys, death);
    let fields = TableWriter::fields(|table| {
        for (name, encoding) in headers.encodings().filter(|(name, _)| !goes(name)) {
            table.encoding(name, encoding);
        }
        let texts = if is_first { &[FIRST, LAST][..] } else { &[LAST][..] };
        for (name, value) in texts.iter().flat_map(|names| names.iter().zip(values)) {
            table.put(name.as_bytes(), Value::Text(value));
        }
        table.put(DEATHS, Value::Array(Array::new(&list).expect("it was written as an array")));
    });
    let headers = Table::new(&fields).expect("fields of tables, nested no deeper than they were");
    NewProperties { headers: Some(headers), expiration: None, ..properties.to_new() }.write(into);
}

/// All deaths, the values of an array: `death`, then those `known` before.
fn list(
    properties: &Properties<'_>,
    known: Table<'_>,
    exchange: &[u8],
    keys: &[&[u8]],
    death: &Death<'_>,
) -> Vec<u8> {
    let newest = (death.queue.as_bytes(), death.reason.name().as_bytes());
    let is_again = |table: &Table<'_>| key(table) == Some(newest);
    let fields = match tables(known).find(is_again) {
        Some(before) => once_more(before),
        None => TableWriter::fields(|table| {
            if let Ok(Some(ms)) = properties.expiration_ms() {
                table.put(b"original-expiration", Value::Text(ms.to_string().as_bytes()));
            }
            table.put(b"count", Value::I64(1));
            table.put(b"reason", Value::Text(newest.1));
            table.put(b"queue", Value::Text(newest.0));
            table.put(b"time", Value::Timestamp(death.at_ms / 1000));
            table.put(b"exchange", Value::Text(exchange));
            table.array(b"routing-keys", fitting(keys).map(Value::Text));
        }),
    };
    let mut list = Vec::with_capacity(fields.len() + TABLE);
    Value::Table(Table::new(&fields).expect("it was written as a table")).write(&mut list);
    for table in tables(known).filter(|table| !is_again(table)).take(DEATHS_MAX - 1) {
        if list.len() + TABLE + table.bytes().len() > HISTORY_MAX {
            break;
        }
        Value::Table(table).write(&mut list);
    }
    list
}

/// Bytes of a table in an array in front of its fields.
const TABLE: usize = 5;

/// The fields of a death that came again.
fn once_more(before: Table<'_>) -> Vec<u8> {
    let count = before.get(b"count").and_then(|count| count.as_i64()).unwrap_or(0).saturating_add(1);
    TableWriter::fields(|table| {
        table.put(b"count", Value::I64(count));
        for (name, encoding) in before.encodings().filter(|(name, _)| *name != b"count") {
            table.encoding(name, encoding);
        }
    })
}
