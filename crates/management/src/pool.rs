//! A pool of things that are all alike, such as bytes: how many there are, and the most that one key may have of them.
//! It counts what it refused, by key; of very many keys those are forgotten first that come last in their order.

use std::collections::BTreeMap;

/// See the module.
#[derive(Clone, Debug)]
pub struct Pool<K> {
    most: usize,
    share_max: usize,
    used: usize,
    by: BTreeMap<K, usize>,
    refused: Refused<K>,
}

/// Places of a kind that clients share: connections, or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRow {
    /// The kind.
    pub name: &'static str,
    /// How many there are; none: as many as users' shares come to.
    pub most: Option<u64>,
    /// How many are taken.
    pub taken: u64,
    /// How often a client had to go without.
    pub refused: u64,
    /// How often one that had a place was closed for another.
    pub given_up: u64,
    /// The users that have some, or were refused some.
    pub by_user: BTreeMap<String, PlacesOf>,
}

/// The places of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacesOf {
    /// Those that are taken.
    pub taken: u64,
    /// How often the user had to go without.
    pub refused: u64,
}

impl PoolRow {
    /// The name of the places of AMQP's and streams' connections, which are not counted by user here: [`TenantRow`] has
    /// how many a user has.
    ///
    /// [`TenantRow`]: broker::TenantRow
    pub const CONNECTIONS: &'static str = "connections";

    /// A kind of places of which nobody has any.
    pub fn new(name: &'static str, most: Option<u64>) -> PoolRow {
        PoolRow { name, most, taken: 0, refused: 0, given_up: 0, by_user: BTreeMap::new() }
    }

    /// A user's entry.
    pub fn of(&mut self, user: &str) -> &mut PlacesOf {
        self.by_user.entry(user.to_owned()).or_default()
    }
}

/// Refusals, by key.
#[derive(Clone, Debug)]
pub struct Refused<K> {
    total: u64,
    by: BTreeMap<K, u64>,
}

/// Keys whose refusals are told apart.
const REFUSED_KEYS_MAX: usize = 1024;

impl<K> Default for Refused<K> {
    fn default() -> Refused<K> {
        Refused { total: 0, by: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Refused<K> {
    /// Once more.
    pub fn add(&mut self, key: &K) {
        self.total += 1;
        match self.by.get_mut(key) {
            Some(count) => *count += 1,
            None => {
                self.by.insert(key.clone(), 1);
                if self.by.len() > REFUSED_KEYS_MAX {
                    self.by.pop_last();
                }
            }
        }
    }

    /// In all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// By key.
    pub fn by(&self) -> impl Iterator<Item = (&K, u64)> {
        self.by.iter().map(|(key, count)| (key, *count))
    }
}

/// Why something is not there to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// All of the pool is taken.
    Pool,
    /// The key has its share.
    Share,
}

impl<K: Ord + Clone> Pool<K> {
    /// So many of which one key has at most `share_max`.
    pub fn new(most: usize, share_max: usize) -> Pool<K> {
        Pool { most, share_max, used: 0, by: BTreeMap::new(), refused: Refused::default() }
    }

    /// Takes so many for a key.
    ///
    /// # Errors
    /// They are not there, or not for this key.
    pub fn take(&mut self, key: &K, count: usize) -> Result<(), Short> {
        if self.used.saturating_add(count) > self.most {
            return Err(Short::Pool);
        }
        if self.of(key).saturating_add(count) > self.share_max {
            return Err(Short::Share);
        }
        self.add(key, count);
        Ok(())
    }

    /// The same of something that cannot be made smaller: whoever has nothing is not asked for the share, and where
    /// nobody has anything it is taken at any size.
    ///
    /// # Errors
    /// As [`Pool::take`].
    pub fn take_whole(&mut self, key: &K, count: usize) -> Result<(), Short> {
        let is_in = self.used.saturating_add(count) <= self.most;
        if self.used == 0 || (is_in && self.of(key) == 0) {
            self.add(key, count);
            return Ok(());
        }
        self.take(key, count)
    }

    /// Somebody had to go without.
    pub fn refuse(&mut self, key: &K) {
        self.refused.add(key);
    }

    /// Refusals, in all and by key.
    pub fn refused(&self) -> &Refused<K> {
        &self.refused
    }

    /// The most there are.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The keys that have some, and how many.
    pub fn by(&self) -> impl Iterator<Item = (&K, usize)> {
        self.by.iter().map(|(key, count)| (key, *count))
    }

    fn add(&mut self, key: &K, count: usize) {
        self.used += count;
        if count > 0 {
            *self.by.entry(key.clone()).or_default() += count;
        }
    }

    /// Gives back so many of those that a key has.
    pub fn give(&mut self, key: &K, count: usize) {
        if let Some(own) = self.by.get_mut(key) {
            let back = count.min(*own);
            *own -= back;
            self.used -= back;
            if *own == 0 {
                self.by.remove(key);
            }
        }
    }

    /// How many a key has.
    pub fn of(&self, key: &K) -> usize {
        self.by.get(key).copied().unwrap_or(0)
    }

    /// How many are taken.
    pub fn used(&self) -> usize {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_share_and_all_have_the_pool() {
        let mut pool = Pool::new(10, 4);
        let mut take = |key: &str, count, expected| {
            assert_eq!(pool.take(&key.to_owned(), count), expected, "{key} {count}");
        };
        take("a", 5, Err(Short::Share));
        take("a", 3, Ok(()));
        take("a", 2, Err(Short::Share));
        take("a", 1, Ok(()));
        take("b", 4, Ok(()));
        take("c", 3, Err(Short::Pool));
        take("c", 2, Ok(()));
        take("d", 0, Ok(()));
        pool.give(&"a".to_owned(), 4);
        assert_eq!((pool.used(), pool.of(&"a".to_owned()), pool.by.len()), (6, 0, 2));
        // More than it has is never given back.
        pool.give(&"b".to_owned(), 100);
        pool.give(&"nobody".to_owned(), 1);
        assert_eq!(pool.used(), 2);
    }

    #[test]
    fn refusals_are_counted_by_key_for_so_many_keys() {
        let mut pool = Pool::new(1, 1);
        for key in (0..REFUSED_KEYS_MAX + 5).chain([7, 7]) {
            pool.refuse(&key);
        }
        let refused = pool.refused();
        assert_eq!(refused.total(), REFUSED_KEYS_MAX as u64 + 7);
        assert_eq!(refused.by().count(), REFUSED_KEYS_MAX);
        assert!(refused.by().any(|(key, count)| (*key, count) == (7, 3)));
        assert!(refused.by().all(|(key, _)| *key < REFUSED_KEYS_MAX));
    }

    #[test]
    fn one_thing_alone_is_taken_at_any_size() {
        let mut pool = Pool::new(10, 4);
        let mut take = |key: &'static str, count, expected| {
            assert_eq!(pool.take_whole(&key, count), expected, "{key} {count}");
        };
        take("a", 6, Ok(()));
        take("b", 5, Err(Short::Pool));
        take("b", 4, Ok(()));
        take("c", 1, Err(Short::Pool));
        pool.give(&"b", 4);
        assert_eq!(pool.take_whole(&"a", 1), Err(Short::Share));
        pool.give(&"a", 6);
        assert_eq!(pool.take_whole(&"a", 100), Ok(()));
    }
}
