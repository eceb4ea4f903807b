//! Accounts, each with the origins it has logged in from of late.
//!
//! A login of such a pair is tried though others have emptied the buckets of its account or its origin: the password
//! is likely to be right, and its owner is not to be locked out by a stranger's guesses. As the pair may be guessed
//! from as well, it has a bucket of its own, and an account one over all its pairs.
//! The least recently used pair goes first; of an account that has its share of the pairs, its own.

use super::buckets::Buckets;
use super::{GuessLimits, Origin};
use crate::access::moments::Moments;
use base::Digest;

type Pair = (Digest, Origin);

/// Nanoseconds for which a pair that is used again keeps its place in the order.
const STEP_NS: u64 = 1_000_000_000;

/// See the module.
#[derive(Debug)]
pub struct Known {
    kept_ns: u64,
    pairs_max: usize,
    account_pairs_max: usize,
    /// When each pair was used last.
    pairs: Moments<Pair>,
    by_pair: Buckets<Pair>,
    by_account: Buckets<Digest>,
}

impl Known {
    /// No pair yet.
    pub fn new(limits: &GuessLimits) -> Known {
        Known {
            kept_ns: limits.known_kept_ns,
            pairs_max: limits.known_max.max(1),
            account_pairs_max: limits.known_account_max.max(1),
            pairs: Moments::default(),
            by_pair: Buckets::new(Some(limits.known_pair), limits.known_max),
            by_account: Buckets::new(Some(limits.known_account), limits.known_max),
        }
    }

    /// Pairs that are known.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether a login of this pair may be tried.
    pub fn has(&self, now_ns: u64, pair: Pair) -> bool {
        let is_fresh = |used_at: u64| now_ns.saturating_sub(used_at) <= self.kept_ns;
        self.pairs.get(&pair).is_some_and(is_fresh)
            && self.by_pair.has(now_ns, pair)
            && self.by_account.has(now_ns, pair.0)
    }

    /// Takes such a login out of the buckets of the pair.
    pub fn take(&mut self, now_ns: u64, pair: Pair) {
        self.by_pair.take(now_ns, pair);
        self.by_account.take(now_ns, pair.0);
    }

    /// The login was right: it counts for nothing.
    pub fn give_back(&mut self, now_ns: u64, pair: Pair) {
        self.by_pair.give_back(now_ns, pair);
        self.by_account.give_back(now_ns, pair.0);
    }

    /// A login of this pair was right.
    pub fn learn(&mut self, now_ns: u64, pair: Pair) {
        match self.pairs.get(&pair) {
            Some(used_at) if now_ns.saturating_sub(used_at) < STEP_NS => return,
            Some(_) => {}
            None => self.make_room(pair.0),
        }
        self.pairs.set(pair, now_ns);
    }

    fn make_room(&mut self, account: Digest) {
        let own = self.pairs.from((account, Origin::FIRST)).take_while(|((other, _), _)| *other == account);
        let own: Vec<(u64, Pair)> = own.map(|(pair, used_at)| (used_at, pair)).collect();
        let oldest = match own.len() >= self.account_pairs_max {
            true => own.into_iter().min().map(|(_, pair)| pair),
            false if self.pairs.len() >= self.pairs_max => self.pairs.earliest(),
            false => None,
        };
        if let Some(oldest) = oldest {
            self.pairs.remove(&oldest);
        }
    }
}
