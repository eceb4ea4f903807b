//! The places of connections: an address has a share of those that are for strangers, and a stranger goes before
//! somebody new is kept out.
//!
//! A connection is a *stranger* until it has logged in. Where there is no place for one more, the address with the most
//! strangers gives up its oldest. A connection that was given up is *leaving* until its socket is closed. What a place
//! is of, and how it is closed, is the caller's matter.
//! Invariants: of `taken` places some are strangers', some are leaving, and the others' connections have logged in; each
//! stranger is in its block's `idle` or `busy`, and `by_weight` has the number of both for each block.

use crate::block::Block;
use crate::pool::Refused;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Bounds of a table of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceLimits {
    /// Places in all.
    pub places_max: usize,
    /// Places that no stranger is given, and as many that are left to strangers.
    pub kept: usize,
    /// Strangers of one address, but for those that have just come.
    pub address_max: usize,
    /// Connections of one user that are known; further ones are strangers still.
    pub user_max: usize,
    /// Milliseconds for which a stranger has just come.
    pub young_ms: u64,
    /// Connections that were given up and are not closed yet.
    pub leaving_max: usize,
}

/// A place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlaceId(u64);

/// A place that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken<T> {
    /// The place.
    pub id: PlaceId,
    /// The connection that is to be closed for it.
    pub instead_of: Option<T>,
    /// Its address has more strangers than its share.
    pub is_beyond: bool,
}

#[derive(Debug)]
struct Stranger<T> {
    block: Block,
    since_ms: u64,
    /// Requests that are worked on.
    works: usize,
    own: T,
}

/// Strangers of a block, oldest first.
#[derive(Debug, Default)]
struct OfBlock {
    idle: BTreeSet<PlaceId>,
    busy: BTreeSet<PlaceId>,
}

impl OfBlock {
    fn len(&self) -> usize {
        self.idle.len() + self.busy.len()
    }
}

/// See the module.
#[derive(Debug)]
pub struct Places<T> {
    limits: PlaceLimits,
    next: u64,
    taken: usize,
    strangers: BTreeMap<PlaceId, Stranger<T>>,
    by_block: BTreeMap<Block, OfBlock>,
    by_weight: BTreeSet<(usize, Block)>,
    idle: usize,
    leaving: BTreeSet<PlaceId>,
    /// Of known connections, whose user was told.
    users: BTreeMap<PlaceId, Box<str>>,
    by_user: BTreeMap<Box<str>, usize>,
    given_up: u64,
    /// Those of `given_up` that were told of.
    told: u64,
    refused: u64,
    /// Users with connections that are strangers still, for their share is taken.
    beyond: Refused<Box<str>>,
}

impl<T> Places<T> {
    /// A table where all places are free.
    pub fn new(limits: PlaceLimits) -> Places<T> {
        Places {
            limits,
            next: 0,
            taken: 0,
            strangers: BTreeMap::new(),
            by_block: BTreeMap::new(),
            by_weight: BTreeSet::new(),
            idle: 0,
            leaving: BTreeSet::new(),
            users: BTreeMap::new(),
            by_user: BTreeMap::new(),
            given_up: 0,
            told: 0,
            refused: 0,
            beyond: Refused::default(),
        }
    }

    /// Whether somebody who comes may be given a place; it depends on the address where all are worked for.
    pub fn has_room(&self) -> bool {
        let is_mixed = || self.by_weight.last().is_some_and(|(weight, _)| *weight > 1);
        !self.is_full() || (self.leaving.len() < self.limits.leaving_max && (self.idle > 0 || is_mixed()))
    }

    /// As many were given up as may be open at once: there is room once one of them is closed.
    pub fn is_leaving(&self) -> bool {
        self.leaving.len() >= self.limits.leaving_max
    }

    fn is_full(&self) -> bool {
        let PlaceLimits { places_max, kept, .. } = self.limits;
        self.taken - self.leaving.len() >= places_max || self.strangers.len() >= places_max - kept
    }

    /// Gives a place to a stranger of this address; none where there is none for it.
    pub fn take(&mut self, now_ms: u64, address: IpAddr, own: T) -> Option<Taken<T>> {
        let taken = self.try_take(now_ms, address, own);
        if taken.is_none() {
            self.refuse();
        }
        taken
    }

    /// A connection is not let in that was tried before.
    pub fn refuse(&mut self) {
        self.refused += 1;
    }

    /// As [`Places::take`] for one that may wait and be tried again: it is not refused yet.
    pub fn try_take(&mut self, now_ms: u64, address: IpAddr, own: T) -> Option<Taken<T>> {
        let block = Block::of(address);
        let weight = self.by_block.get(&block).map_or(0, OfBlock::len);
        let may_leave = self.leaving.len() < self.limits.leaving_max;
        let has_share = weight >= self.limits.address_max;
        let mut victim = (has_share && may_leave).then(|| self.oldest(block, now_ms)).flatten();
        if self.is_full() && victim.is_none() {
            victim = Some(self.victim(weight).filter(|_| may_leave)?);
        }
        let instead_of = victim.and_then(|victim| self.give_up(victim));
        let id = PlaceId(self.next);
        self.next += 1;
        self.taken += 1;
        self.idle += 1;
        self.strangers.insert(id, Stranger { block, since_ms: now_ms, works: 0, own });
        self.weigh(block, |own| {
            own.idle.insert(id);
        });
        let is_beyond = self.by_block.get(&block).map_or(0, OfBlock::len) > self.limits.address_max;
        Some(Taken { id, instead_of, is_beyond })
    }

    /// The oldest idle stranger of a block that has not just come.
    fn oldest(&self, block: Block, now_ms: u64) -> Option<PlaceId> {
        let id = *self.by_block.get(&block)?.idle.first()?;
        let since_ms = self.strangers.get(&id)?.since_ms;
        (now_ms.saturating_sub(since_ms) >= self.limits.young_ms).then_some(id)
    }

    /// The stranger that goes for one whose block has `weight`: the oldest of the block with most of them. One that is
    /// worked for goes only where its block has more than the newcomer's would.
    fn victim(&self, weight: usize) -> Option<PlaceId> {
        if self.by_weight.last().is_some_and(|(most, _)| *most == 1) {
            // Each has one: the oldest of all that are not worked for.
            let mut strangers = self.strangers.iter();
            return strangers.find(|(_, own)| own.works == 0).map(|(id, _)| *id);
        }
        self.by_weight.iter().rev().find_map(|(own, block)| {
            let own_strangers = self.by_block.get(block)?;
            let busy = || own_strangers.busy.first().filter(|_| *own > weight + 1);
            own_strangers.idle.first().or_else(busy).copied()
        })
    }

    fn give_up(&mut self, id: PlaceId) -> Option<T> {
        let stranger = self.forget(id)?;
        self.leaving.insert(id);
        self.given_up += 1;
        Some(stranger.own)
    }

    /// Takes a stranger out of all lists.
    fn forget(&mut self, id: PlaceId) -> Option<Stranger<T>> {
        let stranger = self.strangers.remove(&id)?;
        self.idle -= usize::from(stranger.works == 0);
        self.weigh(stranger.block, |own| {
            own.idle.remove(&id);
            own.busy.remove(&id);
        });
        Some(stranger)
    }

    /// Changes the strangers of a block, and what it weighs.
    fn weigh(&mut self, block: Block, change: impl FnOnce(&mut OfBlock)) {
        let own = self.by_block.entry(block).or_default();
        let before = own.len();
        change(own);
        let after = own.len();
        if after == 0 {
            self.by_block.remove(&block);
        }
        if before != after {
            self.by_weight.remove(&(before, block));
            if after > 0 {
                self.by_weight.insert((after, block));
            }
        }
    }

    /// Something is worked on for a connection.
    pub fn begin(&mut self, id: PlaceId) {
        self.work(id, |works| works + 1);
    }

    /// It no longer is.
    pub fn end(&mut self, id: PlaceId) {
        self.work(id, |works| works.saturating_sub(1));
    }

    fn work(&mut self, id: PlaceId, change: impl FnOnce(usize) -> usize) {
        let Some(stranger) = self.strangers.get_mut(&id) else { return };
        let (block, was_idle) = (stranger.block, stranger.works == 0);
        stranger.works = change(stranger.works);
        let is_idle = stranger.works == 0;
        self.idle = self.idle + usize::from(is_idle) - usize::from(was_idle);
        self.weigh(block, |own| {
            own.idle.remove(&id);
            own.busy.remove(&id);
            if is_idle {
                own.idle.insert(id)
            } else {
                own.busy.insert(id)
            };
        });
    }

    /// A connection has logged in; where a user is named, of its share. False: it is a stranger still.
    pub fn know(&mut self, id: PlaceId, user: Option<&str>) -> bool {
        let is_stranger = self.strangers.contains_key(&id);
        if !is_stranger && (self.leaving.contains(&id) || self.users.get(&id).map(|own| &**own) == user) {
            return !self.leaving.contains(&id);
        }
        let known = self.taken - self.leaving.len() - self.strangers.len();
        if is_stranger && known >= self.limits.places_max - self.limits.kept {
            return false;
        }
        if let Some(user) = user {
            if self.by_user.get(user).is_some_and(|count| *count >= self.limits.user_max) {
                self.beyond.add(&user.into());
                return false;
            }
            self.forget_user(id);
            self.users.insert(id, user.into());
            *self.by_user.entry(user.into()).or_default() += 1;
        }
        self.forget(id);
        true
    }

    fn forget_user(&mut self, id: PlaceId) {
        let Some(user) = self.users.remove(&id) else { return };
        if let Some(count) = self.by_user.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                self.by_user.remove(&user);
            }
        }
    }

    /// A connection is closed.
    pub fn give_back(&mut self, id: PlaceId) {
        self.taken -= 1;
        if !self.leaving.remove(&id) && self.forget(id).is_none() {
            self.forget_user(id);
        }
    }

    /// Connections that are open.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Connections that there may be.
    pub fn most(&self) -> usize {
        self.limits.places_max
    }

    /// Known connections, by user.
    pub fn by_user(&self) -> impl Iterator<Item = (&str, usize)> {
        self.by_user.iter().map(|(user, count)| (&**user, *count))
    }

    /// Connections that were not let in, since there was no place for them.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Connections of users that had their share: they had no place of their own.
    pub fn beyond(&self) -> &Refused<Box<str>> {
        &self.beyond
    }

    /// Connections that were given up for others, in all.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Connections that were given up for others since this was last asked.
    pub fn take_given_up(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.told, self.given_up);
        self.given_up - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PlaceLimits =
        PlaceLimits { places_max: 8, kept: 2, address_max: 4, user_max: 3, young_ms: 100, leaving_max: 2 };

    /// A table whose places are named by numbers, and their ids.
    struct Bench {
        places: Places<usize>,
        ids: Vec<PlaceId>,
        now_ms: u64,
    }

    impl Bench {
        fn new(limits: PlaceLimits) -> Bench {
            Bench { places: Places::new(limits), ids: Vec::new(), now_ms: 0 }
        }

        /// One comes from an address: which one goes for it, and whether it is beyond its address's share; none: it is
        /// refused.
        fn come(&mut self, last: u8) -> Option<(Option<usize>, bool)> {
            let address = IpAddr::from([127, 0, 0, last]);
            let taken = self.places.take(self.now_ms, address, self.ids.len())?;
            self.ids.push(taken.id);
            self.check();
            Some((taken.instead_of, taken.is_beyond))
        }

        fn know(&mut self, number: usize, user: Option<&str>) -> bool {
            let is_known = self.places.know(self.ids[number], user);
            self.check();
            is_known
        }

        fn leave(&mut self, number: usize) {
            self.places.give_back(self.ids[number]);
            self.check();
        }

        fn work(&mut self, number: usize) {
            self.places.begin(self.ids[number]);
            self.check();
        }

        /// The invariants of the module.
        fn check(&self) {
            let places = &self.places;
            let idle = places.strangers.values().filter(|own| own.works == 0).count();
            assert_eq!(places.idle, idle);
            assert_eq!(places.by_block.values().map(OfBlock::len).sum::<usize>(), places.strangers.len());
            assert!(places.by_weight.iter().all(|(weight, block)| places.by_block[block].len() == *weight));
            assert_eq!(places.by_weight.len(), places.by_block.len());
            assert_eq!(places.by_user.values().sum::<usize>(), places.users.len());
            assert!(places.taken >= places.strangers.len() + places.leaving.len() + places.users.len());
            assert!(places.strangers.len() <= places.limits.places_max - places.limits.kept);
            assert!(places.taken - places.leaving.len() <= places.limits.places_max);
            assert!(places.leaving.len() <= places.limits.leaving_max);
        }
    }

    #[test]
    fn an_address_gives_up_its_oldest_beyond_its_share() {
        let mut bench = Bench::new(LIMITS);
        for _ in 0..4 {
            assert_eq!(bench.come(1), Some((None, false)));
        }
        // A crowd that comes at once may all be about to log in.
        assert_eq!(bench.come(1), Some((None, true)));
        bench.now_ms = 100;
        assert_eq!(bench.come(1), Some((Some(0), true)));
        assert_eq!(bench.come(2), Some((None, false)));
        assert_eq!(bench.places.take_given_up(), 1);
        assert_eq!(bench.places.take_given_up(), 0);
    }

    #[test]
    fn the_address_with_most_strangers_makes_room() {
        let mut bench = Bench::new(LIMITS);
        for address in [1, 2, 2, 2, 3, 4] {
            assert_eq!(bench.come(address), Some((None, false)));
        }
        assert_eq!(bench.come(5), Some((Some(1), false)));
        assert!(bench.places.has_room());
        // All weigh as much or less: the oldest of those that weigh most.
        assert_eq!(bench.come(6), Some((Some(2), false)));
        // Those that leave are not closed yet, and more may not.
        assert!(!bench.places.has_room());
        assert_eq!(bench.come(7), None);
        bench.leave(1);
        assert!(bench.places.has_room());
        assert!(bench.come(7).is_some());
        [2, 3].into_iter().for_each(|number| bench.leave(number));
        assert_eq!(bench.places.taken(), 6);
    }

    #[test]
    fn known_connections_stay_and_leave_room_for_strangers() {
        let mut bench = Bench::new(LIMITS);
        for number in 0..6 {
            bench.come(1);
            assert!(bench.know(number, None));
        }
        bench.come(1);
        assert!(!bench.know(6, None), "two places are left to strangers");
        assert_eq!(bench.come(2), Some((None, false)));
        assert_eq!(bench.come(3), Some((Some(6), false)));
        assert!(!bench.know(6, None), "it is leaving");
        bench.leave(0);
        assert!(bench.know(8, None));
        assert!(bench.know(8, None), "once is enough");
        (1..9).for_each(|number| bench.leave(number));
        assert_eq!((bench.places.taken(), bench.places.idle), (0, 0));
    }

    #[test]
    fn a_user_has_a_share_and_goes_on_as_a_stranger() {
        let mut bench = Bench::new(LIMITS);
        for _ in 0..4 {
            assert!(bench.come(1).is_some());
        }
        let known = [0, 1, 2, 3].map(|number| bench.know(number, Some("a")));
        assert_eq!(known, [true, true, true, false]);
        assert!(bench.know(3, Some("b")));
        assert!(bench.know(0, Some("a")), "it is known already");
        assert!(bench.know(0, Some("b")), "another logs in over the same connection");
        bench.come(2);
        assert!(bench.know(4, Some("a")));
        (0..5).for_each(|number| bench.leave(number));
        assert!(bench.places.by_user.is_empty() && bench.places.users.is_empty());
    }

    #[test]
    fn those_that_are_worked_for_go_last() {
        let mut bench = Bench::new(PlaceLimits { address_max: 8, ..LIMITS });
        for number in 0..6 {
            bench.come(1);
            bench.work(number);
        }
        assert_eq!(bench.come(1), None, "its address has them all");
        assert_eq!(bench.come(2), Some((Some(0), false)));
        bench.places.end(bench.ids[3]);
        assert_eq!(bench.come(1), Some((Some(3), false)));
        // Work for a place that was given up goes on to its end, and changes nothing.
        bench.places.end(bench.ids[0]);
        bench.check();
    }

    #[test]
    fn nobody_comes_where_all_are_known() {
        let mut bench = Bench::new(PlaceLimits { kept: 0, ..LIMITS });
        for number in 0..8 {
            assert!(bench.places.has_room());
            bench.come(1);
            bench.know(number, None);
        }
        assert!(!bench.places.has_room());
        assert_eq!(bench.come(2), None);
        bench.leave(5);
        assert_eq!(bench.come(2), Some((None, false)));
    }

    #[test]
    fn random_comings_and_goings_keep_the_invariants() {
        let mut dice = base::random::Random::new(7);
        let mut bench = Bench::new(LIMITS);
        let mut open = Vec::new();
        for _ in 0..20_000 {
            bench.now_ms += dice.below(40);
            let any = |open: &Vec<usize>, roll: u64| open[roll as usize % open.len()];
            match (dice.below(8), dice.below(1 << 20)) {
                (0..3, roll) => open.extend(bench.come(roll as u8 % 5).map(|_| bench.ids.len() - 1)),
                (3 | 4, roll) if !open.is_empty() => {
                    bench.leave(open.swap_remove(roll as usize % open.len()))
                }
                (5, roll) if !open.is_empty() => {
                    bench.know(any(&open, roll), [None, Some("a"), Some("b")][roll as usize % 3]);
                }
                (6, roll) if !open.is_empty() => bench.work(any(&open, roll)),
                (_, roll) if !open.is_empty() => {
                    let id = bench.ids[any(&open, roll)];
                    bench.places.end(id);
                    bench.check();
                }
                _ => {}
            }
            assert_eq!(bench.places.taken(), open.len());
        }
    }
}
