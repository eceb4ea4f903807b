//! The consumers of a connection by their channels' tags, and the placeholders for gets by queue.
//!
//! Few are searched one by one, which costs no memory. Many are in an index, or each basic.cancel and basic.get would
//! look at all of them.

use super::Adapter;
use super::consumer::Consumer;
use base::hash::ByBytes;
use base::id::QueueId;
use broker::catalog::QueueDefinition;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash};

/// Up to so many consumers are searched one by one.
const SEARCHED_MAX: usize = 32;

/// Handles by the hash of their consumer's name. Some may be of consumers that are gone or cancelled: a find looks at the
/// consumer itself.
#[derive(Debug, Default)]
pub(super) struct Finder(Option<Box<HashTable<(u64, u32)>>>);

/// The name of a consumer within its channel.
#[derive(Hash)]
enum Name<'a> {
    Tag(&'a [u8]),
    GetsFrom(QueueId),
}

fn hash(channel: u16, name: Name<'_>) -> u64 {
    ByBytes.hash_one((channel, name))
}

impl Finder {
    /// Forgets all names where the connection has few consumers left.
    pub(super) fn shrink(&mut self, consumers: usize) {
        if consumers < SEARCHED_MAX / 2 {
            self.0 = None;
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |table| size_of::<HashTable<(u64, u32)>>() + table.allocation_size())
    }
}

impl Adapter {
    /// The consumer of a channel with this tag.
    pub(super) fn by_tag(&self, channel: u16, tag: &[u8]) -> Option<u32> {
        self.find(channel, Name::Tag(tag), |handle, consumer| {
            !consumer.is_cancelled
                && self.prefix_of(handle).is_some_and(|prefix| prefix.consumer_tag() == tag)
        })
    }

    /// The placeholder for a channel's gets from a queue.
    pub(super) fn getter(&self, channel: u16, queue: &QueueDefinition) -> Option<u32> {
        self.find(channel, Name::GetsFrom(queue.id), |_, consumer| {
            consumer.is_getter() && consumer.at.queue == queue.id
        })
    }

    fn find(&self, channel: u16, name: Name<'_>, is_it: impl Fn(u32, &Consumer) -> bool) -> Option<u32> {
        let is_it = |handle: u32, consumer: &Consumer| consumer.channel == channel && is_it(handle, consumer);
        match &self.finder.0 {
            None => {
                let found = self.consumers.iter().find(|(handle, consumer)| is_it(*handle, consumer));
                found.map(|(handle, _)| handle)
            }
            Some(table) => {
                let found = table.find(hash(channel, name), |(_, handle)| {
                    self.consumers.get(*handle).is_some_and(|consumer| is_it(*handle, consumer))
                });
                found.map(|(_, handle)| *handle)
            }
        }
    }

    /// Makes a new consumer findable.
    pub(super) fn make_findable(&mut self, handle: u32) {
        let (len, named) = (self.consumers.len(), self.hash_of(handle));
        match &mut self.finder.0 {
            None if len <= SEARCHED_MAX => {}
            Some(table) if table.len() < 2 * len => {
                if let Some(named) = named {
                    table.insert_unique(named, (named, handle), |(hash, _)| *hash);
                }
            }
            // There are many now, or as many names of consumers that are gone.
            _ => {
                let handles = self.consumers.iter().map(|(handle, _)| handle);
                let mut table = HashTable::with_capacity(len);
                for (named, handle) in handles.filter_map(|handle| Some((self.hash_of(handle)?, handle))) {
                    table.insert_unique(named, (named, handle), |(hash, _)| *hash);
                }
                self.finder.0 = Some(Box::new(table));
            }
        }
    }

    fn hash_of(&self, handle: u32) -> Option<u64> {
        let consumer = self.consumers.get(handle)?;
        match self.prefix_of(handle) {
            Some(prefix) => Some(hash(consumer.channel, Name::Tag(prefix.consumer_tag()))),
            None if consumer.is_getter() => Some(hash(consumer.channel, Name::GetsFrom(consumer.at.queue))),
            None => None,
        }
    }
}
