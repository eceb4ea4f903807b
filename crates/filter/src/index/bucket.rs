//! Filters by a constant that a field has to equal, or to begin with.

use super::filter::Entry;
use super::key::{Key, canonical, hash};
use crate::value::Value;
use hashbrown::HashTable;

/// A key, and the filters under it.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    place: u32,
    is_prefix: bool,
    key: Key,
    pub(super) entries: Vec<Entry>,
}

/// Buckets by place and key.
#[derive(Clone, Debug, Default)]
pub(super) struct Buckets {
    by_key: HashTable<u32>,
    buckets: Vec<Bucket>,
    free: Vec<u32>,
    /// Bytes of keys and entries on the heap.
    bytes: usize,
}

/// The fate of an entry's bucket when it was taken out.
pub(super) struct Taken {
    /// The filter whose entry stands where it stood.
    pub(super) moved: Option<u32>,
    /// The place and kind of the bucket, and the length of its key, where it was the last one.
    pub(super) gone: Option<(u32, bool, usize)>,
}

impl Bucket {
    fn is(&self, place: u32, is_prefix: bool, value: Value<'_>) -> bool {
        (self.place, self.is_prefix) == (place, is_prefix) && self.key.value() == value
    }
}

impl Buckets {
    /// The number of the bucket of a value.
    #[inline]
    pub(super) fn find(&self, place: u32, is_prefix: bool, value: Value<'_>) -> Option<u32> {
        let value = canonical(value);
        let is_it = |bucket: &u32| self.buckets[*bucket as usize].is(place, is_prefix, value);
        self.by_key.find(hash(place, is_prefix, value), is_it).copied()
    }

    #[inline]
    pub(super) fn entries(&self, bucket: u32) -> &[Entry] {
        &self.buckets[bucket as usize].entries
    }

    /// Files an entry: the bucket and where in it, and whether the bucket is new. None: it stands there already.
    pub(super) fn file(
        &mut self,
        place: u32,
        is_prefix: bool,
        key: &Key,
        entry: Entry,
    ) -> Option<(u32, u32, bool)> {
        let value = canonical(key.value());
        let found = self.find(place, is_prefix, value);
        let number = found.unwrap_or_else(|| self.open(place, is_prefix, value));
        let entries = &mut self.buckets[number as usize].entries;
        // A filter files all its entries before another one files any.
        if entries.last().is_some_and(|last| last.filter == entry.filter) {
            return None;
        }
        let before = entries.capacity();
        entries.push(entry);
        self.bytes += (entries.capacity() - before) * size_of::<Entry>();
        Some((number, entries.len() as u32 - 1, found.is_none()))
    }

    fn open(&mut self, place: u32, is_prefix: bool, value: Value<'_>) -> u32 {
        let key = Key::of(value).expect("keys are made of constants");
        self.bytes += key.memory();
        let bucket = Bucket { place, is_prefix, key, entries: Vec::new() };
        let number = self.free.pop().unwrap_or(self.buckets.len() as u32);
        match self.buckets.get_mut(number as usize) {
            Some(free) => *free = bucket,
            None => self.buckets.push(bucket),
        }
        let Buckets { by_key, buckets, .. } = self;
        by_key.insert_unique(hash(place, is_prefix, value), number, |other| {
            let other = &buckets[*other as usize];
            hash(other.place, other.is_prefix, other.key.value())
        });
        number
    }

    /// Takes an entry out.
    pub(super) fn take(&mut self, number: u32, at: u32) -> Taken {
        let bucket = &mut self.buckets[number as usize];
        bucket.entries.swap_remove(at as usize);
        if let Some(moved) = bucket.entries.get(at as usize) {
            return Taken { moved: Some(moved.filter), gone: None };
        }
        if !bucket.entries.is_empty() {
            return Taken { moved: None, gone: None };
        }
        let Bucket { place, is_prefix, key, entries } = bucket;
        let hash = hash(*place, *is_prefix, key.value());
        let length = key.memory();
        self.bytes -= length + entries.capacity() * size_of::<Entry>();
        *entries = Vec::new();
        *key = Key::Bool(false);
        let gone = Some((*place, *is_prefix, length));
        if let Ok(found) = self.by_key.find_entry(hash, |other| *other == number) {
            found.remove();
        }
        self.free.push(number);
        Taken { moved: None, gone }
    }

    /// Bytes it keeps on the heap.
    pub(super) fn memory(&self) -> usize {
        self.bytes
            + self.by_key.capacity() * (size_of::<u32>() + 1)
            + self.buckets.capacity() * size_of::<Bucket>()
            + self.free.capacity() * size_of::<u32>()
    }
}
