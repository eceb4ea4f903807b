//! Stored offsets that must stay: a stream keeps so many names, shared by its users, and a user's share by its
//! connections.
//!
//! The judge counts no names the way the node does: a command may be lost, and the time of storing is not known. It
//! knows how many users and connections can have stored at most, and so how much each of them has to itself at least:
//!
//! - A user is asked to make room only where it has as many names as the room gives each of them, but for one.
//! - Of that user a connection is asked by another only where it has as many as that gives each of its connections.
//! - A connection that makes room loses the name it stored under longest ago.
//!
//! So the names that a connection stored last stay, as many as are surely its own; and all of a user that has few.

use crate::streams::names::Reference;
use std::collections::{BTreeMap, BTreeSet};

/// A connection that went to another shard is known by another number there, and went once.
const HOMES_MAX: usize = 2;

/// When something was stored under a name, in turns of all that was sent.
#[derive(Clone, Copy, Debug)]
struct Turns {
    /// It is surely no older than this for the node.
    first: u64,
    last: u64,
    /// When it was sent first since all was known to be on disk. Offsets of a name that are sent together are written
    /// once, where the first of them came.
    sent: Option<u64>,
}

/// The names under which a connection stored in a stream.
#[derive(Clone, Debug, Default)]
struct Names {
    user: usize,
    turns: BTreeMap<u64, Turns>,
}

/// The connections that stored offsets in a stream.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    clients: BTreeMap<u64, Names>,
    next_turn: u64,
}

impl Owners {
    /// A client of this user is about to store under a name.
    pub fn storing(&mut self, reference: Reference, user: usize) {
        let names = self.clients.entry(reference.client).or_default();
        names.user = user;
        let now = self.next_turn;
        let turns = names.turns.entry(reference.number);
        let turns = turns.or_insert(Turns { first: now, last: now, sent: None });
        turns.last = now;
        turns.sent.get_or_insert(now);
        self.next_turn += 1;
    }

    /// All that a client sent is stored.
    pub fn rests(&mut self, client: u64) {
        if let Some(names) = self.clients.get_mut(&client) {
            for turns in names.turns.values_mut() {
                turns.first = turns.sent.take().unwrap_or(turns.first);
            }
        }
    }

    /// Nothing that others do may take the name away, nor what its own connection stored, where a stream keeps `names_max`.
    pub fn is_safe(&self, reference: Reference, names_max: usize) -> bool {
        let Some(own) = self.clients.get(&reference.client) else { return false };
        let Some(Turns { first, .. }) = own.turns.get(&reference.number) else { return false };
        let users: BTreeSet<usize> = self.clients.values().map(|names| names.user).collect();
        let its = || self.clients.values().filter(|names| names.user == own.user);
        let (of_user, connections): (usize, usize) =
            (its().map(|names| names.turns.len()).sum(), its().count());
        // Where it stores one more itself, it is asked for one name earlier.
        let asked_from = names_max.div_ceil(users.len()) - 1;
        let share = asked_from.div_ceil(connections * HOMES_MAX);
        let newer = own.turns.values().filter(|turns| turns.last > *first).count();
        of_user < asked_from || newer + 1 < share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 40;

    fn name(client: u64, number: u64) -> Reference {
        Reference { client, number }
    }

    /// So many names of each client, which is of this user.
    fn with(clients: &[(usize, u64)]) -> Owners {
        let mut owners = Owners::default();
        for (client, (user, count)) in clients.iter().enumerate() {
            (0..*count).for_each(|number| owners.storing(name(client as u64, number), *user));
        }
        owners
    }

    #[test]
    fn what_is_surely_ones_own_is_safe() {
        let check = |clients: &[(usize, u64)], reference, is_safe| {
            assert_eq!(with(clients).is_safe(reference, ROOM), is_safe, "{clients:?} {reference:?}");
        };
        check(&[(0, 1), (0, 500)], name(0, 0), true);
        check(&[(0, 1), (1, 500)], name(0, 0), true);
        // A user with few names, however its connections share them.
        check(&[(0, 18), (1, 500)], name(0, 0), true);
        check(&[(0, 19), (1, 500)], name(0, 0), false);
        check(&[(0, 19), (1, 500)], name(0, 18), true);
        // Of many names the last.
        check(&[(0, 500)], name(0, 499), true);
        check(&[(0, 500)], name(0, 482), true);
        check(&[(0, 500)], name(0, 0), false);
        // Where there are many connections nothing is sure.
        let many: Vec<(usize, u64)> = (0..20).map(|_| (0, 2)).collect();
        check(&many, name(0, 1), false);
        check(&[(0, 1)], name(0, 5), false);
        check(&[(0, 1)], name(7, 0), false);
    }

    #[test]
    fn a_name_stored_again_counts_as_new_once_it_is_on_disk() {
        let mut owners = with(&[(0, 500)]);
        owners.storing(name(0, 1), 0);
        owners.rests(0);
        assert!(!owners.is_safe(name(0, 1), ROOM), "both may have been written as one");
        owners.storing(name(0, 0), 0);
        assert!(!owners.is_safe(name(0, 0), ROOM), "the second may be lost");
        owners.rests(0);
        assert!(owners.is_safe(name(0, 0), ROOM));
    }
}
