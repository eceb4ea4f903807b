//! The ring of a consistent-hash exchange: each destination has as many buckets as its binding key says, in the order
//! in which they were bound, and a message falls into one of them.
//!
//! A destination that is bound more than once has the buckets of its oldest binding. Changing a binding and routing cost
//! time in proportion to the logarithm of how many there are: a binding has a place, which is left empty when it goes, and
//! places are numbered anew when half of them are empty.
//!
//! Invariant: of the bindings of a destination the oldest weighs, and no other.

use crate::arguments::Arguments;
use crate::binding::Binding;
use crate::hash;
use crate::matches::Destination;
use crate::weights::Weights;
use base::hash::{ByBytes, MapById};
use base::sample::sum_of;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Buckets one binding may have.
pub const WEIGHT_MAX: u32 = 10_000;

/// Empty places that are kept whatever the others.
const EMPTY_MIN: usize = 32;

/// No place.
const NONE: u32 = u32::MAX;

/// The weight a binding key stands for: an integer with or without a sign. `None`: it is none; the weight may be out
/// of bounds.
pub(crate) fn weight(key: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match key {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits
        .iter()
        .fold(0i64, |number, digit| number.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    Some(if is_negative { -number } else { number })
}

/// The buckets of a binding with this key.
fn buckets(key: &[u8]) -> u64 {
    weight(key).map_or(1, |weight| weight.clamp(1, i64::from(WEIGHT_MAX))).unsigned_abs()
}

/// The hash by which a binding is found.
fn hash_of(key: &[u8], arguments: &Arguments, destination: Destination) -> u64 {
    ByBytes.hash_one((destination, key, arguments))
}

#[derive(Clone, Debug)]
struct Place {
    binding: Binding,
    /// The places of the bindings of the same destination before and after this one.
    older: u32,
    younger: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Ring {
    /// In the order in which they were made; `None`: a binding was here.
    places: Vec<Option<Place>>,
    /// Empty places.
    empty: usize,
    /// From a binding to its place.
    index: HashTable<u32>,
    /// The place of each destination's youngest binding.
    youngest: MapById<Destination, u32>,
    /// The buckets of `places`.
    weights: Weights,
}

impl Ring {
    /// The destination whose bucket a key falls into.
    pub(crate) fn get(&self, key: u64) -> Option<Destination> {
        let buckets = self.weights.total();
        if buckets == 0 {
            return None;
        }
        let at = self.weights.find(hash::jump(key, buckets))?;
        self.places[at].as_ref().map(|place| place.binding.destination)
    }

    /// The bindings of a destination, the youngest first, by their places.
    pub(crate) fn bindings_of(&self, destination: Destination) -> impl Iterator<Item = u32> {
        let place = |at: u32| self.places.get(at as usize).and_then(Option::as_ref);
        let youngest = self.youngest.get(&destination).copied();
        std::iter::successors(youngest, move |at| place(*at).map(|place| place.older))
            .take_while(|at| *at != NONE)
    }

    pub(crate) fn bind(&mut self, key: &[u8], arguments: Arguments, destination: Destination) -> bool {
        if self.find(key, &arguments, destination).is_some() {
            return false;
        }
        let at = self.places.len() as u32;
        let hash = hash_of(key, &arguments, destination);
        let older = self.youngest.insert(destination, at).unwrap_or(NONE);
        if let Some(older) = self.place_mut(older) {
            older.younger = at;
        }
        self.weights.push(if older == NONE { buckets(key) } else { 0 });
        let binding = Binding { key: key.into(), arguments, destination };
        self.places.push(Some(Place { binding, older, younger: NONE }));
        let places = &self.places;
        self.index.insert_unique(hash, at, |at| Ring::hash_at(places, *at));
        true
    }

    pub(crate) fn unbind(&mut self, key: &[u8], arguments: &Arguments, destination: Destination) -> bool {
        let (hash, places) = (hash_of(key, arguments, destination), &self.places);
        let is_it = |at: &u32| Ring::is_at(places, *at, key, arguments, destination);
        let Ok(entry) = self.index.find_entry(hash, is_it) else { return false };
        let (at, _) = entry.remove();
        let place = self.places[at as usize].take().expect("a binding in the index has a place");
        self.empty += 1;
        if let Some(older) = self.place_mut(place.older) {
            older.younger = place.younger;
        } else {
            self.weights.take(at as usize, buckets(key));
            if let Some(Some(next)) = self.places.get(place.younger as usize) {
                self.weights.add(place.younger as usize, buckets(&next.binding.key));
            }
        }
        if let Some(younger) = self.place_mut(place.younger) {
            younger.older = place.older;
        }
        match (place.older, place.younger) {
            (NONE, NONE) => _ = self.youngest.remove(&destination),
            (older, NONE) => _ = self.youngest.insert(destination, older),
            _ => {}
        }
        if self.empty > EMPTY_MIN.max(self.places.len() / 2) || self.empty == self.places.len() {
            self.number_anew();
        }
        true
    }

    /// Takes the empty places out. Amortized O(1) a removal, and memory follows.
    #[cold]
    fn number_anew(&mut self) {
        let mut numbers = Vec::with_capacity(self.places.len());
        let mut next = 0;
        for place in &self.places {
            numbers.push(next);
            next += u32::from(place.is_some());
        }
        let number = |at: u32| numbers.get(at as usize).copied().unwrap_or(NONE);
        let mut places = Vec::with_capacity(next as usize);
        for mut place in std::mem::take(&mut self.places).into_iter().flatten() {
            (place.older, place.younger) = (number(place.older), number(place.younger));
            places.push(Some(place));
        }
        self.places = places;
        self.empty = 0;
        self.index.iter_mut().for_each(|at| *at = number(*at));
        self.youngest.values_mut().for_each(|at| *at = number(*at));
        let weight = |place: &Place| if place.older == NONE { buckets(&place.binding.key) } else { 0 };
        self.weights = self.places.iter().map(|place| place.as_ref().map_or(0, weight)).collect();
        let places = &self.places;
        self.index.shrink_to(places.len() * 2, |at| Ring::hash_at(places, *at));
        self.youngest.shrink_to(self.youngest.len() * 2);
    }

    fn place_mut(&mut self, at: u32) -> Option<&mut Place> {
        self.places.get_mut(at as usize)?.as_mut()
    }

    fn find(&self, key: &[u8], arguments: &Arguments, destination: Destination) -> Option<u32> {
        let hash = hash_of(key, arguments, destination);
        let is_it = |at: &u32| Ring::is_at(&self.places, *at, key, arguments, destination);
        self.index.find(hash, is_it).copied()
    }

    fn is_at(
        places: &[Option<Place>],
        at: u32,
        key: &[u8],
        arguments: &Arguments,
        destination: Destination,
    ) -> bool {
        places[at as usize].as_ref().is_some_and(|place| {
            let own = &place.binding;
            own.destination == destination && *own.key == *key && own.arguments == *arguments
        })
    }

    fn hash_at(places: &[Option<Place>], at: u32) -> u64 {
        let place = places[at as usize].as_ref().expect("a binding in the index has a place");
        let Binding { key, arguments, destination } = &place.binding;
        hash_of(key, arguments, *destination)
    }

    /// In the order in which they were made.
    pub(crate) fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.places.iter().flatten().map(|place| &place.binding)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let held = |place: &Option<Place>| {
            place.as_ref().map_or(0, |Place { binding, .. }| binding.key.len().next_multiple_of(16))
        };
        sum_of(self.places.len(), self.places.iter(), held)
            + self.places.capacity() * size_of::<Option<Place>>()
            + self.index.allocation_size()
            + self.youngest.capacity() * (size_of::<(Destination, u32)>() + 1)
            + self.weights.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Random;
    use base::id::QueueId;
    use std::collections::BTreeSet;

    fn queue(id: u64) -> Destination {
        Destination::Queue(QueueId(id))
    }

    fn ring(bindings: &[(&str, u64)]) -> Ring {
        let mut ring = Ring::default();
        for (key, id) in bindings {
            assert!(ring.bind(key.as_bytes(), Arguments::new(), queue(*id)));
        }
        ring
    }

    /// Destinations with the bucket after their last.
    fn ends(ring: &Ring) -> Vec<(u64, Destination)> {
        let buckets = (0..ring.weights.total()).map(|bucket| {
            let place = ring.places[ring.weights.find(bucket).unwrap()].as_ref();
            (bucket + 1, place.unwrap().binding.destination)
        });
        let mut ends: Vec<(u64, Destination)> = Vec::new();
        for (end, destination) in buckets {
            match ends.last_mut() {
                Some(last) if last.1 == destination => last.0 = end,
                _ => ends.push((end, destination)),
            }
        }
        ends
    }

    #[test]
    fn weights_are_integers() {
        let rows = [
            ("1", Some(1)),
            ("007", Some(7)),
            ("+5", Some(5)),
            ("-1", Some(-1)),
            ("99999999999999999999999", Some(i64::MAX)),
            ("", None),
            ("+", None),
            ("--1", None),
            (" 5", None),
            ("1.0", None),
        ];
        for (key, expected) in rows {
            assert_eq!(weight(key.as_bytes()), expected, "{key}");
        }
    }

    #[test]
    fn buckets_are_as_many_as_the_weight_says() {
        let ring = ring(&[("1", 1), ("2", 2), ("3", 3)]);
        assert_eq!(ends(&ring), [(1, queue(1)), (3, queue(2)), (6, queue(3))]);
    }

    #[test]
    fn a_destination_has_the_buckets_of_its_oldest_binding() {
        let mut ring = ring(&[("1", 1), ("2", 2), ("9", 2), ("3", 3)]);
        assert_eq!(ends(&ring), [(1, queue(1)), (3, queue(2)), (6, queue(3))]);
        assert!(!ring.bind(b"9", Arguments::new(), queue(2)));
        assert!(ring.unbind(b"2", &Arguments::new(), queue(2)));
        assert!(!ring.unbind(b"2", &Arguments::new(), queue(2)));
        assert_eq!(ends(&ring), [(1, queue(1)), (10, queue(2)), (13, queue(3))]);
        assert!(ring.unbind(b"9", &Arguments::new(), queue(2)));
        assert_eq!(ends(&ring), [(1, queue(1)), (4, queue(3))]);
        assert!(ring.unbind(b"1", &Arguments::new(), queue(1)));
        assert!(ring.unbind(b"3", &Arguments::new(), queue(3)));
        assert_eq!((ring.get(5), ring.places.len(), ring.youngest.len()), (None, 0, 0));
    }

    /// Against a list in the order of binding, whose destinations weigh by their first binding.
    #[test]
    fn buckets_are_those_of_a_list() {
        let mut dice = Random::new(11);
        let (mut ring, mut model) = (Ring::default(), Vec::<(u64, String)>::new());
        for round in 0..5_000u64 {
            // At first more come than go, then more go.
            let comes = dice.below(10) < if round < 2_500 { 7 } else { 2 };
            let (id, key) = (dice.below(40), (1 + dice.below(9)).to_string());
            let known = model.iter().position(|own| *own == (id, key.clone()));
            if comes {
                assert_eq!(ring.bind(key.as_bytes(), Arguments::new(), queue(id)), known.is_none());
                if known.is_none() {
                    model.push((id, key));
                }
            } else {
                assert_eq!(ring.unbind(key.as_bytes(), &Arguments::new(), queue(id)), known.is_some());
                known.map(|at| model.remove(at));
            }
            let (mut seen, mut end, mut expected) = (BTreeSet::new(), 0, Vec::new());
            for (id, key) in model.iter().filter(|(id, _)| seen.insert(*id)) {
                end += key.parse::<u64>().unwrap();
                expected.push((end, queue(*id)));
            }
            assert_eq!(ends(&ring), expected);
            let listed = ring.bindings().map(|own| (own.destination, String::from_utf8_lossy(&own.key)));
            assert!(listed.eq(model.iter().map(|(id, key)| (queue(*id), key.into()))));
            assert!(ring.places.len() <= 2 * model.len() + EMPTY_MIN + 1);
            assert_eq!(ring.youngest.len(), expected.len());
        }
    }
}
