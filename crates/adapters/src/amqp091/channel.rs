//! A channel: its publisher, its consumers' tags, the deliveries it was sent and has not settled.

use super::confirms::Confirms;
use super::shared_prefetch::SharedPrefetch;
use super::transaction::ChannelTransaction;
use super::unacked::Unacked;
use crate::context::Context;
use broker::catalog::QueueType;
use broker::{Count, Protocol, Publisher, Tally};
use std::collections::VecDeque;

/// A channel of a connection.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) number: u16,
    pub(super) publisher: Publisher,
    /// Only in confirm mode.
    pub(super) confirms: Option<Box<Confirms>>,
    /// Only after tx.select.
    pub(super) transaction: Option<Box<ChannelTransaction>>,
    /// Its publishes need more than their properties ask for: it is transactional, or the node writes stamps on them.
    pub(super) does_more: bool,
    /// Its consumer of direct replies.
    pub(super) reply: Option<Box<ReplyConsumer>>,
    /// Publishes that wait for the broker.
    pub(super) unconfirmed: u64,
    /// The tag the next delivery gets, less one.
    pub(super) last_tag: u64,
    pub(super) unacked: Unacked,
    /// For consumers opened from now on; 0: unlimited.
    pub(super) prefetch: u16,
    /// Only where its consumers share a prefetch.
    pub(super) shared: Option<Box<SharedPrefetch>>,
    /// The queue declared last: the meaning of an empty queue name.
    pub(super) last_queue: Box<str>,
    /// It counts towards a limit of its user.
    pub(super) is_counted: bool,
    /// Something is to be told at the end of the turn.
    pub(super) is_due: bool,
    /// Its counts, publishes apart; none yet.
    pub(super) counted: Option<Box<Counted>>,
}

/// A channel's consumer of direct replies: at most one.
#[derive(Debug)]
pub(super) struct ReplyConsumer {
    /// The reply-to of its requests.
    pub(super) name: Box<str>,
}

/// Counts of a channel.
#[derive(Debug, Default)]
pub(super) struct Counted {
    tally: Tally,
    /// Publishes that were routed nowhere, by exchange: sent back, and dropped.
    unroutable: Vec<(Box<str>, [u64; 2])>,
}

/// Exchanges for which a channel counts unroutable publishes.
const UNROUTABLE_MAX: usize = 64;

impl Channel {
    pub(super) fn new(number: u16, publisher: Publisher, prefetch: u16) -> Channel {
        Channel {
            number,
            publisher,
            confirms: None,
            transaction: None,
            does_more: false,
            reply: None,
            unconfirmed: 0,
            last_tag: 0,
            unacked: Unacked::default(),
            prefetch,
            shared: None,
            last_queue: "".into(),
            is_counted: false,
            is_due: false,
            counted: None,
        }
    }

    /// So many more of something, of a queue of this type if one has a part in it.
    #[inline]
    pub(super) fn note(&mut self, context: &mut Context<'_>, of: Option<QueueType>, count: Count, more: u64) {
        self.counted.get_or_insert_default().tally.add(count, more);
        let vhost = self.publisher.vhost();
        match of {
            Some(of) => context.shard.tallies().note_of(vhost, Protocol::Amqp091, of, count, more),
            None => context.shard.tallies().note(vhost, Protocol::Amqp091, count, more),
        }
    }

    /// A publish was routed nowhere.
    #[cold]
    pub(super) fn note_unroutable(&mut self, exchange: &[u8], is_returned: bool) {
        let at = usize::from(!is_returned);
        let unroutable = &mut self.counted.get_or_insert_default().unroutable;
        if let Some((_, counts)) = unroutable.iter_mut().find(|(name, _)| name.as_bytes() == exchange) {
            counts[at] += 1;
        } else if unroutable.len() < UNROUTABLE_MAX {
            let mut counts = [0; 2];
            counts[at] = 1;
            unroutable.push((String::from_utf8_lossy(exchange).into(), counts));
        }
    }

    /// Publishes that were routed nowhere, by exchange: sent back, and dropped.
    pub(super) fn unroutable(&self) -> Vec<(Box<str>, [u64; 2])> {
        self.counted.as_ref().map(|counted| counted.unroutable.clone()).unwrap_or_default()
    }

    /// The counts of the channel.
    pub(super) fn tally(&self) -> Tally {
        let mut tally = self.counted.as_ref().map(|counted| counted.tally).unwrap_or_default();
        tally.add(Count::Publish, self.publisher.next_seq() - 1);
        tally
    }

    /// The tag of the next delivery.
    #[inline]
    pub(super) fn next_tag(&mut self) -> u64 {
        self.last_tag += 1;
        self.last_tag
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let confirms = self.confirms.as_ref().map_or(0, |_| size_of::<Confirms>());
        let transaction = self.transaction.as_ref().map_or(0, |transaction| transaction.heap_bytes());
        let reply = self.reply.as_ref().map_or(0, |reply| size_of::<ReplyConsumer>() + reply.name.len());
        let shared = self.shared.as_ref().map_or(0, |shared| shared.heap_bytes());
        confirms
            + transaction
            + shared
            + reply
            + self.unacked.heap_bytes()
            + self.last_queue.len()
            + self.counted.as_ref().map_or(0, |counted| {
                size_of::<Counted>() + counted.unroutable.capacity() * size_of::<(Box<str>, [u64; 2])>()
            })
            + self.publisher.heap_bytes()
    }
}

/// The channels of a connection: few, found by number.
#[derive(Debug, Default)]
pub(super) struct Channels(VecDeque<Box<Channel>>);

impl Channels {
    #[inline]
    pub(super) fn get(&mut self, number: u16) -> Option<&mut Channel> {
        // Channels are numbered from 1 by most clients and kept in order.
        let guess = usize::from(number).wrapping_sub(1);
        let at = match self.0.get(guess) {
            Some(channel) if channel.number == number => guess,
            _ => self.place(number)?,
        };
        self.0.get_mut(at).map(|channel| &mut **channel)
    }

    #[inline(never)]
    fn place(&self, number: u16) -> Option<usize> {
        self.0.binary_search_by_key(&number, |channel| channel.number).ok()
    }

    pub(super) fn find(&self, number: u16) -> Option<&Channel> {
        self.0.get(self.place(number)?).map(|channel| &**channel)
    }

    pub(super) fn add(&mut self, channel: Channel) {
        let at = self.0.partition_point(|other| other.number < channel.number);
        self.0.insert(at, Box::new(channel));
    }

    pub(super) fn remove(&mut self, number: u16) -> Option<Box<Channel>> {
        let at = self.0.binary_search_by_key(&number, |channel| channel.number).ok()?;
        self.0.remove(at)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn each(&mut self, mut work: impl FnMut(&mut Channel)) {
        self.0.iter_mut().for_each(|channel| work(channel));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Channel> {
        self.0.iter().map(|channel| &**channel)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let each = |channel: &Channel| size_of::<Channel>() + channel.heap_bytes();
        self.0.capacity() * size_of::<usize>() + self.iter().map(each).sum::<usize>()
    }
}
