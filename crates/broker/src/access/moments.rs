//! Keys with a moment each, of which the earliest is found as quickly as any.
//!
//! Invariant: `order` has each key of `at` once, under its moment.

use std::collections::{BTreeMap, BTreeSet};

/// See the module. Moments are the caller's, such as nanoseconds.
#[derive(Debug)]
pub(super) struct Moments<K> {
    at: BTreeMap<K, u64>,
    order: BTreeSet<(u64, K)>,
}

impl<K> Default for Moments<K> {
    fn default() -> Moments<K> {
        Moments { at: BTreeMap::new(), order: BTreeSet::new() }
    }
}

impl<K: Copy + Ord> Moments<K> {
    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.at.len()
    }

    /// The moment of a key, if it is there.
    pub(super) fn get(&self, key: &K) -> Option<u64> {
        self.at.get(key).copied()
    }

    /// A key has this moment from now on.
    pub(super) fn set(&mut self, key: K, moment: u64) {
        if let Some(before) = self.at.insert(key, moment) {
            self.order.remove(&(before, key));
        }
        self.order.insert((moment, key));
    }

    /// A key goes.
    pub(super) fn remove(&mut self, key: &K) {
        if let Some(moment) = self.at.remove(key) {
            self.order.remove(&(moment, *key));
        }
    }

    /// The key with the earliest moment.
    pub(super) fn earliest(&self) -> Option<K> {
        self.order.first().map(|(_, key)| *key)
    }

    /// The keys from one on with their moments, in the order of keys.
    pub(super) fn from(&self, first: K) -> impl Iterator<Item = (K, u64)> {
        self.at.range(first..).map(|(key, moment)| (*key, *moment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_is_found_whatever_changes() {
        let mut moments = Moments::default();
        assert_eq!((moments.earliest(), moments.len()), (None, 0));
        for (key, moment, earliest) in [(1, 5, 1), (2, 3, 2), (3, 3, 2), (2, 9, 3), (3, 6, 1)] {
            moments.set(key, moment);
            assert_eq!(moments.earliest(), Some(earliest), "{key} {moment}");
        }
        assert_eq!(moments.from(2).collect::<Vec<_>>(), [(2, 9), (3, 6)]);
        moments.remove(&1);
        moments.remove(&1);
        assert_eq!((moments.earliest(), moments.len(), moments.get(&1)), (Some(3), 2, None));
    }
}
