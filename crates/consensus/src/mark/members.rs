//! The members of a log as a list of seats, which is how they are written: a replica each, and what it is there.
//!
//! Invariant of what is written and read: replicas rise, at least one of them votes, no set of voters is empty, and a
//! learner votes in none.

use crate::entry::{Members, ReplicaId};
use std::collections::BTreeSet;
use std::fmt;

/// Replicas of one log: all nodes of a cluster follow the catalog's.
pub const REPLICAS_MAX: usize = 255;

/// It is in the first set of voters.
const FIRST: u8 = 1;
/// It is in the second set of voters.
const SECOND: u8 = 2;
/// It follows and does not vote.
const LEARNER: u8 = 4;

/// A replica among the members of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub replica: ReplicaId,
    pub roles: u8,
}

/// The fault of members that no log has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembersFault {
    /// They are more than [`REPLICAS_MAX`].
    TooMany(usize),
    /// Nobody votes, or a set of voters is empty.
    NoVoter,
    /// There are more than two sets of voters.
    Sets(usize),
    /// No combination of roles has this number.
    Roles(u8),
    /// A learner votes as well.
    VotingLearner(ReplicaId),
    /// A replica is not behind the one before.
    Order(ReplicaId),
}

impl fmt::Display for MembersFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MembersFault::TooMany(count) => write!(f, "{count} members are too many"),
            MembersFault::NoVoter => f.write_str("a set of voters is empty"),
            MembersFault::Sets(count) => write!(f, "{count} sets of voters"),
            MembersFault::Roles(roles) => write!(f, "unknown roles {roles:#x}"),
            MembersFault::VotingLearner(replica) => write!(f, "learner {replica} votes"),
            MembersFault::Order(replica) => write!(f, "member {replica} is out of order"),
        }
    }
}

/// The roles that a replica can have together.
pub(crate) fn check_roles(roles: u8) -> Result<u8, MembersFault> {
    match roles {
        FIRST | SECOND | LEARNER => Ok(roles),
        roles if roles == FIRST | SECOND => Ok(roles),
        _ => Err(MembersFault::Roles(roles)),
    }
}

/// The seats of `members`, in order of the replicas.
pub(crate) fn seats_of(members: &Members) -> Result<Vec<Seat>, MembersFault> {
    let none = BTreeSet::new();
    let (first, second) = match &members.voters[..] {
        [first] => (first, &none),
        [first, second] if !second.is_empty() => (first, second),
        [] | [_, _] => return Err(MembersFault::NoVoter),
        sets => return Err(MembersFault::Sets(sets.len())),
    };
    if first.is_empty() {
        return Err(MembersFault::NoVoter);
    }
    let role = |set: &BTreeSet<ReplicaId>, replica, role| if set.contains(&replica) { role } else { 0 };
    let seat = |replica| {
        let roles = role(first, replica, FIRST) | role(second, replica, SECOND);
        match roles | role(&members.learners, replica, LEARNER) {
            all if all > LEARNER => Err(MembersFault::VotingLearner(replica)),
            roles => Ok(Seat { replica, roles }),
        }
    };
    let all = members.all();
    match all.len() {
        count if count > REPLICAS_MAX => Err(MembersFault::TooMany(count)),
        _ => all.into_iter().map(seat).collect(),
    }
}

/// The members that have these seats.
pub(crate) fn members_of(seats: &[Seat]) -> Result<Members, MembersFault> {
    if seats.len() > REPLICAS_MAX {
        return Err(MembersFault::TooMany(seats.len()));
    }
    if let Some(pair) = seats.windows(2).find(|pair| pair[0].replica >= pair[1].replica) {
        return Err(MembersFault::Order(pair[1].replica));
    }
    seats.iter().try_for_each(|seat| check_roles(seat.roles).map(drop))?;
    let having = |role| -> BTreeSet<ReplicaId> {
        seats.iter().filter(|seat| seat.roles & role != 0).map(|seat| seat.replica).collect()
    };
    let (first, second) = (having(FIRST), having(SECOND));
    if first.is_empty() {
        return Err(MembersFault::NoVoter);
    }
    let voters = [first, second].into_iter().filter(|set| !set.is_empty()).collect();
    Ok(Members { voters, learners: having(LEARNER) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[u64]) -> BTreeSet<ReplicaId> {
        ids.iter().map(|id| ReplicaId(*id)).collect()
    }

    #[test]
    fn seats_are_those_of_the_members() {
        let check = |voters: &[&[u64]], learners: &[u64], expected: Result<&[(u64, u8)], MembersFault>| {
            let voters = voters.iter().map(|set| ids(set)).collect();
            let members = Members { voters, learners: ids(learners) };
            let expected = expected.map(|seats| {
                let seat = |&(replica, roles)| Seat { replica: ReplicaId(replica), roles };
                seats.iter().map(seat).collect::<Vec<_>>()
            });
            assert_eq!(seats_of(&members), expected, "{members:?}");
            if let Ok(seats) = expected {
                assert_eq!(members_of(&seats), Ok(members));
            }
        };
        check(&[&[7]], &[], Ok(&[(7, 1)]));
        check(&[&[2, 3, 9]], &[1], Ok(&[(1, 4), (2, 1), (3, 1), (9, 1)]));
        check(&[&[2, 3], &[3, 4]], &[1], Ok(&[(1, 4), (2, 1), (3, 3), (4, 2)]));
        check(&[&[2], &[2]], &[], Ok(&[(2, 3)]));
        check(&[], &[], Err(MembersFault::NoVoter));
        check(&[], &[1], Err(MembersFault::NoVoter));
        check(&[&[]], &[1], Err(MembersFault::NoVoter));
        check(&[&[], &[1]], &[], Err(MembersFault::NoVoter));
        check(&[&[1], &[]], &[], Err(MembersFault::NoVoter));
        check(&[&[1], &[2], &[3]], &[], Err(MembersFault::Sets(3)));
        check(&[&[1], &[2]], &[2], Err(MembersFault::VotingLearner(ReplicaId(2))));
        let many: Vec<u64> = (0..256).collect();
        check(&[&many], &[], Err(MembersFault::TooMany(256)));
        let most: Vec<(u64, u8)> = (0..255).map(|id| (id, 1)).collect();
        check(&[&many[..255]], &[], Ok(&most));
    }

    #[test]
    fn seats_that_no_members_have_are_refused() {
        let check = |seats: &[(u64, u8)], expected| {
            let seat = |&(replica, roles)| Seat { replica: ReplicaId(replica), roles };
            assert_eq!(members_of(&seats.iter().map(seat).collect::<Vec<_>>()), Err(expected), "{seats:?}");
        };
        check(&[], MembersFault::NoVoter);
        check(&[(1, 4)], MembersFault::NoVoter);
        check(&[(1, 2)], MembersFault::NoVoter);
        check(&[(1, 1), (1, 2)], MembersFault::Order(ReplicaId(1)));
        check(&[(2, 1), (1, 1)], MembersFault::Order(ReplicaId(1)));
        for roles in [0, 5, 6, 7, 8, 255] {
            check(&[(1, 1), (2, roles)], MembersFault::Roles(roles));
        }
        check(&(0..256).map(|id| (id, 1)).collect::<Vec<_>>(), MembersFault::TooMany(256));
    }
}
