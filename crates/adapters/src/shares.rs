//! The shares that users have of a shard's turns: a user who had more than his share waits while others have theirs.
//!
//! Deficit round-robin by user: every turn each user may spend so many [units](base::Work) as all connections of his
//! share, and all users together what a turn has. A user owes what he spent until later turns have paid for it, and his
//! connections wait while he owes a share or more, in the order in which they came. A user alone is paid off as fast as
//! turns follow each other. Only those who owe something, or wait, are known here, so that nothing is looked up while
//! nobody does dear work.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Units that each user may spend in a turn, where his share is no less, though others have spent all that it had: so
/// dear work keeps nobody's cheap work for a later turn.
pub(crate) const FIRST_UNITS: u64 = 2_000;

/// Connections of one user that go on in a turn, of those that waited: a user with very many is not asked about each of
/// them in every turn.
const GO_ON_MAX: usize = 64;

/// A user who owes something, or whose connections wait.
#[derive(Debug, Default)]
struct Account {
    /// Units that are not paid for.
    owed: u64,
    /// His connections that wait, by their slots, longest first.
    waiting: VecDeque<u32>,
}

/// The units of a turn that is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnWork {
    /// Units that were spent for connections.
    pub units: u64,
    /// Users for whom they were.
    pub users: usize,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    accounts: BTreeMap<Arc<str>, Account>,
    /// Units that were spent since [`Shares::begin_turn`].
    spent: u64,
    /// Units that were ever spent.
    total: u64,
    last: TurnWork,
}

impl Shares {
    /// Nobody owes anything, or waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Units that a user may spend now, of `units` that a turn has.
    #[cold]
    pub(crate) fn allowance(&self, user: &str, units: u32) -> u32 {
        let (owed, others) = match self.accounts.get(user) {
            Some(account) => (account.owed, self.accounts.len() - 1),
            None => (0, self.accounts.len()),
        };
        let left = u64::from(units).saturating_sub(self.spent).max(FIRST_UNITS.saturating_sub(owed));
        let own = share(units, others + 1).saturating_sub(owed).min(left);
        u32::try_from(own).unwrap_or(u32::MAX)
    }

    /// A user spent so many units.
    #[cold]
    pub(crate) fn charge(&mut self, user: &Arc<str>, units: u64) {
        self.spent += units;
        self.total += units;
        match self.accounts.get_mut(user) {
            Some(account) => account.owed += units,
            None => _ = self.accounts.insert(user.clone(), Account { owed: units, ..Account::default() }),
        }
    }

    /// A connection of a user waits: [`Shares::begin_turn`] says when it goes on.
    #[cold]
    pub(crate) fn wait(&mut self, user: &Arc<str>, slot: u32) {
        self.accounts.entry(user.clone()).or_default().waiting.push_back(slot);
    }

    /// A connection of a user that waits is gone.
    #[cold]
    pub(crate) fn forget(&mut self, user: &str, slot: u32) {
        if let Some(account) = self.accounts.get_mut(user) {
            account.waiting.retain(|waiting| *waiting != slot);
        }
    }

    /// A connection waits.
    pub(crate) fn has_waiting(&self) -> bool {
        self.accounts.values().any(|account| !account.waiting.is_empty())
    }

    /// A turn begins: all have their shares of `units` anew, and connections `go_on`.
    #[cold]
    pub(crate) fn begin_turn(&mut self, units: u32, go_on: &mut Vec<u32>) {
        let users = self.accounts.len();
        let share = share(units, users);
        self.accounts.retain(|_, account| {
            account.owed = account.owed.saturating_sub(share);
            let was_waiting = !account.waiting.is_empty();
            if account.owed < share {
                let count = account.waiting.len().min(GO_ON_MAX);
                go_on.extend(account.waiting.drain(..count));
            }
            // A user whose connections go on has a share of the turn that begins.
            account.owed > 0 || was_waiting
        });
        self.last = TurnWork { units: std::mem::take(&mut self.spent), users };
    }

    /// The units of the last turn in which there were some.
    pub(crate) fn last(&self) -> TurnWork {
        self.last
    }

    /// Users others than this one want their shares of the turn, too.
    pub(crate) fn has_others(&self, user: &str) -> bool {
        self.accounts.len() > usize::from(self.accounts.contains_key(user))
    }

    /// The users that owe something, and how much.
    pub(crate) fn owed(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        self.accounts.iter().map(|(user, account)| (user, account.owed))
    }

    /// Units that were ever spent.
    #[inline]
    pub(crate) fn total(&self) -> u64 {
        self.total
    }
}

fn share(units: u32, users: usize) -> u64 {
    (u64::from(units) / users.max(1) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units of a turn.
    const TURN: u32 = 100_000;

    fn user(name: &str) -> Arc<str> {
        name.into()
    }

    /// A turn begins: the connections that go on.
    fn begin(shares: &mut Shares) -> Vec<u32> {
        let mut go_on = Vec::new();
        shares.begin_turn(TURN, &mut go_on);
        go_on
    }

    #[test]
    fn a_user_who_spent_more_than_his_share_waits() {
        let mut shares = Shares::default();
        let (one, other) = (user("one"), user("other"));
        assert!(shares.is_empty());
        assert_eq!(shares.allowance("one", TURN), TURN);
        shares.charge(&one, 250_000);
        // The turn has nothing left but for cheap work.
        assert_eq!([shares.allowance("one", TURN), shares.allowance("other", TURN)], [0, 2_000]);
        shares.charge(&other, 500);
        assert_eq!([shares.allowance("one", TURN), shares.allowance("other", TURN)], [0, 1_500]);
        shares.wait(&one, 7);
        assert!(shares.has_waiting());
        assert_eq!(begin(&mut shares), [0; 0]);
        assert_eq!(shares.last(), TurnWork { units: 250_500, users: 2 });
        // The other is paid off. Half of a turn is his as soon as he comes.
        assert_eq!([shares.allowance("one", TURN), shares.allowance("other", TURN)], [0, 50_000]);
        assert_eq!(begin(&mut shares), [0; 0]);
        assert_eq!(begin(&mut shares), [7]);
        assert_eq!(shares.allowance("one", TURN), TURN);
        assert!(!shares.is_empty() && !shares.has_waiting());
        assert_eq!(begin(&mut shares), [0; 0]);
        assert!(shares.is_empty());
        assert_eq!(shares.total(), 250_500);
    }

    #[test]
    fn users_who_want_all_have_the_same() {
        let mut shares = Shares::default();
        let mut spent = [0; 3];
        for _ in 0..3000 {
            for at in 0..3 {
                let name = user(&at.to_string());
                let allowed = shares.allowance(&name, TURN);
                if allowed > 0 {
                    // The last command takes more than was left.
                    let units = u64::from(allowed) + 100 * at;
                    shares.charge(&name, units);
                    spent[at as usize] += units;
                }
                shares.wait(&name, at as u32);
            }
            begin(&mut shares);
            assert!(shares.last().units <= u64::from(TURN) + 3 * (FIRST_UNITS + 200), "{:?}", shares.last());
            (0..3).for_each(|slot| shares.forget(&slot.to_string(), slot));
        }
        for spent in spent {
            assert!((95_000_000..105_000_000).contains(&spent), "{spent}");
        }
    }

    #[test]
    fn connections_of_a_user_go_on_in_order_and_not_all_at_once() {
        let mut shares = Shares::default();
        (0..200).for_each(|slot| shares.wait(&user("one"), slot));
        shares.wait(&user("other"), 200);
        shares.forget("one", 1);
        let first = begin(&mut shares);
        assert_eq!(first, [0].into_iter().chain(2..65).chain([200]).collect::<Vec<_>>());
        assert_eq!(begin(&mut shares), (65..129).collect::<Vec<_>>());
        assert_eq!(begin(&mut shares).len() + begin(&mut shares).len(), 71);
        assert!(!shares.has_waiting());
    }

    #[test]
    fn a_share_is_never_nothing() {
        let mut shares = Shares::default();
        (0..5).for_each(|at| shares.charge(&user(&at.to_string()), 1));
        assert_eq!(shares.allowance("new", 2), 1);
        shares.begin_turn(2, &mut Vec::new());
        assert!(shares.is_empty());
    }
}
