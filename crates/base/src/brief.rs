//! Sorting and collecting in little code, for what is done rarely.
//!
//! The library's stable sort is made anew for each type and each comparison, some 8 KB of code each time, and so is the
//! making of an ordered map from an iterator, which sorts. One sort of numbers serves all here: it costs a call of a
//! function by its address per comparison, and nothing that lists of hundreds would show.

use std::cmp::Ordering;

/// Sorts, so that equal ones keep their order.
///
/// # Panics
/// The list has more than 2^32 - 1 places.
pub fn sort_by<T>(list: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let order = sorted(list.len(), &mut |a, b| compare(&list[a as usize], &list[b as usize]));
    arrange(list, order);
}

/// Sorts what has an order of its own.
///
/// # Panics
/// As [`sort_by`].
pub fn sort<T: Ord>(list: &mut [T]) {
    sort_by(list, T::cmp);
}

/// Sorts by a key, so that those of the same key keep their order. The key is made for each comparison.
///
/// # Panics
/// As [`sort_by`].
pub fn sort_by_key<T, K: Ord>(list: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(list, |a, b| key(a).cmp(&key(b)));
}

/// Adds all to an empty collection, one by one.
pub fn collect<C: Default + Extend<T>, T>(items: impl IntoIterator<Item = T>) -> C {
    let mut all = C::default();
    all.extend(items);
    all
}

/// The places of a list in the order of what is there.
#[inline(never)]
fn sorted(len: usize, compare: &mut dyn FnMut(u32, u32) -> Ordering) -> Vec<u32> {
    let len = u32::try_from(len).expect("a list has fewer than 2^32 places");
    let mut places: Vec<u32> = (0..len).collect();
    places.sort_by(|a, b| compare(*a, *b));
    places
}

/// Puts what is at `order[n]` to `n`.
fn arrange<T>(list: &mut [T], mut order: Vec<u32>) {
    for start in 0..order.len() {
        // Round a circle of places, each of which is then where it belongs.
        let mut at = start;
        loop {
            let from = std::mem::replace(&mut order[at], at as u32) as usize;
            if from == start || from == at {
                break;
            }
            list.swap(at, from);
            at = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use std::collections::BTreeMap;

    #[test]
    fn it_sorts_as_the_library_does() {
        let mut random = Random::new(7);
        for len in (0..40).chain([1000]) {
            for kinds in [1, 3, 1 << 20] {
                let list: Vec<(u64, usize)> = (0..len).map(|at| (random.below(kinds), at)).collect();
                let (mut own, mut expected) = (list.clone(), list);
                sort_by_key(&mut own, |(key, _)| *key);
                expected.sort_by_key(|(key, _)| *key);
                assert_eq!(own, expected);
                sort_by(&mut own, |a, b| b.0.cmp(&a.0));
                expected.sort_by_key(|own| std::cmp::Reverse(own.0));
                assert_eq!(own, expected);
            }
        }
    }

    #[test]
    fn the_last_of_a_key_stays() {
        let map: BTreeMap<_, _> = collect([(2, 'a'), (1, 'b'), (2, 'c')]);
        assert_eq!(map, BTreeMap::from([(1, 'b'), (2, 'c')]));
    }
}
