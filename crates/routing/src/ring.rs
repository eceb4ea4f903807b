//! The ring of a consistent-hash exchange: each destination has as many buckets as its binding key says, in the order
//! in which they were bound, and a message falls into one of them.
//!
//! A destination that is bound more than once has the buckets of its oldest binding. Changing a binding costs time in
//! proportion to how many there are, routing in proportion to its logarithm.

use crate::binding::Binding;
use crate::hash;
use crate::matches::Destination;
use crate::value::Arguments;
use base::sample::sum_of;
use rustc_hash::{FxHashMap, FxHashSet};

/// Buckets one binding may have.
pub const WEIGHT_MAX: u32 = 10_000;

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

#[derive(Clone, Debug, Default)]
pub(crate) struct Ring {
    /// In the order in which they were made.
    bindings: Vec<Binding>,
    /// How many there are of each destination.
    bound: FxHashMap<Destination, u32>,
    /// Destinations with the bucket after their last.
    ends: Vec<(u64, Destination)>,
}

impl Ring {
    /// The destination whose bucket a key falls into.
    pub(crate) fn get(&self, key: u64) -> Option<Destination> {
        let (buckets, _) = self.ends.last()?;
        let bucket = hash::jump(key, *buckets);
        let at = self.ends.partition_point(|(end, _)| *end <= bucket);
        Some(self.ends[at].1)
    }

    pub(crate) fn bind(&mut self, key: &[u8], arguments: Arguments, destination: Destination) -> bool {
        let is_first = !self.bound.contains_key(&destination);
        if !is_first && self.find(key, &arguments, destination).is_some() {
            return false;
        }
        *self.bound.entry(destination).or_default() += 1;
        let binding = Binding { key: key.into(), arguments, destination };
        if is_first {
            self.add(&binding);
        }
        self.bindings.push(binding);
        true
    }

    pub(crate) fn unbind(&mut self, key: &[u8], arguments: &Arguments, destination: Destination) -> bool {
        let Some(at) = self.find(key, arguments, destination) else { return false };
        self.bindings.remove(at);
        if let Some(left) = self.bound.get_mut(&destination) {
            *left -= 1;
            if *left == 0 {
                self.bound.remove(&destination);
            }
        }
        self.ends.clear();
        let bindings = std::mem::take(&mut self.bindings);
        let mut seen = FxHashSet::default();
        // Hashing each costs more than most rings need: as long as no destination is bound twice there is nothing to see.
        let is_simple = self.bound.len() == bindings.len();
        for binding in &bindings {
            if is_simple || seen.insert(binding.destination) {
                self.add(binding);
            }
        }
        self.bindings = bindings;
        if self.bindings.len() < self.bindings.capacity() / 4 {
            self.bindings.shrink_to(self.bindings.len() * 2);
            self.bound.shrink_to(self.bindings.len() * 2);
            self.ends.shrink_to(self.bindings.len() * 2);
        }
        true
    }

    /// Gives a destination its buckets.
    fn add(&mut self, binding: &Binding) {
        let weight = weight(&binding.key).map_or(1, |weight| weight.clamp(1, i64::from(WEIGHT_MAX)));
        let before = self.ends.last().map_or(0, |(end, _)| *end);
        self.ends.push((before + weight.unsigned_abs(), binding.destination));
    }

    fn find(&self, key: &[u8], arguments: &Arguments, destination: Destination) -> Option<usize> {
        self.bindings.iter().position(|binding| {
            binding.destination == destination && *binding.key == *key && binding.arguments == *arguments
        })
    }

    /// In the order in which they were made.
    pub(crate) fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let held =
            |binding: &Binding| binding.key.len().next_multiple_of(16) + binding.arguments.heap_bytes();
        sum_of(self.bindings.len(), self.bindings.iter(), held)
            + self.bindings.capacity() * size_of::<Binding>()
            + self.bound.capacity() * (size_of::<(Destination, u32)>() + 1)
            + self.ends.capacity() * size_of::<(u64, Destination)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::QueueId;

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
        assert_eq!(ring.ends, [(1, queue(1)), (3, queue(2)), (6, queue(3))]);
    }

    #[test]
    fn a_destination_has_the_buckets_of_its_oldest_binding() {
        let mut ring = ring(&[("1", 1), ("2", 2), ("9", 2), ("3", 3)]);
        assert_eq!(ring.ends, [(1, queue(1)), (3, queue(2)), (6, queue(3))]);
        assert!(!ring.bind(b"9", Arguments::new(), queue(2)));
        assert!(ring.unbind(b"2", &Arguments::new(), queue(2)));
        assert!(!ring.unbind(b"2", &Arguments::new(), queue(2)));
        assert_eq!(ring.ends, [(1, queue(1)), (10, queue(2)), (13, queue(3))]);
        assert!(ring.unbind(b"9", &Arguments::new(), queue(2)));
        assert_eq!(ring.ends, [(1, queue(1)), (4, queue(3))]);
        assert!(ring.unbind(b"1", &Arguments::new(), queue(1)));
        assert!(ring.unbind(b"3", &Arguments::new(), queue(3)));
        assert_eq!((ring.get(5), ring.ends.len(), ring.bound.len()), (None, 0, 0));
    }
}
