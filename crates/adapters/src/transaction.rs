//! The content of a transaction: publishes and settles, held back until it is committed or forgotten.
//!
//! Committed, the publishes are made one after the other and then the settles, in one turn of the shard, unless they take
//! more than [`Settings::transaction_work_max`]: of one log they lie in one open batch, which a crash leaves whole or not
//! at all (a log closes a batch of more than 4 MiB). The kind of a settle, and its consumer, are the protocol's matter; so
//! is telling the client, and how much of it was [`Made`].
//! Invariant: the bytes held are at most the bound given with each addition, and those of its memory are taken out of the
//! ledger; whoever takes a transaction away gives them back.

use crate::context::Context;
#[cfg(doc)]
use crate::settings::Settings;
use broker::More;
use broker::ledger::{Full, Holding, Kind};
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

/// Publishes and settles of a transaction that are not counted as work.
const ITEMS_FREE: usize = 32;

/// Units of work of each further one.
const ITEM_PRICE: u32 = 40;

/// Units of work of each further queue that a publish goes to, where publishing does not count them.
const QUEUE_PRICE: u32 = 8;

/// There is no room for what is to be held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// The transaction holds as much as one may, see [`Settings::transaction_bytes_max`].
    Transaction,
    /// The ledger has no more.
    Ledger(Full),
}

/// The room that transactions of a connection have.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    /// Bytes that one of them may hold, bookkeeping included.
    bytes_max: usize,
    /// The memory that the connection holds; none: it is not open, and nothing is counted.
    holding: Option<&'a mut Holding>,
}

impl<'a> Room<'a> {
    /// That of the connection which `context` is of.
    pub(crate) fn of(context: &'a mut Context<'_>) -> Room<'a> {
        let bytes_max = context.settings.transaction_bytes_max;
        Room { bytes_max, holding: context.shard.holding_mut(context.port) }
    }

    /// Takes `bytes` of memory out of the ledger.
    fn take(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let Some(holding) = &mut self.holding else { return Ok(()) };
        holding.take(Kind::Transactions, bytes).map_err(NoRoom::Ledger)
    }

    /// Counts `bytes` of memory of a settle, for which there is always room.
    fn keep(&mut self, bytes: usize) {
        if let Some(holding) = &mut self.holding {
            holding.keep(Kind::Transactions, bytes);
        }
    }
}

/// How much of a transaction was carried out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Made {
    publishes: usize,
    /// Of the bytes held.
    bytes: usize,
    settles: usize,
}

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

/// Elements by which the capacity of a vector is to grow so that `more` fit: a quarter, or `exactly` as few as can be.
fn growth<T>(vec: &Vec<T>, more: usize, exactly: bool) -> usize {
    let missing = more.saturating_sub(vec.capacity() - vec.len());
    match missing {
        0 => 0,
        missing if exactly => missing,
        missing => missing.max(vec.capacity() / 4).max(4),
    }
}

/// Grows the capacity of a vector.
fn grow<T>(vec: &mut Vec<T>, by: usize) {
    if by > 0 {
        vec.reserve_exact(vec.capacity() - vec.len() + by);
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

    /// Bytes of memory it has, which are what it took out of the ledger.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.publishes.capacity() * size_of::<Entry>()
            + self.settles.capacity() * size_of::<S>()
            + self.settles_bytes
    }

    fn check_room(&self, room: &Room<'_>, more: usize) -> Result<(), NoRoom> {
        if self.len_bytes() + more > room.bytes_max { Err(NoRoom::Transaction) } else { Ok(()) }
    }

    /// Takes room for a publish of `len` bytes.
    fn make_room(&mut self, room: &mut Room<'_>, len: usize) -> Result<(), NoRoom> {
        self.check_room(room, len + size_of::<Entry>())?;
        let mut taken = Ok(());
        for exactly in [false, true] {
            let bytes = growth(&self.bytes, len, exactly);
            let entries = growth(&self.publishes, 1, exactly);
            if bytes + entries == 0 {
                return Ok(());
            }
            taken = room.take(bytes + entries * size_of::<Entry>());
            if taken.is_ok() {
                grow(&mut self.bytes, bytes);
                grow(&mut self.publishes, entries);
                break;
            }
        }
        taken
    }

    /// Units of work that carrying it out takes, routes and queues apart: its user waits until that is paid for.
    pub(crate) fn price(&self) -> u32 {
        let items = (self.publishes.len() + self.settles.len()).saturating_sub(ITEMS_FREE);
        u32::try_from(items).unwrap_or(u32::MAX).saturating_mul(ITEM_PRICE)
    }

    /// Units of work of the publish or settle that comes next.
    pub(crate) fn next_price(&self, made: &Made) -> u32 {
        if made.publishes + made.settles < ITEMS_FREE { 0 } else { ITEM_PRICE }
    }

    /// Holds a publish back.
    pub(crate) fn publish(&mut self, room: &mut Room<'_>, publish: &HeldPublish<'_>) -> Result<(), NoRoom> {
        let HeldPublish { exchange, routing_key, more, format, head, body, .. } = publish;
        let more_keys_len: usize = more.keys.iter().map(|key| 4 + key.len()).sum();
        let number = |len: usize| u32::try_from(len).map_err(|_| NoRoom::Transaction);
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
        self.make_room(room, exchange.len() + routing_key.len() + more_keys_len + head.len() + body.len())?;
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

    /// Holds a settle back, which has `more` bytes beside itself. The ledger always has room for it.
    pub(crate) fn settle(&mut self, room: &mut Room<'_>, settle: S, more: usize) -> Result<(), NoRoom> {
        self.check_room(room, size_of::<S>() + more)?;
        let settles = growth(&self.settles, 1, false);
        grow(&mut self.settles, settles);
        room.keep(settles * size_of::<S>() + more);
        self.settles_bytes += more;
        self.settles.push(settle);
        Ok(())
    }

    /// The settle that comes next; none: all are made.
    pub(crate) fn next_settle(&self, made: &mut Made) -> Option<&S> {
        let settle = self.settles.get(made.settles)?;
        made.settles += 1;
        Some(settle)
    }

    /// How many publishes are still to be made.
    pub(crate) fn publishes_left(&self, made: &Made) -> usize {
        self.publishes.len() - made.publishes
    }

    /// The settles that are still to be made.
    pub(crate) fn settles_left(&self, made: &Made) -> &[S] {
        &self.settles[made.settles..]
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
        let mut made = Made::default();
        std::iter::from_fn(move || self.next_publish(&mut made))
    }

    /// The publish that comes next; none: all are made.
    pub(crate) fn next_publish(&self, made: &mut Made) -> Option<HeldPublish<'_>> {
        let entry = self.publishes.get(made.publishes)?;
        let mut rest = &self.bytes[made.bytes..];
        let mut take = |len: u32| {
            let (taken, after) = rest.split_at(len as usize);
            rest = after;
            taken
        };
        let [exchange, routing_key, more_keys, head, body] =
            [entry.exchange, entry.routing_key, entry.more_keys, entry.head, entry.body].map(&mut take);
        *made = Made { publishes: made.publishes + 1, bytes: self.bytes.len() - rest.len(), ..*made };
        Some(HeldPublish {
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
        })
    }
}

/// Units of work of so many queues that one publish goes to, which are too few to be counted by publishing.
pub(crate) fn price_of_few(queues: u32) -> u32 {
    queues.saturating_sub(1).saturating_mul(QUEUE_PRICE)
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
    use broker::ledger::{Bound, Ledger, LedgerLimits};
    use std::sync::Arc;

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

    fn room(holding: &mut Holding, bytes_max: usize) -> Room<'_> {
        Room { bytes_max, holding: Some(holding) }
    }

    fn holding(connection_max: Option<u64>) -> Holding {
        let limits = LedgerLimits { connection_max, ..LedgerLimits::default() };
        Arc::new(Ledger::new(limits)).open(&"u".into(), &"v".into())
    }

    #[test]
    fn gives_back_what_was_held_in_order() {
        let mut holding = holding(None);
        let mut room = room(&mut holding, 1 << 20);
        let mut transaction = Transaction::<u32>::default();
        let all = [
            publish(b"one", &[], 0),
            publish(b"", &[b"", b"second"], 1),
            publish(b"three", &[b"k"], 2),
            publish(b"four", &[], 3),
        ];
        for (at, publish) in all.iter().enumerate() {
            transaction.publish(&mut room, publish).unwrap();
            transaction.settle(&mut room, at as u32, 0).unwrap();
        }
        assert_eq!(transaction.publishes().collect::<Vec<_>>(), all);
        assert_eq!(transaction.settles(), [0, 1, 2, 3]);
        let mut made = Made::default();
        for (at, publish) in all.iter().enumerate() {
            assert_eq!(transaction.next_publish(&mut made).as_ref(), Some(publish));
            assert_eq!(transaction.next_settle(&mut made), Some(&(at as u32)));
        }
        assert_eq!((transaction.next_publish(&mut made), transaction.next_settle(&mut made)), (None, None));
        assert_eq!(transaction.price(), 0);
        assert_eq!(transaction.into_settles(), [0, 1, 2, 3]);
    }

    #[test]
    fn holds_no_more_than_its_bound() {
        let mut holding = holding(None);
        let mut room = room(&mut holding, 1000);
        let mut transaction = Transaction::<u64>::default();
        let full = Err(NoRoom::Transaction);
        assert_eq!(transaction.publish(&mut room, &publish(&[0; 1000], &[], 0)), full);
        assert_eq!((transaction.len_bytes(), transaction.heap_bytes()), (0, 0));
        transaction.publish(&mut room, &publish(&[0; 500], &[], 0)).unwrap();
        assert_eq!(transaction.publish(&mut room, &publish(&[0; 400], &[], 0)), full);
        assert_eq!(transaction.settle(&mut room, 1, 500), full);
        let before = transaction.len_bytes();
        transaction.settle(&mut room, 1, 50).unwrap();
        assert_eq!(transaction.len_bytes(), before + 58);
        while transaction.settle(&mut room, 1, 0).is_ok() {}
        assert!((993..=1000).contains(&transaction.len_bytes()), "{}", transaction.len_bytes());
        assert_eq!(transaction.publishes().count(), 1);
        // All but a few items are charged.
        let items = 1 + transaction.settles().len();
        assert!(items > ITEMS_FREE, "{items}");
        assert_eq!(transaction.price(), (items - ITEMS_FREE) as u32 * ITEM_PRICE);
        assert_eq!(holding.held(), transaction.heap_bytes() as u64);
    }

    #[test]
    fn takes_its_memory_out_of_the_ledger() {
        let mut holding = holding(Some(100_000));
        let mut one = Transaction::<u64>::default();
        let mut other = Transaction::<u64>::default();
        let mut count = 0;
        let full = loop {
            let mut room = room(&mut holding, 1 << 20);
            let transaction = if count % 2 == 0 { &mut one } else { &mut other };
            match transaction.publish(&mut room, &publish(&[0; 900], &[b"another"], 0)) {
                Ok(()) => count += 1,
                Err(NoRoom::Ledger(full)) => break full,
                Err(NoRoom::Transaction) => panic!("its own bound is far"),
            }
            assert_eq!(holding.held() as usize, one.heap_bytes() + other.heap_bytes());
        };
        assert_eq!((full.bound, full.most), (Bound::Connection, 100_000));
        // But for the step by which the other one grew.
        assert!(one.len_bytes() + other.len_bytes() > 80_000, "{count}");
        // A settle finds room all the same, and is counted.
        let before = holding.held();
        one.settle(&mut room(&mut holding, 1 << 20), 7, 100_000).unwrap();
        assert!(holding.held() >= before + 100_000);
        assert_eq!(holding.held() as usize, one.heap_bytes() + other.heap_bytes());
        holding.give(Kind::Transactions, one.heap_bytes());
        holding.give(Kind::Transactions, other.heap_bytes());
        assert_eq!(holding.held(), 0);
    }
}
