//! A line in which each key has one turn after the other, however much of it waits, and only so many at once.

use std::collections::{BTreeMap, VecDeque};

/// See the module.
///
/// Invariant: a key is in `order` once while something of it waits, and else not.
#[derive(Debug)]
pub struct Rota<K, T> {
    at_once_max: usize,
    waiting: BTreeMap<K, VecDeque<T>>,
    order: VecDeque<K>,
    /// Rota of a key that are not over.
    running: BTreeMap<K, usize>,
}

impl<K: Ord + Clone, T> Rota<K, T> {
    /// An empty line, where a key has at most so many turns at once.
    pub fn new(at_once_max: usize) -> Rota<K, T> {
        Rota { at_once_max, waiting: BTreeMap::new(), order: VecDeque::new(), running: BTreeMap::new() }
    }

    /// Puts something in, behind all of its key.
    pub fn push(&mut self, key: K, what: T) {
        let waiting = self.waiting.entry(key.clone()).or_default();
        waiting.push_back(what);
        if waiting.len() == 1 {
            self.order.push_back(key);
        }
    }

    /// The next one, whose turn lasts until [`Rota::end`].
    pub fn pop(&mut self) -> Option<(K, T)> {
        let may = |key: &K| self.running.get(key).is_none_or(|count| *count < self.at_once_max);
        let at = self.order.iter().position(may)?;
        let key = self.order.remove(at)?;
        let waiting = self.waiting.get_mut(&key)?;
        let what = waiting.pop_front()?;
        match waiting.is_empty() {
            true => drop(self.waiting.remove(&key)),
            false => self.order.push_back(key.clone()),
        }
        *self.running.entry(key.clone()).or_default() += 1;
        Some((key, what))
    }

    /// A turn of this key is over.
    pub fn end(&mut self, key: &K) {
        if let Some(count) = self.running.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.running.remove(key);
            }
        }
    }

    /// How much waits.
    pub fn len(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts in the words of a text, by their first letters, and takes out the order that is expected.
    fn check(at_once_max: usize, given: &str, ends: bool, expected: &str) {
        let mut rota = Rota::new(at_once_max);
        given.split(' ').for_each(|word| rota.push(word.chars().next(), word));
        let mut order = Vec::new();
        while let Some((key, word)) = rota.pop() {
            order.push(word);
            if ends {
                rota.end(&key);
            }
        }
        assert_eq!(order.join(" "), expected, "{given}");
        let left = given.split(' ').count() - order.len();
        assert_eq!(rota.is_empty(), left == 0);
        assert_eq!(rota.len(), left);
        assert_eq!(rota.running.is_empty(), ends);
    }

    #[test]
    fn each_key_has_a_turn_after_the_other() {
        check(1, "a1", true, "a1");
        check(1, "a1 a2 a3 b1 c1 c2", true, "a1 b1 c1 a2 c2 a3");
        check(9, "a1 a2 a3 b1", true, "a1 b1 a2 a3");
    }

    #[test]
    fn a_key_has_only_so_many_turns_at_once() {
        check(1, "a1 a2 a3 b1 c1 c2", false, "a1 b1 c1");
        check(2, "a1 a2 a3 b1", false, "a1 b1 a2");
    }

    #[test]
    fn a_key_waits_for_its_own_turn_alone() {
        let mut rota = Rota::new(1);
        ["a1", "a2"].into_iter().for_each(|word| rota.push('a', word));
        assert_eq!(rota.pop(), Some(('a', "a1")));
        assert_eq!(rota.pop(), None);
        rota.push('b', "b1");
        assert_eq!(rota.pop(), Some(('b', "b1")));
        rota.end(&'a');
        assert_eq!(rota.pop(), Some(('a', "a2")));
        rota.end(&'a');
        rota.end(&'b');
        assert!(rota.is_empty() && rota.running.is_empty());
    }
}
