//! Users of a shard's connections: how often each was held back, and by what, and the work that was done for it. Counts
//! since the node started, for lists and metrics, and now and then a line for the log.

use crate::context::Note;
use base::Now;
use base::time::NS_PER_MS;
use broker::{HeldBack, HeldCounts, TenantRow};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Users that are told apart; further ones are counted together.
pub(crate) const USERS_MAX: usize = 4096;

/// Nanoseconds between two lines about a user.
const GAP_NS: u64 = 60_000 * NS_PER_MS;

/// Reasons that have lines of their own.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// When the next line may come.
    due_ns: u64,
    /// The count of all such reasons at the last line.
    count: u64,
}

#[derive(Clone, Debug, Default)]
struct Tenant {
    units: u64,
    times: HeldCounts,
    told: Told,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Tenants {
    by_user: BTreeMap<Arc<str>, Tenant>,
    /// The user that those beyond [`USERS_MAX`] count as.
    others: Tenant,
    /// The counts of all users together.
    times: HeldCounts,
}

impl Tenants {
    fn of(&mut self, user: &Arc<str>) -> &mut Tenant {
        if !user.is_empty() && (self.by_user.len() < USERS_MAX || self.by_user.contains_key(user)) {
            return self.by_user.entry(user.clone()).or_default();
        }
        &mut self.others
    }

    /// Work was done for a user.
    pub(crate) fn spent(&mut self, user: &Arc<str>, units: u64) {
        self.of(user).units += units;
    }

    /// A connection of a user is held back from now on. At most once a minute the line for the log, where the bound is
    /// the user's own.
    pub(crate) fn held(&mut self, now: Now, user: &Arc<str>, why: HeldBack) -> Option<Note> {
        self.times[why as usize] += 1;
        let tenant = self.of(user);
        tenant.times[why as usize] += 1;
        let bound = why.own_bound()?;
        if now.mono_ns < tenant.told.due_ns {
            return None;
        }
        let own = HeldBack::ALL.into_iter().filter(|why| why.own_bound().is_some());
        let count = own.map(|why| tenant.times[why as usize]).sum();
        let more = count - tenant.told.count;
        tenant.told = Told { due_ns: now.mono_ns + GAP_NS, count };
        let whose = match user.is_empty() {
            true => "clients before their login were".to_owned(),
            false => format!("user '{user}' was"),
        };
        Some(Note::info(format!("{whose} held back: {bound}; {more} times since this was last told")))
    }

    /// How often connections were held back, of all users together.
    pub(crate) fn times(&self) -> &HeldCounts {
        &self.times
    }

    /// Adds the counts of every user to `rows`.
    pub(crate) fn tell(&self, rows: &mut BTreeMap<Arc<str>, TenantRow>) {
        let others = (self.others.units > 0 || self.others.times.iter().any(|count| *count > 0))
            .then(|| (Arc::from(""), &self.others));
        for (user, own) in self.by_user.iter().map(|(user, own)| (user.clone(), own)).chain(others) {
            let TenantRow { times, units, .. } = row_of(rows, &user);
            *units += own.units;
            times.iter_mut().zip(own.times).for_each(|(sum, count)| *sum += count);
        }
    }
}

/// The row of a user.
pub(crate) fn row_of<'a>(rows: &'a mut BTreeMap<Arc<str>, TenantRow>, user: &Arc<str>) -> &'a mut TenantRow {
    rows.entry(user.clone()).or_insert_with(|| TenantRow { user: user.clone(), ..TenantRow::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        Now { mono_ns: seconds * 1000 * NS_PER_MS, wall_ms: 0 }
    }

    #[test]
    fn a_user_is_told_of_once_a_minute() {
        let mut tenants = Tenants::default();
        let mut check = |seconds: u64, user: &str, why: HeldBack, expected: Option<&str>| {
            let note = tenants.held(at(seconds), &user.into(), why).map(|note| note.text);
            match (&note, expected) {
                (None, None) => {}
                (Some(text), Some(part)) => assert!(text.contains(part), "{text}: {part}"),
                _ => panic!("{seconds} {user}: {note:?}"),
            }
        };
        // The node's own states have lines of their own.
        check(1, "a", HeldBack::Memory, None);
        check(1, "a", HeldBack::Flow, None);
        check(1, "a", HeldBack::Share, Some("user 'a' was held back: its share of the work"));
        check(2, "a", HeldBack::Share, None);
        check(2, "b", HeldBack::Output, Some("user 'b' was held back: clients do not read"));
        check(60, "a", HeldBack::Output, None);
        check(61, "a", HeldBack::Output, Some("; 3 times since"));
        check(70, "", HeldBack::Output, Some("clients before their login were held back"));
        let mut rows = BTreeMap::new();
        tenants.spent(&"a".into(), 70);
        tenants.tell(&mut rows);
        let found: Vec<_> = rows.values().map(|row| (&*row.user, row.units, row.times)).collect();
        assert_eq!(found, [("", 0, [0, 0, 0, 0, 1]), ("a", 70, [1, 0, 1, 2, 2]), ("b", 0, [0, 0, 0, 0, 1])]);
    }

    #[test]
    fn very_many_users_are_counted_together() {
        let mut tenants = Tenants::default();
        for number in 0..USERS_MAX + 3 {
            tenants.spent(&number.to_string().into(), 1);
        }
        tenants.spent(&"7".into(), 1);
        let mut rows = BTreeMap::new();
        tenants.tell(&mut rows);
        assert_eq!((rows.len(), rows[""].units, rows["7"].units), (USERS_MAX + 1, 3, 2));
    }
}
