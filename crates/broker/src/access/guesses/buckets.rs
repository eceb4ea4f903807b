//! Buckets of refused logins, one for each account or origin.
//!
//! A bucket holds `free` logins and fills at one for each `each_ns`. It is kept as one number, the moment at which it
//! is full again: the later, the more logins were refused. A bucket that nobody has asked for is full and takes no
//! memory.
//! Invariant: `order` has each bucket of `buckets` once, under the moment until which it says something. When there
//! are too many, the first in that order goes: full ones, then those with the fewest refusals. A flood of made-up
//! names, with one refusal each, drives out no name that is being guessed.

use std::collections::{BTreeMap, BTreeSet};

/// The size of buckets, and how fast they fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Logins that may be refused at once.
    pub free: u32,
    /// Nanoseconds for each further one; at least 1.
    pub each_ns: u64,
}

impl Rate {
    /// So many a second, and `seconds` times as many at once.
    pub fn per_second(count: u32, seconds: u32) -> Rate {
        let count = count.max(1);
        Rate { free: count.saturating_mul(seconds), each_ns: (1_000_000_000 / u64::from(count)).max(1) }
    }

    /// Nanoseconds that an empty bucket takes to be full.
    fn whole_ns(self) -> u64 {
        self.each_ns.saturating_mul(self.free.into())
    }
}

/// One bucket.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// When it is full again.
    full_at: u64,
    /// Refusals without a try since the log had a line about them.
    held: u64,
    /// The same since it was full.
    held_all: u64,
    /// When the log may have the next line.
    tell_at: u64,
    /// When the last of the answers that are on their way comes.
    answer_at: u64,
}

impl Bucket {
    /// From when on it says nothing.
    fn until(&self) -> u64 {
        self.full_at.max(self.tell_at).max(self.answer_at)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Buckets<K> {
    rate: Option<Rate>,
    buckets_max: usize,
    buckets: BTreeMap<K, Bucket>,
    order: BTreeSet<(u64, K)>,
}

impl<K: Copy + Ord> Buckets<K> {
    /// No bucket yet. Without a rate none is ever empty. At most `buckets_max`, which is at least 1.
    pub fn new(rate: Option<Rate>, buckets_max: usize) -> Buckets<K> {
        Buckets { rate, buckets_max: buckets_max.max(1), buckets: BTreeMap::new(), order: BTreeSet::new() }
    }

    /// Buckets that say something.
    pub fn count(&mut self, now_ns: u64) -> usize {
        while let Some((until, key)) = self.order.first().copied().filter(|(until, _)| *until <= now_ns) {
            self.order.remove(&(until, key));
            self.buckets.remove(&key);
        }
        self.buckets.len()
    }

    /// Whether a login can be taken out of this bucket.
    pub fn has(&self, now_ns: u64, key: K) -> bool {
        let Some(rate) = self.rate else { return true };
        let full_at = self.buckets.get(&key).map_or(0, |bucket| bucket.full_at);
        full_at.saturating_sub(now_ns).saturating_add(rate.each_ns) <= rate.whole_ns()
    }

    /// Takes a login out of a bucket, which has one.
    pub fn take(&mut self, now_ns: u64, key: K) {
        let Some(rate) = self.rate else { return };
        self.change(now_ns, key, |bucket| {
            bucket.full_at = bucket.full_at.max(now_ns).saturating_add(rate.each_ns);
        });
    }

    /// Puts a login back that was taken out.
    pub fn give_back(&mut self, now_ns: u64, key: K) {
        let Some(rate) = self.rate else { return };
        if self.buckets.contains_key(&key) {
            self.change(now_ns, key, |bucket| bucket.full_at = bucket.full_at.saturating_sub(rate.each_ns));
        }
    }

    /// A login was refused without a try. Once in `gap_ns` it is told, with how many there were since it was told last.
    pub fn hold(&mut self, now_ns: u64, key: K, gap_ns: u64) -> Option<u64> {
        let mut told = None;
        self.change(now_ns, key, |bucket| {
            bucket.held += 1;
            bucket.held_all += 1;
            if now_ns >= bucket.tell_at {
                bucket.tell_at = now_ns.saturating_add(gap_ns);
                told = Some(std::mem::take(&mut bucket.held));
            }
        });
        told
    }

    /// Logins that were refused without a try since the bucket was full.
    pub fn held(&self, key: K) -> u64 {
        self.buckets.get(&key).map_or(0, |bucket| bucket.held_all)
    }

    /// The moment of an answer to one that was refused without a try: `each_ns` after the one before, and at most
    /// `wait_ns_max` from now.
    pub fn answer_at(&mut self, now_ns: u64, key: K, each_ns: u64, wait_ns_max: u64) -> u64 {
        let mut at = now_ns;
        self.change(now_ns, key, |bucket| {
            let next = bucket.answer_at.max(now_ns).saturating_add(each_ns);
            bucket.answer_at = next.min(now_ns.saturating_add(wait_ns_max));
            at = bucket.answer_at;
        });
        at
    }

    fn change(&mut self, now_ns: u64, key: K, work: impl FnOnce(&mut Bucket)) {
        if !self.buckets.contains_key(&key) {
            self.make_room(now_ns);
        }
        let bucket = self.buckets.entry(key).or_default();
        let before = bucket.until();
        work(bucket);
        let after = bucket.until();
        self.order.remove(&(before, key));
        if after > now_ns {
            self.order.insert((after, key));
        } else {
            self.buckets.remove(&key);
        }
    }

    /// Removes a few buckets that are full, and where there is still no room the one with the fewest refusals.
    fn make_room(&mut self, now_ns: u64) {
        for _ in 0..2 {
            match self.order.first() {
                Some((until, _)) if *until <= now_ns || self.buckets.len() >= self.buckets_max => {
                    let (_, key) = self.order.pop_first().expect("it was just seen");
                    self.buckets.remove(&key);
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn try_at(buckets: &mut Buckets<u32>, now_ns: u64, key: u32) -> bool {
        let has = buckets.has(now_ns, key);
        if has {
            buckets.take(now_ns, key);
        }
        has
    }

    #[test]
    fn so_many_at_once_and_then_one_after_the_other() {
        let mut buckets = Buckets::new(Some(Rate::per_second(1, 3)), 10);
        // When, which bucket, whether there was a login in it.
        let rows = [
            (0, 1, true),
            (0, 1, true),
            (0, 1, true),
            (0, 1, false),
            (0, 2, true),
            (SECOND - 1, 1, false),
            (SECOND, 1, true),
            (SECOND, 1, false),
            (10 * SECOND, 1, true),
            (10 * SECOND, 1, true),
            (10 * SECOND, 1, true),
            (10 * SECOND, 1, false),
        ];
        for (now_ns, key, expected) in rows {
            assert_eq!(try_at(&mut buckets, now_ns, key), expected, "{now_ns} {key}");
        }
        buckets.give_back(10 * SECOND, 1);
        assert!(try_at(&mut buckets, 10 * SECOND, 1));
        assert!(!try_at(&mut buckets, 10 * SECOND, 1));
        assert_eq!(buckets.count(10 * SECOND), 1, "the other is full");
    }

    #[test]
    fn without_a_rate_there_is_always_one_more() {
        let mut buckets = Buckets::new(None, 10);
        assert!((0..1000).all(|_| try_at(&mut buckets, 0, 1)));
        buckets.give_back(0, 1);
        assert_eq!(buckets.count(0), 0);
    }

    #[test]
    fn a_flood_of_names_frees_none_that_is_guessed() {
        let mut buckets = Buckets::new(Some(Rate::per_second(1, 3)), 8);
        while try_at(&mut buckets, 0, 0) {}
        for name in 1..10_000 {
            assert!(try_at(&mut buckets, 1, name));
            assert!(buckets.buckets.len() <= 8 && buckets.order.len() == buckets.buckets.len());
        }
        assert!(!try_at(&mut buckets, 1, 0));
        assert!(try_at(&mut buckets, SECOND, 0), "it fills as ever");
    }

    #[test]
    fn the_log_hears_once_in_a_while_and_answers_come_one_by_one() {
        let mut buckets = Buckets::new(Some(Rate::per_second(1, 3)), 8);
        let mut hold = |now_ns| buckets.hold(now_ns, 1, 60 * SECOND);
        assert_eq!([hold(1), hold(2), hold(SECOND), hold(60 * SECOND)], [Some(1), None, None, None]);
        assert_eq!([hold(60 * SECOND + 1), hold(61 * SECOND)], [Some(4), None]);
        let mut answer = |now_ns| buckets.answer_at(now_ns, 1, SECOND, 3 * SECOND);
        let told = [0, 0, 0, 0, SECOND, 9 * SECOND].map(&mut answer);
        assert_eq!(told, [1, 2, 3, 3, 4, 10].map(|second| second * SECOND));
    }
}
