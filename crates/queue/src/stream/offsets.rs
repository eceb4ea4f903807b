//! The offsets that consumers stored in a stream, and which of them goes where there is no room for one more.
//!
//! The room is shared by users, and what a user has by his connections: where it is full, the name goes that was stored longest ago
//! of the connection with the most names, of the user with the most. So whoever stores many names drives out names of his own,
//! and no offset is kept for good because of what it says. Each step costs as many comparisons as the number of names has digits.
//! How far queues were fed ([`FEED`]) is beside the room, and stays until it is taken back.
//!
//! Invariants: each name that is no queue's has one place; `users` and `connections` count places.

use super::tracking::FEED;
use message::record::Owner;
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
    /// Names of each user, and of each connection.
    users: Counts<u32>,
    connections: BTreeMap<u32, Counts<u32>>,
    /// Above the turn of all there are, and of those there were: what is stored after a snapshot has the turn it would have had.
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

    /// Puts in what a snapshot has; false: there is another in its place.
    pub(super) fn insert(&mut self, reference: &[u8], stored: Stored) -> bool {
        let name: Arc<[u8]> = reference.into();
        self.named.insert(name.clone(), stored);
        if reference.starts_with(FEED) {
            return true;
        }
        let Stored { owner, turn, .. } = stored;
        self.next_turn = self.next_turn.max(turn.saturating_add(1));
        self.users.add(owner.user);
        self.connections.entry(owner.user).or_default().add(owner.connection);
        self.places.insert((owner, turn), name).is_none()
    }

    fn remove(&mut self, reference: &[u8]) -> Option<(Arc<[u8]>, u64)> {
        let (name, Stored { offset, owner, turn }) = self.named.remove_entry(reference)?;
        if self.places.remove(&(owner, turn)).is_some() {
            self.users.take(owner.user);
            if let Some(connections) = self.connections.get_mut(&owner.user) {
                connections.take(owner.connection);
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

    /// Offsets below `first_offset` go, but for what queues were fed.
    pub(super) fn forget_before(&mut self, first_offset: u64) {
        let is_behind = |(reference, stored): &(&Arc<[u8]>, &Stored)| {
            stored.offset < first_offset && !reference.starts_with(FEED)
        };
        let behind: Vec<_> =
            self.named.iter().filter(is_behind).map(|(reference, _)| reference.clone()).collect();
        for reference in behind {
            self.remove(&reference);
        }
    }
}

/// How often each is there, and which is most often.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts<T: Ord> {
    counts: BTreeMap<T, u32>,
    by_count: BTreeSet<(u32, T)>,
}

impl<T: Ord + Copy> Counts<T> {
    fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    fn add(&mut self, of: T) {
        let count = self.counts.entry(of).or_default();
        self.by_count.remove(&(*count, of));
        *count += 1;
        self.by_count.insert((*count, of));
    }

    fn take(&mut self, of: T) {
        let Some(count) = self.counts.get_mut(&of) else { return };
        self.by_count.remove(&(*count, of));
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&of);
        } else {
            self.by_count.insert((*count, of));
        }
    }

    fn most(&self) -> Option<T> {
        self.by_count.last().map(|(_, of)| *of)
    }

    /// Which is most often if there were one more of `of`; one that is there.
    fn most_with(&self, of: T) -> Option<T> {
        let (most, other) = self.by_count.last().copied()?;
        let own = self.counts.get(&of).copied().unwrap_or(0);
        Some(if own > 0 && own + 1 >= most { of } else { other })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Each row: who has how many names (user, connection), who stores one more, and whose oldest goes.
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
        check(&[((1, 1), 2), ((1, 2), 2), ((1, 3), 2), ((1, 4), 2), ((2, 1), 2)], (2, 1), (1, 4));
        check(&[((1, 1), 2), ((1, 2), 2), ((1, 3), 2), ((1, 4), 2), ((2, 1), 2)], (1, 2), (1, 2));
    }

    #[test]
    fn the_name_stored_longest_ago_goes() {
        let mut offsets = Offsets::default();
        (0..MOST).for_each(|number| assert_eq!(store(&mut offsets, &number.to_string(), owner(1, 1)), None));
        assert_eq!(store(&mut offsets, "0", owner(1, 1)), None);
        assert_eq!(store(&mut offsets, "a", owner(1, 1)).as_deref(), Some("1"));
        assert_eq!(store(&mut offsets, "b", owner(1, 1)).as_deref(), Some("2"));
        // A name is of who stored it last.
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

    #[test]
    fn records_without_an_owner_keep_their_rule() {
        let mut offsets = Offsets::default();
        (0..MOST).for_each(|number| assert_eq!(store(&mut offsets, &number.to_string(), None), None));
        assert_eq!(store(&mut offsets, "a", None).as_deref(), Some("no room"));
        assert_eq!(store(&mut offsets, "3", None), None);
        assert_eq!(offsets.store(b"a", 20, None, (8, MOST)), Storing::Stored);
        assert_eq!((offsets.len(), offsets.get(b"a")), (1, Some(20)));
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
                let sum: u32 =
                    offsets.connections.get(&user).map_or(0, |counts| counts.counts.values().sum());
                assert_eq!(sum, count(user));
            }
            assert_eq!(offsets.places.len(), offsets.named.len());
            assert!(offsets.named.len() <= MOST);
        }
    }
}
