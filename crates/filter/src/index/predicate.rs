//! Questions about one field each, which filters have in common.

use super::key::Key;
use crate::compare::{compare, list_order};
use crate::machine::{PAIR_PRICE, between, bytes, count, like};
use crate::operator::Comparison;
use crate::pattern::Matcher;
use crate::program::LOOKS_A_UNIT;
use crate::value::Value;
use base::hash::ByBytes;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash};

/// Units of work of an answer beyond which a program has to be asked, which counts them.
pub(super) const DEAR: usize = 1_000;

/// The predicate that is true of every message: that of an entry with fewer guards than there may be.
pub(super) const ALWAYS: u32 = 0;

/// A question about a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Test {
    Compare(Comparison, Key),
    Between(Box<[Key; 2]>),
    /// In [order](list_order), each once.
    Among(Box<[Key]>),
    Like(Matcher),
}

/// The answer to a question, as far as it is known. Those that leave a filter out are even.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is false.
    No = 0,
    Yes = 1,
    Unknown = 2,
    /// It takes too much work to be answered here.
    Dear = 3,
}

impl Test {
    /// Its answer for a value, as a program has it.
    pub(super) fn answer(&self, value: Value<'_>) -> Answer {
        let words = if let Test::Like(matcher) = self { matcher.words() } else { 0 };
        if is_dear(value, words) {
            return Answer::Dear;
        }
        let truth = match self {
            Test::Compare(comparison, key) => compare(*comparison, value, key.value()),
            Test::Between(ends) => between(value, ends[0].value(), ends[1].value()),
            Test::Among(keys) => value.ask(|value| {
                let is_among = |value: Value<'_>| {
                    keys.binary_search_by(|key: &Key| list_order(key.value(), value)).is_ok()
                };
                match value {
                    Value::Null => None,
                    Value::Untyped(untyped) => Some(untyped.readings().any(is_among)),
                    value => Some(is_among(value)),
                }
            }),
            Test::Like(matcher) => like(value, matcher),
        };
        match truth {
            Value::Bool(true) => Answer::Yes,
            Value::Bool(false) => Answer::No,
            _ => Answer::Unknown,
        }
    }

    pub(super) fn is_equality(&self) -> bool {
        matches!(self, Test::Compare(Comparison::Equal, _))
    }

    /// Bytes it keeps on the heap.
    pub(super) fn memory(&self) -> usize {
        match self {
            Test::Compare(_, key) => key.memory(),
            Test::Between(ends) => size_of::<[Key; 2]>() + ends.iter().map(Key::memory).sum::<usize>(),
            Test::Among(keys) => size_of_val(&**keys) + keys.iter().map(Key::memory).sum::<usize>(),
            Test::Like(matcher) => matcher.memory(),
        }
    }
}

/// Whether a program may need more than [`DEAR`] units for a value that is held against so many words of a pattern.
#[inline]
pub(super) fn is_dear(value: Value<'_>, words: usize) -> bool {
    match value {
        Value::Several(_) => {
            2 * PAIR_PRICE * count(value) > DEAR
                || bytes(value).saturating_mul(words.max(1)) / LOOKS_A_UNIT > DEAR
        }
        value => {
            value.text().is_some_and(|text| text.len().saturating_mul(words.max(1)) / LOOKS_A_UNIT > DEAR)
        }
    }
}

/// A question about a place.
#[derive(Clone, Debug)]
pub(super) struct Predicate {
    pub(super) place: u32,
    pub(super) users: u32,
    pub(super) test: Test,
}

/// Predicates, each once.
#[derive(Clone, Debug)]
pub(super) struct Predicates {
    by_test: HashTable<u32>,
    list: Vec<Predicate>,
    free: Vec<u32>,
    /// Bytes of tests on the heap.
    bytes: usize,
}

fn hash(place: u32, test: &Test) -> u64 {
    ByBytes.hash_one((place, test))
}

impl Default for Predicates {
    fn default() -> Predicates {
        // Nobody asks for the answer of the first one.
        let always =
            Predicate { place: 0, users: 1, test: Test::Compare(Comparison::Equal, Key::Bool(true)) };
        Predicates { by_test: HashTable::new(), list: vec![always], free: Vec::new(), bytes: 0 }
    }
}

impl Predicates {
    /// Numbers are below this.
    pub(super) fn end(&self) -> usize {
        self.list.len()
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> &Predicate {
        &self.list[number as usize]
    }

    /// The number of a predicate that has one more user, and whether it is new.
    pub(super) fn add(&mut self, place: u32, test: Test) -> (u32, bool) {
        let Predicates { by_test, list, free, bytes } = self;
        let is_it = |other: &u32| {
            let other = &list[*other as usize];
            other.place == place && other.test == test
        };
        let hashed = hash(place, &test);
        if let Some(&number) = by_test.find(hashed, is_it) {
            list[number as usize].users += 1;
            return (number, false);
        }
        *bytes += test.memory();
        let predicate = Predicate { place, users: 1, test };
        let number = free.pop().unwrap_or(list.len() as u32);
        match list.get_mut(number as usize) {
            Some(free) => *free = predicate,
            None => list.push(predicate),
        }
        by_test.insert_unique(hashed, number, |other| {
            let other = &list[*other as usize];
            hash(other.place, &other.test)
        });
        (number, true)
    }

    /// Takes a user away; the predicate, if it was the last one.
    pub(super) fn remove(&mut self, number: u32) -> Option<Predicate> {
        let predicate = &mut self.list[number as usize];
        predicate.users -= 1;
        if predicate.users > 0 {
            return None;
        }
        if let Ok(found) =
            self.by_test.find_entry(hash(predicate.place, &predicate.test), |other| *other == number)
        {
            found.remove();
        }
        self.free.push(number);
        self.bytes -= predicate.test.memory();
        let none = Test::Compare(Comparison::Equal, Key::Bool(true));
        let Predicate { place, users, test } = predicate;
        Some(Predicate { place: *place, users: *users, test: std::mem::replace(test, none) })
    }

    /// Bytes it keeps on the heap.
    pub(super) fn memory(&self) -> usize {
        self.bytes
            + self.by_test.capacity() * (size_of::<u32>() + 1)
            + self.list.capacity() * size_of::<Predicate>()
            + self.free.capacity() * size_of::<u32>()
    }
}
