//! Users in a list: what they take of what all share, and what holds them back.

use std::sync::Arc;

/// The reason why the input of a connection is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBack {
    /// It publishes, and the alarm of memory is raised.
    Memory,
    /// It publishes, and the alarm of free disk is raised, that of memory is not.
    Disk,
    /// It publishes, and more messages are on their way to the disk than may be.
    Flow,
    /// Its user has done as much work as its share, and others want theirs.
    Share,
    /// Its client does not read what it is sent.
    Output,
}

/// A number for each of [`HeldBack::ALL`].
pub type HeldCounts = [u64; HeldBack::ALL.len()];

impl HeldBack {
    /// All, in the order of their numbers.
    pub const ALL: [HeldBack; 5] =
        [HeldBack::Memory, HeldBack::Disk, HeldBack::Flow, HeldBack::Share, HeldBack::Output];

    /// As lists and metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            HeldBack::Memory => "memory_alarm",
            HeldBack::Disk => "disk_alarm",
            HeldBack::Flow => "flow",
            HeldBack::Share => "share_of_work",
            HeldBack::Output => "unread_output",
        }
    }

    /// The bound that holds it back, for the log: of those alone that are its user's own. The node tells of alarms by
    /// itself, and flow is how a fast publisher goes along.
    pub fn own_bound(self) -> Option<&'static str> {
        match self {
            HeldBack::Share => Some(
                "its share of the work of a shard is spent, and others want theirs. Its connections wait for their turns: \
                 fewer or cheaper commands help, such as shorter keys, and bindings with fewer wildcards",
            ),
            HeldBack::Output => Some(
                "clients do not read what they are sent, of a connection or of all of them as much as may be unread. Their \
                 commands wait until they have read half of it",
            ),
            HeldBack::Memory | HeldBack::Disk | HeldBack::Flow => None,
        }
    }
}

/// A user's part of what all share; each shard fills it for the connections that are at home there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantRow {
    /// The user; empty: of connections before a login, and of users beyond those that are told apart.
    pub user: Arc<str>,
    /// Open connections.
    pub connections: u64,
    /// Those that are held back now, by reason.
    pub held: HeldCounts,
    /// How often one was, since the node started.
    pub times: HeldCounts,
    /// Units of work done for them since then.
    pub units: u64,
    /// Units of that which later turns have to pay for.
    pub owed: u64,
}

impl TenantRow {
    /// Adds what another shard has of the same user.
    pub fn merge(&mut self, other: &TenantRow) {
        self.connections += other.connections;
        add(&mut self.held, &other.held);
        add(&mut self.times, &other.times);
        self.units += other.units;
        self.owed += other.owed;
    }
}

fn add(own: &mut HeldCounts, other: &HeldCounts) {
    own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_shards_are_added() {
        let row = |of: u64| TenantRow {
            user: "a".into(),
            connections: of,
            held: [of, 0, 0, 0, 1],
            times: [0, of, 2, 0, 0],
            units: 100 * of,
            owed: of,
        };
        let mut sum = row(1);
        sum.merge(&row(10));
        let expected = TenantRow {
            user: "a".into(),
            connections: 11,
            held: [11, 0, 0, 0, 2],
            times: [0, 11, 4, 0, 0],
            units: 1100,
            owed: 11,
        };
        assert_eq!(sum, expected);
    }

    #[test]
    fn reasons_have_their_numbers() {
        for (number, reason) in HeldBack::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number, "{}", reason.name());
        }
    }
}
