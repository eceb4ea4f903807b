//! Descriptions that clients give of themselves, one copy for all that are the same: an idle connection of many alike costs a pointer.
//!
//! Kept as a field table of AMQP 0-9-1 for all protocols, without the name that a client gives each connection: that is
//! its peer's. Descriptions that no other client shares have bounds, beyond which they are not kept.

use crate::settings::{CLIENT_BYTES_MAX, CLIENTS_BYTES_MAX};
use message::amqp091::{Table, TableWriter, Value};
use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The property that is no part of it.
const NAME: &[u8] = b"connection_name";

/// Bytes that keeping one takes besides its own.
const OVERHEAD: usize = 128;

/// A client's description of itself: a field table (AMQP 0-9-1 §4.2.5.5) without its length.
pub type Client = Arc<Vec<u8>>;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Known(Client);

impl Borrow<[u8]> for Known {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Clients {
    known: BTreeSet<Known>,
    bytes: usize,
    /// Descriptions without room since the last search for unused ones.
    refused: usize,
}

impl Clients {
    /// Keeps the description in a table.
    pub(crate) fn keep(&mut self, table: &Table<'_>) -> Option<Client> {
        if table.bytes().len() > CLIENT_BYTES_MAX {
            return None;
        }
        let kept = table.encodings().filter(|(name, _)| *name != NAME);
        self.keep_fields(TableWriter::fields(|into| {
            kept.for_each(|(name, value)| into.encoding(name, value))
        }))
    }

    /// The same of pairs of texts.
    pub(crate) fn keep_texts<'a>(
        &mut self,
        pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Option<Client> {
        let mut left = CLIENT_BYTES_MAX;
        let pairs = pairs.filter(|(name, _)| *name != NAME);
        let fields = TableWriter::fields(|into| {
            for (name, value) in pairs {
                left = left.saturating_sub(name.len() + value.len());
                // A name of a field is a short string.
                if left > 0 && name.len() <= 255 {
                    into.put(name, Value::Text(value));
                }
            }
        });
        if left > 0 { self.keep_fields(fields) } else { None }
    }

    fn keep_fields(&mut self, fields: Vec<u8>) -> Option<Client> {
        if fields.is_empty() || fields.len() > CLIENT_BYTES_MAX {
            return None;
        }
        if let Some(Known(known)) = self.known.get(&fields[..]) {
            return Some(known.clone());
        }
        let cost = fields.len() + OVERHEAD;
        if self.bytes + cost > CLIENTS_BYTES_MAX {
            // Looking at all of them is paid for by the descriptions without room.
            self.refused += 1;
            if self.refused * 16 >= self.known.len() {
                self.forget();
            }
            if self.bytes + cost > CLIENTS_BYTES_MAX {
                return None;
            }
        }
        self.bytes += cost;
        let mut fields = fields;
        fields.shrink_to_fit();
        let client = Arc::new(fields);
        self.known.insert(Known(client.clone()));
        Some(client)
    }

    /// Lets go of descriptions that no connection has any more.
    fn forget(&mut self) {
        self.refused = 0;
        self.known.retain(|Known(client)| Arc::strong_count(client) > 1);
        self.bytes = self.known.iter().map(|Known(client)| client.len() + OVERHEAD).sum();
    }

    /// Bytes of memory, near enough.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(product: &str, name: Option<&str>) -> Vec<u8> {
        TableWriter::fields(|into| {
            into.put(b"product", Value::Text(product.as_bytes()));
            if let Some(name) = name {
                into.put(NAME, Value::Text(name.as_bytes()));
            }
            into.table(b"capabilities", |into| into.put(b"basic.nack", Value::Bool(true)));
        })
    }

    fn keep(clients: &mut Clients, fields: &[u8]) -> Option<Client> {
        clients.keep(&Table::new(fields).unwrap())
    }

    #[test]
    fn who_says_the_same_shares_it_whatever_the_name() {
        let mut clients = Clients::default();
        let own = keep(&mut clients, &table("hare", Some("one"))).unwrap();
        let other = keep(&mut clients, &table("hare", Some("another"))).unwrap();
        assert!(Arc::ptr_eq(&own, &other));
        assert_eq!(*own, table("hare", None));
        let unlike = keep(&mut clients, &table("fox", None)).unwrap();
        assert!(!Arc::ptr_eq(&own, &unlike));
        assert_eq!(clients.memory_bytes(), own.len() + unlike.len() + 2 * OVERHEAD);
        assert_eq!(keep(&mut clients, &[]), None);
        let texts = [(&b"product"[..], &b"hare"[..]), (NAME, b"x")];
        let told = clients.keep_texts(texts.into_iter()).unwrap();
        assert_eq!(Table::new(&told).unwrap().get(b"product").unwrap().as_bytes(), Some(&b"hare"[..]));
        assert!(Table::new(&told).unwrap().get(NAME).is_none());
    }

    #[test]
    fn what_is_unlike_all_else_has_a_bound() {
        let mut clients = Clients::default();
        assert_eq!(keep(&mut clients, &table(&"x".repeat(CLIENT_BYTES_MAX), None)), None);
        let long = "x".repeat(CLIENT_BYTES_MAX);
        assert_eq!(clients.keep_texts([(&b"a"[..], long.as_bytes())].into_iter()), None);
        let mut kept = Vec::new();
        for number in 0..2 * CLIENTS_BYTES_MAX / (table("", None).len() + OVERHEAD) {
            kept.extend(keep(&mut clients, &table(&format!("{number:6}"), None)));
            assert!(clients.memory_bytes() <= CLIENTS_BYTES_MAX);
        }
        let count = kept.len();
        assert!(count > 1000);
        assert_eq!(keep(&mut clients, &table("late", None)), None);
        // Clients that are there still share their description.
        assert!(keep(&mut clients, &table(&format!("{:6}", 0), None)).is_some());
        // Room comes back as connections go.
        kept.truncate(1);
        let came = (0..=count).find_map(|_| keep(&mut clients, &table("late", None)));
        assert!(came.is_some());
        assert!(clients.memory_bytes() < 1000);
    }
}
