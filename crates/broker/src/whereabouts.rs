//! Where the logs of a node are: which of its shards has each.
//!
//! Each shard has a table of its own and goes by it for everything that it puts into a log or asks of one. While a log is
//! handed from one shard to another it is between two places, and what is for it waits. Not here: the logs that a shard
//! has ([`crate::logs`]), and how they are spread when a node starts ([`Placement`]).

use crate::request::Placement;
use base::id::{LogId, ShardId};

/// Where a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabout {
    At(ShardId),
    /// Between two shards: the one that has, or had, it, and the one that will.
    Between(ShardId, ShardId),
    /// With a shard, which takes in what waited for it: what is for it waits behind that.
    TakingIn(ShardId),
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Whereabouts {
    /// By the number of the log; those in memory, one for each shard, come behind those on disk.
    logs: Box<[Whereabout]>,
    on_disk: u32,
    version: u64,
    /// Logs that are not at a shard alone.
    moves: u32,
}

impl Whereabouts {
    /// The table that a node starts with.
    pub(crate) fn at_start(placement: Placement) -> Whereabouts {
        let all = placement.logs + u32::from(placement.shards);
        let logs = (0..all).map(|log| Whereabout::At(placement.owner_at_start(LogId(log)))).collect();
        Whereabouts { logs, on_disk: placement.logs, version: 0, moves: 0 }
    }

    /// Grows with every change of where a log is, and of where the shard has it.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// There is such a log.
    pub(crate) fn knows(&self, log: LogId) -> bool {
        (log.0 as usize) < self.logs.len()
    }

    /// The log is in memory alone.
    pub(crate) fn is_in_memory(&self, log: LogId) -> bool {
        log.0 >= self.on_disk
    }

    /// The shard that has `log`; none: it is between two, or what is for it waits.
    #[inline]
    pub(crate) fn home(&self, log: LogId) -> Option<ShardId> {
        match self.logs[log.0 as usize] {
            Whereabout::At(shard) => Some(shard),
            Whereabout::Between(..) | Whereabout::TakingIn(_) => None,
        }
    }

    /// The shard that owns the queues of `log`, also while what is for it waits; none: it is between two.
    pub(crate) fn owner(&self, log: LogId) -> Option<ShardId> {
        match self.logs[log.0 as usize] {
            Whereabout::At(shard) | Whereabout::TakingIn(shard) => Some(shard),
            Whereabout::Between(..) => None,
        }
    }

    /// Mail for `log` waits, where it comes to `shard`: the log comes here, or takes in what waited.
    pub(crate) fn is_behind(&self, log: LogId, shard: ShardId) -> bool {
        match self.logs[log.0 as usize] {
            Whereabout::At(_) => false,
            Whereabout::Between(_, to) => to == shard,
            Whereabout::TakingIn(of) => of == shard,
        }
    }

    /// The shard that has `log`, or where that is between two, the one that it leaves.
    pub(crate) fn last_home(&self, log: LogId) -> ShardId {
        match self.logs[log.0 as usize] {
            Whereabout::At(shard) | Whereabout::Between(shard, _) | Whereabout::TakingIn(shard) => shard,
        }
    }

    /// A log is between two shards, or takes in what waited for it.
    #[inline]
    pub(crate) fn has_moves(&self) -> bool {
        self.moves > 0
    }

    /// The logs on disk that `shard` has, or will have, in the order of their numbers.
    pub(crate) fn logs_of(&self, shard: ShardId) -> impl Iterator<Item = LogId> {
        let is_there = move |log: &LogId| match self.logs[log.0 as usize] {
            Whereabout::At(of) | Whereabout::Between(_, of) | Whereabout::TakingIn(of) => of == shard,
        };
        (0..self.on_disk).map(LogId).filter(is_there)
    }

    /// The log in memory of `shard`.
    pub(crate) fn memory_log(&self, shard: ShardId) -> LogId {
        LogId(self.on_disk + u32::from(shard.0))
    }

    // ---- changes

    /// The log leaves the shard that has it, which is returned, for shard `to`.
    pub(crate) fn leave(&mut self, log: LogId, to: ShardId) -> ShardId {
        let from = self.home(log).expect("one move of a log ends before the next begins");
        self.logs[log.0 as usize] = Whereabout::Between(from, to);
        self.moves += 1;
        self.changed();
        from
    }

    /// The log does not leave the shard that it was to leave.
    pub(crate) fn stay(&mut self, log: LogId) {
        let from = self.last_home(log);
        self.logs[log.0 as usize] = Whereabout::Between(from, from);
        self.changed();
    }

    /// The log is with shard `at` now, where it was to go, and takes in what waited for it.
    pub(crate) fn take_in(&mut self, log: LogId, at: ShardId) {
        assert!(self.is_behind(log, at), "a log comes where it goes");
        self.logs[log.0 as usize] = Whereabout::TakingIn(at);
        self.changed();
    }

    /// The log is at shard `at` now, where it was to go or which it did not leave, and nothing waits for it.
    pub(crate) fn settle(&mut self, log: LogId, at: ShardId) {
        assert!(self.is_behind(log, at) || self.last_home(log) == at, "a log comes where it goes, or stays");
        self.logs[log.0 as usize] = Whereabout::At(at);
        self.moves -= 1;
        self.changed();
    }

    /// Caches of where logs are do not hold any more.
    pub(crate) fn changed(&mut self) {
        self.version += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_spreads_logs_over_the_shards() {
        let whereabouts = Whereabouts::at_start(Placement { shards: 2, logs: 5 });
        let of = |shard| whereabouts.logs_of(ShardId(shard)).map(|log| log.0).collect::<Vec<_>>();
        assert_eq!((of(0), of(1)), (vec![0, 2, 4], vec![1, 3]));
        for shard in [ShardId(0), ShardId(1)] {
            assert_eq!(whereabouts.home(whereabouts.memory_log(shard)), Some(shard));
        }
    }

    #[test]
    fn a_log_that_moves_is_nowhere_until_it_is_there() {
        let mut whereabouts = Whereabouts::at_start(Placement { shards: 2, logs: 4 });
        let (log, to) = (LogId(2), ShardId(1));
        assert_eq!(whereabouts.leave(log, to), ShardId(0));
        assert_eq!((whereabouts.home(log), whereabouts.has_moves(), whereabouts.version()), (None, true, 1));
        assert_eq!(whereabouts.logs_of(to).count(), 3, "new queues are placed where it will be");
        assert!((whereabouts.is_behind(log, to), whereabouts.owner(log)) == (true, None));
        whereabouts.take_in(log, to);
        assert_eq!((whereabouts.home(log), whereabouts.has_moves(), whereabouts.version()), (None, true, 2));
        assert!((whereabouts.is_behind(log, to), whereabouts.owner(log)) == (true, Some(to)));
        whereabouts.settle(log, to);
        assert_eq!(
            (whereabouts.home(log), whereabouts.has_moves(), whereabouts.version()),
            (Some(to), false, 3)
        );
        assert!((whereabouts.is_behind(log, to), whereabouts.owner(log)) == (false, Some(to)));
    }

    #[test]
    fn a_log_that_does_not_leave_comes_where_it_is() {
        let mut whereabouts = Whereabouts::at_start(Placement { shards: 2, logs: 4 });
        let (log, here, to) = (LogId(2), ShardId(0), ShardId(1));
        whereabouts.leave(log, to);
        whereabouts.stay(log);
        assert!((whereabouts.is_behind(log, here), whereabouts.is_behind(log, to)) == (true, false));
        assert!((whereabouts.home(log), whereabouts.owner(log)) == (None, None));
        whereabouts.take_in(log, here);
        whereabouts.settle(log, here);
        assert!((whereabouts.home(log), whereabouts.has_moves()) == (Some(here), false));
        // A shard that hears of it only when it is settled.
        whereabouts.leave(log, to);
        whereabouts.settle(log, here);
        assert!((whereabouts.home(log), whereabouts.has_moves()) == (Some(here), false));
    }
}
