//! The offsets that consumers stored in a stream, and which of them goes where there is no room for one more.
//!
//! The room is shared by users, and a user's part by the user's connections: where it is full, the name goes that was
//! stored longest ago, of the connection with the most names, of the user with the most. So a user that stores many
//! names drives out names of its own, and the value of an offset keeps none for good. Of connections with as many
//! names, that one gives whose oldest name is the oldest: where each name has a connection of its own, the names of a
//! user go by age, and those in use stay.
//! Each step costs as many comparisons as the number of names has digits, and forgetting names as many steps as names
//! go.
//! How far queues were fed ([`FEED`]) is beside the room, and stays until it is taken back.
//!
//! Invariants: each name that is no queue's has one place, and is in `by_offset`; `users` and `connections` count
//! places.

use super::tracking::FEED;
use message::record::Owner;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An offset that a consumer stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) offset: u64,
    /// The user that stored it last.
    pub(super) owner: Owner,
    /// When, among all that was stored in the stream.
    pub(super) turn: u64,
}

/// The outcome for an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storing {
    /// It is stored.
    Stored,
    /// It is, and this one is no longer.
    InPlaceOf {
        /// The name.
        reference: Arc<[u8]>,
        /// The offset that had been stored under it.
        offset: u64,
    },
    /// There is no room, by the rule of records that name no owner.
    NoRoom,
}

/// See the module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Offsets {
    named: BTreeMap<Arc<[u8]>, Stored>,
    /// Names by owner, and when they were stored.
    places: BTreeMap<(Owner, u64), Arc<[u8]>>,
    /// Names that are no queues', those with the lowest offsets first.
    by_offset: BTreeSet<(u64, Arc<[u8]>)>,
    /// Names of each user, and of each connection.
    users: Users,
    connections: BTreeMap<u32, Connections>,
    /// Above the turn of all there are, and of those there were: a name stored after a snapshot has the turn it would
    /// have had.
    pub(super) next_turn: u64,
}

impl Offsets {
    /// How many there are, those of queues included.
    pub(super) fn len(&self) -> usize {
        self.named.len()
    }

    pub(super) fn get(&self, reference: &[u8]) -> Option<u64> {
        self.named.get(reference).map(|stored| stored.offset)
    }

    /// All of them, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &Stored)> {
        self.named.iter().map(|(reference, stored)| (&**reference, stored))
    }

    /// Notes an offset; no owner: by the rule of before there were any. Offsets below `first_offset` are of no use.
    pub(super) fn store(
        &mut self,
        reference: &[u8],
        offset: u64,
        owner: Option<Owner>,
        (first_offset, offsets_max): (u64, usize),
    ) -> Storing {
        if reference.starts_with(FEED) {
            match offset {
                u64::MAX => _ = self.named.remove(reference),
                _ => {
                    let stored = Stored { offset, owner: Owner::default(), turn: 0 };
                    self.named.insert(reference.into(), stored);
                }
            }
            return Storing::Stored;
        }
        let mut storing = Storing::Stored;
        if self.named.contains_key(reference) {
            self.remove(reference);
        } else if owner.is_none() {
            if self.named.len() >= offsets_max {
                self.forget_before(first_offset);
            }
            if self.named.len() >= offsets_max {
                return Storing::NoRoom;
            }
        } else if self.places.len() >= offsets_max
            && let Some((reference, offset)) = self.evict(owner.unwrap_or_default())
        {
            storing = Storing::InPlaceOf { reference, offset };
        }
        let turn = self.next_turn;
        self.insert(reference, Stored { offset, owner: owner.unwrap_or_default(), turn });
        storing
    }

    /// Puts in a name of a snapshot; false: there is another in its place.
    pub(super) fn insert(&mut self, reference: &[u8], stored: Stored) -> bool {
        let name: Arc<[u8]> = reference.into();
        self.named.insert(name.clone(), stored);
        if reference.starts_with(FEED) {
            return true;
        }
        let Stored { offset, owner, turn } = stored;
        self.by_offset.insert((offset, name.clone()));
        self.next_turn = self.next_turn.max(turn.saturating_add(1));
        let is_new = self.places.insert((owner, turn), name).is_none();
        if is_new {
            self.users.add(owner.user);
            let oldest = self.oldest(owner);
            self.connections.entry(owner.user).or_default().add(owner.connection, oldest);
        }
        is_new
    }

    /// When the name of this owner was stored that goes first.
    fn oldest(&self, owner: Owner) -> Option<u64> {
        let (&(of, turn), _) = self.places.range((owner, 0)..).next()?;
        (of == owner).then_some(turn)
    }

    fn remove(&mut self, reference: &[u8]) -> Option<(Arc<[u8]>, u64)> {
        let (name, Stored { offset, owner, turn }) = self.named.remove_entry(reference)?;
        self.by_offset.remove(&(offset, name.clone()));
        if self.places.remove(&(owner, turn)).is_some() {
            self.users.take(owner.user);
            let oldest = self.oldest(owner);
            if let Some(connections) = self.connections.get_mut(&owner.user) {
                connections.take(owner.connection, oldest);
                if connections.is_empty() {
                    self.connections.remove(&owner.user);
                }
            }
        }
        Some((name, offset))
    }

    /// Takes out the name that makes room for one more of `owner`.
    fn evict(&mut self, owner: Owner) -> Option<(Arc<[u8]>, u64)> {
        let user = self.users.most_with(owner.user)?;
        let connections = self.connections.get(&user)?;
        // Another's connections are not compared with this one.
        let connection = match user == owner.user {
            true => connections.most_with(owner.connection)?,
            false => connections.most()?,
        };
        let owner = Owner { user, connection };
        let (_, reference) = self.places.range((owner, 0)..).next()?;
        let reference = reference.clone();
        self.remove(&reference)
    }

    /// Offsets below `first_offset` go, but for those of feeds of queues.
    pub(super) fn forget_before(&mut self, first_offset: u64) {
        while let Some((_, reference)) = self.by_offset.first().filter(|(offset, _)| *offset < first_offset) {
            let reference = reference.clone();
            self.remove(&reference);
        }
    }
}

/// How many names users have, and the users with the most.
#[derive(Debug, Default, PartialEq, Eq)]
struct Users {
    counts: BTreeMap<u32, u32>,
    by_count: BTreeSet<(u32, u32)>,
}

impl Users {
    fn add(&mut self, user: u32) {
        let count = self.counts.entry(user).or_default();
        self.by_count.remove(&(*count, user));
        *count += 1;
        self.by_count.insert((*count, user));
    }

    fn take(&mut self, user: u32) {
        let Some(count) = self.counts.get_mut(&user) else { return };
        self.by_count.remove(&(*count, user));
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&user);
        } else {
            self.by_count.insert((*count, user));
        }
    }

    /// The user with the most names if `user` had one more; a user that has some.
    fn most_with(&self, user: u32) -> Option<u32> {
        let (most, other) = self.by_count.last().copied()?;
        let own = self.counts.get(&user).copied().unwrap_or(0);
        Some(if own > 0 && own + 1 >= most { user } else { other })
    }
}

/// How many names a connection has, and when the oldest of them was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Share {
    count: u32,
    oldest: Reverse<u64>,
}

/// How many names the connections of a user have, and which has most.
#[derive(Debug, Default, PartialEq, Eq)]
struct Connections {
    shares: BTreeMap<u32, Share>,
    by_share: BTreeSet<(Share, u32)>,
}

impl Connections {
    fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }

    fn count(&self, connection: u32) -> u32 {
        self.shares.get(&connection).map_or(0, |share| share.count)
    }

    fn add(&mut self, connection: u32, oldest: Option<u64>) {
        self.set(connection, self.count(connection) + 1, oldest);
    }

    fn take(&mut self, connection: u32, oldest: Option<u64>) {
        self.set(connection, self.count(connection).saturating_sub(1), oldest);
    }

    fn set(&mut self, connection: u32, count: u32, oldest: Option<u64>) {
        if let Some(before) = self.shares.remove(&connection) {
            self.by_share.remove(&(before, connection));
        }
        if let Some(oldest) = oldest.filter(|_| count > 0) {
            let share = Share { count, oldest: Reverse(oldest) };
            self.shares.insert(connection, share);
            self.by_share.insert((share, connection));
        }
    }

    fn most(&self) -> Option<u32> {
        self.by_share.last().map(|(_, connection)| *connection)
    }

    /// Which has most if `connection` had one more; one that has some.
    fn most_with(&self, connection: u32) -> Option<u32> {
        let (most, other) = self.by_share.last().copied()?;
        let own = self.shares.get(&connection).map(|own| Share { count: own.count + 1, ..*own });
        Some(if own.is_some_and(|own| own >= most) { connection } else { other })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::time::{ClockId, clock_gettime};
    use std::time::Duration;

    const MOST: usize = 10;

    fn owner(user: u32, connection: u32) -> Option<Owner> {
        Some(Owner { user, connection })
    }

    fn store(offsets: &mut Offsets, name: &str, owner: Option<Owner>) -> Option<String> {
        match offsets.store(name.as_bytes(), 7, owner, (0, MOST)) {
            Storing::InPlaceOf { reference, .. } => Some(String::from_utf8_lossy(&reference).into_owned()),
            Storing::Stored => None,
            Storing::NoRoom => Some("no room".to_owned()),
        }
    }

    /// Each row: the names of each owner (user, connection), the owner that stores one more, and the owner whose oldest
    /// goes.
    #[test]
    fn who_has_most_makes_room() {
        type Who = (u32, u32);
        let check = |have: &[(Who, usize)], more: Who, goes: Who| {
            let mut offsets = Offsets::default();
            for ((user, connection), count) in have {
                for number in 0..*count {
                    let name = format!("{user}.{connection}.{number}");
                    assert_eq!(store(&mut offsets, &name, owner(*user, *connection)), None);
                }
            }
            assert_eq!(offsets.len(), MOST, "{have:?}");
            let gone = store(&mut offsets, "more", owner(more.0, more.1));
            assert_eq!(gone, Some(format!("{}.{}.0", goes.0, goes.1)), "{have:?} {more:?}");
            assert_eq!((offsets.len(), offsets.places.len()), (MOST, MOST));
        };
        check(&[((1, 1), 10)], (1, 1), (1, 1));
        check(&[((1, 1), 10)], (2, 1), (1, 1));
        check(&[((1, 1), 9), ((2, 1), 1)], (1, 1), (1, 1));
        check(&[((1, 1), 9), ((2, 1), 1)], (2, 1), (1, 1));
        check(&[((1, 1), 5), ((2, 1), 5)], (1, 1), (1, 1));
        check(&[((1, 1), 5), ((2, 1), 5)], (2, 1), (2, 1));
        check(&[((1, 1), 4), ((2, 1), 6)], (1, 1), (2, 1));
        // Of one user, the connection with most.
        check(&[((1, 1), 1), ((1, 2), 9)], (1, 2), (1, 2));
        check(&[((1, 1), 1), ((1, 2), 9)], (1, 1), (1, 2));
        check(&[((1, 1), 1), ((1, 2), 9)], (1, 3), (1, 2));
        // A user with many connections has as many names as they have.
        check(&[((1, 1), 2), ((1, 2), 2), ((1, 3), 2), ((1, 4), 2), ((2, 1), 2)], (2, 1), (1, 1));
        check(&[((1, 1), 2), ((1, 2), 2), ((1, 3), 2), ((1, 4), 2), ((2, 1), 2)], (1, 2), (1, 2));
    }

    #[test]
    fn the_name_stored_longest_ago_goes() {
        let mut offsets = Offsets::default();
        (0..MOST).for_each(|number| assert_eq!(store(&mut offsets, &number.to_string(), owner(1, 1)), None));
        assert_eq!(store(&mut offsets, "0", owner(1, 1)), None);
        assert_eq!(store(&mut offsets, "a", owner(1, 1)).as_deref(), Some("1"));
        assert_eq!(store(&mut offsets, "b", owner(1, 1)).as_deref(), Some("2"));
        // A name belongs to the user that stored it last.
        assert_eq!(store(&mut offsets, "0", owner(2, 1)), None);
        for name in ["c", "d", "e", "f", "g", "h", "i", "j", "k", "l"] {
            assert_ne!(store(&mut offsets, name, owner(1, 1)).as_deref(), Some("0"));
        }
        assert_eq!(offsets.get(b"0"), Some(7));
    }

    #[test]
    fn nobody_who_stores_many_drives_out_who_stores_one() {
        let mut offsets = Offsets::default();
        assert_eq!(store(&mut offsets, "quiet", owner(1, 1)), None);
        assert_eq!(store(&mut offsets, "other", owner(2, 1)), None);
        for number in 0..1000 {
            store(&mut offsets, &format!("{number}"), owner(1, 2));
        }
        assert_eq!([&b"quiet"[..], b"other", b"999"].map(|name| offsets.get(name)), [Some(7); 3]);
    }

    /// Short jobs that connect anew for each name, and two consumers that go on: the names of jobs that are over make room.
    #[test]
    fn names_in_use_stay_where_each_has_a_connection_of_its_own() {
        let mut offsets = Offsets::default();
        for job in 0..MOST as u32 {
            assert_eq!(store(&mut offsets, &format!("job {job}"), owner(1, job)), None);
        }
        for round in 0..1000 {
            for (name, connection) in [("a", 5000), ("b", 6000)] {
                assert_ne!(store(&mut offsets, name, owner(1, connection)).as_deref(), Some("a"), "{round}");
                assert_eq!(offsets.get(name.as_bytes()), Some(7));
            }
            let gone = store(&mut offsets, &format!("new {round}"), owner(1, 100 + round));
            assert!(gone.as_deref().is_none_or(|gone| gone != "a" && gone != "b"), "{gone:?} in {round}");
        }
        assert_eq!(offsets.len(), MOST);
    }

    /// Jobs that are over have two names each: a job of now keeps both of its own, until the others have one each.
    #[test]
    fn a_connection_with_no_more_names_than_others_keeps_them() {
        let mut offsets = Offsets::default();
        let kept = |offsets: &Offsets, job: u32| {
            ["a", "b"].map(|name| offsets.get(format!("{job}.{name}").as_bytes()))
        };
        let last = MOST as u32 - 1;
        for job in 0..=last {
            for name in ["a", "b"] {
                store(&mut offsets, &format!("{job}.{name}"), owner(1, job));
            }
            let expected = if job < last { [Some(7); 2] } else { [None, Some(7)] };
            assert_eq!(kept(&offsets, job), expected, "{job}");
        }
        assert_eq!(offsets.len(), MOST);
    }

    /// Another user's names stay, however many connections store.
    #[test]
    fn a_user_who_connects_anew_for_each_name_drives_out_names_of_its_own() {
        let mut offsets = Offsets::default();
        let quiet = [("a", 1), ("b", 1), ("c", 2), ("d", 3)];
        for (name, connection) in quiet {
            assert_eq!(store(&mut offsets, name, owner(2, connection)), None);
        }
        for number in 0..1000 {
            store(&mut offsets, &number.to_string(), owner(1, number));
        }
        assert!(quiet.iter().all(|(name, _)| offsets.get(name.as_bytes()) == Some(7)));
    }

    #[test]
    fn records_without_an_owner_keep_their_rule() {
        let mut offsets = Offsets::default();
        (0..MOST).for_each(|number| assert_eq!(store(&mut offsets, &number.to_string(), None), None));
        assert_eq!(store(&mut offsets, "a", None).as_deref(), Some("no room"));
        assert_eq!(store(&mut offsets, "3", None), None);
        assert_eq!(offsets.store(b"a", 20, None, (8, MOST)), Storing::Stored);
        assert_eq!((offsets.len(), offsets.get(b"a")), (1, Some(20)));
    }

    /// Processor time of this thread that 5,000 new names take where so many are there, at least.
    fn cost(most: usize) -> Duration {
        let now =
            || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("it never runs backwards");
        let owner = owner(1, 1);
        let mut offsets = Offsets::default();
        let mut store = |name: usize| _ = offsets.store(name.to_string().as_bytes(), 7, owner, (0, most));
        (0..most).for_each(&mut store);
        let once = |round: usize| {
            let begin = now();
            (0..5_000).for_each(|name| store((round + 1) * 100_000 + name));
            now() - begin
        };
        (0..3).map(once).min().unwrap_or_default()
    }

    /// A name more than there is room for looks at no others.
    #[test]
    fn a_name_more_costs_about_the_same_among_many() {
        let (few, many) = (cost(100), cost(65_536));
        assert!(many <= 8 * few.max(Duration::from_millis(5)), "{few:?} among few, {many:?} among many");
    }

    #[test]
    fn counts_are_those_of_places() {
        let mut offsets = Offsets::default();
        for step in 0..2000_u32 {
            let name = format!("{}", step.wrapping_mul(2_654_435_761) >> 27);
            let owner = owner(step % 3, step % 7).filter(|_| step % 11 > 0);
            offsets.store(name.as_bytes(), u64::from(step), owner, (0, MOST));
            if step % 97 == 0 {
                offsets.forget_before(u64::from(step) - u64::from(step.min(5)));
            }
            let count =
                |user: u32| offsets.places.keys().filter(|(owner, _)| owner.user == user).count() as u32;
            for user in 0..3 {
                assert_eq!(offsets.users.counts.get(&user).copied().unwrap_or(0), count(user));
                let connections = offsets.connections.get(&user);
                let sum = connections
                    .map_or(0, |connections| connections.shares.values().map(|share| share.count).sum());
                assert_eq!(sum, count(user));
                for (connection, share) in connections.iter().flat_map(|connections| &connections.shares) {
                    let owner = Owner { user, connection: *connection };
                    assert_eq!(Some(share.oldest.0), offsets.oldest(owner));
                }
            }
            assert_eq!(offsets.places.len(), offsets.named.len());
            let named = offsets.named.iter().map(|(name, stored)| (stored.offset, name.clone()));
            assert_eq!(offsets.by_offset, named.collect());
            assert!(offsets.named.len() <= MOST);
        }
    }
}
