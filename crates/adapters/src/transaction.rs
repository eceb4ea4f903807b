//! The content of a transaction: publishes and settles, held back until it is committed or forgotten.
//!
//! Committed, the publishes are made one after the other and then the settles, in one turn of the shard: of one log they
//! lie in one open batch, which a crash leaves whole or not at all (a log closes a batch of more than 4 MiB). The kind
//! of a settle, and its consumer, are the protocol's matter; so is telling the client.
//! Invariant: the bytes held are at most the bound given with each addition.

use crate::settings::Settings;
use broker::More;
use message::record::Format;

/// A publish that is held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldPublish<'a> {
    pub(crate) exchange: &'a [u8],
    pub(crate) routing_key: &'a [u8],
    pub(crate) more: More<'a>,
    pub(crate) format: Format,
    pub(crate) durable: bool,
    pub(crate) priority: Option<u8>,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
    /// The protocol's note on it for the commit.
    pub(crate) mark: u64,
}

impl<'a> HeldPublish<'a> {
    /// All keys it is routed by.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'a [u8]> {
        std::iter::once(self.routing_key).chain(self.more.keys.iter().copied())
    }
}

/// The parts of a publish in `bytes`: lengths, in the order in which they lie there.
#[derive(Clone, Copy, Debug)]
struct Entry {
    exchange: u32,
    routing_key: u32,
    /// Each with its length in four bytes before it.
    more_keys: u32,
    /// How many of them, the last ones, nobody is to see.
    hidden: u32,
    head: u32,
    body: u32,
    format: Format,
    durable: bool,
    priority: Option<u8>,
    ttl_ms: Option<u64>,
    due_at_ms: u64,
    mark: u64,
}

/// The transaction holds as much as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// A transaction; `S`: a settle.
#[derive(Debug)]
pub(crate) struct Transaction<S> {
    bytes: Vec<u8>,
    publishes: Vec<Entry>,
    settles: Vec<S>,
    /// Bytes that settles hold beside themselves.
    settles_bytes: usize,
}

impl<S> Default for Transaction<S> {
    fn default() -> Transaction<S> {
        Transaction { bytes: Vec::new(), publishes: Vec::new(), settles: Vec::new(), settles_bytes: 0 }
    }
}

impl<S> Transaction<S> {
    /// Bytes it holds: [`Settings::transaction_bytes_max`] bounds them.
    pub(crate) fn len_bytes(&self) -> usize {
        self.bytes.len()
            + self.publishes.len() * size_of::<Entry>()
            + self.settles.len() * size_of::<S>()
            + self.settles_bytes
    }

    fn check_room(&self, settings: &Settings, more: usize) -> Result<(), Full> {
        if self.len_bytes() + more > settings.transaction_bytes_max { Err(Full) } else { Ok(()) }
    }

    /// Holds a publish back.
    pub(crate) fn publish(&mut self, settings: &Settings, publish: &HeldPublish<'_>) -> Result<(), Full> {
        let HeldPublish { exchange, routing_key, more, format, head, body, .. } = publish;
        let more_keys_len: usize = more.keys.iter().map(|key| 4 + key.len()).sum();
        let len = exchange.len() + routing_key.len() + more_keys_len + head.len() + body.len();
        self.check_room(settings, len + size_of::<Entry>())?;
        let number = |len: usize| u32::try_from(len).map_err(|_| Full);
        let entry = Entry {
            exchange: number(exchange.len())?,
            routing_key: number(routing_key.len())?,
            more_keys: number(more_keys_len)?,
            hidden: number(more.hidden)?,
            head: number(head.len())?,
            body: number(body.len())?,
            format: *format,
            durable: publish.durable,
            priority: publish.priority,
            ttl_ms: publish.ttl_ms,
            due_at_ms: more.due_at_ms,
            mark: publish.mark,
        };
        self.bytes.extend_from_slice(exchange);
        self.bytes.extend_from_slice(routing_key);
        for key in &more.keys {
            self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
            self.bytes.extend_from_slice(key);
        }
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(body);
        self.publishes.push(entry);
        Ok(())
    }

    /// Holds a settle back, which has `more` bytes beside itself.
    pub(crate) fn settle(&mut self, settings: &Settings, settle: S, more: usize) -> Result<(), Full> {
        self.check_room(settings, size_of::<S>() + more)?;
        self.settles_bytes += more;
        self.settles.push(settle);
        Ok(())
    }

    /// The settles held back, in order.
    pub(crate) fn settles(&self) -> &[S] {
        &self.settles
    }

    /// The settles, when the publishes are made or forgotten.
    pub(crate) fn into_settles(self) -> Vec<S> {
        self.settles
    }

    /// The publishes held back, in order.
    pub(crate) fn publishes(&self) -> impl Iterator<Item = HeldPublish<'_>> {
        let mut rest = &self.bytes[..];
        self.publishes.iter().map(move |entry| {
            let mut take = |len: u32| {
                let (taken, after) = rest.split_at(len as usize);
                rest = after;
                taken
            };
            let [exchange, routing_key, more_keys, head, body] =
                [entry.exchange, entry.routing_key, entry.more_keys, entry.head, entry.body].map(&mut take);
            HeldPublish {
                exchange,
                routing_key,
                more: More {
                    keys: split_keys(more_keys),
                    hidden: entry.hidden as usize,
                    due_at_ms: entry.due_at_ms,
                    // It was vouched for when the publish came.
                    user_id: None,
                    // It is written on when it is published.
                    stamped: false,
                },
                format: entry.format,
                durable: entry.durable,
                priority: entry.priority,
                ttl_ms: entry.ttl_ms,
                head,
                body,
                mark: entry.mark,
            }
        })
    }
}

fn split_keys(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut keys = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk() {
        let (key, rest) = rest.split_at(u32::from_le_bytes(*len) as usize);
        keys.push(key);
        bytes = rest;
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish<'a>(body: &'a [u8], more_keys: &[&'a [u8]], mark: u64) -> HeldPublish<'a> {
        HeldPublish {
            exchange: b"amq.topic",
            routing_key: b"key",
            more: More {
                keys: more_keys.to_vec(),
                hidden: more_keys.len() / 2,
                due_at_ms: mark * 7,
                user_id: None,
                stamped: false,
            },
            format: Format::Amqp091,
            durable: mark.is_multiple_of(2),
            priority: (mark > 1).then_some(7),
            ttl_ms: (mark > 2).then_some(1000),
            head: b"\0\0",
            body,
            mark,
        }
    }

    #[test]
    fn gives_back_what_was_held_in_order() {
        let settings = Settings::new("n");
        let mut transaction = Transaction::<u32>::default();
        let all = [
            publish(b"one", &[], 0),
            publish(b"", &[b"", b"second"], 1),
            publish(b"three", &[b"k"], 2),
            publish(b"four", &[], 3),
        ];
        for (at, publish) in all.iter().enumerate() {
            transaction.publish(&settings, publish).unwrap();
            transaction.settle(&settings, at as u32, 0).unwrap();
        }
        assert_eq!(transaction.publishes().collect::<Vec<_>>(), all);
        assert_eq!(transaction.settles(), [0, 1, 2, 3]);
        assert_eq!(transaction.into_settles(), [0, 1, 2, 3]);
    }

    #[test]
    fn holds_no_more_than_its_bound() {
        let settings = Settings { transaction_bytes_max: 1000, ..Settings::new("n") };
        let mut transaction = Transaction::<u64>::default();
        assert_eq!(transaction.publish(&settings, &publish(&[0; 1000], &[], 0)), Err(Full));
        assert_eq!(transaction.len_bytes(), 0);
        transaction.publish(&settings, &publish(&[0; 500], &[], 0)).unwrap();
        assert_eq!(transaction.publish(&settings, &publish(&[0; 400], &[], 0)), Err(Full));
        assert_eq!(transaction.settle(&settings, 1, 500), Err(Full));
        let before = transaction.len_bytes();
        transaction.settle(&settings, 1, 50).unwrap();
        assert_eq!(transaction.len_bytes(), before + 58);
        while transaction.settle(&settings, 1, 0).is_ok() {}
        assert!((993..=1000).contains(&transaction.len_bytes()), "{}", transaction.len_bytes());
        assert_eq!(transaction.publishes().count(), 1);
    }
}
