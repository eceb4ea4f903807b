//! The fields that filters of an index read, each once, and what is filed by each.

use super::access::{Statistics, Target, Wanted, number};
use super::bucket::Buckets;
use super::filter::Entry;
use super::key::Key;
use super::predicate::Test;
use super::spans::Spans;
use crate::path::Paths;
use crate::shape::Shape;
use crate::value::Field;
use base::hash::ByBytes;
use hashbrown::HashTable;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;

/// A field, and what is filed by it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// One of the shapes that have it, and its number there: where its name is kept.
    shape: Arc<Shape>,
    number: u32,
    /// Its slot among the paths, if it is in the body.
    pub(super) slot: Option<u32>,
    /// Shapes that have it.
    users: u32,
    /// Buckets of constants.
    pub(super) keys: u32,
    /// Lengths of prefixes in bytes, with how many prefixes there are of each.
    pub(super) prefixes: BTreeMap<usize, u32>,
    pub(super) numbers: Spans<u64>,
    pub(super) texts: Spans<u128>,
    /// Predicates that ask for equality.
    constants: u32,
    /// Bounded ranges of numbers that filters had, the least and the most number of one.
    ranges: u32,
    hull: [f64; 2],
}

/// Where an entry of a filter stands.
#[derive(Clone, Debug)]
pub(super) enum Posting {
    Always { at: u32 },
    Bucket { bucket: u32, at: u32 },
    Numbers { place: u32, ends: [u64; 2] },
    Texts { place: u32, ends: Box<[u128; 2]> },
}

/// All places.
#[derive(Clone, Debug)]
pub(super) struct Places {
    by_field: HashTable<u32>,
    list: Vec<Place>,
    free: Vec<u32>,
    /// Those in the body, as a tree.
    pub(super) paths: Paths,
    pub(super) buckets: Buckets,
}

impl Default for Places {
    fn default() -> Places {
        let none: [&crate::Path; 0] = [];
        Places {
            by_field: HashTable::new(),
            list: Vec::new(),
            free: Vec::new(),
            paths: Paths::new(none),
            buckets: Buckets::default(),
        }
    }
}

impl Place {
    pub(super) fn field(&self) -> Field<'_> {
        self.shape.field(self.number)
    }

    /// Whether anything is filed by it.
    #[inline]
    pub(super) fn is_looked_up(&self) -> bool {
        self.keys > 0 || !self.prefixes.is_empty() || !self.numbers.is_empty() || !self.texts.is_empty()
    }

    /// A range that a filter has, whether it is filed by it or not.
    fn note(&mut self, ends: [Option<f64>; 2]) {
        if let [Some(least), Some(most)] = ends {
            self.ranges = self.ranges.saturating_add(1);
            self.hull = [self.hull[0].min(least), self.hull[1].max(most)];
        }
    }
}

impl Places {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len() - self.free.len()
    }

    /// Numbers are below this.
    pub(super) fn end(&self) -> usize {
        self.list.len()
    }

    pub(super) fn all(&self) -> &[Place] {
        &self.list
    }

    pub(super) fn used(&self) -> impl Iterator<Item = &Place> {
        self.list.iter().filter(|place| place.users > 0)
    }

    pub(super) fn find(&self, field: Field<'_>) -> Option<u32> {
        self.by_field
            .find(ByBytes.hash_one(field), |place| self.list[*place as usize].field() == field)
            .copied()
    }

    /// How many of the fields of a shape are new.
    pub(super) fn news(&self, shape: &Shape) -> usize {
        shape.all().filter(|field| self.find(*field).is_none()).count()
    }

    /// The places of the fields of a shape, each of which has one more user.
    pub(super) fn enter(&mut self, shape: &Arc<Shape>) -> Box<[u32]> {
        (0..).zip(shape.all()).map(|(number, field)| self.place(shape, number, field)).collect()
    }

    fn place(&mut self, shape: &Arc<Shape>, number: u32, field: Field<'_>) -> u32 {
        if let Some(found) = self.find(field) {
            self.list[found as usize].users += 1;
            return found;
        }
        let slot = match field {
            Field::Body(path) => Some(self.paths.insert(path) as u32),
            _ => None,
        };
        let place = Place {
            shape: shape.clone(),
            number,
            slot,
            users: 1,
            keys: 0,
            prefixes: BTreeMap::new(),
            numbers: Spans::default(),
            texts: Spans::default(),
            constants: 0,
            ranges: 0,
            hull: [f64::INFINITY, f64::NEG_INFINITY],
        };
        let at = self.free.pop().unwrap_or(self.list.len() as u32);
        match self.list.get_mut(at as usize) {
            Some(free) => *free = place,
            None => self.list.push(place),
        }
        let list = &self.list;
        self.by_field.insert_unique(ByBytes.hash_one(field), at, |other| {
            ByBytes.hash_one(list[*other as usize].field())
        });
        at
    }

    /// Takes a user of places away; of those that have none, nothing is left.
    pub(super) fn leave(&mut self, places: &[u32]) {
        for &at in places {
            let place = &mut self.list[at as usize];
            place.users -= 1;
            if place.users > 0 {
                continue;
            }
            let place = &self.list[at as usize];
            if let Ok(found) = self.by_field.find_entry(ByBytes.hash_one(place.field()), |other| *other == at)
            {
                found.remove();
            }
            if let Field::Body(path) = place.field() {
                self.paths.remove(path);
            }
            self.free.push(at);
        }
    }

    /// Notes what the conditions of a filter tell of their fields.
    pub(super) fn note(&mut self, place: u32, test: &Test, is_new: bool) {
        let place = &mut self.list[place as usize];
        place.constants += u32::from(is_new && test.is_equality());
    }

    pub(super) fn note_range(&mut self, place: u32, ends: [&Key; 2]) {
        let ends = ends.map(|key| number(Some(key.value())));
        self.list[place as usize].note(ends);
    }

    /// A predicate is gone.
    pub(super) fn forget(&mut self, place: u32, test: &Test) {
        let place = &mut self.list[place as usize];
        place.constants -= u32::from(test.is_equality());
    }

    /// Files an entry. None: it stands there already.
    pub(super) fn file(&mut self, wanted: &Wanted<'_>, entry: Entry) -> Option<Posting> {
        let at = self.find(wanted.name.field()).expect("the fields of a filter have places");
        let place = &mut self.list[at as usize];
        match &wanted.at {
            Target::Numbers(ends) => {
                place.numbers.insert(*ends, entry);
                Some(Posting::Numbers { place: at, ends: *ends })
            }
            Target::Texts(ends) => {
                place.texts.insert(*ends, entry);
                Some(Posting::Texts { place: at, ends: Box::new(*ends) })
            }
            Target::Key(key) => {
                let (bucket, row, is_new) = self.buckets.file(at, false, key, entry)?;
                place.keys += u32::from(is_new);
                Some(Posting::Bucket { bucket, at: row })
            }
            Target::Prefix(key) => {
                let (bucket, row, is_new) = self.buckets.file(at, true, key, entry)?;
                if is_new {
                    *place.prefixes.entry(key.memory()).or_default() += 1;
                }
                Some(Posting::Bucket { bucket, at: row })
            }
        }
    }

    /// Takes an entry of a filter out of a bucket; the filter whose entry stands where it stood.
    pub(super) fn take(&mut self, bucket: u32, at: u32) -> Option<u32> {
        let taken = self.buckets.take(bucket, at);
        if let Some((place, is_prefix, length)) = taken.gone {
            let place = &mut self.list[place as usize];
            if !is_prefix {
                place.keys -= 1;
            } else if let Some(count) = place.prefixes.get_mut(&length) {
                *count -= 1;
                if *count == 0 {
                    place.prefixes.remove(&length);
                }
            }
        }
        taken.moved
    }

    pub(super) fn take_numbers(&mut self, place: u32, ends: [u64; 2], filter: u32) {
        self.list[place as usize].numbers.remove(ends, filter);
    }

    pub(super) fn take_texts(&mut self, place: u32, ends: [u128; 2], filter: u32) {
        self.list[place as usize].texts.remove(ends, filter);
    }

    /// Bytes it keeps on the heap.
    pub(super) fn memory(&self) -> usize {
        let of_place = |place: &Place| {
            place.prefixes.len() * size_of::<(usize, u32)>() + place.numbers.memory() + place.texts.memory()
        };
        self.by_field.capacity() * (size_of::<u32>() + 1)
            + self.list.capacity() * size_of::<Place>()
            + self.free.capacity() * size_of::<u32>()
            + self.list.iter().map(of_place).sum::<usize>()
            + self.paths.memory()
            + self.buckets.memory()
    }
}

impl Statistics for Places {
    fn constants(&self, field: Field<'_>) -> usize {
        let place = self.find(field).map(|place| &self.list[place as usize]);
        place.map_or(0, |place| place.keys.max(place.constants) as usize)
    }

    fn prefixes(&self, field: Field<'_>) -> usize {
        let place = self.find(field).map(|place| &self.list[place as usize]);
        place.map_or(0, |place| place.prefixes.values().map(|count| *count as usize).sum())
    }

    fn ranges(&self, field: Field<'_>) -> (usize, [f64; 2]) {
        let place = self.find(field).map(|place| &self.list[place as usize]);
        place.map_or((0, [0.0; 2]), |place| (place.ranges as usize, place.hull))
    }
}
