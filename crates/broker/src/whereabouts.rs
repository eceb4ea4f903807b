//! Where the logs of a node are: which of its shards has each.
//!
//! Each shard has a table of its own and goes by it for everything that it puts into a log or asks of one. Not here: the
//! logs that a shard has ([`crate::logs`]), and how they are spread when a node starts ([`Placement`]).

use crate::request::Placement;
use base::id::{LogId, ShardId};

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Whereabouts {
    /// By the number of the log; those in memory, one for each shard, come behind those on disk.
    shards: Box<[ShardId]>,
    on_disk: u32,
}

impl Whereabouts {
    /// The table that a node starts with.
    pub(crate) fn at_start(placement: Placement) -> Whereabouts {
        let all = placement.logs + u32::from(placement.shards);
        let shards = (0..all).map(|log| placement.owner_at_start(LogId(log))).collect();
        Whereabouts { shards, on_disk: placement.logs }
    }

    /// The shard that has `log`.
    #[inline]
    pub(crate) fn of(&self, log: LogId) -> ShardId {
        self.shards[log.0 as usize]
    }

    /// The logs on disk that `shard` has, in the order of their numbers.
    pub(crate) fn logs_of(&self, shard: ShardId) -> impl Iterator<Item = LogId> {
        (0..self.on_disk).map(LogId).filter(move |log| self.of(*log) == shard)
    }

    /// The log in memory of `shard`.
    pub(crate) fn memory_log(&self, shard: ShardId) -> LogId {
        LogId(self.on_disk + u32::from(shard.0))
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
            assert_eq!(whereabouts.of(whereabouts.memory_log(shard)), shard);
        }
    }
}
